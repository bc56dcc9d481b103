//! Load and clock of a Jetson's GPU, from sysfs. The paths differ between releases, so several are tried;
//! nothing is written.
//!
//! Paths and units are those that the jetson_stats project uses: `load` is in thousandths, `cur_freq` of
//! devfreq in Hz; the node is named after the device (17000000.gpu, 17000000.ga10b).

use super::sysfs::{ABSENT, Number, entries};
use super::{DeviceFault, Polled, Ports, Say};
use crate::base::plan::GpuQuantity;
use std::path::{Path, PathBuf};

/// Known paths of the load, newest release first.
const LOADS: [&str; 4] = [
    "sys/devices/platform/bus@0/17000000.gpu/load",
    "sys/devices/platform/17000000.gpu/load",
    "sys/devices/platform/17000000.ga10b/load",
    "sys/devices/platform/gpu.0/load",
];
const DEVFREQ: &str = "sys/class/devfreq";
/// Suffixes of the node's name.
const NODES: [&str; 2] = ["gpu", "ga10b"];
/// Full load, in thousandths.
const FULL_LOAD: i64 = 1000;
/// Highest plausible clock: no GPU of this kind has a faster one.
const MOST_HZ: i64 = 5_000_000_000;

/// One quantity.
#[derive(Debug)]
pub struct GpuSysfs {
    root: PathBuf,
    quantity: GpuQuantity,
    number: Option<Number>,
}

impl GpuSysfs {
    /// `quantity` of the computer's GPU. `/sys` is looked up in `root`.
    pub fn new(root: &Path, quantity: GpuQuantity) -> GpuSysfs {
        GpuSysfs { root: root.to_owned(), quantity, number: None }
    }

    fn find(&self) -> Option<PathBuf> {
        match self.quantity {
            GpuQuantity::Load => LOADS.iter().map(|path| self.root.join(path)).find(|path| path.is_file()),
            GpuQuantity::ClockMhz => {
                let nodes = entries(&self.root.join(DEVFREQ));
                let is_gpu = |name: &str| NODES.iter().any(|end| name.ends_with(end));
                let node =
                    nodes.iter().find(|path| path.file_name().and_then(|n| n.to_str()).is_some_and(is_gpu));
                node.map(|node| node.join("cur_freq"))
            }
        }
    }

    fn read(&self) -> Result<f32, DeviceFault> {
        let number = self.number.as_ref().ok_or(ABSENT)?.read()?;
        match self.quantity {
            GpuQuantity::Load if (0..=FULL_LOAD).contains(&number) => Ok(number as f32 / FULL_LOAD as f32),
            GpuQuantity::ClockMhz if (0..=MOST_HZ).contains(&number) => Ok(number as f32 * 1e-6),
            _ => Err(ABSENT),
        }
    }
}

impl Polled for GpuSysfs {
    /// Finds and opens the file.
    fn set_up(&mut self, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.number = None;
        self.number = Some(Number::open(&self.find().ok_or(ABSENT)?)?);
        Ok(())
    }

    fn poll(&mut self, _ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        let read = self.read();
        say(0, read);
        read.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::bus::fake::FakeI2c;
    use crate::hardware::device::bench::Bench;
    use crate::hardware::device::sysfs::tree::Tree;

    fn read(tree: &Tree, quantity: GpuQuantity) -> Result<f32, DeviceFault> {
        let mut bench = Bench::new();
        let mut gpu = GpuSysfs::new(tree.root(), quantity);
        bench.set_up(&mut gpu, &mut FakeI2c::new())?;
        bench.poll(&mut gpu, &mut FakeI2c::new()).0[0].1
    }

    #[test]
    fn load_and_clock_are_found_in_both_sysfs_layouts() {
        for (load, node) in [("gpu.0/load", "17000000.ga10b"), ("bus@0/17000000.gpu/load", "17000000.gpu")] {
            let tree = Tree::of(&[
                (&format!("sys/devices/platform/{load}"), "873\n"),
                ("sys/class/devfreq/15340000.vic/cur_freq", "115200000\n"),
                (&format!("sys/class/devfreq/{node}/cur_freq"), "1020000000\n"),
            ]);
            assert_eq!(read(&tree, GpuQuantity::Load), Ok(0.873));
            assert!((read(&tree, GpuQuantity::ClockMhz).unwrap() - 1020.0).abs() < 0.01);
            tree.put(&format!("sys/devices/platform/{load}"), "1001\n");
            assert_eq!(read(&tree, GpuQuantity::Load), Err(ABSENT));
        }
        assert_eq!(read(&Tree::of(&[]), GpuQuantity::Load), Err(ABSENT));
    }
}
