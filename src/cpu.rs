//! The processor as a place to compute, the twin of `gpu`: vector instructions behind one face, and a pool of
//! threads that waits long for none of them. Knows no field and no memory; both compute with it.

pub(crate) mod pool;
pub(crate) mod simd;

pub use simd::{Half, Level};
