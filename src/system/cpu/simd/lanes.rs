//! The operations of every kind of vector. An operation acts on each lane separately unless stated otherwise.

/// An IEEE 754 binary16 number, as bits: how a cell is stored in half precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Half(pub u16);

impl Half {
    /// The value, exact.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        // 2^112 moves the exponent from binary16's bias to binary32's; it converts subnormal halves correctly
        // too.
        let magnitude = f32::from_bits(u32::from(self.0 & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
        f32::from_bits(magnitude.to_bits() | u32::from(self.0 & 0x8000) << 16)
    }

    /// The half nearest to `value`, ties to even; |value| below 65,504.
    #[inline(always)]
    pub fn from_f32(value: f32) -> Half {
        let magnitude = value.abs();
        // Below 2^-14 a half has a fixed step of 2^-24. Adding 0.5 in f32 rounds to that step, because f32
        // has the same step at 0.5.
        let small = (magnitude + 0.5).to_bits() - 0.5_f32.to_bits();
        let bits = magnitude.to_bits();
        let odd = bits >> 13 & 1;
        let normal = (bits.wrapping_sub(0x3800_0000).wrapping_add(0x0fff + odd)) >> 13;
        let half = if magnitude < 6.103_515_6e-5 { small } else { normal };
        Half(half as u16 | (value.to_bits() >> 16 & 0x8000) as u16)
    }
}

/// The proof that a processor has the instructions, and the operations that they provide.
///
/// # Panics
/// Loads and stores panic if the slice is not exactly [`LANES`](Simd::LANES) long (known at compile time in
/// all kernels).
pub trait Simd: Copy + Send + 'static {
    /// A register of `LANES` f32.
    type V: Copy;
    /// Number of f32 in a register.
    const LANES: usize;

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::V;
    /// Loads the numbers of a slice.
    fn load(self, from: &[f32]) -> Self::V;
    /// Loads halves, converted to f32.
    fn load_half(self, from: &[Half]) -> Self::V;
    /// Loads integers, converted to f32.
    fn load_i16(self, from: &[i16]) -> Self::V;
    /// Stores the lanes in a slice.
    fn store(self, v: Self::V, to: &mut [f32]);
    /// Stores the lanes as halves, rounded to nearest, ties to even; |v| below 65,504.
    fn store_half(self, v: Self::V, to: &mut [Half]);

    /// a + b
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// a - b
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// a b
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// a / b, correctly rounded.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// a b + c, in one rounding where the level fuses.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// a b + c in one rounding at every level, the portable one too (where it is slow).
    fn fused(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// c - a b in one rounding at every level, the portable one too.
    fn fused_less(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The smaller of the two; neither is NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// The larger of the two; neither is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// |a|
    fn abs(self, a: Self::V) -> Self::V;

    /// Lane i of the result is lane i - 1 of `v`; lane 0 is the last lane of `before`.
    fn west(self, before: Self::V, v: Self::V) -> Self::V;
    /// Lane i of the result is lane i + 1 of `v`; the last lane is lane 0 of `after`.
    fn east(self, v: Self::V, after: Self::V) -> Self::V;
    /// Lane 0 in every lane.
    fn first(self, v: Self::V) -> Self::V;
    /// The last lane in every lane.
    fn last(self, v: Self::V) -> Self::V;

    /// The lanes of both, interleaved: the lower half and the upper half of the row a0 b0 a1 b1 ...
    fn zip(self, a: Self::V, b: Self::V) -> (Self::V, Self::V);
    /// The inverse of `zip`: the numbers at even indices and those at odd indices of the row
    /// a0 a1 ... b0 b1 ...
    fn unzip(self, a: Self::V, b: Self::V) -> (Self::V, Self::V);
    /// As `zip`, four lanes at a time; with four lanes that is (a, b).
    fn zip_fours(self, a: Self::V, b: Self::V) -> (Self::V, Self::V);
    /// The lanes in reverse order.
    fn reverse(self, v: Self::V) -> Self::V;

    /// Splits y, which is finite, into f + n: n is the nearest integer, in the form that
    /// [`scale`](Simd::scale) expects, and f is the remainder, -0.5..=0.5. Before that, y is clamped to at
    /// most 60 and, except with AVX-512, to at least -60.
    fn split(self, y: Self::V) -> (Self::V, Self::V);
    /// p 2^n, for p in 0.5..=2.
    fn scale(self, p: Self::V, n: Self::V) -> Self::V;
}

/// 1.5 x 2^23: adding a number within +-2^22 to this rounds it to an integer, which is then in the lowest
/// bits of the sum.
pub const TO_WHOLE: f32 = 12_582_912.0;
/// Largest |exponent| of a split (AVX-512: largest exponent). In f32, adding 1 to 2^60 changes nothing, nor
/// does adding 2^-60 to 1; the product of two such powers is still in range.
pub const MOST_EXPONENT: f32 = 60.0;
