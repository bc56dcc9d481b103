//! A bus thread in the report of a run.

use crate::drive::io::{BusCounters, DeviceCounters, RecoveryStep};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one bus thread.
#[derive(Debug, Serialize)]
pub(super) struct BusLine {
    name: String,
    pub(super) polls: u64,
    failures: u64,
    retries: u64,
    set_ups: u64,
    /// Stop commands repeated because the motors were not confirmed stopped.
    stops_again: u64,
    cuts: u64,
    /// The longest time without a command to motors that may have been moving; absent if none moved.
    longest_unled_us: Option<f64>,
    /// How often each device was lost, by the names of its sensors; devices that were never lost are absent.
    losses: BTreeMap<String, u64>,
    /// The devices that were still lost at the end.
    lost: Vec<String>,
    /// How often each recovery step was taken; steps that were never taken are absent.
    recovery_steps: BTreeMap<&'static str, u64>,
    late: u64,
    /// How often each device that has a line was polled on a timer instead, by the names of its sensors: at
    /// least for its first poll, and whenever its line was silent. Devices without a line are absent.
    unprompted: BTreeMap<String, u64>,
    /// The duration of each device's longest poll, by the names of its sensors.
    longest_us: BTreeMap<String, f64>,
}

impl BusLine {
    pub(super) fn of(bus: &BusCounters) -> BusLine {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let taken = RecoveryStep::ALL.into_iter().map(|step| (step.name(), bus.taken(step)));
        BusLine {
            name: bus.name.clone(),
            polls: bus.devices.iter().map(|device| count(&device.polls)).sum(),
            failures: count(&bus.failures),
            retries: count(&bus.retries),
            set_ups: count(&bus.set_ups),
            stops_again: count(&bus.stops_again),
            cuts: count(&bus.cuts),
            longest_unled_us: Some(bus.longest_write_gap().as_micros_f64()).filter(|us| *us > 0.0),
            losses: by_device(bus, |device| &device.losses),
            lost: bus.lost().map(String::from).collect(),
            recovery_steps: taken.filter(|(_, times)| *times > 0).collect(),
            late: bus.devices.iter().map(|device| count(&device.late)).sum(),
            unprompted: by_device(bus, |device| &device.unprompted),
            longest_us: bus
                .devices
                .iter()
                .map(|device| (device.name.clone(), device.longest().as_micros_f64()))
                .collect(),
        }
    }

    pub(super) fn print(&self, unit: &str) {
        let BusLine { name, polls, failures, retries, late, .. } = self;
        let longest = self.longest_us.iter().max_by(|a, b| a.1.total_cmp(b.1));
        let longest =
            longest.map(|(device, us)| format!(", longest {us:.0} {unit} ({device})")).unwrap_or_default();
        say!("  bus {name:<6} {polls} polls, {late} late, {failures} failed, {retries} retries{longest}");
        if !self.recovery_steps.is_empty() {
            let steps: Vec<String> =
                self.recovery_steps.iter().map(|(step, n)| format!("{step} {n}")).collect();
            say!("             recovery: {}", steps.join(", "));
        }
        if let Some(us) = self.longest_unled_us {
            say!("             moving motors went without a command for at most {us:.0} {unit}");
        }
        if self.stops_again > 0 {
            say!("             motors not confirmed stopped: stop repeated {} times", self.stops_again);
        }
        if self.cuts > 0 {
            say!("             motors stopped by their line {} times while the bus hung", self.cuts);
        }
        let losses = self.losses.iter().map(|(device, times)| {
            let end = if self.lost.contains(device) { ", still lost at the end" } else { "" };
            format!("{device} (times: {times}{end})")
        });
        let losses: Vec<String> = losses.collect();
        if !losses.is_empty() {
            say!("             devices that were lost: {}", losses.join(", "));
        }
    }
}

/// The devices whose counter is above zero, by the names of their sensors.
fn by_device(bus: &BusCounters, counter: fn(&DeviceCounters) -> &AtomicU64) -> BTreeMap<String, u64> {
    let counts = bus.devices.iter().map(|device| {
        let times = counter(device).load(Ordering::Relaxed);
        (device.name.clone(), times)
    });
    counts.filter(|(_, times)| *times > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_with_trouble_are_listed() {
        let bus = BusCounters::new("motors", ["imu", "range"].map(String::from));
        bus.devices[0].unprompted.store(3, Ordering::Relaxed);
        bus.devices[1].losses.store(2, Ordering::Relaxed);
        let line = serde_json::to_value(BusLine::of(&bus)).expect("it is plain data");
        assert_eq!(line["unprompted"], serde_json::json!({ "imu": 3 }));
        assert_eq!(line["losses"], serde_json::json!({ "range": 2 }));
    }
}
