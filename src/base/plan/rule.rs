//! One line of a board's reflex table: which channel, when it trips, what it allows and until when.

use super::{Cause, Restraint};
use crate::base::time::Span;

/// When a rule trips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trip {
    /// The sample's worst-case value is at or below this.
    Below(f32),
    /// The sample's worst-case value is at or above this.
    Above(f32),
}

impl Trip {
    /// The value at which it trips.
    pub fn limit(self) -> f32 {
        match self {
            Trip::Below(limit) | Trip::Above(limit) => limit,
        }
    }

    /// Whether `value` is at the limit or beyond. False for NaN, which the caller handles.
    pub fn trips(self, value: f32) -> bool {
        match self {
            Trip::Below(limit) => value <= limit,
            Trip::Above(limit) => value >= limit,
        }
    }

    /// Whether `value` has passed `clear` on its way back.
    pub fn clears(self, value: f32, clear: f32) -> bool {
        match self {
            Trip::Below(_) => value > clear,
            Trip::Above(_) => value < clear,
        }
    }

    /// Of two values, the one that trips sooner; if one is NaN, the other one.
    pub fn worse(self, a: f32, b: f32) -> f32 {
        match self {
            Trip::Below(_) => a.min(b),
            Trip::Above(_) => a.max(b),
        }
    }
}

/// One line of the board's reflex table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The cause that it reports.
    pub cause: Cause,
    /// Channel of the frame.
    pub channel: usize,
    /// When it trips.
    pub trip: Trip,
    /// The rule clears only when the sample's worst-case value has passed this on its way back (hysteresis).
    pub clear: f32,
    /// The rule stays tripped for at least this long.
    pub hold: Span,
    /// When the sensor's value is good again, what tripped the rule may be under the robot. So the rule also
    /// stays tripped until the robot has backed away: for this long at full speed, longer at lower speed.
    pub retreat: Span,
    /// What the rule allows while it is tripped.
    pub restraint: Restraint,
    /// The rule stays tripped until the robot is disarmed and armed again, even when the cause is gone.
    pub latched: bool,
}
