//! `bench field --engine cuda`: the part of the report that only a GPU has.

use super::field::refused;
use super::{cut_short, on_a_thread, progress};
use crate::base::plan::{FieldPlan, QualityLevel};
use crate::base::time::Span;
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::deploy::bench::{BenchFault, DeviceBench, DeviceFigures};
use crate::field::DeviceTimes;
use crate::field::cuda::DeviceFacts;
use serde::Serialize;
use std::collections::BTreeMap;

/// The JSON keys that only a GPU engine reports.
#[derive(Debug, Serialize)]
pub(super) struct DeviceReport {
    /// The CPU emulates the GPU, so no figure is a measurement.
    emulated: bool,
    device: String,
    /// CUDA version of the driver.
    driver: String,
    capability: String,
    multiprocessors: u32,
    /// Robots per launch.
    batch: usize,
    /// Where the kernels came from.
    image: String,
    /// How long loading the kernels took.
    image_ms: f64,
    kernels: Vec<Kernel>,
    /// Where the time of a cycle goes.
    device_times: BTreeMap<&'static str, Part>,
    /// `bytes_per_cycle` divided by the median time of the kernels, GB (10^9) per second.
    achieved_gbps: Option<f64>,
    /// `achieved_gbps` as a share of `copy_gbps`.
    share_of_copy: Option<f64>,
    /// The bandwidth of evolve and features when stages run one after another, as a share of `copy_gbps`.
    evolve_share_of_copy: Option<f64>,
    /// Time to launch an empty graph and wait for it.
    launch_and_wait_us: Option<f64>,
    /// Copies between host and device: 0, because kernels use the host's memory in place.
    transfers_per_cycle: Option<f64>,
    /// Bytes that a save copies from the device; no row of the bank is among them.
    bytes_per_save: Option<u64>,
    /// Driver calls.
    calls_per_cycle: Option<f64>,
    /// Allocations on the device, and page-locked ones on the host, in total over all counted cycles.
    device_allocations: u64,
    /// Page-locked memory of the host, MB (10^6).
    pinned_mb: f64,
    /// Processor time divided by elapsed time, with a cycle every 10 ms; 1 is one core.
    host_cpu_share: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Kernel {
    name: String,
    registers: u32,
    spilled_bytes: u32,
    shared_bytes: u32,
}

#[derive(Debug, Serialize)]
struct Part {
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

/// Measures `robots` robots of `plan` for `length`.
pub(super) fn measure(
    plan: &FieldPlan,
    robots: usize,
    quality: QualityLevel,
    length: Span,
) -> Result<(DeviceBench, DeviceFigures), Failure> {
    let interrupt = Interrupt::watch()?;
    let flag = interrupt.flag();
    let bar = progress();
    let measured = on_a_thread(|| -> Result<_, BenchFault> {
        let mut bench = DeviceBench::build(plan, robots)?;
        let mut figures = DeviceFigures::new();
        bench.measure(quality, length, &mut figures, &flag, &mut |passed| {
            bar.set_position((1000.0 * passed.as_secs_f64() / length.as_secs_f64()) as u64);
        })?;
        Ok((bench, figures))
    })?
    .map_err(refused);
    bar.finish_and_clear();
    if interrupt.asked() {
        return Err(cut_short());
    }
    measured
}

impl DeviceReport {
    pub(super) fn new(bench: &DeviceBench, figures: &DeviceFigures) -> DeviceReport {
        let DeviceFacts { found, image, image_took, pinned_bytes, robots, kernels, .. } = bench.facts();
        let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
        let kernels = kernels.iter().map(|kernel| Kernel {
            name: kernel.name.clone(),
            registers: kernel.registers,
            spilled_bytes: kernel.spilled_bytes,
            shared_bytes: kernel.shared_bytes,
        });
        let part = |at| Part { p50_us: figures.part_us(at, 0.5), p99_us: figures.part_us(at, 0.99) };
        DeviceReport {
            emulated: bench.is_emulated(),
            device: found.name.clone(),
            driver: version(found.driver),
            capability: version(found.capability),
            multiprocessors: found.multiprocessors,
            batch: *robots,
            image: image.clone(),
            image_ms: image_took.as_secs_f64() * 1e3,
            kernels: kernels.collect(),
            device_times: DeviceTimes::PARTS.iter().enumerate().map(|(at, name)| (*name, part(at))).collect(),
            achieved_gbps: figures.achieved_gbps(),
            share_of_copy: figures.share_of_copy(),
            evolve_share_of_copy: figures.evolve_share_of_copy(),
            launch_and_wait_us: figures.launch_and_wait_us(),
            transfers_per_cycle: figures.transfers_per_cycle(),
            bytes_per_save: figures.bytes_per_save,
            calls_per_cycle: figures.calls_per_cycle(),
            device_allocations: figures.allocations,
            pinned_mb: *pinned_bytes as f64 / 1e6,
            host_cpu_share: figures.host_cpu_share(),
        }
    }

    /// Prints the lines that precede all figures.
    pub(super) fn say_first(&self) {
        if self.emulated {
            say!("EMULATED: the CPU emulates the GPU, so no figure below is a measurement");
        }
        let robots = if self.batch == 1 { "robot" } else { "robots" };
        say!(
            "{} (compute {}, {} multiprocessors, driver for CUDA {}), {} {robots} per launch; kernels from {}, loaded in {:.0} ms",
            self.device,
            self.capability,
            self.multiprocessors,
            self.driver,
            self.batch,
            self.image,
            self.image_ms
        );
    }

    /// Prints the lines that follow the figures common to every engine.
    pub(super) fn print(&self) {
        say!("where the time of a cycle goes, p50 and p99 (kernels timed by the device's own clock):");
        for name in DeviceTimes::PARTS {
            if let Some(Part { p50_us: Some(p50), p99_us: Some(p99) }) = self.device_times.get(name) {
                say!("  {name:<21}{p50:>7.1}  {p99:>7.1}");
            }
        }
        if let (Some(gbps), Some(share)) = (self.achieved_gbps, self.share_of_copy) {
            say!(
                "kernels move {gbps:.1} GB/s, {:.0} % of a copy on the device (bytes computed, time measured)",
                100.0 * share
            );
        }
        if let Some(share) = self.evolve_share_of_copy {
            say!(
                "evolve and features alone, one after another: {:.0} % of a copy (bytes computed, time measured)",
                100.0 * share
            );
        }
        if let Some(us) = self.launch_and_wait_us {
            say!("launching an empty graph and waiting for it: {us:.1} us");
        }
        if let (Some(calls), Some(copies)) = (self.calls_per_cycle, self.transfers_per_cycle) {
            say!(
                "{calls:.1} driver calls and {copies:.1} copies per cycle; {} device allocations in all cycles",
                self.device_allocations
            );
        }
        if let Some(bytes) = self.bytes_per_save {
            say!("saving the brain copies {:.1} MB from the device", bytes as f64 / 1e6);
        }
        if let Some(share) = self.host_cpu_share {
            say!("at 100 cycles per second: {:.1} % of a core", 100.0 * share);
        }
        say!("{:.1} MB of the host's memory are page-locked", self.pinned_mb);
        say!("kernel               registers  spilled   shared, bytes");
        for Kernel { name, registers, spilled_bytes, shared_bytes } in &self.kernels {
            say!("  {name:<19}{registers:>9}{spilled_bytes:>9}{shared_bytes:>9}");
        }
    }
}
