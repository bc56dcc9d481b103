//! Tests of the CUDA kernels without a GPU: the emulator (`kernels/emulator`) runs the same source, and each
//! cycle is compared with the f64 reference. Two orders of threads must give bit-identical results.
//!
//! These tests cannot show what machine code a GPU's compiler generates, or how fast that is. Without a C++
//! compiler they report that they are skipped.

mod bank;
mod budget;
mod emulator;
mod gpu;
mod gpu_check;
mod image;
pub mod engine;
mod release;
mod rig;
mod robot;
pub mod standin;
mod tables;

use crate::field_cpu::{input, volume};
use ganglion::base::plan::{EngineKind, FieldPlan, Params, Shape, Storage};
use ganglion::base::seed::{Stream, normal, uniform};
use ganglion::base::time::Span;
use ganglion::field::projections::Projections;
use ganglion::field::reference::ReferenceEngine;
use ganglion::field::shape::{
    BANK_TOP, CHANNELS, CONTEXT, DESCRIPTOR, GROUP, PATTERN, READOUT_COLUMNS, READOUT_GRIDS, sub_steps,
};
use ganglion::field::{FieldEngine, FieldInput, FieldOutput, Inspect};
use rig::{Launching, Rig};
use tables::DeviceAnswer;

/// As for one robot on a large GPU: thin slabs, so `evolve` has the largest number of blocks.
const SPREAD: Launching = Launching { planes: 1, blocks: 2 };
/// Thicker slabs: fewer blocks of `evolve`, with more work each.
const PACKED: Launching = Launching { planes: 2, blocks: 3 };

fn plan(grid: usize) -> FieldPlan {
    FieldPlan {
        engine: EngineKind::Reference,
        shape: Shape { grid, sensors: 16, motors: 5, patterns: 6, bank: 12 },
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

/// Every level, every step to the next worse and the next better level, and some jumps; three
/// cycles of each, so that every level runs in even and in odd cycles.
fn level_at(cycle: u64) -> usize {
    const ORDER: [usize; 16] = [0, 1, 2, 3, 4, 5, 0, 5, 4, 3, 2, 1, 0, 2, 3, 0];
    ORDER[(cycle / 3) as usize % ORDER.len()]
}

fn context(slot: usize) -> [f32; CONTEXT] {
    std::array::from_fn(|i| uniform(3, Stream::Patterns, (slot * CONTEXT + i) as u64) as f32 - 0.5)
}

fn readout(motors: usize) -> Vec<f32> {
    (0..READOUT_GRIDS * motors * READOUT_COLUMNS)
        .map(|i| 0.05 * normal(5, Stream::Patterns, i as u64) as f32)
        .collect()
}

/// The kernels and the reference that they are compared with, with the same contents.
struct Pair {
    rig: Rig,
    judge: ReferenceEngine,
    plan: FieldPlan,
    what: String,
}

impl Pair {
    /// With the first `patterns` slots of the library filled; `None` without a compiler.
    fn new(plan: &FieldPlan, launching: Launching, patterns: usize) -> Option<Pair> {
        let mut rig = Rig::new(plan, launching, 1)?;
        let mut judge = ReferenceEngine::new(plan);
        for slot in 0..patterns {
            let volume = volume(slot, plan.shape.grid);
            rig.store_pattern(slot, &volume, &context(slot));
            assert!(judge.store_pattern(slot, &volume, &context(slot), 1.0));
        }
        rig.set_readout(&readout(plan.shape.motors));
        assert!(judge.set_readout(&readout(plan.shape.motors)));
        let what = format!("grid {}, {} sensors, {:?}", plan.shape.grid, plan.shape.sensors, plan.dt);
        Some(Pair { rig, judge, plan: plan.clone(), what })
    }

    fn cycle(&mut self, cycle: u64, quality: usize) -> (DeviceAnswer, FieldOutput) {
        let input = input(9, cycle, quality);
        let answer = self.rig.cycle(&[input]).remove(0);
        (answer, self.judge.cycle(&input).expect("in range"))
    }

    /// Compares cells and features with their tolerances; `cell` returns the tolerance for the cells of a
    /// channel.
    fn compare_field(&mut self, when: &str, cell: impl Fn(usize) -> f64, feature: f64) {
        for c in 0..CHANNELS {
            let (mine, judged) = (self.rig.channel(0, c), self.judge.channel(c));
            assert_eq!(mine.len(), judged.len(), "{when}");
            mine.iter().zip(judged).for_each(|(a, b)| near(when, "cell", f64::from(*a), *b, cell(c)));
        }
        let features = self.rig.features(0);
        for (i, (a, b)) in features.iter().zip(self.judge.features()).enumerate() {
            near(when, &format!("feature {i}"), f64::from(*a), *b, feature);
        }
    }

    /// Compares everything that a cycle exposes, in f32 storage.
    fn compare(&mut self, quality: usize, answer: &DeviceAnswer, expected: &FieldOutput) {
        let when = format!("{}, cycle {}, level {quality}", self.what, answer.cycle);
        assert_eq!(answer.cycle, expected.cycle, "{when}");
        self.compare_field(&when, |_| SEEN, SEEN);
        let near = |what: &str, a: f64, b: f64| near(&when, what, a, b, SEEN);
        let predicted = answer.prediction.iter().zip(self.judge.prediction());
        predicted.for_each(|(a, b)| near("prediction", *a, *b));
        for motor in 0..self.plan.shape.motors {
            near("score", answer.scores[motor].into(), expected.scores[motor].into());
            near("motor", answer.motors[motor].into(), expected.motors[motor].into());
        }
        near("confidence", answer.confidence.into(), expected.confidence.into());
        // The skill is a quotient of two errors that may both be small.
        assert!((answer.skill - expected.skill).abs() < 1e-3, "skill; {when}");
        // With one sensor, a descriptor has a length of about 0.1, so its errors count ten times as much.
        assert!((answer.novelty - expected.novelty).abs() <= 10.0 * SEEN as f32, "novelty; {when}");
        assert_eq!(answer.experiences, self.judge.experiences(), "{when}");
        let found = self.judge.nearest();
        assert_eq!(answer.nearest, found.len(), "{when}");
        for (i, (row, cosine)) in found.iter().enumerate() {
            assert!((answer.cosine[i] - cosine).abs() <= 10.0 * SEEN, "cosine; {when}");
            assert_eq!(answer.row[i] as usize, *row, "{when}");
        }
        let (slots, weights) = self.judge.blend();
        assert_eq!(
            answer.slot[..answer.blended].iter().map(|s| *s as usize).collect::<Vec<_>>(),
            slots,
            "{when}"
        );
        answer.weight.iter().zip(weights).for_each(|(a, b)| near("weight", *a, *b));
    }

    /// Compares the current metrics with those of the reference.
    fn compare_metrics(&mut self) {
        let (before, ..) = self.rig.metric(0);
        self.rig.measure_now();
        let (written, cycle, numbers) = self.rig.metric(0);
        let judged = self.judge.measure_now();
        assert_eq!((written, cycle), (before + 1, judged.cycle), "one more entry");
        for (mine, judged) in numbers.iter().zip([judged.mean, judged.std, judged.max, judged.energy]) {
            near(&self.what, "metric", f64::from(*mine), f64::from(judged), SEEN);
        }
    }
}

fn near(when: &str, what: &str, a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance, "{what}: {a}, expected {b}; {when}");
}

/// Largest possible error of an f32 cell, in any run: the bound of `tests/field_cpu/agreement.rs`.
///
/// One sub-step of share k adds an error of k d + m. Here d is the error of F: (T + 4) A eps from the drive,
/// which is a sum of T sensor terms whose magnitudes add up to A; 12 eps from diffusion and slope; 6e-7 from
/// the tanh (4e-7, and a quotient with an error of two units in the last place); and a tenth of half a step
/// from a stored pattern. The error of the mix, m, is 3 roundings. A sub-step multiplies older errors by
/// 1 - k (1 - G).
fn tolerance(plan: &FieldPlan) -> f64 {
    let (params, eps) = (plan.params, f64::from(f32::EPSILON) / 2.0);
    let projections = Projections::new(plan, plan.shape.grid);
    let felt = 1.0 + 2.0 * params.eta;
    let drive = |channel: usize| {
        let reached = projections.weight[channel].iter().filter(|w| w.abs() > 0.0);
        let terms = reached.clone().map(|w| w.abs() * felt).sum::<f64>() + projections.bias[channel].abs();
        (reached.count() + 4) as f64 * params.gain * terms * eps
    };
    let drive = (0..CHANNELS).map(drive).fold(0.0, f64::max);
    let (_, share) = sub_steps(plan.dt.as_secs_f64(), params.t_slow);
    let pattern = params.pattern_share * 0.5 * 0.95 / 32767.0;
    let value = (1.0 - params.beta) * (drive + 12.0 * eps) + 6e-7 + pattern;
    (share * value + 3.0 * eps) / (share * (1.0 - params.field_gain()))
}

/// The tolerance that the tests use. In practice rounding errors stay below it, since they do not all have
/// the same sign; as for the CPU engine.
const SEEN: f64 = 1e-5;

/// Runs one cycle of kernels and reference for each of `levels`, and checks after each that all agrees.
/// False without a compiler.
fn assert_agreement(plan: &FieldPlan, launching: Launching, patterns: usize, levels: &[usize]) -> bool {
    assert!(tolerance(plan) > SEEN, "the bound must exceed the tolerance");
    let Some(mut pair) = Pair::new(plan, launching, patterns) else { return false };
    for (cycle, quality) in levels.iter().enumerate() {
        let (answer, expected) = pair.cycle(cycle as u64, *quality);
        pair.compare(*quality, &answer, &expected);
    }
    pair.compare_metrics();
    true
}

fn every_level(cycles: u64) -> Vec<usize> {
    (0..cycles).map(level_at).collect()
}

#[test]
fn kernels_agree_with_the_reference_at_every_level() {
    let _ = assert_agreement(&plan(8), SPREAD, 5, &every_level(48))
        && assert_agreement(&plan(16), PACKED, 5, &every_level(18));
}

#[test]
fn kernels_agree_with_the_reference_on_the_full_grid() {
    let launching = Launching { planes: 4, ..SPREAD };
    assert_agreement(&plan(32), launching, 3, &[0]);
}

#[test]
fn kernels_agree_with_the_reference_on_the_largest_grid() {
    let plan =
        FieldPlan { shape: Shape { grid: 64, sensors: 8, motors: 2, patterns: 1, bank: 4 }, ..plan(8) };
    assert_agreement(&plan, Launching { planes: 8, ..SPREAD }, 1, &[0]);
}

#[test]
fn kernels_match_the_reference_at_other_rates_and_with_noise() {
    // Shares below 1, a period long enough for three sub-steps (five if a group was held), exploring motors.
    for (ms, launching) in [(10, SPREAD), (125, PACKED)] {
        let params = Params { explore: 0.3, ..Params::default() };
        let plan = FieldPlan { params, dt: Span::from_millis(ms), ..plan(8) };
        assert_agreement(&plan, launching, 5, &[0, 4, 4, 4, 4, 5, 5, 5, 4, 3, 0, 1, 2, 2, 5, 0]);
    }
}

#[test]
fn kernels_agree_with_the_reference_at_the_edges_of_the_shape() {
    let none = Shape { grid: 8, sensors: 2, motors: 1, patterns: 0, bank: 0 };
    let least = Shape { grid: 8, sensors: 1, motors: 1, patterns: 1, bank: 1 };
    let most = Shape { grid: 8, sensors: 64, motors: 16, patterns: 3, bank: 5 };
    for (shape, patterns) in [(none, 0), (least, 1), (most, 0), (most, 3)] {
        let plan = FieldPlan { shape, ..plan(8) };
        // Starts at a level at which slow and pattern groups are held in every second cycle.
        assert_agreement(&plan, PACKED, patterns, &[4, 4, 5, 5, 5, 1, 1, 1, 0, 0, 2, 3, 3, 3, 3, 3]);
    }
}

#[test]
fn a_pattern_can_be_replaced_during_its_blend() {
    let Some(mut pair) = Pair::new(&plan(8), SPREAD, 1) else { return };
    // At level 2 the library is matched in even cycles only: cycle 1 keeps the match of cycle 0.
    for cycle in 0..4 {
        let (answer, expected) = pair.cycle(cycle, 2);
        pair.compare(2, &answer, &expected);
        if cycle == 0 {
            let bound = [0.95; PATTERN * 512];
            pair.rig.store_pattern(0, &bound, &context(0));
            assert!(pair.judge.store_pattern(0, &bound, &context(0), 1.0));
        }
    }
}

/// Descriptors relative to rest, so close to `centre` that their quantised rows rank in the wrong order: the
/// cosines differ by 3e-5 to 1e-3, and a row quantised to bytes has an error of about 3e-4. Every fifth
/// descriptor equals the one before it.
fn memory(row: usize, centre: &[f64]) -> [f32; DESCRIPTOR] {
    let row = if row % 5 == 4 { row - 1 } else { row };
    let length = centre.iter().map(|c| c * c).sum::<f64>().sqrt();
    let apart = (0.05 + 0.0006 * (row * 37 % 150) as f64) / (DESCRIPTOR as f64).sqrt();
    let draw = |i: usize| normal(6, Stream::InitialField, (row * DESCRIPTOR + i) as u64);
    std::array::from_fn(|i| (centre[i] / length + apart * draw(i)) as f32)
}

#[test]
fn the_bank_finds_the_exact_five_and_evicts_the_same_row() {
    // More rows (350) than the bank holds and than a block has threads, many with the same value; first whole
    // sweeps, then half sweeps.
    let shape = Shape { bank: 300, ..plan(8).shape };
    let plan = FieldPlan { shape, learn: false, ..plan(8) };
    let Some(mut pair) = Pair::new(&plan, Launching { planes: 1, blocks: 5 }, 0) else { return };
    let (answer, _) = pair.cycle(0, 0);
    assert_eq!((answer.nearest, answer.novelty.to_bits()), (0, 1.0_f32.to_bits()), "an empty bank");
    let rest = Projections::new(&plan, plan.shape.grid).rest;
    let group = |i: usize| rest[i / 64 * GROUP..][..GROUP].iter().sum::<f64>() / GROUP as f64;
    let descriptor = &pair.judge.features()[CONTEXT..][..DESCRIPTOR];
    let centre: Vec<f64> = descriptor.iter().enumerate().map(|(i, mean)| mean - group(i)).collect();
    for row in 0..350 {
        let value = 0.1 + (row * 37 % 8) as f32 / 16.0;
        pair.rig.store_experience(&memory(row, &centre), value);
        assert!(pair.judge.store_experience(&memory(row, &centre), value));
    }
    let mut ties = 0;
    for cycle in 1..9 {
        let quality = usize::from(cycle > 4);
        let (answer, expected) = pair.cycle(cycle, quality);
        pair.compare(quality, &answer, &expected);
        assert_eq!((answer.experiences, answer.nearest), (300, BANK_TOP));
        let same = |two: &[f64]| (two[1] - two[0]).abs() < f64::EPSILON;
        ties += answer.cosine.windows(2).filter(|two| same(two)).count();
    }
    assert!(ties > 0, "equal rows must be among the nearest");
}

/// Largest possible error of a binary16 cell with learning off and at most one pattern, so that the drive and
/// Q equal the reference's.
///
/// A sub-step rounds to 11 bits: an error of at most 2^-12 below 1. If F exceeds the largest binary16 number
/// that is not above 1 - beta, the cell is clamped to that number, which is too low by at most
/// `reach - half_reach`. A sub-step multiplies older errors by 1 - k (1 - G). After a change from the half
/// grid, a cell has the sum of three errors: its own, that of its block's mean and that of the cell of the
/// half grid.
fn half_tolerance(plan: &FieldPlan, share: f64) -> f64 {
    let clamped = f64::from(tables::reach(plan)) - f64::from(tables::half_reach(plan));
    let once = clamped.max(1.0 / 4096.0) + SEEN;
    3.0 * once / (share * (1.0 - plan.params.field_gain()))
}

#[test]
fn half_storage_stays_in_bounds_and_slow_channels_stay_f32() {
    // At 20 Hz the slow channels move by a twentieth per cycle; at 5 Hz by a fifth, so they may be binary16
    // too.
    for (ms, halves) in [(50, 6), (200, 8)] {
        let shape = Shape { patterns: 1, ..plan(8).shape };
        let plan =
            FieldPlan { shape, storage: Storage::F16, learn: false, dt: Span::from_millis(ms), ..plan(8) };
        assert_eq!((0..8).filter(|group| tables::is_half(&plan, *group)).count(), halves);
        let Some(mut pair) = Pair::new(&plan, PACKED, 1) else { return };
        let share = |c: usize| {
            let t = if c < 48 { plan.params.t_fast } else { plan.params.t_slow };
            sub_steps(plan.dt.as_secs_f64(), t).1
        };
        let bound = |c: usize| {
            if tables::is_half(&plan, c / GROUP) { half_tolerance(&plan, share(c)) } else { SEEN }
        };
        let worst = (0..CHANNELS).map(bound).fold(0.0, f64::max);
        let weights = readout(plan.shape.motors);
        for (cycle, quality) in every_level(24).into_iter().enumerate() {
            let (answer, expected) = pair.cycle(cycle as u64, quality);
            let when = format!("{ms} ms, cycle {cycle}, level {quality}");
            pair.compare_field(&when, bound, worst);
            for motor in 0..plan.shape.motors {
                let grid = &weights[plan.shape.weights_on(quality == 5)];
                let row = &grid[motor * READOUT_COLUMNS..][..READOUT_COLUMNS];
                // The transition goes from an old score to a new one, and both may have errors.
                let reach = 2.0 * worst * row.iter().map(|w| f64::from(w.abs())).sum::<f64>();
                near(&when, "score", answer.scores[motor].into(), expected.scores[motor].into(), reach);
            }
        }
    }
}

#[test]
fn half_storage_stays_in_bounds_with_all_parts_enabled() {
    let plan = FieldPlan { storage: Storage::F16, ..plan(16) };
    let Some(mut pair) = Pair::new(&plan, SPREAD, 5) else { return };
    for (cycle, quality) in every_level(12).into_iter().enumerate() {
        let (answer, _) = pair.cycle(cycle as u64, quality);
        assert!(answer.motors.iter().all(|m| m.abs() <= 1.0) && answer.experiences > 0);
    }
    for c in 0..CHANNELS {
        assert!(pair.rig.channel(0, c).iter().all(|u| u.abs() <= 0.95), "channel {c}");
    }
}

#[test]
fn robots_of_a_batch_do_not_affect_each_other() {
    let plan = plan(8);
    let loaded = |robots: usize| {
        let mut rig = Rig::new(&plan, SPREAD, robots)?;
        (0..3).for_each(|slot| rig.store_pattern(slot, &volume(slot, 8), &context(slot)));
        rig.set_readout(&readout(plan.shape.motors));
        Some(rig)
    };
    let Some(mut batch) = loaded(2) else { return };
    let mut alone: Vec<Rig> = (0..2).filter_map(|_| loaded(1)).collect();
    for cycle in 0..8 {
        let inputs: Vec<FieldInput> = (0..2).map(|robot| input(robot, cycle, level_at(cycle))).collect();
        let answers = batch.cycle(&inputs);
        for (robot, (mine, rig)) in answers.iter().zip(&mut alone).enumerate() {
            let own = rig.cycle(&inputs[robot..=robot]).remove(0);
            // Printed floats differ if a bit differs.
            assert_eq!(format!("{mine:?}"), format!("{own:?}"), "robot {robot}, cycle {cycle}");
        }
    }
}

#[test]
fn a_cycle_has_the_documented_number_of_launches() {
    let Some(mut rig) = Rig::new(&plan(8), SPREAD, 1) else { return };
    rig.cycle(&[input(9, 0, 0)]);
    let before = rig.launches();
    rig.cycle(&[input(9, 1, 0)]);
    assert_eq!(rig.launches() - before, 7, "one sub-step; kernels/README.md lists them");
    rig.cycle(&[input(9, 2, 5)]);
    assert_eq!(rig.launches() - before, 7 + 7 + 1, "one more launch moves the field to the half grid");
    rig.cycle(&[input(9, 3, 5)]);
    assert_eq!(rig.launches() - before, 7 + 8 + 8, "a group that was held takes two sub-steps");
}
