//! A value of the kernel's hardware monitor, found by the chip's name and a label, because the numbers of
//! monitors and channels differ between kernels. Never accesses the chip itself, which belongs to its driver.
//!
//! Files and units: Documentation/hwmon/sysfs-interface of the kernel (mV, mA, m degC, uW, 1 for an alarm).

use super::sysfs::{ABSENT, Number, entries, says};
use super::{DeviceFault, Polled, Ports, Say};
use std::path::{Path, PathBuf};

/// One value.
#[derive(Debug)]
pub struct Hwmon {
    folder: PathBuf,
    chip: String,
    label: String,
    per_unit: f32,
    number: Option<Number>,
}

impl Hwmon {
    /// A value of the monitor called `chip`. `label` is the value's label (`VDD_IN`), its channel (`in1`) or
    /// its file (`in0_lcrit_alarm`). `per_unit` converts the kernel's unit to the sensor's unit. `/sys` is
    /// looked up in `root`.
    pub fn new(root: &Path, chip: &str, label: &str, per_unit: f32) -> Hwmon {
        let folder = root.join("sys/class/hwmon");
        Hwmon { folder, chip: chip.to_owned(), label: label.to_owned(), per_unit, number: None }
    }

    /// The value's file, in the first monitor with the chip's name that has this value.
    fn find(&self) -> Option<PathBuf> {
        let monitors = entries(&self.folder);
        monitors.iter().filter(|monitor| says(&monitor.join("name"), &self.chip)).find_map(|monitor| {
            let own = [monitor.join(format!("{}_input", self.label)), monitor.join(&self.label)];
            own.into_iter().find(|path| path.is_file()).or_else(|| self.labelled(monitor))
        })
    }

    fn labelled(&self, monitor: &Path) -> Option<PathBuf> {
        entries(monitor).iter().find_map(|path| {
            let channel = path.file_name()?.to_str()?.strip_suffix("_label")?;
            says(path, &self.label).then(|| monitor.join(format!("{channel}_input")))
        })
    }
}

impl Polled for Hwmon {
    /// Finds and opens the file.
    fn set_up(&mut self, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.number = None;
        self.number = Some(Number::open(&self.find().ok_or(ABSENT)?)?);
        Ok(())
    }

    fn poll(&mut self, _ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        let read = self.number.as_ref().ok_or(ABSENT).and_then(Number::read);
        say(0, read.map(|units| units as f32 * self.per_unit));
        read.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::bus::fake::FakeI2c;
    use crate::hardware::device::bench::Bench;
    use crate::hardware::device::sysfs::tree::Tree;

    fn read(tree: &Tree, chip: &str, label: &str, per_unit: f32) -> Result<f32, DeviceFault> {
        let mut bench = Bench::new();
        let mut value = Hwmon::new(tree.root(), chip, label, per_unit);
        bench.set_up(&mut value, &mut FakeI2c::new())?;
        bench.poll(&mut value, &mut FakeI2c::new()).0[0].1
    }

    #[test]
    fn hwmon_values_are_found_by_name_and_label() {
        let tree = Tree::of(&[
            ("sys/class/hwmon/hwmon0/name", "cpu_thermal\n"),
            ("sys/class/hwmon/hwmon0/in1_input", "1\n"),
            ("sys/class/hwmon/hwmon3/name", "ina3221\n"),
            ("sys/class/hwmon/hwmon3/in1_label", "VDD_IN\n"),
            ("sys/class/hwmon/hwmon3/in1_input", "5040\n"),
            ("sys/class/hwmon/hwmon3/in2_label", "VDD_CPU_GPU_CV\n"),
            ("sys/class/hwmon/hwmon3/in2_input", "5024\n"),
            ("sys/class/hwmon/hwmon3/curr1_input", "1512\n"),
            ("sys/class/hwmon/hwmon4/name", "ina3221\n"),
            ("sys/class/hwmon/hwmon4/in1_label", "VDDQ_VDD2_1V8AO\n"),
            ("sys/class/hwmon/hwmon4/in1_input", "1800\n"),
            ("sys/class/hwmon/hwmon5/name", "rpi_volt\n"),
            ("sys/class/hwmon/hwmon5/in0_lcrit_alarm", "1\n"),
        ]);
        assert_eq!(read(&tree, "ina3221", "VDD_IN", 1.0), Ok(5040.0));
        assert_eq!(read(&tree, "ina3221", "VDDQ_VDD2_1V8AO", 0.5), Ok(900.0));
        assert_eq!(read(&tree, "ina3221", "curr1", 0.25), Ok(378.0));
        assert_eq!(read(&tree, "rpi_volt", "in0_lcrit_alarm", 1.0), Ok(1.0));
        assert_eq!(read(&tree, "ina3221", "VDD_SOC", 1e-3), Err(ABSENT));
        assert_eq!(read(&tree, "ina3220", "VDD_IN", 1e-3), Err(ABSENT));
    }

    #[test]
    fn a_sensor_is_present_only_after_it_was_found() {
        let mut value = Hwmon::new(Path::new("/nowhere"), "ina3221", "VDD_IN", 1e-3);
        let told = Bench::new().poll(&mut value, &mut FakeI2c::new());
        assert_eq!(told, (vec![(0, Err(ABSENT))], Err(ABSENT)));
    }
}
