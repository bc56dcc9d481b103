//! Measures what each part of a brain contributes. A field that was taught to correct the starting table
//! drives through many rooms, then again with one part left out and the rest taught anew. It is compared with
//! the table alone, with the table corrected by a linear map without memory, and with random requests.
//! Every arm drives through the same rooms with each of several field seeds; the reported intervals account
//! for both. The effect of an arm is reported together with its cost: the time of its cycle and its memory.
//!
//! `arm` defines what is left out, `judge` drives, `interval` computes how certain a mean is. The command
//! line writes text and tables. The same study gives the same figures with any number of threads, except for
//! times.

pub mod arm;
pub mod interval;
pub mod judge;

use crate::base::plan::{Board, QualityLevel};
use crate::field::STAGES;
use crate::runtime::robot::BuildError;
use crate::workshop::learn::parallel;
use crate::workshop::teach::driver::{Driver, RandomRequests};
use crate::workshop::teach::trial::Rooms;
use crate::workshop::teach::trouble::Trouble;
use crate::workshop::teach::{self, Syllabus, teach_grid};
use arm::{Arm, Taught};
use interval::{Interval, mean};
use judge::{FIGURES, Run, Spent, judge};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The settings of a study.
#[derive(Clone, Debug)]
pub struct Study {
    /// The arms in addition to the whole field, which always comes first.
    pub arms: Vec<Arm>,
    /// Rooms that every arm drives through.
    pub rooms: Rooms,
    /// Number of field seeds: the board's own and the following ones.
    pub fields: usize,
    /// The quality level for learning and driving.
    pub quality: QualityLevel,
    /// The trouble that affects the driver's sensors in the judged drives.
    pub trouble: Trouble,
    /// How an arm is taught, and the number of threads for all work.
    pub syllabus: Syllabus,
}

/// Progress of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The index of the field seed (from 0), and the number of seeds.
    pub field: [usize; 2],
    /// The arm.
    pub arm: Arm,
    /// Finished rounds of teaching; `None`: the arm is driving.
    pub round: Option<usize>,
}

/// The result of a study.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The findings of all arms, the whole field first.
    pub arms: Vec<Finding>,
    /// Each stage's share of the whole field's cycle time, in the order of [`STAGES`], on this machine.
    pub shares: [f64; STAGES.len()],
}

/// The result of one arm.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The arm.
    pub arm: Arm,
    /// Its runs, by field seed and room.
    pub runs: Vec<Vec<Run>>,
    /// What it costs.
    pub cost: Cost,
}

/// What an arm costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Mean time of a cycle of its driver on this machine, microseconds; `None`: no cycle ran.
    pub cycle_us: Option<f64>,
    /// Memory that its driver takes, in bytes, computed from sizes.
    pub memory_bytes: u64,
}

impl Finding {
    /// Its cycle time as a share of that of `whole`, measured in the same study.
    pub fn cycle_of(&self, whole: &Finding) -> Option<f64> {
        let share = self.cost.cycle_us? / whole.cost.cycle_us?;
        share.is_finite().then_some(share)
    }

    /// Mean over all runs of each of [`FIGURES`].
    pub fn figures(&self) -> [Option<Interval>; FIGURES.len()] {
        std::array::from_fn(|figure| Interval::of(&self.by(|_, _, run| run.figures[figure])))
    }

    /// Mean over the rooms of each field seed, for each of [`FIGURES`].
    pub fn by_field(&self) -> Vec<[Option<f64>; FIGURES.len()]> {
        let of = |rooms: &Vec<Run>| {
            std::array::from_fn(|figure| mean(&[rooms.iter().map(|run| run.figures[figure]).collect()]))
        };
        self.runs.iter().map(of).collect()
    }

    /// Difference from `whole` in the same rooms with the same field seeds.
    pub fn against(&self, whole: &Finding) -> [Option<Interval>; FIGURES.len()] {
        std::array::from_fn(|figure| {
            let more = |field: usize, room: usize, run: &Run| {
                run.figures[figure] - whole.runs[field][room].figures[figure]
            };
            Interval::of(&self.by(more))
        })
    }

    /// Share of its runs that equal those of `whole` bit for bit.
    pub fn same_as(&self, whole: &Finding) -> f64 {
        let same =
            self.by(|field, room, run| f64::from(u8::from(run.digest == whole.runs[field][room].digest)));
        mean(&same).unwrap_or(0.0)
    }

    fn by(&self, value: impl Fn(usize, usize, &Run) -> f64) -> Vec<Vec<f64>> {
        let of_field = |(field, rooms): (usize, &Vec<Run>)| {
            rooms.iter().enumerate().map(|(room, run)| value(field, room, run)).collect()
        };
        self.runs.iter().enumerate().map(of_field).collect()
    }
}

/// Runs the study on `board`, which must be simulated and have a starting table. Arms whose part the board
/// lacks are left out. `None`: interrupted.
pub fn ablate(
    board: &Board,
    study: &Study,
    interrupted: &AtomicBool,
    mut watch: impl FnMut(Progress),
) -> Result<Option<Findings>, BuildError> {
    let others = Arm::ALL.into_iter().filter(|arm| *arm != Arm::Whole && study.arms.contains(arm));
    let arms = std::iter::once(Arm::Whole).chain(others);
    let begin = |arm: Arm| {
        let its_board = arm.board(board)?;
        let cost = Cost { cycle_us: None, memory_bytes: arm.memory_bytes(&its_board) };
        Some((Finding { arm, runs: Vec::new(), cost }, its_board))
    };
    let (mut findings, mut boards): (Vec<Finding>, Vec<Board>) = arms.filter_map(begin).unzip();
    let spent: Vec<Arc<Spent>> = findings.iter().map(|_| Arc::default()).collect();
    for nth in 0..study.fields {
        let mut whole = None;
        for ((finding, its_board), time) in findings.iter_mut().zip(&mut boards).zip(&spent) {
            its_board.field.seed = board.field.seed.wrapping_add(nth as u64);
            if nth > 0 && !finding.arm.has_field() {
                finding.runs.push(finding.runs[0].clone()); // another seed would give the same drive
                continue;
            }
            let mut at = Progress { field: [nth, study.fields], arm: finding.arm, round: Some(0) };
            let taught = driver(its_board, study, whole.as_ref(), interrupted, &mut at, &mut watch)?;
            let Some(driver) = taught else { return Ok(None) };
            watch(Progress { round: None, ..at });
            finding.runs.push(runs(its_board, study, &driver, time, interrupted)?);
            whole.get_or_insert(driver);
            if interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
    }
    for (finding, time) in findings.iter_mut().zip(&spent) {
        finding.cost.cycle_us = time.cycle_us();
    }
    Ok(Some(Findings { arms: findings, shares: spent[0].shares() })) // the whole field always comes first
}

/// The driver of the arm in `at`, whose board is `board`. `None`: interrupted.
fn driver(
    board: &Board,
    study: &Study,
    whole: Option<&Driver>,
    interrupted: &AtomicBool,
    at: &mut Progress,
    watch: &mut impl FnMut(Progress),
) -> Result<Option<Driver>, BuildError> {
    watch(*at);
    match (at.arm.taught(), whole) {
        (Taught::No, _) if at.arm == Arm::Random => Ok(Some(Driver::Random(RandomRequests::new(board)))),
        (Taught::No, _) => Ok(Some(Driver::Table)),
        (Taught::AsWhole, Some(whole)) => Ok(Some(whole.clone())),
        _ => {
            let regressors = at.arm.regressors(board);
            teach_grid(board, study.syllabus, regressors, study.quality, interrupted, |progress| {
                if let teach::Progress::Round { round, .. } = progress {
                    at.round = Some(round);
                    watch(*at);
                }
            })
        }
    }
}

/// Runs an arm's `board` through all rooms.
fn runs(
    board: &Board,
    study: &Study,
    driver: &Driver,
    spent: &Arc<Spent>,
    interrupted: &AtomicBool,
) -> Result<Vec<Run>, BuildError> {
    let Study { rooms, syllabus, .. } = study;
    let mut board = board.clone();
    board.field.threads = 1; // the rooms already share the cores
    let seeds: Vec<u64> = (rooms.first..).take(rooms.count).collect();
    let drives = parallel::map(syllabus.threads, &seeds, |room| {
        judge(&board, driver, *room, study, spent, interrupted)
    });
    drives.into_iter().collect()
}
