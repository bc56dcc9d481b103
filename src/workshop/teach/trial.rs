//! The verdict on a correction: how the robot drives with it in rooms in which it was not taught. Of every
//! three rooms, one has healthy sensors, one has noise, and one has outages.

use super::driver::Driver;
use super::lesson::run;
use super::trouble::{Trouble, Troubled};
use crate::base::plan::{Board, QualityLevel};
use crate::field::Inspect;
use crate::field::engine::Cycle;
use crate::field::readout::Trial;
use crate::runtime::robot::BuildError;
use crate::sim::Report;
use crate::workshop::learn::parallel;
use std::sync::atomic::{AtomicBool, Ordering};

/// One drive of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialDrive {
    /// Seed of the room.
    pub room: u64,
    /// What troubled the sensors.
    pub trouble: Trouble,
    /// How it drove, and where it ended.
    pub report: Report,
}

/// Sums up the drives.
pub fn figures(drives: &[TrialDrive]) -> Trial {
    let reports = || drives.iter().map(|drive| &drive.report);
    let mean = |of: &dyn Fn(&Report) -> f64| reports().map(of).sum::<f64>() / drives.len().max(1) as f64;
    Trial {
        rooms: drives.len() as u64,
        contacts: reports().map(|report| report.contacts.all()).sum(),
        falls: reports().map(|report| report.contacts.falls).sum(),
        cells: mean(&|report| report.coverage.cells as f64),
        backward_share: mean(&|report| report.coverage.backward_share),
        still_share: mean(&|report| report.coverage.standing_share),
    }
}

/// Whether `one` is better than `other`: fewer falls; with equal falls, fewer contacts; with equal contacts,
/// more cells of the rooms visited.
pub fn is_better(one: &Trial, other: &Trial) -> bool {
    (one.falls, one.contacts, -one.cells) < (other.falls, other.contacts, -other.cells)
}

/// Rooms to drive through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rooms {
    /// Seed of the first room; each further room has the next seed.
    pub first: u64,
    /// Number of rooms.
    pub count: usize,
    /// Length of each drive in seconds of virtual time.
    pub seconds: u64,
}

impl Rooms {
    /// As many rooms for field number `nth`: no two fields share one.
    pub fn of_field(self, nth: usize) -> Rooms {
        Rooms { first: self.first + (nth * self.count) as u64, ..self }
    }
}

/// Drives once through each of `rooms` with `driver`, on `threads` threads. The drives are in the order of
/// the rooms. `None`: interrupted.
pub fn trial(
    board: &Board,
    rooms: Rooms,
    threads: usize,
    driver: &Driver,
    quality: QualityLevel,
    interrupted: &AtomicBool,
) -> Result<Option<Vec<TrialDrive>>, BuildError> {
    let seeds: Vec<u64> = (rooms.first..).take(rooms.count).collect();
    let drives = parallel::map(threads, &seeds, |seed| {
        let (alone, plan) = (driver.clone(), board.field.clone());
        let trouble = Trouble::of_room((seed - rooms.first) as usize);
        let mut troubled = Troubled::new(trouble, *seed);
        let cycle: Cycle<dyn Inspect> = Box::new(move |engine, input| {
            alone.cycle(&plan, &troubled.see(input, plan.shape.sensors), engine)
        });
        let drive = run(board, *seed, rooms.seconds, quality, driver, cycle, interrupted)?;
        Ok(TrialDrive { room: *seed, trouble, report: drive.report })
    });
    let drives: Result<Vec<TrialDrive>, BuildError> = drives.into_iter().collect();
    Ok(Some(drives?).filter(|_| !interrupted.load(Ordering::Relaxed)))
}
