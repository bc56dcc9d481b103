//! The processor as a place to compute, the counterpart of `gpu`: vector instructions behind one interface,
//! and a thread pool that never waits long for a thread. Knows no field and no memory; both compute with it.

pub(crate) mod pool;
pub(crate) mod simd;

pub use simd::{Half, Level};
