//! The whole CUDA engine (host side, driver calls, graphs, kernels) on the stand-in driver, against the f64
//! reference. With `GANGLION_GPU=1` in the environment the same tests run on this machine's own GPU.

mod saving;
mod sharing;

use super::standin;
use super::{context, input, level_at, near, readout, volume};
use crate::allocation::{allocations_in_process, alone};
use crate::field_cpu::quiet::quiet_once;
use ganglion::base::plan::{EngineKind, FieldPlan, Params, Shape, Storage};
use ganglion::base::time::Span;
use ganglion::field::FieldInput;
use ganglion::field::cpu::CpuEngine;
use ganglion::field::cuda::{CudaEngine, SharedDevice};
use ganglion::field::device as devices;
use ganglion::field::reference::ReferenceEngine;
use ganglion::field::sensor_ring::{SensorRing, SensorWriter};
use ganglion::field::shape::{CHANNELS, DESCRIPTOR};
use ganglion::field::state::Live;
use ganglion::field::{Failure, FieldEngine, FieldOutput, Inspect, Loss, trial};
use ganglion::system::gpu::{GpuFault, Watch};
use std::sync::Arc;

/// The tolerance, as for the kernels, but larger: a GPU fuses a product and a sum, and the emulator does not.
const SEEN: f64 = 2e-5;

fn plan(grid: usize) -> FieldPlan {
    FieldPlan { engine: EngineKind::Cuda, ..super::plan(grid) }
}

/// The device that the engines of a test run on, for as long as the test lasts.
pub enum Device {
    Gpu,
    StandIn(standin::Alone),
}

/// A GPU if the environment requests it, otherwise the stand-in; `None` (with a message) if the stand-in
/// cannot be compiled.
pub fn device() -> Option<Device> {
    if std::env::var_os("GANGLION_GPU").is_some_and(|value| value == "1") {
        return Some(Device::Gpu);
    }
    standin::alone().map(Device::StandIn)
}

impl Device {
    /// Gives orders to the stand-in, for example in which order to execute its work; no effect on a GPU.
    fn order(&self, orders: &str) {
        if let Device::StandIn(alone) = self {
            alone.order(orders);
        }
    }
}

/// Opens an engine. `GANGLION_PATIENCE_S` in the environment sets its timeout, for runs under a tool that
/// checks every memory access and so slows the device down.
fn open(plan: &FieldPlan, robots: usize) -> CudaEngine {
    open_with(plan, robots, Arc::default())
}

/// Like `open`, with a watch through which a test injects faults.
fn open_with(plan: &FieldPlan, robots: usize, watch: Arc<Watch>) -> CudaEngine {
    let mut engine = CudaEngine::open_with(plan, robots, watch, None).unwrap_or_else(|why| panic!("{why}"));
    if let Some(seconds) = std::env::var("GANGLION_PATIENCE_S").ok().and_then(|text| text.parse().ok()) {
        engine.set_timeout(Span::from_secs_f64(seconds));
    }
    engine
}

/// Engine and reference, with the same contents.
struct Pair {
    engine: CudaEngine,
    judge: ReferenceEngine,
    plan: FieldPlan,
}

impl Pair {
    fn new(plan: &FieldPlan, patterns: usize) -> Pair {
        let (mut engine, mut judge) = (open(plan, 1), ReferenceEngine::new(plan));
        for slot in 0..patterns {
            let volume = volume(slot, plan.shape.grid);
            assert!(engine.store_pattern(slot, &volume, &context(slot), 1.0));
            assert!(judge.store_pattern(slot, &volume, &context(slot), 1.0));
        }
        assert!(engine.set_readout(&readout(plan.shape.motors)));
        assert!(judge.set_readout(&readout(plan.shape.motors)));
        Pair { engine, judge, plan: plan.clone() }
    }

    /// Runs a cycle of both and compares everything visible.
    fn cycle(&mut self, cycle: u64, quality: usize) {
        let input = input(9, cycle, quality);
        let answer = self.engine.cycle(&input).expect("in range");
        let expected = self.judge.cycle(&input).expect("in range");
        let when = format!("cycle {cycle}, level {quality}, {} cells per axis", self.plan.shape.grid);
        self.compare_field(&when);
        self.compare_answer(&when, &answer, &expected);
    }

    fn compare_field(&self, when: &str) {
        for c in 0..CHANNELS {
            let judged = self.judge.channel(c);
            let mut mine = vec![f32::NAN; judged.len()];
            self.engine.copy_channel(c, &mut mine);
            mine.iter().zip(judged).for_each(|(a, b)| near(when, "cell", f64::from(*a), *b, SEEN));
        }
        let features = self.engine.features();
        for (a, b) in features.iter().zip(self.judge.features()) {
            near(when, "feature", f64::from(*a), *b, SEEN);
        }
    }

    fn compare_answer(&self, when: &str, answer: &FieldOutput, expected: &FieldOutput) {
        assert_eq!(answer.cycle, expected.cycle, "{when}");
        for motor in 0..self.plan.shape.motors {
            near(when, "score", answer.scores[motor].into(), expected.scores[motor].into(), SEEN);
            near(when, "motor", answer.motors[motor].into(), expected.motors[motor].into(), SEEN);
        }
        let predicted = self.engine.prediction().iter().zip(self.judge.prediction());
        predicted.for_each(|(a, b)| near(when, "prediction", *a, *b, SEEN));
        near(when, "confidence", answer.confidence.into(), expected.confidence.into(), SEEN);
        near(when, "skill", answer.skill.into(), expected.skill.into(), 1e-3);
        near(when, "novelty", answer.novelty.into(), expected.novelty.into(), 10.0 * SEEN);
        assert_eq!(self.engine.experiences(), self.judge.experiences(), "{when}");
        let rows = |found: &[(usize, f64)]| found.iter().map(|(row, _)| *row).collect::<Vec<_>>();
        assert_eq!(rows(self.engine.nearest()), rows(self.judge.nearest()), "{when}");
        assert_eq!(self.engine.blend().0, self.judge.blend().0, "{when}");
    }
}

#[test]
fn the_engine_agrees_with_the_reference_at_every_level() {
    let Some(_device) = device() else { return };
    for (grid, cycles) in [(8, 48), (16, 6)] {
        let mut pair = Pair::new(&plan(grid), 5);
        (0..cycles).for_each(|cycle| pair.cycle(cycle, level_at(cycle)));
        let (mine, judged) = (pair.engine.measure_now(), pair.judge.measure_now());
        near("at the end", "mean", mine.mean.into(), judged.mean.into(), SEEN);
        near("at the end", "energy", mine.energy.into(), judged.energy.into(), SEEN);
        assert_eq!(pair.engine.metrics().map(|metrics| metrics.cycle), Some(0));
    }
}

#[test]
fn the_engine_agrees_with_the_reference_on_the_full_grid() {
    let Some(_device) = device() else { return };
    let mut pair = Pair::new(&plan(32), 3);
    pair.cycle(0, 0);
    pair.cycle(1, 5);
}

#[test]
fn the_engine_agrees_at_other_rates_shapes_and_with_noise() {
    let Some(_device) = device() else { return };
    let params = Params { explore: 0.3, ..Params::default() };
    let none = Shape { sensors: 2, motors: 1, patterns: 0, bank: 0, ..plan(8).shape };
    let most = Shape { sensors: 64, motors: 16, patterns: 3, bank: 5, ..plan(8).shape };
    for (shape, ms, patterns) in [(plan(8).shape, 10, 5), (none, 50, 0), (most, 125, 3)] {
        let plan = FieldPlan { shape, params, dt: Span::from_millis(ms), ..plan(8) };
        let mut pair = Pair::new(&plan, patterns);
        for (cycle, quality) in [4, 4, 4, 5, 5, 5, 1, 1, 0, 2, 3, 3, 3].into_iter().enumerate() {
            pair.cycle(cycle as u64, quality);
        }
    }
}

#[test]
fn changes_between_cycles_apply_in_the_next() {
    let Some(_device) = device() else { return };
    let mut pair = Pair::new(&plan(8), 1);
    for cycle in 0..6 {
        pair.cycle(cycle, 2);
        match cycle {
            0 => {
                let bound = vec![0.95; volume(0, 8).len()];
                assert!(pair.engine.store_pattern(0, &bound, &context(0), 1.0));
                assert!(pair.judge.store_pattern(0, &bound, &context(0), 1.0));
            }
            1 => {
                let descriptor: [f32; DESCRIPTOR] = std::array::from_fn(|i| (i as f32 * 0.1).sin());
                assert!(pair.engine.store_experience(&descriptor, 0.5));
                assert!(pair.judge.store_experience(&descriptor, 0.5));
            }
            2 => {
                pair.engine.clear_pattern(0);
                pair.judge.clear_pattern(0);
                assert_eq!(pair.engine.pattern_value(0), None);
            }
            3 => {
                pair.engine.reset();
                pair.judge.reset();
                assert_eq!((pair.engine.experiences(), pair.engine.metrics()), (0, None));
            }
            _ => (),
        }
    }
    assert!(!pair.engine.set_readout(&[0.0]) && !pair.engine.store_pattern(99, &[], &context(0), 0.0));
    let mut wild = input(9, 6, 0);
    wild.sensors[1] = 1.5;
    assert!(matches!(pair.engine.cycle(&wild), Err(Failure::Refused(refused)) if refused.sensor == Some(1)));
    pair.cycle(6, 0);
}

#[test]
fn a_cycle_is_one_call_of_the_driver_and_allocates_nothing() {
    alone("cuda::engine::a_cycle_is_one_call_of_the_driver_and_allocates_nothing", || {
        let Some(_device) = device() else { return };
        quiet_once("20 cycles on a device: allocations", || {
            let mut engine = open(&plan(8), 1);
            engine.set_timeout(Span::from_millis(400_000)); // never late
            let mut turns = |cycles: std::ops::Range<u64>| {
                for cycle in cycles {
                    assert!(engine.cycle(&input(9, cycle, 0)).is_ok());
                }
                engine.device_counts()
            };
            // The first use of a thread-local or of a waker may allocate.
            let a = turns(0..4);
            let mut b = a;
            let count = allocations_in_process(|| b = turns(4..24));
            assert_eq!((b.replays - a.replays, b.launches - a.launches), (20, 0));
            assert_eq!(b.calls - a.calls, 20, "one graph launch per cycle");
            assert_eq!((b.copies_in - a.copies_in, b.copies_out - a.copies_out), (0, 0));
            assert_eq!(b.device_allocations, 2, "the table of a launch and the robot's pool, at the start");
            assert_eq!(b.pinned_allocations, a.pinned_allocations);
            count
        });
    });
}

/// Writes the sensors of `input` into the ring; the returned input names their place there.
fn put(writer: &mut SensorWriter, input: FieldInput) -> FieldInput {
    let all = input.sensors.iter().copied().enumerate();
    let (place, ()) = writer.write(|put| all.for_each(|(sensor, value)| put(sensor, value)));
    FieldInput { place: Some(place), ..input }
}

/// Opens an engine that reads its sensors from `ring`, if given, and is set up like the others in all else.
fn open_on(ring: Option<&SensorRing>) -> CudaEngine {
    let mut engine = CudaEngine::open_with(&plan(8), 1, Arc::default(), ring).expect("it opens");
    engine.set_timeout(Span::from_millis(400_000));
    assert!(engine.set_readout(&readout(plan(8).shape.motors)));
    engine
}

#[test]
fn sensors_give_the_same_bits_with_and_without_the_ring() {
    let Some(_device) = device() else { return };
    let ring = SensorRing::new();
    let mut writer = SensorWriter::new(ring.clone());
    let (mut plain, mut in_place) = (open_on(None), open_on(Some(&ring)));
    for cycle in 0..8 {
        let given = input(9, cycle, level_at(cycle));
        let mut named = put(&mut writer, given);
        if cycle % 4 == 3 {
            // As in teaching: the values in the input are used, whatever the ring holds at that place.
            named = FieldInput { place: put(&mut writer, input(7, cycle, 0)).place, ..given };
        }
        let [a, b] = [plain.cycle(&given), in_place.cycle(&named)].map(|answer| answer.expect("in range"));
        assert_eq!((a.scores, a.confidence), (b.scores, b.confidence), "cycle {cycle}");
        assert_eq!(plain.features(), in_place.features(), "cycle {cycle}");
    }
    drop(in_place);
    let last = put(&mut writer, input(9, 8, 0));
    assert_eq!(ring.read(last.place.expect("named")), last.sensors, "the ring outlives the device");
}

#[test]
fn kernels_read_the_sensors_in_place() {
    let Some(Device::StandIn(alone)) = device() else { return }; // no other device can be paused
    let ring = SensorRing::new();
    let mut writer = SensorWriter::new(ring.clone());
    let (mut plain, mut in_place) = (open_on(None), open_on(Some(&ring)));
    let named = put(&mut writer, input(9, 0, 0));
    let before = alone.counts().replays;
    alone.order("stall=0");
    let answer = std::thread::scope(|scope| {
        let cycle = scope.spawn(|| in_place.cycle(&named).expect("in range"));
        wait_for("the driver got the launch", || alone.counts().replays > before);
        // Once around the ring, so that the place is overwritten while the device is paused.
        let later = [1, 2, 3, 4].map(|cycle| put(&mut writer, input(9, cycle, 0)));
        assert_eq!(later[3].place, named.place);
        alone.order("release");
        cycle.join().expect("it ends")
    });
    let other = FieldInput { sensors: input(9, 4, 0).sensors, ..input(9, 0, 0) };
    assert_eq!(answer.scores, plain.cycle(&other).expect("in range").scores, "the kernels read the ring");
}

#[test]
fn the_devices_order_of_work_does_not_change_results() {
    let Some(device) = device() else { return };
    let plan = FieldPlan { storage: Storage::F16, ..plan(8) };
    // Threads, blocks and independent parts of a graph run in both orders; the second run has late events.
    let runs = ["order=forwards", "order=backwards,events=late"].map(|orders| {
        device.order(orders);
        let mut engine = open(&plan, 1);
        assert!(engine.set_readout(&readout(plan.shape.motors)));
        (0..3).for_each(|slot| assert!(engine.store_pattern(slot, &volume(slot, 8), &context(slot), 1.0)));
        let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        let cycle = |cycle: u64| {
            let response = engine.cycle(&input(9, cycle, level_at(cycle))).expect("in range");
            [bits(&response.scores), bits(&engine.features())].concat()
        };
        (0..36).map(cycle).collect::<Vec<_>>()
    });
    assert!(runs[0] == runs[1], "the same bits");
}

#[test]
fn timing_stages_does_not_change_answers() {
    let Some(_device) = device() else { return };
    let (mut plain, mut watched) = (open(&plan(8), 1), open(&plan(8), 1));
    watched.watch_stages(true);
    for cycle in 0..3 {
        let input = input(9, cycle, 0);
        let (a, b) = (plain.cycle(&input).expect("in range"), watched.cycle(&input).expect("in range"));
        assert_eq!(a.scores, b.scores, "the same kernels in another order");
        watched.read_stages();
        assert!(watched.stage_times().iter().all(|time| *time > Span::ZERO), "{:?}", watched.stage_times());
    }
    assert!(plain.stage_times().iter().all(|time| *time == Span::ZERO));
    let times = plain.device_times();
    assert!(times.kernels > Span::ZERO && times.queue > Span::ZERO);
}

#[test]
fn a_saved_state_is_restored_bit_for_bit() {
    let Some(_device) = device() else { return };
    for storage in [Storage::F32, Storage::F16] {
        let plan = FieldPlan { storage, ..plan(8) };
        let (mut first, mut second) = (open(&plan, 1), open(&plan, 1));
        assert!(first.set_readout(&readout(plan.shape.motors)));
        (0..3).for_each(|slot| assert!(first.store_pattern(slot, &volume(slot, 8), &context(slot), 0.5)));
        let mut live = Live::default();
        for cycle in 0..24 {
            let input = input(9, cycle, level_at(cycle));
            if cycle % 5 == 4 {
                assert!(first.save(&mut live));
                second.load(&first.learned()).expect("it fits");
                second.restore(&live).expect("it fits");
                let mut again = Live::default();
                assert!(second.save(&mut again));
                assert_eq!(again, live, "cycle {cycle}, {storage:?}");
                assert_eq!(second.pattern_value(2), Some(0.5));
            }
            let expected = first.cycle(&input).expect("in range");
            if cycle >= 4 {
                let answer = second.cycle(&input).expect("in range");
                assert_eq!(
                    (answer.scores, answer.motors),
                    (expected.scores, expected.motors),
                    "cycle {cycle}"
                );
                assert_eq!(second.features(), first.features(), "cycle {cycle}, {storage:?}");
            }
        }
    }
}

#[test]
fn the_cpu_engine_takes_over_from_the_device_and_back() {
    let Some(_device) = device() else { return };
    let plan = plan(8);
    let (mut device, mut host) = (open(&plan, 1), CpuEngine::new(&plan));
    let mut judge = ReferenceEngine::new(&plan);
    assert!(
        device.set_readout(&readout(plan.shape.motors)) && judge.set_readout(&readout(plan.shape.motors))
    );
    for slot in 0..3 {
        assert!(device.store_pattern(slot, &volume(slot, 8), &context(slot), 1.0));
        assert!(judge.store_pattern(slot, &volume(slot, 8), &context(slot), 1.0));
    }
    host.load(&device.learned()).expect("a state of the same plan");
    let mut live = Live::default();
    // Six cycles on the device, six on the host, six on the device: it computes every level.
    let levels = [0, 1, 2, 2, 3, 3, 3, 4, 5, 5, 0, 1, 4, 4, 5, 5, 0, 2];
    for (cycle, level) in (0..).zip(levels) {
        let input = input(9, cycle, level);
        let expected = judge.cycle(&input).expect("in range");
        let on_device = cycle / 6 % 2 == 0;
        if cycle > 0 && cycle % 6 == 0 {
            if on_device {
                host.save(&mut live);
                device.restore(&live).expect("a state of the same plan");
            } else {
                assert!(device.save(&mut live));
                host.restore(&live).expect("a state of the same plan");
            }
        }
        let answer = if on_device { device.cycle(&input) } else { host.cycle(&input) };
        let answer = answer.expect("in range");
        for motor in 0..plan.shape.motors {
            near("taken over", "score", answer.scores[motor].into(), expected.scores[motor].into(), SEEN);
        }
    }
}

#[test]
fn a_device_with_wrong_results_fails_its_trial() {
    let Some(_device) = device() else { return };
    let open = |plan: &FieldPlan| Ok(CudaEngine::open(plan, 1).unwrap_or_else(|why| panic!("{why}")));
    for storage in [Storage::F32, Storage::F16] {
        let plan = FieldPlan { storage, ..plan(16) };
        assert_eq!(trial::run(&plan, open), Ok(()), "{storage:?}");
        // A tanh that is steeper by a fiftieth, a diffusion that is weaker by a fifth, and another seed.
        let steeper = Params { gamma: 0.918, ..plan.params };
        let stiller = Params { lambda: 0.08, ..plan.params };
        let wrong = |params, seed| move |plan: &FieldPlan| open(&FieldPlan { params, seed, ..plan.clone() });
        assert_eq!(trial::run(&plan, wrong(steeper, plan.seed)), Err(Loss::Wrong), "{storage:?}, steeper");
        assert_eq!(trial::run(&plan, wrong(stiller, plan.seed)), Err(Loss::Wrong), "{storage:?}, stiller");
        assert_eq!(
            trial::run(&plan, wrong(plan.params, plan.seed + 1)),
            Err(Loss::Wrong),
            "{storage:?}, seed"
        );
    }
}

#[test]
fn a_lost_device_gives_its_reason_and_can_be_reopened() {
    let Some(_device) = device() else { return };
    for fault in [GpuFault::Error, GpuFault::Hang, GpuFault::Stuck, GpuFault::Lost] {
        let watch = Arc::new(Watch::new());
        let device = SharedDevice::open(&plan(8), 1, watch.clone()).expect("it opens");
        let mut engine = CudaEngine::join(&plan(8), &device, None).expect("there is room");
        engine.cycle(&input(9, 0, 0)).map(|_| ()).expect("no fault yet");
        watch.inject(Some(fault));
        let lost = engine.cycle(&input(9, 1, 0)).map(|_| ()).expect_err("the fault strikes");
        let Failure::Lost(loss) = lost else { panic!("{lost:?}") };
        match fault {
            GpuFault::Error => assert!(matches!(loss, Loss::Error { .. }), "{loss}"),
            GpuFault::Hang => assert_eq!(loss, Loss::Timeout { call: "the result of a cycle" }),
            GpuFault::Stuck => {
                assert!(matches!(loss, Loss::Timeout { call } if call.starts_with("cu")), "{loss}")
            }
            _ => assert!(matches!(loss, Loss::ContextLost { .. }), "{loss}"),
        }
        assert!(!loss.to_string().is_empty());
        let again = engine.cycle(&input(9, 2, 0)).map(|_| ()).expect_err("once lost, it stays lost");
        assert_eq!(again, Failure::Lost(loss));
        watch.inject(None);
        drop(engine);
        wait_for("the thread ends", || device.has_ended());
    }
    let mut engine = open(&plan(8), 1);
    engine.cycle(&input(9, 0, 0)).map(|_| ()).expect("everything works again");
}

#[test]
fn device_is_reopened_after_an_error_spoiled_its_context() {
    let Some(Device::StandIn(alone)) = device() else { return }; // no other device fails on demand
    let (plan, watch, ring) = (plan(8), Arc::new(Watch::new()), SensorRing::new());
    let mut open = devices::find(&plan, 1, watch.clone()).expect("the stand-in was requested").opener();
    for code in [700, 716, 719] {
        let mut engine = open(&plan, &ring).expect("it opens");
        assert!(engine.cycle(&input(9, 0, 0)).is_ok());
        alone.order(&format!("fail=kernel:5:{code}"));
        let lost = engine.cycle(&input(9, 1, 0)).map(|_| ()).expect_err("a kernel fails");
        assert!(matches!(lost, Failure::Lost(Loss::ContextLost { .. })), "{lost:?}");
        drop(engine);
        assert_eq!(watch.last_failure().map(|error| error.code), Some(code), "it is recorded");
    }
    let mut engine = open(&plan, &ring).expect("each had its own context");
    alone.order("sticky=process,fail=kernel:5:700");
    assert!(engine.cycle(&input(9, 0, 0)).is_err());
    drop(engine);
    for _ in 0..3 {
        let loss =
            open(&plan, &ring).map(|_| ()).expect_err("nothing can be opened in this process any more");
        assert!(matches!(loss, Loss::Error { .. } | Loss::ContextLost { .. }), "{loss}");
    }
    alone.order("fresh"); // the state that a new process would find
    assert!(open(&plan, &ring).expect("it opens").cycle(&input(9, 0, 0)).is_ok());
}

/// Waits until other threads make `holds` true; fails after a minute.
fn wait_for(what: &str, holds: impl Fn() -> bool) {
    wait_until(what, holds);
}

/// Like `wait_for`, for a condition whose check has side effects.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{what}: not within a minute");
}
