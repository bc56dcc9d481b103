//! Checks a robot's hardware before it may drive: is this the right machine, do driven lines reach their
//! level, do all expected devices answer, are the supplies sound, does every sensor return a plausible value.
//! The motors stay stopped: nothing here starts a pulse. Their controller is taken out of reset for the test
//! and reset again afterwards; a line that a guard or another program holds is left alone.
//!
//! It only returns its findings; `run` acts on them and `doctor` shows them.

mod buses;
pub mod hat;
mod lines;
pub mod machine;
mod pads;
mod readings;
pub mod reset;
mod supplies;
#[cfg(test)]
mod tests;

pub use buses::own_time;

use crate::base::plan::{Board, BusPlan};
use crate::base::time::Clock;
use crate::hardware::bus::{Hardware, OpenError};
use reset::Reset;
use std::fmt;
use std::path::Path;

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No problem found.
    Passed,
    /// The robot can drive, but less well or for a shorter time.
    Warned,
    /// The robot should not start.
    Failed,
    /// It could not be checked.
    Skipped,
}

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name: `machine`, `line 23`, `0x14 on motors`, `range`.
    pub what: String,
    /// The result.
    pub verdict: Verdict,
    /// The finding.
    pub found: String,
    /// What to do about it.
    pub fix: Option<String>,
    /// The system denies this user access to a wire.
    pub denied: bool,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.found)
    }
}

impl Check {
    fn new(what: &str, verdict: Verdict, found: String) -> Check {
        Check { what: what.to_string(), verdict, found, fix: None, denied: false }
    }
    fn passed(what: &str, found: String) -> Check {
        Check::new(what, Verdict::Passed, found)
    }
    fn warned(what: &str, found: String, fix: &str) -> Check {
        Check { fix: Some(fix.to_string()), ..Check::new(what, Verdict::Warned, found) }
    }
    fn failed(what: &str, found: String, fix: &str) -> Check {
        Check { fix: Some(fix.to_string()), ..Check::new(what, Verdict::Failed, found) }
    }
    fn skipped(what: &str, found: String) -> Check {
        Check::new(what, Verdict::Skipped, found)
    }
    /// A failure if the board requires what is missing, otherwise a warning.
    fn missing(what: &str, required: bool, found: String, fix: &str) -> Check {
        if required { Check::failed(what, found, fix) } else { Check::warned(what, found, fix) }
    }
    /// A check whose wire cannot be opened.
    fn closed(what: &str, required: bool, error: &OpenError) -> Check {
        Check { denied: error.denied, ..Check::missing(what, required, error.to_string(), &error.fix) }
    }
}

/// Shared by all parts of the test.
#[derive(Clone, Copy)]
struct Bench<'a> {
    board: &'a Board,
    hardware: &'a dyn Hardware,
    root: &'a Path,
    clock: &'a dyn Clock,
}

/// The state in which the test leaves the motors' controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// In reset: the run's bus thread sets it up, maybe minutes later.
    InReset,
    /// As it was found: in reset, or running but freshly reset, for the program that opens it next.
    AsFound,
}

/// Checks the hardware of `board` through `hardware`; `/proc` and `/sys` are looked up in `root`. Takes less
/// than a second if nothing is wrong, mostly for set-ups and resets; every wait is bounded. Wires are held
/// only while they are checked. Returns the checks, and the board with the address at which its controller
/// was found.
pub fn self_test(
    board: &Board,
    hardware: &dyn Hardware,
    root: &Path,
    clock: &dyn Clock,
    afterwards: Afterwards,
) -> (Vec<Check>, Board) {
    let mut checks = vec![match machine::matches(board, root) {
        Ok(machine) => Check::passed("machine", machine.to_string()),
        Err(mismatch) => {
            Check::failed("machine", mismatch.to_string(), "use the board file for this machine")
        }
    }];
    if matches!(board.bus, BusPlan::Log) {
        return (checks, board.clone());
    }
    checks.extend(hat::check(board, root));
    if checks.iter().any(|check| check.verdict == Verdict::Failed) {
        return (checks, board.clone()); // on another machine or HAT, the lines may mean something else
    }
    let bench = Bench { board, hardware, root, clock };
    if matches!(board.bus, BusPlan::Linux { .. }) {
        checks.extend(supplies::check(root));
    }
    let reset = match Reset::release(&bench) {
        Ok(reset) => reset,
        Err(check) => {
            checks.push(check);
            return (checks, board.clone()); // without a reset, the controller's answers mean nothing
        }
    };
    let found = match hardware.i2c(0) {
        Ok(mut i2c) => {
            let (found, check) = hat::found_at(board, i2c.as_mut());
            checks.extend(check);
            found
        }
        Err(_) => board.clone(), // the check of the bus reports why
    };
    let bench = Bench { board: &found, ..bench };
    checks.extend(lines::check(&bench));
    for bus in 0..board.i2c.len() {
        checks.extend(buses::check(&bench, bus, &reset));
    }
    checks.extend(readings::off_bus(&bench));
    reset.end(afterwards, clock);
    (checks, found)
}
