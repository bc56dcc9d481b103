//! The registers of an MPU-6050 as a driver sees them (RM-MPU-6000A-00, revision 4.2): identity, sleep,
//! ranges, sample rate, interrupt, and the fourteen bytes of a sample. No FIFO, DMP or auxiliary I2C bus,
//! because nothing here uses them.

use ganglion::base::time::Span;

/// First register of a sample: accelerations, temperature, angular rates, big endian.
pub const SAMPLE: u8 = 0x3B;
/// Number of bytes of a sample.
pub const SAMPLE_BYTES: usize = 14;
/// Identity register, and its value.
pub const WHO_AM_I: (u8, u8) = (0x75, 0x68);
const DIVIDER: u8 = 0x19;
const LOW_PASS: u8 = 0x1A;
const ACCELEROMETER: u8 = 0x1C;
const INTERRUPTS: u8 = 0x38;
/// Power management; asleep after power-on.
pub const POWER: u8 = 0x6B;
/// Value of [`POWER`] after a reset.
pub const ASLEEP: u8 = 0x40;
const RESET: u8 = 0x80;
const DATA_READY: u8 = 0x01;
/// Counts per g in the smallest range, 2 g; each larger range halves this number.
const COUNTS_PER_G: f64 = 16_384.0;
/// 25 degrees Celsius: degrees = counts / 340 + 36.53.
const TEMPERATURE: i16 = -3920;
/// Peak noise, counts: 0.1 degree of lean in the smallest range. It keeps samples from repeating for long.
const NOISE: u64 = 29;

/// The chip.
#[derive(Clone, Debug)]
pub struct Imu {
    registers: [u8; 128],
    /// State of the noise generator, never zero.
    noise: u64,
}

impl Imu {
    /// A chip that was just powered up.
    pub fn new() -> Imu {
        let mut imu = Imu { registers: [0; 128], noise: 0x9E37_79B9_7F4A_7C15 };
        imu.forget();
        imu
    }

    /// Forgets everything, as after a loss of its supply.
    pub fn forget(&mut self) {
        self.registers = [0; 128];
        self.registers[usize::from(POWER)] = ASLEEP;
        self.registers[usize::from(WHO_AM_I.0)] = WHO_AM_I.1;
    }

    /// Handles a write: register, then bytes. Returns true if it reset the chip.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        let Some((first, values)) = bytes.split_first() else { return false };
        for (register, value) in (usize::from(*first)..self.registers.len()).zip(values) {
            if register == usize::from(POWER) && value & RESET != 0 {
                self.forget();
                return true;
            }
            if register != usize::from(WHO_AM_I.0) {
                self.registers[register] = *value;
            }
        }
        false
    }

    /// Whether it is measuring.
    pub fn is_awake(&self) -> bool {
        self.registers[usize::from(POWER)] & ASLEEP == 0
    }

    /// Period of the data-ready interrupt; `None`: it is off, or the chip is asleep.
    pub fn ready_every(&self) -> Option<Span> {
        let on = self.is_awake() && self.registers[usize::from(INTERRUPTS)] & DATA_READY != 0;
        // 8 kHz with the low-pass filter off (0 or 7), else 1 kHz.
        let low_pass = self.registers[usize::from(LOW_PASS)] & 7;
        let base_us = if low_pass == 0 || low_pass == 7 { 125 } else { 1000 };
        let divider = 1 + u64::from(self.registers[usize::from(DIVIDER)]);
        on.then(|| Span::from_micros(base_us * divider))
    }

    /// A sample of a chip that leans by this many degrees to one side; zeros while it is asleep.
    pub fn sample(&mut self, lean_deg: f64) -> [u8; SAMPLE_BYTES] {
        let mut bytes = [0; SAMPLE_BYTES];
        if !self.is_awake() {
            return bytes;
        }
        let range = self.registers[usize::from(ACCELEROMETER)] >> 3 & 3;
        let counts_per_g = COUNTS_PER_G / f64::from(1_u8 << range);
        let lean = lean_deg.to_radians();
        let gravity = [0.0, lean.sin(), lean.cos()];
        for (place, share) in gravity.into_iter().enumerate() {
            let counts = share * counts_per_g + self.jitter();
            bytes[2 * place..2 * place + 2].copy_from_slice(&(counts as i16).to_be_bytes());
        }
        bytes[6..8].copy_from_slice(&TEMPERATURE.to_be_bytes());
        for place in 4..7 {
            let counts = self.jitter() as i16;
            bytes[2 * place..2 * place + 2].copy_from_slice(&counts.to_be_bytes());
        }
        bytes
    }

    /// Noise in counts (xorshift64).
    fn jitter(&mut self) -> f64 {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        (self.noise % (2 * NOISE + 1)) as f64 - NOISE as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imu_sleeps_until_woken_and_a_reset_clears_its_settings() {
        let mut imu = Imu::new();
        assert_eq!((imu.sample(30.0), imu.ready_every()), ([0; SAMPLE_BYTES], None));
        assert!(!imu.take(&[POWER, 0x01]));
        assert!(imu.is_awake() && imu.sample(30.0) != [0; SAMPLE_BYTES]);
        assert!(imu.take(&[POWER, 0x80]));
        assert!(!imu.is_awake());
    }

    #[test]
    fn lean_follows_the_direction_of_gravity() {
        let mut imu = Imu::new();
        imu.take(&[POWER, 0]);
        for range in 0..4_u8 {
            imu.take(&[ACCELEROMETER, range << 3]);
            let bytes = imu.sample(40.0);
            let counts = |at| f64::from(i16::from_be_bytes([bytes[at], bytes[at + 1]]));
            let lean = counts(2).atan2(counts(4)).to_degrees();
            assert!((lean - 40.0).abs() < 1.0, "{lean}");
        }
    }

    #[test]
    fn the_interrupt_rate_is_the_sample_rate() {
        let mut imu = Imu::new();
        imu.take(&[POWER, 0]);
        imu.take(&[DIVIDER, 9, 3]); // and the low-pass filter right after it
        assert_eq!(imu.ready_every(), None);
        imu.take(&[INTERRUPTS, DATA_READY]);
        assert_eq!(imu.ready_every(), Some(Span::from_millis(10)));
        imu.take(&[LOW_PASS, 0]);
        assert_eq!(imu.ready_every(), Some(Span::from_micros(1250)));
    }
}
