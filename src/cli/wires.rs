//! A board's wires: is this the machine, open them, try them. What was found becomes words and exit codes here.

use super::exit::Failure;
use crate::bus::linux::{Claim, ClaimError, LinuxWires};
use crate::bus::{OpenError, Wires};
use crate::plan::{Board, BusPlan, I2cNode, PwmPlan};
use crate::rt::flock::Holder;
use crate::selftest::machine;
use crate::selftest::{self, Check, Verdict};
use crate::sim::Plant;
use crate::time::{Clock, MonotonicClock};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Refuses a board file that is of another machine than this.
pub fn is_this_machine(board: &Board) -> Result<(), Failure> {
    let found = machine::matches(board, Path::new("/"));
    found.map(drop).map_err(|mismatch| {
        Failure::config(mismatch)
            .at(format!("board '{}'", board.name))
            .fix("name the board file of this machine, or put a part of its name into 'compatible'")
    })
}

/// Opens the wires of a board on Linux.
pub fn open_wires(board: &Board) -> Result<Arc<dyn Wires>, Failure> {
    Ok(Arc::new(LinuxWires::open(board).map_err(|error| closed(&error))?))
}

/// The wires of `board` for verbs that look at hardware without running the robot: a fresh simulated robot's, or this
/// machine's.
pub fn open(board: &Board, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Wires>, Failure> {
    match board.bus {
        BusPlan::Sim => Ok(Arc::new(Plant::new(board, 1, &[], clock.clone()))),
        BusPlan::Linux { .. } => open_wires(board),
        BusPlan::Log => {
            Err(Failure::config(format!("board '{}' has no wires: its bus is a log", board.name)))
        }
    }
}

/// The motors of `board` for this process alone, until what is returned is dropped; `None`: they are simulated. Whatever
/// drives takes it first, before it opens a wire.
pub fn claim(board: &Board) -> Result<Option<Claim>, Failure> {
    if !matches!(board.bus, BusPlan::Linux { .. }) {
        return Ok(None);
    }
    let wires = LinuxWires::open(board).map_err(|error| closed(&error))?;
    wires.claim(pwm_chip(board)).map(Some).map_err(|error| match error {
        ClaimError::Open(error) => closed(&error),
        ClaimError::Held { place, holder } => {
            Failure::unavailable(format!("{holder} drives the motors of board '{}' already", board.name))
                .at(place.display())
                .fix("end it first: 'ganglion stop', or 'systemctl stop ganglion'")
        }
    })
}

/// Who has the motors of `board`; `None`: nobody, as far as can be seen. Takes nothing.
pub fn claimed_by(board: &Board) -> Option<Holder> {
    let BusPlan::Linux { .. } = board.bus else { return None };
    LinuxWires::open(board).ok()?.claimed_by(pwm_chip(board)).ok()?
}

/// The device of the PWM chip in /sys that makes the motors' pulses, where one does.
fn pwm_chip(board: &Board) -> Option<&str> {
    match &board.pwm {
        Some(PwmPlan::Sysfs { device, .. }) => Some(device),
        Some(PwmPlan::Pca9685 { .. }) | None => None,
    }
}

/// The time that passes.
pub fn clock() -> Arc<dyn Clock> {
    Arc::new(MonotonicClock)
}

/// How a verb ends that cannot have a wire: where it may not, whoever starts it again need not try.
pub fn closed(error: &OpenError) -> Failure {
    let failure = match error.denied {
        true => Failure::permission(&error.why),
        false => Failure::unavailable(&error.why),
    };
    failure.at(&error.what).fix(&error.fix)
}

/// A process that has I2C bus `bus` of `board` open, as `ganglion (4711)`: whoever runs the robot. Processes of other
/// users are seen only by root.
pub fn holder(board: &Board, bus: usize) -> Option<String> {
    let node = match (&board.bus, board.i2c.get(bus).map(|plan| &plan.node)) {
        (BusPlan::Linux { .. }, Some(I2cNode::Path(path))) => PathBuf::from(path),
        (BusPlan::Linux { .. }, Some(I2cNode::Adapter(device))) => {
            let adapters = LinuxWires::open(board).ok()?.survey(&[]).adapters;
            adapters.into_iter().find(|seen| seen.device.as_ref().is_some_and(|d| d.contains(device)))?.node
        }
        _ => return None,
    };
    holder_of(&node)
}

fn holder_of(node: &Path) -> Option<String> {
    let me = std::process::id().to_string();
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let pid = process.file_name().to_string_lossy().into_owned();
        if pid == me || !pid.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let Ok(open) = std::fs::read_dir(process.path().join("fd")) else { continue };
        if open.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|to| to == node)) {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("{} ({pid})", name.trim()));
        }
    }
    None
}

/// The self-test: whatever is required has to pass; what could be better is logged. `any_machine`: the machine need not
/// be the board's.
pub fn self_test(
    board: &Board,
    any_machine: bool,
    wires: &dyn Wires,
    clock: &dyn Clock,
) -> Result<(), Failure> {
    let board = match any_machine {
        true => &Board { compatible: Vec::new(), ..board.clone() },
        false => board,
    };
    let mut failed = Vec::new();
    for check in selftest::self_test(board, wires, Path::new("/"), clock) {
        match check.verdict {
            Verdict::Failed => failed.push(check),
            Verdict::Warned => log::warn!("self-test: {check}; {}", check.fix.as_deref().unwrap_or("")),
            Verdict::Passed | Verdict::Skipped => log::info!("self-test: {check}"),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(unfit(&failed)) }
}

/// How a verb ends after these checks. A wire that may not be opened comes first: it is what the others may come of.
fn unfit(failed: &[Check]) -> Failure {
    let all: Vec<String> = failed.iter().map(ToString::to_string).collect();
    let what = format!("the self-test failed: {}", all.join("; "));
    let denied = failed.iter().find(|check| check.denied);
    let failure = if denied.is_some() { Failure::permission(what) } else { Failure::unavailable(what) };
    match denied.or(failed.first()).and_then(|worst| worst.fix.as_ref()) {
        Some(fix) => failure.fix(fix),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    #[test]
    fn a_wire_that_may_not_be_opened_is_a_permission_whatever_failed_before_it() {
        let error = |denied| OpenError {
            what: "/dev/i2c-1".into(),
            why: "this user may not open it".into(),
            fix: "add the user to group 'i2c'".into(),
            denied,
        };
        assert_eq!(
            [true, false].map(|denied| closed(&error(denied)).exit()),
            [Exit::Permission, Exit::Unavailable]
        );
        let check = |what: &str, denied, fix: &str| Check {
            what: what.into(),
            verdict: Verdict::Failed,
            found: "closed".into(),
            fix: Some(fix.into()),
            denied,
        };
        let mut failed = vec![check("range", false, "look at its wires")];
        assert_eq!(unfit(&failed).exit(), Exit::Unavailable);
        failed.push(check("bus motors", true, "add the user to group 'i2c'"));
        let failure = unfit(&failed);
        assert_eq!(failure.exit(), Exit::Permission);
        let words = failure.to_string();
        assert!(
            words.contains("range: closed; bus motors: closed") && words.contains("group 'i2c'"),
            "{words}"
        );
    }

    #[test]
    fn who_has_a_node_open_is_found_by_name() {
        let node = std::env::temp_dir().join(format!("ganglion-held-{}", std::process::id()));
        std::fs::write(&node, "").unwrap();
        assert_eq!(holder_of(&node), None, "closed again");
        let file = std::fs::File::open(&node).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let found = holder_of(&node);
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(&node).unwrap();
        // Between fork and exec the child still has our name.
        assert!(found.is_some_and(|found| found.ends_with(&format!("({})", child.id()))));
    }
}
