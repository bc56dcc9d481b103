//! Corrections of a starting table: driving without one, their bound, which table they belong to; teaching in
//! closed loop returns the same bytes on one thread and on two; a robot refuses a read-out that failed its
//! trials, unless told otherwise.

use ganglion::base::frame::MAX_SENSORS;
use ganglion::base::plan::{Board, QualityLevel};
use ganglion::base::time::{Instant, SimClock, Span};
use ganglion::deploy::board;
use ganglion::field::engine::Cycle;
use ganglion::field::readout::{Origin, ReadoutError, Trial, correction_digest};
use ganglion::field::shape::READOUT_COLUMNS;
use ganglion::field::{Inspect, Readout};
use ganglion::runtime::robot::{BuildError, Options, Robot};
use ganglion::runtime::runner;
use ganglion::sim::rehearsal;
use ganglion::workshop::teach::driver::Driver;
use ganglion::workshop::teach::fit::Regressors;
use ganglion::workshop::teach::lesson::{lean, run};
use ganglion::workshop::teach::trial::{Rooms, TrialDrive, figures, trial};
use ganglion::workshop::teach::{Progress, Syllabus, Taught, teach, teach_grid};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn sim_board() -> Board {
    board::built_in("sim").expect("the sim board is built in").expect("and sound").board
}

/// The desk robot with the smallest field.
fn small() -> Board {
    let mut board = sim_board();
    board.field.shape.grid = 8;
    board
}

/// One round of four short lessons, and short trials.
fn short(threads: usize) -> Syllabus {
    let rooms = Rooms { first: 1 << 41, count: 2, seconds: 4 };
    let verdict = Rooms { first: 1 << 42, ..rooms };
    Syllabus { rounds: 1, lessons: 4, lesson_s: 6, rooms, verdict, fields: 2, threads, ..Syllabus::default() }
}

#[test]
fn teaching_gives_the_same_bytes_on_one_thread_and_two() {
    let taught = |threads| {
        let (mut rounds, mut verdicts) = (0, Vec::new());
        let taught = teach(&small(), short(threads), &AtomicBool::new(false), |progress| match progress {
            Progress::Round { .. } => rounds += 1,
            Progress::Verdict { field_seed, quality, drives } => {
                verdicts.push((field_seed, quality, drives.to_vec()));
            }
        });
        (taught.unwrap().expect("not interrupted"), rounds, verdicts)
    };
    let (one, rounds, verdicts) = taught(1);
    let bytes = |taught: &Taught| taught.readout.to_bytes().unwrap();
    let (two, _, same_verdicts) = taught(2);
    assert!(bytes(&one) == bytes(&two) && verdicts == same_verdicts, "two threads gave other results");
    assert_eq!(rounds, 4, "a round for each grid of each field");
    // The watcher sees every drive of the verdict: three drivers for each field, in the same two rooms.
    let own = small().field.seed;
    let rooms =
        |verdict: &(u64, _, Vec<TrialDrive>)| (verdict.0, verdict.2.iter().map(|it| it.room).collect());
    let seen: Vec<(u64, Vec<u64>)> = verdicts.iter().map(rooms).collect();
    let expected = [0, 1].map(|nth| (own + nth, vec![(1 << 42) + 2 * nth, (1 << 42) + 2 * nth + 1]));
    assert_eq!(seen, expected.iter().flat_map(|of_field| vec![of_field.clone(); 3]).collect::<Vec<_>>());
    let at =
        |quality| verdicts.iter().filter(move |verdict| verdict.1 == quality).flat_map(|it| it.2.clone());
    let summed = |quality| figures(&at(quality).collect::<Vec<_>>());
    assert_eq!([Some(QualityLevel::BEST), Some(QualityLevel::WORST)].map(summed), one.trials);
    assert_eq!(summed(None), one.standard);
    // Each of the two fields was tried in two rooms of its own, which follow each other.
    let table = |first| {
        let rooms = Rooms { first, ..short(1).verdict };
        let calm = AtomicBool::new(false);
        let drives = trial(&lean(&small()), rooms, 1, &Driver::Table, QualityLevel::BEST, &calm);
        figures(&drives.unwrap().expect("not interrupted"))
    };
    let (first, second) = (table(1 << 42), table((1 << 42) + 2));
    assert_eq!(one.standard, first.and(&second));
    assert_ne!(one.standard, first.and(&first), "the rooms can be told apart");
    assert!(teach(&small(), short(2), &AtomicBool::new(true), |_| ()).unwrap().is_none());
}

/// A verdict drives for hours of virtual time: Ctrl-C must not wait for the rooms under way.
#[test]
fn an_interrupt_ends_a_drive_at_once() {
    let (board, interrupted) = (lean(&small()), Arc::new(AtomicBool::new(false)));
    let (plan, flag) = (board.field.clone(), interrupted.clone());
    let cycle: Cycle<dyn Inspect> = Box::new(move |engine, input| {
        flag.fetch_or(input.cycle >= 10, Ordering::Relaxed);
        Driver::Table.cycle(&plan, input, engine)
    });
    let drive = run(&board, 1, 3_600, QualityLevel::BEST, &Driver::Table, cycle, &interrupted);
    let slots = drive.expect("it drives").recorder.summary().slots_run;
    assert!(slots > 10 && slots < 200, "{slots} slots");
}

/// The first round drives without a correction, but its lessons must note what the field computes.
#[test]
fn the_first_round_already_teaches_from_the_field() {
    let (board, never) = (small(), AtomicBool::new(false));
    let content = Regressors::content();
    let taught = teach_grid(&board, short(1), content.clone(), QualityLevel::BEST, &never, |_| ()).unwrap();
    let readout = taught.expect("not interrupted").readout().expect("a field drives");
    let steering = &readout.rows().names().iter().position(|name| name == "steering").expect("it steers");
    let row = &readout.weights()[steering * READOUT_COLUMNS..][..READOUT_COLUMNS - 1];
    let used = row.iter().filter(|weight| weight.abs() > 1e-6).count();
    assert!(used > content.count() / 2, "only {used} of {} features have a weight", content.count());
}

/// A read-out with zero output that had no contact in its trial at the best quality level, and `contacts` at
/// the lowest; the table alone had one.
fn tried(board: &Board, contacts: u64) -> Readout {
    let trial = |contacts| Trial { rooms: 1, contacts, cells: 10.0, ..Trial::default() };
    let origin = Origin::Taught {
        table: correction_digest(board).expect("it has a table"),
        trials: [trial(0), trial(contacts)],
        standard: trial(1),
    };
    let weights = vec![0.0; board.field.shape.weights()];
    Readout::new(board, weights, origin).unwrap()
}

#[test]
fn a_readout_that_fails_on_a_grid_needs_the_force_option() {
    let board = small();
    let build = |contacts, untried| {
        let readout = Some(tried(&board, contacts));
        let options = Options { readout, untried, ..Options::default() };
        Robot::build(&board, Arc::new(SimClock::new()), Instant::ZERO, options)
    };
    assert!(matches!(build(1, false), Err(BuildError::Readout(ReadoutError::Failed))));
    assert!(build(1, true).is_ok() && build(0, false).is_ok());
}

#[test]
fn falls_count_before_contacts_and_a_tie_keeps_the_table() {
    let of = |falls, contacts, cells| Trial { rooms: 1, falls, contacts, cells, ..Trial::default() };
    let table = of(1, 3, 50.0);
    assert!(!table.passes(&table), "the table alone is as good");
    assert!(of(0, 3, 46.0).passes(&table) && of(1, 2, 46.0).passes(&table) && of(1, 3, 56.0).passes(&table));
    assert!(!of(2, 0, 90.0).passes(&table) && !of(0, 4, 90.0).passes(&table), "more harm");
    assert!(!of(0, 0, 40.0).passes(&table), "harmless because it does not drive");
    assert!(!Trial { backward_share: 0.2, ..of(0, 0, 50.0) }.passes(&table));
    let both = of(1, 3, 50.0).and(&Trial { rooms: 3, ..of(0, 2, 70.0) });
    assert_eq!((both.rooms, both.falls, both.contacts, both.cells), (4, 1, 5, 65.0));
}

#[test]
fn without_a_correction_the_robot_follows_its_table_exactly() {
    for name in ["sim", "picarx-v4", "picarx-v5"] {
        let built_in = board::built_in(name).expect("built in").expect("sound").board;
        let mut board =
            if name == "sim" { built_in } else { rehearsal(&built_in).expect("it drives here").board };
        board.field.shape.grid = 8;
        let table = digest(&board, Some(around(Driver::Table, &board)), None);
        assert_eq!(digest(&board, None, None), table, "{name}");
        let silent = Readout::silent(&board);
        assert_eq!(digest(&board, None, Some(silent)), table, "{name}: a correction of zero");
        assert_ne!(digest(&board, None, Some(pushing(&board, 0.0, 5.0))), table, "{name}: a correction");
    }
}

#[test]
fn a_correction_stays_within_the_boards_limit() {
    let mut plan = small().field;
    let sensors = [0.0; MAX_SENSORS];
    let table: Vec<f32> = (0..3).map(|motor| plan.start_wants(motor, &sensors).clamp(-1.0, 1.0)).collect();
    for bound in [0.0, 0.3, 1.0] {
        plan.correction = bound;
        for answer in [-1.0, 0.5, 1.0_f32] {
            let mut motors = [answer; 3];
            plan.correct_start(&mut motors, &sensors);
            for (motor, table) in motors.iter().zip(&table) {
                assert!(
                    (motor - (table + bound * answer).clamp(-1.0, 1.0)).abs() < 1e-6,
                    "{motor} of {table}"
                );
            }
        }
    }
}

#[test]
fn a_readout_for_another_table_or_the_whole_is_refused() {
    let board = small();
    let mut without = board.clone();
    without.field.start.clear();
    let refused = |readout: &Readout, board: &Board| readout.check(board).expect_err("refused").to_string();
    let whole = Readout::silent(&without);
    assert!(refused(&whole, &board).contains("drives by itself"), "{}", refused(&whole, &board));
    let correction = Readout::silent(&board);
    assert!(refused(&correction, &without).contains("corrected starting table = "));
    let mut wider = board.clone();
    wider.field.correction = 0.5;
    assert!(refused(&correction, &wider).contains("corrected starting table = "), "another bound");
    assert!(correction.check(&board).is_ok() && whole.check(&without).is_ok());
}

/// A constant correction of the drives and of the steering, before the tanh.
fn pushing(board: &Board, drive: f32, steering: f32) -> Readout {
    let mut weights = vec![0.0; board.field.shape.motors * READOUT_COLUMNS];
    for (row, motor) in weights.chunks_exact_mut(READOUT_COLUMNS).zip(&board.motors) {
        row[READOUT_COLUMNS - 1] = if motor.kind.drives() { drive } else { steering };
    }
    Readout::new(board, weights, Origin::Given).expect("it fits the board")
}

/// A cycle in which `driver` drives.
fn around(driver: Driver, board: &Board) -> Cycle<dyn Inspect> {
    let plan = board.field.clone();
    Box::new(move |engine, input| driver.cycle(&plan, input, engine))
}

/// Digest of all motor commands in ten seconds of driving.
fn digest(board: &Board, around: Option<Cycle<dyn Inspect>>, readout: Option<Readout>) -> String {
    let (clock, first) = (Arc::new(SimClock::new()), Instant::ZERO + board.period);
    let options =
        Options { seed: 5, around, readout, quality: Some(QualityLevel::BEST), ..Options::default() };
    let robot = Robot::build(board, clock.clone(), first, options).expect("the robot can be built");
    let mut commands = blake3::Hasher::new();
    runner::step(robot, &clock, first + Span::from_millis(10_000), &AtomicBool::new(false), |recorder| {
        let last = recorder.summary().last.as_ref();
        last.into_iter().flat_map(|record| record.command.motors).for_each(|motor| {
            commands.update(&motor.to_bits().to_le_bytes());
        });
    });
    commands.finalize().to_hex().to_string()
}
