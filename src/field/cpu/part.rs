//! One eighth of the engine: eight channels of the field on both grids, their share of the
//! library, and a shard of the bank. A part carries the orders and the results of its work with
//! it, so that it can go to any thread; no part reads another.

use super::bank::Shard;
use super::crew::Work;
use super::evolve::{Drive, Gather, Step, Tap, evolve};
use super::gradient::{Gradient, reduce};
use super::half::{halve, unhalve};
use super::library::{Blend, Patterns, Volumes};
use crate::field::shape::{BLOCK_COUNT, CONTENT, FieldPlan, GROUP, PATTERN_FIRST, Params, SLOW_FIRST};
use crate::field::wiring::Wiring;
use crate::frame::MAX_SENSORS;

/// What a part is to do next.
#[derive(Clone, Copy)]
pub enum Task {
    /// Evolve the channels by `count` sub-steps of share `share` and reduce the features.
    Sweep {
        /// Whether on the half grid.
        half: bool,
        /// Sub-steps; 0: stand still.
        count: usize,
        /// Share of the step's value in a sub-step's result.
        share: f64,
    },
    /// Compare the shard's query with those of rows `from..to` that lie there.
    Scan {
        /// First row of the bank.
        from: usize,
        /// One past the last.
        to: usize,
    },
}

/// What falls out of a sweep.
pub struct Reduced {
    /// Mean of each channel.
    pub context: [f64; GROUP],
    /// Mean of each block over the channels.
    pub descriptor: [f64; BLOCK_COUNT],
    /// Content groups only.
    pub gradient: Gradient,
}

/// The eight channels' wiring on one grid, in the engine's format.
struct Wires {
    /// Three rows of cells a sensor: profile along x, y, z.
    profile: Vec<f32>,
    /// Cells per axis.
    grid: usize,
    /// Whole cells that a cell is long.
    width: f32,
}

/// Eight channels, with all that is theirs.
pub struct Part {
    /// What to do next.
    pub task: Task,
    /// Felt sensors s + eta e.
    pub felt: [f64; MAX_SENSORS],
    /// What is blended in; pattern channels only.
    pub blend: Blend,
    /// What the last sweep gave.
    pub reduced: Reduced,
    /// A part of the bank.
    pub shard: Shard,
    /// A part of the library; none outside the pattern channels.
    pub volumes: Option<Volumes>,
    first: usize,
    params: Params,
    bias: [f32; GROUP],
    /// Sensors that reach each channel, with gain x weight.
    weights: [Vec<(usize, f64)>; GROUP],
    rest: [f32; GROUP],
    wires: [Wires; 2],
    cells: [Vec<f32>; 2],
    on_half: bool,
    /// Whether `reduced` is that of the cells as they are.
    fresh: bool,
    /// Two planes of old values.
    planes: [Vec<f32>; 2],
    /// Sum of the channels; content groups only.
    sum: Vec<f32>,
    taps: Vec<Tap>,
}

impl Part {
    /// Part `number` at rest; takes all its memory here.
    pub fn new(number: usize, plan: &FieldPlan, wiring: &Wiring) -> Part {
        let (first, grid, params) = (number * GROUP, plan.shape.grid, plan.params);
        let (cells, gain) = (grid.pow(3), params.gain);
        let has_patterns = (PATTERN_FIRST..SLOW_FIRST).contains(&first);
        let weights = |c: usize| {
            let reached = wiring.weight[first + c].iter().enumerate().filter(|(_, w)| w.abs() > 0.0);
            reached.map(|(sensor, weight)| (sensor, gain * weight)).collect()
        };
        let mut part = Part {
            task: Task::Scan { from: 0, to: 0 },
            felt: [0.0; MAX_SENSORS],
            blend: Blend::NONE,
            reduced: Reduced::NOTHING,
            shard: Shard::new(number, plan.shape.bank),
            volumes: has_patterns.then(|| Volumes::new(plan.shape.patterns, grid, bound(&params))),
            first,
            params,
            bias: std::array::from_fn(|c| (gain * wiring.bias[first + c]) as f32),
            weights: std::array::from_fn(weights),
            rest: std::array::from_fn(|c| wiring.rest[first + c] as f32),
            wires: [Wires::new(wiring, grid, 1.0), Wires::new(&wiring.halved(), grid / 2, 2.0)],
            cells: [vec![0.0; GROUP * cells], vec![0.0; GROUP * cells / 8]],
            on_half: false,
            fresh: false,
            planes: [vec![0.0; grid * grid], vec![0.0; grid * grid]],
            sum: vec![0.0; if first < CONTENT { cells } else { 0 }],
            taps: Vec::with_capacity(plan.shape.sensors),
        };
        part.rest();
        part
    }

    /// Every channel at its resting value, on the whole grid, nothing blended.
    pub fn rest(&mut self) {
        let channels = self.cells[0].chunks_exact_mut(self.wires[0].grid.pow(3));
        channels.zip(self.rest).for_each(|(cells, value)| cells.fill(value));
        (self.on_half, self.fresh, self.blend) = (false, false, Blend::NONE);
    }

    /// Cells of one of the channels, on the grid in use.
    pub fn channel(&self, c: usize) -> &[f32] {
        let cells = self.wires[usize::from(self.on_half)].grid.pow(3);
        &self.cells[usize::from(self.on_half)][c * cells..][..cells]
    }

    /// The same, to change them.
    pub fn channel_mut(&mut self, c: usize) -> &mut [f32] {
        self.fresh = false;
        let cells = self.wires[usize::from(self.on_half)].grid.pow(3);
        &mut self.cells[usize::from(self.on_half)][c * cells..][..cells]
    }

    /// All cells on the grid in use.
    pub fn cells(&self) -> &[f32] {
        &self.cells[usize::from(self.on_half)]
    }

    /// Memory taken.
    pub fn bytes(&self) -> usize {
        let floats = self.cells.iter().chain(&self.planes).chain(self.wires.iter().map(|w| &w.profile));
        let floats: usize = floats.chain([&self.sum]).map(|v| size_of_val(&**v)).sum();
        let weights: usize = self.weights.iter().map(|w| size_of_val(&**w)).sum();
        let taps = self.taps.capacity() * size_of::<Tap>();
        let volumes = self.volumes.as_ref().map_or(0, Volumes::bytes);
        size_of::<Part>() + floats + weights + taps + volumes + self.shard.bytes()
    }

    fn move_to(&mut self, half: bool) {
        if half == self.on_half {
            return;
        }
        let grid = self.wires[0].grid;
        let [whole, halves] = &mut self.cells;
        let channels = whole.chunks_exact_mut(grid.pow(3)).zip(halves.chunks_exact_mut(grid.pow(3) / 8));
        for (whole, part) in channels {
            if half {
                halve(whole, grid, part);
            } else {
                unhalve(part, grid, whole, bound(&self.params));
            }
        }
        (self.on_half, self.fresh) = (half, false);
    }

    fn sweep(&mut self, count: usize, share: f64) {
        if count == 0 && self.fresh {
            return;
        }
        match self.wires[usize::from(self.on_half)].grid {
            4 => self.sweep_grid::<4>(count, share),
            8 => self.sweep_grid::<8>(count, share),
            16 => self.sweep_grid::<16>(count, share),
            32 => self.sweep_grid::<32>(count, share),
            64 => self.sweep_grid::<64>(count, share),
            _ => {} // the board check and new() admit no other
        }
        self.fresh = true;
    }

    fn sweep_grid<const N: usize>(&mut self, count: usize, share: f64) {
        let cells = N * N * N;
        self.reduced = Reduced::NOTHING;
        for c in 0..GROUP {
            self.aim_taps(c);
            let sums = self.sweep_channel::<N>(c, count, share);
            self.reduced.add(c, &sums, cells);
        }
        if self.first < CONTENT {
            let sum = self.sum[..cells].as_chunks::<N>().0;
            // Per whole cell, of the mean of the channels, with Sobel's 1/32.
            let scale = 1.0 / (32.0 * GROUP as f32 * self.wires[usize::from(self.on_half)].width);
            reduce(sum, scale, &mut self.reduced.gradient);
        }
    }

    /// The amplitudes with which sensors reach channel `c` in this cycle.
    fn aim_taps(&mut self, c: usize) {
        self.taps.clear();
        let felt = &self.felt;
        let reached = self.weights[c].iter();
        self.taps.extend(
            reached
                .map(|(sensor, weight)| Tap { sensor: *sensor, amplitude: (weight * felt[*sensor]) as f32 }),
        );
    }

    fn sweep_channel<const N: usize>(&mut self, c: usize, count: usize, share: f64) -> [f32; BLOCK_COUNT] {
        let cells = N * N * N;
        let wires = &self.wires[usize::from(self.on_half)];
        let u = &mut self.cells[usize::from(self.on_half)][c * cells..][..cells];
        let u = u.as_chunks_mut::<N>().0;
        let [here, below] = &mut self.planes;
        let drive = Drive { bias: self.bias[c], taps: &self.taps, profile: wires.profile.as_chunks::<N>().0 };
        let step = step(&self.params, wires.width, share);
        let patterns = Patterns::<N>::new(self.volumes.as_ref(), &self.blend, c, self.on_half, &self.params);
        let mut gather = Gather::<N>::new();
        let sum = self.sum.as_chunks_mut::<N>().0;
        let mut reduce_row = |z: usize, y: usize, row: &[f32; N]| {
            gather.row(z, y, row);
            if let Some(sum) = sum.get_mut(z * N + y) {
                let old = if c == 0 { [0.0; N] } else { *sum };
                *sum = std::array::from_fn(|x| old[x] + row[x]);
            }
        };
        for sub_step in 1..=count {
            let planes = (&mut here.as_chunks_mut::<N>().0[..N], &mut below.as_chunks_mut::<N>().0[..N]);
            evolve(
                u,
                planes,
                drive,
                &step,
                |z, y, value| patterns.blend(z, y, value),
                |z, y, row| {
                    if sub_step == count {
                        reduce_row(z, y, row);
                    }
                },
            );
        }
        if count == 0 {
            u.iter().enumerate().for_each(|(row, cells)| reduce_row(row / N, row % N, cells));
        }
        *gather.sums()
    }
}

impl Work for Part {
    fn work(&mut self) {
        match self.task {
            Task::Sweep { half, count, share } => {
                self.move_to(half);
                self.sweep(count, share);
            }
            Task::Scan { from, to } => self.shard.scan(from, to),
        }
    }
}

impl Reduced {
    /// Of nothing.
    const NOTHING: Reduced = Reduced {
        context: [0.0; GROUP],
        descriptor: [0.0; BLOCK_COUNT],
        gradient: [[[0.0; BLOCK_COUNT]; 2]; 3],
    };

    /// Adds channel `c`, of `cells` cells.
    fn add(&mut self, c: usize, sums: &[f32; BLOCK_COUNT], cells: usize) {
        let per_block = (GROUP * cells / BLOCK_COUNT) as f64;
        for (mean, sum) in self.descriptor.iter_mut().zip(sums) {
            *mean += f64::from(*sum) / per_block;
        }
        self.context[c] = sums.iter().map(|sum| f64::from(*sum)).sum::<f64>() / cells as f64;
    }
}

/// Profiles below this are cut to 0: beside a bias they vanish in f32, and the product of three would be
/// a subnormal number, which some processors take a hundred times as long for.
const LEAST_PHI: f64 = 1e-9;

impl Wires {
    fn new(wiring: &Wiring, grid: usize, width: f32) -> Wires {
        let cut = |phi: &f64| if *phi < LEAST_PHI { 0.0 } else { *phi as f32 };
        let profile = wiring.profile.iter().flatten().flatten().map(cut).collect();
        Wires { profile, grid, width }
    }
}

/// Largest f32 that is not above 1 - beta.
fn bound(params: &Params) -> f32 {
    let nearest = (1.0 - params.beta) as f32;
    if f64::from(nearest) > 1.0 - params.beta { nearest.next_down() } else { nearest }
}

fn step(params: &Params, width: f32, share: f64) -> Step {
    Step {
        lambda: params.lambda as f32 / (width * width),
        gamma: params.gamma as f32,
        bound: bound(params),
        keep: (1.0 - share) as f32,
        take: share as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::shape::{EngineKind, Shape};
    use crate::time::Span;

    fn plan() -> FieldPlan {
        FieldPlan {
            engine: EngineKind::Cpu,
            shape: Shape { grid: 16, sensors: 64, motors: 1, patterns: 1, bank: 1 },
            params: Params::default(),
            seed: 1,
            dt: Span::from_millis(50),
            every_ticks: 1,
            threads: 1,
            learn: false,
            start: Vec::new(),
        }
    }

    #[test]
    fn no_product_of_a_drive_is_subnormal() {
        let plan = plan();
        for wires in Part::new(0, &plan, &Wiring::new(&plan, 16)).wires {
            let least = wires.profile.iter().filter(|phi| **phi > 0.0).fold(1.0_f32, |a, b| a.min(*b));
            assert!(least < 1e-6, "far cells are reached too");
            assert!((1e-6 * least * least * least).is_normal());
        }
    }

    #[test]
    fn a_part_that_stands_still_is_reduced_once_and_again_after_a_change() {
        let plan = plan();
        let mut part = Part::new(7, &plan, &Wiring::new(&plan, 16));
        part.task = Task::Sweep { half: false, count: 0, share: 0.0 };
        part.work();
        let at_rest = part.reduced.context[3];
        assert!((at_rest - f64::from(part.channel(3)[0])).abs() < 1e-6);
        part.channel_mut(3).fill(0.5);
        part.work();
        assert!((part.reduced.context[3] - 0.5).abs() < 1e-6);
        part.task = Task::Sweep { half: true, count: 0, share: 0.0 };
        part.work();
        assert!(part.channel(3).len() == 512 && (part.reduced.context[3] - 0.5).abs() < 1e-6);
        part.channel_mut(3).fill(0.25);
        part.task = Task::Sweep { half: false, count: 0, share: 0.0 };
        part.work();
        assert!(part.channel(3).len() == 4096 && (part.reduced.context[3] - 0.25).abs() < 1e-6);
        part.rest();
        part.work();
        assert!((part.reduced.context[3] - at_rest).abs() < 1e-9);
    }
}
