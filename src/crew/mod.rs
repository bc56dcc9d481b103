//! The parts that work beside the tick (bus, edges, field, log), and the two ways to run them: each
//! on a thread of its own in real time, or all in one thread in virtual time, in a fixed order.
//!
//! A worker does not know which. It does one piece of work in [`Worker::step`], which may block on
//! its bus or compute, and hands over what it made in [`Worker::publish`]. In virtual time the two
//! are apart: the step happens at once, what it made is seen only when its virtual time has passed.

mod stepper;
mod threads;

pub use stepper::Stepper;
pub use threads::Threads;

use crate::time::{Clock, Instant};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// A part that works beside the tick.
pub trait Worker: Send {
    /// Short name, for the thread and for reports.
    fn name(&self) -> &'static str;
    /// The core that its thread wants for itself, if it has one. Asked once, before the first step.
    fn core(&self) -> Option<usize> {
        None
    }
    /// Does the next piece of work and says when it wants to be called again
    /// ([`Instant::NEVER`]: only when its bell rings). Blocks at most the bound of its own bus or compute.
    fn step(&mut self, clock: &dyn Clock) -> Instant;
    /// Hands over what the step made. Never blocks.
    fn publish(&mut self, now: Instant);
    /// The last call: leave the hardware safe. Bounded like a step.
    fn finish(&mut self, _clock: &dyn Clock) {}
}

/// How the tick wakes a worker: a flag and, where the worker has a thread, a nudge. Ringing never
/// blocks, locks or allocates.
///
/// A nudge is a system call, and on a core that sleeps it is most of what a tick costs. So the tick
/// nudges one worker only, the bus; the field's bell is left with its flag up, and the bus thread
/// nudges on behalf of the tick when it wakes ([`Bell::then`]). While the bus thread does not confirm
/// commands, the tick nudges the field itself.
#[derive(Debug, Default)]
pub struct Bell {
    rung: AtomicBool,
    thread: OnceLock<Thread>,
    then: OnceLock<Arc<Bell>>,
}

impl Bell {
    /// Wakes the worker, or makes its next wait end at once.
    pub fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
    /// Raises the flag without a nudge: for a bell that another one passes on to.
    pub fn leave(&self) {
        self.rung.store(true, Ordering::Release);
    }
    /// Lets whoever answers this bell nudge the worker of `bell` too, if that one's flag is up.
    pub fn then(&self, bell: Arc<Bell>) {
        let _ = self.then.set(bell); // set once, when the robot is put together
    }
    /// Nudges the worker behind the next bell, if its flag is up.
    fn pass_on(&self) {
        if let Some(bell) = self.then.get()
            && bell.rung.load(Ordering::Acquire)
            && let Some(thread) = bell.thread.get()
        {
            thread.unpark();
        }
    }
    /// Whether it was rung since the last call.
    fn answered(&self) -> bool {
        self.rung.swap(false, Ordering::Acquire)
    }
}
