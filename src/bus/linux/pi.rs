//! A Raspberry Pi through rppal, behind the same traits, for boards that request it. What it provides:
//!
//! - **Registers**: one store into mapped memory sets an output, without a system call. A line that is driven
//!   this way is *also* held by a kernel request, made first. That gives the line one owner, its first level
//!   without a glitch, and a release when the owner dies, which mapped memory alone does not. rppal finds
//!   that the pin is already an output and then changes none of its settings, so it does not race with the
//!   kernel's pin controller.
//! - **Edges and inputs** stay with the kernel: only there are they stamped where they happen.
//! - **I2C**: the same character device. A write, a read, and a write then a read with a repeated start;
//!   anything longer is refused. Changing the address takes a system call of its own.
//!
//! If it fails, character devices are used, and that is logged. rppal looks for GPIO chips from number 0
//! without a gap, which a Pi 5 with a newer kernel does not have, and knows no newer models.

use super::errors::{fault, fault_of};
use crate::bus::{I2c, Op};
use crate::fault::BusFault;
use rppal::gpio::{Gpio, OutputPin};
use rppal::i2c;

/// Labels of the chips whose offsets are the numbers that rppal counts in (BCM numbers).
const HEADER_CHIPS: [&str; 4] = ["pinctrl-rp1", "pinctrl-bcm2711", "pinctrl-bcm2835", "pinctrl-bcm2712"];

/// The mapped registers of the header's chip.
pub(super) struct Registers(Gpio);

impl Registers {
    /// Maps them, or returns why not: then lines are driven through the kernel.
    pub(super) fn open() -> Result<Registers, String> {
        Gpio::new().map(Registers).map_err(|failure| match failure {
            rppal::gpio::Error::Io(failure) if failure.kind() == std::io::ErrorKind::NotFound => {
                "rppal, which counts GPIO chips from 0, found none (Pi 5 on a newer kernel)".to_string()
            }
            failure => failure.to_string(),
        })
    }

    /// The output at `offset` of the chip `label`; `None` if it must be driven through the kernel. The line
    /// must already be held as an output.
    pub(super) fn output(&self, label: &str, offset: u32) -> Option<OutputPin> {
        if !HEADER_CHIPS.contains(&label) {
            return None;
        }
        let pin = self.0.get(u8::try_from(offset).ok()?).ok()?;
        // Otherwise into_output would overwrite the kernel's settings.
        (pin.mode() == rppal::gpio::Mode::Output).then(|| pin.into_output())
    }
}

/// An I2C adapter through rppal.
pub struct PiI2c {
    bus: i2c::I2c,
    address: u8,
}

impl PiI2c {
    /// Adapter /dev/i2c-`number`; works on any Linux.
    pub fn open(number: u32) -> Result<PiI2c, BusFault> {
        let number = u8::try_from(number).map_err(|_| BusFault::Absent)?;
        // 0 is no device's address, so the first transfer sets one.
        Ok(PiI2c { bus: i2c::I2c::with_bus(number).map_err(kind)?, address: 0 })
    }
}

impl I2c for PiI2c {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        if self.address != address {
            self.bus.set_slave_address(u16::from(address)).map_err(kind)?;
            self.address = address;
        }
        match ops {
            [Op::Write(bytes)] => {
                self.bus.write(bytes).map_err(kind).and_then(|done| whole(done, bytes.len()))
            }
            [Op::Read(bytes)] => self.bus.read(bytes).map_err(kind).and_then(|done| whole(done, bytes.len())),
            [Op::Write(out), Op::Read(back)] => self.bus.write_read(out, back).map_err(kind),
            _ => Err(BusFault::Unsupported),
        }
    }
}

fn whole(done: usize, wanted: usize) -> Result<(), BusFault> {
    if done == wanted { Ok(()) } else { Err(BusFault::Io) }
}

fn kind(failure: i2c::Error) -> BusFault {
    match failure {
        i2c::Error::Io(failure) => fault_of(&failure),
        // Not EBUSY of an address that a kernel driver uses: rppal claims addresses by force
        // (docs/dependencies.md).
        i2c::Error::InvalidSlaveAddress(_) | i2c::Error::FeatureNotSupported => BusFault::Unsupported,
        i2c::Error::UnknownModel => fault(libc::ENODEV),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pi_has_no_registers_and_says_so() {
        // The build machine is not a Raspberry Pi; on one, mapping works or reports what is missing.
        match Registers::open() {
            Ok(registers) => assert!(registers.output("another chip", 4).is_none()),
            Err(why) => assert!(!why.is_empty()),
        }
    }

    #[test]
    fn an_adapter_that_is_not_there_is_absent() {
        assert_eq!(PiI2c::open(255).err(), Some(BusFault::Absent));
        assert_eq!(PiI2c::open(256).err(), Some(BusFault::Absent));
    }
}
