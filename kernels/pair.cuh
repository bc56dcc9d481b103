/// Numbers made of two floats: nearly the precision of f64, on chips that have few f64 units (an Orin or a
/// GeForce adds 64 floats, or one double, in the same time).
///
/// A pair is the sum of its two numbers; `low` is at most half an ulp of `high`, so that a pair has about 48
/// bits. The products and sums whose rounding errors are computed must each round once: they use the
/// intrinsics that no compiler may fuse. Knuth, "The Art of Computer Programming", volume 2, 4.2.2; Dekker,
/// "A floating-point technique for extending the available precision", Numer. Math. 18, 1971.
#pragma once
#include "arithmetic.cuh"

struct Pair {
  float high, low;
};

/// A double's bits, split: value = top x 2^-23 x unit + rest x 2^-52 x unit, with 24 and 29 bits.
struct Parts {
  unsigned top, rest;
  float unit; // with the sign; 0 for magnitudes below 2^-100, which have no effect on a field
};
__device__ inline Parts parts_of(double value) {
  const unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(value));
  const unsigned exponent = static_cast<unsigned>(bits >> 52) & 2047u;
  const unsigned sign = static_cast<unsigned>(bits >> 63) << 31;
  const unsigned long long digits = (bits & 0xfffffffffffffull) | 1ull << 52;
  const unsigned unit = exponent < 1023 - 100 ? 0 : (exponent - 1023 + 127) << 23;
  return {static_cast<unsigned>(digits >> 29), static_cast<unsigned>(digits) & 0x1fffffffu,
          __uint_as_float(sign | unit)};
}

/// The nearest float, ties to even, as a conversion would return. For magnitudes from 2^-100 up to 2^127.
__device__ inline float narrow(double value) {
  const Parts parts = parts_of(value);
  const unsigned half = 1u << 28;
  const bool up = parts.rest > half || (parts.rest == half && (parts.top & 1));
  return static_cast<float>(parts.top + up) * (1.0f / (1u << 23)) * parts.unit;
}

/// `value` as a pair, rounded to 48 bits.
__device__ inline Pair pair_of(double value) {
  const Parts parts = parts_of(value);
  const float high = static_cast<float>(parts.top) * (1.0f / (1u << 23)) * parts.unit;
  const float low = static_cast<float>(parts.rest) * (1.0f / (1u << 29)) * (parts.unit * (1.0f / (1u << 23)));
  const float sum = __fadd_rn(high, low);
  return {sum, __fsub_rn(low, __fsub_rn(sum, high))};
}
__device__ inline Pair pair_of(float value) { return {value, 0.0f}; }

/// a + b, with a relative error of at most 2^-46 if both have the same sign.
__device__ inline Pair operator+(Pair a, Pair b) {
  const float sum = __fadd_rn(a.high, b.high), part = __fsub_rn(sum, a.high);
  const float miss = __fadd_rn(__fsub_rn(a.high, __fsub_rn(sum, part)), __fsub_rn(b.high, part));
  const float low = __fadd_rn(miss, __fadd_rn(a.low, b.low)), high = __fadd_rn(sum, low);
  return {high, __fsub_rn(low, __fsub_rn(high, sum))};
}

/// value^2.
__device__ inline Pair squared(Pair value) {
  const float square = __fmul_rn(value.high, value.high);
  const float miss = __fmaf_rn(value.high, value.high, -square);
  const float low = __fmaf_rn(2.0f * value.high, value.low, miss), high = __fadd_rn(square, low);
  return {high, __fsub_rn(low, __fsub_rn(high, square))};
}

/// The square root: one Newton step from the square root of `high`.
__device__ inline Pair root(Pair value) {
  if (!(value.high > 0.0f)) return {0.0f, 0.0f};
  const float guess = __fsqrt_rn(value.high);
  const float left = __fadd_rn(__fmaf_rn(-guess, guess, value.high), value.low);
  const float low = __fdiv_rn(left, 2.0f * guess), high = __fadd_rn(guess, low);
  return {high, __fsub_rn(low, __fsub_rn(high, guess))};
}

/// a / b as a float: the exact quotient rounded, or the adjacent float where the quotient is within 2^-44 of
/// the midpoint between them.
__device__ inline float quotient_of(Pair a, Pair b) {
  const float guess = __fdiv_rn(a.high, b.high);
  const float left = __fmaf_rn(-guess, b.high, a.high);
  const float rest = __fadd_rn(left, __fmaf_rn(-guess, b.low, a.low));
  return __fadd_rn(guess, __fdiv_rn(rest, b.high));
}

__device__ inline bool below(Pair a, Pair b) { return a.high < b.high || (a.high == b.high && a.low < b.low); }

/// Sum over a block of at most 32 warps, the same in all threads, in an order that depends on the block's
/// size only.
__device__ inline Pair block_sum(Pair value, Pair* scratch) {
  for (unsigned step = WARP / 2; step > 0; step /= 2) {
    value = value + Pair{__shfl_xor_sync(ALL, value.high, step), __shfl_xor_sync(ALL, value.low, step)};
  }
  __syncthreads(); // all threads have read the previous sum
  if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = value;
  __syncthreads();
  Pair sum = {0.0f, 0.0f};
#pragma unroll 1
  for (unsigned warp = 0; warp < blockDim.x / WARP; warp++) sum = sum + scratch[warp];
  return sum;
}
