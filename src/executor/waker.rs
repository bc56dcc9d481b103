//! How the tick wakes a worker: a flag and, where the worker has a thread, a nudge. Ringing never blocks, locks or
//! allocates. `scripts/check-loom` tries every order in which two threads can meet here.

use crate::rt::sync::{Arc, AtomicBool, OnceLock, Ordering, Thread, fence, thread};

/// The tick's end and the worker's.
///
/// A nudge is a system call, and on a core that sleeps it is most of what a tick costs. So the tick
/// nudges one worker only, the bus; the field's waker is left with its flag up, and the bus thread
/// nudges on behalf of the tick when it wakes ([`Waker::then`]). While the bus thread does not confirm
/// commands, the tick nudges the field itself.
#[derive(Debug, Default)]
pub struct Waker {
    rung: AtomicBool,
    thread: OnceLock<Thread>,
    then: OnceLock<Arc<Waker>>,
}

impl Waker {
    /// Wakes the worker, or makes its next wait end at once.
    pub fn wake(&self) {
        self.raise();
        // Either the thread that comes to this waker just now sees the flag, or it is seen here and nudged.
        fence(Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
    /// Raises the flag without a nudge: for a waker that another one passes on to.
    pub fn leave(&self) {
        self.raise();
    }
    /// A swap, as in `answered`: of a store loom does not know whether it came before that or after.
    fn raise(&self) {
        self.rung.swap(true, Ordering::Release);
    }
    /// Lets whoever answers this waker nudge the worker of `waker` too, if that one's flag is up.
    pub fn then(&self, waker: Arc<Waker>) {
        let _ = self.then.set(waker); // set once, when the robot is put together
    }
    /// The calling thread answers this waker from now on.
    pub(crate) fn answer_here(&self) {
        let _ = self.thread.set(thread::current());
        fence(Ordering::SeqCst); // as in `ring`
    }
    /// Nudges the worker behind the next waker, if its flag is up.
    pub(crate) fn pass_on(&self) {
        if let Some(waker) = self.then.get()
            && waker.rung.load(Ordering::Relaxed) // left before this waker was rung, and that was answered
            && let Some(thread) = waker.thread.get()
        {
            thread.unpark();
        }
    }
    /// Whether it was rung since the last call.
    pub(crate) fn answered(&self) -> bool {
        self.rung.swap(false, Ordering::Acquire)
    }
}
