/// The entry to every driver function: injects faults, checks the required state, and lets no exception out.
#pragma once
#include "device.hpp"

#define API extern "C" __attribute__((visibility("default"))) int

namespace standin {

/// The state that a function requires.
enum class Needs {
  Nothing,
  Init,    // cuInit was called
  Context, // a current context that is not lost
  Quiet,   // also no active capture that this thread could disturb
};

/// Breaks the captures that a call of this thread disturbs: its own in thread-local mode, and all in global
/// mode. Returns whether there were any.
inline bool disturbs() {
  bool any = false;
  for (auto& capture : device.captures) {
    const bool own = capture->mode == Mode::ThreadLocal && capture->thread == std::this_thread::get_id();
    if (capture->over || !(own || capture->mode == Mode::Global)) continue;
    capture->broken = any = true;
  }
  return any;
}

inline int check(const char* name, Needs needs) {
  if (needs == Needs::Nothing) return OK;
  if (!device.initialised) return say(NOT_INITIALIZED, "%s before cuInit", name);
  if (device.spoiled != OK) return device.spoiled;
  if (needs == Needs::Init) return OK;
  if (current == 0) return say(INVALID_CONTEXT, "%s without a current context", name);
  if (device.contexts.count(current) == 0) return say(CONTEXT_IS_DESTROYED, "%s with a context that was destroyed", name);
  if (loss_of(current) != OK) return loss_of(current);
  if (needs == Needs::Quiet && disturbs()) return say(CAPTURE_UNSUPPORTED, "%s during a capture: the capture is broken", name);
  return OK;
}

/// One call of a driver function.
template <class Body> int call(const char* name, Needs needs, Body body) noexcept {
  try {
    Lock lock(device.mutex);
    const int struck = device.orders.strike(name);
    if (struck < 0) {
      const std::uint64_t releases = device.orders.releases;
      device.progress.wait(lock, [&] { return device.orders.releases != releases; });
    }
    if (struck > 0) {
      if (is_sticky(struck)) lose(current, struck);
      return struck;
    }
    const int code = check(name, needs);
    return code != OK ? code : body(lock);
  } catch (...) {
    return say(OUT_OF_MEMORY, "%s: the stand-in itself ran out of memory", name);
  }
}

/// The result of a wait that has ended.
inline int after_wait() { return loss_of(current); }

inline int no_handle(const char* name, const char* what) {
  return say(INVALID_HANDLE, "%s: there is no such %s (never created, destroyed, or of an earlier context)", name, what);
}

/// Breaks the capture of a stream after an error in it.
inline int break_capture(Stream& stream, int code) {
  if (stream.capture) stream.capture->broken = true;
  return code;
}

/// Adds an operation to a stream, to be executed, or to the capture of the stream.
inline int put(Stream& stream, Operation operation) {
  if (stream.capture) {
    if (stream.capture->broken) return CAPTURE_INVALIDATED;
    stream.capture->nodes.push_back({std::move(operation), stream.after});
    stream.after = {stream.capture->nodes.size() - 1};
    return OK;
  }
  stream.held.push_back(std::make_shared<Operation>(std::move(operation)));
  device.work.notify_one();
  return OK;
}

} // namespace standin
