//! The definition of a row of the bench: what it shows, what happens, how it must end and within what time,
//! and an error that would make it fail. The rows themselves are in `list`; `words` formats them as the table
//! in docs/virtual-bench-rows.md.

mod list;
mod words;

use super::limits::Limit;
use super::trouble::Trouble;
pub use list::ROWS;
pub use words::table;

/// A row.
pub struct Row {
    /// The name by which it is requested.
    pub name: &'static str,
    /// What it shows if it passes.
    pub shows: &'static str,
    /// Its procedure.
    pub course: Course,
    /// An error in the runtime or in the bench that would make it fail.
    pub fails_if: &'static str,
}

/// The procedure of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Exposes a driving robot to a trouble, which ends after this many milliseconds.
    Trouble(Trouble, u64, End),
    /// The same on a board whose guard holds the controller's reset, as on the flagship. The enable line
    /// belongs to the runtime, and stays on when the runtime dies.
    Reset(Trouble, u64, End),
    /// Stops a guard that holds the controller's reset, and examines the state that it leaves.
    LeftInReset,
    /// Kills the runtime this many times while it drives; each time the motors must stop within the limit.
    Kills(usize, Limit),
    /// Measures the latency from cause to motor, many times.
    Loop(Loop),
    /// Measures the latency of the kernel alone.
    Floor(Floor),
    /// Tests the service as installed.
    Service(Service),
    /// Runs `ganglion hil`, which measures a robot over two wires, with this many passes.
    Verb(u32),
    /// Drives for this many seconds.
    Soak(u64),
}

/// How a trouble must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The motors stop within the limit and stay stopped while the trouble lasts, for one of these causes;
    /// then the robot drives again.
    StandsThenDrives(Limit, &'static [&'static str]),
    /// From the limit until the trouble ends, no motor drives the car forward, for one of these causes;
    /// backing off is allowed and expected. Then the car drives forward again.
    BacksOff(Limit, &'static [&'static str]),
    /// The motors stop within the limit and stay stopped while the trouble lasts, which is long enough to
    /// disarm: they stay stopped afterwards until the robot is armed; then it drives again.
    Disarms(Limit, &'static [&'static str]),
    /// The motors stop within the limit, and stay stopped afterwards.
    Stands(Limit, &'static [&'static str]),
    /// The trouble is no reason to stop: none of these causes is reported, although the wires show the
    /// trouble.
    RidesOut(&'static [&'static str]),
    /// The robot recovers by itself: its controller is set up again, and it drives again.
    Recovers,
}

/// A latency from a cause to a motor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Where the loop starts: the button's edge or the inertial sensor's.
    pub from: From,
    /// Whether hackbench runs at the same time.
    pub loaded: bool,
    /// Whether the runtime has its real-time priorities; if not, the gate must catch that.
    pub urgent: bool,
    /// p99, virtual microseconds: the required value and the aim.
    pub gate_us: [u64; 2],
}

/// The start of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The stop button.
    Button,
    /// The inertial sensor's data-ready output.
    Imu,
}

/// A measurement of the kernel alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// Latency from a timer's due time to the wake-up of the thread that sleeps on it.
    Timer,
    /// Latency from an edge on one line to an edge on another, through a thread that does nothing else.
    Echo,
}

/// What a row does to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Starts it.
    Start,
    /// Stops its process (SIGSTOP), so that the watchdog kills it.
    Stop,
    /// Kills its process.
    Kill,
    /// Its board file is wrong.
    BadBoard,
    /// Its user may not open the bus.
    Refused,
    /// The motors' controller never answers: its switch is off.
    Silent,
    /// A process of the runtime's user attacks the guard.
    Hostile,
    /// Its bus hangs until the driver is rebound, which its user may not do.
    HungBus,
    /// One transfer hangs in the kernel, where no signal ends it, for longer than the watchdog waits.
    HungTransfer,
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
    fn the_documented_table_matches_the_rows() {
        let page = include_str!("../../docs/virtual-bench-rows.md");
        for line in table() {
            assert!(page.lines().any(|written| written == line), "run `hil-guest table`: {line}");
        }
    }
}
