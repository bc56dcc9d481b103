//! AVX2 and AVX-512. The intrinsics on values are safe inside functions that have the features; those on
//! memory take pointers, and the length of the slice is checked first.

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
    /// Checks the processor.
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
    /// Checks the processor.
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
                // SAFETY: `self` is the proof that the processor has the instructions; nothing but registers
                // is touched.
                unsafe { $body }
            }
        )*
    };
}

/// Operations on two values that return two.
macro_rules! pairs {
    ($(fn $name:ident($a:ident, $b:ident) = $body:expr;)*) => {
        $(
            #[inline(always)]
            fn $name(self, $a: Self::V, $b: Self::V) -> (Self::V, Self::V) {
                // SAFETY: `self` is the proof that the processor has the instructions; nothing but registers
                // is touched.
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
        // SAFETY: the slice has eight f32; the instruction needs no alignment.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn load_half(self, from: &[Half]) -> __m256 {
        assert!(from.len() == Self::LANES);
        // SAFETY: the slice has eight halves, 16 bytes (`Half` is a transparent u16).
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_i16(self, from: &[i16]) -> __m256 {
        assert!(from.len() == Self::LANES);
        // SAFETY: the slice has eight i16, 16 bytes.
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

    pairs! {
        // unpack works within 128-bit lanes, which are put in order afterwards.
        fn zip(a, b) = {
            let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            (_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high))
        };
        fn unzip(a, b) = {
            let (even, odd) = (_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xdd>(a, b));
            // a0 a2 b0 b2 a4 a6 b4 b6: the second and third pairs swap places.
            let even = _mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(even));
            let odd = _mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(odd));
            (_mm256_castpd_ps(even), _mm256_castpd_ps(odd))
        };
        fn zip_fours(a, b) =
            (_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b));
    }

    values! {
        fn splat(x: f32) = _mm256_set1_ps(x);
        fn fused(a: __m256, b: __m256, c: __m256) = _mm256_fmadd_ps(a, b, c);
        fn fused_less(a: __m256, b: __m256, c: __m256) = _mm256_fnmadd_ps(a, b, c);
        fn reverse(v: __m256) = _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
        fn add(a: __m256, b: __m256) = _mm256_add_ps(a, b);
        fn sub(a: __m256, b: __m256) = _mm256_sub_ps(a, b);
        fn mul(a: __m256, b: __m256) = _mm256_mul_ps(a, b);
        fn div(a: __m256, b: __m256) = _mm256_div_ps(a, b);
        fn fma(a: __m256, b: __m256, c: __m256) = _mm256_fmadd_ps(a, b, c);
        fn min(a: __m256, b: __m256) = _mm256_min_ps(a, b);
        fn max(a: __m256, b: __m256) = _mm256_max_ps(a, b);
        fn abs(a: __m256) = _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
        // alignr works within 128-bit lanes, so `middle` is the upper half of `before`, then the lower half
        // of `v`.
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
        // SAFETY: the slice has sixteen f32; the instruction needs no alignment.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn load_half(self, from: &[Half]) -> __m512 {
        assert!(from.len() == Self::LANES);
        // SAFETY: the slice has sixteen halves, 32 bytes (`Half` is a transparent u16).
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_i16(self, from: &[i16]) -> __m512 {
        assert!(from.len() == Self::LANES);
        // SAFETY: the slice has sixteen i16, 32 bytes.
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
        // No lower limit: below -60, `scale` returns less than 2^-60, down to 0. Added to 1, that gives the
        // same sum as 2^-60.
        let y = self.min(y, self.splat(MOST_EXPONENT));
        let n = self.whole(y);
        (self.sub(y, n), n)
    }

    pairs! {
        fn zip(a, b) = {
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            (_mm512_permutex2var_ps(a, low, b), _mm512_permutex2var_ps(a, high, b))
        };
        fn unzip(a, b) = {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            (_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b))
        };
        fn zip_fours(a, b) = {
            let low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
            let high = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
            (_mm512_permutex2var_ps(a, low, b), _mm512_permutex2var_ps(a, high, b))
        };
    }

    values! {
        fn splat(x: f32) = _mm512_set1_ps(x);
        fn fused(a: __m512, b: __m512, c: __m512) = _mm512_fmadd_ps(a, b, c);
        fn fused_less(a: __m512, b: __m512, c: __m512) = _mm512_fnmadd_ps(a, b, c);
        fn reverse(v: __m512) =
            _mm512_permutexvar_ps(_mm512_setr_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), v);
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
        // The nearest integer, ties to even.
        fn whole(y: __m512) = _mm512_roundscale_ps::<0>(y);
    }
}
