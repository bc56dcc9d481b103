//! Teaching in closed loop: the same bytes with any number of threads, a verdict that a robot heeds, and
//! fields that drive on both grids where the weights of one grid do not serve the other.

use crate::long::or_in_full;
use ganglion::base::plan::{Board, Rung};
use ganglion::base::time::{Instant, SimClock};
use ganglion::deploy::board;
use ganglion::field::Readout;
use ganglion::field::readout::{Origin, ReadoutError, Trial, table_digest};
use ganglion::field::shipped;
use ganglion::runtime::robot::{BuildError, Options, Robot};
use ganglion::workshop::teach::driver::Driver;
use ganglion::workshop::teach::trial::{Rooms, trial};
use ganglion::workshop::teach::{Syllabus, lesson, teach};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn sim_board() -> Board {
    board::built_in("sim").expect("the sim board is built in").expect("and sound").board
}

/// The desk robot with the smallest field.
fn small() -> Board {
    let mut board = sim_board();
    board.field.shape.grid = 8;
    board
}

/// A lesson or two, and a look.
fn short(threads: usize) -> Syllabus {
    let rooms = Rooms { first: 1 << 41, count: 2, seconds: 4 };
    Syllabus { rounds: 1, lessons: 2, lesson_s: 6, rooms, threads, ..Syllabus::default() }
}

#[test]
fn one_thread_and_two_teach_the_same_bytes_and_an_interrupt_teaches_nothing() {
    let taught = |threads| {
        let mut rounds = 0;
        let taught = teach(&small(), short(threads), &AtomicBool::new(false), |_| rounds += 1);
        (taught.unwrap().expect("not interrupted").readout.to_bytes().unwrap(), rounds)
    };
    let (bytes, rounds) = taught(1);
    assert!(bytes == taught(2).0, "two threads taught something else");
    assert_eq!(rounds, 2, "a round for each grid");
    assert!(teach(&small(), short(2), &AtomicBool::new(true), |_| ()).unwrap().is_none());
}

/// A read-out that says nothing, with this outcome of its trials.
fn tried(board: &Board, contacts: u64) -> Readout {
    let trial = |contacts| Trial { rooms: 1, contacts, cells: 10.0, ..Trial::default() };
    let origin = Origin::Taught {
        table: table_digest(board),
        trials: [trial(0), trial(contacts)],
        standard: trial(0),
    };
    let weights = vec![0.0; board.field.shape.weights()];
    Readout::new(board, weights, origin).unwrap()
}

#[test]
fn a_read_out_that_failed_on_either_grid_is_refused_unless_it_is_asked_for() {
    let board = small();
    let build = |contacts, untried| {
        let readout = Some(tried(&board, contacts));
        let options = Options { readout, untried, ..Options::default() };
        Robot::build(&board, Arc::new(SimClock::new()), Instant::ZERO, options)
    };
    assert!(matches!(build(1, false), Err(BuildError::Readout(ReadoutError::Failed))));
    assert!(build(1, true).is_ok() && build(0, false).is_ok());
    assert!(tried(&board, 0).has_passed(&board) && !tried(&board, 1).has_passed(&board));
    let mut other = board.clone();
    other.field.start.pop();
    assert!(!tried(&board, 0).has_passed(&other), "it was taught another table");
}

#[test]
fn what_comes_with_the_program_fits_its_board_and_no_other() {
    let board = sim_board();
    let readout = shipped(&board).expect("the sim board's");
    assert!(readout.has_passed(&board) && readout.check(&board).is_ok());
    for name in ["picarx-v4", "picarx-v5"] {
        let board = board::built_in(name).expect("built in").expect("sound").board;
        let readout = shipped(&board).expect("it drives as it was taught, from its first start");
        assert!(readout.has_passed(&board) && readout.check(&board).is_ok(), "{name}");
    }
    let changes: [fn(&mut Board); 3] =
        [|b| b.field.seed += 1, |b| b.field.start.truncate(3), |b| b.field.shape.grid = 8];
    for change in changes {
        let mut other = board.clone();
        change(&mut other);
        assert!(shipped(&other).is_none());
    }
}

#[test]
fn the_taught_field_drives_on_both_grids_and_not_with_the_weights_of_one() {
    let board = lesson::lean(&sim_board());
    let readout = shipped(&board).expect("the sim board's");
    // In twenty rooms what is seen of them differs by chance by more than a tenth.
    let rooms = Rooms { first: 101, count: or_in_full(2, 60), seconds: or_in_full(30, 60) };
    let drive = |driver: &Driver, rung| trial(&board, rooms, 2, driver, rung).unwrap();
    let table = drive(&Driver::Table, Rung::BEST);
    let both = Driver::Field(Arc::new(readout.clone()));
    for rung in [Rung::BEST, Rung::WORST] {
        let trial = drive(&both, rung);
        assert!(trial.passes(&table), "{rung:?}: {trial:?}, the table {table:?}");
    }
    // Without the half grid's own weights.
    let whole = readout.weights()[board.field.shape.weights_on(false)].to_vec();
    let one = Readout::new(&board, whole, Origin::Table).unwrap();
    let trial = drive(&Driver::Field(Arc::new(one)), Rung::WORST);
    assert!(!trial.passes(&table), "one grid's weights would do: {trial:?}, the table {table:?}");
}

/// The car that the read-out of the PiCar-X boards was taught on, as it is now: its file says only that it
/// passed when it was taught.
#[test]
fn the_picarx_read_out_drives_its_car_in_the_simulator_on_both_grids() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards/taught/picarx-v4.toml");
    let board = lesson::lean(&board::load(&file).expect("it is sound").board);
    let driver = Driver::Field(Arc::new(shipped(&board).expect("the PiCar-X's")));
    let rooms = Rooms { first: 101, count: or_in_full(4, 20), seconds: or_in_full(30, 60) };
    let table = trial(&board, rooms, 2, &Driver::Table, Rung::BEST).unwrap();
    for rung in [Rung::BEST, Rung::WORST] {
        let trial = trial(&board, rooms, 2, &driver, rung).unwrap();
        // How much it sees of four rooms is a matter of luck.
        let drives = trial.contacts + trial.falls == 0 && trial.cells >= 0.75 * table.cells;
        assert!(or_in_full(drives, trial.passes(&table)), "{rung:?}: {trial:?}, the table {table:?}");
    }
}
