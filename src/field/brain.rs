//! Assembles the engine that computes a robot's field: on the CPU, on a GPU with a standby engine on the CPU,
//! or on another computer. Holds what the worker needs to run the engine and to rebuild it.

use super::engine::{self, Around, Cycle, FieldEngine, Inspect};
use super::failover::{Failover, Open};
use super::remote::{RemoteEngine, Standby, Tether};
use super::sensor_ring::SensorRing;
use super::snapshot::{
    Beside, ExistingSnapshot, Snapshot, SnapshotSchedule, SnapshotWriter, start_field_copies,
    start_snapshot_writer,
};
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
use std::sync::atomic::AtomicBool;

/// An engine with everything needed to rebuild it.
pub struct Brain {
    /// The engine.
    pub engine: Box<dyn FieldEngine>,
    /// The plan of the engine on the CPU.
    pub plan: FieldPlan,
    /// The read-out and the library, which the engine does not change.
    pub learned: Arc<Learned>,
    /// Where the tick writes the sensors.
    pub sensors: SensorRing,
    /// Rights that the system refused to the engine's own threads.
    pub refusals: Vec<Refusal>,
    requests: MotorRequests,
}

/// Turns the answer of a read-out into a request: the motors of the chosen label, or the starting table's
/// request plus the read-out's correction.
#[derive(Clone, Debug)]
pub struct MotorRequests {
    /// Motor vector of each label, if the read-out chooses among labels.
    decisions: Vec<[f32; MAX_MOTORS]>,
    /// The plan with the starting table that the read-out corrects; `None`: the read-out's answer is the
    /// request.
    corrected: Option<FieldPlan>,
}

impl MotorRequests {
    /// The requests of `board`. If the board has a starting table, the read-out corrects it.
    pub fn of(board: &Board) -> MotorRequests {
        let decisions = board.decisions.iter().map(motors).collect();
        MotorRequests { decisions, corrected: Some(board.field.clone()) }
    }

    /// Replaces the motors of `response`, the answer to `sensors`.
    pub fn apply(&self, response: &mut FieldOutput, sensors: &[f32]) {
        if !self.decisions.is_empty() {
            response.motors = self.decisions[decide(&response.scores[..self.decisions.len()])];
        } else if let Some(plan) = &self.corrected {
            plan.correct_start(&mut response.motors, sensors);
        }
    }
}

/// What computes the cycles in place of the engine on the CPU.
#[derive(Default)]
pub struct Before {
    /// Opens the GPU that computes the cycles instead; the engine on the CPU is then on standby, with all its
    /// memory allocated and touched.
    pub device: Option<Open>,
    /// A cycle that replaces the engine's own. Its answer is the request: no starting table is added.
    pub cycle: Option<Cycle<dyn Inspect>>,
    /// The connection to the brain at the other end of the board's tether; without it the field is computed
    /// here.
    pub tether: Option<Tether>,
}

/// Why a cycle has no answer, as far as the brain's caller needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The input was out of range; the field has not changed.
    Refused,
    /// This cycle is lost; the next one may be answered.
    Missed,
    /// The engine's state is no longer valid: the engine must be rebuilt.
    Unsound,
}

/// Why a brain cannot be built.
#[derive(Debug)]
pub enum BrainError {
    /// The state to resume from does not fit.
    State(StateError),
    /// The system refused to start a thread.
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
    /// The brain of `board`, at rest or continuing from `resume`, with `readout` or else the read-out of
    /// `resume`, and with `before` in front of the engine. A failover reads the time from `clock`.
    pub fn new(
        board: &Board,
        readout: Option<&Readout>,
        resume: Option<&State>,
        before: Before,
        clock: Arc<dyn Clock>,
    ) -> Result<Brain, BrainError> {
        let mut plan = board.field.clone();
        if before.device.is_some() {
            plan.engine = EngineKind::Cpu; // the engine on standby
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

    /// The brain of `board`, continuing from `snapshot`, or at rest without one. Its read-out is `readout`,
    /// or else the snapshot's, unless the outputs of the snapshot's read-out have another meaning on this
    /// board. With neither of them, the read-out's output is zero.
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

    /// The brain of `board` on another computer, at the other end of `tether`, configured by `plan`. A
    /// standby field on this machine has learned no correction: it drives by the starting table.
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

    /// One cycle of the engine. A panic leaves the engine's state unknown; unless the engine survives panics,
    /// it must be rebuilt, so that no cycle uses half-written data.
    pub fn cycle(&mut self, input: &FieldInput, clock: &dyn Clock) -> Result<FieldOutput, NoAnswer> {
        let engine = &mut self.engine;
        match catch_unwind(AssertUnwindSafe(|| engine.cycle(input))) {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(Failure::Refused(_))) => Err(NoAnswer::Refused),
            // The failover has already handled the lost device. A brain on another computer that did not
            // answer is asked again in the next cycle.
            Ok(Err(Failure::Lost(_) | Failure::Missed)) => Err(NoAnswer::Missed),
            Ok(Err(Failure::NotFinite)) => Err(NoAnswer::Unsound),
            Err(_) if engine.survives_panic(clock.now()) => Err(NoAnswer::Missed),
            Err(_) => Err(NoAnswer::Unsound),
        }
    }

    /// Starts to write the brain to `path` at intervals of `every`, together with `beside`; `existing`
    /// describes the file that is there now. Allocates all memory for this and starts the writer's thread.
    pub fn keep(
        &mut self,
        board: &Board,
        path: PathBuf,
        existing: ExistingSnapshot,
        every: Span,
        beside: Beside,
    ) -> std::io::Result<(SnapshotSchedule, SnapshotWriter)> {
        let (learned, engine) = (self.learned.clone(), &mut self.engine);
        let started = start_snapshot_writer(path, existing, board, learned, beside, |live| engine.save(live));
        started.map(|(sender, writer)| (SnapshotSchedule::new(sender, every), writer))
    }

    /// Prepares copies of the field for a recording: one whenever `asked` is set, as bytes for `send`.
    /// `None`: the field is too large to copy. Allocates all memory that the field's thread needs for this.
    pub fn copy_when_asked(
        &mut self,
        board: &Board,
        asked: Arc<AtomicBool>,
        send: impl FnMut(Vec<u8>) + Send + 'static,
    ) -> std::io::Result<Option<SnapshotSchedule>> {
        let engine = &mut self.engine;
        start_field_copies(board, &self.learned, asked, send, |live| engine.save(live))
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
