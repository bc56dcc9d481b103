/// Steps 2 to 4: the drive, one sub-step, and the sums from which the features are computed, in one pass.
///
/// Launch: grid (planes of the grid in use / launch.planes_or_tasks, GROUPS, robots), block
/// evolve_threads(n), once per sub-step; launch.number counts the sub-steps from 0. A block handles one slab
/// of one group of channels. The blocks of a group that has no sub-step left return at once; but in the first
/// launch, a group with stale sums computes them again. launch.planes_or_tasks divides n / 4 (a slab lies in
/// one row of spatial blocks): 1 gives the most blocks and suits one robot on a large card; with more planes,
/// a block finds more of the neighbouring planes in its own cache.
///
/// Shared memory (static): amplitudes and sensors of at most 512 taps, 4 KiB; a plane of sums per team, 0.5
/// KiB at 4 cells per axis to 16 KiB at 64; sums, at most 0.5 KiB; the blend, 40 bytes.
///
/// A thread handles four cells along x, for all eight channels (or its team's share of them). The neighbours
/// along x come from the adjacent lanes, the others from the cache: a tile in shared memory would cost two
/// barriers per plane and channel for loads that hit the L1 cache anyway. The old and the new field are in
/// separate buffers, so that no cell is read after it was written. Nothing else as large as the field is
/// stored: where they are needed, the drive is computed from the felt sensors, and the blend from the stored
/// volumes. Every sum is added in an order that depends on the grid and on launch.planes_or_tasks only.
#include "pair.cuh"

/// Maximum number of threads per block. A thread needs at most 80 registers: three blocks of 256 threads fit
/// into a multiprocessor's 65536 registers, but only one block of 512.
constexpr unsigned MOST_THREADS = 256;
/// Threads of a team: together they cover a plane of cells, four cells each; on the largest grid in four
/// rounds.
__host__ __device__ constexpr unsigned team_threads(unsigned n) {
  return n * n / 4 < MOST_THREADS ? n * n / 4 : MOST_THREADS;
}
/// Teams of a block, each with its own channels: as many as fit, but no more than there are channels.
__host__ __device__ constexpr unsigned teams(unsigned n) {
  return MOST_THREADS / team_threads(n) < GROUP ? MOST_THREADS / team_threads(n) : GROUP;
}
__host__ __device__ constexpr unsigned evolve_threads(unsigned n) { return team_threads(n) * teams(n); }
/// Lanes of a warp that work on the same channel.
__host__ __device__ constexpr unsigned team_lanes(unsigned n) {
  return team_threads(n) < WARP ? team_threads(n) : WARP;
}

template <unsigned N> struct alignas(16) EvolveShared { // planes are read sixteen bytes at a time
  float amplitude[GROUP * MAX_SENSORS];
  unsigned sensor[GROUP * MAX_SENSORS];
  float plane[teams(N)][N * N];
  float channel[GROUP][team_threads(N) / team_lanes(N)];
  float column[COLUMNS];
  const short* volume[BLEND_TOP]; // volume of each blended pattern, on the grid in use
  float share[BLEND_TOP];   // weight of each, times the value of one step of a volume
  unsigned blended;
};

/// Numbers of a sub-step that all cells of a block share.
struct Step {
  float lambda, gamma, reach, bound, hold, take, own;
};

__device__ inline void add_scaled(float4& sum, float scale, float4 value) {
  sum.x += scale * value.x, sum.y += scale * value.y, sum.z += scale * value.z, sum.w += scale * value.w;
}

/// Four cells of each blended pattern, as stored; zeros outside the pattern channels.
struct Stored {
  short4 cells[BLEND_TOP];
};

/// Loads the cells of all patterns before any is used, so that the latencies of slow memory overlap.
template <unsigned N>
__device__ inline Stored stored_cells(const EvolveShared<N>& shared, bool is_pattern, unsigned at) {
  Stored stored;
#pragma unroll
  for (unsigned i = 0; i < BLEND_TOP; i++) {
    stored.cells[i] = {0, 0, 0, 0};
    if (is_pattern && i < shared.blended) {
      stored.cells[i] = *reinterpret_cast<const short4*>(shared.volume[i] + at);
    }
  }
  return stored;
}

/// The sum of the patterns' cells, each times its share.
template <unsigned N> __device__ inline float4 blended_cells(const EvolveShared<N>& shared, const Stored& stored) {
  float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (unsigned i = 0; i < BLEND_TOP; i++) {
    const short4 v = stored.cells[i];
    add_scaled(sum, shared.share[i], {float(v.x), float(v.y), float(v.z), float(v.w)});
  }
  return sum;
}

/// The drive `a` of the four cells from (x, y, z) on: bias and bumps.
template <unsigned N>
__device__ inline float4 drive_cells(const EvolveShared<N>& shared, const Brain& brain, unsigned group, unsigned c,
                                     unsigned x, unsigned y, unsigned z) {
  const float* profile = brain.wires[brain.cycle->on_half].profile;
  const unsigned* first = brain.taps.first + group * GROUP;
  const float bias = brain.taps.bias[group * GROUP + c];
  float4 drive = {bias, bias, bias, bias};
  const unsigned last = first[c + 1] - first[0];
#pragma unroll 1
  for (unsigned tap = first[c] - first[0]; tap < last; tap++) {
    const float* phi = profile + shared.sensor[tap] * 3 * N;
    add_scaled(drive, shared.amplitude[tap] * phi[2 * N + z] * phi[N + y], load(phi + x));
  }
  return drive;
}

/// One step of a cell: u' = hold u + take F, where F follows from the sum of the six neighbours, the drive
/// and the blend.
__device__ inline float cell_step(float u, float sides, float drive, float blended, const Step& step) {
  const float spread = u + step.lambda * (sides - 6.0f * u);
  const float goal = step.own * (step.reach * field_tanh(step.gamma * spread + drive)) + blended;
  return fminf(fmaxf(step.hold * u + step.take * goal, -step.bound), step.bound);
}

/// The sum of the six neighbours of each of four cells. A neighbour beyond the edge is replaced by the cell
/// itself.
template <unsigned N, class Cell>
__device__ inline float4 neighbours(const Cell* old, unsigned at, float4 u, unsigned x, unsigned y, unsigned z) {
  float4 sides = load(old + (z > 0 ? at - N * N : at));
  add_scaled(sides, 1.0f, load(old + (z + 1 < N ? at + N * N : at)));
  add_scaled(sides, 1.0f, load(old + (y > 0 ? at - N : at)));
  add_scaled(sides, 1.0f, load(old + (y + 1 < N ? at + N : at)));
  const float west = __shfl_up_sync(ALL, u.w, 1), east = __shfl_down_sync(ALL, u.x, 1);
  sides.x += (x > 0 ? west : u.x) + u.y;
  sides.y += u.x + u.z;
  sides.z += u.y + u.w;
  sides.w += u.z + (x + 4 < N ? east : u.w);
  return sides;
}

/// Finishes the sums of one plane: adds up the teams' planes, stores the result if `group_plane` is not null
/// (a content group), and adds it to the sums of the plane's spatial blocks, or starts these sums if `first`.
template <unsigned N> __device__ inline void gather(EvolveShared<N>& shared, float* group_plane, bool first) {
  constexpr unsigned SIDE = N / BLOCKS;
  __syncthreads();
#pragma unroll 1
  for (unsigned place = threadIdx.x; place < N * N / 4; place += evolve_threads(N)) {
    float4 sum = load(&shared.plane[0][place * 4]);
    for (unsigned other = 1; other < teams(N); other++) add_scaled(sum, 1.0f, load(&shared.plane[other][place * 4]));
    store(&shared.plane[0][place * 4], sum);
    if (group_plane) store(group_plane + place * 4, sum);
  }
  __syncthreads();
  const unsigned lane = threadIdx.x % WARP;
#pragma unroll 1
  for (unsigned column = threadIdx.x / WARP; column < COLUMNS; column += evolve_threads(N) / WARP) {
    const float* corner = &shared.plane[0][column / BLOCKS * SIDE * N + column % BLOCKS * SIDE];
    float part = 0.0f;
#pragma unroll 1
    for (unsigned i = lane; i < SIDE * SIDE; i += WARP) part += corner[i / SIDE * N + i % SIDE];
    part = lanes_sum(part);
    if (lane == 0) shared.column[column] = first ? part : shared.column[column] + part;
  }
  __syncthreads();
}

template <unsigned N, class Cell>
__device__ inline void evolve_slab(EvolveShared<N>& shared, const Brain& brain, unsigned group, Launch launch,
                                   const Step& step) {
  constexpr unsigned TEAM = team_threads(N), LANES = team_lanes(N), CELLS = N * N * N;
  const Cycle& cycle = *brain.cycle;
  const unsigned team = threadIdx.x / TEAM, member = threadIdx.x % TEAM;
  const bool steps = launch.number < cycle.count[group], reduces = launch.number + 1 >= cycle.count[group];
  const unsigned from = (cycle.front[group] + launch.number) % 2;
  const Cell* old = static_cast<const Cell*>(brain.cells[cycle.on_half][from][group]);
  Cell* fresh = static_cast<Cell*>(brain.cells[cycle.on_half][1 - from][group]);
  if (reduces && member % LANES == 0) {
#pragma unroll 1
    for (unsigned c = team; c < GROUP; c += teams(N)) shared.channel[c][member / LANES] = 0.0f;
  }
#pragma unroll 1
  for (unsigned plane = 0; plane < launch.planes_or_tasks; plane++) {
    const unsigned z = blockIdx.x * launch.planes_or_tasks + plane;
#pragma unroll 1
    for (unsigned place = member; place < N * N / 4; place += TEAM) {
      const unsigned y = place / (N / 4), x = place % (N / 4) * 4;
      float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
      for (unsigned c = team; c < GROUP; c += teams(N)) {
        const unsigned at = ((c * N + z) * N + y) * N + x;
        float4 u = load(old + at);
        if (steps) {
          const unsigned pattern = group * GROUP + c - PATTERN_FIRST; // wraps around below PATTERN_FIRST
          const Stored stored = stored_cells(shared, pattern < PATTERN, pattern * CELLS + (z * N + y) * N + x);
          const float4 sides = neighbours<N>(old, at, u, x, y, z);
          const float4 drive = drive_cells<N>(shared, brain, group, c, x, y, z);
          const float4 q = blended_cells(shared, stored);
          u.x = cell_step(u.x, sides.x, drive.x, q.x, step);
          u.y = cell_step(u.y, sides.y, drive.y, q.y, step);
          u.z = cell_step(u.z, sides.z, drive.z, q.z, step);
          u.w = cell_step(u.w, sides.w, drive.w, q.w, step);
          u = store(fresh + at, u); // as stored: the sums must be of the values that the next cycle reads
        }
        if (reduces) {
          add_scaled(sum, 1.0f, u);
          const float part = lanes_sum((u.x + u.y) + (u.z + u.w), LANES);
          if (member % LANES == 0) shared.channel[c][member / LANES] += part;
        }
      }
      store(&shared.plane[team][place * 4], sum);
    }
    if (reduces) {
      float* planes = brain.group_sums + group * CELLS + z * N * N;
      gather<N>(shared, group < CONTENT_GROUPS ? planes : nullptr, plane == 0);
    }
  }
}

template <unsigned N> __device__ void evolve(const Brain* brains, Launch launch) {
  __shared__ EvolveShared<N> shared;
  const Brain& brain = brains[blockIdx.z];
  const Cycle& cycle = *brain.cycle;
  const Rule& rule = *brain.rule;
  const unsigned group = blockIdx.y;
  const bool looks = launch.number == 0 && cycle.stale[group] != 0;
  if (launch.number >= cycle.count[group] && !looks) return;

  const unsigned first = brain.taps.first[group * GROUP], last = brain.taps.first[(group + 1) * GROUP];
#pragma unroll 1
  for (unsigned tap = first + threadIdx.x; tap < last; tap += blockDim.x) {
    const unsigned sensor = brain.taps.sensor[tap];
    shared.sensor[tap - first] = sensor;
    shared.amplitude[tap - first] = brain.taps.weight[tap] * brain.senses->felt[sensor];
  }
  const unsigned blended = brain.answer->blended;
  if (threadIdx.x < BLEND_TOP) { // f64 weights are converted once per block, without f64 units
    const bool is_blended = threadIdx.x < blended;
    shared.volume[threadIdx.x] =
        is_blended ? brain.volumes[cycle.on_half][brain.answer->slot[threadIdx.x]] : nullptr;
    shared.share[threadIdx.x] = is_blended ? rule.pattern_step * narrow(brain.answer->weight[threadIdx.x]) : 0.0f;
  }
  if (threadIdx.x == 0) shared.blended = blended;
  __syncthreads();

  const bool half = rule.half_groups >> group & 1;
  const bool has_patterns = group * GROUP >= PATTERN_FIRST && group * GROUP < PATTERN_FIRST + PATTERN;
  const Step step = {rule.lambda[cycle.on_half],
                     rule.gamma,
                     rule.reach,
                     half ? rule.half_reach : rule.reach,
                     cycle.hold[group],
                     cycle.take[group],
                     has_patterns ? rule.own : 1.0f};
  if (half) {
    evolve_slab<N, unsigned short>(shared, brain, group, launch, step);
  } else {
    evolve_slab<N, float>(shared, brain, group, launch, step);
  }

  if (launch.number + 1 < cycle.count[group]) return;
  // `gather` ended with a barrier after the last plane, so all sums are complete.
  constexpr unsigned PARTS = team_threads(N) / team_lanes(N);
  if (threadIdx.x < GROUP) {
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned part = 0; part < PARTS; part++) sum += shared.channel[threadIdx.x][part];
    brain.channel_sums[blockIdx.x * CHANNELS + group * GROUP + threadIdx.x] = sum;
  }
  if (threadIdx.x < COLUMNS) {
    brain.block_sums[(blockIdx.x * GROUPS + group) * COLUMNS + threadIdx.x] = shared.column[threadIdx.x];
  }
}

// Three blocks per multiprocessor: with fewer registers per thread, the assembler would spill; without a
// limit, it would use more registers.
#define EVOLVE(n)                                                                                        \
  extern "C" __global__ void __launch_bounds__(evolve_threads(n), 3) evolve_##n(const Brain* brains, Launch launch) { \
    evolve<n>(brains, launch);                                                                           \
  }
EVOLVE(4) // half of 8
EVOLVE(8)
EVOLVE(16)
EVOLVE(32)
EVOLVE(64)
#undef EVOLVE
