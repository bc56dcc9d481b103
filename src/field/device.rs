//! Finds a usable GPU at the start, if the plan asks for one or leaves the choice open, or says why there is
//! none. Opens it for the robots that share it, and again after a loss. Builds only engines on a GPU.

use super::cuda::{CudaEngine, SharedDevice, is_emulated};
use super::failover::Open;
use super::sensor_ring::SensorRing;
use super::{FieldEngine, Loss, trial};
use crate::base::plan::{EngineKind, FieldPlan};
use crate::system::gpu::{Absence, Watch, probe};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Why no GPU is used.
#[derive(Clone, Debug, PartialEq)]
pub enum NoDevice {
    /// The plan names another engine.
    NotAsked,
    /// There is no usable GPU.
    Absent(Absence),
    /// The GPU is the emulated one of the stand-in driver, which is used only if the plan names `cuda`.
    Emulated {
        /// Its own name.
        name: String,
    },
}

impl fmt::Display for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoDevice::NotAsked => f.write_str("no GPU was requested"),
            NoDevice::Absent(absence) => absence.fmt(f),
            NoDevice::Emulated { name } => {
                write!(f, "the GPU '{name}' is emulated on the CPU; use the engine 'cuda' to run on it")
            }
        }
    }
}

impl std::error::Error for NoDevice {}

/// Returns the GPU for the robots of `plan`, or why there is none; at most `robots` share a launch. With
/// `Auto`, an emulated GPU does not count. `watch` injects faults: removing one also releases the abandoned
/// engines.
pub fn find(plan: &FieldPlan, robots: usize, watch: Arc<Watch>) -> Result<Arc<SharedGpu>, NoDevice> {
    if !matches!(plan.engine, EngineKind::Auto | EngineKind::Cuda) {
        return Err(NoDevice::NotAsked);
    }
    let found = probe().map_err(NoDevice::Absent)?;
    if plan.engine == EngineKind::Auto && is_emulated(&found) {
        return Err(NoDevice::Emulated { name: found.name });
    }
    Ok(Arc::new(SharedGpu { robots, watch, state: Mutex::default() }))
}

/// Why `Auto` would choose no GPU on this machine, as text.
pub fn why_none() -> String {
    match probe() {
        Err(absence) => absence.to_string(),
        Ok(found) if is_emulated(&found) => NoDevice::Emulated { name: found.name }.to_string(),
        Ok(found) => format!("the GPU ({}) is reserved for the robot itself", found.name),
    }
}

/// A GPU that computes the fields of one or more robots with the same plan. It is opened for the first robot,
/// and again after a loss. Each time it has a new context, so that an error that corrupted one context does
/// not affect the next.
pub struct SharedGpu {
    /// Maximum number of robots in a launch.
    robots: usize,
    watch: Arc<Watch>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The open device, which may be lost.
    device: Option<SharedDevice>,
    /// Whether a trial has succeeded.
    is_tried: bool,
}

impl SharedGpu {
    /// A function that opens the engine of one robot, as often as needed.
    pub fn opener(self: &Arc<Self>) -> Open {
        let gpu = self.clone();
        Box::new(move |plan, sensors| gpu.engine(plan, sensors))
    }

    /// Opens the engine of one robot. While the thread of a lost device is still in a driver call, that
    /// device's memory is not free, and opening fails.
    fn engine(&self, plan: &FieldPlan, sensors: &SensorRing) -> Result<Box<dyn FieldEngine>, Loss> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = state.device.take_if(|device| device.is_lost()) {
            if !device.has_ended() {
                state.device = Some(device);
                return Err(Loss::Timeout { call: "the lost device's last call" });
            }
            // Its context is gone. Opening the device again shows whether the error damaged more than that.
            if let Some(error) = self.watch.last_failure() {
                log::warn!("opening the GPU again, after {error}");
            }
        }
        if !state.is_tried {
            trial::run(plan, |plan| {
                CudaEngine::open_with(plan, 1, self.watch.clone(), None).map_err(|unfit| unfit.loss())
            })?;
            state.is_tried = true;
        }
        let device = match &mut state.device {
            Some(device) => device,
            none => {
                let device = SharedDevice::open(plan, self.robots, self.watch.clone());
                none.insert(device.map_err(|unfit| unfit.loss())?)
            }
        };
        let engine = CudaEngine::join(plan, device, Some(sensors)).map_err(|unfit| unfit.loss())?;
        Ok(Box::new(engine))
    }
}
