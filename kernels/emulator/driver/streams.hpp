/// Driver functions that put work on streams: copies, fills, launches, events, captures, graphs.
#pragma once
#include "call.hpp"

using namespace standin;

/// A call on a stream: finds the stream, and fails if its capture is broken.
template <class Body> static int on_stream(const char* name, void* handle, Body body) {
  return call(name, Needs::Context, [&](Lock&) -> int {
    if (handle == nullptr) return say(INVALID_HANDLE, "%s on the default stream, which the stand-in does not have", name);
    const std::shared_ptr<Stream> stream = device.streams.find(handle);
    if (!stream) return no_handle(name, "stream");
    if (stream->capture && stream->capture->broken) return CAPTURE_INVALIDATED;
    return body(*stream);
  });
}

/// Checks the host's side of a copy: it must be page-locked, because otherwise a real copy would wait for the
/// device.
static int check_host(const char* name, std::uintptr_t address, std::size_t bytes) {
  const Allocation* it = device.memory.holding(address, bytes);
  if (it != nullptr && it->host) return OK;
  if (device.memory.holding(address, 0) != nullptr || device.memory.was_freed(address)) return device.memory.refuse(name, it, address, bytes);
  device.counts.pageable++;
  return say(INVALID_VALUE, "%s: the host's side at 0x%zx is not page-locked: the call would wait for the device", name, static_cast<std::size_t>(address));
}

static int put_copy(const char* name, Kind kind, std::uintptr_t to, std::uintptr_t from, std::size_t bytes, void* stream) {
  return on_stream(name, stream, [&](Stream& stream) -> int {
    const auto check = [&](std::uintptr_t address, bool host) {
      return host ? check_host(name, address, bytes) : device.memory.check_device(name, address, bytes);
    };
    int code = check(to, kind == Kind::CopyOut);
    if (code == OK && kind != Kind::Fill) code = check(from, kind == Kind::CopyIn);
    if (code != OK) return break_capture(stream, code);
    Operation it(kind);
    it.to = to, it.from = from, it.bytes = bytes;
    return put(stream, it);
  });
}
API cuMemcpyHtoDAsync_v2(std::uintptr_t to, const void* from, std::size_t bytes, void* stream) {
  return put_copy("cuMemcpyHtoDAsync_v2", Kind::CopyIn, to, reinterpret_cast<std::uintptr_t>(from), bytes, stream);
}
API cuMemcpyDtoHAsync_v2(void* to, std::uintptr_t from, std::size_t bytes, void* stream) {
  return put_copy("cuMemcpyDtoHAsync_v2", Kind::CopyOut, reinterpret_cast<std::uintptr_t>(to), from, bytes, stream);
}
API cuMemcpyDtoDAsync_v2(std::uintptr_t to, std::uintptr_t from, std::size_t bytes, void* stream) {
  return put_copy("cuMemcpyDtoDAsync_v2", Kind::CopyWithin, to, from, bytes, stream);
}
API cuMemsetD8Async(std::uintptr_t to, unsigned char byte, std::size_t bytes, void* stream) {
  return on_stream("cuMemsetD8Async", stream, [&](Stream& stream) -> int {
    const int code = device.memory.check_device("cuMemsetD8Async", to, bytes);
    if (code != OK) return break_capture(stream, code);
    Operation it(Kind::Fill);
    it.to = to, it.bytes = bytes, it.byte = byte;
    return put(stream, it);
  });
}

/// Rejects invalid launches, as the driver does before they reach the device.
static int check_launch(const Function& function, uint3 grid, uint3 block, unsigned shared, void** arguments, void** extra) {
  const char* name = function.entry.name.c_str();
  if (!function.module->loaded) return say(INVALID_HANDLE, "%s: its module was unloaded", name);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535) return say(INVALID_VALUE, "%s: invalid grid: %u, %u, %u", name, grid.x, grid.y, grid.z);
  if (block.y != 1 || block.z != 1) return say(INVALID_VALUE, "%s: our kernels have blocks along x only", name);
  if (block.x == 0 || block.x > function.entry.most_threads) return say(INVALID_VALUE, "%s: a block of %u threads; its launch bound is %u", name, block.x, function.entry.most_threads);
  if (block.x % emulator::LANES != 0) return say(INVALID_VALUE, "%s: a block of %u threads is not a multiple of the warp size", name, block.x);
  if (shared > 48 * 1024) return say(INVALID_VALUE, "%s: %u bytes of dynamic shared memory", name, shared);
  if (arguments == nullptr || extra != nullptr || arguments[0] == nullptr || arguments[1] == nullptr) return say(INVALID_VALUE, "%s: its arguments must be a table and a struct of two words", name);
  return OK;
}
API cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* stream, void** arguments, void** extra) {
  return on_stream("cuLaunchKernel", stream, [&](Stream& stream) -> int {
    const auto found = device.functions.find(function);
    const int code = found ? check_launch(*found, {gx, gy, gz}, {bx, by, bz}, shared, arguments, extra) : no_handle("cuLaunchKernel", "kernel");
    if (code != OK) return break_capture(stream, code);
    Operation it(Kind::Launch);
    it.function = found, it.grid = {gx, gy, gz}, it.threads = bx;
    std::memcpy(&it.from, arguments[0], sizeof it.from);
    std::memcpy(&it.how, arguments[1], sizeof it.how);
    if (!stream.capture) device.counts.launches++;
    return put(stream, it);
  });
}

API cuStreamCreateWithPriority(void** handle, unsigned flags, int priority) {
  return call("cuStreamCreateWithPriority", Needs::Context, [&](Lock&) -> int {
    if (flags > 1) return say(INVALID_VALUE, "cuStreamCreateWithPriority: flags %u", flags);
    auto stream = std::make_shared<Stream>();
    stream->context = current;
    stream->number = device.streams_made++;
    stream->priority = std::max(-5, std::min(0, priority)); // a real driver clamps it too
    device.queues.push_back(stream);
    *handle = device.streams.put(stream);
    return OK;
  });
}
API cuStreamCreate(void** handle, unsigned flags) { return cuStreamCreateWithPriority(handle, flags, 0); }
API cuStreamDestroy_v2(void* handle) {
  return call("cuStreamDestroy_v2", Needs::Context, [&](Lock&) -> int {
    const auto stream = device.streams.find(handle);
    if (!stream) return no_handle("cuStreamDestroy", "stream");
    if (stream->capture) stream->capture->broken = stream->capture->over = true;
    device.streams.drop(handle);
    device.work.notify_one();
    return OK;
  });
}
API cuStreamQuery(void* handle) {
  return call("cuStreamQuery", Needs::Quiet, [&](Lock&) -> int {
    const auto stream = device.streams.find(handle);
    if (!stream) return no_handle("cuStreamQuery", "stream");
    if (stream->capture) return break_capture(*stream, CAPTURE_UNSUPPORTED);
    return stream->held.empty() ? OK : NOT_READY;
  });
}
API cuStreamSynchronize(void* handle) {
  return call("cuStreamSynchronize", Needs::Quiet, [&](Lock& lock) -> int {
    const auto stream = device.streams.find(handle);
    if (!stream) return no_handle("cuStreamSynchronize", "stream");
    if (stream->capture) return break_capture(*stream, CAPTURE_UNSUPPORTED);
    device.progress.wait(lock, [&] { return after_wait() != OK || stream->held.empty(); });
    return after_wait();
  });
}
API cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return on_stream("cuStreamWaitEvent", stream, [&](Stream& stream) -> int {
    const auto found = device.events.find(event);
    if (!found) return no_handle("cuStreamWaitEvent", "event");
    const auto& theirs = found->captured;
    if (theirs && (flags & 1) == 0) {
      if (theirs->broken) return CAPTURE_INVALIDATED;
      if (theirs->over) return say(CAPTURED_EVENT, "cuStreamWaitEvent: the event was last recorded in a capture that has ended");
      if (stream.capture && stream.capture != theirs) return break_capture(stream, CAPTURE_MERGE);
      if (!stream.capture) stream.after.clear();
      stream.capture = theirs;
      stream.after.insert(found->after.begin(), found->after.end());
      return OK;
    }
    if (stream.capture && (flags & 1) == 0) {
      if (found->recorded == 0) return OK;
      return break_capture(stream, say(CAPTURE_ISOLATION, "a captured stream may not wait for an event from outside its capture"));
    }
    Operation it(Kind::Wait);
    it.event = found, it.mark = found->recorded;
    return found->recorded == 0 && !stream.capture ? int(OK) : put(stream, it);
  });
}

API cuEventCreate(void** handle, unsigned flags) {
  return call("cuEventCreate", Needs::Context, [&](Lock&) -> int {
    if (flags > 7) return INVALID_VALUE;
    auto event = std::make_shared<Event>();
    event->flags = flags;
    *handle = device.events.put(event);
    return OK;
  });
}
API cuEventDestroy_v2(void* handle) {
  return call("cuEventDestroy_v2", Needs::Context, [&](Lock&) { return device.events.drop(handle) ? int(OK) : no_handle("cuEventDestroy", "event"); });
}
API cuEventRecordWithFlags(void* handle, void* stream, unsigned flags) {
  return on_stream("cuEventRecordWithFlags", stream, [&](Stream& stream) -> int {
    const auto event = device.events.find(handle);
    if (!event) return no_handle("cuEventRecord", "event");
    if (flags > 1 || (flags == 1 && !stream.capture)) return say(INVALID_VALUE, "an external record is for captures only");
    Operation it(Kind::Record);
    it.event = event;
    if (stream.capture && flags == 0) {
      event->captured = stream.capture;
      event->after = stream.after;
      return OK;
    }
    if (!stream.capture) event->captured = nullptr, it.mark = ++event->recorded;
    return put(stream, it);
  });
}
API cuEventRecord(void* handle, void* stream) { return cuEventRecordWithFlags(handle, stream, 0); }

/// Checks that an event may be queried; if it was last recorded in a capture, breaks that capture.
static int check_event(const char* name, const std::shared_ptr<Event>& event) {
  if (!event) return no_handle(name, "event");
  if (!event->captured) return OK;
  event->captured->broken = true;
  return say(CAPTURED_EVENT, "%s: the event was last recorded in a capture", name);
}
/// How long a query blocks its caller before it returns NOT_READY: otherwise, a caller that polls in a tight
/// loop would take a core from the kernels, which run on this processor too. Short compared with every
/// timeout of the runtime.
constexpr std::chrono::milliseconds HELD{1};
API cuEventQuery(void* handle) {
  return call("cuEventQuery", Needs::Quiet, [&](Lock& lock) -> int {
    const auto event = device.events.find(handle);
    const int code = check_event("cuEventQuery", event);
    if (code != OK) return code;
    device.reached.wait_for(lock, HELD, [&] { return after_wait() != OK || event->done >= event->recorded; });
    return after_wait() != OK ? after_wait() : event->done >= event->recorded ? OK : NOT_READY;
  });
}
API cuEventSynchronize(void* handle) {
  return call("cuEventSynchronize", Needs::Quiet, [&](Lock& lock) -> int {
    const auto event = device.events.find(handle);
    const int code = check_event("cuEventSynchronize", event);
    if (code != OK) return code;
    device.progress.wait(lock, [&] { return after_wait() != OK || event->done >= event->recorded; });
    return after_wait();
  });
}
API cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  return call("cuEventElapsedTime", Needs::Quiet, [&](Lock&) -> int {
    const auto first = device.events.find(start), last = device.events.find(end);
    for (const auto& event : {first, last}) {
      const int code = check_event("cuEventElapsedTime", event);
      if (code != OK) return code;
      if ((event->flags & 2) != 0 || event->recorded == 0) return say(INVALID_HANDLE, "cuEventElapsedTime: an event has no timing or was never recorded");
    }
    if (first->done < first->recorded || last->done < last->recorded) return NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(last->at - first->at).count();
    return OK;
  });
}

API cuStreamBeginCapture_v2(void* handle, int mode) {
  return on_stream("cuStreamBeginCapture_v2", handle, [&](Stream& stream) -> int {
    if (mode < 0 || mode > 2) return INVALID_VALUE;
    if (stream.capture) return say(INVALID_VALUE, "cuStreamBeginCapture: the stream is already capturing");
    stream.capture = std::make_shared<Capture>();
    stream.capture->mode = static_cast<Mode>(mode);
    stream.capture->thread = std::this_thread::get_id();
    stream.capture->context = current;
    stream.origin = true;
    stream.after.clear();
    device.captures.push_back(stream.capture);
    return OK;
  });
}

/// Whether all forked streams have been joined to the stream on which the capture began.
static bool is_joined(const Stream& origin) {
  const std::set<std::size_t> seen = ancestors(origin.capture->nodes, origin.after);
  return seen.size() == origin.capture->nodes.size();
}
API cuStreamEndCapture(void* handle, void** graph) {
  return call("cuStreamEndCapture", Needs::Context, [&](Lock&) -> int {
    *graph = nullptr;
    const auto stream = device.streams.find(handle);
    if (!stream) return no_handle("cuStreamEndCapture", "stream");
    const std::shared_ptr<Capture> capture = stream->capture;
    if (!capture) return say(INVALID_VALUE, "cuStreamEndCapture: the stream is not capturing");
    if (!stream->origin) return capture->broken = true, CAPTURE_UNMATCHED;
    if (capture->mode != Mode::Relaxed && capture->thread != std::this_thread::get_id()) return capture->broken = true, CAPTURE_WRONG_THREAD;
    const int code = capture->broken ? CAPTURE_INVALIDATED : is_joined(*stream) ? OK : say(CAPTURE_UNJOINED, "a forked stream was not joined");
    capture->over = true;
    for (auto& any : device.queues) {
      if (any->capture == capture) any->capture = nullptr, any->origin = false;
    }
    auto& all = device.captures;
    all.erase(std::remove(all.begin(), all.end(), capture), all.end());
    if (code != OK) return code;
    auto made = std::make_shared<Graph>();
    made->nodes = std::move(capture->nodes);
    *graph = device.graphs.put(made);
    return OK;
  });
}
API cuStreamIsCapturing(void* handle, int* status) {
  return call("cuStreamIsCapturing", Needs::Context, [&](Lock&) -> int {
    const auto stream = device.streams.find(handle);
    if (!stream) return no_handle("cuStreamIsCapturing", "stream");
    *status = !stream->capture ? 0 : stream->capture->broken ? 2 : 1;
    return OK;
  });
}

API cuGraphInstantiateWithFlags(void** handle, void* graph, unsigned long long) {
  return call("cuGraphInstantiateWithFlags", Needs::Context, [&](Lock&) -> int {
    const auto found = device.graphs.find(graph);
    if (!found) return no_handle("cuGraphInstantiate", "graph");
    auto executable = std::make_shared<Executable>();
    executable->nodes = found->nodes;
    *handle = device.executables.put(executable);
    return OK;
  });
}
API cuGraphUpload(void* handle, void* stream) {
  return on_stream("cuGraphUpload", stream, [&](Stream&) { return device.executables.find(handle) ? int(OK) : no_handle("cuGraphUpload", "executable graph"); });
}
API cuGraphLaunch(void* handle, void* stream) {
  return on_stream("cuGraphLaunch", stream, [&](Stream& stream) -> int {
    const auto executable = device.executables.find(handle);
    if (!executable) return no_handle("cuGraphLaunch", "executable graph");
    if (stream.capture) return break_capture(stream, say(CAPTURE_UNSUPPORTED, "a graph inside a capture is not supported by this stand-in"));
    Operation it(Kind::Replay);
    it.executable = executable;
    it.marks.resize(executable->nodes.size());
    for (std::size_t i = 0; i < it.marks.size() && !device.orders.late; i++) {
      const Operation& node = executable->nodes[i].operation;
      if (node.kind == Kind::Record) it.marks[i] = ++node.event->recorded, node.event->captured = nullptr;
    }
    device.counts.replays++;
    return put(stream, it);
  });
}
API cuGraphExecDestroy(void* handle) {
  return call("cuGraphExecDestroy", Needs::Context, [&](Lock&) { return device.executables.drop(handle) ? int(OK) : no_handle("cuGraphExecDestroy", "executable graph"); });
}
API cuGraphDestroy(void* handle) {
  return call("cuGraphDestroy", Needs::Context, [&](Lock&) { return device.graphs.drop(handle) ? int(OK) : no_handle("cuGraphDestroy", "graph"); });
}
