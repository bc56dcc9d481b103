//! The whole robot on the simulator, in virtual time: it drives, it is safe, and it is deterministic;
//! whatever breaks, its motors stop.

use crate::long::or_in_full;
use ganglion::base::command::Source;
use ganglion::base::plan::{Board, Cause, MotionErrors};
use ganglion::base::time::{Clock, Instant, SimClock, Span};
use ganglion::deploy::board;
use ganglion::drive::trace::Record;
use ganglion::runtime::robot::{Options, Robot};
use ganglion::runtime::runner::{self, Ending};
use ganglion::sim::{Contacts, Fault, Plant, Report};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod behaviours; // other tables, other behaviours
mod backing; // backtracking, and turning away
mod corners; // seeing what the front corners would touch
mod dropout; // a short loss of a sensor neither misleads the field nor delays a reflex
mod goals; // goals do not override reflexes
mod gyroscope; // a robot whose wheels do not obey knows its heading
mod edge; // an edge that stopped the car is not forgotten
mod open; // no echo in open space is a valid reading, a dead sonar is a lost sensor
mod rehearsal; // boards of real robots drive here
mod outage; // after long holds, suspends or sensor losses the robot does not start by itself
mod signs; // what the tick reports about itself, and what a hanging cycle costs
mod short; // presses that end before the tick looks
mod stage; // the simulated robot step by step

fn shipped() -> Board {
    board::built_in("sim").expect("the sim board is built in").expect("and sound").board
}

/// The desk robot. In a short test run it has the smallest field, which takes a third of the time: a table
/// drives here, and the field moves no motor, as
/// `teach::without_a_correction_the_robot_follows_its_table_exactly` shows.
fn sim_board() -> Board {
    let mut board = shipped();
    board.field.shape.grid = or_in_full(8, board.field.shape.grid);
    board
}

/// The same without corner rangers, gyroscope and memory of obstacles. It steers exactly as told, so that it
/// meets what these tests put in its way.
fn sonar_board() -> Board {
    let mut board = board::built_in("sim-sonar").expect("it is built in").expect("and sound").board;
    board.field.shape.grid = or_in_full(8, board.field.shape.grid);
    board.sim.as_mut().expect("a simulated board").errors = MotionErrors::default();
    board
}

struct Run {
    ending: Ending,
    plant: Plant,
    report: Report,
    /// Every record, in order.
    records: Vec<Record>,
}

impl Run {
    fn tripped(&self, cause: Cause) -> u64 {
        self.ending.recorder.summary().trips[cause as usize]
    }
    /// The largest |drive command| among records for which `which` holds.
    fn hardest(&self, which: impl Fn(&Record) -> bool) -> f32 {
        let drives = |record: &Record| record.command.motors[0].abs().max(record.command.motors[1].abs());
        self.records.iter().filter(|record| which(record)).map(drives).fold(0.0, f32::max)
    }
}

fn options(seed: u64, faults: &[&str]) -> Options {
    let faults = faults.iter().map(|text| Fault::parse(text).expect("a fault of the script")).collect();
    Options { seed, faults, ..Options::default() }
}

fn run_board(board: &Board, seed: u64, seconds: u64, faults: &[&str]) -> Run {
    run_with(board, options(seed, faults), seconds)
}

fn run_with(board: &Board, options: Options, seconds: u64) -> Run {
    run_on(Arc::new(SimClock::new()), board, options, seconds)
}

fn run_on(clock: Arc<SimClock>, board: &Board, options: Options, seconds: u64) -> Run {
    let first = Instant::ZERO + board.period;
    let robot = Robot::build(board, clock.clone(), first, options).expect("the robot can be built");
    let plant = robot.plant.clone().expect("the sim board has a world");
    let until = first + Span::from_millis(1000 * seconds);
    let mut records = Vec::new();
    let ending = runner::step(robot, &clock, until, &AtomicBool::new(false), |recorder| {
        records.extend(recorder.summary().last.clone());
    });
    let report = plant.report(clock.now());
    Run { ending, plant, report, records }
}

fn run(seed: u64, seconds: u64, faults: &[&str]) -> Run {
    run_board(&sim_board(), seed, seconds, faults)
}

#[test]
fn each_seed_drives_5_m_and_hits_nothing_visible() {
    let mut beside = 0;
    for seed in 1..=or_in_full(4, 10) {
        let run = if seed == 1 { run_board(&shipped(), seed, 60, &[]) } else { run(seed, 60, &[]) };
        let Contacts { falls, backwards, head_on, .. } = run.report.contacts;
        assert_eq!((falls, backwards, head_on), (0, 0, 0), "seed {seed}: {:?}", run.report);
        assert!(run.report.distance_m > 5.0, "seed {seed}: only {} m", run.report.distance_m);
        beside += run.report.contacts.all();
    }
    // A corner of the car touches something outside the sonar's cone, in 3 of 40 rooms
    // (docs/measurements.md).
    assert!(beside <= 1, "{beside} contacts");
}

#[test]
fn the_digest_depends_on_the_seed_only() {
    let digest = |seed| run_board(&shipped(), seed, 8, &[]).ending.recorder.digest();
    let digests = [3, 3, 4].map(digest);
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[0], digests[2]);
}

#[test]
fn one_and_two_engine_threads_give_the_same_digest() {
    let mut board = shipped();
    let digests = [1, 2].map(|threads| {
        board.field.threads = threads;
        run_board(&board, 5, 4, &[]).ending.recorder.digest()
    });
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn run_and_skipped_slots_add_up_to_the_elapsed_time() {
    let run = run(1, 5, &[]);
    assert!(run.ending.identity_holds);
    let summary = run.ending.recorder.summary();
    assert_eq!(summary.slots_run, run.ending.tick.grid().slots_run());
    assert_eq!(summary.slots_skipped, 0, "virtual time is never late");
    // 500 slots of 10 ms, and the slots in which the stop is sent.
    assert_eq!(summary.slots_run, 511);
    assert!(run.ending.recorder.end_late.len() > 450, "commands are confirmed on the wire");
    assert_eq!(summary.allocations_per_slot(), Some(0.0));
}

#[test]
fn every_run_ends_with_stopped_motors() {
    let run = run(2, 3, &[]);
    assert!(run.plant.motors_still());
    assert!(run.hardest(|record| record.command.source != Source::Stop) > 0.1, "it drove before");
    assert!(run.records.last().is_some_and(|record| record.command.source == Source::Stop));
}

/// Each of these faults takes away something without which the robot may not drive, except that a low battery
/// need not stop it.
#[test]
fn lost_or_wrong_sensor_or_bus_stops_the_motors_with_its_cause() {
    let cases = [
        ("i2c-nack@3+60", Cause::BusLost),
        ("i2c-stuck@3+60", Cause::BusLost),
        ("sonar-silent@3+60", Cause::SensorLost),
        ("sonar-frozen@3+60", Cause::SensorLying),
        ("adc-frozen@3+60", Cause::SensorLying),
        ("tilt-nan@3+60", Cause::SensorLying),
        ("tilt-over@3+60", Cause::Tilt),
        ("estop@3+60", Cause::EStop),
        ("battery-low@3+60", Cause::Battery),
        ("field-hang@3+60", Cause::FieldMissing),
    ];
    for (fault, cause) in cases {
        let run = run(3, 16, &[fault]);
        assert!(
            run.tripped(cause) > 0,
            "{fault}: {cause:?} never tripped: {:?}",
            run.ending.recorder.summary().trips
        );
        assert_eq!(run.report.contacts.all(), 0, "{fault}: {:?}", run.report);
        if cause != Cause::Battery {
            let late = |record: &Record| record.index > 1400;
            assert!(run.hardest(late).abs() < f32::EPSILON, "{fault}: still driving after 14 s");
        }
    }
}

#[test]
fn no_single_fault_makes_the_robot_collide_or_fall() {
    let strikes = |name: &&str| Fault::parse(name).is_ok_and(|fault| fault.kind.gpu().is_none());
    for name in Fault::all().map(|(name, _)| name).filter(strikes) {
        for seed in 1..=or_in_full(1, 2) {
            let fault = format!("{name}@4");
            let run = run(seed, 15, &[&fault]);
            assert_eq!(run.report.contacts.all(), 0, "{fault}, seed {seed}: {:?}", run.report);
            assert!(run.ending.identity_holds);
        }
    }
}

#[test]
fn gpu_faults_are_reported_as_idle_without_a_gpu() {
    let names: Vec<&str> =
        Fault::all().map(|(name, _)| name).filter(|name| name.starts_with("gpu-")).collect();
    assert_eq!(names.len(), 6);
    let faults: Vec<String> = names.iter().map(|name| format!("{name}@1")).collect();
    let faults: Vec<&str> = faults.iter().map(String::as_str).collect();
    let (struck, spared) = (run(1, 4, &faults), run(1, 4, &[]));
    assert_eq!(struck.ending.recorder.digest(), spared.ending.recorder.digest());
    let clock = Arc::new(SimClock::new());
    let robot = Robot::build(&sim_board(), clock, Instant::ZERO, options(1, &faults))
        .expect("the robot can be built");
    let idle = names.iter().map(|name| (*name, "no GPU computes here"));
    assert_eq!(robot.idle_faults, idle.collect::<Vec<_>>());
}

#[test]
fn motors_stop_by_themselves_when_the_tick_dies() {
    // Once the robot has driven, the tick no longer runs; the bus thread continues, as if the tick's thread
    // hung.
    let board = sim_board();
    let clock = Arc::new(SimClock::new());
    let first = Instant::ZERO + board.period;
    let mut robot = Robot::build(&board, clock.clone(), first, options(1, &[])).unwrap();
    let plant = robot.plant.clone().unwrap();
    let mut stepper = ganglion::system::executor::Stepper::new(clock.clone());
    for started in robot.workers.drain(..) {
        stepper.add(started.worker, started.waker, Instant::ZERO);
    }
    let mut drove = 0;
    while drove < 100 {
        stepper.run_until(robot.tick.slot());
        robot.tick.run();
        while robot.records.pop().is_ok() {}
        drove += u32::from(!plant.motors_still());
        assert!(clock.now() < Instant::ZERO + Span::from_millis(10_000), "it never began to drive");
    }
    // One whole poll may be on the bus when the command expires, then two stop frames follow.
    let bus_time = Span::from_millis(3);
    stepper.run_until(clock.now() + board.safety.command_valid + bus_time);
    assert!(plant.motors_still(), "the last command outlived its validity");
}

#[test]
fn a_slow_engine_lowers_the_quality_level_and_recovers() {
    let run = run(1, 20, &["field-slow@4+4"]);
    let levels = run.ending.recorder.summary().slots_at_level;
    let in_worse: u64 = levels[1..].iter().sum();
    assert!(in_worse > 100, "never left level 0: {levels:?}");
    let last = run.records.last().unwrap();
    assert_eq!(last.quality.index(), 0, "did not return to a better level: {levels:?}");
    // A change of quality level causes no step of a motor command beyond the slew limit.
    let board = sim_board();
    for pair in run.records.windows(2) {
        for (motor, plan) in board.motors.iter().enumerate() {
            let step = (pair[1].command.motors[motor] - pair[0].command.motors[motor]).abs();
            let limit = plan.slew_per_s * board.period.as_secs_f64() as f32 * 1.001;
            let stopped = pair[1].command.motors[motor].abs() < pair[0].command.motors[motor].abs();
            assert!(step <= limit || stopped, "{} jumps by {step} at slot {}", plan.name, pair[1].index);
        }
    }
}

#[test]
fn a_slow_engine_explores_as_much_and_rarely_backs() {
    // A minute in each of many rooms must meet the target. In ten minutes the robot reverses for 5 to 27 % of
    // the time, 15 % on average over ten rooms, which is more than the target: docs/measurements.md.
    let minutes = or_in_full((3..=3, 60, 0.10), (1..=20, 60, 0.10));
    let long = or_in_full(None, Some((1..=6, 600, 0.20)));
    for (rooms, length, most_backwards) in std::iter::once(minutes).chain(long) {
        let count = rooms.clone().count() as f64;
        let (mut backwards, mut cells) = (0.0, [0.0; 2]);
        for room in rooms {
            let [slow, quick] = [&["field-slow@2+600"][..], &[]].map(|faults| run(room, length, faults));
            let levels = slow.ending.recorder.summary().slots_at_level;
            assert!(levels[5] > levels[..5].iter().sum::<u64>(), "the engine was not slow: {levels:?}");
            let (slow, quick) = (slow.report.coverage, quick.report.coverage);
            // How much the robot sees in a single minute is mostly chance.
            let seen = [slow, quick].map(|coverage| coverage.cells as f64);
            assert!(
                length == 60 || seen[0] >= 0.75 * seen[1],
                "room {room}: {slow:?} with a slow engine, {quick:?} without"
            );
            cells = [cells[0] + seen[0], cells[1] + seen[1]];
            backwards += slow.backward_share / count;
        }
        assert!(cells[0] >= 0.75 * cells[1], "{cells:?} in {length} s");
        assert!(backwards <= most_backwards, "{backwards} of {length} s");
    }
}

#[test]
fn a_panicking_engine_is_rebuilt_and_the_robot_drives_again() {
    let run = run(1, 12, &["field-panic@4+1"]);
    assert!(run.tripped(Cause::FieldMissing) + run.tripped(Cause::FieldLate) > 0);
    assert!(run.ending.tick.field_counters().unanswered > 0);
    assert!(run.hardest(|record| record.index > 900) > 0.05, "never drove again");
}

#[test]
fn final_state_says_whether_the_robot_would_drive_on() {
    assert!(run(1, 3, &[]).ending.tick.is_willing(), "it drove");
    let pressed = run(1, 3, &["estop@2+0.1"]);
    assert!(pressed.tripped(Cause::EStop) > 0 && !pressed.ending.tick.is_willing(), "it had latched");
    let mut board = sim_board();
    board.safety.auto_arm = false;
    assert!(!run_board(&board, 1, 2, &[]).ending.tick.is_willing(), "no caller had armed it");
    let clock = Arc::new(SimClock::new());
    let robot = Robot::build(&sim_board(), clock.clone(), Instant::ZERO, options(1, &[])).unwrap();
    let (requests, until) = (robot.requests.clone(), Instant::ZERO + Span::from_millis(2_000));
    let disarmed = runner::step(robot, &clock, until, &AtomicBool::new(false), |recorder| {
        let disarm = recorder.summary().slots_run == 20;
        requests.disarm.fetch_or(disarm, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(!disarmed.tick.is_willing(), "a caller had disarmed it");
}
