//! An edge that stopped the car is not forgotten: only backing away from it lets the car drive on, whatever
//! the field requests. The tests use a room full of stairwells, whose corners pass under one sensor for a
//! moment, and many seeds; they also show what happens to the same cars if the rules request no retreat.

use super::{run_board, sonar_board};
use crate::long::or_in_full;
use ganglion::base::plan::{Board, Cause};
use ganglion::base::seed::{Stream, uniform};
use ganglion::base::time::{Instant, SimClock, Span};
use ganglion::field::Readout;
use ganglion::field::readout::Origin;
use ganglion::field::shape::READOUT_COLUMNS;
use ganglion::runtime::robot::{Options, Robot};
use ganglion::sim::Contacts;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The desk robot among nine stairwells and nothing else; only its rules protect it from edges.
fn stairwells() -> Board {
    let mut board = Board { backing: None, ..sonar_board() };
    let sim = board.sim.as_mut().unwrap();
    sim.discs = 0;
    let (columns, rows) = ([0.6_f32, 1.8, 3.0], [0.4_f32, 1.3, 2.2]);
    sim.cliffs = columns.iter().flat_map(|x| rows.map(|y| [*x, y, x + 0.4, y + 0.4])).collect();
    board
}

/// The same board without the retreat: an edge counts as over once the sensor has passed it.
fn forgetful() -> Board {
    let mut board = stairwells();
    board.reflexes.iter_mut().for_each(|rule| rule.retreat = Span::ZERO);
    board
}

/// The board without its starting table: the read-out alone drives.
fn untabled(board: &Board) -> Board {
    let mut board = board.clone();
    board.field.start.clear();
    board
}

/// A field that sees nothing: forwards in a circle chosen by `seed`.
fn blind(board: &Board, seed: u64) -> Readout {
    let mut weights = vec![0.0; board.field.shape.motors * READOUT_COLUMNS];
    let circle = uniform(seed, Stream::Stimulus, 7) as f32 - 0.5;
    for (motor, request) in [0.8, 0.8, 0.8 * circle].into_iter().enumerate() {
        weights[(motor + 1) * READOUT_COLUMNS - 1] = request;
    }
    Readout::new(board, weights, Origin::Given).expect("it fits the board")
}

/// The contacts of the car with this field.
fn contacts(board: &Board, seed: u64, readout: Option<Readout>, seconds: u64) -> Contacts {
    let clock = Arc::new(SimClock::new());
    let first = Instant::ZERO + board.period;
    let options = Options { seed, readout, ..Options::default() };
    let robot = Robot::build(board, clock.clone(), first, options).unwrap();
    let plant = robot.plant.clone().unwrap();
    let until = first + Span::from_millis(1000 * seconds);
    ganglion::runtime::runner::step(robot, &clock, until, &AtomicBool::new(false), |_| ());
    plant.report(until).contacts
}

/// Counts the falls over forgotten edges: of cars that drive blindly, and of cars driven by their table.
fn forgotten(board: &Board, blindly: &[u64], by_table: &[u64]) -> [u64; 2] {
    let bare = untabled(board);
    let blindly = blindly.iter().map(|&seed| contacts(&bare, seed, Some(blind(&bare, seed)), 8));
    let by_table = by_table.iter().map(|&seed| contacts(board, seed, None, 30));
    [blindly.map(|met| met.falls_after_stop).sum(), by_table.map(|met| met.falls_after_stop).sum()]
}

#[test]
fn cars_fall_at_edges_only_without_the_retreat_rule() {
    // Of 400 cars that drove blindly, seven fell at a corner without the retreat. The first list has the
    // seeds of three of those and some others; the cars of the second list are driven by their table.
    let (blindly, taughtly) = ([49, 263, 372, 1, 2, 3, 4], [9, 15, 16, 1]);
    let (blind, taught) = or_in_full((4, 3), (7, 4));
    assert_eq!(forgotten(&stairwells(), &blindly[..blind], &taughtly[..taught]), [0, 0]);
    let [blind, taught] = forgotten(&forgetful(), &blindly[..3], &taughtly[..3]);
    assert!(blind == 3 && taught > 0, "this room tests nothing: {blind} and {taught} of 3");
}

/// Over an edge, and over a black floor, the real converter reads 0 without any noise. That is an edge and
/// not a dead sensor: the car backs off and drives on.
#[test]
fn a_noise_free_zero_counts_as_an_edge_not_a_dead_sensor() {
    for backs_by_itself in [true, false] {
        let mut board = Board { backing: sonar_board().backing.filter(|_| backs_by_itself), ..stairwells() };
        board.sim.as_mut().unwrap().edge_counts = -100.0;
        let (mut edges, mut noughts) = (0, 0);
        // The cars of these seeds do not fall; the next test counts those that do.
        for seed in 2..=4 {
            let run = run_board(&board, seed, 30, &[]);
            edges += run.tripped(Cause::Cliff);
            noughts += run.records.iter().filter(|record| shows_nought(record)).count();
            assert_eq!((run.tripped(Cause::SensorLying), run.tripped(Cause::SensorLost)), (0, 0), "{seed}");
            let late = run.records.iter().rev().nth(200).expect("half a minute has that many slots");
            assert!(late.mode.obeys_since().is_some(), "seed {seed}: it drives on");
            assert_eq!(run.report.contacts.falls, 0, "seed {seed}");
        }
        assert!(edges >= 5, "{edges} edges in half a minute of three rooms");
        assert!(noughts > 20 * edges as usize, "it never stands over an edge: {noughts} slots");
    }
}

/// A car may fall over a corner that passes between the tracks of a wheel and of its ground sensor. Without
/// remembered edges, 18 of 200 cars fell among these stairwells; with them, eleven.
#[test]
fn few_cars_fall_over_corners_that_no_sensor_sees() {
    let (cars, most) = or_in_full((20, 3), (200, 15));
    let board = Board { backing: sonar_board().backing, ..stairwells() };
    let met = (1..=cars).map(|seed| contacts(&board, seed, None, 30));
    let [falls, after_stop] =
        met.fold([0, 0], |[falls, after], met| [falls + met.falls, after + met.falls_after_stop]);
    assert!(
        falls <= most && after_stop == 0,
        "{falls} of {cars} cars fell, {after_stop} of them after a stop"
    );
}

fn shows_nought(record: &ganglion::drive::trace::Record) -> bool {
    record.frame.used()[1..4].iter().any(|ground| ground.value <= 0.0)
}

#[test]
fn the_field_keeps_seeing_the_edge_and_backs_away() {
    // If the field wanted to drive forwards as soon as its sensors see floor, the car would stand before each
    // edge for ever.
    let run = run_board(&stairwells(), 1, 30, &[]);
    let edges = run.tripped(Cause::Cliff);
    assert!(edges >= 3, "{edges} edges in half a minute");
    let held = run.records.iter().filter(|record| record.active & Cause::Cliff.bit() != 0).count();
    // For each edge, at most as long as it takes to stop, to back off for `reverse_max`, to pause for as long
    // again, and to start.
    assert!(held as u64 <= edges * 200, "{held} slots for {edges} edges");
}
