//! Four lanes in plain Rust: correct on every processor, and the reference for the others.

use super::lanes::{Half, MOST_EXPONENT, Simd, TO_WHOLE};

const LANES: usize = 4;

/// Needs no proof: every processor has it.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

#[inline(always)]
fn array<T: Copy>(from: &[T]) -> [T; LANES] {
    assert!(from.len() == LANES);
    [from[0], from[1], from[2], from[3]]
}

#[inline(always)]
fn two(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])]
}

impl Simd for Portable {
    type V = [f32; LANES];
    const LANES: usize = LANES;

    #[inline(always)]
    fn splat(self, x: f32) -> [f32; LANES] {
        [x; LANES]
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> [f32; LANES] {
        array(from)
    }
    #[inline(always)]
    fn load_half(self, from: &[Half]) -> [f32; LANES] {
        array(from).map(Half::to_f32)
    }
    #[inline(always)]
    fn load_i16(self, from: &[i16]) -> [f32; LANES] {
        array(from).map(f32::from)
    }
    #[inline(always)]
    fn store(self, v: [f32; LANES], to: &mut [f32]) {
        assert!(to.len() == LANES);
        to.copy_from_slice(&v);
    }
    #[inline(always)]
    fn store_half(self, v: [f32; LANES], to: &mut [Half]) {
        assert!(to.len() == LANES);
        to.copy_from_slice(&v.map(Half::from_f32));
    }
    #[inline(always)]
    fn add(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        two(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        two(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        two(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        two(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: [f32; LANES], b: [f32; LANES], c: [f32; LANES]) -> [f32; LANES] {
        two(two(a, b, |a, b| a * b), c, |ab, c| ab + c)
    }
    #[inline(always)]
    fn min(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        two(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn max(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        two(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn abs(self, a: [f32; LANES]) -> [f32; LANES] {
        a.map(f32::abs)
    }
    #[inline(always)]
    fn west(self, before: [f32; LANES], v: [f32; LANES]) -> [f32; LANES] {
        [before[3], v[0], v[1], v[2]]
    }
    #[inline(always)]
    fn east(self, v: [f32; LANES], after: [f32; LANES]) -> [f32; LANES] {
        [v[1], v[2], v[3], after[0]]
    }
    #[inline(always)]
    fn first(self, v: [f32; LANES]) -> [f32; LANES] {
        [v[0]; LANES]
    }
    #[inline(always)]
    fn last(self, v: [f32; LANES]) -> [f32; LANES] {
        [v[3]; LANES]
    }
    #[inline(always)]
    fn fused(self, a: [f32; LANES], b: [f32; LANES], c: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|lane| a[lane].mul_add(b[lane], c[lane]))
    }
    #[inline(always)]
    fn fused_less(self, a: [f32; LANES], b: [f32; LANES], c: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|lane| (-a[lane]).mul_add(b[lane], c[lane]))
    }
    #[inline(always)]
    fn zip(self, a: [f32; LANES], b: [f32; LANES]) -> ([f32; LANES], [f32; LANES]) {
        ([a[0], b[0], a[1], b[1]], [a[2], b[2], a[3], b[3]])
    }
    #[inline(always)]
    fn unzip(self, a: [f32; LANES], b: [f32; LANES]) -> ([f32; LANES], [f32; LANES]) {
        ([a[0], a[2], b[0], b[2]], [a[1], a[3], b[1], b[3]])
    }
    #[inline(always)]
    fn zip_fours(self, a: [f32; LANES], b: [f32; LANES]) -> ([f32; LANES], [f32; LANES]) {
        (a, b)
    }
    #[inline(always)]
    fn reverse(self, v: [f32; LANES]) -> [f32; LANES] {
        [v[3], v[2], v[1], v[0]]
    }
    #[inline(always)]
    fn split(self, y: [f32; LANES]) -> ([f32; LANES], [f32; LANES]) {
        let y = self.max(self.min(y, self.splat(MOST_EXPONENT)), self.splat(-MOST_EXPONENT));
        let n = self.add(y, self.splat(TO_WHOLE));
        (self.sub(y, self.sub(n, self.splat(TO_WHOLE))), n)
    }
    #[inline(always)]
    fn scale(self, p: [f32; LANES], shifted: [f32; LANES]) -> [f32; LANES] {
        two(p, shifted, |p, n| f32::from_bits(p.to_bits().wrapping_add(n.to_bits() << 23)))
    }
}
