//! When a robot may be armed, its timeouts, and what a guard holds.

use crate::base::time::Span;

/// Timeouts and the conditions for arming.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SafetyPlan {
    /// A field result younger than this is obeyed in full.
    pub field_fresh: Span,
    /// After that, the drive commands of the result fade linearly to zero within this time.
    pub field_fade: Span,
    /// A command is valid on the wire this long after its slot.
    pub command_valid: Span,
    /// If commands stay unconfirmed on the wire for longer than this, the bus counts as lost.
    pub wire_lost: Span,
    /// The loop counts as late after this many skipped slots in a row.
    pub late_slots: u32,
    /// Sensors must have been good for this long before arming.
    pub settle: Span,
    /// Longest time for which the robot may drive backwards without a break (it has no sensors at the rear).
    pub reverse_max: Span,
    /// An armed robot that may not move for this long without a break is disarmed.
    pub disarm_after: Span,
    /// Arm automatically once all conditions are met (simulator, logs); otherwise wait for a request.
    pub auto_arm: bool,
}

/// A second process that holds a line and stops the motors when the runtime falls silent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardPlan {
    /// What it holds.
    pub holds: GuardHold,
    /// The guard's timeout, after which it stops the motors. A closed connection stops them at once.
    pub timeout: Span,
    /// The runtime does not drive without the guard.
    pub required: bool,
}

/// What a guard holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardHold {
    /// The microcontroller's reset line ([`super::McuPlan::reset`]).
    Reset,
    /// The motors' enable line ([`super::EnablePlan`]).
    Enable,
}
