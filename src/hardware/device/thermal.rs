//! A thermal zone of the kernel, found by its type: degrees Celsius. A zone that is switched off returns an
//! error or an absurd value; both are faults.

use super::sysfs::{ABSENT, Number, entries, says};
use super::{DeviceFault, Polled, Ports, Say};
use std::path::{Path, PathBuf};

/// Plausible temperatures (silicon does not survive others), thousandths of a degree Celsius. A switched-off
/// zone of a Jetson reads -256 degrees.
const POSSIBLE: std::ops::RangeInclusive<i64> = -60_000..=160_000;

/// One zone.
#[derive(Debug)]
pub struct Thermal {
    folder: PathBuf,
    zone: String,
    number: Option<Number>,
}

impl Thermal {
    /// The first zone whose type is `zone`. `/sys` is looked up in `root`.
    pub fn new(root: &Path, zone: &str) -> Thermal {
        Thermal { folder: root.join("sys/class/thermal"), zone: zone.to_owned(), number: None }
    }

    fn read(&self) -> Result<f32, DeviceFault> {
        match self.number.as_ref().ok_or(ABSENT)?.read()? {
            thousandths if POSSIBLE.contains(&thousandths) => Ok(thousandths as f32 / 1000.0),
            _ => Err(ABSENT),
        }
    }
}

impl Polled for Thermal {
    /// Finds and opens the file.
    fn set_up(&mut self, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.number = None;
        let zones = entries(&self.folder);
        let zone = zones.iter().find(|zone| says(&zone.join("type"), &self.zone)).ok_or(ABSENT)?;
        self.number = Some(Number::open(&zone.join("temp"))?);
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

    #[test]
    fn a_zone_is_found_by_type_and_a_disabled_one_is_a_fault() {
        let tree = Tree::of(&[
            ("sys/class/thermal/cooling_device0/type", "pwm-fan\n"),
            ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
            ("sys/class/thermal/thermal_zone0/temp", "48250\n"),
            ("sys/class/thermal/thermal_zone8/type", "tj-thermal\n"),
            ("sys/class/thermal/thermal_zone8/temp", "51500\n"),
        ]);
        let mut bench = Bench::new();
        let mut zone = Thermal::new(tree.root(), "tj-thermal");
        bench.set_up(&mut zone, &mut FakeI2c::new()).unwrap();
        assert_eq!(bench.poll(&mut zone, &mut FakeI2c::new()), (vec![(0, Ok(51.5))], Ok(())));
        for off in ["-256000\n", "999999\n"] {
            tree.put("sys/class/thermal/thermal_zone8/temp", off);
            assert_eq!(bench.poll(&mut zone, &mut FakeI2c::new()), (vec![(0, Err(ABSENT))], Err(ABSENT)));
        }
        let mut missing = Thermal::new(tree.root(), "cv0-thermal");
        assert_eq!(bench.set_up(&mut missing, &mut FakeI2c::new()), Err(ABSENT));
    }
}
