//! The navigation course BARN in the simulator: drivers cross worlds full of discs to a goal behind them.
//! Tick, admission, reflexes, limits and simulator are the robot's own; only the source of the motion
//! differs.
//!
//! A run here is a plane geometry with this simulator's body and rangers. Its figures compare drivers with
//! each other, not with figures from the benchmark's own simulator.
//!
//! `course` reads the worlds, `senses` is what a driver sees, `drive` runs one world, `score` counts, `svg`
//! draws. The drivers: `follow_gap`, `dynamic_window`, `force_lets`.

pub mod course;
pub mod drive;
pub mod driver;
pub mod dynamic_window;
pub mod follow_gap;
pub mod force_lets;
pub mod score;
pub mod senses;
pub mod svg;

use crate::base::plan::Board;
use crate::runtime::robot::BuildError;
use crate::workshop::learn::parallel;
use course::Course;
use drive::{Run, drive};
use driver::{Body, Driver};
use senses::Senses;
use std::sync::atomic::{AtomicBool, Ordering};

/// A driver that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pilot {
    /// Follow the gap.
    FollowGap,
    /// Dynamic window.
    DynamicWindow,
    /// Force-lets on the heading.
    ForceLets,
}

impl Pilot {
    /// All of them.
    pub const ALL: [Pilot; 3] = [Pilot::FollowGap, Pilot::DynamicWindow, Pilot::ForceLets];

    /// Its name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Pilot::FollowGap => "follow-gap",
            Pilot::DynamicWindow => "dynamic-window",
            Pilot::ForceLets => "force-lets",
        }
    }

    /// Where it is described.
    pub const fn source(self) -> &'static str {
        match self {
            Pilot::FollowGap => "Sezer, Gokasan 2012",
            Pilot::DynamicWindow => "Fox, Burgard, Thrun 1997",
            Pilot::ForceLets => "Bicho, Mallet, Schoener 2000",
        }
    }

    /// The driver of that name.
    pub fn named(name: &str) -> Option<Pilot> {
        Pilot::ALL.into_iter().find(|pilot| pilot.name() == name)
    }

    /// A new driver for this body.
    pub fn driver(self, body: Body) -> Box<dyn Driver> {
        match self {
            Pilot::FollowGap => Box::new(follow_gap::FollowGap::new(body)),
            Pilot::DynamicWindow => Box::new(dynamic_window::DynamicWindow::new(body)),
            Pilot::ForceLets => Box::new(force_lets::ForceLets::new(body)),
        }
    }
}

/// Why a study cannot be run.
#[derive(Debug)]
pub enum BarnError {
    /// The board lacks what a driver needs: a simulated world, `[motion]` with `body` and `track`, beams, the
    /// echo of every drive command.
    Board(String),
    /// A robot cannot be built.
    Build(BuildError),
}

impl std::fmt::Display for BarnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BarnError::Board(name) => write!(
                f,
                "board '{name}' cannot drive the course: it needs [sim], [motion] with `body` and `track`, sensors \
                 with a `beam`, and a `motor-echo` of each drive motor, all of them inputs of the field"
            ),
            BarnError::Build(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BarnError {}

/// Drives every world with every pilot, on up to `threads` threads; `done` is called after each run with the
/// number of runs so far. Returns the runs of each pilot in the order of the worlds; `None`: interrupted.
pub fn race(
    board: &Board,
    pilots: &[Pilot],
    courses: &[Course],
    threads: usize,
    interrupted: &AtomicBool,
    done: impl Fn() + Sync,
) -> Result<Option<Vec<Vec<Run>>>, BarnError> {
    let unfit = || BarnError::Board(board.name.clone());
    let (senses, body) = Senses::of(board).zip(Body::of(board)).ok_or_else(unfit)?;
    let mut board = board.clone();
    board.field.threads = 1; // the worlds already share the cores
    board.sim.as_ref().ok_or_else(unfit)?;
    let pieces: Vec<(Pilot, &Course)> =
        pilots.iter().flat_map(|pilot| courses.iter().map(move |course| (*pilot, course))).collect();
    let runs = parallel::map(threads, &pieces, |(pilot, course)| {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let run = drive(&board, course, senses.clone(), pilot.driver(body));
        done();
        run.map(Some)
    });
    let runs: Option<Vec<Run>> =
        runs.into_iter().collect::<Result<_, BuildError>>().map_err(BarnError::Build)?;
    Ok(runs.map(|runs| runs.chunks(courses.len().max(1)).map(<[Run]>::to_vec).collect()))
}
