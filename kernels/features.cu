/// Step 4: context, descriptor and gradients from the sums that the last sub-step left.
///
/// Launch: grid (BLOCK_COUNT, GROUPS + 1, robots), block: one thread per cell of a spatial block, but at
/// least 32 and at most 128 threads (then four cells per thread on a grid of 32 per axis). A block of threads
/// computes the descriptor entry of one spatial block of one group. The first eight blocks of a group also
/// compute the mean of one channel each; in content groups, every block also computes the Sobel derivatives
/// of its cells. The block that arrives last makes the bank's query from the whole descriptor (query.cuh): a
/// separate launch would cost more than the query itself. The blocks after the last group do the second half
/// of learning (learn.cuh). Shared memory: half a KiB.
///
/// launch.planes_or_tasks has the same value as for evolve. The features of groups that did not step are
/// computed from their old sums.
#include "learn.cuh"
#include "query.cuh"

constexpr unsigned FEATURE_THREADS = 128;

/// Sobel derivatives times 32 at one cell of a volume of n^3: [-1 0 1] along the axis, [1 2 1] along the
/// other two; a cell outside the grid has the value of the nearest one inside.
__device__ inline void sobel(const float* volume, unsigned n, unsigned x, unsigned y, unsigned z, float slope[3]) {
  const unsigned west = x > 0 ? x - 1 : 0, east = x + 1 < n ? x + 1 : x;
  slope[0] = slope[1] = slope[2] = 0.0f;
#pragma unroll
  for (int k = -1; k <= 1; k++) {
    const unsigned at_z = k < 0 ? (z > 0 ? z - 1 : 0) : k > 0 ? (z + 1 < n ? z + 1 : z) : z;
#pragma unroll
    for (int j = -1; j <= 1; j++) {
      const unsigned at_y = j < 0 ? (y > 0 ? y - 1 : 0) : j > 0 ? (y + 1 < n ? y + 1 : y) : y;
      const float* row = volume + (at_z * n + at_y) * n;
      const float across = row[west] + 2.0f * row[x] + row[east];
      const float weight_y = j == 0 ? 2.0f : 1.0f, weight_z = k == 0 ? 2.0f : 1.0f;
      slope[0] += weight_y * weight_z * (row[east] - row[west]);
      slope[1] += static_cast<float>(j) * weight_z * across;
      slope[2] += static_cast<float>(k) * weight_y * across;
    }
  }
}

/// 1 / count, exactly: counts of cells are powers of two. A division would take ten f64 instructions in each
/// of 512 blocks.
__device__ inline double one_over(unsigned count) {
  return __longlong_as_double(static_cast<long long>(1023 - (__ffs(static_cast<int>(count)) - 1)) << 52);
}

/// Mean derivative and mean magnitude along each axis in one spatial block.
__device__ inline void gradients(const Brain& brain, unsigned n, unsigned block, unsigned group) {
  __shared__ float scratch[FEATURE_THREADS / WARP][6];
  const unsigned side = n / BLOCKS, cells = side * side * side;
  const float* volume = brain.group_sums + static_cast<unsigned long long>(group) * n * n * n;
  float sums[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < cells; i += blockDim.x) {
    const unsigned x = block % BLOCKS * side + i % side;
    const unsigned y = block / BLOCKS % BLOCKS * side + i / side % side;
    const unsigned z = block / COLUMNS * side + i / (side * side);
    float slope[3];
    sobel(volume, n, x, y, z, slope);
    for (unsigned axis = 0; axis < 3; axis++) {
      sums[2 * axis] += slope[axis];
      sums[2 * axis + 1] += fabsf(slope[axis]);
    }
  }
  // Each warp first adds up its parts of all six sums, so that one barrier is enough; six block sums in turn
  // would need twelve.
  for (unsigned i = 0; i < 6; i++) sums[i] = lanes_sum(sums[i]);
  if (threadIdx.x % WARP == 0) {
    for (unsigned i = 0; i < 6; i++) scratch[threadIdx.x / WARP][i] = sums[i];
  }
  __syncthreads();
  if (threadIdx.x >= 6) return;
  float sum = 0.0f;
  for (unsigned warp = 0; warp < blockDim.x / WARP; warp++) sum += scratch[warp][threadIdx.x];
  // The sums are over eight channels, and of derivatives times 32. A feature is the slope per cell of the
  // whole grid; a cell of the half grid is two of these wide.
  const float width = brain.cycle->on_half ? 2.0f : 1.0f;
  const float scale = 1.0f / (32.0f * GROUP * width * static_cast<float>(cells));
  brain.features[CHANNELS + DESCRIPTOR + (group * 6 + threadIdx.x) * BLOCK_COUNT + block] = scale * sum;
}

/// Sum of `count` floats that lie `stride` apart, by one warp in an order that depends on `count` only.
__device__ inline double strided_sum(const float* first, unsigned count, unsigned stride) {
  double sum = 0.0;
  for (unsigned i = threadIdx.x % WARP; i < count; i += WARP) sum += static_cast<double>(first[i * stride]);
  return lanes_sum(sum);
}

extern "C" __global__ void __launch_bounds__(FEATURE_THREADS) features(const Brain* brains, Launch launch) {
  const Brain& brain = brains[blockIdx.z];
  const unsigned n = brain.rule->grid / (brain.cycle->on_half ? 2 : 1);
  const unsigned side = n / BLOCKS, block = blockIdx.x, group = blockIdx.y, lane = threadIdx.x % WARP;
  if (group == GROUPS) {
    const unsigned warps = blockDim.x / WARP;
    learn_apply(brain, block * warps + threadIdx.x / WARP, gridDim.x * warps);
    return;
  }
  About& about = *brain.about;
  if (threadIdx.x < WARP) {
    const unsigned slabs = side / launch.planes_or_tasks, first = block / COLUMNS * slabs;
    const float* sums = brain.block_sums + (first * GROUPS + group) * COLUMNS + block % COLUMNS;
    const double sum = strided_sum(sums, slabs, GROUPS * COLUMNS);
    if (lane == 0) {
      const unsigned index = group * BLOCK_COUNT + block;
      const double mean = sum * one_over(GROUP * side * side * side);
      brain.features[CHANNELS + index] = static_cast<float>(mean);
      about.descriptor[index] = mean - about.rest_descriptor[index];
    }
  }
  if (threadIdx.x >= blockDim.x - WARP && block < GROUP) { // the last warp, which is the first if there is only one
    const unsigned channel = group * GROUP + block;
    const double sum = strided_sum(brain.channel_sums + channel, n / launch.planes_or_tasks, CHANNELS);
    if (lane == 0) {
      const double mean = sum * one_over(n * n * n);
      brain.features[channel] = static_cast<float>(mean);
      about.context[channel] = mean - about.rest_context[channel];
    }
  }
  if (group < CONTENT_GROUPS) gradients(brain, n, block, group);

  __shared__ QueryScratch scratch;
  __shared__ bool last;
  if (threadIdx.x == 0) {
    __threadfence(); // the entry is visible before the arrival is counted
    last = atomicAdd(&about.query.arrived, 1u) == BLOCK_COUNT * GROUPS - 1;
    __threadfence(); // and the other entries are read after it
  }
  __syncthreads();
  if (!last) return;
  make_query(about.query, about.descriptor, scratch);
  if (threadIdx.x == 0) about.query.arrived = 0;
}
