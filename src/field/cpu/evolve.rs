//! One channel through one step, in place, and the sums that fall out of it: the hot loop.
//!
//! Rows are arrays of a length known when compiled, so that every inner loop is straight vector
//! code. The plane below is read after it was overwritten, hence the two planes of scratch: each
//! cell is read once from the field and written once. No threads, no features beyond plain sums.

use super::tanh::tanh;
use crate::field::shape::{BLOCK_COUNT, BLOCKS};

/// One sensor's share in a channel's drive.
#[derive(Clone, Copy)]
pub struct Tap {
    /// Which sensor's receptive field.
    pub sensor: usize,
    /// Gain x weight x felt sensor, of this cycle.
    pub amplitude: f32,
}

/// What drives a channel.
#[derive(Clone, Copy)]
pub struct Drive<'a, const N: usize> {
    /// Gain x bias.
    pub bias: f32,
    /// The sensors that reach it.
    pub taps: &'a [Tap],
    /// Profiles of the receptive fields along x, y, z: three rows a sensor.
    pub profile: &'a [[f32; N]],
}

/// Numbers of one step that all cells of a channel share.
#[derive(Clone, Copy)]
pub struct Step {
    /// Diffusion rate on this grid.
    pub lambda: f32,
    /// Slope inside the tanh.
    pub gamma: f32,
    /// 1 - beta: the bound of the field.
    pub bound: f32,
    /// Share of the old value in the new one.
    pub keep: f32,
    /// Share of the step's value in the new one.
    pub take: f32,
}

/// Two planes of scratch: the old values of the plane below and of the one at hand.
pub type Planes<'a, const N: usize> = (&'a mut [[f32; N]], &'a mut [[f32; N]]);

/// Evolves one channel's cells (`N` planes of `N` rows) by one step and calls `row(z, y, new)` for
/// every new row, in order. `aim(z, y, f)` may change the step's value before it is mixed in.
pub fn evolve<const N: usize>(
    cells: &mut [[f32; N]],
    planes: Planes<'_, N>,
    drive: Drive<'_, N>,
    step: &Step,
    mut aim: impl FnMut(usize, usize, &mut [f32; N]),
    mut row: impl FnMut(usize, usize, &[f32; N]),
) {
    let (mut here, mut below) = planes;
    below.copy_from_slice(&cells[..N]); // zero flux: outside the edge is the edge itself
    for z in 0..N {
        let (done, above) = cells.split_at_mut((z + 1) * N);
        let new = &mut done[z * N..];
        here.copy_from_slice(new);
        let above: &[[f32; N]] = if z + 1 < N { &above[..N] } else { here };
        for y in 0..N {
            let drive = drive_row(drive, z, y);
            let around = [&here[y.saturating_sub(1)], &here[(y + 1).min(N - 1)], &below[y], &above[y]];
            let mut value = value_row(&here[y], around, &drive, step);
            aim(z, y, &mut value);
            new[y] = mix_row(&here[y], &value, step);
            row(z, y, &new[y]);
        }
        std::mem::swap(&mut here, &mut below);
    }
}

/// The drive of one row: the receptive fields are separable, so a row costs one multiplication
/// and one addition a cell and sensor.
#[inline(always)]
fn drive_row<const N: usize>(drive: Drive<'_, N>, z: usize, y: usize) -> [f32; N] {
    let mut sum = [drive.bias; N];
    for tap in drive.taps {
        let [px, py, pz] = &drive.profile[3 * tap.sensor..][..3] else { continue };
        let height = tap.amplitude * pz[z] * py[y];
        for x in 0..N {
            sum[x] += height * px[x];
        }
    }
    sum
}

/// (1 - beta) tanh(gamma (u + lambda Laplacian u) + a) along one row.
#[inline(always)]
fn value_row<const N: usize>(
    here: &[f32; N],
    around: [&[f32; N]; 4],
    drive: &[f32; N],
    step: &Step,
) -> [f32; N] {
    let mut west = *here;
    west[1..].copy_from_slice(&here[..N - 1]);
    let mut east = *here;
    east[..N - 1].copy_from_slice(&here[1..]);
    let mut value = [0.0; N];
    for x in 0..N {
        let sides = (around[0][x] + around[1][x]) + (around[2][x] + around[3][x]) + (west[x] + east[x]);
        let spread = here[x] + step.lambda * (sides - 6.0 * here[x]);
        value[x] = step.bound * tanh(step.gamma * spread + drive[x]);
    }
    value
}

/// keep u + take F, held within the bound that rounding might pass by one unit in the last place.
#[inline(always)]
fn mix_row<const N: usize>(here: &[f32; N], value: &[f32; N], step: &Step) -> [f32; N] {
    let mut new = [0.0; N];
    for x in 0..N {
        new[x] = (step.keep * here[x] + step.take * value[x]).clamp(-step.bound, step.bound);
    }
    new
}

/// Gathers the sum of each block from the rows of a channel, in a fixed order.
pub struct Gather<const N: usize> {
    columns: [[f32; N]; BLOCKS],
    sums: [f32; BLOCK_COUNT],
}

impl<const N: usize> Gather<N> {
    /// Nothing gathered yet.
    pub fn new() -> Gather<N> {
        Gather { columns: [[0.0; N]; BLOCKS], sums: [0.0; BLOCK_COUNT] }
    }
    /// Takes the row at (z, y); rows come in order.
    #[inline(always)]
    pub fn row(&mut self, z: usize, y: usize, row: &[f32; N]) {
        let side = N / BLOCKS;
        let column = &mut self.columns[y / side];
        for x in 0..N {
            column[x] += row[x];
        }
        if y == N - 1 && z % side == side - 1 {
            fold(&mut self.columns, &mut self.sums, z / side);
        }
    }
    /// The sums, once all rows have come.
    pub fn sums(&self) -> &[f32; BLOCK_COUNT] {
        &self.sums
    }
}

/// Folds four rows of column sums into the sixteen blocks at height `z` and clears them.
pub fn fold<const N: usize>(columns: &mut [[f32; N]; BLOCKS], blocks: &mut [f32; BLOCK_COUNT], z: usize) {
    for (y, column) in columns.iter_mut().enumerate() {
        for (x, part) in column.chunks_exact(N / BLOCKS).enumerate() {
            blocks[(z * BLOCKS + y) * BLOCKS + x] = part.iter().sum();
        }
        *column = [0.0; N];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 8;
    const STEP: Step = Step { lambda: 0.1, gamma: 0.9, bound: 0.95, keep: 0.75, take: 0.25 };

    fn noise(seed: usize) -> Vec<[f32; N]> {
        let value = |i: usize| ((i * 7919 + seed * 104_729) % 1999) as f32 / 1052.0 - 0.95;
        (0..N * N).map(|row| std::array::from_fn(|x| value(row * N + x))).collect()
    }

    fn step_in_place(cells: &mut [[f32; N]], drive: Drive<'_, N>, step: &Step) -> Vec<(usize, usize)> {
        let (mut here, mut below) = ([[0.0; N]; N], [[0.0; N]; N]);
        let mut seen = Vec::new();
        evolve(cells, (&mut here, &mut below), drive, step, |_, _, _| {}, |z, y, _| seen.push((z, y)));
        seen
    }

    #[test]
    fn every_cell_feels_the_old_values_of_its_six_neighbours() {
        let old = noise(1);
        let mut new = old.clone();
        let profile: Vec<[f32; N]> = (0..3).map(|k| std::array::from_fn(|i| 0.1 * (i + k) as f32)).collect();
        let taps = [Tap { sensor: 0, amplitude: 0.5 }];
        let seen = step_in_place(&mut new, Drive { bias: 0.2, taps: &taps, profile: &profile }, &STEP);
        assert_eq!(seen, (0..N * N).map(|row| (row / N, row % N)).collect::<Vec<_>>(), "rows come in order");
        let at = |x: usize, y: usize, z: usize| f64::from(old[z * N + y][x]);
        let near = |i: usize| [i.saturating_sub(1), (i + 1).min(N - 1)];
        for (z, y, x) in (0..N * N * N).map(|i| (i / N / N, i / N % N, i % N)) {
            let sides: f64 = near(x).map(|x| at(x, y, z)).iter().sum::<f64>()
                + near(y).map(|y| at(x, y, z)).iter().sum::<f64>()
                + near(z).map(|z| at(x, y, z)).iter().sum::<f64>();
            let phi = f64::from(profile[0][x]) * f64::from(profile[1][y]) * f64::from(profile[2][z]);
            let spread = at(x, y, z) + 0.1 * (sides - 6.0 * at(x, y, z));
            let value = 0.95 * libm::tanh(0.9 * spread + 0.2 + 0.5 * phi);
            let expected = 0.75 * at(x, y, z) + 0.25 * value;
            let found = f64::from(new[z * N + y][x]);
            assert!((found - expected).abs() < 1e-6, "({x}, {y}, {z}): {found} for {expected}");
        }
    }

    #[test]
    fn the_bound_holds_exactly_whatever_rounds() {
        for (keep, take) in [(0.0, 1.0), (0.95, 0.05), (0.3, 0.7), (2.0 / 3.0, 1.0 / 3.0)] {
            let mut cells = vec![[0.95; N]; N * N];
            let step = Step { keep, take, ..STEP };
            for bias in [1e30, f32::MAX, 40.0, -1e30] {
                for _ in 0..400 {
                    step_in_place(&mut cells, Drive { bias, taps: &[], profile: &[] }, &step);
                }
                assert!(cells.iter().flatten().all(|u| u.abs() <= 0.95));
                assert!(cells.iter().flatten().all(|u| u.abs() > 0.949_99), "and is reached");
            }
        }
    }

    #[test]
    fn sums_are_those_of_the_blocks() {
        let cells = noise(2);
        let mut gather = Gather::<N>::new();
        cells.iter().enumerate().for_each(|(row, cells)| gather.row(row / N, row % N, cells));
        for (block, sum) in gather.sums().iter().enumerate() {
            let [bx, by, bz] = [block % 4, block / 4 % 4, block / 16];
            let rows = (0..4).map(|i| &cells[(2 * bz + i / 2) * N + 2 * by + i % 2][2 * bx..][..2]);
            let expected: f32 = rows.flatten().sum();
            assert!((sum - expected).abs() < 1e-5, "block {block}");
        }
    }
}
