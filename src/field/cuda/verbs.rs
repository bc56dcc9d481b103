//! What callers can read from and write to the engine between cycles. If the device is lost in between, the
//! next cycle reports it; until then answers are those of the start.

use super::CudaEngine;
use crate::field::shape::CONTENT_GROUPS;
use crate::field::shape::{CONTEXT, DESCRIPTOR, FEATURES, GROUP, GROUPS, PATTERN, WORTH_MOST};
use crate::field::state::{Learned, Live, StateError};
use crate::field::{Metrics, StageTimes};
use crate::plan::{FieldPlan, Rung, Storage};

impl CudaEngine {
    /// Back to the start; read-out and library stay.
    pub fn rest(&mut self) {
        self.ask(|brains| brains.rest());
        self.answer = super::Answer::START;
        self.show();
    }

    /// Features of the last cycle: context, descriptor, gradients; all 0 before the first.
    pub fn features(&self) -> Vec<f32> {
        self.ask(|brains| brains.features(0)).unwrap_or_else(|| vec![0.0; FEATURES])
    }

    /// Copies the cells of channel `c`, x fastest, on the grid in use: as many as there are and as `to`
    /// holds.
    pub fn copy_channel(&self, c: usize, to: &mut [f32]) {
        let cells = self.ask(move |brains| brains.channel(0, c)).unwrap_or_default();
        to.iter_mut().zip(cells).for_each(|(to, cell)| *to = cell);
    }

    /// Replaces them; held within 1 - beta and rounded to the storage.
    pub fn set_channel(&mut self, c: usize, cells: &[f32]) {
        let cells = cells.to_vec();
        self.ask(move |brains| brains.set_channel(0, c, &cells));
    }

    /// What the next sensors are expected to be, -1..=1.
    pub fn prediction(&self) -> &[f64] {
        &self.answer.prediction[..self.plan.shape.sensors]
    }

    /// Puts in the motor read-out; as [`crate::field::Engine::set_readout`].
    pub fn set_readout(&mut self, weights: &[f32]) -> bool {
        let mut both = vec![0.0; self.plan.shape.weights()];
        let fits = self.plan.shape.copy_weights(weights, &mut both);
        if fits {
            self.ask(move |brains| brains.set_readout(&both));
        }
        fits
    }

    /// Stores a volume (16 x N^3, within 1 - beta, kept to 1.5e-5) that is recalled by a context (as in the
    /// features). Refuses (false) what does not fit.
    pub fn store_pattern(
        &mut self,
        slot: usize,
        volume: &[f32],
        context: &[f32; CONTEXT],
        value: f32,
    ) -> bool {
        let (len, bound) = (PATTERN * self.plan.shape.cells(), 1.0 - self.plan.params.beta);
        let fits = slot < self.values.len()
            && volume.len() == len
            && volume.iter().all(|v| f64::from(v.abs()) <= bound)
            && context.iter().all(|c| c.is_finite())
            && value.is_finite();
        if fits {
            let pattern = self.start.pattern(volume, context);
            self.ask(move |brains| brains.store_pattern(slot, &pattern));
            self.values[slot] = Some(value);
        }
        fits
    }

    /// Empties a slot of the library.
    pub fn clear_pattern(&mut self, slot: usize) {
        if let Some(value) = self.values.get_mut(slot) {
            *value = None;
            self.ask(move |brains| brains.clear_pattern(slot));
        }
    }

    /// The value that a pattern was stored with; `None` for an empty slot.
    pub fn pattern_value(&self, slot: usize) -> Option<f32> {
        self.values.get(slot).copied().flatten()
    }

    /// Slots and weights of the last match, best first.
    pub fn blend(&self) -> (&[usize], &[f64]) {
        (&self.blend.0, &self.blend.1)
    }

    /// Stores an experience as if the last cycle had made it: a descriptor about rest, and its worth. Refuses
    /// (false) numbers that are not finite.
    pub fn store_experience(&mut self, descriptor: &[f32; DESCRIPTOR], value: f32) -> bool {
        let fits = descriptor.iter().all(|d| d.is_finite()) && (0.0..=WORTH_MOST).contains(&f64::from(value));
        if fits {
            let descriptor = *descriptor;
            let experiences = self.ask(move |brains| brains.store_experience(&descriptor, value));
            self.answer.experiences = experiences.unwrap_or(self.answer.experiences);
        }
        fits
    }

    /// Experiences in the bank.
    pub fn experiences(&self) -> usize {
        self.answer.experiences as usize
    }

    /// Rows and cosines of the last whole sweep of the bank, best first.
    pub fn nearest(&self) -> &[(usize, f64)] {
        &self.nearest
    }

    /// The newest statistics, which come every `METRICS_EVERY` cycles.
    pub fn metrics(&self) -> Option<Metrics> {
        self.ask(|brains| brains.metrics(0)).flatten()
    }

    /// Statistics of the current field.
    pub fn measure_now(&self) -> Metrics {
        self.ask(|brains| brains.measure_now(0)).unwrap_or_default()
    }

    /// Memory taken on the device at the start, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.device_bytes
    }

    /// G: below 1 the field only fades.
    pub fn gain(&self) -> f64 {
        self.plan.params.field_gain()
    }

    /// What this engine was built from.
    pub fn plan(&self) -> &FieldPlan {
        &self.plan
    }

    /// Bytes that a cycle at `rung` has to read and write if every number is touched once: as of the CPU
    /// engine, for every robot; robots share the bank.
    pub fn bytes_per_cycle(&self, rung: Rung) -> usize {
        let work = rung.work();
        let cells = self.plan.shape.cells() / if work.half_resolution { 8 } else { 1 };
        let group = |number: usize| {
            let cell = if self.plan.storage_of(number) == Storage::F16 { 2 } else { 4 };
            let held = if number < CONTENT_GROUPS { 1 } else { work.slow_every as usize };
            GROUP * cells * cell / held
        };
        let field: usize = (0..GROUPS).map(group).sum();
        let blended = work.blend_top.min(self.plan.shape.patterns) * PATTERN * cells * size_of::<i16>();
        let rows = self.experiences() / work.bank_parts as usize;
        self.robots * (2 * field + blended / work.slow_every as usize) + rows * DESCRIPTOR
    }

    /// Time of each of the `STAGES` in the last cycle, on the device's clock; all 0 unless they are watched.
    pub fn stage_times(&self) -> &StageTimes {
        &self.stages
    }

    /// Times stages from now on. They then run one after another, which takes longer than a cycle does
    /// otherwise.
    pub fn watch_stages(&mut self, on: bool) {
        self.watches_stages = on;
        self.ask(move |brains| brains.watch_stages(on));
    }

    /// Asks for the times of the stages of the last cycle.
    pub fn read_stages(&mut self) {
        if self.watches_stages {
            let times = self.ask(|brains| brains.stage_times()).flatten();
            self.stages = times.unwrap_or_default();
        }
    }

    /// Everything that robot 0 has lived through, into `live`. False: the device is lost, as the next cycle
    /// says.
    pub fn save(&self, live: &mut Live) -> bool {
        let mut mine = std::mem::take(live);
        let saved = self.ask(move |brains| brains.save(&mut mine).map(|()| mine));
        let is_saved = saved.is_some();
        *live = saved.unwrap_or_default();
        is_saved
    }

    /// Robot 0 resumes from `live`, with the read-out and the library that it has. A state that does not fit
    /// changes nothing; a device lost in between is reported by the next cycle.
    pub fn restore(&mut self, live: &Live) -> Result<(), StateError> {
        live.check(&self.plan)?;
        let theirs = live.clone();
        let answer = self.ask(move |brains| {
            brains.restore(&theirs)?;
            brains.answer(0)
        });
        self.answer = answer.unwrap_or(self.answer);
        self.show();
        Ok(())
    }

    /// Read-out and library, copied; empty where the device is lost.
    pub fn learned(&self) -> Learned {
        let mut learned = self.ask(|brains| brains.learned()).unwrap_or_default();
        for (pattern, value) in learned.patterns.iter_mut().zip(&self.values) {
            if let (Some(pattern), Some(value)) = (pattern, value) {
                pattern.value = *value;
            }
        }
        learned
    }

    /// Takes a read-out and a library in the place of its own. What does not fit changes nothing.
    pub fn load(&mut self, learned: &Learned) -> Result<(), StateError> {
        learned.check(&self.plan)?;
        let theirs = learned.clone();
        self.ask(move |brains| brains.load(&theirs));
        let values = learned.patterns.iter().map(|pattern| pattern.as_ref().map(|pattern| pattern.value));
        self.values.clear();
        self.values.extend(values);
        Ok(())
    }
}
