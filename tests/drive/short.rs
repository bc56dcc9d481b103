//! Events that end before the tick looks: presses shorter than a slot, presses while the tick stalls,
//! readings that were lost during a stall. Every e-stop press latches.

use super::sim_board;
use super::stage::Stage;
use ganglion::base::plan::Cause;
use ganglion::base::time::{Clock, Span};
use ganglion::decision::mode::Mode;
use std::sync::atomic::Ordering;

/// Whether the robot is latched by an e-stop and stands still, now and for the next second.
#[track_caller]
fn stands_stopped(stage: &mut Stage, case: &str) {
    let until = stage.clock.now() + Span::from_millis(1_000);
    while stage.tick.slot() < until {
        let record = stage.slot(Span::ZERO);
        assert_eq!(record.mode, Mode::Latched { cause: Cause::EStop }, "{case}: slot {}", record.index);
        assert!(record.active & Cause::EStop.bit() != 0, "{case}");
        let drives = &record.command.motors[..2];
        assert!(drives.iter().all(|drive| drive.abs() <= 0.0), "{case}: {drives:?}");
    }
    assert!(stage.plant.motors_still(), "{case}");
}

/// A contact of three milliseconds, at every phase of the slot: the robot stops, and stays stopped until a
/// person disarms.
#[test]
fn a_press_between_two_slots_is_latched() {
    for phase in 0..10 {
        let start = 5.0 + 0.0011 * f64::from(phase);
        let fault = format!("estop@{start:.4}s+0.003s");
        let mut stage = Stage::new(&sim_board(), 1, &[&fault]);
        let before = stage.until(4.9);
        assert!(before.command.motors[0] > 0.05, "{fault}: it does not even drive");
        stage.until(start + 0.03);
        stands_stopped(&mut stage, &fault);
        stage.requests.disarm.store(true, Ordering::Release);
        assert_eq!(stage.slot(Span::ZERO).mode, Mode::Disarmed, "{fault}: released, then acknowledged");
    }
}

/// A tick that is late by a tenth of a second, with a press and its release in between.
#[test]
fn a_press_while_the_tick_is_held_up_is_latched() {
    for pressed_ms in [3, 40] {
        let fault = format!("estop@5.03+0.0{pressed_ms:02}");
        let mut stage = Stage::new(&sim_board(), 1, &[&fault]);
        let before = stage.until(5.0);
        assert!(before.command.motors[0] > 0.05, "{fault}: it does not even drive");
        stage.slot(Span::from_millis(100));
        stands_stopped(&mut stage, &fault);
    }
}

/// The loop stalls for so long that the ring buffer of button readings overflows and the press is lost. The
/// button's own thread has seen it, so the robot still stops.
#[test]
fn a_press_whose_reading_was_lost_is_latched() {
    let mut stage = Stage::new(&sim_board(), 1, &["estop@17+0.5"]);
    let before = stage.until(5.0);
    assert!(before.command.motors[0] > 0.05, "it does not even drive");
    stage.slot(Span::from_millis(13_000));
    assert!(stage.dropped.load(Ordering::Relaxed) > 0, "no reading was lost: this shows nothing");
    stands_stopped(&mut stage, "lost");
}

/// Rules see every reading, not only the last one of a slot. This includes rules that only slow the robot
/// down, for which no sensor thread stops the robot: a battery that sagged while the tick was stalled counts
/// for as long as its rule requires.
#[test]
fn battery_sag_during_a_tick_stall_slows_the_robot() {
    let board = sim_board();
    let mut stage = Stage::new(&board, 1, &["battery-low@5.2s+1.0s"]);
    let before = stage.until(5.0);
    assert!(before.command.motors[0] > 0.05, "it does not even drive");
    let first = stage.slot(Span::from_millis(3_000));
    let battery = board.sensors.iter().position(|sensor| sensor.name == "battery").expect("it has one");
    let seen = first.frame.samples[battery].value;
    assert!(seen > 7.3, "the last reading is {seen} V: this shows nothing");
    let sagged = |record: &ganglion::drive::trace::Record| record.active & Cause::Battery.bit() != 0;
    assert!(sagged(&first), "in the same slot");
    let began = stage.clock.now();
    while stage.clock.now() < began + Span::from_millis(1_900) {
        let record = stage.slot(Span::ZERO);
        assert!(sagged(&record), "slot {}", record.index);
    }
    while stage.clock.now() < began + Span::from_millis(3_000) {
        stage.slot(Span::ZERO);
    }
    assert!(!sagged(&stage.slot(Span::ZERO)), "the rule releases the robot again");
}
