//! The experience bank's rows: 512 numbers each, and the exact five nearest to a query. Rows lie in
//! shards (row r in shard r mod 8), so that threads have equal work however full the bank is. The `ledger`
//! decides what rows are worth, and which is replaced.
//!
//! An empty bank takes little: rows come in blocks, and a block takes its memory when its first row is
//! stored. The field's thread, which is not a real-time thread, then meets 20 new pages, once in 32 rows of a
//! shard, and never again once the bank is full.

use super::cells::touched;
use super::dot::dot;
use super::nearest::Nearest;
use crate::field::shape::{BANK_BLOCK as BLOCK, BANK_TOP, DESCRIPTOR, GROUPS};
use crate::system::cpu::simd::{Kernel, Simd};
use std::ops::Range;

/// Shards of the bank: one for each part of the field.
pub const SHARDS: usize = GROUPS;

/// Steps from 0 to the largest number of a coarse row, and of a coarse query: 512 products of both,
/// 127 x 32767 each, still fit in 31 bits.
const ROW_STEPS: f32 = 127.0;
const QUERY_STEPS: f32 = 32767.0;
const _: () = assert!((DESCRIPTOR as i64) * 127 * 32767 < i32::MAX as i64);

/// More than the rounding of a cosine in f32 can come to: 36 roundings of half a unit each on the
/// longest way through the sum, of terms that add up to 1 at most, and those of the coarse one.
const ROUNDING: f32 = 4e-6;

/// Every eighth row of the bank, block by block.
pub struct Rows {
    number: usize,
    capacity: usize,
    /// As far as rows have come; the first one is there from the beginning.
    blocks: Vec<Block>,
}

/// Consecutive rows of a shard: unit vectors as they are, and in eight bits a number beside them.
struct Block {
    exact: Vec<f32>,
    coarse: Vec<i8>,
    /// What a step of a coarse row is worth.
    steps: Vec<f32>,
    /// Length of what a coarse row leaves out.
    blurs: Vec<f32>,
}

/// What rows are compared with: unit length, or shorter where it has no direction.
#[derive(Clone)]
pub struct Query {
    exact: [f32; DESCRIPTOR],
    coarse: [i16; DESCRIPTOR],
    step: f32,
    blur: f32,
}

impl Query {
    /// Nothing: every cosine with it is 0.
    pub const NOTHING: Query =
        Query { exact: [0.0; DESCRIPTOR], coarse: [0; DESCRIPTOR], step: 0.0, blur: 0.0 };

    /// Takes a vector of at most unit length.
    pub fn set(&mut self, vector: &[f64]) {
        self.exact.iter_mut().zip(vector).for_each(|(to, from)| *to = *from as f32);
        self.coarsen();
    }

    /// Takes a row as it was stored.
    pub fn set_row(&mut self, row: &[f32]) {
        self.exact.copy_from_slice(row);
        self.coarsen();
    }

    /// The query as it was set, in full precision.
    pub fn exact(&self) -> &[f32] {
        &self.exact
    }

    fn coarsen(&mut self) {
        self.step = step_of(&self.exact, QUERY_STEPS);
        let mut left_out = 0.0;
        for (to, x) in self.coarse.iter_mut().zip(&self.exact) {
            let steps = in_steps(*x, self.step);
            *to = steps as i16;
            left_out += squared(x - steps * self.step);
        }
        self.blur = length(left_out);
    }
}

/// The size of a step that takes the largest number of `vector` to `steps`; 0 for nothing.
fn step_of(vector: &[f32], steps: f32) -> f32 {
    vector.iter().fold(0.0_f32, |most, x| most.max(x.abs())) / steps
}
fn in_steps(x: f32, step: f32) -> f32 {
    if step > 0.0 { (x / step).round() } else { 0.0 }
}
fn squared(x: f32) -> f64 {
    f64::from(x) * f64::from(x)
}
/// Rounded up.
fn length(square: f64) -> f32 {
    (square.sqrt() as f32).next_up()
}

impl Block {
    /// Of `rows` rows, every page written.
    fn new(rows: usize) -> Block {
        Block {
            exact: touched(rows * DESCRIPTOR, 0.0, 1.0),
            coarse: touched(rows * DESCRIPTOR, 0, 1),
            steps: touched(rows, 0.0, 1.0),
            blurs: touched(rows, 0.0, 1.0),
        }
    }
    fn bytes(&self) -> usize {
        let exact = size_of_val(&*self.exact) + size_of_val(&*self.steps) + size_of_val(&*self.blurs);
        exact + size_of_val(&*self.coarse)
    }
}

impl Rows {
    /// Shard `number` of a bank of `capacity` rows; takes the memory of its first rows.
    pub fn new(number: usize, capacity: usize) -> Rows {
        let capacity = (capacity + SHARDS - 1 - number) / SHARDS;
        let mut rows = Rows { number, capacity, blocks: Vec::with_capacity(capacity.div_ceil(BLOCK)) };
        rows.reach(0);
        rows
    }
    /// Takes the memory of all rows up to one, as far as it is not taken yet.
    fn reach(&mut self, place: usize) {
        while self.blocks.len() * BLOCK <= place.min(self.capacity.saturating_sub(1)) && self.capacity > 0 {
            let rows = (self.capacity - self.blocks.len() * BLOCK).min(BLOCK);
            self.blocks.push(Block::new(rows));
        }
    }
    /// Puts a query into a row of the bank that lies here. The first row of a block takes its memory.
    pub fn store(&mut self, row: usize, query: &Query) {
        self.reach(row / SHARDS);
        let (block, place) = (&mut self.blocks[row / SHARDS / BLOCK], row / SHARDS % BLOCK);
        block.exact[place * DESCRIPTOR..][..DESCRIPTOR].copy_from_slice(&query.exact);
        let step = step_of(&query.exact, ROW_STEPS);
        let mut left_out = 0.0;
        for (to, x) in block.coarse[place * DESCRIPTOR..].iter_mut().zip(&query.exact) {
            let steps = in_steps(*x, step);
            *to = steps as i8;
            left_out += squared(x - steps * step);
        }
        (block.steps[place], block.blurs[place]) = (step, length(left_out));
    }
    /// A row of the bank that lies here; `None`: its memory is not taken yet.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        let (block, place) = (self.blocks.get(row / SHARDS / BLOCK)?, row / SHARDS % BLOCK);
        Some(&block.exact[place * DESCRIPTOR..][..DESCRIPTOR])
    }
    /// Memory of the rows that is taken.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(Block::bytes).sum()
    }
    /// Where the first row of the bank from `row` on lies here.
    fn place(&self, row: usize) -> usize {
        (row + SHARDS - 1 - self.number) / SHARDS
    }
    /// The blocks that have places `from..to`: each with its first place and its own of those.
    #[inline(always)]
    fn pieces(&self, from: usize, to: usize) -> impl Iterator<Item = (&Block, usize, Range<usize>)> {
        let all = self.blocks.iter().zip((0..).step_by(BLOCK));
        all.map(move |(block, first)| (block, first, from.max(first)..to.min(first + block.steps.len())))
            .filter(|(_, _, places)| !places.is_empty())
    }
}

/// Compares a query with those of the bank's rows `from..to` that lie in a shard. The five nearest are
/// exact: every row is first compared in whole numbers, with a bound on what that leaves out; a row is
/// compared again in f32 unless five others are surely nearer.
pub struct Scan<'a> {
    /// The shard.
    pub rows: &'a Rows,
    /// What it is compared with.
    pub query: &'a Query,
    /// First row of the bank.
    pub from: usize,
    /// One past the last.
    pub to: usize,
    /// Room for a number for each row of the shard.
    pub ceilings: &'a mut [f32],
    /// The best of the sweep so far.
    pub nearest: Nearest,
}

impl Kernel for Scan<'_> {
    /// The best of the sweep, and how many rows were compared again.
    type Output = (Nearest, usize);

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> (Nearest, usize) {
        let Scan { rows, query, from, to, ceilings, mut nearest } = self;
        let (from, to) = (rows.place(from), rows.place(to));
        let mut floors = Floors::of(&nearest);
        for (block, first, places) in rows.pieces(from, to) {
            let own = places.start - first..places.end - first;
            let coarse = &block.coarse.as_chunks::<DESCRIPTOR>().0[own.clone()];
            let known = block.steps[own.clone()].iter().zip(&block.blurs[own]);
            for ((row, (step, blur)), ceiling) in coarse.iter().zip(known).zip(&mut ceilings[places]) {
                let mut sum = 0;
                for i in 0..DESCRIPTOR {
                    sum += i32::from(row[i]) * i32::from(query.coarse[i]);
                }
                let cosine = sum as f32 * (step * query.step);
                // |r.q - c.d| <= |r - c| |q| + |c| |q - d|, with |q| <= 1 and |c| <= 1 + |r - c|.
                let off = blur + (1.0 + blur) * query.blur + ROUNDING;
                *ceiling = cosine + off;
                floors.raise(cosine - off);
            }
        }
        let mut again = 0;
        for (block, first, places) in rows.pieces(from, to) {
            for (place, ceiling) in places.clone().zip(&ceilings[places]) {
                if *ceiling >= floors.fifth() {
                    let row = &block.exact[(place - first) * DESCRIPTOR..][..DESCRIPTOR];
                    nearest.offer(place * SHARDS + rows.number, dot(row, &query.exact));
                    again += 1;
                }
            }
        }
        (nearest, again)
    }
}

/// The largest five of the numbers that cosines are surely not below.
struct Floors([f32; BANK_TOP]);

impl Floors {
    #[inline(always)]
    fn of(nearest: &Nearest) -> Floors {
        let mut floors = Floors([f32::NEG_INFINITY; BANK_TOP]);
        nearest.list().iter().zip(&mut floors.0).for_each(|((_, cosine), floor)| *floor = *cosine);
        floors
    }
    #[inline(always)]
    fn raise(&mut self, floor: f32) {
        if floor > self.fifth() {
            self.0[BANK_TOP - 1] = floor;
            for place in (1..BANK_TOP).rev() {
                if self.0[place] > self.0[place - 1] {
                    self.0.swap(place, place - 1);
                }
            }
        }
    }
    #[inline(always)]
    fn fifth(&self) -> f32 {
        self.0[BANK_TOP - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::super::bank_index::BankIndex;
    use super::super::library::unit;
    use super::*;
    use crate::base::seed::{Stream, normal};
    use crate::system::cpu::simd::Level;
    use proptest::prelude::*;

    fn along(axis: usize) -> Query {
        let mut vector = [0.0; DESCRIPTOR];
        vector[axis] = 1.0;
        let mut query = Query::NOTHING;
        query.set(&vector);
        query
    }

    /// A bank of `capacity` rows in its shards, row r pointing along axis r.
    fn filled(capacity: usize) -> (BankIndex, Vec<Rows>) {
        let mut bank_index = BankIndex::new(capacity);
        let mut shards: Vec<Rows> = (0..SHARDS).map(|number| Rows::new(number, capacity)).collect();
        for row in 0..capacity {
            assert_eq!(bank_index.enter(0.5, 0, 0.05), Some(row));
            shards[row % SHARDS].store(row, &along(row));
        }
        (bank_index, shards)
    }

    /// What a scan of rows `from..to` of one shard adds to `nearest`, and how many were compared again.
    fn scan(
        level: Level,
        rows: &Rows,
        query: &Query,
        span: (usize, usize),
        nearest: Nearest,
    ) -> (Nearest, usize) {
        let mut ceilings = vec![0.0; rows.capacity];
        level.run(Scan { rows, query, from: span.0, to: span.1, ceilings: &mut ceilings, nearest })
    }

    fn sweep(bank_index: &mut BankIndex, shards: &[Rows], axis: usize, parts: u64) {
        let mut found = [Nearest::NONE; SHARDS];
        for part in 0..parts {
            let span = bank_index.open(part, parts).expect("parts come in order");
            for (rows, nearest) in shards.iter().zip(&mut found) {
                *nearest = scan(Level::best(), rows, &along(axis), span, *nearest).0;
            }
        }
        bank_index.close(found.iter());
    }

    #[test]
    fn every_row_is_found_in_any_shard_and_half() {
        for capacity in [1, 7, 8, 9, 21] {
            let (mut bank_index, shards) = filled(capacity);
            for parts in [1, 2] {
                for row in 0..capacity {
                    sweep(&mut bank_index, &shards, row, parts);
                    assert_eq!(bank_index.nearest()[0], (row, 1.0));
                    // The others are all equally far: the lowest rows come next, each once.
                    let others = (0..capacity).filter(|other| *other != row).take(BANK_TOP - 1);
                    let found: Vec<usize> = bank_index.nearest()[1..].iter().map(|(row, _)| *row).collect();
                    assert_eq!(found, others.collect::<Vec<_>>());
                    assert!(bank_index.novelty().abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn a_second_half_without_the_first_is_not_a_sweep() {
        let (mut bank_index, shards) = filled(9);
        assert_eq!(bank_index.open(1, 2), None);
        sweep(&mut bank_index, &shards, 3, 1);
        assert_eq!(bank_index.open(1, 2), None, "a whole sweep leaves nothing to go on with");
        assert_eq!(bank_index.open(0, 2), Some((0, 4)));
        assert_eq!(bank_index.open(1, 2), Some((4, 9)));
        assert_eq!(bank_index.open(1, 2), None);
    }

    /// `capacity` rows of one kind, and a query of the same.
    fn bank_of(capacity: usize, vector: impl Fn(usize) -> Vec<f64>) -> (Vec<Rows>, Query) {
        let mut shards: Vec<Rows> = (0..SHARDS).map(|number| Rows::new(number, capacity)).collect();
        let mut query = Query::NOTHING;
        for row in 0..=capacity {
            let mut vector = vector(row);
            unit(&mut vector);
            query.set(&vector);
            if row < capacity {
                shards[row % SHARDS].store(row, &query);
            }
        }
        (shards, query)
    }

    /// The five nearest by the definition: every row in f64, sorted.
    fn judged(shards: &[Rows], query: &Query, capacity: usize) -> Vec<(usize, f64)> {
        let cosine = |row: usize| {
            let exact = shards[row % SHARDS].row(row).expect("it was stored");
            exact.iter().zip(&query.exact).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
        };
        let mut all: Vec<_> = (0..capacity).map(|row| (row, cosine(row))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.truncate(BANK_TOP + 1);
        all
    }

    fn normal_row(row: usize) -> Vec<f64> {
        (0..DESCRIPTOR).map(|i| normal(2, Stream::Patterns, (row * DESCRIPTOR + i) as u64)).collect()
    }

    /// Rows that resemble one another as scenes do: a common part, and one number that sticks out.
    fn scene(row: usize) -> Vec<f64> {
        let mut vector: Vec<f64> = (0..DESCRIPTOR).map(|i| normal(3, Stream::Patterns, i as u64)).collect();
        vector.iter_mut().zip(normal_row(row)).for_each(|(v, own)| *v += 0.2 * own);
        vector[row % DESCRIPTOR] += 12.0;
        vector
    }

    #[test]
    fn best_five_are_exact_at_every_level_of_coarse_rows() {
        let capacity = if cfg!(miri) { 40 } else { 10_000 };
        for (name, kind) in [("normal", normal_row as fn(usize) -> Vec<f64>), ("scenes", scene)] {
            let (shards, query) = bank_of(capacity, kind);
            let judged = judged(&shards, &query, capacity);
            let apart = |two: &[(usize, f64)]| two[0].1 - two[1].1 > 1e-6;
            assert!(judged.windows(2).all(apart), "no two too near to tell apart");
            for level in Level::all() {
                let (mut best, mut again) = (Nearest::NONE, 0);
                for rows in &shards {
                    let (nearest, compared) = scan(level, rows, &query, (0, capacity), Nearest::NONE);
                    nearest.list().iter().for_each(|(row, cosine)| best.offer(*row, *cosine));
                    again += compared;
                }
                for ((row, cosine), (expected, exact)) in best.list().iter().zip(&judged) {
                    assert_eq!(row, expected, "{name}, {}", level.name());
                    assert!((f64::from(*cosine) - exact).abs() < 1e-6);
                }
                assert!(again >= SHARDS * BANK_TOP && again < capacity.max(200), "{name}: {again} again");
            }
        }
    }

    #[test]
    fn a_bank_grows_block_by_block() {
        let (mut rows, row) = (Rows::new(3, 10_000), |place: usize| place * SHARDS + 3);
        let block = BLOCK * (5 * DESCRIPTOR + 8);
        assert_eq!((rows.bytes(), rows.row(row(BLOCK))), (block, None));
        rows.store(row(BLOCK - 1), &along(1));
        assert_eq!(rows.bytes(), block);
        rows.store(row(BLOCK), &along(2));
        assert_eq!(rows.bytes(), 2 * block);
        rows.store(row(1249), &along(3));
        assert_eq!(rows.bytes(), 1250 * (5 * DESCRIPTOR + 8), "the last block is as long as it has to be");
        assert_eq!(rows.row(row(BLOCK)).map(|row| row[2].to_bits()), Some(1.0_f32.to_bits()));
        assert_eq!(Rows::new(0, 0).bytes(), 0);
    }

    #[test]
    fn equal_rows_are_ordered_by_number_in_any_part() {
        let capacity = 64;
        let (shards, query) = bank_of(capacity, |_| normal_row(0));
        let mut best = Nearest::NONE;
        for rows in &shards {
            let half = scan(Level::best(), rows, &query, (0, 32), Nearest::NONE).0;
            let whole = scan(Level::best(), rows, &query, (32, capacity), half).0;
            whole.list().iter().for_each(|(row, cosine)| best.offer(*row, *cosine));
        }
        assert_eq!(best.list().iter().map(|(row, _)| *row).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    proptest! {
        /// No cosine is outside what the coarse comparison promises.
        #[test]
        fn a_coarse_cosine_keeps_its_error_bound(
            row in prop::collection::vec(-1.0..1.0_f64, DESCRIPTOR),
            query in prop::collection::vec(-1.0..1.0_f64, DESCRIPTOR),
            spike in 0.0..100.0_f64,
        ) {
            let mut row = row;
            row[17] += spike;
            let (shards, mut asked) = bank_of(1, |_| row.clone());
            let mut vector = query;
            unit(&mut vector);
            asked.set(&vector);
            let mut ceilings = [f32::NAN];
            let scan = Scan {
                rows: &shards[0], query: &asked, from: 0, to: 1, ceilings: &mut ceilings, nearest: Nearest::NONE,
            };
            let (nearest, _) = Level::best().run(scan);
            let (blur, exact) = (shards[0].blocks[0].blurs[0], nearest.list()[0].1);
            let off = blur + (1.0 + blur) * asked.blur + ROUNDING;
            prop_assert!(exact <= ceilings[0] && exact >= ceilings[0] - 2.0 * off);
            // Half a step of 1/127 in each of 512 numbers is the most that can be left out.
            prop_assert!(off < 0.1, "and that is not much: {off}");
        }
    }
}
