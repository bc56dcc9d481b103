//! Checks the computer's own supply: a Raspberry Pi's under-voltage alarm, a Jetson's over-current counters.
//! Machines without either are not checked.

use super::Check;
use std::path::{Path, PathBuf};

/// Checks the computer's supply.
pub fn check(root: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    for monitor in monitors(root) {
        let Some(name) = text(&monitor.join("name")) else { continue };
        match name.as_str() {
            "rpi_volt" => checks.extend(under_voltage(&monitor)),
            "soctherm_oc" => checks.extend(over_current(&monitor)),
            _ => {}
        }
    }
    checks
}

fn under_voltage(monitor: &Path) -> Option<Check> {
    let alarm = text(&monitor.join("in0_lcrit_alarm"))?;
    Some(match alarm.as_str() {
        "0" => Check::passed("supply", "no under-voltage since the last check".to_string()),
        _ => Check::warned(
            "supply",
            "the computer's 5 V fell below about 4.65 V".to_string(),
            "charge the battery; power the computer through a shorter, thicker wire, not from the servos' rail",
        ),
    })
}

/// The first counter is for under-voltage. The other two, for average and peak current, also rise in the
/// fastest power mode when nothing is wrong.
fn over_current(monitor: &Path) -> Option<Check> {
    let count = |nth: u8| text(&monitor.join(format!("oc{nth}_event_cnt")))?.parse::<u64>().ok();
    let [first, average, peak] = [count(1)?, count(2).unwrap_or(0), count(3).unwrap_or(0)];
    let found =
        format!("throttled {first} times for under-voltage, {average} for average, {peak} for peak current");
    Some(match first {
        0 => Check::passed("supply", found),
        _ => Check::warned(
            "supply",
            found,
            "use a supply rated for the module's peak, or a lower power mode (nvpmodel)",
        ),
    })
}

fn monitors(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root.join("sys/class/hwmon")) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn text(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_string())
}
