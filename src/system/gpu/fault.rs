//! Faults that can be injected into a GPU, on a real one as on the stand-in.

/// A fault of the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuFault {
    /// The next call of the driver fails.
    Error,
    /// A call of the driver does not come back.
    Stuck,
    /// What was launched never ends.
    Hang,
    /// What was launched takes ten times as long: clocks have dropped, another process computes.
    Slow,
    /// The context is lost: every call fails from now on.
    Lost,
    /// There is no memory to begin with.
    Memory,
}
