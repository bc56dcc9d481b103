//! MPU-6050: acceleration, temperature and rotation, as needed, and the lean computed from gravity. The
//! mpu6050-dmp crate sets it up; this file does the reading, because it is a robot's most frequent one and
//! the crate does not read the temperature in the same transfer. The chip must be mounted with x forward, y
//! left, z up.
//!
//! Of the 14 bytes of a sample, only the acceleration and what the outputs need are read, in at most two
//! transfers: a motor stop waits for the transfer in progress, and may run between the two. The chip freezes
//! its registers during a read, so the bytes of a transfer belong to one sample (section 4.17), and no vector
//! is ever split over two transfers. If the chip signals each sample, acceleration and rotation are from the
//! same sample, because the next one is a whole period away. If it is polled instead, they may be a
//! millisecond apart: this is the chip's own period, a tenth of the time over which its filter averages.
//!
//! Registers, scales and the temperature's formula: InvenSense RM-MPU-6000A rev. 4.2, sections 4.4 to 4.28.
//! The lean is computed from acceleration: it is correct while the robot neither accelerates nor falls.

use super::adapter::{Adapter, Delay};
use super::{DeviceFault, Polled, Ports, Say};
use crate::base::plan::{Axis, ImuQuantity};
use crate::base::time::Span;
use crate::hardware::bus::I2c;
use mpu6050_dmp::accel::AccelFullScale;
use mpu6050_dmp::address::Address;
use mpu6050_dmp::clock_source::ClockSource;
use mpu6050_dmp::config::DigitalLowPassFilter;
use mpu6050_dmp::gyro::GyroFullScale;
use mpu6050_dmp::sensor::Mpu6050 as Driver;

/// First register of a sample: acceleration x, y, z, temperature, rotation x, y, z, most significant byte
/// first.
pub const BURST: u8 = 0x3B;
const BURST_BYTES: usize = 14;
/// Bytes of a vector.
const VECTOR: usize = 6;
/// Bytes of the acceleration and of the temperature, which follows it.
const WITH_TEMPERATURE: usize = 8;
const ROTATION: u8 = BURST + WITH_TEMPERATURE as u8;
const INT_ENABLE: u8 = 0x38;
/// Bit of [`INT_ENABLE`]: a pulse for every sample. (Version 0.6 of the crate sets bit 7 instead, which has
/// no meaning.)
const DATA_READY: u8 = 1 << 0;
const WHO_AM_I: u8 = 0x75;
/// Value of the identity register, whatever the address pin selects.
const IDENTITY: u8 = 0x68;
const PWR_MGMT_1: u8 = 0x6B;
/// Bit of [`PWR_MGMT_1`] that is set after every reset.
const SLEEP: u8 = 1 << 6;

/// Counts per g at +-4 g: a wheel on a door sill causes more than 2 g, and at 4 g the resolution is still a
/// hundredth of a degree.
const COUNTS_PER_G: f32 = 8192.0;
/// Counts per degree per second in the +-500 range: a small robot that turns on the spot reaches up to 300.
const COUNTS_PER_DEG_S: f32 = 65.5;
/// Standard gravity, m/s^2.
pub const G: f32 = 9.806_65;
/// Below this acceleration, in g, the direction of gravity is not credible: the robot is falling.
const LEAST_G: f32 = 0.2;
/// The chip's own sample period when its filter is on. A divider of 1 to 256 multiplies it.
const FILTERED_PERIOD: Span = Span::from_millis(1);

/// One sample as read; fields that were not read are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    acceleration: [i16; 3],
    temperature: i16,
    rotation: [i16; 3],
}

impl Burst {
    /// The sample in these 14 bytes.
    pub fn of(bytes: &[u8; BURST_BYTES]) -> Burst {
        let word = |nth: usize| i16::from_be_bytes([bytes[2 * nth], bytes[2 * nth + 1]]);
        Burst {
            acceleration: [word(0), word(1), word(2)],
            temperature: word(3),
            rotation: [word(4), word(5), word(6)],
        }
    }

    /// The value of one quantity: degrees, m/s^2, degrees a second, degrees Celsius.
    pub fn value(&self, quantity: ImuQuantity) -> Result<f32, DeviceFault> {
        match quantity {
            ImuQuantity::Roll => self.gravity().map(|[_, y, z]| libm::atan2f(y, z).to_degrees()),
            ImuQuantity::Pitch => {
                self.gravity().map(|[x, y, z]| libm::atan2f(x, libm::hypotf(y, z)).to_degrees())
            }
            ImuQuantity::Acceleration(axis) => {
                measured(self.acceleration[place(axis)]).map(|counts| counts / COUNTS_PER_G * G)
            }
            ImuQuantity::Rotation(axis) => {
                measured(self.rotation[place(axis)]).map(|counts| counts / COUNTS_PER_DEG_S)
            }
            ImuQuantity::Temperature => measured(self.temperature).map(|counts| counts / 340.0 + 36.53),
        }
    }

    /// Measured gravity as a vector that points up, in g.
    fn gravity(&self) -> Result<[f32; 3], DeviceFault> {
        let mut up = [0.0; 3];
        for (up, counts) in up.iter_mut().zip(self.acceleration) {
            *up = measured(counts)? / COUNTS_PER_G;
        }
        let size = libm::hypotf(libm::hypotf(up[0], up[1]), up[2]);
        if size < LEAST_G { Err(DeviceFault::Impossible { register: BURST }) } else { Ok(up) }
    }
}

/// Returns the counts, or a fault at either end of the scale, where the true value may be larger.
fn measured(counts: i16) -> Result<f32, DeviceFault> {
    match counts {
        i16::MIN | i16::MAX => Err(DeviceFault::Overflow { register: BURST }),
        counts => Ok(counts.into()),
    }
}

fn place(axis: Axis) -> usize {
    match axis {
        Axis::X => 0,
        Axis::Y => 1,
        Axis::Z => 2,
    }
}

/// One chip.
#[derive(Clone, Debug)]
pub struct Mpu6050 {
    address: u8,
    outputs: Box<[ImuQuantity]>,
    /// Time between samples if the chip signals each; `None`: it is polled.
    rings: Option<Span>,
}

impl Mpu6050 {
    /// The chip at `address` with these outputs. `rings`: the time between samples (1 to 256 ms, rounded down
    /// to a whole millisecond), if the interrupt line is wired and pulses for each sample.
    pub fn new(address: u8, outputs: Box<[ImuQuantity]>, rings: Option<Span>) -> Mpu6050 {
        Mpu6050 { address, outputs, rings }
    }

    fn identify(&self, i2c: &mut dyn I2c) -> Result<(), DeviceFault> {
        match self.register(WHO_AM_I, i2c)? {
            IDENTITY => Ok(()),
            0x00 | 0xFF => Err(DeviceFault::DeadBytes { register: WHO_AM_I }),
            found => Err(DeviceFault::WrongDevice { register: WHO_AM_I, found }),
        }
    }

    fn register(&self, register: u8, i2c: &mut dyn I2c) -> Result<u8, DeviceFault> {
        let mut answer = [0];
        self.read(register, &mut answer, i2c)?;
        Ok(answer[0])
    }

    fn read(&self, register: u8, bytes: &mut [u8], i2c: &mut dyn I2c) -> Result<(), DeviceFault> {
        let read = i2c.write_read(self.address, &[register], bytes);
        read.map_err(|fault| DeviceFault::Bus { register, fault })
    }

    /// Divider minus one.
    fn divider(&self) -> u8 {
        let period = self.rings.unwrap_or(FILTERED_PERIOD).as_nanos() / FILTERED_PERIOD.as_nanos();
        period.clamp(1, 256).saturating_sub(1) as u8
    }

    /// Reads acceleration, and temperature if needed, into `bytes`; returns a fault if the sample is not
    /// plausible. Acceleration is always read: because of gravity it is never zero, which shows that the chip
    /// is measuring.
    fn begin(&self, bytes: &mut [u8; BURST_BYTES], i2c: &mut dyn I2c) -> Result<(), DeviceFault> {
        let register = BURST;
        let warmth = self.outputs.iter().any(|quantity| matches!(quantity, ImuQuantity::Temperature));
        let first = &mut bytes[..if warmth { WITH_TEMPERATURE } else { VECTOR }];
        self.read(BURST, first, i2c)?;
        if first.iter().all(|byte| *byte == 0xFF) {
            return Err(DeviceFault::DeadBytes { register });
        }
        if first[..VECTOR] != [0; VECTOR] {
            return Ok(());
        }
        // Noise alone is a few counts on each axis. A chip that reset itself sleeps and returns zeros.
        if self.register(PWR_MGMT_1, i2c)? & SLEEP != 0 {
            return Err(DeviceFault::Asleep { register: PWR_MGMT_1 });
        }
        Err(DeviceFault::DeadBytes { register })
    }

    /// Reports the outputs that are rotations if `rotation`, otherwise the other outputs.
    fn report(&self, rotation: bool, burst: Result<Burst, DeviceFault>, say: &mut Say<'_>) {
        let outputs = self.outputs.iter().enumerate().filter(|(_, quantity)| turns(quantity) == rotation);
        for (nth, &quantity) in outputs {
            say(nth, burst.and_then(|burst| burst.value(quantity)));
        }
    }
}

fn turns(quantity: &ImuQuantity) -> bool {
    matches!(quantity, ImuQuantity::Rotation(_))
}

impl Polled for Mpu6050 {
    /// Resets the chip and sets it up, which takes 0.2 s.
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.identify(ports.i2c)?;
        let (mut delay, divider, rings) = (Delay(ports.clock), self.divider(), self.rings.is_some());
        let mut adapter = Adapter::new(ports);
        let driven = (|| {
            let mut driver = Driver::new(&mut adapter, Address(self.address)).map_err(|_| ())?;
            driver.reset(&mut delay).map_err(|_| ())?;
            driver.disable_sleep().map_err(|_| ())?;
            // More stable than the chip's own oscillator.
            driver.set_clock_source(ClockSource::Xgyro).map_err(|_| ())?;
            // 94 Hz: 3 ms of delay, and it filters out the motors' whine.
            driver.set_digital_lowpass_filter(DigitalLowPassFilter::Filter2).map_err(|_| ())?;
            driver.set_sample_rate_divider(divider).map_err(|_| ())?;
            driver.set_accel_full_scale(AccelFullScale::G4).map_err(|_| ())?;
            driver.set_gyro_full_scale(GyroFullScale::Deg500).map_err(|_| ())?;
            driver.disable_interrupts().map_err(|_| ())
        })();
        driven.map_err(|()| adapter.fault(DeviceFault::Impossible { register: PWR_MGMT_1 }))?;
        if rings {
            let register = INT_ENABLE;
            let set = ports.i2c.write(self.address, &[register, DATA_READY]);
            set.map_err(|fault| DeviceFault::Bus { register, fault })?;
        }
        Ok(())
    }

    /// Reports the lean before rotation is read, so that a robot that tips over is stopped sooner.
    fn poll(&mut self, ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        let mut bytes = [0; BURST_BYTES];
        let mut read = self.begin(&mut bytes, ports.i2c);
        self.report(false, read.map(|()| Burst::of(&bytes)), say);
        if read.is_ok() && self.outputs.iter().any(turns) {
            read = self.read(ROTATION, &mut bytes[WITH_TEMPERATURE..], ports.i2c);
        }
        self.report(true, read.map(|()| Burst::of(&bytes)), say);
        match read {
            Err(fault) if fault.ends_poll() => Err(fault),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::hardware::bus::fake::FakeI2c;
    use crate::hardware::device::bench::{polled, set_up};

    const LEVEL: [i16; 7] = [0, 0, 8192, 0, 0, 0, 0];

    fn bytes(words: [i16; 7]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn value(words: [i16; 7], quantity: ImuQuantity) -> Result<f32, DeviceFault> {
        let bytes: [u8; BURST_BYTES] = bytes(words).try_into().unwrap();
        Burst::of(&bytes).value(quantity)
    }

    fn chip(outputs: &[ImuQuantity]) -> Mpu6050 {
        Mpu6050::new(0x68, outputs.into(), None)
    }

    #[test]
    fn scales_match_the_data_sheet() {
        let near = |words, quantity, expected: f32| {
            let value = value(words, quantity).unwrap();
            assert!((value - expected).abs() < 0.005 * expected.abs().max(1.0), "{quantity:?}: {value}");
        };
        near(LEVEL, ImuQuantity::Acceleration(Axis::Z), 9.80665);
        near([-4096, 0, 8192, 0, 0, 0, 0], ImuQuantity::Acceleration(Axis::X), -4.9033);
        near([0, 0, 8192, 0, 655, 0, 0], ImuQuantity::Rotation(Axis::X), 10.0);
        near([0, 0, 8192, 0, 0, 0, -6550], ImuQuantity::Rotation(Axis::Z), -100.0);
        near(LEVEL, ImuQuantity::Temperature, 36.53);
        near([0, 0, 8192, -3920, 0, 0, 0], ImuQuantity::Temperature, 25.0);
    }

    #[test]
    fn lean_follows_gravity() {
        let half = (8192.0 * 0.5) as i16; // sin 30
        let rest = (8192.0 * 0.866) as i16;
        let near = |words, quantity, expected: f32| {
            assert!((value(words, quantity).unwrap() - expected).abs() < 0.02, "{quantity:?} {words:?}");
        };
        near([0, half, rest, 0, 0, 0, 0], ImuQuantity::Roll, 30.0);
        near([0, -half, rest, 0, 0, 0, 0], ImuQuantity::Roll, -30.0);
        near([half, 0, rest, 0, 0, 0, 0], ImuQuantity::Pitch, 30.0);
        near([0, 0, -8192, 0, 0, 0, 0], ImuQuantity::Roll, 180.0);
        near([8192, 0, 1, 0, 0, 0, 0], ImuQuantity::Pitch, 90.0);
        // In free fall there is no direction of up.
        let falling = value([300, 200, 500, 0, 0, 0, 0], ImuQuantity::Roll);
        assert_eq!(falling, Err(DeviceFault::Impossible { register: BURST }));
    }

    #[test]
    fn full_scale_readings_are_refused() {
        let overflow = Err(DeviceFault::Overflow { register: BURST });
        let hit = [i16::MAX, 0, 8192, 0, 0, i16::MIN, 0];
        assert_eq!(value(hit, ImuQuantity::Acceleration(Axis::X)), overflow);
        assert_eq!(value(hit, ImuQuantity::Roll), overflow);
        assert_eq!(value(hit, ImuQuantity::Rotation(Axis::Y)), overflow);
        assert!(value(hit, ImuQuantity::Rotation(Axis::Z)).is_ok());
    }

    #[test]
    fn only_requested_vectors_are_read_and_none_is_split() {
        let sample = bytes([0, 0, 8192, 0, 131, 0, 0]);
        let (gravity, rotation) = ((&[0x3B][..], &sample[..6]), (&[0x43][..], &sample[8..]));
        let with_temperature = (&[0x3B][..], &sample[..8]);
        let script = |parts: &[(&[u8], &[u8])]| {
            parts.iter().fold(FakeI2c::new(), |i2c, (out, back)| i2c.write_read(0x68, out, back))
        };
        let (turn, heat) = (ImuQuantity::Rotation(Axis::X), ImuQuantity::Temperature);
        let (said, outcome) =
            polled(&mut chip(&[ImuQuantity::Roll, turn, heat]), &mut script(&[with_temperature, rotation]));
        assert_eq!((said, outcome), (vec![(0, Ok(0.0)), (2, Ok(36.53)), (1, Ok(2.0))], Ok(())));
        let lean = [ImuQuantity::Roll, ImuQuantity::Pitch];
        assert_eq!(polled(&mut chip(&lean), &mut script(&[gravity])).1, Ok(()), "only acceleration is read");
        let (said, _) = polled(&mut chip(&[turn]), &mut script(&[gravity, rotation]));
        assert_eq!(said, [(0, Ok(2.0))]);
    }

    #[test]
    fn stop_between_transfers_leaves_the_lean_but_no_rotation() {
        let gave_way = DeviceFault::Bus { register: 0x43, fault: BusFault::Preempted };
        let mut i2c =
            FakeI2c::new().write_read(0x68, &[0x3B], &bytes(LEVEL)[..6]).fault(0x68, BusFault::Preempted);
        let outputs = [ImuQuantity::Roll, ImuQuantity::Rotation(Axis::Z)];
        let (said, outcome) = polled(&mut chip(&outputs), &mut i2c);
        assert_eq!((said, outcome), (vec![(0, Ok(0.0)), (1, Err(gave_way))], Err(gave_way)));
        assert!(gave_way.gave_way() && !gave_way.needs_reset() && !gave_way.needs_set_up());
    }

    #[test]
    fn self_reset_chip_asks_for_set_up_and_a_dead_bus_does_not() {
        let outputs = [ImuQuantity::Roll, ImuQuantity::Pitch];
        let zeros = || FakeI2c::new().write_read(0x68, &[0x3B], &[0; 6]);
        let asleep = DeviceFault::Asleep { register: PWR_MGMT_1 };
        let mut i2c = zeros().write_read(0x68, &[0x6B], &[0x40]);
        let (said, outcome) = polled(&mut chip(&outputs), &mut i2c);
        assert_eq!((said, outcome), (vec![(0, Err(asleep)), (1, Err(asleep))], Err(asleep)));
        assert!(asleep.needs_set_up() && !asleep.needs_reset());
        let dead = DeviceFault::DeadBytes { register: BURST };
        for mut i2c in
            [zeros().write_read(0x68, &[0x6B], &[0x01]), FakeI2c::new().write_read(0x68, &[0x3B], &[0xFF; 6])]
        {
            let (said, outcome) = polled(&mut chip(&outputs), &mut i2c);
            assert_eq!((said, outcome), (vec![(0, Err(dead)), (1, Err(dead))], Ok(())));
        }
        let nack = DeviceFault::Bus { register: BURST, fault: BusFault::Nack };
        let (said, outcome) = polled(&mut chip(&outputs), &mut FakeI2c::new().fault(0x68, BusFault::Nack));
        assert_eq!((said, outcome), (vec![(0, Err(nack)), (1, Err(nack))], Err(nack)));
    }

    fn woken() -> FakeI2c {
        FakeI2c::new()
            .write_read(0x68, &[0x75], &[0x68])
            .write_read(0x68, &[0x6B], &[0x40])
            .write(0x68, &[0x6B, 0x00])
            .write_read(0x68, &[0x6B], &[0x00])
            .write(0x68, &[0x6B, 0x80]) // reset
            .write_read(0x68, &[0x6B], &[0x40])
            .write(0x68, &[0x6B, 0x00])
            .write_read(0x68, &[0x6B], &[0x00])
            .write(0x68, &[0x6B, 0x01]) // clock of the x gyroscope
            .write_read(0x68, &[0x1A], &[0x00])
            .write(0x68, &[0x1A, 0x02]) // 94 Hz
    }

    #[test]
    fn set_up_checks_identity_and_sets_filter_rate_and_ranges() {
        let ranges = |i2c: FakeI2c| {
            i2c.write_read(0x68, &[0x1C], &[0x00])
                .write(0x68, &[0x1C, 0x08]) // +-4 g
                .write_read(0x68, &[0x1B], &[0x00])
                .write(0x68, &[0x1B, 0x08]) // +-500 degrees a second
        };
        let mut asked = ranges(woken().write(0x68, &[0x19, 0])).write(0x68, &[0x38, 0x00]);
        assert_eq!(set_up(&mut chip(&[]), &mut asked), Ok(Span::from_millis(200)));
        let mut rings = Mpu6050::new(0x68, [].into(), Some(Span::from_micros(10_500)));
        let mut ringing =
            ranges(woken().write(0x68, &[0x19, 9])).write(0x68, &[0x38, 0x00]).write(0x68, &[0x38, 0x01]); // a pulse for every sample
        assert_eq!(set_up(&mut rings, &mut ringing), Ok(Span::from_millis(200)));
    }

    #[test]
    fn a_wrong_chip_or_a_fault_ends_the_set_up() {
        let found = |byte| set_up(&mut chip(&[]), &mut FakeI2c::new().write_read(0x68, &[0x75], &[byte]));
        assert_eq!(found(0x71), Err(DeviceFault::WrongDevice { register: 0x75, found: 0x71 }));
        assert_eq!(found(0xFF), Err(DeviceFault::DeadBytes { register: 0x75 }));
        let mut broken = woken().fault(0x68, BusFault::Io);
        let io = DeviceFault::Bus { register: 0x19, fault: BusFault::Io };
        assert_eq!(set_up(&mut chip(&[]), &mut broken), Err(io));
    }
}
