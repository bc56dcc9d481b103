//! The trial of a GPU before it is trusted: the GPU computes a few cycles alongside the CPU engine, with the
//! grid, the rates and the storage of the plan. The trial catches a driver, a compiler or a chip that
//! computes wrong results before they reach the motors. It does not measure speed.

use super::cpu::CpuEngine;
use super::cuda::CudaEngine;
use super::shape::{FEATURES, PATTERN};
use super::{Failure, FieldEngine, FieldInput, Inspect, Loss};
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::{FieldPlan, QualityLevel, Shape, Storage};
use crate::base::seed::{Stream, uniform};

/// The quality levels of the trial's cycles: full and half grid, both switches between them, and groups that
/// are not stepped.
const QUALITY_LEVELS: [u8; 8] = [0, 0, 4, 4, 5, 5, 0, 0];
/// Patterns and bank rows in the trial: enough for a blend and for a sweep in two parts.
const MEMORIES: usize = 4;
/// Largest permitted difference of a feature or a score. Engines in f32 differ by about 2e-5.
const TOLERANCE: f32 = 1e-4;
/// The tolerance for cells in half precision: now and then, one of the cells averaged into a feature is
/// rounded the other way.
const HALF_TOLERANCE: f32 = 5e-4;

/// Runs the engine that `open` returns alongside the CPU engine. `Loss::Wrong` if their results differ.
pub fn run(plan: &FieldPlan, open: impl FnOnce(&FieldPlan) -> Result<CudaEngine, Loss>) -> Result<(), Loss> {
    let plan = small(plan);
    let tolerance = if plan.storage == Storage::F16 { HALF_TOLERANCE } else { TOLERANCE };
    let (mut host, mut device) = (CpuEngine::new(&plan), open(&plan)?);
    load(&plan, |weights| host.set_readout(weights) && device.set_readout(weights));
    let volume: Vec<f32> = (0..PATTERN * plan.shape.cells()).map(|i| draw(i as u64) * 0.5).collect();
    let context = std::array::from_fn(|i| draw(i as u64));
    host.store_pattern(0, &volume, &context, 1.0);
    device.store_pattern(0, &volume, &context, 1.0);
    for (cycle, quality) in QUALITY_LEVELS.into_iter().enumerate() {
        let input = input(cycle as u64, QualityLevel::new(quality).unwrap_or(QualityLevel::BEST));
        let expected = host.cycle(&input).map_err(|_| Loss::Wrong)?;
        let answer = device.cycle(&input).map_err(|failure| match failure {
            Failure::Lost(loss) => loss,
            Failure::Refused(_) | Failure::NotFinite | Failure::Missed => Loss::Wrong,
        })?;
        let scores = answer.scores.iter().zip(&expected.scores);
        let features = device.features();
        let all = scores.chain(features.iter().zip(host.features()));
        // NaN always counts as different.
        let mut near = all.map(|(a, b)| (a - b).abs() <= tolerance);
        if features.len() != FEATURES || !near.all(|near| near) {
            return Err(Loss::Wrong);
        }
    }
    if device.experiences() != host.experiences() { Err(Loss::Wrong) } else { Ok(()) }
}

/// The plan with a small pattern library and a small experience bank.
fn small(plan: &FieldPlan) -> FieldPlan {
    let shape = Shape { patterns: MEMORIES, bank: MEMORIES, ..plan.shape };
    FieldPlan { shape, threads: 1, cpus: Vec::new(), ..plan.clone() }
}

/// Loads a read-out whose scores are means of many features, so that it does not amplify differences.
fn load(plan: &FieldPlan, mut put_in: impl FnMut(&[f32]) -> bool) {
    let weight = |i: usize| draw(i as u64) / 64.0;
    let weights: Vec<f32> = (0..plan.shape.weights()).map(weight).collect();
    let taken = put_in(&weights);
    debug_assert!(taken, "the read-out has the plan's size");
}

/// A fixed pseudo-random number in -1..1.
fn draw(i: u64) -> f32 {
    (2.0 * uniform(0, Stream::Patterns, i) - 1.0) as f32
}

/// Sensors that change, and a reward, so that something is learned and stored.
fn input(cycle: u64, quality: QualityLevel) -> FieldInput {
    let mut sensors = [0.0; MAX_SENSORS];
    for (i, sensor) in sensors.iter_mut().enumerate() {
        *sensor = 0.8 * (0.7 * cycle as f32 + i as f32).sin();
    }
    FieldInput { cycle, sensors, reward: 0.5, quality, place: None }
}
