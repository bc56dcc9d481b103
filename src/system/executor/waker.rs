//! How the tick wakes a worker: a flag and, if the worker has a thread, an unpark. Waking never blocks, locks
//! or allocates. `scripts/check-loom` tries every interleaving of two threads here.

use crate::system::rt::sync::{AtomicBool, OnceLock, Ordering, Thread, fence, thread};

/// Shared by the tick and the worker.
#[derive(Debug, Default)]
pub struct Waker {
    signaled: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Waker {
    /// Wakes the worker, or makes its next wait end at once.
    pub fn wake(&self) {
        // A swap, as in `answered`: loom cannot order a plain store with that swap.
        self.signaled.swap(true, Ordering::Release);
        // Either the thread that is attaching to this waker sees the flag, or this call sees the thread and
        // unparks it.
        fence(Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
    /// From now on this waker wakes the calling thread.
    pub(crate) fn answer_here(&self) {
        let _ = self.thread.set(thread::current());
        fence(Ordering::SeqCst); // as in `wake`
    }
    /// Whether it was signaled since the last call.
    pub(crate) fn answered(&self) -> bool {
        self.signaled.swap(false, Ordering::Acquire)
    }
}
