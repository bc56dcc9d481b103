/// Step 8: mean, standard deviation, largest |u| and mean square of all cells, into the ring.
///
/// Launch: grid (CHANNELS, 1, robots), block 256, the last launch of a cycle; returns at once if metrics are
/// not due and launch.number is 0. Shared memory: 1.4 KiB. A thread adds up its cells (at most 1024, on a
/// grid of 64 per axis) in f32; the threads' sums are added in f64. The block that arrives last fetches the
/// channels' sums, one thread per channel, and combines them in channel order. The counter of arrivals is an
/// integer, and no result depends on which block is last.
#include "arithmetic.cuh"

constexpr unsigned METRIC_THREADS = 256;

template <class Cell> __device__ inline void measure(const Cell* cells, unsigned count, float sums[3]) {
  for (unsigned i = threadIdx.x * 4; i < count; i += blockDim.x * 4) {
    const float4 u = load(cells + i);
    sums[0] += (u.x + u.y) + (u.z + u.w);
    sums[1] += (u.x * u.x + u.y * u.y) + (u.z * u.z + u.w * u.w);
    sums[2] = fmaxf(fmaxf(fmaxf(sums[2], fabsf(u.x)), fmaxf(fabsf(u.y), fabsf(u.z))), fabsf(u.w));
  }
}

/// The sums of all channels, fetched in parallel and added by one thread in the channels' order.
struct Fetched {
  double sum[CHANNELS], square[CHANNELS];
  float most[CHANNELS];
};

__device__ inline void write_metric(const Brain& brain, const Fetched& of, double cells) {
  Metrics& metrics = *brain.metrics;
  double sum = 0.0, square = 0.0;
  float most = 0.0f;
#pragma unroll 4
  for (unsigned c = 0; c < CHANNELS; c++) {
    sum += of.sum[c], square += of.square[c];
    most = fmaxf(most, of.most[c]);
  }
  const double mean = sum / cells, energy = square / cells;
  const Answer& answer = *brain.answer;
  metrics.ring[metrics.written % METRIC_RING] = {
      answer.cycle,
      static_cast<float>(mean),
      static_cast<float>(sqrt(fmax(energy - mean * mean, 0.0))),
      most,
      static_cast<float>(energy),
      answer.novelty,
      answer.skill,
      answer.confidence,
      0};
  metrics.written += 1;
  metrics.arrived = 0;
}

extern "C" __global__ void __launch_bounds__(METRIC_THREADS) metrics(const Brain* brains, Launch launch) {
  __shared__ double scratch[METRIC_THREADS / WARP];
  const Brain& brain = brains[blockIdx.z];
  const Cycle& cycle = *brain.cycle;
  if (!cycle.metrics_due && launch.number == 0) return;
  Metrics& metrics = *brain.metrics;
  const unsigned channel = blockIdx.x, group = channel / GROUP;
  const unsigned n = brain.rule->grid / (cycle.on_half ? 2 : 1), cells = n * n * n;
  const void* kept = brain.cells[cycle.on_half][(cycle.front[group] + cycle.count[group]) % 2][group];
  const unsigned long long first = static_cast<unsigned long long>(channel % GROUP) * cells;
  float sums[3] = {0.0f, 0.0f, 0.0f};
  if (brain.rule->half_groups >> group & 1) {
    measure(static_cast<const unsigned short*>(kept) + first, cells, sums);
  } else {
    measure(static_cast<const float*>(kept) + first, cells, sums);
  }
  const double sum = block_sum(static_cast<double>(sums[0]), scratch);
  const double square = block_sum(static_cast<double>(sums[1]), scratch);
  float most = sums[2];
  for (unsigned step = WARP / 2; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(ALL, most, step));
  __syncthreads();
  if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = most;
  __syncthreads();
  __shared__ bool last;
  if (threadIdx.x == 0) {
    for (unsigned warp = 0; warp < blockDim.x / WARP; warp++) most = fmaxf(most, static_cast<float>(scratch[warp]));
    metrics.sum[channel] = sum;
    metrics.square[channel] = square;
    metrics.most[channel] = most;
    __threadfence(); // the sums are visible before the arrival is counted
    last = atomicAdd(&metrics.arrived, 1u) == CHANNELS - 1;
    __threadfence(); // and the other sums are read after it
  }
  __syncthreads();
  if (!last) return;
  __shared__ Fetched fetched;
  if (threadIdx.x < CHANNELS) {
    fetched.sum[threadIdx.x] = metrics.sum[threadIdx.x];
    fetched.square[threadIdx.x] = metrics.square[threadIdx.x];
    fetched.most[threadIdx.x] = metrics.most[threadIdx.x];
  }
  __syncthreads();
  if (threadIdx.x == 0) write_metric(brain, fetched, static_cast<double>(CHANNELS) * cells);
}
