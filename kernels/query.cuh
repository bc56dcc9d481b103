/// The query that the bank's rows are compared with, made once a cycle: by the last block of `features` from
/// the descriptor, by `experience` from the descriptor in its input.
///
/// The descriptor is f64. Its length and the quotients are pairs of floats, so that the query equals the one
/// computed in f64, except that one number in a million may be the adjacent float; every engine compares with
/// its own query, so the five nearest are exact either way.
#pragma once
#include "pair.cuh"

/// The floor of a length (NORM_FLOOR) as a pair.
__device__ inline Pair length_floor() {
  constexpr float HIGH = static_cast<float>(NORM_FLOOR);
  constexpr float LOW = static_cast<float>(NORM_FLOOR - static_cast<double>(HIGH));
  return {HIGH, LOW};
}
/// Rounds up a length that was summed in f32. The sum has at most 16 squares per thread, 5 additions between
/// lanes and 31 between warps, each off by at most 2^-24 of the sum, and the root halves the relative error:
/// 2e-6. The length is raised by five times that.
constexpr float ROUNDED_UP = 1.00001f;

/// Working memory of a block that makes a query.
struct QueryScratch {
  Pair pairs[32];
  float floats[32];
};

/// A whole number from -127 to 127, the nearest to value / scale.
__device__ inline int in_steps(float value, float scale) {
  const float steps = scale > 0.0f ? value / scale : 0.0f;
  return static_cast<int>(steps + (steps < 0.0f ? -0.5f : 0.5f));
}

__device__ inline float block_most(float value, float* scratch) {
  for (unsigned step = WARP / 2; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(ALL, value, step));
  __syncthreads();
  if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = value;
  __syncthreads();
#pragma unroll 1
  for (unsigned warp = 0; warp < blockDim.x / WARP; warp++) value = fmaxf(value, scratch[warp]);
  return value;
}

/// Scales the descriptor to unit length (it stays shorter if it is too short to have a direction), and writes
/// it as numbers and as bytes. Run by a whole block of at least 32 threads; a thread reads only the numbers
/// that it wrote.
template <class Number>
__device__ inline void make_query(Query& query, const Number* descriptor, QueryScratch& scratch) {
  Pair square = {0.0f, 0.0f};
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < DESCRIPTOR; i += blockDim.x) square = square + squared(pair_of(descriptor[i]));
  const Pair length = root(block_sum(square, scratch.pairs));
  const bool is_short = below(length, length_floor());
  const Pair divisor = is_short ? length_floor() : length;
  float most = 0.0f;
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < DESCRIPTOR; i += blockDim.x) {
    const float exact = quotient_of(pair_of(descriptor[i]), divisor);
    query.exact[i] = exact;
    most = fmaxf(most, fabsf(exact));
  }
  const float scale = block_most(most, scratch.floats) / 127.0f;
  float off = 0.0f;
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < DESCRIPTOR; i += blockDim.x) {
    const float exact = query.exact[i];
    const int steps = in_steps(exact, scale);
    query.bytes[i] = static_cast<signed char>(steps);
    const float miss = __fmaf_rn(-scale, static_cast<float>(steps), exact); // rounds once
    off += miss * miss;
  }
  off = block_sum(off, scratch.floats);
  if (threadIdx.x == 0) {
    query.scale = scale;
    query.error = __fsqrt_rn(off) * ROUNDED_UP;
    query.points = !is_short;
  }
}
