//! What the engine reports about itself and its device: which device, how much memory, how fast; or why there
//! is no engine.

use super::CudaEngine;
use super::launcher::MOST_ROBOTS;
use super::launches::Kernels;
use super::line::NoAnswer;
use crate::base::time::Span;
use crate::field::Loss;
use crate::system::gpu::{Absence, Call, Counts, GpuInfo};
use std::fmt;

/// What was waited for, if the device's thread is not in a driver call.
const A_CYCLE: &str = "the result of a cycle";

/// Why there is no CUDA engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfit {
    /// There is no usable GPU.
    Absent(Absence),
    /// There is a GPU, but it could not be opened.
    Silent(NoAnswer),
    /// More robots than a launch can hold, or none.
    Robots {
        /// The requested number.
        asked: usize,
    },
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Absent(absence) => absence.fmt(f),
            Unfit::Silent(NoAnswer::Failed(error)) => write!(f, "cannot open the GPU: {error}"),
            Unfit::Silent(NoAnswer::Late) => write!(f, "the GPU's driver hangs while opening the GPU"),
            Unfit::Silent(NoAnswer::Gone) => write!(f, "the GPU's thread could not be started, or has ended"),
            Unfit::Robots { asked } => write!(f, "a batch has 1 to {MOST_ROBOTS} robots, not {asked}"),
        }
    }
}

impl std::error::Error for Unfit {}

impl Unfit {
    /// This reason as a [`Loss`].
    pub fn loss(&self) -> Loss {
        match self {
            Unfit::Silent(silence) => loss(*silence, None),
            Unfit::Absent(_) | Unfit::Robots { .. } => Loss::Error { call: "probing" },
        }
    }
}

/// Translates a missing answer into a [`Loss`]. `current`: the call that the device's thread is in.
pub fn loss(silence: NoAnswer, current: Option<Call>) -> Loss {
    match silence {
        NoAnswer::Failed(error) if error.is_lost() => Loss::ContextLost { call: error.call.name() },
        NoAnswer::Failed(error) if error.is_memory() => Loss::Memory { call: error.call.name() },
        NoAnswer::Failed(error) => Loss::Error { call: error.call.name() },
        NoAnswer::Late => Loss::Timeout { call: current.map_or(A_CYCLE, Call::name) },
        // Until it is asked to end, the thread ends only by a panic.
        NoAnswer::Gone => Loss::Panicked,
    }
}

/// Facts about a kernel in the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFacts {
    /// Its name.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes per thread that did not fit into registers.
    pub spilled_bytes: u32,
    /// Bytes of shared memory per block.
    pub shared_bytes: u32,
}

/// Facts about the engine on its device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFacts {
    /// The GPU.
    pub found: GpuInfo,
    /// Where the kernels came from: `fatbin`, `cache`, `ptx`.
    pub image: String,
    /// How long loading them took.
    pub image_took: Span,
    /// Bytes on the device.
    pub device_bytes: usize,
    /// Page-locked bytes of the host.
    pub pinned_bytes: usize,
    /// Robots in a launch.
    pub robots: usize,
    /// The kernels.
    pub kernels: Vec<KernelFacts>,
}

/// Where the time of a cycle went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeviceTimes {
    /// Handing the cycle over to the device's thread and its result back to the caller, and submitting its
    /// work to the driver, on the host's clock.
    pub queue: Span,
    /// From the first kernel to the answer, on the device's clock.
    pub kernels: Span,
    /// The rest of the total: until the device starts, and from the answer until the device's thread sees it.
    pub wake: Span,
}

impl DeviceTimes {
    /// Names of the parts, in order.
    pub const PARTS: [&str; 3] = ["queue", "kernels", "wake"];
    /// Index of `kernels` among the parts.
    pub const KERNELS: usize = 1;

    /// The parts, in order.
    pub fn parts(&self) -> [Span; DeviceTimes::PARTS.len()] {
        [self.queue, self.kernels, self.wake]
    }
}

impl CudaEngine {
    /// Facts about its device.
    pub fn device_facts(&self) -> Option<DeviceFacts> {
        let (plan, found) = (self.plan.clone(), self.found.clone());
        self.ask(move |brains| {
            let image = brains.launcher().image();
            let facts = |name: String| -> Result<KernelFacts, crate::system::gpu::GpuError> {
                let facts = image.facts(&name)?;
                Ok(KernelFacts {
                    name,
                    registers: facts.registers,
                    spilled_bytes: facts.local_bytes,
                    shared_bytes: facts.shared_bytes,
                })
            };
            let kernels = Kernels::names(&plan).into_iter().map(facts).collect::<Result<_, _>>()?;
            let (device_bytes, pinned_bytes) = brains.memory();
            Ok(DeviceFacts {
                found,
                image: image.source().to_string(),
                image_took: image.took(),
                device_bytes,
                pinned_bytes,
                robots: brains.most(),
                kernels,
            })
        })
    }

    /// Where the time of the last cycle went.
    pub fn device_times(&self) -> DeviceTimes {
        let times = &self.times;
        let handed = self.round.less(times.whole);
        let queue = handed + times.submit;
        DeviceTimes { queue, kernels: times.kernels, wake: self.round.less(queue + times.kernels) }
    }

    /// Driver calls since the start.
    pub fn device_counts(&self) -> Counts {
        self.line.watch().counts()
    }

    /// Times one copy of `bytes` within the device's memory, on its clock.
    pub fn device_copy(&self, bytes: usize) -> Option<Span> {
        self.ask(move |brains| brains.launcher().time_copy(bytes)).flatten()
    }

    /// Times a graph that only records an event, from its launch until the host sees the event, on the host's
    /// clock.
    pub fn device_round_trip(&self) -> Option<Span> {
        self.ask(|brains| brains.launcher().time_nothing())
    }
}
