//! Measures where the time of a GPU's field cycle goes, and compares it with a copy in the GPU's own memory
//! in the same seconds.
//!
//! Blocks of cycles and of copies alternate. Stages are timed in a separate part, because timed stages run
//! one after another. The host's cost is measured at a rate of 100 Hz. Only for the CUDA engine.

use super::ended;
use super::feed::Feed;
use super::field::{BenchFault, FieldFigures};
use super::page_faults::page_faults;
use crate::base::plan::{FieldPlan, QualityLevel};
use crate::base::time::{Clock, Grid, MonotonicClock, Span};
use crate::drive::trace::{latency_histogram, note};
use crate::field::cuda::{CudaEngine, DeviceFacts, DeviceTimes, is_emulated};
use crate::field::shape::DESCRIPTOR;
use crate::field::state::Live;
use crate::field::{Failure, FieldEngine, Inspect, Loss};
use crate::system::gpu::Counts;
use crate::system::rt::heap::allocations_everywhere;
use crate::system::rt::process_time;
use hdrhistogram::Histogram;
use std::sync::atomic::AtomicBool;

/// Length of a block of cycles, as on a CPU.
const BLOCK: Span = Span::from_millis(250);
/// Number of copies, and of launches of an empty graph, before each block of cycles.
const COPIES: usize = 4;
/// Cycles at the start of a block that do not count: twice the longest period in the table of quality levels,
/// so that each graph has run before its cycles count.
const SETTLING: u32 = 8;
/// Tenths of the time for cycles and copies, for stages, and for the paced part.
const PARTS: [u64; 3] = [5, 1, 4];
/// Timeout of a cycle, long on purpose: a benchmark shows how slow a device is, even under a profiler. Only a
/// robot has to give up on a slow device.
const PATIENCE: Span = Span::from_millis(10_000);
/// Time between two cycles of the paced part: 100 Hz.
const PACE: Span = Span::from_millis(10);

/// An engine on a GPU with its state loaded, and the `Feed` that generates its input.
pub struct DeviceBench {
    engine: CudaEngine,
    facts: DeviceFacts,
    feed: Feed,
}

/// The measurement of one engine. Spans are in nanoseconds.
pub struct DeviceFigures {
    /// Cycles, stages, and copies in the device's memory.
    pub field: FieldFigures,
    /// Where the time of a cycle goes.
    pub times: [Histogram<u64>; DeviceTimes::PARTS.len()],
    /// Time of an empty graph, from its launch until the host sees its end.
    pub round_trip: Histogram<u64>,
    /// Bytes that evolve and features read and write in a cycle: all but the bank's.
    pub evolved_bytes: usize,
    /// Transfers between host and device in the counted cycles.
    pub transfers: u64,
    /// Bytes that a save copies from the device if the same state was saved before.
    pub bytes_per_save: Option<u64>,
    /// Driver calls in the counted cycles.
    pub calls: u64,
    /// Allocations on the device, and page-locked ones on the host, in the counted cycles.
    pub allocations: u64,
    /// Processor time in the paced part, and its elapsed time. The process does nothing else in that part.
    pub host: (Span, Span),
}

impl DeviceBench {
    /// Opens an engine for `robots` robots on this machine's GPU, and loads its state.
    pub fn build(plan: &FieldPlan, robots: usize) -> Result<DeviceBench, BenchFault> {
        let mut engine = CudaEngine::open(plan, robots).map_err(BenchFault::Device)?;
        engine.set_timeout(PATIENCE);
        // Without facts, the engine is lost. It reports the loss in its next cycle, which is run here.
        let mut feed = Feed::new(plan);
        let Some(facts) = engine.device_facts() else {
            let answer = engine.cycle(&feed.next(QualityLevel::BEST));
            return Err(BenchFault::Lost(answer.err().unwrap_or(Failure::Lost(Loss::Panicked))));
        };
        feed.load(&mut engine, plan).map_err(BenchFault::Lost)?;
        Ok(DeviceBench { engine, facts, feed })
    }

    /// The engine.
    pub fn engine(&self) -> &dyn Inspect {
        &self.engine
    }

    /// The engine's device.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Whether the CPU emulates the GPU; the figures are then meaningless.
    pub fn is_emulated(&self) -> bool {
        is_emulated(&self.facts.found)
    }

    /// Measures cycles at `quality` for `length` and adds to `figures`: half of the time goes to cycles and
    /// copies, a tenth to stages, the rest to cycles at 100 Hz. `watch` receives the elapsed time.
    pub fn measure(
        &mut self,
        quality: QualityLevel,
        length: Span,
        figures: &mut DeviceFigures,
        interrupted: &AtomicBool,
        watch: &mut dyn FnMut(Span),
    ) -> Result<(), BenchFault> {
        let start = MonotonicClock.now();
        let whole = PARTS.iter().sum::<u64>();
        let [cycles, stages, paced] = PARTS.map(|part| Span::from_nanos(length.as_nanos() / whole * part));
        figures.field.bytes_per_cycle = self.engine.bytes_per_cycle(quality);
        let rows = self.engine.experiences() / quality.work().bank_parts as usize;
        let scanned = self.facts.robots * rows * DESCRIPTOR;
        figures.evolved_bytes = figures.field.bytes_per_cycle.saturating_sub(scanned);
        let block = BLOCK.min(Span::from_nanos(cycles.as_nanos() / 4));
        loop {
            self.copies(figures)?;
            self.settle(quality)?;
            self.cycles(quality, block, figures, interrupted)?;
            let passed = MonotonicClock.now().since(start);
            watch(passed.min(length));
            if passed >= cycles || ended(interrupted) {
                break;
            }
        }
        figures.bytes_per_save = self.bytes_per_save();
        self.stages(quality, stages, figures, interrupted)?;
        watch(MonotonicClock.now().since(start).min(length));
        self.paced(quality, paced, figures, interrupted)
    }

    fn bytes_per_save(&mut self) -> Option<u64> {
        let mut live = Live::default();
        let first = self.engine.save(&mut live).then(|| self.engine.device_counts().bytes_out)?;
        self.engine.save(&mut live).then(|| self.engine.device_counts().bytes_out - first)
    }

    fn turn(&mut self, quality: QualityLevel) -> Result<Span, BenchFault> {
        let input = self.feed.next(quality);
        let began = MonotonicClock.now();
        let response = self.engine.cycle(&input);
        let span = MonotonicClock.now().since(began);
        std::hint::black_box(response).map_err(BenchFault::Lost)?;
        Ok(span)
    }

    fn settle(&mut self, quality: QualityLevel) -> Result<(), BenchFault> {
        (0..SETTLING).try_for_each(|_| self.turn(quality).map(|_| ()))
    }

    fn cycles(
        &mut self,
        quality: QualityLevel,
        length: Span,
        figures: &mut DeviceFigures,
        interrupted: &AtomicBool,
    ) -> Result<(), BenchFault> {
        let until = MonotonicClock.now() + length;
        let before = self.engine.device_counts();
        let faults = page_faults();
        let allocations = allocations_everywhere();
        loop {
            let span = self.turn(quality)?;
            note(&mut figures.field.cycle, span);
            figures.note_times(&self.engine.device_times());
            if MonotonicClock.now() >= until || ended(interrupted) {
                break;
            }
        }
        figures.field.allocations.add(allocations, allocations_everywhere());
        figures.field.page_faults.add(faults, page_faults());
        figures.note_counts(&before, &self.engine.device_counts());
        Ok(())
    }

    /// Copies a cycle's bytes within the device's memory, and launches empty graphs.
    fn copies(&mut self, figures: &mut DeviceFigures) -> Result<(), BenchFault> {
        let half = figures.field.bytes_per_cycle / 2; // half is read, half is written
        for _ in 0..COPIES {
            // Without memory for the copy there is no figure. The next cycle reports a lost device.
            if let Some(span) = self.engine.device_copy(half) {
                figures.field.bytes_per_copy = 2 * half;
                note(&mut figures.field.copy, span);
            }
            if let Some(span) = self.engine.device_round_trip() {
                note(&mut figures.round_trip, span);
            }
        }
        Ok(())
    }

    /// Runs cycles, at least one, whose stages run one after another, each between two events.
    fn stages(
        &mut self,
        quality: QualityLevel,
        length: Span,
        figures: &mut DeviceFigures,
        interrupted: &AtomicBool,
    ) -> Result<(), BenchFault> {
        self.engine.watch_stages(true);
        self.settle(quality)?;
        let until = MonotonicClock.now() + length;
        loop {
            self.turn(quality)?;
            self.engine.read_stages();
            figures.field.note_stages(self.engine.stage_times());
            if MonotonicClock.now() >= until || ended(interrupted) {
                break;
            }
        }
        self.engine.watch_stages(false);
        self.settle(quality)
    }

    /// Runs a cycle every 10 ms and measures how much processor time the process uses.
    fn paced(
        &mut self,
        quality: QualityLevel,
        length: Span,
        figures: &mut DeviceFigures,
        interrupted: &AtomicBool,
    ) -> Result<(), BenchFault> {
        let (start, busy) = (MonotonicClock.now(), process_time());
        let mut grid = Grid::new(start + PACE, PACE);
        loop {
            MonotonicClock.sleep_until(grid.slot());
            self.turn(quality)?;
            let now = MonotonicClock.now();
            grid.done(now);
            if now.since(start) >= length || ended(interrupted) {
                figures.host.0 = figures.host.0 + process_time().less(busy);
                figures.host.1 = figures.host.1 + now.since(start);
                return Ok(());
            }
        }
    }
}

impl DeviceFigures {
    /// Figures without any measurement yet.
    pub fn new() -> DeviceFigures {
        DeviceFigures {
            field: FieldFigures::new(),
            times: std::array::from_fn(|_| latency_histogram()),
            round_trip: latency_histogram(),
            evolved_bytes: 0,
            transfers: 0,
            bytes_per_save: None,
            calls: 0,
            allocations: 0,
            host: (Span::ZERO, Span::ZERO),
        }
    }

    fn note_times(&mut self, times: &DeviceTimes) {
        self.times.iter_mut().zip(times.parts()).for_each(|(histogram, part)| note(histogram, part));
    }

    fn note_counts(&mut self, before: &Counts, after: &Counts) {
        let sum = |counts: &Counts| {
            let transfers = counts.copies_in + counts.copies_out;
            (transfers, counts.device_allocations + counts.pinned_allocations)
        };
        let ((transfers, allocations), (transfers_then, allocations_then)) = (sum(before), sum(after));
        self.transfers += transfers_then.saturating_sub(transfers);
        self.calls += after.calls.saturating_sub(before.calls);
        self.allocations += allocations_then.saturating_sub(allocations);
    }

    /// Bytes of a cycle divided by the median time of its kernels, in GB (10^9) per second.
    pub fn achieved_gbps(&self) -> Option<f64> {
        gbps(self.field.bytes_per_cycle, self.part_us(DeviceTimes::KERNELS, 0.5))
    }

    /// Bandwidth of the kernels as a share of the copy's.
    pub fn share_of_copy(&self) -> Option<f64> {
        over(self.achieved_gbps(), self.field.copy_gbps())
    }

    /// Bandwidth of evolve and features, when stages run one after another, as a share of the copy's.
    pub fn evolve_share_of_copy(&self) -> Option<f64> {
        let spans: Vec<f64> = ["evolve", "features"].iter().filter_map(|name| self.stage_us(name)).collect();
        let us = (spans.len() == 2).then(|| spans.iter().sum());
        over(gbps(self.evolved_bytes, us), self.field.copy_gbps())
    }

    /// Median time of a stage, microseconds.
    pub fn stage_us(&self, stage: &str) -> Option<f64> {
        self.field.stages_p50_us().find(|(name, _)| *name == stage).map(|(_, us)| us)
    }

    /// A quantile of the time of one part of the cycle, microseconds.
    pub fn part_us(&self, part: usize, quantile: f64) -> Option<f64> {
        let histogram = self.times.get(part).filter(|histogram| !histogram.is_empty())?;
        Some(histogram.value_at_quantile(quantile) as f64 / 1e3)
    }

    /// Median time of a cycle minus that of its kernels, microseconds.
    pub fn overhead_us(&self) -> Option<f64> {
        let (cycle, kernels) = (self.field.cycle_us(0.5)?, self.part_us(DeviceTimes::KERNELS, 0.5)?);
        Some((cycle - kernels).max(0.0))
    }

    /// Median time to launch an empty graph and wait for it, microseconds.
    pub fn launch_and_wait_us(&self) -> Option<f64> {
        let is_there = !self.round_trip.is_empty();
        is_there.then(|| self.round_trip.value_at_quantile(0.5) as f64 / 1e3)
    }

    /// Copies between host and device per cycle.
    pub fn transfers_per_cycle(&self) -> Option<f64> {
        self.per_cycle(self.transfers)
    }

    /// Driver calls per cycle.
    pub fn calls_per_cycle(&self) -> Option<f64> {
        self.per_cycle(self.calls)
    }

    fn per_cycle(&self, count: u64) -> Option<f64> {
        let cycles = self.field.cycle.len();
        (cycles > 0).then(|| count as f64 / cycles as f64)
    }

    /// Processor time divided by elapsed time at 100 Hz; 1 is one core.
    pub fn host_cpu_share(&self) -> Option<f64> {
        let (busy, passed) = (self.host.0.as_secs_f64(), self.host.1.as_secs_f64());
        over(Some(busy), Some(passed))
    }
}

impl Default for DeviceFigures {
    fn default() -> DeviceFigures {
        DeviceFigures::new()
    }
}

fn gbps(bytes: usize, us: Option<f64>) -> Option<f64> {
    over(Some(bytes as f64 / 1e3), us)
}

fn over(over: Option<f64>, under: Option<f64>) -> Option<f64> {
    over.zip(under).filter(|(_, under)| *under > 0.0).map(|(over, under)| over / under)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_compare_with_the_copy_of_the_same_run() {
        let mut figures = DeviceFigures::new();
        assert!(figures.share_of_copy().is_none() && figures.host_cpu_share().is_none());
        assert!(figures.transfers_per_cycle().is_none() && figures.evolve_share_of_copy().is_none());
        (figures.field.bytes_per_cycle, figures.evolved_bytes) = (4_000_000, 3_000_000);
        figures.field.bytes_per_copy = 4_000_000;
        note(&mut figures.field.copy, Span::from_micros(10));
        figures.note_times(&DeviceTimes { kernels: Span::from_micros(40), ..DeviceTimes::default() });
        let mut stages = [Span::ZERO; 6];
        (stages[1], stages[2]) = (Span::from_micros(10), Span::from_micros(5));
        figures.field.note_stages(&stages);
        let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a / b - 1.0).abs() < 0.01);
        assert!(near(figures.achieved_gbps(), 100.0) && near(figures.share_of_copy(), 0.25));
        assert!(figures.overhead_us().is_none(), "no cycle yet");
        note(&mut figures.field.cycle, Span::from_micros(55));
        assert!(near(figures.overhead_us(), 15.0), "a cycle of 55 us minus 40 us of kernels");
        assert!(near(figures.evolve_share_of_copy(), 0.5), "3 MB in 15 us against 4 MB in 10 us");
        figures.host = (Span::from_millis(30), Span::from_millis(1_000));
        assert!(near(figures.host_cpu_share(), 0.03));
    }

    #[test]
    fn transfers_and_allocations_are_differences_of_two_counts() {
        let before =
            Counts { copies_in: 10, copies_out: 9, calls: 70, device_allocations: 1, ..Counts::default() };
        let after = Counts { copies_in: 13, copies_out: 12, calls: 76, pinned_allocations: 2, ..before };
        let mut figures = DeviceFigures::new();
        figures.note_counts(&before, &after);
        (0..3).for_each(|_| note(&mut figures.field.cycle, Span::from_micros(1)));
        assert_eq!((figures.transfers, figures.allocations, figures.calls_per_cycle()), (6, 2, Some(2.0)));
        assert!(figures.transfers_per_cycle().is_some_and(|count| (count - 2.0).abs() < 1e-9));
    }
}
