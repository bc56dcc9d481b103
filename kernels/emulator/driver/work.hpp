/// What streams hold: operations, events, captures, and the graphs made from captures. Executes nothing.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "images.hpp"

namespace standin {

using Clock = std::chrono::steady_clock;

struct Capture;

/// This thread's current context; 0: none.
inline thread_local std::uintptr_t current = 0;

struct Event {
  unsigned flags = 0;
  std::uint64_t recorded = 0, done = 0; // counts of records; the newest record is done when they are equal
  Clock::time_point at;
  std::shared_ptr<Capture> captured; // set if last recorded in a capture: then it must not be queried
  std::set<std::size_t> after;       // the nodes that this event stands for in that capture
};

struct Module {
  Image image;
  bool loaded = true;
};

struct Function {
  std::shared_ptr<Module> module;
  const emulator::Kernel* kernel;
  Entry entry;
};

struct Executable;

enum class Kind { CopyIn, CopyOut, CopyWithin, Fill, Launch, Record, Wait, Replay };

struct Operation {
  explicit Operation(Kind kind) : kind(kind) {}

  Kind kind;
  std::uintptr_t to = 0, from = 0; // for copies and fills; for a launch, `from` is the table
  std::size_t bytes = 0;
  unsigned char byte = 0;
  std::shared_ptr<Function> function;
  uint3 grid = {};
  unsigned threads = 0;
  Launch how = {};
  std::shared_ptr<Event> event;
  std::uint64_t mark = 0; // which record of the event this makes or waits for
  std::shared_ptr<Executable> executable;
  std::vector<std::uint64_t> marks; // for a replay: each node's record number
};

struct Node {
  Operation operation;
  std::set<std::size_t> after;
};

enum class Mode { Global = 0, ThreadLocal = 1, Relaxed = 2 };

struct Stream;

/// A capture, in progress or ended.
struct Capture {
  Mode mode;
  std::thread::id thread;
  std::uintptr_t context;
  std::vector<Node> nodes;
  bool broken = false, over = false;
};

struct Graph {
  std::vector<Node> nodes;
};
/// Replays of one executable run one after another, as on a real device.
struct Executable {
  std::vector<Node> nodes;
  bool running = false;
};

/// The progress of a replay.
struct Run {
  std::vector<bool> done;
  std::size_t left;
};

struct Stream {
  std::uintptr_t context = 0;
  std::uint64_t number = 0; // in order of creation
  int priority = 0;
  std::deque<std::shared_ptr<Operation>> held;
  std::unique_ptr<Run> run; // progress of the replay at the front
  std::shared_ptr<Capture> capture;
  bool origin = false;
  std::set<std::size_t> after; // the nodes that the next captured node depends on
};

/// Handle numbers are never reused, so that a destroyed handle is recognised as such. Each belongs to the
/// context in which it was made and is invalid in any other.
template <class Thing> struct Handles {
  struct Made {
    std::shared_ptr<Thing> thing;
    std::uintptr_t context;
  };
  std::unordered_map<std::uintptr_t, Made> live;

  void* put(std::shared_ptr<Thing> thing) {
    static std::uintptr_t next = 0x5a0000000000;
    live[next += 64] = {std::move(thing), current};
    return reinterpret_cast<void*>(next);
  }
  std::shared_ptr<Thing> find(const void* handle) const {
    const auto it = live.find(reinterpret_cast<std::uintptr_t>(handle));
    return it == live.end() || it->second.context != current ? nullptr : it->second.thing;
  }
  bool drop(const void* handle) { return find(handle) && live.erase(reinterpret_cast<std::uintptr_t>(handle)) != 0; }
  void drop_all_of(std::uintptr_t context) {
    for (auto it = live.begin(); it != live.end();) it = it->second.context == context ? live.erase(it) : std::next(it);
  }
};

/// The nodes in `last` and all nodes that come before any of them.
inline std::set<std::size_t> ancestors(const std::vector<Node>& nodes, const std::set<std::size_t>& last) {
  std::set<std::size_t> found = last;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (found.count(i) != 0) found.insert(nodes[i].after.begin(), nodes[i].after.end());
  }
  return found;
}

} // namespace standin
