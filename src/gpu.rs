//! A GPU through its driver: found, or said why not; memory, streams, events, captured graphs, a kernel
//! image. Knows no field. This is the map of the room; the files stand in the order to read them in.
//!
//! [`probe`] says whether there is a GPU; [`Gpu::open`] opens it on the calling thread, where all that is made
//! of it stays. [`Pool`] and [`Pinned`] are taken once, at the start; a [`Stream`] gets copies and launches, a
//! captured [`Graph`] of them is replayed with one call, and an [`Event`] tells, when asked, whether it was
//! passed. Nothing here waits for the device but giving things back.
//!
//! Every call goes through one line (`call.rs`), where it is noted in the [`Watch`] that other threads look at,
//! and where an injected [`GpuFault`] strikes, on a real GPU as on the stand-in of `kernels/emulator`.
//!
//! In the steady state (copies, fills, launches, replays, records, questions) no call allocates on the host.
//! What is made of a GPU gives itself back when dropped, in any order; after [`Gpu::reset`] it only forgets.
//! Types of cudarc do not leave this room.

mod fault; // what can be made to go wrong on purpose
mod driver; // the library and its functions
mod error; // which call, which code
mod watch; // what other threads see, and inject
mod call; // the one place that calls pass through
mod probe; // is there a GPU, or why not
mod context; // opening, and starting anew
mod flight; // what of host memory is being copied
mod memory; // one pool, pinned host memory
mod event; // marks that are asked, and times
mod stream; // copies, launches, marks, in order
mod graph; // captured once, replayed
mod image; // kernels: from a fatbin, the cache, or PTX
mod fatbin;
mod cache;
mod installed; // which kernels: those of a release, or the text in the program
mod link;
mod trusted; // files that nobody else can have written
pub mod elf; // machine code that is whole
mod mark; // what is being loaded, in case the process ends in it

pub use cache::cache_folder;
pub use context::Gpu;
pub use driver::Call;
pub use error::GpuError;
pub use event::Event;
pub use fault::GpuFault;
pub use graph::Graph;
pub use image::{Image, ImageFiles, Kernel, KernelFacts, Source};
pub use installed::image_files;
pub use memory::{Look, LookMut, Pinned, Pool};
pub use probe::{Absence, Found, probe};
pub use stream::{Launch, Priority, Stream};
pub use watch::{Counts, Watch};
