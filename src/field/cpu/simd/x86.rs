//! AVX2 and AVX-512. The intrinsics on values are safe inside functions that have the features; those on
//! memory take pointers, each checked against its slice first.

use super::Kernel;
use super::lanes::{Half, MOST_EXPONENT, Simd, TO_WHOLE};
use core::arch::x86_64::*;

/// Proof of AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

/// Proof of AVX-512 F, BW, VL and DQ, and of all that [`Avx2`] proves.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx2 {
    /// Asks the processor.
    pub fn detect() -> Option<Avx2> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Avx2(()))
    }

    /// Runs `kernel`, compiled for these instructions.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn compiled<K: Kernel>(simd: Avx2, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` exists only where `detect` has found these features.
        unsafe { compiled(self, kernel) }
    }
}

impl Avx512 {
    /// Asks the processor.
    pub fn detect() -> Option<Avx512> {
        let has = Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq");
        has.then_some(Avx512(()))
    }

    /// Runs `kernel`, compiled for these instructions.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
        fn compiled<K: Kernel>(simd: Avx512, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` exists only where `detect` has found these features.
        unsafe { compiled(self, kernel) }
    }
}

/// Operations on values alone: each is one expression of intrinsics.
macro_rules! values {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) = $body:expr;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            fn $name(self, $($arg: $type),*) -> <Self as Simd>::V {
                // SAFETY: `self` is the proof that the processor has the instructions; nothing but registers is touched.
                unsafe { $body }
            }
        )*
    };
}

impl Simd for Avx2 {
    type V = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m256 {
        assert!(from.len() == Self::LANES);
        // SAFETY: eight f32 lie there; the instruction wants no alignment.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn load_half(self, from: &[Half]) -> __m256 {
        assert!(from.len() == Self::LANES);
        // SAFETY: eight halves, 16 bytes, lie there (`Half` is a transparent u16).
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_i16(self, from: &[i16]) -> __m256 {
        assert!(from.len() == Self::LANES);
        // SAFETY: eight i16, 16 bytes, lie there.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn store(self, v: __m256, to: &mut [f32]) {
        assert!(to.len() == Self::LANES);
        // SAFETY: there is room for eight f32.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), v) }
    }
    #[inline(always)]
    fn store_half(self, v: __m256, to: &mut [Half]) {
        assert!(to.len() == Self::LANES);
        // SAFETY: there is room for eight halves, 16 bytes.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
    }

    #[inline(always)]
    fn split(self, y: __m256) -> (__m256, __m256) {
        let y = self.max(self.min(y, self.splat(MOST_EXPONENT)), self.splat(-MOST_EXPONENT));
        let n = self.add(y, self.splat(TO_WHOLE));
        (self.sub(y, self.sub(n, self.splat(TO_WHOLE))), n)
    }

    values! {
        fn splat(x: f32) = _mm256_set1_ps(x);
        fn add(a: __m256, b: __m256) = _mm256_add_ps(a, b);
        fn sub(a: __m256, b: __m256) = _mm256_sub_ps(a, b);
        fn mul(a: __m256, b: __m256) = _mm256_mul_ps(a, b);
        fn div(a: __m256, b: __m256) = _mm256_div_ps(a, b);
        fn fma(a: __m256, b: __m256, c: __m256) = _mm256_fmadd_ps(a, b, c);
        fn min(a: __m256, b: __m256) = _mm256_min_ps(a, b);
        fn max(a: __m256, b: __m256) = _mm256_max_ps(a, b);
        fn abs(a: __m256) = _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
        // The middle holds the upper half of `before` and the lower of `v`; alignr works within halves.
        fn west(before: __m256, v: __m256) = {
            let (before, v) = (_mm256_castps_si256(before), _mm256_castps_si256(v));
            let middle = _mm256_permute2x128_si256::<0x21>(before, v);
            _mm256_castsi256_ps(_mm256_alignr_epi8::<12>(v, middle))
        };
        fn east(v: __m256, after: __m256) = {
            let (v, after) = (_mm256_castps_si256(v), _mm256_castps_si256(after));
            let middle = _mm256_permute2x128_si256::<0x21>(v, after);
            _mm256_castsi256_ps(_mm256_alignr_epi8::<4>(middle, v))
        };
        fn first(v: __m256) = _mm256_broadcastss_ps(_mm256_castps256_ps128(v));
        fn last(v: __m256) = _mm256_permutevar8x32_ps(v, _mm256_set1_epi32(7));
        fn scale(p: __m256, shifted: __m256) = {
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent))
        };
    }
}

impl Simd for Avx512 {
    type V = __m512;
    const LANES: usize = 16;

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m512 {
        assert!(from.len() == Self::LANES);
        // SAFETY: sixteen f32 lie there; the instruction wants no alignment.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn load_half(self, from: &[Half]) -> __m512 {
        assert!(from.len() == Self::LANES);
        // SAFETY: sixteen halves, 32 bytes, lie there (`Half` is a transparent u16).
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_i16(self, from: &[i16]) -> __m512 {
        assert!(from.len() == Self::LANES);
        // SAFETY: sixteen i16, 32 bytes, lie there.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn store(self, v: __m512, to: &mut [f32]) {
        assert!(to.len() == Self::LANES);
        // SAFETY: there is room for sixteen f32.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), v) }
    }
    #[inline(always)]
    fn store_half(self, v: __m512, to: &mut [Half]) {
        assert!(to.len() == Self::LANES);
        // SAFETY: there is room for sixteen halves, 32 bytes.
        unsafe {
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v))
        }
    }

    #[inline(always)]
    fn split(self, y: __m512) -> (__m512, __m512) {
        // Below the least exponent `scale` gives 0: beside the 1 that is added to it, as good as 2^-60.
        let y = self.min(y, self.splat(MOST_EXPONENT));
        let n = self.whole(y);
        (self.sub(y, n), n)
    }

    values! {
        fn splat(x: f32) = _mm512_set1_ps(x);
        fn add(a: __m512, b: __m512) = _mm512_add_ps(a, b);
        fn sub(a: __m512, b: __m512) = _mm512_sub_ps(a, b);
        fn mul(a: __m512, b: __m512) = _mm512_mul_ps(a, b);
        fn div(a: __m512, b: __m512) = _mm512_div_ps(a, b);
        fn fma(a: __m512, b: __m512, c: __m512) = _mm512_fmadd_ps(a, b, c);
        fn min(a: __m512, b: __m512) = _mm512_min_ps(a, b);
        fn max(a: __m512, b: __m512) = _mm512_max_ps(a, b);
        fn abs(a: __m512) = _mm512_abs_ps(a);
        fn west(before: __m512, v: __m512) = {
            let (before, v) = (_mm512_castps_si512(before), _mm512_castps_si512(v));
            _mm512_castsi512_ps(_mm512_alignr_epi32::<15>(v, before))
        };
        fn east(v: __m512, after: __m512) = {
            let (v, after) = (_mm512_castps_si512(v), _mm512_castps_si512(after));
            _mm512_castsi512_ps(_mm512_alignr_epi32::<1>(after, v))
        };
        fn first(v: __m512) = _mm512_broadcastss_ps(_mm512_castps512_ps128(v));
        fn last(v: __m512) = _mm512_permutexvar_ps(_mm512_set1_epi32(15), v);
        fn scale(p: __m512, n: __m512) = _mm512_scalef_ps(p, n);
    }
}

impl Avx512 {
    values! {
        // The nearest whole number, ties to even.
        fn whole(y: __m512) = _mm512_roundscale_ps::<0>(y);
    }
}
