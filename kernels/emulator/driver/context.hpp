/// Driver functions for the device, its contexts, and memory.
#pragma once
#include "call.hpp"

namespace standin {

/// Results of cuDeviceGetAttribute: the values of an Orin, for those attributes that a caller needs. The
/// attribute numbers are the same in every CUDA version.
struct Attribute {
  int number, value;
};
constexpr Attribute ATTRIBUTES[] = {
    {1, 1024}, {2, 1024}, {3, 1024}, {4, 64},          // maximum threads per block; along x, y, z
    {5, 0x7fffffff}, {6, 65535}, {7, 65535},           // maximum blocks along x, y, z
    {8, 49152}, {9, 65536}, {10, 32}, {12, 65536},     // shared and constant memory, warp size, registers
    {13, 918000}, {15, 1}, {16, 8}, {17, 0}, {18, 1},  // clock in kHz, overlap, multiprocessors, no time limit, integrated
    {19, 1}, {20, 0}, {31, 1}, {32, 0},                // maps host memory, default mode, concurrent kernels, no ECC
    {36, 3200000}, {37, 128}, {38, 4 << 20}, {39, 1536}, // memory clock in kHz, bus width, L2 cache, threads
    {40, 2}, {41, 1}, {78, 1}, {81, 167936}, {82, 65536}, // copy engines, unified addresses, priorities, shared, registers
    {83, 1}, {84, 0}, {89, 0}, {95, 1}, {97, 166912},  // managed memory, one board, no concurrent managed access, cooperative launch, opt-in shared memory
    {106, 16}, {108, 3 << 20}, {115, 0},               // blocks, persisting L2 cache, no memory pools
};

constexpr std::uintptr_t CONTEXTS = 0x5c0000000000;
constexpr int LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5;

inline int check_device(int number) { return number == 0 && device.orders.devices == 1 ? OK : INVALID_DEVICE; }

inline void start_worker() {
  if (device.started) return;
  device.started = true;
  std::thread(live).detach();
}

/// Creates an empty context, and the device's thread with the first one.
inline std::uintptr_t new_context() {
  static std::uintptr_t next = CONTEXTS;
  device.contexts[next += 64] = OK;
  start_worker();
  return next;
}

} // namespace standin

using namespace standin;

API cuInit(unsigned flags) {
  return call("cuInit", Needs::Nothing, [&](Lock&) -> int {
    if (flags != 0) return INVALID_VALUE;
    if (device.orders.init != OK) return device.orders.init;
    if (device.orders.devices == 0) return NO_DEVICE;
    device.initialised = true;
    return OK;
  });
}
API cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", Needs::Nothing, [&](Lock&) { return *version = device.orders.driver, OK; });
}
API cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", Needs::Init, [&](Lock&) { return *count = device.orders.devices, OK; });
}
API cuDeviceGet(int* number, int ordinal) {
  return call("cuDeviceGet", Needs::Init, [&](Lock&) { return *number = ordinal, check_device(ordinal); });
}
API cuDeviceGetName(char* name, int length, int number) {
  return call("cuDeviceGetName", Needs::Init, [&](Lock&) -> int {
    if (length <= 0) return INVALID_VALUE;
    std::snprintf(name, static_cast<std::size_t>(length), "ganglion stand-in (no GPU)");
    return check_device(number);
  });
}
API cuDeviceGetAttribute(int* value, int attribute, int number) {
  return call("cuDeviceGetAttribute", Needs::Init, [&](Lock&) -> int {
    if (check_device(number) != OK) return INVALID_DEVICE;
    if (attribute == 75) return *value = device.orders.major, OK;
    if (attribute == 76) return *value = device.orders.minor, OK;
    for (const Attribute& it : ATTRIBUTES) {
      if (it.number == attribute) return *value = it.value, OK;
    }
    return say(INVALID_VALUE, "cuDeviceGetAttribute: attribute %d is not known here", attribute);
  });
}
API cuDeviceTotalMem_v2(std::size_t* bytes, int number) {
  return call("cuDeviceTotalMem_v2", Needs::Init, [&](Lock&) { return *bytes = device.orders.memory, check_device(number); });
}

API cuDevicePrimaryCtxRetain(void** context, int number) {
  return call("cuDevicePrimaryCtxRetain", Needs::Init, [&](Lock&) -> int {
    if (check_device(number) != OK) return INVALID_DEVICE;
    if (device.primary == 0) device.primary = new_context();
    if (loss_of(device.primary) != OK) return loss_of(device.primary);
    device.retained++;
    *context = reinterpret_cast<void*>(device.primary);
    return OK;
  });
}
API cuDevicePrimaryCtxRelease_v2(int number) {
  return call("cuDevicePrimaryCtxRelease_v2", Needs::Init, [&](Lock& lock) -> int {
    if (check_device(number) != OK) return INVALID_DEVICE;
    if (device.retained == 0) return say(INVALID_CONTEXT, "the primary context is released more often than it was retained");
    if (--device.retained == 0) destroy_context(lock, device.primary);
    return OK;
  });
}
API cuDevicePrimaryCtxReset_v2(int number) {
  return call("cuDevicePrimaryCtxReset_v2", Needs::Init, [&](Lock& lock) -> int {
    if (check_device(number) != OK) return INVALID_DEVICE;
    destroy_context(lock, device.primary);
    return OK;
  });
}
/// Creates a context that the caller owns, and makes it current. Destroying it frees everything in it, even
/// if the context is lost.
API cuCtxCreate_v2(void** context, unsigned, int number) {
  return call("cuCtxCreate_v2", Needs::Init, [&](Lock&) -> int {
    if (check_device(number) != OK) return INVALID_DEVICE;
    current = new_context();
    *context = reinterpret_cast<void*>(current);
    return OK;
  });
}
API cuCtxDestroy_v2(void* context) {
  return call("cuCtxDestroy_v2", Needs::Init, [&](Lock& lock) -> int {
    const auto wanted = reinterpret_cast<std::uintptr_t>(context);
    if (device.contexts.count(wanted) == 0 || wanted == device.primary) return say(INVALID_CONTEXT, "cuCtxDestroy: no such context, or the primary one");
    destroy_context(lock, wanted);
    if (current == wanted) current = 0;
    return OK;
  });
}
API cuDevicePrimaryCtxSetFlags_v2(int number, unsigned flags) {
  return call("cuDevicePrimaryCtxSetFlags_v2", Needs::Init, [&](Lock&) { return device.context_flags = flags, check_device(number); });
}
API cuDevicePrimaryCtxGetState(int number, unsigned* flags, int* active) {
  return call("cuDevicePrimaryCtxGetState", Needs::Init, [&](Lock&) {
    *flags = device.context_flags;
    *active = device.primary != 0;
    return check_device(number);
  });
}
API cuCtxSetCurrent(void* context) {
  return call("cuCtxSetCurrent", Needs::Init, [&](Lock&) -> int {
    const auto wanted = reinterpret_cast<std::uintptr_t>(context);
    if (wanted != 0 && device.contexts.count(wanted) == 0) {
      return say(wanted > CONTEXTS && wanted < CONTEXTS + (1u << 30) ? CONTEXT_IS_DESTROYED : INVALID_CONTEXT, "cuCtxSetCurrent: no such context");
    }
    current = wanted;
    return OK;
  });
}
API cuCtxGetCurrent(void** context) {
  return call("cuCtxGetCurrent", Needs::Init, [&](Lock&) { return *context = reinterpret_cast<void*>(current), OK; });
}
API cuCtxGetDevice(int* number) {
  return call("cuCtxGetDevice", Needs::Context, [&](Lock&) { return *number = 0, OK; });
}
API cuCtxSynchronize() {
  return call("cuCtxSynchronize", Needs::Quiet, [&](Lock& lock) {
    device.progress.wait(lock, [] { return after_wait() != OK || is_idle(); });
    return after_wait();
  });
}
API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return call("cuCtxGetStreamPriorityRange", Needs::Context, [&](Lock&) {
    if (least) *least = LEAST_PRIORITY;
    if (greatest) *greatest = GREATEST_PRIORITY;
    return OK;
  });
}

API cuMemAlloc_v2(std::uintptr_t* address, std::size_t bytes) {
  return call("cuMemAlloc_v2", Needs::Quiet, [&](Lock&) -> int {
    if (bytes == 0) return say(INVALID_VALUE, "cuMemAlloc of 0 bytes");
    if (bytes > device.orders.memory || device.memory.device_bytes > device.orders.memory - bytes) return OUT_OF_MEMORY;
    *address = device.memory.take(bytes, false, 0, current);
    if (*address == 0) return OUT_OF_MEMORY;
    device.counts.device_ever++;
    return OK;
  });
}
API cuMemHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  return call("cuMemHostAlloc", Needs::Quiet, [&](Lock&) -> int {
    if (bytes == 0 || flags > 7) return say(INVALID_VALUE, "cuMemHostAlloc of %zu bytes with flags %u", bytes, flags);
    *address = reinterpret_cast<void*>(device.memory.take(bytes, true, flags, current));
    if (*address == nullptr) return OUT_OF_MEMORY;
    device.counts.host_ever++;
    return OK;
  });
}

/// Frees memory after all work is done, as the real driver does.
static int free_memory(const char* name, std::uintptr_t address, bool host, Lock& lock) {
  device.progress.wait(lock, [] { return after_wait() != OK || is_idle(); });
  if (after_wait() != OK) return after_wait();
  const auto it = device.memory.live.find(address);
  if (it == device.memory.live.end() || it->second.host != host || it->second.registered) {
    return say(INVALID_VALUE, "%s: 0x%zx %s", name, static_cast<std::size_t>(address), device.memory.was_freed(address) ? "was freed before" : "is not where an allocation of that kind begins");
  }
  if (!device.memory.margins_hold(name)) return lose(current, LAUNCH_FAILED), LAUNCH_FAILED;
  device.memory.give_back(address);
  return OK;
}
API cuMemFree_v2(std::uintptr_t address) {
  return call("cuMemFree_v2", Needs::Quiet, [&](Lock& lock) { return address == 0 ? int(OK) : free_memory("cuMemFree", address, false, lock); });
}
API cuMemFreeHost(void* address) {
  return call("cuMemFreeHost", Needs::Quiet, [&](Lock& lock) { return free_memory("cuMemFreeHost", reinterpret_cast<std::uintptr_t>(address), true, lock); });
}
/// Registers host pages with the device, which page-locks them.
API cuMemHostRegister_v2(void* start, std::size_t bytes, unsigned flags) {
  return call("cuMemHostRegister_v2", Needs::Quiet, [&](Lock&) -> int {
    const auto address = reinterpret_cast<std::uintptr_t>(start);
    if (bytes == 0 || flags > 15) return say(INVALID_VALUE, "cuMemHostRegister of %zu bytes with flags %u", bytes, flags);
    if (address % PAGE != 0 || bytes % PAGE != 0) return say(INVALID_VALUE, "cuMemHostRegister: the range at 0x%zx does not consist of whole pages", static_cast<std::size_t>(address));
    if (!device.memory.take_in(address, bytes, flags, current)) return say(HOST_MEMORY_ALREADY_REGISTERED, "cuMemHostRegister: part of the range is already registered");
    return OK;
  });
}
API cuMemHostUnregister(void* start) {
  return call("cuMemHostUnregister", Needs::Quiet, [&](Lock& lock) -> int {
    const auto address = reinterpret_cast<std::uintptr_t>(start);
    device.progress.wait(lock, [] { return after_wait() != OK || is_idle(); });
    if (after_wait() != OK) return after_wait();
    const auto it = device.memory.live.find(address);
    if (it == device.memory.live.end() || !it->second.registered) return say(HOST_MEMORY_NOT_REGISTERED, "cuMemHostUnregister: 0x%zx is not registered", static_cast<std::size_t>(address));
    device.memory.give_back(address);
    return OK;
  });
}
API cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return call("cuMemGetInfo_v2", Needs::Context, [&](Lock&) {
    *total = device.orders.memory;
    *free = *total > device.memory.device_bytes ? *total - device.memory.device_bytes : 0;
    return OK;
  });
}
API cuMemHostGetDevicePointer_v2(std::uintptr_t* address, void* host, unsigned flags) {
  return call("cuMemHostGetDevicePointer_v2", Needs::Context, [&](Lock&) -> int {
    *address = reinterpret_cast<std::uintptr_t>(host);
    const Allocation* it = device.memory.holding(*address, 0);
    if (flags == 0 && it != nullptr && it->host && (it->flags & 2) != 0) return OK;
    return device.memory.refuse("cuMemHostGetDevicePointer", it, *address, 0);
  });
}
