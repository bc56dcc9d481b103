/// Step 5, library: which patterns are blended from the next cycle on, and with which weights.
///
/// Computed by one block of `answer` with 256 threads; returns at once if the match is not due. A warp
/// compares four slots at a time, so that it waits for memory only once for all four. Computed in f64,
/// because a weight amplifies a cosine's error tenfold; this costs 6400 products for a hundred slots. Shared
/// memory: 8 warps x 3 candidates and the 3 chosen, 432 bytes.
///
/// The host writes volumes and contexts between cycles (kernels/README.md).
#pragma once
#include "arithmetic.cuh"

constexpr unsigned SLOTS_AT_ONCE = 4;

__device__ inline void match_library(const Brain& brain) {
  __shared__ Match candidates[BLOCK_WARPS * BLEND_TOP];
  __shared__ Match chosen[BLEND_TOP];
  const Cycle& cycle = *brain.cycle;
  if (!cycle.blend_due) return;
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;

  double query[2] = {brain.about->context[lane], brain.about->context[lane + WARP]};
  const double length = fmax(sqrt(lanes_sum(query[0] * query[0] + query[1] * query[1])), NORM_FLOOR);
  query[0] /= length, query[1] /= length;
  Best<BLEND_TOP> best;
  best.clear();
#pragma unroll 1
  for (unsigned first = warp * SLOTS_AT_ONCE; first < brain.rule->patterns; first += BLOCK_WARPS * SLOTS_AT_ONCE) {
    double part[SLOTS_AT_ONCE];
    bool is_stored[SLOTS_AT_ONCE];
#pragma unroll
    for (unsigned i = 0; i < SLOTS_AT_ONCE; i++) {
      const unsigned slot = first + i < brain.rule->patterns ? first + i : first;
      is_stored[i] = slot == first + i && brain.stored[slot];
      const double* context = brain.contexts + slot * CHANNELS;
      part[i] = query[0] * context[lane] + query[1] * context[lane + WARP];
    }
#pragma unroll
    for (unsigned i = 0; i < SLOTS_AT_ONCE; i++) part[i] = lanes_sum(part[i]);
#pragma unroll
    for (unsigned i = 0; i < SLOTS_AT_ONCE; i++) {
      if (is_stored[i]) best.offer(part[i], first + i);
    }
  }
  if (lane == 0) {
    for (unsigned i = 0; i < BLEND_TOP; i++) candidates[warp * BLEND_TOP + i] = {best.score[i], best.index[i], 0};
  }
  __syncthreads();
  if (warp != 0) return;
  warp_best<BLEND_TOP>(candidates, BLOCK_WARPS * BLEND_TOP, chosen);
  if (lane != 0) return;
  Answer& answer = *brain.answer;
  double weight[BLEND_TOP], sum = 0.0;
  unsigned count = 0;
  while (count < cycle.blend_top && count < BLEND_TOP && chosen[count].row != NO_ROW) {
    weight[count] = exp((chosen[count].cosine - chosen[0].cosine) / brain.rule->temperature);
    sum += weight[count++];
  }
  for (unsigned i = 0; i < count; i++) {
    answer.slot[i] = chosen[i].row;
    answer.weight[i] = weight[i] / sum;
  }
  answer.blended = count;
}
