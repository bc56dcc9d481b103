//! What a row of the bench is: what it shows, what happens, how it must end and within what time, and the
//! seeded error that would make it fail. The rows themselves are `list`; `words` prints them as the table in
//! docs/virtual-bench-rows.md.

mod list;
mod words;

use super::limits::Limit;
use super::trouble::Trouble;
pub use list::ROWS;
pub use words::table;

/// A row.
pub struct Row {
    /// What it is called for by.
    pub name: &'static str,
    /// What it shows when it passes.
    pub shows: &'static str,
    /// How.
    pub course: Course,
    /// What in the runtime, or in the bench, would have to be wrong for it to fail.
    pub fails_if: &'static str,
}

/// What a row does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// A driving robot has a trouble for this many milliseconds, which then ends.
    Trouble(Trouble, u64, End),
    /// The same on a board whose guard holds the controller's reset, as the flagship's does. Its enable line
    /// is the runtime's, and stays on when it dies.
    Reset(Trouble, u64, End),
    /// Stops a guard that holds the controller's reset, and looks at what is there.
    LeftInReset,
    /// Kills the runtime this many times while it drives; each time the motors stand within the limit.
    Kills(usize, Limit),
    /// Cause to motor, many times.
    Loop(Loop),
    /// What the kernel alone takes.
    Floor(Floor),
    /// The service as it is installed.
    Service(Service),
    /// The verb that measures a robot over two wires, this many passes.
    Verb(u32),
    /// This many seconds of driving.
    Soak(u64),
}

/// How something done to the robot must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The motors stand within the limit, for as long as it lasts, for one of these causes; afterwards it
    /// drives again.
    StandsThenDrives(Limit, &'static [&'static str]),
    /// No motor drives the car forward from the limit on, as long as it lasts, for one of these causes;
    /// backing off is allowed, and wanted. Afterwards it drives again.
    BacksOff(Limit, &'static [&'static str]),
    /// The motors stand within the limit, for as long as it lasts, which is long enough to disarm: they go on
    /// standing when it is over, until the robot is armed; then it drives again.
    Disarms(Limit, &'static [&'static str]),
    /// The motors stand within the limit, and go on standing when it is over.
    Stands(Limit, &'static [&'static str]),
    /// It is no reason to stop: none of these causes is reported, though the wires show that it happened.
    RidesOut(&'static [&'static str]),
    /// It comes back by itself: set up anew, drives again.
    Recovers,
}

/// A latency from a cause to a motor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// From the button's edge, or from the inertial sensor's.
    pub from: From,
    /// With hackbench beside it.
    pub loaded: bool,
    /// The runtime has its real-time priorities; without, the gate must catch it.
    pub urgent: bool,
    /// p99, virtual microseconds: at least this, and better this.
    pub gate_us: [u64; 2],
}

/// Where a loop begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The stop button.
    Button,
    /// The inertial sensor's data-ready output.
    Imu,
}

/// What the kernel alone takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// From a timer's due time to its sleeper.
    Timer,
    /// From an edge on a line to an edge on another one, through a process that does nothing else.
    Echo,
}

/// What a row does to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Starts it.
    Start,
    /// Stops its process, and the watchdog kills it.
    Stop,
    /// Kills its process.
    Kill,
    /// Its board file is wrong.
    BadBoard,
    /// Its user may not open the bus.
    Refused,
    /// The motors' controller never answers: its switch is off.
    Silent,
    /// Its user means its guard harm.
    Hostile,
    /// Its bus hangs until the driver is bound anew, which its user may not do.
    Wedged,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_row_can_fail() {
        assert!(ROWS.len() >= 30);
        for (nth, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..nth].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(!row.fails_if.is_empty() && !row.shows.is_empty());
        }
    }

    #[test]
    fn the_documentation_has_this_table() {
        let page = include_str!("../../docs/virtual-bench-rows.md");
        for line in table() {
            assert!(page.lines().any(|written| written == line), "run `hil-guest table`: {line}");
        }
    }
}
