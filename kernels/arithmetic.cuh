/// Numbers on the device: the two storage formats of a cell, tanh, and sums in a fixed order.
///
/// The only file that depends on the compiler: four functions are instructions on a GPU and plain C++ in
/// the emulator. Everything else is the same source.
#pragma once
#include "brain.cuh"

constexpr unsigned WARP = 32;
constexpr unsigned ALL = 0xffffffffu;
/// Threads per block of every kernel that does not set its own number, as in src/field/cuda/launches.rs.
constexpr unsigned BLOCK_THREADS = 256;
constexpr unsigned BLOCK_WARPS = BLOCK_THREADS / WARP;

#ifdef GANGLION_EMULATOR
__device__ inline float from_half(unsigned short bits) { return emulator::from_half(bits); }
__device__ inline unsigned short to_half(float value) { return emulator::to_half(value); }
__device__ inline float quotient(float a, float b) { return a / b; }
__device__ inline unsigned long long device_clock() { return emulator::device_clock(); }
#else
__device__ inline float from_half(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
__device__ inline unsigned short to_half(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
/// a / b within 2 units in the last place. It takes a third of the instructions of a correctly rounded
/// quotient.
__device__ inline float quotient(float a, float b) { return __fdividef(a, b); }
/// Nanoseconds. Its resolution depends on the chip: 32 ns to a microsecond.
__device__ inline unsigned long long device_clock() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
#endif

/// tanh(x) = x P(x^2) / Q(x^2) on [-9, 9], the minimax fit of src/field/cpu/tanh.rs, within 6e-7. The
/// coefficients are positive, so nothing cancels; at 9 an f32 tanh has reached 1.
__device__ inline float field_tanh(float x) {
  x = fminf(fmaxf(x, -9.0f), 9.0f);
  const float t = x * x;
  const float p =
      0.9999999f + t * (0.13373198f + t * (3.486582e-3f + t * (2.0471833e-5f + t * 1.3184226e-8f)));
  const float q = 1.0f + t * (0.46706495f + t * (2.584198e-2f + t * (3.2713856e-4f + t * 7.7026646e-7f)));
  return fminf(fmaxf(quotient(x * p, q), -1.0f), 1.0f);
}

__device__ inline double clamp(double value, double low, double high) { return fmin(fmax(value, low), high); }

/// Loads four adjacent cells from their storage format.
__device__ inline float4 load(const float* cells) { return *reinterpret_cast<const float4*>(cells); }
__device__ inline float4 load(const unsigned short* cells) {
  const ushort4 bits = *reinterpret_cast<const ushort4*>(cells);
  return {from_half(bits.x), from_half(bits.y), from_half(bits.z), from_half(bits.w)};
}
/// Stores four cells and returns their values as stored.
__device__ inline float4 store(float* cells, float4 value) {
  *reinterpret_cast<float4*>(cells) = value;
  return value;
}
__device__ inline float4 store(unsigned short* cells, float4 value) {
  const ushort4 bits = {to_half(value.x), to_half(value.y), to_half(value.z), to_half(value.w)};
  *reinterpret_cast<ushort4*>(cells) = bits;
  return {from_half(bits.x), from_half(bits.y), from_half(bits.z), from_half(bits.w)};
}
__device__ inline float one(const float* cell) { return *cell; }
__device__ inline float one(const unsigned short* cell) { return from_half(*cell); }
__device__ inline void put(float* cell, float value) { *cell = value; }
__device__ inline void put(unsigned short* cell, float value) { *cell = to_half(value); }

/// Sum over `width` neighbouring lanes (a power of two), with the same bits in each lane, because a butterfly
/// adds the same pairs in all lanes.
template <class Number> __device__ inline Number lanes_sum(Number value, unsigned width = WARP) {
  for (unsigned step = width / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
  return value;
}

/// Sum over a block of at most 32 warps, the same in all threads. `scratch` has one place per warp.
template <class Number> __device__ inline Number block_sum(Number value, Number* scratch) {
  const unsigned warps = blockDim.x / WARP;
  value = lanes_sum(value);
  __syncthreads(); // all threads have read the previous sum
  if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = value;
  __syncthreads();
  Number sum = 0;
#pragma unroll 1
  for (unsigned warp = 0; warp < warps; warp++) sum += scratch[warp];
  return sum;
}

/// A score as an integer with the same order, so that comparisons need no f64 unit; 0 for NO_ROW.
__device__ inline unsigned long long ordered(double score, unsigned index) {
  if (index == NO_ROW) return 0;
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(score + 0.0)); // -0 becomes 0
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}
/// Whether a comes before b: it is larger, or equal with the lower index. NO_ROW comes last.
__device__ inline bool before(unsigned long long ordered_a, unsigned a, unsigned long long ordered_b, unsigned b) {
  return ordered_a > ordered_b || (ordered_a == ordered_b && a < b);
}
__device__ inline bool before(double score_a, unsigned a, double score_b, unsigned b) {
  return before(ordered(score_a, a), a, ordered(score_b, b), b);
}

/// The best `COUNT` of the candidates offered, in any order; sorted best first.
template <unsigned COUNT> struct Best {
  double score[COUNT];
  unsigned index[COUNT];

  __device__ void clear() {
    for (unsigned place = 0; place < COUNT; place++) score[place] = -2.0, index[place] = NO_ROW;
  }
  __device__ void offer(double candidate, unsigned from) {
    // Most candidates are not among the best, and need only one comparison.
    if (!before(candidate, from, score[COUNT - 1], index[COUNT - 1])) return;
#pragma unroll
    for (unsigned place = 0; place < COUNT; place++) {
      if (before(candidate, from, score[place], index[place])) {
        const double other = score[place];
        const unsigned other_from = index[place];
        score[place] = candidate, index[place] = from;
        candidate = other, from = other_from;
      }
    }
  }
};

/// One warp writes the best `COUNT` of `length` matches, best first, to `best` in shared memory. Each round
/// ranks the best so far together with as many new matches as there are lanes left. No index may occur twice.
template <unsigned COUNT> __device__ inline void warp_best(const Match* matches, unsigned length, Match* best) {
  const unsigned lane = threadIdx.x % WARP;
  if (lane < COUNT) best[lane] = {-2.0, NO_ROW, 0};
  __syncwarp();
#pragma unroll 1
  for (unsigned first = 0; first < length; first += WARP - COUNT) {
    const unsigned at = first + lane - COUNT;
    const Match mine = lane < COUNT ? best[lane] : at < length ? matches[at] : Match{-2.0, NO_ROW, 0};
    const unsigned long long key = ordered(mine.cosine, mine.row);
    unsigned rank = 0;
#pragma unroll 8
    for (unsigned other = 0; other < WARP; other++) {
      const unsigned long long its = __shfl_sync(ALL, key, other);
      const unsigned row = __shfl_sync(ALL, mine.row, other);
      rank += before(its, row, key, mine.row);
    }
    __syncwarp(); // all lanes have read
    if (rank < COUNT && mine.row != NO_ROW) best[rank] = mine;
    __syncwarp();
  }
}
