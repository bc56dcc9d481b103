//! Frame to restraint: the part that keeps the robot safe whatever the field says. Pure; knows no
//! GPU, no bus, no heap, no clock of its own.

use crate::time::Span;

/// Why the motors are restrained. Ordered by severity, the worst last: the worst active cause is
/// the one that is reported, the tightest restraint of all active ones is the one that is obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// A field result is late: its wishes are faded, not yet refused.
    FieldLate,
    /// No field result for longer than its wishes may be obeyed.
    FieldMissing,
    /// The battery is low.
    Battery,
    /// Something is nearer than the board allows.
    Obstacle,
    /// A required sensor has gone stale or was never read.
    SensorLost,
    /// A required sensor answers, and what it says cannot be true.
    SensorLying,
    /// Commands do not reach the motors in time.
    BusLost,
    /// The loop itself missed its slots.
    LoopLate,
    /// The ground ends.
    Cliff,
    /// The robot leans further than it may.
    Tilt,
    /// Somebody pressed stop, or the process was told to end.
    EStop,
}

/// What a restraint allows. Ordered: a later one is tighter.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Restraint {
    /// Everything.
    Free,
    /// Drive motors at most this share of full scale (0..=1).
    Slow(f32),
    /// Drive motors may turn backwards or stand, never forwards; steering is free.
    NoForward,
    /// Drive motors stand still; steering stays where it is.
    Still,
}

/// When a rule trips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trip {
    /// The sample's worst-case value is at or below this.
    Below(f32),
    /// The sample's worst-case value is at or above this.
    Above(f32),
}

/// One line of the board's reflex table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// What is reported.
    pub cause: Cause,
    /// Channel of the frame.
    pub channel: usize,
    /// When it trips.
    pub trip: Trip,
    /// The value that must be passed in the other direction before it clears (hysteresis).
    pub clear: f32,
    /// It stays tripped at least this long.
    pub hold: Span,
    /// What it allows meanwhile.
    pub restraint: Restraint,
    /// Stays until the robot is disarmed and armed again, even when the cause is gone.
    pub latched: bool,
}
