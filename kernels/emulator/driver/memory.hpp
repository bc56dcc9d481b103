/// Device memory and page-locked host memory: who owns which allocation, and the margins around each.
///
/// Both kinds are pages of this process. Fresh memory is NaN, the margins around it must stay unchanged, and
/// freed memory can never be touched or handed out again: its addresses stay reserved, without access.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>
#include <sys/mman.h>

#include "codes.hpp"

namespace standin {

/// The margin on both sides of an allocation; also the alignment, the same as the real driver's.
constexpr std::size_t MARGIN = 256;
constexpr std::size_t PAGE = 4096;
constexpr unsigned char UNTOUCHED = 0xA5, FRESH = 0xFF;

struct Allocation {
  unsigned char* pages;
  std::size_t bytes, whole;
  unsigned flags;
  bool host;
  bool registered = false; // the host's own memory: no margins, and the driver never frees it
  std::uintptr_t context = 0;
  unsigned char* written = nullptr; // on the device: a written flag for each byte (initialised.hpp)
};

/// A flag for each byte, all 0; null in a library that does not check reads, or if the system is out of
/// memory.
inline unsigned char* written_flags([[maybe_unused]] std::size_t bytes) {
#ifdef GANGLION_INITCHECK
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<unsigned char*>(pages);
#else
  return nullptr;
#endif
}

struct Memory {
  std::map<std::uintptr_t, Allocation> live;
  std::map<std::uintptr_t, std::size_t> freed;
  std::size_t device_bytes = 0;
  std::uint64_t device_now = 0, host_now = 0;

  /// The address of newly allocated memory; 0 if the system is out of memory.
  std::uintptr_t take(std::size_t bytes, bool host, unsigned flags, std::uintptr_t context) {
    const std::size_t whole = (2 * MARGIN + bytes + PAGE - 1) / PAGE * PAGE;
    void* pages = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return 0;
    auto* start = static_cast<unsigned char*>(pages);
    std::memset(start, UNTOUCHED, MARGIN);
    std::memset(start + MARGIN, FRESH, bytes);
    std::memset(start + MARGIN + bytes, UNTOUCHED, whole - MARGIN - bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(start + MARGIN);
    live[address] = {start, bytes, whole, flags, host, false, context, host ? nullptr : written_flags(whole)};
    (host ? host_now : device_now) += 1;
    if (!host) device_bytes += bytes;
    return address;
  }

  void give_back(std::uintptr_t address) {
    const Allocation it = live[address];
    live.erase(address);
    if (it.written != nullptr) munmap(it.written, it.whole);
    if (it.registered) return; // it stays the host's
    // Frees the pages but keeps their addresses reserved, in one step.
    mmap(it.pages, it.whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    freed[address] = it.bytes;
    (it.host ? host_now : device_now) -= 1;
    if (!it.host) device_bytes -= it.bytes;
  }

  /// Frees all memory that was allocated in a context, and unregisters what was registered in it.
  void give_back_all_of(std::uintptr_t context) {
    std::vector<std::uintptr_t> theirs;
    for (const auto& entry : live) {
      if (entry.second.context == context) theirs.push_back(entry.first);
    }
    for (const std::uintptr_t address : theirs) give_back(address);
  }

  /// Registers host memory with the device; false if part of it is registered already.
  bool take_in(std::uintptr_t address, std::size_t bytes, unsigned flags, std::uintptr_t context) {
    for (const auto& entry : live) {
      if (entry.first < address + bytes && address < entry.first + entry.second.bytes) return false;
    }
    auto* start = reinterpret_cast<unsigned char*>(address);
    live[address] = {start, bytes, bytes, flags, true, true, context};
    return true;
  }

  /// The allocation that contains the whole range; null if none does.
  const Allocation* holding(std::uintptr_t address, std::size_t bytes) const {
    auto after = live.upper_bound(address);
    if (after == live.begin()) return nullptr;
    --after;
    const std::size_t at = address - after->first;
    return at <= after->second.bytes && bytes <= after->second.bytes - at ? &after->second : nullptr;
  }

  bool was_freed(std::uintptr_t address) const {
    auto after = freed.upper_bound(address);
    if (after == freed.begin()) return false;
    --after;
    return address - after->first <= after->second;
  }

  /// Checks that the device may touch a range; `what` names the range in the error message.
  int check_device(const char* what, std::uintptr_t address, std::size_t bytes) const {
    const Allocation* it = holding(address, bytes);
    if (it != nullptr && (!it->host || (it->flags & 2) != 0)) return OK;
    return refuse(what, it, address, bytes);
  }

  int refuse(const char* what, const Allocation* it, std::uintptr_t address, std::size_t bytes) const {
    const char* why = it != nullptr         ? "lies in memory that is not mapped for the device"
                      : was_freed(address) ? "was freed"
                      : holding(address, 0) ? "goes beyond its allocation"
                                            : "is in no allocation";
    return say(INVALID_VALUE, "%s: the range of %zu bytes at 0x%zx %s", what, bytes, static_cast<std::size_t>(address), why);
  }

  /// Checks the margins of all allocations: reports the first write into one, and returns false.
  bool margins_hold(const char* writer) const {
    for (const auto& entry : live) {
      const Allocation& it = entry.second;
      if (it.registered) continue;
      const unsigned char *before = it.pages, *after = it.pages + MARGIN + it.bytes;
      for (std::size_t k = 0; k < MARGIN; k++) {
        if (before[k] == UNTOUCHED && after[k] == UNTOUCHED) continue;
        say(0, "%s wrote beside the allocation of %zu bytes at 0x%zx", writer, it.bytes, static_cast<std::size_t>(entry.first));
        return false;
      }
    }
    return true;
  }
};

} // namespace standin
