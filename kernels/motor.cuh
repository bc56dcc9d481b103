/// Step 7: the read-out, the bridge after a change of grid, and the motors.
///
/// Each motor is computed by one block of `answer` with 256 threads: a row of 2113 weights, eight or nine per
/// thread. Shared memory: eight doubles. Products are in f64, so that the number of threads changes no more
/// than the last bits of the sum; the loads hide the cost of the 2113 products.
#pragma once
#include "arithmetic.cuh"

__device__ inline void drive_motor(const Brain& brain, unsigned row) {
  __shared__ double scratch[BLOCK_WARPS];
  const Cycle& cycle = *brain.cycle;
  const float* weights = brain.readout + (cycle.on_half * brain.rule->motors + row) * (FEATURES + 1);
  double sum = 0.0;
  for (unsigned i = threadIdx.x; i < FEATURES; i += blockDim.x) {
    sum += static_cast<double>(weights[i]) * static_cast<double>(brain.features[i]);
  }
  const double said = block_sum(sum, scratch) + static_cast<double>(weights[FEATURES]);
  if (threadIdx.x != 0) return;
  double& score = brain.scores[row];
  double& bridge = brain.scores[MAX_MOTORS + row];
  bridge = cycle.moved ? score - said : bridge * brain.rule->bridge_fade;
  score = said + bridge;
  brain.answer->scores[row] = static_cast<float>(score);
  brain.answer->motors[row] = static_cast<float>(tanh(score + cycle.noise[row]));
}
