//! The figures of a Jetson's GPU from sysfs: the files that a board's sensors may also read, and the power of
//! the supply rail that feeds the GPU. Not tested on a Jetson yet.
//!
//! The names of zones and rails are those that the jetson_stats project reads; the files of the rails are
//! described in the kernel's Documentation/hwmon/ina3221.

use super::GpuFigures;
use crate::base::plan::GpuQuantity;
use crate::base::time::MonotonicClock;
use crate::hardware::bus::Absent;
use crate::hardware::device::gpu_sysfs::GpuSysfs;
use crate::hardware::device::sysfs::{Number, entries, says};
use crate::hardware::device::thermal::Thermal;
use crate::hardware::device::{Polled, Ports};
use std::path::Path;

/// Names of the GPU's thermal zone; the name in the newest release first.
const ZONES: [&str; 2] = ["gpu-thermal", "GPU-therm"];
/// Name of the chip that measures the rails.
const MONITOR: &str = "ina3221";
/// Names of the rail that feeds the GPU: on AGX modules, on NX and Nano modules, and (the last two) on older
/// modules.
const RAILS: [&str; 4] = ["VDD_GPU_SOC", "VDD_CPU_GPU_CV", "VDD_GPU", "GPU"];
/// 1 mV times 1 mA, in watts.
const WATTS: f32 = 1e-6;

/// The sources that were found; every call of `read` reads each of them again.
pub(super) struct Jetson {
    load: Option<GpuSysfs>,
    clock: Option<GpuSysfs>,
    zone: Option<Thermal>,
    rail: Option<Rail>,
}

impl Jetson {
    /// The GPU of this Jetson; `None` if the machine is not a Jetson. `/sys` is looked up in `root`.
    pub(super) fn find(root: &Path) -> Option<Jetson> {
        let load = set_up(GpuSysfs::new(root, GpuQuantity::Load));
        let clock = set_up(GpuSysfs::new(root, GpuQuantity::ClockMhz));
        if load.is_none() && clock.is_none() {
            return None;
        }
        let zone = ZONES.into_iter().find_map(|zone| set_up(Thermal::new(root, zone)));
        let rail = RAILS.into_iter().find_map(|rail| Rail::find(root, rail));
        Some(Jetson { load, clock, zone, rail })
    }

    pub(super) fn read(&mut self) -> GpuFigures {
        GpuFigures {
            temperature_celsius: value(&mut self.zone),
            clock_mhz: value(&mut self.clock),
            memory_clock_mhz: None,
            power_watts: self.rail.as_ref().and_then(Rail::watts),
            power_rail: self.rail.as_ref().map(|rail| rail.label.to_string()),
            load: value(&mut self.load),
        }
    }
}

/// Sets up a device that needs neither bus nor line; `None` if it does not exist.
fn set_up<D: Polled>(mut device: D) -> Option<D> {
    let (mut i2c, mut gpio) = (Absent, Absent);
    let mut ports = Ports { i2c: &mut i2c, gpio: &mut gpio, clock: &MonotonicClock };
    device.set_up(&mut ports).ok().map(|()| device)
}

fn value(device: &mut Option<impl Polled>) -> Option<f32> {
    let (mut i2c, mut gpio) = (Absent, Absent);
    let mut ports = Ports { i2c: &mut i2c, gpio: &mut gpio, clock: &MonotonicClock };
    let mut value = None;
    device.as_mut()?.poll(&mut ports, &mut |_, read| value = read.ok()).ok()?;
    value
}

/// A supply rail: its voltage in mV and its current in mA.
struct Rail {
    label: &'static str,
    millivolts: Number,
    milliamperes: Number,
}

impl Rail {
    fn find(root: &Path, label: &'static str) -> Option<Rail> {
        let monitors = entries(&root.join("sys/class/hwmon"));
        monitors.iter().filter(|monitor| says(&monitor.join("name"), MONITOR)).find_map(|monitor| {
            let labels = entries(monitor);
            let channel = labels.iter().find_map(|path| {
                let channel = path.file_name()?.to_str()?.strip_prefix("in")?.strip_suffix("_label")?;
                says(path, label).then(|| channel.to_string())
            })?;
            let open = |kind: &str| Number::open(&monitor.join(format!("{kind}{channel}_input"))).ok();
            Some(Rail { label, millivolts: open("in")?, milliamperes: open("curr")? })
        })
    }

    fn watts(&self) -> Option<f32> {
        let power = self.millivolts.read().ok()? as f32 * self.milliamperes.read().ok()? as f32 * WATTS;
        (power >= 0.0).then_some(power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::device::sysfs::tree::Tree;

    const NANO: [(&str, &str); 13] = [
        ("sys/devices/platform/bus@0/17000000.gpu/load", "873\n"),
        ("sys/class/devfreq/17000000.gpu/cur_freq", "1020000000\n"),
        ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
        ("sys/class/thermal/thermal_zone0/temp", "48250\n"),
        ("sys/class/thermal/thermal_zone1/type", "gpu-thermal\n"),
        ("sys/class/thermal/thermal_zone1/temp", "51500\n"),
        ("sys/class/hwmon/hwmon1/name", "ina3221\n"),
        ("sys/class/hwmon/hwmon1/in1_label", "VDD_IN\n"),
        ("sys/class/hwmon/hwmon1/in1_input", "5000\n"),
        ("sys/class/hwmon/hwmon1/curr1_input", "4000\n"),
        ("sys/class/hwmon/hwmon1/in2_label", "VDD_CPU_GPU_CV\n"),
        ("sys/class/hwmon/hwmon1/in2_input", "5000\n"),
        ("sys/class/hwmon/hwmon1/curr2_input", "1500\n"),
    ];

    #[test]
    fn all_figures_of_a_jetson_are_found_and_read_again() {
        let tree = Tree::of(&NANO);
        let mut jetson = Jetson::find(tree.root()).expect("a Jetson");
        let figures = jetson.read();
        let rounded = |value: Option<f32>| value.map(|value| (value * 1000.0).round() / 1000.0);
        assert_eq!(figures.temperature_celsius, Some(51.5));
        assert_eq!((rounded(figures.clock_mhz), figures.load), (Some(1020.0), Some(0.873)));
        assert_eq!((rounded(figures.power_watts), figures.memory_clock_mhz), (Some(7.5), None));
        assert_eq!(figures.power_rail.as_deref(), Some("VDD_CPU_GPU_CV"));
        tree.put("sys/class/thermal/thermal_zone1/temp", "-256000\n"); // the zone is switched off
        tree.put("sys/class/hwmon/hwmon1/curr2_input", "2000\n");
        let figures = jetson.read();
        assert_eq!((figures.temperature_celsius, rounded(figures.power_watts)), (None, Some(10.0)));
    }

    #[test]
    fn a_jetson_without_rails_and_zones_still_reports_its_load() {
        let tree = Tree::of(&NANO[..1]);
        let figures = Jetson::find(tree.root()).expect("a Jetson").read();
        assert_eq!(figures, GpuFigures { load: Some(0.873), ..GpuFigures::default() });
    }
}
