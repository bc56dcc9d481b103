//! The field of a recorded run is computed again: the result is the same bits, the first answer that differs,
//! or the reason why the field cannot be computed.

use super::command_line::{log, object, recorded_in, refused};
use super::*;
use crate::cli::{err, output};
use crate::long::or_in_full;
use ganglion::base::plan::{Board, EngineKind, QualityLevel};
use ganglion::drive::record::Step;
use ganglion::field::readout::{Origin, Readout};
use ganglion::field::snapshot::FieldCopy;
use ganglion::runtime::replay::{FieldAnswers, FieldReplay, FieldStart, FieldUnknown, Replay, Replayed};
use std::path::Path;

/// Computes the field's answers in `steps` again, for a run that began with the field at rest.
fn computed(board: &Board, steps: &[Step]) -> FieldAnswers {
    computed_from(board, steps, Vec::new())
}

/// Like `computed`, with these copies of the field.
fn computed_from(board: &Board, steps: &[Step], copies: Vec<FieldCopy>) -> FieldAnswers {
    let start = FieldStart { at_rest: true, copies };
    let field = FieldReplay::new(board, None, EngineKind::Cpu, start);
    let (mut replay, mut field) = (Replay::new(board, None).unwrap(), field.unwrap());
    for (place, step) in steps.iter().enumerate() {
        let lost = steps.get(place + 1).map_or(0, |next| next.slot.lost);
        let is_equal = replay.step(step, lost) == Replayed::Equal;
        field.step(&step.slot, &mut replay, is_equal);
    }
    field.answers().clone()
}

fn answers_in(steps: &[Step]) -> u64 {
    steps.iter().filter(|step| step.slot.field.as_ref().is_some_and(|field| field.answer.is_some())).count()
        as u64
}

#[test]
fn the_field_is_computed_again_bit_for_bit() {
    for seed in 1..=3 {
        let steps = recorded(seed, &[], 8);
        let found = computed(&sim_board(), &steps);
        let (equal, steered) = (answers_in(&steps), found.steered);
        let expected = FieldAnswers { equal, steered, ..FieldAnswers::default() };
        assert!(equal > 100 && steered < equal / 2, "seed {seed}: the field answered: {found:?}");
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[test]
fn a_changed_answer_of_the_field_is_found_and_named() {
    let steps = recorded(1, &[], 6);
    // No decision depends on these values, so the tick's own replay finds nothing.
    for (what, place) in [("the field's confidence", 300), ("the field's novelty", 500)] {
        let mut changed = steps.clone();
        let answered = changed[place..].iter_mut().find_map(|step| {
            let index = step.slot.index;
            step.slot.field.as_mut()?.answer.as_mut().map(|answer| (index, answer))
        });
        let (index, answer) = answered.expect("an answer");
        let value = if place == 300 { &mut answer.confidence } else { &mut answer.novelty };
        *value = f32::from_bits(value.to_bits() ^ 1);
        assert_eq!(first_failure(&changed), None, "{what}");
        let found = computed(&sim_board(), &changed);
        let difference = found.differs.expect("a difference");
        assert_eq!((difference.index, difference.what.as_str()), (index, what));
        assert_eq!(
            found.equal,
            answers_in(&steps[..index as usize]),
            "{what}: everything before is the same"
        );
    }
}

#[test]
fn the_field_is_unknown_after_a_missing_answer() {
    let steps = recorded(5, &["field-panic@4+0.1"], 8);
    let found = computed(&sim_board(), &steps);
    let failed =
        steps.iter().find(|step| step.slot.field.as_ref().is_some_and(|field| field.state.is_some()));
    let failed = failed.expect("the engine failed").slot.index;
    assert!(matches!(&found.unknown, Some(FieldUnknown::Engine(index, _)) if *index == failed), "{found:?}");
    assert_eq!((found.equal, found.differs), (answers_in(&steps[..failed as usize]), None));
    let later = computed(&sim_board(), &steps[100..]);
    assert_eq!((later.unknown, later.equal), (Some(FieldUnknown::Begin(100)), 0));
}

#[test]
fn a_field_is_computed_from_its_copy_in_the_middle_of_a_run() {
    for seed in 1..=or_in_full(2, 10) {
        // Other quality levels after the copy need everything in it, including the half grid.
        let (board, files) = armed_late(seed, &["field-slow@22+4", "sonar-silent@30+1"], 40);
        let (steps, copies) = (files.steps(), files.field_copies());
        let read = || copies.iter().map(|copy| FieldCopy::read(copy).expect("a copy")).collect();
        let found = computed_from(&board, &steps, read());
        assert_eq!((copies.len(), &found.unknown, &found.differs), (1, &None, &None), "seed {seed}");
        assert!(found.equal > 300 && found.before > 0, "seed {seed}: {found:?}");
        assert_eq!(found.before + found.equal, answers_in(&steps), "seed {seed}");
        let lower = steps.iter().filter(|step| step.slot.quality > QualityLevel::BEST).count();
        assert!(lower > 100, "seed {seed}: {lower} slots at a lower level");
        let without = computed(&board, &steps);
        assert_eq!((without.equal, without.unknown), (0, Some(FieldUnknown::Begin(steps[0].slot.index))));
    }
}

/// If copies counted towards the limit of 300 kB, each file would end as soon as it had its copy of 1 MB.
#[test]
fn copies_of_the_field_do_not_fill_a_small_file() {
    const SMALL: u64 = 300_000;
    let (board, files) = (shipped(), Files::default());
    let folder = Folder::new("recordings-copies");
    let quota = Quota { file: SMALL, ..Quota::default() };
    let plan = Plan { quota, ..in_folder(&folder, &board, files.opener()) };
    let (recording, sender) = Recording::start(plan, true).expect("a thread");
    let (clock, first) = (Arc::new(SimClock::new()), Instant::ZERO + board.period);
    let options = Options { seed: 1, recording: Some(sender), ..Options::default() };
    let robot = Robot::build(&board, clock.clone(), first, options).expect("it can be built");
    let cells = size_of::<f32>() * CHANNELS * board.field.shape.cells();
    let until = first + Span::from_millis(60_000);
    runner::step(robot, &clock, until, &AtomicBool::new(false), |_| {
        // Virtual time waits for the writing thread, until the newest file has its copy.
        let lacks_copy = |all: &Vec<Vec<u8>>| all.len() > 1 && all[all.len() - 1].len() < cells;
        if lacks_copy(&files.0.lock().unwrap()) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    recording.end(LONG);
    let mut judged = 0;
    let files = files.0.lock().unwrap();
    for bytes in files.iter().skip(1).rev().skip(1) {
        let copies = events_in(bytes).filter_map(|event| match event {
            Event::FieldCopy(copy) => Some(copy.len() as u64),
            _ => None,
        });
        let rest = bytes.len() as u64 - copies.sum::<u64>();
        assert!(rest >= SMALL, "a file of {} bytes ended with {rest} bytes of slots", bytes.len());
        judged += 1;
    }
    assert!(judged >= 2, "{judged} files");
}

#[test]
fn a_damaged_copy_of_the_field_is_refused() {
    let (_, files) = armed_late(3, &[], 30);
    let copies = files.field_copies();
    for place in [0, 30, copies[0].len() / 2, copies[0].len() - 1] {
        let mut damaged = copies[0].clone();
        damaged[place] ^= 1;
        assert!(FieldCopy::read(&damaged).is_err(), "byte {place}");
    }
}

#[test]
fn a_run_with_a_read_out_needs_it_for_its_field() {
    let folder = Folder::new("log-readout");
    // Its navigator takes no part without an order, so the field alone drives.
    let board = board::built_in("sim-sonar").expect("it is built in").expect("and sound").board;
    let given = |name: &str, weight: f32| {
        let weights = vec![weight; Readout::silent(&board).weights().len()];
        let readout = Readout::new(&board, weights, Origin::Given).expect("of this board");
        let path = folder.path(name);
        readout.save(Path::new(&path)).unwrap();
        path
    };
    let (used, other) = (given("used", 0.01), given("other", 0.02));
    let drive = recorded_in(&folder, "drive.mcap", &["--board", "sim-sonar", "--readout", &used]);
    let found = object(&["replay", &drive, "--field", "--readout", &used], 0);
    assert!(found["field"]["equal"].as_u64() > Some(100), "{found}");
    assert_eq!(
        (&found["field"]["steered"], &found["field"]["unknown"]),
        (&0.into(), &serde_json::Value::Null)
    );
    for wrong in [vec![], vec!["--readout", &other]] {
        let said = refused(&[&["replay", &drive, "--field"], &wrong[..]].concat(), 64);
        assert!(said.contains("the run had another read-out"), "{said}");
    }
}

#[test]
fn a_resumed_or_steered_run_says_what_of_its_field_is_known() {
    let folder = Folder::new("log-resumed");
    let brain = folder.path("brain");
    recorded_in(&folder, "first.mcap", &["--snapshot", &brain]);
    let resumed = recorded_in(&folder, "second.mcap", &["--snapshot", &brain]);
    let found = object(&["replay", &resumed, "--field"], 0);
    let [equal, before] = ["equal", "before"].map(|key| found["field"][key].as_u64());
    assert!(equal > Some(100) && before > Some(0), "{found}");

    // The saved brain of this run has a read-out, which is not in the recording.
    let (taught, readout) = (folder.path("taught"), folder.path("readout"));
    let weights = vec![0.01; Readout::silent(&shipped()).weights().len()];
    let given = Readout::new(&shipped(), weights, Origin::Given).expect("of this board");
    given.save(Path::new(&readout)).unwrap();
    recorded_in(&folder, "third.mcap", &["--snapshot", &taught, "--readout", &readout]);
    let unfit = recorded_in(&folder, "fourth.mcap", &["--snapshot", &taught]);
    let said = refused(&["replay", &unfit, "--field"], 69);
    assert!(said.contains("no copy of the field in it can be used"), "{said}");
    assert_eq!(log(&["replay", &unfit]).status.code(), Some(0), "its decisions replay all the same");

    let steered = recorded_in(&folder, "steered.mcap", &["--goal", "1,0"]);
    let found = object(&["replay", &steered, "--field"], 0);
    let [equal, without] = ["equal", "steered"].map(|key| found["field"][key].as_u64());
    assert!(equal > Some(100) && without > Some(100), "{found}");
}

#[test]
fn the_field_of_a_run_in_real_time_is_computed_again() {
    let folder = Folder::new("log-real");
    let path = folder.path("real.mcap");
    let ended = output(&["run", "--for", "3s", "--engine", "cpu", "--record", &path]);
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let found = object(&["replay", &path, "--field"], 0);
    assert!(found["field"]["equal"].as_u64() > Some(20), "{found}");
    assert_eq!(found["field"]["unknown"], serde_json::Value::Null, "{found}");
}
