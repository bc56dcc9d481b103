//! 3D Sobel gradients of a group's mean, reduced to blocks on the way: no gradient volume exists.

use super::evolve::fold;
use crate::field::shape::{BLOCK_COUNT, BLOCKS};

/// Signed mean and mean magnitude of each block, by axis x, y, z.
pub type Gradient = [[[f32; BLOCK_COUNT]; 2]; 3];

/// Reduces the gradients of `volume` (`N` planes of `N` rows), each cell's times `scale`.
/// Outside the edge is the edge itself, as in the evolution.
pub fn reduce<const N: usize>(volume: &[[f32; N]], scale: f32, out: &mut Gradient) {
    let side = N / BLOCKS;
    let mut columns = [[[[0.0; N]; BLOCKS]; 2]; 3];
    for z in 0..N {
        let planes = [z.saturating_sub(1), z, (z + 1).min(N - 1)].map(|z| &volume[z * N..][..N]);
        for y in 0..N {
            let rows = [y.saturating_sub(1), y, (y + 1).min(N - 1)];
            let at = |dz: usize, dy: usize| &planes[dz][rows[dy]];
            for (axis, row) in sobel_row::<N>(at).iter().enumerate() {
                let [signed, magnitude] = &mut columns[axis];
                for x in 0..N {
                    signed[y / side][x] += row[x];
                    magnitude[y / side][x] += row[x].abs();
                }
            }
        }
        if z % side == side - 1 {
            for (axis, parts) in columns.iter_mut().enumerate() {
                for (part, column) in parts.iter_mut().enumerate() {
                    fold(column, &mut out[axis][part], z / side);
                }
            }
        }
    }
    let mean = scale / (side * side * side) as f32;
    out.iter_mut().flatten().flatten().for_each(|sum| *sum *= mean);
}

/// The three derivatives along one row, 32 times as large as the gradient: (1 2 1) across,
/// (-1 0 1) along each axis.
#[inline(always)]
fn sobel_row<'a, const N: usize>(at: impl Fn(usize, usize) -> &'a [f32; N]) -> [[f32; N]; 3] {
    let (mut flat, mut dy, mut dz) = ([0.0; N], [0.0; N], [0.0; N]);
    for x in 0..N {
        let v = |z: usize, y: usize| at(z, y)[x];
        let low = [v(0, 0), v(0, 1), v(0, 2)];
        let mid = [v(1, 0), v(1, 1), v(1, 2)];
        let high = [v(2, 0), v(2, 1), v(2, 2)];
        let across = |p: [f32; 3]| p[0] + 2.0 * p[1] + p[2];
        let column = [0, 1, 2].map(|y| low[y] + 2.0 * mid[y] + high[y]);
        flat[x] = across(column);
        dy[x] = column[2] - column[0];
        dz[x] = across(high) - across(low);
    }
    let mut dx = [0.0; N];
    for x in 0..N {
        dx[x] = flat[(x + 1).min(N - 1)] - flat[x.saturating_sub(1)];
    }
    [dx, smooth(&dy), smooth(&dz)]
}

/// (1 2 1) along x.
#[inline(always)]
fn smooth<const N: usize>(row: &[f32; N]) -> [f32; N] {
    std::array::from_fn(|x| row[x.saturating_sub(1)] + 2.0 * row[x] + row[(x + 1).min(N - 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_ramp_has_gradient_one_along_it_and_a_hat_has_a_magnitude_only() {
        const N: usize = 16;
        let side = N / BLOCKS;
        for axis in 0..3 {
            let along = |row: usize, x: usize| [x, row % N, row / N][axis] as f32;
            let ramp: Vec<[f32; N]> = (0..N * N).map(|row| std::array::from_fn(|x| along(row, x))).collect();
            let mut out: Gradient = [[[f32::NAN; BLOCK_COUNT]; 2]; 3];
            reduce(&ramp, 1.0 / 32.0, &mut out);
            for (other, [signed, magnitude]) in out.iter().enumerate() {
                for block in 0..BLOCK_COUNT {
                    let place = [block % 4, block / 4 % 4, block / 16][axis];
                    // At a face half the difference is missing in one of the block's four layers.
                    let edge = if place == 0 || place == 3 { 0.5 / side as f32 } else { 0.0 };
                    let expected = if other == axis { 1.0 - edge } else { 0.0 };
                    assert!((signed[block] - expected).abs() < 1e-6, "axis {axis} {other}, block {block}");
                    assert!((magnitude[block] - expected).abs() < 1e-6);
                }
            }
            // Up and down by one: no slope on the whole, but one everywhere off the crest.
            let hat: Vec<[f32; N]> = (0..N * N)
                .map(|row| std::array::from_fn(|x| 1.0 - (along(row, x) % 4.0 - 1.5).abs()))
                .collect();
            reduce(&hat, 1.0 / 32.0, &mut out);
            let inside = 21; // block (1, 1, 1)
            assert!(out[axis][0][inside].abs() < 1e-6 && (out[axis][1][inside] - 0.5).abs() < 1e-6);
        }
    }
}
