/// The end of a cycle for the host: its answer goes to the host's memory, and then the ticket by which the host
/// sees that all of it is there. The host looks at the ticket and asks no driver.
///
/// Launch: grid (1, 1, robots), block 96: a thread for each 8 bytes of the answer.
#include "arithmetic.cuh"

constexpr unsigned DELIVER_THREADS = 96;

/// The row that the cycle changed, for the host's copy of the bank: at most 2 KB, and only of a bank that learns.
__device__ inline void deliver_row(const Brain& brain) {
  Report& report = *brain.report;
  const unsigned row = brain.rule->learns ? brain.bank.sweep->touched : NO_ROW;
  if (threadIdx.x == 0) report.touched = row;
  if (row == NO_ROW) return;
  const float* exact = brain.bank.exact + static_cast<unsigned long long>(row) * DESCRIPTOR;
  for (unsigned i = threadIdx.x; i < DESCRIPTOR; i += DELIVER_THREADS) report.exact[i] = exact[i];
  if (threadIdx.x == 0) {
    report.value = brain.bank.value[row];
    report.last_use = brain.bank.last_use[row];
  }
}

extern "C" __global__ void __launch_bounds__(DELIVER_THREADS) deliver(const Brain* brains, Launch) {
  const Brain& brain = brains[blockIdx.z];
  static_assert(sizeof(Answer) == DELIVER_THREADS * sizeof(unsigned long long), "a word for each thread");
  const auto* from = reinterpret_cast<const unsigned long long*>(brain.answer);
  auto* to = reinterpret_cast<unsigned long long*>(&brain.report->answer);
  to[threadIdx.x] = from[threadIdx.x];
  deliver_row(brain);
  __threadfence_system(); // the answer is there before the ticket, for the host as well
  __syncthreads();
  if (threadIdx.x != 0) return;
  brain.report->ended = device_clock();
  __threadfence_system();
  *const_cast<volatile unsigned*>(&brain.report->ticket) = brain.cycle->ticket;
}
