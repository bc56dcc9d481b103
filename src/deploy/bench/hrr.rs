//! Measures the holographic memory's operations on rows of several lengths, in batches of several sizes, on
//! the CPU and on a GPU if there is one. Each operation is compared with a plain copy of the same size in the
//! same run.

mod compare;
mod judge;

pub use compare::{Comparison, Growth};
pub use judge::{MemoryFigure, rows};

use super::copy::CopyCrew;
use super::ended;
use crate::base::seed::{Stream, uniform};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::field::cuda::is_emulated;
use crate::memory::choice::{CALIBRATION, Choice, Preference, Residence, file_for};
use crate::memory::gpu::{Area, GpuWorkspace, GpuWorkspaceFault, Room};
use crate::memory::nearest::Best;
use crate::memory::{Answered, Dim, Dispatcher, Fault, Length, Store, Verb, Workspace};
use crate::system::cpu::Level;
use serde::Serialize;
use std::hint::black_box;
use std::sync::atomic::AtomicBool;

/// A sample repeats the operation as often as fits into this time, but at least once: a thousand times as
/// long as reading the clock takes.
const LEAST_SAMPLE: Span = Span::from_micros(30);
/// Minimum number of samples of a cell of the table, however long they take.
const LEAST_SAMPLES: usize = 5;
/// Maximum number of samples of a cell: more would not improve the median.
const MOST_SAMPLES: usize = 2_000;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Each row bound to its key.
    Bind,
    /// Each row unbound from its key.
    Unbind,
    /// Each row bound to its key and scaled to length 1.
    BindUnit,
    /// All rows summed and scaled to length 1.
    SuperposeUnit,
    /// The best five of all rows for one query.
    CleanUp,
}

/// All operations.
pub const OPERATIONS: [Operation; 5] =
    [Operation::Bind, Operation::Unbind, Operation::BindUnit, Operation::SuperposeUnit, Operation::CleanUp];

impl Operation {
    /// The operation's name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Bind => "bind",
            Operation::Unbind => "unbind",
            Operation::BindUnit => "bind + normalise",
            Operation::SuperposeUnit => "superpose + normalise",
            Operation::CleanUp => "clean-up, 1 query, best 5",
        }
    }

    /// Number of bytes that have to be read and written, each number once.
    pub fn bytes(self, d: usize, batch: usize) -> usize {
        let row = d * size_of::<f32>();
        match self {
            Operation::Bind | Operation::Unbind | Operation::BindUnit => 3 * row * batch,
            Operation::SuperposeUnit | Operation::CleanUp => row * (batch + 1),
        }
    }
}

/// One measured cell of the table: an operation on a batch, on one device.
#[derive(Clone, Debug, Serialize)]
pub struct HrrFigure {
    /// Its operation.
    pub operation: Operation,
    /// Numbers in a row.
    pub d: usize,
    /// Rows.
    pub batch: usize,
    /// 1: the caller's thread computed the batch; 0: the GPU did.
    pub threads: usize,
    /// Where the GPU's rows were; `None`: the CPU computed the batch.
    pub residence: Option<Residence>,
    /// Median time of a call, microseconds.
    pub p50_us: f64,
    /// Shortest time of a call, microseconds.
    pub min_us: f64,
    /// Number of samples.
    pub n: usize,
    /// Bytes of the operation.
    pub bytes: usize,
    /// Median time of a plain copy that moves the same number of bytes (half read, half written),
    /// microseconds.
    pub floor_us: f64,
    /// `p50_us` divided by `floor_us`.
    pub ratio_to_floor: f64,
    /// Median time of a plain copy of the same size in the GPU's memory, microseconds; only for rows in that
    /// memory.
    pub gpu_copy_us: Option<f64>,
}

/// One operation through the dispatcher, which selects the device.
#[derive(Clone, Debug, Serialize)]
pub struct DispatchedFigure {
    /// The times; `threads` is 1 if the CPU answered any of the batches, and 0 if the GPU answered all.
    #[serde(flatten)]
    pub figure: HrrFigure,
    /// How many batches each device answered.
    pub answered: Answered,
}

/// The settings of the measurement.
#[derive(Clone, Debug)]
pub struct HrrBench {
    /// Row lengths: numbers in a row.
    pub dims: Vec<usize>,
    /// Batch sizes: rows in a batch.
    pub batches: Vec<usize>,
    /// Time per cell.
    pub cell: Span,
    /// Batches that need more memory than this are left out, bytes.
    pub most_bytes: usize,
    /// Where the choice between CPU and GPU comes from. The choice decides which device answers dispatched
    /// batches.
    pub preference: Preference,
}

/// Why there are no figures.
#[derive(Debug)]
pub enum HrrFault {
    /// The memory does not support this shape.
    Memory(Fault),
    /// The threads of the copy cannot be started.
    Threads(std::io::Error),
    /// The GPU failed.
    Gpu(GpuWorkspaceFault),
}

impl std::fmt::Display for HrrFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HrrFault::Memory(fault) => fault.fmt(f),
            HrrFault::Threads(error) => write!(f, "cannot start a thread: {error}"),
            HrrFault::Gpu(fault) => write!(f, "the GPU: {fault}"),
        }
    }
}

impl From<Fault> for HrrFault {
    fn from(fault: Fault) -> HrrFault {
        HrrFault::Memory(fault)
    }
}

impl From<GpuWorkspaceFault> for HrrFault {
    fn from(fault: GpuWorkspaceFault) -> HrrFault {
        HrrFault::Gpu(fault)
    }
}

/// The measured GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuName {
    /// The name that its driver reports.
    pub name: String,
    /// CUDA version of the driver.
    pub driver: String,
}

/// The result.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HrrFigures {
    /// The CPU's instruction set in use.
    pub simd: &'static str,
    /// The GPU; `None`: there is none, or none was opened.
    pub gpu: Option<GpuName>,
    /// Why the GPU could not be used, for the first row length for which it could not.
    pub gpu_absence: Option<String>,
    /// Whether the CPU emulates the GPU; the GPU's figures are then not measurements. `None`: no GPU.
    pub emulated: Option<bool>,
    /// The cells, in the order in which they were measured.
    pub cells: Vec<HrrFigure>,
    /// GPU compared with CPU, for each operation and batch that the GPU computed.
    pub comparisons: Vec<Comparison>,
    /// How the time grows from each batch size to the next larger one.
    pub growth: Vec<Growth>,
    /// Memory on the GPU, by row length.
    pub memory: Vec<MemoryFigure>,
    /// The same operations through the dispatcher; empty without a GPU.
    pub dispatched: Vec<DispatchedFigure>,
    /// By row length: why the GPU was lost while it worked for the dispatcher.
    pub lost: Vec<(usize, String)>,
    /// Batches that were left out because they need more memory than allowed: (d, batch).
    pub left_out: Vec<(usize, usize)>,
    /// Size of the store for each batch: (d, vectors, bytes).
    pub store_bytes: Vec<(usize, usize, usize)>,
    /// By row length: from which batch size on the GPU does each operation, or why there is no GPU.
    pub choices: Vec<(usize, String)>,
}

impl HrrBench {
    /// Measures all cells. `watch` receives the fraction that is done. After an interruption, the caller has
    /// to discard the figures.
    pub fn run(&self, interrupted: &AtomicBool, mut watch: impl FnMut(f64)) -> Result<HrrFigures, HrrFault> {
        let mut figures = HrrFigures { simd: Level::best().name(), ..HrrFigures::default() };
        let all = self.dims.len() * self.batches.len();
        let mut dispatcher: Option<Dispatcher> = None;
        for (done, (d, batch)) in
            self.dims.iter().flat_map(|d| self.batches.iter().map(move |b| (*d, *b))).enumerate()
        {
            let dim = Dim::new(d)?;
            if done.is_multiple_of(self.batches.len()) {
                drop(dispatcher.take()); // free its memory before the next one needs it
                dispatcher = self.dispatcher(dim, &mut figures);
            }
            figures.store_bytes.push((d, batch, Store::bytes_for(dim, batch)));
            watch(done as f64 / all as f64);
            if memory_of(d, batch) > self.most_bytes {
                figures.left_out.push((d, batch));
                continue;
            }
            self.on_processor(dim, batch, interrupted, &mut figures.cells)?;
            if let Some(dispatcher) = &mut dispatcher {
                if let Some(gpu) = dispatcher.gpu_mut() {
                    self.on_gpu(gpu, dim, batch, interrupted, &mut figures.cells)?;
                }
                self.dispatched(dispatcher, dim, batch, interrupted, &mut figures)?;
            }
        }
        figures.comparisons = compare::comparisons(&figures.cells);
        figures.growth = compare::growth(&figures.cells);
        Ok(figures)
    }

    /// A dispatcher whose GPU has room for the largest batch that the memory limit allows, if there is a GPU.
    fn dispatcher(&self, dim: Dim, figures: &mut HrrFigures) -> Option<Dispatcher> {
        let fits =
            self.batches.iter().copied().filter(|batch| memory_of(dim.get(), *batch) <= self.most_bytes);
        let rows = fits.max().unwrap_or(1);
        match GpuWorkspace::open(dim, Room { rows, queries: 1, store: rows }) {
            Ok(mut gpu) => {
                let found = gpu.found();
                let (major, minor) = found.driver;
                figures.gpu = Some(GpuName { name: found.name.clone(), driver: format!("{major}.{minor}") });
                figures.emulated = Some(is_emulated(found));
                figures.memory.push(MemoryFigure::of(&gpu));
                let choice = Choice::of(&mut gpu, self.preference, file_for(dim).as_deref(), CALIBRATION);
                figures.choices.push((dim.get(), choice.to_string()));
                Some(Dispatcher::new(gpu, choice))
            }
            Err(unfit) => {
                figures.memory.extend(MemoryFigure::refused(dim.get(), rows, &unfit));
                figures.gpu_absence.get_or_insert_with(|| unfit.to_string());
                figures.choices.push((dim.get(), Choice::without(unfit).to_string()));
                None
            }
        }
    }

    /// Measures the cells of one batch on the CPU.
    fn on_processor(
        &self,
        dim: Dim,
        batch: usize,
        interrupted: &AtomicBool,
        cells: &mut Vec<HrrFigure>,
    ) -> Result<(), HrrFault> {
        let mut copy = copy_of(dim, batch)?;
        let (mut workspace, mut given) = (Workspace::new(dim), Given::new(dim, batch)?);
        for operation in OPERATIONS {
            if ended(interrupted) {
                continue;
            }
            let mut call = || Ok(given.on_processor(&mut workspace, operation)?);
            cells.push(self.sample(operation, dim.get(), batch, &mut copy, &mut call)?);
        }
        Ok(())
    }

    /// Measures the cells of one batch on the GPU, with rows on the host and with rows on the GPU.
    fn on_gpu(
        &self,
        gpu: &mut GpuWorkspace,
        dim: Dim,
        batch: usize,
        interrupted: &AtomicBool,
        cells: &mut Vec<HrrFigure>,
    ) -> Result<(), HrrFault> {
        let mut copy = copy_of(dim, batch)?;
        let mut given = Given::new(dim, batch)?;
        gpu.hold(&given.store)?;
        for residence in [Residence::Host, Residence::Gpu] {
            gpu.put(Area::First, &given.rows)?;
            gpu.put(Area::Second, &given.keys)?;
            for operation in OPERATIONS {
                // A clean-up searches the store, which is always on the GPU.
                if ended(interrupted) || (operation == Operation::CleanUp && residence == Residence::Host) {
                    continue;
                }
                let mut call = || given.on_gpu(gpu, operation, residence).map_err(HrrFault::Gpu);
                let figure = self.sample(operation, dim.get(), batch, &mut copy, &mut call)?;
                let gpu_copy_us = match residence {
                    Residence::Host => None,
                    Residence::Gpu => {
                        let mut call = || gpu.copy_held(figure.bytes).map_err(HrrFault::Gpu);
                        Some(self.sample(operation, dim.get(), batch, &mut copy, &mut call)?.p50_us)
                    }
                };
                let residence = Some(residence);
                cells.push(HrrFigure { threads: 0, residence, gpu_copy_us, ..figure });
            }
        }
        Ok(())
    }

    /// Measures the cells of one batch through the dispatcher.
    fn dispatched(
        &self,
        dispatcher: &mut Dispatcher,
        dim: Dim,
        batch: usize,
        interrupted: &AtomicBool,
        figures: &mut HrrFigures,
    ) -> Result<(), HrrFault> {
        let mut copy = copy_of(dim, batch)?;
        let mut given = Given::new(dim, batch)?;
        let was_lost = dispatcher.loss().is_some();
        for operation in OPERATIONS {
            if ended(interrupted) {
                continue;
            }
            let before = dispatcher.answered();
            let mut call = || Ok(given.dispatched(dispatcher, operation)?);
            let figure = self.sample(operation, dim.get(), batch, &mut copy, &mut call)?;
            let now = dispatcher.answered();
            let answered = Answered {
                processor: now.processor - before.processor,
                gpu: now.gpu - before.gpu,
                lost: now.lost - before.lost,
            };
            let threads = usize::from(answered.processor > 0);
            figures.dispatched.push(DispatchedFigure { figure: HrrFigure { threads, ..figure }, answered });
        }
        if let (false, Some(loss)) = (was_lost, dispatcher.loss()) {
            figures.lost.push((dim.get(), loss.to_string()));
        }
        Ok(())
    }

    /// Measures one cell: samples of `call` alternate with samples of the copy.
    fn sample(
        &self,
        operation: Operation,
        d: usize,
        batch: usize,
        copy: &mut CopyCrew,
        call: &mut dyn FnMut() -> Result<(), HrrFault>,
    ) -> Result<HrrFigure, HrrFault> {
        let bytes = operation.bytes(d, batch);
        call()?;
        copy.copy(bytes);
        let began = MonotonicClock.now();
        call()?;
        let once = MonotonicClock.now().since(began).as_nanos().max(1);
        let repeats = (LEAST_SAMPLE.as_nanos() / once).max(1);
        let (mut own, mut floor) = (Vec::new(), Vec::new());
        let start = MonotonicClock.now();
        while own.len() < LEAST_SAMPLES
            || (own.len() < MOST_SAMPLES && MonotonicClock.now().since(start) < self.cell)
        {
            let began = MonotonicClock.now();
            for _ in 0..repeats {
                call()?;
            }
            own.push(MonotonicClock.now().since(began).as_micros_f64() / repeats as f64);
            let copied: f64 = (0..repeats).map(|_| copy.copy(bytes).1.as_micros_f64()).sum();
            floor.push(copied / repeats as f64);
        }
        let (p50_us, floor_us) = (median(&mut own), median(&mut floor));
        Ok(HrrFigure {
            operation,
            d,
            batch,
            threads: 1,
            residence: None,
            p50_us,
            min_us: own.first().copied().unwrap_or_default(),
            n: own.len(),
            bytes,
            floor_us,
            ratio_to_floor: p50_us / floor_us,
            gpu_copy_us: None,
        })
    }
}

/// Rows of uniformly distributed numbers. The numbers repeat with a prime period, so that a row is repeated
/// only after 65,521 rows: equal rows would make the best match easy to find.
fn numbers(family: u64, dim: Dim, batch: usize) -> Vec<f32> {
    let draw = |i: usize| uniform(family, Stream::Stimulus, (i % 65_521) as u64) - 0.5;
    (0..batch * dim.get()).map(|i| draw(i) as f32).collect()
}

/// A crew for copies as large as the largest operation on a batch.
fn copy_of(dim: Dim, batch: usize) -> Result<CopyCrew, HrrFault> {
    CopyCrew::new(1, 3 * dim.get() * batch * size_of::<f32>(), &[]).map_err(HrrFault::Threads)
}

/// The operands of a batch, for the CPU and for the GPU.
struct Given {
    rows: Vec<f32>,
    keys: Vec<f32>,
    out: Vec<f32>,
    store: Store,
    best: [Best; 1],
}

impl Given {
    fn new(dim: Dim, batch: usize) -> Result<Given, Fault> {
        let (rows, keys) = (numbers(1, dim, batch), numbers(2, dim, batch));
        let mut store = Store::new(dim, batch, usize::MAX)?;
        rows.chunks_exact(dim.get()).try_for_each(|row| store.push(row).map(drop))?;
        Ok(Given { out: vec![1.0; rows.len()], rows, keys, store, best: [Best::of(5)] })
    }

    fn on_processor(&mut self, workspace: &mut Workspace, operation: Operation) -> Result<(), Fault> {
        let Given { rows, keys, out, store, best } = self;
        let d = store.dim().get();
        let done = match operation {
            Operation::Bind => workspace.bind(rows, keys, Length::AsIs, out),
            Operation::Unbind => workspace.unbind(rows, keys, Length::AsIs, out),
            Operation::BindUnit => workspace.bind(rows, keys, Length::Unit, out),
            Operation::SuperposeUnit => workspace.superpose(rows, None, Length::Unit, &mut out[..d]),
            Operation::CleanUp => store.nearest(&keys[..d], best),
        };
        black_box((out, best));
        done
    }

    fn on_gpu(
        &mut self,
        gpu: &mut GpuWorkspace,
        operation: Operation,
        residence: Residence,
    ) -> Result<(), GpuWorkspaceFault> {
        let Given { rows, keys, out, store, best } = self;
        let (d, batch) = (store.dim().get(), store.len());
        let (verb, length) = match operation {
            Operation::Unbind => (Verb::Unbind, Length::AsIs),
            Operation::BindUnit => (Verb::Bind, Length::Unit),
            _ => (Verb::Bind, Length::AsIs),
        };
        match (operation, residence) {
            (Operation::CleanUp, _) => gpu.nearest(&keys[..d], best),
            (Operation::SuperposeUnit, Residence::Host) => {
                gpu.superpose(rows, None, Length::Unit, &mut out[..d])
            }
            (Operation::SuperposeUnit, Residence::Gpu) => gpu.superpose_held(batch, Length::Unit),
            (_, Residence::Host) => gpu.convolve(verb, rows, keys, length, out),
            (_, Residence::Gpu) => gpu.convolve_held(verb, batch, length),
        }
    }

    fn dispatched(&mut self, dispatcher: &mut Dispatcher, operation: Operation) -> Result<(), Fault> {
        let Given { rows, keys, out, store, best } = self;
        let d = store.dim().get();
        match operation {
            Operation::Bind => dispatcher.bind(rows, keys, Length::AsIs, out),
            Operation::Unbind => dispatcher.unbind(rows, keys, Length::AsIs, out),
            Operation::BindUnit => dispatcher.bind(rows, keys, Length::Unit, out),
            Operation::SuperposeUnit => dispatcher.superpose(rows, None, Length::Unit, &mut out[..d]),
            Operation::CleanUp => dispatcher.nearest(store, &keys[..d], best),
        }
    }
}

/// The median; sorts `samples`.
fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// Bytes on the host: rows, keys, results, a store, and both halves of the copy.
fn memory_of(d: usize, batch: usize) -> usize {
    (3 + 1 + 3) * d * batch * size_of::<f32>()
}
