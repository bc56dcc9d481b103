/// The kernels of ganglion.cu by name, to be run on the emulator, all with the same two arguments.
#pragma once
#include "cuda.hpp"
#include "../ganglion.cu"

namespace emulator {

struct Kernel {
  const char* name;
  void (*run)(const Brain*, Launch);
};
#define KERNEL(name) {#name, name}
constexpr Kernel KERNELS[] = {
    KERNEL(sense),          KERNEL(evolve_4),        KERNEL(evolve_8),   KERNEL(evolve_16), KERNEL(evolve_32),
    KERNEL(evolve_64),      KERNEL(features),        KERNEL(library),    KERNEL(bank_scan_half),
    KERNEL(bank_scan_bytes), KERNEL(bank_score),     KERNEL(remember),   KERNEL(experience), KERNEL(learn_gain),
    KERNEL(learn_apply),    KERNEL(predict),         KERNEL(motor),      KERNEL(metrics),   KERNEL(enter_half),
    KERNEL(leave_half)};
#undef KERNEL

/// The kernel of that name; null if there is none.
inline const Kernel* find_kernel(const char* name) {
  for (const Kernel& kernel : KERNELS) {
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  }
  return nullptr;
}

struct Arguments {
  void (*run)(const Brain*, Launch);
  const Brain* brains;
  Launch launch;
};

inline void run_arguments(void* arguments) {
  const auto* with = static_cast<const Arguments*>(arguments);
  with->run(with->brains, with->launch);
}

/// Runs a kernel over a grid.
inline void launch(const Kernel& kernel, uint3 grid, unsigned threads, bool reversed, const Brain* brains, Launch how) {
  Arguments with = {kernel.run, brains, how};
  launch(grid, threads, reversed, run_arguments, &with);
}

} // namespace emulator
