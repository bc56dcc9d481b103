/// Steps 5 to 7 after the scan: the exact comparison of the bank's rows, the match with the library, the prediction
/// and the motors, side by side in one launch. None of them needs the result of another, and separate launches would
/// take longer than the work itself.
///
/// Launch: grid (scan's blocks + 1 + ceil(sensors / 8) + motors, 1, robots), block 256. launch.number: blocks of
/// the scan. launch.planes_or_tasks: a mask of the tasks below; the blocks of all other tasks return at once.
#include "bank.cu"
#include "learn.cuh"
#include "library.cuh"
#include "motor.cuh"

constexpr unsigned TASK_BANK = 1, TASK_LIBRARY = 2, TASK_ACT = 4;

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) answer(const Brain* brains, Launch launch) {
  const Brain& brain = brains[blockIdx.z];
  const unsigned tasks = launch.planes_or_tasks;
  if (blockIdx.x < launch.number) {
    if (tasks & TASK_BANK) compare_rows(brain, launch.number);
    return;
  }
  const unsigned block = blockIdx.x - launch.number, predicting = (brain.rule->sensors + BLOCK_WARPS - 1) / BLOCK_WARPS;
  if (block == 0) {
    if (tasks & TASK_LIBRARY) match_library(brain);
  } else if (tasks & TASK_ACT) {
    if (block <= predicting) {
      predict(brain, block - 1);
    } else {
      drive_motor(brain, block - 1 - predicting);
    }
  }
}
