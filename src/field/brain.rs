//! Assembles what computes the field for a robot: an engine on the CPU, or one on a device with one on the
//! CPU on standby. Holds what the worker needs to run and to rebuild it.

use super::engine::{self, Around, Cycle, FieldEngine, Inspect};
use super::failover::{Failover, Open};
use super::remote::{RemoteEngine, Standby, Tether};
use super::sensor_ring::SensorRing;
use super::state::{Learned, State, StateError};
use super::{Readout, Response};
use crate::base::command::MAX_MOTORS;
use crate::base::plan::{Board, Decision, EngineKind, FieldPlan, TetherPlan};
use crate::base::time::Clock;
use crate::field::readout::decide;
use crate::system::rt::Refusal;
use std::fmt;
use std::sync::Arc;

/// An engine with all that it takes to build it again.
pub struct Brain {
    /// What computes.
    pub engine: Box<dyn FieldEngine>,
    /// The plan of the engine on the CPU.
    pub plan: FieldPlan,
    /// The part that came from outside.
    pub learned: Arc<Learned>,
    /// Where the tick puts its sensors.
    pub sensors: SensorRing,
    /// What the system refused the engine's own threads.
    pub refusals: Vec<Refusal>,
    /// Motor vector of each label, where the read-out chooses among labels.
    decisions: Vec<[f32; MAX_MOTORS]>,
}

/// What wraps the engine on the CPU.
#[derive(Default)]
pub struct Before {
    /// Opens the device that computes in its place; the engine on the CPU is then on standby, with all its
    /// memory allocated and touched.
    pub device: Option<Open>,
    /// A cycle around its own.
    pub cycle: Option<Cycle<dyn Inspect>>,
    /// The way to the brain that the board's tether leads to; without it the plan is computed here.
    pub tether: Option<Tether>,
}

/// Why there is no brain.
#[derive(Debug)]
pub enum BrainError {
    /// The state that it was to resume from does not fit.
    State(StateError),
    /// The system starts no thread.
    Thread(std::io::Error),
}

impl fmt::Display for BrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrainError::State(error) => error.fmt(f),
            BrainError::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for BrainError {}

impl Brain {
    /// The engine of `board`, at rest or where `resume` stopped, with `readout`, or else that of `resume`,
    /// wrapped as `before` says. A failover reads the time from `clock`.
    pub fn new(
        board: &Board,
        readout: Option<&Readout>,
        resume: Option<&State>,
        before: Before,
        clock: Arc<dyn Clock>,
    ) -> Result<Brain, BrainError> {
        let mut plan = board.field.clone();
        if before.device.is_some() {
            plan.engine = EngineKind::Cpu; // what stands by
        }
        let mut here = engine::build(&plan);
        if let Some(state) = resume {
            here.load(&state.learned).and_then(|()| here.restore(&state.live)).map_err(BrainError::State)?;
        }
        if let Some(readout) = readout {
            here.set_readout(readout.weights());
        }
        let learned = Arc::new(here.learned());
        let refusals = here.refusals().iter().map(|(_, refusal)| *refusal).collect();
        let mut engine: Box<dyn FieldEngine> = match before.cycle {
            Some(cycle) => Box::new(Around::new(here, cycle)),
            None => here,
        };
        let sensors = SensorRing::new();
        if let Some(open) = before.device {
            let failover = Failover::new(&board.field, learned.clone(), &sensors, engine, open, clock);
            engine = Box::new(failover.map_err(BrainError::Thread)?);
        }
        let decisions = board.decisions.iter().map(motors).collect();
        Ok(Brain { engine, plan, learned, sensors, refusals, decisions })
    }

    /// The brain of `board`, elsewhere, at the end of `tether` as `plan` says. A field that stands by on this
    /// machine begins with `readout`.
    pub fn remote(
        board: &Board,
        plan: &TetherPlan,
        readout: Option<&Readout>,
        tether: Tether,
        clock: Arc<dyn Clock>,
    ) -> Brain {
        let Tether { hop, digest, words } = tether;
        let remote = RemoteEngine::new(&board.field, plan, digest, hop, words, clock.clone());
        let decisions = board.decisions.iter().map(motors).collect();
        let sensors = SensorRing::new();
        let Some(local) = plan.local(&board.field) else {
            let (engine, learned) = (Box::new(remote), Arc::default());
            return Brain {
                engine,
                plan: board.field.clone(),
                learned,
                sensors,
                refusals: Vec::new(),
                decisions,
            };
        };
        let mut here = engine::build(&local);
        if let Some(readout) = readout {
            here.set_readout(readout.weights());
        }
        let learned = Arc::new(here.learned());
        let refusals = here.refusals().iter().map(|(_, refusal)| *refusal).collect();
        let engine = Box::new(Standby::new(remote, here, clock));
        Brain { engine, plan: local, learned, sensors, refusals, decisions }
    }

    /// Turns the scores of a read-out that chooses among labels into the motors of the label that it chose.
    pub fn decide(&self, response: &mut Response) {
        if !self.decisions.is_empty() {
            response.motors = self.decisions[decide(&response.scores[..self.decisions.len()])];
        }
    }
}

fn motors(decision: &Decision) -> [f32; MAX_MOTORS] {
    let mut motors = [0.0; MAX_MOTORS];
    motors[..decision.motors.len()].copy_from_slice(&decision.motors);
    motors
}
