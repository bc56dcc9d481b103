//! Assembles what computes the field for a robot: an engine on the CPU, or one on a device with one on the
//! CPU on standby. Holds what the worker needs to run and to rebuild it.

use super::engine::{self, Around, Cycle, FieldEngine, Inspect};
use super::failover::{Failover, Open};
use super::remote::{RemoteEngine, Standby, Tether};
use super::sensor_ring::SensorRing;
use super::snapshot::{Beside, ExistingSnapshot, Snapshot, SnapshotSchedule, SnapshotWriter, snapshot_line};
use super::state::{Learned, State, StateError};
use super::{Failure, FieldInput, FieldOutput, Readout};
use crate::base::command::MAX_MOTORS;
use crate::base::plan::{Board, Decision, EngineKind, FieldPlan, TetherPlan};
use crate::base::time::{Clock, Span};
use crate::field::readout::decide;
use crate::system::rt::Refusal;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
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
    requests: MotorRequests,
}

/// Turns the answer of a read-out into a request: into the motors of the label that it chose, or into the
/// starting table's request with its correction.
#[derive(Clone, Debug)]
pub struct MotorRequests {
    /// Motor vector of each label, where the read-out chooses among labels.
    decisions: Vec<[f32; MAX_MOTORS]>,
    /// Has the starting table that the read-out corrects; `None`: its answer is the request.
    corrected: Option<FieldPlan>,
}

impl MotorRequests {
    /// Of `board`, whose read-out corrects the starting table if there is one.
    pub fn of(board: &Board) -> MotorRequests {
        let decisions = board.decisions.iter().map(motors).collect();
        MotorRequests { decisions, corrected: Some(board.field.clone()) }
    }

    /// Replaces the motors of `response`, which answers `sensors`.
    pub fn apply(&self, response: &mut FieldOutput, sensors: &[f32]) {
        if !self.decisions.is_empty() {
            response.motors = self.decisions[decide(&response.scores[..self.decisions.len()])];
        } else if let Some(plan) = &self.corrected {
            plan.correct_start(&mut response.motors, sensors);
        }
    }
}

/// What wraps the engine on the CPU.
#[derive(Default)]
pub struct Before {
    /// Opens the device that computes in its place; the engine on the CPU is then on standby, with all its
    /// memory allocated and touched.
    pub device: Option<Open>,
    /// A cycle around its own. What it answers is the request: no starting table is added to it.
    pub cycle: Option<Cycle<dyn Inspect>>,
    /// The way to the brain that the board's tether leads to; without it the plan is computed here.
    pub tether: Option<Tether>,
}

/// Why a cycle has no answer, as far as it matters to whoever runs the brain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The stimulus was out of range: it changed nothing.
    Refused,
    /// This cycle is lost; the next one may be answered.
    Missed,
    /// The engine holds numbers that are not sound: it has to be built again.
    Unsound,
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
        let mut requests = MotorRequests::of(board);
        if before.cycle.is_some() {
            requests.corrected = None;
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
        Ok(Brain { engine, plan, learned, sensors, refusals, requests })
    }

    /// The brain of `board` as `snapshot` left it, at rest without one. Its read-out is `readout`, else that
    /// of the snapshot unless it means something else on this board; without either the read-out is silent.
    pub fn resume(
        board: &Board,
        readout: Option<Readout>,
        snapshot: Option<&Snapshot>,
        before: Before,
        clock: Arc<dyn Clock>,
    ) -> Result<Brain, BrainError> {
        let is_other = snapshot.is_some_and(|snapshot| snapshot.has_other_readout(board));
        let readout = readout.or_else(|| is_other.then(|| Readout::silent(board)));
        Brain::new(board, readout.as_ref(), snapshot.map(Snapshot::state), before, clock)
    }

    /// The brain of `board`, elsewhere, at the end of `tether` as `plan` says. A field that stands by on this
    /// machine has learned no correction: it drives by the starting table.
    pub fn remote(board: &Board, plan: &TetherPlan, tether: Tether, clock: Arc<dyn Clock>) -> Brain {
        let Tether { hop, digest, words } = tether;
        let remote = RemoteEngine::new(&board.field, plan, digest, hop, words, clock.clone());
        let (requests, sensors) = (MotorRequests::of(board), SensorRing::new());
        let Some(local) = plan.local(&board.field) else {
            let (engine, learned) = (Box::new(remote), Arc::default());
            return Brain {
                engine,
                plan: board.field.clone(),
                learned,
                sensors,
                refusals: Vec::new(),
                requests,
            };
        };
        let here = engine::build(&local);
        let learned = Arc::new(here.learned());
        let refusals = here.refusals().iter().map(|(_, refusal)| *refusal).collect();
        let engine = Box::new(Standby::new(remote, here, clock));
        Brain { engine, plan: local, learned, sensors, refusals, requests }
    }

    /// One cycle of the engine. A panic leaves the engine's state unknown; unless it survives that, it has to
    /// be built again, so no cycle uses anything half-written.
    pub fn cycle(&mut self, input: &FieldInput, clock: &dyn Clock) -> Result<FieldOutput, NoAnswer> {
        let engine = &mut self.engine;
        match catch_unwind(AssertUnwindSafe(|| engine.cycle(input))) {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(Failure::Refused(_))) => Err(NoAnswer::Refused),
            // The failover already handled the lost device. A brain that did not answer is asked again.
            Ok(Err(Failure::Lost(_) | Failure::Missed)) => Err(NoAnswer::Missed),
            Ok(Err(Failure::NotFinite)) => Err(NoAnswer::Unsound),
            Err(_) if engine.survives_panic(clock.now()) => Err(NoAnswer::Missed),
            Err(_) => Err(NoAnswer::Unsound),
        }
    }

    /// Has the brain written to `path` every `every`, with what is `beside` it; `standing` is what is there
    /// now. Takes all memory that this needs and starts the thread that writes.
    pub fn keep(
        &mut self,
        board: &Board,
        path: PathBuf,
        standing: ExistingSnapshot,
        every: Span,
        beside: Beside,
    ) -> std::io::Result<(SnapshotSchedule, SnapshotWriter)> {
        let (learned, engine) = (self.learned.clone(), &mut self.engine);
        let line = snapshot_line(path, standing, board, learned, beside, |live| engine.save(live));
        line.map(|(sender, writer)| (SnapshotSchedule::new(sender, every), writer))
    }

    /// Turns the answer of the read-out to `sensors` into a request.
    pub fn request(&self, response: &mut FieldOutput, sensors: &[f32]) {
        self.requests.apply(response, sensors);
    }
}

fn motors(decision: &Decision) -> [f32; MAX_MOTORS] {
    let mut motors = [0.0; MAX_MOTORS];
    motors[..decision.motors.len()].copy_from_slice(&decision.motors);
    motors
}
