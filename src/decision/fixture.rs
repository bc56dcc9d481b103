//! Small plans for unit tests, with round numbers.

use crate::base::fault::{BusFault, ReadingFault};
use crate::base::plan::{
    ComputedSensor, Limits, Line, LineSensor, MotorKind, MotorPlan, Restraint, SafetyPlan, SensorKind,
    SensorPlan,
};
use crate::base::time::{Instant, Span};
use crate::decision::reflex::{Signals, Verdict};

/// A control period of 10 ms.
pub const PERIOD: Span = Span::from_millis(10);

/// The instant `ms` milliseconds after the clock's zero.
pub fn at(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

/// A span of `ms` milliseconds.
pub const fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

/// A transfer that is not acknowledged.
pub const NACK: ReadingFault = ReadingFault::Bus(BusFault::Nack);

/// Signals of a healthy robot.
pub const WELL: Signals = Signals {
    link_silence: None,
    halts: 0,
    readings_lost: false,
    field_age: Some(ms(20)),
    wire_age: Some(ms(5)),
    skipped_slots: 0,
    guard_lost: false,
    slept: None,
    backed: Span::ZERO,
    disarmed: false,
};

/// No reason to stop.
pub const FREE: Verdict = Verdict {
    worst: None,
    restraint: Restraint::Free,
    limits: Limits::FREE,
    active: 0,
    tripped: 0,
    cleared: 0,
    latched: 0,
    senses_good: true,
};

/// Results are fresh for 100 ms and fade over another 100 ms.
pub fn safety() -> SafetyPlan {
    SafetyPlan {
        field_fresh: ms(100),
        field_fade: ms(100),
        command_valid: ms(30),
        wire_lost: ms(50),
        late_slots: 3,
        settle: ms(40),
        reverse_max: ms(200),
        disarm_after: ms(1_000),
        auto_arm: false,
    }
}

/// A required distance sensor, 0 to 4 m. Its value is stale after 200 ms and may shrink by 0.5 m/s.
pub fn range() -> SensorPlan {
    SensorPlan {
        name: "range".into(),
        unit: "m".into(),
        kind: SensorKind::Lines(LineSensor::HcSr04 { trig: Line(1), echo: Line(2) }),
        bus: 0,
        period: ms(60),
        max_age: ms(200),
        valid: [0.0, 4.0],
        frozen_after: None,
        worst_per_s: -0.5,
        required: true,
        input: None,
        looks_at: None,
        beam: None,
    }
}

/// The minimum of `channels`.
pub fn least(channels: &[usize]) -> SensorKind {
    SensorKind::Computed(ComputedSensor::Least { of: channels.to_vec() })
}

/// A drive motor without a limit that takes 5 periods (of 10 ms) to reach full speed.
pub fn wheel() -> MotorPlan {
    let kind = MotorKind::DcPair { forward: 0, backward: 1, min_duty: 0.0 };
    MotorPlan { name: "wheel".into(), kind, limit: 1.0, slew_per_s: 20.0 }
}

/// A positioning motor that takes ten periods from the middle to an end.
pub fn servo() -> MotorPlan {
    let kind = MotorKind::Servo { pwm: 2, min_deg: -30.0, max_deg: 30.0, offset_deg: 0.0, mirrored: false };
    MotorPlan { name: "steer".into(), kind, limit: 1.0, slew_per_s: 10.0 }
}
