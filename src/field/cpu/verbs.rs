//! What callers can read from and write to an engine, between cycles.

use super::CpuEngine;
use super::library::unit;
use super::statistics::Statistics;
use crate::field::shape::{CONTENT_GROUPS, CONTEXT, DESCRIPTOR, GROUP, PATTERN, PATTERN_FIRST, WORTH_MOST};
use crate::field::{Metrics, StageTimes};
use crate::plan::{FieldPlan, Rung, Storage};
use crate::rt::Refusal;

impl CpuEngine {
    /// Statistics of the current field; reads every cell.
    pub fn measure_now(&self) -> Metrics {
        let mut sums = Statistics::default();
        for part in self.parallel.parts() {
            part.cells(self.on_half).each_run(self.level, |run| sums.add(run));
        }
        let [mean, std, max, energy] = sums.mean_std_max_energy();
        Metrics {
            cycle: self.cycle,
            mean,
            std,
            max,
            energy,
            novelty: self.bank_index.novelty() as f32,
            skill: self.predictor.skill() as f32,
            confidence: self.predictor.confidence() as f32,
        }
    }

    /// The newest of the statistics that are taken every `METRICS_EVERY` cycles.
    pub fn metrics(&self) -> Option<Metrics> {
        self.metrics
    }

    /// Features of the last cycle: context, descriptor, gradients; all 0 before the first.
    pub fn features(&self) -> &[f32] {
        &self.features.all
    }

    /// What the next sensors are expected to be.
    pub fn prediction(&self) -> &[f64] {
        self.predictor.prediction()
    }

    /// Puts in the motor read-out; as [`crate::field::Engine::set_readout`].
    pub fn set_readout(&mut self, weights: &[f32]) -> bool {
        self.plan.shape.copy_weights(weights, &mut self.readout)
    }

    /// Copies the cells of channel `c`, x fastest, on the grid in use: as many as there are and as `to`
    /// holds.
    pub fn copy_channel(&self, c: usize, to: &mut [f32]) {
        self.parallel.parts()[c / GROUP].cells(self.on_half).read(c % GROUP, to);
    }

    /// Replaces them, to start from another field than the resting one; held within 1 - beta and rounded to
    /// the storage.
    pub fn set_channel(&mut self, c: usize, cells: &[f32]) {
        let half = self.on_half;
        self.parallel.parts_mut()[c / GROUP].write(half, c % GROUP, cells);
    }

    /// Stores a volume (16 x N^3, within 1 - beta, kept to 1.5e-5) that is recalled by a context
    /// (as in the features). Refuses (false) what does not fit.
    pub fn store_pattern(
        &mut self,
        slot: usize,
        volume: &[f32],
        context: &[f32; CONTEXT],
        value: f32,
    ) -> bool {
        let (len, bound) = (PATTERN * self.plan.shape.cells(), 1.0 - self.plan.params.beta);
        let fits = self.index.has(slot)
            && volume.len() == len
            && volume.iter().all(|v| f64::from(v.abs()) <= bound)
            && context.iter().all(|c| c.is_finite())
            && value.is_finite();
        if fits {
            let about_rest = std::array::from_fn(|i| f64::from(context[i]) - self.features.rest_context[i]);
            self.index.enter(slot, &about_rest, value);
            let first = PATTERN_FIRST / GROUP;
            let parts = &mut self.parallel.parts_mut()[first..first + PATTERN / GROUP];
            let eights = volume.chunks_exact(len * GROUP / PATTERN);
            parts.iter_mut().zip(eights).for_each(|(part, eight)| part.store_pattern(slot, eight));
        }
        fits
    }

    /// Empties a slot of the library.
    pub fn clear_pattern(&mut self, slot: usize) {
        self.index.clear(slot);
    }

    /// The value that a pattern was stored with; `None` for an empty slot.
    pub fn pattern_value(&self, slot: usize) -> Option<f32> {
        self.index.value(slot)
    }

    /// Slots and weights of the last match, best first.
    pub fn blend(&self) -> (&[usize], &[f64]) {
        (self.blend.slots(), self.blend.weights())
    }

    /// Stores an experience as if the last cycle had made it: a descriptor about rest, and its worth, 0 to
    /// `WORTH_MOST`. Refuses (false) numbers that are not finite.
    pub fn store_experience(&mut self, descriptor: &[f32; DESCRIPTOR], value: f32) -> bool {
        let fits = descriptor.iter().all(|d| d.is_finite()) && (0.0..=WORTH_MOST).contains(&f64::from(value));
        if fits && let Some(row) = self.bank_index.enter(f64::from(value), self.cycle, self.dt) {
            let mut direction = descriptor.map(f64::from);
            unit(&mut direction);
            self.parallel.ask(&direction, true);
            self.parallel.store_row(row);
        }
        fits
    }

    /// Bytes that a cycle at `rung` has to read and write if every number is touched once.
    pub fn bytes_per_cycle(&self, rung: Rung) -> usize {
        let work = rung.work();
        let cells = self.plan.shape.cells() / if work.half_resolution { 8 } else { 1 };
        let cell = |storage| if storage == Storage::F16 { size_of::<u16>() } else { size_of::<f32>() };
        let held = |number: usize| if number < CONTENT_GROUPS { 1 } else { work.slow_every as usize };
        let parts = self.parallel.parts().iter().enumerate();
        let field: usize =
            parts.map(|(number, part)| GROUP * cells * cell(part.fixed().storage) / held(number)).sum();
        let blended = work.blend_top.min(self.plan.shape.patterns) * PATTERN * cells * size_of::<i16>();
        let rows = self.bank_index.len() / work.bank_parts as usize;
        2 * field + blended / work.slow_every as usize + rows * DESCRIPTOR
    }

    /// Time of each of the `STAGES` in the last cycle.
    pub fn stage_times(&self) -> &StageTimes {
        self.watch.times()
    }

    /// Which instructions the hot loops use.
    pub fn simd(&self) -> &'static str {
        self.level.name()
    }

    /// Pieces of work that the calling thread did again because a worker's core was busy, since the start.
    pub fn stand_ins(&self) -> u64 {
        self.parallel.stand_ins()
    }

    /// Worker threads, from 1, that were not granted their core.
    pub fn refusals(&self) -> &[(usize, Refusal)] {
        self.parallel.refusals()
    }

    /// Experiences in the bank.
    pub fn experiences(&self) -> usize {
        self.bank_index.len()
    }

    /// Rows and cosines of the last whole sweep of the bank, best first.
    pub fn nearest(&self) -> &[(usize, f64)] {
        self.bank_index.nearest()
    }

    /// G: below 1 the field only fades.
    pub fn gain(&self) -> f64 {
        self.plan.params.field_gain()
    }

    /// What this engine was built from.
    pub fn plan(&self) -> &FieldPlan {
        &self.plan
    }

    /// Threads that share the work, the caller's included.
    pub fn threads(&self) -> usize {
        self.parallel.threads()
    }

    /// Memory taken at the start, bytes: field, library, bank, read-out and learning.
    pub fn memory_bytes(&self) -> usize {
        let vectors = size_of_val(&*self.features.all) + size_of_val(&*self.readout);
        self.parallel.bytes()
            + self.index.bytes()
            + self.bank_index.bytes()
            + self.predictor.bytes()
            + vectors
    }
}
