/// Module images: PTX text. Compiles nothing: an image only says which kernels it contains, and their code
/// was compiled into the stand-in.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "../kernels.hpp"
#include "codes.hpp"

namespace standin {

/// The newest PTX version that the oldest supported driver (CUDA 12.0) accepts.
constexpr int PTX_MAJOR = 8, PTX_MINOR = 0;

struct Entry {
  std::string name;
  unsigned most_threads; // .maxntid; 1024 if absent
  unsigned shared_bytes; // static
};
struct Image {
  std::vector<Entry> entries;
};

/// Bytes of shared memory declared by `.shared .align A .bB name[N];` lines.
inline unsigned shared_bytes(const std::string& body) {
  unsigned bytes = 0;
  for (std::size_t at = body.find(".shared "); at != std::string::npos; at = body.find(".shared ", at + 1)) {
    const std::string line = body.substr(at, body.find(';', at) - at);
    const std::size_t bits = line.find(".b"), bracket = line.find('[');
    const unsigned one = bits == std::string::npos ? 0 : static_cast<unsigned>(std::atoi(line.c_str() + bits + 2)) / 8;
    bytes += one * (bracket == std::string::npos ? 1 : static_cast<unsigned>(std::atoi(line.c_str() + bracket + 1)));
  }
  return bytes;
}

/// Reads PTX for a chip; prints a message and returns the error code if the chip's driver would reject it.
inline int read_ptx(const std::string& text, int chip, Image& image) {
  int major = 0, minor = 0, target = 0;
  const std::size_t version = text.find("\n.version "), arch = text.find("\n.target sm_");
  if (version == std::string::npos || arch == std::string::npos ||
      std::sscanf(text.c_str() + version, "\n.version %d.%d", &major, &minor) != 2 ||
      std::sscanf(text.c_str() + arch, "\n.target sm_%d", &target) != 1) {
    return say(INVALID_PTX, "this is not PTX: it states no version or target");
  }
  if (major > PTX_MAJOR || (major == PTX_MAJOR && minor > PTX_MINOR)) {
    return say(UNSUPPORTED_PTX_VERSION, "PTX %d.%d; this driver takes %d.%d at most", major, minor, PTX_MAJOR, PTX_MINOR);
  }
  if (target > chip) return say(NO_BINARY_FOR_GPU, "PTX for sm_%d; this chip is sm_%d", target, chip);
  long depth = 0;
  for (char letter : text) depth += letter == '{' ? 1 : letter == '}' ? -1 : 0;
  if (depth != 0) return say(INVALID_PTX, "the PTX is truncated: its braces are not balanced");
  const std::string mark = ".visible .entry ";
  for (std::size_t at = text.find(mark); at != std::string::npos;) {
    const std::size_t name = at + mark.size(), next = text.find(mark, name);
    const std::string body = text.substr(name, next == std::string::npos ? next : next - name);
    const std::size_t bound = body.find(".maxntid "), begins = body.find('{');
    unsigned most = 1024;
    if (bound != std::string::npos && bound < begins) most = static_cast<unsigned>(std::atoi(body.c_str() + bound + 9));
    image.entries.push_back({body.substr(0, body.find('(')), most, shared_bytes(body)});
    at = next;
  }
  if (image.entries.empty()) return say(INVALID_PTX, "the PTX has no entry");
  return OK;
}

/// Reads an image as cuModuleLoadDataEx receives it, without a length.
inline int read_image(const char* data, int chip, Image& image) {
  if (std::memcmp(data, "\x7f"
                        "ELF", 4) == 0 ||
      std::memcmp(data, "\x50\xed\x55\xba", 4) == 0) {
    return say(NO_BINARY_FOR_GPU, "a real cubin or fatbin: the stand-in has no such chip");
  }
  return read_ptx(data, chip, image);
}

} // namespace standin
