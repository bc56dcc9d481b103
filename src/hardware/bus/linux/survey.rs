//! The buses and lines of a machine, for `doctor` and the self-test: adapters, chips, and the consumers of
//! the lines that a board needs. Does not drive or request a line and makes no transfer; opens a node only to
//! ask what it is.

use super::chips::{ChipPlace, Chips, offset_of};
use super::i2c_dev;
use super::repair::Driver;
use super::sysfs::{below, text};
use super::{adapters, errors};
use crate::base::plan::Line;
use crate::hardware::bus::OpenError;
use gpiocdev::Chip;
use gpiocdev::line::Direction;
use std::path::{Path, PathBuf};

/// What is at an I2C address, as far as reading one byte can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A device acknowledged.
    Answers,
    /// No device acknowledged.
    Silent,
    /// Not read: reserved for this holder, or by the I2C specification.
    Reserved(String),
    /// Not read: this kernel driver uses it.
    Kernel(String),
    /// The bus could not be read.
    Refused(crate::base::fault::BusFault),
}

/// The buses and lines of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// I2C adapters, by number.
    pub adapters: Vec<AdapterSeen>,
    /// GPIO chips, by number.
    pub chips: Vec<ChipSeen>,
    /// The requested lines, in the order of the request.
    pub lines: Vec<Result<LineSeen, OpenError>>,
    /// Whether this kernel keeps driving an output whose owner has died (Raspberry Pi OS:
    /// `persist_gpio_outputs`); `None` if no pin controller reports it. If true, the death of the owner does
    /// **not** release an enable line.
    pub outputs_outlive_owner: Option<bool>,
}

/// An I2C adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterSeen {
    /// The character device.
    pub node: PathBuf,
    /// The name that its driver reports.
    pub name: String,
    /// The name of the adapter's parent device.
    pub device: Option<String>,
    /// Its functions (I2C_FUNC_... of linux/i2c.h), or why they could not be read.
    pub functions: Result<u64, OpenError>,
    /// Whether this user may unbind its driver and bind it again.
    pub rebind_allowed: bool,
}

/// A GPIO chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChipSeen {
    /// The character device.
    pub node: PathBuf,
    /// The name that its driver reports.
    pub label: String,
    /// Number of lines.
    pub lines: u32,
}

/// A line as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineSeen {
    /// Its name on the board.
    pub line: Line,
    /// The chip's label.
    pub chip: String,
    /// Offset on the chip.
    pub offset: u32,
    /// The kernel's name for the line; empty if it has none.
    pub name: String,
    /// Its consumer; `None`: unused. Empty if a kernel driver uses the line without a name.
    pub consumer: Option<String>,
    /// Whether it is currently an output.
    pub output: bool,
}

/// Examines everything in `root`, and the board's `lines`.
pub(super) fn survey(root: &Path, chips: &Chips, lines: &[Line]) -> Survey {
    let seen =
        |chip: &ChipPlace| ChipSeen { node: chip.path.clone(), label: chip.label.clone(), lines: chip.lines };
    Survey {
        adapters: adapters::all(root).iter().map(adapter_seen).collect(),
        chips: chips.found.iter().map(seen).collect(),
        lines: lines.iter().map(|line| line_seen(chips, *line)).collect(),
        outputs_outlive_owner: outputs_outlive_owner(root),
    }
}

fn adapter_seen(adapter: &adapters::Adapter) -> AdapterSeen {
    let what = adapter.node.display().to_string();
    let functions = i2c_dev::open(&adapter.node).and_then(|node| i2c_dev::functions(&node));
    AdapterSeen {
        node: adapter.node.clone(),
        name: adapter.name.clone(),
        device: adapter.device_name().map(str::to_string),
        functions: functions.map_err(|failure| errors::refused(&what, &failure, adapters::ENABLE, "i2c")),
        rebind_allowed: adapter
            .device
            .as_deref()
            .and_then(Driver::of)
            .is_some_and(|driver| driver.writable()),
    }
}

fn line_seen(chips: &Chips, line: Line) -> Result<LineSeen, OpenError> {
    let (chip, offset) = chips.locate(line, offset_of)?;
    let info = Chip::from_path(&chip.path).and_then(|asked| asked.line_info(offset));
    let info = info.map_err(|failure| {
        errors::error(chips.spoken(line), failure.to_string(), "inspect it with 'gpioinfo'")
    })?;
    Ok(LineSeen {
        line,
        chip: chip.label.clone(),
        offset,
        name: info.name,
        consumer: info.used.then_some(info.consumer),
        output: info.direction == Direction::Output,
    })
}

/// Modules with the parameter that determines what happens to an output without an owner.
const PIN_CONTROLLERS: [&str; 2] = ["pinctrl_rp1", "pinctrl_bcm2835"];

fn outputs_outlive_owner(root: &Path) -> Option<bool> {
    let parameter = |module: &&str| {
        text(&below(root, "/sys/module").join(module).join("parameters/persist_gpio_outputs"))
    };
    // A Pi 5 has both; its header is connected to the first.
    PIN_CONTROLLERS.iter().find_map(parameter).map(|answer| answer == "Y" || answer == "1")
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Tree, i2c_tree};
    use super::*;

    #[test]
    fn the_survey_skips_what_it_cannot_read() {
        let tree = i2c_tree();
        let chips = Chips::look(tree.root(), &["tegra234-gpio".to_string()], &[]);
        let seen = survey(tree.root(), &chips, &[Line(4)]);
        let devices: Vec<_> = seen.adapters.iter().map(|adapter| adapter.device.as_deref()).collect();
        assert_eq!(devices, [Some("3160000.i2c"), Some("c250000.i2c"), Some("virtual")]);
        // A plain file does not support the ioctl.
        assert!(seen.adapters.iter().all(|adapter| adapter.functions.is_err()));
        let rebind: Vec<bool> = seen.adapters.iter().map(|adapter| adapter.rebind_allowed).collect();
        assert_eq!(rebind, [true, true, false]);
        assert!(seen.lines[0].as_ref().expect_err("no chip").what.contains("tegra234-gpio"));
        assert_eq!(seen.outputs_outlive_owner, None);
    }

    #[test]
    fn kernels_that_keep_outputs_are_recognised() {
        for (answer, outlives) in [("Y", true), ("N", false)] {
            let tree = Tree::new("persist");
            tree.file("sys/module/pinctrl_bcm2835/parameters/persist_gpio_outputs", "N");
            tree.file("sys/module/pinctrl_rp1/parameters/persist_gpio_outputs", answer);
            assert_eq!(outputs_outlive_owner(tree.root()), Some(outlives));
        }
    }
}
