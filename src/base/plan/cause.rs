//! Why motors are restrained: the causes, their order and what clears each.

/// Why the motors are restrained. Ordered by severity, the worst last. The worst active cause is reported;
/// the tightest restraint of all active causes is obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum Cause {
    /// A field result is late: its requests are faded, but still obeyed.
    FieldLate,
    /// There is no field result, or it is too old to be obeyed.
    FieldMissing,
    /// The battery is low.
    Battery,
    /// Something is nearer than the board allows.
    Obstacle,
    /// A required sensor has gone stale or was never read.
    SensorLost,
    /// A required sensor answers, but with impossible values.
    SensorLying,
    /// The guard does not answer, or holds its line off: nothing would stop the motors if this program died.
    GuardLost,
    /// The remote brain that computes the field does not answer.
    LinkLost,
    /// Commands do not reach the motors in time.
    BusLost,
    /// The loop itself missed its slots.
    LoopLate,
    /// The ground ends.
    Cliff,
    /// The robot leans further than the board allows.
    Tilt,
    /// Stop was pressed. (A termination signal stops the robot through its mode, not through a reflex.)
    EStop,
}

impl Cause {
    /// Every cause, by severity.
    pub const ALL: [Cause; 13] = [
        Cause::FieldLate,
        Cause::FieldMissing,
        Cause::Battery,
        Cause::Obstacle,
        Cause::SensorLost,
        Cause::SensorLying,
        Cause::GuardLost,
        Cause::LinkLost,
        Cause::BusLost,
        Cause::LoopLate,
        Cause::Cliff,
        Cause::Tilt,
        Cause::EStop,
    ];

    /// The cause's bit in a set of causes.
    pub const fn bit(self) -> u16 {
        1 << self as u8
    }

    /// The worst cause of a set.
    pub fn worst_of(set: u16) -> Option<Cause> {
        Cause::ALL.into_iter().rev().find(|cause| set & cause.bit() != 0)
    }

    /// Name in reports and board files.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::FieldLate => "field-late",
            Cause::FieldMissing => "field-missing",
            Cause::Battery => "battery",
            Cause::Obstacle => "obstacle",
            Cause::SensorLost => "sensor-lost",
            Cause::SensorLying => "sensor-lying",
            Cause::GuardLost => "guard-lost",
            Cause::LinkLost => "link-lost",
            Cause::BusLost => "bus-lost",
            Cause::LoopLate => "loop-late",
            Cause::Cliff => "cliff",
            Cause::Tilt => "tilt",
            Cause::EStop => "e-stop",
        }
    }

    /// What clears the cause, as text. A latched rule of any cause clears like an e-stop.
    pub const fn cleared_by(self) -> &'static str {
        match self {
            Cause::FieldLate => "a fresh field result",
            Cause::FieldMissing => "a field result recent enough to obey",
            Cause::Battery | Cause::Obstacle | Cause::Cliff | Cause::Tilt => {
                "a good sample beyond the rule's `clear`, after its `hold_ms` and its `retreat_ms`"
            }
            Cause::SensorLost | Cause::SensorLying => "a good sample of every required sensor",
            Cause::GuardLost => "the guard's answer that it trusts this runtime, with its line as requested",
            Cause::LinkLost => {
                "an answer from the brain; if the board latches link loss, also disarming and arming again"
            }
            Cause::BusLost => "a command confirmed on the wire",
            Cause::LoopLate => "`late_slots` on-time slots in a row",
            Cause::EStop => "releasing stop, then disarming and arming again",
        }
    }
}

const _: () = assert!(Cause::ALL.len() <= u16::BITS as usize, "a set of causes is a u16");
