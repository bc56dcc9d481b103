/// Step 5, library: which patterns are blended from the next cycle on, and with which weights.
///
/// Launch: grid (1, 1, robots), block 256; returns at once where the match is not due. A warp
/// compares one slot at a time. In f64, as a weight feels an error of a cosine ten times over: 6400
/// products for a hundred slots. Shared memory: 8 warps x 3 candidates, 384 bytes.
///
/// Volumes and contexts are put in by the host between cycles (kernels/README.md).
#include "arithmetic.cuh"

constexpr unsigned LIBRARY_THREADS = 256;
constexpr unsigned LIBRARY_WARPS = LIBRARY_THREADS / WARP;

extern "C" __global__ void __launch_bounds__(LIBRARY_THREADS) library(const Brain* brains, Launch) {
  __shared__ Match candidates[LIBRARY_WARPS * BLEND_TOP];
  __shared__ Match chosen[BLEND_TOP];
  const Brain& brain = brains[blockIdx.z];
  const Cycle& cycle = *brain.cycle;
  if (!cycle.blend_due) return;
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;

  double query[2] = {brain.about->context[lane], brain.about->context[lane + WARP]};
  const double length = fmax(sqrt(lanes_sum(query[0] * query[0] + query[1] * query[1])), NORM_FLOOR);
  query[0] /= length, query[1] /= length;
  Best<BLEND_TOP> best;
  best.clear();
  for (unsigned slot = warp; slot < brain.rule->patterns; slot += LIBRARY_WARPS) {
    if (!brain.stored[slot]) continue;
    const double* context = brain.contexts + slot * CHANNELS;
    best.offer(lanes_sum(query[0] * context[lane] + query[1] * context[lane + WARP]), slot);
  }
  if (lane == 0) {
    for (unsigned i = 0; i < BLEND_TOP; i++) candidates[warp * BLEND_TOP + i] = {best.score[i], best.index[i], 0};
  }
  __syncthreads();
  if (warp != 0) return;
  warp_best<BLEND_TOP>(candidates, LIBRARY_WARPS * BLEND_TOP, chosen);
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
