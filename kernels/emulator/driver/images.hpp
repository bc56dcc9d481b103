/// Module images: PTX text, and the stand-in's own cubins. Compiles nothing: an image says which kernels
/// are there, and their code is what the stand-in was compiled with.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "../kernels.hpp"
#include "codes.hpp"

namespace standin {

/// Newest PTX that the driver of JetPack 6.1 takes.
constexpr int PTX_MAJOR = 8, PTX_MINOR = 5;

struct Entry {
  std::string name;
  unsigned most_threads; // .maxntid; 1024 if it says nothing
  unsigned shared_bytes; // static
};
struct Image {
  std::vector<Entry> entries;
  std::uint64_t digest = 0;
};

inline std::uint64_t fnv(const char* text, std::size_t length) {
  std::uint64_t digest = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < length; i++) digest = (digest ^ static_cast<unsigned char>(text[i])) * 0x100000001b3u;
  return digest;
}

/// Bytes of `.shared .align A .bB name[N];` lines.
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

/// Reads PTX for a chip; the code, after a sentence, if its driver would not take it.
inline int read_ptx(const std::string& text, int chip, Image& image) {
  int major = 0, minor = 0, target = 0;
  const std::size_t version = text.find("\n.version "), arch = text.find("\n.target sm_");
  if (version == std::string::npos || arch == std::string::npos ||
      std::sscanf(text.c_str() + version, "\n.version %d.%d", &major, &minor) != 2 ||
      std::sscanf(text.c_str() + arch, "\n.target sm_%d", &target) != 1) {
    return say(INVALID_PTX, "this is no PTX: it states no version or target");
  }
  if (major > PTX_MAJOR || (major == PTX_MAJOR && minor > PTX_MINOR)) {
    return say(UNSUPPORTED_PTX_VERSION, "PTX %d.%d; this driver takes %d.%d at most", major, minor, PTX_MAJOR, PTX_MINOR);
  }
  if (target > chip) return say(NO_BINARY_FOR_GPU, "PTX for sm_%d; this chip is sm_%d", target, chip);
  long depth = 0;
  for (char letter : text) depth += letter == '{' ? 1 : letter == '}' ? -1 : 0;
  if (depth != 0) return say(INVALID_PTX, "the PTX breaks off: its braces are not balanced");
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
  image.digest = fnv(text.data(), text.size());
  return OK;
}

constexpr const char* CUBIN = "ganglion stand-in cubin\n";

/// The header of an ELF file for a GPU with one section, then the section's entry: its length is written in, at byte 96.
/// What follows is the section.
constexpr std::size_t ENVELOPE = 128, LENGTH_AT = 96;

/// The envelope of `length` bytes, as a compiler's cubin has it.
inline std::string envelope(std::size_t length) {
  std::string bytes(ENVELOPE, '\0');
  const auto put = [&](std::size_t at, std::size_t number, int size) {
    for (int byte = 0; byte < size; byte++) bytes[at + byte] = static_cast<char>(number >> (8 * byte));
  };
  bytes.replace(0, 7, "\x7f" "ELF\2\1\1");
  put(16, 2, 2), put(18, 190, 2), put(20, 1, 4);   // executable, for CUDA
  put(40, 64, 8), put(52, 64, 2);                  // sections from byte 64 on
  put(58, 64, 2), put(60, 1, 2);                   // one, of 64 bytes
  put(68, 1, 4), put(88, ENVELOPE, 8), put(LENGTH_AT, length, 8);
  return bytes;
}

/// Whether an envelope of ours begins there; never reads beyond the first byte that differs.
inline bool has_envelope(const char* data) {
  const std::string ours = envelope(0);
  for (std::size_t at = 0; at < ENVELOPE; at++) {
    const bool is_length = at >= LENGTH_AT && at < LENGTH_AT + 8;
    if (!is_length && data[at] != ours[at]) return false;
  }
  return true;
}

/// A cubin as the stand-in makes them: an envelope, its mark, chip and digest, a line an entry, a digest of all that, a zero byte.
inline std::string write_cubin(const Image& image, int chip) {
  std::string text = CUBIN;
  char line[96];
  std::snprintf(line, sizeof line, "chip %d ptx %016llx\n", chip, static_cast<unsigned long long>(image.digest));
  text += line;
  for (const Entry& entry : image.entries) {
    std::snprintf(line, sizeof line, "entry %.60s %u %u\n", entry.name.c_str(), entry.most_threads, entry.shared_bytes);
    text += line;
  }
  std::snprintf(line, sizeof line, "end %016llx\n", static_cast<unsigned long long>(fnv(text.data(), text.size())));
  text += line;
  return envelope(text.size()) + text;
}

/// Reads a cubin; never beyond the first byte that no cubin of ours has there.
inline int read_cubin(const char* data, int chip, Image& image) {
  std::string text, line;
  int made_for = 0;
  unsigned long long digest = 0;
  for (std::size_t at = 0; line.compare(0, 4, "end ") != 0;) {
    const std::size_t start = at;
    while (data[at] != '\n' && data[at] >= ' ' && data[at] <= '~' && at - start < 95) at++;
    if (data[at] != '\n') return say(NO_BINARY_FOR_GPU, "the cubin is damaged at byte %zu", at);
    line.assign(data + start, ++at - start);
    char name[64] = {};
    Entry entry = {};
    if (std::sscanf(line.c_str(), "entry %63s %u %u", name, &entry.most_threads, &entry.shared_bytes) == 3) {
      entry.name = name;
      image.entries.push_back(entry);
    }
    std::sscanf(line.c_str(), "chip %d ptx %llx", &made_for, &digest);
    if (line.compare(0, 4, "end ") != 0) text += line;
  }
  unsigned long long whole = 0;
  if (std::sscanf(line.c_str(), "end %llx", &whole) != 1 || whole != fnv(text.data(), text.size())) {
    return say(NO_BINARY_FOR_GPU, "the cubin is damaged: its digest is not that of its text");
  }
  if (made_for != chip) return say(NO_BINARY_FOR_GPU, "the cubin is for sm_%d; this chip is sm_%d", made_for, chip);
  image.digest = digest;
  return OK;
}

/// Reads an image of either kind, as cuModuleLoadData gets it: without a length.
inline int read_image(const char* data, int chip, Image& image) {
  if (has_envelope(data) && std::strncmp(data + ENVELOPE, CUBIN, std::strlen(CUBIN)) == 0) {
    return read_cubin(data + ENVELOPE, chip, image);
  }
  if (std::memcmp(data, "\x7f"
                        "ELF", 4) == 0 ||
      std::memcmp(data, "\x50\xed\x55\xba", 4) == 0) {
    return say(NO_BINARY_FOR_GPU, "a real cubin or fatbin: the stand-in has no such chip");
  }
  return read_ptx(data, chip, image);
}

} // namespace standin
