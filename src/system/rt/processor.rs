//! How long a thread has kept a processor busy.

use crate::base::time::Span;
use rustix::time::{ClockId, clock_gettime};

/// Processor time that the calling thread took so far.
pub fn thread_time() -> Span {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Span::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
