//! Converts between the full grid and the half grid. Conversion to the half grid takes means of 2x2x2 cells.
//! Conversion back shifts every cell by as much as the mean of its 2x2x2 cells has changed, so that the means
//! are right and the detail is kept.

use super::cell::Cell;
use crate::system::cpu::simd::{Kernel, Simd};

/// Maximum number of cells along an axis.
const MOST: usize = 64;

/// Makes each cell of `half` the mean of the 2x2x2 cells of `whole` that it represents.
pub struct Halve<'a, C> {
    /// Channels of n^3 cells.
    pub whole: &'a [C],
    /// n: 8, 16, 32 or 64.
    pub n: usize,
    /// The same number of channels of (n/2)^3 cells.
    pub half: &'a mut [C],
}

/// Writes the cells of `whole` to `moved`, shifted so that their means become `half`, and clamped to
/// +-`bound`.
pub struct Unhalve<'a, C> {
    /// Channels of (n/2)^3 cells.
    pub half: &'a [C],
    /// The same number of channels of n^3 cells.
    pub whole: &'a [C],
    /// n: 8, 16, 32 or 64.
    pub n: usize,
    /// The result; as many cells as `whole`.
    pub moved: &'a mut [C],
    /// Largest |cell|.
    pub bound: f32,
}

impl<C: Cell> Kernel for Halve<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (n, mut rows) = (self.n, [[0.0; MOST]; 4]);
        for (index, half) in self.half.chunks_exact_mut(n / 2).enumerate() {
            four_rows(index, n).into_iter().zip(&mut rows).for_each(|(at, row)| {
                unpack(simd, &self.whole[at..at + n], &mut row[..n]);
            });
            for (x, mean) in half.iter_mut().enumerate() {
                *mean = C::of(mean_of_eight(rows.each_ref().map(|row| [row[2 * x], row[2 * x + 1]])));
            }
        }
    }
}

impl<C: Cell> Kernel for Unhalve<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (n, mut rows) = (self.n, [[0.0; MOST]; 4]);
        for (index, half) in self.half.chunks_exact(n / 2).enumerate() {
            let starts = four_rows(index, n);
            starts.into_iter().zip(&mut rows).for_each(|(at, row)| {
                unpack(simd, &self.whole[at..at + n], &mut row[..n]);
            });
            for (x, wanted) in half.iter().enumerate() {
                let mean = mean_of_eight(rows.each_ref().map(|row| [row[2 * x], row[2 * x + 1]]));
                let shift = wanted.get() - mean;
                for row in &mut rows {
                    for cell in &mut row[2 * x..2 * x + 2] {
                        *cell = (*cell + shift).clamp(-self.bound, self.bound);
                    }
                }
            }
            starts.into_iter().zip(&rows).for_each(|(at, row)| {
                pack(simd, &row[..n], &mut self.moved[at..at + n]);
            });
        }
    }
}

#[inline(always)]
fn unpack<S: Simd, C: Cell>(simd: S, from: &[C], to: &mut [f32]) {
    for (to, from) in to.chunks_exact_mut(S::LANES).zip(from.chunks_exact(S::LANES)) {
        simd.store(C::load(simd, from), to);
    }
}

#[inline(always)]
fn pack<S: Simd, C: Cell>(simd: S, from: &[f32], to: &mut [C]) {
    for (to, from) in to.chunks_exact_mut(S::LANES).zip(from.chunks_exact(S::LANES)) {
        C::store(simd, simd.load(from), to);
    }
}

/// Starts of the four rows of `n` cells that row `index` of the half grid represents.
#[inline(always)]
fn four_rows(index: usize, n: usize) -> [usize; 4] {
    let (z, y) = (index / (n / 2) * 2, index % (n / 2) * 2);
    [(z, y), (z, y + 1), (z + 1, y), (z + 1, y + 1)].map(|(z, y)| (z * n + y) * n)
}

#[inline(always)]
fn mean_of_eight(pairs: [[f32; 2]; 4]) -> f32 {
    let [a, b, c, d] = pairs.map(|pair| pair[0] + pair[1]);
    0.125 * ((a + b) + (c + d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::cpu::simd::{Half, Level};

    /// A bound that both storage formats represent exactly.
    const BOUND: f32 = 1945.0 / 2048.0;

    fn means_are_those_of_the_cells_and_detail_survives<C: Cell>(level: Level, error: f32) {
        let n = 8;
        let start: Vec<C> = (0..n * n * n).map(|i| C::of(((i * 7919) % 1000) as f32 / 2000.0)).collect();
        let (mut moved, mut half) = (start.clone(), vec![C::default(); 64]);
        level.run(Halve { whole: &start, n, half: &mut half });
        let cells = [0, 1, n, n + 1, n * n, n * n + 1, n * n + n, n * n + n + 1];
        let first: f32 = cells.iter().map(|cell| start[*cell].get()).sum();
        assert!((half[0].get() - first / 8.0).abs() <= error);
        half.iter_mut().for_each(|mean| *mean = C::of(mean.get() + 0.1));
        level.run(Unhalve { half: &half, whole: &start, n, moved: &mut moved, bound: BOUND });
        assert!(moved.iter().zip(&start).all(|(a, b)| (a.get() - b.get() - 0.1).abs() <= 2.0 * error));
        half.fill(C::of(1.0));
        level.run(Unhalve { half: &half, whole: &start, n, moved: &mut moved, bound: BOUND });
        assert!(moved.iter().all(|u| u.get() <= BOUND), "the bound takes precedence over the mean");
    }

    #[test]
    fn means_and_detail_are_kept_in_both_storages() {
        for level in Level::all() {
            let level = level.within(8);
            means_are_those_of_the_cells_and_detail_survives::<f32>(level, 1e-6);
            means_are_those_of_the_cells_and_detail_survives::<Half>(level, 2.5e-4);
        }
    }
}
