//! A device that is lost on cue: the brain's state before and after, the pauses, what is passed on.

use super::super::brain::{Before, Brain};
use super::*;
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::{Board, EngineKind, QualityLevel};
use crate::base::time::SimClock;
use crate::field::engine::{self, Inspect};
use crate::field::readout::Origin;
use crate::field::sample::board as small_board;
use crate::field::sensor_ring::SensorWriter;
use crate::field::shape::READOUT_COLUMNS;
use crate::field::worker::{FieldRequest, FieldResult, FieldWorker};
use crate::field::{DeviceTimes, Readout};
use crate::system::executor::Worker;
use crate::system::rt::triple_buffer::{Reader, Writer, triple_buffer};
use std::sync::Mutex;

/// What a scripted device is to do, and what it has been through.
#[derive(Default)]
struct Script {
    /// The next cycle loses it.
    strike: Option<Loss>,
    /// The next cycle panics.
    panics: bool,
    /// What opening answers, where it does not succeed.
    shut: Option<Loss>,
    /// Saving is not possible just now.
    busy: bool,
    opened: u32,
    cycles: u32,
    saves: u32,
    /// Where it says that the time of a cycle went.
    times: Option<DeviceTimes>,
    /// The numbers of the cycles that it was given a state of.
    restored: Vec<u64>,
}

type Shared = Arc<Mutex<Script>>;

/// The f32 engine in the place of a GPU's: within a cycle it is the same, so results can be compared bit for
/// bit.
struct Scripted {
    engine: Box<dyn Inspect>,
    script: Shared,
}

impl FieldEngine for Scripted {
    fn name(&self) -> String {
        "scripted".to_string()
    }
    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, Failure> {
        let (strike, panics) = {
            let mut script = self.script.lock().unwrap();
            script.cycles += 1;
            (script.strike.take(), std::mem::take(&mut script.panics))
        };
        assert!(!panics, "as the script has it");
        match strike {
            Some(loss) => Err(loss.into()),
            None => self.engine.cycle(input),
        }
    }
    fn save(&mut self, live: &mut Live) -> bool {
        let mut script = self.script.lock().unwrap();
        if script.busy {
            live.whole.fill(f32::NAN); // what is in it is of no use
            return false;
        }
        script.saves += 1;
        self.engine.save(live)
    }
    fn restore(&mut self, live: &Live) -> Result<(), StateError> {
        self.script.lock().unwrap().restored.push(live.cycle);
        self.engine.restore(live)
    }
    fn load(&mut self, learned: &Learned) -> Result<(), StateError> {
        self.engine.load(learned)
    }
    fn rest(&mut self) {
        self.engine.rest();
    }
    fn condition(&self, _now: Instant) -> Condition {
        Condition { times: self.script.lock().unwrap().times, ..Condition::default() }
    }
}

fn opener(script: &Shared) -> Open {
    let script = script.clone();
    Box::new(move |plan, _| {
        let mut told = script.lock().unwrap();
        if let Some(loss) = told.shut {
            return Err(loss);
        }
        told.opened += 1;
        Ok(Box::new(Scripted { engine: engine::build(&on_cpu(plan)), script: script.clone() }))
    })
}

fn input(cycle: u64) -> FieldInput {
    let mut sensors = [0.0; MAX_SENSORS];
    for (i, sensor) in sensors.iter_mut().enumerate() {
        *sensor = (0.8 * (cycle as f64 * (0.1 + 0.03 * i as f64)).sin()) as f32;
    }
    FieldInput { cycle, sensors, reward: 0.0, quality: QualityLevel::BEST, place: None }
}

/// A worker with a scripted device in virtual time, 20 cycles a second.
struct Rig {
    worker: FieldWorker,
    orders: Writer<FieldRequest>,
    sensors: SensorWriter,
    outcomes: Reader<FieldResult>,
    clock: Arc<SimClock>,
    script: Shared,
    cycle: u64,
}

impl Rig {
    fn new() -> Rig {
        Rig::with(Shared::default())
    }

    fn with(script: Shared) -> Rig {
        let open = opener(&script);
        Rig::opened(script, open)
    }

    fn opened(script: Shared, open: Open) -> Rig {
        let clock = Arc::new(SimClock::new());
        let brain = brain(&small_board(8), open, clock.clone());
        let (orders, taken) = triple_buffer(FieldRequest::EMPTY);
        let (put, outcomes) = triple_buffer(FieldResult::EMPTY);
        let sensors = SensorWriter::new(brain.sensors.clone());
        let worker = FieldWorker::new(brain, taken, put);
        Rig { worker, orders, sensors, outcomes, clock, script, cycle: 0 }
    }

    /// One cycle at its time, and what is done after it.
    fn turn(&mut self) -> FieldResult {
        let now = Instant::ZERO + Span::from_millis(50).times(self.cycle);
        self.clock.set(now);
        let FieldInput { cycle, sensors, quality, .. } = input(self.cycle);
        let (place, ()) = self
            .sensors
            .write(|put| sensors.iter().enumerate().for_each(|(sensor, value)| put(sensor, *value)));
        self.orders.put(FieldRequest { cycle, place, quality, slot: now });
        self.cycle += 1;
        self.worker.step(self.clock.as_ref());
        self.worker.publish(self.clock.as_ref());
        self.worker.step(self.clock.as_ref());
        self.outcomes.take().expect("each order is answered")
    }

    fn turns(&mut self, count: u64) -> FieldResult {
        (0..count).map(|_| self.turn()).last().expect("some")
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// Looks after the device until the opener, which is a real thread, has answered.
    fn await_opener(&mut self) {
        let until = std::time::Instant::now() + Duration::from_secs(60);
        let under_way = |rig: &mut Rig| {
            rig.worker.step(rig.clock.as_ref());
            matches!(rig.worker.fares(rig.clock.now()), EngineState::StandIn { left: Span::ZERO, .. })
        };
        while under_way(self) {
            assert!(std::time::Instant::now() < until, "the opener never answers");
            thread::yield_now();
        }
    }
}

fn on_cpu(plan: &FieldPlan) -> FieldPlan {
    FieldPlan { engine: EngineKind::Cpu, ..plan.clone() }
}

fn readout(board: &Board) -> Readout {
    let weights = (0..2 * READOUT_COLUMNS).map(|i| (i * 7919 % 101) as f32 / 1000.0 - 0.05);
    Readout::new(board, weights.collect(), Origin::Given).expect("two rows")
}

fn brain(board: &Board, open: Open, clock: Arc<SimClock>) -> Brain {
    let before = Before { device: Some(open), ..Before::default() };
    Brain::new(board, Some(&readout(board)), None, before, clock).expect("it can be built")
}

/// An engine that nothing happens to.
fn judge() -> Box<dyn Inspect> {
    let board = small_board(8);
    let mut judge = engine::build(&on_cpu(&board.field));
    assert!(judge.set_readout(readout(&board).weights()));
    judge
}

#[test]
fn device_name_and_times_are_reported_while_it_computes() {
    let script = Shared::default();
    let times = DeviceTimes { kernels: Span::from_micros(70), ..DeviceTimes::default() };
    script.lock().unwrap().times = Some(times);
    let named = brain(&small_board(8), opener(&script), Arc::default()).engine.name();
    assert!(named.starts_with("scripted; ") && named.ends_with(" on standby"), "{named}");
    let mut rig = Rig::with(script);
    assert_eq!(rig.turn().times, Some(times));
    rig.script().strike = Some(LOST);
    assert_eq!(rig.turn().times, None, "the processor computed that one");
}

const LOST: Loss = Loss::ContextLost { call: "launch" };

#[test]
fn cpu_continues_from_the_last_good_state_with_the_same_request() {
    let mut rig = Rig::new();
    rig.turns(45);
    assert_eq!(rig.script().saves, 2, "after 20 cycles and after 40");
    rig.script().strike = Some(LOST);
    let outcome = rig.turn();
    let left = Span::from_millis(500);
    assert_eq!(outcome.state, EngineState::StandIn { loss: LOST, attempt: 1, left });
    assert_eq!(outcome.device, DeviceCounters { losses: 1, takeovers: 1, retries: 0 });
    // What an engine says that was at cycle 40 and then was given this order.
    let mut judge = judge();
    (0..40).for_each(|cycle| assert!(judge.cycle(&input(cycle)).is_ok()));
    let expected = judge.cycle(&input(45)).expect("in range");
    let response = outcome.response.expect("the order was computed");
    assert_eq!((response.cycle, response.skill, response.novelty), (45, expected.skill, expected.novelty));
    assert_eq!(response.scores, expected.scores);
    let mut next = rig.turn().response.expect("and so are the next");
    let expected = judge.cycle(&input(46)).expect("in range");
    next.motors = expected.motors; // decided by label here
    assert_eq!(format!("{next:?}"), format!("{expected:?}"));
    assert_eq!(rig.script().cycles, 46, "the lost one is not asked again");
}

#[test]
fn a_returning_device_takes_over_the_cpus_state() {
    let mut rig = Rig::new();
    rig.turns(5);
    rig.script().strike = Some(LOST);
    rig.turns(10);
    assert_eq!(rig.script().opened, 1, "the pause is half a second");
    rig.turn();
    rig.await_opener();
    assert_eq!(rig.script().opened, 2);
    let last = rig.cycle - 1;
    assert_eq!(rig.script().restored.last(), Some(&last), "with all that the CPU has lived through since");
    let outcome = rig.turn();
    assert_eq!(outcome.state, EngineState::Running);
    assert_eq!(outcome.device, DeviceCounters { losses: 1, takeovers: 1, retries: 1 });
    // No cycle was left out by either: the same as one engine that lost the five before the first save.
    let mut judge = judge();
    (5..=last).for_each(|cycle| assert!(judge.cycle(&input(cycle)).is_ok()));
    let expected = judge.cycle(&input(rig.cycle - 1)).expect("in range");
    let response = outcome.response.expect("computed");
    assert_eq!((response.scores, response.skill), (expected.scores, expected.skill));
}

#[test]
fn pauses_double_to_a_minute_and_reset_after_a_good_minute() {
    let mut rig = Rig::new();
    rig.turns(3);
    rig.script().shut = Some(Loss::Memory { call: "open" });
    rig.script().strike = Some(LOST);
    let mut pauses = Vec::new();
    while pauses.len() < 9 {
        let EngineState::StandIn { left, attempt, .. } = rig.turn().state else { panic!("it is lost") };
        assert_eq!(attempt as usize, pauses.len() + 1);
        pauses.push(left.as_nanos() / 1_000_000);
        // The next attempt begins when the pause is over.
        rig.cycle += left.as_nanos() / 50_000_000;
        rig.turn();
        rig.await_opener();
    }
    // From the moment of the failure; it is looked at in the cycle after, 50 ms later, but for the first.
    assert_eq!(pauses, [500, 950, 1950, 3950, 7950, 15_950, 31_950, 59_950, 59_950]);
    rig.script().shut = None;
    let EngineState::StandIn { left, loss, .. } = rig.turn().state else { panic!("it is lost") };
    assert_eq!(loss, Loss::Memory { call: "open" });
    rig.cycle += left.as_nanos() / 50_000_000 + 1;
    rig.turn();
    rig.await_opener();
    assert_eq!(rig.turn().state, EngineState::Running);
    rig.script().strike = Some(LOST);
    let EngineState::StandIn { left, .. } = rig.turn().state else { panic!("it is lost") };
    assert_eq!(left, Span::from_millis(60_000), "too soon to be forgiven");
    rig.cycle += 1200;
    rig.turn();
    rig.await_opener();
    rig.cycle += 1199; // a minute after it was opened, and no more
    rig.script().strike = Some(LOST);
    let EngineState::StandIn { left, .. } = rig.turn().state else { panic!("it is lost") };
    assert_eq!(left, Span::from_millis(60_000), "not forgiven yet");
    rig.cycle += 1200;
    rig.turn();
    rig.await_opener();
    rig.cycle += 1200; // a cycle more
    rig.script().strike = Some(LOST);
    let EngineState::StandIn { left, attempt, .. } = rig.turn().state else { panic!("it is lost") };
    assert_eq!((left, attempt), (Span::from_millis(500), 1), "forgiven");
}

#[test]
fn without_the_device_the_cpu_starts_and_keeps_retrying() {
    let script = Shared::default();
    script.lock().unwrap().shut = Some(Loss::Memory { call: "open" });
    let mut rig = Rig::with(script);
    let outcome = rig.turn();
    assert!(outcome.response.is_some());
    assert!(matches!(outcome.state, EngineState::StandIn { loss: Loss::Memory { .. }, .. }));
    assert_eq!(outcome.device, DeviceCounters::default(), "what never was there is not lost");
    rig.script().shut = None;
    rig.turns(12);
    rig.await_opener();
    assert_eq!(rig.turn().state, EngineState::Running);
}

#[test]
fn a_hanging_open_blocks_no_other_thread() {
    let (release, hung) = bounded::<()>(0);
    let script = Shared::default();
    let (first, told) = (Mutex::new(true), script.clone());
    let open: Open = Box::new(move |plan, sensors| {
        if !std::mem::take(&mut *first.lock().unwrap()) {
            let _ = hung.recv();
        }
        opener(&told)(plan, sensors)
    });
    let mut rig = Rig::opened(script, open);
    rig.turns(3);
    rig.script().strike = Some(LOST);
    for _ in 0..400 {
        assert!(rig.turn().response.is_some(), "the CPU computes meanwhile");
    }
    let outcome = rig.turn();
    assert_eq!(outcome.state, EngineState::StandIn { loss: LOST, attempt: 1, left: Span::ZERO });
    assert_eq!(outcome.device.retries, 1, "no second opener follows it");
    drop(release);
    rig.await_opener();
    assert_eq!(rig.turn().state, EngineState::Running);
}

#[test]
fn device_panic_is_a_loss_and_uses_no_rebuild() {
    let mut rig = Rig::new();
    rig.turns(3);
    rig.script().panics = true;
    // A lock that a panic has poisoned would fail the test elsewhere: the script lets go of it first.
    let outcome = rig.turn();
    assert!(outcome.response.is_none());
    assert!(matches!(outcome.state, EngineState::StandIn { loss: Loss::Panicked, attempt: 1, .. }));
    assert!(rig.turn().response.is_some());
}

#[test]
fn deferred_save_is_requested_again() {
    let mut rig = Rig::new();
    rig.turns(22);
    rig.script().busy = true;
    rig.turns(30);
    assert_eq!(rig.script().saves, 1);
    rig.script().strike = Some(LOST);
    let response = rig.turn().response.expect("from the save after 20 cycles");
    let mut judge = judge();
    (0..20).for_each(|cycle| assert!(judge.cycle(&input(cycle)).is_ok()));
    assert_eq!(response.scores, judge.cycle(&input(52)).expect("in range").scores);
}

#[test]
fn a_request_that_is_too_old_by_then_is_not_computed() {
    /// A cycle of it takes a period.
    struct Late(Failure, Arc<SimClock>, Span);
    impl FieldEngine for Late {
        fn name(&self) -> String {
            "late".to_string()
        }
        fn cycle(&mut self, _: &FieldInput) -> Result<FieldOutput, Failure> {
            self.1.set(self.1.now() + self.2);
            Err(self.0)
        }
        fn save(&mut self, _: &mut Live) -> bool {
            false
        }
        fn restore(&mut self, _: &Live) -> Result<(), StateError> {
            Ok(())
        }
        fn load(&mut self, _: &Learned) -> Result<(), StateError> {
            Ok(())
        }
        fn rest(&mut self) {}
    }
    let late = Loss::Timeout { call: "wait" };
    // An answer that is no number is no better than none.
    for (failure, loss) in [(late.into(), late), (Failure::NotFinite, Loss::NotFinite)] {
        let (board, clock) = (small_board(8), Arc::new(SimClock::new()));
        let (time, dt) = (clock.clone(), board.field.dt);
        let open: Open = Box::new(move |_, _| Ok(Box::new(Late(failure, time.clone(), dt))));
        let mut engine = brain(&board, open, clock).engine;
        let answer = engine.cycle(&input(0));
        assert_eq!(answer.map(|_| ()), Err(Failure::Lost(loss)));
        assert!(engine.cycle(&input(1)).is_ok());
        let mut live = Live::default();
        assert!(engine.save(&mut live) && live.age == 1);
    }
}
