//! The Robot HAT's microcontroller as seen from the wire: frames of three bytes, timers, pulses, the
//! converter's two-byte reads, the reset line. It does not model the world: its owner supplies the
//! converter's counts, reads the pulses and moves the motors.
//!
//! Register map: from SunFounder's robot-hat library 2.5, like the driver's, but implemented independently of
//! the driver, so that the model does not repeat its mistakes. Two things are not documented. The model
//! assumes that the bytes of an aborted frame stay until a reset (a reset is the vendor's remedy). The board
//! chooses whether a register number followed by a repeated START counts as part of a frame
//! (`counts_every_byte`), because a program must work with either.

use super::outputs::{Outputs, SERVO_HZ};
use crate::base::plan::McuPlan;
use crate::base::time::{Instant, Span};

/// Time from the end of a reset until the firmware acknowledges. Not documented; the vendor's own program
/// waits 200 ms, so a driver that waits less must fail here.
pub const BOOT: Span = Span::from_millis(150);
const FIRMWARE: [u8; 3] = [1, 1, 4];

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// The reset line is low.
    Held,
    /// Answers from `at` on.
    Runs { at: Instant },
}

#[derive(Clone, Copy, Debug, Default)]
struct Timer {
    prescaler: u16,
    period: u16,
}

/// The chip.
#[derive(Clone, Debug)]
pub struct Hat {
    address: u8,
    clock_hz: f64,
    timers_used: usize,
    state: State,
    timers: [Timer; 7],
    pulses: [u16; 20],
    partial: heapless::Vec<u8, 3>,
    answer: [u8; 2],
    given: usize,
    resets: u64,
    counts_every_byte: bool,
}

impl Hat {
    /// A chip that has been powered for a long time and never written to.
    pub fn new(plan: &McuPlan) -> Hat {
        Hat {
            address: plan.address,
            clock_hz: f64::from(plan.clock_hz),
            timers_used: usize::from(plan.timers).min(7),
            state: State::Runs { at: Instant::ZERO },
            timers: [Timer::default(); 7],
            pulses: [0; 20],
            partial: heapless::Vec::new(),
            answer: [0; 2],
            given: 0,
            resets: 0,
            counts_every_byte: false,
        }
    }

    /// The same chip. With `counts_every_byte`, the register number of a block read also counts as a byte of
    /// a frame: neither a repeated START nor a STOP resets the byte count.
    pub fn counting_every_byte(self, counts_every_byte: bool) -> Hat {
        Hat { counts_every_byte, ..self }
    }
    /// Whether the register number of a block read is part of a frame.
    pub fn counts_every_byte(&self) -> bool {
        self.counts_every_byte
    }

    /// Its address.
    pub fn address(&self) -> u8 {
        self.address
    }
    /// Whether it acknowledges `address` now.
    pub fn answers(&self, address: u8, now: Instant) -> bool {
        address == self.address && self.is_up(now)
    }
    /// Whether its firmware runs.
    pub fn is_up(&self, now: Instant) -> bool {
        matches!(self.state, State::Runs { at } if now >= at)
    }
    /// Whether its reset line is low.
    pub fn is_held(&self) -> bool {
        matches!(self.state, State::Held)
    }
    /// How often it was reset, by its line or by itself.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Drives the reset line low (the chip is held in reset and forgets everything) or high (it starts).
    pub fn set_reset(&mut self, high: bool, now: Instant) {
        match (high, self.state) {
            (false, State::Runs { .. }) => self.lose_everything(State::Held),
            (true, State::Held) => self.state = State::Runs { at: now + BOOT },
            _ => {}
        }
    }
    /// Its supply collapses and returns: the same as a reset, but unrequested.
    pub fn brown_out(&mut self, now: Instant) {
        self.lose_everything(State::Runs { at: now + BOOT });
    }
    fn lose_everything(&mut self, state: State) {
        self.state = state;
        self.timers = [Timer::default(); 7];
        self.pulses = [0; 20];
        self.partial.clear();
        self.answer = [0; 2];
        self.given = 0;
        self.resets += 1;
    }

    /// Takes one written byte. Returns the converter's channel if the byte completes a frame that selects
    /// one; the caller then supplies the converted value.
    pub fn take(&mut self, byte: u8) -> Option<u8> {
        let _ = self.partial.push(byte); // has room for three bytes; a full frame is cleared below
        let [register, high, low] = self.partial.as_slice().try_into().ok()?;
        self.partial.clear();
        self.obey(register, u16::from_be_bytes([high, low]))
    }

    fn obey(&mut self, register: u8, value: u16) -> Option<u8> {
        let below = usize::from(register & 0x03);
        match register {
            0x10..=0x17 => return Some(7 - (register & 7)),
            0x20..=0x33 => self.pulses[usize::from(register - 0x20)] = value,
            0x40..=0x43 => self.timers[below].prescaler = value,
            0x44..=0x47 => self.timers[below].period = value,
            0x50..=0x52 => self.timers[4 + below].prescaler = value,
            0x54..=0x56 => self.timers[4 + below].period = value,
            _ => {} // no such register
        }
        None
    }

    /// Sets the converter's result, which is then read byte by byte.
    pub fn convert(&mut self, counts: u16) {
        self.answer = counts.to_be_bytes();
        self.given = 0;
    }

    /// The next byte read: the converter's result, most significant byte first, repeatedly.
    pub fn give(&mut self) -> u8 {
        let byte = self.answer[self.given % 2];
        self.given += 1;
        byte
    }

    /// Byte `nth` of a block read from `register`.
    pub fn block(&self, register: u8, nth: usize) -> u8 {
        if register == 0x05 { FIRMWARE.get(nth).copied().unwrap_or(0) } else { 0 }
    }

    /// Counts in a channel's pulse register.
    pub fn pulse(&self, channel: u8) -> u16 {
        self.pulses.get(usize::from(channel)).copied().unwrap_or(0)
    }

    /// The timer that drives a channel, if the chip has it and it is running.
    fn timer(&self, channel: u8) -> Option<Timer> {
        let number = match channel {
            0..=15 => channel / 4,
            16..=17 => 4,
            18 => 5,
            19 => 6,
            _ => return None,
        };
        let used = &self.timers[..self.timers_used];
        used.get(usize::from(number)).copied().filter(|timer| timer.period > 0)
    }
}

impl Outputs for Hat {
    fn duty(&self, channel: u8) -> f64 {
        let Some(timer) = self.timer(channel) else { return 0.0 };
        (f64::from(self.pulse(channel)) / f64::from(timer.period)).min(1.0)
    }

    fn servo_us(&self, channel: u8) -> Option<f64> {
        let timer = self.timer(channel)?;
        let counts_hz = self.clock_hz / (f64::from(timer.prescaler) + 1.0);
        let frames_hz = counts_hz / f64::from(timer.period);
        let listens = SERVO_HZ.contains(&frames_hz) && self.pulse(channel) > 0;
        listens.then(|| f64::from(self.pulse(channel)) * 1e6 / counts_hz)
    }

    fn is_silent(&self, channel: u8) -> bool {
        self.pulse(channel) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::Line;

    fn hat(timers: u8) -> Hat {
        Hat::new(&McuPlan { address: 0x14, others: [None; 3], clock_hz: 72_000_000, timers, reset: Line(5) })
    }

    fn write(hat: &mut Hat, bytes: &[u8]) -> Option<u8> {
        bytes.iter().filter_map(|byte| hat.take(*byte)).last()
    }

    #[test]
    fn a_pulse_needs_its_timer_and_servos_need_frames() {
        let mut hat = hat(4);
        write(&mut hat, &[0x2D, 0x08, 0x00, 0x22, 0x01, 0x33]);
        assert_eq!((hat.duty(13), hat.servo_us(2)), (0.0, None), "no timer is running");
        write(&mut hat, &[0x43, 0, 9, 0x47, 0x0F, 0xFF, 0x40, 0x01, 0x5F, 0x44, 0x0F, 0xFF]);
        assert_eq!(hat.duty(13), 2048.0 / 4095.0);
        assert!((hat.servo_us(2).unwrap() - 1500.9).abs() < 0.1);
        assert_eq!(hat.servo_us(13), None, "1758 Hz is too fast for a servo");
        assert_eq!(hat.servo_us(0), None, "no pulse");
    }

    #[test]
    fn a_v4_has_no_timer_for_the_upper_channels() {
        for (timers, expected) in [(4, 0.0), (7, 1.0)] {
            let mut hat = hat(timers);
            write(&mut hat, &[0x50, 0, 9, 0x54, 0x0F, 0xFF, 0x31, 0x0F, 0xFF]);
            assert_eq!(hat.duty(17), expected);
        }
    }

    #[test]
    fn a_broken_frame_shifts_all_that_follow_until_a_reset() {
        let mut hat = hat(4);
        write(&mut hat, &[0x43, 0, 9, 0x47, 0x0F, 0xFF]);
        assert_eq!(write(&mut hat, &[0x2D]), None); // aborted
        write(&mut hat, &[0x2C, 0x0F, 0xFF]); // arrives as 2D 2C 0F, and FF is left over
        assert_eq!((hat.pulse(12), hat.pulse(13)), (0, 0x2C0F), "the wrong motor runs");
        assert_eq!(write(&mut hat, &[0x17, 0, 0]), None, "and no conversion is requested");
        let now = Instant::from_nanos(9);
        hat.set_reset(false, now);
        hat.set_reset(true, now);
        assert!(!hat.answers(0x14, now) && hat.answers(0x14, now + BOOT));
        assert_eq!((hat.pulse(13), hat.duty(13), hat.resets()), (0, 0.0, 1));
        assert_eq!(write(&mut hat, &[0x17, 0, 0]), Some(0));
    }

    #[test]
    fn the_converter_answers_most_significant_byte_first() {
        let mut hat = hat(4);
        assert_eq!(write(&mut hat, &[0x13, 0, 0]), Some(4));
        hat.convert(0x0ABC);
        assert_eq!([hat.give(), hat.give()], [0x0A, 0xBC]);
        assert_eq!([hat.block(5, 0), hat.block(5, 1), hat.block(5, 2)], [1, 1, 4]);
    }

    #[test]
    fn pulses_continue_without_writes_and_end_with_the_supply() {
        let mut hat = hat(4);
        write(&mut hat, &[0x43, 0, 9, 0x47, 0x0F, 0xFF, 0x2D, 0x0F, 0xFF]);
        assert_eq!(hat.duty(13), 1.0);
        hat.brown_out(Instant::ZERO);
        assert_eq!((hat.duty(13), hat.is_up(Instant::ZERO)), (0.0, false));
    }
}
