//! The processor as a place to compute, the counterpart of `gpu`: vector instructions behind one interface,
//! and a fixed pool of threads. Knows no field and no memory; both compute with it.

pub(crate) mod pool;
pub(crate) mod simd;

pub use simd::{Half, Level};
