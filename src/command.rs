//! One fixed-size set of motor commands, and what "stop" means.
//!
//! A command says for which slot it was made and until when it may be obeyed: a bus thread that
//! wakes up late writes stillness, never an old request.

use crate::time::Instant;

/// Most motors a board may have.
pub const MAX_MOTORS: usize = 16;

/// Who decided this command. Strongest last, as in `act.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Nobody: not armed, or nothing to obey.
    Still,
    /// A field result that is old: scaled down by its age.
    AgedField,
    /// A field result within its time.
    Field,
    /// A reflex limited or replaced what the field wanted.
    Reflex,
    /// Emergency stop or disarm.
    Stop,
}

/// What the motors are to do from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Command {
    /// Counts commands from 1; 0 is the standing-still command before the first.
    pub seq: u64,
    /// The slot that it belongs to: lateness on the wire is counted from here.
    pub slot: Instant,
    /// Later than this it must not be written: stillness is, instead.
    pub valid_until: Instant,
    /// Who decided.
    pub source: Source,
    /// Number of motors in use.
    pub len: usize,
    /// Per motor, -1..=1 after every limit; the board entry maps it to duty or angle.
    pub motors: [f32; MAX_MOTORS],
}

impl Command {
    /// Stillness: wheels 0, servos centred where they stand is the device's business.
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
    /// When the last byte of it had been accepted.
    pub at: Instant,
    /// Whether every device took it.
    pub complete: bool,
}
