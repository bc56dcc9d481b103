//! One fixed-size set of motor commands, and what "stop" means.
//!
//! A command states the slot it was made for and how long it is valid: a bus thread that wakes up late writes
//! the stop command, never an old request.

use crate::time::Instant;

/// Most motors that a board may have.
pub const MAX_MOTORS: usize = 16;

/// What decided this command. Strongest last, as in `act.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// No source: not armed, or nothing to obey.
    Still,
    /// A field result that is old: scaled down by its age.
    AgedField,
    /// A fresh field result.
    Field,
    /// A reflex limited or replaced what the field wanted.
    Reflex,
    /// Emergency stop or disarm.
    Stop,
}

/// The new targets for the motors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Command {
    /// Counts commands from 1; 0 is the stop command before the first.
    pub seq: u64,
    /// The slot that it belongs to: lateness on the wire is measured from here.
    pub slot: Instant,
    /// Later than this it must not be written; the stop command is written instead.
    pub valid_until: Instant,
    /// The source that decided.
    pub source: Source,
    /// Number of motors in use.
    pub len: usize,
    /// Per motor, -1..=1 after all limits; the board entry maps it to duty or angle.
    pub motors: [f32; MAX_MOTORS],
}

impl Command {
    /// Stop: drive motors at 0. Holding servos where they are is the device's task.
    pub const fn still(len: usize) -> Command {
        Command {
            seq: 0,
            slot: Instant::ZERO,
            valid_until: Instant::NEVER,
            source: Source::Still,
            len,
            motors: [0.0; MAX_MOTORS],
        }
    }
    /// The motors in use.
    pub fn used(&self) -> &[f32] {
        &self.motors[..self.len]
    }
}

/// A bus thread's receipt: the command was on the wire at `at`.
#[derive(Clone, Copy, Debug)]
pub struct OnWire {
    /// [`Command::seq`].
    pub seq: u64,
    /// [`Command::slot`].
    pub slot: Instant,
    /// When the last byte of it was acknowledged.
    pub at: Instant,
    /// Whether every device accepted it.
    pub complete: bool,
}
