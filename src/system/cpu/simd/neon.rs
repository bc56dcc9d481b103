//! NEON, on 64-bit ARM. Stable Rust lacks its half-precision conversions, so halves use the portable ones.

use super::Kernel;
use super::lanes::{Half, MOST_EXPONENT, Simd, TO_WHOLE};
use core::arch::aarch64::*;

const LANES: usize = 4;

/// Proof of NEON.
#[derive(Clone, Copy, Debug)]
pub struct Neon(());

impl Neon {
    /// Checks the processor.
    pub fn detect() -> Option<Neon> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }

    /// Runs `kernel`, compiled for these instructions.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "neon")]
        fn compiled<K: Kernel>(simd: Neon, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` exists only where `detect` has found NEON.
        unsafe { compiled(self, kernel) }
    }
}

/// Operations on values alone: each is one expression of intrinsics.
macro_rules! values {
    ($(fn $name:ident($($arg:ident: $type:ty),*) = $body:expr;)*) => {
        $(
            #[inline(always)]
            fn $name(self, $($arg: $type),*) -> float32x4_t {
                // SAFETY: `self` is the proof that the processor has NEON; nothing but registers is touched.
                unsafe { $body }
            }
        )*
    };
}

impl Simd for Neon {
    type V = float32x4_t;
    const LANES: usize = LANES;

    #[inline(always)]
    fn load(self, from: &[f32]) -> float32x4_t {
        assert!(from.len() == LANES);
        // SAFETY: the slice has four f32; the instruction needs only their alignment.
        unsafe { vld1q_f32(from.as_ptr()) }
    }
    #[inline(always)]
    fn load_half(self, from: &[Half]) -> float32x4_t {
        assert!(from.len() == LANES);
        self.load(&[from[0].to_f32(), from[1].to_f32(), from[2].to_f32(), from[3].to_f32()])
    }
    #[inline(always)]
    fn load_i16(self, from: &[i16]) -> float32x4_t {
        assert!(from.len() == LANES);
        // SAFETY: the slice has four i16.
        unsafe { vcvtq_f32_s32(vmovl_s16(vld1_s16(from.as_ptr()))) }
    }
    #[inline(always)]
    fn store(self, v: float32x4_t, to: &mut [f32]) {
        assert!(to.len() == LANES);
        // SAFETY: there is room for four f32.
        unsafe { vst1q_f32(to.as_mut_ptr(), v) }
    }
    #[inline(always)]
    fn store_half(self, v: float32x4_t, to: &mut [Half]) {
        assert!(to.len() == LANES);
        let mut wide = [0.0; LANES];
        self.store(v, &mut wide);
        to.copy_from_slice(&wide.map(Half::from_f32));
    }

    #[inline(always)]
    fn split(self, y: float32x4_t) -> (float32x4_t, float32x4_t) {
        let y = self.max(self.min(y, self.splat(MOST_EXPONENT)), self.splat(-MOST_EXPONENT));
        let n = self.add(y, self.splat(TO_WHOLE));
        (self.sub(y, self.sub(n, self.splat(TO_WHOLE))), n)
    }

    #[inline(always)]
    fn zip(self, a: float32x4_t, b: float32x4_t) -> (float32x4_t, float32x4_t) {
        // SAFETY: `self` is the proof that the processor has NEON; nothing but registers is touched.
        unsafe { (vzip1q_f32(a, b), vzip2q_f32(a, b)) }
    }
    #[inline(always)]
    fn unzip(self, a: float32x4_t, b: float32x4_t) -> (float32x4_t, float32x4_t) {
        // SAFETY: as for `zip`.
        unsafe { (vuzp1q_f32(a, b), vuzp2q_f32(a, b)) }
    }
    #[inline(always)]
    fn zip_fours(self, a: float32x4_t, b: float32x4_t) -> (float32x4_t, float32x4_t) {
        (a, b)
    }

    values! {
        fn splat(x: f32) = vdupq_n_f32(x);
        fn add(a: float32x4_t, b: float32x4_t) = vaddq_f32(a, b);
        fn sub(a: float32x4_t, b: float32x4_t) = vsubq_f32(a, b);
        fn mul(a: float32x4_t, b: float32x4_t) = vmulq_f32(a, b);
        fn div(a: float32x4_t, b: float32x4_t) = vdivq_f32(a, b);
        fn fma(a: float32x4_t, b: float32x4_t, c: float32x4_t) = vfmaq_f32(c, a, b);
        fn fused(a: float32x4_t, b: float32x4_t, c: float32x4_t) = vfmaq_f32(c, a, b);
        fn fused_less(a: float32x4_t, b: float32x4_t, c: float32x4_t) = vfmsq_f32(c, a, b);
        fn reverse(v: float32x4_t) = {
            let pairs = vrev64q_f32(v);
            vextq_f32::<2>(pairs, pairs)
        };
        fn min(a: float32x4_t, b: float32x4_t) = vminq_f32(a, b);
        fn max(a: float32x4_t, b: float32x4_t) = vmaxq_f32(a, b);
        fn abs(a: float32x4_t) = vabsq_f32(a);
        fn west(before: float32x4_t, v: float32x4_t) = vextq_f32::<3>(before, v);
        fn east(v: float32x4_t, after: float32x4_t) = vextq_f32::<1>(v, after);
        fn first(v: float32x4_t) = vdupq_laneq_f32::<0>(v);
        fn last(v: float32x4_t) = vdupq_laneq_f32::<3>(v);
        fn scale(p: float32x4_t, shifted: float32x4_t) = {
            let exponent = vshlq_n_s32::<23>(vreinterpretq_s32_f32(shifted));
            vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), exponent))
        };
    }
}
