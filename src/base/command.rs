//! One fixed-size set of motor commands, and what "stop" means.
//!
//! A command states the slot it was made for and how long it is valid: a bus thread that wakes up late writes
//! the stop command, never an old request.

use crate::base::time::{Instant, Span};

/// Maximum number of motors on a board.
pub const MAX_MOTORS: usize = 16;

/// What decided a command. Ordered by precedence, the strongest last, as in `act.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Source {
    /// No source: the robot is not armed, or there is nothing to obey.
    Still,
    /// An old field result, scaled down according to its age.
    AgedField,
    /// A fresh field result.
    Field,
    /// A reflex limited or replaced what the field wanted.
    Reflex,
    /// Emergency stop or disarm.
    Stop,
}

impl Source {
    /// Its description.
    pub fn text(self) -> &'static str {
        match self {
            Source::Still => "nothing: the motors are stopped",
            Source::AgedField => "an ageing result of the field",
            Source::Field => "the field",
            Source::Reflex => "a reflex",
            Source::Stop => "the stop",
        }
    }
}

/// The new targets for the motors.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Command {
    /// Counts commands from 1; 0 is the stop command before the first.
    pub seq: u64,
    /// The slot that the command belongs to; lateness on the wire is measured from here.
    pub slot: Instant,
    /// After this time the command must not be written; the stop command is written instead.
    pub valid_until: Instant,
    /// The source that decided.
    pub source: Source,
    /// Number of motors in use.
    pub len: usize,
    /// Per motor, -1..=1 after all limits; the board entry maps it to duty or angle.
    pub motors: [f32; MAX_MOTORS],
}

impl Command {
    /// The stop command: drive motors at 0. The device holds servos at their present angle.
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

/// What the last command did to the robot, from its slot until the present one. The motor link computes it
/// once per slot, for reflexes, trail and arbiter.
#[derive(Clone, Copy, Debug)]
pub struct Executed {
    /// The last command; before the first, the stop command.
    pub command: Command,
    /// The present slot.
    pub until: Instant,
    /// Time since a command was last confirmed on the wire; `None`: never.
    pub unconfirmed: Option<Span>,
    /// Mean command of the motors whose sign is a direction of travel; negative is backwards.
    pub travel: f64,
}

impl Executed {
    /// How long the command has been in effect.
    pub fn elapsed(&self) -> Span {
        self.until.since(self.command.slot)
    }

    /// Whether a command was confirmed within the time for which a command is valid. If not, the robot may
    /// not have moved.
    pub fn is_confirmed(&self) -> bool {
        self.unconfirmed.is_some_and(|age| age < self.valid())
    }

    /// How far the command has certainly moved the robot backwards, expressed as a time at full speed. A
    /// command counts only for as long as it is valid.
    pub fn backed(&self) -> Span {
        if !self.is_confirmed() {
            return Span::ZERO;
        }
        let speed = (-self.travel).max(0.0);
        Span::from_secs_f64(speed * self.elapsed().min(self.valid()).as_secs_f64())
    }

    fn valid(&self) -> Span {
        self.command.valid_until.since(self.command.slot)
    }
}

/// A bus thread's receipt: the command was on the wire at `at`.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct OnWire {
    /// [`Command::seq`].
    pub seq: u64,
    /// [`Command::slot`].
    pub slot: Instant,
    /// When its last byte was acknowledged.
    pub at: Instant,
    /// Whether every device accepted it.
    pub complete: bool,
}
