/// A device without a GPU: reads commands from standard input, answers on standard output, and runs the
/// kernels of ganglion.cu.
///
/// All numbers are little-endian, without padding. Each command is one byte, followed by its arguments:
///   A  bytes: u64                                        allocates a buffer; buffers are numbered from 0
///   W  buffer: u32, at: u64, length: u64, data           writes
///   P  buffer: u32, at: u64, to: u32, to_at: u64         writes the address of `to_at` in buffer `to`
///   R  buffer: u32, at: u64, length: u64                 returns the data
///   L  name length: u32, name, order: u32, grid: 3 u32, threads: u32, brains: u32 (buffer),
///      number: u32, planes: u32                          launches; order 1 runs everything backwards
/// The program exits with 0 at the end of the input. An error, such as a write outside a buffer, a divergent
/// barrier or an unknown kernel, ends it with 70 and a message on standard error.
#include "kernels.hpp"

namespace {

/// Bytes on each side of a buffer that nothing may write.
constexpr std::size_t MARGIN = 256;
/// What fills the margins, and fresh memory: NaN if read as a number, so that reads of unwritten memory show.
constexpr unsigned char UNTOUCHED = 0xA5, FRESH = 0xFF;

struct Buffer {
  unsigned char* start;
  std::size_t bytes;
};
std::vector<Buffer> buffers;

[[noreturn]] void refuse(const char* what) {
  std::fprintf(stderr, "emulator: %s\n", what);
  std::exit(70);
}

void take(void* to, std::size_t bytes) {
  if (std::fread(to, 1, bytes, stdin) != bytes) refuse("a command is incomplete");
}
template <class Number> Number take() {
  Number number;
  take(&number, sizeof number);
  return number;
}

unsigned char* place(std::uint32_t buffer, std::uint64_t at, std::uint64_t length) {
  if (buffer >= buffers.size()) refuse("no such buffer");
  const Buffer& it = buffers[buffer];
  if (at > it.bytes || length > it.bytes - at) refuse("the range goes beyond the end of a buffer");
  return it.start + at;
}

void allocate(std::uint64_t bytes) {
  const std::size_t whole = (2 * MARGIN + bytes + MARGIN - 1) / MARGIN * MARGIN;
  auto* memory = static_cast<unsigned char*>(std::aligned_alloc(MARGIN, whole));
  if (memory == nullptr) refuse("out of memory");
  std::memset(memory, UNTOUCHED, whole);
  std::memset(memory + MARGIN, FRESH, bytes);
  buffers.push_back({memory + MARGIN, bytes});
}

void check_margins(const char* kernel) {
  for (std::size_t i = 0; i < buffers.size(); i++) {
    const Buffer& it = buffers[i];
    for (std::size_t k = 1; k <= MARGIN; k++) {
      if (it.start[-static_cast<std::ptrdiff_t>(k)] == UNTOUCHED && it.start[it.bytes + k - 1] == UNTOUCHED) continue;
      std::fprintf(stderr, "emulator: %s wrote beside buffer %zu of %zu bytes\n", kernel, i, it.bytes);
      std::exit(70);
    }
  }
}

void launch_kernel() {
  char name[64] = {};
  const auto length = take<std::uint32_t>();
  if (length >= sizeof name) refuse("the name of the kernel is too long");
  take(name, length);
  const auto order = take<std::uint32_t>();
  const auto grid = take<uint3>();
  const auto threads = take<std::uint32_t>(), brains = take<std::uint32_t>();
  const auto how = take<Launch>();
  const emulator::Kernel* kernel = emulator::find_kernel(name);
  if (kernel == nullptr) refuse("no such kernel");
  const void* table = place(brains, 0, kernel->table);
  emulator::launch(*kernel, grid, threads, order == 1, table, how);
  check_margins(name);
}

} // namespace

int main() {
  for (int order = std::fgetc(stdin); order != EOF; order = std::fgetc(stdin)) {
    switch (order) {
    case 'A': allocate(take<std::uint64_t>()); break;
    case 'W': {
      const auto buffer = take<std::uint32_t>();
      const auto at = take<std::uint64_t>(), length = take<std::uint64_t>();
      take(place(buffer, at, length), length);
      break;
    }
    case 'P': {
      const auto buffer = take<std::uint32_t>();
      const auto at = take<std::uint64_t>();
      const auto to = take<std::uint32_t>();
      const auto* address = place(to, take<std::uint64_t>(), 0);
      std::memcpy(place(buffer, at, sizeof address), &address, sizeof address);
      break;
    }
    case 'R': {
      const auto buffer = take<std::uint32_t>();
      const auto at = take<std::uint64_t>(), length = take<std::uint64_t>();
      std::fwrite(place(buffer, at, length), 1, length, stdout);
      std::fflush(stdout);
      break;
    }
    case 'L': launch_kernel(); break;
    default: refuse("no such command");
    }
  }
  return 0;
}
