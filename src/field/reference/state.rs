//! What a robot needs from the engine: its cycle, and its whole state.

use super::{ErrorRing, GROUPS, ReferenceEngine};
use crate::field::engine::{FieldEngine, finite};
use crate::field::slices::{FieldSlices, copy_every};
use crate::field::state::{Learned, Live, StateError, refill, volume_step};
use crate::field::{Failure, FieldInput, FieldOutput};

impl FieldEngine for ReferenceEngine {
    fn name(&self) -> String {
        "reference (f64, one thread), as the board asks".to_string()
    }

    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, Failure> {
        finite(self.compute(input)?, &self.prediction)
    }

    fn slices(&self) -> Option<FieldSlices> {
        let grid = self.plan.shape.grid / if self.on_half { 2 } else { 1 };
        Some(FieldSlices::of(grid, self.cycle, |channel, first, step, to| {
            copy_every(self.channel(channel), first, step, to, |cell| *cell as f32);
        }))
    }

    fn save(&mut self, live: &mut Live) -> bool {
        live.clear_extras();
        live.reserve(&self.plan, true);
        (live.cycle, live.age, live.on_half) = (self.cycle, self.age, self.on_half);
        save_cells(&self.whole.u, &mut live.whole, &mut live.fine.whole);
        if self.on_half {
            save_cells(&self.half.u, &mut live.half, &mut live.fine.half);
        }
        (live.since_step, live.since_blend) = (self.since_slow, self.since_blend);
        live.since_learn = self.since_learn;
        let senses = &mut live.senses;
        refill(&mut senses.sensors, &self.sensors);
        refill(&mut senses.change, &self.change);
        refill(&mut senses.prediction, &self.prediction);
        refill(&mut senses.learned, &self.learned);
        refill(&mut senses.regressors, &self.regressors);
        self.ring.save(senses);
        self.skill.save(senses);
        self.trust.save(senses);
        self.learner.save(senses);
        self.library.save(live);
        self.bank.save(&mut live.bank, &mut live.fine.rows);
        (live.scores, live.bridge, live.metrics) = (self.scores, self.bridge, self.metrics);
        true
    }

    fn restore(&mut self, live: &Live) -> Result<(), StateError> {
        live.check(&self.plan)?;
        (self.cycle, self.age, self.on_half) = (live.cycle, live.age, live.on_half);
        restore_cells(&live.whole, &live.fine.whole, &mut self.whole.u);
        restore_cells(&live.half, &live.fine.half, &mut self.half.u);
        (self.since_slow, self.since_blend) = (live.since_step, live.since_blend);
        self.since_learn = live.since_learn;
        let senses = &live.senses;
        self.sensors.copy_from_slice(&senses.sensors);
        self.change.copy_from_slice(&senses.change);
        self.prediction.copy_from_slice(&senses.prediction);
        self.learned.copy_from_slice(&senses.learned);
        self.regressors.copy_from_slice(&senses.regressors);
        self.ring.restore(senses);
        self.skill.restore(senses);
        self.trust.restore(senses);
        self.learner.restore(senses);
        self.library.restore(live);
        self.bank.restore(&live.bank, &live.fine.rows);
        (self.scores, self.bridge, self.metrics) = (live.scores, live.bridge, live.metrics);
        self.features.fill(0.0);
        self.recompute_blend();
        Ok(())
    }

    fn load(&mut self, learned: &Learned) -> Result<(), StateError> {
        learned.check(&self.plan)?;
        self.readout.copy_from_slice(&learned.readout);
        let bound = 1.0 - self.plan.params.beta;
        for (slot, pattern) in learned.patterns.iter().enumerate() {
            match pattern {
                Some(pattern) => {
                    self.library.put(slot, pattern, volume_step(self.plan.params.beta), bound as f32);
                }
                None => self.library.clear(slot),
            }
        }
        self.recompute_blend();
        Ok(())
    }

    fn reset(&mut self) {
        self.whole.reset();
        self.on_half = false;
        self.features.fill(0.0);
        self.sensors.fill(0.0);
        self.prediction.fill(0.0);
        self.ring = ErrorRing::EMPTY;
        self.skill.clear();
        self.learner.forget_all();
        self.trust.clear();
        self.library.unmatch();
        self.bank.clear();
        self.bridge.fill(0.0);
        self.scores.fill(0.0);
        (self.age, self.since_slow, self.since_blend, self.since_learn) = (0, [0; GROUPS], 0, 0);
        self.metrics = None;
    }

    fn rebuild(&mut self, learned: &Learned) {
        *self = ReferenceEngine::new(&self.plan);
        let loaded = self.load(learned);
        debug_assert!(loaded.is_ok(), "`learned` came from an engine of this plan");
    }
}

impl ReferenceEngine {
    /// Q is the blend of the stored patterns, so it is computed again.
    fn recompute_blend(&mut self) {
        self.library.fill_blend(&mut self.whole.blend);
        self.fill_half_blend();
    }
}

fn save_cells(cells: &[f64], coarse: &mut Vec<f32>, fine: &mut Vec<f64>) {
    coarse.clear();
    coarse.extend(cells.iter().map(|cell| *cell as f32));
    refill(fine, cells);
}

fn restore_cells(coarse: &[f32], fine: &[f64], cells: &mut [f64]) {
    if fine.is_empty() {
        cells.iter_mut().zip(coarse).for_each(|(to, from)| *to = f64::from(*from));
    } else {
        cells.iter_mut().zip(fine).for_each(|(to, from)| *to = *from);
    }
}
