//! How the tick wakes a worker: a flag and, if the worker has a thread, an unpark. Waking never blocks, locks
//! or allocates. `scripts/check-loom` tries every order in which two threads can meet here.

use crate::rt::sync::{Arc, AtomicBool, OnceLock, Ordering, Thread, fence, thread};

/// The tick's end and the worker's.
///
/// An unpark is a system call, and with a sleeping core it is most of a tick's cost. So the tick unparks only
/// one worker, the bus. The field's waker only has its flag set, and the bus thread unparks it on behalf of
/// the tick when it wakes ([`Waker::then`]). While the bus thread confirms no commands, the tick does it.
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
        // Either the thread now attaching to this waker sees the flag, or it is seen here and unparked.
        fence(Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
    /// Sets the flag without an unpark: for a waker that another one passes on to.
    pub fn leave(&self) {
        self.raise();
    }
    /// A swap, as in `answered`: with a store, loom does not know whether it came before that or after.
    fn raise(&self) {
        self.rung.swap(true, Ordering::Release);
    }
    /// Lets the thread of this waker also unpark the worker of `waker`, if that one's flag is set.
    pub fn then(&self, waker: Arc<Waker>) {
        let _ = self.then.set(waker); // set once, when the robot is put together
    }
    /// The calling thread is the one that this waker wakes from now on.
    pub(crate) fn answer_here(&self) {
        let _ = self.thread.set(thread::current());
        fence(Ordering::SeqCst); // as in `ring`
    }
    /// Unparks the worker behind the next waker, if its flag is set.
    pub(crate) fn pass_on(&self) {
        if let Some(waker) = self.then.get()
            && waker.rung.load(Ordering::Relaxed) // set before this waker was rung, and that ring was answered
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
