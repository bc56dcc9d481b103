//! Teaches a field to correct the board's starting table, in closed loop. The robot drives in the simulator,
//! sometimes with trouble on its sensors. A tutor that knows the true values reports by how much the table is
//! wrong in each situation that the robot reached, and the read-out is fitted to all situations so far
//! (dataset aggregation: Ross, Gordon, Bagnell 2011). For each grid, rounds continue until the robot drives
//! better than with the table alone in a trial through rooms that it was not taught in, or until the maximum
//! number of rounds is reached.
//!
//! The verdict, the final evaluation, uses drives of ten minutes, because falls are rare in shorter ones. It
//! also uses several field seeds, each taught separately and tried in rooms of its own, so that it depends
//! neither on one lucky seed nor on a few easy rooms.
//!
//! `lesson` is one drive with the tutor's notes, `driver` drives the robot in it, `trouble` disturbs sensors
//! and steering, `fit` does the least squares, `trial` reaches the verdict. The same board gives the same
//! read-out with any number of threads.

pub mod driver;
pub mod fit;
pub mod lesson;
pub mod trial;
pub mod trouble;

use crate::base::plan::{Board, QualityLevel};
use crate::field::Readout;
use crate::field::readout::{Origin, Trial, correction_digest};
use crate::field::shape::READOUT_GRIDS;
use crate::runtime::robot::BuildError;
use crate::workshop::learn::parallel;
use driver::Driver;
use fit::{Regressors, Sums};
use lesson::{Lesson, drive};
use std::sync::atomic::{AtomicBool, Ordering};
use trial::{Rooms, TrialDrive, figures, is_better, trial};
use trouble::Trouble;

/// The settings of teaching.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Syllabus {
    /// Maximum rounds per grid.
    pub rounds: usize,
    /// Lessons per round.
    pub lessons: usize,
    /// Length of a lesson in seconds of virtual time.
    pub lesson_s: u64,
    /// Rooms of the trial after each round.
    pub rooms: Rooms,
    /// Rooms of the verdict for the first field seed; each further one gets the rooms that follow.
    pub verdict: Rooms,
    /// Field seeds of the verdict: the board's own and the following ones.
    pub fields: usize,
    /// Ridge on standardised features.
    pub ridge: f64,
    /// Threads for lessons and rooms.
    pub threads: usize,
}

impl Default for Syllabus {
    fn default() -> Syllabus {
        Syllabus {
            rounds: 4,
            lessons: 12,
            lesson_s: 40,
            rooms: TRIAL,
            verdict: VERDICT,
            fields: 5,
            ridge: 1e-4,
            threads: 1,
        }
    }
}

/// First room seeds of the lessons, of the trials after each round, and of the verdict: far apart from each
/// other, and from the small numbers that users pass to `run`.
const LESSON_ROOMS: u64 = 1 << 40;
const TRIAL: Rooms = Rooms { first: 1 << 41, count: 12, seconds: 120 };
const VERDICT: Rooms = Rooms { first: 1 << 42, count: 21, seconds: 600 };
/// One level with the full grid and one with the half-resolution grid; other differences between levels do
/// not affect the content channels.
const GRIDS: [QualityLevel; READOUT_GRIDS] = [QualityLevel::BEST, QualityLevel::WORST];

/// Minimum number of rounds. In the first round the correction is zero; only the second one teaches in the
/// situations that the corrected table leads to.
const LEAST_ROUNDS: usize = 2;

/// The progress of teaching.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A round has ended.
    Round {
        /// Seed of the field that is being taught.
        field_seed: u64,
        /// The level that is being taught.
        quality: QualityLevel,
        /// Finished rounds.
        round: usize,
        /// Maximum number of rounds.
        of: usize,
        /// The result of the trial after this round.
        trial: Trial,
    },
    /// The drives of one driver through one field's rooms have ended: a part of the verdict.
    Verdict {
        /// Seed of the field.
        field_seed: u64,
        /// The level of the corrected drives; `None`: the table alone drove.
        quality: Option<QualityLevel>,
        /// The drives, in the order of the rooms.
        drives: &'a [TrialDrive],
    },
}

/// The result of teaching.
#[derive(Clone, Debug)]
pub struct Taught {
    /// The read-out for both grids.
    pub readout: Readout,
    /// The results on the full and the half-resolution grid, in the rooms used for the final evaluation.
    pub trials: [Trial; READOUT_GRIDS],
    /// The result of the table alone in the same rooms.
    pub standard: Trial,
}

/// Teaches the field of `board` to correct the board's starting table. The board must be simulated. `None`:
/// interrupted.
pub fn teach(
    board: &Board,
    syllabus: Syllabus,
    interrupted: &AtomicBool,
    mut watch: impl FnMut(Progress<'_>),
) -> Result<Option<Taught>, BuildError> {
    let mut lean = lesson::lean(board);
    let (mut trials, mut standard) = ([Trial::default(); READOUT_GRIDS], Trial::default());
    let mut own = None;
    for nth in 0..syllabus.fields.max(1) {
        lean.field.seed = board.field.seed.wrapping_add(nth as u64);
        let Some(class) = Class::new(&lean, syllabus, Regressors::content(), interrupted)? else {
            return Ok(None);
        };
        let mut weights = Vec::new();
        for quality in GRIDS {
            let Some(of_grid) = class.grid(quality, &mut watch)? else { return Ok(None) };
            weights.extend(of_grid);
        }
        let corrected = class.driver(weights.clone())?;
        // The trials after the rounds selected the weights, so the verdict uses other rooms.
        let rooms = syllabus.verdict.of_field(nth);
        for (sum, quality) in trials.iter_mut().zip(GRIDS) {
            let Some(its) = class.verdict(rooms, &corrected, Some(quality), &mut watch)? else {
                return Ok(None);
            };
            *sum = sum.and(&its);
        }
        let Some(its) = class.verdict(rooms, &Driver::Table, None, &mut watch)? else { return Ok(None) };
        standard = standard.and(&its);
        own.get_or_insert(weights);
    }
    let table = correction_digest(board).unwrap_or_default();
    let origin = Origin::Taught { table, trials, standard };
    let weights = own.unwrap_or_default();
    let readout = Readout::new(board, weights, origin).map_err(BuildError::Readout)?;
    Ok(Some(Taught { readout, trials, standard }))
}

/// For comparisons: teaches only the grid of `quality`, and returns the driver with the weights for
/// `regressors`. There is no verdict; rounds end as in [`teach`]. `None`: interrupted.
pub fn teach_grid(
    board: &Board,
    syllabus: Syllabus,
    regressors: Regressors,
    quality: QualityLevel,
    interrupted: &AtomicBool,
    mut watch: impl FnMut(Progress<'_>),
) -> Result<Option<Driver>, BuildError> {
    let board = &lesson::lean(board);
    let Some(class) = Class::new(board, syllabus, regressors, interrupted)? else { return Ok(None) };
    class.grid(quality, &mut watch)?.map(|weights| class.driver(weights)).transpose()
}

/// One board to be taught.
struct Class<'a> {
    board: &'a Board,
    syllabus: Syllabus,
    regressors: Regressors,
    /// The result of the table alone in the trial rooms: the same for both grids.
    standard: Trial,
    interrupted: &'a AtomicBool,
}

impl<'a> Class<'a> {
    /// `None`: interrupted.
    fn new(
        board: &'a Board,
        syllabus: Syllabus,
        regressors: Regressors,
        interrupted: &'a AtomicBool,
    ) -> Result<Option<Class<'a>>, BuildError> {
        let Syllabus { rooms, threads, .. } = syllabus;
        let alone = trial(board, rooms, threads, &Driver::Table, QualityLevel::BEST, interrupted)?;
        let standard = alone.map(|alone| figures(&alone));
        Ok(standard.map(|standard| Class { board, syllabus, regressors, standard, interrupted }))
    }

    /// The driver with `weights`.
    fn driver(&self, weights: Vec<f32>) -> Result<Driver, BuildError> {
        self.regressors.driver(self.board, weights).map_err(BuildError::Readout)
    }

    /// Teaches one grid and returns the weights of the best round. `None`: interrupted.
    fn grid(
        &self,
        quality: QualityLevel,
        watch: &mut impl FnMut(Progress<'_>),
    ) -> Result<Option<Vec<f32>>, BuildError> {
        let Syllabus { rounds, rooms, ridge, .. } = self.syllabus;
        let mut sums = Sums::none(self.board, quality, &self.regressors);
        // Not `Driver::Table`: it computes no field, so its lessons would note features that never change.
        let mut driver = self.regressors.untaught(self.board);
        let mut best: Option<(Trial, Vec<f32>)> = None;
        for round in 0..rounds {
            self.lessons(quality, round, &driver, &mut sums)?;
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let weights = sums.fit(ridge);
            driver = self.driver(weights.clone())?;
            let Some(drives) = self.trial(rooms, &driver, quality)? else { return Ok(None) };
            let trial = figures(&drives);
            let field_seed = self.board.field.seed;
            watch(Progress::Round { field_seed, quality, round: round + 1, of: rounds, trial });
            if best.as_ref().is_none_or(|(before, _)| is_better(&trial, before)) {
                best = Some((trial, weights));
            }
            if round + 1 >= LEAST_ROUNDS && trial.passes(&self.standard) {
                break;
            }
        }
        Ok(best.map(|(_, weights)| weights))
    }

    /// Adds the lessons of a round, in which `driver` drives, to `sums`.
    fn lessons(
        &self,
        quality: QualityLevel,
        round: usize,
        driver: &Driver,
        sums: &mut Sums<'_>,
    ) -> Result<(), BuildError> {
        let Syllabus { lessons, lesson_s, threads, .. } = self.syllabus;
        let lesson = |nth| {
            let room = LESSON_ROOMS + (round * lessons + nth) as u64;
            Lesson { room, quality, seconds: lesson_s, trouble: Trouble::of(nth) }
        };
        let lessons: Vec<Lesson> = (0..lessons).map(lesson).collect();
        let driven = parallel::map(threads, &lessons, |lesson| {
            drive(self.board, lesson, driver, &self.regressors, self.interrupted)
                .map(|notes| sums.fresh(&notes))
        });
        for moments in driven {
            sums.add(&moments?); // in the order of the lessons: the same bits with any number of threads
        }
        Ok(())
    }

    /// Drives through `rooms` for the verdict, at `quality` or, without one, with the table alone. `None`:
    /// interrupted.
    fn verdict(
        &self,
        rooms: Rooms,
        driver: &Driver,
        quality: Option<QualityLevel>,
        watch: &mut impl FnMut(Progress<'_>),
    ) -> Result<Option<Trial>, BuildError> {
        let level = quality.unwrap_or(QualityLevel::BEST);
        let Some(drives) = self.trial(rooms, driver, level)? else { return Ok(None) };
        watch(Progress::Verdict { field_seed: self.board.field.seed, quality, drives: &drives });
        Ok(Some(figures(&drives)))
    }

    fn trial(
        &self,
        rooms: Rooms,
        driver: &Driver,
        quality: QualityLevel,
    ) -> Result<Option<Vec<TrialDrive>>, BuildError> {
        trial(self.board, rooms, self.syllabus.threads, driver, quality, self.interrupted)
    }
}
