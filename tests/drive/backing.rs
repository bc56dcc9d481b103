//! A robot that sees nothing behind itself drives back along its path, and then turns away. The tests use a
//! small table without a railing and several seeds, and show what happens to the same cars if the board does
//! not request this.

use super::{options, run_board, run_with, sim_board};
use crate::long::or_in_full;
use ganglion::base::plan::{BackingPlan, Board, WorldPlan};
use ganglion::decision::mode::Mode;
use ganglion::field::Readout;
use ganglion::field::readout::Origin;
use ganglion::field::shape::{READOUT_COLUMNS, READOUT_GRIDS};
use ganglion::runtime::robot::Options;
use ganglion::sim::{Contacts, Report};

/// The desk robot on a table of 1.2 m by 1.2 m: everything around it is an edge.
fn table() -> Board {
    let mut board = sim_board();
    let sim = board.sim.as_mut().expect("it is simulated");
    sim.room = [2.0, 2.0];
    sim.discs = 0;
    sim.line = Vec::new();
    sim.cliffs = vec![[0.0, 0.0, 0.4, 2.0], [1.6, 0.0, 2.0, 2.0], [0.4, 0.0, 1.6, 0.4], [0.4, 1.6, 1.6, 2.0]];
    board
}

/// The board without its starting table: the read-out alone drives.
fn untabled(board: Board) -> Board {
    let mut board = board;
    board.field.start.clear();
    board
}

/// A read-out that requests half speed backwards and this steering, whatever the field computes.
fn backwards(board: &Board, steering: f32) -> Readout {
    let motors = board.motors.iter().map(|motor| if motor.name == "steering" { steering } else { -0.5 });
    let row = |value| [vec![0.0; READOUT_COLUMNS - 1], vec![value]].concat();
    let weights = motors.map(row).collect::<Vec<_>>().concat().repeat(READOUT_GRIDS);
    Readout::new(board, weights, Origin::Given).expect("it fits the board")
}

#[test]
fn on_a_table_no_car_falls_and_all_keep_driving() {
    for seed in 1..=or_in_full(4, 12) {
        let Report { contacts, distance_m, .. } = run_board(&table(), seed, 60, &[]).report;
        assert_eq!(contacts.all(), 0, "seed {seed}: {contacts:?}");
        assert!(distance_m > 3.0, "seed {seed} stands: {distance_m} m");
    }
}

#[test]
fn always_reversing_field_falls_only_where_the_board_allows_it() {
    let [safe, bare] = [table(), Board { backing: None, ..table() }].map(untabled);
    for seed in 1..=or_in_full(2, 12) {
        // Straight, and in circles to either side that are wider than the table.
        let steering = [0.0, 0.2, -0.1][seed as usize % 3];
        let contacts = |board: &Board| {
            let readout = Some(backwards(board, steering));
            run_with(board, Options { readout, ..options(seed, &[]) }, 60).report.contacts
        };
        assert_eq!(contacts(&safe).all(), 0, "seed {seed}: {:?}", contacts(&safe));
        let met = contacts(&bare);
        assert!(met.falls > 0 && met.backwards > 0, "seed {seed}: this tests nothing: {met:?}");
    }
}

#[test]
fn a_car_at_an_edge_without_a_way_back_is_disarmed() {
    // There is an edge all around the start, and no person has checked the space behind the car.
    let mut board = table();
    let sim = board.sim.as_mut().expect("it is simulated");
    sim.cliffs = vec![[0.0, 0.0, 0.7, 2.0], [1.3, 0.0, 2.0, 2.0], [0.7, 0.0, 1.3, 0.7], [0.7, 1.3, 1.3, 2.0]];
    board.backing = board.backing.map(|backing| BackingPlan { start_m: 0.0, ..backing });
    for seed in 1..=or_in_full(3, 8) {
        let run = run_board(&board, seed, 40, &[]);
        assert_eq!(run.report.contacts.backwards, 0, "seed {seed}: {:?}", run.report);
        let armed = |mode: Mode| mode.obeys_since().is_some();
        let last = run.records.iter().rev().find(|record| record.mode != Mode::Stopped);
        let moves = run.report.distance_m > 2.0;
        assert!(
            moves || last.is_some_and(|record| !armed(record.mode)),
            "seed {seed}: it stands armed, after {} m",
            run.report.distance_m
        );
    }
}

#[test]
fn backtracking_keeps_cars_from_hitting_discs_behind_them() {
    // Results of longer drives in more rooms: docs/measurements.md, "A simulated drive".
    for seed in 1..=or_in_full(1, 6) {
        let run = run_board(&sim_board(), seed, or_in_full(60, 300), &[]);
        let Contacts { falls, backwards, head_on, .. } = run.report.contacts;
        assert_eq!((falls, backwards, head_on), (0, 0, 0), "seed {seed}: {:?}", run.report);
        let counters = run.ending.tick.backing().expect("the desk robot backs along its path");
        assert!(counters.times > 0 && counters.turns > 0 && counters.metres > 0.05, "{counters:?}");
    }
}

/// In a corner of an empty room. A turn to the side of the other wall ends soon before that wall, and the way
/// back from there undoes it: the car went to and fro there for two minutes.
#[test]
fn a_car_gets_out_of_a_corner() {
    let mut board = sim_board();
    let (size, start, heading_deg) = ([5.8, 3.3], [0.5, 0.35], 225.0);
    let corner = WorldPlan { size, start, heading_deg, ..WorldPlan::default() };
    board.sim.as_mut().expect("it is simulated").world = Some(corner);
    let seed = 9;
    let run = run_board(&board, seed, 60, &[]);
    let counters = run.ending.tick.backing().expect("the desk robot backs along its path");
    assert!(counters.turns > 2, "this tests nothing: {counters:?}");
    assert_eq!(run.report.contacts.all(), 0, "{:?}", run.report);
    assert!(run.report.coverage.cells > 40, "{:?}", run.report);
}

/// In this room the car drives into pockets between discs, where the field often wants to reverse during a
/// turn. When that ended the turn, the car touched something within 100 s, and five times in ten minutes.
#[test]
fn a_car_in_a_pocket_completes_its_turns() {
    let seconds = or_in_full(100, 600);
    let run = run_board(&sim_board(), 4_398_046_511_173, seconds, &[]);
    let counters = run.ending.tick.backing().expect("the desk robot backs along its path");
    assert!(counters.turns > seconds / 25, "this tests nothing: {counters:?}");
    assert!(counters.turns < seconds, "{counters:?}");
    assert_eq!(run.report.contacts.all(), 0, "{:?}", run.report);
    let still = run.report.coverage.standing_share;
    assert!(still < 1.0 / 3.0, "it stands for {still} of the time");
}
