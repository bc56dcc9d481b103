//! How often, and after which pauses, an engine that panics or computes NaN is rebuilt; when snapshots are
//! handed over; how the worker ends.

use super::*;
use crate::base::command::Requester;
use crate::base::plan::{Board, EngineKind};
use crate::base::time::SimClock;
use crate::decision::fixture::{at, ms};
use crate::decision::motion::OdometryPose;
use crate::deploy::board::built_in;
use crate::field::Readout;
use crate::field::brain::Before;
use crate::field::engine::{Around, Cycle, FieldEngine};
use crate::field::navigate::goals::{GoalSender, Route, Task};
use crate::field::navigate::navigator::{Navigator, Options, State};
use crate::field::navigate::senses::MAX_BEAMS;
use crate::field::readout::Origin;
use crate::field::sample::board as small_board;
use crate::field::shape::READOUT_COLUMNS;
use crate::field::snapshot::{Beside, ExistingSnapshot, previous_of, start_snapshot_writer};
use crate::system::rt::triple_buffer::triple_buffer;
use std::sync::Arc;

/// A worker with a CPU engine in virtual time.
struct Rig {
    worker: FieldWorker,
    requests: Writer<FieldRequest>,
    results: Reader<FieldResult>,
    clock: Arc<SimClock>,
}

impl Rig {
    /// A worker whose engine panics during each interval of `panics` (start, end), in milliseconds.
    fn new(panics: &'static [(u64, u64)]) -> Rig {
        let mut board = small_board(8);
        (board.field.engine, board.field.cpus) = (EngineKind::Cpu, vec![3]);
        let weights = vec![0.01; 2 * READOUT_COLUMNS];
        let readout = Readout::new(&board, weights, Origin::Given).expect("two rows");
        let clock = Arc::new(SimClock::new());
        let mut brain = brain(&board, Some(&readout));
        let time = clock.clone();
        let cycle: Cycle<dyn FieldEngine> = Box::new(move |engine, input| {
            let now = time.now();
            assert!(!panics.iter().any(|(from, until)| (at(*from)..at(*until)).contains(&now)), "planned");
            engine.cycle(input)
        });
        brain.engine = Box::new(Around::new(brain.engine, cycle));
        let (requests, taken) = triple_buffer(FieldRequest::EMPTY);
        let (put, results) = triple_buffer(FieldResult::EMPTY);
        let worker = FieldWorker::new(brain, taken, put);
        Rig { worker, requests, results, clock }
    }

    fn request(&mut self, quality: QualityLevel, now: Instant) -> FieldResult {
        self.request_with(FieldRequest { quality, slot: now, ..FieldRequest::EMPTY })
    }

    fn request_with(&mut self, request: FieldRequest) -> FieldResult {
        self.clock.set(request.slot);
        self.requests.put(request);
        self.worker.step(self.clock.as_ref());
        self.worker.publish(self.clock.as_ref());
        self.results.take().expect("each request is answered")
    }

    /// Sends a request every 100 ms up to `until`. Returns the changes of state: when, and to which state.
    fn changes(&mut self, from: u64, until: u64) -> Vec<(u64, EngineState)> {
        let mut changes = Vec::new();
        for now in (from..until).step_by(100) {
            let result = self.request(QualityLevel::WORST, at(now));
            let state = result.state;
            assert_eq!(result.response.is_some(), state == EngineState::Running, "at {now} ms");
            if changes.last().is_none_or(|(_, last)| *last != state) {
                changes.push((now, state));
            }
        }
        changes
    }
}

fn brain(board: &Board, readout: Option<&Readout>) -> Brain {
    Brain::new(board, readout, None, Before::default(), Arc::new(SimClock::new())).expect("a valid board")
}

fn rebuilding(attempt: u32) -> EngineState {
    EngineState::Rebuilding { attempt }
}

#[test]
fn panicking_engine_is_rebuilt_3_times_with_doubling_pauses() {
    let mut rig = Rig::new(&[(1_000, 61_000)]);
    let changes = rig.changes(0, 20_000);
    let expected = [
        (0, EngineState::Running),
        (1_000, rebuilding(1)),
        (1_500, rebuilding(2)),
        (2_500, rebuilding(3)),
        (4_500, EngineState::Retired),
    ];
    assert_eq!(changes, expected);
}

#[test]
fn rebuild_budget_resets_after_60_s() {
    // The third panic is exactly 60 s after the second, the fourth more than 60 s after the third.
    let mut rig = Rig::new(&[(1_000, 1_050), (3_000, 3_050), (63_000, 63_050), (123_100, 123_150)]);
    let changes = rig.changes(0, 125_000);
    let expected = [
        (0, EngineState::Running),
        (1_000, rebuilding(1)),
        (1_500, EngineState::Running),
        (3_000, rebuilding(2)),
        (4_000, EngineState::Running),
        (63_000, rebuilding(3)),
        (65_000, EngineState::Running),
        (123_100, rebuilding(1)),
        (123_600, EngineState::Running),
    ];
    assert_eq!(changes, expected);
}

#[test]
fn one_snapshot_is_handed_over_per_interval_and_one_at_the_end() {
    let mut rig = Rig::new(&[]);
    let path = std::env::temp_dir().join(format!("ganglion-worker-{}", std::process::id()));
    let board = small_board(8);
    let learned = rig.worker.brain.learned.clone();
    let (sender, writer) = start_snapshot_writer(
        path.clone(),
        ExistingSnapshot::Sound,
        &board,
        learned,
        Beside::default(),
        |_| true,
    )
    .expect("a thread");
    rig.worker = rig.worker.with_snapshots([Some(SnapshotSchedule::new(sender, ms(1_000))), None]);
    for now in (0..3_500).step_by(100) {
        rig.clock.set(at(now));
        rig.requests.put(FieldRequest { slot: at(now), ..FieldRequest::EMPTY });
        assert_eq!(rig.worker.step(rig.clock.as_ref()), at(now), "one more step after the result");
        rig.worker.publish(rig.clock.as_ref());
        assert_eq!(rig.worker.step(rig.clock.as_ref()), Instant::NEVER);
    }
    assert!(rig.worker.finish(rig.clock.as_ref()));
    let counts = writer.end(Duration::from_secs(60));
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_file(previous_of(&path));
    // Snapshots are due after 1, 2 and 3 s and at the end; on a slow disk, some may be skipped.
    assert_eq!((counts.written + counts.skipped, counts.failed), (4, 0), "{counts:?}");
}

#[test]
fn engine_that_computes_nan_is_stopped_and_rebuilt() {
    for engine in [EngineKind::Reference, EngineKind::Cpu] {
        let mut rig = Rig::new(&[]);
        let mut board = small_board(8);
        board.field.engine = engine;
        board.field.params.explore = f64::NAN; // makes the motors NaN
        rig.worker.brain = brain(&board, None);
        let result = rig.request(QualityLevel::BEST, at(0));
        assert!(result.response.is_none(), "{engine:?}: {:?}", result.response);
        assert_eq!(result.state, rebuilding(1), "{engine:?}");
        assert_eq!(rig.request(QualityLevel::BEST, at(600)).state, rebuilding(2), "{engine:?}");
    }
}

#[test]
fn worker_has_its_name_and_core_and_ends() {
    let mut rig = Rig::new(&[]);
    assert_eq!((rig.worker.name(), rig.worker.core()), ("field", Some(3)));
    assert!(!rig.worker.has_motors());
    let clock = SimClock::new();
    assert!(rig.worker.finish(&clock), "the worker has no motors that could fail to stop");
}

/// A navigator for the board `barn`, the sender of its orders, and its input in an empty place.
fn goals(task: Task) -> (GoalStage, GoalSender, NavigationInput) {
    let board = built_in("barn").unwrap().unwrap().board;
    let navigator = Navigator::of(&board, Options::default()).expect("it has a navigator");
    let (stage, orders) = GoalStage::of(&board, Box::new(navigator), task, 1).expect("it moves");
    let input = NavigationInput {
        pose: OdometryPose::default(),
        turns_measured: None,
        ranges: [9.0; MAX_BEAMS],
        armed: true,
    };
    (stage, orders, input)
}

#[test]
fn an_order_outlasts_an_engine_that_is_rebuilt() {
    for task in [Task::Behave(0), Task::Go(Route::try_from(vec![[3.0, 0.0]]).unwrap())] {
        let mut rig = Rig::new(&[(1_000, 1_050)]);
        let (stage, _orders, input) = goals(task);
        rig.worker.goals = Some(stage);
        let mut at_ms = |slot| {
            let request = FieldRequest { slot: at(slot), navigation: Some(input), ..FieldRequest::EMPTY };
            let result = rig.request_with(request);
            (result.state, result.response.is_some(), result.goal.map(|goal| goal.requester))
        };
        let before = at_ms(900);
        assert_eq!((before.0, before.1), (EngineState::Running, true));
        assert_ne!(before.2, Some(Requester::Field));
        assert_eq!(at_ms(1_000), (rebuilding(1), false, before.2));
        assert_eq!(at_ms(1_100), (rebuilding(1), false, None), "it pauses");
        assert_eq!(at_ms(1_500), before);
    }
}

#[test]
fn a_result_says_who_made_the_motor_request() {
    let (stage, orders, input) = goals(Task::Wander);
    let mut rig = Rig::new(&[]);
    rig.worker.goals = Some(stage);
    let mut alone = Rig::new(&[]);
    let mut both = |cycle| {
        let slot = at(100 * cycle);
        let request = FieldRequest { cycle, slot, navigation: Some(input), ..FieldRequest::EMPTY };
        let navigated = rig.request_with(request);
        let field = alone.request_with(FieldRequest { navigation: None, ..request });
        let motors = [&navigated, &field].map(|result| result.response.expect("an answer").motors);
        (navigated.requester(), navigated.goal.expect("a report"), motors)
    };
    let (requester, _, [motors, of_field]) = both(1);
    assert_eq!((requester, motors), (Requester::Field, of_field));
    assert_ne!(of_field[..2], [0.0; 2]);
    orders.order(Task::Stand);
    let (requester, report, [motors, of_field]) = both(2);
    assert_eq!((requester, report.state), (Requester::StandOrder, State::Standing));
    assert_eq!((&motors[..2], &motors[2..]), (&[0.0; 2][..], &of_field[2..]));
    orders.order(Task::Go(Route::try_from(vec![[3.0, 0.0]]).unwrap()));
    let found: Vec<_> = (3..13).map(&mut both).collect();
    assert!(found.iter().all(|(requester, ..)| *requester == Requester::Navigator));
    let (_, report, [motors, _]) = found[9];
    assert!(motors[..2].iter().all(|motor| *motor > 0.0), "{motors:?}");
    assert_eq!(report.state, State::Going);
    orders.order(Task::Behave(0));
    let (requester, ..) = both(13);
    assert_eq!(requester, Requester::Behaviour(0));
    orders.order(Task::Wander);
    let (requester, report, [motors, of_field]) = both(14);
    assert_eq!((requester, motors, report.state), (Requester::Field, of_field, State::Idle));
}
