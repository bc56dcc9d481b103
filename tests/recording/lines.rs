//! What a recording costs the tick: no allocation, and checkpoints that fit their buffer.

use super::*;
use crate::allocation::allocations_in;
use ganglion::base::frame::MAX_SENSORS;
use ganglion::base::plan::{ComputedSensor, Scale, SensorKind, SensorPlan};
use ganglion::decision::reflex::MAX_RULES;
use ganglion::drive::trace::CHECKPOINT_EVERY;
use ganglion::runtime::tick::Tick;
use ganglion::system::checkpoint::ROOM;
use ganglion::system::executor::Stepper;

/// Drives `board` in virtual time with a recording; `run` runs each slot. Returns the recorded slots, and
/// the status of the recording at its end.
fn drive(board: &Board, seconds: u64, mut run: impl FnMut(&mut Tick)) -> (Vec<Step>, RecordingStatus) {
    let files = Files::default();
    let (recording, sender) =
        Recording::start(plan(board, When::Always, files.opener()), true).expect("a thread");
    let (clock, first) = (Arc::new(SimClock::new()), Instant::ZERO + board.period);
    let options = Options { seed: 1, recording: Some(sender), ..Options::default() };
    let Robot { mut tick, workers, mut records, recording: mut sender, .. } =
        Robot::build(board, clock.clone(), first, options).expect("it can be built");
    let mut stepper = Stepper::new(clock.clone());
    for started in workers {
        stepper.add(started.worker, started.waker, Instant::ZERO);
    }
    let until = first + Span::from_millis(1_000 * seconds);
    while tick.slot() < until {
        stepper.run_until(tick.slot());
        run(&mut tick);
        while let (Ok(record), Some(sender)) = (records.pop(), &mut sender) {
            sender.take(&record);
        }
    }
    stepper.finish();
    drop(sender);
    let status = recording.end(LONG);
    assert!(status.ended, "the robot still exists and could send a copy of its field; the file ends anyway");
    (files.steps(), status)
}

#[test]
fn a_slot_with_a_checkpoint_allocates_nothing() {
    let board = sim_board();
    let (mut slots, mut allocating) = (0_u64, Vec::new());
    let (steps, status) = drive(&board, 21, |tick| {
        if allocations_in(|| tick.run()) > 0 {
            allocating.push(slots);
        }
        slots += 1;
    });
    let taken = steps.iter().filter(|step| step.checkpoint.is_some()).count();
    let every = CHECKPOINT_EVERY.as_nanos() / board.period.as_nanos();
    assert_eq!((taken as u64, status.checkpoints_left_out), (slots.div_ceil(every), 0));
    assert_eq!(allocating, [0_u64; 0], "slots in which something was allocated");
}

/// The sim board with as many sensors and rules as a board may have.
fn largest() -> Board {
    let mut board = sim_board();
    for place in board.sensors.len()..MAX_SENSORS {
        let sonar = board.sensors.iter().position(|sensor| sensor.name == "range").expect("it has a sonar");
        board.sensors.push(SensorPlan {
            name: format!("least-{place}"),
            kind: SensorKind::Computed(ComputedSensor::Least { of: vec![sonar] }),
            required: false,
            input: None::<Scale>,
            ..board.sensors[sonar].clone()
        });
    }
    let rules = board.reflexes.clone();
    board.reflexes.extend(rules.into_iter().cycle().take(MAX_RULES - board.reflexes.len()));
    board
}

#[test]
fn the_largest_checkpoint_fits_its_room() {
    let board = largest();
    assert_eq!((board.sensors.len(), board.reflexes.len()), (MAX_SENSORS, MAX_RULES));
    let (mut most, mut slots) = (0, 0_u64);
    let (steps, status) = drive(&board, 60, |tick| {
        tick.run();
        slots += 1;
        if slots.is_multiple_of(100) {
            most = tick.remembered().expect("it fits").0.len().max(most);
        }
    });
    assert_eq!(status.checkpoints_left_out, 0);
    assert!(steps.iter().any(|step| step.slot.motors[0].abs() > 0.1), "it drives: its path is long");
    println!("{most} bytes at most");
    assert!(most > 5_000 && 3 * most <= ROOM, "{most} bytes; expected over 5,000, at most a third of {ROOM}");
}
