//! Checks a robot's hardware before it may drive: is this the machine, do driven lines follow, do all
//! expected devices answer, are the supplies sound, does every sensor return a plausible value. The motors
//! stay stopped: nothing here starts a pulse. Their controller is taken out of reset for the test and reset
//! again after it, to stay as it was found; a line that another guard or program holds is left alone.
//!
//! Decides nothing: it returns its findings; `run` acts on them and `doctor` shows them.

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
    /// In order.
    Passed,
    /// The robot can drive, less well or for a shorter time.
    Warned,
    /// The robot should not start.
    Failed,
    /// It could not be checked, and is reported as such.
    Skipped,
}

/// One thing that was checked.
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
    /// The system refuses this user access to a wire.
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
    /// A failure if the board requires it, otherwise a warning.
    fn missing(what: &str, required: bool, found: String, fix: &str) -> Check {
        if required { Check::failed(what, found, fix) } else { Check::warned(what, found, fix) }
    }
    /// Reports that a wire cannot be opened.
    fn closed(what: &str, required: bool, error: &OpenError) -> Check {
        Check { denied: error.denied, ..Check::missing(what, required, error.to_string(), &error.fix) }
    }
}

/// What every part of the test needs.
#[derive(Clone, Copy)]
struct Bench<'a> {
    board: &'a Board,
    hardware: &'a dyn Hardware,
    root: &'a Path,
    clock: &'a dyn Clock,
}

/// What becomes of the motors' controller after the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// It stays in its reset: the run's own thread sets it up, maybe minutes later.
    InReset,
    /// As it was found: in reset, or fresh from a reset for the program that opens it next.
    AsFound,
}

/// Checks the hardware of `board` through `wires`; `/proc` and `/sys` are looked up in `root`. Takes a second
/// at most, mostly set-ups and resets; every wait is bounded. Wires are held only while checked. Returns the
/// checks, and the board with the address at which its controller was found.
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
    checks.extend(hat::look(board, root));
    if checks.iter().any(|check| check.verdict == Verdict::Failed) {
        return (checks, board.clone()); // no line is driven that may be another machine's or another HAT's
    }
    let bench = Bench { board, hardware, root, clock };
    if matches!(board.bus, BusPlan::Linux { .. }) {
        checks.extend(supplies::look(root));
    }
    let reset = match Reset::release(&bench) {
        Ok(reset) => reset,
        Err(check) => {
            checks.push(check);
            return (checks, board.clone()); // whatever the controller said would mean nothing
        }
    };
    let found = match hardware.i2c(0) {
        Ok(mut i2c) => {
            let (found, check) = hat::found_at(board, i2c.as_mut());
            checks.extend(check);
            found
        }
        Err(_) => board.clone(), // the bus's own check says why
    };
    let bench = Bench { board: &found, ..bench };
    checks.extend(lines::follow(&bench));
    for bus in 0..board.i2c.len() {
        checks.extend(buses::look(&bench, bus, &reset));
    }
    checks.extend(readings::off_bus(&bench));
    reset.end(afterwards, clock);
    (checks, found)
}
