//! The index of the bank: which rows are in use, how valuable they are, the progress of the current sweep
//! and the result of the last complete one. The rows themselves are in `bank`.

use super::nearest::Nearest;
use crate::field::shape::{BANK_TOP, RECENCY_S};
use crate::field::state::{Experiences, refill_list};

#[derive(Clone, Copy)]
struct Experience {
    value: f64,
    last_use: u64,
}

/// The index.
pub struct BankIndex {
    capacity: usize,
    experiences: Vec<Experience>,
    /// The next part of the current sweep; `None`: no sweep is in progress.
    next_part: Option<u64>,
    /// The best rows of the last whole sweep, best first.
    matches: heapless::Vec<(usize, f64), BANK_TOP>,
}

impl BankIndex {
    /// An empty bank for `capacity` experiences.
    pub fn new(capacity: usize) -> BankIndex {
        let experiences = Vec::with_capacity(capacity);
        BankIndex { capacity, experiences, next_part: None, matches: heapless::Vec::new() }
    }
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.experiences.clear();
        self.next_part = None;
        self.matches.clear();
    }
    /// Rows in use.
    pub fn len(&self) -> usize {
        self.experiences.len()
    }
    /// The rows to compare in part `part` of `parts`; `None`: an earlier part is missing. The first part
    /// starts a new sweep; the caller then clears what the shards have found.
    pub fn open(&mut self, part: u64, parts: u64) -> Option<(usize, usize)> {
        if part != 0 && self.next_part != Some(part) {
            self.next_part = None;
            return None;
        }
        self.next_part = (part + 1 < parts).then_some(part + 1);
        let bound = |part: u64| self.len() * part as usize / parts as usize;
        Some((bound(part), bound(part + 1)))
    }
    /// Ends a sweep with the results of the shards.
    pub fn close<'a>(&mut self, found: impl Iterator<Item = &'a Nearest>) {
        let mut best = Nearest::NONE;
        found.flat_map(Nearest::list).for_each(|(row, cosine)| best.offer(*row, *cosine));
        self.matches.clear();
        self.matches.extend(best.list().iter().map(|(row, cosine)| (*row, f64::from(*cosine))));
    }
    /// Row and cosine of the best matches of the last whole sweep.
    pub fn nearest(&self) -> &[(usize, f64)] {
        &self.matches
    }
    /// 1 - best cosine, 0..=1; 1 while the bank is empty.
    pub fn novelty(&self) -> f64 {
        self.nearest().first().map_or(1.0, |(_, cosine)| (1.0 - cosine).clamp(0.0, 1.0))
    }
    /// Notes that a row was recognised in this cycle.
    pub fn touch(&mut self, row: usize, cycle: u64) {
        self.experiences[row].last_use = cycle;
    }
    /// Enters an experience; returns the row in which to store it: the first free one, or else the one with
    /// the lowest value x recency. `None`: the bank has no rows.
    pub fn enter(&mut self, value: f64, cycle: u64, dt: f64) -> Option<usize> {
        let entry = Experience { value, last_use: cycle };
        if self.len() < self.capacity {
            self.experiences.push(entry);
            return Some(self.len() - 1);
        }
        let row = self.least(cycle, dt)?;
        self.experiences[row] = entry;
        Some(row)
    }
    fn least(&self, cycle: u64, dt: f64) -> Option<usize> {
        let mut least: Option<(usize, f64)> = None;
        for (row, experience) in self.experiences.iter().enumerate() {
            let age = cycle.saturating_sub(experience.last_use) as f64 * dt;
            let worth = experience.value / (1.0 + age / RECENCY_S);
            if least.is_none_or(|(_, lowest)| worth < lowest) {
                least = Some((row, worth));
            }
        }
        least.map(|(row, _)| row)
    }
    /// Saves the entries, the progress of the sweep and the result of the last one.
    pub fn save(&self, bank: &mut Experiences) {
        bank.value.clear();
        bank.value.extend(self.experiences.iter().map(|entry| entry.value));
        bank.last_use.clear();
        bank.last_use.extend(self.experiences.iter().map(|entry| entry.last_use));
        bank.next_part = self.next_part;
        refill_list(&mut bank.nearest, self.matches.iter().copied());
    }
    /// Restores what [`BankIndex::save`] has saved; the caller has checked the state.
    pub fn restore(&mut self, bank: &Experiences) {
        self.experiences.clear();
        let entries = bank.value.iter().zip(&bank.last_use);
        self.experiences
            .extend(entries.map(|(value, last_use)| Experience { value: *value, last_use: *last_use }));
        self.next_part = bank.next_part;
        self.matches.clear();
        self.matches.extend(bank.nearest.iter().map(|(row, cosine)| (*row as usize, *cosine)));
    }
    /// Memory of the entries, bytes.
    pub fn bytes(&self) -> usize {
        self.experiences.capacity() * size_of::<Experience>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_bank_replaces_the_least_valuable_stale_row() {
        let mut bank_index = BankIndex::new(3);
        assert_eq!(bank_index.enter(0.9, 0, 0.05), Some(0)); // valuable, stale
        assert_eq!(bank_index.enter(0.3, 0, 0.05), Some(1)); // less valuable, stale
        assert_eq!(bank_index.enter(0.3, 0, 0.05), Some(2)); // less valuable, used again below
        bank_index.touch(2, 2400); // 2400 cycles = 120 s: the other two count a third of their value
        assert_eq!(bank_index.enter(0.5, 2400, 0.05), Some(1));
        assert_eq!(bank_index.len(), 3);
        assert_eq!(BankIndex::new(0).enter(0.5, 0, 0.05), None);
    }
}
