//! What computes the field for a robot: an engine, or one on a device with one on the CPU on standby;
//! and everything needed to rebuild them. Turns scores into motors where the read-out chooses labels.

use super::failover::{DeviceCounters, Failover, Open};
use super::state::{Learned, Live, State, StateError};
use super::{DeviceTimes, Engine, Failure, Loss, Readout, Response, Stimulus};
use crate::command::MAX_MOTORS;
use crate::field::EngineState;
use crate::field::readout::decide;
use crate::field::stage::StageTimes;
use crate::gpu::GpuFault;
use crate::plan::{Board, Decision, EngineKind, FieldPlan};
use crate::rt::Refusal;
use crate::time::{Clock, Instant};
use std::fmt;
use std::sync::Arc;

/// An engine with all that it takes to build it again.
pub struct Brain {
    /// Computes, or is on standby for the device.
    here: Engine,
    device: Option<Failover>,
    plan: FieldPlan,
    learned: Arc<Learned>,
    /// Motor vector of each label, where the read-out chooses among labels.
    decisions: Vec<[f32; MAX_MOTORS]>,
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
    /// The engine of `board`, at rest or where `resume` stopped, with `readout`, or else that of `resume`.
    /// With `open` the engine that it opens computes, and one on the CPU is on standby, with all its memory
    /// allocated and touched.
    pub fn new(
        board: &Board,
        readout: Option<&Readout>,
        resume: Option<&State>,
        open: Option<Open>,
    ) -> Result<Brain, BrainError> {
        let motors = |decision: &Decision| {
            let mut motors = [0.0; MAX_MOTORS];
            motors[..decision.motors.len()].copy_from_slice(&decision.motors);
            motors
        };
        let mut plan = board.field.clone();
        if open.is_some() {
            plan.engine = EngineKind::Cpu; // what stands by
        }
        let mut here = Engine::build(&plan);
        if let Some(state) = resume {
            here.load(&state.learned).and_then(|()| here.restore(&state.live)).map_err(BrainError::State)?;
        }
        if let Some(readout) = readout {
            here.set_readout(readout.weights());
        }
        let learned = Arc::new(here.learned());
        let failover = open.map(|open| Failover::new(&board.field, learned.clone(), &mut here, open));
        Ok(Brain {
            here,
            device: failover.transpose().map_err(BrainError::Thread)?,
            plan,
            learned,
            decisions: board.decisions.iter().map(motors).collect(),
        })
    }

    /// What computes, and why that.
    pub fn engine_name(&self) -> String {
        match self.device.as_ref().map(Failover::name) {
            None => self.here.name(),
            Some(Some(device)) => format!("{device}; {} on standby", self.here.name()),
            Some(None) => format!("{}, in place of a GPU", self.here.name()),
        }
    }

    /// What the system refused the engine's own threads.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.here.refusals().iter().map(|(_, refusal)| *refusal).collect()
    }

    /// Whether there is a device to compute on, even if it is lost just now.
    pub fn has_device(&self) -> bool {
        self.device.is_some()
    }

    /// What people call the device, if it is open.
    pub fn device_name(&self) -> Option<String> {
        self.device.as_ref().and_then(Failover::device_name)
    }

    /// The part that came from outside.
    pub fn learned(&self) -> Arc<Learned> {
        self.learned.clone()
    }

    /// The plan of the engine.
    pub fn plan(&self) -> &FieldPlan {
        &self.plan
    }

    /// How the device fares where it does not compute.
    pub fn stand_in(&self, now: Instant) -> Option<EngineState> {
        self.device.as_ref().and_then(|failover| failover.state(now))
    }

    /// The history of the device.
    pub fn device_counters(&self) -> DeviceCounters {
        self.device.as_ref().map_or_else(DeviceCounters::default, Failover::counters)
    }

    /// Where the time of the device's last cycle went; `None` where it did not compute.
    pub fn device_times(&self) -> Option<DeviceTimes> {
        self.device.as_ref().and_then(Failover::times)
    }

    /// What the device is to do wrong from now on; nothing without one.
    pub fn inject(&mut self, fault: Option<GpuFault>) {
        if let Some(failover) = &mut self.device {
            failover.inject(fault);
        }
    }

    /// One cycle, ordered at `start`.
    pub fn cycle(
        &mut self,
        stimulus: &Stimulus,
        start: Instant,
        clock: &dyn Clock,
    ) -> Result<Response, Failure> {
        let mut response = match &mut self.device {
            Some(failover) => failover.cycle(&mut self.here, stimulus, start, clock)?,
            None => self.here.cycle(stimulus)?,
        };
        if !self.decisions.is_empty() {
            response.motors = self.decisions[decide(&response.scores[..self.decisions.len()])];
        }
        Ok(response)
    }

    /// Where the time of the last cycle of the engine on the CPU went.
    pub fn stage_times(&self) -> &StageTimes {
        self.here.stage_times()
    }

    /// Copies the features of the last cycle of the engine on the CPU; as many as `out` holds.
    pub fn copy_features(&self, out: &mut [f32]) {
        self.here.copy_features(out);
    }

    /// Between two cycles: looks after the device.
    pub fn tend(&mut self, now: Instant) {
        if let Some(failover) = &mut self.device {
            failover.tend(&mut self.here, now);
        }
    }

    /// Saves all that it has lived through. False: not now.
    pub fn save(&mut self, live: &mut Live) -> bool {
        self.device.as_mut().and_then(|failover| failover.save(live)).unwrap_or_else(|| self.here.save(live))
    }

    /// A panic in a cycle leaves the state of what computed unknown. Where that was a device it is lost, and
    /// the CPU goes on (true); else the engine has to be built again.
    pub fn panicked(&mut self, now: Instant) -> bool {
        let taken = self.device.as_mut().filter(|failover| failover.is_taken());
        taken.map(|failover| failover.lose(&mut self.here, Loss::Panicked, now)).is_some()
    }

    /// Builds the engine on the CPU again, at rest.
    pub fn rebuild(&mut self) {
        self.here = Engine::build(&self.plan);
        let loaded = self.here.load(&self.learned);
        debug_assert!(loaded.is_ok(), "it came from an engine of this plan");
    }
}
