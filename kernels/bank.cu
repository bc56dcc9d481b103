/// Step 5, bank: the exact five nearest rows, and what is stored or recognised.
///
/// bank_scan: grid (up to SCAN_BLOCKS, 1, robots), block 256. Eight lanes read a coarse row (512 bytes) and bound its
///   cosine from both sides (see `Bounds`). Writes an upper bound per row and the five highest lower bounds per
///   block. It uses only f32 and integers.
/// compare_rows, called by `answer`: the same blocks as in the scan. A row whose upper bound is below the
///   fifth highest of all lower bounds cannot be among the five; the others are compared exactly, in f64. The
///   result is exact however coarse the rows are: their coarseness only affects how many rows are read twice.
///   If the bank is full and this cycle is worth storing, each block also writes the least
///   valuable row of its share.
/// remember, called by `deliver`: merges, decides, stores.
/// experience: grid (1, 1, robots), block 256. Stores bank.given: a descriptor relative to
///   rest, and its value.
///
/// The query is made once per cycle, by `features`; a lane holds its part of it in registers.
/// 256 threads: 32 rows in flight per block hide the latency of a row. Shared memory: lists of at most 6 KiB;
/// for `experience` a query of 2.6 KiB.
#pragma once
#include "query.cuh"

/// Margin for f32 rounding in a bound; derived at `Bounds`.
constexpr float ROUNDING = 4e-6f;

/// Upper and lower bound of a cosine.
///
/// Let r be a row and q the query as floats, both of length at most 1 except for rounding, c and d their byte
/// versions for the scan, |r - c| <= e and |q - d| <= f. Then by Cauchy-Schwarz
///
///   |r.q - c.d| = |(r - c).q + c.(q - d)| <= e |q| + |c| f <= e + (1 + e) f.
///
/// e and f are rounded up by more than their own rounding error (ROUNDED_UP; src/field/cuda/bank.rs for rows of
/// the host). What remains is the rounding of c.d and of the bounds themselves, each step at most 2^-24 = 6e-8
/// of a number. Quantising to bytes loses at most sqrt(512) / 254 < 0.1 of a row's length, so e, f < 0.1 and
/// every number here is below (1 + e) (1 + f) + 0.21 < 1.5 in magnitude. The integer sum is at most
/// 512 x 127 x 127 < 2^24 and so exact; there are 2 roundings in products, 4 in the bound's distance, 1 in the
/// bound, and 2 for lengths that are not quite 1: at most 9 x 1.5 x 6e-8 = 8.1e-7.
/// tests/cuda/bank.rs searches for a row that violates the bound.
struct Bounds {
  float low, high;
};
__device__ inline Bounds bounds(float cosine, float row_error, float query_error) {
  const float off = row_error + (1.0f + row_error) * query_error + ROUNDING;
  return {cosine - off, cosine + off};
}

/// Lanes that compare a row. A warp handles four rows at once, because otherwise each row would wait for
/// memory and for five exchanges between lanes.
constexpr unsigned ROW_LANES = 8;
constexpr unsigned ROWS_AT_ONCE = WARP / ROW_LANES;
constexpr unsigned ROW_PARTS = DESCRIPTOR / (16 * ROW_LANES); // loads per lane, 16 bytes each

/// A lane's part of the query as integers, so that only the products with the two scales are rounded; and the
/// query's scale and error.
struct ScannedQuery {
  uint4 part[ROW_PARTS];
  float scale, error;

  __device__ explicit ScannedQuery(const Query& query) : scale(query.scale), error(query.error) {
    for (unsigned k = 0; k < ROW_PARTS; k++) part[k] = at(query.bytes, k);
  }
  __device__ static uint4 at(const signed char* row, unsigned k) {
    return reinterpret_cast<const uint4*>(row)[k * ROW_LANES + threadIdx.x % ROW_LANES];
  }

  /// A row's coarse cosine, the same in all its lanes.
  __device__ float cosine(const signed char* row, float row_scale) const {
    uint4 r[ROW_PARTS];
#pragma unroll
    for (unsigned k = 0; k < ROW_PARTS; k++) r[k] = at(row, k);
    int sum = 0;
#pragma unroll
    for (unsigned k = 0; k < ROW_PARTS; k++) {
      sum = __dp4a(static_cast<int>(r[k].x), static_cast<int>(part[k].x), sum);
      sum = __dp4a(static_cast<int>(r[k].y), static_cast<int>(part[k].y), sum);
      sum = __dp4a(static_cast<int>(r[k].z), static_cast<int>(part[k].z), sum);
      sum = __dp4a(static_cast<int>(r[k].w), static_cast<int>(part[k].w), sum);
    }
    return static_cast<float>(lanes_sum(sum, ROW_LANES)) * (row_scale * scale);
  }
};

/// The five highest of some numbers, best first. Only the values matter, not the rows they belong to.
struct Floors {
  float value[BANK_TOP];

  /// Initialises with -2, which is below every cosine and so stands for missing rows.
  __device__ Floors() {
    for (unsigned i = 0; i < BANK_TOP; i++) value[i] = -2.0f;
  }
  /// Most rows are not among the five: one comparison is enough.
  __device__ void raise(float floor) {
    if (!(floor > value[BANK_TOP - 1])) return;
#pragma unroll
    for (unsigned i = 0; i < BANK_TOP; i++) {
      const float more = fmaxf(floor, value[i]);
      floor = fminf(floor, value[i]);
      value[i] = more;
    }
  }
  /// One warp merges its lanes' lists: each of the first five lanes gets the number at its place, and all lanes
  /// get the fifth in `fifth`.
  __device__ float merged(float& fifth) {
    const unsigned lane = threadIdx.x % WARP;
    float mine = -2.0f;
#pragma unroll
    for (unsigned place = 0; place < BANK_TOP; place++) {
      fifth = value[0];
      for (unsigned step = WARP / 2; step > 0; step /= 2) fifth = fmaxf(fifth, __shfl_xor_sync(ALL, fifth, step));
      if (lane == place) mine = fifth;
      const unsigned holders = __ballot_sync(ALL, value[0] == fifth);
      if (lane + 1 == static_cast<unsigned>(__ffs(static_cast<int>(holders)))) { // the first of them removes it
        for (unsigned i = 0; i + 1 < BANK_TOP; i++) value[i] = value[i + 1];
        value[BANK_TOP - 1] = -2.0f;
      }
    }
    return mine;
  }
};

/// Rows to be compared in this cycle; none if an earlier part of the sweep is missing.
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

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) bank_scan(const Brain* brains, Launch) {
  constexpr unsigned LISTS = BLOCK_WARPS * ROWS_AT_ONCE;
  __shared__ float lows[LISTS * BANK_TOP];
  const Brain& brain = brains[blockIdx.z];
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, mine = lane / ROW_LANES;
  const Rows rows = rows_due(brain);
  if (rows.from == rows.to) return;
  const ScannedQuery query(brain.about->query);
  const Bank& bank = brain.bank;
  Floors floors;
  const unsigned stride = gridDim.x * LISTS;
  for (unsigned first = rows.from + (blockIdx.x * BLOCK_WARPS + warp) * ROWS_AT_ONCE; first < rows.to; first += stride) {
    const bool is_row = first + mine < rows.to;
    const unsigned row = is_row ? first + mine : first; // all lanes take part in the exchanges
    const float cosine = query.cosine(bank.coarse + static_cast<unsigned long long>(row) * DESCRIPTOR, bank.scale[row]);
    const Bounds is = bounds(cosine, bank.error[row], query.error);
    if (!is_row) continue;
    if (lane % ROW_LANES == 0) bank.high[row] = is.high;
    floors.raise(is.low);
  }
  if (lane % ROW_LANES == 0) {
    for (unsigned i = 0; i < BANK_TOP; i++) lows[(warp * ROWS_AT_ONCE + mine) * BANK_TOP + i] = floors.value[i];
  }
  __syncthreads();
  if (warp != 0) return;
  Floors best;
  for (unsigned i = lane; i < LISTS * BANK_TOP; i += WARP) best.raise(lows[i]);
  float fifth;
  const float low = best.merged(fifth);
  if (lane < BANK_TOP) bank.low[blockIdx.x * BANK_TOP + lane] = low;
}

/// The value of this cycle as an experience; below 0: do not store it.
__device__ inline double worth_of_cycle(const Brain& brain) {
  const float size = fabsf(brain.cycle->reward);
  const double reward = size > REWARD_FLOOR ? static_cast<double>(size) : 0.0, error = brain.senses->mean_error;
  return reward > 0.0 || error > brain.rule->error_threshold ? fmax(reward, error) : -1.0;
}

/// Whether an experience may overwrite another one at the end of this cycle, if it turns out to be new.
__device__ inline bool may_replace(const Brain& brain) {
  const Cycle& cycle = *brain.cycle;
  const unsigned rows = brain.rule->rows;
  return cycle.part + 1 == cycle.parts && brain.rule->learns && rows > 0 && brain.answer->experiences >= rows &&
         worth_of_cycle(brain) >= 0.0;
}

/// The first of a block's candidates in order, the same in all threads.
__device__ inline Match block_first(Match mine, Match* scratch) {
  for (unsigned step = WARP / 2; step > 0; step /= 2) {
    const double worth = __shfl_xor_sync(ALL, mine.cosine, step);
    const unsigned row = __shfl_xor_sync(ALL, mine.row, step);
    if (before(worth, row, mine.cosine, mine.row)) mine = {worth, row, 0};
  }
  __syncthreads();
  if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = mine;
  __syncthreads();
#pragma unroll 1
  for (unsigned warp = 0; warp < BLOCK_WARPS; warp++) {
    if (before(scratch[warp].cosine, scratch[warp].row, mine.cosine, mine.row)) mine = scratch[warp];
  }
  return mine;
}

/// The row with the lowest value / (1 + age), and the first of equal ones, the same in all threads. Each thread
/// searches every `stride`-th row from its `first` on. The score is negated, so that the lowest is the first in
/// order.
__device__ inline Match least(const Brain& brain, unsigned first, unsigned stride, Match* scratch) {
  const unsigned long long now = brain.cycle->number;
  Match found = {0.0, NO_ROW, 0};
#pragma unroll 1
  for (unsigned i = first; i < brain.rule->rows; i += stride) {
    const unsigned long long last = brain.bank.last_use[i];
    const double age = static_cast<double>(now > last ? now - last : 0) * brain.rule->age_per_cycle;
    const double worth = -brain.bank.value[i] / (1.0 + age);
    if (before(worth, i, found.cosine, found.row)) found = {worth, i, 0};
  }
  return block_first(found, scratch);
}

/// Compares the rows of one of the scan's blocks exactly.
__device__ inline void compare_rows(const Brain& brain, unsigned blocks) {
  __shared__ Match lists[BLOCK_WARPS * BANK_TOP];
  __shared__ Match best[BANK_TOP];
  __shared__ Match worth[BLOCK_WARPS];
  const Bank& bank = brain.bank;
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const Rows rows = rows_due(brain);
  if (rows.from == rows.to) return;
  // Each warp computes the floor itself, which saves a barrier; the lists come from the cache.
  Floors floors;
  for (unsigned i = lane; i < blocks * BANK_TOP; i += WARP) floors.raise(bank.low[i]);
  float floor;
  floors.merged(floor);
  constexpr unsigned EACH = DESCRIPTOR / WARP;
  float query[EACH];
  for (unsigned k = 0; k < EACH; k++) query[k] = brain.about->query.exact[k * WARP + lane];

  Best<BANK_TOP> nearest;
  nearest.clear();
  const unsigned stride = blocks * BLOCK_WARPS * WARP;
  for (unsigned first = rows.from + (blockIdx.x * BLOCK_WARPS + warp) * WARP; first < rows.to; first += stride) {
    const bool mine = first + lane < rows.to && bank.high[first + lane] >= floor;
    for (unsigned left = __ballot_sync(ALL, mine); left != 0; left &= left - 1) {
      const unsigned row = first + (__ffs(static_cast<int>(left)) - 1);
      const float* exact = bank.exact + static_cast<unsigned long long>(row) * DESCRIPTOR;
      double sum = 0.0; // products of floats are exact in f64
      for (unsigned k = 0; k < EACH; k++) {
        sum += static_cast<double>(exact[k * WARP + lane]) * static_cast<double>(query[k]);
      }
      nearest.offer(lanes_sum(sum), row);
    }
  }
  if (lane == 0) {
    for (unsigned i = 0; i < BANK_TOP; i++) lists[warp * BANK_TOP + i] = {nearest.score[i], nearest.index[i], 0};
  }
  if (may_replace(brain)) {
    const Match worst = least(brain, blockIdx.x * blockDim.x + threadIdx.x, blocks * blockDim.x, worth);
    if (threadIdx.x == 0) bank.found[blocks * BANK_TOP + blockIdx.x] = worst;
  }
  __syncthreads();
  if (warp != 0) return;
  warp_best<BANK_TOP>(lists, BLOCK_WARPS * BANK_TOP, best);
  if (lane < BANK_TOP) bank.found[blockIdx.x * BANK_TOP + lane] = best[lane];
}

/// Writes the query into the first free row, or over `replaced` if there is none.
__device__ inline void enter(const Brain& brain, const Query& query, unsigned replaced, double value) {
  const Bank& bank = brain.bank;
  const unsigned used = brain.answer->experiences;
  const unsigned row = used < brain.rule->rows ? used : replaced;
  if (row == NO_ROW) return; // a bank without rows
  const unsigned long long first = static_cast<unsigned long long>(row) * DESCRIPTOR;
  for (unsigned i = threadIdx.x; i < DESCRIPTOR; i += blockDim.x) {
    bank.exact[first + i] = query.exact[i];
    bank.coarse[first + i] = query.bytes[i];
  }
  __syncthreads(); // all threads have read how full the bank was
  if (threadIdx.x == 0) {
    bank.scale[row] = query.scale;
    bank.error[row] = query.error;
    bank.value[row] = value;
    bank.last_use[row] = brain.cycle->number;
    bank.sweep->touched = row;
    brain.answer->experiences = used < brain.rule->rows ? used + 1 : used;
  }
}

/// Closes a part of the sweep: merges what the blocks found with what the earlier parts found. Each warp takes the
/// best of its share, and the first warp the best of those.
__device__ inline void close_part(const Brain& brain, Rows rows, unsigned blocks, Match* best) {
  __shared__ Match candidates[(SCAN_BLOCKS + 1) * BANK_TOP];
  __shared__ Match lists[BLOCK_WARPS * BANK_TOP];
  Sweep& sweep = *brain.bank.sweep;
  const unsigned found = rows.from == rows.to ? 0 : blocks * BANK_TOP;
  for (unsigned i = threadIdx.x; i < found; i += blockDim.x) candidates[i] = brain.bank.found[i];
  const unsigned before_it = brain.cycle->part == 0 ? 0 : BANK_TOP, all = found + before_it;
  if (threadIdx.x < before_it) candidates[found + threadIdx.x] = sweep.running[threadIdx.x];
  __syncthreads();
  const unsigned warp = threadIdx.x / WARP, first = all * warp / BLOCK_WARPS, end = all * (warp + 1) / BLOCK_WARPS;
  warp_best<BANK_TOP>(candidates + first, end - first, lists + warp * BANK_TOP);
  __syncthreads();
  if (warp == 0) warp_best<BANK_TOP>(lists, BLOCK_WARPS * BANK_TOP, best);
  __syncthreads();
  if (threadIdx.x < BANK_TOP) sweep.running[threadIdx.x] = best[threadIdx.x];
}

/// Writes the result of a complete sweep.
__device__ inline void answer_sweep(Answer& answer, const Match* best) {
  unsigned count = 0;
  for (; count < BANK_TOP && best[count].row != NO_ROW; count++) {
    answer.row[count] = best[count].row;
    answer.cosine[count] = best[count].cosine;
  }
  answer.nearest = count;
  answer.novelty = count > 0 ? static_cast<float>(clamp(1.0 - best[0].cosine, 0.0, 1.0)) : 1.0f;
}

/// Merges what the blocks of the scan found, decides, stores. Runs on a whole block.
__device__ inline void remember(const Brain& brain, unsigned blocks) {
  __shared__ Match least_of[BLOCK_WARPS];
  __shared__ Match best[BANK_TOP];
  const Cycle& cycle = *brain.cycle;
  const Rule& rule = *brain.rule;
  Sweep& sweep = *brain.bank.sweep;
  const bool missed = cycle.part != 0 && sweep.next_part != cycle.part;
  const bool whole = cycle.part + 1 == cycle.parts;
  const Rows rows = rows_due(brain);
  __syncthreads(); // all threads have read the state of the sweep
  if (threadIdx.x == 0) {
    sweep.next_part = missed || whole ? 0 : cycle.part + 1;
    sweep.touched = NO_ROW;
  }
  if (missed) return;
  close_part(brain, rows, blocks, best);
  if (!whole) return;
  if (threadIdx.x == 0) answer_sweep(*brain.answer, best);
  if (!rule.learns) return;
  if (best[0].row != NO_ROW && 1.0 - best[0].cosine <= rule.novelty_threshold) {
    if (threadIdx.x == 0) {
      brain.bank.last_use[best[0].row] = cycle.number;
      sweep.touched = best[0].row;
    }
    return;
  }
  const double value = worth_of_cycle(brain);
  const Query& query = brain.about->query;
  if (value < 0.0 || !query.points) return;
  unsigned replaced = NO_ROW;
  if (may_replace(brain)) { // each block that compared rows wrote its candidate
    Match mine = {0.0, NO_ROW, 0};
    if (threadIdx.x < blocks) mine = brain.bank.found[blocks * BANK_TOP + threadIdx.x];
    replaced = block_first(mine, least_of).row;
  }
  enter(brain, query, replaced, value);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) experience(const Brain* brains, Launch) {
  __shared__ Query query;
  __shared__ QueryScratch for_query;
  __shared__ Match worth[BLOCK_WARPS];
  const Brain& brain = brains[blockIdx.z];
  make_query(query, brain.bank.given, for_query);
  const bool full = brain.answer->experiences >= brain.rule->rows;
  const unsigned replaced = full ? least(brain, threadIdx.x, blockDim.x, worth).row : NO_ROW;
  __syncthreads(); // the query is complete, and all threads have read how full the bank is
  enter(brain, query, replaced, brain.bank.given[DESCRIPTOR]);
}
