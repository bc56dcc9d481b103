//! Holographic memory: vectors of real numbers that are bound to each other by circular convolution,
//! superposed by addition and retrieved by cosine similarity (holographic reduced representations, Plate
//! 1995). Maths, order of arithmetic and error bounds: `docs/memory.md`.
//!
//! Read `dim` and `fault`, then `ops`; below that `fft`, `convolve` and `reduce`. All arithmetic that the
//! robot repeats is f32 in an order that depends on shapes alone: every SIMD level and batch size gives the
//! same bits. One-time work (vectors from a seed, powers, inverses) is f64, rounded at the end.
//!
//! `gpu` does the same on a GPU, bit for bit. `choice` measures from which batch size the GPU is faster, and
//! `dispatch` sends each batch to the processor or to the GPU.
//!
//! `map` decides what a robot remembers, and when. Nothing here belongs in the tick.

pub mod dim;
pub mod fault;
pub mod ops;
pub mod vector;
pub mod nearest;
pub mod store;
pub mod spatial;
pub mod episodic;
pub mod gpu;
pub mod choice;
pub mod dispatch;
pub mod map;
mod convolve;
mod fft;
mod reduce;
mod spectrum;

pub use dim::Dim;
pub use dispatch::{Answered, Dispatcher};
pub use fault::Fault;
pub use nearest::{Best, Match};
pub use ops::{Length, Verb, Workspace};
pub use store::{Store, Usage};
