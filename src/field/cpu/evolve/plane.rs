//! One plane of a sweep: the cells' arithmetic, for a few rows at a time so that shared values stay in
//! registers.

use super::super::cell::Cell;
use super::{Step, square};
use crate::field::shape::BLOCKS;
use crate::system::cpu::simd::Simd;

/// Number of rows that are computed together, so that a receptive field's profile is loaded once for all of
/// them.
const TOGETHER: usize = 4;

/// One vector for each of these rows; vectors beyond the number of rows in use are never stored.
type Rows<S> = [<S as Simd>::V; TOGETHER];

/// One plane: what is read from the old field, and what is written to the new one.
pub struct Plane<'a, S: Simd, C, const N: usize, const PATTERNS: usize, const SUMMED: bool> {
    /// The vector instructions.
    pub simd: S,
    /// The planes of the old field around it.
    pub window: Window<'a, C, N>,
    /// Whether it is the topmost plane.
    pub top: bool,
    /// The part of the drive that is the same for every cell.
    pub bias: S::V,
    /// Height of each receptive field along y, in this plane.
    pub heights: &'a [[f32; N]],
    /// Their profiles along x, y, z.
    pub profiles: &'a [[[f32; N]; 3]],
    /// Coefficients.
    pub step: Lanes<S::V>,
    /// Blended patterns, in quantisation steps.
    pub patterns: [&'a [[i16; N]; N]; PATTERNS],
    /// What one quantisation step of each pattern adds to a cell.
    pub shares: [S::V; PATTERNS],
    /// The new plane.
    pub new: &'a mut [[C; N]; N],
    /// Sum of the group's channels so far, if `SUMMED`.
    pub sum: &'a mut [[f32; N]; N],
    /// Whether this is the first channel in that sum.
    pub first: bool,
}

impl<S: Simd, C: Cell, const N: usize, const PATTERNS: usize, const SUMMED: bool>
    Plane<'_, S, C, N, PATTERNS, SUMMED>
{
    /// Rows of a block.
    const SIDE: usize = N / BLOCKS;
    /// Number of rows that are computed together; it divides the number of rows of a block.
    const ROWS: usize = if Self::SIDE < TOGETHER { Self::SIDE } else { TOGETHER };

    /// Computes one vector of cells, from `j` on, in each row of block `block`; returns `gathered` plus the
    /// sum of these vectors.
    #[inline(always)]
    pub fn block(&mut self, j: usize, block: usize, mut gathered: S::V) -> S::V {
        for y in (block * Self::SIDE..(block + 1) * Self::SIDE).step_by(Self::ROWS) {
            let drive = self.driven(j, y);
            let (old, argument) = self.spread(j, y, drive);
            let values = swing::<S, C>(self.simd, &self.step, old, argument, Self::ROWS);
            gathered = self.keep(j, y, values, gathered);
        }
        gathered
    }

    /// The drive of one vector of cells, from `j` on, in each of the rows from `y` on.
    #[inline(always)]
    fn driven(&self, j: usize, y: usize) -> Rows<S> {
        let simd = self.simd;
        let mut drive = [self.bias; TOGETHER];
        for (height, profile) in self.heights.iter().zip(self.profiles) {
            let x = simd.load(&profile[0][j..j + S::LANES]);
            for i in 0..Self::ROWS {
                drive[i] = simd.fma(x, simd.splat(height[y + i]), drive[i]);
            }
        }
        drive
    }

    /// The old cells, and the argument of the exponential: the drive plus the contributions of the cells and
    /// their neighbours.
    #[inline(always)]
    fn spread(&mut self, j: usize, y: usize, mut argument: Rows<S>) -> (Rows<S>, Rows<S>) {
        let (simd, span) = (self.simd, j..j + S::LANES);
        let Window { below, here, above, unpacked } = &mut self.window;
        let mut old = [self.bias; TOGETHER];
        let mut south = simd.load(&here[y.saturating_sub(1)][span.clone()]);
        let mut u = simd.load(&here[y][span.clone()]);
        for i in 0..Self::ROWS {
            let y = y + i;
            let north = simd.load(&here[(y + 1).min(N - 1)][span.clone()]);
            let over = if C::PACKED && self.top { u } else { C::load(simd, &above[y][span.clone()]) };
            if C::PACKED && !self.top {
                simd.store(over, &mut unpacked[y][span.clone()]);
            }
            let column = simd.add(simd.load(&below[y][span.clone()]), over);
            let sides = simd.add(simd.add(simd.add(south, north), column), across(simd, &here[y], j, u));
            argument[i] = simd.fma(self.step.centre, u, simd.fma(self.step.side, sides, argument[i]));
            old[i] = u;
            (south, u) = (u, north);
        }
        (old, argument)
    }

    /// Blends the patterns in and stores the new cells.
    #[inline(always)]
    fn keep(&mut self, j: usize, y: usize, values: Rows<S>, mut gathered: S::V) -> S::V {
        let (simd, span) = (self.simd, j..j + S::LANES);
        for i in 0..Self::ROWS {
            let (y, mut v) = (y + i, values[i]);
            for p in 0..PATTERNS {
                v = simd.fma(self.shares[p], simd.load_i16(&self.patterns[p][y][span.clone()]), v);
            }
            if PATTERNS > 0 {
                v = simd.max(simd.min(v, self.step.bound), self.step.least);
            }
            C::store(simd, v, &mut self.new[y][span.clone()]);
            gathered = simd.add(gathered, v);
            if SUMMED {
                let to = &mut self.sum[y][span.clone()];
                let v = if self.first { v } else { simd.add(simd.load(to), v) };
                simd.store(v, to);
            }
        }
        gathered
    }
}

/// The sum of each cell's neighbours to the west and to the east, for the cells `u` from `j` on.
#[inline(always)]
fn across<S: Simd, const N: usize>(simd: S, row: &[f32; N], j: usize, u: S::V) -> S::V {
    let next = j + S::LANES;
    let before = if j > 0 { simd.load(&row[j - S::LANES..j]) } else { simd.first(u) };
    let after = if next < N { simd.load(&row[next..next + S::LANES]) } else { simd.last(u) };
    simd.add(simd.west(before, u), simd.east(u, after))
}

/// Three planes of the old field. Packed planes are unpacked once: `below` and `here` are already unpacked,
/// and `above` is unpacked during the computation.
pub struct Window<'a, C, const N: usize> {
    /// Plane z - 1, or z at the bottom.
    pub below: &'a [[f32; N]; N],
    /// Plane z.
    pub here: &'a [[f32; N]; N],
    /// Plane z + 1 as stored, or z at the top.
    pub above: &'a [[C; N]; N],
    /// Receives the plane above, unpacked.
    pub unpacked: &'a mut [[f32; N]; N],
}

impl<'a, C: Cell, const N: usize> Window<'a, C, N> {
    /// The window around plane `z`. `planes` holds three planes, each at its number modulo three.
    #[inline(always)]
    pub fn at(z: usize, front: &'a [C], planes: &'a mut [f32]) -> Window<'a, C, N> {
        let (low, high) = (z.saturating_sub(1), (z + 1).min(N - 1));
        let above = square(&front[high * N * N..]);
        let planes = planes.as_chunks_mut::<N>().0.as_chunks_mut::<N>().0;
        let [a, b, c] = planes.first_chunk_mut::<3>().expect("three planes");
        let (here, below, unpacked) = match z % 3 {
            0 => (&*a, &*c, b),
            1 => (&*b, &*a, c),
            _ => (&*c, &*b, a),
        };
        match C::plain(front) {
            Some(cells) => {
                let (below, here) = (square(&cells[low * N * N..]), square(&cells[z * N * N..]));
                Window { below, here, above, unpacked }
            }
            None => Window { below: if z == 0 { here } else { below }, here, above, unpacked },
        }
    }
}

/// [`Step`] in registers.
pub struct Lanes<V> {
    centre: V,
    side: V,
    keep: V,
    reach: V,
    twice: V,
    bound: V,
    least: V,
}

impl<V: Copy> Lanes<V> {
    /// Each coefficient in all lanes.
    #[inline(always)]
    pub fn new<S: Simd<V = V>>(simd: S, step: &Step) -> Lanes<V> {
        Lanes {
            centre: simd.splat(step.centre),
            side: simd.splat(step.side),
            keep: simd.splat(step.keep),
            reach: simd.splat(step.reach),
            twice: simd.splat(-2.0 * step.reach),
            bound: simd.splat(step.bound),
            least: simd.splat(-step.bound),
        }
    }
}

/// Coefficients for f32 cells: 2^f on -0.5..=0.5 is 1 + f (P0 + f (P1 + ...)). A minimax fit with a relative
/// error of 1.1e-7.
#[allow(clippy::approx_constant)] // fitted with the others: not ln 2
const FINE: [f32; 5] = [0.693_147, 0.240_222_42, 0.055_507_336, 0.009_671_513, 0.001_326_472_7];
/// The same for cells in half precision, with a relative error of 1.0e-4. That is less than half a rounding
/// step of such a cell, which is at least 2.4e-4 of its value.
const COARSE: [f32; 3] = [0.693_282_9, 0.242_210_95, 0.055_008_933];

#[inline(always)]
fn swing<S: Simd, C: Cell>(simd: S, step: &Lanes<S::V>, u: Rows<S>, y: Rows<S>, count: usize) -> Rows<S> {
    let one = simd.splat(1.0);
    let mut q = [one; TOGETHER];
    for i in 0..count {
        q[i] = simd.add(power::<S, C>(simd, y[i]), one);
    }
    if C::PACKED && count.is_multiple_of(2) {
        // 1/a = b / (a b): one division instead of two; the additional roundings vanish in half precision.
        for i in (0..count).step_by(2) {
            let both = simd.div(one, simd.mul(q[i], q[i + 1]));
            (q[i], q[i + 1]) = (simd.mul(both, q[i + 1]), simd.mul(both, q[i]));
        }
    } else {
        for i in 0..count {
            q[i] = simd.div(one, q[i]);
        }
    }
    std::array::from_fn(|i| simd.fma(step.twice, q[i], simd.fma(step.keep, u[i], step.reach)))
}

/// 2^y, with y clamped to +-60.
#[inline(always)]
fn power<S: Simd, C: Cell>(simd: S, y: S::V) -> S::V {
    let (f, n) = simd.split(y);
    let ff = simd.mul(f, f);
    let pair = |low: f32, high: f32| simd.fma(f, simd.splat(high), simd.splat(low));
    let power = if C::PACKED {
        simd.fma(ff, pair(COARSE[1], COARSE[2]), pair(1.0, COARSE[0]))
    } else {
        let upper = simd.fma(ff, pair(FINE[3], FINE[4]), pair(FINE[1], FINE[2]));
        simd.fma(ff, upper, pair(1.0, FINE[0]))
    };
    simd.scale(power, n)
}
