//! The field on one grid: drive, evolve, and the features reduced from it. Steps 2 to 4 of `docs/field.md`,
//! loop by loop. Knows nothing of memories, learning and quality levels.

use crate::base::plan::Params;
use crate::field::projections::Projections;
use crate::field::shape::{
    BLOCK_COUNT, BLOCKS, CHANNELS, CONTENT_GROUPS, CONTEXT, DESCRIPTOR, FEATURES, GROUP, GROUPS, PATTERN,
    PATTERN_FIRST, SLOW_FIRST,
};
use std::ops::Range;

/// 64 channels on n^3 cells, x fastest, with everything needed to step them.
pub struct Grid {
    /// Cells per axis.
    pub n: usize,
    /// The field, channel slowest.
    pub u: Vec<f64>,
    /// Q on this grid: pattern channels only.
    pub blend: Vec<f64>,
    projections: Projections,
    params: Params,
    /// Length of a cell of this grid, in cells of the full grid: 1, or 2 on the half grid.
    width: f64,
    drive: Vec<f64>,
    next: Vec<f64>,
}

impl Grid {
    /// A field at rest. `width` is 1, or 2 if a cell represents 2x2x2 cells of the full grid.
    pub fn new(n: usize, width: usize, projections: Projections, params: Params) -> Grid {
        let cells = n * n * n;
        let mut grid = Grid {
            n,
            u: vec![0.0; CHANNELS * cells],
            blend: vec![0.0; PATTERN * cells],
            projections,
            params,
            width: width as f64,
            drive: vec![0.0; cells],
            next: vec![0.0; cells],
        };
        grid.reset();
        grid
    }

    /// Sets every channel to its resting value, with nothing blended.
    pub fn reset(&mut self) {
        let cells = self.cells();
        for (channel, value) in self.u.chunks_exact_mut(cells).zip(&self.projections.rest) {
            channel.fill(*value);
        }
        self.blend.fill(0.0);
    }

    /// Cells of one channel.
    pub fn cells(&self) -> usize {
        self.n * self.n * self.n
    }

    /// Memory of the field and of its work space, bytes.
    pub fn bytes(&self) -> usize {
        [&self.u, &self.blend, &self.drive, &self.next].map(|cells| size_of_val(&**cells)).iter().sum()
    }

    /// Where channel `c` is in `u`.
    pub fn span(&self, c: usize) -> Range<usize> {
        c * self.cells()..(c + 1) * self.cells()
    }

    /// Steps `channels` by `count` sub-steps of share `k`, driven by the felt sensors q = s + eta e.
    pub fn evolve(&mut self, channels: Range<usize>, felt: &[f64], (count, k): (usize, f64)) {
        for c in channels {
            self.fill_drive(c, felt);
            for _ in 0..count {
                self.step(c, k);
            }
        }
    }

    /// a_c(x) = g (sum of B[c,i] phi_i(x) q_i + h_c).
    fn fill_drive(&mut self, c: usize, felt: &[f64]) {
        let n = self.n;
        let gain = self.params.gain;
        self.drive.fill(gain * self.projections.bias[c]);
        for (i, q) in felt.iter().enumerate() {
            let weight = self.projections.weight[c][i];
            if weight.abs() > 0.0 {
                let [px, py, pz] = &self.projections.profile[i];
                for z in 0..n {
                    for y in 0..n {
                        for x in 0..n {
                            self.drive[(z * n + y) * n + x] += gain * weight * q * px[x] * py[y] * pz[z];
                        }
                    }
                }
            }
        }
    }

    /// u' = (1 - k) u + k F.
    fn step(&mut self, c: usize, k: f64) {
        let Params { lambda, gamma, beta, pattern_share, .. } = self.params;
        // Diffusion is proportional to 1 / (cell length)^2.
        let lambda = lambda / (self.width * self.width);
        let (n, cells, span) = (self.n, self.cells(), self.span(c));
        let u = &mut self.u[span];
        for z in 0..n {
            for y in 0..n {
                for x in 0..n {
                    let cell = (z * n + y) * n + x;
                    let v = u[cell] + lambda * laplacian(u, n, x, y, z);
                    let mut force = (1.0 - beta) * libm::tanh(gamma * v + self.drive[cell]);
                    if (PATTERN_FIRST..SLOW_FIRST).contains(&c) {
                        let q = self.blend[(c - PATTERN_FIRST) * cells + cell];
                        force = (1.0 - pattern_share) * force + pattern_share * q;
                    }
                    self.next[cell] = (1.0 - k) * u[cell] + k * force;
                }
            }
        }
        u.copy_from_slice(&self.next);
    }

    /// Context, descriptor and gradients of the current field.
    pub fn features(&mut self, features: &mut [f64]) {
        debug_assert_eq!(features.len(), FEATURES);
        let (context, rest) = features.split_at_mut(CONTEXT);
        let (descriptor, gradients) = rest.split_at_mut(DESCRIPTOR);
        let cells = self.cells();
        for (mean, channel) in context.iter_mut().zip(self.u.chunks_exact(cells)) {
            *mean = channel.iter().sum::<f64>() / cells as f64;
        }
        let mut gradients = gradients.chunks_exact_mut(BLOCK_COUNT);
        for group in 0..GROUPS {
            self.next.fill(0.0); // the group's mean volume
            for channel in self.u.chunks_exact(cells).skip(group * GROUP).take(GROUP) {
                for (sum, value) in self.next.iter_mut().zip(channel) {
                    *sum += value / GROUP as f64;
                }
            }
            block_means(&self.next, self.n, &mut descriptor[group * BLOCK_COUNT..][..BLOCK_COUNT]);
            if group < CONTENT_GROUPS {
                for axis in 0..3 {
                    self.fill_slope(axis);
                    block_means(&self.drive, self.n, gradients.next().expect("4 x 3 x 2 parts"));
                    self.drive.iter_mut().for_each(|slope| *slope = slope.abs());
                    block_means(&self.drive, self.n, gradients.next().expect("4 x 3 x 2 parts"));
                }
            }
        }
    }

    /// Sobel derivative of the mean volume in `next` along `axis`, into `drive`.
    fn fill_slope(&mut self, axis: usize) {
        let n = self.n;
        for z in 0..n {
            for y in 0..n {
                for x in 0..n {
                    self.drive[(z * n + y) * n + x] = sobel(&self.next, n, [x, y, z], axis) / self.width;
                }
            }
        }
    }

    /// Transfers the changes of channel `c` of this half grid to the full grid.
    pub fn unhalve_channel(&mut self, c: usize, whole: &mut [f64], n: usize, bound: f64) {
        let span = self.span(c);
        unhalve(&self.u[span], n, whole, &mut self.next, bound);
    }

    /// Mean, standard deviation, largest |u| and mean square of all cells.
    pub fn statistics(&self) -> [f64; 4] {
        let count = self.u.len() as f64;
        let mean = self.u.iter().sum::<f64>() / count;
        let energy = self.u.iter().map(|u| u * u).sum::<f64>() / count;
        let variance = self.u.iter().map(|u| (u - mean) * (u - mean)).sum::<f64>() / count;
        let max = self.u.iter().fold(0.0_f64, |max, u| max.max(u.abs()));
        [mean, variance.sqrt(), max, energy]
    }
}

/// Sum over the six neighbours of (neighbour - u); a neighbour outside the grid counts as the cell itself.
fn laplacian(u: &[f64], n: usize, x: usize, y: usize, z: usize) -> f64 {
    let at = |x, y, z| u[(z * n + y) * n + x];
    let (down, up) = (|i: usize| i.saturating_sub(1), |i: usize| (i + 1).min(n - 1));
    at(down(x), y, z)
        + at(up(x), y, z)
        + at(x, down(y), z)
        + at(x, up(y), z)
        + at(x, y, down(z))
        + at(x, y, up(z))
        - 6.0 * at(x, y, z)
}

/// Difference along `axis`, smoothed by [1 2 1] along both other axes, divided by 32; a cell outside the grid
/// has the value of the nearest cell inside.
fn sobel(g: &[f64], n: usize, cell: [usize; 3], axis: usize) -> f64 {
    const ALONG: [f64; 3] = [-1.0, 0.0, 1.0];
    const ACROSS: [f64; 3] = [1.0, 2.0, 1.0];
    let near = |at: usize, step: usize| (at + step).saturating_sub(1).min(n - 1);
    let tap = |of: usize, step: usize| if of == axis { ALONG[step] } else { ACROSS[step] };
    let mut sum = 0.0;
    for k in 0..3 {
        for j in 0..3 {
            for i in 0..3 {
                let [x, y, z] = [near(cell[0], i), near(cell[1], j), near(cell[2], k)];
                sum += tap(0, i) * tap(1, j) * tap(2, k) * g[(z * n + y) * n + x];
            }
        }
    }
    sum / 32.0
}

/// Means of the 64 blocks of the grid (4 along each axis), x fastest.
fn block_means(volume: &[f64], n: usize, means: &mut [f64]) {
    let side = n / BLOCKS;
    means.fill(0.0);
    for z in 0..n {
        for y in 0..n {
            for x in 0..n {
                let block = (z / side * BLOCKS + y / side) * BLOCKS + x / side;
                means[block] += volume[(z * n + y) * n + x];
            }
        }
    }
    means.iter_mut().for_each(|sum| *sum /= (side * side * side) as f64);
}

/// Sets each cell of `half` to the mean of its 2x2x2 cells in `whole`, which has `n` cells per axis.
pub fn halve(whole: &[f64], n: usize, half: &mut [f64]) {
    let m = n / 2;
    half.fill(0.0);
    for z in 0..n {
        for y in 0..n {
            for x in 0..n {
                half[(z / 2 * m + y / 2) * m + x / 2] += whole[(z * n + y) * n + x] / 8.0;
            }
        }
    }
}

/// Adds to every cell of `whole` the difference between its cell in `half` and the mean of its 2x2x2 cells in
/// `whole`, so that these means become `half`. `scratch` has the size of `half`; |u| is clamped to `bound`.
fn unhalve(half: &[f64], n: usize, whole: &mut [f64], scratch: &mut [f64], bound: f64) {
    let m = n / 2;
    halve(whole, n, scratch);
    for z in 0..n {
        for y in 0..n {
            for x in 0..n {
                let (cell, of) = ((z * n + y) * n + x, (z / 2 * m + y / 2) * m + x / 2);
                whole[cell] = (whole[cell] + half[of] - scratch[of]).clamp(-bound, bound);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(n: usize, slope: [f64; 3]) -> Vec<f64> {
        let value = |cell: usize| {
            let [x, y, z] = [cell % n, cell / n % n, cell / n / n];
            slope[0] * x as f64 + slope[1] * y as f64 + slope[2] * z as f64
        };
        (0..n * n * n).map(value).collect()
    }

    #[test]
    fn ramp_has_zero_laplacian_inside_and_zero_flux_at_the_faces() {
        let u = ramp(8, [1.0, 2.0, -0.5]);
        for z in 0..8 {
            for y in 0..8 {
                for x in 0..8 {
                    let inside = |i| (1..7).contains(&i);
                    let edge = |i, slope: f64| {
                        if inside(i) {
                            0.0
                        } else if i == 0 {
                            slope
                        } else {
                            -slope
                        }
                    };
                    let expected = edge(x, 1.0) + edge(y, 2.0) + edge(z, -0.5);
                    assert!((laplacian(&u, 8, x, y, z) - expected).abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn diffusion_keeps_the_sum_and_leaves_a_constant_alone() {
        let n = 8;
        let u: Vec<f64> = (0..n * n * n).map(|i| ((i * 37 % 101) as f64).sin()).collect();
        let sum =
            |u: &[f64]| -> f64 { (0..n * n * n).map(|i| laplacian(u, n, i % n, i / n % n, i / n / n)).sum() };
        assert!(sum(&u).abs() < 1e-10, "zero flux: what leaves one cell enters another");
        assert!((0..n).all(|i| laplacian(&vec![0.7; n * n * n], n, i, i, i).abs() < 1e-12));
    }

    #[test]
    fn sobel_of_a_unit_ramp_is_one_along_it_and_zero_across() {
        for axis in 0..3 {
            let mut slope = [0.0; 3];
            slope[axis] = 1.0;
            let g = ramp(8, slope);
            for other in 0..3 {
                let expected = if other == axis { 1.0 } else { 0.0 };
                assert!((sobel(&g, 8, [3, 4, 2], other) - expected).abs() < 1e-12);
            }
            // At a face, one of the two cells is missing, so the difference is halved.
            let mut face = [3, 3, 3];
            face[axis] = 0;
            assert!((sobel(&g, 8, face, axis) - 0.5).abs() < 1e-12);
        }
    }

    #[test]
    fn block_means_of_a_ramp_are_the_block_centres() {
        let mut means = [0.0; BLOCK_COUNT];
        block_means(&ramp(16, [1.0, 0.0, 0.0]), 16, &mut means);
        assert!((0..BLOCK_COUNT).all(|b| (means[b] - (1.5 + 4.0 * (b % 4) as f64)).abs() < 1e-12));
    }

    #[test]
    fn half_grid_round_trip_preserves_values_and_carries_changes() {
        let n = 8;
        let start: Vec<f64> = ramp(n, [0.01, 0.02, 0.03]);
        let (mut whole, mut half, mut scratch) = (start.clone(), vec![0.0; 64], vec![0.0; 64]);
        halve(&whole, n, &mut half);
        unhalve(&half, n, &mut whole, &mut scratch, 0.95);
        assert!(whole.iter().zip(&start).all(|(a, b)| (a - b).abs() < 1e-12));
        half.iter_mut().for_each(|v| *v += 0.1);
        unhalve(&half, n, &mut whole, &mut scratch, 0.95);
        assert!(whole.iter().zip(&start).all(|(a, b)| (a - b - 0.1).abs() < 1e-12));
    }
}
