//! `[targets]`: the targets of `ganglion bench all`. All keys are optional.

use super::{Periods, millis};
use crate::base::plan::{GpuTargets, Targets};
use crate::deploy::board::reader::Section;

/// Limits of a ratio. A larger one is meaningless: if the tail is a thousand times the median, the machine
/// was suspended.
const RATIO: std::ops::RangeInclusive<f64> = 0.1..=1000.0;

/// Limits of a share. Below a thousandth there is nothing to measure. A share may exceed 1: a cycle whose
/// data stay in a cache can be faster than a copy, and a process can keep several cores busy.
const SHARE: std::ops::RangeInclusive<f64> = 0.001..=10.0;
/// Limits for a share of a whole.
const PART: std::ops::RangeInclusive<f64> = 0.001..=1.0;
/// Limits of a GPU cycle in microseconds: from less than a kernel launch to one second.
const CYCLE_US: std::ops::RangeInclusive<f64> = 1.0..=1e6;

/// Reads the section.
pub fn targets(section: &Section<'_>, periods: &Periods) -> Targets {
    let targets = Targets {
        tick_p99_us: section.real("tick_p99_us", 0.1..=1e6).optional(),
        wake_ratio: section.real("wake_ratio", RATIO).optional(),
        cycle_p50: section.millis("cycle_p50_ms", 0.001..=60_000.0).optional(),
        cycle_p99: section.millis("cycle_p99_ms", 0.001..=60_000.0).optional(),
        tail_ratio: section.real("tail_ratio", 1.0..=1000.0).optional(),
        level5_ratio: section.real("level5_ratio", RATIO).optional(),
        f16_ratio: section.real("f16_ratio", RATIO).optional(),
        memory_mb: section.real("memory_mb", 0.1..=1e6).optional(),
        sensor_to_motor: section.millis("sensor_to_motor_ms", 0.01..=1000.0).optional(),
        gpu: gpu(&section.section("gpu")),
    };
    if let (Some(p50), Some(p99)) = (targets.cycle_p50, targets.cycle_p99)
        && p50 > p99
    {
        let rule = format!("found {} ms; must not be above cycle_p99_ms ({} ms)", millis(p50), millis(p99));
        section.misfit("cycle_p50_ms", rule);
    }
    if let Some(p99) = targets.cycle_p99.filter(|p99| periods.sound && *p99 > periods.dt) {
        let (p99, dt) = (millis(p99), millis(periods.dt));
        let rule =
            format!("{p99} ms is above the field's period ({dt} ms): a cycle that meets it may be late");
        section.warn("cycle_p99_ms", rule);
    }
    targets
}

/// Reads `[targets.gpu]`.
fn gpu(section: &Section<'_>) -> GpuTargets {
    GpuTargets {
        cycle_us: section.real("cycle_us", CYCLE_US).optional(),
        cycle_f16_us: section.real("cycle_f16_us", CYCLE_US).optional(),
        batch_us: section.real("batch_us", CYCLE_US).optional(),
        copy_share: section.real("copy_share", SHARE).optional(),
        evolve_us: section.real("evolve_us", CYCLE_US).optional(),
        gradients_us: section.real("gradients_us", CYCLE_US).optional(),
        motor_us: section.real("motor_us", CYCLE_US).optional(),
        overhead_us: section.real("overhead_us", CYCLE_US).optional(),
        match_us: section.real("match_us", CYCLE_US).optional(),
        memory_mb: section.real("memory_mb", 0.1..=1e6).optional(),
        host_share: section.real("host_share", SHARE).optional(),
        hrr_bind_us: section.real("hrr_bind_us", CYCLE_US).optional(),
        hrr_pair_us: section.real("hrr_pair_us", CYCLE_US).optional(),
        hrr_batch_us: section.real("hrr_batch_us", CYCLE_US).optional(),
        hrr_superpose_us: section.real("hrr_superpose_us", CYCLE_US).optional(),
        hrr_transfer_share: section.real("hrr_transfer_share", PART).optional(),
        hrr_memory_share: section.real("hrr_memory_share", PART).optional(),
    }
}
