//! What the system grants a real-time thread: priority, locked memory, a core. Requested, read back,
//! reported; a refusal is fatal only if the board says `strict`.

pub mod descriptors;
pub mod flock;
pub mod grant;
pub mod heap;
pub mod pages;
pub mod room;
pub mod signals;
pub mod triple_buffer;
pub mod sync;

pub use grant::{
    Granted, Policy, Refusal, Request, Role, become_real_time, become_real_time_on, stay_on, touch_stack,
};

/// What the board requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RtPlan {
    /// A refusal ends the program (exit 77) instead of only being reported.
    pub strict: bool,
    /// SCHED_FIFO priority of the tick thread (bus: +5, field: none); 0 requests none.
    pub priority: u8,
    /// Core of the tick thread; `None`: wherever.
    pub cpu: Option<usize>,
    /// Lock all memory.
    pub lock_memory: bool,
}
