//! Physical units as types, for places where a bare `f32` would be ambiguous.
//!
//! In a frame or a command the unit follows from the channel, whose board entry names it; device drivers and
//! the simulator use these types at their interfaces.

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub struct $name(pub f32);
    };
}

unit!(/// Length in metres.
    Metres);
unit!(/// Electric potential in volts.
    Volts);
unit!(/// Angle in degrees; positive is to the right for a steering angle, as the vehicle's maker defines it.
    Degrees);
unit!(/// Drive of a motor, -1 full reverse to 1 full forward, after limits.
    Duty);
unit!(/// A raw reading of a 12-bit converter, 0 to 4095 counts.
    Counts);

impl Duty {
    /// No drive.
    pub const STILL: Duty = Duty(0.0);
    /// `x` limited to -1..=1; NaN becomes 0 (no drive).
    pub fn clamped(x: f32) -> Duty {
        if x.is_nan() { Duty::STILL } else { Duty(x.clamp(-1.0, 1.0)) }
    }
}
