/// The faults that a test orders, and the stand-in's counters. Executes nothing itself.
///
/// Orders come as text, `key=value` or a word, separated by commas, from the environment (GANGLION_STAND_IN,
/// read once when the library is loaded) and from `ganglion_stand_in(text)`:
///   fail=NAME:N:CODE      the N-th call of the function from now on fails with CODE; NAME without its _v2.
///                         If CODE is 700, 702, 710 or 714 to 719, the current context is lost.
///                         NAME `kernel` or `copy`: the N-th one that the device executes fails, and its
///                         context is lost with any CODE
///   block=NAME or NAME:N  the N-th call from now on (default: the first) does not return until `release`
///   stall=N               after N more operations the device executes nothing until `release`
///   release               unblocks blocked calls, cancels pending `block` orders and ends a stall
///   slow=F                a kernel takes F times as long
///   order=forwards|backwards   order of threads, blocks, and operations that may run in any order
///   sticky=context|process     whether a lost context spoils the whole process: then every later call that
///                         needs cuInit returns the code, until `fresh` (driver.cpp)
///   memory=64M            memory of the device, with K, M or G
///   events=early|late     whether an event in a graph counts as recorded again when the graph is
///                         launched, or only when its execution reaches the event
///   init=CODE             what cuInit returns: 100 no device, 34 stub library, 803 mismatch
///   devices=N  driver=11040  chip=6.1
///   reset                 cancels all orders, including those from the environment
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "codes.hpp"

namespace standin {

/// For leak checks. The layout matches tests/cuda/standin.rs: one u64 per field, in this order.
struct Counts {
  std::uint64_t launches;         // calls of cuLaunchKernel outside a capture
  std::uint64_t replays;          // calls of cuGraphLaunch
  std::uint64_t kernels;          // executed, alone or in a graph
  std::uint64_t copies_in;        // executed
  std::uint64_t copies_out;
  std::uint64_t copies_within;
  std::uint64_t fills;
  std::uint64_t pageable;         // copies refused because the host's side was not page-locked
  std::uint64_t device_ever, device_now, device_bytes;
  std::uint64_t host_ever, host_now;
  std::uint64_t registered;       // host ranges that are registered with the device
  std::uint64_t streams, events, graphs, executables, modules; // alive
  std::uint64_t retained;         // references to the primary context, and other contexts
};
constexpr std::size_t COUNTS = sizeof(Counts) / sizeof(std::uint64_t);

/// A call that is to fail or block.
struct Strike {
  std::string name;
  long left; // calls until it fails or blocks, including the call that does
  int code;  // 0: it blocks
};

struct Orders {
  std::vector<Strike> strikes;
  long stall = -1; // operations until the device stalls; -1: never
  double slow = 1.0;
  bool backwards = false, late = false, whole_process = false;
  std::size_t memory = std::size_t(2) << 30;
  int init = OK, devices = 1, driver = 12000, major = 8, minor = 7;
  std::uint64_t releases = 0; // number of releases, so that a waiting call notices one

  /// The code that this call must return; -1: it blocks; 0: it proceeds normally.
  int strike(const char* name) {
    std::size_t length = std::strlen(name);
    if (length > 3 && std::strcmp(name + length - 3, "_v2") == 0) length -= 3;
    for (std::size_t i = 0; i < strikes.size(); i++) {
      if (strikes[i].name.compare(0, std::string::npos, name, length) != 0 || --strikes[i].left > 0) continue;
      const int code = strikes[i].code;
      strikes.erase(strikes.begin() + static_cast<std::ptrdiff_t>(i));
      return code == 0 ? -1 : code;
    }
    return 0;
  }

  void release() {
    stall = -1;
    releases++;
    for (std::size_t i = strikes.size(); i-- > 0;) {
      if (strikes[i].code == 0) strikes.erase(strikes.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  /// One order; false if it is not valid.
  bool take(const std::string& key, const std::string& value) {
    const long number = std::atol(value.c_str());
    if (key == "fail") return take_strike(value, true);
    if (key == "block") return take_strike(value, false);
    if (key == "release") return release(), true;
    if (key == "reset") {
      release();
      const std::uint64_t kept = releases;
      *this = Orders();
      releases = kept;
      return true;
    }
    if (value.empty()) return false;
    if (key == "stall") return stall = number, number >= 0;
    if (key == "slow") return slow = std::atof(value.c_str()), slow >= 1.0;
    if (key == "order") return backwards = value == "backwards", backwards || value == "forwards";
    if (key == "events") return late = value == "late", late || value == "early";
    if (key == "sticky") return whole_process = value == "process", whole_process || value == "context";
    if (key == "memory") return take_memory(value);
    if (key == "init") return init = static_cast<int>(number), true;
    if (key == "devices") return devices = static_cast<int>(number), number >= 0 && number <= 1;
    if (key == "driver") return driver = static_cast<int>(number), number > 0;
    if (key == "chip") return std::sscanf(value.c_str(), "%d.%d", &major, &minor) == 2;
    return false;
  }

  /// Orders separated by commas; prints a message and returns false at the first invalid one.
  bool take_all(const char* text) {
    std::string left = text == nullptr ? "" : text;
    while (!left.empty()) {
      const std::size_t end = left.find(',');
      const std::string order = left.substr(0, end);
      left = end == std::string::npos ? "" : left.substr(end + 1);
      const std::size_t equals = order.find('=');
      const std::string value = equals == std::string::npos ? "" : order.substr(equals + 1);
      if (order.empty() || take(order.substr(0, equals), value)) continue;
      say(0, "no such order: %s", order.c_str());
      return false;
    }
    return true;
  }

private:
  bool take_strike(const std::string& value, bool fails) {
    Strike strike = {value.substr(0, value.find(':')), 1, 0};
    const char* rest = value.c_str() + strike.name.size();
    if (fails && std::sscanf(rest, ":%ld:%d", &strike.left, &strike.code) != 2) return false;
    if (!fails && *rest == ':') strike.left = std::atol(rest + 1);
    if (strike.name.empty() || strike.left < 1 || (fails && strike.code <= 0)) return false;
    strikes.push_back(strike);
    return true;
  }
  bool take_memory(const std::string& value) {
    char* unit = nullptr;
    memory = std::strtoull(value.c_str(), &unit, 10);
    const char* units = "KMG";
    const char* found = *unit ? std::strchr(units, *unit) : nullptr;
    if (found) memory <<= 10 * (found - units + 1);
    return memory > 0 && (*unit == 0 || found);
  }
};

} // namespace standin
