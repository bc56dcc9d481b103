//! The experience bank: unit rows of 512 numbers, the exact five nearest, insertion over the row
//! worth least. Rows lie in shards (row r in shard r mod 8), so that threads have equal work
//! however full the bank is; a shard knows rows only, the ledger knows what they are worth.

use super::dot::dot;
use crate::field::shape::{BANK_TOP, DESCRIPTOR, GROUPS, RECENCY_S};

/// Shards of the bank: one for each part of the field.
pub const SHARDS: usize = GROUPS;

/// A row and its cosine.
type Match = (usize, f32);

/// The best few of what was offered, best first, equal ones by lower row, in whatever order they came.
#[derive(Clone, Copy, Debug)]
pub struct Nearest {
    kept: [Match; BANK_TOP],
    len: usize,
}

impl Nearest {
    /// Nothing offered yet.
    pub const NONE: Nearest = Nearest { kept: [(0, 0.0); BANK_TOP], len: 0 };

    /// One more candidate.
    #[inline]
    pub fn offer(&mut self, row: usize, cosine: f32) {
        let behind = |kept: Match| kept.1 < cosine || (kept.1 <= cosine && kept.0 > row);
        let mut place = self.len;
        while place > 0 && behind(self.kept[place - 1]) {
            place -= 1;
        }
        if place < BANK_TOP {
            self.len = (self.len + 1).min(BANK_TOP);
            self.kept[place..self.len].rotate_right(1);
            self.kept[place] = (row, cosine);
        }
    }
    /// Best first.
    pub fn list(&self) -> &[Match] {
        &self.kept[..self.len]
    }
}

/// Every eighth row of the bank.
pub struct Shard {
    number: usize,
    rows: Vec<f32>,
    /// What is compared: unit length, or shorter where it has no direction.
    pub query: [f32; DESCRIPTOR],
    /// The best rows of the sweep under way.
    pub nearest: Nearest,
}

impl Shard {
    /// Shard `number` of a bank of `capacity` rows, all memory taken now.
    pub fn new(number: usize, capacity: usize) -> Shard {
        let rows = (capacity + SHARDS - 1 - number) / SHARDS;
        Shard { number, rows: vec![0.0; rows * DESCRIPTOR], query: [0.0; DESCRIPTOR], nearest: Nearest::NONE }
    }
    /// Compares the query with those of the bank's rows `from..to` that lie here.
    pub fn scan(&mut self, from: usize, to: usize) {
        let local = |row: usize| (row + SHARDS - 1 - self.number) / SHARDS;
        let (from, to) = (local(from), local(to));
        let rows = self.rows[from * DESCRIPTOR..to * DESCRIPTOR].chunks_exact(DESCRIPTOR);
        for (index, row) in (from..).zip(rows) {
            self.nearest.offer(index * SHARDS + self.number, dot(row, &self.query));
        }
    }
    /// Puts the query into a row of the bank that lies here.
    pub fn store(&mut self, row: usize) {
        self.rows[row / SHARDS * DESCRIPTOR..][..DESCRIPTOR].copy_from_slice(&self.query);
    }
    /// Memory of the rows.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.rows)
    }
}

#[derive(Clone, Copy)]
struct Experience {
    value: f64,
    last_use: u64,
}

/// Which rows are in use, what they are worth, and where the sweep stands.
pub struct Ledger {
    capacity: usize,
    experiences: Vec<Experience>,
    /// Part that the sweep under way needs next; `None` while there is none.
    next_part: Option<u64>,
    /// Of the last whole sweep, best first.
    matches: heapless::Vec<(usize, f64), BANK_TOP>,
}

impl Ledger {
    /// An empty bank for `capacity` experiences.
    pub fn new(capacity: usize) -> Ledger {
        let experiences = Vec::with_capacity(capacity);
        Ledger { capacity, experiences, next_part: None, matches: heapless::Vec::new() }
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
    /// Rows to be compared in part `part` of `parts`; `None` where an earlier part is missing. The
    /// first part opens a sweep: shards are to forget what they found.
    pub fn open(&mut self, part: u64, parts: u64) -> Option<(usize, usize)> {
        if part != 0 && self.next_part != Some(part) {
            self.next_part = None;
            return None;
        }
        self.next_part = (part + 1 < parts).then_some(part + 1);
        let bound = |part: u64| self.len() * part as usize / parts as usize;
        Some((bound(part), bound(part + 1)))
    }
    /// Closes a sweep with what the shards have found.
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
    /// 1 - best cosine, 0..=1; 1 while there is nothing to compare with.
    pub fn novelty(&self) -> f64 {
        self.nearest().first().map_or(1.0, |(_, cosine)| (1.0 - cosine).clamp(0.0, 1.0))
    }
    /// A row was recognised in this cycle.
    pub fn touch(&mut self, row: usize, cycle: u64) {
        self.experiences[row].last_use = cycle;
    }
    /// Enters an experience; answers the row to store it in: the first free one, else the one of
    /// lowest value x recency. `None`: a bank without rows.
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
    /// Memory of the entries.
    pub fn bytes(&self) -> usize {
        self.experiences.capacity() * size_of::<Experience>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Stream, bits};

    #[test]
    fn best_is_what_sorting_would_give_in_any_order_of_offers() {
        // 40 different cosines among 500 rows: many ties, which the lower row wins.
        let cosine = |row: usize| (bits(1, Stream::Patterns, row as u64) % 40) as f32 / 40.0;
        let mut sorted: Vec<usize> = (0..500).collect();
        sorted.sort_by(|a, b| cosine(*b).total_cmp(&cosine(*a)).then(a.cmp(b)));
        let orders: [Vec<usize>; 2] = [(0..500).collect(), (0..500).rev().collect()];
        for order in orders {
            let mut best = Nearest::NONE;
            order.into_iter().for_each(|row| best.offer(row, cosine(row)));
            assert_eq!(best.list().iter().map(|(row, _)| *row).collect::<Vec<_>>(), sorted[..BANK_TOP]);
        }
    }

    /// A bank of `capacity` rows in its shards, row r pointing along axis r.
    fn filled(capacity: usize) -> (Ledger, Vec<Shard>) {
        let mut ledger = Ledger::new(capacity);
        let mut shards: Vec<Shard> = (0..SHARDS).map(|number| Shard::new(number, capacity)).collect();
        for row in 0..capacity {
            assert_eq!(ledger.enter(0.5, 0, 0.05), Some(row));
            let shard = &mut shards[row % SHARDS];
            shard.query = [0.0; DESCRIPTOR];
            shard.query[row] = 1.0;
            shard.store(row);
        }
        (ledger, shards)
    }

    fn sweep(ledger: &mut Ledger, shards: &mut [Shard], axis: usize, parts: u64) {
        for part in 0..parts {
            let (from, to) = ledger.open(part, parts).expect("parts come in order");
            for shard in &mut *shards {
                shard.query = [0.0; DESCRIPTOR];
                shard.query[axis] = 1.0;
                if part == 0 {
                    shard.nearest = Nearest::NONE;
                }
                shard.scan(from, to);
            }
        }
        ledger.close(shards.iter().map(|shard| &shard.nearest));
    }

    #[test]
    fn every_row_is_found_in_whichever_shard_and_half_it_lies() {
        for capacity in [1, 7, 8, 9, 21] {
            let (mut ledger, mut shards) = filled(capacity);
            for parts in [1, 2] {
                for row in 0..capacity {
                    sweep(&mut ledger, &mut shards, row, parts);
                    assert_eq!(ledger.nearest()[0], (row, 1.0));
                    // The others are all equally far: the lowest rows come next, each once.
                    let others = (0..capacity).filter(|other| *other != row).take(BANK_TOP - 1);
                    let found: Vec<usize> = ledger.nearest()[1..].iter().map(|(row, _)| *row).collect();
                    assert_eq!(found, others.collect::<Vec<_>>());
                    assert!(ledger.novelty().abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn a_second_half_without_the_first_is_no_sweep() {
        let (mut ledger, mut shards) = filled(9);
        assert_eq!(ledger.open(1, 2), None);
        sweep(&mut ledger, &mut shards, 3, 1);
        assert_eq!(ledger.open(1, 2), None, "a whole sweep leaves nothing to go on with");
        assert_eq!(ledger.open(0, 2), Some((0, 4)));
        assert_eq!(ledger.open(1, 2), Some((4, 9)));
        assert_eq!(ledger.open(1, 2), None);
    }

    #[test]
    fn a_full_bank_loses_the_least_valuable_of_the_stale() {
        let mut ledger = Ledger::new(3);
        assert_eq!(ledger.enter(0.9, 0, 0.05), Some(0)); // valuable, stale
        assert_eq!(ledger.enter(0.3, 0, 0.05), Some(1)); // cheap, stale
        assert_eq!(ledger.enter(0.3, 0, 0.05), Some(2)); // cheap, used just now
        ledger.touch(2, 2400); // 2400 cycles = 120 s: the others count a third
        assert_eq!(ledger.enter(0.5, 2400, 0.05), Some(1));
        assert_eq!(ledger.len(), 3);
        assert_eq!(Ledger::new(0).enter(0.5, 0, 0.05), None);
    }

    #[test]
    fn a_full_bank_of_ten_thousand_rows_gives_the_exact_five() {
        let capacity = 10_000;
        let draw = |index: usize| bits(2, Stream::Patterns, index as u64) as i16;
        let row = |row: usize| -> [f32; DESCRIPTOR] {
            let raw: [f64; DESCRIPTOR] = std::array::from_fn(|i| f64::from(draw(row * DESCRIPTOR + i)));
            let length = raw.iter().map(|x| x * x).sum::<f64>().sqrt();
            raw.map(|x| (x / length) as f32)
        };
        let query = row(capacity);
        let mut shards: Vec<Shard> = (0..SHARDS).map(|number| Shard::new(number, capacity)).collect();
        let mut cosines = Vec::new();
        for index in 0..capacity {
            let shard = &mut shards[index % SHARDS];
            shard.query = row(index);
            shard.store(index);
            let products = shard.query.iter().zip(&query).map(|(a, b)| f64::from(*a) * f64::from(*b));
            cosines.push((products.sum::<f64>(), index));
        }
        cosines.sort_by(|a, b| b.0.total_cmp(&a.0));
        assert!(cosines[..6].windows(2).all(|two| two[0].0 - two[1].0 > 1e-6), "no two too near to tell");
        let mut best = Nearest::NONE;
        for shard in &mut shards {
            shard.query = query;
            shard.scan(0, capacity);
            shard.nearest.list().iter().for_each(|(row, cosine)| best.offer(*row, *cosine));
        }
        for ((row, cosine), (exact, index)) in best.list().iter().zip(&cosines) {
            assert_eq!(row, index);
            assert!((f64::from(*cosine) - exact).abs() < 1e-6);
        }
    }
}
