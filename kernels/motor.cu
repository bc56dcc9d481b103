/// Step 7: the read-out, the bridge after a change of grid, and the motors.
///
/// Launch: grid (motors, 1, robots), block 256: a block a row of 2113 weights, eight or nine each.
/// Shared memory: eight doubles. Products in f64, so that the sum does not depend on how many
/// threads shared it by more than the last bits of a double; 2113 of them hide behind the loads.
#include "arithmetic.cuh"

constexpr unsigned MOTOR_THREADS = 256;

extern "C" __global__ void __launch_bounds__(MOTOR_THREADS) motor(const Brain* brains, Launch) {
  __shared__ double scratch[MOTOR_THREADS / WARP];
  const Brain& brain = brains[blockIdx.z];
  const Cycle& cycle = *brain.cycle;
  const unsigned row = blockIdx.x;
  const float* weights = brain.readout + (cycle.on_half * gridDim.x + row) * (FEATURES + 1);
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
