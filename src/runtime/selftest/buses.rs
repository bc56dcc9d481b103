//! Checks which devices answer on an I2C bus. All expected devices should answer; reserved addresses are not
//! probed. An unexpected device is a hint, not a failure.

use super::reset::Reset;
use super::{Bench, Check, readings};
use crate::base::fault::BusFault;
use crate::base::plan::addresses::{Expected, also_answers, expected, holder};
use crate::base::plan::{I2cPlan, LineRole, McuPlan};
use crate::hardware::bus::scan::{ProbeResult, ask, scan};
use crate::hardware::bus::{I2c, linux};
use crate::hardware::device::robot_hat::RobotHat;
use std::path::Path;

/// What to do about a Robot HAT that is silent although its controller is not in reset, likeliest cause
/// first: it runs from its own battery behind its own switch, not from the computer. Addresses: SunFounder's
/// robot-hat library tries 0x14 and 0x15 (adc.py, pwm.py).
const DEAD_HAT: &str = "switch the Robot HAT on (its own switch), charge its battery, seat it on all 40 pins; \
                        if 'ganglion probe' shows it at another address, write that under [mcu]";

/// Checks one bus: opens it, probes its devices, reads its chips, and releases it.
pub(super) fn check(bench: &Bench<'_>, bus: usize, reset: &Reset) -> Vec<Check> {
    let board = bench.board;
    let plan = &board.i2c[bus];
    let expected = expected(board, bus);
    let needed = expected.iter().any(|device| device.required);
    let what = format!("bus {}", plan.name);
    let mut i2c = match bench.hardware.i2c(bus) {
        Ok(i2c) => i2c,
        Err(error) => return vec![Check::closed(&what, needed, &error)],
    };
    let mut checks: Vec<Check> = own_time(bench.root, plan).into_iter().collect();
    let mut silent = Vec::new();
    for device in &expected {
        let (check, present) = presence(bench, bus, device, reset, i2c.as_mut());
        if let Some(Present::BusDown(fault)) = present {
            let fix = "power-cycle its devices; look for one that holds SDA or SCL low";
            let found =
                format!("{fault:?} when {:#04x} was polled: a device is holding the bus", device.address);
            return vec![Check::missing(&what, needed, found, fix)];
        }
        if !matches!(present, Some(Present::Answers)) {
            silent.push(device.address);
        }
        checks.extend(check);
    }
    checks.extend(unexpected_devices(bench, bus, &what, i2c.as_mut()));
    checks.extend(readings::on_bus(bench, bus, &silent, i2c.as_mut()));
    if bus == 0 {
        checks.extend(firmware(bench, &silent, reset, i2c.as_mut())); // must come last, see its comment
    }
    checks
}

/// Fails if the adapter's driver has a fixed timeout that the board file does not declare, because the
/// board's time budgets are then wrong.
pub fn own_time(root: &Path, plan: &I2cPlan) -> Option<Check> {
    let driver = linux::own_time(root, &plan.node).filter(|driver| plan.driver != Some(*driver))?;
    let (name, hang) = (driver.name(), driver.longest().as_micros_f64() / 1e3);
    let found = format!(
        "its driver is {name}, which waits up to {hang} ms for a hung transfer whatever timeout is set, but the board expects {} ms",
        plan.timing.timeout.as_micros_f64() / 1e3
    );
    let fix = format!(
        "write 'driver = \"{name}\"' and 'timeout_ms = {hang:.1}' in the bus's section of the board file; 'ganglion check' then says what else depends on it"
    );
    Some(Check::failed(&format!("bus {}", plan.name), found, &fix))
}

enum Present {
    Answers,
    BusDown(BusFault),
}

fn presence(
    bench: &Bench<'_>,
    bus: usize,
    device: &Expected,
    reset: &Reset,
    i2c: &mut dyn I2c,
) -> (Option<Check>, Option<Present>) {
    let (board, address) = (bench.board, device.address);
    let what = format!("{address:#04x} on {}", board.i2c[bus].name);
    // Until its set-up, a ranger with a shut-down line may be off, and one whose address is reassigned
    // answers at its power-on address, so only the ranger's reading is checked.
    let sleeps = board.sensors.iter().any(|sensor| {
        let here = sensor.bus == bus && sensor.kind.i2c_address() == Some(address);
        let wakes_at = |at: u8| at != address || sensor.kind.line(LineRole::Shutdown).is_some();
        here && sensor.kind.wakes_at().is_some_and(wakes_at)
    });
    if sleeps {
        return (None, Some(Present::Answers));
    }
    match ask(i2c, address) {
        ProbeResult::Answers => {
            let others = match board.mcu.filter(|mcu| bus == 0 && mcu.address == address) {
                Some(mcu) => not_at(&mcu),
                None => String::new(),
            };
            (Some(Check::passed(&what, format!("{} answers{others}", device.what))), Some(Present::Answers))
        }
        ProbeResult::Silent if bus == 0 && reset.holder().is_some() && is_mcu(bench, address) => {
            let found = format!(
                "{} does not answer: the guard may hold it in reset until it trusts the runtime",
                device.what
            );
            let fix = reset.holder().map(|holder| holder.fix.clone());
            (Some(Check { fix, ..Check::skipped(&what, found) }), None)
        }
        ProbeResult::Silent if bus == 0 && is_mcu(bench, address) => {
            let others = board.mcu.as_ref().map_or(String::new(), not_at);
            let found = format!("{} does not answer{others}, and its reset is released", device.what);
            (Some(Check::failed(&what, found, DEAD_HAT)), None)
        }
        ProbeResult::Silent => {
            let found = format!("{} does not answer", device.what);
            let fix = "check its supply, its switch and its wiring; 'ganglion probe' shows what answers";
            (Some(Check::missing(&what, device.required, found, fix)), None)
        }
        ProbeResult::Refused(BusFault::Unsupported) => {
            let found = format!("{}: a kernel driver is using this address", device.what);
            let fix =
                "move the device to another address or bus, or remove the driver's node from the device tree";
            (Some(Check::missing(&what, device.required, found, fix)), None)
        }
        ProbeResult::Refused(fault) => (None, Some(Present::BusDown(fault))),
    }
}

/// The other addresses that were tried, e.g. ` (not at 0x14)`; empty if there are none.
fn not_at(mcu: &McuPlan) -> String {
    let others: Vec<String> = mcu
        .others
        .iter()
        .flatten()
        .filter(|other| **other != mcu.address)
        .map(|other| format!("{other:#04x}"))
        .collect();
    if others.is_empty() { String::new() } else { format!(" (not at {})", others.join(" ")) }
}

fn is_mcu(bench: &Bench<'_>, address: u8) -> bool {
    bench.board.mcu.is_some_and(|mcu| mcu.address == address)
}

/// Unexpected devices.
fn unexpected_devices(bench: &Bench<'_>, bus: usize, what: &str, i2c: &mut dyn I2c) -> Option<Check> {
    let board = bench.board;
    let expected = expected(board, bus);
    let known = |address: u8| {
        (bus == 0 && board.mcu.is_some_and(|mcu| mcu.addresses().any(|other| other == address)))
            || holder(board, bus, address).is_some()
            || also_answers(board, bus, address)
            || expected.iter().any(|device| device.address == address)
    };
    let found: Vec<String> = scan(i2c, known)
        .into_iter()
        .filter(|(_, answer)| *answer == ProbeResult::Answers)
        .map(|(address, _)| format!("{address:#04x}"))
        .collect();
    if found.is_empty() {
        return None;
    }
    let found = format!("also answering: {}", found.join(" "));
    let fix =
        "nothing to do if you know them; otherwise a device may not be at the address in the board file";
    Some(Check { fix: Some(fix.to_string()), ..Check::passed(what, found) })
}

/// Version of the Robot HAT's firmware, which is all that the HAT reports about itself.
///
/// Queried last, and only if a reset follows. The query is one byte and a repeated start, but the firmware
/// counts bytes in threes, and it is not documented that a repeated start resets its count. If it does not,
/// every later frame is shifted and the converter answers none of them.
fn firmware(bench: &Bench<'_>, silent: &[u8], reset: &Reset, i2c: &mut dyn I2c) -> Option<Check> {
    let mcu = bench.board.mcu.as_ref().filter(|mcu| !silent.contains(&mcu.address))?;
    let what = "firmware of the Robot HAT";
    if !reset.follows() {
        return Some(Check::skipped(what, "not queried: a guard holds its reset line".to_string()));
    }
    Some(match RobotHat::new(mcu).firmware(i2c) {
        Ok([major, minor, patch]) => Check::passed(what, format!("{major}.{minor}.{patch}")),
        Err(fault) => {
            Check::warned(what, fault.to_string(), "press the board's RST button, or switch it off and on")
        }
    })
}
