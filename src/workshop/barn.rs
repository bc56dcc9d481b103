//! The BARN navigation course in the simulator: drivers cross worlds full of discs to a goal beyond them.
//! Tick, admission, reflexes, limits and simulator are the robot's own; only the source of the motion
//! differs.
//!
//! A run here takes place in two dimensions, with this simulator's body and rangers. Its figures compare
//! drivers with each other, not with figures from the benchmark's own simulator.
//!
//! `course` reads the worlds, `rooms` makes others, `drive` runs one world, `score` counts, `svg` draws. The
//! baselines: `follow_gap`, `dynamic_window`, `force_lets`; `newest` holds what they have in common.

pub mod course;
pub mod drive;
pub mod dynamic_window;
pub mod follow_gap;
pub mod force_lets;
pub mod newest;
pub mod rooms;
pub mod score;
pub mod svg;

use crate::base::plan::{Board, RangerFaults, SimPlan};
use crate::base::time::Span;
use crate::field::navigate::heading::Chooser;
use crate::field::navigate::navigator::{Navigator, Options, can_go};
use crate::field::navigate::{Body, Driver};
use crate::runtime::robot::BuildError;
use crate::workshop::learn::parallel;
use course::Course;
use drive::{Run, drive};
use newest::Newest;
use std::sync::atomic::{AtomicBool, Ordering};

/// A driver that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pilot {
    /// The robot's own navigator.
    Navigator,
    /// The navigator with the best direction instead of the heading field's peak.
    Argmax,
    /// The navigator with the newest readings only.
    NoMemory,
    /// Follow the gap.
    FollowGap,
    /// Dynamic window.
    DynamicWindow,
    /// Force-lets on the heading.
    ForceLets,
}

impl Pilot {
    /// All of them.
    pub const ALL: [Pilot; 6] = [
        Pilot::Navigator,
        Pilot::Argmax,
        Pilot::NoMemory,
        Pilot::FollowGap,
        Pilot::DynamicWindow,
        Pilot::ForceLets,
    ];

    /// Its name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Pilot::Navigator => "navigator",
            Pilot::Argmax => "argmax",
            Pilot::NoMemory => "no-memory",
            Pilot::FollowGap => "follow-gap",
            Pilot::DynamicWindow => "dynamic-window",
            Pilot::ForceLets => "force-lets",
        }
    }

    /// Where it is described, or what it consists of.
    pub const fn source(self) -> &'static str {
        match self {
            Pilot::Navigator => "place memory, goal wave, heading field",
            Pilot::Argmax => "the navigator with the best direction instead of the heading field's peak",
            Pilot::NoMemory => "the navigator with the newest readings only",
            Pilot::FollowGap => "Sezer, Gokasan 2012",
            Pilot::DynamicWindow => "Fox, Burgard, Thrun 1997",
            Pilot::ForceLets => "Bicho, Mallet, Schoener 2000",
        }
    }

    /// The driver of that name.
    pub fn named(name: &str) -> Option<Pilot> {
        Pilot::ALL.into_iter().find(|pilot| pilot.name() == name)
    }

    /// The driver for `board`; `seed` is that of the navigator's noise. `None`: the board lacks what the
    /// driver needs.
    pub fn driver(self, board: &Board, seed: u64) -> Option<Box<dyn Driver>> {
        let options = Options { seed, ..Options::default() };
        let navigator = |options| Some(Box::new(Navigator::of(board, options)?) as Box<dyn Driver>);
        let body = Body::of(board)?;
        match self {
            Pilot::Navigator => navigator(options),
            Pilot::Argmax => navigator(Options { chooser: Chooser::Argmax, ..options }),
            Pilot::NoMemory => navigator(Options { remembers: false, ..options }),
            Pilot::FollowGap => Some(Box::new(Newest::of(follow_gap::FollowGap::new(body)))),
            Pilot::DynamicWindow => Some(Box::new(Newest::of(dynamic_window::DynamicWindow::new(body)))),
            Pilot::ForceLets => Some(Box::new(Newest::of(force_lets::ForceLets::new(body)))),
        }
    }
}

/// How well a robot senses its surroundings and knows its own motion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conditions {
    /// As configured on the board: rangers with the noise of a good chip, and commands that have the expected
    /// effect.
    #[default]
    Good,
    /// Ranges with a noise of 10 %; half a second without any range in every three seconds; and the robot
    /// drives 5 % less than it believes.
    Rough,
}

/// See [`Conditions::Rough`].
const ROUGH_NOISE: f32 = 0.1;
const ROUGH_GAPS: [Span; 2] = [Span::from_millis(3_000), Span::from_millis(500)];
const ROUGH_WAY: f32 = 0.95;

impl Conditions {
    fn apply(self, plan: &mut SimPlan) {
        if self == Conditions::Rough {
            plan.rangers = RangerFaults { noise: ROUGH_NOISE, gaps: Some(ROUGH_GAPS) };
            plan.full_speed *= ROUGH_WAY;
        }
    }
}

/// Why a study cannot be run.
#[derive(Debug)]
pub enum BarnError {
    /// The board lacks what a driver needs: a simulated world, `[motion]` with `body`, beams.
    Board(String),
    /// A robot cannot be built.
    Build(BuildError),
}

impl std::fmt::Display for BarnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BarnError::Board(name) => write!(
                f,
                "board '{name}' cannot drive the course: it needs [sim], [motion] with `body`, and ranging sensors \
                 with a `beam`"
            ),
            BarnError::Build(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BarnError {}

/// Drives through every world with every pilot, on up to `threads` threads; `done` is called after each run.
/// Returns the runs of each pilot in the order of the worlds; `None`: interrupted.
pub fn race(
    board: &Board,
    pilots: &[Pilot],
    courses: &[Course],
    conditions: Conditions,
    threads: usize,
    interrupted: &AtomicBool,
    done: impl Fn() + Sync,
) -> Result<Option<Vec<Vec<Run>>>, BarnError> {
    let unfit = || BarnError::Board(board.name.clone());
    if !can_go(board) {
        return Err(unfit());
    }
    let mut board = board.clone();
    board.field.threads = 1; // the worlds already share the cores
    conditions.apply(board.sim.as_mut().ok_or_else(unfit)?);
    let pieces: Vec<(Pilot, &Course)> =
        pilots.iter().flat_map(|pilot| courses.iter().map(move |course| (*pilot, course))).collect();
    let runs = parallel::map(threads, &pieces, |(pilot, course)| {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let run = drive(&board, course, *pilot).map_err(BarnError::Build)?;
        done();
        Ok(Some(run))
    });
    let runs: Option<Vec<Run>> = runs.into_iter().collect::<Result<_, BarnError>>()?;
    Ok(runs.map(|runs| runs.chunks(courses.len().max(1)).map(<[Run]>::to_vec).collect()))
}
