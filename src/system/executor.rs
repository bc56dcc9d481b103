//! The workers that run alongside the tick (bus, edges, field, log), and the two ways to run them: each on
//! its own thread in real time, or all in one thread in virtual time, in a fixed order.
//!
//! A worker does not know which way is used. It does one piece of work in [`Worker::step`], which may block
//! on its bus or compute, and hands over the result in [`Worker::publish`]. In virtual time the two are
//! separate: the step happens at once, but its result is visible only when its virtual time has passed.

mod waker;
mod last;
mod stepper;
mod threads;

pub use last::{Ended, Rest};
pub use stepper::Stepper;
pub use threads::{END_PATIENCE, Threads};
pub use waker::Waker;

use crate::base::time::{Clock, Instant};

/// A worker that runs alongside the tick.
pub trait Worker: Send {
    /// Short name, for the thread and for reports.
    fn name(&self) -> &'static str;
    /// The core that its thread needs for itself, if any. Read once, before the first step.
    fn core(&self) -> Option<usize> {
        None
    }
    /// Whether it drives motors: their state is checked when it ends. Must always return the same value.
    fn has_motors(&self) -> bool {
        false
    }
    /// Does the next piece of work. Returns the time at which it wants to be called again
    /// ([`Instant::NEVER`]: only when its waker is signaled). Blocks for at most the time limit of its own
    /// bus or computation.
    fn step(&mut self, clock: &dyn Clock) -> Instant;
    /// Hands over the results of the step. Never blocks. If it raises a halt, it reads the halt's time from
    /// `clock` after it has handed over the readings, so that the halt also stops the command of a tick that
    /// ran just before it could see them.
    fn publish(&mut self, clock: &dyn Clock);
    /// The last call: leaves the hardware safe. Its time is bounded like a step's. It is made even after a
    /// panic in this or another worker, and made again if it panics itself. Returns whether its motors, if
    /// any, are known to have stopped.
    fn finish(&mut self, _clock: &dyn Clock) -> bool {
        true
    }
}
