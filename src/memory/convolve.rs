//! Circular convolution and correlation of real rows by `fft`, in one pass over both spectra: untangle,
//! multiply, tangle again. Order of arithmetic: `docs/memory.md`. This module knows nothing about stores,
//! norms or errors.

use super::fft::{BLOCK, Back, Forward, Pair, Scratch, Split, Tables, times};
use crate::system::cpu::simd::{Kernel, Level, Simd};

/// How the second factor is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// As it is: circular convolution.
    Itself,
    /// As its involution: circular correlation.
    Involution,
}

/// The tables and scratch memory of a convolution.
#[derive(Clone, Debug)]
pub struct Convolver {
    level: Level,
    tables: Tables,
    scratch: Scratch,
    a: Split,
    b: Split,
}

impl Convolver {
    /// A convolver for rows of `d` numbers (see [`Tables::new`]).
    pub fn new(d: usize, level: Level) -> Convolver {
        let tables = Tables::new(d);
        let n = tables.n();
        Convolver { scratch: Scratch::new(n), a: Split::new(n), b: Split::new(n), tables, level }
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.tables.bytes() + self.scratch.bytes() + self.a.bytes() + self.b.bytes()
    }

    /// Sets the second factor of the following calls of [`Convolver::convolve`].
    pub fn take_factor(&mut self, b: &[f32]) {
        let Convolver { tables, scratch, b: to, .. } = self;
        self.level.run(Forward { tables, row: b, scratch, to });
    }

    /// The convolution of `a` with the factor.
    pub fn convolve(&mut self, row: &[f32], factor: Factor, to: &mut [f32]) {
        let Convolver { level, tables, scratch, a, b } = self;
        level.run(Forward { tables, row, scratch, to: a });
        match factor {
            Factor::Itself => level.run(Multiply::<false> { tables, a, b }),
            Factor::Involution => level.run(Multiply::<true> { tables, a, b }),
        }
        // Both spectra are doubled, and `tangle` doubles their product again: a factor of 8. The inverse
        // transform multiplies by n.
        let scale = 1.0 / (4 * tables.d()) as f32;
        level.run(Back { tables, from: a, scratch, row: to, scale });
    }
}

/// The values at index k and at index n - k.
type Both<S> = (Pair<S>, Pair<S>);

/// Twice the real row's spectrum at k and n - k, from the spectrum of the row packed as complex numbers.
#[inline(always)]
fn untangle<S: Simd>(simd: S, (z, y): Both<S>, w: Pair<S>) -> Both<S> {
    let even = (simd.add(z.0, y.0), simd.sub(z.1, y.1));
    let odd = (simd.add(z.1, y.1), simd.sub(y.0, z.0)); // -i times the difference
    let low = (simd.fused(w.0, odd.0, even.0), simd.fused(w.0, odd.1, even.1));
    let high = (simd.fused_less(w.0, odd.0, even.0), simd.fused_less(w.0, odd.1, even.1));
    let low = (simd.fused_less(w.1, odd.1, low.0), simd.fused(w.1, odd.0, low.1));
    let high = (simd.fused(w.1, odd.1, high.0), simd.fused_less(w.1, odd.0, high.1));
    (low, conjugate(simd, high))
}

/// The inverse of `untangle`, doubled too: twice the spectrum of the packed row, from that of the real row.
#[inline(always)]
fn tangle<S: Simd>(simd: S, (p, q): Both<S>, w: Pair<S>) -> Both<S> {
    let even = (simd.add(p.0, q.0), simd.sub(p.1, q.1));
    let gap = (simd.sub(p.0, q.0), simd.add(p.1, q.1));
    // i conj(w) gap = (w_im gap_re - w_re gap_im, w_re gap_re + w_im gap_im)
    let low = (simd.fused_less(w.0, gap.1, even.0), simd.fused(w.0, gap.0, even.1));
    let high = (simd.fused(w.0, gap.1, even.0), simd.fused_less(w.0, gap.0, even.1));
    let low = (simd.fused(w.1, gap.0, low.0), simd.fused(w.1, gap.1, low.1));
    let high = (simd.fused_less(w.1, gap.0, high.0), simd.fused_less(w.1, gap.1, high.1));
    (low, conjugate(simd, high))
}

#[inline(always)]
fn conjugate<S: Simd>(simd: S, x: Pair<S>) -> Pair<S> {
    (x.0, simd.sub(simd.splat(0.0), x.1))
}

/// The product of `a` and `b`, or of `a` and the conjugate of `b`.
#[inline(always)]
fn product<S: Simd, const CONJUGATE: bool>(simd: S, a: Pair<S>, b: Pair<S>) -> Pair<S> {
    if CONJUGATE {
        (simd.fused(a.1, b.1, simd.mul(a.0, b.0)), simd.fused_less(a.0, b.1, simd.mul(a.1, b.0)))
    } else {
        times(simd, a, b)
    }
}

/// Replaces `a` with 8 times the spectrum of the result row, packed as complex numbers.
struct Multiply<'a, const CONJUGATE: bool> {
    tables: &'a Tables,
    a: &'a mut Split,
    b: &'a Split,
}

impl<const CONJUGATE: bool> Kernel for Multiply<'_, CONJUGATE> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        multiply::<S, CONJUGATE>(simd, self.tables, self.a, self.b);
    }
}

#[inline(always)]
fn multiply<S: Simd, const CONJUGATE: bool>(simd: S, tables: &Tables, a: &mut Split, b: &Split) {
    let n = tables.n();
    for (block, w) in tables.half().iter().enumerate() {
        let (low, high) = (block * BLOCK, n - block * BLOCK - (BLOCK - 1));
        for part in 0..BLOCK / S::LANES {
            let near = low + part * S::LANES;
            // The values at n - k for k from `near` on, in reverse order: the register that ends at n - near.
            let far = high + (BLOCK - (part + 1) * S::LANES);
            let lanes = part * S::LANES..(part + 1) * S::LANES;
            let w = (simd.load(&w[0][lanes.clone()]), simd.load(&w[1][lanes]));
            let x = untangle(simd, pick(simd, a, near, far), w);
            let y = untangle(simd, pick(simd, b, near, far), w);
            let p = product::<S, CONJUGATE>(simd, x.0, y.0);
            let q = product::<S, CONJUGATE>(simd, x.1, y.1);
            let (z, y) = tangle(simd, (p, q), w);
            simd.store(z.0, &mut a.re[near..near + S::LANES]);
            simd.store(z.1, &mut a.im[near..near + S::LANES]);
            simd.store(simd.reverse(y.0), &mut a.re[far..far + S::LANES]);
            simd.store(simd.reverse(y.1), &mut a.im[far..far + S::LANES]);
        }
    }
    middle::<CONJUGATE>(n / 2, a, b);
}

#[inline(always)]
fn pick<S: Simd>(simd: S, from: &Split, near: usize, far: usize) -> Both<S> {
    let near = near..near + S::LANES;
    let far = far..far + S::LANES;
    let z = (simd.load(&from.re[near.clone()]), simd.load(&from.im[near]));
    let y = (simd.load(&from.re[far.clone()]), simd.load(&from.im[far]));
    (z, (simd.reverse(y.0), simd.reverse(y.1)))
}

/// Index n/2, which is its own counterpart and has the twiddle factor -i. Its four sums are exact doublings.
/// Each part of the product is a rounded product and a fused multiply-add, as for every other index.
#[inline(always)]
fn middle<const CONJUGATE: bool>(at: usize, a: &mut Split, b: &Split) {
    let (x, y) = ((2.0 * a.re[at], 2.0 * a.im[at]), (2.0 * b.re[at], 2.0 * b.im[at]));
    let y = if CONJUGATE { (y.0, -y.1) } else { y };
    a.re[at] = 2.0 * libm::fmaf(-x.1, y.1, x.0 * y.0);
    a.im[at] = 2.0 * libm::fmaf(x.1, y.0, x.0 * y.1);
}
