//! The output pins of a chip that makes pulses, for any such chip.

/// A servo listens to frames between these rates (hertz); others it ignores.
pub const SERVO_HZ: std::ops::RangeInclusive<f64> = 40.0..=400.0;

/// The pins of such a chip.
pub trait Outputs {
    /// Share of the time that a channel is high, 0..=1.
    fn duty(&self, channel: u8) -> f64;
    /// Length of a channel's pulse in microseconds, if a servo would listen to it.
    fn servo_us(&self, channel: u8) -> Option<f64>;
    /// Whether the registers ask for no pulse, whatever the chip does with them.
    fn is_silent(&self, channel: u8) -> bool;
}

/// Pins behind a line that is off.
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
