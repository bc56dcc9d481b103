//! A co-processor that provides a quantity as a little-endian IEEE-754 single-precision float in four bytes
//! of one register. The board states the quantity and its unit.

use super::polled::Report;
use super::{DeviceFault, Polled, Ports, Say};
use crate::hardware::bus::I2c;

/// One such register.
#[derive(Clone, Copy, Debug)]
pub struct FloatRegister {
    address: u8,
    register: u8,
}

impl FloatRegister {
    /// The float whose first byte is in `register` of the device at `address`.
    pub fn new(address: u8, register: u8) -> FloatRegister {
        FloatRegister { address, register }
    }

    /// Reads its value, which is finite. Refuses four bytes that are all zeros or all ones, which is what a
    /// bus without a device returns: a real reading of exactly zero in all 32 bits, noise included, is so
    /// rare that it does not matter.
    pub fn read(&self, i2c: &mut dyn I2c) -> Result<f32, DeviceFault> {
        let register = self.register;
        let mut bytes = [0; 4];
        i2c.write_read(self.address, &[register], &mut bytes)
            .map_err(|fault| DeviceFault::Bus { register, fault })?;
        if bytes == [0x00; 4] || bytes == [0xFF; 4] {
            return Err(DeviceFault::DeadBytes { register });
        }
        let value = f32::from_le_bytes(bytes);
        if value.is_finite() { Ok(value) } else { Err(DeviceFault::NotFinite { register }) }
    }
}

impl Polled for FloatRegister {
    fn poll(&mut self, ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        self.read(ports.i2c).report(say)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::hardware::bus::fake::FakeI2c;

    fn read(bytes: [u8; 4]) -> Result<f32, DeviceFault> {
        FloatRegister::new(0x60, 8).read(&mut FakeI2c::new().write_read(0x60, &[8], &bytes))
    }

    #[test]
    fn bytes_are_little_endian_and_must_be_a_number() {
        assert_eq!(read([0x00, 0x00, 0x20, 0xC1]), Ok(-10.0));
        assert_eq!(read([0x00, 0x00, 0xC0, 0x7F]), Err(DeviceFault::NotFinite { register: 8 }));
        assert_eq!(read([0x00, 0x00, 0x80, 0xFF]), Err(DeviceFault::NotFinite { register: 8 }));
        assert_eq!(read([0x00; 4]), Err(DeviceFault::DeadBytes { register: 8 }));
        assert_eq!(read([0xFF; 4]), Err(DeviceFault::DeadBytes { register: 8 }));
        let mut silent = FakeI2c::new().fault(0x60, BusFault::Nack);
        let nack = DeviceFault::Bus { register: 8, fault: BusFault::Nack };
        assert_eq!(FloatRegister::new(0x60, 8).read(&mut silent), Err(nack));
    }
}
