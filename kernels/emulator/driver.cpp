/// A stand-in for the CUDA driver: a shared library with the driver's functions, as far as src/gpu calls
/// them, over the kernel emulator. A test tool: it refuses whatever a real driver refuses, and says why
/// in a sentence on standard error; it goes wrong where it is told to (driver/orders.hpp).
///
/// What it is not: a second context, default streams, pageable copies, textures, any kernel but ours.
/// scripts/stand-in-driver compiles it.
#include <algorithm>

#include "driver/streams.hpp"
#include "driver/context.hpp"

namespace {

using namespace standin;

int chip() { return device.orders.major * 10 + device.orders.minor; }

int load(void** handle, const char* data) {
  auto module = std::make_shared<Module>();
  const int code = read_image(data, chip(), module->image);
  if (code == OK) *handle = device.modules.put(module);
  return code;
}

/// What the linker was given, and the cubin that it made of it.
struct Link {
  Image image;
  bool filled = false;
  std::string cubin;
  char* log = nullptr; // of errors, the caller's
  std::size_t log_bytes = 0;
  void** log_used = nullptr;
};
Handles<Link>& links = *new Handles<Link>;

/// Options that the stand-in looks at: CU_JIT_ERROR_LOG_BUFFER and its size. Others change nothing here.
void take_options(Link& link, unsigned count, const int* options, void** values) {
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == 5) link.log = static_cast<char*>(values[i]);
    if (options[i] == 6) link.log_bytes = reinterpret_cast<std::size_t>(values[i]), link.log_used = &values[i];
    if (options[i] == 4) values[i] = nullptr; // nothing is in the other log
  }
}

void write_log(Link& link, int code) {
  if (link.log == nullptr || link.log_bytes == 0) return;
  const int used = std::snprintf(link.log, link.log_bytes, code == OK ? "" : "stand-in: this image is refused with code %d", code);
  if (link.log_used) *link.log_used = reinterpret_cast<void*>(std::min(link.log_bytes, static_cast<std::size_t>(used)));
}

const Named* named(int code) {
  for (const Named& it : NAMES) {
    if (it.code == code) return &it;
  }
  return nullptr;
}

/// The environment's orders, taken at load, after the device was made.
[[maybe_unused]] const bool understood_at_load = device.orders.take_all(std::getenv("GANGLION_STAND_IN"));

} // namespace

API cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) {
  return call("cuModuleLoadDataEx", Needs::Quiet, [&](Lock&) {
    Link log;
    take_options(log, count, options, values);
    const int code = load(module, static_cast<const char*>(image));
    write_log(log, code);
    return code;
  });
}
API cuModuleLoadData(void** module, const void* image) {
  return call("cuModuleLoadData", Needs::Quiet, [&](Lock&) { return load(module, static_cast<const char*>(image)); });
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
      if (kernel == nullptr) return say(NOT_FOUND, "%s is in the image, but not in what the stand-in was compiled from", name);
      *function = device.functions.put(std::make_shared<Function>(Function{module, kernel, entry}));
      return OK;
    }
    return say(NOT_FOUND, "%s is not in the image", name);
  });
}
/// Registers are what ptxas allows evolve on every chip; nothing spills: constants, as nothing is compiled here.
API cuFuncGetAttribute(int* value, int attribute, void* function) {
  return call("cuFuncGetAttribute", Needs::Context, [&](Lock&) -> int {
    const auto found = device.functions.find(function);
    if (!found) return no_handle("cuFuncGetAttribute", "kernel");
    const int values[] = {static_cast<int>(found->entry.most_threads), static_cast<int>(found->entry.shared_bytes), 0, 0, 80, 87, chip(), 0};
    if (attribute < 0 || attribute > 7) return say(INVALID_VALUE, "cuFuncGetAttribute: attribute %d is not known here", attribute);
    *value = values[attribute];
    return OK;
  });
}

API cuLinkCreate_v2(unsigned count, int* options, void** values, void** handle) {
  return call("cuLinkCreate_v2", Needs::Context, [&](Lock&) {
    auto link = std::make_shared<Link>();
    take_options(*link, count, options, values);
    *handle = links.put(link);
    return OK;
  });
}
API cuLinkAddData_v2(void* handle, int kind, void* data, std::size_t bytes, const char*, unsigned, int*, void**) {
  return call("cuLinkAddData_v2", Needs::Context, [&](Lock&) -> int {
    const auto link = links.find(handle);
    if (!link) return no_handle("cuLinkAddData", "linker");
    std::string text(static_cast<const char*>(data), bytes);
    if (!text.empty() && text.back() == '\0') text.pop_back();
    int code = kind == 1 ? OK : say(INVALID_VALUE, "cuLinkAddData: the stand-in links PTX only");
    if (code == OK && text.find('\0') != std::string::npos) code = say(INVALID_PTX, "the PTX holds a zero byte");
    if (code == OK) code = read_ptx(text, chip(), link->image);
    link->filled = code == OK;
    write_log(*link, code);
    return code;
  });
}
API cuLinkComplete(void* handle, void** cubin, std::size_t* bytes) {
  return call("cuLinkComplete", Needs::Context, [&](Lock&) -> int {
    const auto link = links.find(handle);
    if (!link) return no_handle("cuLinkComplete", "linker");
    if (!link->filled) return say(INVALID_IMAGE, "cuLinkComplete: nothing was added");
    link->cubin = write_cubin(link->image, chip());
    write_log(*link, OK);
    *cubin = &link->cubin[0];
    *bytes = link->cubin.size() + 1; // with the zero byte at the end
    return OK;
  });
}
API cuLinkDestroy(void* handle) {
  return call("cuLinkDestroy", Needs::Context, [&](Lock&) { return links.drop(handle) ? int(OK) : no_handle("cuLinkDestroy", "linker"); });
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

/// Takes orders (driver/orders.hpp); 0 if they were understood. `fresh` besides: orders and counts as at
/// the start, and the device without a context, whoever held one.
API ganglion_stand_in(const char* orders) {
  Lock lock(device.mutex);
  const bool fresh = std::strcmp(orders, "fresh") == 0;
  const bool understood = device.orders.take_all(fresh ? "reset" : orders);
  device.work.notify_all();
  device.progress.notify_all();
  if (fresh) {
    destroy_context(lock);
    links.live.clear();
    device.retained = 0;
    device.initialised = false;
    device.counts = {};
  }
  return understood ? 0 : 1;
}
/// Writes the counts, as many as fit into `room`; how many there are.
API ganglion_stand_in_counts(std::uint64_t* numbers, std::size_t room) {
  Lock lock(device.mutex);
  Counts counts = device.counts;
  counts.device_now = device.memory.device_now, counts.host_now = device.memory.host_now;
  counts.device_bytes = device.memory.device_bytes;
  counts.streams = device.streams.live.size(), counts.events = device.events.live.size();
  counts.graphs = device.graphs.live.size(), counts.executables = device.executables.live.size();
  counts.modules = device.modules.live.size(), counts.links = links.live.size();
  counts.retained = static_cast<std::uint64_t>(device.retained);
  std::memcpy(numbers, &counts, std::min(room, COUNTS) * sizeof *numbers);
  return static_cast<int>(COUNTS);
}
