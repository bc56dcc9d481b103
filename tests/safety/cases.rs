//! What stops a driving robot, case by case, on the real tick: in which slot, for how long, and what starts
//! it again.

use super::rig::Robot;
use super::{CHANNELS, RECEIPT, Slot, check_command, safety, well};
use ganglion::base::fault::ReadingFault;
use ganglion::base::frame::Health;
use ganglion::base::plan::Cause;
use ganglion::base::time::Span;
use ganglion::decision::mode::{Asked, Disarm, Mode};

const NOTHING: Asked = Asked { stop: false, disarm: false, arm: false };
const ARM: Asked = Asked { arm: true, ..NOTHING };
const DISARM: Asked = Asked { disarm: true, ..NOTHING };

/// A robot that drives as fast as the field requests.
fn driving() -> Robot {
    let mut robot = Robot::armed();
    for step in 0..50 {
        robot.step(&well(step));
    }
    assert!((robot.command.motors[0] - 0.5).abs() < 1e-6, "{:?}", robot.command.used());
    robot
}

#[track_caller]
fn stands(robot: &Robot, case: &str) {
    assert!(robot.command.motors[..2].iter().all(|drive| drive.abs() <= 0.0), "{case}: {:?}", robot.command);
    assert!((robot.command.motors[2] - 0.2).abs() < 1e-6, "{case}: steering stays where it is");
}

/// A change of quality level that shifts the field's answer, a late result, and the change back: the wheels
/// never gain more than a slew step per slot.
#[test]
fn a_quality_change_does_not_jerk_the_wheels() {
    let mut robot = Robot::armed();
    let script = [
        ([0.9, 0.5, 0.4], 10, 60),
        ([0.2, 0.5, -0.4], 10, 30),
        ([0.9, 0.5, 0.4], 190, 20),
        ([0.9, 0.5, 0.4], 10, 60),
    ];
    let mut stood = 0;
    let mut fastest = 0.0f32;
    for (request, age, slots) in script {
        for step in 0..slots {
            let before = robot.command;
            let record = robot.step(&Slot { request: Some((request, age)), ..well(step) });
            check_command(&before, &record).unwrap();
            stood += usize::from(robot.command.motors[0].abs() <= 0.0);
            fastest = fastest.max(robot.command.motors[0]);
        }
    }
    assert_eq!(stood, 20, "only while the field was missing");
    assert!((fastest - 0.9).abs() < 1e-6, "it gets there in the end");
}

/// Each case begins with a robot that moves (`driving` asserts it); otherwise the test would show nothing.
#[test]
fn a_healthy_robot_stops_in_the_slot_of_the_stop_request() {
    type Stop = (&'static str, fn(&mut Slot));
    let stops: [Stop; 7] = [
        ("pressed", |slot| slot.e_stop = true),
        ("guard", |slot| slot.guard_lost = true),
        ("stop", |slot| slot.asked.stop = true),
        ("disarm", |slot| slot.asked.disarm = true),
        ("wire", |slot| slot.receipt = Some((Span::from_millis(101), true))),
        ("field", |slot| slot.request = Some(([0.5, 0.5, 0.2], 140))),
        ("sleep", |slot| slot.slept = Span::from_millis(10)),
    ];
    for (case, stop) in stops {
        let mut robot = driving();
        let mut last = well(50);
        stop(&mut last);
        robot.step(&last);
        stands(&robot, case);
    }
}

/// The work of a slot takes three periods too long: the next slot notices it and stops the robot, which
/// drives again in the third punctual slot in a row.
#[test]
fn a_late_loop_stops_the_robot_until_it_is_punctual_again() {
    let mut robot = driving();
    robot.step(&Slot { overrun: 2, ..well(0) });
    robot.step(&well(1));
    assert!(robot.command.motors[0] > 0.0, "two lost slots do not stop it, three do");
    robot.step(&Slot { overrun: 3, ..well(2) });
    for step in 3..6 {
        let record = robot.step(&well(step));
        assert_eq!(record.active, Cause::LoopLate.bit());
        stands(&robot, "late");
    }
    robot.step(&well(6));
    assert!(robot.command.motors[0] > 0.0);
}

/// A receipt of a command that not every motor accepted confirms nothing.
#[test]
fn commands_not_taken_by_every_motor_count_as_a_lost_bus() {
    let mut robot = driving();
    let confirmed = robot.loop_status.load().confirmed;
    for step in 0..12 {
        robot.step(&Slot { receipt: RECEIPT.map(|(age, _)| (age, false)), ..well(step) });
    }
    stands(&robot, "not taken");
    assert_eq!(robot.loop_status.load().confirmed, confirmed);
    assert_eq!(robot.loop_status.load().active, Cause::BusLost.bit());
    robot.step(&well(12));
    assert!(robot.command.motors[0] > 0.0);
}

/// An empty battery stops the robot until the voltage has recovered and a person disarms and arms the robot:
/// a recovered voltage alone does not restart it.
#[test]
fn a_latched_reflex_needs_disarm_then_arm() {
    let mut robot = Robot::armed();
    let mut drives = |slots: u64, battery: f32, asked: Asked| {
        let mut mode = Mode::Boot;
        for step in 0..slots {
            let mut slot = Slot { asked: if step == 0 { asked } else { NOTHING }, ..well(step) };
            slot.readings[2].1 = Ok(battery + (step % 5) as f32 * 0.001);
            mode = robot.step(&slot).mode;
        }
        (robot.command.motors[0] > 0.0, mode.name())
    };
    assert_eq!(drives(50, 7.6, NOTHING), (true, "armed"));
    assert_eq!(drives(1, 6.1, NOTHING), (false, "latched"));
    assert_eq!(drives(500, 7.6, NOTHING), (false, "latched"), "the voltage recovers at rest");
    assert_eq!(drives(50, 7.6, ARM), (false, "latched"));
    assert_eq!(drives(50, 6.1, DISARM), (false, "latched"), "still empty");
    assert_eq!(drives(50, 7.6, DISARM), (false, "disarmed"));
    assert_eq!(drives(50, 7.6, ARM), (true, "armed"));
}

/// One low reading among several in a slot latches, even if it is not the last, arrives out of order, has a
/// stamp in the future, or comes before a fault.
#[test]
fn a_trip_shorter_than_a_slot_still_latches() {
    let empty = [
        ("not the last", vec![(2, Ok(6.1), -4), (2, Ok(7.7), -2)]),
        ("out of order", vec![(2, Ok(7.7), -2), (2, Ok(6.1), -4)]),
        ("from the future", vec![(2, Ok(6.1), 400), (2, Ok(7.7), -2)]),
        ("before a fault", vec![(2, Ok(6.1), -4), (2, Err(ReadingFault::Timeout), -2)]),
    ];
    for (case, mut readings) in empty {
        let mut robot = driving();
        readings.extend(well(0).readings.into_iter().take(2));
        let record = robot.step(&Slot { readings, ..well(0) });
        assert_eq!(record.mode, Mode::Latched { cause: Cause::Battery }, "{case}");
        stands(&robot, case);
        // A disarm in the same slot as another trip does not acknowledge it: their order is unknown.
        let again = vec![(2, Ok(6.1), -4), (2, Ok(7.7), -2)];
        let record = robot.step(&Slot { readings: again, asked: DISARM, ..well(1) });
        assert_eq!(record.mode, Mode::Latched { cause: Cause::Battery }, "{case}");
    }
    for harmless in [Ok(4.9), Ok(f32::NAN), Err(ReadingFault::Timeout)] {
        let mut robot = driving();
        let mut slot = well(0);
        slot.readings.insert(2, (2, harmless, -4));
        assert_eq!(robot.step(&slot).active, 0, "{harmless:?} is implausible");
    }
}

/// A cable that is plugged in again: after a short outage the robot drives on, after a longer one it does not
/// start by itself.
#[test]
fn a_robot_held_for_long_does_not_restart_by_itself() {
    for (slots, starts) in [(20, true), (60, false), (6_000, false)] {
        let mut robot = driving();
        for step in 0..slots {
            robot.step(&Slot { readings: Vec::new(), ..well(step) });
        }
        let mut drove = false;
        for step in 0..100 {
            robot.step(&well(step));
            drove |= robot.command.motors[0] > 0.0;
        }
        assert_eq!(drove, starts, "{slots} slots without a sensor");
        let why = robot.loop_status.load().disarmed;
        match why {
            None => assert!(starts),
            Some(Disarm::Stillness { lasted, causes }) => {
                assert!(!starts && lasted >= safety().disarm_after, "{lasted:?}");
                assert_eq!(causes, Cause::SensorLost.bit());
            }
            other => panic!("{other:?}"),
        }
        robot.step(&Slot { asked: ARM, ..well(0) });
        robot.step(&well(1));
        assert!(robot.command.motors[0] > 0.0, "it drives after arming by hand");
    }
}

/// The machine sleeps in the middle of a drive: nothing starts when it wakes, and nothing that was read
/// before counts, however recent it looks on a clock that had stopped.
#[test]
fn after_a_suspend_the_robot_stands_and_drops_old_data() {
    let lasted = Span::from_millis(600_000);
    let mut robot = driving();
    let before = [(0, Ok(2.0), -3), (1, Ok(1_500.0), -2), (2, Ok(7.6), -1)];
    let record = robot.step(&Slot { slept: lasted, readings: before.to_vec(), ..well(0) });
    stands(&robot, "awake");
    assert_eq!(record.mode, Mode::Disarmed);
    assert_eq!(robot.loop_status.load().disarmed, Some(Disarm::Slept { lasted }));
    assert!(record.frame.used().iter().all(|sample| sample.health == Health::Never), "{CHANNELS} channels");
    // Readings that were pending at the suspend: read before it, received after it.
    let on_their_way = [(0, Ok(2.1), -12), (1, Ok(1_501.0), -12), (2, Ok(7.6), -12)];
    let record = robot.step(&Slot { readings: on_their_way.to_vec(), asked: ARM, ..well(1) });
    assert_eq!(record.mode, Mode::Disarmed);
    assert!(record.active & Cause::SensorLost.bit() != 0);
    for step in 2..100 {
        robot.step(&well(step));
        stands(&robot, "by itself");
    }
    robot.step(&Slot { asked: ARM, ..well(0) });
    robot.step(&well(1));
    assert!(robot.command.motors[0] > 0.0, "it drives after arming by hand");
}
