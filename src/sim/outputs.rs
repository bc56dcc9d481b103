//! The output pins of any chip that generates pulses.

/// Frame rates (hertz) that a servo accepts; it ignores others.
pub const SERVO_HZ: std::ops::RangeInclusive<f64> = 40.0..=400.0;

/// The output pins of a pulse-generating chip.
pub trait Outputs {
    /// Duty cycle of a channel, 0..=1.
    fn duty(&self, channel: u8) -> f64;
    /// Pulse width of a channel in microseconds, if a servo would accept it.
    fn servo_us(&self, channel: u8) -> Option<f64>;
    /// Whether the channel's registers request no pulse, even if no timer runs or the chip is asleep.
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
