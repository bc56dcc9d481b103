//! The output pins of any chip that generates pulses.

/// Frame rates (hertz) that a servo accepts; it ignores others.
pub const SERVO_HZ: std::ops::RangeInclusive<f64> = 40.0..=400.0;

/// The output pins of a pulse-generating chip.
pub trait Outputs {
    /// Share of the time that a channel is high, 0..=1.
    fn duty(&self, channel: u8) -> f64;
    /// Length of a channel's pulse in microseconds, if a servo would accept it.
    fn servo_us(&self, channel: u8) -> Option<f64>;
    /// Whether the registers request no pulse, whatever the chip does with them.
    fn is_silent(&self, channel: u8) -> bool;
}

/// Pins behind an enable line that is off.
pub struct NoCurrent;

impl Outputs for NoCurrent {
    fn duty(&self, _channel: u8) -> f64 {
        0.0
    }
    fn servo_us(&self, _channel: u8) -> Option<f64> {
        None
    }
    fn is_silent(&self, _channel: u8) -> bool {
        true
    }
}
