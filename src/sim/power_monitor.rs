//! An INA219 or INA226 that measures the battery: 16-bit registers, high byte first. A write selects a
//! register, and reads return that register repeatedly. It does not model the battery: its owner supplies
//! voltage and current.
//!
//! Registers and counts: Texas Instruments SBOS448G and SBOS547A, implemented independently of the drivers.
//! Not modelled: averaging, alerts, the chips' own conversion into amperes and watts (these registers read 0,
//! as without a calibration), and conversion time: a new conversion is always ready.

use super::noise::Noise;
use crate::base::plan::PowerChip;

const CONFIGURATION: u8 = 0x00;
const SHUNT_VOLTAGE: u8 = 0x01;
const BUS_VOLTAGE: u8 = 0x02;
const CALIBRATION: u8 = 0x05;
const MASK_ENABLE: u8 = 0x06;
const MANUFACTURER: u8 = 0xFE;
const DIE: u8 = 0xFF;
const RESET: u16 = 1 << 15;
/// INA219: this bus voltage is new. INA226: a conversion is ready.
const CONVERTED: u16 = 1 << 1;
const CONVERSION_READY: u16 = 1 << 3;
/// The manufacturer's identity ("TI" in ASCII), and the die identity of the INA226.
const TEXAS_INSTRUMENTS: u16 = 0x5449;
const INA226_DIE: u16 = 0x2260;
/// Standard deviations of a reading: one count of the coarser chip, in volts; and a hundredth of the motors'
/// current at full duty, in amperes.
const NOISE_V: f64 = 0.004;
const NOISE_A: f64 = 0.01;

/// One chip.
#[derive(Clone, Debug)]
pub struct PowerMonitor {
    chip: PowerChip,
    address: u8,
    shunt_ohms: f64,
    configuration: u16,
    calibration: u16,
    pointer: u8,
    noise: Noise,
}

impl PowerMonitor {
    /// A chip at `address`, with this shunt, that was just powered.
    pub fn new(chip: PowerChip, address: u8, shunt_ohms: f32, noise: Noise) -> PowerMonitor {
        let shunt_ohms = shunt_ohms.into();
        let mut monitor =
            PowerMonitor { chip, address, shunt_ohms, configuration: 0, calibration: 0, pointer: 0, noise };
        monitor.lose_power();
        monitor
    }
    /// Its address.
    pub fn address(&self) -> u8 {
        self.address
    }
    /// Forgets everything that was written to it.
    pub fn lose_power(&mut self) {
        self.configuration = match self.chip {
            PowerChip::Ina219 => 0x399F,
            PowerChip::Ina226 => 0x4127,
        };
        (self.calibration, self.pointer) = (0, 0);
    }

    /// A write: the first byte selects the register, two more are its value.
    pub fn write(&mut self, bytes: &[u8]) {
        let Some((register, value)) = bytes.split_first() else { return };
        self.pointer = *register;
        let [high, low] = *value else { return };
        match (*register, u16::from_be_bytes([high, low])) {
            (CONFIGURATION, value) if value & RESET != 0 => self.lose_power(),
            (CONFIGURATION, value) => self.configuration = value,
            (CALIBRATION, value) => self.calibration = value,
            _ => {} // read-only, or without effect in this model
        }
    }

    /// A read of the register that was selected last.
    pub fn read(&mut self, back: &mut [u8], volts: f64, amperes: f64) {
        let word = self.register(volts, amperes).to_be_bytes();
        back.iter_mut().zip(word.into_iter().cycle()).for_each(|(byte, value)| *byte = value);
    }

    fn register(&mut self, volts: f64, amperes: f64) -> u16 {
        match (self.pointer, self.chip) {
            (CONFIGURATION, _) => self.configuration,
            (CALIBRATION, _) => self.calibration,
            (SHUNT_VOLTAGE, chip) => {
                let shunt_volts = (amperes + self.noise.draw(NOISE_A)) * self.shunt_ohms;
                let (count, most) = match chip {
                    PowerChip::Ina219 => (10e-6, 32_000.0),
                    PowerChip::Ina226 => (2.5e-6, 32_767.0),
                };
                libm::round(shunt_volts / count).clamp(-most, most) as i16 as u16
            }
            (BUS_VOLTAGE, chip) => {
                let volts = (volts + self.noise.draw(NOISE_V)).max(0.0);
                match chip {
                    PowerChip::Ina219 => (libm::round(volts / 4e-3).min(8000.0) as u16) << 3 | CONVERTED,
                    PowerChip::Ina226 => libm::round(volts / 1.25e-3).min(32_767.0) as u16,
                }
            }
            (MASK_ENABLE, PowerChip::Ina226) => CONVERSION_READY,
            (MANUFACTURER, PowerChip::Ina226) => TEXAS_INSTRUMENTS,
            (DIE, PowerChip::Ina226) => INA226_DIE,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(chip: PowerChip, registers: [u8; 3]) -> [u16; 3] {
        let mut monitor = PowerMonitor::new(chip, 0x41, 0.1, Noise::new(1, 160));
        registers.map(|register| {
            let mut bytes = [0; 2];
            monitor.write(&[register]);
            monitor.read(&mut bytes, 7.8, 1.2);
            u16::from_be_bytes(bytes)
        })
    }

    #[test]
    fn counts_are_those_of_each_data_sheet() {
        let [configuration, shunt, bus] = words(PowerChip::Ina219, [0, 1, 2]);
        assert_eq!(configuration, 0x399F);
        assert!((11_700..=12_300).contains(&shunt), "1.2 A through 0.1 ohm, in units of 10 uV: {shunt}");
        assert_eq!(bus & 0b11, 0b10, "a new conversion, no overflow");
        assert!((1947..=1953).contains(&(bus >> 3)), "7.8 V in units of 4 mV: {}", bus >> 3);
        let [configuration, maker, bus] = words(PowerChip::Ina226, [0, 0xFE, 2]);
        assert_eq!((configuration, maker), (0x4127, 0x5449));
        assert!((6230..=6250).contains(&bus), "7.8 V in units of 1.25 mV: {bus}");
    }

    #[test]
    fn a_reset_forgets_what_was_set() {
        let mut monitor = PowerMonitor::new(PowerChip::Ina226, 0x41, 0.1, Noise::new(1, 160));
        let configuration = |monitor: &mut PowerMonitor| {
            let mut bytes = [0; 2];
            monitor.write(&[0]);
            monitor.read(&mut bytes, 0.0, 0.0);
            bytes
        };
        monitor.write(&[0, 0x45, 0x67]);
        assert_eq!(configuration(&mut monitor), [0x45, 0x67]);
        monitor.write(&[0, 0x80, 0x00]);
        assert_eq!(configuration(&mut monitor), [0x41, 0x27]);
    }
}
