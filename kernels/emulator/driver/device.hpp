/// The device: one thread that executes the operations of all streams, one at a time.
///
/// Of the streams that can run, the one with the highest priority comes first; of equal ones, the oldest.
/// With `order=backwards` it is the newest, and within a graph the last node. One lock protects everything
/// here except the execution itself. Nothing here is ever destroyed, because the thread runs until the
/// process ends.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <csetjmp>
#include <csignal>
#include <mutex>
#include <pthread.h>

#include "initialised.hpp"
#include "memory.hpp"
#include "orders.hpp"
#include "work.hpp"

namespace standin {

using Lock = std::unique_lock<std::mutex>;

struct Device {
  std::mutex mutex;
  std::condition_variable work, progress, reached; // reached: an event, or the loss of a context
  Orders orders;
  Counts counts = {};
  Memory memory;
  bool initialised = false, executing = false, started = false;
  std::map<std::uintptr_t, int> contexts; // live contexts, each with its loss code (OK: not lost)
  int spoiled = OK;           // the code of a loss that spoils every context of the process
  std::uintptr_t primary = 0; // the primary context; 0 while it is not active
  unsigned context_flags = 0;
  long retained = 0;
  std::uint64_t streams_made = 0;
  std::vector<std::shared_ptr<Stream>> queues; // includes destroyed streams with work left
  std::vector<std::shared_ptr<Capture>> captures;
  Handles<Stream> streams;
  Handles<Event> events;
  Handles<Module> modules;
  Handles<Function> functions;
  Handles<Graph> graphs;
  Handles<Executable> executables;
};
inline Device& device = *new Device;

/// Jump target for a launch that cannot continue, and the only thread that may jump there.
inline sigjmp_buf launch_end;
inline pthread_t worker;
inline volatile bool in_kernel = false;
inline struct sigaction before_us[2];

[[noreturn]] inline void leave_launch(int code) {
  in_kernel = false;
  check_accesses(false);
  siglongjmp(launch_end, code);
}

/// Aborts a kernel that touches unmapped memory; passes any other fault to the previous handler.
inline void on_fault(int signal, siginfo_t*, void*) {
  if (in_kernel && pthread_equal(pthread_self(), worker)) leave_launch(ILLEGAL_ADDRESS);
  sigaction(signal, &before_us[signal == SIGBUS], nullptr); // and the faulting instruction runs again
}

/// Catches faults during a launch only: at other times the host language's own handler stays in place.
struct Watching {
  Watching() {
    struct sigaction ours = {};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &ours, &before_us[0]);
    sigaction(SIGBUS, &ours, &before_us[1]);
  }
  ~Watching() {
    sigaction(SIGSEGV, &before_us[0], nullptr);
    sigaction(SIGBUS, &before_us[1], nullptr);
  }
};

/// Every address in a launch's tables must point to memory that the device may touch, or be null.
inline int check_table(const Operation& it) {
  const std::size_t bytes = it.grid.z * it.function->kernel->table;
  if (device.memory.check_device(it.function->entry.name.c_str(), it.from, bytes) != OK) return ILLEGAL_ADDRESS;
  const auto* words = reinterpret_cast<const std::uintptr_t*>(it.from);
  for (std::size_t word = 0; word < bytes / sizeof(std::uintptr_t); word++) {
    if (words[word] == 0 || device.memory.check_device("an address in the table", words[word], 0) == OK) continue;
    return say(ILLEGAL_ADDRESS, "word %zu of the table of %s is an invalid address", word, it.function->entry.name.c_str());
  }
  return OK;
}

/// Runs a kernel; an error that would be fatal on a GPU is returned as a code.
inline int run_kernel(const Operation& it, bool backwards) {
  const auto* table = reinterpret_cast<const void*>(it.from);
  const Watching watching;
  const int code = sigsetjmp(launch_end, 0);
  if (code != 0) {
    emulator::abandon();
    return say(code, "%s did not end: block (%u, %u, %u), thread %u %s", it.function->entry.name.c_str(), blockIdx.x, blockIdx.y,
               blockIdx.z, threadIdx.x, code == ILLEGAL_ADDRESS ? "touched unmapped memory" : "was refused");
  }
  in_kernel = true;
  check_accesses(true);
  emulator::launch(*it.function->kernel, it.grid, it.threads, backwards, table, it.how);
  check_accesses(false);
  in_kernel = false;
  return OK;
}

/// Checks that the ranges of a copy or fill are still allocated.
inline int check_ranges(const Operation& it) {
  const bool there = device.memory.holding(it.to, it.bytes) && (it.kind == Kind::Fill || device.memory.holding(it.from, it.bytes));
  return there ? OK : say(ILLEGAL_ADDRESS, "a copy or fill reached memory that was freed after it was queued");
}

/// Executes a launch, copy or fill without the lock; the ranges were checked while it was held.
inline int execute(const Operation& it, bool backwards) {
  auto *to = reinterpret_cast<void*>(it.to), *from = reinterpret_cast<void*>(it.from);
  switch (it.kind) {
  case Kind::Launch: return run_kernel(it, backwards);
  case Kind::Fill: std::memset(to, it.byte, it.bytes); break;
  default:
    if (!is_written(it.from, it.bytes)) return say(LAUNCH_FAILED, "a copy reads memory that nothing has written");
    std::memmove(to, from, it.bytes);
  }
  note_write(it.to, it.bytes);
  return OK;
}

/// The code with which a context was lost; OK if it was not.
inline int loss_of(std::uintptr_t context) {
  const auto it = device.contexts.find(context);
  return device.spoiled != OK ? device.spoiled : it == device.contexts.end() ? int(CONTEXT_IS_DESTROYED) : it->second;
}

/// Marks a context as lost: its pending work no longer runs.
inline void lose(std::uintptr_t context, int code) {
  const auto it = device.contexts.find(context);
  if (it != device.contexts.end() && it->second == OK) it->second = code;
  if (device.orders.whole_process && is_sticky(code)) device.spoiled = code;
  device.work.notify_all();
  device.progress.notify_all();
  device.reached.notify_all();
}

/// What runs next.
struct Next {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Operation> held; // at the front of the stream
  const Operation* operation = nullptr;
  std::size_t node = 0; // its index, in a replay
};

inline bool may_run(const Operation& it) {
  if (it.kind != Kind::Wait) return true;
  return it.event->done >= (it.mark != 0 ? it.mark : it.event->recorded);
}

/// Finds a node of a replay whose predecessors are done; false if none can run now.
inline bool next_node(Stream& stream, Executable& executable, Next& next) {
  const std::vector<Node>& nodes = executable.nodes;
  if (stream.run == nullptr) {
    if (executable.running) return false;
    executable.running = true;
    stream.run = std::make_unique<Run>(Run{std::vector<bool>(nodes.size()), nodes.size()});
  }
  for (std::size_t i = 0; i < nodes.size(); i++) {
    const std::size_t at = device.orders.backwards ? nodes.size() - 1 - i : i;
    bool free = !stream.run->done[at] && may_run(nodes[at].operation);
    for (std::size_t before : nodes[at].after) free = free && stream.run->done[before];
    if (!free) continue;
    next.node = at;
    next.operation = &nodes[at].operation;
    return true;
  }
  return false;
}

/// The next operation to run; its stream is null if nothing can run.
inline Next choose() {
  Next best;
  for (const auto& stream : device.queues) {
    if (stream->held.empty() || loss_of(stream->context) != OK) continue;
    if (best.stream) {
      const bool newer = device.orders.backwards; // the queues are in order of creation
      if (stream->priority > best.stream->priority || (stream->priority == best.stream->priority && !newer)) continue;
    }
    Next next = {stream, stream->held.front(), stream->held.front().get(), 0};
    if (next.operation->kind == Kind::Replay) {
      Executable& executable = *next.operation->executable;
      if (!executable.nodes.empty() && !next_node(*stream, executable, next)) continue;
    } else if (!may_run(*next.operation)) {
      continue;
    }
    best = next;
  }
  return best;
}

/// Counts an operation as done, and removes it from its stream; a replay only after its last node.
inline void settle(const Next& next) {
  const Operation& it = *next.operation;
  Counts& counts = device.counts;
  switch (it.kind) {
  case Kind::CopyIn: counts.copies_in++; break;
  case Kind::CopyOut: counts.copies_out++; break;
  case Kind::CopyWithin: counts.copies_within++; break;
  case Kind::Fill: counts.fills++; break;
  case Kind::Launch: counts.kernels++; break;
  case Kind::Record: {
    std::uint64_t mark = it.mark;
    if (next.held.get() != &it) mark = device.orders.late ? ++it.event->recorded : next.held->marks[next.node];
    it.event->done = std::max(it.event->done, mark);
    it.event->at = Clock::now();
    device.reached.notify_all();
    break;
  }
  default: break;
  }
  Stream& stream = *next.stream;
  if (stream.run && next.held->kind == Kind::Replay) {
    stream.run->done[next.node] = true;
    if (--stream.run->left > 0) return;
    next.held->executable->running = false;
    stream.run = nullptr;
  }
  stream.held.pop_front();
}

/// Executes one operation; releases the lock meanwhile.
inline void step(const Next& next, Lock& lock) {
  const Operation& it = *next.operation;
  int code = OK;
  const bool launches = it.kind == Kind::Launch;
  if (launches || (it.kind <= Kind::Fill && it.bytes > 0)) {
    if (it.kind <= Kind::CopyWithin || launches) code = device.orders.strike(launches ? "kernel" : "copy");
    if (code == OK) code = launches ? check_table(it) : check_ranges(it);
    if (code == OK && launches && !it.function->module->loaded) code = say(LAUNCH_FAILED, "%s: its module was unloaded", it.function->entry.name.c_str());
    if (code == OK) {
      const bool backwards = device.orders.backwards;
      list_allocations(device.memory);
      device.executing = true;
      lock.unlock();
      const auto start = Clock::now();
      code = execute(it, backwards);
      const auto took = Clock::now() - start;
      lock.lock();
      const double slow = device.orders.slow;
      if (launches && slow > 1.0) {
        const std::uint64_t releases = device.orders.releases;
        const auto end = start + std::chrono::duration_cast<Clock::duration>(took * slow);
        device.progress.wait_until(lock, end, [&] { return device.orders.releases != releases || loss_of(next.stream->context) != OK; });
      }
      device.executing = false;
      if (code == OK && launches && !device.memory.margins_hold(it.function->entry.name.c_str())) code = LAUNCH_FAILED;
    }
  }
  if (code != OK) return lose(next.stream->context, code > 0 ? code : LAUNCH_FAILED);
  if (loss_of(next.stream->context) != OK) return; // the context was lost or destroyed meanwhile
  if (device.orders.stall > 0) device.orders.stall--;
  settle(next);
}

/// The main loop of the device's thread.
[[noreturn]] inline void live() {
  static char stack[64 * 1024]; // for on_fault: the fiber's own stack may have overflowed
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  worker = pthread_self();
  emulator::end_launch = [] { leave_launch(LAUNCH_FAILED); };
  Lock lock(device.mutex);
  for (;;) {
    Next next;
    if (device.orders.stall != 0) next = choose();
    if (next.stream) {
      step(next, lock);
      device.progress.notify_all();
    } else {
      auto& queues = device.queues;
      for (std::size_t i = queues.size(); i-- > 0;) {
        if (queues[i].use_count() == 1 && queues[i]->held.empty()) queues.erase(queues.begin() + static_cast<std::ptrdiff_t>(i));
      }
      device.progress.notify_all();
      device.work.wait(lock);
    }
  }
}

/// Whether the streams of the current context have finished all their work.
inline bool is_idle() {
  for (const auto& stream : device.queues) {
    if (stream->context == current && !stream->held.empty()) return false;
  }
  return !device.executing;
}

/// Destroys a context and everything in it, including work that is not done; an operation that is executing
/// ends first.
inline void destroy_context(Lock& lock, std::uintptr_t context) {
  const auto it = device.contexts.find(context);
  if (it == device.contexts.end()) return;
  lose(context, CONTEXT_IS_DESTROYED);
  device.progress.wait(lock, [] { return !device.executing; });
  auto& queues = device.queues;
  for (auto& stream : queues) {
    if (stream->context != context) continue;
    stream->held.clear();
    stream->run = nullptr;
    stream->capture = nullptr;
  }
  queues.erase(std::remove_if(queues.begin(), queues.end(), [&](const auto& stream) { return stream->context == context; }), queues.end());
  auto& captures = device.captures;
  for (auto& capture : captures) {
    if (capture->context == context) capture->broken = capture->over = true;
  }
  captures.erase(std::remove_if(captures.begin(), captures.end(), [&](const auto& capture) { return capture->context == context; }), captures.end());
  device.streams.drop_all_of(context);
  device.events.drop_all_of(context);
  device.modules.drop_all_of(context);
  device.functions.drop_all_of(context);
  device.graphs.drop_all_of(context);
  device.executables.drop_all_of(context);
  device.memory.give_back_all_of(context);
  device.contexts.erase(context);
  if (device.primary == context) device.primary = 0;
}

} // namespace standin
