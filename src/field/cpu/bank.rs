//! The experience bank's rows of 512 numbers, and the search for the exact five nearest to a query. Rows are
//! spread over shards (row r is in shard r mod 8), so that threads have equal work however full the bank is.
//! `bank_index` decides how valuable the rows are, and which one is replaced.
//!
//! An empty bank takes little memory: rows are in blocks, and a block is allocated when its first row is
//! stored. Each allocation makes the field's thread, which is not a real-time thread, touch 20 new pages.
//! This happens once per 32 rows of a shard, and no longer once the bank is full.

use super::cells::touched;
use super::dot::dot;
use super::nearest::Nearest;
use crate::field::shape::{BANK_BLOCK as BLOCK, BANK_TOP, DESCRIPTOR, GROUPS};
use crate::system::cpu::simd::{Kernel, Simd};
use std::ops::Range;

/// Shards of the bank: one for each part of the field.
pub const SHARDS: usize = GROUPS;

/// Quantisation steps from 0 to the largest magnitude in a coarse row.
const ROW_STEPS: f32 = 127.0;
/// The same for a coarse query. A sum of 512 products of 127 x 32767 still fits in 31 bits.
const QUERY_STEPS: f32 = 32767.0;
const _: () = assert!((DESCRIPTOR as i64) * 127 * 32767 < i32::MAX as i64);

/// Bound on the rounding error of a cosine in f32: 36 roundings by half a unit in the last place each on the
/// longest path through the sum, whose terms add up to at most 1, and the roundings of the coarse cosine.
const ROUNDING: f32 = 4e-6;

/// One shard: every eighth row of the bank, block by block.
pub struct Rows {
    number: usize,
    capacity: usize,
    /// The allocated blocks; the first one exists from the start.
    blocks: Vec<Block>,
}

/// Consecutive rows of a shard: the exact unit vectors, and coarse copies of eight bits per number.
struct Block {
    exact: Vec<f32>,
    coarse: Vec<i8>,
    /// The size of a quantisation step, for each coarse row.
    steps: Vec<f32>,
    /// The length of the difference between the exact and the coarse row, for each row.
    errors: Vec<f32>,
}

/// The vector that rows are compared with: of unit length, or shorter if it is too short to have a direction.
#[derive(Clone)]
pub struct Query {
    exact: [f32; DESCRIPTOR],
    coarse: [i16; DESCRIPTOR],
    step: f32,
    error: f32,
}

impl Query {
    /// The zero vector: every cosine with it is 0.
    pub const NOTHING: Query =
        Query { exact: [0.0; DESCRIPTOR], coarse: [0; DESCRIPTOR], step: 0.0, error: 0.0 };

    /// Sets the query to a vector of at most unit length.
    pub fn set(&mut self, vector: &[f64]) {
        self.exact.iter_mut().zip(vector).for_each(|(to, from)| *to = *from as f32);
        self.coarsen();
    }

    /// Sets the query to a stored row.
    pub fn set_row(&mut self, row: &[f32]) {
        self.exact.copy_from_slice(row);
        self.coarsen();
    }

    /// The query in full precision.
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
        self.error = length(left_out);
    }
}

/// The step size at which the largest magnitude in `vector` becomes `steps`; 0 for a zero vector.
fn step_of(vector: &[f32], steps: f32) -> f32 {
    vector.iter().fold(0.0_f32, |most, x| most.max(x.abs())) / steps
}
fn in_steps(x: f32, step: f32) -> f32 {
    if step > 0.0 { (x / step).round() } else { 0.0 }
}
fn squared(x: f32) -> f64 {
    f64::from(x) * f64::from(x)
}
/// The square root, rounded up.
fn length(square: f64) -> f32 {
    (square.sqrt() as f32).next_up()
}

impl Block {
    /// A block of `rows` rows; writes every page.
    fn new(rows: usize) -> Block {
        Block {
            exact: touched(rows * DESCRIPTOR, 0.0, 1.0),
            coarse: touched(rows * DESCRIPTOR, 0, 1),
            steps: touched(rows, 0.0, 1.0),
            errors: touched(rows, 0.0, 1.0),
        }
    }
    fn bytes(&self) -> usize {
        let exact = size_of_val(&*self.exact) + size_of_val(&*self.steps) + size_of_val(&*self.errors);
        exact + size_of_val(&*self.coarse)
    }
}

impl Rows {
    /// Shard `number` of a bank of `capacity` rows; allocates its first block.
    pub fn new(number: usize, capacity: usize) -> Rows {
        let capacity = (capacity + SHARDS - 1 - number) / SHARDS;
        let mut rows = Rows { number, capacity, blocks: Vec::with_capacity(capacity.div_ceil(BLOCK)) };
        rows.reach(0);
        rows
    }
    /// Allocates the missing blocks, up to the one that contains `place`.
    fn reach(&mut self, place: usize) {
        while self.blocks.len() * BLOCK <= place.min(self.capacity.saturating_sub(1)) && self.capacity > 0 {
            let rows = (self.capacity - self.blocks.len() * BLOCK).min(BLOCK);
            self.blocks.push(Block::new(rows));
        }
    }
    /// Stores a query in a row of the bank that is in this shard. Storing the first row of a block allocates
    /// the block.
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
        (block.steps[place], block.errors[place]) = (step, length(left_out));
    }
    /// A row of the bank that is in this shard; `None`: it is not allocated yet.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        let (block, place) = (self.blocks.get(row / SHARDS / BLOCK)?, row / SHARDS % BLOCK);
        Some(&block.exact[place * DESCRIPTOR..][..DESCRIPTOR])
    }
    /// Allocated memory of the rows, bytes.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(Block::bytes).sum()
    }
    /// The place of this shard's first row at or after bank row `row`.
    fn place(&self, row: usize) -> usize {
        (row + SHARDS - 1 - self.number) / SHARDS
    }
    /// The blocks with places in `from..to`: each with its first place and its part of the range.
    #[inline(always)]
    fn pieces(&self, from: usize, to: usize) -> impl Iterator<Item = (&Block, usize, Range<usize>)> {
        let all = self.blocks.iter().zip((0..).step_by(BLOCK));
        all.map(move |(block, first)| (block, first, from.max(first)..to.min(first + block.steps.len())))
            .filter(|(_, _, places)| !places.is_empty())
    }
}

/// Compares a query with the rows among the bank's `from..to` that are in a shard. The five nearest are
/// exact: every row is first compared in integers, with a bound on the error; a row is compared again in f32
/// unless five others are certainly nearer.
pub struct Scan<'a> {
    /// The shard.
    pub rows: &'a Rows,
    /// The query.
    pub query: &'a Query,
    /// First row of the range, as numbered in the bank.
    pub from: usize,
    /// One past the last.
    pub to: usize,
    /// Work space: an upper bound on the cosine of each row of the shard.
    pub upper_bounds: &'a mut [f32],
    /// The best rows of the sweep so far.
    pub nearest: Nearest,
}

impl Kernel for Scan<'_> {
    /// The best rows of the sweep so far, and how many rows were compared again in f32.
    type Output = (Nearest, usize);

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> (Nearest, usize) {
        let Scan { rows, query, from, to, upper_bounds, mut nearest } = self;
        let (from, to) = (rows.place(from), rows.place(to));
        let mut lower_bounds = LowerBounds::of(&nearest);
        for (block, first, places) in rows.pieces(from, to) {
            let own = places.start - first..places.end - first;
            let coarse = &block.coarse.as_chunks::<DESCRIPTOR>().0[own.clone()];
            let known = block.steps[own.clone()].iter().zip(&block.errors[own]);
            for ((row, (step, error)), upper_bound) in coarse.iter().zip(known).zip(&mut upper_bounds[places])
            {
                let mut sum = 0;
                for i in 0..DESCRIPTOR {
                    sum += i32::from(row[i]) * i32::from(query.coarse[i]);
                }
                let cosine = sum as f32 * (step * query.step);
                // Row r, query q and their coarse copies c and d:
                // |r.q - c.d| <= |r - c| |q| + |c| |q - d|, with |q| <= 1 and |c| <= 1 + |r - c|.
                let off = error + (1.0 + error) * query.error + ROUNDING;
                *upper_bound = cosine + off;
                lower_bounds.raise(cosine - off);
            }
        }
        let mut again = 0;
        for (block, first, places) in rows.pieces(from, to) {
            for (place, upper_bound) in places.clone().zip(&upper_bounds[places]) {
                if *upper_bound >= lower_bounds.fifth() {
                    let row = &block.exact[(place - first) * DESCRIPTOR..][..DESCRIPTOR];
                    nearest.offer(place * SHARDS + rows.number, dot(row, &query.exact));
                    again += 1;
                }
            }
        }
        (nearest, again)
    }
}

/// The five largest lower bounds on the cosines.
struct LowerBounds([f32; BANK_TOP]);

impl LowerBounds {
    #[inline(always)]
    fn of(nearest: &Nearest) -> LowerBounds {
        let mut lower_bounds = LowerBounds([f32::NEG_INFINITY; BANK_TOP]);
        nearest
            .list()
            .iter()
            .zip(&mut lower_bounds.0)
            .for_each(|((_, cosine), lower_bound)| *lower_bound = *cosine);
        lower_bounds
    }
    #[inline(always)]
    fn raise(&mut self, lower_bound: f32) {
        if lower_bound > self.fifth() {
            self.0[BANK_TOP - 1] = lower_bound;
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

    /// A bank of `capacity` rows in its shards; row r points along axis r.
    fn filled(capacity: usize) -> (BankIndex, Vec<Rows>) {
        let mut bank_index = BankIndex::new(capacity);
        let mut shards: Vec<Rows> = (0..SHARDS).map(|number| Rows::new(number, capacity)).collect();
        for row in 0..capacity {
            assert_eq!(bank_index.enter(0.5, 0, 0.05), Some(row));
            shards[row % SHARDS].store(row, &along(row));
        }
        (bank_index, shards)
    }

    /// Scans rows `from..to` of one shard. Returns `nearest` with the result, and how many rows were compared
    /// again.
    fn scan(
        level: Level,
        rows: &Rows,
        query: &Query,
        span: (usize, usize),
        nearest: Nearest,
    ) -> (Nearest, usize) {
        let mut upper_bounds = vec![0.0; rows.capacity];
        level.run(Scan { rows, query, from: span.0, to: span.1, upper_bounds: &mut upper_bounds, nearest })
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
                    // The others are all equally far away, so the lowest rows come next, each once.
                    let others = (0..capacity).filter(|other| *other != row).take(BANK_TOP - 1);
                    let found: Vec<usize> = bank_index.nearest()[1..].iter().map(|(row, _)| *row).collect();
                    assert_eq!(found, others.collect::<Vec<_>>());
                    assert!(bank_index.novelty().abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn second_half_without_the_first_is_not_a_sweep() {
        let (mut bank_index, shards) = filled(9);
        assert_eq!(bank_index.open(1, 2), None);
        sweep(&mut bank_index, &shards, 3, 1);
        assert_eq!(bank_index.open(1, 2), None, "after a whole sweep the next one starts at part 0");
        assert_eq!(bank_index.open(0, 2), Some((0, 4)));
        assert_eq!(bank_index.open(1, 2), Some((4, 9)));
        assert_eq!(bank_index.open(1, 2), None);
    }

    /// `capacity` rows and a query, all made by `vector`.
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

    /// The five nearest by definition, and the sixth: all rows compared in f64 and sorted.
    fn expected_nearest(shards: &[Rows], query: &Query, capacity: usize) -> Vec<(usize, f64)> {
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

    /// Rows that resemble one another like real scenes: a common part, a small random part, and one large
    /// number whose place depends on the row.
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
            let expected_nearest = expected_nearest(&shards, &query, capacity);
            let apart = |two: &[(usize, f64)]| two[0].1 - two[1].1 > 1e-6;
            assert!(expected_nearest.windows(2).all(apart), "no two are too close to distinguish");
            for level in Level::all() {
                let (mut best, mut again) = (Nearest::NONE, 0);
                for rows in &shards {
                    let (nearest, compared) = scan(level, rows, &query, (0, capacity), Nearest::NONE);
                    nearest.list().iter().for_each(|(row, cosine)| best.offer(*row, *cosine));
                    again += compared;
                }
                for ((row, cosine), (expected, exact)) in best.list().iter().zip(&expected_nearest) {
                    assert_eq!(row, expected, "{name}, {}", level.name());
                    assert!((f64::from(*cosine) - exact).abs() < 1e-6);
                }
                assert!(again >= SHARDS * BANK_TOP && again < capacity.max(200), "{name}: {again} again");
            }
        }
    }

    #[test]
    fn bank_allocates_block_by_block_as_rows_are_stored() {
        let (mut rows, row) = (Rows::new(3, 10_000), |place: usize| place * SHARDS + 3);
        let block = BLOCK * (5 * DESCRIPTOR + 8);
        assert_eq!((rows.bytes(), rows.row(row(BLOCK))), (block, None));
        rows.store(row(BLOCK - 1), &along(1));
        assert_eq!(rows.bytes(), block);
        rows.store(row(BLOCK), &along(2));
        assert_eq!(rows.bytes(), 2 * block);
        rows.store(row(1249), &along(3));
        assert_eq!(rows.bytes(), 1250 * (5 * DESCRIPTOR + 8), "the last block is only as long as needed");
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
        /// The exact cosine is always within the bounds of the coarse comparison.
        #[test]
        fn coarse_cosine_is_always_within_its_error_bound(
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
            let mut upper_bounds = [f32::NAN];
            let scan = Scan {
                rows: &shards[0],
                query: &asked,
                from: 0,
                to: 1,
                upper_bounds: &mut upper_bounds,
                nearest: Nearest::NONE,
            };
            let (nearest, _) = Level::best().run(scan);
            let (error, exact) = (shards[0].blocks[0].errors[0], nearest.list()[0].1);
            let off = error + (1.0 + error) * asked.error + ROUNDING;
            prop_assert!(exact <= upper_bounds[0] && exact >= upper_bounds[0] - 2.0 * off);
            // The largest possible error is half a step of 1/127 in each of the 512 numbers.
            prop_assert!(off < 0.1, "the bound is too loose: {off}");
        }
    }
}
