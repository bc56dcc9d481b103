//! Sums over rows in one fixed tree, and elementwise operations. Order of arithmetic: `docs/memory.md`.
//! Number i of a row is added to running sum i mod 64; the 64 sums are added in a tree that is the same for
//! every register width.

use super::fft::{BLOCK, Block};
use crate::system::cpu::simd::{Kernel, Simd};

/// Running sums: four of the widest registers, enough to hide the latency of a fused multiply-add.
const SUMS: usize = 64;

/// Rows that are added up in order before their sum joins the total: few enough that the rounding error stays
/// that of a few dozen sums, many enough that the total is rarely touched.
pub const LEAF: usize = 64;

/// Rows that are read at once within a leaf.
const ABREAST: usize = 8;

/// The scalar product of two rows of one length.
#[inline(always)]
pub fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<SUMS>();
    let (b, b_rest) = b.as_chunks::<SUMS>();
    let mut sums = [simd.splat(0.0); SUMS / 4];
    for (a, b) in a.iter().zip(b) {
        add_products(simd, a, b, &mut sums);
    }
    if !a_rest.is_empty() {
        // s + 0 * 0 = s: padding with zeros changes no sum.
        let (mut a, mut b) = ([0.0; SUMS], [0.0; SUMS]);
        a[..a_rest.len()].copy_from_slice(a_rest);
        b[..b_rest.len()].copy_from_slice(b_rest);
        add_products(simd, &a, &b, &mut sums);
    }
    tree(simd, &sums)
}

#[inline(always)]
fn add_products<S: Simd>(simd: S, a: &[f32; SUMS], b: &[f32; SUMS], sums: &mut [S::V; SUMS / 4]) {
    for part in 0..SUMS / S::LANES {
        let (x, y) = (&a[part * S::LANES..][..S::LANES], &b[part * S::LANES..][..S::LANES]);
        sums[part] = simd.fused(simd.load(x), simd.load(y), sums[part]);
    }
}

/// (s_c + s_c+16) + (s_c+32 + s_c+48) for c below 16; then the upper half is added to the lower half
/// until one number is left.
#[inline(always)]
fn tree<S: Simd>(simd: S, sums: &[S::V; SUMS / 4]) -> f32 {
    let parts = BLOCK / S::LANES;
    let mut block: Block = [0.0; BLOCK];
    for part in 0..parts {
        let left = simd.add(sums[part], sums[part + parts]);
        let right = simd.add(sums[part + 2 * parts], sums[part + 3 * parts]);
        simd.store(simd.add(left, right), &mut block[part * S::LANES..][..S::LANES]);
    }
    let eight: [f32; 8] = std::array::from_fn(|i| block[i] + block[i + 8]);
    let four: [f32; 4] = std::array::from_fn(|i| eight[i] + eight[i + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// Each number of a row times `factor`.
#[inline(always)]
pub fn scale<S: Simd>(simd: S, row: &mut [f32], factor: f32) {
    let (blocks, rest) = row.as_chunks_mut::<BLOCK>();
    let factors = simd.splat(factor);
    for block in blocks {
        for lanes in block.chunks_exact_mut(S::LANES) {
            simd.store(simd.mul(simd.load(lanes), factors), lanes);
        }
    }
    rest.iter_mut().for_each(|number| *number *= factor);
}

/// 1 over the length of a row, computed from the sum of its squares with a correctly rounded square root and
/// division. 0 for a row whose sum of squares is not a normal f32, because it is not a usable divisor.
#[inline(always)]
pub fn inverse_length<S: Simd>(simd: S, row: &[f32]) -> f32 {
    let square = dot(simd, row, row);
    if square.is_normal() { 1.0 / square.sqrt() } else { 0.0 }
}

/// Scales a row to length 1; a row without a usable length (see [`inverse_length`]) becomes zeros.
#[inline(always)]
pub fn normalise<S: Simd>(simd: S, row: &mut [f32]) {
    let factor = inverse_length(simd, row);
    scale(simd, row, factor);
}

/// The sum of w_r x_r over rows x_r: in order within leaves of [`LEAF`] rows, with one fused multiply-add per
/// term; then leaf by leaf.
pub struct Superpose<'a> {
    /// The rows.
    pub rows: &'a [f32],
    /// One weight for each row; `None`: all weights are 1.
    pub weights: Option<&'a [f32]>,
    /// Scratch memory for one row.
    pub leaf: &'a mut [f32],
    /// The sum.
    pub out: &'a mut [f32],
    /// Whether the sum is scaled to length 1.
    pub unit: bool,
}

impl Kernel for Superpose<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Superpose { rows, weights, leaf, out, unit } = self;
        let d = out.len();
        out.fill(0.0);
        for (number, part) in rows.chunks(LEAF * d).enumerate() {
            leaf.fill(0.0);
            let mut first = number * LEAF;
            for group in part.chunks(ABREAST * d) {
                let weight = |row: usize| weights.map_or(1.0, |weights| weights[first + row]);
                if group.len() == ABREAST * d {
                    let weights: [f32; ABREAST] = std::array::from_fn(weight);
                    add_group(simd, group, &weights, leaf);
                } else {
                    group
                        .chunks_exact(d)
                        .enumerate()
                        .for_each(|(r, row)| add_row(simd, row, weight(r), leaf));
                }
                first += ABREAST;
            }
            add_row(simd, leaf, 1.0, out);
        }
        if unit {
            normalise(simd, out);
        }
    }
}

/// `to` += `weight` * `row`, in fused multiply-adds.
#[inline(always)]
pub fn add_row<S: Simd>(simd: S, row: &[f32], weight: f32, to: &mut [f32]) {
    let (row, row_rest) = row.as_chunks::<BLOCK>();
    let (to, to_rest) = to.as_chunks_mut::<BLOCK>();
    for (x, y) in row.iter().zip(to) {
        add_block(simd, x, weight, y);
    }
    if !row_rest.is_empty() {
        let (mut x, mut y) = ([0.0; BLOCK], [0.0; BLOCK]);
        x[..row_rest.len()].copy_from_slice(row_rest);
        y[..to_rest.len()].copy_from_slice(to_rest);
        add_block(simd, &x, weight, &mut y);
        to_rest.copy_from_slice(&y[..to_rest.len()]);
    }
}

#[inline(always)]
fn add_block<S: Simd>(simd: S, x: &Block, weight: f32, y: &mut Block) {
    let weight = simd.splat(weight);
    for (x, y) in x.chunks_exact(S::LANES).zip(y.chunks_exact_mut(S::LANES)) {
        simd.store(simd.fused(weight, simd.load(x), simd.load(y)), y);
    }
}

/// Like [`add_row`] for eight consecutive rows, register by register: the sum is read and written once for
/// all of them.
#[inline(always)]
fn add_group<S: Simd>(simd: S, group: &[f32], weights: &[f32; ABREAST], to: &mut [f32]) {
    let d = to.len();
    let rows: [&[f32]; ABREAST] = std::array::from_fn(|row| &group[row * d..][..d]);
    let whole = d / BLOCK * BLOCK;
    let mut splats = [simd.splat(0.0); ABREAST];
    for row in 0..ABREAST {
        splats[row] = simd.splat(weights[row]);
    }
    for at in (0..whole).step_by(S::LANES) {
        let mut sum = simd.load(&to[at..at + S::LANES]);
        for row in 0..ABREAST {
            sum = simd.fused(splats[row], simd.load(&rows[row][at..at + S::LANES]), sum);
        }
        simd.store(sum, &mut to[at..at + S::LANES]);
    }
    if whole < d {
        for (row, weight) in rows.iter().zip(weights) {
            add_row(simd, &row[whole..], *weight, &mut to[whole..]);
        }
    }
}

/// The scalar product of two rows, as a kernel.
pub struct Dot<'a>(pub &'a [f32], pub &'a [f32]);

impl Kernel for Dot<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        dot(simd, self.0, self.1)
    }
}

/// `to` += `weight` * `row`.
pub struct Add<'a> {
    /// The row.
    pub row: &'a [f32],
    /// Its weight.
    pub weight: f32,
    /// The sum.
    pub to: &'a mut [f32],
}

impl Kernel for Add<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        add_row(simd, self.row, self.weight, self.to);
    }
}

/// 1 over the length of a row, as a kernel.
pub struct InverseLength<'a>(pub &'a [f32]);

impl Kernel for InverseLength<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        inverse_length(simd, self.0)
    }
}

/// Scales rows of `d` numbers to length 1.
pub struct Normalise<'a> {
    /// Numbers in a row.
    pub d: usize,
    /// The rows.
    pub rows: &'a mut [f32],
}

impl Kernel for Normalise<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.rows.chunks_exact_mut(self.d).for_each(|row| normalise(simd, row));
    }
}
