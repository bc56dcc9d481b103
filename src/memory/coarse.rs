//! A first pass over a store's rows in eight bits per number, with a proven bound on the error: it rules out
//! most rows without reading their f32. The result of a search is exact all the same (`docs/memory.md`,
//! "Clean-up").

/// Steps from 0 to the largest number of a row.
const ROW_STEPS: f32 = 127.0;
/// The same of a query; fewer where that many products would not fit into 31 bits.
const MOST_QUERY_STEPS: usize = i16::MAX as usize;
/// Inverse lengths from here on are not looked at coarsely: products of so short vectors are subnormal in
/// part, and their rounding is no longer relative.
const MOST_INVERSE: f32 = 1e15;
/// Unit roundoff of f32.
const U: f32 = 5.960_464_5e-8;

/// Rows in eight bits, one after the other.
#[derive(Debug)]
pub(super) struct Coarse {
    d: usize,
    codes: Vec<i8>,
    /// A step of each row, in its own lengths, and the length of what its codes leave out, likewise.
    scales: Vec<[f32; 2]>,
}

/// A query in 16 bits.
pub(super) struct CoarseQuery {
    codes: [i16; super::Dim::MOST],
    step: f32,
    blur: f32,
    rounding: f32,
}

impl Coarse {
    /// For `capacity` rows of `d` numbers, all memory taken and touched now.
    pub fn new(d: usize, capacity: usize) -> Coarse {
        let (mut codes, mut scales) = (vec![1; capacity * d], vec![[1.0; 2]; capacity]);
        codes.fill(0);
        scales.fill([0.0; 2]);
        Coarse { d, codes, scales }
    }

    /// Memory for each row, in bytes.
    pub const fn bytes_per_row(d: usize) -> usize {
        d + size_of::<[f32; 2]>()
    }

    /// Takes a row with one over its length.
    pub fn write(&mut self, row: usize, numbers: &[f32], inverse: f32) {
        let step = step_of(numbers, ROW_STEPS);
        let codes = &mut self.codes[row * self.d..][..numbers.len()];
        let mut left_out = 0.0;
        for (code, x) in codes.iter_mut().zip(numbers) {
            let steps = in_steps(*x, step);
            *code = steps as i8;
            left_out += squared(x - steps * step);
        }
        // The largest blur: any cosine is possible, the row is always compared exactly. (Infinity times 0 is
        // no number.)
        let blur = if inverse > MOST_INVERSE { f32::MAX } else { share(left_out, inverse) };
        self.scales[row] = [step * inverse, blur];
    }

    /// Moves a row to the place of another.
    pub fn move_row(&mut self, from: usize, to: usize) {
        self.codes.copy_within(from * self.d..(from + 1) * self.d, to * self.d);
        self.scales[to] = self.scales[from];
    }

    /// What the cosine of a row, as it is computed in f32, is surely not above.
    #[inline(always)]
    pub fn ceiling(&self, row: usize, query: &CoarseQuery) -> f32 {
        let [step, blur] = self.scales[row];
        let mut sum = 0_i32;
        for (r, q) in self.codes[row * self.d..][..self.d].iter().zip(&query.codes[..self.d]) {
            // It fits (see `CoarseQuery::set`); a check of that at each number would keep them out of wide
            // registers.
            sum = sum.wrapping_add(i32::from(*r).wrapping_mul(i32::from(*q)));
        }
        // |r.q - c.d| <= |r - c| |q| + |c| |q - d|, with |q| = 1 and |c| <= 1 + |r - c|.
        sum as f32 * (step * query.step) + (blur + (1.0 + blur) * query.blur + query.rounding)
    }
}

impl CoarseQuery {
    /// Nothing.
    pub const NOTHING: CoarseQuery =
        CoarseQuery { codes: [0; super::Dim::MOST], step: 0.0, blur: 0.0, rounding: 0.0 };

    /// Takes a query with one over its length; false where a coarse look cannot judge it.
    pub fn set(&mut self, query: &[f32], inverse: f32) -> bool {
        if !(inverse > 0.0 && inverse <= MOST_INVERSE) {
            return false;
        }
        let d = query.len();
        let steps = MOST_QUERY_STEPS.min(i32::MAX as usize / (ROW_STEPS as usize * d));
        let step = step_of(query, steps as f32);
        let mut left_out = 0.0;
        for (code, x) in self.codes.iter_mut().zip(query) {
            let steps = in_steps(*x, step);
            *code = steps as i16;
            left_out += squared(x - steps * step);
        }
        self.step = step * inverse;
        self.blur = share(left_out, inverse);
        // Computed cosines: d/64 + 7 roundings of a product's sum and half as many of each length, a few of
        // the quotients; twice that, which also covers the handful of roundings of the ceiling itself.
        self.rounding = 4.0 * (d as f32 / 64.0 + 12.0) * U;
        true
    }
}

/// The size of a step that takes the largest number to `steps`.
fn step_of(numbers: &[f32], steps: f32) -> f32 {
    numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs())) / steps
}

fn in_steps(x: f32, step: f32) -> f32 {
    if step > 0.0 { (x / step).round() } else { 0.0 }
}

fn squared(x: f32) -> f64 {
    f64::from(x) * f64::from(x)
}

/// A length over another, rounded up past all roundings of its own making.
fn share(square: f64, inverse: f32) -> f32 {
    ((square.sqrt() * f64::from(inverse)) * (1.0 + 1e-4)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Level;
    use crate::memory::ops::{Workspace, cosine_of};
    use crate::memory::reduce::{Dot, InverseLength};
    use crate::memory::{Dim, vector};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whatever the rows are, no computed cosine is above its ceiling.
        #[test]
        fn no_cosine_is_above_its_ceiling(seed in 0_u64..1 << 40, size in -15..15_i32, near in 0.0..1.0_f32) {
            let d = [64, 100, 512, 1000][(seed % 4) as usize];
            let dim = Dim::new(d).expect("a dimension");
            let query = vector::random(seed, 0, dim);
            let mut row = vector::random(seed, 1, dim);
            // From independent to nearly equal, of any size, with one number far above the others now and
            // then.
            row.iter_mut().zip(&query).for_each(|(r, q)| *r = (near * q + (1.0 - near) * *r) * 10_f32.powi(size));
            if seed % 3 == 0 {
                row[7] *= 100.0;
            }
            let level = Level::best();
            let (inverse, own) = (level.run(InverseLength(&row)), level.run(InverseLength(&query)));
            let mut coarse = Coarse::new(d, 1);
            coarse.write(0, &row, inverse);
            let mut coarse_query = Box::new(CoarseQuery::NOTHING);
            prop_assert!(coarse_query.set(&query, own));
            let ceiling = coarse.ceiling(0, &coarse_query);
            let cosine = cosine_of(level.run(Dot(&row, &query)), inverse, own);
            prop_assert!(cosine <= ceiling, "{cosine} {ceiling}");
            prop_assert!(ceiling - cosine < 0.5 || inverse > MOST_INVERSE, "a bound that says nothing: {ceiling} for {cosine}");
            let exact = Workspace::new(dim).cosine(&row, &query).expect("shapes");
            prop_assert_eq!(exact.to_bits(), cosine.to_bits());
        }
    }

    #[test]
    fn what_is_too_short_is_never_passed_over() {
        let row = [1e-17_f32; 64];
        let inverse = Level::best().run(InverseLength(&row));
        assert!(inverse > MOST_INVERSE);
        let mut coarse = Coarse::new(64, 1);
        coarse.write(0, &row, inverse);
        let mut query = Box::new(CoarseQuery::NOTHING);
        assert!(query.set(&[1.0; 64], 0.125) && !query.set(&row, inverse) && !query.set(&[0.0; 64], 0.0));
        assert!(coarse.ceiling(0, &query) >= f32::MAX);
    }
}
