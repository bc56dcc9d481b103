//! What the engine keeps of eight channels between two jobs: their cells on both grids, their share of the
//! library, and a shard of the bank. A part gives its data to jobs and takes new cells from them; it computes
//! nothing.

use super::bank::{Query, Rows};
use super::cells::Cells;
use super::fixed::Fixed;
use super::job::Sources;
use super::library::Volumes;
use crate::base::plan::{FieldPlan, Storage};
use crate::field::projections::Projections;
use crate::field::shape::GROUP;
use std::sync::Arc;

/// Eight channels.
pub struct Part {
    sources: Sources,
    /// Whether the features are up to date with the cells.
    pub fresh: bool,
}

impl Part {
    /// Part `number` at rest; allocates its memory here, except what later patterns and experiences need.
    pub fn new(number: usize, plan: &FieldPlan, projections: &Projections) -> Part {
        let fixed = Fixed::new(number, plan, projections);
        let grid = plan.shape.grid;
        let volumes = fixed
            .has_patterns()
            .then(|| Arc::new(Volumes::new(plan.shape.patterns, grid, (1.0 - plan.params.beta) as f32)));
        let sources = Sources {
            volumes,
            whole: Arc::new(Cells::new(fixed.storage, grid)),
            half: Arc::new(Cells::new(fixed.storage, grid / 2)),
            rows: Arc::new(Rows::new(number, plan.shape.bank)),
            fixed: Arc::new(fixed),
        };
        let mut part = Part { sources, fresh: false };
        part.reset();
        part
    }

    /// The data that a job reads.
    pub fn sources(&self) -> Sources {
        self.sources.clone()
    }

    /// Constants.
    pub fn fixed(&self) -> &Fixed {
        &self.sources.fixed
    }

    /// Sets every channel to its resting value on the full grid. No job may be running.
    pub fn reset(&mut self) {
        let fixed = self.sources.fixed.clone();
        let cells = sole(&mut self.sources.whole);
        (0..GROUP).for_each(|c| cells.fill(c, fixed.rest[c], fixed.bound));
        self.fresh = false;
    }

    /// Cells on the full or the half grid.
    pub fn cells(&self, half: bool) -> &Cells {
        if half { &self.sources.half } else { &self.sources.whole }
    }

    /// Replaces one channel. No job may be running.
    pub fn write(&mut self, half: bool, c: usize, from: &[f32]) {
        let bound = self.sources.fixed.bound;
        let cells = if half { &mut self.sources.half } else { &mut self.sources.whole };
        sole(cells).write(c, from, bound);
        self.fresh = false;
    }

    /// Replaces all eight. No job may be running.
    pub fn write_all(&mut self, half: bool, from: &[f32]) {
        let channels = from.chunks_exact(from.len() / GROUP).enumerate();
        channels.for_each(|(c, cells)| self.write(half, c, cells));
    }

    /// Takes new cells for one of the grids; returns the old ones.
    pub fn take(&mut self, half: bool, new: Arc<Cells>) -> Arc<Cells> {
        std::mem::replace(if half { &mut self.sources.half } else { &mut self.sources.whole }, new)
    }

    /// Stores eight channels of a pattern, if these are pattern channels. No job may be running.
    pub fn store_pattern(&mut self, slot: usize, volume: &[f32]) {
        if let Some(volumes) = &mut self.sources.volumes {
            sole(volumes).store(slot, volume);
        }
    }

    /// Like [`Part::store_pattern`], with cells that are already in steps. No job may be running.
    pub fn store_steps(&mut self, slot: usize, volume: &[i16]) {
        if let Some(volumes) = &mut self.sources.volumes {
            sole(volumes).store_steps(slot, volume);
        }
    }

    /// Eight channels of a pattern in steps; empty if these are not pattern channels, or nothing was stored.
    pub fn steps(&self, slot: usize) -> &[i16] {
        self.sources.volumes.as_ref().map_or(&[], |volumes| volumes.steps(slot))
    }

    /// A row of the bank that is in this shard; `None`: it is not allocated yet.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        self.sources.rows.row(row)
    }

    /// Stores a query in a row of the bank that is in this shard; false while a job still reads the shard.
    pub fn store_row(&mut self, row: usize, query: &Query) -> bool {
        let rows = Arc::get_mut(&mut self.sources.rows);
        rows.map(|rows| rows.store(row, query)).is_some()
    }

    /// Memory, bytes.
    pub fn bytes(&self) -> usize {
        let sources = &self.sources;
        let cells = sources.whole.bytes() + sources.half.bytes();
        let volumes = sources.volumes.as_ref().map_or(0, |volumes| volumes.bytes());
        size_of::<Part>() + sources.fixed.bytes() + cells + volumes + sources.rows.bytes()
    }
}

/// The content of `shared`, to which there must be no other reference.
fn sole<T>(shared: &mut Arc<T>) -> &mut T {
    Arc::get_mut(shared).expect("no job is running: the engine has waited for all of them")
}

/// Spare cells, into which future jobs write.
pub struct SpareCells {
    free: Vec<(Storage, usize, Arc<Cells>)>,
}

impl SpareCells {
    /// Spares for each storage in use, on both grids: if threads work on the parts `at_once`, one for each
    /// part with that storage, plus `extra`; if the parts take turns, one.
    pub fn new(plan: &FieldPlan, parts: &[Part], extra: usize, at_once: bool) -> SpareCells {
        let mut free = Vec::new();
        for storage in [Storage::F32, Storage::F16] {
            let users = parts.iter().filter(|part| part.fixed().storage == storage).count();
            let count = match users {
                0 => 0,
                _ if at_once => users + extra,
                _ => 1,
            };
            for grid in [plan.shape.grid, plan.shape.grid / 2] {
                free.extend((0..count).map(|_| (storage, grid, Arc::new(Cells::new(storage, grid)))));
            }
        }
        SpareCells { free }
    }

    /// Spare cells with this storage, on this grid; `None`: late threads hold all of them.
    pub fn take(&mut self, storage: Storage, grid: usize) -> Option<Arc<Cells>> {
        let fits = |(kind, size, cells): &mut (Storage, usize, Arc<Cells>)| {
            *kind == storage && *size == grid && Arc::get_mut(cells).is_some()
        };
        let place = self.free.iter_mut().position(fits)?;
        Some(self.free.swap_remove(place).2)
    }

    /// Puts cells back.
    pub fn put(&mut self, storage: Storage, grid: usize, cells: Arc<Cells>) {
        self.free.push((storage, grid, cells));
    }

    /// Memory, bytes.
    pub fn bytes(&self) -> usize {
        self.free.iter().map(|(_, _, cells)| cells.bytes()).sum()
    }
}
