//! A PCA9685 as seen from the wire: a register map with an auto-incrementing pointer, sixteen channels at one
//! frequency, asleep after every loss of its supply. It does not model the world: its owner reads the pulses
//! and moves the motors.
//!
//! Register map: NXP PCA9685 rev. 4, implemented independently of the driver. Not modelled: sub-addresses,
//! the general call, the external clock, and inverted and open-drain outputs. Nor is it modelled whether
//! outputs change at STOP or at ACK, because no bus here is slow enough to show the difference.

use super::outputs::Outputs;

const MODE1: usize = 0x00;
const PRE_SCALE: usize = 0xFE;
/// Four registers per channel: the on count and the off count, each least significant byte first. Four more
/// registers write all channels at once.
const FIRST: usize = 0x06;
const LAST: usize = 0x45;
const ALL: usize = 0xFA;
const ALL_END: usize = 0xFD;
const REGISTERS: usize = 0x100;

const SLEEP: u8 = 0x10;
const INCREMENT: u8 = 0x20;
const RESTART: u8 = 0x80;
/// MODE1 and the prescaler after power-on.
const POWER_ON: [u8; 2] = [SLEEP | 0x01, 0x1E];
/// In the high byte of an on or off count: on or off for the whole period.
const FULL: u8 = 0x10;
/// Its internal oscillator.
const OSCILLATOR_HZ: f64 = 25e6;
/// Counts in one period.
const PERIOD: f64 = 4096.0;

/// One chip.
#[derive(Clone, Debug)]
pub struct Pca9685 {
    address: u8,
    registers: [u8; REGISTERS],
    pointer: usize,
}

impl Pca9685 {
    /// A chip at `address` that was just powered.
    pub fn new(address: u8) -> Pca9685 {
        let mut chip = Pca9685 { address, registers: [0; REGISTERS], pointer: 0 };
        chip.lose_power();
        chip
    }
    /// Its address.
    pub fn address(&self) -> u8 {
        self.address
    }
    /// Forgets everything that was written to it: asleep, every channel off.
    pub fn lose_power(&mut self) {
        self.registers = [0; REGISTERS];
        [self.registers[MODE1], self.registers[PRE_SCALE]] = POWER_ON;
        for channel in 0..16 {
            self.registers[FIRST + 4 * channel + 3] = FULL;
        }
        self.pointer = 0;
    }

    /// A write: the first byte selects the register; the others go there and to the following ones.
    pub fn write(&mut self, bytes: &[u8]) {
        let Some((first, values)) = bytes.split_first() else { return };
        self.pointer = usize::from(*first);
        for value in values {
            self.set(self.pointer, *value);
            self.step();
        }
    }

    /// A read that continues where the last read or write ended.
    pub fn read(&mut self, back: &mut [u8]) {
        for byte in back {
            *byte = match self.pointer {
                ALL..=ALL_END => 0, // write-only
                pointer => self.registers[pointer],
            };
            self.step();
        }
    }

    fn step(&mut self) {
        if self.registers[MODE1] & INCREMENT != 0 {
            self.pointer = (self.pointer + 1) % REGISTERS;
        }
    }

    fn set(&mut self, register: usize, value: u8) {
        match register {
            MODE1 => self.registers[MODE1] = value & !RESTART,
            PRE_SCALE if self.registers[MODE1] & SLEEP == 0 => {} // blocked while the oscillator runs
            ALL..=ALL_END => {
                for channel in 0..16 {
                    self.registers[FIRST + 4 * channel + (register - ALL)] = value;
                }
            }
            _ => self.registers[register] = value,
        }
    }

    /// On and off counts of `channel`, including the full-on and full-off flags.
    fn counts(&self, channel: u8) -> Option<[u16; 2]> {
        let at = FIRST + 4 * usize::from(channel);
        (at < LAST).then(|| {
            [0, 2].map(|half| u16::from_le_bytes([self.registers[at + half], self.registers[at + half + 1]]))
        })
    }
}

impl Outputs for Pca9685 {
    fn duty(&self, channel: u8) -> f64 {
        if self.registers[MODE1] & SLEEP != 0 || self.is_silent(channel) {
            return 0.0;
        }
        let full = u16::from(FULL) << 8;
        match self.counts(channel) {
            Some([on, _]) if on & full != 0 => 1.0,
            Some([on, off]) => f64::from((off & 0x0FFF).wrapping_sub(on & 0x0FFF) & 0x0FFF) / PERIOD,
            None => 0.0,
        }
    }

    fn servo_us(&self, channel: u8) -> Option<f64> {
        let hz = OSCILLATOR_HZ / PERIOD / (f64::from(self.registers[PRE_SCALE]) + 1.0);
        let us = self.duty(channel) * 1e6 / hz;
        (super::outputs::SERVO_HZ.contains(&hz) && us > 0.0).then_some(us)
    }

    fn is_silent(&self, channel: u8) -> bool {
        let full = u16::from(FULL) << 8;
        self.counts(channel).is_none_or(|[on, off]| off & full != 0 || on == off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn awake() -> Pca9685 {
        let mut chip = Pca9685::new(0x40);
        chip.write(&[0xFE, 121]);
        chip.write(&[0x00, 0x20]);
        chip
    }

    #[test]
    fn the_pca9685_pulses_only_while_awake() {
        let mut chip = Pca9685::new(0x40);
        chip.write(&[0x06, 0]);
        chip.write(&[0x08, 0]);
        chip.write(&[0x09, 0x08]);
        assert_eq!(chip.duty(0), 0.0, "asleep");
        chip.write(&[0x00, 0x20]);
        assert_eq!(chip.duty(0), 0.5);
        chip.write(&[0x0A, 0, 0, 0x00, 0x04, 0, FULL, 0, 0]);
        assert_eq!((chip.duty(1), chip.duty(2), chip.duty(3)), (0.25, 1.0, 0.0));
        chip.write(&[0xFD, FULL]);
        assert_eq!([0, 1, 2].map(|channel| chip.duty(channel)), [0.0; 3]);
        assert!((0..16).all(|channel| chip.is_silent(channel)));
    }

    #[test]
    fn prescaler_is_set_only_asleep_and_servos_need_frames() {
        let mut chip = awake();
        chip.write(&[0xFE, 5]);
        let mut back = [0];
        chip.write(&[0xFE]);
        chip.read(&mut back);
        assert_eq!(back, [121]);
        chip.write(&[0x06, 0, 0, 0x33, 0x01]); // 307 of 4096 counts, 20 ms period
        assert!((chip.servo_us(0).unwrap() - 1498.0).abs() < 3.0, "{:?}", chip.servo_us(0));
        chip.write(&[0x00, 0x30]);
        chip.write(&[0xFE, 5]);
        chip.write(&[0x00, 0x20]);
        assert_eq!(chip.servo_us(0), None, "1 kHz is too fast for a servo");
    }

    #[test]
    fn a_lost_supply_leaves_it_asleep_and_off() {
        let mut chip = awake();
        chip.write(&[0x06, 0, FULL, 0, 0]);
        chip.lose_power();
        let mut back = [0];
        chip.write(&[0x00]);
        chip.read(&mut back);
        assert_eq!((back, chip.duty(0)), ([0x11], 0.0));
        chip.write(&[0x00, 0x20]);
        assert_eq!(chip.duty(0), 0.0, "every channel is off after power-on");
    }
}
