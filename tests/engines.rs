//! The f32 CPU engine against the f64 reference, against itself on other numbers of threads, and
//! against the rules of the hot path: refuse without a trace, allocate nothing.

use crate::counting::{allocations_in, allocations_in_process, alone};
use ganglion::field::cpu::CpuEngine;
use ganglion::field::reference::ReferenceEngine;
use ganglion::field::shape::{
    CHANNELS, CONTEXT, EngineKind, FEATURES, FieldPlan, PATTERN, Params, READOUT_COLUMNS, Shape, sub_steps,
};
use ganglion::field::wiring::Wiring;
use ganglion::field::{Engine, Response, Rung, Stimulus};
use ganglion::frame::MAX_SENSORS;
use ganglion::seed::{Stream, normal, uniform};
use ganglion::time::Span;

fn plan(grid: usize) -> FieldPlan {
    FieldPlan {
        engine: EngineKind::Cpu,
        shape: Shape { grid, sensors: 16, motors: 5, patterns: 6, bank: 20 },
        params: Params::default(),
        seed: 7,
        dt: Span::from_millis(50),
        every_ticks: 1,
        threads: 1,
        learn: true,
        start: Vec::new(),
    }
}

/// Sensors that wander (so that learning finds something) with noise, a reward now and then.
fn stimulus(cycle: u64, rung: usize) -> Stimulus {
    let mut sensors = [0.0; MAX_SENSORS];
    for (i, sensor) in sensors.iter_mut().enumerate() {
        let wave = (cycle as f64 * (0.05 + 0.01 * i as f64) + i as f64).sin();
        let noise = 2.0 * uniform(9, Stream::Stimulus, cycle * MAX_SENSORS as u64 + i as u64) - 1.0;
        *sensor = (0.6 * wave + 0.4 * noise) as f32;
    }
    let reward = if cycle.is_multiple_of(3) { 0.5 } else { 0.0 };
    Stimulus { cycle, sensors, reward, rung: Rung::new(rung as u8).expect("one of the rungs") }
}

/// The rungs in a row that visits each, and each change between neighbours and across all.
fn rung_at(cycle: u64) -> usize {
    const ORDER: [usize; 12] = [0, 1, 2, 3, 4, 5, 0, 5, 4, 3, 0, 2];
    ORDER[(cycle / 5) as usize % ORDER.len()]
}

fn volume(slot: usize, grid: usize) -> Vec<f32> {
    let cells = PATTERN * grid.pow(3);
    let draw = |i: usize| uniform(4, Stream::Patterns, (slot * cells + i) as u64);
    (0..cells).map(|i| (1.9 * draw(i) - 0.95) as f32).collect()
}

fn context(slot: usize) -> [f32; CONTEXT] {
    std::array::from_fn(|i| uniform(3, Stream::Patterns, (slot * CONTEXT + i) as u64) as f32 - 0.5)
}

fn readout(motors: usize) -> Vec<f32> {
    (0..motors * READOUT_COLUMNS).map(|i| 0.05 * normal(5, Stream::Patterns, i as u64) as f32).collect()
}

fn furnish(engine: &mut Engine, plan: &FieldPlan) {
    for slot in 0..plan.shape.patterns.saturating_sub(1) {
        let volume = volume(slot, plan.shape.grid);
        assert!(engine.store_pattern(slot, &volume, &context(slot), slot as f32));
    }
    assert!(engine.set_readout(&readout(plan.shape.motors)));
}

fn build(plan: &FieldPlan) -> Engine {
    let mut engine = Engine::build(plan);
    furnish(&mut engine, plan);
    engine
}

/// Largest difference that a cell may come to, in any run.
///
/// One sub-step of share k errs by k d + m. d is what F errs by: the drive of T sensors, sizes of
/// its terms adding up to A, by (T + 4) A eps (an addition each, four roundings a term); diffusion
/// and slope by 12 eps; both through a slope of at most 1 - beta; the tanh by 4e-7; a stored
/// pattern by a tenth of half its step of 0.95 / 32767. m, the mix, is 3 roundings. Older errors shrink
/// by 1 - k (1 - G) in a sub-step, so that the sum is (k d + m) / (k (1 - G)).
fn tolerance(plan: &FieldPlan) -> f64 {
    let params = plan.params;
    let wiring = Wiring::new(plan, plan.shape.grid);
    let eps = f64::from(f32::EPSILON) / 2.0;
    let felt = 1.0 + 2.0 * params.eta;
    let drive = |channel: &usize| {
        let reached = wiring.weight[*channel].iter().filter(|w| w.abs() > 0.0);
        let terms = reached.clone().map(|w| w.abs() * felt).sum::<f64>() + wiring.bias[*channel].abs();
        (reached.count() + 4) as f64 * params.gain * terms * eps
    };
    let drive = (0..CHANNELS).map(|c| drive(&c)).fold(0.0, f64::max);
    let (_, share) = sub_steps(plan.dt.as_secs_f64(), params.t_slow);
    let pattern = params.pattern_share * 0.5 * 0.95 / 32767.0;
    let value = (1.0 - params.beta) * (drive + 12.0 * eps) + 4e-7 + pattern;
    (share * value + 3.0 * eps) / (share * (1.0 - plan.params.field_gain()))
}

/// What rounding errors really add up to, as they do not all line up: some three times the
/// largest difference seen in the runs below. A mistake in the maths is larger than this.
const SEEN: f64 = 1e-5;

/// Both engines through `cycles` cycles; everything that can be seen of them agrees after each.
fn assert_agreement(plan: &FieldPlan, cycles: u64, rung: impl Fn(u64) -> usize) {
    let what = format!("grid {}, {} sensors, dt {:?}", plan.shape.grid, plan.shape.sensors, plan.dt);
    assert!(plan.params.field_gain() < 1.0 && tolerance(plan) > SEEN, "the law explains what is seen");
    let mut judge = build(&FieldPlan { engine: EngineKind::Reference, ..plan.clone() });
    let mut engine = build(plan);
    for cycle in 0..cycles {
        let stimulus = stimulus(cycle, rung(cycle));
        let expected = judge.cycle(&stimulus).expect("in range");
        let response = engine.cycle(&stimulus).expect("in range");
        let when = format!("{what}, cycle {cycle}, rung {}", rung(cycle));
        let near = |name: &str, a: f64, b: f64| {
            assert!((a - b).abs() <= SEEN, "{name}: {a} for {b}; {when}");
        };
        let (Engine::Cpu(cpu), Engine::Reference(reference)) = (&engine, &judge) else { unreachable!() };
        for c in 0..CHANNELS {
            assert_eq!(cpu.channel(c).len(), reference.channel(c).len(), "{when}");
            let cells = cpu.channel(c).iter().zip(reference.channel(c));
            cells.for_each(|(a, b)| near(&format!("channel {c}"), f64::from(*a), *b));
        }
        let features = cpu.features().iter().zip(reference.features());
        features.enumerate().for_each(|(i, (a, b))| near(&format!("feature {i}"), f64::from(*a), *b));
        let predicted = cpu.prediction().iter().zip(reference.prediction());
        predicted.enumerate().for_each(|(i, (a, b))| near(&format!("prediction {i}"), *a, *b));
        for motor in 0..plan.shape.motors {
            near("score", response.scores[motor].into(), expected.scores[motor].into());
            near("motor", response.motors[motor].into(), expected.motors[motor].into());
        }
        assert!((response.novelty - expected.novelty).abs() <= 10.0 * SEEN as f32, "novelty; {when}");
        near("confidence", response.confidence.into(), expected.confidence.into());
        // A quotient of errors that may both be small.
        assert!((response.skill - expected.skill).abs() < 1e-3, "{when}");
        assert_eq!(engine.experiences(), judge.experiences(), "{when}");
        assert_eq!(engine.nearest().len(), judge.nearest().len(), "{when}");
        for ((row, cosine), (expected_row, expected)) in engine.nearest().iter().zip(judge.nearest()) {
            // A descriptor of one sensor is about a tenth long: its errors count so much more.
            assert!((cosine - expected).abs() <= 10.0 * SEEN, "cosine: {cosine} for {expected}; {when}");
            assert_eq!(row, expected_row, "{when}");
        }
        assert_eq!(engine.blend().0, judge.blend().0, "{when}");
        engine.blend().1.iter().zip(judge.blend().1).for_each(|(a, b)| near("weight", *a, *b));
        if cycle % 20 == 0 {
            let (now, judged) = (engine.measure_now(), judge.measure_now());
            near("mean", now.mean.into(), judged.mean.into());
            near("std", now.std.into(), judged.std.into());
            near("max", now.max.into(), judged.max.into());
            near("energy", now.energy.into(), judged.energy.into());
        }
    }
    assert!(plan.shape.bank > 1 || engine.experiences() == plan.shape.bank, "the bank was in use");
}

#[test]
fn agrees_with_the_reference_on_every_rung() {
    assert_agreement(&plan(8), 180, rung_at);
    assert_agreement(&plan(16), 60, rung_at);
}

#[test]
fn agrees_with_the_reference_on_the_full_grid() {
    assert_agreement(&plan(32), 8, |cycle| [0, 1, 5, 5, 0, 3, 4, 0][cycle as usize]);
}

#[test]
fn agrees_with_the_reference_at_the_edges_of_the_shape() {
    let least = Shape { grid: 8, sensors: 1, motors: 1, patterns: 1, bank: 1 };
    let most = Shape { grid: 8, sensors: 64, motors: 16, patterns: 3, bank: 9 };
    for shape in [least, most] {
        assert_agreement(&FieldPlan { shape, ..plan(8) }, 70, rung_at);
    }
}

#[test]
fn agrees_with_the_reference_at_other_rates_and_with_noise() {
    // Shares below 1, three sub-steps of a long period, motors that explore.
    for ms in [10, 125] {
        let params = Params { explore: 0.3, ..Params::default() };
        assert_agreement(&FieldPlan { params, dt: Span::from_millis(ms), ..plan(8) }, 70, rung_at);
    }
}

/// Bits of everything that an engine shows.
fn fingerprint(engine: &Engine, response: &Response) -> Vec<u32> {
    let Engine::Cpu(cpu) = engine else { unreachable!() };
    let answers = response.scores.iter().chain(&response.motors);
    let rest = [response.confidence, response.skill, response.novelty];
    let cells = (0..CHANNELS).flat_map(|c| cpu.channel(c));
    answers.chain(&rest).chain(cpu.features()).chain(cells).map(|x| x.to_bits()).collect()
}

#[test]
fn the_number_of_threads_cannot_be_seen() {
    for grid in [8, 16] {
        let mut engines: Vec<Engine> =
            [1, 2, 3, 8].map(|threads| build(&FieldPlan { threads, ..plan(grid) })).into();
        assert_eq!(engines.iter().map(Engine::threads).collect::<Vec<_>>(), [1, 2, 3, 8]);
        for cycle in 0..60 {
            let stimulus = stimulus(cycle, rung_at(cycle));
            let shown = engines.iter_mut().map(|engine| {
                let response = engine.cycle(&stimulus).expect("in range");
                (fingerprint(engine, &response), engine.nearest().to_vec(), engine.prediction().to_vec())
            });
            let shown: Vec<_> = shown.collect();
            assert!(shown.iter().all(|one| *one == shown[0]), "grid {grid}, cycle {cycle}");
        }
        assert_eq!(engines[0].experiences(), 20, "the bank was full, so rows were replaced");
    }
}

#[test]
fn what_is_refused_leaves_no_trace() {
    for kind in [EngineKind::Cpu, EngineKind::Reference] {
        let plan = FieldPlan { engine: kind, ..plan(8) };
        let (mut tried, mut spared) = (build(&plan), build(&plan));
        for cycle in 0..24 {
            let good = stimulus(cycle, rung_at(cycle));
            for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0 + f32::EPSILON, -7.0] {
                for sensor in [0, 15] {
                    let mut bad = Stimulus { rung: Rung::WORST, ..good };
                    bad.sensors[sensor] = value;
                    let refused = tried.cycle(&bad).expect_err("no sensor value");
                    assert_eq!(refused.sensor, Some(sensor));
                    assert_eq!(refused.value.to_bits(), value.to_bits());
                }
                let refused = tried.cycle(&Stimulus { reward: value, ..good }).expect_err("no reward");
                assert_eq!(refused.sensor, None);
            }
            // What lies behind the last sensor is nobody's.
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
fn rest_is_the_start_again_with_library_and_readout() {
    let plan = plan(8);
    let (mut used, mut new) = (build(&plan), build(&plan));
    (0..33).for_each(|cycle| assert!(used.cycle(&stimulus(cycle, rung_at(cycle))).is_ok()));
    used.rest(); // from the half grid, in the middle of a sweep of the bank
    for cycle in 0..40 {
        let stimulus = stimulus(cycle, rung_at(cycle));
        let (a, b) = (used.cycle(&stimulus).expect("in range"), new.cycle(&stimulus).expect("in range"));
        assert_eq!(fingerprint(&used, &a), fingerprint(&new, &b), "cycle {cycle}");
        assert_eq!(used.nearest(), new.nearest());
    }
}

#[test]
fn motors_do_not_jump_when_the_resolution_changes() {
    let mut engine = build(&plan(16));
    let mut last = engine.cycle(&stimulus(0, 0)).expect("in range");
    for cycle in 1..60 {
        // From one grid to the other every ten cycles.
        let response =
            engine.cycle(&stimulus(cycle, if cycle / 10 % 2 == 1 { 5 } else { 0 })).expect("in range");
        if cycle % 10 == 0 {
            assert_eq!(
                response.scores, last.scores,
                "cycle {cycle}: the bridge begins where the old grid ended"
            );
        } else {
            assert_ne!(response.scores, last.scores, "cycle {cycle}: and the field goes on");
        }
        last = response;
    }
}

#[test]
fn a_pattern_can_be_replaced_while_it_is_blended() {
    let mut engines = [EngineKind::Cpu, EngineKind::Reference]
        .map(|kind| Engine::build(&FieldPlan { engine: kind, ..plan(8) }));
    let mut means = [[0.0_f32; 2]; 2];
    for (engine, means) in engines.iter_mut().zip(&mut means) {
        assert!(engine.store_pattern(0, &volume(0, 8), &context(0), 1.0));
        // At rung 2 the library is matched at even numbers only: cycle 1 keeps the match of cycle 0.
        assert!(engine.cycle(&stimulus(0, 2)).is_ok());
        assert!(engine.store_pattern(0, &[0.95; PATTERN * 512], &context(0), 1.0));
        for (cycle, mean) in means.iter_mut().enumerate() {
            assert!(engine.cycle(&stimulus(1 + cycle as u64, 2)).is_ok());
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

/// A run in which everything happens that can happen: all rungs and changes, learning, a full bank
/// that evicts, a library that blends, metrics, refusals, another read-out and another pattern.
fn eventful(engine: &mut Engine, cycles: std::ops::Range<u64>, readout: &[f32], volume: &[f32]) {
    for cycle in cycles {
        let mut bad = stimulus(cycle, 0);
        bad.sensors[3] = f32::NAN;
        assert!(engine.cycle(&bad).is_err());
        assert!(engine.cycle(&stimulus(cycle, rung_at(cycle))).is_ok());
        if cycle % 50 == 7 {
            assert!(engine.set_readout(readout));
            assert!(engine.store_pattern(5, volume, &context(5), 1.0));
        }
    }
}

#[test]
fn a_cycle_allocates_nothing() {
    let plan = FieldPlan { shape: Shape { bank: 5, ..plan(8).shape }, ..plan(8) };
    let (readout, volume) = (readout(5), volume(5, 8));
    let mut engine = build(&plan);
    assert_eq!(allocations_in(|| eventful(&mut engine, 0..240, &readout, &volume)), 0);
    assert!(engine.experiences() == 5 && engine.metrics().is_some_and(|metrics| metrics.cycle == 200));
}

#[test]
fn worker_threads_allocate_nothing_either() {
    alone("engines::worker_threads_allocate_nothing_either", || {
        for threads in [1, 2, 3] {
            let plan = FieldPlan { threads, shape: Shape { bank: 5, ..plan(8).shape }, ..plan(8) };
            let (readout, volume) = (readout(5), volume(5, 8));
            let mut engine = build(&plan);
            // A thread that has just been started takes what it needs for itself.
            eventful(&mut engine, 0..2, &readout, &volume);
            let count = allocations_in_process(|| eventful(&mut engine, 2..240, &readout, &volume));
            assert_eq!(count, 0, "{threads} threads");
        }
    });
}

#[test]
fn an_engine_moves_between_threads() {
    let mut engine = build(&FieldPlan { threads: 2, ..plan(8) });
    let mut stay = build(&FieldPlan { threads: 2, ..plan(8) });
    for cycle in 0..6 {
        let stimulus = stimulus(cycle, 0);
        let expected = stay.cycle(&stimulus).expect("in range");
        let (back, response) = std::thread::spawn(move || {
            let response = engine.cycle(&stimulus);
            (engine, response)
        })
        .join()
        .expect("no panic");
        engine = back;
        assert_eq!(response.expect("in range").scores, expected.scores);
    }
}

#[test]
fn both_engines_are_built_alike() {
    let plan = plan(8);
    let (cpu, reference) = (CpuEngine::new(&plan), ReferenceEngine::new(&plan));
    for c in 0..CHANNELS {
        let cells = cpu.channel(c).iter().zip(reference.channel(c));
        assert!(cells.clone().count() == 512 && cells.clone().all(|(a, b)| (f64::from(*a) - b).abs() < 1e-7));
    }
    assert!(cpu.memory_bytes() > 0 && cpu.memory_bytes() < reference.memory_bytes());
}
