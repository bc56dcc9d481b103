/// Step 5, bank: the exact five nearest rows, and what is stored or recognised.
///
/// Four entries. A sweep is bank_scan_half or bank_scan_bytes, bank_score, remember, in this order;
/// experience puts one in from outside.
///
/// bank_scan_*: grid (up to SCAN_BLOCKS, 1, robots), block 256. A warp reads a coarse row (1 KiB or
///   512 bytes) and bounds its cosine from both sides: |exact - coarse| <= error of the row x length
///   of the query + length of the row x error of the query, by Cauchy and Schwarz. Leaves an upper
///   bound a row and the five highest lower bounds a block.
/// bank_score: the same grid and block. A row whose upper bound is below the fifth of all lower
///   bounds cannot be among the five; the others are compared exactly, in f64. However coarse the
///   rows are, the result is exact: only the number of rows read twice depends on it.
/// remember: grid (1, 1, robots), block 256. Merges, decides, stores.
/// experience: the same; bank.given is the descriptor about rest and its value.
///
/// 256 threads: eight rows under way a block hide the latency of a row. Shared memory: query 2 KiB as
/// numbers and 512 bytes as bytes, lists of 5 KiB at most.
#include "arithmetic.cuh"

constexpr unsigned BANK_THREADS = 256;
constexpr unsigned BANK_WARPS = BANK_THREADS / WARP;
/// What rounding in f32 may add to a cosine: 16 products a lane and five additions between lanes, 21
/// roundings of 6e-8 of sums that are at most 1 in size, and as much again for the query's own.
constexpr float ROUNDING = 4e-6f;

struct alignas(16) Query { // read sixteen bytes at a time
  double scratch[BANK_WARPS];
  float exact[DESCRIPTOR];
  unsigned bytes[DESCRIPTOR / 4];
  float scale;  // what one step of the bytes is worth
  float error;  // length of (exact - bytes)
  double length; // of the descriptor about rest
};

/// A whole number from -127 to 127, the nearest to value / scale.
__device__ inline int in_steps(float value, float scale) {
  const float steps = scale > 0.0f ? value / scale : 0.0f;
  return static_cast<int>(steps + (steps < 0.0f ? -0.5f : 0.5f));
}

__device__ inline double warps_most(double value, double* scratch) {
  for (unsigned step = WARP / 2; step > 0; step /= 2) value = fmax(value, __shfl_xor_sync(ALL, value, step));
  __syncthreads();
  if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = value;
  __syncthreads();
  for (unsigned warp = 0; warp < BANK_WARPS; warp++) value = fmax(value, scratch[warp]);
  return value;
}

/// The descriptor at unit length (shorter where it has no direction), exactly and in bytes. Every
/// block makes its own: 512 numbers are cheaper to make again than to wait for.
template <class Number> __device__ inline void make_query(Query& query, const Number* descriptor) {
  constexpr unsigned EACH = DESCRIPTOR / BANK_THREADS;
  double value[EACH], square = 0.0, most = 0.0;
  for (unsigned k = 0; k < EACH; k++) {
    value[k] = descriptor[threadIdx.x * EACH + k];
    square += value[k] * value[k];
  }
  const double length = sqrt(block_sum(square, query.scratch));
  for (unsigned k = 0; k < EACH; k++) {
    query.exact[threadIdx.x * EACH + k] = static_cast<float>(value[k] / fmax(length, NORM_FLOOR));
    most = fmax(most, fabs(static_cast<double>(query.exact[threadIdx.x * EACH + k])));
  }
  const float scale = static_cast<float>(warps_most(most, query.scratch)) / 127.0f;
  double off = 0.0;
  for (unsigned k = 0; k < EACH; k++) {
    const float exact = query.exact[threadIdx.x * EACH + k];
    const int steps = in_steps(exact, scale);
    reinterpret_cast<signed char*>(query.bytes)[threadIdx.x * EACH + k] = static_cast<signed char>(steps);
    const double miss = static_cast<double>(exact) - static_cast<double>(scale) * steps;
    off += miss * miss;
  }
  const double error = sqrt(block_sum(off, query.scratch));
  if (threadIdx.x == 0) {
    query.scale = scale;
    query.error = static_cast<float>(error) * 1.000001f;
    query.length = length;
  }
  __syncthreads();
}

/// A row's coarse cosine in halves, the same in all lanes.
__device__ inline float coarse_cosine(const Query& query, const unsigned short* row, float) {
  const unsigned lane = threadIdx.x % WARP;
  float sum = 0.0f;
  for (unsigned part = 0; part < DESCRIPTOR; part += 8 * WARP) {
    const unsigned at = part + 8 * lane;
    for (unsigned k = 0; k < 8; k += 4) {
      const float4 r = load(row + at + k), q = load(query.exact + at + k);
      sum += (r.x * q.x + r.y * q.y) + (r.z * q.z + r.w * q.w);
    }
  }
  return lanes_sum(sum);
}
/// The same in bytes: whole numbers, so that only the two scales round.
__device__ inline float coarse_cosine(const Query& query, const signed char* row, float scale) {
  const unsigned lane = threadIdx.x % WARP;
  const uint4 r = reinterpret_cast<const uint4*>(row)[lane];
  const uint4 q = reinterpret_cast<const uint4*>(query.bytes)[lane];
  int sum = __dp4a(static_cast<int>(r.x), static_cast<int>(q.x), 0);
  sum = __dp4a(static_cast<int>(r.y), static_cast<int>(q.y), sum);
  sum = __dp4a(static_cast<int>(r.z), static_cast<int>(q.z), sum);
  sum = __dp4a(static_cast<int>(r.w), static_cast<int>(q.w), sum);
  return static_cast<float>(lanes_sum(sum)) * (scale * query.scale);
}
__device__ inline float query_error(const Query&, const unsigned short*) { return 0.0f; }
__device__ inline float query_error(const Query& query, const signed char*) { return query.error; }

/// Rows to be compared in this cycle; none where an earlier part of the sweep is missing.
struct Rows {
  unsigned from, to;
};
__device__ inline Rows rows_due(const Brain& brain) {
  const Cycle& cycle = *brain.cycle;
  if (cycle.part != 0 && brain.bank.sweep->next_part != cycle.part) return {0, 0};
  const unsigned long long used = brain.answer->experiences;
  return {static_cast<unsigned>(used * cycle.part / cycle.parts),
          static_cast<unsigned>(used * (cycle.part + 1) / cycle.parts)};
}

template <class Coarse> __device__ void bank_scan(const Brain& brain) {
  __shared__ Query query;
  __shared__ Match lists[BANK_WARPS * BANK_TOP];
  __shared__ Match best[BANK_TOP];
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const Rows rows = rows_due(brain);
  if (rows.from == rows.to) return;
  make_query(query, brain.about->descriptor);
  const Bank& bank = brain.bank;
  const Coarse* coarse = static_cast<const Coarse*>(bank.coarse);
  Best<BANK_TOP> low;
  low.clear();
  for (unsigned row = rows.from + blockIdx.x * BANK_WARPS + warp; row < rows.to; row += gridDim.x * BANK_WARPS) {
    const float cosine = coarse_cosine(query, coarse + static_cast<unsigned long long>(row) * DESCRIPTOR, bank.scale[row]);
    const float error = bank.error[row], off = error + (1.0f + error) * query_error(query, coarse) + ROUNDING;
    if (lane == 0) bank.high[row] = cosine + off;
    low.offer(cosine - off, row);
  }
  if (lane == 0) {
    for (unsigned i = 0; i < BANK_TOP; i++) lists[warp * BANK_TOP + i] = {low.score[i], low.index[i], 0};
  }
  __syncthreads();
  if (warp != 0) return;
  warp_best<BANK_TOP>(lists, BANK_WARPS * BANK_TOP, best);
  if (lane < BANK_TOP) bank.low[blockIdx.x * BANK_TOP + lane] = static_cast<float>(best[lane].cosine);
}

extern "C" __global__ void __launch_bounds__(BANK_THREADS) bank_scan_half(const Brain* brains, Launch) {
  bank_scan<unsigned short>(brains[blockIdx.z]);
}
extern "C" __global__ void __launch_bounds__(BANK_THREADS) bank_scan_bytes(const Brain* brains, Launch) {
  bank_scan<signed char>(brains[blockIdx.z]);
}

/// The exact cosine of a row, the same in all lanes.
__device__ inline double exact_cosine(const Query& query, const float* row) {
  double sum = 0.0;
  for (unsigned i = threadIdx.x % WARP; i < DESCRIPTOR; i += WARP) {
    sum += static_cast<double>(row[i]) * static_cast<double>(query.exact[i]);
  }
  return lanes_sum(sum);
}

extern "C" __global__ void __launch_bounds__(BANK_THREADS) bank_score(const Brain* brains, Launch) {
  __shared__ Query query;
  __shared__ Match lists[SCAN_BLOCKS * BANK_TOP];
  __shared__ Match best[BANK_TOP];
  const Brain& brain = brains[blockIdx.z];
  const Bank& bank = brain.bank;
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const Rows rows = rows_due(brain);
  if (rows.from == rows.to) return;
  make_query(query, brain.about->descriptor);
  const unsigned lows = gridDim.x * BANK_TOP;
  for (unsigned i = threadIdx.x; i < lows; i += blockDim.x) lists[i] = {bank.low[i], i, 0};
  __syncthreads();
  if (warp == 0) warp_best<BANK_TOP>(lists, lows, best);
  __syncthreads();
  const float floor = static_cast<float>(best[BANK_TOP - 1].cosine);

  Best<BANK_TOP> nearest;
  nearest.clear();
  const unsigned stride = gridDim.x * BANK_WARPS * WARP;
  for (unsigned first = rows.from + (blockIdx.x * BANK_WARPS + warp) * WARP; first < rows.to; first += stride) {
    const bool mine = first + lane < rows.to && bank.high[first + lane] >= floor;
    for (unsigned left = __ballot_sync(ALL, mine); left != 0; left &= left - 1) {
      const unsigned row = first + (__ffs(static_cast<int>(left)) - 1);
      nearest.offer(exact_cosine(query, bank.exact + static_cast<unsigned long long>(row) * DESCRIPTOR), row);
    }
  }
  if (lane == 0) {
    for (unsigned i = 0; i < BANK_TOP; i++) lists[warp * BANK_TOP + i] = {nearest.score[i], nearest.index[i], 0};
  }
  __syncthreads();
  if (warp != 0) return;
  warp_best<BANK_TOP>(lists, BANK_WARPS * BANK_TOP, best);
  if (lane < BANK_TOP) bank.found[blockIdx.x * BANK_TOP + lane] = best[lane];
}

/// The row of lowest value x recency, the first of equal ones; the same in all threads.
__device__ inline unsigned least(const Brain& brain, double* scratch) {
  const unsigned long long now = brain.cycle->number;
  double worth = 0.0;
  unsigned row = NO_ROW;
  for (unsigned i = threadIdx.x; i < brain.rule->rows; i += blockDim.x) {
    const unsigned long long last = brain.bank.last_use[i];
    const double age = static_cast<double>(now > last ? now - last : 0) * brain.rule->age_per_cycle;
    const double mine = -brain.bank.value[i] / (1.0 + age);
    if (before(mine, i, worth, row)) worth = mine, row = i;
  }
  __shared__ unsigned rows[BANK_WARPS];
  for (unsigned step = WARP / 2; step > 0; step /= 2) {
    const double other = __shfl_xor_sync(ALL, worth, step);
    const unsigned other_row = __shfl_xor_sync(ALL, row, step);
    if (before(other, other_row, worth, row)) worth = other, row = other_row;
  }
  __syncthreads();
  if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = worth, rows[threadIdx.x / WARP] = row;
  __syncthreads();
  for (unsigned warp = 0; warp < BANK_WARPS; warp++) {
    if (before(scratch[warp], rows[warp], worth, row)) worth = scratch[warp], row = rows[warp];
  }
  return row;
}

/// Puts the query into the first free row, or over the one that is worth least. `coarse_bytes`: the
/// coarse rows are bytes.
__device__ inline void enter(const Brain& brain, Query& query, double value, bool coarse_bytes) {
  const Bank& bank = brain.bank;
  const unsigned used = brain.answer->experiences;
  const unsigned row = used < brain.rule->rows ? used : least(brain, query.scratch);
  if (row == NO_ROW) return; // a bank without rows
  const unsigned long long first = static_cast<unsigned long long>(row) * DESCRIPTOR;
  double off = 0.0;
  for (unsigned i = threadIdx.x; i < DESCRIPTOR; i += blockDim.x) {
    const float exact = query.exact[i];
    bank.exact[first + i] = exact;
    if (coarse_bytes) {
      static_cast<signed char*>(bank.coarse)[first + i] = reinterpret_cast<const signed char*>(query.bytes)[i];
    } else {
      const unsigned short half = to_half(exact);
      static_cast<unsigned short*>(bank.coarse)[first + i] = half;
      const double miss = static_cast<double>(exact) - static_cast<double>(from_half(half));
      off += miss * miss;
    }
  }
  const float error = static_cast<float>(sqrt(block_sum(off, query.scratch))) * 1.000001f;
  if (threadIdx.x == 0) {
    bank.scale[row] = query.scale;
    bank.error[row] = coarse_bytes ? query.error : error;
    bank.value[row] = value;
    bank.last_use[row] = brain.cycle->number;
    brain.answer->experiences = used < brain.rule->rows ? used + 1 : used;
  }
}

/// Closes a part of the sweep: what the blocks found, and what the parts before found.
__device__ inline void close_part(const Brain& brain, Rows rows, unsigned lists, Match* candidates, Match* best) {
  Sweep& sweep = *brain.bank.sweep;
  const unsigned found = rows.from == rows.to ? 0 : lists * BANK_TOP;
  for (unsigned i = threadIdx.x; i < found; i += blockDim.x) candidates[i] = brain.bank.found[i];
  const unsigned before_it = brain.cycle->part == 0 ? 0 : BANK_TOP;
  if (threadIdx.x < before_it) candidates[found + threadIdx.x] = sweep.running[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < WARP) warp_best<BANK_TOP>(candidates, found + before_it, best);
  __syncthreads();
  if (threadIdx.x < BANK_TOP) sweep.running[threadIdx.x] = best[threadIdx.x];
}

/// What a whole sweep says.
__device__ inline void answer_sweep(Answer& answer, const Match* best) {
  unsigned count = 0;
  for (; count < BANK_TOP && best[count].row != NO_ROW; count++) {
    answer.row[count] = best[count].row;
    answer.cosine[count] = best[count].cosine;
  }
  answer.nearest = count;
  answer.novelty = count > 0 ? static_cast<float>(clamp(1.0 - best[0].cosine, 0.0, 1.0)) : 1.0f;
}

/// launch.number: blocks of the scan. launch.planes: 1 where the coarse rows are bytes.
extern "C" __global__ void __launch_bounds__(BANK_THREADS) remember(const Brain* brains, Launch launch) {
  __shared__ Query query;
  __shared__ Match candidates[(SCAN_BLOCKS + 1) * BANK_TOP];
  __shared__ Match best[BANK_TOP];
  const Brain& brain = brains[blockIdx.z];
  const Cycle& cycle = *brain.cycle;
  const Rule& rule = *brain.rule;
  Sweep& sweep = *brain.bank.sweep;
  const bool missed = cycle.part != 0 && sweep.next_part != cycle.part;
  const bool whole = cycle.part + 1 == cycle.parts;
  const Rows rows = rows_due(brain);
  __syncthreads(); // all have seen where the sweep stood
  if (threadIdx.x == 0) sweep.next_part = missed || whole ? 0 : cycle.part + 1;
  if (missed) return;
  close_part(brain, rows, launch.number, candidates, best);
  if (!whole) return;
  if (threadIdx.x == 0) answer_sweep(*brain.answer, best);
  if (!rule.learns) return;
  if (best[0].row != NO_ROW && 1.0 - best[0].cosine <= rule.novelty_threshold) {
    if (threadIdx.x == 0) brain.bank.last_use[best[0].row] = cycle.number;
    return;
  }
  const double reward = fabsf(cycle.reward) > REWARD_FLOOR ? static_cast<double>(fabsf(cycle.reward)) : 0.0;
  const double error = brain.senses->mean_error;
  if (reward <= 0.0 && error <= rule.error_threshold) return;
  make_query(query, brain.about->descriptor);
  if (query.length >= NORM_FLOOR) enter(brain, query, fmax(reward, error), launch.planes == 1);
}

extern "C" __global__ void __launch_bounds__(BANK_THREADS) experience(const Brain* brains, Launch launch) {
  __shared__ Query query;
  const Brain& brain = brains[blockIdx.z];
  make_query(query, brain.bank.given);
  enter(brain, query, brain.bank.given[DESCRIPTOR], launch.planes == 1);
}
