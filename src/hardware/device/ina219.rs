//! INA219 power monitor (Texas Instruments SBOS448G): bus voltage, current through a shunt, and their
//! product. Set up and read through the ina219 crate.
//!
//! The current is computed from the shunt voltage. The chip's own current register is not used, because it
//! depends on a calibration register, which is cleared when the chip loses power; the chip then reports no
//! current at all. All other settings are the reset values (32 V, +-320 mV, 12 bits, continuous), so a chip
//! that lost power comes back with the same settings.
//!
//! Each register is read in its own transfer, through the crate's feature `no_transaction`: the controller of
//! a Pi 1 to 4 accepts at most one read in a transfer, and only as the last message (Linux, i2c-bcm2835.c).

use super::adapter::Adapter;
use super::{DeviceFault, Polled, Ports, Say};
use crate::base::plan::PowerQuantity;
use ina219::SyncIna219 as Driver;
use ina219::address::Address;
use ina219::calibration::UnCalibrated;
use ina219::errors::{InitializationErrorReason, MeasurementError};

const CONFIGURATION: u8 = 0x00;
const BUS_VOLTAGE: u8 = 0x02;

/// One chip.
#[derive(Clone, Debug)]
pub struct Ina219 {
    address: u8,
    shunt_ohms: f32,
    outputs: Box<[PowerQuantity]>,
}

impl Ina219 {
    /// The chip at `address` with this shunt, in ohms, and these outputs.
    pub fn new(address: u8, shunt_ohms: f32, outputs: Box<[PowerQuantity]>) -> Ina219 {
        Ina219 { address, shunt_ohms, outputs }
    }

    fn wired(&self) -> Result<Address, DeviceFault> {
        // The board check accepts only addresses that the chip can have.
        Address::from_byte(self.address).map_err(|_| DeviceFault::Impossible { register: CONFIGURATION })
    }

    /// Volts and amperes of one measurement.
    fn measure(&self, ports: &mut Ports<'_>) -> Result<[f32; 2], DeviceFault> {
        let address = self.wired()?;
        let mut adapter = Adapter::new(ports);
        let measured = Driver::new_unchecked(&mut adapter, address, UnCalibrated).next_measurement();
        let register = BUS_VOLTAGE;
        match measured {
            Ok(Some(measured)) => {
                let volts = f32::from(measured.bus_voltage.voltage_4mv()) * 4e-3;
                let shunt_volts = f32::from(measured.shunt_voltage.shunt_voltage_10uv()) * 10e-6;
                Ok([volts, shunt_volts / self.shunt_ohms])
            }
            Ok(None) => Err(DeviceFault::NotReady { register }),
            Err(MeasurementError::MathOverflow(_)) => Err(DeviceFault::Overflow { register }),
            Err(_) => Err(adapter.fault(DeviceFault::Impossible { register })),
        }
    }
}

impl Polled for Ina219 {
    /// Resets the chip and identifies it by the values that a few of its registers then have.
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let address = self.wired()?;
        let mut adapter = Adapter::new(ports);
        let reason = match Driver::new(&mut adapter, address) {
            Ok(_) => return Ok(()),
            Err(error) => error.reason,
        };
        Err(adapter.fault(match reason {
            InitializationErrorReason::BusVoltageOutOfRange
            | InitializationErrorReason::ShuntVoltageOutOfRange => {
                DeviceFault::Impossible { register: BUS_VOLTAGE }
            }
            _ => DeviceFault::Impossible { register: CONFIGURATION },
        }))
    }

    fn poll(&mut self, ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        let measured = self.measure(ports);
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

    const ALL: [PowerQuantity; 3] = [PowerQuantity::Volts, PowerQuantity::Amperes, PowerQuantity::Watts];

    fn chip() -> Ina219 {
        Ina219::new(0x40, 0.1, ALL.into())
    }

    /// The transfers of a poll, each with only one read: bus voltage, power (which clears the ready flag),
    /// shunt voltage.
    fn reading(bus: u16, shunt: i16) -> FakeI2c {
        FakeI2c::new().write_read(0x40, &[2], &bus.to_be_bytes()).write_read(0x40, &[3], &[0, 0]).write_read(
            0x40,
            &[1],
            &shunt.to_be_bytes(),
        )
    }

    #[test]
    fn one_count_is_4_mv_of_bus_and_10_uv_of_shunt_voltage() {
        // 11.98 V and 80 mV across 0.1 ohm: the worked example of the data sheet's shunt register (0x1F40 =
        // 80 mV).
        let bus = (2995 << 3) | 0b10;
        let (said, outcome) = polled(&mut chip(), &mut reading(bus, 0x1F40));
        assert_eq!(outcome, Ok(()));
        let values: Vec<f32> = said.iter().map(|(_, value)| value.unwrap()).collect();
        for (value, expected) in values.iter().zip([11.98, 0.8, 9.584]) {
            assert!((value - expected).abs() < 1e-4, "{values:?}");
        }
        let (said, _) = polled(&mut chip(), &mut reading(bus, -8000));
        assert!((said[1].1.unwrap() + 0.8).abs() < 1e-5, "charging is negative");
    }

    #[test]
    fn overflow_old_data_and_impossible_voltages_are_refused() {
        let said = |bus, shunt| polled(&mut chip(), &mut reading(bus, shunt)).0[1].1;
        let register = BUS_VOLTAGE;
        assert_eq!(said((2995 << 3) | 0b11, 0), Err(DeviceFault::Overflow { register }));
        assert_eq!(said(2995 << 3, 0), Err(DeviceFault::NotReady { register }));
        assert_eq!(said((2995 << 3) | 0b10, 0x7FFF), Err(DeviceFault::Impossible { register }));
        assert_eq!(said(0xFFFF, -1), Err(DeviceFault::Impossible { register }));
    }

    #[test]
    fn a_bus_fault_is_reported_for_all_values_and_returned() {
        let nack = DeviceFault::Bus { register: 2, fault: BusFault::Nack };
        let (said, outcome) = polled(&mut chip(), &mut FakeI2c::new().fault(0x40, BusFault::Nack));
        assert_eq!((said, outcome), (vec![(0, Err(nack)), (1, Err(nack)), (2, Err(nack))], Err(nack)));
    }

    #[test]
    fn set_up_resets_and_identifies_the_chip_by_its_registers() {
        let reset = || FakeI2c::new().write(0x40, &[0, 0xB9, 0x9F]).write_read(0x40, &[0], &[0x39, 0x9F]);
        let mut i2c = reset()
            .write_read(0x40, &[5], &[0, 0])
            .write_read(0x40, &[4], &[0, 0])
            .write_read(0x40, &[3], &[0, 0])
            .write_read(0x40, &[1], &[0, 5])
            .write_read(0x40, &[2], &[0x5D, 0x9A]);
        assert_eq!(set_up(&mut chip(), &mut i2c), Ok(Span::ZERO));
        let mut other = reset().write_read(0x40, &[5], &[0x12, 0x34]);
        let impossible = DeviceFault::Impossible { register: CONFIGURATION };
        assert_eq!(set_up(&mut chip(), &mut other), Err(impossible));
    }
}
