//! The operations of the memory on a GPU: the same bits as on the processor (`docs/memory.md`, "On a GPU"). A
//! [`GpuWorkspace`] is opened once, allocates all its memory then and stays on its thread; no operation
//! allocates. Rows come from the host and go back to it, or are on the GPU already ([`GpuWorkspace::put`],
//! [`GpuWorkspace::hold`]).
//!
//! `choice` decides when a GPU is worth the time for the copies; the owner handles the loss of a GPU.

mod fault;
mod table;

pub use fault::{GpuWorkspaceFault, Unfit};

use super::dim::Dim;
use super::fault::Fault;
use super::fft::LEAST_ROW;
use super::nearest::{Best, MOST_TOP, Match};
use super::ops::{Length, Verb, convolution_rows, rows_and_weights};
use super::reduce::LEAF;
use super::store::Store;
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::system::gpu::{
    Gpu, GpuError, GpuInfo, Image, Kernel, Launch, LookMut, Pinned, Pool, Priority, Stream, Watch,
    image_files, probe,
};
use std::sync::Arc;
use table::{F32, Layout, MOST_BLOCKS, PoolRange, SHEET, Task};

/// Longest transform: its numbers, 36 KiB with their padding, fit into the shared memory that a block gets by
/// default.
pub const LONGEST: usize = 8192;

/// Fraction of a GPU's memory that a workspace may take: the rest is for the field, the kernels and, on a
/// Jetson, for the processor.
pub const MOST_OF_A_GPU: f64 = 0.8;

/// Threads per block of each kernel, and columns per block: the same as in `kernels/memory.cu`.
const COLUMNS: usize = 128;
const JOINERS: u32 = 256;
const SEEKERS: u32 = 256;
const WARP: usize = 32;
const SEEKING_WARPS: usize = SEEKERS as usize / WARP;
const MOST_CONVOLVERS: usize = 512;

/// Blocks of a scan for each multiprocessor: 64 warps, the maximum that any chip keeps resident.
const BLOCKS_EACH: usize = 8;

/// A wait polls for this long before it starts to sleep: a small batch is done by then.
const AWAKE: Span = Span::from_micros(200);
const NAP: Span = Span::from_micros(50);
/// Longer than any operation takes, even an emulated one on a busy machine: after this time, the device
/// counts as hung.
const TIMEOUT: Span = Span::from_millis(60_000);

/// The capacity of a workspace; the memory for all of it is allocated at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Rows of a batch.
    pub rows: usize,
    /// Queries of a search.
    pub queries: usize,
    /// Rows of the store that the GPU holds.
    pub store: usize,
}

struct Kernels {
    convolve: Kernel,
    leaves: Kernel,
    join: Kernel,
    scan: Kernel,
    merge: Kernel,
}

/// A GPU that works on rows of one length.
pub struct GpuWorkspace {
    dim: Dim,
    found: GpuInfo,
    room: Room,
    layout: Layout,
    /// Memory that the driver reserved for this workspace, kernels included; `None` if unknown.
    reserved: Option<usize>,
    /// Threads of a row's transform.
    threads: u32,
    blocks: usize,
    /// Rows of the store that the GPU holds now.
    held: usize,
    kernels: Kernels,
    orders: Pinned,
    first: Pinned,
    second: Pinned,
    back: Pinned,
    stream: Stream,
    pool: Pool,
    _image: Image,
    _gpu: Gpu,
}

/// One of the two areas for rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// First factors; rows to be added up.
    First,
    /// Second factors.
    Second,
}

/// Length of the transform for rows of `d` numbers.
fn transform_of(d: usize) -> usize {
    if d.is_power_of_two() && d >= LEAST_ROW { d } else { (2 * d - 1).next_power_of_two().max(LEAST_ROW) }
}

impl GpuWorkspace {
    /// Opens the GPU of this machine, or returns why it is not available. The driver may take seconds to
    /// start.
    pub fn open(dim: Dim, room: Room) -> Result<GpuWorkspace, Unfit> {
        GpuWorkspace::open_with(dim, room, Arc::default())
    }

    /// Like [`GpuWorkspace::open`], with a watch that other threads share.
    pub fn open_with(dim: Dim, room: Room, watch: Arc<Watch>) -> Result<GpuWorkspace, Unfit> {
        let needed = transform_of(dim.get());
        if needed > LONGEST {
            return Err(Unfit::Length { d: dim.get(), needed });
        }
        let found = probe().map_err(Unfit::Absent)?;
        let gpu = Gpu::open(&found, watch).map_err(Unfit::Gpu)?;
        let blocks = (found.multiprocessors as usize * BLOCKS_EACH).clamp(1, MOST_BLOCKS);
        let layout = Layout::new(dim, needed, room, blocks);
        let (wanted, limit) = (layout.bytes, found.memory_bytes);
        if wanted as f64 > MOST_OF_A_GPU * limit as f64 {
            return Err(Unfit::Limit { wanted, limit });
        }
        let free = gpu.memory_free().map_err(Unfit::Gpu)?;
        if wanted > free {
            return Err(Unfit::Memory { wanted, free });
        }
        let mut opened = GpuWorkspace::made(dim, room, found, layout, blocks, gpu).map_err(Unfit::Gpu)?;
        let left = opened._gpu.memory_free().map_err(Unfit::Gpu)?;
        // Unknown if another process has freed memory meanwhile.
        opened.reserved = free.checked_sub(left).filter(|taken| *taken >= wanted);
        opened.begin(needed).map_err(|fault| match fault {
            GpuWorkspaceFault::Gpu(error) => Unfit::Gpu(error),
            fault => unreachable!("the twiddle factors fit, and the device was just opened: {fault}"),
        })
    }

    fn made(
        dim: Dim,
        room: Room,
        found: GpuInfo,
        layout: Layout,
        blocks: usize,
        gpu: Gpu,
    ) -> Result<GpuWorkspace, GpuError> {
        let length = transform_of(dim.get());
        let image = Image::load(&gpu, &image_files())?;
        let pinned = |bytes: usize| Pinned::take(&gpu, bytes.max(1));
        let turns = table::turns_of(length) * 2 * F32;
        Ok(GpuWorkspace {
            kernels: Kernels {
                convolve: image.kernel(&format!("convolve_{length}"))?,
                leaves: image.kernel("superpose_leaves")?,
                join: image.kernel("superpose_join")?,
                scan: image.kernel("nearest_scan")?,
                merge: image.kernel("nearest_join")?,
            },
            orders: pinned(SHEET)?,
            first: pinned(layout.a.bytes.max(turns).max(dim.get() * F32))?,
            second: pinned(layout.b.bytes.max(layout.weights.bytes))?,
            back: pinned(layout.out.bytes.max(layout.best.bytes))?,
            stream: Stream::new(&gpu, Priority::Low)?,
            pool: Pool::take(&gpu, layout.bytes)?,
            threads: (length / 8).clamp(WARP, MOST_CONVOLVERS) as u32,
            held: 0,
            reserved: None,
            _image: image,
            _gpu: gpu,
            dim,
            found,
            room,
            layout,
            blocks,
        })
    }

    /// Copies the twiddle factors to the GPU.
    fn begin(mut self, length: usize) -> Result<GpuWorkspace, GpuWorkspaceFault> {
        let turns = table::turns(length);
        write(&turns, &mut self.first, &self.stream)?;
        self.send(self.layout.turns, &self.first, turns.len() * F32)?;
        self.settle()?;
        Ok(self)
    }

    /// The GPU.
    pub fn found(&self) -> &GpuInfo {
        &self.found
    }

    /// Numbers in a row.
    pub fn dim(&self) -> Dim {
        self.dim
    }

    /// The room that was allocated.
    pub fn room(&self) -> Room {
        self.room
    }

    /// Memory taken on the device, in bytes.
    pub fn bytes(&self) -> usize {
        self.layout.bytes
    }

    /// Memory that the driver reserved for this workspace: `bytes`, rounded up to the driver's units, and the
    /// kernels. `None` (unknown) if other processes freed memory while the workspace was opened.
    pub fn reserved(&self) -> Option<usize> {
        self.reserved
    }

    /// Like [`super::Workspace::bind`] and `unbind`: copies rows to the GPU, and the results back.
    pub fn convolve(
        &mut self,
        verb: Verb,
        a: &[f32],
        b: &[f32],
        length: Length,
        out: &mut [f32],
    ) -> Result<(), GpuWorkspaceFault> {
        let rows = convolution_rows(self.dim, a, b, out)?;
        self.in_room("rows", rows, self.room.rows)?;
        if rows == 0 {
            return Ok(());
        }
        let one_key = b.len() == self.dim.get();
        write(a, &mut self.first, &self.stream)?;
        write(b, &mut self.second, &self.stream)?;
        self.send(self.layout.a, &self.first, size_of_val(a))?;
        self.send(self.layout.b, &self.second, size_of_val(b))?;
        self.order_convolve(verb, rows, one_key, length)?;
        self.fetch_out(out)
    }

    /// Copies rows into an area of the GPU, where they stay for [`GpuWorkspace::convolve_held`] and
    /// [`GpuWorkspace::superpose_held`].
    pub fn put(&mut self, area: Area, rows: &[f32]) -> Result<(), GpuWorkspaceFault> {
        let d = self.dim.get();
        let wanted = rows.len().div_ceil(d);
        let count = self.dim.rows(rows.len());
        let count = count.ok_or(Fault::Shape { what: "rows", d, wanted, found: rows.len() })?;
        self.in_room("rows", count, self.room.rows)?;
        match area {
            Area::First => {
                write(rows, &mut self.first, &self.stream)?;
                self.send(self.layout.a, &self.first, size_of_val(rows))?;
            }
            Area::Second => {
                write(rows, &mut self.second, &self.stream)?;
                self.send(self.layout.b, &self.second, size_of_val(rows))?;
            }
        }
        self.settle()
    }

    /// Binds or unbinds the first `rows` rows of both areas; the results stay on the GPU.
    pub fn convolve_held(
        &mut self,
        verb: Verb,
        rows: usize,
        length: Length,
    ) -> Result<(), GpuWorkspaceFault> {
        self.in_room("rows", rows, self.room.rows)?;
        if rows == 0 {
            return Ok(());
        }
        self.order_convolve(verb, rows, false, length)?;
        self.settle()
    }

    /// A plain copy on the GPU that reads and writes `bytes` bytes in total, from the two areas to the
    /// results: the baseline for an operation on rows that are already on the GPU.
    pub fn copy_held(&mut self, bytes: usize) -> Result<(), GpuWorkspaceFault> {
        let Layout { a, b, out, .. } = self.layout;
        let mut left = bytes / 2;
        for from in [a, b] {
            let now = left.min(from.bytes).min(out.bytes);
            if now > 0 {
                let [from, to] = [from, out].map(|place| self.pool.address() + place.at as u64);
                self.stream.copy_within(from, to, now)?;
            }
            left -= now;
        }
        self.in_room("bytes of a copy", bytes, bytes - 2 * left)?;
        self.settle()
    }

    /// Copies results back.
    pub fn fetch(&mut self, out: &mut [f32]) -> Result<(), GpuWorkspaceFault> {
        self.in_room("out", out.len().div_ceil(self.dim.get()), self.room.rows)?;
        self.fetch_out(out)
    }

    /// Like [`super::Workspace::superpose`].
    pub fn superpose(
        &mut self,
        rows: &[f32],
        weights: Option<&[f32]>,
        length: Length,
        out: &mut [f32],
    ) -> Result<(), GpuWorkspaceFault> {
        let count = rows_and_weights(self.dim, rows, weights, out)?;
        self.in_room("rows", count, self.room.rows)?;
        write(rows, &mut self.first, &self.stream)?;
        self.send(self.layout.a, &self.first, size_of_val(rows))?;
        if let Some(weights) = weights {
            write(weights, &mut self.second, &self.stream)?;
            self.send(self.layout.weights, &self.second, size_of_val(weights))?;
        }
        self.order_superpose(count, weights.is_some(), length)?;
        self.fetch_out(out)
    }

    /// Adds up the first `rows` rows of the first area; the sum stays on the GPU as the first result.
    pub fn superpose_held(&mut self, rows: usize, length: Length) -> Result<(), GpuWorkspaceFault> {
        self.in_room("rows", rows, self.room.rows)?;
        self.order_superpose(rows, false, length)?;
        self.settle()
    }

    /// Copies a store's rows to the GPU, where they replace those of the previous store.
    pub fn hold(&mut self, store: &Store) -> Result<(), GpuWorkspaceFault> {
        if store.dim() != self.dim {
            let (found, wanted) = (store.dim().get(), self.dim.get());
            return Err(Fault::OtherDimension { what: "the store", found, wanted }.into());
        }
        self.in_room("store", store.len(), self.room.store)?;
        self.held = 0;
        let copies = [(self.layout.store, store.rows()), (self.layout.inverse, store.inverse_lengths())];
        for (place, numbers) in copies {
            // Piece by piece through the pinned memory, which holds at least a row.
            let step = self.first.len() / F32;
            for (piece, numbers) in numbers.chunks(step).enumerate() {
                write(numbers, &mut self.first, &self.stream)?;
                let at = place.at + piece * step * F32;
                self.send(PoolRange { at, bytes: size_of_val(numbers) }, &self.first, size_of_val(numbers))?;
                self.settle()?;
            }
        }
        self.held = store.len();
        Ok(())
    }

    /// Like [`Store::nearest`], on the rows that the GPU holds.
    pub fn nearest(&mut self, queries: &[f32], best: &mut [Best]) -> Result<(), GpuWorkspaceFault> {
        let (d, count) = (self.dim.get(), best.len());
        if queries.len() != count * d {
            return Err(Fault::Shape { what: "queries", d, wanted: count, found: queries.len() }.into());
        }
        super::vector::finite("queries", queries)?;
        self.in_room("queries", count, self.room.queries)?;
        best.iter_mut().for_each(Best::clear);
        let wanted = best.iter().map(Best::wanted).max().unwrap_or(0).min(MOST_TOP);
        if wanted == 0 || self.held == 0 {
            return Ok(());
        }
        let blocks = self.held.div_ceil(SEEKING_WARPS).min(self.blocks);
        write(queries, &mut self.second, &self.stream)?;
        self.send(self.layout.b, &self.second, size_of_val(queries))?;
        self.order(Task { rows: self.held, wanted, of_store: true, ..Task::default() })?;
        let grid = [blocks as u32, count as u32, 1];
        self.launch(self.kernels.scan, grid, SEEKERS, [0, 0])?;
        self.launch(self.kernels.merge, [count as u32, 1, 1], WARP as u32, [blocks as u32, 0])?;
        let from = self.pool.address() + self.layout.best.at as u64;
        self.stream.copy_out(from, &self.back, 0..count * wanted * size_of::<u64>())?;
        self.settle()?;
        let back = self.back.bytes()?;
        for (query, best) in best.iter_mut().enumerate() {
            let own = table::keys(&back, query * wanted..(query + 1) * wanted);
            own.filter_map(table::match_of).for_each(|(row, cosine)| best.offer(Match { row, cosine }));
        }
        Ok(())
    }

    fn in_room(&self, what: &'static str, found: usize, most: usize) -> Result<(), Fault> {
        if found <= most { Ok(()) } else { Err(Fault::Range { what, found, least: 0, most }) }
    }

    fn order_convolve(
        &mut self,
        verb: Verb,
        rows: usize,
        one_key: bool,
        length: Length,
    ) -> Result<(), GpuWorkspaceFault> {
        let (unbind, unit) = (verb == Verb::Unbind, length == Length::Unit);
        self.order(Task { rows, unbind, one_key, unit, ..Task::default() })?;
        self.launch(self.kernels.convolve, [rows as u32, 1, 1], self.threads, [0, 0])
    }

    fn order_superpose(
        &mut self,
        rows: usize,
        weighted: bool,
        length: Length,
    ) -> Result<(), GpuWorkspaceFault> {
        self.order(Task { rows, weighted, unit: length == Length::Unit, ..Task::default() })?;
        if rows > 0 {
            let columns = self.dim.get().div_ceil(COLUMNS) as u32;
            let grid = [columns, rows.div_ceil(LEAF) as u32, 1];
            self.launch(self.kernels.leaves, grid, COLUMNS as u32, [0, 0])?;
        }
        self.launch(self.kernels.join, [1, 1, 1], JOINERS, [0, 0])
    }

    /// Sends the table of an operation to the GPU.
    fn order(&mut self, task: Task) -> Result<(), GpuWorkspaceFault> {
        let task = Task { d: self.dim.get(), ..task };
        let mut sheet = free(&mut self.orders, &self.stream)?;
        table::write_sheet(&self.layout, self.pool.address(), &task, &mut sheet);
        drop(sheet);
        self.send(self.layout.sheet, &self.orders, SHEET)
    }

    fn launch(
        &self,
        kernel: Kernel,
        grid: [u32; 3],
        block: u32,
        words: [u32; 2],
    ) -> Result<(), GpuWorkspaceFault> {
        let table = self.pool.address() + self.layout.sheet.at as u64;
        Ok(self.stream.launch(&Launch { kernel, grid, block, table, words })?)
    }

    fn send(&self, place: PoolRange, from: &Pinned, bytes: usize) -> Result<(), GpuWorkspaceFault> {
        if bytes == 0 {
            return Ok(());
        }
        Ok(self.stream.copy_in(self.pool.address() + place.at as u64, from, 0..bytes)?)
    }

    fn fetch_out(&mut self, out: &mut [f32]) -> Result<(), GpuWorkspaceFault> {
        let from = self.pool.address() + self.layout.out.at as u64;
        self.stream.copy_out(from, &self.back, 0..size_of_val(out))?;
        self.settle()?;
        table::read_numbers(&self.back.bytes()?, out);
        Ok(())
    }

    /// Waits until the device has finished all its work: every operation ends with this wait, so that pinned
    /// memory is free.
    fn settle(&self) -> Result<(), GpuWorkspaceFault> {
        settle(&self.stream)
    }
}

fn settle(stream: &Stream) -> Result<(), GpuWorkspaceFault> {
    let clock = MonotonicClock;
    let began = clock.now();
    while !stream.is_done()? {
        let now = clock.now();
        if now.since(began) > TIMEOUT {
            return Err(GpuWorkspaceFault::Late);
        }
        if now.since(began) > AWAKE {
            clock.sleep_until(now + NAP);
        }
    }
    Ok(())
}

/// All of `pinned`. Waits for copies that a failed operation has left in flight.
fn free<'p>(pinned: &'p mut Pinned, stream: &Stream) -> Result<LookMut<'p>, GpuWorkspaceFault> {
    if pinned.bytes_mut().is_err() {
        settle(stream)?;
    }
    Ok(pinned.bytes_mut()?)
}

fn write(numbers: &[f32], to: &mut Pinned, stream: &Stream) -> Result<(), GpuWorkspaceFault> {
    table::write_numbers(numbers, &mut free(to, stream)?);
    Ok(())
}
