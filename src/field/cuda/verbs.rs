//! What callers can read from and write to the engine between cycles. In a batch, callers read the first
//! robot and write all of them. If the device is lost between two
//! cycles, the next cycle reports it. Reads from a lost device return default values.

use super::CudaEngine;
use super::brain::Brain;
use crate::base::plan::{FieldPlan, QualityLevel, Storage};
use crate::base::time::Instant;
use crate::field::engine::{Condition, FieldEngine, Inspect, finite};
use crate::field::shape::{
    CONTENT_GROUPS, CONTEXT, DESCRIPTOR, FEATURES, GROUP, GROUPS, PATTERN, WORTH_MOST,
};
use crate::field::state::{Learned, Live, StateError};
use crate::field::{Failure, FieldInput, FieldOutput, Metrics, StageTimes};

impl FieldEngine for CudaEngine {
    fn name(&self) -> String {
        let megabytes = self.memory_bytes() as f64 / 1e6;
        format!("cuda ({}, {} cells, {megabytes:.0} MB)", self.found.name, self.storage())
    }

    fn device_name(&self) -> Option<String> {
        Some(self.found.name.clone())
    }

    /// One cycle of robot 0; the others of a batch get the same input.
    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, Failure> {
        input.check(self.plan.shape.sensors)?;
        self.run_cycle(|inputs| inputs.fill(*input))?;
        finite(self.answer.response(), self.prediction())
    }

    fn save(&mut self, live: &mut Live) -> bool {
        let mut mine = std::mem::take(live);
        let saved = self.read(move |brain| brain.save(&mut mine).map(|()| mine));
        let is_saved = saved.is_some();
        *live = saved.unwrap_or_default();
        is_saved
    }

    fn save_soon(&mut self, live: &mut Live) -> bool {
        let mut mine = std::mem::take(live);
        let saved = self.read(move |brain| brain.save_soon(&mut mine).map(|is_saved| (is_saved, mine)));
        let (is_saved, mine) = saved.unwrap_or_default();
        *live = mine;
        is_saved
    }

    fn restore(&mut self, live: &Live) -> Result<(), StateError> {
        live.check(&self.plan)?;
        let theirs = live.clone();
        let answer = self.each(move |brain| {
            brain.restore(&theirs)?;
            brain.answer()
        });
        self.answer = answer.unwrap_or(self.answer);
        self.update_answer();
        Ok(())
    }

    fn load(&mut self, learned: &Learned) -> Result<(), StateError> {
        learned.check(&self.plan)?;
        let theirs = learned.clone();
        self.note_memory(self.each(move |brain| brain.load(&theirs).map(|()| brain.memory().0)));
        let values = learned.patterns.iter().map(|pattern| pattern.as_ref().map(|pattern| pattern.value));
        self.values.clear();
        self.values.extend(values);
        Ok(())
    }

    fn reset(&mut self) {
        self.each(Brain::reset);
        self.answer = super::DeviceAnswer::START;
        self.update_answer();
    }

    fn condition(&self, _now: Instant) -> Condition {
        Condition { times: Some(self.device_times()), ..Condition::default() }
    }
}

impl Inspect for CudaEngine {
    fn kind(&self) -> &'static str {
        "cuda"
    }

    fn simd(&self) -> &'static str {
        "cuda"
    }

    fn copy_features(&self, out: &mut [f32]) {
        out.iter_mut().zip(self.features()).for_each(|(o, f)| *o = f);
    }

    fn copy_channel(&self, c: usize, out: &mut [f32]) {
        let cells = self.read(move |brain| brain.channel(c)).unwrap_or_default();
        out.iter_mut().zip(cells).for_each(|(to, cell)| *to = cell);
    }

    fn prediction(&self) -> &[f64] {
        &self.answer.prediction[..self.plan.shape.sensors]
    }

    fn set_readout(&mut self, weights: &[f32]) -> bool {
        let mut both = vec![0.0; self.plan.shape.weights()];
        let fits = self.plan.shape.copy_weights(weights, &mut both);
        if fits {
            self.each(move |brain| brain.set_readout(&both));
        }
        fits
    }

    fn store_pattern(&mut self, slot: usize, volume: &[f32], context: &[f32; CONTEXT], value: f32) -> bool {
        let (len, bound) = (PATTERN * self.plan.shape.cells(), 1.0 - self.plan.params.beta);
        let fits = slot < self.values.len()
            && volume.len() == len
            && volume.iter().all(|v| f64::from(v.abs()) <= bound)
            && context.iter().all(|c| c.is_finite())
            && value.is_finite();
        if fits {
            let pattern = self.start.pattern(volume, context);
            let stored =
                move |brain: &mut Brain| brain.store_pattern(slot, &pattern).map(|()| brain.memory().0);
            self.note_memory(self.each(stored));
            self.values[slot] = Some(value);
        }
        fits
    }

    fn clear_pattern(&mut self, slot: usize) {
        if let Some(value) = self.values.get_mut(slot) {
            *value = None;
            self.each(move |brain| brain.clear_pattern(slot));
        }
    }

    fn pattern_value(&self, slot: usize) -> Option<f32> {
        self.values.get(slot).copied().flatten()
    }

    fn blend(&self) -> (&[usize], &[f64]) {
        (&self.blend.0, &self.blend.1)
    }

    fn store_experience(&mut self, descriptor: &[f32; DESCRIPTOR], value: f32) -> bool {
        let fits = descriptor.iter().all(|d| d.is_finite()) && (0.0..=WORTH_MOST).contains(&f64::from(value));
        if fits {
            let descriptor = *descriptor;
            let experiences = self.each(move |brain| {
                brain.store_experience(&descriptor, value)?;
                Ok(brain.answer()?.experiences)
            });
            self.answer.experiences = experiences.unwrap_or(self.answer.experiences);
        }
        fits
    }

    fn experiences(&self) -> usize {
        self.answer.experiences as usize
    }

    fn nearest(&self) -> &[(usize, f64)] {
        &self.nearest
    }

    fn metrics(&self) -> Option<Metrics> {
        self.read(|brain| brain.metrics()).flatten()
    }

    fn measure_now(&self) -> Metrics {
        self.read(|brain| brain.measure_now()).unwrap_or_default()
    }

    fn memory_bytes(&self) -> usize {
        self.device_bytes
    }

    fn plan(&self) -> &FieldPlan {
        &self.plan
    }

    fn bytes_per_cycle(&self, quality: QualityLevel) -> usize {
        let work = quality.work();
        let cells = self.plan.shape.cells() / if work.half_resolution { 8 } else { 1 };
        let group = |number: usize| {
            let cell = if self.plan.storage_of(number) == Storage::F16 { 2 } else { 4 };
            let held = if number < CONTENT_GROUPS { 1 } else { work.slow_every as usize };
            GROUP * cells * cell / held
        };
        let field: usize = (0..GROUPS).map(group).sum();
        let blended = work.blend_top.min(self.plan.shape.patterns) * PATTERN * cells * size_of::<i16>();
        let rows = self.experiences() / work.bank_parts as usize;
        self.robots.len() * (2 * field + blended / work.slow_every as usize + rows * DESCRIPTOR)
    }

    fn stage_times(&self) -> &StageTimes {
        &self.stages
    }

    fn learned(&self) -> Learned {
        let mut learned = self.read(|brain| brain.learned()).unwrap_or_default();
        for (pattern, value) in learned.patterns.iter_mut().zip(&self.values) {
            if let (Some(pattern), Some(value)) = (pattern, value) {
                pattern.value = *value;
            }
        }
        learned
    }
}

impl CudaEngine {
    /// Notes the memory of a robot on the device, if it is known; all robots of a batch have the same.
    pub(super) fn note_memory(&mut self, of_one: Option<usize>) {
        self.device_bytes = of_one.map_or(self.device_bytes, |bytes| bytes * self.robots.len());
    }

    /// Features of the last cycle: context, descriptor, gradients; all 0 before the first.
    pub fn features(&self) -> Vec<f32> {
        self.read(|brain| brain.features()).unwrap_or_else(|| vec![0.0; FEATURES])
    }

    /// Replaces the cells of a channel; values are clamped to +-(1 - beta) and rounded to the storage format.
    pub fn set_channel(&mut self, c: usize, cells: &[f32]) {
        let cells = cells.to_vec();
        self.read(move |brain| brain.set_channel(c, &cells));
    }

    /// Switches the timing of stages on or off. Timed stages run one after another, which takes longer than a
    /// usual cycle.
    pub fn watch_stages(&mut self, on: bool) {
        self.watches_stages = on;
        self.ask(move |brains| brains.launcher().watch_stages(on));
    }

    /// Reads the times of the stages of the last cycle from the device.
    pub fn read_stages(&mut self) {
        if self.watches_stages {
            let times = self.ask(|brains| brains.launcher().stage_times()).flatten();
            self.stages = times.unwrap_or_default();
        }
    }
}
