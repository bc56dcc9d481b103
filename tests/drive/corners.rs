//! A car that sees what its front corners would touch drives anywhere in a room and touches nothing. The same
//! cars without these sensors, or without the rule that uses them, show what they are for.

use super::run_board;
use crate::long::or_in_full;
use ganglion::base::plan::Board;
use ganglion::deploy::board;
use ganglion::sim::Report;

/// Rooms in which a car without the sensors soon touches something; in most rooms it takes longer.
const ROOMS: [u64; 2] = [5034, 5071];
/// How long that takes at most, seconds.
const SOON: u64 = 80;

/// A board, in a short test run with the smallest field.
fn small(name: &str) -> Board {
    let mut board = board::built_in(name).expect("it is built in").expect("and sound").board;
    board.field.shape.grid = or_in_full(8, board.field.shape.grid);
    board
}

fn contacts(board: &Board, seed: u64) -> u64 {
    run_board(board, seed, SOON, &[]).report.contacts.all()
}

#[test]
fn a_car_leaves_its_orbit_safely_only_if_it_sees_its_corners() {
    let corners = small("sim");
    let blind = Board { wander: corners.wander, ..small("sim-sonar") };
    for seed in ROOMS {
        let met = contacts(&blind, seed);
        assert!(met > 0, "seed {seed} tests nothing");
        assert_eq!(contacts(&corners, seed), 0, "seed {seed}");
    }
}

#[test]
fn with_seen_corners_it_covers_more_ground_and_touches_nothing() {
    let [corners, plain] = ["sim", "sim-sonar"].map(small);
    // In the two rooms of the short form the car without the sensors soon circles on one orbit.
    let (rooms, seconds) = or_in_full((vec![3004, 3005], 120), ((3001..=3020).collect(), 600));
    let run = |board: &Board, room: u64| -> Report { run_board(board, room, seconds, &[]).report };
    let mut cells = [0, 0];
    for room in rooms {
        let Report { contacts, coverage, distance_m, .. } = run(&corners, room);
        assert_eq!(contacts.all(), 0, "room {room}: {contacts:?}");
        assert!(distance_m > seconds as f64 * 0.15, "room {room}: {distance_m} m");
        cells[0] += coverage.cells;
        cells[1] += run(&plain, room).coverage.cells;
    }
    assert!(cells[0] * 10 > cells[1] * 12, "cells with and without: {cells:?}");
}
