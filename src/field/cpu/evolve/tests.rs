//! Compares a sweep with the formula in f64, in both storage formats, at every level and on all grids; also
//! tests its bound, its sums and the error of its tanh.

use super::super::fixed::Fixed;
use super::super::fixture::plan;
use super::*;
use crate::base::plan::{Params, Storage};
use crate::base::seed::{Stream, uniform};
use crate::field::projections::Projections;
use crate::field::shape::GROUP;
use crate::system::cpu::simd::{Half, Level};
use std::f64::consts::LOG2_E;

/// Maximum number of receptive fields in these tests.
const TAPS: usize = 4;

fn draw(seed: u64, i: usize) -> f32 {
    (2.0 * uniform(seed, Stream::Stimulus, i as u64) - 1.0) as f32
}

/// Half a unit in the last place of the storage, for magnitudes from 0.5 to 1.
fn rounding(storage: Storage) -> f64 {
    match storage {
        Storage::F32 => 2.0_f64.powi(-25),
        Storage::F16 => 2.0_f64.powi(-12),
    }
}

/// One channel with everything that drives it.
struct Scene<C, const N: usize> {
    front: Vec<C>,
    bias: f32,
    amplitudes: Vec<f32>,
    profiles: Vec<f32>,
    patterns: Vec<(Vec<i16>, f32)>,
    step: Step,
}

impl<C: Cell, const N: usize> Scene<C, N> {
    /// Random cells within the bound, `taps` receptive fields, `patterns` patterns.
    fn random(seed: u64, taps: usize, patterns: usize, step: Step) -> Scene<C, N> {
        let cells = N * N * N;
        let pattern = |p: usize| {
            let volume = (0..cells).map(|i| (32767.0 * draw(seed + 10 + p as u64, i)) as i16).collect();
            (volume, 0.03 / 32767.0 * (p + 1) as f32)
        };
        Scene {
            front: (0..cells).map(|i| C::of(step.bound * draw(seed, i))).collect(),
            bias: draw(seed + 1, 0),
            amplitudes: (0..taps).map(|tap| 2.0 * draw(seed + 2, tap)).collect(),
            profiles: (0..taps * 3 * N).map(|i| draw(seed + 3, i).abs()).collect(),
            patterns: (0..patterns).map(pattern).collect(),
            step,
        }
    }

    /// New cells and their block sums. If there is a `sum`, adds the cells to it, or replaces it if the flag
    /// beside it is true.
    fn swept(&self, level: Level, sum: Option<(&mut [f32], bool)>) -> (Vec<C>, [f32; BLOCK_COUNT]) {
        // 9 marks cells that were not written: no cell can have this value.
        let mut back = vec![C::of(9.0); N * N * N];
        let (mut planes, mut scratch) = (vec![f32::NAN; 3 * N * N], vec![f32::NAN; N * N]);
        let mut heights = vec![f32::NAN; TAPS * N];
        let blended: Blended = self.patterns.iter().map(|(volume, share)| (&volume[..], *share)).collect();
        let (sum, first) = sum.map_or((None, false), |(sum, first)| (Some(sum), first));
        let blocks = level.within(N).run(Sweep::<C, N> {
            front: &self.front,
            back: &mut back,
            planes: &mut planes,
            heights: &mut heights,
            drive: Drive { bias: self.bias, amplitudes: &self.amplitudes, profiles: &self.profiles },
            step: self.step,
            blended: &blended,
            sum,
            scratch: &mut scratch,
            first,
        });
        (back, blocks)
    }

    /// The formula, cell by cell; the edge value is repeated beyond the edge.
    fn by_formula(&self) -> Vec<f64> {
        let u = |x: usize, y: usize, z: usize| f64::from(self.front[(z * N + y) * N + x].get());
        let low = |i: usize| i.saturating_sub(1);
        let high = |i: usize| (i + 1).min(N - 1);
        let step = self.step;
        let cell = |i: usize| {
            let (x, y, z) = (i % N, i / N % N, i / N / N);
            let sides = u(low(x), y, z) + u(high(x), y, z) + u(x, low(y), z) + u(x, high(y), z);
            let sides = sides + u(x, y, low(z)) + u(x, y, high(z));
            let profile =
                |tap: usize, axis: usize, at: usize| f64::from(self.profiles[(tap * 3 + axis) * N + at]);
            let bump = |tap: usize| profile(tap, 0, x) * profile(tap, 1, y) * profile(tap, 2, z);
            let taps = self.amplitudes.iter().enumerate();
            let drive: f64 = taps.map(|(tap, amplitude)| f64::from(*amplitude) * bump(tap)).sum();
            let argument = f64::from(step.centre) * u(x, y, z) + f64::from(step.side) * sides;
            let argument = argument + drive + f64::from(self.bias);
            let own = f64::from(step.keep) * u(x, y, z)
                + f64::from(step.reach) * (argument / (2.0 * LOG2_E)).tanh();
            let bound = f64::from(step.bound);
            let patterns_give =
                self.patterns.iter().map(|(volume, share)| f64::from(*share) * f64::from(volume[i]));
            (own + patterns_give.sum::<f64>()).clamp(-bound, bound)
        };
        (0..N * N * N).map(cell).collect()
    }
}

/// Coefficients close to those of content channels at 100 Hz, where all terms matter. Both storages represent
/// the bound exactly.
fn usual_step() -> Step {
    let (exponent, bound) = (2.0 * std::f32::consts::LOG2_E, 1945.0 / 2048.0);
    Step { centre: exponent * 0.9 * 0.4, side: exponent * 0.09, keep: 0.8, reach: 0.19, bound }
}

/// Checks all outputs of a sweep, for one kind of cell on one grid.
fn sweeps_are_the_formula<C: Cell, const N: usize>(storage: Storage) {
    // The rounding errors of a sum of a dozen terms of size 1 to 4, multiplied by a slope below 1, plus the
    // error of the tanh, which for half precision is 5.1e-5 (`COARSE`) times a reach of 0.19.
    let near = if C::PACKED { 1.1e-5 } else { 1e-6 };
    let kinds = [(1, 0), (0, 2), (0, 0), (TAPS, 0), (2, 1), (3, 3)];
    for (taps, patterns) in kinds.into_iter().take(if cfg!(miri) { 2 } else { kinds.len() }) {
        let scene = Scene::<C, N>::random(20 * N as u64, taps, patterns, usual_step());
        let by_formula = scene.by_formula();
        let side = N / BLOCKS;
        let mut sums = [0.0; BLOCK_COUNT];
        for (i, u) in by_formula.iter().enumerate() {
            let [x, y, z] = [i % N / side, i / N % N / side, i / N / N / side];
            sums[(z * BLOCKS + y) * BLOCKS + x] += u;
        }
        let mut fused: Option<Vec<u32>> = None;
        for level in Level::all() {
            let what = format!("{N}, {taps} taps, {patterns} patterns, {}", level.name());
            let (back, blocks) = scene.swept(level, None);
            for (i, (cell, expected)) in back.iter().zip(&by_formula).enumerate() {
                let off = (f64::from(cell.get()) - expected).abs();
                assert!(off <= near + rounding(storage), "{what}, cell {i}: {} for {expected}", cell.get());
            }
            let cells = (side * side * side) as f64;
            for (sum, expected) in blocks.iter().zip(&sums) {
                assert!((f64::from(*sum) - expected).abs() <= cells * near, "{what}: {sum} for {expected}");
            }
            let shown: Vec<u32> = back.iter().map(|cell| cell.get().to_bits()).collect();
            let all: Vec<u32> = shown.into_iter().chain(blocks.map(f32::to_bits)).collect();
            // Grids narrower than a level's registers are computed by another level.
            if level.within(N).name() != "portable" {
                assert!(fused.get_or_insert_with(|| all.clone()) == &all, "{what}: fused levels differ");
            }
            if patterns == 0 {
                let mut total = vec![f32::NAN; N * N * N];
                let (one, same) = scene.swept(level, Some((&mut total, true)));
                assert!(one.iter().zip(&back).all(|(a, b)| a.get().to_bits() == b.get().to_bits()), "{what}");
                assert_eq!(blocks.map(f32::to_bits), same.map(f32::to_bits), "{what}");
                scene.swept(level, Some((&mut total, false)));
                let twice = total
                    .iter()
                    .zip(&by_formula)
                    .all(|(sum, u)| (f64::from(*sum) - 2.0 * u).abs() <= 3.0 * near);
                assert!(twice, "{what}: adding a channel to itself doubles the sum");
                gathers_the_sums_of_the_sweep::<C, N>(level, &back, &blocks, storage);
            }
        }
    }
}

/// The sums that [`Gather`] computes from stored cells equal those of the sweep that computed the cells,
/// except for the rounding to the storage format.
fn gathers_the_sums_of_the_sweep<C: Cell, const N: usize>(
    level: Level,
    cells: &[C],
    blocks: &[f32; BLOCK_COUNT],
    storage: Storage,
) {
    let mut total = vec![f32::NAN; N * N * N];
    for (first, times) in [(true, 1.0), (false, 2.0)] {
        let gather = Gather::<C, N> { front: cells, sum: Some(&mut total), first };
        let found = level.within(N).run(gather);
        let per_cell = 1e-6 + rounding(storage);
        let most = per_cell * (cells.len() / BLOCK_COUNT) as f64;
        for (block, (a, b)) in found.iter().zip(blocks).enumerate() {
            assert!((f64::from(*a) - f64::from(*b)).abs() <= most, "{N}, block {block}: {a} for {b}");
        }
        assert!(total.iter().zip(cells).all(|(sum, cell)| (sum - times * cell.get()).abs() < 1e-6));
    }
    let alone = level.within(N).run(Gather::<C, N> { front: cells, sum: None, first: false });
    let again = level.within(N).run(Gather::<C, N> { front: cells, sum: Some(&mut total), first: true });
    assert_eq!(alone.map(f32::to_bits), again.map(f32::to_bits));
}

#[test]
fn cell_uses_old_values_of_its_six_neighbours_on_every_grid() {
    sweeps_are_the_formula::<f32, 8>(Storage::F32);
    if cfg!(miri) {
        return; // even the smallest grid that fills a register takes half a minute under Miri
    }
    sweeps_are_the_formula::<f32, 4>(Storage::F32);
    sweeps_are_the_formula::<f32, 16>(Storage::F32);
    sweeps_are_the_formula::<f32, 32>(Storage::F32);
    sweeps_are_the_formula::<f32, 64>(Storage::F32);
}

#[test]
fn half_precision_cells_use_old_neighbour_values_too() {
    sweeps_are_the_formula::<Half, 4>(Storage::F16);
    sweeps_are_the_formula::<Half, 8>(Storage::F16);
    sweeps_are_the_formula::<Half, 16>(Storage::F16);
    sweeps_are_the_formula::<Half, 32>(Storage::F16);
    sweeps_are_the_formula::<Half, 64>(Storage::F16);
}

/// Fields at the bound, drives that push beyond it, extreme patterns, 250 shares of a step.
fn nothing_passes_the_bound<C: Cell, const N: usize>(storage: Storage) {
    let count = 250;
    for beta in [0.05, 0.001] {
        let params = Params { beta, ..Params::default() };
        let plan = crate::base::plan::FieldPlan { storage, params, ..plan(8) };
        let projections = Projections::new(&plan, 8);
        for (group, patterns) in [(0, 0), (32 / GROUP, 1), (32 / GROUP, 3)] {
            let fixed = Fixed::new(group, &plan, &projections);
            for i in 1..=count {
                let share = f64::from(i) / f64::from(count);
                let step = fixed.step(false, share);
                let mut scene = Scene::<C, N>::random(i as u64, 2, patterns, step);
                // All combinations of the signs of cells, drive and patterns, and a mixture.
                let signs = [1.0, -1.0, if i % 2 == 0 { 1.0 } else { -1.0 }];
                scene.bias = (3e6 * signs[i as usize % 3]) as f32;
                scene.amplitudes.fill(3e6 * draw(7, i as usize));
                for (place, cell) in scene.front.iter_mut().enumerate() {
                    let mixed = if place % 2 == 0 { step.bound } else { -step.bound };
                    *cell =
                        C::of(if place < N * N { mixed } else { step.bound * signs[i as usize % 2] as f32 });
                }
                for (volume, weight) in &mut scene.patterns {
                    volume.fill(if i % 5 < 3 { 32767 } else { -32767 });
                    *weight = fixed.pattern_step(share, 1.0, 1.001 * step.bound / 32767.0);
                }
                for level in Level::all() {
                    for _ in 0..3 {
                        let (back, _) = scene.swept(level, None);
                        let most = back.iter().fold(0.0_f32, |most, u| most.max(u.get().abs()));
                        assert!(back.iter().all(|u| u.get().is_finite()), "{}, share {share}", level.name());
                        assert!(
                            most <= step.bound,
                            "{}, share {share}: {most} > {}",
                            level.name(),
                            step.bound
                        );
                        scene.front = back;
                    }
                }
            }
        }
    }
}

#[test]
fn bound_holds_exactly_despite_rounding() {
    nothing_passes_the_bound::<f32, 8>(Storage::F32);
    nothing_passes_the_bound::<Half, 8>(Storage::F16);
    nothing_passes_the_bound::<f32, 16>(Storage::F32);
    nothing_passes_the_bound::<Half, 16>(Storage::F16);
}

/// The largest error of the tanh. The test below found 1.88e-7 at the portable level, which rounds most
/// often, and 1.86e-7 at the levels with fused operations, at a result near -0.8: about three units of 2^-24.
const TANH_ERROR: f64 = 1.9e-7;

/// The tanh of `arguments` divided by 2 log2(e), computed by a step with `keep` 0 and `reach` 1 that depends
/// only on the cell itself.
fn tanh_of<const N: usize>(level: Level, arguments: Vec<f32>) -> Vec<f32> {
    let step = Step { centre: 1.0, side: 0.0, keep: 0.0, reach: 1.0, bound: 1.0 };
    let mut scene = Scene::<f32, N>::random(1, 0, 0, step);
    (scene.bias, scene.front) = (0.0, arguments);
    scene.swept(level, None).0
}

#[test]
fn tanh_is_within_its_error_bounded_and_monotonic() {
    const N: usize = if cfg!(miri) { 8 } else { 64 };
    let count = N * N * N;
    for level in Level::all() {
        let (mut worst, mut worst_at) = (0.0_f64, 0.0);
        // Sampled densely where the curve bends, over the whole range in which it changes, and around 0.
        for (from, to) in [(-1.0, 1.0), (-4.0, -1.0), (1.0, 4.0), (-30.0, 30.0), (-1e-3, 1e-3)] {
            let at = |i: usize| (from + (to - from) * i as f64 / count as f64) as f32;
            let found = tanh_of::<N>(level, (0..count).map(at).collect());
            let mut highest = -1.0_f32;
            for (i, tanh) in found.iter().enumerate() {
                let off = (f64::from(*tanh) - (f64::from(at(i)) / (2.0 * LOG2_E)).tanh()).abs();
                if off > worst {
                    (worst, worst_at) = (off, at(i));
                }
                assert!(tanh.abs() <= 1.0, "{}: {tanh} at {}", level.name(), at(i));
                assert!(f64::from(highest - tanh) <= TANH_ERROR, "{}: falls at {}", level.name(), at(i));
                highest = highest.max(*tanh);
            }
        }
        assert!(worst <= TANH_ERROR, "{}: {worst:e} at {worst_at}", level.name());
        assert!(cfg!(miri) || worst >= 0.8 * TANH_ERROR, "{}: {worst:e}: update TANH_ERROR", level.name());
        let ends = [0.0, -0.0, 126.0, -126.0, 127.0, -127.0, 8.7e6, -8.7e6, 1e30, -1e30];
        let found = tanh_of::<8>(level, (0..512).map(|i| ends[i % ends.len()]).collect());
        for (i, tanh) in found.iter().enumerate() {
            let expected: f32 = [0.0, 0.0, 1.0, -1.0][if i % ends.len() < 2 { 0 } else { 2 + i % 2 }];
            assert!((tanh - expected).abs() == 0.0, "{}: {tanh} at {}", level.name(), ends[i % ends.len()]);
        }
    }
}
