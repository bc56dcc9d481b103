//! A disk that stalls, and brains that must not be written.

use super::*;
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::{FieldPlan, QualityLevel};
use crate::field::sample::board as small_board;
use crate::field::snapshot::{Snapshot, previous_of};
use crate::field::state::State;
use crate::field::{FieldInput, engine};
use std::path::Path;

fn run_for(plan: &FieldPlan, cycles: u64) -> State {
    let mut engine = engine::build(plan);
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

const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn a_busy_writer_skips_a_snapshot_without_waiting() {
    let board = small_board(8);
    let state = run_for(&board.field, 5);
    let fill = |live: &mut Live| {
        live.clone_from(&state.live);
        true
    };
    // A disk that stalls until the test releases it; its first write fails.
    let (release, stalls) = bounded::<()>(0);
    let (wrote, written) = bounded(8);
    let write = move |live: &Live, _: &mut Vec<u8>| {
        let first = stalls.recv().is_ok();
        let _ = wrote.send(live.clone());
        if first {
            Err(codec::FileError::Io { path: "disk".into(), error: std::io::ErrorKind::Other.into() })?
        }
        Ok(())
    };
    let (mut sender, writer) =
        start(&board, Buffers { count: BUFFERS, bytes: 0, thread: "snapshot" }, fill, write)
            .expect("a thread");
    for _ in 0..5 {
        assert_ne!(sender.hand_over(fill), HandOver::NotNow);
    }
    let counts = writer.counts();
    assert_eq!((counts.written, counts.skipped, counts.finished), (0, 3, false), "only two buffers");
    release.send(()).expect("the writer waits");
    drop(release);
    let counts = writer.end(TIMEOUT);
    assert_eq!((counts.failed, counts.unsound, counts.written, counts.finished), (1, 0, 1, true));
    assert!(counts.trouble.is_some_and(|trouble| trouble.contains("disk")));
    assert!(written.try_iter().all(|live| live == state.live));
    assert_eq!(sender.hand_over(|_| false), HandOver::NotNow);
    assert_eq!(writer.counts().skipped, 3);
}

#[test]
fn snapshots_for_a_writer_that_panicked_have_failed() {
    let (alive, gone) = bounded::<()>(0);
    let write = move |_: &Live, _: &mut Vec<u8>| {
        let _ = &alive; // dropped by the panic, after the thread's end of the queue
        panic!("a bug")
    };
    let buffers = Buffers { count: BUFFERS, bytes: 0, thread: "snapshot" };
    let (mut sender, writer) = start(&small_board(8), buffers, |_| true, write).expect("a thread");
    assert_eq!(sender.hand_over(|_| true), HandOver::Given);
    assert!(gone.recv().is_err());
    assert_eq!(sender.hand_over(|_| true), HandOver::Given);
    assert_eq!(sender.hand_over(|_| true), HandOver::Skipped, "both buffers are lost");
    let counts = writer.counts();
    assert_eq!((counts.written, counts.failed, counts.skipped, counts.finished), (0, 1, 1, false));
}

/// A temporary snapshot path, and the path of the previous snapshot beside it.
struct Spot(PathBuf);

impl Spot {
    fn new(name: &str) -> Spot {
        Spot(std::env::temp_dir().join(format!("ganglion-writer-{name}-{}", std::process::id())))
    }
    fn line(&self, existing: ExistingSnapshot, state: &State) -> (SnapshotSender, SnapshotWriter) {
        let learned = Arc::new(state.learned.clone());
        start_snapshot_writer(self.0.clone(), existing, &small_board(8), learned, Beside::default(), |_| true)
            .expect("a thread")
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(previous_of(&self.0));
    }
}

fn hand_over(sender: &mut SnapshotSender, writer: &SnapshotWriter, live: &Live) -> SnapshotCounts {
    let fill = |to: &mut Live| {
        to.clone_from(live);
        true
    };
    assert_eq!(sender.hand_over_last(TIMEOUT, fill), HandOver::Given);
    writer.end(TIMEOUT)
}

fn age(path: &Path) -> u64 {
    Snapshot::load(path).expect("it is there and whole").state().live.age
}

#[test]
fn unusable_brain_is_not_written_and_is_counted() {
    let (board, spot) = (small_board(8), Spot::new("unsound"));
    let state = run_for(&board.field, 5);
    let (mut sender, writer) = spot.line(ExistingSnapshot::Sound, &state);
    assert_eq!(hand_over(&mut sender, &writer, &state.live).written, 1);
    for nonsense in [1.7e308, f64::NAN, -1e200] {
        let mut spoilt = state.live.clone();
        spoilt.senses.weights[3] = nonsense;
        hand_over(&mut sender, &writer, &spoilt);
        assert_eq!(age(&spot.0), 5, "the last good one stays");
    }
    let counts = writer.counts();
    assert_eq!((counts.written, counts.failed, counts.unsound), (1, 3, 3));
    assert!(counts.trouble.is_some_and(|trouble| trouble.contains("weights of the prediction")));
    assert_eq!(hand_over(&mut sender, &writer, &run_for(&board.field, 6).live).written, 2);
    assert_eq!((age(&spot.0), age(&previous_of(&spot.0))), (6, 5));
}

#[test]
fn snapshot_refused_at_start_does_not_replace_the_previous_one() {
    let (board, spot) = (small_board(8), Spot::new("refused"));
    let states = [5, 6, 7].map(|cycles| run_for(&board.field, cycles));
    Snapshot::new(&board, states[0].clone()).save(&previous_of(&spot.0)).expect("it can be written");
    std::fs::write(&spot.0, "damaged").expect("it can be written");
    let (mut sender, writer) = spot.line(ExistingSnapshot::Refused, &states[0]);
    assert_eq!(hand_over(&mut sender, &writer, &states[1].live).written, 1);
    assert_eq!((age(&spot.0), age(&previous_of(&spot.0))), (6, 5));
    assert_eq!(hand_over(&mut sender, &writer, &states[2].live).written, 2);
    assert_eq!((age(&spot.0), age(&previous_of(&spot.0))), (7, 6));
}
