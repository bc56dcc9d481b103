/// Finds reads of device memory that nothing has written, as compute-sanitizer's initcheck does on a GPU.
///
/// Active only in a library compiled with GANGLION_INITCHECK and -fsanitize=kernel-address: the compiler then
/// calls the functions at the end of this file before each access. A kernel, or a copy from the device, that
/// reads a byte which no copy, fill or kernel has written fails with a message, and its context is lost.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../cuda.hpp"
#include "memory.hpp"

namespace standin {

#ifdef GANGLION_INITCHECK
/// Marks a function that is compiled without checks. It, and everything that it calls, uses plain pointers
/// and no library code.
#define UNCHECKED __attribute__((no_sanitize("kernel-address")))

/// An allocation on the device, with a flag for each byte that tells whether it was written.
struct Shadow {
  std::uintptr_t start;
  std::size_t bytes;
  unsigned char* written;
};
/// The allocations that existed when an operation began, for the device's thread.
struct Shadows {
  const Shadow* all;
  std::size_t count, last; // last: tried first, because most accesses hit the same allocation again
};
inline std::vector<Shadow> listed;
inline thread_local Shadows shadows = {};
/// Whether this thread runs a kernel: accesses are checked only then.
inline thread_local bool checking = false;

inline void list_allocations(const Memory& memory) {
  listed.clear();
  for (const auto& entry : memory.live) {
    if (entry.second.written != nullptr) listed.push_back({entry.first, entry.second.bytes, entry.second.written});
  }
  shadows = {listed.data(), listed.size(), 0};
}

/// The flags of a range; null if the range does not lie within one allocation on the device.
UNCHECKED inline unsigned char* shadow_of(std::uintptr_t address, std::size_t bytes) {
  for (std::size_t tried = 0; tried < shadows.count; tried++) {
    const Shadow& it = shadows.all[shadows.last];
    const std::size_t at = address - it.start;
    if (at < it.bytes && bytes <= it.bytes - at) return it.written + at;
    shadows.last = shadows.last + 1 < shadows.count ? shadows.last + 1 : 0;
  }
  return nullptr;
}
UNCHECKED inline void note_write(std::uintptr_t address, std::size_t bytes) {
  unsigned char* written = shadow_of(address, bytes);
  for (std::size_t byte = 0; written != nullptr && byte < bytes; byte++) written[byte] = 1;
}
/// Whether the whole range was written, or is not on the device.
UNCHECKED inline bool is_written(std::uintptr_t address, std::size_t bytes) {
  const unsigned char* written = shadow_of(address, bytes);
  for (std::size_t byte = 0; written != nullptr && byte < bytes; byte++) {
    if (written[byte] == 0) return false;
  }
  return true;
}
inline void check_accesses(bool on) { checking = on; }

UNCHECKED inline void on_load(std::uintptr_t address, std::size_t bytes) {
  if (!checking || is_written(address, bytes)) return;
  checking = false;
  emulator::refuse("reads memory that nothing has written");
}
UNCHECKED inline void on_store(std::uintptr_t address, std::size_t bytes) {
  if (checking) note_write(address, bytes);
}

#else
inline void list_allocations(const Memory&) {}
inline void note_write(std::uintptr_t, std::size_t) {}
inline bool is_written(std::uintptr_t, std::size_t) { return true; }
inline void check_accesses(bool) {}
#endif

} // namespace standin

#ifdef GANGLION_INITCHECK
#define HOOK extern "C" __attribute__((visibility("hidden"))) UNCHECKED void
#define ACCESS(bytes)                                                                                       \
  HOOK __asan_load##bytes##_noabort(std::uintptr_t address) { standin::on_load(address, bytes); }           \
  HOOK __asan_store##bytes##_noabort(std::uintptr_t address) { standin::on_store(address, bytes); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
HOOK __asan_loadN_noabort(std::uintptr_t address, std::size_t bytes) { standin::on_load(address, bytes); }
HOOK __asan_storeN_noabort(std::uintptr_t address, std::size_t bytes) { standin::on_store(address, bytes); }
HOOK __asan_handle_no_return() {}
HOOK __asan_before_dynamic_init(std::uintptr_t) {}
HOOK __asan_after_dynamic_init() {}
#undef ACCESS
#undef HOOK
#endif
