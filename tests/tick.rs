//! The tick on real threads: on any machine every slot of the grid is run or counted as skipped, the tick
//! allocates nothing, and the motors are stopped at the end. A strict board whose real-time requests are
//! refused does not move.

use ganglion::base::plan::{Board, Cause, RtPlan};
use ganglion::base::time::{Clock, Instant, MonotonicClock, Span};
use ganglion::deploy::board;
use ganglion::drive::io::HaltWatch;
use ganglion::runtime::robot::{Options, Robot};
use ganglion::runtime::runner::{self, Ending, RunnerError};
use ganglion::runtime::tick::Tick;
use ganglion::sim::{Fault, Plant};
use ganglion::system::executor::Threads;
use ganglion::system::rt::Role;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A plan without real-time requests, so that FIFO threads do not starve a busy test machine.
const MODEST: RtPlan = RtPlan { strict: false, priority: 0, cpu: None, lock_memory: false };

fn sim_board() -> Board {
    board::built_in("sim").unwrap().unwrap().board
}

fn run_real(board: &Board, length: Span, plan: RtPlan) -> (Result<Ending, RunnerError>, Plant) {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let options = Options { seed: 1, ..Options::default() };
    let mut robot = Robot::build(board, clock.clone(), Instant::ZERO, options).unwrap();
    let plant = robot.plant.clone().unwrap();
    let first = clock.now() + Span::from_millis(20);
    robot.tick.start_at(first);
    let never = Arc::new(AtomicBool::new(false));
    (runner::run(robot, &clock, first + length, &never, plan, |_| ()), plant)
}

#[test]
fn real_time_slot_counts_add_up_and_the_tick_never_allocates() {
    let board = sim_board();
    let length = Span::from_millis(2_500);
    let (ending, plant) = run_real(&board, length, MODEST);
    let ending = ending.unwrap();
    assert!(ending.identity_holds, "slots run and skipped do not add up to the time that passed");
    let grid = ending.tick.grid();
    let slots = ending.elapsed.as_nanos() / board.period.as_nanos();
    assert_eq!(grid.slots_run() + grid.slots_skipped(), slots);
    assert!(slots >= length.as_nanos() / board.period.as_nanos());
    let summary = ending.recorder.summary();
    assert_eq!(summary.slots_run, grid.slots_run(), "one record per slot");
    assert_eq!(summary.allocations, Some(0));
    assert!(summary.slots_counted_for_allocations > 50, "{}", summary.slots_counted_for_allocations);
    assert!(ending.recorder.release_late.len() == grid.slots_run());
    assert!(!ending.recorder.end_late.is_empty(), "no command was ever confirmed on the wire");
    assert!(ending.hung.is_empty(), "{:?}", ending.hung);
    assert!(plant.motors_still());
}

#[test]
fn a_strict_board_without_its_grants_does_not_move() {
    // No machine has a core with this number, so the request for it is refused everywhere.
    let plan = RtPlan { strict: true, cpu: Some(4_000), ..MODEST };
    let (ending, plant) = run_real(&sim_board(), Span::from_millis(500), plan);
    assert!(matches!(ending, Err(RunnerError::Refused { .. })));
    assert!(plant.motors_still());
    assert!(plant.report(MonotonicClock.now()).distance_m.abs() < 1e-9);
}

#[test]
fn an_interrupt_ends_a_run_early_with_stopped_motors() {
    let board = sim_board();
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let mut robot = Robot::build(&board, clock.clone(), Instant::ZERO, Options::default()).unwrap();
    let plant = robot.plant.clone().unwrap();
    let first = clock.now() + Span::from_millis(20);
    robot.tick.start_at(first);
    let interrupted = Arc::new(AtomicBool::new(false));
    let an_hour = first + Span::from_millis(3_600_000);
    let mut slots = 0;
    let ending = runner::run(robot, &clock, an_hour, &interrupted, MODEST, |recorder| {
        slots = recorder.summary().slots_run;
        interrupted.store(slots > 50, Ordering::Relaxed);
    });
    let ending = ending.unwrap();
    assert!(plant.motors_still());
    assert_eq!(ending.tick.mode().name(), "stopped");
}

/// The worst interleaving: whenever the buttons' thread has read the time, a whole tick of a later slot runs
/// before that thread continues.
struct Between(Mutex<Option<Tick>>);

impl Clock for Between {
    fn now(&self) -> Instant {
        let now = MonotonicClock.now();
        // A tick runs only when the buttons' thread reads the time, not when the tick itself does.
        if thread::current().name() == Some("lines")
            && let Ok(mut tick) = self.0.try_lock()
            && let Some(tick) = tick.as_mut()
        {
            let slot = now + Span::from_micros(1);
            tick.start_at(slot);
            MonotonicClock.sleep_until(slot);
            tick.run();
        }
        now
    }
    fn sleep_until(&self, at: Instant) {
        MonotonicClock.sleep_until(at);
    }
    fn is_real(&self) -> bool {
        true
    }
}

#[test]
fn no_command_older_than_its_reading_passes_a_halt() {
    let mut board = sim_board();
    board.field.start.clear(); // nothing should drive
    let between = Arc::new(Between(Mutex::new(None)));
    let clock: Arc<dyn Clock> = between.clone();
    let faults = vec![Fault::parse("estop@0.2+600").unwrap()];
    let options = Options { seed: 1, faults, ..Options::default() };
    let mut robot = Robot::build(&board, clock.clone(), Instant::ZERO, options).unwrap();
    let mut watch = HaltWatch::new(robot.halt.clone());
    let lines = robot.workers.iter().position(|started| started.worker.name() == "lines").unwrap();
    let started = robot.workers.remove(lines);
    *between.0.lock().unwrap() = Some(robot.tick);
    let mut threads = Threads::new();
    threads.start(started.worker, started.waker, clock, Role::Lines, MODEST).unwrap();
    let began = std::time::Instant::now();
    while !watch.is_raised() {
        assert!(began.elapsed() < Duration::from_secs(60), "the press was never received");
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(50)); // a few more slots
    threads.end(Duration::from_secs(60));
    between.0.lock().unwrap().take();
    let overtaken_to = watch.take().unwrap();
    let records = std::iter::from_fn(|| robot.records.pop().ok());
    let (mut passed, mut blind) = (0, 0);
    for record in records.filter(|record| record.command.slot > overtaken_to) {
        passed += 1;
        blind += u32::from(record.active & Cause::EStop.bit() == 0);
    }
    assert!(passed > 0, "no tick ran after the halt");
    assert_eq!(
        blind, 0,
        "{blind} of the {passed} commands that the halt let through were made without knowing of the press"
    );
}
