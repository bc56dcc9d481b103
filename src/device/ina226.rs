//! INA226 power monitor (Texas Instruments SBOS547A): bus voltage, current through a shunt, their product.
//! Set up and read through the ina226 crate.
//!
//! As with the INA219, the current is computed from the shunt voltage, and the settings are those after a
//! reset (1.1 ms conversions, continuous): a chip that lost its supply has nothing to forget.

use super::adapter::Adapter;
use super::{DeviceFault, Polled, Ports, Say};
use crate::plan::PowerQuantity;
use ina226::{AVG, Config, INA226 as Driver, MODE, MaskEnableFlags, VBUSCT, VSHCT};

const SHUNT_VOLTAGE: u8 = 0x01;
const BUS_VOLTAGE: u8 = 0x02;
const MASK_ENABLE: u8 = 0x06;
const MANUFACTURER: u8 = 0xFE;
const DIE: u8 = 0xFF;
/// "TI".
const TEXAS_INSTRUMENTS: u16 = 0x5449;
const INA226_DIE: u16 = 0x2260;
/// Volts of one count.
const SHUNT_VOLTS: f32 = 2.5e-6;
const BUS_VOLTS: f32 = 1.25e-3;
/// Counts of 40.96 V, the end of the bus voltage's scale; the register's highest bit is always 0.
const MOST_BUS: u16 = 0x7FFF;

/// One chip.
#[derive(Clone, Debug)]
pub struct Ina226 {
    address: u8,
    shunt_ohms: f32,
    outputs: Box<[PowerQuantity]>,
}

impl Ina226 {
    /// The chip at `address` with this shunt, in ohms, and these outputs.
    pub fn new(address: u8, shunt_ohms: f32, outputs: Box<[PowerQuantity]>) -> Ina226 {
        Ina226 { address, shunt_ohms, outputs }
    }

    fn wants(&self, quantity: PowerQuantity) -> bool {
        self.outputs.iter().any(|output| *output == quantity || *output == PowerQuantity::Watts)
    }

    /// Volts and amperes of one measurement; zero for what no output needs.
    fn measure(&self, ports: &mut Ports<'_>) -> Result<[f32; 2], DeviceFault> {
        let mut adapter = Adapter::new(ports);
        let read = (|| {
            let mut driver = Driver::new(&mut adapter, self.address);
            let flags = driver.mask_enable()?;
            let bus = if self.wants(PowerQuantity::Volts) { driver.bus_voltage_raw()? } else { 0 };
            let shunt = if self.wants(PowerQuantity::Amperes) { driver.shunt_voltage_raw()? } else { 0 };
            Ok::<_, super::adapter::Refused>((flags, bus, shunt))
        })();
        let (flags, bus, shunt) = read.map_err(|refused| refused.0)?;
        let register = MASK_ENABLE;
        if flags.contains(MaskEnableFlags::OVF) {
            return Err(DeviceFault::Overflow { register });
        }
        if !flags.contains(MaskEnableFlags::CVRF) {
            return Err(DeviceFault::NotReady { register });
        }
        match (bus, shunt) {
            (0xFFFF, -1) => Err(DeviceFault::DeadBytes { register: BUS_VOLTAGE }),
            (bus, _) if bus > MOST_BUS => Err(DeviceFault::Impossible { register: BUS_VOLTAGE }),
            (_, i16::MIN | i16::MAX) => Err(DeviceFault::Overflow { register: SHUNT_VOLTAGE }),
            (bus, shunt) => {
                Ok([f32::from(bus) * BUS_VOLTS, f32::from(shunt) * SHUNT_VOLTS / self.shunt_ohms])
            }
        }
    }
}

impl Polled for Ina226 {
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let mut adapter = Adapter::new(ports);
        let mut driver = Driver::new(&mut adapter, self.address);
        let identity = driver.manufacturer_id().and_then(|maker| Ok((maker, driver.die_id()?)));
        match identity.map_err(|refused| refused.0)? {
            (TEXAS_INSTRUMENTS, INA226_DIE) => {}
            (TEXAS_INSTRUMENTS, die) => {
                return Err(DeviceFault::WrongDevice { register: DIE, found: (die >> 8) as u8 });
            }
            (0x0000 | 0xFFFF, _) => return Err(DeviceFault::DeadBytes { register: MANUFACTURER }),
            (maker, _) => {
                return Err(DeviceFault::WrongDevice { register: MANUFACTURER, found: (maker >> 8) as u8 });
            }
        }
        let settings = Config {
            avg: AVG::_1,
            vbusct: VBUSCT::_1100us,
            vshct: VSHCT::_1100us,
            mode: MODE::ShuntBusVoltageContinuous,
        };
        driver.set_configuration(&settings).map_err(|refused| refused.0)
    }

    fn poll(&mut self, ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        let measured = self.measure(ports);
        super::power::report(&self.outputs, measured, say)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::fake::FakeI2c;
    use crate::device::bench::{polled, set_up};
    use crate::fault::BusFault;
    use crate::time::Span;

    const READY: u16 = 1 << 3;

    fn chip(outputs: &[PowerQuantity]) -> Ina226 {
        Ina226::new(0x41, 0.002, outputs.into())
    }

    fn register(i2c: FakeI2c, register: u8, value: u16) -> FakeI2c {
        i2c.write(0x41, &[register]).read(0x41, &value.to_be_bytes())
    }

    fn reading(flags: u16, bus: u16, shunt: i16) -> FakeI2c {
        register(register(register(FakeI2c::new(), 6, flags), 2, bus), 1, shunt as u16)
    }

    #[test]
    fn the_data_sheets_worked_example() {
        // SBOS547A, table 5: 11.98 V is 0x2570, 20 mV over 2 mohm (10 A) is 0x1F40; 119.82 W.
        let outputs = [PowerQuantity::Volts, PowerQuantity::Amperes, PowerQuantity::Watts];
        let (said, outcome) = polled(&mut chip(&outputs), &mut reading(READY, 0x2570, 0x1F40));
        assert_eq!(outcome, Ok(()));
        for ((_, value), expected) in said.iter().zip([11.98, 10.0, 119.8]) {
            assert!((value.unwrap() - expected).abs() < 1e-3 * expected, "{said:?}");
        }
    }

    #[test]
    fn only_what_is_wanted_is_read() {
        let mut i2c = register(register(FakeI2c::new(), 6, READY), 1, (-8000_i16) as u16);
        let (said, _) = polled(&mut chip(&[PowerQuantity::Amperes]), &mut i2c);
        assert!((said[0].1.unwrap() + 10.0).abs() < 1e-4);
    }

    #[test]
    fn flags_and_ends_of_the_scale_are_refused() {
        let said = |flags, bus, shunt| {
            polled(&mut chip(&[PowerQuantity::Watts]), &mut reading(flags, bus, shunt)).0[0].1
        };
        let register = MASK_ENABLE;
        assert_eq!(said(READY | 1 << 2, 0x2570, 9), Err(DeviceFault::Overflow { register }));
        assert_eq!(said(0, 0x2570, 9), Err(DeviceFault::NotReady { register }));
        let shunt = DeviceFault::Overflow { register: SHUNT_VOLTAGE };
        assert_eq!(said(READY, 0x2570, i16::MAX), Err(shunt));
        assert_eq!(said(READY, 0x8000, 9), Err(DeviceFault::Impossible { register: BUS_VOLTAGE }));
        assert_eq!(said(READY, 0xFFFF, -1), Err(DeviceFault::DeadBytes { register: BUS_VOLTAGE }));
    }

    #[test]
    fn setting_up_knows_the_chip_and_restores_what_a_reset_leaves() {
        let known = || register(register(FakeI2c::new(), 0xFE, 0x5449), 0xFF, 0x2260);
        let mut i2c = known().write(0x41, &[0, 0x41, 0x27]);
        assert_eq!(set_up(&mut chip(&[]), &mut i2c), Ok(Span::ZERO));
        let mut other = register(register(FakeI2c::new(), 0xFE, 0x5449), 0xFF, 0x2270);
        let wrong = DeviceFault::WrongDevice { register: DIE, found: 0x22 };
        assert_eq!(set_up(&mut chip(&[]), &mut other), Err(wrong));
        let mut broken = known().fault(0x41, BusFault::Nack);
        let nack = DeviceFault::Bus { register: 0, fault: BusFault::Nack };
        assert_eq!(set_up(&mut chip(&[]), &mut broken), Err(nack));
    }
}
