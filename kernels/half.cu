/// Quality level 5: moves the field to the half grid and back. Launched once at each move, before the first
/// cycle on the other grid.
///
/// Launch: grid (CHANNELS, ceil((grid / 2)^3 / 256), robots), block 256: one thread per cell of the half grid
/// and its 2x2x2 cells of the whole grid. No shared memory. cycle.left names the buffer of the old grid,
/// cycle.front that of the new one. Both buffers keep the group's storage format.
///
/// On entry, a half cell becomes the mean of its whole cells, and the field on the whole grid is kept. On the
/// way back, each whole cell changes in place by as much as the mean of its 2x2x2 block has changed, and is
/// clamped to the bound.
#include "arithmetic.cuh"

constexpr unsigned HALF_THREADS = 256;

/// The positions of the eight cells of half cell `index` in a whole channel of n^3.
__device__ inline void eight_cells(unsigned index, unsigned n, unsigned at[8]) {
  const unsigned half = n / 2, x = index % half * 2, y = index / half % half * 2, z = index / half / half * 2;
  for (unsigned i = 0; i < 8; i++) at[i] = ((z + i / 4) * n + y + i / 2 % 2) * n + x + i % 2;
}

template <class Cell> __device__ inline float mean_of(const Cell* whole, const unsigned at[8]) {
  float sum = 0.0f;
  for (unsigned i = 0; i < 8; i++) sum += one(whole + at[i]);
  return 0.125f * sum;
}

template <class Cell>
__device__ inline void move_cell(const Cell* from, Cell* to, unsigned index, unsigned n, bool in, float bound) {
  unsigned at[8];
  eight_cells(index, n, at);
  if (in) {
    put(to + index, mean_of(from, at));
    return;
  }
  const float shift = one(from + index) - mean_of(to, at);
  for (unsigned i = 0; i < 8; i++) put(to + at[i], fminf(fmaxf(one(to + at[i]) + shift, -bound), bound));
}

__device__ inline void move_field(const Brain& brain, bool in) {
  const Rule& rule = *brain.rule;
  const unsigned n = rule.grid, group = blockIdx.x / GROUP, channel = blockIdx.x % GROUP;
  const unsigned index = blockIdx.y * HALF_THREADS + threadIdx.x, whole = n * n * n;
  if (index >= whole / 8) return;
  const void* from = brain.cells[in ? 0 : 1][brain.cycle->left[group]][group];
  void* to = brain.cells[in ? 1 : 0][brain.cycle->front[group]][group];
  const unsigned leaves = channel * (in ? whole : whole / 8), enters = channel * (in ? whole / 8 : whole);
  if (rule.half_groups >> group & 1) {
    move_cell(static_cast<const unsigned short*>(from) + leaves, static_cast<unsigned short*>(to) + enters, index, n,
              in, rule.half_reach);
  } else {
    move_cell(static_cast<const float*>(from) + leaves, static_cast<float*>(to) + enters, index, n, in, rule.reach);
  }
}

extern "C" __global__ void __launch_bounds__(HALF_THREADS) enter_half(const Brain* brains, Launch) {
  move_field(brains[blockIdx.z], true);
}
extern "C" __global__ void __launch_bounds__(HALF_THREADS) leave_half(const Brain* brains, Launch) {
  move_field(brains[blockIdx.z], false);
}
