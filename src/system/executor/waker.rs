//! How the tick wakes a worker: a flag and, if the worker has a thread, an unpark. Waking never blocks, locks
//! or allocates. `scripts/check-loom` tries every order in which two threads can meet here.

use crate::system::rt::sync::{AtomicBool, OnceLock, Ordering, Thread, fence, thread};

/// The tick's end and the worker's.
#[derive(Debug, Default)]
pub struct Waker {
    rung: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Waker {
    /// Wakes the worker, or makes its next wait end at once.
    pub fn wake(&self) {
        // A swap, as in `answered`: with a store, loom does not know whether it came before that or after.
        self.rung.swap(true, Ordering::Release);
        // Either the thread now attaching to this waker sees the flag, or it is seen here and unparked.
        fence(Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
    /// The calling thread is the one that this waker wakes from now on.
    pub(crate) fn answer_here(&self) {
        let _ = self.thread.set(thread::current());
        fence(Ordering::SeqCst); // as in `wake`
    }
    /// Whether it was rung since the last call.
    pub(crate) fn answered(&self) -> bool {
        self.rung.swap(false, Ordering::Acquire)
    }
}
