//! How long a thread, or the whole process, has kept a processor busy.

use crate::base::time::Span;
use rustix::time::{ClockId, clock_gettime};

/// Processor time of the calling thread so far.
pub fn thread_time() -> Span {
    busy(ClockId::ThreadCPUTime)
}

/// Processor time of all threads of this process so far.
pub fn process_time() -> Span {
    busy(ClockId::ProcessCPUTime)
}

fn busy(clock: ClockId) -> Span {
    let time = clock_gettime(clock);
    Span::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
