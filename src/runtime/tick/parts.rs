//! The parts of a tick. `robot` builds them for a board; tests build their own.

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
use crate::field::navigate::senses::NavigationSenses;
use crate::runtime::guard::GuardHealth;
use crate::runtime::loop_status::LoopStatusCell;
use crate::runtime::requests::Requests;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The parts that decide. Each is made from the board alone.
pub struct Deciders {
    /// Decides which readings are admitted.
    pub admission: Admission,
    /// Restrains the motors.
    pub reflexes: Reflexes,
    /// Chooses the engine's quality level from its cycle times.
    pub budget: Budget,
    /// The robot's mode.
    pub modes: Modes,
    /// The recorded path, and how the robot backs off along it.
    pub backtrack: Backtrack,
    /// Makes the commands.
    pub arbiter: Arbiter,
    /// The navigator's inputs, if the board has a navigator.
    pub navigation: Option<NavigationSenses>,
}

impl Deciders {
    /// The deciders of `board`, in their initial state. Every cycle of the field runs at `quality`, if given.
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
            backtrack: Backtrack::new(board),
            arbiter: Arbiter::new(&board.motors, board.safety, board.period),
            navigation: NavigationSenses::of(board),
        }
    }
}

/// The parts of a tick. All belong to one board.
pub struct Parts {
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Requests from users and signals.
    pub requests: Arc<Requests>,
    /// Its slots.
    pub grid: Grid,
    /// One ring of readings for each thread that delivers them.
    pub readings: heapless::Vec<rtrb::Consumer<Reading>, MAX_INLETS>,
    /// Stops that bus threads made without waiting for the tick.
    pub fast_stops: FastStopReceiver,
    /// The parts that decide.
    pub deciders: Deciders,
    /// The link to the engine.
    pub field: FieldLink,
    /// The link to the motors.
    pub motor_link: MotorLink,
    /// Where records go.
    pub trace: rtrb::Producer<Record>,
    /// Counts records that did not fit into the ring.
    pub records_dropped: Arc<AtomicU64>,
    /// The loop's status.
    pub loop_status: Arc<LoopStatusCell>,
    /// The guard, if the board requires one.
    pub guard: Option<GuardHealth>,
}

impl Tick {
    /// A tick of `parts` that has not run yet.
    pub fn new(parts: Parts) -> Tick {
        let Parts { clock, requests, grid, readings, fast_stops, deciders, field, .. } = parts;
        let Parts { motor_link, trace, records_dropped, loop_status, guard, .. } = parts;
        let Deciders { admission, reflexes, budget, modes, backtrack, arbiter, navigation } = deciders;
        let frame = Frame::empty(admission.counters().len());
        let sleep = SleepWatch::new(clock.as_ref());
        let tap = ReadingTap::default();
        Tick {
            senses: Senses {
                clock: clock.clone(),
                sleep,
                fast_stops,
                readings,
                tap,
                admission,
                frame,
                guard,
            },
            policy: Policy { reflexes, modes, backtrack },
            clock,
            requests,
            grid,
            arbiter,
            motor_link,
            field,
            navigation,
            budget,
            lost: 0,
            trace,
            records_dropped,
            loop_status,
            checkpoints: CheckpointTap::default(),
        }
    }
}
