//! A job is one piece of a cycle: a step of eight channels, their conversion between the grids, or the
//! comparison of a query with a shard of the bank. A job shares its inputs and owns its outputs and work
//! space, so that any thread can run it, and a second thread can repeat it.

use super::bank::{Query, Rows, Scan};
use super::cell::Cell;
use super::cells::{Cells, touched};
use super::evolve::{Blended, Drive, Gather, Sweep};
use super::fixed::Fixed;
use super::gradient::{Gradient, Slopes};
use super::half::{Halve, Unhalve};
use super::library::{Blend, Volumes};
use super::nearest::Nearest;
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::{FieldPlan, Storage};
use crate::field::shape::{BLOCK_COUNT, CONTENT, GROUP, GROUPS};
use crate::system::cpu::pool::PoolJob;
use crate::system::cpu::simd::{Half, Level};
use std::sync::Arc;

/// The work of a job.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// Compute the half grid from the full one.
    Halve,
    /// Compute the full grid from both.
    Unhalve,
    /// Evolve the channels by `count` sub-steps and reduce them to features.
    Sweep {
        /// Whether it runs on the half grid.
        half: bool,
        /// Sub-steps; 0: do not step, only reduce.
        count: usize,
        /// Share of the newly computed value in the result of a sub-step; the rest is the old value.
        share: f64,
    },
    /// Compare the query with the rows among the bank's `from..to` that are in the shard.
    Scan {
        /// First row of the bank.
        from: usize,
        /// One past the last.
        to: usize,
    },
}

impl Task {
    /// Cells per axis of the grid that is written, if the full grid has `whole`; `None`: no grid is written.
    pub fn grid(self, whole: usize) -> Option<usize> {
        match self {
            Task::Halve | Task::Sweep { half: true, count: 1.., .. } => Some(whole / 2),
            Task::Unhalve | Task::Sweep { half: false, count: 1.., .. } => Some(whole),
            Task::Sweep { .. } | Task::Scan { .. } => None,
        }
    }
}

/// Inputs that all jobs of a cycle share.
#[derive(Clone, Copy)]
pub struct JobInputs {
    /// Felt sensors s + eta e.
    pub felt: [f64; MAX_SENSORS],
    /// Patterns to blend in; pattern channels only.
    pub blend: Blend,
}

/// Data that a job reads, shared with other readers.
#[derive(Clone)]
pub struct Sources {
    /// Constants.
    pub fixed: Arc<Fixed>,
    /// A part of the library; `None` outside the pattern channels.
    pub volumes: Option<Arc<Volumes>>,
    /// Cells of the full grid.
    pub whole: Arc<Cells>,
    /// Cells of the half grid.
    pub half: Arc<Cells>,
    /// A shard of the bank.
    pub rows: Arc<Rows>,
}

/// Results of a sweep.
pub struct Reduced {
    /// Mean of each channel.
    pub context: [f64; GROUP],
    /// Mean of each block over the channels.
    pub descriptor: [f64; BLOCK_COUNT],
    /// Content groups only.
    pub gradient: Gradient,
}

/// A job: its task, inputs, work space and results.
pub struct Job {
    /// Number of the group of eight channels, and of the shard.
    pub number: usize,
    /// The task.
    pub task: Task,
    /// The data to read.
    pub sources: Option<Sources>,
    /// Where new cells go; nothing else holds a reference. `None` for a task that writes no grid.
    pub target: Option<Arc<Cells>>,
    /// Inputs of this cycle.
    pub inputs: JobInputs,
    /// The query of a scan.
    pub query: Query,
    /// Results of the last sweep.
    pub reduced: Reduced,
    /// The best rows of the current sweep of the bank.
    pub nearest: Nearest,
    /// Number of rows that the last scan compared again in f32.
    pub again: usize,
    level: Level,
    scratch: Scratch,
}

/// Work space of a job.
struct Scratch {
    /// Three planes of unpacked cells.
    planes: Vec<f32>,
    /// A row for each receptive field.
    heights: Vec<f32>,
    /// Sum of the channels of a group.
    sum: Vec<f32>,
    /// A plane that is written but never read.
    plane: Vec<f32>,
    /// A channel between two sub-steps, in either storage.
    full: Vec<f32>,
    packed: Vec<Half>,
    /// An upper bound on the cosine of each row of a shard.
    upper_bounds: Vec<f32>,
}

impl Job {
    /// An idle job; allocates all its memory here.
    pub fn new(plan: &FieldPlan, level: Level) -> Job {
        let (grid, cells) = (plan.shape.grid, plan.shape.cells());
        let packed = if plan.storage == Storage::F16 { cells } else { 0 };
        Job {
            number: 0,
            task: Task::Scan { from: 0, to: 0 },
            sources: None,
            target: None,
            inputs: JobInputs { felt: [0.0; MAX_SENSORS], blend: Blend::NONE },
            query: Query::NOTHING,
            reduced: Reduced::NOTHING,
            nearest: Nearest::NONE,
            again: 0,
            level,
            scratch: Scratch {
                planes: touched(3 * grid * grid, 0.0, 1.0),
                heights: touched(plan.shape.sensors * grid, 0.0, 1.0),
                sum: touched(cells, 0.0, 1.0),
                plane: touched(grid * grid, 0.0, 1.0),
                full: touched(cells, 0.0, 1.0),
                packed: touched(packed, Half(0), Half(1)),
                upper_bounds: touched(plan.shape.bank.div_ceil(GROUPS), 0.0, 1.0),
            },
        }
    }

    /// Memory, bytes, without shared or borrowed data.
    pub fn bytes(&self) -> usize {
        let scratch = &self.scratch;
        let floats = [
            &scratch.planes,
            &scratch.heights,
            &scratch.sum,
            &scratch.plane,
            &scratch.full,
            &scratch.upper_bounds,
        ];
        let floats: usize = floats.iter().map(|scratch| size_of_val(&***scratch)).sum();
        size_of::<Job>() + floats + size_of_val(&*scratch.packed)
    }

    fn halve(&mut self, sources: &Sources) {
        let n = sources.fixed.grid;
        let level = self.level.within(n);
        match (&*sources.whole, self.target.as_mut().and_then(Arc::get_mut)) {
            (Cells::Full(whole), Some(Cells::Full(half))) => level.run(Halve { whole, n, half }),
            (Cells::Packed(whole), Some(Cells::Packed(half))) => level.run(Halve { whole, n, half }),
            _ => unreachable!("a target has the storage of its source and one owner"),
        }
    }

    fn unhalve(&mut self, sources: &Sources) {
        let (n, bound) = (sources.fixed.grid, sources.fixed.bound);
        let level = self.level.within(n);
        match (&*sources.whole, &*sources.half, self.target.as_mut().and_then(Arc::get_mut)) {
            (Cells::Full(whole), Cells::Full(half), Some(Cells::Full(moved))) => {
                level.run(Unhalve { half, whole, n, moved, bound });
            }
            (Cells::Packed(whole), Cells::Packed(half), Some(Cells::Packed(moved))) => {
                level.run(Unhalve { half, whole, n, moved, bound });
            }
            _ => unreachable!("a target has the storage of its source and one owner"),
        }
    }

    fn sweep(&mut self, sources: &Sources, half: bool, count: usize, share: f64) {
        let grid = if half { sources.fixed.grid / 2 } else { sources.fixed.grid };
        let front = if half { &sources.half } else { &sources.whole };
        let stride = Stride { half, count, share };
        // Without sub-steps the target is not written and may be absent.
        let mut target = self.target.take();
        let back = target.as_mut().and_then(Arc::get_mut);
        match (&**front, back) {
            (Cells::Full(front), Some(Cells::Full(back))) => {
                self.on_grid(grid, sources, front, back, &stride);
            }
            (Cells::Packed(front), Some(Cells::Packed(back))) => {
                self.on_grid(grid, sources, front, back, &stride);
            }
            (Cells::Full(front), None) if count == 0 => self.on_grid(grid, sources, front, &mut [], &stride),
            (Cells::Packed(front), None) if count == 0 => {
                self.on_grid(grid, sources, front, &mut [], &stride);
            }
            _ => unreachable!("a target has the storage of its source and one owner"),
        }
        self.target = target;
    }

    fn on_grid<C: Kept>(
        &mut self,
        n: usize,
        sources: &Sources,
        front: &[C],
        back: &mut [C],
        stride: &Stride,
    ) {
        match n {
            4 => self.sweep_grid::<C, 4>(sources, front, back, stride),
            8 => self.sweep_grid::<C, 8>(sources, front, back, stride),
            16 => self.sweep_grid::<C, 16>(sources, front, back, stride),
            32 => self.sweep_grid::<C, 32>(sources, front, back, stride),
            64 => self.sweep_grid::<C, 64>(sources, front, back, stride),
            _ => unreachable!("the engine is built for grids of 8, 16, 32, 64 and their halves"),
        }
    }

    fn sweep_grid<C: Kept, const N: usize>(
        &mut self,
        sources: &Sources,
        front: &[C],
        back: &mut [C],
        stride: &Stride,
    ) {
        let (cells, level) = (N * N * N, self.level.within(N));
        let summed = sources.fixed.first < CONTENT;
        self.reduced = Reduced::NOTHING;
        for c in 0..GROUP {
            let front = &front[c * cells..][..cells];
            let blocks = if stride.count == 0 {
                let sum = summed.then_some(&mut self.scratch.sum[..cells]);
                level.run(Gather::<C, N> { front, sum, first: c == 0 })
            } else {
                self.sweep_channel::<C, N>(sources, c, front, &mut back[c * cells..][..cells], stride)
            };
            self.reduced.add(c, &blocks, cells);
        }
        if summed {
            let width = if stride.half { 2.0 } else { 1.0 };
            // The gradient of the channels' mean per cell of the full grid; 1/32 is Sobel's factor.
            let scale = 1.0 / (32.0 * GROUP as f32 * width);
            let volume = &self.scratch.sum[..cells];
            level.run(Slopes::<N> { volume, scale, out: &mut self.reduced.gradient });
        }
    }

    fn sweep_channel<C: Kept, const N: usize>(
        &mut self,
        sources: &Sources,
        c: usize,
        front: &[C],
        back: &mut [C],
        stride: &Stride,
    ) -> [f32; BLOCK_COUNT] {
        let (fixed, cells, level) = (&*sources.fixed, N * N * N, self.level.within(N));
        let mut amplitudes = [0.0; MAX_SENSORS];
        let (reached, profiles) = fixed.aim(c, stride.half, &self.inputs.felt, &mut amplitudes);
        let drive = Drive { bias: fixed.bias(c), amplitudes: &amplitudes[..reached], profiles };
        let step = fixed.step(stride.half, stride.share);
        let blended = blended(sources, &self.inputs.blend, c, stride);
        let between = &mut C::between(&mut self.scratch.full, &mut self.scratch.packed)[..cells];
        let mut blocks = [0.0; BLOCK_COUNT];
        for sub_step in 1..=stride.count {
            let last = sub_step == stride.count;
            // Alternate between the two buffers so that the last sub-step ends in `back`.
            let to_back = (stride.count - sub_step).is_multiple_of(2);
            let (from, to): (&[C], &mut [C]) = match (sub_step, to_back) {
                (1, true) => (front, &mut *back),
                (1, false) => (front, &mut *between),
                (_, true) => (&*between, &mut *back),
                (_, false) => (&*back, &mut *between),
            };
            let summed = last && fixed.first < CONTENT;
            blocks = level.run(Sweep::<C, N> {
                front: from,
                back: to,
                planes: &mut self.scratch.planes,
                heights: &mut self.scratch.heights,
                drive,
                step,
                blended: &blended,
                sum: summed.then_some(&mut self.scratch.sum[..cells]),
                scratch: &mut self.scratch.plane,
                first: c == 0,
            });
        }
        blocks
    }
}

/// The sub-steps of a sweep, and their grid.
struct Stride {
    half: bool,
    count: usize,
    share: f64,
}

/// The patterns to blend into channel `c`.
fn blended<'a>(sources: &'a Sources, blend: &Blend, c: usize, stride: &Stride) -> Blended<'a> {
    let Some(volumes) = &sources.volumes else { return Blended::new() };
    let found = blend.slots().iter().zip(blend.weights());
    found
        .map(|(slot, weight)| {
            let step = sources.fixed.pattern_step(stride.share, *weight, volumes.step());
            (volumes.channel(*slot, c, stride.half), step)
        })
        .collect()
}

/// A cell type with work space for a channel between two sub-steps.
trait Kept: Cell {
    fn between<'a>(full: &'a mut [f32], packed: &'a mut [Half]) -> &'a mut [Self];
}
impl Kept for f32 {
    fn between<'a>(full: &'a mut [f32], _: &'a mut [Half]) -> &'a mut [f32] {
        full
    }
}
impl Kept for Half {
    fn between<'a>(_: &'a mut [f32], packed: &'a mut [Half]) -> &'a mut [Half] {
        packed
    }
}

impl PoolJob for Job {
    fn perform(&mut self) {
        let Some(sources) = self.sources.take() else { return };
        match self.task {
            Task::Halve => self.halve(&sources),
            Task::Unhalve => self.unhalve(&sources),
            Task::Sweep { half, count, share } => self.sweep(&sources, half, count, share),
            Task::Scan { from, to } => {
                (self.nearest, self.again) = self.level.run(Scan {
                    rows: &sources.rows,
                    query: &self.query,
                    from,
                    to,
                    upper_bounds: &mut self.scratch.upper_bounds,
                    nearest: self.nearest,
                });
            }
        }
    }
}

impl Reduced {
    /// Empty results.
    pub const NOTHING: Reduced = Reduced {
        context: [0.0; GROUP],
        descriptor: [0.0; BLOCK_COUNT],
        gradient: [[[0.0; BLOCK_COUNT]; 2]; 3],
    };

    /// Adds channel `c`, which has `cells` cells, from the `sums` of its blocks.
    fn add(&mut self, c: usize, sums: &[f32; BLOCK_COUNT], cells: usize) {
        let per_block = (GROUP * cells / BLOCK_COUNT) as f64;
        for (mean, sum) in self.descriptor.iter_mut().zip(sums) {
            *mean += f64::from(*sum) / per_block;
        }
        self.context[c] = sums.iter().map(|sum| f64::from(*sum)).sum::<f64>() / cells as f64;
    }
}
