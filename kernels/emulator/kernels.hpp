/// The kernels of ganglion.cu by name, to be run on the emulator. All have the same two arguments: a table
/// (an array of `Brain` or `Sheet`) and the two numbers of a `Launch`.
#pragma once
#include "cuda.hpp"
#include "../ganglion.cu"

namespace emulator {

struct Kernel {
  const char* name;
  void (*run)(const void*, Launch);
  std::size_t table; // bytes of one entry; the table has one for each z of the grid
};

/// Runs a kernel with a table of any type.
template <class Table, void (*kernel)(const Table*, Launch)> void run_on(const void* table, Launch launch) {
  kernel(static_cast<const Table*>(table), launch);
}
#define KERNEL(name) {#name, run_on<Brain, name>, sizeof(Brain)}
#define MEMORY(name) {#name, run_on<Sheet, name>, sizeof(Sheet)}
constexpr Kernel KERNELS[] = {
    KERNEL(sense),          KERNEL(evolve_4),        KERNEL(evolve_8),   KERNEL(evolve_16), KERNEL(evolve_32),
    KERNEL(evolve_64),      KERNEL(features),        KERNEL(bank_scan),  KERNEL(answer),    KERNEL(deliver),
    KERNEL(metrics),        KERNEL(experience),      KERNEL(enter_half),
    KERNEL(leave_half),     MEMORY(convolve_128),    MEMORY(convolve_256), MEMORY(convolve_512),
    MEMORY(convolve_1024),  MEMORY(convolve_2048),   MEMORY(convolve_4096), MEMORY(convolve_8192),
    MEMORY(superpose_leaves), MEMORY(superpose_join), MEMORY(nearest_scan), MEMORY(nearest_join)};
#undef MEMORY
#undef KERNEL

/// The kernel of that name; null if there is none.
inline const Kernel* find_kernel(const char* name) {
  for (const Kernel& kernel : KERNELS) {
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  }
  return nullptr;
}

struct Arguments {
  void (*run)(const void*, Launch);
  const void* table;
  Launch launch;
};

inline void run_arguments(void* arguments) {
  const auto* with = static_cast<const Arguments*>(arguments);
  with->run(with->table, with->launch);
}

/// Runs a kernel over a grid.
inline void launch(const Kernel& kernel, uint3 grid, unsigned threads, bool reversed, const void* table, Launch how) {
  Arguments with = {kernel.run, table, how};
  launch(grid, threads, reversed, run_arguments, &with);
}

} // namespace emulator
