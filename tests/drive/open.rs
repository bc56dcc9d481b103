//! Open space: the sonar gets no echo, and each kind of module reports that in its own way. The robot drives
//! on; a dead module or a stuck line still stops it.

use super::stage::Stage;
use super::{run_board, sim_board};
use ganglion::base::plan::{Board, Cause, SonarModule};
use ganglion::base::time::Span;

const MODULES: [SonarModule; 3] = [SonarModule::Ms38, SonarModule::Ms200, SonarModule::Endless];

/// A seed that puts the car into the middle of the hall, tens of metres from any wall.
const SEED: u64 = 3;

/// A hall in which the car does not come within four metres of a wall during a test.
fn hall(module: SonarModule) -> Board {
    let mut board = sim_board();
    let sim = board.sim.as_mut().expect("the sim board has a world");
    (sim.room, sim.discs, sim.cliffs, sim.line) = ([90.0, 90.0], 0, Vec::new(), Vec::new());
    sim.sonar = module;
    let range = board.sensors.iter_mut().find(|sensor| sensor.name == "range").expect("a sonar");
    range.frozen_after = None; // in an empty hall the reading never changes
    board
}

#[test]
fn a_self_ending_echo_never_stops_the_robot_in_open_space() {
    for module in [SonarModule::Ms38, SonarModule::Ms200] {
        let run = run_board(&hall(module), SEED, 20, &[]);
        assert!(run.report.distance_m > 3.0, "{module:?}: {:?}", run.report);
        assert_eq!(run.tripped(Cause::SensorLost), 0, "{module:?}: no echo is a reading");
        let armed = run.records.iter().position(|record| record.mode.obeys_since().is_some());
        let armed = armed.expect("it arms");
        let while_armed = run.records[armed..].iter().filter(|record| record.index < 2_000);
        let held = while_armed.filter(|record| record.mode.obeys_since().is_none()).count();
        assert_eq!(held, 0, "{module:?}");
    }
}

/// A module that never ends its pulse looks like a stuck line: the robot stops.
#[test]
fn an_endless_echo_counts_as_lost_in_open_space() {
    let run = run_board(&hall(SonarModule::Endless), SEED, 10, &[]);
    let last = run.records.last().expect("one record per slot");
    assert!(last.active & Cause::SensorLost.bit() != 0, "{:#x}", last.active);
    assert!(run.plant.motors_still());
}

/// In a room there is always an echo, and the robot drives with the same module.
#[test]
fn a_module_with_endless_echoes_works_in_a_room() {
    let mut board = sim_board();
    board.sim.as_mut().expect("the sim board has a world").sonar = SonarModule::Endless;
    let run = run_board(&board, 1, 20, &[]);
    assert_eq!((run.report.contacts.all(), run.tripped(Cause::SensorLost)), (0, 0), "{:?}", run.report);
    assert!(run.report.distance_m > 1.5, "{:?}", run.report);
}

#[test]
fn stuck_line_or_dead_module_stops_the_robot() {
    for module in MODULES {
        for fault in ["sonar-stuck@8+3600", "sonar-silent@8+3600"] {
            let board = hall(module);
            let timeout = board.sensors.iter().find(|sensor| sensor.name == "range").unwrap().max_age;
            let mut stage = Stage::new(&board, SEED, &[fault]);
            stage.until(7.9);
            let drove = stage.travelled() > 0.1;
            assert_eq!(drove, module != SonarModule::Endless, "{module:?}, {fault}: before the fault");
            // The limit allows for the last ping before the fault, the maximum age of its reading, and two
            // slots.
            let limit = 8.0 + (timeout + Span::from_millis(80)).as_secs_f64();
            let after = stage.until(limit);
            assert!(after.active & Cause::SensorLost.bit() != 0, "{module:?}, {fault}: {:#x}", after.active);
            for _ in 0..300 {
                let record = stage.slot(Span::ZERO);
                assert!(record.active & Cause::SensorLost.bit() != 0, "{module:?}, {fault}");
                assert!(record.command.motors[..2].iter().all(|drive| drive.abs() <= 0.0), "{module:?}");
            }
            assert!(
                stage.until(15.0).mode.obeys_since().is_none(),
                "{module:?}, {fault}: never armed, or disarmed"
            );
        }
    }
}
