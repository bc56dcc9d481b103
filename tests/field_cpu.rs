//! The CPU engine against the f64 reference, at every SIMD level and in both storages; against itself with
//! other numbers of threads; and against the rules of the hot path: a refusal changes nothing, and a cycle
//! neither allocates nor touches a page for the first time.

mod agreement;
mod identity;
mod property;
pub mod quiet;
mod state;
mod storage;

use ganglion::base::frame::MAX_SENSORS;
use ganglion::base::plan::{EngineKind, FieldPlan, Params, QualityLevel, Shape, Storage};
use ganglion::base::seed::{Stream, normal, uniform};
use ganglion::base::time::Span;
use ganglion::field::cpu::CpuEngine;
use ganglion::field::reference::ReferenceEngine;
use ganglion::field::shape::{CHANNELS, CONTEXT, FEATURES, PATTERN, READOUT_COLUMNS, READOUT_GRIDS};
use ganglion::field::{FieldEngine, FieldInput, FieldOutput, Inspect, engine};
use ganglion::system::cpu::Level;

/// Both storage formats of a cell.
const STORAGES: [Storage; 2] = [Storage::F32, Storage::F16];

fn plan(grid: usize) -> FieldPlan {
    FieldPlan {
        engine: EngineKind::Cpu,
        shape: Shape { grid, sensors: 16, motors: 5, patterns: 6, bank: 20 },
        params: Params::default(),
        seed: 7,
        dt: Span::from_millis(50),
        every_ticks: 1,
        threads: 1,
        cpus: Vec::new(),
        storage: Storage::F32,
        learn: true,
        start: Vec::new(),
        correction: 1.0,
    }
}

/// Noisy sensors that vary slowly (so that there is something to learn), and a reward in every third cycle.
pub fn input(seed: u64, cycle: u64, quality: usize) -> FieldInput {
    let mut sensors = [0.0; MAX_SENSORS];
    for (i, sensor) in sensors.iter_mut().enumerate() {
        let wave = (cycle as f64 * (0.05 + 0.01 * i as f64) + i as f64).sin();
        let noise = 2.0 * uniform(seed, Stream::Stimulus, cycle * MAX_SENSORS as u64 + i as u64) - 1.0;
        *sensor = (0.6 * wave + 0.4 * noise) as f32;
    }
    let reward = if cycle.is_multiple_of(3) { 0.5 } else { 0.0 };
    FieldInput {
        cycle,
        sensors,
        reward,
        quality: QualityLevel::new(quality as u8).expect("a valid level"),
        place: None,
    }
}

/// Levels in a sequence that includes each level, each change to the next worse level, and changes between
/// the best and the worst.
fn level_at(cycle: u64) -> usize {
    const ORDER: [usize; 12] = [0, 1, 2, 3, 4, 5, 0, 5, 4, 3, 0, 2];
    ORDER[(cycle / 5) as usize % ORDER.len()]
}

/// A pattern.
pub fn volume(slot: usize, grid: usize) -> Vec<f32> {
    let cells = PATTERN * grid.pow(3);
    let draw = |i: usize| uniform(4, Stream::Patterns, (slot * cells + i) as u64);
    (0..cells).map(|i| (1.9 * draw(i) - 0.95) as f32).collect()
}

fn context(slot: usize) -> [f32; CONTEXT] {
    std::array::from_fn(|i| uniform(8, Stream::Patterns, (slot * CONTEXT + i) as u64) as f32 - 0.5)
}

fn readout(motors: usize) -> Vec<f32> {
    (0..READOUT_GRIDS * motors * READOUT_COLUMNS)
        .map(|i| 0.05 * normal(5, Stream::Patterns, i as u64) as f32)
        .collect()
}

fn load(engine: &mut dyn Inspect, plan: &FieldPlan) {
    for slot in 0..plan.shape.patterns.saturating_sub(1) {
        let volume = volume(slot, plan.shape.grid);
        assert!(engine.store_pattern(slot, &volume, &context(slot), slot as f32));
    }
    assert!(engine.set_readout(&readout(plan.shape.motors)));
}

fn build(plan: &FieldPlan) -> Box<dyn Inspect> {
    let mut engine = engine::build(plan);
    load(engine.as_mut(), plan);
    engine
}

/// Like `build`, at one SIMD level.
fn build_at(plan: &FieldPlan, level: Level) -> Box<dyn Inspect> {
    let mut engine = engine::build_with(plan, level.name()).expect("a supported SIMD level");
    assert_eq!(engine.simd(), level.name());
    load(engine.as_mut(), plan);
    engine
}

/// The bits of the numbers in an answer, of the features and of all cells.
fn fingerprint(engine: &dyn Inspect, response: &FieldOutput) -> Vec<u32> {
    let answers = response.scores.iter().chain(&response.motors);
    let rest = [response.confidence, response.skill, response.novelty];
    let mut cells = vec![0.0; CHANNELS * engine.plan().shape.cells()];
    let channels = cells.chunks_exact_mut(engine.plan().shape.cells()).enumerate();
    channels.for_each(|(c, to)| engine.copy_channel(c, to));
    let mut features = vec![0.0; FEATURES];
    engine.copy_features(&mut features);
    answers.chain(&rest).chain(&features).chain(&cells).map(|x| x.to_bits()).collect()
}

#[test]
fn refused_inputs_change_nothing() {
    for kind in [EngineKind::Cpu, EngineKind::Reference] {
        let plan = FieldPlan { engine: kind, ..plan(8) };
        let (mut tried, mut spared) = (build(&plan), build(&plan));
        for cycle in 0..24 {
            let good = input(9, cycle, level_at(cycle));
            for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0 + f32::EPSILON, -7.0] {
                for sensor in [0, 15] {
                    let mut bad = FieldInput { quality: QualityLevel::WORST, ..good };
                    bad.sensors[sensor] = value;
                    let refused =
                        tried.cycle(&bad).expect_err("no sensor value").refused().expect("not lost");
                    assert_eq!(refused.sensor, Some(sensor));
                    assert_eq!(refused.value.to_bits(), value.to_bits());
                }
                let refused = tried.cycle(&FieldInput { reward: value, ..good }).expect_err("no reward");
                let refused = refused.refused().expect("not lost");
                assert_eq!(refused.sensor, None);
            }
            // Entries after the last sensor are ignored.
            let mut unused = good;
            unused.sensors[16..].fill(f32::NAN);
            let (a, b) = (tried.cycle(&unused).expect("in range"), spared.cycle(&good).expect("in range"));
            assert_eq!(a.scores.map(f32::to_bits), b.scores.map(f32::to_bits));
            assert_eq!(a.novelty.to_bits(), b.novelty.to_bits());
            assert_eq!(tried.measure_now(), spared.measure_now());
            assert_eq!(tried.prediction(), spared.prediction());
        }
    }
}

#[test]
fn reset_restarts_the_field_and_keeps_library_and_readout() {
    let plan = plan(8);
    // On the half grid, and three cycles after the switch from it to the whole.
    for cycles in [28, 33] {
        let (mut used, mut new) = (build(&plan), build(&plan));
        (0..cycles).for_each(|cycle| assert!(used.cycle(&input(9, cycle, level_at(cycle))).is_ok()));
        used.reset();
        for cycle in 0..40 {
            let input = input(9, cycle, level_at(cycle));
            let (a, b) = (used.cycle(&input).expect("in range"), new.cycle(&input).expect("in range"));
            let when = format!("cycle {cycle} after {cycles}");
            assert_eq!(fingerprint(used.as_ref(), &a), fingerprint(new.as_ref(), &b), "{when}");
            assert_eq!(used.nearest(), new.nearest(), "{when}");
        }
    }
}

#[test]
fn motors_do_not_jump_when_the_resolution_changes() {
    let mut engine = build(&plan(16));
    let mut last = engine.cycle(&input(9, 0, 0)).expect("in range");
    for cycle in 1..60 {
        // Switches from one grid to the other every ten cycles.
        let response =
            engine.cycle(&input(9, cycle, if cycle / 10 % 2 == 1 { 5 } else { 0 })).expect("in range");
        if cycle % 10 == 0 {
            assert_eq!(
                response.scores, last.scores,
                "cycle {cycle}: the transition begins where the old grid ended"
            );
        } else {
            assert_ne!(response.scores, last.scores, "cycle {cycle}: the field continues");
        }
        last = response;
    }
}

#[test]
fn a_pattern_can_be_replaced_during_its_blend() {
    let mut engines = [EngineKind::Cpu, EngineKind::Reference]
        .map(|kind| engine::build(&FieldPlan { engine: kind, ..plan(8) }));
    let mut means = [[0.0_f32; 2]; 2];
    for (engine, means) in engines.iter_mut().zip(&mut means) {
        assert!(engine.store_pattern(0, &volume(0, 8), &context(0), 1.0));
        // At level 2 the library is matched in even cycles only: cycle 1 keeps the match of cycle 0.
        assert!(engine.cycle(&input(9, 0, 2)).is_ok());
        assert!(engine.store_pattern(0, &[0.95; PATTERN * 512], &context(0), 1.0));
        for (cycle, mean) in means.iter_mut().enumerate() {
            assert!(engine.cycle(&input(9, 1 + cycle as u64, 2)).is_ok());
            let mut features = [0.0; FEATURES];
            engine.copy_features(&mut features);
            *mean = features[40];
        }
    }
    assert!(
        (means[0][0] - means[1][0]).abs() < 1e-5 && (means[0][1] - means[1][1]).abs() < 1e-5,
        "{means:?}"
    );
}

#[test]
fn engines_can_move_between_threads() {
    let mut engine = build(&FieldPlan { threads: 2, ..plan(8) });
    let mut stay = build(&FieldPlan { threads: 2, ..plan(8) });
    for cycle in 0..6 {
        let input = input(9, cycle, 0);
        let expected = stay.cycle(&input).expect("in range");
        let (back, response) = std::thread::spawn(move || {
            let response = engine.cycle(&input);
            (engine, response)
        })
        .join()
        .expect("no panic");
        engine = back;
        assert_eq!(response.expect("in range").scores, expected.scores);
    }
}

#[test]
fn both_engines_are_built_the_same_way() {
    let plan = plan(8);
    let (cpu, reference) = (CpuEngine::new(&plan), ReferenceEngine::new(&plan));
    for c in 0..CHANNELS {
        let mut ours = [f32::NAN; 512];
        cpu.copy_channel(c, &mut ours);
        let cells = ours.iter().zip(reference.channel(c));
        assert!(cells.clone().count() == 512 && cells.clone().all(|(a, b)| (f64::from(*a) - b).abs() < 1e-7));
    }
    assert!(cpu.memory_bytes() > 0 && cpu.memory_bytes() < reference.memory_bytes());
}
