//! The figures by which a GPU is judged: those of a full field for one robot, for 32 and for 64. The field's
//! size is the same for every board, so that devices can be compared. Without a GPU, or with an emulated one,
//! nothing is measured and the reason is returned.

use super::device::{DeviceBench, DeviceFigures};
use super::ended;
use super::field::BenchFault;
use crate::base::plan::{EngineKind, FieldPlan, Params, QualityLevel, Shape, Storage};
use crate::base::time::Span;
use crate::field::cuda::is_emulated;
use crate::system::gpu::probe;
use std::sync::atomic::AtomicBool;

/// The full field, for which boards state GPU targets.
const SHAPE: Shape = Shape { grid: 32, sensors: 16, motors: 5, patterns: 100, bank: 10_000 };
/// Time for each of the four measurements. Half of it goes to cycles and copies; even a slow GPU runs a
/// hundred cycles in that time.
const LENGTH: Span = Span::from_millis(2_000);

/// The measurement. Times are microseconds; an unavailable figure is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuFigures {
    /// The device.
    pub device: String,
    /// Median cycle of one robot in f32 storage.
    pub cycle_us: Option<f64>,
    /// Median cycle of one robot in f16 storage.
    pub cycle_f16_us: Option<f64>,
    /// Median cycle of 64 robots in f16 storage.
    pub batch_us: Option<f64>,
    /// Bandwidth of evolve and features for 32 robots, as a share of a copy's in the same run.
    pub copy_share: Option<f64>,
    /// Median time to evolve the field.
    pub evolve_us: Option<f64>,
    /// Median time of prediction, read-out and metrics.
    pub motor_us: Option<f64>,
    /// Time that a cycle takes besides its kernels: median of the cycle minus median of its kernels.
    pub overhead_us: Option<f64>,
    /// Median time to match the bank.
    pub match_us: Option<f64>,
    /// Memory on the device for one robot in f32 storage, bytes.
    pub memory_bytes: Option<usize>,
    /// Processor time divided by elapsed time at 100 cycles per second; f32 storage, one robot.
    pub host_share: Option<f64>,
    /// The error of a GPU that is present but failed. All figures are then `None` and miss their targets.
    pub fault: Option<String>,
}

/// The figures of this machine's GPU, or the reason why there are none.
pub fn gpu_figures(interrupted: &AtomicBool) -> Result<GpuFigures, String> {
    let found = probe().map_err(|absence| absence.to_string())?;
    if is_emulated(&found) {
        return Err(format!("the GPU '{}' is emulated on the CPU", found.name));
    }
    let device = found.name;
    let figures = figures(interrupted)
        .unwrap_or_else(|fault| GpuFigures { fault: Some(fault.to_string()), ..GpuFigures::default() });
    Ok(GpuFigures { device, ..figures })
}

/// All figures, without the device's name.
fn figures(interrupted: &AtomicBool) -> Result<GpuFigures, BenchFault> {
    let run = |storage, robots| measured(storage, robots, interrupted);
    let (one, memory_bytes) = run(Storage::F32, 1)?;
    let (halves, _) = run(Storage::F16, 1)?;
    let (crowd, _) = run(Storage::F32, 32)?;
    let (full, _) = run(Storage::F16, 64)?;
    Ok(GpuFigures {
        cycle_us: one.field.cycle_us(0.5),
        cycle_f16_us: halves.field.cycle_us(0.5),
        batch_us: full.field.cycle_us(0.5),
        copy_share: crowd.evolve_share_of_copy(),
        evolve_us: one.stage_us("evolve"),
        motor_us: one.stage_us("motor"),
        overhead_us: one.overhead_us(),
        match_us: one.stage_us("bank"),
        memory_bytes: Some(memory_bytes),
        host_share: one.host_cpu_share(),
        ..GpuFigures::default()
    })
}

/// The figures for `robots` robots, and the device memory they use. Empty if the user asked to end.
fn measured(
    storage: Storage,
    robots: usize,
    interrupted: &AtomicBool,
) -> Result<(DeviceFigures, usize), BenchFault> {
    let mut figures = DeviceFigures::new();
    if ended(interrupted) {
        return Ok((figures, 0));
    }
    let mut bench = DeviceBench::build(&plan(storage), robots)?;
    bench.measure(QualityLevel::BEST, LENGTH, &mut figures, interrupted, &mut |_| {})?;
    Ok((figures, bench.engine().memory_bytes()))
}

fn plan(storage: Storage) -> FieldPlan {
    FieldPlan {
        engine: EngineKind::Cuda,
        shape: SHAPE,
        params: Params::default(),
        seed: 1,
        dt: Span::from_millis(50),
        every_ticks: 1,
        threads: 1,
        cpus: Vec::new(),
        storage,
        learn: true,
        start: Vec::new(),
        correction: 1.0,
    }
}
