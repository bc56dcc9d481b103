//! The look at a robot's hardware before it may drive: is this the machine, do driven lines follow, does everybody answer
//! who is expected, are the supplies sound, does every sensor say something that can be true. Motors stand still: nothing
//! here lets a pulse begin, and what a guard holds is left alone.
//!
//! Decides nothing: it hands back what it found, for `run` to obey and for `doctor` to show.

mod buses;
mod lines;
pub mod machine;
mod pads;
mod readings;
mod supplies;
#[cfg(test)]
mod tests;

use crate::bus::{Hardware, OpenError};
use crate::plan::{Board, BusPlan, GuardHold};
use crate::time::Clock;
use std::fmt;
use std::path::Path;

/// How one check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Passed,
    /// The robot can drive, less well or less long.
    Warned,
    /// It had better not start.
    Failed,
    /// It could not be looked at, which is said.
    Skipped,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What: `machine`, `line 23`, `0x14 on motors`, `range`.
    pub what: String,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub fix: Option<String>,
    /// The system refuses a wire to this user.
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
    /// A failure where the board cannot do without, else a warning.
    fn missing(what: &str, required: bool, found: String, fix: &str) -> Check {
        if required { Check::failed(what, found, fix) } else { Check::warned(what, found, fix) }
    }
    /// That a wire cannot be had.
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

impl Bench<'_> {
    /// Whether the microcontroller may be silent because a guard keeps it in reset until it trusts the runtime.
    fn held_in_reset(&self) -> bool {
        self.board.guard.is_some_and(|guard| guard.holds == GuardHold::Reset)
    }
}

/// Looks at the hardware of `board` through `wires`; `root` is where `/proc` and `/sys` are looked for. Takes some
/// hundred milliseconds, most of it set-up of chips; every wait is bounded. Wires are held only while they are looked at.
pub fn self_test(board: &Board, hardware: &dyn Hardware, root: &Path, clock: &dyn Clock) -> Vec<Check> {
    let bench = Bench { board, hardware, root, clock };
    let mut checks = vec![match machine::matches(board, root) {
        Ok(machine) => Check::passed("machine", machine.to_string()),
        Err(mismatch) => {
            Check::failed("machine", mismatch.to_string(), "name the board file of this machine")
        }
    }];
    if matches!(board.bus, BusPlan::Log) {
        return checks;
    }
    if matches!(board.bus, BusPlan::Linux { .. }) {
        checks.extend(supplies::look(root));
    }
    checks.extend(lines::follow(&bench));
    for bus in 0..board.i2c.len() {
        checks.extend(buses::look(&bench, bus));
    }
    checks.extend(readings::off_bus(&bench));
    checks
}
