//! Compares the field's cycle, run back to back, with a plain copy of the same size on the same number of
//! threads.

use super::copy::CopyCrew;
use super::decision::{DECISION_FIELDS, DecisionFigures, DecisionLoad};
use super::ended;
use super::feed::Feed;
use super::navigator::NavigatorLoad;
use super::page_faults::page_faults;
use crate::base::plan::{FieldPlan, QUALITY_LEVELS, QualityLevel};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::drive::trace::{latency_histogram, note};
use crate::field::cuda::Unfit;
use crate::field::engine::{self, Inspect};
use crate::field::footprint;
use crate::field::{Failure, STAGES, StageTimes};
use crate::system::cpu::Level;
use crate::system::rt::heap::allocations_everywhere;
use crate::system::rt::room::{self, NoRoom};
use crate::system::rt::stay_on;
use hdrhistogram::Histogram;
use std::fmt;
use std::sync::atomic::AtomicBool;

/// Length of a block of cycles: so short that the load of a shared machine hardly changes from one block to
/// the next, but long compared with the first cycles, which find the caches as the copies left them.
const BLOCK: Span = Span::from_millis(250);
/// A block of cycles is this many times as long as a block of copies. A copy is shorter than a cycle, so the
/// shorter block still has enough copies.
const COPIES_PART: u64 = 4;
/// Cycles of the navigator after each block: at 100 us each, a tenth of the block's time.
const NAVIGATOR_CYCLES: u32 = 250;
/// A block of cycles is this many times as long as a block of steps of one decision field. The four blocks of
/// decision fields are then a fifth of the block of cycles, and the largest field still has several steps in
/// each.
const DECISION_PART: u64 = 20;
/// Sets of slices through the field after each block: at 50 us each, as much time as a few cycles.
const SLICES_SETS: u32 = 20;
/// Minimum number of copies in a block: the first one wakes the threads and must not be the median.
const LEAST_COPIES: u32 = 3;
/// Cycles at the start of a block that do not count: the longest period in the table of quality levels, so
/// that each kind of work has filled its caches and touched its memory.
const SETTLING: u32 = 4;

/// Why the measurement failed.
#[derive(Debug)]
pub enum BenchFault {
    /// The engine cannot use the requested instruction set.
    Simd {
        /// The requested value.
        asked: String,
        /// The instruction sets that this machine offers.
        have: Vec<&'static str>,
    },
    /// A requested core does not exist, or this program may not use it.
    Core {
        /// Number of the core.
        cpu: usize,
    },
    /// The field needs more memory than is available.
    Room(NoRoom),
    /// The system cannot start another thread.
    Threads(std::io::Error),
    /// There is no GPU to measure.
    Device(Unfit),
    /// The engine was lost during the measurement.
    Lost(Failure),
}

impl fmt::Display for BenchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchFault::Simd { asked, have } => {
                write!(f, "the engine cannot use {asked} here: the cpu engine can use {}", have.join(", "))
            }
            BenchFault::Core { cpu } => {
                write!(f, "core {cpu} is not available to this program")
            }
            BenchFault::Room(refusal) => write!(f, "the field does not fit: {refusal}"),
            BenchFault::Threads(error) => write!(f, "cannot start a thread or pin it to its core: {error}"),
            BenchFault::Device(unfit) => unfit.fmt(f),
            BenchFault::Lost(failure) => write!(f, "nothing was measured: {failure}"),
        }
    }
}

impl std::error::Error for BenchFault {}

/// An engine with its state loaded, and the `Feed` that generates its input.
pub struct FieldBench {
    engine: Box<dyn Inspect>,
    feed: Feed,
    copy: CopyCrew,
    /// The navigator with and without a goal, which runs between the blocks; `None`: it is not measured.
    navigator: Option<[NavigatorLoad; 2]>,
    /// Decision fields, likewise.
    decision: Option<DecisionLoad>,
}

impl FieldBench {
    /// Builds and loads the engine of `plan`. With `simd`, fails unless the engine can use this instruction
    /// set. Call it on the thread that measures: that thread is pinned to the plan's first core.
    pub fn build(plan: &FieldPlan, simd: Option<&str>) -> Result<FieldBench, BenchFault> {
        room::demand(footprint::field_bytes(plan)).map_err(BenchFault::Room)?;
        let mut engine = engine(plan, simd)?;
        // Pin only after the engine has started its threads, which would otherwise inherit this core.
        if let Some(&cpu) = plan.cpus.first() {
            stay_on(cpu).map_err(|_| BenchFault::Core { cpu })?;
        }
        let mut feed = Feed::new(plan);
        feed.load(engine.as_mut(), plan).map_err(BenchFault::Lost)?;
        let levels = (0..QUALITY_LEVELS).filter_map(|number| QualityLevel::new(number as u8));
        let most = levels.map(|quality| engine.bytes_per_cycle(quality)).max().unwrap_or(0);
        let copy = CopyCrew::new(engine.threads(), most, &plan.cpus).map_err(BenchFault::Threads)?;
        Ok(FieldBench { engine, feed, copy, navigator: None, decision: None })
    }

    /// Measures the navigator and decision fields as well.
    pub fn with_navigator(self) -> FieldBench {
        let (navigator, decision) = (Some([true, false].map(NavigatorLoad::new)), Some(DecisionLoad::new()));
        FieldBench { navigator, decision, ..self }
    }

    /// The engine.
    pub fn engine(&self) -> &dyn Inspect {
        self.engine.as_ref()
    }

    /// Measures cycles at `quality` for `length`, including the copies before, between and after them, and
    /// adds to `figures`. At least one cycle counts. `watch` receives the elapsed time after each block.
    pub fn measure(
        &mut self,
        quality: QualityLevel,
        length: Span,
        figures: &mut FieldFigures,
        interrupted: &AtomicBool,
        watch: &mut dyn FnMut(Span),
    ) {
        let clock = MonotonicClock;
        let bytes = self.engine.bytes_per_cycle(quality);
        figures.bytes_per_cycle = bytes;
        let start = clock.now();
        // At least four blocks, however short the whole measurement is.
        let block = BLOCK.min(Span::from_nanos(length.as_nanos() / 4));
        let copies = Span::from_nanos(block.as_nanos() / COPIES_PART);
        self.copies(bytes, copies, figures);
        loop {
            for _ in 0..SETTLING {
                self.turn(quality);
            }
            self.cycles(quality, block, figures, interrupted);
            self.copies(bytes, copies, figures);
            self.navigate(figures);
            self.decide(Span::from_nanos(block.as_nanos() / DECISION_PART), figures);
            self.slice(figures);
            let passed = clock.now().since(start);
            watch(passed.min(length));
            if passed >= length || ended(interrupted) {
                return;
            }
        }
    }

    fn turn(&mut self, quality: QualityLevel) -> Span {
        let input = self.feed.next(quality);
        let began = MonotonicClock.now();
        let response = self.engine.cycle(&input);
        let span = MonotonicClock.now().since(began);
        std::hint::black_box(response).expect("the feed's values are within -1..=1");
        span
    }

    fn cycles(
        &mut self,
        quality: QualityLevel,
        length: Span,
        figures: &mut FieldFigures,
        interrupted: &AtomicBool,
    ) {
        let until = MonotonicClock.now() + length;
        let (faults, stand_ins) = (page_faults(), self.engine.stand_ins());
        let allocations = allocations_everywhere();
        loop {
            let span = self.turn(quality);
            note(&mut figures.cycle, span);
            figures.note_stages(self.engine.stage_times());
            if MonotonicClock.now() >= until || ended(interrupted) {
                break;
            }
        }
        figures.allocations.add(allocations, allocations_everywhere());
        figures.page_faults.add(faults, page_faults());
        figures.stand_ins += self.engine.stand_ins() - stand_ins;
    }

    /// Measures cycles of the navigator, which runs on the CPU after the field's cycle.
    fn navigate(&mut self, figures: &mut FieldFigures) {
        let Some([with_goal, without]) = &mut self.navigator else { return };
        for _ in 0..NAVIGATOR_CYCLES {
            note(&mut figures.navigator, with_goal.turn());
            note(&mut figures.navigator_without_goal, without.turn());
        }
    }

    /// Measures steps of each decision field for `length`, at least one of each.
    fn decide(&mut self, length: Span, figures: &mut FieldFigures) {
        let Some(load) = &mut self.decision else { return };
        for (which, figures) in figures.decision.iter_mut().enumerate() {
            for _ in 0..SETTLING {
                load.step(which);
            }
            let until = MonotonicClock.now() + length;
            loop {
                note(&mut figures.steps, load.step(which));
                if MonotonicClock.now() >= until {
                    break;
                }
            }
            load.describe(which, figures);
        }
    }

    /// Measures slices through the field, which a running robot takes twice a second.
    fn slice(&mut self, figures: &mut FieldFigures) {
        for _ in 0..SLICES_SETS {
            let began = MonotonicClock.now();
            if std::hint::black_box(self.engine.slices()).is_some() {
                note(&mut figures.slices, MonotonicClock.now().since(began));
            }
        }
    }

    fn copies(&mut self, bytes: usize, length: Span, figures: &mut FieldFigures) {
        let until = MonotonicClock.now() + length;
        let mut least = LEAST_COPIES;
        while least > 0 || MonotonicClock.now() < until {
            least = least.saturating_sub(1);
            let (copied, span) = self.copy.copy(bytes);
            figures.bytes_per_copy = copied;
            note(&mut figures.copy, span);
        }
    }
}

/// The engine of `plan`, if it can use the requested instruction set.
fn engine(plan: &FieldPlan, simd: Option<&str>) -> Result<Box<dyn Inspect>, BenchFault> {
    let Some(asked) = simd else { return Ok(engine::build(plan)) };
    engine::build_with(plan, asked).ok_or_else(|| BenchFault::Simd {
        asked: asked.to_string(),
        have: Level::all().iter().map(|level| level.name()).collect(),
    })
}

/// The measurement of one quality level. Spans are in nanoseconds.
pub struct FieldFigures {
    /// Whole cycles.
    pub cycle: Histogram<u64>,
    /// Each of the `STAGES`.
    pub stages: [Histogram<u64>; STAGES.len()],
    /// Cycles of the navigator on the way to a goal; not measured on a GPU.
    pub navigator: Histogram<u64>,
    /// Cycles of the navigator without a goal; not measured on a GPU.
    pub navigator_without_goal: Histogram<u64>,
    /// Steps of each of the [`DECISION_FIELDS`]; not measured on a GPU.
    pub decision: [DecisionFigures; DECISION_FIELDS.len()],
    /// Slices through the field; not measured on a GPU.
    pub slices: Histogram<u64>,
    /// Plain copies.
    pub copy: Histogram<u64>,
    /// Bytes that one plain copy read and wrote.
    pub bytes_per_copy: usize,
    /// Bytes that a cycle has to read and write.
    pub bytes_per_cycle: usize,
    /// Heap allocations of all threads in the counted cycles.
    pub allocations: Count,
    /// Minor page faults of all threads in the counted cycles.
    pub page_faults: Count,
    /// Jobs that the calling thread repeated because a worker was late, in the counted cycles.
    pub stand_ins: u64,
}

/// A sum that is unknown as soon as one summand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(Option<u64>);

impl Count {
    /// Adds the increase of a counter that never falls.
    pub(super) fn add(&mut self, before: Option<u64>, after: Option<u64>) {
        let gained = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        self.0 = self.0.zip(gained).map(|(sum, gained)| sum + gained);
    }
}

impl FieldFigures {
    /// Figures without any measurement yet.
    pub fn new() -> FieldFigures {
        FieldFigures {
            cycle: touched_histogram(),
            stages: std::array::from_fn(|_| touched_histogram()),
            navigator: touched_histogram(),
            navigator_without_goal: touched_histogram(),
            decision: std::array::from_fn(|_| DecisionFigures::default()),
            slices: touched_histogram(),
            copy: touched_histogram(),
            bytes_per_copy: 0,
            bytes_per_cycle: 0,
            allocations: Count(Some(0)),
            page_faults: Count(Some(0)),
            stand_ins: 0,
        }
    }

    pub(super) fn note_stages(&mut self, times: &StageTimes) {
        self.stages.iter_mut().zip(times).for_each(|(stage, time)| note(stage, *time));
    }

    /// A quantile of the cycle time, microseconds; `None` without a cycle.
    pub fn cycle_us(&self, quantile: f64) -> Option<f64> {
        at(&self.cycle, quantile)
    }
    /// Median times of the stages, microseconds.
    pub fn stages_p50_us(&self) -> impl Iterator<Item = (&'static str, f64)> {
        STAGES.iter().zip(&self.stages).filter_map(|(name, times)| Some((*name, at(times, 0.5)?)))
    }
    /// Bytes read and written by the median copy, in GB (10^9) per second.
    pub fn copy_gbps(&self) -> Option<f64> {
        // A copy that is shorter than the clock's resolution cannot be measured.
        at(&self.copy, 0.5).filter(|us| *us > 0.0).map(|us| self.bytes_per_copy as f64 / us / 1e3)
    }
    /// Time in which the copy moves the bytes of a cycle, microseconds. A cycle that touches each byte once
    /// is not faster, unless it mostly reads: half of a copy is writing.
    pub fn floor_us(&self) -> Option<f64> {
        self.copy_gbps().map(|gbps| self.bytes_per_cycle as f64 / (gbps * 1e3))
    }
    /// Heap allocations per cycle; `None` if they are not counted.
    pub fn allocations_per_cycle(&self) -> Option<f64> {
        self.per_cycle(self.allocations)
    }
    /// Minor page faults per cycle; `None` if the kernel does not report them.
    pub fn page_faults_per_cycle(&self) -> Option<f64> {
        self.per_cycle(self.page_faults)
    }
    fn per_cycle(&self, count: Count) -> Option<f64> {
        let cycles = self.cycle.len();
        count.0.filter(|_| cycles > 0).map(|count| count as f64 / cycles as f64)
    }
}

impl Default for FieldFigures {
    fn default() -> FieldFigures {
        FieldFigures::new()
    }
}

/// A histogram whose memory is already mapped, so that its first use adds no page fault to a cycle.
fn touched_histogram() -> Histogram<u64> {
    let mut histogram = latency_histogram();
    histogram.reset();
    histogram
}

fn at(histogram: &Histogram<u64>, quantile: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile) as f64 / 1e3)
}
