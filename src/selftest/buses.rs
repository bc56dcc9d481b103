//! Checks which devices answer on an I2C bus: all expected ones should; reserved addresses are not probed. An
//! unexpected device is a hint, not a failure.

use super::{Bench, Check, readings};
use crate::bus::I2c;
use crate::bus::scan::{Answer, ask, scan};
use crate::device::robot_hat::RobotHat;
use crate::fault::BusFault;
use crate::plan::LineRole;
use crate::plan::addresses::{Expected, also_answers, expected, holder};

/// One bus: opened, probed, its chips read, then released.
pub fn look(bench: &Bench<'_>, bus: usize) -> Vec<Check> {
    let board = bench.board;
    let plan = &board.i2c[bus];
    let expected = expected(board, bus);
    let needed = expected.iter().any(|device| device.required);
    let what = format!("bus {}", plan.name);
    let mut i2c = match bench.hardware.i2c(bus) {
        Ok(i2c) => i2c,
        Err(error) => return vec![Check::closed(&what, needed, &error)],
    };
    let mut checks = Vec::new();
    let mut silent = Vec::new();
    for device in &expected {
        let (check, present) = presence(bench, bus, device, i2c.as_mut());
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
    checks.extend(strangers(bench, bus, &what, i2c.as_mut()));
    if bus == 0 {
        checks.extend(firmware(bench, &silent, i2c.as_mut()));
    }
    checks.extend(readings::on_bus(bench, bus, &silent, i2c.as_mut()));
    checks
}

enum Present {
    Answers,
    BusDown(BusFault),
}

fn presence(
    bench: &Bench<'_>,
    bus: usize,
    device: &Expected,
    i2c: &mut dyn I2c,
) -> (Option<Check>, Option<Present>) {
    let (board, address) = (bench.board, device.address);
    let what = format!("{address:#04x} on {}", board.i2c[bus].name);
    // A ranger with a shut-down line may sleep, or answer elsewhere, until its set-up: its reading shows.
    let sleeps = board.sensors.iter().any(|sensor| {
        let here = sensor.bus == bus && sensor.kind.i2c_address() == Some(address);
        let wakes_at = |at: u8| at != address || sensor.kind.line(LineRole::Shutdown).is_some();
        here && sensor.kind.wakes_at().is_some_and(wakes_at)
    });
    if sleeps {
        return (None, Some(Present::Answers));
    }
    match ask(i2c, address) {
        Answer::Answers => {
            (Some(Check::passed(&what, format!("{} answers", device.what))), Some(Present::Answers))
        }
        Answer::Silent if bus == 0 && bench.held_in_reset() && is_mcu(bench, address) => {
            let found = format!(
                "{} does not answer: the guard may hold it in reset until it trusts the runtime",
                device.what
            );
            (Some(Check::skipped(&what, found)), None)
        }
        Answer::Silent => {
            let found = format!("{} does not answer", device.what);
            let fix = "check its supply, its switch and its wiring; 'ganglion probe' shows what answers";
            (Some(Check::missing(&what, device.required, found, fix)), None)
        }
        Answer::Refused(BusFault::Unsupported) => {
            let found = format!("{}: a kernel driver is using this address", device.what);
            let fix =
                "move the device to another address or bus, or remove the driver's node from the device tree";
            (Some(Check::missing(&what, device.required, found, fix)), None)
        }
        Answer::Refused(fault) => (None, Some(Present::BusDown(fault))),
    }
}

fn is_mcu(bench: &Bench<'_>, address: u8) -> bool {
    bench.board.mcu.is_some_and(|mcu| mcu.address == address)
}

/// Unexpected devices.
fn strangers(bench: &Bench<'_>, bus: usize, what: &str, i2c: &mut dyn I2c) -> Option<Check> {
    let board = bench.board;
    let expected = expected(board, bus);
    let known = |address: u8| {
        holder(board, bus, address).is_some()
            || also_answers(board, bus, address)
            || expected.iter().any(|device| device.address == address)
    };
    let found: Vec<String> = scan(i2c, known)
        .into_iter()
        .filter(|(_, answer)| *answer == Answer::Answers)
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

/// Version of the Robot HAT's firmware: all that it reports about itself.
fn firmware(bench: &Bench<'_>, silent: &[u8], i2c: &mut dyn I2c) -> Option<Check> {
    let mcu = bench.board.mcu.as_ref().filter(|mcu| !silent.contains(&mcu.address))?;
    let what = "firmware of the Robot HAT";
    Some(match RobotHat::new(mcu).firmware(i2c) {
        Ok([major, minor, patch]) => Check::passed(what, format!("{major}.{minor}.{patch}")),
        Err(fault) => {
            Check::warned(what, fault.to_string(), "press the board's RST button, or switch it off and on")
        }
    })
}
