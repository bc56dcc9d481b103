//! A robot that sees nothing behind itself goes back the way it came, and then turns away: on a small table
//! with no railing, over many seeds; and what becomes of the same cars where the board does not ask for it.

use super::{run_board, sim_board};
use crate::long::or_in_full;
use ganglion::mode::Mode;
use ganglion::plan::{BackingPlan, Board};
use ganglion::sim::Contacts;

/// The desk robot on a table of 1.2 m by 1.2 m: everything beside it is an edge.
fn table() -> Board {
    let mut board = sim_board();
    let sim = board.sim.as_mut().expect("it is simulated");
    sim.room = [2.0, 2.0];
    sim.discs = 0;
    sim.line = Vec::new();
    sim.cliffs = vec![[0.0, 0.0, 0.4, 2.0], [1.6, 0.0, 2.0, 2.0], [0.4, 0.0, 1.6, 0.4], [0.4, 1.6, 1.6, 2.0]];
    board
}

/// What the cars of these seeds ran into, and how far the laziest went, metres.
fn drives(board: &Board, seeds: &[u64], seconds: u64) -> (Vec<Contacts>, f64) {
    let reports = seeds.iter().map(|&seed| run_board(board, seed, seconds, &[]).report);
    let reports: Vec<_> = reports.collect();
    let least = reports.iter().map(|report| report.distance_m).fold(f64::INFINITY, f64::min);
    (reports.into_iter().map(|report| report.contacts).collect(), least)
}

#[test]
fn on_a_table_no_car_falls_and_all_keep_driving_and_without_the_way_back_they_fall() {
    let seeds: Vec<u64> = (1..=or_in_full(4, 12)).collect();
    let (contacts, least) = drives(&table(), &seeds, 60);
    assert!(contacts.iter().all(|met| met.all() == 0), "{contacts:?}");
    assert!(least > 3.0, "one of them stands: {least} m");
    let without = Board { backing: None, ..table() };
    let (contacts, _) = drives(&without, &seeds, 60);
    assert!(
        contacts.iter().any(|met| met.falls > 0 && met.backwards > 0),
        "this table tests nothing: {contacts:?}"
    );
}

#[test]
fn a_car_with_no_way_back_before_an_edge_is_disarmed_and_does_not_go_back_blindly() {
    // An edge all around the place where it starts, and nobody who has looked behind it.
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
fn the_way_back_keeps_cars_among_discs_from_hitting_things_behind_them() {
    // Of the rooms of the first seeds, in the time after which the car had met something backwards or fallen
    // without the way back (docs/measurements.md, "A simulated drive").
    for seed in 1..=or_in_full(1, 6) {
        let run = run_board(&sim_board(), seed, or_in_full(60, 300), &[]);
        let Contacts { falls, backwards, head_on, .. } = run.report.contacts;
        assert_eq!((falls, backwards, head_on), (0, 0, 0), "seed {seed}: {:?}", run.report);
        let counters = run.ending.tick.backing().expect("the desk robot backs along its way");
        assert!(counters.times > 0 && counters.turns > 0 && counters.metres > 0.05, "{counters:?}");
    }
}
