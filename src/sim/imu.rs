//! An MPU-6050 as seen from the wire: a register map with an auto-incrementing pointer, acceleration and
//! rotation in the configured scales, asleep after every loss of its supply. It does not model the world: its
//! owner sets how the car leans and moves.
//!
//! Register map and scales: InvenSense RM-MPU-6000A rev. 4.2, implemented independently of the driver.
//! Mounted with x forward, y left, z up, over the middle of the car. Its interrupt line pulses once per
//! sample, at multiples of the sample period since the start of the world. Not modelled: filters and their
//! delay, the self-test, the FIFO, other interrupts, and the error of an accelerometer mounted off the axis
//! of a turn.

use super::car::STEP_S;
use super::noise::Noise;
use crate::base::plan::MotionErrors;
use crate::base::time::Span;

const SAMPLE_RATE_DIVIDER: usize = 0x19;
const CONFIG: usize = 0x1A;
const GYRO_CONFIG: usize = 0x1B;
const ACCEL_CONFIG: usize = 0x1C;
const INT_ENABLE: usize = 0x38;
const ACCEL_XOUT_H: usize = 0x3B;
const GYRO_ZOUT_L: usize = 0x48;
const PWR_MGMT_1: usize = 0x6B;
const WHO_AM_I: usize = 0x75;
/// Number of registers in the map; after the last one, the pointer wraps around.
const REGISTERS: usize = 0x76;

const RESET: u8 = 0x80;
const ASLEEP: u8 = 0x40;
const DATA_READY: u8 = 0x01;
/// Filter settings with which it samples at 1 kHz; without a filter it samples at 8 kHz.
const FILTERED: std::ops::RangeInclusive<u8> = 1..=6;
const IDENTITY: u8 = 0x68;

const G: f64 = 9.80665;
/// Counts per g and per degree per second in the finest of the four scales; each coarser scale has half the
/// counts of the previous one.
const PER_G: f64 = 16_384.0;
const PER_DEG_S: f64 = 131.0;
/// Standard deviations of one sample: noise densities of 400 ug and of 0.005 degrees per second, each per
/// root hertz, over a bandwidth of 94 Hz.
const NOISE_G: f64 = 0.004;
const NOISE_DEG_S: f64 = 0.05;
/// The die is a few degrees warmer than the room.
const DIE_C: f64 = 31.0;
const NOISE_C: f64 = 0.05;

/// How the car moves at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CarMotion {
    /// Lean to the right, degrees.
    pub lean_deg: f64,
    /// Metres per second, forward positive.
    pub speed: f64,
    /// Rate of turn to the left, radians per second.
    pub turn: f64,
}

/// One chip.
#[derive(Clone, Debug)]
pub struct Imu {
    address: u8,
    registers: [u8; REGISTERS],
    pointer: usize,
    motion: CarMotion,
    /// Acceleration over the last step, m/s^2.
    forward: f64,
    /// What each gyroscope measures at rest, degrees a second, and the share by which it measures too much.
    rotation_errors: [f64; 2],
    noise: Noise,
}

impl Imu {
    /// A chip at `address` that was just powered, with the gyroscope of a car with these `errors`.
    pub fn new(address: u8, errors: &MotionErrors, noise: Noise) -> Imu {
        let mut imu = Imu {
            address,
            registers: [0; REGISTERS],
            pointer: 0,
            motion: CarMotion::default(),
            forward: 0.0,
            rotation_errors: [errors.gyro_zero_deg_s, errors.gyro_scale],
            noise,
        };
        imu.lose_power();
        imu
    }
    /// Its address.
    pub fn address(&self) -> u8 {
        self.address
    }
    /// Forgets everything that was written to it.
    pub fn lose_power(&mut self) {
        self.registers = [0; REGISTERS];
        self.registers[PWR_MGMT_1] = ASLEEP;
        self.registers[WHO_AM_I] = IDENTITY;
        self.pointer = 0;
    }
    /// Time between the pulses on its interrupt line; `None`: it does not pulse.
    pub fn pulses_every(&self) -> Option<Span> {
        let pulses = self.registers[INT_ENABLE] & DATA_READY != 0;
        let awake = self.registers[PWR_MGMT_1] & ASLEEP == 0;
        let sample = match FILTERED.contains(&(self.registers[CONFIG] & 7)) {
            true => Span::from_micros(1000),
            false => Span::from_micros(125),
        };
        (pulses && awake).then(|| sample.times(1 + u64::from(self.registers[SAMPLE_RATE_DIVIDER])))
    }
    /// One step of the world, after which the car moves with `motion`.
    pub fn step(&mut self, motion: CarMotion) {
        self.forward = (motion.speed - self.motion.speed) / STEP_S;
        self.motion = motion;
    }

    /// A write: the first byte selects the register; the others go there and to the following ones.
    pub fn write(&mut self, bytes: &[u8]) {
        let Some((first, values)) = bytes.split_first() else { return };
        self.pointer = usize::from(*first) % REGISTERS;
        for value in values {
            self.set(self.pointer, *value);
            self.pointer = (self.pointer + 1) % REGISTERS;
        }
    }

    fn set(&mut self, register: usize, value: u8) {
        match register {
            PWR_MGMT_1 if value & RESET != 0 => {
                let pointer = self.pointer;
                self.lose_power();
                self.pointer = pointer;
            }
            ACCEL_XOUT_H..=GYRO_ZOUT_L | WHO_AM_I => {} // cannot be written
            _ => self.registers[register] = value,
        }
    }

    /// A read that continues where the last read or write ended. All bytes of a burst belong to one sample.
    pub fn read(&mut self, back: &mut [u8]) {
        let end = self.pointer + back.len();
        if self.pointer <= GYRO_ZOUT_L && end > ACCEL_XOUT_H && self.registers[PWR_MGMT_1] & ASLEEP == 0 {
            self.sample();
        }
        for byte in back {
            *byte = self.registers[self.pointer];
            self.pointer = (self.pointer + 1) % REGISTERS;
        }
    }

    fn sample(&mut self) {
        let CarMotion { lean_deg, speed, turn } = self.motion;
        let lean = lean_deg.to_radians();
        // At rest an accelerometer measures 1 g upwards; in a turn to the left, it accelerates to the left.
        let g = [self.forward / G, libm::sin(lean) + speed * turn / G, libm::cos(lean)];
        let [zero, scale] = self.rotation_errors;
        let deg_s = [0.0, 0.0, turn.to_degrees()].map(|rate| zero + rate * (1.0 + scale));
        let (per_g, per_deg_s) = (PER_G / self.coarser(ACCEL_CONFIG), PER_DEG_S / self.coarser(GYRO_CONFIG));
        let mut words = [0; 7];
        for axis in 0..3 {
            words[axis] = counts((g[axis] + self.noise.draw(NOISE_G)) * per_g);
            words[4 + axis] = counts((deg_s[axis] + self.noise.draw(NOISE_DEG_S)) * per_deg_s);
        }
        words[3] = counts((DIE_C + self.noise.draw(NOISE_C) - 36.53) * 340.0);
        for (word, place) in words.into_iter().zip((ACCEL_XOUT_H..).step_by(2)) {
            self.registers[place..place + 2].copy_from_slice(&word.to_be_bytes());
        }
    }

    /// How many times coarser the scale selected by a configuration register is than the finest.
    fn coarser(&self, register: usize) -> f64 {
        f64::from(1 << (self.registers[register] >> 3 & 3))
    }
}

fn counts(value: f64) -> i16 {
    libm::round(value) as i16 // the cast saturates, as the chip does
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imu() -> Imu {
        Imu::new(0x68, &MotionErrors::default(), Noise::new(1, 6))
    }

    fn awake() -> Imu {
        let mut imu = imu();
        imu.write(&[0x6B, 0x01]);
        imu
    }

    fn burst(imu: &mut Imu) -> [i16; 7] {
        let mut bytes = [0; 14];
        imu.write(&[0x3B]);
        imu.read(&mut bytes);
        std::array::from_fn(|nth| i16::from_be_bytes([bytes[2 * nth], bytes[2 * nth + 1]]))
    }

    #[test]
    fn a_sleeping_imu_reads_zeros_and_its_identity() {
        let mut imu = imu();
        assert_eq!(burst(&mut imu), [0; 7]);
        let mut byte = [0];
        imu.write(&[0x75]);
        imu.read(&mut byte);
        assert_eq!(byte, [0x68]);
        imu.write(&[0x6B, 0x01]);
        assert!(burst(&mut imu)[2] > 16_000);
    }

    #[test]
    fn the_data_ready_line_pulses_at_the_set_rate_while_awake() {
        let mut imu = imu();
        imu.write(&[0x19, 9]);
        imu.write(&[0x1A, 2]);
        imu.write(&[0x38, 1]);
        assert_eq!(imu.pulses_every(), None, "asleep");
        imu.write(&[0x6B, 0x01]);
        assert_eq!(imu.pulses_every(), Some(Span::from_millis(10)));
        imu.write(&[0x1A, 0]);
        assert_eq!(imu.pulses_every(), Some(Span::from_micros(1250)));
        imu.write(&[0x38, 0]);
        assert_eq!(imu.pulses_every(), None);
    }

    #[test]
    fn gravity_follows_lean_and_turns_push_outwards() {
        let mut imu = awake();
        imu.step(CarMotion { lean_deg: 30.0, ..CarMotion::default() });
        let [x, y, z, ..] = burst(&mut imu);
        assert!(x.abs() < 250 && (y - 8192).abs() < 250 && (z - 14_189).abs() < 250, "{x} {y} {z}");
        let turning = CarMotion { lean_deg: 0.0, speed: 0.5, turn: 2.0 };
        imu.step(turning);
        imu.step(turning);
        let words = burst(&mut imu);
        assert!((f64::from(words[1]) - 16_384.0 / G).abs() < 250.0, "1 m/s^2 to the left: {words:?}");
        assert!((f64::from(words[6]) - 114.6 * 131.0).abs() < 30.0, "114.6 degrees a second: {words:?}");
    }

    #[test]
    fn scales_are_kept_until_a_reset_or_lost_supply() {
        let mut imu = awake();
        imu.write(&[0x1B, 0x08, 0x08]); // both scale registers in one write
        let z = burst(&mut imu)[2];
        assert!((z - 8192).abs() < 150, "{z}");
        for lose in [|imu: &mut Imu| imu.write(&[0x6B, 0x80]), Imu::lose_power] {
            lose(&mut imu);
            assert_eq!(burst(&mut imu), [0; 7]);
            imu.write(&[0x6B, 0x00]);
            assert!(burst(&mut imu)[2] > 16_000, "it must be back at the finest scale");
        }
    }
}
