//! Saves the library and the bank to a state, and restores them from a checked one.

use super::{Bank, Best, Experience, Library};
use crate::field::shape::{BANK_TOP, DESCRIPTOR, NORM_FLOOR, PATTERN};
use crate::field::state::{Experiences, FinePattern, Live, Pattern, refill_list};

impl Library {
    /// The pattern in a slot, both in steps of `step` and in its original precision.
    pub fn pattern(&self, slot: usize, step: f32) -> Option<Pattern> {
        let value = self.value(slot)?;
        let len = PATTERN * self.cells;
        let (volume, context) = (&self.volumes[slot * len..][..len], &self.contexts[slot]);
        let length = context.iter().map(|c| c * c).sum::<f64>().sqrt().max(NORM_FLOOR);
        Some(Pattern {
            volume: volume.iter().map(|v| (v / step).round() as i16).collect(),
            context: context.iter().map(|c| c / length).collect(),
            value,
            fine: Some(FinePattern { volume: volume.to_vec(), context: context.to_vec() }),
        })
    }

    /// Restores a pattern. If the state lacks the originals, the values are computed from the steps and
    /// clamped to `bound`.
    pub fn put(&mut self, slot: usize, pattern: &Pattern, step: f32, bound: f32) {
        let len = PATTERN * self.cells;
        let (volume, context) = (&mut self.volumes[slot * len..][..len], &mut self.contexts[slot]);
        if let Some(fine) = &pattern.fine {
            volume.copy_from_slice(&fine.volume);
            context.copy_from_slice(&fine.context);
        } else {
            let cells = volume.iter_mut().zip(&pattern.volume);
            cells.for_each(|(cell, steps)| *cell = (f32::from(*steps) * step).clamp(-bound, bound));
            context.copy_from_slice(&pattern.context);
            no_longer_than_the_floor(context);
        }
        self.values[slot] = Some(pattern.value);
    }

    /// Saves the blend.
    pub fn save(&self, live: &mut Live) {
        let (slots, weights) = self.blend();
        refill_list(&mut live.blend, slots.iter().copied().zip(weights.iter().copied()));
    }

    /// Restores the blend.
    pub fn restore(&mut self, live: &Live) {
        self.matched = live.blend.len();
        for (i, (slot, weight)) in live.blend.iter().enumerate() {
            (self.indices[i], self.weights[i]) = (*slot as usize, *weight);
        }
    }
}

/// To compare a vector, this engine divides it by its length or by `NORM_FLOOR`, whichever is larger; the
/// vectors in a saved state have already been divided. Scaled by `NORM_FLOOR`, a restored vector is at most
/// as long as the floor, so the comparison divides it by exactly the floor, which gives the saved vector.
fn no_longer_than_the_floor(vector: &mut [f64]) {
    vector.iter_mut().for_each(|x| *x *= NORM_FLOOR);
}

impl Bank {
    /// Saves the rows both in single precision with unit length and in their original form.
    pub fn save(&self, bank: &mut Experiences, fine: &mut Vec<f64>) {
        bank.rows.clear();
        fine.clear();
        for row in self.rows.chunks_exact(DESCRIPTOR).take(self.len()) {
            let length = row.iter().map(|x| x * x).sum::<f64>().sqrt().max(NORM_FLOOR);
            bank.rows.extend(row.iter().map(|x| (x / length) as f32));
            fine.extend_from_slice(row);
        }
        bank.value.clear();
        bank.value.extend(self.experiences.iter().map(|experience| experience.value));
        bank.last_use.clear();
        bank.last_use.extend(self.experiences.iter().map(|experience| experience.last_use));
        bank.next_part = self.next_part;
        let running = self.next_part.map_or(&[][..], |_| self.running.list());
        refill_list(&mut bank.running, running.iter().copied());
        refill_list(&mut bank.nearest, self.matches.list().iter().copied());
    }

    /// Restores the rows, from the originals if the state has them.
    pub fn restore(&mut self, bank: &Experiences, fine: &[f64]) {
        let held = &mut self.rows[..bank.rows.len()];
        if fine.is_empty() {
            held.iter_mut().zip(&bank.rows).for_each(|(to, from)| *to = f64::from(*from));
            no_longer_than_the_floor(held);
        } else {
            held.copy_from_slice(fine);
        }
        self.experiences.clear();
        let entries = bank.value.iter().zip(&bank.last_use);
        self.experiences
            .extend(entries.map(|(value, last_use)| Experience { value: *value, last_use: *last_use }));
        self.next_part = bank.next_part;
        self.running = best(&bank.running);
        self.matches = best(&bank.nearest);
    }
}

/// Makes a [`Best`] from a list that is already sorted.
fn best(list: &[(u32, f64)]) -> Best {
    let mut best = Best { len: list.len(), ..Best::of(BANK_TOP) };
    for (to, (row, cosine)) in best.kept.iter_mut().zip(list) {
        *to = (*row as usize, *cosine);
    }
    best
}
