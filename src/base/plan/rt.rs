//! What a board requests from the system for its real-time threads.

/// Real-time settings of a board.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RtPlan {
    /// Whether a request that the system refuses ends the program (exit 77) instead of only being reported.
    pub strict: bool,
    /// SCHED_FIFO priority of the tick thread; 0 requests none. Bus threads get 5 more; the field's thread is
    /// not real-time.
    pub priority: u8,
    /// Core of the tick thread; `None`: any.
    pub cpu: Option<usize>,
    /// Lock all memory.
    pub lock_memory: bool,
}
