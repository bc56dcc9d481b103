//! The table of the bench: a row a line, what it shows, what happens, how it must end and within what time,
//! and the seeded error that would make it fail. The table in docs/virtual-bench-rows.md is printed from this
//! one.

use super::far::Echo;
use super::limits::Limit;
use super::scene::Who;
use super::trouble::{IMU, MCU, Trouble};
use super::wire::Fault;
use ganglion::time::Span;
use rustix::process::Signal;

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
    /// Something is done to a driving robot for so many milliseconds, and has an end.
    Trouble(Trouble, u64, End),
    /// The runtime is killed so many times while it drives; each time the motors stand within the limit.
    Kills(usize, Limit),
    /// Cause to motor, many times.
    Loop(Loop),
    /// What the kernel alone takes.
    Floor(Floor),
    /// The service as it is installed.
    Service(Service),
    /// The verb that measures a robot over two wires, so many passes.
    Verb(u32),
    /// So many seconds of driving.
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

/// What is done to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// It is started.
    Start,
    /// Its process is stopped, and the watchdog kills it.
    Stop,
    /// Its process is killed.
    Kill,
    /// Its board file is wrong.
    BadBoard,
    /// Its user may not open the bus.
    Refused,
    /// Its user means its guard harm.
    Hostile,
}

/// Causes that a bus brings about.
const BUS: &[&str] = &["bus-lost", "sensor-lost", "sensor-lying"];
/// Causes that a sensor brings about.
const SENSOR: &[&str] = &["sensor-lost", "sensor-lying"];
/// The same, and what a wrong lean looks like.
const LEAN: &[&str] = &["sensor-lost", "sensor-lying", "tilt"];
/// What must not be reported where there was no reason to stop.
const NONE_OF: &[&str] =
    &["bus-lost", "sensor-lost", "sensor-lying", "tilt", "cliff", "e-stop", "loop-late", "guard-lost"];

const fn row(name: &'static str, shows: &'static str, course: Course, fails_if: &'static str) -> Row {
    Row { name, shows, course, fails_if }
}

const fn back(trouble: Trouble, ms: u64, limit: Limit, causes: &'static [&'static str]) -> Course {
    Course::Trouble(trouble, ms, End::StandsThenDrives(limit, causes))
}

const fn disarms(trouble: Trouble, limit: Limit, causes: &'static [&'static str]) -> Course {
    Course::Trouble(trouble, 6000, End::Disarms(limit, causes))
}

const fn rides(trouble: Trouble) -> Course {
    Course::Trouble(trouble, 1000, End::RidesOut(NONE_OF))
}

const fn closed(from: From, loaded: bool, urgent: bool, gate_us: [u64; 2]) -> Course {
    Course::Loop(Loop { from, loaded, urgent, gate_us })
}

/// At least and aim, p99 (issue: button to motor idle, sensor to motor under load).
const BUTTON_US: [u64; 2] = [350, 200];
const IMU_US: [u64; 2] = [700, 520];

/// Byte 0 of a read with its highest bit turned over: no converter gives it.
const HIGH_BIT: i32 = 0x0080;
/// The highest bit of z: the car would lie on its back.
const Z_TURNED: i32 = 0x0480;

const NO_RETRY: &str = "the first NACK is taken for a lost bus";
const SHIFTED: &str = "the transfer is only retried: the next frame is shifted and names the wrong register";
const HELD_VALUE: &str = "the last value is passed off as new";
const NO_RESET: &str = "the motors' controller is not reset, or by a line that nobody drives";

/// The rows, in the order in which they run.
pub const ROWS: &[Row] = &[
    // ---- for long; first, because the guest that takes it is busy with it while the others do the rest
    row(
        "soak",
        "ten minutes at 100 Hz: the grid adds up, nothing drifts, nothing leaks",
        Course::Soak(600),
        "a relative sleep, a skipped slot without a count, a buffer that grows",
    ),
    // ---- what the kernel alone takes, then closed loops
    row("floor-timer", "a timer wakes its sleeper", Course::Floor(Floor::Timer), "no FIFO"),
    row("floor-echo", "an edge is answered by an edge", Course::Floor(Floor::Echo), "no FIFO"),
    row(
        "button-idle",
        "the stop button's edge stops the motors",
        closed(From::Button, false, true, BUTTON_US),
        "the stop waits for the tick's slot (10 ms)",
    ),
    row(
        "button-loaded",
        "the same with a loaded machine",
        closed(From::Button, true, true, IMU_US),
        "a lock or an allocation on the way",
    ),
    row(
        "imu-idle",
        "a sample that leans too far stops the motors",
        closed(From::Imu, false, true, IMU_US),
        "the sample waits for its period or for the tick",
    ),
    row(
        "imu-loaded",
        "the same with a loaded machine",
        closed(From::Imu, true, true, IMU_US),
        "a lock or an allocation on the way",
    ),
    row(
        "seeded-no-fifo",
        "the gate catches a runtime without real-time priorities",
        closed(From::Imu, true, false, IMU_US),
        "the gate lies above what a loaded machine does to ordinary threads",
    ),
    row(
        "hil-verb",
        "`ganglion hil` measures the bench over its two wires",
        Course::Verb(100),
        "a stimulus stays without answer, or the object on its last line cannot be read",
    ),
    // ---- the motors' controller
    row(
        "mcu-nack-once",
        "one NACK is retried",
        rides(Trouble::Some(MCU, Fault::NackAddress, 0, 1)),
        NO_RETRY,
    ),
    row(
        "mcu-nack-storm",
        "a controller that does not answer is reset: its pulses go",
        back(Trouble::Transfers(MCU, Fault::NackAddress, 0), 1500, Limit::Period, BUS),
        NO_RESET,
    ),
    row(
        "mcu-broken-frame",
        "a frame broken off after a byte shifts none that follow",
        Course::Trouble(Trouble::Some(MCU, Fault::NackData, 1, 1), 1000, End::Recovers),
        SHIFTED,
    ),
    row(
        "mcu-stuck-recovers",
        "a bus that hangs for three transfers comes back",
        Course::Trouble(Trouble::Some(MCU, Fault::Stuck, 0, 3), 1000, End::Recovers),
        "a hung transfer is taken for the end, or for nothing",
    ),
    row(
        "mcu-stuck",
        "a bus that hangs for good ends in motors without pulses",
        disarms(Trouble::Transfers(MCU, Fault::Stuck, 0), Limit::Period, BUS),
        NO_RESET,
    ),
    row(
        "mcu-arbitration-once",
        "a lost arbitration may have broken a frame off: the controller begins anew",
        Course::Trouble(Trouble::Some(MCU, Fault::ArbitrationLost, 1, 1), 1000, End::Recovers),
        SHIFTED,
    ),
    row(
        "mcu-arbitration-storm",
        "another master for ever is a lost bus",
        back(Trouble::Transfers(MCU, Fault::ArbitrationLost, 0), 1500, Limit::Period, BUS),
        "arbitration is retried without an end",
    ),
    row(
        "mcu-stretch",
        "a stretched clock only takes time",
        rides(Trouble::Transfers(MCU, Fault::StretchUs, 300)),
        "a slow transfer is taken for a hung one",
    ),
    row(
        "mcu-wrong-bits",
        "counts that no converter gives are refused",
        back(Trouble::Transfers(MCU, Fault::Xor, HIGH_BIT), 1500, Limit::Stale("ground-left"), SENSOR),
        "counts are not checked against 12 bits",
    ),
    row(
        "mcu-all-ones",
        "ones only are a dead wire",
        back(Trouble::Transfers(MCU, Fault::AllOnes, 0), 1500, Limit::Stale("ground-left"), SENSOR),
        "0xffff is taken for a bright floor",
    ),
    row(
        "mcu-frozen",
        "a converter that stands still is noticed",
        back(Trouble::Transfers(MCU, Fault::Freeze, 0), 2500, Limit::Frozen("ground-left"), SENSOR),
        HELD_VALUE,
    ),
    row(
        "mcu-unplugged",
        "off the bus with its pulses going on: cut by another wire, and back",
        back(Trouble::McuUnplugged, 2000, Limit::Period, BUS),
        NO_RESET,
    ),
    row(
        "mcu-brown-out",
        "a controller that lost its registers is set up anew",
        Course::Trouble(Trouble::BrownOut, 1000, End::Recovers),
        "its registers are believed to hold what was written once",
    ),
    // ---- the inertial sensor, on the same bus
    row(
        "imu-nack-once",
        "one NACK is retried",
        rides(Trouble::Some(IMU, Fault::NackAddress, 0, 1)),
        NO_RETRY,
    ),
    row(
        "imu-nack-storm",
        "a sensor that does not answer ages, and only it",
        back(Trouble::Transfers(IMU, Fault::NackAddress, 0), 1500, Limit::Stale("roll"), SENSOR),
        HELD_VALUE,
    ),
    row(
        "imu-nack-data",
        "a register number that is not taken",
        back(Trouble::Transfers(IMU, Fault::NackData, 0), 1500, Limit::Stale("roll"), SENSOR),
        HELD_VALUE,
    ),
    row(
        "imu-stuck-recovers",
        "a bus that hangs for three transfers comes back",
        Course::Trouble(Trouble::Some(IMU, Fault::Stuck, 0, 3), 1000, End::Recovers),
        "a hung transfer is taken for the end, or for nothing",
    ),
    row(
        "imu-stuck",
        "a sensor that holds the bus whenever it is asked",
        back(Trouble::Transfers(IMU, Fault::Stuck, 0), 3000, Limit::Stale("roll"), BUS),
        HELD_VALUE,
    ),
    row(
        "imu-arbitration-storm",
        "another master for ever, at one address",
        back(Trouble::Transfers(IMU, Fault::ArbitrationLost, 0), 1500, Limit::Stale("roll"), SENSOR),
        "arbitration is retried without an end",
    ),
    row(
        "imu-stretch",
        "a stretched clock only takes time",
        rides(Trouble::Transfers(IMU, Fault::StretchUs, 300)),
        "a slow transfer is taken for a hung one",
    ),
    row(
        "imu-wrong-bits",
        "a sample with a bit turned over is refused, or is a lean",
        back(Trouble::Transfers(IMU, Fault::Xor, Z_TURNED), 1500, Limit::Stale("roll"), LEAN),
        "a lean of 180 degrees is taken for level",
    ),
    row(
        "imu-all-ones",
        "ones only are a dead wire",
        back(Trouble::Transfers(IMU, Fault::AllOnes, 0), 1500, Limit::Stale("roll"), LEAN),
        "0xffff is taken for level",
    ),
    row(
        "imu-frozen",
        "a sample that never changes is noticed",
        back(Trouble::Transfers(IMU, Fault::Freeze, 0), 3000, Limit::Frozen("roll"), SENSOR),
        HELD_VALUE,
    ),
    row(
        "imu-unplugged",
        "gone and back asleep: woken before it is believed",
        back(Trouble::ImuUnplugged, 1500, Limit::Stale("roll"), SENSOR),
        "a sensor that has forgotten its registers is only polled again",
    ),
    // ---- the bus itself
    row(
        "bus-sda-low",
        "a slave that holds SDA lets go after nine clocks",
        Course::Trouble(Trouble::SdaLow, 4000, End::Recovers),
        "no clocks, or on the wrong lines",
    ),
    row(
        "bus-nack-storm",
        "nobody answers",
        back(Trouble::Bus(Fault::NackAddress, 0), 1500, Limit::Period, BUS),
        NO_RESET,
    ),
    row(
        "bus-stuck",
        "every transfer hangs",
        disarms(Trouble::Bus(Fault::Stuck, 0), Limit::Period, BUS),
        NO_RESET,
    ),
    row(
        "bus-wedged",
        "an adapter that only its driver can free",
        disarms(Trouble::Bus(Fault::Rebind, 0), Limit::Period, BUS),
        NO_RESET,
    ),
    // ---- lines
    row(
        "echo-lost",
        "no echo is no free way",
        back(Trouble::Echo(Echo::Lost), 1500, Limit::Stale("range"), SENSOR),
        "silence is taken for nothing within range",
    ),
    row(
        "echo-short",
        "an echo shorter than the module can make is refused",
        back(Trouble::Echo(Echo::Short), 1500, Limit::Stale("range"), SENSOR),
        "9 mm is taken for a distance",
    ),
    row(
        "echo-late",
        "an echo that begins late is not this ping's",
        back(Trouble::Echo(Echo::Late), 1500, Limit::Stale("range"), SENSOR),
        "an edge of another ping is taken for this one's",
    ),
    row(
        "echo-double",
        "a pulse that comes twice gives no longer way",
        Course::Trouble(
            Trouble::Echo(Echo::Double),
            1500,
            End::BacksOff(Limit::Stale("range"), &["obstacle", "sensor-lost", "sensor-lying"]),
        ),
        "the first rise and the last fall are paired",
    ),
    row(
        "echo-held",
        "an echo line that stays high is a broken wire",
        back(Trouble::Echo(Echo::Held), 1500, Limit::Stale("range"), SENSOR),
        "the level is never looked at",
    ),
    row(
        "button-pressed",
        "the stop button stops, and letting go of it starts nothing",
        Course::Trouble(Trouble::Press, 500, End::Stands(Limit::Ms(1), &["e-stop"])),
        "the reflex is not latched",
    ),
    row(
        "button-bounces",
        "ten presses within a millisecond are a press",
        Course::Trouble(Trouble::Chatter, 500, End::Stands(Limit::Ms(2), &["e-stop"])),
        "a release among them is obeyed",
    ),
    row(
        "lean",
        "a car that leans over stands until it stands upright",
        back(Trouble::Lean(45), 1000, Limit::Stale("roll"), &["tilt"]),
        "the lean has no reflex",
    ),
    // ---- processes
    row(
        "runtime-killed",
        "motors stand after kill -9 of the runtime, every time",
        Course::Kills(20, Limit::Ms(100)),
        "the guard waits for its patience although the connection is closed",
    ),
    row(
        "runtime-stopped",
        "motors stand while the runtime is stopped",
        Course::Trouble(
            Trouble::Signal(Who::Runtime, Signal::STOP),
            1000,
            End::StandsThenDrives(Limit::Patience, &[]),
        ),
        "the guard wants a connection only, no heartbeat",
    ),
    row(
        "tick-starved",
        "motors stand while the tick gets no processor and the bus does",
        Course::Trouble(
            Trouble::Hog(82, Span::from_millis(600)),
            400,
            End::StandsThenDrives(Limit::CommandValid, &[]),
        ),
        "commands on the wire do not expire, and heartbeats come without a tick",
    ),
    row(
        "guard-killed",
        "the enable line floats with its owner's death, and the runtime says so",
        back(Trouble::Signal(Who::Guard, Signal::KILL), 1000, Limit::Ms(20), &["guard-lost"]),
        "the runtime holds the line itself, or drives on without a guard",
    ),
    row(
        "guard-stopped",
        "the runtime stands while the guard is stopped",
        back(Trouble::Signal(Who::Guard, Signal::STOP), 1000, Limit::Patience, &["guard-lost"]),
        "the runtime does not want an answer to its heartbeats",
    ),
    // ---- the service
    row(
        "service-start",
        "ready after self-test and warm-up",
        Course::Service(Service::Start),
        "ready at once",
    ),
    row(
        "service-stopped",
        "a stopped process is killed by the watchdog and started again",
        Course::Service(Service::Stop),
        "the watchdog is fed by a thread that knows nothing of the tick",
    ),
    row(
        "service-killed",
        "a killed process leaves still motors and is started again",
        Course::Service(Service::Kill),
        "no safe-stop after it, no restart, or one that arms by itself",
    ),
    row(
        "service-bad-board",
        "a wrong board file ends it once, with 78",
        Course::Service(Service::BadBoard),
        "it is started again and again",
    ),
    row(
        "service-refused",
        "without a permission it says which, and does not drive",
        Course::Service(Service::Refused),
        "it runs as root",
    ),
    row(
        "service-hostile",
        "the runtime's user can neither end the guard nor take its socket's place",
        Course::Service(Service::Hostile),
        "guard and runtime are one user, or share a directory",
    ),
];

/// The table as it stands in the documentation.
pub fn table() -> Vec<String> {
    let mut lines =
        vec!["| row | shows | course and end | fails if |".to_string(), "|---|---|---|---|".to_string()];
    let line =
        |row: &Row| format!("| `{}` | {} | {} | {} |", row.name, row.shows, row.course.words(), row.fails_if);
    lines.extend(ROWS.iter().map(line));
    lines
}

impl Course {
    /// For the table.
    fn words(self) -> String {
        match self {
            Course::Trouble(trouble, ms, end) => {
                format!("{}; {ms} ms: {}", trouble.words(), end.words())
            }
            Course::Kills(times, limit) => format!("{times} times: still within {}", limit.words()),
            Course::Loop(Loop { loaded, urgent, gate_us: [least, aim], .. }) => {
                let with = if loaded { "with hackbench" } else { "idle" };
                match urgent {
                    true => format!("200 times, {with}: p99 at most {least} us, aim {aim} us"),
                    false => format!("200 times, {with}, no FIFO: p99 above {least} us is found"),
                }
            }
            Course::Floor(_) => "printed beside the loops, no gate but +10 % of the record".into(),
            Course::Verb(samples) => {
                format!("lines 20 to 21, the left motor to 22, {samples} times: its own verdict, 10 ms")
            }
            Course::Service(service) => service.words().into(),
            Course::Soak(seconds) => {
                format!("{seconds} s: skipped at most 0.1 %, drift at most 0.5 ms, 256 kB")
            }
        }
    }
}

impl Service {
    fn words(self) -> &'static str {
        match self {
            Service::Start => "ready, drives, is not root; told to stop: still within 500 ms",
            Service::Stop => {
                "SIGSTOP: still within the guard's patience + 20 ms, one restart, stands until armed, drives again"
            }
            Service::Kill => "SIGKILL: still within 100 ms, one restart, stands until armed, drives again",
            Service::BadBoard => "exit 78, no restart, no motion",
            Service::Refused => "bus closed to its group: exit 77, no restart, no motion",
            Service::Hostile => {
                "signals, rm, mv, ln and a second guard by its user: all refused, and the robot drives on; by the guard's own user they work"
            }
        }
    }
}

impl End {
    fn words(self) -> String {
        match self {
            End::StandsThenDrives(limit, _) => format!("still within {}, then drives again", limit.words()),
            End::BacksOff(limit, _) => {
                format!("no way ahead within {}, then drives again", limit.words())
            }
            End::Disarms(limit, _) => {
                format!("still within {}, stands until armed, then drives again", limit.words())
            }
            End::Stands(limit, _) => format!("still within {}, and stays so", limit.words()),
            End::RidesOut(_) => "drives on, no reflex".into(),
            End::Recovers => "drives again within 8 s".into(),
        }
    }
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
