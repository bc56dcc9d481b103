/// A stand-in for the CUDA driver: a shared library with those driver functions that src/system/gpu calls, on
/// top of the kernel emulator. A test tool: it refuses whatever a real driver refuses, and says why on
/// standard error; it injects faults where it is told to (driver/orders.hpp).
///
/// Not supported: default streams, pageable copies, textures, any kernel but ours.
/// scripts/stand-in-driver compiles it.
#include <algorithm>

#include "driver/streams.hpp"
#include "driver/context.hpp"

namespace {

using namespace standin;

int chip() { return device.orders.major * 10 + device.orders.minor; }

/// The options that the stand-in uses: CU_JIT_ERROR_LOG_BUFFER and its size. It ignores the others.
void write_log(int code, unsigned count, const int* options, void** values) {
  char* log = nullptr; // the caller's buffer
  std::size_t bytes = 0;
  void** used = nullptr;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == 5) log = static_cast<char*>(values[i]);
    if (options[i] == 6) bytes = reinterpret_cast<std::size_t>(values[i]), used = &values[i];
    if (options[i] == 4) values[i] = nullptr; // the other log is empty
  }
  if (log == nullptr || bytes == 0) return;
  const int length = std::snprintf(log, bytes, code == OK ? "" : "stand-in: this image is refused with code %d", code);
  *used = reinterpret_cast<void*>(std::min(bytes, static_cast<std::size_t>(length)));
}

const Named* named(int code) {
  for (const Named& it : NAMES) {
    if (it.code == code) return &it;
  }
  return nullptr;
}

[[maybe_unused]] const bool has_clock = [] {
  emulator::device_clock = [] {
    const auto now = Clock::now().time_since_epoch();
    return static_cast<unsigned long long>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  };
  return true;
}();

/// The orders in the environment, applied at load time, after the device was created.
[[maybe_unused]] const bool understood_at_load = device.orders.take_all(std::getenv("GANGLION_STAND_IN"));

} // namespace

API cuModuleLoadDataEx(void** handle, const void* image, unsigned count, int* options, void** values) {
  return call("cuModuleLoadDataEx", Needs::Quiet, [&](Lock&) {
    auto module = std::make_shared<Module>();
    const int code = read_image(static_cast<const char*>(image), chip(), module->image);
    if (code == OK) *handle = device.modules.put(module);
    write_log(code, count, options, values);
    return code;
  });
}
API cuModuleUnload(void* handle) {
  return call("cuModuleUnload", Needs::Quiet, [&](Lock&) -> int {
    const auto module = device.modules.find(handle);
    if (!module) return no_handle("cuModuleUnload", "module");
    module->loaded = false;
    device.modules.drop(handle);
    return OK;
  });
}
API cuModuleGetFunction(void** function, void* handle, const char* name) {
  return call("cuModuleGetFunction", Needs::Context, [&](Lock&) -> int {
    const auto module = device.modules.find(handle);
    if (!module) return no_handle("cuModuleGetFunction", "module");
    for (const Entry& entry : module->image.entries) {
      if (entry.name != name) continue;
      const emulator::Kernel* kernel = emulator::find_kernel(name);
      if (kernel == nullptr) return say(NOT_FOUND, "%s is in the image, but not in the sources that the stand-in was compiled from", name);
      *function = device.functions.put(std::make_shared<Function>(Function{module, kernel, entry}));
      return OK;
    }
    return say(NOT_FOUND, "%s is not in the image", name);
  });
}
/// Constants, because nothing is compiled here: registers as ptxas limits them for evolve on every chip, no spills.
API cuFuncGetAttribute(int* value, int attribute, void* function) {
  return call("cuFuncGetAttribute", Needs::Context, [&](Lock&) -> int {
    const auto found = device.functions.find(function);
    if (!found) return no_handle("cuFuncGetAttribute", "kernel");
    const int values[] = {static_cast<int>(found->entry.most_threads), static_cast<int>(found->entry.shared_bytes), 0, 0, 80, 87, chip(), 0};
    if (attribute < 0 || attribute > 7) return say(INVALID_VALUE, "cuFuncGetAttribute: attribute %d is not supported", attribute);
    *value = values[attribute];
    return OK;
  });
}

API cuGetErrorName(int code, const char** name) {
  const Named* it = named(code);
  *name = it ? it->name : nullptr;
  return it ? OK : INVALID_VALUE;
}
API cuGetErrorString(int code, const char** meaning) {
  const Named* it = named(code);
  *meaning = it ? it->meaning : nullptr;
  return it ? OK : INVALID_VALUE;
}

/// Takes orders (driver/orders.hpp); returns 0 if they were understood. `fresh` resets everything: orders
/// and counts get their initial values, and all contexts of the device are destroyed, even if they are in use.
API ganglion_stand_in(const char* orders) {
  Lock lock(device.mutex);
  const bool fresh = std::strcmp(orders, "fresh") == 0;
  const bool understood = device.orders.take_all(fresh ? "reset" : orders);
  device.work.notify_all();
  device.progress.notify_all();
  if (fresh) {
    while (!device.contexts.empty()) destroy_context(lock, device.contexts.begin()->first);
    device.spoiled = OK;
    device.retained = 0;
    device.initialised = false;
    device.counts = {};
  }
  return understood ? 0 : 1;
}
/// Writes as many of the counts as fit into `room`; returns how many there are.
API ganglion_stand_in_counts(std::uint64_t* numbers, std::size_t room) {
  Lock lock(device.mutex);
  Counts counts = device.counts;
  counts.device_now = device.memory.device_now, counts.host_now = device.memory.host_now;
  counts.device_bytes = device.memory.device_bytes;
  counts.registered = 0;
  for (const auto& entry : device.memory.live) counts.registered += entry.second.registered;
  counts.streams = device.streams.live.size(), counts.events = device.events.live.size();
  counts.graphs = device.graphs.live.size(), counts.executables = device.executables.live.size();
  counts.modules = device.modules.live.size();
  counts.retained = static_cast<std::uint64_t>(device.retained) + device.contexts.size() - (device.primary != 0);
  std::memcpy(numbers, &counts, std::min(room, COUNTS) * sizeof *numbers);
  return static_cast<int>(COUNTS);
}
