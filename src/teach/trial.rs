//! The verdict on a read-out: what the robot does with it in rooms that it was not taught in.

use super::lesson::{TableAlone, run};
use crate::field::Readout;
use crate::field::interposer::Interposer;
use crate::field::readout::Trial;
use crate::learn::parallel;
use crate::plan::{Board, Rung};
use crate::robot::BuildError;
use crate::sim::Report;

/// What these drives came to.
pub fn figures(reports: &[Report]) -> Trial {
    let mean =
        |of: &dyn Fn(&Report) -> f64| reports.iter().map(of).sum::<f64>() / reports.len().max(1) as f64;
    Trial {
        rooms: reports.len() as u64,
        contacts: reports.iter().map(Report::collisions).sum(),
        falls: reports.iter().map(|report| report.contacts.falls).sum(),
        cells: mean(&|report| report.coverage.cells as f64),
        backward_share: mean(&|report| report.coverage.backward_share),
        still_share: mean(&|report| report.coverage.standing_share),
    }
}

/// Fewer contacts, or as many and more of the rooms.
pub fn is_better(one: &Trial, other: &Trial) -> bool {
    (one.contacts, -one.cells) < (other.contacts, -other.cells)
}

/// Rooms to drive through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rooms {
    /// Seed of the first; the others follow.
    pub first: u64,
    /// How many.
    pub count: usize,
    /// Length of the drive through each, seconds of virtual time.
    pub seconds: u64,
}

/// Drives through `rooms` with `readout` (`None`: with the table alone), on `threads` threads.
pub fn trial(
    board: &Board,
    rooms: Rooms,
    threads: usize,
    readout: Option<&Readout>,
    rung: Rung,
) -> Result<Trial, BuildError> {
    let nothing = Readout::of_table(board, Vec::new());
    let seeds: Vec<u64> = (rooms.first..).take(rooms.count).collect();
    let reports = parallel::map(threads, &seeds, |seed| {
        let table = || Box::new(TableAlone(board.field.clone())) as Box<dyn Interposer>;
        let interposer = readout.is_none().then(table);
        let readout = readout.unwrap_or(&nothing);
        run(board, *seed, rooms.seconds, rung, readout, interposer)
    });
    Ok(figures(&reports.into_iter().collect::<Result<Vec<_>, _>>()?))
}
