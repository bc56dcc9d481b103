//! A Raspberry Pi through rppal, behind the same traits, for boards that ask for it. What it gives and what not:
//!
//! - **Registers**: an output is set by one store into mapped memory, without a system call. A line that is driven so is
//!   *also* held by a request of the kernel, made first: that gives the line one owner, its first level without a glitch,
//!   and lets go of it when the owner dies, which mapped memory alone does not. rppal finds the pin an output already and
//!   then changes none of its settings, so it does not race with the kernel's pin controller.
//! - **Edges and inputs** stay with the kernel: only there they are stamped where they happen.
//! - **I2C**: the same character device. A write, a read, and a write then a read with a repeated start; anything longer is
//!   refused. Setting the address is a system call of its own whenever it changes.
//!
//! Where it fails, character devices serve, and it is said: rppal looks for GPIO chips from number 0 without a gap, which a
//! Pi 5 on newer kernels does not have, and knows no model after its last release.

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
    /// Maps them, or says why not: then lines are driven through the kernel.
    pub(super) fn open() -> Result<Registers, String> {
        Gpio::new().map(Registers).map_err(|failure| match failure {
            rppal::gpio::Error::Io(failure) if failure.kind() == std::io::ErrorKind::NotFound => {
                "rppal found no GPIO chip counting from 0 (Pi 5 on a newer kernel)".to_string()
            }
            failure => failure.to_string(),
        })
    }

    /// The output at `offset` of the chip `label`; `None` where it has to be driven through the kernel. The line must be
    /// held as an output already.
    pub(super) fn output(&self, label: &str, offset: u32) -> Option<OutputPin> {
        if !HEADER_CHIPS.contains(&label) {
            return None;
        }
        let pin = self.0.get(u8::try_from(offset).ok()?).ok()?;
        // Otherwise into_output would write its settings over the kernel's.
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
        Ok(PiI2c { bus: i2c::I2c::with_bus(number).map_err(told)?, address: 0 })
    }
}

impl I2c for PiI2c {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        if self.address != address {
            self.bus.set_slave_address(u16::from(address)).map_err(told)?;
            self.address = address;
        }
        match ops {
            [Op::Write(bytes)] => {
                self.bus.write(bytes).map_err(told).and_then(|done| whole(done, bytes.len()))
            }
            [Op::Read(bytes)] => self.bus.read(bytes).map_err(told).and_then(|done| whole(done, bytes.len())),
            [Op::Write(out), Op::Read(back)] => self.bus.write_read(out, back).map_err(told),
            _ => Err(BusFault::Unsupported),
        }
    }
}

fn whole(done: usize, wanted: usize) -> Result<(), BusFault> {
    if done == wanted { Ok(()) } else { Err(BusFault::Io) }
}

fn told(failure: i2c::Error) -> BusFault {
    match failure {
        i2c::Error::Io(failure) => fault_of(&failure),
        // Not EBUSY of an address that a driver of the kernel has: rppal claims addresses by force (docs/dependencies.md).
        i2c::Error::InvalidSlaveAddress(_) | i2c::Error::FeatureNotSupported => BusFault::Unsupported,
        i2c::Error::UnknownModel => fault(libc::ENODEV),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pi_has_no_registers_and_says_so() {
        // The machine that builds this is no Raspberry Pi; on one, mapping works or says what is missing.
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
