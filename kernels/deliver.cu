/// The end of a cycle: the bank stores or recognises, the answer is written to host memory, and then the ticket,
/// which tells the host that the answer is complete. The host polls the ticket; it does not call the driver.
///
/// Launch: grid (1, 1, robots), block 256. launch.number: blocks of the scan.
#include "bank.cu"

/// Reports the row that the cycle changed, for the host's copy of the bank: at most 2 KB, only if the bank
/// learns.
__device__ inline void deliver_row(const Brain& brain) {
  Report& report = *brain.report;
  const unsigned row = brain.rule->learns ? brain.bank.sweep->touched : NO_ROW;
  if (threadIdx.x == 0) report.touched = row;
  if (row == NO_ROW) return;
  const float* exact = brain.bank.exact + static_cast<unsigned long long>(row) * DESCRIPTOR;
  for (unsigned i = threadIdx.x; i < DESCRIPTOR; i += BLOCK_THREADS) report.exact[i] = exact[i];
  if (threadIdx.x == 0) {
    report.value = brain.bank.value[row];
    report.last_use = brain.bank.last_use[row];
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) deliver(const Brain* brains, Launch launch) {
  const Brain& brain = brains[blockIdx.z];
  remember(brain, launch.number);
  __syncthreads(); // makes what the block has stored visible to all of its threads
  constexpr unsigned WORDS = sizeof(Answer) / sizeof(unsigned long long);
  static_assert(WORDS <= BLOCK_THREADS, "a thread for each word");
  const auto* from = reinterpret_cast<const unsigned long long*>(brain.answer);
  auto* to = reinterpret_cast<unsigned long long*>(&brain.report->answer);
  if (threadIdx.x < WORDS) to[threadIdx.x] = from[threadIdx.x];
  deliver_row(brain);
  if (threadIdx.x == 0) brain.report->ended = device_clock();
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence_system(); // everything that the block wrote is visible before the ticket, also to the host
  *const_cast<volatile unsigned*>(&brain.report->ticket) = brain.cycle->ticket;
}
