//! Finds a usable GPU at the start, if the plan asks for one or leaves the choice open, or says why there is
//! none. Builds only engines on a GPU.

use super::cuda::{CudaEngine, is_emulated};
use super::failover::Open;
use super::sensor_ring::SensorRing;
use super::{FieldEngine, Loss, trial};
use crate::base::plan::{EngineKind, FieldPlan};
use crate::system::gpu::{Absence, Watch, probe};
use std::fmt;
use std::sync::Arc;

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

/// Returns a function that opens the GPU for `plan`, as often as needed; or why there is none. With `Auto`,
/// an emulated GPU does not count. All engines that it opens share `watch`: removing an injected fault there
/// also releases the abandoned engines.
pub fn find(plan: &FieldPlan, watch: Arc<Watch>) -> Result<Open, NoDevice> {
    if !matches!(plan.engine, EngineKind::Auto | EngineKind::Cuda) {
        return Err(NoDevice::NotAsked);
    }
    let found = probe().map_err(NoDevice::Absent)?;
    if plan.engine == EngineKind::Auto && is_emulated(&found) {
        return Err(NoDevice::Emulated { name: found.name });
    }
    Ok(Box::new(opener(watch)))
}

/// Why `Auto` would choose no GPU on this machine, as text.
pub fn why_none() -> String {
    match probe() {
        Err(absence) => absence.to_string(),
        Ok(found) if is_emulated(&found) => NoDevice::Emulated { name: found.name }.to_string(),
        Ok(found) => format!("the GPU ({}) is reserved for the robot itself", found.name),
    }
}

/// Opens the GPU at each call. Until a trial has succeeded, each call runs one beforehand. The caller has
/// dropped the earlier engine; while that engine's thread is still in a driver call, its memory is not free
/// and opening fails.
/// Each engine has its own context, so that an error that corrupted one context does not affect the next.
fn opener(
    watch: Arc<Watch>,
) -> impl FnMut(&FieldPlan, &SensorRing) -> Result<Box<dyn FieldEngine>, Loss> + Send {
    let mut ended: Option<Box<dyn Fn() -> bool + Send>> = None;
    let mut is_tried = false;
    move |plan, sensors| {
        if let Some(ended) = &ended {
            if !ended() {
                return Err(Loss::Timeout { call: "the lost device's last call" });
            }
            // Its context is gone. Opening another engine shows whether the error damaged more than its
            // context.
            if let Some(error) = watch.last_failure() {
                log::warn!("opening the GPU again, after {error}");
            }
        }
        let mut open = |plan: &FieldPlan| {
            let engine =
                CudaEngine::open_with(plan, 1, watch.clone(), Some(sensors)).map_err(|unfit| unfit.loss())?;
            ended = Some(Box::new(engine.ended()));
            Ok(engine)
        };
        if !is_tried {
            trial::run(plan, &mut open)?;
            is_tried = true;
        }
        Ok(Box::new(open(plan)?))
    }
}
