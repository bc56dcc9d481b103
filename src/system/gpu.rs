//! A GPU through its driver: detection, or the reason why there is none; memory, streams, events, captured
//! graphs, a kernel image. It knows nothing about the field. This file lists the module's files in reading
//! order.
//!
//! [`probe`] finds out whether there is a GPU; [`Gpu::open`] opens it on the calling thread, where everything
//! created from it stays. [`Pool`] and [`Pinned`] are allocated once, at the start, and [`Mapped`] registers
//! memory of the program with the device, which then uses it in place; a [`Stream`] takes copies and
//! launches, one call replays a captured [`Graph`] of them, and an [`Event`] can be polled for whether the
//! device has passed it. Nothing here waits for the device except releasing resources.
//!
//! Every call on an opened GPU goes through `call.rs`, which notes it in the [`Watch`] for other threads and
//! applies an injected [`GpuFault`], both on a real GPU and on the stand-in of `kernels/emulator`.
//!
//! In the steady state (copies, fills, launches, replays, records, polls) no call allocates on the host.
//! GPU resources are released when dropped, in any order, and the context with the last of them.
//! Types of cudarc do not leave this module.

mod fault; // faults that can be injected
mod driver; // the library and its functions
mod error; // which call, which code
mod watch; // what other threads see, and inject
mod call; // the one place that calls pass through
mod probe; // is there a GPU, or why not
mod context; // opening
mod flight; // which host memory is being copied
mod memory; // one pool, pinned host memory
mod mapped; // host memory of the program that kernels use in place
mod event; // events to query, and times between them
mod stream; // copies, launches, events, in order
mod graph; // captured once, replayed
mod image; // kernels: from a fatbin, or PTX that the driver compiles
mod fatbin; // machine code: complete, from our sources, written by no other user
mod mark; // marks that a fatbin is being loaded, in case that crashes the process
mod nvml; // temperature, clocks, power and load, from the driver's management library
mod installed; // which kernels: those of a release, or the PTX in the program

pub use context::Gpu;
pub use driver::Call;
pub use error::GpuError;
pub use event::Event;
pub use fault::GpuFault;
pub use graph::Graph;
pub use image::{Image, ImageFiles, Kernel, KernelFacts, Source};
pub use installed::{cache_folder, image_files};
pub use mapped::Mapped;
pub use memory::{Look, LookMut, Pinned, Pool};
pub use nvml::{Nvml, NvmlFigures, NvmlMissing};
pub use probe::{Absence, GpuInfo, probe};
pub use stream::{Launch, Priority, Stream};
pub use watch::{Counts, Watch};
