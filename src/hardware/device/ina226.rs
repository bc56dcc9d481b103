//! INA226 power monitor (Texas Instruments SBOS547A): bus voltage, current through a shunt, and their
//! product.
//!
//! As with the INA219, the current is computed from the shunt voltage, and the settings are the reset values
//! (1.1 ms conversions, continuous): a chip that lost power comes back with the same settings.

use super::{DeviceFault, Polled, Ports, Say};
use crate::base::plan::PowerQuantity;
use crate::hardware::bus::I2c;

// Registers of 16 bits, most significant byte first (data sheet, 7.5.3 and 7.6).
const CONFIGURATION: u8 = 0x00;
const SHUNT_VOLTAGE: u8 = 0x01;
const BUS_VOLTAGE: u8 = 0x02;
const MASK_ENABLE: u8 = 0x06;
const MANUFACTURER: u8 = 0xFE;
const DIE: u8 = 0xFF;
/// Reset value of the configuration (7.6.1): bit 14 is always 1; bits 11-9 are 0 (one sample per average);
/// bus voltage (8-6) and shunt voltage (5-3) are converted in 1.1 ms each, continuously (2-0).
const AFTER_RESET: u16 = 1 << 14 | 0b100 << 6 | 0b100 << 3 | 0b111;
/// Mask/Enable (7.6.7): a conversion has ended since the last read of this register.
const CONVERSION_READY: u16 = 1 << 3;
/// Mask/Enable (7.6.7): the chip's own arithmetic overflowed.
const MATH_OVERFLOW: u16 = 1 << 2;
/// "TI" (7.6.9).
const TEXAS_INSTRUMENTS: u16 = 0x5449;
/// Device 0x226, revision 0 (7.6.10).
const INA226_DIE: u16 = 0x2260;
/// Volts per count (7.6.2, 7.6.3).
const SHUNT_VOLTS: f32 = 2.5e-6;
const BUS_VOLTS: f32 = 1.25e-3;
/// Counts for 40.96 V, full scale of the bus voltage; the register's highest bit is always 0.
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

    /// Reads a register. One transfer selects the register and the next reads it: the chip keeps the pointer.
    fn read(&self, register: u8, i2c: &mut dyn I2c) -> Result<u16, DeviceFault> {
        let fault = |fault| DeviceFault::Bus { register, fault };
        let mut answer = [0; 2];
        i2c.write(self.address, &[register]).map_err(fault)?;
        i2c.read(self.address, &mut answer).map_err(fault)?;
        Ok(u16::from_be_bytes(answer))
    }

    fn write(&self, register: u8, value: u16, i2c: &mut dyn I2c) -> Result<(), DeviceFault> {
        let [high, low] = value.to_be_bytes();
        let bytes = [register, high, low];
        i2c.write(self.address, &bytes).map_err(|fault| DeviceFault::Bus { register, fault })
    }

    /// Volts and amperes of one measurement; zero for a value that no output needs.
    fn measure(&self, i2c: &mut dyn I2c) -> Result<[f32; 2], DeviceFault> {
        let register = MASK_ENABLE;
        let flags = self.read(register, i2c)?;
        let bus = if self.wants(PowerQuantity::Volts) { self.read(BUS_VOLTAGE, i2c)? } else { 0 };
        let shunt = if self.wants(PowerQuantity::Amperes) { self.read(SHUNT_VOLTAGE, i2c)? } else { 0 };
        let shunt = shunt.cast_signed();
        if flags & MATH_OVERFLOW != 0 {
            return Err(DeviceFault::Overflow { register });
        }
        if flags & CONVERSION_READY == 0 {
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
        let maker = self.read(MANUFACTURER, ports.i2c)?;
        match (maker, self.read(DIE, ports.i2c)?) {
            (TEXAS_INSTRUMENTS, INA226_DIE) => {}
            (TEXAS_INSTRUMENTS, die) => {
                return Err(DeviceFault::WrongDevice { register: DIE, found: (die >> 8) as u8 });
            }
            (0x0000 | 0xFFFF, _) => return Err(DeviceFault::DeadBytes { register: MANUFACTURER }),
            (maker, _) => {
                return Err(DeviceFault::WrongDevice { register: MANUFACTURER, found: (maker >> 8) as u8 });
            }
        }
        self.write(CONFIGURATION, AFTER_RESET, ports.i2c)
    }

    fn poll(&mut self, ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        let measured = self.measure(ports.i2c);
        super::power::report(&self.outputs, measured, say)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::base::time::Span;
    use crate::hardware::bus::fake::FakeI2c;
    use crate::hardware::device::bench::{polled, set_up};

    const READY: u16 = 1 << 3;

    /// One transfer of a script, and its register.
    type Part = (u8, fn(FakeI2c) -> FakeI2c);

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
    fn the_data_sheets_worked_example_is_reproduced() {
        // SBOS547A, table 5: 11.98 V is 0x2570, 20 mV across 2 mohm (10 A) is 0x1F40; 119.82 W.
        let outputs = [PowerQuantity::Volts, PowerQuantity::Amperes, PowerQuantity::Watts];
        let (said, outcome) = polled(&mut chip(&outputs), &mut reading(READY, 0x2570, 0x1F40));
        assert_eq!(outcome, Ok(()));
        for ((_, value), expected) in said.iter().zip([11.98, 10.0, 119.8]) {
            assert!((value.unwrap() - expected).abs() < 1e-3 * expected, "{said:?}");
        }
    }

    #[test]
    fn only_requested_values_are_read() {
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
    fn set_up_identifies_the_chip_and_rewrites_all_settings() {
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

    #[test]
    fn a_fault_at_any_transfer_ends_the_set_up_there() {
        // Each register is selected in one transfer and read in the next; the settings take three bytes.
        let parts: [Part; 5] = [
            (0xFE, |i2c| i2c.write(0x41, &[0xFE])),
            (0xFE, |i2c| i2c.read(0x41, &[0x54, 0x49])),
            (0xFF, |i2c| i2c.write(0x41, &[0xFF])),
            (0xFF, |i2c| i2c.read(0x41, &[0x22, 0x60])),
            (0x00, |i2c| i2c.write(0x41, &[0x00, 0x41, 0x27])),
        ];
        let so_far = |count: usize| parts[..count].iter().fold(FakeI2c::new(), |i2c, (_, part)| part(i2c));
        for (count, (register, _)) in parts.into_iter().enumerate() {
            let mut i2c = so_far(count).fault(0x41, BusFault::TimedOut);
            let late = DeviceFault::Bus { register, fault: BusFault::TimedOut };
            assert_eq!(set_up(&mut chip(&[]), &mut i2c), Err(late), "after {count} transfers");
        }
        assert_eq!(set_up(&mut chip(&[]), &mut so_far(parts.len())), Ok(Span::ZERO));
    }

    #[test]
    fn flags_of_the_alert_pin_change_nothing() {
        // All bits of Mask/Enable are set except the overflow: the alert functions, and undefined bits.
        let (said, outcome) = polled(&mut chip(&[PowerQuantity::Volts]), &mut {
            register(register(FakeI2c::new(), 6, !(1 << 2)), 2, 0x2570)
        });
        assert_eq!(outcome, Ok(()));
        assert!((said[0].1.unwrap() - 11.98).abs() < 1e-3);
    }

    #[test]
    fn a_fault_at_any_transfer_of_a_poll_is_returned() {
        let parts: [Part; 6] = [
            (0x06, |i2c| i2c.write(0x41, &[0x06])),
            (0x06, |i2c| i2c.read(0x41, &[0x00, 0x08])),
            (0x02, |i2c| i2c.write(0x41, &[0x02])),
            (0x02, |i2c| i2c.read(0x41, &[0x25, 0x70])),
            (0x01, |i2c| i2c.write(0x41, &[0x01])),
            (0x01, |i2c| i2c.read(0x41, &[0x1F, 0x40])),
        ];
        for (count, (register, _)) in parts.iter().enumerate() {
            let so_far = parts[..count].iter().fold(FakeI2c::new(), |i2c, (_, part)| part(i2c));
            let outcome = polled(&mut chip(&[PowerQuantity::Watts]), &mut so_far.fault(0x41, BusFault::Io)).1;
            let broken = DeviceFault::Bus { register: *register, fault: BusFault::Io };
            assert_eq!(outcome, Err(broken), "after {count} transfers");
        }
    }
}
