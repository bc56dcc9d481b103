//! The microcontroller of SunFounder's Robot HAT (v4, v5): reset, timers, pulses. Its converter is in
//! `adc.rs`; `servo.rs` and `dc_motor.rs` define what a pulse means.
//!
//! Register map as in SunFounder's robot-hat library 2.5 (pwm.py, device.py, __init__.py) and its page on the
//! on-board MCU. Terms: a *timer* sets one frequency for the *channels* behind it; a *pulse* is the number of
//! *counts* of the timer's *period* for which a channel is high.
//!
//! Every write is exactly one frame of three bytes: register, most significant byte, least significant byte.
//! The firmware counts bytes and does not resynchronise: a broken frame shifts all later frames until a
//! reset.

use super::DeviceFault;
use crate::base::plan::{Line, McuPlan};
use crate::base::time::{Clock, Span};
use crate::hardware::bus::{Gpio, I2c};

/// PWM channels, P0 to P19 (a v4 has those of its four timers).
pub const CHANNELS: u8 = 20;
/// Timers of the largest revision.
pub const TIMERS: u8 = 7;
/// Counts in one period, for every timer: the library's value, and the maximum with which a duty cycle still
/// fits into 12 bits, like everything else on this chip.
pub const PERIOD: u16 = 4095;

/// First pulse register.
pub const PULSE: u8 = 0x20;
const FIRMWARE: u8 = 0x05;
/// First prescaler and first period register of timers 0-3, then of timers 4-6.
const PRESCALER: [u8; 2] = [0x40, 0x50];
const RELOAD: [u8; 2] = [0x44, 0x54];

/// The library's figures: low for 10 ms, high for 10 ms. The robot's program then gives the firmware 200 ms
/// to start before the first transfer.
pub const RESET_LOW: Span = Span::from_millis(10);
const RESET_HIGH: Span = Span::from_millis(10);
const SETTLE: Span = Span::from_millis(200);
/// Their sum: after this time the firmware has started.
pub const RESET_TAKES: Span =
    Span::from_nanos(RESET_LOW.as_nanos() + RESET_HIGH.as_nanos() + SETTLE.as_nanos());

/// The timer behind a channel: P0-3, P4-7, P8-11, P12-15 in fours, then P16-17, P18, P19. All channels of one
/// timer share one frequency (Robot HAT library, pwm.py).
pub const fn timer_of(channel: u8) -> u8 {
    match channel {
        0..=15 => channel / 4,
        16 | 17 => 4,
        18 => 5,
        _ => 6,
    }
}

/// The pulse register of a channel.
pub const fn pulse_register(channel: u8) -> u8 {
    PULSE + channel
}

/// The prescaler and period registers of a timer.
pub const fn timer_registers(timer: u8) -> [u8; 2] {
    let (bank, offset) = if timer < 4 { (0, timer) } else { (1, timer - 4) };
    [PRESCALER[bank] + offset, RELOAD[bank] + offset]
}

/// One write to the chip.
pub const fn frame(register: u8, value: u16) -> [u8; 3] {
    let [high, low] = value.to_be_bytes();
    [register, high, low]
}

/// The frequency setting of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The clock is divided by this, at least 1. The register holds one less.
    pub prescaler: u16,
    /// Counts in one period.
    pub period: u16,
}

impl Timer {
    /// The timer with [`PERIOD`] counts whose frequency is nearest to `hz`.
    pub fn at(clock_hz: u32, hz: f64) -> Timer {
        let divider = f64::from(clock_hz) / (hz * f64::from(PERIOD));
        Timer { prescaler: libm::round(divider).clamp(1.0, f64::from(u16::MAX)) as u16, period: PERIOD }
    }
    /// The values of its two registers: prescaler minus one, and the period.
    pub fn register_values(self) -> [u16; 2] {
        [self.prescaler.saturating_sub(1), self.period]
    }
    /// Its frequency in hertz.
    pub fn hz(self, clock_hz: u32) -> f64 {
        f64::from(clock_hz) / f64::from(self.prescaler) / f64::from(self.period)
    }
}

/// The chip.
#[derive(Clone, Copy, Debug)]
pub struct RobotHat {
    address: u8,
    reset: Line,
}

impl RobotHat {
    /// The chip that the board describes.
    pub fn new(plan: &McuPlan) -> RobotHat {
        RobotHat { address: plan.address, reset: plan.reset }
    }

    /// Its 7-bit address.
    pub fn address(&self) -> u8 {
        self.address
    }

    /// Resets the chip and waits until it can answer, which takes 220 ms. All pulses and timers are lost and
    /// must be written again.
    pub fn reset(&self, gpio: &mut dyn Gpio, clock: &dyn Clock) -> Result<(), DeviceFault> {
        let line = self.reset;
        let fault = |fault| DeviceFault::Line { line, fault };
        gpio.set(line, false).map_err(fault)?;
        clock.sleep_until(clock.now() + RESET_LOW);
        gpio.set(line, true).map_err(fault)?;
        clock.sleep_until(clock.now() + RESET_HIGH + SETTLE);
        Ok(())
    }

    /// Holds the chip in reset, where it makes no pulses, until [`RobotHat::reset`].
    pub fn hold(&self, gpio: &mut dyn Gpio) -> Result<(), DeviceFault> {
        let line = self.reset;
        gpio.set(line, false).map_err(|fault| DeviceFault::Line { line, fault })
    }

    /// Version of the firmware: major, minor, patch.
    pub fn firmware(&self, i2c: &mut dyn I2c) -> Result<[u8; 3], DeviceFault> {
        let mut version = [0; 3];
        i2c.write_read(self.address, &[FIRMWARE], &mut version)
            .map_err(|fault| DeviceFault::Bus { register: FIRMWARE, fault })?;
        if version == [0x00; 3] || version == [0xFF; 3] {
            return Err(DeviceFault::DeadBytes { register: FIRMWARE });
        }
        Ok(version)
    }

    /// Writes one 16-bit register.
    pub fn write(&self, register: u8, value: u16, i2c: &mut dyn I2c) -> Result<(), DeviceFault> {
        i2c.write(self.address, &frame(register, value)).map_err(|fault| DeviceFault::Bus { register, fault })
    }

    /// Writes `frames` so that they arrive whole, whatever part of a frame the chip is waiting for: an
    /// aborted frame left it waiting for the first, second or third byte. Zeros complete the frame that it
    /// waits for; then the frames follow once for each of the three positions, and in the other two positions
    /// their bytes arrive as writes to register 0, because the value of each frame is zero. The vendor's
    /// library has nothing behind that register. Afterwards the chip is at the same position as before.
    ///
    /// The aborted write is completed with zeros, so with at most its intended value. Stops at the first
    /// fault, because a second broken frame would shift the rest.
    pub fn write_at_any_place(&self, frames: &[[u8; 3]], i2c: &mut dyn I2c) -> Result<(), DeviceFault> {
        let mut say = |frame: [u8; 3]| self.write(frame[0], u16::from_be_bytes([frame[1], frame[2]]), i2c);
        say([0; 3])?;
        for before in 0..3 {
            let byte =
                |at: usize| at.checked_sub(before).and_then(|at| frames.as_flattened().get(at)).copied();
            for at in (0..before + 3 * frames.len()).step_by(3) {
                say([at, at + 1, at + 2].map(|at| byte(at).unwrap_or(0)))?;
            }
        }
        Ok(())
    }

    /// Sets the counts of each period for which a channel is high.
    pub fn set_pulse(&self, channel: u8, counts: u16, i2c: &mut dyn I2c) -> Result<(), DeviceFault> {
        self.write(pulse_register(channel), counts, i2c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::base::time::SimClock;
    use crate::hardware::bus::fake::{FakeGpio, FakeI2c};
    use std::sync::Arc;

    pub(crate) const PLAN: McuPlan =
        McuPlan { address: 0x14, others: [None; 3], clock_hz: 72_000_000, timers: 7, reset: Line(5) };

    #[test]
    fn every_channel_has_its_timer() {
        let timers: Vec<u8> = (0..CHANNELS).map(timer_of).collect();
        assert_eq!(timers, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 6]);
    }

    #[test]
    fn timer_registers_are_in_two_banks() {
        let registers: Vec<[u8; 2]> = (0..TIMERS).map(timer_registers).collect();
        let expected = [
            [0x40, 0x44],
            [0x41, 0x45],
            [0x42, 0x46],
            [0x43, 0x47],
            [0x50, 0x54],
            [0x51, 0x55],
            [0x52, 0x56],
        ];
        assert_eq!(registers, expected);
    }

    #[test]
    fn frequencies_match_the_vendors_library() {
        let servo = Timer::at(72_000_000, 50.0);
        assert_eq!(servo, Timer { prescaler: 352, period: 4095 });
        assert!((servo.hz(72_000_000) - 49.95).abs() < 0.005);
        assert_eq!(Timer::at(72_000_000, 1758.0), Timer { prescaler: 10, period: 4095 });
    }

    #[test]
    fn writes_are_three_bytes_most_significant_first() {
        let hat = RobotHat::new(&PLAN);
        let mut i2c = FakeI2c::new().write(0x14, &[0x2D, 0x08, 0x00]);
        hat.set_pulse(13, 2048, &mut i2c).unwrap();
    }

    #[test]
    fn a_fault_names_the_register() {
        let hat = RobotHat::new(&PLAN);
        let mut i2c = FakeI2c::new().fault(0x14, BusFault::Nack).fault(0x14, BusFault::TimedOut);
        let nack = hat.set_pulse(12, 0, &mut i2c).unwrap_err();
        assert_eq!(nack, DeviceFault::Bus { register: 0x2C, fault: BusFault::Nack });
        assert!(!nack.needs_reset());
        assert!(hat.set_pulse(12, 0, &mut i2c).unwrap_err().needs_reset());
    }

    #[test]
    fn the_firmware_version_is_three_plausible_bytes() {
        let hat = RobotHat::new(&PLAN);
        let mut i2c =
            FakeI2c::new().write_read(0x14, &[0x05], &[1, 1, 4]).write_read(0x14, &[0x05], &[0xFF; 3]);
        assert_eq!(hat.firmware(&mut i2c), Ok([1, 1, 4]));
        assert_eq!(hat.firmware(&mut i2c), Err(DeviceFault::DeadBytes { register: 0x05 }));
    }

    /// The whole frames that a chip that only counts bytes takes from `written`, after the bytes `left_over`
    /// of an aborted frame.
    fn arrived(left_over: &[u8], written: &[Vec<u8>]) -> Vec<[u8; 3]> {
        let bytes: Vec<u8> = left_over.iter().copied().chain(written.concat()).collect();
        let (frames, _) = bytes.as_chunks::<3>();
        frames.to_vec()
    }

    #[test]
    fn a_write_after_any_broken_frame_arrives_completely() {
        let stops = [frame(0x2D, 0), frame(0x2C, 0)];
        for left_over in [&[][..], &[0x2E], &[0x2E, 0x0F]] {
            let mut i2c = FakeI2c::recording();
            RobotHat::new(&PLAN).write_at_any_place(&stops, &mut i2c).unwrap();
            let written = i2c.take_written();
            assert_eq!(written.len(), 1 + 2 + 3 + 3);
            let frames = arrived(left_over, &written);
            let (broken, rest) = frames.split_first().unwrap();
            assert!(broken[0] == 0 || *broken == [0x2E, left_over.get(1).copied().unwrap_or(0), 0]);
            assert!(rest.iter().all(|frame| frame[0] == 0 || stops.contains(frame)), "{rest:02x?}");
            let found = rest.iter().filter(|frame| frame[0] != 0).count();
            assert_eq!(found, 2, "after {left_over:02x?}: {rest:02x?}");
        }
    }

    #[test]
    fn a_second_broken_frame_ends_the_write() {
        let mut i2c = FakeI2c::new().write(0x14, &[0; 3]).fault(0x14, BusFault::Io);
        assert!(RobotHat::new(&PLAN).write_at_any_place(&[frame(0x2D, 0)], &mut i2c).is_err());
    }

    #[test]
    fn reset_is_10_ms_low_10_ms_high_and_up_to_200_ms_boot() {
        let clock = Arc::new(SimClock::new());
        let mut gpio = FakeGpio::new(clock.clone());
        RobotHat::new(&PLAN).reset(&mut gpio, clock.as_ref()).unwrap();
        let ms = Span::from_millis(1).as_nanos();
        let sets: Vec<_> = gpio.sets.iter().map(|set| (set.line, set.high, set.at.as_nanos() / ms)).collect();
        assert_eq!(sets, [(Line(5), false, 0), (Line(5), true, 10)]);
        assert_eq!(clock.now().as_nanos() / ms, 220);
    }
}
