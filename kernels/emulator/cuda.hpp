/// The part of the CUDA device language that the kernels use, as C++17 on one processor core.
///
/// A CUDA thread is a fiber. It runs until it waits at a barrier or in an exchange between the lanes
/// of its warp; then the next lane runs, then the next warp. A warp runs alone until it waits at a
/// block barrier, so that warps drift as far apart as the barriers allow: this schedule reveals a
/// missing barrier. In reverse order the last lane, warp and block come first. A result that depends
/// on the order is a race, and a kernel that could hang a GPU ends here with a message.
///
/// Not supported: grid-wide barriers, exchanges that leave lanes out, textures, tensor cores.
#pragma once
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "switch.hpp"

#define GANGLION_EMULATOR 1
#define __device__
#define __host__
#define __global__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __shared__ static // one block at a time

struct uint3 { unsigned x, y, z; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) short4 { short x, y, z, w; };
struct alignas(8) ushort4 { unsigned short x, y, z, w; };

inline uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {

constexpr unsigned LANES = 32;
constexpr unsigned MOST_THREADS = 1024;
/// Stack of a fiber: kernels need a few hundred bytes; a system call in a debugger needs 64 KiB.
constexpr std::size_t STACK = 64 * 1024;

/// Ends a launch that would crash a GPU: exits the process, unless the host installs another handler.
[[noreturn]] inline void end_process() { std::exit(70); }
inline void (*end_launch)() = end_process;

[[noreturn]] inline void refuse(const char* what) {
  std::fprintf(stderr, "emulator: block (%u, %u, %u), thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z,
               threadIdx.x, what);
  end_launch();
  std::abort(); // never reached: the launch has ended
}

enum class State : unsigned char { Ready, InExchange, AtBarrier, Done };
enum class Exchange : unsigned char { None, Shuffle, Ballot, Sync };

struct Fiber {
  void* stack_at = nullptr; // its stack pointer while it does not run
  unsigned exchanges = 0;   // number of exchanges that it has taken part in
  bool begun = false;
  std::unique_ptr<char[]> stack;
};

struct Warp {
  std::uint64_t offered[2][LANES]; // alternating: a lane may be one exchange ahead of another
  unsigned arrived;                // lanes that wait in the exchange
  Exchange kind;                   // set by the first of them
};

struct Block {
  std::vector<Fiber> fibers = std::vector<Fiber>(MOST_THREADS);
  std::vector<Warp> warps = std::vector<Warp>(MOST_THREADS / LANES);
  State states[MOST_THREADS];
  unsigned threads = 0;
  bool reversed = false;
  void* scheduler = nullptr; // its stack pointer while a fiber runs
  void (*kernel)(void*) = nullptr;
  void* arguments = nullptr;
};
inline Block block;

/// Lane, warp or block `i` of `count` in the order of this launch.
inline unsigned in_order(unsigned i, unsigned count) { return block.reversed ? count - 1 - i : i; }

/// Switches from a fiber (or the scheduler) to the next ready lane of the warp, from place `i` of the order
/// on, or to the scheduler if there is none.
inline void go_on(void** from, unsigned warp, unsigned i) {
  for (; i < LANES; i++) {
    const unsigned thread = warp * LANES + in_order(i, LANES);
    if (block.states[thread] != State::Ready) continue;
    threadIdx.x = thread;
    return ganglion_emulator_switch(from, block.fibers[thread].stack_at);
  }
  if (from != &block.scheduler) ganglion_emulator_switch(from, block.scheduler);
}

/// Called by a fiber: lets the others run. Lanes switch directly to each other, which takes half as many
/// switches as through the scheduler.
inline void wait(State state) {
  const unsigned thread = threadIdx.x;
  block.states[thread] = state;
  go_on(&block.fibers[thread].stack_at, thread / LANES, in_order(thread % LANES, LANES) + 1);
}

/// The main loop of a fiber: one kernel after another.
[[noreturn]] inline void live() {
  for (;;) {
    block.kernel(block.arguments);
    wait(State::Done);
  }
}

/// Makes a stack for the fiber and prepares it to enter `live`.
inline void begin(Fiber& fiber, unsigned thread) {
  if (!fiber.stack) fiber.stack = std::make_unique<char[]>(STACK);
  fiber.begun = true;
  // Stacks begin at different offsets in a page: at equal offsets, lanes would evict each other from the cache.
  auto top = reinterpret_cast<std::uintptr_t>(fiber.stack.get()) + STACK - thread % LANES * 192;
  fiber.stack_at = first_stack(top / 16 * 16, live);
}

/// Called after a launch that did not finish, so that no fiber continues where it was.
inline void abandon() {
  for (Fiber& fiber : block.fibers) fiber.begun = false;
}

/// Ends an exchange that all lanes have reached; false if there is none.
inline bool end_exchange(unsigned warp) {
  Warp& it = block.warps[warp];
  if (it.arrived == 0) return false;
  if (it.arrived != LANES) refuse("an exchange waits for lanes that are elsewhere");
  it.arrived = 0;
  std::memset(&block.states[warp * LANES], static_cast<int>(State::Ready), LANES);
  return true;
}

inline void run_block() {
  const unsigned warps = block.threads / LANES;
  std::memset(block.states, static_cast<int>(State::Ready), block.threads);
  for (unsigned thread = 0; thread < block.threads; thread++) block.fibers[thread].exchanges = 0;
  for (unsigned warp = 0; warp < warps; warp++) block.warps[warp].arrived = 0;
  for (bool left = true; left;) {
    for (unsigned i = 0; i < warps; i++) {
      const unsigned warp = in_order(i, warps);
      do go_on(&block.scheduler, warp, 0);
      while (end_exchange(warp));
    }
    left = false;
    for (unsigned thread = 0; thread < block.threads; thread++) {
      const bool done = block.states[thread] == State::Done;
      block.states[thread] = done ? State::Done : State::Ready;
      left |= !done;
    }
  }
}

/// Number of launches so far: serves as the device's clock when runs are compared bit by bit. The stand-in has a
/// real clock.
inline unsigned long long launched = 0;
inline unsigned long long (*device_clock)() = [] { return launched; };

/// Runs a kernel over a grid, one block after another.
inline void launch(uint3 grid, unsigned threads, bool reversed, void (*kernel)(void*), void* arguments) {
  launched++;
  if (threads == 0 || threads > MOST_THREADS || threads % LANES != 0) refuse("a block has 32 to 1024 threads, in whole warps");
  block.threads = threads;
  block.reversed = reversed;
  block.kernel = kernel;
  block.arguments = arguments;
  for (unsigned thread = 0; thread < threads; thread++) {
    if (!block.fibers[thread].begun) begin(block.fibers[thread], thread);
  }
  gridDim = grid;
  blockDim = {threads, 1, 1};
  const unsigned blocks = grid.x * grid.y * grid.z;
  for (unsigned i = 0; i < blocks; i++) {
    const unsigned index = in_order(i, blocks);
    blockIdx = {index % grid.x, index / grid.x % grid.y, index / grid.x / grid.y};
    run_block();
  }
}

/// Offers `value` to the lanes of the warp; returns what they offered.
inline const std::uint64_t* exchange(Exchange kind, unsigned mask, std::uint64_t value) {
  if (mask != 0xffffffffu) refuse("an exchange that leaves lanes out");
  const unsigned thread = threadIdx.x;
  Warp& warp = block.warps[thread / LANES];
  if (warp.arrived++ == 0) warp.kind = kind;
  if (warp.kind != kind) refuse("lanes of one warp are in different exchanges");
  std::uint64_t* offered = warp.offered[block.fibers[thread].exchanges++ % 2];
  offered[thread % LANES] = value;
  wait(State::InExchange);
  return offered;
}

template <class Number> Number shuffle(unsigned mask, Number value, unsigned lane) {
  static_assert(sizeof(Number) <= sizeof(std::uint64_t), "at most eight bytes");
  std::uint64_t raw = 0;
  std::memcpy(&raw, &value, sizeof value);
  const std::uint64_t* offered = exchange(Exchange::Shuffle, mask, raw);
  if (lane < LANES) std::memcpy(&value, &offered[lane], sizeof value);
  return value;
}

/// IEEE 754 binary16, rounded to nearest, ties to even.
inline float from_half(unsigned short bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 0    ? std::ldexp(static_cast<float>(fraction), -24)
                     : exponent == 31 ? (fraction ? NAN : INFINITY)
                                      : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return bits & 0x8000 ? -size : size;
}
inline unsigned short to_half(float value) {
  const unsigned sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<unsigned short>(sign | 0x7e00);
  const float size = std::fabs(value);
  if (size >= 65520.0f) return static_cast<unsigned short>(sign | 0x7c00);
  if (size < 6.103515625e-5f) return static_cast<unsigned short>(sign | static_cast<unsigned>(std::nearbyint(size * 16777216.0f)));
  int exponent;
  const float fraction = std::frexp(size, &exponent); // in [0.5, 1)
  // Rounding up to 2048 carries into the exponent.
  const unsigned digits = static_cast<unsigned>(std::nearbyint(fraction * 2048.0f));
  return static_cast<unsigned short>(sign | ((static_cast<unsigned>(exponent + 13) << 10) + digits));
}


} // namespace emulator

inline void __syncthreads() { emulator::wait(emulator::State::AtBarrier); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulator::exchange(emulator::Exchange::Sync, mask, 0); }
inline void __threadfence() {}
inline void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }
template <class Number> Number __shfl_xor_sync(unsigned mask, Number value, unsigned lanes) {
  return emulator::shuffle(mask, value, threadIdx.x % emulator::LANES ^ lanes);
}
template <class Number> Number __shfl_up_sync(unsigned mask, Number value, unsigned lanes) {
  return emulator::shuffle(mask, value, threadIdx.x % emulator::LANES - lanes); // a negative lane becomes one beyond the warp
}
template <class Number> Number __shfl_down_sync(unsigned mask, Number value, unsigned lanes) {
  return emulator::shuffle(mask, value, threadIdx.x % emulator::LANES + lanes);
}
inline unsigned __ballot_sync(unsigned mask, bool says) {
  const std::uint64_t* offered = emulator::exchange(emulator::Exchange::Ballot, mask, says);
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < emulator::LANES; lane++) ballot |= static_cast<unsigned>(offered[lane]) << lane;
  return ballot;
}
template <class Number> Number __shfl_sync(unsigned mask, Number value, unsigned lane) {
  return emulator::shuffle(mask, value, lane % emulator::LANES);
}
/// Each rounds once: the emulator is compiled without contraction.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline long long __double_as_longlong(double value) {
  long long bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline double __longlong_as_double(long long bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __dp4a(int a, int b, int sum) {
  for (int byte = 0; byte < 4; byte++) sum += static_cast<std::int8_t>(a >> 8 * byte) * static_cast<std::int8_t>(b >> 8 * byte);
  return sum;
}
inline unsigned atomicAdd(unsigned* to, unsigned value) { return *to += value, *to - value; }
