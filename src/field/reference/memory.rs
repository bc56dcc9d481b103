//! Pattern library and experience bank: cosines of vectors relative to rest, exact best matches, insertion
//! and eviction. Step 5 of `docs/field.md`.

mod state;

use crate::field::predict::dot;
use crate::field::shape::{BANK_TOP, BLEND_TOP, CONTEXT, DESCRIPTOR, NORM_FLOOR, PATTERN, RECENCY_S};

/// The best few candidates, best first; of equal scores, the one that was offered first comes first.
#[derive(Clone, Copy, Debug)]
pub struct Best {
    kept: [(usize, f64); BANK_TOP],
    len: usize,
    most: usize,
}

impl Best {
    /// No candidates yet; keeps at most `most`.
    pub fn of(most: usize) -> Best {
        Best { kept: [(0, 0.0); BANK_TOP], len: 0, most: most.min(BANK_TOP) }
    }

    /// Offers a candidate.
    pub fn offer(&mut self, index: usize, score: f64) {
        let mut place = self.len;
        while place > 0 && self.kept[place - 1].1 < score {
            place -= 1;
        }
        if place < self.most {
            self.len = (self.len + 1).min(self.most);
            self.kept[place..self.len].rotate_right(1);
            self.kept[place] = (index, score);
        }
    }

    /// Index and score, best first.
    pub fn list(&self) -> &[(usize, f64)] {
        &self.kept[..self.len]
    }
}

/// Cosine of two vectors relative to rest. A vector shorter than `NORM_FLOOR` has no reliable direction: it
/// is divided by the floor instead of its length.
fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let length = |v: &[f64]| dot(v, v).sqrt().max(NORM_FLOOR);
    dot(a, b) / (length(a) * length(b))
}

/// Volumes to be recalled by context.
pub struct Library {
    cells: usize,
    volumes: Vec<f32>,
    contexts: Vec<[f64; CONTEXT]>,
    values: Vec<Option<f32>>,
    indices: [usize; BLEND_TOP],
    weights: [f64; BLEND_TOP],
    matched: usize,
}

impl Library {
    /// An empty library with `slots` slots for volumes of 16 x `cells` numbers.
    pub fn new(slots: usize, cells: usize) -> Library {
        Library {
            cells,
            volumes: vec![0.0; slots * PATTERN * cells],
            contexts: vec![[0.0; CONTEXT]; slots],
            values: vec![None; slots],
            indices: [0; BLEND_TOP],
            weights: [0.0; BLEND_TOP],
            matched: 0,
        }
    }

    /// Stores a volume in a slot, replacing its content. Returns false and stores nothing if the slot does
    /// not exist, the volume has the wrong size or a cell beyond `bound`, or a number is not finite.
    pub fn store(
        &mut self,
        slot: usize,
        volume: &[f32],
        context: [f64; CONTEXT],
        value: f32,
        bound: f64,
    ) -> bool {
        let len = PATTERN * self.cells;
        let fits = slot < self.values.len()
            && volume.len() == len
            && volume.iter().all(|v| f64::from(*v).abs() <= bound)
            && context.iter().all(|c| c.is_finite())
            && value.is_finite();
        if fits {
            self.volumes[slot * len..][..len].copy_from_slice(volume);
            self.contexts[slot] = context;
            self.values[slot] = Some(value);
        }
        fits
    }

    /// Empties a slot.
    pub fn clear(&mut self, slot: usize) {
        if let Some(value) = self.values.get_mut(slot) {
            *value = None;
        }
    }

    /// Forgets the last match, but not the stored patterns.
    pub fn unmatch(&mut self) {
        self.matched = 0;
    }

    /// The value stored with the pattern in a slot; `None` if the slot is empty.
    pub fn value(&self, slot: usize) -> Option<f32> {
        self.values.get(slot).copied().flatten()
    }

    /// Memory of volumes, contexts and values, bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.volumes) + size_of_val(&*self.contexts) + size_of_val(&*self.values)
    }

    /// Slots and weights of the last match, best first; the weights sum to 1.
    pub fn blend(&self) -> (&[usize], &[f64]) {
        (&self.indices[..self.matched], &self.weights[..self.matched])
    }

    /// Finds the `top` slots whose contexts are most similar to `context` (both relative to rest); their
    /// weights are a softmax of the cosines.
    pub fn recall(&mut self, context: &[f64], top: usize, temperature: f64) {
        let mut best = Best::of(top.min(BLEND_TOP));
        for (slot, stored) in self.contexts.iter().enumerate() {
            if self.values[slot].is_some() {
                best.offer(slot, cosine(context, stored));
            }
        }
        let list = best.list();
        self.matched = list.len();
        let Some(&(_, first)) = list.first() else { return };
        let raw = list.iter().map(|(_, c)| libm::exp((c - first) / temperature));
        let sum: f64 = raw.clone().sum();
        for (i, (weight, (slot, _))) in raw.zip(list).enumerate() {
            (self.indices[i], self.weights[i]) = (*slot, weight / sum);
        }
    }

    /// Q: the weighted sum of the matched volumes, 0 if nothing matched.
    pub fn fill_blend(&self, blend: &mut [f64]) {
        blend.fill(0.0);
        let (indices, weights) = self.blend();
        for (slot, weight) in indices.iter().zip(weights) {
            let volume = &self.volumes[slot * blend.len()..][..blend.len()];
            blend.iter_mut().zip(volume).for_each(|(q, v)| *q += weight * f64::from(*v));
        }
    }
}

/// A remembered experience.
struct Experience {
    value: f64,
    last_use: u64,
}

/// Descriptors of experiences.
pub struct Bank {
    capacity: usize,
    rows: Vec<f64>,
    experiences: Vec<Experience>,
    /// The best matches of the current sweep so far, and its next part (`None`: a new sweep begins).
    running: Best,
    next_part: Option<u64>,
    /// The best matches of the last complete sweep.
    matches: Best,
}

impl Bank {
    /// An empty bank for `capacity` experiences; allocates all its memory now.
    pub fn new(capacity: usize) -> Bank {
        Bank {
            capacity,
            rows: vec![0.0; capacity * DESCRIPTOR],
            experiences: Vec::with_capacity(capacity),
            running: Best::of(BANK_TOP),
            next_part: None,
            matches: Best::of(BANK_TOP),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.experiences.clear();
        self.next_part = None;
        self.matches = Best::of(BANK_TOP);
    }

    /// Memory of the rows and their values, bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.rows) + self.experiences.capacity() * size_of::<Experience>()
    }

    /// Rows in use.
    pub fn len(&self) -> usize {
        self.experiences.len()
    }

    /// Rows and cosines of the best matches of the last complete sweep, best first.
    pub fn nearest(&self) -> &[(usize, f64)] {
        self.matches.list()
    }

    /// 1 - best cosine, 0..=1; 1 as long as there is no match.
    pub fn novelty(&self) -> f64 {
        self.nearest().first().map_or(1.0, |(_, cosine)| (1.0 - cosine).clamp(0.0, 1.0))
    }

    /// Compares `descriptor` with part `part` of the rows, which are divided into `parts`; true if that
    /// completed a sweep.
    pub fn sweep(&mut self, descriptor: &[f64], part: u64, parts: u64) -> bool {
        if part == 0 {
            self.running = Best::of(BANK_TOP);
            self.next_part = Some(0);
        }
        if self.next_part != Some(part) {
            return false; // an earlier part is missing: wait for the next sweep
        }
        let bound = |part: u64| self.len() * part as usize / parts as usize;
        for row in bound(part)..bound(part + 1) {
            self.running.offer(row, cosine(descriptor, &self.rows[row * DESCRIPTOR..][..DESCRIPTOR]));
        }
        let whole = part + 1 == parts;
        // After a complete sweep a new one must start at part 0, even if the next cycle's part is the second
        // half.
        self.next_part = (!whole).then_some(part + 1);
        if whole {
            self.matches = self.running;
        }
        whole
    }

    /// Records that a row was recognised in this cycle.
    pub fn touch(&mut self, row: usize, cycle: u64) {
        self.experiences[row].last_use = cycle;
    }

    /// Stores an experience in the first free row, or replaces the least valuable one.
    pub fn insert(&mut self, descriptor: &[f64], value: f64, cycle: u64, dt: f64) {
        let experience = Experience { value, last_use: cycle };
        let row = if self.len() < self.capacity {
            self.experiences.push(experience);
            self.len() - 1
        } else {
            let Some(row) = self.least(cycle, dt) else { return };
            self.experiences[row] = experience;
            row
        };
        self.rows[row * DESCRIPTOR..][..DESCRIPTOR].copy_from_slice(descriptor);
    }

    /// The row with the lowest value x recency, the first on ties.
    fn least(&self, cycle: u64, dt: f64) -> Option<usize> {
        let mut worst = Best::of(1);
        for (row, experience) in self.experiences.iter().enumerate() {
            let age = cycle.saturating_sub(experience.last_use) as f64 * dt;
            worst.offer(row, -experience.value / (1.0 + age / RECENCY_S));
        }
        worst.list().first().map(|(row, _)| *row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_index_comes_first_on_ties() {
        let mut best = Best::of(3);
        for (index, score) in [(0, 0.1), (1, 0.5), (2, 0.5), (3, 0.9), (4, 0.5), (5, 0.9)] {
            best.offer(index, score);
        }
        assert_eq!(best.list(), [(3, 0.9), (5, 0.9), (1, 0.5)]);
    }

    #[test]
    fn the_best_are_those_of_a_full_sort() {
        let score = |i: usize| ((i * 7919) % 211) as f64;
        let mut best = Best::of(5);
        (0..1000).for_each(|i| best.offer(i, score(i)));
        let mut all: Vec<usize> = (0..1000).collect();
        all.sort_by(|a, b| score(*b).total_cmp(&score(*a)).then(a.cmp(b)));
        assert_eq!(best.list().iter().map(|(i, _)| *i).collect::<Vec<_>>(), all[..5]);
    }

    fn unit(direction: usize) -> Vec<f64> {
        let mut v = vec![0.0; DESCRIPTOR];
        v[direction] = 1.0;
        v
    }

    #[test]
    fn full_bank_replaces_the_least_valuable_stale_row() {
        let mut bank = Bank::new(3);
        bank.insert(&unit(0), 0.9, 0, 0.05); // valuable, stale
        bank.insert(&unit(1), 0.3, 0, 0.05); // cheap, stale
        bank.insert(&unit(2), 0.3, 0, 0.05); // cheap, used just now
        bank.touch(2, 2400); // 2400 cycles = 120 s: rows 0 and 1 now count a third
        bank.insert(&unit(3), 0.5, 2400, 0.05);
        assert!(bank.sweep(&unit(3), 0, 1));
        assert_eq!(bank.nearest()[0], (1, 1.0), "0.3 / 3 was the lowest");
        bank.insert(&unit(4), 0.5, 2400, 0.05);
        bank.sweep(&unit(4), 0, 1);
        // 0.9 / 3 and 0.3 are equal, or differ only by rounding: the first row is replaced.
        assert_eq!(bank.nearest()[0].0, 0);
        assert_eq!(bank.len(), 3);
    }

    #[test]
    fn both_halves_are_needed_for_a_sweep() {
        let mut bank = Bank::new(8);
        (0..8).for_each(|i| bank.insert(&unit(i), 0.5, 0, 0.05));
        assert!(!bank.sweep(&unit(6), 1, 2), "the first half is missing");
        assert!(!bank.sweep(&unit(6), 0, 2));
        assert!(bank.nearest().is_empty(), "half a sweep gives no result");
        assert!(bank.sweep(&unit(6), 1, 2));
        assert_eq!(bank.nearest()[0], (6, 1.0));
        assert_eq!(bank.nearest().len(), BANK_TOP);
        assert!(bank.novelty().abs() < 1e-12);
        // A switch from whole to half sweeps at an odd cycle: the second half alone is not a sweep.
        assert!(bank.sweep(&unit(5), 0, 1));
        assert!(!bank.sweep(&unit(6), 1, 2));
        assert_eq!(bank.nearest()[0], (5, 1.0));
    }

    #[test]
    fn library_refuses_values_beyond_the_bound() {
        let mut library = Library::new(2, 1);
        let context = [0.1; CONTEXT];
        assert!(!library.store(0, &[0.96; 16], context, 0.0, 0.95));
        assert!(!library.store(0, &[f32::NAN; 16], context, 0.0, 0.95));
        assert!(!library.store(2, &[0.5; 16], context, 0.0, 0.95));
        assert!(!library.store(0, &[0.5; 15], context, 0.0, 0.95));
        library.recall(&context, 3, 0.1);
        assert!(library.blend().0.is_empty());
        assert!(library.store(1, &[0.5; 16], context, 0.0, 0.95));
        library.recall(&context, 3, 0.1);
        let mut q = [0.0; 16];
        library.fill_blend(&mut q);
        assert_eq!(library.blend().0, [1]);
        assert!(q.iter().all(|q| (q - 0.5).abs() < 1e-12));
    }
}
