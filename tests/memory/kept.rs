//! The map in a snapshot: a restarted robot recalls what it had met, damaged maps and maps of other things
//! are refused, and a file from before maps were saved is still read.

use super::map::{WITH_MAP, board};
use crate::cli::{err, output};
use crate::folder::Folder;
use crate::hostile::ways::{payload_of, signed};
use ganglion::base::plan::{Board, FieldPlan};
use ganglion::base::time::{Instant, SimClock, Span};
use ganglion::field::snapshot::{ExistingSnapshot, Places, Snapshot, SnapshotError};
use ganglion::memory::map::MapStatus;
use ganglion::runtime::robot::{BuildError, Options, Robot, SnapshotPlan};
use ganglion::runtime::runner;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A robot at the start of virtual time.
fn build(options: Options) -> Result<Robot, BuildError> {
    let board = board();
    Robot::build(&board, Arc::new(SimClock::new()), Instant::ZERO + board.period, options)
}

/// What the robot's map recalls, and how similar the robot's place is to where it met the thing.
fn recalled(robot: &Robot) -> (MapStatus, f32) {
    recall(robot.recollection.as_ref().expect("a map"))
}

fn recall(recollection: &ganglion::memory::map::Recollection) -> (MapStatus, f32) {
    let likeness = recollection.with(|map| map.likeness_here(0)).expect("it is known");
    (recollection.status(Some([1.0, 0.0])).expect("an account"), likeness)
}

/// Drives a robot for 40 s and saves its brain in `file`; returns what its map recalls at the end.
fn drive(file: &Path) -> (MapStatus, f32) {
    let (board, clock) = (board(), Arc::new(SimClock::new()));
    let first = Instant::ZERO + board.period;
    let every = Span::from_millis(5_000);
    let plan = SnapshotPlan { path: file.to_path_buf(), every, existing: ExistingSnapshot::Sound };
    let options = Options { seed: 1, snapshots: Some(plan), ..Options::default() };
    let mut robot = Robot::build(&board, clock.clone(), first, options).expect("the robot can be built");
    let (recollection, writer) = (robot.recollection.clone().expect("a map"), robot.snapshots.take());
    runner::step(robot, &clock, first + Span::from_millis(40_000), &AtomicBool::new(false), |_| ());
    let counts = writer.expect("it keeps its brain").end(Duration::from_secs(60));
    assert!(counts.finished && counts.written >= 1 && counts.failed == 0, "{counts:?}");
    recall(&recollection)
}

#[test]
fn a_restarted_robot_recalls_what_it_had_met() {
    let folder = Folder::new("kept-restart");
    let file = folder.join("brain");
    let before = drive(&file);
    assert!(before.0.meetings >= 1 && before.0.things[0].was_at.is_some(), "it learned: {:?}", before.0);
    let found = Snapshot::find(&file, &board()).expect("sound").expect("it exists");
    let resumed = build(Options { resume: Some(found.snapshot), ..Options::default() }).expect("it fits");
    assert_eq!(recalled(&resumed), before, "every recalled value");
    let fresh = build(Options::default()).expect("the robot is built");
    assert_ne!(recalled(&fresh), before, "a robot without the snapshot recalls something else");
}

/// A snapshot of the robot with a map, taken at the start of its run, and the map in it.
fn at_start(name: &str) -> (Snapshot, Places) {
    let folder = Folder::new(name);
    let file = folder.join("brain");
    let every = Span::from_millis(5_000);
    let plan = SnapshotPlan { path: file.clone(), every, existing: ExistingSnapshot::Sound };
    let (board, clock) = (board(), Arc::new(SimClock::new()));
    let first = Instant::ZERO + board.period;
    let options = Options { snapshots: Some(plan), ..Options::default() };
    let mut robot = Robot::build(&board, clock.clone(), first, options).expect("the robot can be built");
    let writer = robot.snapshots.take().expect("it keeps its brain");
    runner::step(robot, &clock, first, &AtomicBool::new(false), |_| ());
    assert!(writer.end(Duration::from_secs(60)).finished);
    let snapshot = Snapshot::load(&file).expect("whole");
    let places = snapshot.map().expect("the map is in it").clone();
    (snapshot, places)
}

#[test]
fn a_damaged_map_and_one_of_other_things_are_refused() {
    let (folder, (good, places)) = (Folder::new("kept-refused"), at_start("refused-start"));
    let file = folder.join("brain");
    let saved = |places: &Places| {
        good.clone().with_map(places.clone()).save(&file).expect("the file can be written");
        Snapshot::find(&file, &board())
    };
    assert!(saved(&places).is_ok_and(|found| found.is_some_and(|found| found.in_place_of.is_none())));

    // The file is undamaged, but no map can have these numbers: the previous snapshot is used.
    let mut spoilt = places.clone();
    spoilt.pages[0].trace[7] = f32::NAN;
    let found = saved(&spoilt).expect("the previous snapshot").expect("the previous snapshot");
    let why = found.in_place_of.expect("the newest was refused").to_string();
    assert!(why.contains("map trace") && found.snapshot.map() == Some(&places), "{why}");

    // A map of another size is refused when the robot is built, with the reason.
    let mut small = places.clone();
    small.pages.pop();
    let resume = Some(good.clone().with_map(small));
    let Err(error) = build(Options { resume, ..Options::default() }) else {
        panic!("it accepted another map")
    };
    assert!(error.to_string().contains("map pages: found 15"), "{error}");

    // A map of other things: the file is undamaged, so the mismatch is reported and no previous snapshot is
    // used instead.
    let mut other = places.clone();
    other.things[0].name = "ramp".into();
    match saved(&other) {
        Err(SnapshotError::Mismatch { what, snapshot, board }) => {
            assert_eq!([what, snapshot, board], ["map of things", "ramp", "wall"]);
        }
        other => panic!("{other:?}"),
    }
    // A flipped bit or a truncated file is detected, tried at every 997th of the last 30,000 bytes.
    good.clone().with_map(places).save(&file).expect("the file can be written");
    let bytes = std::fs::read(&file).expect("it exists");
    for at in (bytes.len() - 30_000..bytes.len()).step_by(997) {
        let mut broken = bytes.clone();
        broken[at] ^= 1 << (at % 8);
        for part in [&broken[..], &bytes[..at]] {
            std::fs::write(&file, part).expect("the file can be written");
            assert!(matches!(Snapshot::load(&file), Err(SnapshotError::File(_))), "byte {at}");
        }
    }
}

#[test]
fn an_older_format_without_a_map_is_read_and_reported() {
    let (folder, (mapped, _)) = (Folder::new("kept-old"), at_start("old-start"));
    let file = folder.join("brain");
    let untabled = Board { field: FieldPlan { start: Vec::new(), ..board().field }, ..board() };
    let plain = Snapshot::new(&untabled, mapped.state().clone());
    plain.save(&file).expect("the file can be written");
    // Format 2 is format 3 without its last two parts. Both are absent here, and take one byte each.
    let bytes = std::fs::read(&file).expect("it exists");
    let payload = payload_of(&bytes).expect("a whole file");
    let (payload, absent) = bytes[payload.clone()].split_at(payload.len() - 2);
    assert_eq!((bytes[12], absent), (3, &[0, 0][..]));
    let mut header = bytes[..16].to_vec();
    header[12] = 2;
    std::fs::write(&file, signed(&header, payload)).expect("the file can be written");
    let old = Snapshot::load(&file).expect("the previous format is read");
    assert!(old == plain && old.lacks_map(&board()) && old.check(&board()).is_ok());
    header[12] = 1;
    std::fs::write(folder.join("older"), signed(&header, payload)).expect("the file can be written");
    assert!(matches!(Snapshot::load(&folder.join("older")), Err(SnapshotError::File(_))));

    folder.write("board.toml", WITH_MAP);
    let run = ["run", "--board", &folder.path("board.toml"), "--clock", "sim", "--for", "1s", "--snapshot"];
    let ended = output(&[&run[..], &[&folder.path("brain")]].concat());
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    assert!(err(&ended).contains("contains no map; the map begins empty"), "{}", err(&ended));
    let ended = output(&[&run[..], &[&folder.path("brain")]].concat());
    assert!(!err(&ended).contains("begins empty"), "now it has one: {}", err(&ended));
}

/// In older versions the read-out alone drove the robot. Added to the output of the starting table, such a
/// read-out would drive it anywhere.
#[test]
fn a_readout_for_another_starting_table_is_not_used() {
    let folder = Folder::new("kept-table");
    let file = folder.join("brain");
    let run = |board: &str| {
        let run =
            ["run", "--board", board, "--clock", "sim", "--for", "1s", "--snapshot", &folder.path("brain")];
        let ended = output(&run);
        assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
        (err(&ended), Snapshot::load(&file).expect("it was kept"))
    };
    let (_, first) = run("sim");
    assert!(first.state().learned.readout.iter().all(|weight| *weight == 0.0), "nothing was learned");
    let sim = ganglion::deploy::board::built_in("sim").expect("a built-in board").expect("and sound").board;
    let changes: [fn(&mut Board); 3] = [
        |board| board.field.start[0].points[0][1] *= 0.5,
        |board| board.field.correction *= 0.5,
        |board| board.field.start.clear(),
    ];
    let mut learned = first.state().clone();
    learned.learned.readout.iter_mut().for_each(|weight| *weight = 0.25);
    assert!(!Snapshot::new(&sim, learned.clone()).has_other_readout(&sim), "a correction to this table");
    for change in changes {
        let mut other = sim.clone();
        change(&mut other);
        assert!(Snapshot::new(&other, learned.clone()).has_other_readout(&sim));
        assert!(!Snapshot::new(&other, first.state().clone()).has_other_readout(&sim), "its output is zero");
    }
    let mut whole = sim.clone();
    whole.field.start.clear();
    Snapshot::new(&whole, learned).save(&file).expect("it is written");
    let age = first.state().live.age;
    let (said, again) = run("sim");
    assert!(said.contains("the read-out in this snapshot was made for a starting table other"), "{said}");
    assert!(again.state().learned.readout.iter().all(|weight| *weight == 0.0));
    assert!(again.state().live.age > age, "the rest of the brain continues");
    assert!(!run("sim").0.contains("read-out"), "now the read-out is for this table");
}
