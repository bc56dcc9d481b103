//! 3D Sobel gradients of a group's mean, reduced to blocks as they are computed, without a gradient volume.
//! The operator is separable and is applied one plane at a time, along z, then x, then y.

use super::evolve::{fold, square};
use crate::field::shape::{BLOCK_COUNT, BLOCKS};
use crate::system::cpu::simd::{Kernel, Simd};

/// Signed mean and mean magnitude of each block, by axis x, y, z.
pub type Gradient = [[[f32; BLOCK_COUNT]; 2]; 3];

/// The gradients of `volume` (`N` planes of `N` rows), multiplied by `scale` and reduced into `out`. The
/// edge value is repeated beyond the edge, as in the evolution.
pub struct Slopes<'a, const N: usize> {
    /// N^3 cells.
    pub volume: &'a [f32],
    /// Factor by which every derivative is multiplied; without it, the derivatives would be 32 times as large
    /// as the gradient.
    pub scale: f32,
    /// The result for each block.
    pub out: &'a mut Gradient,
}

impl<const N: usize> Kernel for Slopes<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let side = N / BLOCKS;
        let plane = |z: usize| square::<f32, N>(&self.volume[z * N * N..]);
        // Rows after the filters (1 2 1) and (-1 0 1) along z; then both of them filtered along x.
        let (mut smooth, mut slope) = ([[0.0; N]; N], [[0.0; N]; N]);
        let mut along = [[[0.0; N]; N]; 3];
        let mut columns = [[[[0.0; N]; BLOCKS]; 2]; 3];
        for z in 0..N {
            let near = [plane(z.saturating_sub(1)), plane(z), plane((z + 1).min(N - 1))];
            across_planes(simd, near, &mut smooth, &mut slope);
            along_rows(simd, &smooth, &slope, &mut along);
            across_rows(simd, &along, &mut columns);
            if z % side == side - 1 {
                for (parts, out) in columns.iter_mut().zip(&mut *self.out) {
                    parts.iter_mut().zip(out).for_each(|(part, out)| fold(part, out, z / side));
                }
            }
        }
        let mean = self.scale / (side * side * side) as f32;
        self.out.iter_mut().flatten().flatten().for_each(|sum| *sum *= mean);
    }
}

/// a + 2 b + c
#[inline(always)]
fn smoothed<S: Simd>(simd: S, a: S::V, b: S::V, c: S::V) -> S::V {
    simd.fma(simd.splat(2.0), b, simd.add(a, c))
}

/// Applies the filters (1 2 1) and (-1 0 1) along z to every row of the middle plane.
#[inline(always)]
fn across_planes<S: Simd, const N: usize>(
    simd: S,
    near: [&[[f32; N]; N]; 3],
    smooth: &mut [[f32; N]; N],
    slope: &mut [[f32; N]; N],
) {
    for y in 0..N {
        for j in (0..N).step_by(S::LANES) {
            let span = j..j + S::LANES;
            let [low, mid, high] = near.map(|plane| simd.load(&plane[y][span.clone()]));
            simd.store(smoothed(simd, low, mid, high), &mut smooth[y][span.clone()]);
            simd.store(simd.sub(high, low), &mut slope[y][span]);
        }
    }
}

/// The inputs of the derivatives along x, y and z in each row: (-1 0 1) of the smoothed row, (1 2 1) of the
/// smoothed row, (1 2 1) of the slope.
#[inline(always)]
fn along_rows<S: Simd, const N: usize>(
    simd: S,
    smooth: &[[f32; N]; N],
    slope: &[[f32; N]; N],
    along: &mut [[[f32; N]; N]; 3],
) {
    for y in 0..N {
        for j in (0..N).step_by(S::LANES) {
            let span = j..j + S::LANES;
            let [west, middle, east] = beside(simd, &smooth[y], j);
            simd.store(simd.sub(east, west), &mut along[0][y][span.clone()]);
            simd.store(smoothed(simd, west, middle, east), &mut along[1][y][span.clone()]);
            let [west, middle, east] = beside(simd, &slope[y], j);
            simd.store(smoothed(simd, west, middle, east), &mut along[2][y][span]);
        }
    }
}

/// The cells from `j` on, with their neighbours to the west and to the east.
#[inline(always)]
fn beside<S: Simd, const N: usize>(simd: S, row: &[f32; N], j: usize) -> [S::V; 3] {
    let v = simd.load(&row[j..j + S::LANES]);
    let next = j + S::LANES;
    let before = if j > 0 { simd.load(&row[j - S::LANES..j]) } else { simd.first(v) };
    let after = if next < N { simd.load(&row[next..next + S::LANES]) } else { simd.last(v) };
    [simd.west(before, v), v, simd.east(v, after)]
}

/// The derivatives, summed over the rows of each block, and the sums of their magnitudes.
#[inline(always)]
fn across_rows<S: Simd, const N: usize>(
    simd: S,
    along: &[[[f32; N]; N]; 3],
    columns: &mut [[[[f32; N]; BLOCKS]; 2]; 3],
) {
    let side = N / BLOCKS;
    for j in (0..N).step_by(S::LANES) {
        let span = j..j + S::LANES;
        let at = |axis: usize, y: usize| simd.load(&along[axis][y][span.clone()]);
        for block in 0..BLOCKS {
            let mut sums = [[simd.splat(0.0); 2]; 3];
            for y in block * side..(block + 1) * side {
                let (north, south) = ((y + 1).min(N - 1), y.saturating_sub(1));
                let derivatives = [
                    smoothed(simd, at(0, south), at(0, y), at(0, north)),
                    simd.sub(at(1, north), at(1, south)),
                    smoothed(simd, at(2, south), at(2, y), at(2, north)),
                ];
                for axis in 0..3 {
                    sums[axis][0] = simd.add(sums[axis][0], derivatives[axis]);
                    sums[axis][1] = simd.add(sums[axis][1], simd.abs(derivatives[axis]));
                }
            }
            for axis in 0..3 {
                for part in 0..2 {
                    let column = &mut columns[axis][part][block][span.clone()];
                    simd.store(simd.add(simd.load(column), sums[axis][part]), column);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::cpu::simd::Level;

    #[test]
    fn a_unit_ramp_has_gradient_one_and_a_hat_only_magnitude() {
        const N: usize = 16;
        let side = N / BLOCKS;
        for level in Level::all() {
            for axis in 0..3 {
                let along = |i: usize| [i % N, i / N % N, i / N / N][axis] as f32;
                let ramp: Vec<f32> = (0..N * N * N).map(along).collect();
                let mut out: Gradient = [[[f32::NAN; BLOCK_COUNT]; 2]; 3];
                level.run(Slopes::<N> { volume: &ramp, scale: 1.0 / 32.0, out: &mut out });
                for (other, [signed, magnitude]) in out.iter().enumerate() {
                    for block in 0..BLOCK_COUNT {
                        let place = [block % 4, block / 4 % 4, block / 16][axis];
                        // At a face, half the difference is missing in one of the block's layers.
                        let edge = if place == 0 || place == 3 { 0.5 / side as f32 } else { 0.0 };
                        let expected = if other == axis { 1.0 - edge } else { 0.0 };
                        assert!(
                            (signed[block] - expected).abs() < 1e-6,
                            "axis {axis} {other}, block {block}"
                        );
                        assert!((magnitude[block] - expected).abs() < 1e-6);
                    }
                }
                // Up by one, level, down by one, level: central differences of +-0.5 everywhere, with mean 0.
                let hat: Vec<f32> = (0..N * N * N).map(|i| 1.0 - (along(i) % 4.0 - 1.5).abs()).collect();
                level.run(Slopes::<N> { volume: &hat, scale: 1.0 / 32.0, out: &mut out });
                let inside = 21; // block (1, 1, 1)
                assert!(out[axis][0][inside].abs() < 1e-6 && (out[axis][1][inside] - 0.5).abs() < 1e-6);
            }
        }
    }
}
