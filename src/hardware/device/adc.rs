//! One channel of the Robot HAT's 12-bit converter (adc.py of SunFounder's robot-hat library).
//!
//! A write selects the channel and starts the conversion; two one-byte reads fetch the result, most
//! significant byte first. They are separate transfers, because the vendor's library does it this way and the
//! firmware is known to support it.

use super::polled::Report;
use super::{DeviceFault, Polled, Ports, Say};
use crate::base::units::Counts;
use crate::hardware::bus::I2c;

/// Maximum count of a 12-bit converter.
pub use crate::base::plan::HAT_FULL as FULL;

/// The register that selects channel `channel`: A0 is 0x17, A4 is 0x13.
pub const fn select_register(channel: u8) -> u8 {
    0x10 | (7 - (channel & 7))
}

/// A channel of the converter.
#[derive(Clone, Copy, Debug)]
pub struct HatAdc {
    address: u8,
    register: u8,
    per_count: f32,
}

impl HatAdc {
    /// Channel `channel` (A0..A4 as 0..4) of the controller at `address`; one count is `per_count`
    /// of the sensor's unit.
    pub fn new(address: u8, channel: u8, per_count: f32) -> HatAdc {
        HatAdc { address, register: select_register(channel), per_count }
    }

    /// Converts now: returns the value in the sensor's unit.
    pub fn read(&self, i2c: &mut dyn I2c) -> Result<f32, DeviceFault> {
        self.read_counts(i2c).map(|counts| counts.0 * self.per_count)
    }

    /// Converts now and returns the raw counts, 0 to 4095. Zero counts are a valid answer (dark ground); if
    /// they are impossible for a sensor, the board's valid range refuses them.
    pub fn read_counts(&self, i2c: &mut dyn I2c) -> Result<Counts, DeviceFault> {
        let register = self.register;
        let fault = |fault| DeviceFault::Bus { register, fault };
        let (mut high, mut low) = ([0], [0]);
        i2c.write(self.address, &[register, 0, 0]).map_err(fault)?;
        i2c.read(self.address, &mut high).map_err(fault)?;
        i2c.read(self.address, &mut low).map_err(fault)?;
        match u16::from_be_bytes([high[0], low[0]]) {
            counts @ 0..=FULL => Ok(Counts(f32::from(counts))),
            0xFFFF => Err(DeviceFault::DeadBytes { register }), // a bus that no device pulls low
            _ => Err(DeviceFault::Impossible { register }),
        }
    }
}

impl Polled for HatAdc {
    fn poll(&mut self, ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        self.read(ports.i2c).report(say)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::hardware::bus::fake::FakeI2c;

    fn reading(register: u8, bytes: [u8; 2]) -> FakeI2c {
        FakeI2c::new().write(0x14, &[register, 0, 0]).read(0x14, &bytes[..1]).read(0x14, &bytes[1..])
    }

    #[test]
    fn adc_channels_are_numbered_downwards() {
        let registers: Vec<u8> = (0..5).map(select_register).collect();
        assert_eq!(registers, [0x17, 0x16, 0x15, 0x14, 0x13]);
    }

    #[test]
    fn battery_thresholds_match_the_vendors() {
        let battery = HatAdc::new(0x14, 4, 9.9 / 4095.0);
        for (counts, volts) in [(3475_u16, 8.4), (3144, 7.6), (2957, 7.15), (2647, 6.4), (2482, 6.0)] {
            let read = battery.read(&mut reading(0x13, counts.to_be_bytes())).unwrap();
            assert!((read - volts).abs() < 0.003, "{counts} counts are {read} V");
        }
    }

    #[test]
    fn adc_values_above_twelve_bits_are_refused() {
        let ground = HatAdc::new(0x14, 0, 1.0);
        assert_eq!(ground.read(&mut reading(0x17, [0x0F, 0xFF])), Ok(4095.0));
        assert_eq!(ground.read(&mut reading(0x17, [0, 0])), Ok(0.0));
        let refused = Err(DeviceFault::Impossible { register: 0x17 });
        assert_eq!(ground.read(&mut reading(0x17, [0x10, 0x00])), refused);
        let dead = Err(DeviceFault::DeadBytes { register: 0x17 });
        assert_eq!(ground.read(&mut reading(0x17, [0xFF, 0xFF])), dead);
    }

    #[test]
    fn a_fault_in_any_of_the_three_transfers_is_returned() {
        let ground = HatAdc::new(0x14, 2, 1.0);
        let expected = Err(DeviceFault::Bus { register: 0x15, fault: BusFault::Io });
        let scripts = [
            FakeI2c::new().fault(0x14, BusFault::Io),
            FakeI2c::new().write(0x14, &[0x15, 0, 0]).fault(0x14, BusFault::Io),
            FakeI2c::new().write(0x14, &[0x15, 0, 0]).read(0x14, &[5]).fault(0x14, BusFault::Io),
        ];
        for mut script in scripts {
            assert_eq!(ground.read(&mut script), expected);
        }
    }
}
