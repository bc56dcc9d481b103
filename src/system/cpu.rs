//! Computing on the processor, the counterpart of `gpu`: vector instructions behind one interface, and a
//! thread pool that never waits long for a thread. It knows nothing about the field or the memory; both use
//! it.

pub(crate) mod pool;
pub(crate) mod simd;

pub use simd::{Half, Level};
