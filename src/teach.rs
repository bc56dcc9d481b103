//! Teaches a field to drive in closed loop: the field drives the simulated robot, the board's starting table
//! says what it should have done in each moment that the field came to, and the read-out is fitted to all
//! such moments so far (dataset aggregation: Ross, Gordon, Bagnell 2011). Rounds go on until the field has
//! driven through a trial in rooms that it was not taught in, once for each grid.
//!
//! `lesson` is one drive with its notes, `trouble` what makes lessons harder than the trial, `fit` the least
//! squares, `trial` the verdict. The same board gives the same read-out with any number of threads.

pub mod fit;
pub mod lesson;
pub mod trial;
pub mod trouble;

use crate::field::Readout;
use crate::field::readout::{Origin, Trial, table_digest};
use crate::field::shape::READOUT_GRIDS;
use crate::learn::{imitate, parallel};
use crate::plan::{Board, Rung};
use crate::robot::BuildError;
use fit::Sums;
use lesson::{Lesson, drive};
use std::sync::atomic::{AtomicBool, Ordering};
use trial::{Rooms, is_better, trial};
use trouble::Trouble;

/// What teaching may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Syllabus {
    /// Rounds for a grid, at most.
    pub rounds: usize,
    /// Lessons of a round.
    pub lessons: usize,
    /// Length of a lesson, seconds of virtual time.
    pub lesson_s: u64,
    /// Rooms of the trial after each round.
    pub rooms: Rooms,
    /// Ridge, on standardised features.
    pub ridge: f64,
    /// Threads that share lessons and rooms.
    pub threads: usize,
}

impl Default for Syllabus {
    fn default() -> Syllabus {
        Syllabus { rounds: 6, lessons: 12, lesson_s: 40, rooms: TRIAL, ridge: 1e-6, threads: 1 }
    }
}

/// Seeds of the rooms that lessons are in, of those of the trials after each round, and of those of the
/// verdict: far from each other, and from the small numbers that people give to `run`.
const LESSON_ROOMS: u64 = 1 << 40;
const TRIAL: Rooms = Rooms { first: 1 << 41, count: 12, seconds: 60 };
const VERDICT_ROOMS: u64 = 1 << 42;
/// The verdict is passed in so many times the rooms of a trial: 36, so that one contact is not luck.
const VERDICT_TIMES: usize = 3;

/// In the first round another read-out drives than the one that is tried: what that one comes to is taught in
/// the second.
const LEAST_ROUNDS: usize = 2;

/// How far teaching is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The rung that is taught.
    pub rung: Rung,
    /// Rounds that are over.
    pub round: usize,
    /// Of at most so many.
    pub of: usize,
    /// What the last trial came to.
    pub trial: Trial,
}

/// What teaching came to.
#[derive(Clone, Debug)]
pub struct Taught {
    /// For both grids.
    pub readout: Readout,
    /// What the drives on the whole and on the half grid through the rooms of the verdict came to.
    pub trials: [Trial; READOUT_GRIDS],
    /// What the table by itself came to in the same rooms.
    pub standard: Trial,
}

/// Teaches `board`'s starting table to its field. The board must be a simulated one. `None`: interrupted.
pub fn teach(
    board: &Board,
    syllabus: Syllabus,
    interrupted: &AtomicBool,
    mut watch: impl FnMut(&Progress),
) -> Result<Option<Taught>, BuildError> {
    let board = &lesson::lean(board);
    // By the table alone: the same for both grids.
    let standard = trial(board, syllabus.rooms, syllabus.threads, None, Rung::BEST)?;
    let class = Class { board, syllabus, first: imitate(board), standard, interrupted };
    let mut grids = Vec::new();
    for rung in imitate::GRIDS {
        let Some(weights) = class.grid(rung, &mut watch)? else { return Ok(None) };
        grids.push((rung, weights));
    }
    let rooms = syllabus.rooms;
    let verdict = Rooms { first: VERDICT_ROOMS, count: VERDICT_TIMES * rooms.count, ..rooms };
    // Each round was chosen by its trial, so the verdict is passed in other rooms.
    let standard = class.trial(verdict, None, Rung::BEST)?;
    let weights: Vec<f32> = grids.iter().flat_map(|(_, weights)| weights.iter().copied()).collect();
    let fitted = Readout::new(board, weights.clone(), Origin::Table).map_err(BuildError::Readout)?;
    let mut trials = [Trial::default(); READOUT_GRIDS];
    for (trial, (rung, _)) in trials.iter_mut().zip(&grids) {
        *trial = class.trial(verdict, Some(&fitted), *rung)?;
    }
    if interrupted.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let origin = Origin::Taught { table: table_digest(board), trials, standard };
    let readout = Readout::new(board, weights, origin).map_err(BuildError::Readout)?;
    Ok(Some(Taught { readout, trials, standard }))
}

/// One board that is taught.
struct Class<'a> {
    board: &'a Board,
    syllabus: Syllabus,
    /// What drives in the first round.
    first: Readout,
    /// What the table by itself comes to in the rooms of a round's trial.
    standard: Trial,
    interrupted: &'a AtomicBool,
}

impl Class<'_> {
    /// The rounds for one grid: the weights of the best of them. `None`: interrupted.
    fn grid(&self, rung: Rung, watch: &mut impl FnMut(&Progress)) -> Result<Option<Vec<f32>>, BuildError> {
        let Syllabus { rounds, rooms, ridge, .. } = self.syllabus;
        let mut sums = Sums::of_the_table(self.board, rung);
        let mut readout = self.first.clone();
        let mut best: Option<(Trial, Vec<f32>)> = None;
        for round in 0..rounds {
            self.lessons(rung, round, &readout, &mut sums)?;
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let weights = sums.fit(ridge);
            readout =
                Readout::new(self.board, weights.clone(), Origin::Table).map_err(BuildError::Readout)?;
            let trial = self.trial(rooms, Some(&readout), rung)?;
            watch(&Progress { rung, round: round + 1, of: rounds, trial });
            if best.as_ref().is_none_or(|(before, _)| is_better(&trial, before)) {
                best = Some((trial, weights));
            }
            if round + 1 >= LEAST_ROUNDS && trial.contacts == 0 && trial.passes(&self.standard) {
                break;
            }
        }
        Ok(best.map(|(_, weights)| weights))
    }

    /// The lessons of a round, in which `readout` drives, into `sums`.
    fn lessons(
        &self,
        rung: Rung,
        round: usize,
        readout: &Readout,
        sums: &mut Sums,
    ) -> Result<(), BuildError> {
        let Syllabus { lessons, lesson_s, threads, .. } = self.syllabus;
        let lesson = |nth| {
            let room = LESSON_ROOMS + (round * lessons + nth) as u64;
            Lesson { room, rung, seconds: lesson_s, trouble: Trouble::of(nth) }
        };
        let lessons: Vec<Lesson> = (0..lessons).map(lesson).collect();
        let driven = parallel::map(threads, &lessons, |lesson| {
            drive(self.board, lesson, readout).map(|notes| sums.fresh(&notes))
        });
        for moments in driven {
            sums.add(&moments?); // in the order of the lessons: the same bits with any number of threads
        }
        Ok(())
    }

    fn trial(&self, rooms: Rooms, readout: Option<&Readout>, rung: Rung) -> Result<Trial, BuildError> {
        trial(self.board, rooms, self.syllabus.threads, readout, rung)
    }
}
