//! The Fourier transform of real rows in f32, in one fixed order of arithmetic (`docs/memory.md`, "Order of
//! arithmetic"): which numbers are combined in which operation depends on the length alone, not on the width
//! of the vector registers, the batch or the thread. A row of d = 2n numbers is treated as n complex numbers
//! (even indices real, odd ones imaginary) and goes through Stockham stages of radix 4, the last of radix 2
//! if n is not a power of 4. `convolve` uses the spectrum.

use crate::system::cpu::simd::{Kernel, Simd};
use std::f64::consts::TAU;

/// Numbers that are processed together: the lanes of the widest register. All SIMD levels process rows in
/// blocks of this size, so that none needs a tail loop.
pub const BLOCK: usize = 16;

/// Shortest row that these stages accept: a quarter of its complex numbers fills one block.
pub const LEAST_ROW: usize = 8 * BLOCK;

/// A block of numbers.
pub type Block = [f32; BLOCK];

/// Complex numbers with separate real and imaginary parts; one block longer than the transform, so that index
/// n can repeat index 0.
#[derive(Clone, Debug)]
pub struct Split {
    /// Real parts.
    pub re: Vec<f32>,
    /// Imaginary parts.
    pub im: Vec<f32>,
}

impl Split {
    /// Room for `n` numbers and a block.
    pub fn new(n: usize) -> Split {
        Split { re: vec![0.0; n + BLOCK], im: vec![0.0; n + BLOCK] }
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.re) + size_of_val(&*self.im)
    }
}

/// Three twiddle factors for each index of a block: re, im of the second, third and fourth leg.
type BlockTurns = [Block; 6];

/// A stage whose stride is at least a block: one set of twiddle factors for a whole run of indices.
#[derive(Clone, Debug)]
struct Later {
    /// Blocks in a run of indices (the stride).
    run: usize,
    /// re, im of the second, third and fourth leg, by sub-transform.
    turns: Vec<[f32; 6]>,
}

/// The constants of transforms of one length.
#[derive(Clone, Debug)]
pub struct Tables {
    n: usize,
    first: Vec<BlockTurns>,
    second: Vec<BlockTurns>,
    later: Vec<Later>,
    last_is_two: bool,
    /// exp(-2 pi i k / d) for k in 0..n/2, re and im, in blocks.
    half: Vec<[Block; 2]>,
}

/// exp(-2 pi i k / n), computed in f64 and rounded.
pub(super) fn turn(k: usize, n: usize) -> (f32, f32) {
    // Exact where the circle crosses an axis: sin(pi) is not 0 in f64.
    match (4 * (k % n)).checked_div(n) {
        Some(quarter) if 4 * (k % n) == quarter * n => {
            [(1.0, 0.0), (0.0, -1.0), (-1.0, 0.0), (0.0, 1.0)][quarter]
        }
        _ => {
            let angle = TAU * (k % n) as f64 / n as f64;
            (libm::cos(angle) as f32, -libm::sin(angle) as f32)
        }
    }
}

/// The three twiddle factors of sub-transform `p` in a stage of `current` numbers.
fn turns(p: usize, current: usize) -> [f32; 6] {
    let [a, b, c] = [1, 2, 3].map(|leg| turn(leg * p, current));
    [a.0, a.1, b.0, b.1, c.0, c.1]
}

fn block_turns(first_place: usize, stride: usize, current: usize) -> BlockTurns {
    let mut all = [[0.0; BLOCK]; 6];
    for lane in 0..BLOCK {
        let own = turns((first_place + lane) / stride, current);
        (0..6).for_each(|part| all[part][lane] = own[part]);
    }
    all
}

impl Tables {
    /// Tables for real rows of `d` numbers, a power of two from [`LEAST_ROW`] on.
    ///
    /// # Panics
    /// For any other length; [`super::ops::Workspace`] pads rows of other lengths.
    pub fn new(d: usize) -> Tables {
        assert!(d.is_power_of_two() && d >= LEAST_ROW, "no transform for rows of {d} numbers");
        let n = d / 2;
        let (mut later, mut current, mut stride) = (Vec::new(), n / 16, 16);
        while current > 4 {
            let turns = (0..current / 4).map(|p| turns(p, current)).collect();
            later.push(Later { run: stride / BLOCK, turns });
            (current, stride) = (current / 4, stride * 4);
        }
        let half_block = |block: usize| {
            let mut both = [[0.0; BLOCK]; 2];
            for lane in 0..BLOCK {
                (both[0][lane], both[1][lane]) = turn(block * BLOCK + lane, d);
            }
            both
        };
        Tables {
            n,
            first: (0..n / 64).map(|block| block_turns(block * BLOCK, 1, n)).collect(),
            second: (0..n / 64).map(|block| block_turns(block * BLOCK, 4, n / 4)).collect(),
            later,
            last_is_two: current == 2,
            half: (0..n / 32).map(half_block).collect(),
        }
    }

    /// Complex numbers in a transform.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Numbers in a row.
    pub fn d(&self) -> usize {
        2 * self.n
    }

    /// exp(-2 pi i k / d), in blocks of k from 0 to n/2.
    pub fn half(&self) -> &[[Block; 2]] {
        &self.half
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        let later: usize = self.later.iter().map(|stage| size_of_val(&*stage.turns)).sum();
        size_of_val(&*self.first) + size_of_val(&*self.second) + size_of_val(&*self.half) + later
    }
}

/// Two registers: real parts, imaginary parts.
pub type Pair<S> = (<S as Simd>::V, <S as Simd>::V);

/// Where a first stage reads from.
trait Source {
    /// Part `part` (of a register's width) of block `block` of the complex numbers.
    fn at<S: Simd>(&self, simd: S, block: usize, part: usize) -> Pair<S>;
}

/// Where a last stage writes to.
trait Sink {
    /// Stores part `part` of block `block`.
    fn put<S: Simd>(&mut self, simd: S, block: usize, part: usize, value: Pair<S>);
}

/// A real row; two neighbouring numbers form one complex number.
struct Row<'a>(&'a [[f32; 2 * BLOCK]]);

impl Source for Row<'_> {
    #[inline(always)]
    fn at<S: Simd>(&self, simd: S, block: usize, part: usize) -> Pair<S> {
        let (low, high) = self.0[block][2 * part * S::LANES..][..2 * S::LANES].split_at(S::LANES);
        simd.unzip(simd.load(low), simd.load(high))
    }
}

/// Complex numbers with separate parts.
struct Parts<'a> {
    re: &'a [Block],
    im: &'a [Block],
}

impl<'a> Parts<'a> {
    /// Parts in their usual order.
    #[inline(always)]
    fn of(split: &'a Split) -> Parts<'a> {
        Parts { re: split.re.as_chunks().0, im: split.im.as_chunks().0 }
    }
    /// Real and imaginary parts swapped: transforming these gives the inverse transform, swapped as well.
    #[inline(always)]
    fn exchanged(split: &'a Split) -> Parts<'a> {
        Parts { re: split.im.as_chunks().0, im: split.re.as_chunks().0 }
    }
}

impl Source for Parts<'_> {
    #[inline(always)]
    fn at<S: Simd>(&self, simd: S, block: usize, part: usize) -> Pair<S> {
        let lanes = part * S::LANES..(part + 1) * S::LANES;
        (simd.load(&self.re[block][lanes.clone()]), simd.load(&self.im[block][lanes]))
    }
}

/// Complex numbers to be written, with separate parts.
struct PartsMut<'a> {
    re: &'a mut [Block],
    im: &'a mut [Block],
}

impl<'a> PartsMut<'a> {
    #[inline(always)]
    fn of(split: &'a mut Split) -> PartsMut<'a> {
        PartsMut { re: split.re.as_chunks_mut().0, im: split.im.as_chunks_mut().0 }
    }
}

impl Sink for PartsMut<'_> {
    #[inline(always)]
    fn put<S: Simd>(&mut self, simd: S, block: usize, part: usize, value: Pair<S>) {
        let lanes = part * S::LANES..(part + 1) * S::LANES;
        simd.store(value.0, &mut self.re[block][lanes.clone()]);
        simd.store(value.1, &mut self.im[block][lanes]);
    }
}

/// A real row to be written from a swapped transform, each number times a scale (a power of two: exact).
struct RowMut<'a> {
    row: &'a mut [[f32; 2 * BLOCK]],
    scale: f32,
}

impl Sink for RowMut<'_> {
    #[inline(always)]
    fn put<S: Simd>(&mut self, simd: S, block: usize, part: usize, (im, re): Pair<S>) {
        let scale = simd.splat(self.scale);
        let (low, high) = simd.zip(simd.mul(re, scale), simd.mul(im, scale));
        let (to_low, to_high) = self.row[block][2 * part * S::LANES..][..2 * S::LANES].split_at_mut(S::LANES);
        simd.store(low, to_low);
        simd.store(high, to_high);
    }
}

/// Scratch memory of a transform: the stages read from one buffer and write to the other, alternately.
#[derive(Clone, Debug)]
pub struct Scratch {
    here: Split,
    there: Split,
}

impl Scratch {
    /// Room for transforms of `n` complex numbers.
    pub fn new(n: usize) -> Scratch {
        Scratch { here: Split::new(n), there: Split::new(n) }
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.here.bytes() + self.there.bytes()
    }
}

/// Transforms a real row: afterwards, `to` holds the spectrum of the row, packed as n complex numbers, in
/// natural order; index n repeats index 0.
pub struct Forward<'a> {
    /// Tables for rows of this length.
    pub tables: &'a Tables,
    /// The row.
    pub row: &'a [f32],
    /// Scratch memory.
    pub scratch: &'a mut Scratch,
    /// Where the spectrum goes.
    pub to: &'a mut Split,
}

impl Kernel for Forward<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Forward { tables, row, scratch, to } = self;
        let n = tables.n;
        stages(simd, tables, &Row(row.as_chunks().0), scratch, &mut PartsMut::of(to));
        (to.re[n], to.im[n]) = (to.re[0], to.im[0]);
    }
}

/// Transforms a spectrum back into a real row, each number times `scale`.
pub struct Back<'a> {
    /// Tables for rows of this length.
    pub tables: &'a Tables,
    /// The spectrum of the row, packed as n complex numbers.
    pub from: &'a Split,
    /// Scratch memory.
    pub scratch: &'a mut Scratch,
    /// The row.
    pub row: &'a mut [f32],
    /// Scale factor, a power of two.
    pub scale: f32,
}

impl Kernel for Back<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Back { tables, from, scratch, row, scale } = self;
        let row = row.as_chunks_mut().0;
        stages(simd, tables, &Parts::exchanged(from), scratch, &mut RowMut { row, scale });
    }
}

#[inline(always)]
fn stages<S: Simd>(simd: S, tables: &Tables, from: &impl Source, scratch: &mut Scratch, to: &mut impl Sink) {
    let Scratch { here, there } = scratch;
    let (mut here, mut there) = (here, there);
    spread::<S, false>(simd, &tables.first, from, here);
    spread::<S, true>(simd, &tables.second, &Parts::of(here), there);
    for stage in &tables.later {
        std::mem::swap(&mut here, &mut there);
        run_stage(simd, stage, &Parts::of(here), &mut PartsMut::of(there));
    }
    let blocks = tables.n / BLOCK;
    if tables.last_is_two {
        last_two(simd, blocks / 2, &Parts::of(there), to);
    } else {
        last_four(simd, blocks / 4, &Parts::of(there), to);
    }
}

/// A stage of stride 1 or, with `FOURS`, 4: the four legs of an index end up side by side.
#[inline(always)]
fn spread<S: Simd, const FOURS: bool>(simd: S, turns: &[BlockTurns], from: &impl Source, to: &mut Split) {
    let quarter = turns.len();
    let (to_re, to_im) = (to.re.as_chunks_mut::<64>().0, to.im.as_chunks_mut::<64>().0);
    for (block, ((turns, re), im)) in turns.iter().zip(to_re).zip(to_im).enumerate() {
        for part in 0..BLOCK / S::LANES {
            let legs = butterfly(simd, four(simd, from, block, quarter, part));
            let [a, b, c, d] = turned(simd, legs, loaded(simd, turns, part));
            interleave::<S, FOURS>(
                simd,
                [a.0, b.0, c.0, d.0],
                &mut re[4 * part * S::LANES..][..4 * S::LANES],
            );
            interleave::<S, FOURS>(
                simd,
                [a.1, b.1, c.1, d.1],
                &mut im[4 * part * S::LANES..][..4 * S::LANES],
            );
        }
    }
}

/// The four legs that start at `block`.
#[inline(always)]
fn four<S: Simd>(simd: S, from: &impl Source, block: usize, quarter: usize, part: usize) -> [Pair<S>; 4] {
    // Written out, here and below: a closure in `array::map` is not always inlined, and is then not compiled
    // for the SIMD level.
    [
        from.at(simd, block, part),
        from.at(simd, block + quarter, part),
        from.at(simd, block + 2 * quarter, part),
        from.at(simd, block + 3 * quarter, part),
    ]
}

/// Three twiddle factors for each lane of a part.
#[inline(always)]
fn loaded<S: Simd>(simd: S, turns: &BlockTurns, part: usize) -> [S::V; 6] {
    let lanes = part * S::LANES..(part + 1) * S::LANES;
    let [a, b, c, d, e, f] = turns;
    [
        simd.load(&a[lanes.clone()]),
        simd.load(&b[lanes.clone()]),
        simd.load(&c[lanes.clone()]),
        simd.load(&d[lanes.clone()]),
        simd.load(&e[lanes.clone()]),
        simd.load(&f[lanes]),
    ]
}

/// The same three twiddle factors in all lanes.
#[inline(always)]
fn splat<S: Simd>(simd: S, [a, b, c, d, e, f]: [f32; 6]) -> [S::V; 6] {
    [simd.splat(a), simd.splat(b), simd.splat(c), simd.splat(d), simd.splat(e), simd.splat(f)]
}

/// Writes a0 b0 c0 d0 a1 ..., one lane or four lanes at a time.
#[inline(always)]
fn interleave<S: Simd, const FOURS: bool>(simd: S, legs: [S::V; 4], to: &mut [f32]) {
    let even = zip::<S, FOURS>(simd, legs[0], legs[2]);
    let odd = zip::<S, FOURS>(simd, legs[1], legs[3]);
    let (first, second) = (zip::<S, FOURS>(simd, even.0, odd.0), zip::<S, FOURS>(simd, even.1, odd.1));
    let (low, high) = to.split_at_mut(2 * S::LANES);
    let (low, high) = (low.split_at_mut(S::LANES), high.split_at_mut(S::LANES));
    simd.store(first.0, low.0);
    simd.store(first.1, low.1);
    simd.store(second.0, high.0);
    simd.store(second.1, high.1);
}

#[inline(always)]
fn zip<S: Simd, const FOURS: bool>(simd: S, a: S::V, b: S::V) -> (S::V, S::V) {
    if FOURS { simd.zip_fours(a, b) } else { simd.zip(a, b) }
}

/// A stage whose stride is a whole number of blocks.
#[inline(always)]
fn run_stage<S: Simd>(simd: S, stage: &Later, from: &Parts, to: &mut PartsMut) {
    let (run, quarter) = (stage.run, stage.run * stage.turns.len());
    for (sub, turns) in stage.turns.iter().enumerate() {
        let turns = splat(simd, *turns);
        for block in 0..run {
            for part in 0..BLOCK / S::LANES {
                let legs = four(simd, from, sub * run + block, quarter, part);
                let legs = turned(simd, butterfly(simd, legs), turns);
                put_four(simd, to, 4 * sub * run + block, run, part, legs);
            }
        }
    }
}

#[inline(always)]
fn put_four<S: Simd>(
    simd: S,
    to: &mut impl Sink,
    block: usize,
    apart: usize,
    part: usize,
    [a, b, c, d]: [Pair<S>; 4],
) {
    to.put(simd, block, part, a);
    to.put(simd, block + apart, part, b);
    to.put(simd, block + 2 * apart, part, c);
    to.put(simd, block + 3 * apart, part, d);
}

#[inline(always)]
fn last_four<S: Simd>(simd: S, quarter: usize, from: &Parts, to: &mut impl Sink) {
    for block in 0..quarter {
        for part in 0..BLOCK / S::LANES {
            let legs = four(simd, from, block, quarter, part);
            put_four(simd, to, block, quarter, part, butterfly(simd, legs));
        }
    }
}

#[inline(always)]
fn last_two<S: Simd>(simd: S, half: usize, from: &Parts, to: &mut impl Sink) {
    for block in 0..half {
        for part in 0..BLOCK / S::LANES {
            let (a, b) = (from.at(simd, block, part), from.at(simd, block + half, part));
            to.put(simd, block, part, plus(simd, a, b));
            to.put(simd, block + half, part, minus(simd, a, b));
        }
    }
}

/// The transform of four numbers.
#[inline(always)]
fn butterfly<S: Simd>(simd: S, [a, b, c, d]: [Pair<S>; 4]) -> [Pair<S>; 4] {
    let (ac, bd) = (plus(simd, a, c), plus(simd, b, d));
    let (a_c, b_d) = (minus(simd, a, c), minus(simd, b, d));
    // -i (x + iy) = y - ix
    let second = (simd.add(a_c.0, b_d.1), simd.sub(a_c.1, b_d.0));
    let fourth = (simd.sub(a_c.0, b_d.1), simd.add(a_c.1, b_d.0));
    [plus(simd, ac, bd), second, minus(simd, ac, bd), fourth]
}

#[inline(always)]
fn plus<S: Simd>(simd: S, x: Pair<S>, y: Pair<S>) -> Pair<S> {
    (simd.add(x.0, y.0), simd.add(x.1, y.1))
}

#[inline(always)]
fn minus<S: Simd>(simd: S, x: Pair<S>, y: Pair<S>) -> Pair<S> {
    (simd.sub(x.0, y.0), simd.sub(x.1, y.1))
}

/// Multiplies all legs but the first by their twiddle factors.
#[inline(always)]
fn turned<S: Simd>(simd: S, [a, b, c, d]: [Pair<S>; 4], t: [S::V; 6]) -> [Pair<S>; 4] {
    [a, times(simd, b, (t[0], t[1])), times(simd, c, (t[2], t[3])), times(simd, d, (t[4], t[5]))]
}

/// x w: re = fma(-x_im, w_im, x_re w_re), im = fma(x_im, w_re, x_re w_im).
#[inline(always)]
pub fn times<S: Simd>(simd: S, x: Pair<S>, w: Pair<S>) -> Pair<S> {
    (simd.fused_less(x.1, w.1, simd.mul(x.0, w.0)), simd.fused(x.1, w.0, simd.mul(x.0, w.1)))
}
