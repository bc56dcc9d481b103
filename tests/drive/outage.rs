//! A robot that could not move for a long time, whose computer was suspended, or that cannot see where it is
//! going does not start by itself, and does not drive into things.

use super::stage::Stage;
use super::{run_board, sim_board};
use crate::long::or_in_full;
use ganglion::base::plan::{Board, Cause};
use ganglion::base::time::Span;
use ganglion::decision::mode::{Disarm, Mode};
use std::sync::atomic::Ordering;

/// A cable is unplugged for half a minute. When the cable is back, nothing moves until a person arms the
/// robot, and the robot says why.
#[test]
fn replugging_a_device_does_not_start_the_wheels() {
    let cables = [
        ("i2c-nack@4+30", Cause::BusLost),
        ("sonar-silent@4+30", Cause::SensorLost),
        ("field-hang@4+30", Cause::FieldMissing),
    ];
    for (fault, cause) in cables {
        let mut stage = Stage::new(&sim_board(), 3, &[fault]);
        stage.until(3.9);
        assert!(stage.travelled() > 0.3, "{fault}: it does not even drive");
        stage.until(33.9);
        assert_eq!(stage.tick.mode(), Mode::Disarmed, "{fault}");
        match stage.tick.disarmed() {
            Some(Disarm::Stillness { lasted, causes }) => {
                assert!(causes & cause.bit() != 0, "{fault}: {causes:#x}");
                assert!(
                    lasted >= Span::from_millis(5_000) && lasted < Span::from_millis(5_100),
                    "{lasted:?}"
                );
            }
            other => panic!("{fault}: {other:?}"),
        }
        let (there, end) = (stage.travelled(), 45.0);
        while stage.seconds() < end {
            let record = stage.slot(Span::ZERO);
            assert!(record.mode.obeys_since().is_none(), "{fault}: armed by itself");
            assert!(record.command.motors[..2].iter().all(|drive| drive.abs() <= 0.0), "{fault}");
        }
        assert!(stage.travelled() - there < 1e-6, "{fault}: it moved");
        stage.requests.arm.store(true, Ordering::Release);
        let after = stage.until(48.0);
        assert!(after.mode.obeys_since().is_some(), "{fault}: {:?} {:#x}", after.mode, after.active);
        assert!(stage.travelled() - there > 0.02, "{fault}: it drives after arming by hand");
    }
}

/// An outage that ends within `disarm_after` does not disarm.
#[test]
fn a_short_outage_is_ridden_out() {
    for fault in ["i2c-nack@4+2", "sonar-silent@4+3"] {
        let mut stage = Stage::new(&sim_board(), 3, &[fault]);
        stage.until(8.0);
        let there = stage.travelled();
        let after = stage.until(12.0);
        assert!(after.mode.obeys_since().is_some() && stage.travelled() - there > 0.05, "{fault}");
    }
}

/// The lid is closed in the middle of a drive and opened ten minutes later, somewhere else.
#[test]
fn after_a_suspend_the_robot_stands_until_armed() {
    let mut stage = Stage::new(&sim_board(), 1, &[]);
    let before = stage.until(5.0);
    assert!(before.command.motors[0] > 0.05, "it does not even drive");
    let lasted = Span::from_millis(600_000);
    stage.clock.sleep_machine(lasted);
    let awake = stage.slot(Span::ZERO);
    assert_eq!(awake.mode, Mode::Disarmed);
    assert!(awake.command.motors[..2].iter().all(|drive| drive.abs() <= 0.0));
    assert!(awake.active & Cause::SensorLost.bit() != 0, "it relies on old readings");
    assert_eq!(stage.tick.disarmed(), Some(Disarm::Slept { lasted }));
    stage.until(5.1);
    assert!(stage.plant.motors_still());
    let there = stage.travelled();
    stage.until(15.0);
    assert!(stage.travelled() - there < 0.02, "it only coasts");
    stage.requests.arm.store(true, Ordering::Release);
    assert!(stage.until(18.0).mode.obeys_since().is_some());
    assert!(stage.travelled() - there > 0.05, "it drives after arming by hand");
}

/// A sim board on which the sonar is not required and does not age.
fn with_optional_sonar() -> Board {
    let mut board = sim_board();
    let range = board.sensors.iter_mut().find(|sensor| sensor.name == "range").expect("a sonar");
    (range.required, range.worst_per_s) = (false, 0.0);
    board
}

/// The sonar is not required, and it never answers or falls silent during the drive: the rules that use it
/// still need it.
#[test]
fn a_rule_that_cannot_see_does_not_let_the_robot_drive_blind() {
    let board = with_optional_sonar();
    for seed in 1..=or_in_full(3, 8) {
        for fault in ["sonar-silent@0+3600", "sonar-silent@5+3600"] {
            let run = run_board(&board, seed, 40, &[fault]);
            assert_eq!(run.report.contacts.all(), 0, "{fault}, seed {seed}: {:?}", run.report);
            let blind = |record: &ganglion::drive::trace::Record| fault.contains("@0") || record.index > 540;
            let forward =
                run.records.iter().filter(|record| blind(record)).map(|record| record.command.motors[0]);
            assert!(forward.fold(0.0, f32::max) <= 0.0, "{fault}, seed {seed}: it drove forwards blindly");
        }
        if seed <= 2 {
            let well = run_board(&board, seed, 20, &[]);
            assert!(well.report.distance_m > 1.0, "seed {seed}: with its sonar it drives: {:?}", well.report);
        }
    }
}
