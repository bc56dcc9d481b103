//! What learning, tests and benchmarks read from an engine and write to it, between cycles.

use super::CpuEngine;
use super::library::unit;
use super::statistics::Statistics;
use crate::base::plan::{FieldPlan, QualityLevel, Storage};
use crate::field::engine::Inspect;
use crate::field::shape::{CONTENT_GROUPS, CONTEXT, DESCRIPTOR, GROUP, PATTERN, PATTERN_FIRST, WORTH_MOST};
use crate::field::state::Learned;
use crate::field::{Metrics, StageTimes};
use crate::system::rt::Refusal;

impl Inspect for CpuEngine {
    fn kind(&self) -> &'static str {
        "cpu"
    }

    fn learned(&self) -> Learned {
        let slots = 0..self.plan.shape.patterns;
        Learned { readout: self.readout.clone(), patterns: slots.map(|slot| self.pattern(slot)).collect() }
    }

    fn copy_features(&self, out: &mut [f32]) {
        out.iter_mut().zip(&self.features.all).for_each(|(o, f)| *o = *f);
    }

    fn measure_now(&self) -> Metrics {
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

    fn metrics(&self) -> Option<Metrics> {
        self.metrics
    }

    fn prediction(&self) -> &[f64] {
        self.predictor.prediction()
    }

    fn set_readout(&mut self, weights: &[f32]) -> bool {
        self.plan.shape.copy_weights(weights, &mut self.readout)
    }

    fn copy_channel(&self, c: usize, out: &mut [f32]) {
        self.parallel.parts()[c / GROUP].cells(self.on_half).read(c % GROUP, out);
    }

    fn store_pattern(&mut self, slot: usize, volume: &[f32], context: &[f32; CONTEXT], value: f32) -> bool {
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

    fn clear_pattern(&mut self, slot: usize) {
        self.index.clear(slot);
    }

    fn pattern_value(&self, slot: usize) -> Option<f32> {
        self.index.value(slot)
    }

    fn blend(&self) -> (&[usize], &[f64]) {
        (self.blend.slots(), self.blend.weights())
    }

    fn store_experience(&mut self, descriptor: &[f32; DESCRIPTOR], value: f32) -> bool {
        let fits = descriptor.iter().all(|d| d.is_finite()) && (0.0..=WORTH_MOST).contains(&f64::from(value));
        if fits && let Some(row) = self.bank_index.enter(f64::from(value), self.cycle, self.dt) {
            let mut direction = descriptor.map(f64::from);
            unit(&mut direction);
            self.parallel.ask(&direction, true);
            self.parallel.store_row(row);
        }
        fits
    }

    fn bytes_per_cycle(&self, quality: QualityLevel) -> usize {
        let work = quality.work();
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

    fn stage_times(&self) -> &StageTimes {
        self.watch.times()
    }

    fn simd(&self) -> &'static str {
        self.level.name()
    }

    fn stand_ins(&self) -> u64 {
        self.parallel.stand_ins()
    }

    fn refusals(&self) -> &[(usize, Refusal)] {
        self.parallel.refusals()
    }

    fn experiences(&self) -> usize {
        self.bank_index.len()
    }

    fn nearest(&self) -> &[(usize, f64)] {
        self.bank_index.nearest()
    }

    fn plan(&self) -> &FieldPlan {
        &self.plan
    }

    fn threads(&self) -> usize {
        self.parallel.threads()
    }

    fn memory_bytes(&self) -> usize {
        let vectors = size_of_val(&*self.features.all) + size_of_val(&*self.readout);
        self.parallel.bytes()
            + self.index.bytes()
            + self.bank_index.bytes()
            + self.predictor.bytes()
            + vectors
    }
}

impl CpuEngine {
    /// Features of the last cycle: context, descriptor, gradients; all 0 before the first.
    pub fn features(&self) -> &[f32] {
        &self.features.all
    }

    /// Replaces the cells of a channel, to start from a field other than the resting one; values are clamped
    /// to +-(1 - beta) and rounded to the storage format.
    pub fn set_channel(&mut self, c: usize, cells: &[f32]) {
        let half = self.on_half;
        self.parallel.parts_mut()[c / GROUP].write(half, c % GROUP, cells);
    }
}
