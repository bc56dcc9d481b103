//! A Raspberry Pi through rppal, behind the same traits, for boards that request it (`access = "rppal"`):
//!
//! - **Registers**: one store into mapped memory sets an output, without a system call. A line that is driven
//!   this way is *also* held by a kernel request, made first. The request gives the line one owner, sets its
//!   initial level without a glitch, and releases it when the owner dies; mapped memory alone does none of
//!   this. rppal finds that the pin is already an output and does not change its settings, so it does not
//!   race with the kernel's pin controller.
//! - **Edges and inputs** stay with the kernel, because only the kernel stamps edges when they happen.
//! - **I2C**: the same character device. A transfer is a write, a read, or a write followed by a repeated
//!   start and a read; anything longer is refused. Changing the address takes a separate system call.
//!
//! Where rppal cannot be used, the board is refused. rppal expects GPIO chips numbered from 0 without a gap,
//! which is not the case on a Pi 5 with a newer kernel, and it does not support newer models: it was archived
//! in July 2025.

use super::errors::{error, fault, fault_of};
use super::sysfs::{below, text};
use crate::base::fault::BusFault;
use crate::hardware::bus::{I2c, Op, OpenError};
use rppal::gpio::{Gpio, OutputPin};
use rppal::i2c;
use std::path::Path;

/// Where the kernel exposes the device tree.
const TREES: [&str; 2] = ["/proc/device-tree", "/sys/firmware/devicetree/base"];
/// The prefix of the first `compatible` string in every Raspberry Pi's device tree.
const MAKER: &str = "raspberrypi,";

/// Labels of the chips whose offsets are rppal's pin numbers (BCM numbers).
const HEADER_CHIPS: [&str; 4] = ["pinctrl-rp1", "pinctrl-bcm2711", "pinctrl-bcm2835", "pinctrl-bcm2712"];

/// The error for a machine that cannot use rppal although the board requests it.
fn unavailable(why: impl std::fmt::Display) -> OpenError {
    let fix = "remove bus.access from the board file: character devices do the same on every machine";
    error("rppal, which the board requests (bus.access)", why.to_string(), fix)
}

/// Refuses the machine in `root` unless it is a Raspberry Pi. rppal itself would trust a file that other
/// machines have too, and map their memory.
pub(super) fn is_raspberry_pi(root: &Path) -> Result<(), OpenError> {
    let compatible = TREES.iter().find_map(|tree| text(&below(root, tree).join("compatible")));
    match compatible {
        Some(words) if words.split('\0').any(|word| word.starts_with(MAKER)) => Ok(()),
        Some(words) => {
            let found = words.trim_end_matches('\0').replace('\0', " ");
            Err(unavailable(format!("this machine is not a Raspberry Pi: its device tree says {found}")))
        }
        None => Err(unavailable("this machine is not a Raspberry Pi: it has no device tree")),
    }
}

/// The mapped registers of the header's chip.
pub(super) struct Registers(Gpio);

impl Registers {
    /// Maps the registers.
    pub(super) fn open() -> Result<Registers, OpenError> {
        Gpio::new().map(Registers).map_err(|failure| match failure {
            rppal::gpio::Error::Io(failure) if failure.kind() == std::io::ErrorKind::NotFound => {
                unavailable("it expects GPIO chips numbered from 0 and found none (Pi 5 on a newer kernel)")
            }
            failure => unavailable(failure),
        })
    }

    /// The output at `offset` of the chip `label`; `None` if it must be driven through the kernel. The line
    /// must already be held as an output.
    pub(super) fn output(&self, label: &str, offset: u32) -> Option<OutputPin> {
        if !HEADER_CHIPS.contains(&label) {
            return None;
        }
        let pin = self.0.get(u8::try_from(offset).ok()?).ok()?;
        // If the pin were not an output yet, into_output would overwrite the kernel's settings.
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
    pub fn open(number: u32) -> Result<PiI2c, OpenError> {
        let number =
            u8::try_from(number).map_err(|_| unavailable(format!("it does not support adapter {number}")))?;
        let bus = i2c::I2c::with_bus(number);
        let bus = bus.map_err(|failure| unavailable(format!("I2C adapter {number}: {failure}")))?;
        // No device has address 0, so the first transfer sets the address.
        Ok(PiI2c { bus, address: 0 })
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
        // For an address that a kernel driver uses, there is no EBUSY: rppal claims addresses by force
        // (docs/dependencies.md).
        i2c::Error::InvalidSlaveAddress(_) | i2c::Error::FeatureNotSupported => BusFault::Unsupported,
        i2c::Error::UnknownModel => fault(libc::ENODEV),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_than_a_pi_are_refused_with_the_reason() {
        // Refused on a build machine that is not a Raspberry Pi. On a Pi, mapping works or reports what is
        // missing.
        match Registers::open() {
            Ok(registers) => assert!(registers.output("another chip", 4).is_none()),
            Err(refused) => assert!(refused.what.contains("rppal") && !refused.why.is_empty(), "{refused}"),
        }
    }

    #[test]
    fn a_missing_adapter_is_named_by_its_number() {
        for number in [255, 256] {
            let refused = PiI2c::open(number).err().expect("no such adapter");
            assert!(refused.why.contains(&number.to_string()), "{refused}");
        }
    }

    #[test]
    fn a_raspberry_pi_is_known_by_its_device_tree() {
        for (place, words, is_pi) in [
            ("proc/device-tree/compatible", "raspberrypi,5-model-b\0brcm,bcm2712\0", true),
            ("sys/firmware/devicetree/base/compatible", "raspberrypi,model-zero-2-w\0brcm,bcm2837\0", true),
            ("proc/device-tree/compatible", "radxa,rock-5b\0rockchip,rk3588\0", false),
            ("proc/device-tree/compatible", "other,raspberrypi\0", false),
        ] {
            let tree = super::super::fake::Tree::new("pi");
            tree.file(place, words);
            assert_eq!(is_raspberry_pi(tree.root()).is_ok(), is_pi, "{words:?}");
        }
    }
}
