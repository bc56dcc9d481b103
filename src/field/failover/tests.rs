//! A device that is lost on cue: the brain's state before and after, the pauses, what is reported.

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
use crate::field::slices::{NewestSlices, SliceSchedule};
use crate::field::worker::{FieldRequest, FieldResult, FieldWorker};
use crate::field::{DeviceTimes, Readout};
use crate::system::executor::Worker;
use crate::system::rt::triple_buffer::{Reader, Writer, triple_buffer};
use std::sync::Mutex;

/// What a scripted device should do, and what happened to it.
#[derive(Default)]
struct Script {
    /// The device is lost in the next cycle.
    strike: Option<Loss>,
    /// The next cycle panics.
    panics: bool,
    /// The error with which opening it fails; `None`: opening succeeds.
    shut: Option<Loss>,
    /// It cannot save at the moment.
    busy: bool,
    opened: u32,
    cycles: u32,
    saves: u32,
    /// The times of a cycle's parts, as it reports them.
    times: Option<DeviceTimes>,
    /// The cycle numbers of the states that it was given.
    restored: Vec<u64>,
}

type Shared = Arc<Mutex<Script>>;

/// The CPU engine in place of a GPU's: it computes the same cycles, so results can be compared bit for bit.
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
        assert!(!panics, "scripted");
        match strike {
            Some(loss) => Err(loss.into()),
            None => self.engine.cycle(input),
        }
    }
    fn save(&mut self, live: &mut Live) -> bool {
        let mut script = self.script.lock().unwrap();
        if script.busy {
            live.whole.fill(f32::NAN); // its contents must not be used
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
    fn reset(&mut self) {
        self.engine.reset();
    }
    fn condition(&self, _now: Instant) -> Condition {
        Condition { times: self.script.lock().unwrap().times, ..Condition::default() }
    }
}

fn opener(script: &Shared) -> Open {
    let script = script.clone();
    Box::new(move |plan, _| {
        let mut scripted = script.lock().unwrap();
        if let Some(loss) = scripted.shut {
            return Err(loss);
        }
        scripted.opened += 1;
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
    results: Reader<FieldResult>,
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
        let (put, results) = triple_buffer(FieldResult::EMPTY);
        let sensors = SensorWriter::new(brain.sensors.clone());
        let worker = FieldWorker::new(brain, taken, put);
        Rig { worker, orders, sensors, results, clock, script, cycle: 0 }
    }

    /// Runs one cycle at its time, and the maintenance after it.
    fn run_cycle(&mut self) -> FieldResult {
        let now = Instant::ZERO + Span::from_millis(50).times(self.cycle);
        self.clock.set(now);
        let FieldInput { cycle, sensors, quality, .. } = input(self.cycle);
        let (place, ()) = self
            .sensors
            .write(|put| sensors.iter().enumerate().for_each(|(sensor, value)| put(sensor, *value)));
        self.orders.put(FieldRequest { cycle, place, quality, slot: now, navigation: None });
        self.cycle += 1;
        self.worker.step(self.clock.as_ref());
        self.worker.publish(self.clock.as_ref());
        self.worker.step(self.clock.as_ref());
        self.results.take().expect("each request is answered")
    }

    fn run_cycles(&mut self, count: u64) -> FieldResult {
        (0..count).map(|_| self.run_cycle()).last().expect("at least one cycle")
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// Calls `maintain` until the opener, which is a real thread, has answered.
    fn await_opener(&mut self) {
        let until = std::time::Instant::now() + Duration::from_secs(60);
        let under_way = |rig: &mut Rig| {
            rig.worker.step(rig.clock.as_ref());
            matches!(rig.worker.engine_state(rig.clock.now()), EngineState::StandIn { left: Span::ZERO, .. })
        };
        while under_way(self) {
            assert!(std::time::Instant::now() < until, "the opener did not answer");
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

/// An undisturbed engine to compare with.
fn expected_engine() -> Box<dyn Inspect> {
    let board = small_board(8);
    let mut expected_engine = engine::build(&on_cpu(&board.field));
    assert!(expected_engine.set_readout(readout(&board).weights()));
    expected_engine
}

#[test]
fn device_name_and_times_are_reported_while_it_computes() {
    let script = Shared::default();
    let times = DeviceTimes { kernels: Span::from_micros(70), ..DeviceTimes::default() };
    script.lock().unwrap().times = Some(times);
    let named = brain(&small_board(8), opener(&script), Arc::default()).engine.name();
    assert!(named.starts_with("scripted; ") && named.ends_with(" on standby"), "{named}");
    let mut rig = Rig::with(script);
    assert_eq!(rig.run_cycle().times, Some(times));
    rig.script().strike = Some(LOST);
    assert_eq!(rig.run_cycle().times, None, "the CPU computed this cycle");
}

const LOST: Loss = Loss::ContextLost { call: "launch" };

#[test]
fn cpu_continues_from_the_last_good_state_with_the_same_request() {
    let mut rig = Rig::new();
    rig.run_cycles(45);
    assert_eq!(rig.script().saves, 2, "after 20 cycles and after 40");
    rig.script().strike = Some(LOST);
    let result = rig.run_cycle();
    let left = Span::from_millis(500);
    assert_eq!(result.state, EngineState::StandIn { loss: LOST, attempt: 1, left });
    assert_eq!(result.device, DeviceCounters { losses: 1, takeovers: 1, retries: 0 });
    // The answer of an engine that was at cycle 40 and then got this input.
    let mut expected_engine = expected_engine();
    (0..40).for_each(|cycle| assert!(expected_engine.cycle(&input(cycle)).is_ok()));
    let expected = expected_engine.cycle(&input(45)).expect("in range");
    let response = result.response.expect("the input was computed");
    assert_eq!((response.cycle, response.skill, response.novelty), (45, expected.skill, expected.novelty));
    assert_eq!(response.scores, expected.scores);
    let mut next = rig.run_cycle().response.expect("the next input was computed too");
    let expected = expected_engine.cycle(&input(46)).expect("in range");
    next.motors = expected.motors; // in `next`, the motors are those of the chosen label
    assert_eq!(format!("{next:?}"), format!("{expected:?}"));
    assert_eq!(rig.script().cycles, 46, "the lost device is not called again");
}

#[test]
fn reopened_device_gets_the_cpus_state() {
    let mut rig = Rig::new();
    rig.run_cycles(5);
    rig.script().strike = Some(LOST);
    rig.run_cycles(10);
    assert_eq!(rig.script().opened, 1, "the pause is half a second");
    rig.run_cycle();
    rig.await_opener();
    assert_eq!(rig.script().opened, 2);
    let last = rig.cycle - 1;
    assert_eq!(rig.script().restored.last(), Some(&last), "the state includes everything since the loss");
    let result = rig.run_cycle();
    assert_eq!(result.state, EngineState::Running);
    assert_eq!(result.device, DeviceCounters { losses: 1, takeovers: 1, retries: 1 });
    // Neither engine skipped a cycle: the result equals that of one engine that missed only the first five
    // cycles.
    let mut expected_engine = expected_engine();
    (5..=last).for_each(|cycle| assert!(expected_engine.cycle(&input(cycle)).is_ok()));
    let expected = expected_engine.cycle(&input(rig.cycle - 1)).expect("in range");
    let response = result.response.expect("computed");
    assert_eq!((response.scores, response.skill), (expected.scores, expected.skill));
}

#[test]
fn pauses_double_to_60_s_and_reset_after_60_s_of_work() {
    let mut rig = Rig::new();
    rig.run_cycles(3);
    rig.script().shut = Some(Loss::Memory { call: "open" });
    rig.script().strike = Some(LOST);
    let mut pauses = Vec::new();
    while pauses.len() < 9 {
        let EngineState::StandIn { left, attempt, .. } = rig.run_cycle().state else { panic!("not lost") };
        assert_eq!(attempt as usize, pauses.len() + 1);
        pauses.push(left.as_nanos() / 1_000_000);
        // The next attempt begins when the pause is over.
        rig.cycle += left.as_nanos() / 50_000_000;
        rig.run_cycle();
        rig.await_opener();
    }
    // Pauses are counted from the failure; all but the first pause are read one cycle (50 ms) later.
    assert_eq!(pauses, [500, 950, 1950, 3950, 7950, 15_950, 31_950, 59_950, 59_950]);
    rig.script().shut = None;
    let EngineState::StandIn { left, loss, .. } = rig.run_cycle().state else { panic!("not lost") };
    assert_eq!(loss, Loss::Memory { call: "open" });
    rig.cycle += left.as_nanos() / 50_000_000 + 1;
    rig.run_cycle();
    rig.await_opener();
    assert_eq!(rig.run_cycle().state, EngineState::Running);
    rig.script().strike = Some(LOST);
    let EngineState::StandIn { left, .. } = rig.run_cycle().state else { panic!("not lost") };
    assert_eq!(left, Span::from_millis(60_000), "too soon to reset the pauses");
    rig.cycle += 1200;
    rig.run_cycle();
    rig.await_opener();
    rig.cycle += 1199; // exactly a minute after it was opened
    rig.script().strike = Some(LOST);
    let EngineState::StandIn { left, .. } = rig.run_cycle().state else { panic!("not lost") };
    assert_eq!(left, Span::from_millis(60_000), "not reset yet");
    rig.cycle += 1200;
    rig.run_cycle();
    rig.await_opener();
    rig.cycle += 1200; // one cycle more
    rig.script().strike = Some(LOST);
    let EngineState::StandIn { left, attempt, .. } = rig.run_cycle().state else { panic!("not lost") };
    assert_eq!((left, attempt), (Span::from_millis(500), 1), "forgiven");
}

#[test]
fn start_without_the_device_uses_the_cpu_and_retries() {
    let script = Shared::default();
    script.lock().unwrap().shut = Some(Loss::Memory { call: "open" });
    let mut rig = Rig::with(script);
    let result = rig.run_cycle();
    assert!(result.response.is_some());
    assert!(matches!(result.state, EngineState::StandIn { loss: Loss::Memory { .. }, .. }));
    assert_eq!(result.device, DeviceCounters::default(), "a device that was never opened cannot be lost");
    rig.script().shut = None;
    rig.run_cycles(12);
    rig.await_opener();
    assert_eq!(rig.run_cycle().state, EngineState::Running);
}

#[test]
fn hanging_open_blocks_no_other_thread() {
    let (release, hung) = bounded::<()>(0);
    let script = Shared::default();
    let (first, openers) = (Mutex::new(true), script.clone());
    let open: Open = Box::new(move |plan, sensors| {
        if !std::mem::take(&mut *first.lock().unwrap()) {
            let _ = hung.recv();
        }
        opener(&openers)(plan, sensors)
    });
    let mut rig = Rig::opened(script, open);
    rig.run_cycles(3);
    rig.script().strike = Some(LOST);
    for _ in 0..400 {
        assert!(rig.run_cycle().response.is_some(), "the CPU computes meanwhile");
    }
    let result = rig.run_cycle();
    assert_eq!(result.state, EngineState::StandIn { loss: LOST, attempt: 1, left: Span::ZERO });
    assert_eq!(result.device.retries, 1, "no second attempt starts");
    drop(release);
    rig.await_opener();
    assert_eq!(rig.run_cycle().state, EngineState::Running);
}

#[test]
fn device_panic_is_a_loss_and_uses_no_rebuild() {
    let mut rig = Rig::new();
    rig.run_cycles(3);
    rig.script().panics = true;
    // If the panic poisoned the script's lock, the test would fail elsewhere, so `Scripted` releases the lock
    // before it panics.
    let result = rig.run_cycle();
    assert!(result.response.is_none());
    assert!(matches!(result.state, EngineState::StandIn { loss: Loss::Panicked, attempt: 1, .. }));
    assert!(rig.run_cycle().response.is_some());
}

#[test]
fn deferred_save_is_requested_again() {
    let mut rig = Rig::new();
    rig.run_cycles(22);
    rig.script().busy = true;
    rig.run_cycles(30);
    assert_eq!(rig.script().saves, 1);
    rig.script().strike = Some(LOST);
    let response = rig.run_cycle().response.expect("from the save after 20 cycles");
    let mut expected_engine = expected_engine();
    (0..20).for_each(|cycle| assert!(expected_engine.cycle(&input(cycle)).is_ok()));
    assert_eq!(response.scores, expected_engine.cycle(&input(52)).expect("in range").scores);
}

#[test]
fn slices_come_from_the_last_save_while_the_device_computes() {
    let mut rig = Rig::new();
    let (saved, shown) = NewestSlices::channel();
    rig.worker = rig.worker.with_slices(SliceSchedule::new(vec![saved]));
    rig.run_cycles(31);
    let slices = shown.get().expect("there is a save");
    assert_eq!(slices.cycle, 19, "the save after 20 cycles, not cycle 30");
    rig.script().strike = Some(LOST);
    rig.run_cycles(12);
    let slices = shown.get().expect("the engine on the CPU has a field");
    assert!((31..43).contains(&slices.cycle), "{}", slices.cycle);
}

#[test]
fn input_that_is_too_old_by_then_is_not_computed() {
    /// An engine whose cycle takes a whole period and then fails.
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
        fn reset(&mut self) {}
    }
    let late = Loss::Timeout { call: "wait" };
    // A NaN answer counts as a loss too.
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
