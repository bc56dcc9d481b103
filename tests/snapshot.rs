//! A brain in a file: it is restored exactly, or refused with the reason; a process that is killed while
//! writing leaves a complete file; handing a brain to the writer allocates nothing; a restarted robot resumes
//! from the file.

use crate::allocation::allocations_in;
use crate::cli::{err, ganglion, out, output};
use crate::folder::Folder;
use ganglion::base::frame::MAX_SENSORS;
use ganglion::base::plan::{Board, EngineKind, QualityLevel};
use ganglion::deploy::board;
use ganglion::field::FieldInput;
use ganglion::field::engine;
use ganglion::field::snapshot::{
    Beside, ExistingSnapshot, HandOver, Snapshot, SnapshotError, previous_of, start_snapshot_writer,
};
use ganglion::field::state::{Live, State};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The sim board with a small field, whose snapshot takes 300 kB.
fn small() -> Board {
    let mut board = board::built_in("sim").expect("a built-in board").expect("and sound").board;
    board.field.shape.grid = 8;
    board.field.engine = EngineKind::Cpu;
    board
}

fn lived(board: &Board, cycles: u64) -> State {
    let mut engine = engine::build(&board.field);
    for cycle in 0..cycles {
        let sensors = [(cycle as f32 * 0.3).sin(); MAX_SENSORS];
        assert!(
            engine
                .cycle(&FieldInput { cycle, sensors, reward: 0.5, quality: QualityLevel::BEST, place: None })
                .is_ok()
        );
    }
    let mut live = Live::default();
    assert!(engine.save(&mut live));
    State { learned: engine.learned(), live }
}

#[test]
fn a_brain_is_restored_exactly_and_only_on_its_own_board() {
    let (board, folder) = (small(), Folder::new("snapshot-back"));
    let file = folder.join("brain");
    let snapshot = Snapshot::new(&board, lived(&board, 30));
    snapshot.save(&file).expect("the file can be written");
    let loaded = Snapshot::load(&file).expect("it can be read");
    assert_eq!(loaded, snapshot);
    assert!(loaded.check(&board).is_ok());
    let refused = |change: &dyn Fn(&mut Board)| {
        let mut other = board.clone();
        change(&mut other);
        loaded.check(&other).expect_err("another field").to_string()
    };
    let grid = refused(&|board| board.field.shape.grid = 16);
    assert_eq!(grid, "the snapshot was made for field grid = 8; the board has 16");
    assert!(refused(&|board| board.field.seed += 1).contains("field seed = "));
    assert!(refused(&|board| board.motors.swap(0, 1)).contains("rows = motors "));
    let small_bank = refused(&|board| board.field.shape.bank = 0);
    assert!(small_bank.contains("experiences: ") && small_bank.ends_with("room for 0"), "{small_bank}");
    let mut other = board;
    other.field.threads += 1;
    other.field.engine = EngineKind::Reference;
    assert!(loaded.check(&other).is_ok(), "the kind of engine does not matter");
}

#[test]
fn truncated_and_corrupted_brains_are_refused() {
    let (board, folder) = (small(), Folder::new("snapshot-damage"));
    let file = folder.join("brain");
    Snapshot::new(&board, lived(&board, 3)).save(&file).expect("the file can be written");
    let bytes = std::fs::read(&file).expect("it exists");
    let refused = |bytes: &[u8]| {
        std::fs::write(&file, bytes).expect("the file can be written");
        let error = Snapshot::load(&file).expect_err("damaged");
        assert!(matches!(error, SnapshotError::File(_)), "{error}");
    };
    let step = (bytes.len() / 40).max(1);
    for length in (0..60).chain((60..bytes.len()).step_by(step)).chain([bytes.len() - 1]) {
        refused(&bytes[..length]);
    }
    for at in (0..30).chain((30..bytes.len()).step_by(step)).chain([bytes.len() - 1]) {
        let mut broken = bytes.clone();
        broken[at] ^= 1 << (at % 8);
        refused(&broken);
    }
}

const WRITER: &str = "GANGLION_TEST_WRITES_SNAPSHOTS_TO";

/// As a child process of the test below, writes two brains alternately until that test kills it. Otherwise
/// does nothing.
#[test]
fn writes_brains_until_it_is_killed() {
    let Some(path) = std::env::var_os(WRITER) else { return };
    let board = small();
    let both = [1, 2].map(|cycles| Snapshot::new(&board, lived(&board, cycles)));
    loop {
        both.iter().for_each(|snapshot| snapshot.save(Path::new(&path)).expect("the file can be written"));
    }
}

#[test]
fn process_killed_while_writing_leaves_a_complete_brain() {
    let folder = Folder::new("snapshot-killed");
    let file = folder.join("brain");
    let board = small();
    let wanted = [1, 2].map(|cycles| Snapshot::new(&board, lived(&board, cycles)));
    let mut left_over = 0;
    for round in 0..12_u64 {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "snapshot::writes_brains_until_it_is_killed", "--nocapture"])
            .env(WRITER, &file)
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("it can be started again");
        while !folder.names().iter().any(|name| name == "brain") {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(20_000 + round * 7_919 % 13_000));
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let named = |name: &&String| !["brain", "brain.previous"].contains(&name.as_str());
        left_over += folder.names().iter().filter(named).count();
        for kept in [file.clone(), previous_of(&file)].iter().filter(|path| path.exists()) {
            let found = Snapshot::load(kept).expect("one of the two, complete");
            assert!(wanted.contains(&found), "round {round}");
        }
        wanted[0].save(&file).expect("the file can be written");
        assert_eq!(folder.names(), ["brain", "brain.previous"], "leftovers are removed");
    }
    println!("{left_over} of 12 were killed while writing a file");
}

/// Writes a brain for `board`, changed by `spoil`, to a complete file.
fn spoilt(path: &Path, board: &Board, spoil: impl FnOnce(&mut Live)) {
    let mut state = lived(board, 30);
    spoil(&mut state.live);
    Snapshot::new(board, state).save(path).expect("the file can be written");
}

#[test]
fn implausible_values_fall_back_to_the_previous_brain() {
    let (board, folder) = (small(), Folder::new("snapshot-nonsense"));
    let file = folder.join("brain");
    let good = Snapshot::new(&board, lived(&board, 30));
    type Spoil = fn(&mut Live);
    let spoils: [Spoil; 5] = [
        |live| live.senses.weights.fill(1.7e308),
        |live| live.senses.covariance.fill(1.7e308),
        |live| live.senses.power[0] = 1.7e308,
        |live| live.bridge[0] = 1.7e308,
        |live| live.bank.value.iter_mut().for_each(|value| *value = 1.7e308),
    ];
    for (nth, spoil) in spoils.into_iter().enumerate() {
        good.save(&file).expect("the file can be written");
        spoilt(&file, &board, spoil);
        let refused = Snapshot::load(&file).expect("whole").check(&board);
        assert!(matches!(refused, Err(SnapshotError::State(_))), "{nth}: {refused:?}");
        let found = Snapshot::find(&file, &board).expect("the previous snapshot").expect("it exists");
        assert!(found.snapshot == good && found.in_place_of.is_some(), "{nth}");
        std::fs::remove_file(previous_of(&file)).expect("it exists");
        assert!(matches!(Snapshot::find(&file, &board), Err(SnapshotError::State(_))), "{nth}");
        std::fs::remove_file(&file).expect("it exists");
        assert!(Snapshot::find(&file, &board).expect("a missing file is not an error").is_none());
    }
}

#[test]
fn a_brain_of_another_field_is_not_treated_as_damaged() {
    let (board, folder) = (small(), Folder::new("snapshot-foreign"));
    let file = folder.join("brain");
    let good = Snapshot::new(&board, lived(&board, 3));
    good.save(&previous_of(&file)).expect("the file can be written");
    let mut other = board.clone();
    other.field.shape.grid = 16;
    Snapshot::new(&other, lived(&other, 3)).save(&file).expect("the file can be written");
    good.save(&previous_of(&file)).expect("the file can be written");
    assert!(matches!(Snapshot::find(&file, &board), Err(SnapshotError::Mismatch { .. })));
    std::fs::write(&file, "a letter").expect("the file can be written");
    assert!(matches!(Snapshot::find(&file, &board), Err(SnapshotError::File(_))));
}

#[test]
fn handing_over_a_brain_allocates_nothing() {
    let (board, folder) = (small(), Folder::new("snapshot-quiet"));
    let mut engine = engine::build(&board.field);
    let given = Arc::new(engine.learned());
    let line = start_snapshot_writer(
        folder.join("brain"),
        ExistingSnapshot::Sound,
        &board,
        given,
        Beside::default(),
        |live| engine.save(live),
    );
    let (mut desk, writer) = line.expect("a thread");
    for cycle in 0..30 {
        let input = FieldInput {
            cycle,
            sensors: [0.3; MAX_SENSORS],
            reward: 0.5,
            quality: QualityLevel::WORST,
            place: None,
        };
        assert!(engine.cycle(&input).is_ok());
        let count = allocations_in(|| assert_ne!(desk.hand_over(|live| engine.save(live)), HandOver::NotNow));
        assert_eq!(count, 0, "cycle {cycle}");
        if cycle % 10 == 0 {
            assert!(writer.end(Duration::from_secs(60)).finished);
        }
    }
    let counts = writer.end(Duration::from_secs(60));
    assert!(counts.written >= 4 && counts.written + counts.skipped == 30 && counts.failed == 0);
}

fn report(arguments: &[&str]) -> serde_json::Value {
    let run = output(arguments);
    assert_eq!(run.status.code(), Some(0), "{}", err(&run));
    serde_json::from_str(out(&run).lines().last().expect("a line")).expect("JSON")
}

#[test]
fn a_restarted_robot_continues_with_its_brain() {
    let folder = Folder::new("snapshot-robot");
    let (file, brain) = (folder.path("brain"), folder.join("brain"));
    let run =
        ["run", "--clock", "sim", "--for", "3s", "--snapshot", &file, "--snapshot-every", "1s", "--json"];
    let first = report(&run);
    assert!(first["resumed_age"].is_null());
    assert!(first["snapshots"]["written"].as_u64() >= Some(1) && first["snapshots"]["failed"] == 0);
    let kept = Snapshot::load(&brain).expect("the one at the end");
    let second = report(&run);
    assert_eq!(second["resumed_age"].as_u64(), Some(kept.state().live.age));
    let later = Snapshot::load(&brain).expect("the one at the end");
    assert_eq!(later.state().live.age, 2 * kept.state().live.age, "the same number of cycles again");
    assert_eq!(later.state().live.cycle, 2 * kept.state().live.cycle + 1, "cycle numbers continue");
    assert_eq!(later.state().learned, kept.state().learned, "the read-out is the same");

    // Another robot's brain; the board fits any machine, so only the brain is refused.
    let other = folder.write("other.toml", "inherits = \"sim\"\n[field]\ngrid = 8\n");
    let other = output(&["run", "--board", &other, "--snapshot", &file]);
    assert_eq!(other.status.code(), Some(78), "{}", err(&other));
    assert!(
        err(&other).contains("the snapshot was made for") && err(&other).contains(&file),
        "{}",
        err(&other)
    );
    let mut bytes = std::fs::read(&file).expect("it exists");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&file, bytes).expect("the file can be written");
    let before = Snapshot::load(&previous_of(&brain)).expect("the previous one");
    let fallen_back = output(&run);
    assert_eq!(fallen_back.status.code(), Some(0), "{}", err(&fallen_back));
    let said = err(&fallen_back);
    assert!(
        said.contains("damaged") && said.contains("resumes from") && said.contains("brain.previous"),
        "{said}"
    );
    let said = out(&fallen_back);
    let fallen_back: serde_json::Value =
        serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    assert_eq!(fallen_back["resumed_age"].as_u64(), Some(before.state().live.age));
    for path in [brain.clone(), previous_of(&brain)] {
        let mut bytes = std::fs::read(&path).expect("it exists");
        bytes[middle] ^= 4;
        std::fs::write(&path, bytes).expect("the file can be written");
    }
    let damaged = output(&["run", "--clock", "sim", "--snapshot", &file]);
    assert_eq!(damaged.status.code(), Some(65), "{}", err(&damaged));
    assert!(err(&damaged).contains("damaged") && err(&damaged).contains(&file), "{}", err(&damaged));
    let alone = ganglion(&["run", "--snapshot-every", "1s"]).output().expect("it starts");
    assert_eq!(alone.status.code(), Some(64), "a period without a file");
}
