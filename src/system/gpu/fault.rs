//! Faults that can be injected into a GPU, a real one or the stand-in.

/// A fault of the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuFault {
    /// The next call to the driver fails.
    Error,
    /// A call to the driver does not return.
    Stuck,
    /// Launched work never ends.
    Hang,
    /// Launched work takes ten times as long, as if clocks had dropped or another process used the GPU.
    Slow,
    /// The context is lost: every call fails from now on.
    Lost,
    /// Allocations on the device fail: it is out of memory.
    Memory,
}
