//! The table of the bench, one row per entry.

use super::{Course, End, Floor, From, Loop, Row, Service};
use crate::far::Echo;
use crate::limits::Limit;
use crate::scene::Who;
use crate::trouble::{IMU, MCU, Trouble};
use crate::wire::Fault;
use ganglion::base::time::Span;
use rustix::process::Signal;

/// Causes that the runtime reports if a bus is faulty.
const BUS: &[&str] = &["bus-lost", "sensor-lost", "sensor-lying"];
/// Causes that the runtime reports if a sensor is faulty.
const SENSOR: &[&str] = &["sensor-lost", "sensor-lying"];
/// Causes that the runtime reports if the inertial sensor is faulty.
const LEAN: &[&str] = &["sensor-lost", "sensor-lying", "tilt"];
/// Causes that must not be reported if there was no reason to stop.
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

/// Required p99 and aim, virtual microseconds: for the button on an idle machine, and for all other loops.
const BUTTON_US: [u64; 2] = [350, 200];
const IMU_US: [u64; 2] = [700, 520];

/// Inverts the highest bit of byte 0 of a read: the ADC, which has 12 bits, returns no such value.
const HIGH_BIT: i32 = 0x0080;
/// Inverts the highest bit of the acceleration in z, as if the car lay on its back.
const Z_TURNED: i32 = 0x0480;

const NO_RETRY: &str = "the first NACK is taken for a lost bus";
const SHIFTED: &str = "the transfer is only retried: the next frame is shifted and names the wrong register";
const HELD_VALUE: &str = "the last value is treated as new";
const NO_RESET: &str =
    "the motors' controller is not reset, or is reset through a line that no process drives";

/// The rows, in the order in which they run.
pub const ROWS: &[Row] = &[
    // ---- the longest row comes first: it occupies one guest while the others run the rest
    row(
        "soak",
        "ten minutes at 100 Hz: slots run and skipped add up, nothing drifts, nothing leaks",
        Course::Soak(600),
        "a relative sleep, a skipped slot that is not counted, a buffer that grows",
    ),
    // ---- the kernel's baselines, then closed loops
    row("floor-timer", "a timer wakes the thread that sleeps on it", Course::Floor(Floor::Timer), "no FIFO"),
    row("floor-echo", "an edge is answered by an edge", Course::Floor(Floor::Echo), "no FIFO"),
    row(
        "button-idle",
        "the stop button's edge stops the motors",
        closed(From::Button, false, true, BUTTON_US),
        "the stop waits for the tick's slot (10 ms)",
    ),
    row(
        "button-loaded",
        "the same on a loaded machine",
        closed(From::Button, true, true, IMU_US),
        "a lock or an allocation on the path",
    ),
    row(
        "imu-idle",
        "a sample with too much lean stops the motors",
        closed(From::Imu, false, true, IMU_US),
        "the sample waits for its period or for the tick",
    ),
    row(
        "imu-loaded",
        "the same on a loaded machine",
        closed(From::Imu, true, true, IMU_US),
        "a lock or an allocation on the path",
    ),
    row(
        "seeded-no-fifo",
        "the gate catches a runtime without real-time priorities",
        closed(From::Imu, true, false, IMU_US),
        "the gate is above the latency of ordinary threads on a loaded machine",
    ),
    row(
        "hil-verb",
        "`ganglion hil` measures the bench over its two wires",
        Course::Verb(100),
        "a stimulus gets no answer, or the JSON object on its last line cannot be parsed",
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
        "a controller that does not answer is reset, which ends its pulses",
        back(Trouble::Transfers(MCU, Fault::NackAddress, 0), 1500, Limit::Period, BUS),
        NO_RESET,
    ),
    row(
        "mcu-broken-frame",
        "a frame aborted after a byte does not shift the following frames",
        Course::Trouble(Trouble::Some(MCU, Fault::NackData, 1, 1), 1000, End::Recovers),
        SHIFTED,
    ),
    row(
        "mcu-stuck-recovers",
        "a bus that hangs for three transfers comes back",
        Course::Trouble(Trouble::Some(MCU, Fault::Stuck, 0, 3), 1000, End::Recovers),
        "a hung transfer is treated as final, or ignored",
    ),
    row(
        "mcu-stuck",
        "a bus that hangs for good leaves the motors without pulses",
        disarms(Trouble::Transfers(MCU, Fault::Stuck, 0), Limit::Period, BUS),
        NO_RESET,
    ),
    row(
        "mcu-arbitration-once",
        "a lost arbitration may have aborted a frame: the controller is reset",
        Course::Trouble(Trouble::Some(MCU, Fault::ArbitrationLost, 1, 1), 1000, End::Recovers),
        SHIFTED,
    ),
    row(
        "mcu-arbitration-storm",
        "a bus that another master never releases is lost",
        back(Trouble::Transfers(MCU, Fault::ArbitrationLost, 0), 1500, Limit::Period, BUS),
        "arbitration is retried without limit",
    ),
    row(
        "mcu-stretch",
        "a stretched clock only takes time",
        rides(Trouble::Transfers(MCU, Fault::StretchUs, 300)),
        "a slow transfer is taken for a hung one",
    ),
    row(
        "mcu-wrong-bits",
        "counts that the ADC cannot return are refused",
        back(Trouble::Transfers(MCU, Fault::Xor, HIGH_BIT), 1500, Limit::Stale("ground-left"), SENSOR),
        "counts are not checked against 12 bits",
    ),
    row(
        "mcu-all-ones",
        "a read of all ones means a dead wire",
        back(Trouble::Transfers(MCU, Fault::AllOnes, 0), 1500, Limit::Stale("ground-left"), SENSOR),
        "0xffff is taken for a bright floor",
    ),
    row(
        "mcu-frozen",
        "a frozen ADC is noticed",
        back(Trouble::Transfers(MCU, Fault::Freeze, 0), 2500, Limit::Frozen("ground-left"), SENSOR),
        HELD_VALUE,
    ),
    row(
        "mcu-unplugged",
        "a controller off the bus that keeps pulsing is stopped through another line, and comes back",
        back(Trouble::McuUnplugged, 2000, Limit::Period, BUS),
        NO_RESET,
    ),
    row(
        "mcu-brown-out",
        "a controller that lost its registers is set up again",
        Course::Trouble(Trouble::BrownOut, 1000, End::Recovers),
        "its registers are assumed to keep what was written",
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
        "only the sensor that does not answer ages",
        back(Trouble::Transfers(IMU, Fault::NackAddress, 0), 1500, Limit::Stale("roll"), SENSOR),
        HELD_VALUE,
    ),
    row(
        "imu-nack-data",
        "the robot stops if a sensor does not acknowledge a register number",
        back(Trouble::Transfers(IMU, Fault::NackData, 0), 1500, Limit::Stale("roll"), SENSOR),
        HELD_VALUE,
    ),
    row(
        "imu-stuck-recovers",
        "a bus that hangs for three transfers comes back",
        Course::Trouble(Trouble::Some(IMU, Fault::Stuck, 0, 3), 1000, End::Recovers),
        "a hung transfer is treated as final, or ignored",
    ),
    row(
        "imu-stuck",
        "the robot stops if a sensor hangs the bus whenever it is read",
        back(Trouble::Transfers(IMU, Fault::Stuck, 0), 3000, Limit::Stale("roll"), BUS),
        HELD_VALUE,
    ),
    row(
        "imu-arbitration-storm",
        "the robot stops if another master always wins the arbitration at one address",
        back(Trouble::Transfers(IMU, Fault::ArbitrationLost, 0), 1500, Limit::Stale("roll"), SENSOR),
        "arbitration is retried without limit",
    ),
    row(
        "imu-stretch",
        "a stretched clock only takes time",
        rides(Trouble::Transfers(IMU, Fault::StretchUs, 300)),
        "a slow transfer is taken for a hung one",
    ),
    row(
        "imu-wrong-bits",
        "a sample with an inverted bit is refused, or trips the tilt rule",
        back(Trouble::Transfers(IMU, Fault::Xor, Z_TURNED), 1500, Limit::Stale("roll"), LEAN),
        "a lean of 180 degrees is taken for level",
    ),
    row(
        "imu-all-ones",
        "a read of all ones means a dead wire",
        back(Trouble::Transfers(IMU, Fault::AllOnes, 0), 1500, Limit::Stale("roll"), LEAN),
        "0xffff is accepted as level",
    ),
    row(
        "imu-frozen",
        "a sample that never changes is noticed",
        back(Trouble::Transfers(IMU, Fault::Freeze, 0), 3000, Limit::Frozen("roll"), SENSOR),
        HELD_VALUE,
    ),
    row(
        "imu-unplugged",
        "a sensor that comes back asleep is woken before its values count",
        back(Trouble::ImuUnplugged, 1500, Limit::Stale("roll"), SENSOR),
        "a sensor that has forgotten its registers is only polled again",
    ),
    // ---- the bus itself
    row(
        "bus-sda-low",
        "a device that holds SDA low releases it after nine clock pulses",
        Course::Trouble(Trouble::SdaLow, 4000, End::Recovers),
        "no clock pulses, or on the wrong line",
    ),
    row(
        "bus-nack-storm",
        "the robot stops if no device answers",
        back(Trouble::Bus(Fault::NackAddress, 0), 1500, Limit::Period, BUS),
        NO_RESET,
    ),
    row(
        "bus-stuck",
        "the motors are stopped if every transfer hangs",
        disarms(Trouble::Bus(Fault::Stuck, 0), Limit::Period, BUS),
        NO_RESET,
    ),
    row(
        "bus-hangs",
        "an adapter that ignores its timeout: the motors' line is off before the transfer returns",
        disarms(Trouble::Bus(Fault::Stuck, 160), Limit::Ms(0), BUS),
        "the line waits for the transfer",
    ),
    row(
        "bus-wedged",
        "the motors are stopped if only a rebind of the driver can free the adapter",
        disarms(Trouble::Bus(Fault::Rebind, 0), Limit::Period, BUS),
        NO_RESET,
    ),
    // ---- lines
    row(
        "echo-lost",
        "a missing echo does not mean free space",
        back(Trouble::Echo(Echo::Lost), 1500, Limit::Stale("range"), SENSOR),
        "silence is taken for free space",
    ),
    row(
        "echo-short",
        "an echo shorter than the module can produce is refused",
        back(Trouble::Echo(Echo::Short), 1500, Limit::Stale("range"), SENSOR),
        "9 mm is taken for a distance",
    ),
    row(
        "echo-late",
        "an echo that begins late does not belong to this ping",
        back(Trouble::Echo(Echo::Late), 1500, Limit::Stale("range"), SENSOR),
        "an edge of another ping is taken for this one's",
    ),
    row(
        "echo-double",
        "a doubled pulse does not give a longer distance",
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
        "the level is never checked",
    ),
    row(
        "echo-none",
        "nothing within range means free space",
        rides(Trouble::Echo(Echo::Open(38))),
        "a ping without an echo is taken for a lost sensor",
    ),
    row(
        "echo-none-long",
        "the same with a module that holds its line for 200 ms and ignores triggers meanwhile",
        rides(Trouble::Echo(Echo::Open(200))),
        "three pings find the line busy, and the age limit passes",
    ),
    row(
        "button-pressed",
        "the stop button stops the robot, and releasing it starts nothing",
        Course::Trouble(Trouble::Press, 500, End::Stands(Limit::Ms(1), &["e-stop"])),
        "the reflex is not latched",
    ),
    row(
        "button-bounces",
        "ten presses within a millisecond count as one press",
        Course::Trouble(Trouble::Chatter, 500, End::Stands(Limit::Ms(2), &["e-stop"])),
        "a release between the presses is obeyed",
    ),
    row(
        "lean",
        "a car that leans over stays stopped until it is upright",
        back(Trouble::Lean(45), 1000, Limit::Stale("roll"), &["tilt"]),
        "no reflex reacts to the lean",
    ),
    // ---- processes
    row(
        "runtime-killed",
        "motors stop after kill -9 of the runtime, every time",
        Course::Kills(20, Limit::Ms(100)),
        "the guard waits for its timeout although the connection is closed",
    ),
    row(
        "runtime-stopped",
        "motors stop while the runtime is stopped",
        Course::Trouble(
            Trouble::Signal(Who::Runtime, Signal::STOP),
            1000,
            End::StandsThenDrives(Limit::GuardTimeout, &[]),
        ),
        "the guard requires only a connection, no heartbeat",
    ),
    row(
        "tick-starved",
        "motors stop while the tick gets no CPU time but the bus thread does",
        Course::Trouble(
            Trouble::Hog(82, Span::from_millis(600)),
            400,
            End::StandsThenDrives(Limit::CommandValid, &[]),
        ),
        "commands on the wire do not expire, and heartbeats come without a tick",
    ),
    row(
        "guard-killed",
        "the enable line floats when its owner dies, and the runtime reports it",
        back(Trouble::GuardDies(false), 1000, Limit::Ms(20), &["guard-lost"]),
        "the runtime holds the line itself, or drives on without a guard",
    ),
    row(
        "guard-killed-kept",
        "the enable line stays on after its owner's death, as on a Pi, and the runtime stops the motors",
        back(Trouble::GuardDies(true), 1000, Limit::GuardTimeout, &["guard-lost"]),
        "only a floating line stops the motors",
    ),
    row(
        "guard-stopped",
        "the runtime stops the motors while the guard is stopped",
        back(Trouble::Signal(Who::Guard, Signal::STOP), 1000, Limit::GuardTimeout, &["guard-lost"]),
        "the runtime does not require answers to its heartbeats",
    ),
    // ---- the guard holds the controller's reset, as the flagship's does
    row(
        "reset-runtime-killed",
        "the controller is in reset after kill -9 of the runtime",
        Course::Reset(Trouble::Signal(Who::Runtime, Signal::KILL), 1000, End::Disarms(Limit::Ms(100), &[])),
        "the guard waits for its timeout, or releases the line to another runtime unasked",
    ),
    row(
        "reset-runtime-stopped",
        "the controller is in reset while the runtime is stopped, and set up again afterwards",
        Course::Reset(
            Trouble::Signal(Who::Runtime, Signal::STOP),
            1000,
            End::StandsThenDrives(Limit::GuardTimeout, &[]),
        ),
        "the guard requires only a connection, or the registers are assumed to keep what was written",
    ),
    row(
        "reset-guard-killed",
        "a reset line that stays high after its owner's death leaves the motors to the runtime",
        Course::Reset(
            Trouble::GuardDies(true),
            1000,
            End::StandsThenDrives(Limit::GuardTimeout, &["guard-lost"]),
        ),
        "the runtime drives on without a guard",
    ),
    row(
        "reset-left-low",
        "commands that inspect a robot with a stopped guard see its controller, and leave it in reset",
        Course::LeftInReset,
        "the commands do not release the line that a stopped guard left low, and see an empty bus",
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
        "a killed process leaves the motors stopped and is started again",
        Course::Service(Service::Kill),
        "no safe-stop after the kill, no restart, or a restart that arms by itself",
    ),
    row(
        "service-bad-board",
        "with a wrong board file the runtime exits with 78 and is not restarted",
        Course::Service(Service::BadBoard),
        "the runtime is started again and again",
    ),
    row(
        "service-refused",
        "a runtime that lacks a permission reports which one, and does not drive",
        Course::Service(Service::Refused),
        "the runtime runs as root",
    ),
    row(
        "service-silent",
        "a runtime whose controller never answers logs likely reasons and exits with 69; systemd gives up",
        Course::Service(Service::Silent),
        "the runtime waits for ever silently, or is restarted for ever",
    ),
    row(
        "service-hostile",
        "the runtime's user can neither end the guard nor replace its socket",
        Course::Service(Service::Hostile),
        "guard and runtime run as one user, or share a directory",
    ),
    row(
        "service-wedged",
        "a bus that only a rebind of its driver can free is freed for a runtime that is not root",
        Course::Service(Service::HungBus),
        "no process may perform the configured recovery step, or the runtime's user can write to the driver",
    ),
    row(
        "service-hung",
        "a transfer that no signal ends leaves the motors stopped, and the watchdog restarts the runtime",
        Course::Service(Service::HungTransfer),
        "the watchdog is fed although the bus thread hangs, or the restarted runtime arms by itself",
    ),
];
