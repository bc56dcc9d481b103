//! The real-time spine on real threads: the grid's identity on whatever machine this is, no
//! allocation in the tick, motors still at the end; and what a strict board does when refused.

use ganglion::board;
use ganglion::board::plan::Board;
use ganglion::drive::{self, DriveError, Ending};
use ganglion::learn::imitate;
use ganglion::robot::{Options, Robot};
use ganglion::rt::RtPlan;
use ganglion::sim::Plant;
use ganglion::time::{Clock, Instant, MonotonicClock, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A plan that asks for nothing, so that a busy test machine is not starved by FIFO threads.
const MODEST: RtPlan = RtPlan { strict: false, priority: 0, cpu: None, lock_memory: false };

fn sim_board() -> Board {
    board::built_in("sim").unwrap().unwrap().board
}

fn run_real(board: &Board, length: Span, plan: RtPlan) -> (Result<Ending, DriveError>, Plant) {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let options = Options { seed: 1, readout: Some(imitate(board)), ..Options::default() };
    let mut robot = Robot::build(board, clock.clone(), Instant::ZERO, options).unwrap();
    let plant = robot.plant.clone().unwrap();
    let first = clock.now() + Span::from_millis(20);
    robot.tick.start_at(first);
    let never = Arc::new(AtomicBool::new(false));
    (drive::run(robot, &clock, first + length, &never, plan, |_| ()), plant)
}

#[test]
fn in_real_time_slots_add_up_the_tick_allocates_nothing_and_motors_end_still() {
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
    assert_eq!(summary.slots_run, grid.slots_run(), "a record a slot");
    assert_eq!(summary.allocations, Some(0));
    assert!(summary.slots_counted_for_allocations > 50, "{}", summary.slots_counted_for_allocations);
    assert!(ending.recorder.release_late.len() == grid.slots_run());
    assert!(!ending.recorder.end_late.is_empty(), "no command was ever confirmed on the wire");
    assert!(ending.hung.is_empty(), "{:?}", ending.hung);
    assert!(plant.motors_still());
}

#[test]
fn a_strict_board_that_is_refused_does_not_move() {
    // No machine has a core of this number, so the wish for it is refused everywhere.
    let plan = RtPlan { strict: true, cpu: Some(4_000), ..MODEST };
    let (ending, plant) = run_real(&sim_board(), Span::from_millis(500), plan);
    assert!(matches!(ending, Err(DriveError::Refused { .. })));
    assert!(plant.motors_still());
    assert!(plant.report(MonotonicClock.now()).distance_m.abs() < 1e-9);
}

#[test]
fn an_interrupt_ends_a_run_early_with_motors_still() {
    let board = sim_board();
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let mut robot = Robot::build(&board, clock.clone(), Instant::ZERO, Options::default()).unwrap();
    let plant = robot.plant.clone().unwrap();
    let first = clock.now() + Span::from_millis(20);
    robot.tick.start_at(first);
    let interrupted = Arc::new(AtomicBool::new(false));
    let an_hour = first + Span::from_millis(3_600_000);
    let mut slots = 0;
    let ending = drive::run(robot, &clock, an_hour, &interrupted, MODEST, |recorder| {
        slots = recorder.summary().slots_run;
        interrupted.store(slots > 50, Ordering::Relaxed);
    });
    let ending = ending.unwrap();
    assert!(plant.motors_still());
    assert_eq!(ending.tick.mode().name(), "stopped");
}
