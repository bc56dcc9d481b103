//! What the system grants a real-time thread: priority, locked memory, a core. Each is requested, read back
//! and reported; a refusal is fatal only if the board says `strict`.

pub mod descriptors;
pub mod flock;
pub mod grant;
pub mod heap;
pub mod pages;
mod process_usage;
mod processor;
pub mod room;
pub mod signals;
pub mod triple_buffer;
pub mod words;
pub mod sync;

pub use process_usage::{ProcessUsage, UsageMeter};
pub use processor::{process_time, thread_time};

pub use grant::{
    Granted, Policy, Refusal, Request, Role, become_real_time, become_real_time_on, stay_on, touch_stack,
    wake_on_time,
};
