//! The parts of a tick, built elsewhere: by `robot` for a board, by a test for what it observes.

use super::policy::Policy;
use super::senses::Senses;
use super::{MAX_INLETS, Tick};
use crate::base::frame::{Frame, Reading};
use crate::base::plan::{Board, QualityLevel};
use crate::base::time::{Clock, Grid, SleepWatch};
use crate::decision::admit::Admission;
use crate::decision::budget::Budget;
use crate::decision::mode::Modes;
use crate::decision::reflex::Reflexes;
use crate::drive::act::Arbiter;
use crate::drive::backtrack::Backtrack;
use crate::drive::fast_stop_events::FastStopReceiver;
use crate::drive::motor_link::MotorLink;
use crate::drive::trace::{CheckpointTap, ReadingTap, Record};
use crate::field::link::FieldLink;
use crate::runtime::guard::GuardHealth;
use crate::runtime::loop_status::LoopStatusCell;
use crate::runtime::requests::Requests;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What decides in a tick: each is made from the board alone.
pub struct Deciders {
    /// Which readings are admitted.
    pub admission: Admission,
    /// What restrains the motors.
    pub reflexes: Reflexes,
    /// The engine's quality, by what it costs.
    pub budget: Budget,
    /// State of the robot.
    pub modes: Modes,
    /// The way it came, and how it backs off.
    pub trail: Backtrack,
    /// What decides commands.
    pub arbiter: Arbiter,
}

impl Deciders {
    /// Those of `board`, which have decided nothing. Every cycle of the field runs at `quality`, if named.
    pub fn of(board: &Board, quality: Option<QualityLevel>) -> Deciders {
        let budget = Budget::new(board.budget);
        let reflexes = Reflexes::new(&board.reflexes, &board.sensors, board.safety);
        Deciders {
            admission: Admission::new(&board.sensors),
            reflexes: match &board.tether {
                Some(tether) => reflexes.tethered(tether),
                None => reflexes,
            },
            budget: match quality {
                Some(quality) => budget.held_at(quality),
                None => budget,
            },
            modes: Modes::new(board.safety),
            trail: Backtrack::new(board),
            arbiter: Arbiter::new(&board.motors, board.safety, board.period),
        }
    }
}

/// The parts of a tick. All of them are of one board.
pub struct Parts {
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Requests of people and signals.
    pub requests: Arc<Requests>,
    /// Its slots.
    pub grid: Grid,
    /// Readings, by the thread that delivers them.
    pub readings: heapless::Vec<rtrb::Consumer<Reading>, MAX_INLETS>,
    /// Stops that do not wait for the tick.
    pub alarm: FastStopReceiver,
    /// What decides.
    pub deciders: Deciders,
    /// The link to the engine.
    pub field: FieldLink,
    /// The link to the motors.
    pub motor_link: MotorLink,
    /// Where records go.
    pub trace: rtrb::Producer<Record>,
    /// Records that did not fit.
    pub records_dropped: Arc<AtomicU64>,
    /// The loop's status.
    pub loop_status: Arc<LoopStatusCell>,
    /// A guard that the board requires.
    pub guard: Option<GuardHealth>,
}

impl Tick {
    /// A tick of `parts` that has not run: no readings, no commands.
    pub fn new(parts: Parts) -> Tick {
        let Parts { clock, requests, grid, readings, alarm, deciders, field, .. } = parts;
        let Parts { motor_link, trace, records_dropped, loop_status, guard, .. } = parts;
        let Deciders { admission, reflexes, budget, modes, trail, arbiter } = deciders;
        let frame = Frame::empty(admission.counters().len());
        let sleep = SleepWatch::new(clock.as_ref());
        let tap = ReadingTap::default();
        Tick {
            senses: Senses { clock: clock.clone(), sleep, alarm, readings, tap, admission, frame, guard },
            policy: Policy { reflexes, modes, trail },
            clock,
            requests,
            grid,
            arbiter,
            motor_link,
            field,
            budget,
            lost: 0,
            trace,
            records_dropped,
            loop_status,
            checkpoints: CheckpointTap::default(),
        }
    }
}
