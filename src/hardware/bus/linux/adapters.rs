//! The I2C adapters of the machine: number, node, name and parent device of each, and which of its addresses
//! a kernel driver uses. Reads only /sys and /dev; opens no adapter.

use super::errors::error;
use super::sysfs::{below, leads_to, numbered, text};
use crate::base::plan::{I2cNode, OwnTime};
use crate::hardware::bus::OpenError;
use std::fs;
use std::path::{Path, PathBuf};

/// What to do if a bus does not exist.
pub(super) const ENABLE: &str = "enable the bus (Pi: 'dtparam=i2c_arm=on' in config.txt; Jetson: jetson-io), load \
                                 i2c-dev, or name the right adapter in the board file";

/// One I2C adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Adapter {
    /// The N of i2c-N; it differs between kernels.
    pub number: u32,
    /// The character device.
    pub node: PathBuf,
    /// The driver's name for it; empty if unreadable.
    pub name: String,
    /// The adapter's parent device, as a folder in /sys/devices: the driver is bound to this device.
    pub device: Option<PathBuf>,
}

impl Adapter {
    fn of(root: &Path, number: u32) -> Adapter {
        let entry = below(root, "/sys/bus/i2c/devices").join(format!("i2c-{number}"));
        Adapter {
            number,
            node: below(root, "/dev").join(format!("i2c-{number}")),
            name: text(&entry.join("name")).unwrap_or_default(),
            device: fs::canonicalize(entry).ok().and_then(|entry| Some(entry.parent()?.to_path_buf())),
        }
    }

    /// The name of the adapter's parent device (`1f00074000.i2c`).
    pub(super) fn device_name(&self) -> Option<&str> {
        self.device.as_ref()?.file_name()?.to_str()
    }

    /// The kernel driver that uses the chip at `address`, if there is one: that chip is not ours.
    pub(super) fn driver_at(&self, root: &Path, address: u8) -> Option<String> {
        let chip = format!("{}-{address:04x}", self.number);
        leads_to(&below(root, "/sys/bus/i2c/devices").join(chip).join("driver"))
    }

    /// The kernel driver of the adapter, if that driver ignores the configured timeout and uses its own. For
    /// an adapter behind a multiplexer, this is the driver of a device further up.
    pub(super) fn own_time(&self) -> Option<OwnTime> {
        let up = self.device.as_deref().into_iter().flat_map(Path::ancestors);
        let mut drivers = up
            .take_while(|folder| !folder.ends_with("devices"))
            .map(|device| leads_to(&device.join("driver")));
        drivers.find_map(|driver| OwnTime::ALL.into_iter().find(|own| driver.as_deref() == Some(own.name())))
    }

    /// Name in messages: `i2c-1 (1f00074000.i2c)`.
    pub(super) fn spoken(&self) -> String {
        match self.device_name() {
            Some(device) => format!("i2c-{} ({device})", self.number),
            None if self.name.is_empty() => format!("i2c-{}", self.number),
            None => format!("i2c-{} ({})", self.number, self.name),
        }
    }
}

/// All adapters, in the order of their numbers.
pub(super) fn all(root: &Path) -> Vec<Adapter> {
    let found = numbered(&below(root, "/sys/bus/i2c/devices"), "i2c-");
    found.into_iter().map(|(number, _)| Adapter::of(root, number)).collect()
}

/// The adapter that a board file names. A path may be a symbolic link made by udev; it is followed.
pub(super) fn find(root: &Path, node: &I2cNode) -> Result<Adapter, OpenError> {
    match node {
        I2cNode::Path(path) => by_path(root, path),
        I2cNode::Adapter(part) => by_device(root, part),
    }
}

fn by_path(root: &Path, path: &str) -> Result<Adapter, OpenError> {
    let node = fs::canonicalize(below(root, path))
        .map_err(|refused| super::errors::refused(path, &refused, ENABLE, "i2c"))?;
    let number = node.file_name().and_then(|name| name.to_str()?.strip_prefix("i2c-")?.parse().ok());
    let number = number.ok_or_else(|| error(path, "not an I2C adapter (its name is not i2c-N)", ENABLE))?;
    Ok(Adapter { node, ..Adapter::of(root, number) })
}

/// The adapter whose device's name contains `part`; otherwise the one whose own name contains it (for
/// adapters without a parent device).
fn by_device(root: &Path, part: &str) -> Result<Adapter, OpenError> {
    let adapters = all(root);
    let on_device = |adapter: &&Adapter| adapter.device_name().is_some_and(|device| device.contains(part));
    let named = |adapter: &&Adapter| adapter.name.contains(part);
    let mut fitting: Vec<&Adapter> = adapters.iter().filter(on_device).collect();
    if fitting.is_empty() {
        fitting = adapters.iter().filter(named).collect();
    }
    let spoken = |adapters: &mut dyn Iterator<Item = &Adapter>| -> String {
        let names: Vec<String> = adapters.map(Adapter::spoken).collect();
        if names.is_empty() { "none".to_string() } else { names.join(", ") }
    };
    match fitting[..] {
        [adapter] => Ok(adapter.clone()),
        [] => {
            let there = spoken(&mut adapters.iter());
            Err(error(
                format!("I2C adapter {part}"),
                format!("no such adapter; this machine has: {there}"),
                ENABLE,
            ))
        }
        _ => Err(error(
            format!("I2C adapter {part}"),
            format!("several adapters match: {}", spoken(&mut fitting.iter().copied())),
            "give more of the device's name in the board file",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Tree, i2c_tree};
    use super::*;

    fn adapter(part: &str) -> I2cNode {
        I2cNode::Adapter(part.to_string())
    }

    #[test]
    fn an_adapter_is_found_by_its_device_whatever_its_number() {
        let tree = i2c_tree();
        let found = find(tree.root(), &adapter("c250000.i2c")).expect("an adapter");
        assert_eq!((found.number, found.device_name()), (7, Some("c250000.i2c")));
        assert!(found.node.ends_with("dev/i2c-7"));
        assert_eq!(found.spoken(), "i2c-7 (c250000.i2c)");
        let named = find(tree.root(), &adapter("bench adapter")).expect("one by its own name");
        assert_eq!(named.number, 12);
    }

    #[test]
    fn part_of_a_name_must_match_exactly_one_adapter() {
        let tree = i2c_tree();
        let several = find(tree.root(), &adapter(".i2c")).expect_err("two");
        assert!(several.why.contains("i2c-1 (3160000.i2c), i2c-7 (c250000.i2c)"), "{several}");
        let none = find(tree.root(), &adapter("1f00074000")).expect_err("none");
        assert!(none.why.contains("has: i2c-1 (3160000.i2c)"), "{none}");
    }

    #[test]
    fn an_adapter_path_may_be_a_symbolic_link() {
        let tree = i2c_tree();
        tree.link("dev/i2c-robot", "i2c-7");
        let found = find(tree.root(), &I2cNode::Path("/dev/i2c-robot".to_string())).expect("an adapter");
        assert_eq!((found.number, found.device_name()), (7, Some("c250000.i2c")));
        let absent = find(tree.root(), &I2cNode::Path("/dev/i2c-3".to_string())).expect_err("none");
        assert_eq!((absent.what.as_str(), absent.why.as_str()), ("/dev/i2c-3", "it does not exist"));
        tree.file("dev/ttyS0", "");
        assert!(find(tree.root(), &I2cNode::Path("/dev/ttyS0".to_string())).is_err());
    }

    #[test]
    fn a_machine_without_i2c_has_no_adapter() {
        let tree = Tree::new("bare");
        assert_eq!(all(tree.root()), []);
        assert!(find(tree.root(), &adapter("i2c")).expect_err("none").why.contains("has: none"));
    }

    #[test]
    fn a_fixed_timeout_driver_is_found_behind_a_multiplexer() {
        let tree = i2c_tree();
        tree.link(
            "sys/bus/i2c/devices/i2c-20",
            "../../../devices/platform/c250000.i2c/i2c-7/7-0070/channel-0/i2c-20",
        );
        tree.file(
            "sys/devices/platform/c250000.i2c/i2c-7/7-0070/channel-0/i2c-20/name",
            "i2c-7-mux (chan_id 0)",
        );
        tree.link(
            "sys/devices/platform/c250000.i2c/i2c-7/7-0070/driver",
            "../../../../../bus/i2c/drivers/ina3221",
        );
        for (number, own) in [(1, Some(OwnTime::Tegra)), (20, Some(OwnTime::Tegra)), (12, None)] {
            assert_eq!(Adapter::of(tree.root(), number).own_time(), own, "i2c-{number}");
        }
        tree.link("sys/devices/virtual/driver", "../../bus/platform/drivers/i2c_designware");
        assert_eq!(Adapter::of(tree.root(), 12).own_time(), None);
        assert_eq!(Adapter::of(Tree::new("bare").root(), 1).own_time(), None);
    }

    #[test]
    fn the_kernels_own_chips_are_known() {
        let tree = i2c_tree();
        let found = find(tree.root(), &adapter("3160000")).expect("an adapter");
        assert_eq!(found.driver_at(tree.root(), 0x40).as_deref(), Some("ina3221"));
        // The device tree describes the chip at 0x57, but no driver is bound to it.
        assert_eq!(found.driver_at(tree.root(), 0x57), None);
        assert_eq!(found.driver_at(tree.root(), 0x14), None);
    }
}
