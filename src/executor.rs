//! The parts that work beside the tick (bus, edges, field, log), and the two ways to run them: each
//! on a thread of its own in real time, or all in one thread in virtual time, in a fixed order.
//!
//! A worker does not know which. It does one piece of work in [`Worker::step`], which may block on
//! its bus or compute, and hands over what it made in [`Worker::publish`]. In virtual time the two
//! are apart: the step happens at once, what it made is seen only when its virtual time has passed.

mod waker;
mod last;
mod stepper;
mod threads;

pub use last::{Ended, Rest};
pub use stepper::Stepper;
pub use threads::{END_PATIENCE, Threads};
pub use waker::Waker;

use crate::time::{Clock, Instant};

/// A part that works beside the tick.
pub trait Worker: Send {
    /// Short name, for the thread and for reports.
    fn name(&self) -> &'static str;
    /// The core that its thread wants for itself, if it has one. Asked once, before the first step.
    fn core(&self) -> Option<usize> {
        None
    }
    /// Whether motors obey it: what becomes of them when it ends is asked. Always the same answer.
    fn has_motors(&self) -> bool {
        false
    }
    /// Does the next piece of work and says when it wants to be called again
    /// ([`Instant::NEVER`]: only when its waker rings). Blocks at most the bound of its own bus or compute.
    fn step(&mut self, clock: &dyn Clock) -> Instant;
    /// Hands over what the step made. Never blocks. A halt that comes of it is raised with a time of `clock` that is taken
    /// after the readings have left: a tick that ran in between must not have a command that passes the halt.
    fn publish(&mut self, clock: &dyn Clock);
    /// The last call: leave the hardware safe. Bounded like a step. Made again where it panics, and also after a panic of
    /// any other. Returns whether its motors were heard to stand; without meaning where it has none.
    fn finish(&mut self, _clock: &dyn Clock) -> bool {
        true
    }
}
