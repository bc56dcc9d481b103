//! What a robot needs from the engine: to run a cycle, and to save and restore the whole state.

use super::CpuEngine;
use super::library::Blend;
use super::nearest::Nearest;
use crate::base::plan::EngineKind;
use crate::field::device;
use crate::field::engine::{FieldEngine, Inspect, finite};
use crate::field::shape::{CHANNELS, GROUP, GROUPS, PATTERN, PATTERN_FIRST};
use crate::field::slices::FieldSlices;
use crate::field::state::{Learned, Live, Pattern, StateError, refill, refill_list};
use crate::field::{Failure, FieldInput, FieldOutput};

impl FieldEngine for CpuEngine {
    fn name(&self) -> String {
        let why = match self.plan.engine {
            EngineKind::Auto => format!("chosen: {}", device::why_none()),
            EngineKind::Cuda => "in place of a GPU".to_string(),
            EngineKind::Remote => "in place of a brain over the tether".to_string(),
            EngineKind::Cpu | EngineKind::Reference => "as the board asks".to_string(),
        };
        let threads = match self.threads() {
            1 => "one thread".to_string(),
            threads => format!("{threads} threads"),
        };
        format!("cpu ({}, {} cells, {threads}), {why}", self.simd(), self.storage())
    }

    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, Failure> {
        finite(self.compute(input)?, self.predictor.prediction())
    }

    fn slices(&self) -> Option<FieldSlices> {
        let grid = self.plan.shape.grid / if self.on_half { 2 } else { 1 };
        let parts = self.parallel.parts();
        Some(FieldSlices::of(grid, self.cycle, |channel, first, step, to| {
            parts[channel / GROUP].cells(self.on_half).read_every(channel % GROUP, first, step, to);
        }))
    }

    fn save(&mut self, live: &mut Live) -> bool {
        live.clear_extras();
        live.reserve(&self.plan, false);
        (live.cycle, live.on_half) = (self.cycle, self.on_half);
        self.save_cells(false, &mut live.whole);
        if self.on_half {
            self.save_cells(true, &mut live.half);
        }
        if self.parallel.parts().iter().all(|part| part.fresh) {
            self.features.save(&mut live.reduced);
        }
        (live.since_step, live.since_blend) = (self.since_step, self.since_blend);
        self.predictor.save(live);
        let blend = self.blend.slots().iter().copied().zip(self.blend.weights().iter().copied());
        refill_list(&mut live.blend, blend);
        self.bank_index.save(&mut live.bank);
        live.bank.rows.clear();
        let rows = (0..self.bank_index.len()).filter_map(|row| self.parallel.row(row));
        rows.for_each(|row| live.bank.rows.extend_from_slice(row));
        let mut running = Nearest::NONE;
        if live.bank.next_part.is_some() {
            // Of each shard's five best rows, only those among the five best overall can still matter.
            let found = self.parallel.nearest().iter().flat_map(Nearest::list);
            found.for_each(|(row, cosine)| running.offer(*row, *cosine));
        }
        refill_list(&mut live.bank.running, running.list().iter().map(|(row, c)| (*row, f64::from(*c))));
        (live.scores, live.bridge, live.metrics) = (self.scores, self.bridge, self.metrics);
        true
    }

    fn restore(&mut self, live: &Live) -> Result<(), StateError> {
        live.check(&self.plan)?;
        (self.cycle, self.on_half) = (live.cycle, live.on_half);
        self.restore_cells(false, &live.whole);
        if live.on_half {
            self.restore_cells(true, &live.half);
        }
        self.features.all.fill(0.0);
        if !live.reduced.context.is_empty() {
            self.features.restore(&live.reduced);
            self.parallel.parts_mut().iter_mut().for_each(|part| part.fresh = true);
        }
        (self.since_step, self.since_blend) = (live.since_step, live.since_blend);
        self.predictor.restore(live);
        self.blend = Blend::of(&live.blend);
        self.bank_index.restore(&live.bank);
        self.parallel.set_rows(&live.bank.rows);
        self.parallel.resume(&live.bank.running);
        (self.scores, self.bridge, self.metrics) = (live.scores, live.bridge, live.metrics);
        Ok(())
    }

    fn load(&mut self, learned: &Learned) -> Result<(), StateError> {
        learned.check(&self.plan)?;
        refill(&mut self.readout, &learned.readout);
        let first = PATTERN_FIRST / GROUP;
        let parts = &mut self.parallel.parts_mut()[first..first + PATTERN / GROUP];
        for (slot, pattern) in learned.patterns.iter().enumerate() {
            let Some(pattern) = pattern else {
                self.index.clear(slot);
                continue;
            };
            self.index.enter_unit(slot, &pattern.context, pattern.value);
            let eights = pattern.volume.chunks_exact(pattern.volume.len() * GROUP / PATTERN);
            parts.iter_mut().zip(eights).for_each(|(part, eight)| part.store_steps(slot, eight));
        }
        Ok(())
    }

    fn reset(&mut self) {
        self.parallel.parts_mut().iter_mut().for_each(|part| part.reset());
        self.on_half = false;
        self.features.all.fill(0.0);
        self.predictor.forget_all();
        self.blend = Blend::NONE;
        self.bank_index.clear();
        self.bridge.fill(0.0);
        self.scores.fill(0.0);
        (self.since_step, self.since_blend) = ([0; GROUPS], 0);
        self.metrics = None;
    }

    fn rebuild(&mut self, learned: &Learned) {
        *self = CpuEngine::at_level(&self.plan, self.level);
        let loaded = self.load(learned);
        debug_assert!(loaded.is_ok(), "`learned` came from an engine of this plan");
    }
}

impl CpuEngine {
    fn save_cells(&self, half: bool, to: &mut Vec<f32>) {
        to.clear();
        for part in self.parallel.parts() {
            part.cells(half).each_run(self.level, |run| to.extend_from_slice(run));
        }
    }

    pub(super) fn pattern(&self, slot: usize) -> Option<Pattern> {
        let (context, value) = self.index.entry(slot)?;
        let mut volume = Vec::with_capacity(PATTERN * self.plan.shape.cells());
        self.parallel.parts().iter().for_each(|part| volume.extend_from_slice(part.steps(slot)));
        Some(Pattern { volume, context: context.to_vec(), value, fine: None })
    }

    fn restore_cells(&mut self, half: bool, from: &[f32]) {
        let parts = self.parallel.parts_mut().iter_mut();
        parts.zip(from.chunks_exact(from.len() / CHANNELS * GROUP)).for_each(|(part, eight)| {
            part.write_all(half, eight);
        });
    }
}
