//! The hot loop: advances one channel by one step and computes its sums in the same pass. Every cell of the
//! old field is read once and every cell of the new one written once; no intermediate result is as large as a
//! channel. The old field is not changed, so a step can be repeated. Threads and gradients are elsewhere.

mod plane;

use super::cell::Cell;
use crate::field::shape::{BLEND_TOP, BLOCK_COUNT, BLOCKS};
use crate::system::cpu::simd::{Kernel, Simd};
use plane::{Lanes, Plane, Window};

/// The drive of a channel, multiplied by 2 log2(e) compared with the field's formula, because the exponential
/// needs this scale.
#[derive(Clone, Copy)]
pub struct Drive<'a> {
    /// The part of the drive that is the same for every cell.
    pub bias: f32,
    /// Amplitude of each receptive field that reaches the channel.
    pub amplitudes: &'a [f32],
    /// Their profiles along x, y and z, one row of `N` cells each.
    pub profiles: &'a [f32],
}

/// The coefficients of a step that all cells of a channel share.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Weight of the cell itself in the argument of the exponential.
    pub centre: f32,
    /// Weight of each of its six neighbours.
    pub side: f32,
    /// Share of the old value in the new value.
    pub keep: f32,
    /// Factor of the tanh in the new value: the share of the step's own value, times the bound.
    pub reach: f32,
    /// |u| stays within this.
    pub bound: f32,
}

/// Patterns that are blended into a channel: their cells in quantisation steps, and what one step adds to a
/// cell.
pub type Blended<'a> = heapless::Vec<(&'a [i16], f32), BLEND_TOP>;

/// Inputs and outputs of one sweep over a channel.
pub struct Sweep<'a, C, const N: usize> {
    /// The old field.
    pub front: &'a [C],
    /// The new field.
    pub back: &'a mut [C],
    /// Work space of three planes, for cells that must be unpacked.
    pub planes: &'a mut [f32],
    /// Work space of one row for each receptive field.
    pub heights: &'a mut [f32],
    /// The channel's drive.
    pub drive: Drive<'a>,
    /// Coefficients.
    pub step: Step,
    /// Patterns to blend in.
    pub blended: &'a Blended<'a>,
    /// Sum of a group's channels up to this one, if the group's gradients are needed.
    pub sum: Option<&'a mut [f32]>,
    /// Work space of a plane, for channels without a sum.
    pub scratch: &'a mut [f32],
    /// Whether this channel is the first in that sum.
    pub first: bool,
}

impl<C: Cell, const N: usize> Kernel for Sweep<'_, C, N> {
    /// Sum of each block of (N/4)^3 cells of the new field, x fastest.
    type Output = [f32; BLOCK_COUNT];

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> [f32; BLOCK_COUNT] {
        // The number of patterns and the presence of a sum are const parameters, so that the inner loop has
        // no branch on them.
        match (self.blended.len(), self.sum.is_some()) {
            (0, false) => self.sweep::<S, 0, false>(simd),
            (0, true) => self.sweep::<S, 0, true>(simd),
            (1, _) => self.sweep::<S, 1, false>(simd),
            _ => self.sweep::<S, 3, false>(simd),
        }
    }
}

impl<C: Cell, const N: usize> Sweep<'_, C, N> {
    #[inline(always)]
    fn sweep<S: Simd, const PATTERNS: usize, const SUMMED: bool>(mut self, simd: S) -> [f32; BLOCK_COUNT] {
        let (mut columns, mut blocks) = ([[0.0; N]; BLOCKS], [0.0; BLOCK_COUNT]);
        let side = N / BLOCKS;
        self.unpack_first(simd);
        for z in 0..N {
            self.raise(simd, z);
            self.plane::<S, PATTERNS, SUMMED>(simd, z, &mut columns);
            if z % side == side - 1 {
                fold(&mut columns, &mut blocks, z / side);
            }
        }
        blocks
    }

    /// Unpacks plane 0 of the old field to f32; each plane then unpacks the one above it.
    #[inline(always)]
    fn unpack_first<S: Simd>(&mut self, simd: S) {
        if C::PACKED {
            let to = self.planes[..N * N].chunks_exact_mut(S::LANES);
            for (to, from) in to.zip(self.front.chunks_exact(S::LANES)) {
                simd.store(C::load(simd, from), to);
            }
        }
    }

    /// Computes the heights of the receptive fields along y in plane `z`; the receptive fields are separable.
    #[inline(always)]
    fn raise<S: Simd>(&mut self, simd: S, z: usize) {
        let profiles = self.drive.profiles.as_chunks::<N>().0.as_chunks::<3>().0;
        let heights = self.heights.as_chunks_mut::<N>().0;
        for ((amplitude, [_, py, pz]), heights) in self.drive.amplitudes.iter().zip(profiles).zip(heights) {
            let height = simd.splat(amplitude * pz[z]);
            for j in (0..N).step_by(S::LANES) {
                let v = simd.mul(height, simd.load(&py[j..j + S::LANES]));
                simd.store(v, &mut heights[j..j + S::LANES]);
            }
        }
    }

    #[inline(always)]
    fn plane<S: Simd, const PATTERNS: usize, const SUMMED: bool>(
        &mut self,
        simd: S,
        z: usize,
        columns: &mut [[f32; N]; BLOCKS],
    ) {
        let from = z * N * N;
        let last = self.blended.len().saturating_sub(1);
        let mut plane = Plane::<S, C, N, PATTERNS, SUMMED> {
            simd,
            window: Window::at(z, self.front, self.planes),
            top: z + 1 == N,
            bias: simd.splat(self.drive.bias),
            heights: &self.heights.as_chunks::<N>().0[..self.drive.amplitudes.len()],
            profiles: self.drive.profiles.as_chunks::<N>().0.as_chunks::<3>().0,
            step: Lanes::new(simd, &self.step),
            patterns: std::array::from_fn(|i| square(&self.blended[i.min(last)].0[from..])),
            shares: std::array::from_fn(|i| simd.splat(self.blended.get(i).map_or(0.0, |(_, share)| *share))),
            new: square_mut(&mut self.back[from..]),
            sum: square_mut(match &mut self.sum {
                Some(sum) if SUMMED => &mut sum[from..],
                _ => self.scratch,
            }),
            first: self.first,
        };
        for j in (0..N).step_by(S::LANES) {
            for (block, column) in columns.iter_mut().enumerate() {
                let column = &mut column[j..j + S::LANES];
                let gathered = plane.block(j, block, simd.load(column));
                simd.store(gathered, column);
            }
        }
    }
}

/// The first plane of `cells`, as rows.
#[inline(always)]
pub fn square<T, const N: usize>(cells: &[T]) -> &[[T; N]; N] {
    cells.as_chunks::<N>().0.first_chunk::<N>().expect("a plane of N rows")
}
/// The first plane of `cells`, as mutable rows.
#[inline(always)]
fn square_mut<T, const N: usize>(cells: &mut [T]) -> &mut [[T; N]; N] {
    cells.as_chunks_mut::<N>().0.first_chunk_mut::<N>().expect("a plane of N rows")
}

/// Computes the sums of a channel that is not stepped.
pub struct Gather<'a, C, const N: usize> {
    /// The field.
    pub front: &'a [C],
    /// Sum of a group's channels up to this one, if the group's gradients are needed.
    pub sum: Option<&'a mut [f32]>,
    /// Whether this channel is the first in that sum.
    pub first: bool,
}

impl<C: Cell, const N: usize> Kernel for Gather<'_, C, N> {
    /// As for a [`Sweep`].
    type Output = [f32; BLOCK_COUNT];

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) -> [f32; BLOCK_COUNT] {
        let (mut columns, mut blocks) = ([[0.0; N]; BLOCKS], [0.0; BLOCK_COUNT]);
        let side = N / BLOCKS;
        for (index, row) in self.front.as_chunks::<N>().0.iter().enumerate() {
            let (z, y) = (index / N, index % N);
            for j in (0..N).step_by(S::LANES) {
                let span = j..j + S::LANES;
                let v = C::load(simd, &row[span.clone()]);
                let column = &mut columns[y / side][span];
                simd.store(simd.add(simd.load(column), v), column);
                if let Some(sum) = &mut self.sum {
                    let to = &mut sum[index * N + j..][..S::LANES];
                    simd.store(if self.first { v } else { simd.add(simd.load(to), v) }, to);
                }
            }
            if y == N - 1 && z % side == side - 1 {
                fold(&mut columns, &mut blocks, z / side);
            }
        }
        blocks
    }
}

/// Folds four rows of column sums into the sixteen blocks at height `z`, and clears the rows.
#[inline(always)]
pub fn fold<const N: usize>(columns: &mut [[f32; N]; BLOCKS], blocks: &mut [f32; BLOCK_COUNT], z: usize) {
    for (y, column) in columns.iter_mut().enumerate() {
        for (x, part) in column.chunks_exact(N / BLOCKS).enumerate() {
            blocks[(z * BLOCKS + y) * BLOCKS + x] = part.iter().sum();
        }
        *column = [0.0; N];
    }
}

#[cfg(test)]
mod tests;
