//! One piece of a cycle: eight channels through a step, or a shard of the bank through a comparison.
//! A job shares what it reads and owns what it writes, with all its working memory, so that any
//! thread can do it, and a second thread can do it again.

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
    /// The half grid from the whole one.
    Halve,
    /// The whole grid from both.
    Unhalve,
    /// Evolve the channels by `count` sub-steps of share `share` and reduce the features.
    Sweep {
        /// Whether on the half grid.
        half: bool,
        /// Sub-steps; 0: stand still, only reduce.
        count: usize,
        /// Share of the step's value in a sub-step's result.
        share: f64,
    },
    /// Compare the query with those of the bank's rows `from..to` that lie in the shard.
    Scan {
        /// First row of the bank.
        from: usize,
        /// One past the last.
        to: usize,
    },
}

impl Task {
    /// Cells per axis of the grid that is written, `whole` being those of the whole one; `None`: nothing is.
    pub fn grid(self, whole: usize) -> Option<usize> {
        match self {
            Task::Halve | Task::Sweep { half: true, count: 1.., .. } => Some(whole / 2),
            Task::Unhalve | Task::Sweep { half: false, count: 1.., .. } => Some(whole),
            Task::Sweep { .. } | Task::Scan { .. } => None,
        }
    }
}

/// What all jobs of one cycle receive.
#[derive(Clone, Copy)]
pub struct Orders {
    /// Felt sensors s + eta e.
    pub felt: [f64; MAX_SENSORS],
    /// What is blended in; pattern channels only.
    pub blend: Blend,
}

/// What a job reads, shared with its other readers.
#[derive(Clone)]
pub struct Sources {
    /// Constants.
    pub fixed: Arc<Fixed>,
    /// A part of the library; none outside the pattern channels.
    pub volumes: Option<Arc<Volumes>>,
    /// Cells of the whole grid.
    pub whole: Arc<Cells>,
    /// Cells of the half grid.
    pub half: Arc<Cells>,
    /// A shard of the bank.
    pub rows: Arc<Rows>,
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

/// A sheet of orders, room and results.
pub struct Job {
    /// Which eight channels, and which shard.
    pub number: usize,
    /// What to do.
    pub task: Task,
    /// What to read.
    pub sources: Option<Sources>,
    /// Where new cells go; nothing else holds it. `None` for a scan.
    pub target: Option<Arc<Cells>>,
    /// This cycle's.
    pub orders: Orders,
    /// What a scan compares with.
    pub query: Query,
    /// What the last sweep gave.
    pub reduced: Reduced,
    /// The best rows of the sweep of the bank under way.
    pub nearest: Nearest,
    /// Rows that the last scan compared again.
    pub again: usize,
    level: Level,
    room: Room,
}

/// Memory that a job needs while it is done.
struct Room {
    /// Three planes of unpacked cells.
    planes: Vec<f32>,
    /// A row for each receptive field.
    heights: Vec<f32>,
    /// Sum of the channels of a group.
    sum: Vec<f32>,
    /// A plane that is written and never read.
    plane: Vec<f32>,
    /// A channel between two sub-steps, in either storage.
    full: Vec<f32>,
    packed: Vec<Half>,
    /// A number for each row of a shard.
    ceilings: Vec<f32>,
}

impl Job {
    /// A blank one; takes all its memory here.
    pub fn new(plan: &FieldPlan, level: Level) -> Job {
        let (grid, cells) = (plan.shape.grid, plan.shape.cells());
        let packed = if plan.storage == Storage::F16 { cells } else { 0 };
        Job {
            number: 0,
            task: Task::Scan { from: 0, to: 0 },
            sources: None,
            target: None,
            orders: Orders { felt: [0.0; MAX_SENSORS], blend: Blend::NONE },
            query: Query::NOTHING,
            reduced: Reduced::NOTHING,
            nearest: Nearest::NONE,
            again: 0,
            level,
            room: Room {
                planes: touched(3 * grid * grid, 0.0, 1.0),
                heights: touched(plan.shape.sensors * grid, 0.0, 1.0),
                sum: touched(cells, 0.0, 1.0),
                plane: touched(grid * grid, 0.0, 1.0),
                full: touched(cells, 0.0, 1.0),
                packed: touched(packed, Half(0), Half(1)),
                ceilings: touched(plan.shape.bank.div_ceil(GROUPS), 0.0, 1.0),
            },
        }
    }

    /// Memory taken, without what is shared or held for a while.
    pub fn bytes(&self) -> usize {
        let room = &self.room;
        let floats = [&room.planes, &room.heights, &room.sum, &room.plane, &room.full, &room.ceilings];
        let floats: usize = floats.iter().map(|room| size_of_val(&***room)).sum();
        size_of::<Job>() + floats + size_of_val(&*room.packed)
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
        // A target that stands still is not written, and need not be there.
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
                let sum = summed.then_some(&mut self.room.sum[..cells]);
                level.run(Gather::<C, N> { front, sum, first: c == 0 })
            } else {
                self.sweep_channel::<C, N>(sources, c, front, &mut back[c * cells..][..cells], stride)
            };
            self.reduced.add(c, &blocks, cells);
        }
        if summed {
            let width = if stride.half { 2.0 } else { 1.0 };
            // Per whole cell, of the mean of the channels, with Sobel's 1/32.
            let scale = 1.0 / (32.0 * GROUP as f32 * width);
            let volume = &self.room.sum[..cells];
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
        let (reached, profiles) = fixed.aim(c, stride.half, &self.orders.felt, &mut amplitudes);
        let drive = Drive { bias: fixed.bias(c), amplitudes: &amplitudes[..reached], profiles };
        let step = fixed.step(stride.half, stride.share);
        let blended = blended(sources, &self.orders.blend, c, stride);
        let between = &mut C::between(&mut self.room.full, &mut self.room.packed)[..cells];
        let mut blocks = [0.0; BLOCK_COUNT];
        for sub_step in 1..=stride.count {
            let last = sub_step == stride.count;
            // To and fro between the two, so that the last one ends in `back`.
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
                planes: &mut self.room.planes,
                heights: &mut self.room.heights,
                drive,
                step,
                blended: &blended,
                sum: summed.then_some(&mut self.room.sum[..cells]),
                room: &mut self.room.plane,
                first: c == 0,
            });
        }
        blocks
    }
}

/// How far a sweep goes, and where.
struct Stride {
    half: bool,
    count: usize,
    share: f64,
}

/// What is blended into channel `c`.
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

/// A cell with room for a channel between two sub-steps.
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
                    ceilings: &mut self.room.ceilings,
                    nearest: self.nearest,
                });
            }
        }
    }
}

impl Reduced {
    /// Of nothing.
    pub const NOTHING: Reduced = Reduced {
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
