//! The board's buses and lines on this machine: the consumer of each line, what a released line does and, on
//! request, the whole self-test.

use std::path::Path;

use super::Finding;
use crate::base::plan::addresses::expected;
use crate::base::plan::lines::lines;
use crate::base::plan::{Board, BusPlan, GuardHold, Line};
use crate::base::time::MonotonicClock;
use crate::cli::exit::Failure;
use crate::hardware::bus::OpenError;
use crate::hardware::bus::linux::{LineSeen, LinuxHardware, Reach};
use crate::runtime::access;
use crate::runtime::selftest::{Afterwards, Check, Verdict, own_time, self_test};

/// What the kernel reports about the board's buses and lines. Drives and transfers nothing.
pub(super) fn look(root: &Path, board: &Board) -> Vec<Finding> {
    if !matches!(board.bus, BusPlan::Linux { .. }) {
        return Vec::new();
    }
    let Ok(hardware) = LinuxHardware::with_root(board, root) else { return Vec::new() };
    let mut findings: Vec<Finding> = (0..board.i2c.len()).map(|bus| chips(board, bus)).collect();
    findings.extend((0..board.i2c.len()).filter_map(|bus| rebind(board, bus, hardware.reach(bus).ok()?)));
    findings.extend(
        board.i2c.iter().filter_map(|bus| own_time(root, bus)).map(|check| {
            Finding::refused("adapter", &check, check.fix.as_deref().unwrap_or("")).needed(true)
        }),
    );
    let used = lines(board);
    let numbers: Vec<Line> = used.iter().map(|(line, _)| *line).collect();
    let survey = hardware.survey(&numbers);
    let refused: Vec<&OpenError> = survey.lines.iter().filter_map(|seen| seen.as_ref().err()).collect();
    match refused.first() {
        // All lines fail for the same reason: the chip is missing, and a finding above reports that.
        Some(error) if refused.len() == used.len() => {
            findings.push(Finding::refused("lines", error, &error.fix).needed(true));
        }
        _ => findings.extend(used.iter().zip(&survey.lines).map(|((_, role), seen)| line(role, seen))),
    }
    if survey.outputs_outlive_owner == Some(true) {
        findings.extend(kept(board));
    }
    findings
}

/// Whether the last resort for a hung I2C controller is available: rebinding its driver.
fn rebind(board: &Board, bus: usize, reach: Reach) -> Option<Finding> {
    let name = &board.i2c[bus].name;
    match reach {
        Reach::NotWanted => None,
        Reach::Directly => Some(Finding::ok("rebind", format!("{name}: this user may rebind its driver"))),
        Reach::ByAnother => {
            Some(Finding::ok("rebind", format!("{name}: ganglion-rebind rebinds its driver")))
        }
        Reach::Not(error) => {
            let found =
                format!("{name}: the board permits rebinding its driver, but no process does it: {error}");
            Some(Finding::warn("rebind", found, &error.fix))
        }
    }
}

/// What it means for this board if the kernel keeps driving an output after its owner has exited.
fn kept(board: &Board) -> Option<Finding> {
    if board.enable.is_some() {
        return Some(Finding::warn(
            "released lines",
            "this kernel keeps driving an output after its owner has died, so it does not release the motors' line",
            "dtparam=strict_gpiod in config.txt, or persist_gpio_outputs=0 on the pin controller's module",
        ));
    }
    let resets = board.guard.is_some_and(|guard| guard.holds == GuardHold::Reset);
    resets.then(|| {
        Finding::ok(
            "released lines",
            "this kernel keeps driving them: a stopped guard leaves the controller in reset, without pulses; \
             probe --board, --test and calibrate release it while they run",
        )
    })
}

/// The devices that the board expects on a bus; `--test` and `probe` show which of them answer.
fn chips(board: &Board, bus: usize) -> Finding {
    let expected: Vec<String> = expected(board, bus)
        .iter()
        .map(|device| format!("{:#04x} {}", device.address, device.what))
        .collect();
    let reserved: Vec<String> = board
        .reserved_addresses
        .iter()
        .filter(|reserved| reserved.bus == bus)
        .map(|reserved| format!("{:#04x} {}", reserved.address, reserved.holder))
        .collect();
    let mut found = format!("{}: {}", board.i2c[bus].name, list(&expected, "nothing expected"));
    if !reserved.is_empty() {
        found = format!("{found}; reserved: {}", reserved.join(", "));
    }
    Finding::ok("chips", found)
}

fn list(items: &[String], none: &str) -> String {
    if items.is_empty() { none.to_string() } else { items.join(", ") }
}

fn line(role: &str, seen: &Result<LineSeen, OpenError>) -> Finding {
    let seen = match seen {
        Ok(seen) => seen,
        Err(error) => {
            return Finding::refused("line", format!("{role}: {error}"), &error.fix).needed(true);
        }
    };
    let name = if seen.name.is_empty() { String::new() } else { format!(" {}", seen.name) };
    let found = format!("{role}: {} line {}{name}", seen.chip, seen.offset);
    match &seen.consumer {
        None => Finding::ok("line", found),
        Some(holder) if holder.starts_with("ganglion") => Finding::ok("line", format!("{found}, held by {holder}")),
        Some(holder) => Finding::refused(
            "line",
            format!("{found}, held by {holder}"),
            "stop the holder; to remove a kernel driver, disable its node in the device tree (an overlay, a dtparam)",
        )
        .needed(true),
    }
}

/// Runs the self-test.
pub(super) fn test(board: &Board) -> Result<Vec<Check>, Failure> {
    if let Some(holder) = access::holder(board, 0) {
        return Err(Failure::unavailable(format!("{holder} has the motors' bus open"))
            .fix("stop it first: 'ganglion stop', or 'systemctl stop ganglion'"));
    }
    if matches!(board.bus, BusPlan::Log) {
        return Ok(Vec::new());
    }
    let hardware = access::open(board)?;
    Ok(self_test(board, hardware.as_ref(), Path::new("/"), &MonotonicClock, Afterwards::AsFound).0)
}

/// A self-test result as a finding.
pub(super) fn finding(check: &Check) -> Finding {
    let fix = check.fix.clone().unwrap_or_default();
    let finding = match check.verdict {
        Verdict::Passed => Finding { fix: check.fix.clone(), ..Finding::ok("test", check) },
        Verdict::Skipped => {
            Finding { fix: check.fix.clone(), ..Finding::ok("test", format!("not checked: {check}")) }
        }
        Verdict::Warned => Finding::warn("test", check, fix),
        Verdict::Failed => Finding::refused("test", check, fix),
    };
    finding.needed(check.verdict == Verdict::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(name: &str) -> Board {
        crate::deploy::board::built_in(name).unwrap().unwrap().board
    }

    #[test]
    fn the_simulated_car_is_tested_without_listing_lines() {
        let sim = board("sim");
        assert_eq!(look(Path::new("/"), &sim), []);
        let checks = test(&sim).unwrap();
        assert!(
            checks.len() > 10 && checks.iter().all(|check| check.verdict == Verdict::Passed),
            "{checks:#?}"
        );
        assert_eq!(test(&board("scitos-g5")).unwrap(), []);
    }

    #[test]
    fn failures_stop_the_board_and_warnings_do_not() {
        let check = |verdict| Check {
            what: "range".to_string(),
            verdict,
            found: "line 22 did not answer".to_string(),
            fix: Some("check its supply".to_string()),
            denied: false,
        };
        assert!(finding(&check(Verdict::Failed)).stops_the_board());
        assert!(!finding(&check(Verdict::Warned)).stops_the_board());
        assert!(finding(&check(Verdict::Skipped)).found.starts_with("not checked: range:"));
    }

    #[test]
    fn a_missing_chip_is_reported_once() {
        let nowhere = std::env::temp_dir().join(format!("ganglion-wiring-{}", std::process::id()));
        let findings = look(&nowhere, &board("jetson-orin-nano"));
        let topics: Vec<&str> = findings.iter().map(|finding| finding.topic).collect();
        assert_eq!(topics, ["chips", "chips", "lines"], "{findings:#?}");
        assert!(findings[0].found.starts_with("motors: 0x29 range, 0x40 PCA9685"), "{}", findings[0].found);
        assert!(findings[1].found.contains("nothing expected; reserved: 0x40 ina3221, 0x25 usb-c"));
        assert!(findings[2].stops_the_board());
    }

    #[test]
    fn rebinding_is_reported_if_the_board_uses_it() {
        let board = board("picarx-v4");
        assert_eq!(rebind(&board, 0, Reach::NotWanted), None);
        for reach in [Reach::Directly, Reach::ByAnother] {
            assert_eq!(rebind(&board, 0, reach).unwrap().fix, None);
        }
        let [what, why, fix] = ["rebind.sock", "no such file", "start it"].map(String::from);
        let not = rebind(&board, 0, Reach::Not(OpenError { what, why, fix, denied: false })).unwrap();
        assert!(not.found.ends_with("rebind.sock: no such file"), "{not}");
        assert_eq!(not.fix.as_deref(), Some("start it"));
    }

    #[test]
    fn kept_outputs_are_a_warning_only_if_a_motor_could_run() {
        assert_eq!(kept(&board("virtual-bench")).unwrap().verdict, super::super::Verdict::Warn);
        let flagship = kept(&board("picarx-v4")).unwrap();
        assert_eq!(flagship.verdict, super::super::Verdict::Ok);
        assert!(flagship.found.contains("leaves the controller in reset"), "{flagship}");
        assert_eq!(kept(&board("generic-linux")), None);
    }

    #[test]
    fn a_line_names_its_holder() {
        let seen = |consumer: Option<&str>| {
            Ok(LineSeen {
                line: Line(23),
                chip: "pinctrl-rp1".to_string(),
                offset: 23,
                name: "GPIO23".to_string(),
                consumer: consumer.map(str::to_string),
                output: true,
            })
        };
        let free = line("direction of left", &seen(None));
        assert_eq!(free.found, "direction of left: pinctrl-rp1 line 23 GPIO23");
        assert!(!line("x", &seen(Some("ganglion-bus"))).stops_the_board());
        assert!(line("x", &seen(Some("spi0 CS0"))).stops_the_board());
    }
}
