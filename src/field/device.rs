//! Chooses and reports the device at the start: the GPU that the plan asks for, or the best available one, or
//! why there is none. Builds engines only on a GPU.

use super::cuda::{CudaEngine, is_emulated};
use super::failover::Open;
use super::sensor_ring::SensorRing;
use super::{FieldEngine, Loss, trial};
use crate::base::plan::{EngineKind, FieldPlan};
use crate::system::gpu::{Absence, Gpu, Watch, probe};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Why no GPU is used.
#[derive(Clone, Debug, PartialEq)]
pub enum NoDevice {
    /// The plan names another engine.
    NotAsked,
    /// There is none that could be used.
    Absent(Absence),
    /// It is the stand-in for a driver, which is used only when requested by name.
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
                write!(f, "the GPU '{name}' is emulated on a processor; use the engine 'cuda' to run on it")
            }
        }
    }
}

impl std::error::Error for NoDevice {}

/// The engines of this process that share its GPU. Clones are the same engines.
#[derive(Clone, Default)]
pub struct Sharers(Arc<Mutex<Sharing>>);

#[derive(Default)]
struct Sharing {
    /// Plans on which the GPU has passed its trial.
    tried: Vec<FieldPlan>,
    /// Says of each engine whether its thread has ended.
    ended: Vec<Box<dyn Fn() -> bool + Send>>,
}

/// How to open the GPU for `plan`, again and again; or why there is none to open. With `Auto` one that is
/// emulated does not count. Every engine that it opens shares `watch`: removing a fault there also frees the
/// abandoned engines.
pub fn find(plan: &FieldPlan, watch: Arc<Watch>) -> Result<Open, NoDevice> {
    find_shared(plan, watch, &Sharers::default())
}

/// The same for one engine of several on the same GPU. A GPU that one of them lost is reset when all of them
/// have ended, because a reset ends whatever runs on it.
pub fn find_shared(plan: &FieldPlan, watch: Arc<Watch>, sharers: &Sharers) -> Result<Open, NoDevice> {
    if !matches!(plan.engine, EngineKind::Auto | EngineKind::Cuda) {
        return Err(NoDevice::NotAsked);
    }
    let found = probe().map_err(NoDevice::Absent)?;
    if plan.engine == EngineKind::Auto && is_emulated(&found) {
        return Err(NoDevice::Emulated { name: found.name });
    }
    Ok(Box::new(opener(watch, sharers.clone())))
}

/// Why this machine has no GPU that an engine would be put on by itself, in words.
pub fn why_none() -> String {
    match probe() {
        Err(absence) => absence.to_string(),
        Ok(found) if is_emulated(&found) => NoDevice::Emulated { name: found.name }.to_string(),
        Ok(found) => format!("the GPU ({}) is reserved for the robot itself", found.name),
    }
}

/// Opens the GPU at each call, the first time after a trial. The caller has dropped the earlier engine; where
/// its thread is still in a call of the driver the GPU is not free, and opening fails.
fn opener(
    watch: Arc<Watch>,
    sharers: Sharers,
) -> impl FnMut(&FieldPlan, &SensorRing) -> Result<Box<dyn FieldEngine>, Loss> + Send {
    let mut own: Option<Box<dyn Fn() -> bool + Send>> = None;
    move |plan, sensors| {
        if own.as_ref().is_some_and(|ended| !ended()) {
            return Err(Loss::Timeout { call: "the lost device's last call" });
        }
        // Engines are opened one after the other.
        let mut sharing = sharers.0.lock().unwrap_or_else(PoisonError::into_inner);
        sharing.ended.retain(|ended| !ended());
        if own.is_some() && sharing.ended.is_empty() {
            // The context may be the broken one: everything starts again.
            let found = probe().map_err(|_| Loss::Error { call: "probing" })?;
            Gpu::reset(&found, &watch).map_err(|error| Loss::Error { call: error.call.name() })?;
        }
        let is_tried = sharing.tried.contains(plan);
        let mut open = |plan: &FieldPlan| {
            let engine =
                CudaEngine::open_with(plan, 1, watch.clone(), Some(sensors)).map_err(|unfit| unfit.loss())?;
            own = Some(Box::new(engine.ended()));
            sharing.ended.push(Box::new(engine.ended()));
            Ok(engine)
        };
        if !is_tried {
            trial::run(plan, &mut open)?;
        }
        let engine = open(plan)?;
        if !is_tried {
            sharing.tried.push(plan.clone());
        }
        Ok(Box::new(engine))
    }
}
