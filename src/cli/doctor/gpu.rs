//! The GPU, or why there is none: makes the same query as an engine does when it starts. The query runs on a
//! thread that is abandoned if a broken driver does not answer.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::{Finding, names};
use crate::field::cuda::{AWAKE, NAP};
use crate::system::gpu::{GpuInfo, probe};

/// Longest time that a driver may take to start; on a machine with many GPUs and no persistence daemon it
/// takes seconds.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The `gpu` object of `--json`: either the first five fields or the last one.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Gpu {
    pub(super) name: Option<String>,
    /// CUDA version of the driver.
    pub(super) driver: Option<String>,
    /// Compute capability.
    pub(super) chip: Option<String>,
    pub(super) multiprocessors: Option<u32>,
    pub(super) memory_mib: Option<usize>,
    /// Why there is no GPU.
    pub(super) absence: Option<String>,
}

/// Queries the driver.
pub(super) fn ask() -> Gpu {
    let (tell, told) = mpsc::channel();
    // The thread owns everything that it uses: if it never returns, it ends with the program.
    let thread = thread::Builder::new().name("gpu probe".into()).spawn(move || {
        let _ = tell.send(probe().map_err(|absence| absence.to_string()));
    });
    let silent = || Err(format!("the CUDA driver did not answer within {} s", TIMEOUT.as_secs()));
    let answer = match thread {
        Ok(_) => told.recv_timeout(TIMEOUT).unwrap_or_else(|_| silent()),
        Err(error) => Err(format!("cannot start a thread to query the CUDA driver: {error}")),
    };
    match answer {
        Ok(found) => Gpu::of(&found),
        Err(absence) => Gpu { absence: Some(absence), ..Gpu::default() },
    }
}

impl Gpu {
    fn of(found: &GpuInfo) -> Gpu {
        let version = |(major, minor)| format!("{major}.{minor}");
        Gpu {
            name: Some(found.name.clone()),
            driver: Some(version(found.driver)),
            chip: Some(version(found.capability)),
            multiprocessors: Some(found.multiprocessors),
            memory_mib: Some(found.memory_bytes >> 20),
            absence: None,
        }
    }
}

/// The printed line, with the device nodes below `root`. A missing GPU is not a fault: the processor then
/// computes the field.
pub(super) fn finding(root: &Path, gpu: &Gpu) -> Finding {
    // Discrete cards, then the Jetson's integrated GPU.
    let nodes: Vec<String> = names(root, "dev")
        .into_iter()
        .filter(|name| name.starts_with("nvidia") || name.starts_with("nvhost") || name == "nvmap")
        .collect();
    let nodes = if nodes.is_empty() { "no device node".to_string() } else { nodes.join(" ") };
    let Gpu { name: Some(name), driver: Some(driver), chip: Some(chip), .. } = gpu else {
        let why = gpu.absence.as_deref().unwrap_or("reason unknown");
        return Finding::ok("gpu", format!("none, {nodes}: {why}"));
    };
    let (processors, memory) = (gpu.multiprocessors.unwrap_or(0), gpu.memory_mib.unwrap_or(0));
    let facts = format!("chip {chip}, {processors} multiprocessors, {memory} MiB, driver with CUDA {driver}");
    // How the engine's thread waits for a cycle, which takes time on a core.
    let wait = format!(
        "the engine's thread busy-polls for at most {} us per cycle, then polls every {} us",
        AWAKE.as_micros_f64(),
        NAP.as_micros_f64()
    );
    Finding::ok("gpu", format!("{name}, {facts}, {nodes}; {wait}"))
}
