/// The holographic memory: bind, unbind, superpose, clean up. Every number is computed by the operations of
/// docs/memory.md ("Order of arithmetic") in that order, each with its own rounding, so that the results
/// equal those of src/memory on a CPU bit for bit. The operations are intrinsics, which the compiler may not
/// fuse or reorder.
///
/// convolve_D: grid (rows), block convolve_threads(D / 2). A block computes one row of D numbers. It first
///   transforms the factor, whose spectrum then stays in registers. So a block shares only one buffer of
///   D / 2 complex numbers (36 KiB for 8192, with padding), and no launch needs more than 48 KiB. Each stage
///   reads, waits and writes in place. If `unit` is set, the block scales its row to length 1 before writing
///   it.
/// superpose_leaves: grid (columns / 128, leaves of 64 rows), block 128. One thread per column, which fixes
///   the order of the column's sum.
/// superpose_join: grid (1), block 256. Adds leaf by leaf, then scales the sum to length 1 if `unit` is set.
/// nearest_scan: grid (blocks, queries), block 256. One warp per row: lane l keeps the running sums l and
///   l + 32. The store is read once per query; each warp keeps its best matches in registers.
/// nearest_join: grid (queries), block 32.
#include "memory.cuh"

constexpr unsigned SUMS = 64;       // running sums of a scalar product
constexpr unsigned LEAF = 64;       // rows that are summed before their sum is added to the total
constexpr unsigned MOST_TOP = 64;   // as in src/memory/nearest.rs
constexpr unsigned LEAF_COLUMNS = 128;   // columns of a block of superpose_leaves
constexpr unsigned JOINERS = 256;
constexpr unsigned SEEKERS = 256;
constexpr unsigned SEEKING_WARPS = SEEKERS / WARP;

/// Each of these rounds once.
__device__ inline float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float minus(float a, float b) { return __fsub_rn(a, b); }
__device__ inline float times(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline float fused_less(float a, float b, float c) { return __fmaf_rn(-a, b, c); }

struct Complex {
  float re, im;
};
__device__ inline Complex plus(Complex x, Complex y) { return {plus(x.re, y.re), plus(x.im, y.im)}; }
__device__ inline Complex minus(Complex x, Complex y) { return {minus(x.re, y.re), minus(x.im, y.im)}; }
__device__ inline Complex times(Complex x, Complex w) {
  return {fused_less(x.im, w.im, times(x.re, w.re)), fused(x.im, w.re, times(x.re, w.im))};
}
__device__ inline Complex conjugate(Complex x) { return {x.re, minus(0.0f, x.im)}; }

/// The product with a complex number or with its conjugate.
__device__ inline Complex product(Complex a, Complex b, bool conjugated) {
  if (!conjugated) return times(a, b);
  return {fused(a.im, b.im, times(a.re, b.re)), fused_less(a.re, b.im, times(a.im, b.re))};
}

/// Threads for a row of `n` complex numbers: one per butterfly, but at least a warp, and at most 512, so that
/// registers suffice.
constexpr unsigned convolve_threads(unsigned n) { return n / 4 < WARP ? WARP : n / 4 < 512 ? n / 4 : 512; }

/// Complex numbers that a block shares. Four places in every 36 stay empty, so that neither adjacent places
/// nor places four or sixteen apart all fall into the same banks of shared memory.
template <unsigned N> struct alignas(16) Desk {
  float re[N + N / 8], im[N + N / 8];
  float sums[SUMS];

  static __device__ unsigned at(unsigned place) { return place + place / 32 * 4; }
  __device__ Complex get(unsigned place) const { return {re[at(place)], im[at(place)]}; }
  __device__ void put(unsigned place, Complex x) { re[at(place)] = x.re, im[at(place)] = x.im; }
  /// Keeps one number in the space of the sums, which are not needed until later.
  __device__ void keep(Complex x) { sums[0] = x.re, sums[1] = x.im; }
  __device__ Complex kept() const { return {sums[0], sums[1]}; }
};

/// A row, with each pair of adjacent numbers read as one complex number; padded with zeros.
struct RowSource {
  const float* row;
  unsigned d;
  bool is_whole;  // as long as the transform
  bool involuted; // place i is read from place -i (mod d)

  __device__ float number(unsigned i) const {
    if (i >= d) return 0.0f;
    return row[involuted && i > 0 ? d - i : i];
  }
  template <unsigned N> __device__ Complex get(const Desk<N>&, unsigned place) const {
    if (is_whole) {
      const float2 both = reinterpret_cast<const float2*>(row)[place];
      return {both.x, both.y};
    }
    return {number(2 * place), number(2 * place + 1)};
  }
};
/// The contents of the desk, with real and imaginary parts exchanged.
struct ExchangedSource {
  template <unsigned N> __device__ Complex get(const Desk<N>& desk, unsigned place) const {
    const Complex x = desk.get(place);
    return {x.im, x.re};
  }
};

/// w(k, 2N) for k below 3N / 2: every twiddle factor of every stage is one of these.
__device__ inline Complex turn(const float2* turns, unsigned k) {
  const float2 w = turns[k];
  return {w.x, w.y};
}

/// The transform of four numbers.
__device__ inline void butterfly(Complex (&z)[4]) {
  const Complex ac = plus(z[0], z[2]), bd = plus(z[1], z[3]);
  const Complex a_c = minus(z[0], z[2]), b_d = minus(z[1], z[3]);
  z[0] = plus(ac, bd);
  z[1] = {plus(a_c.re, b_d.im), minus(a_c.im, b_d.re)};
  z[2] = minus(ac, bd);
  z[3] = {minus(a_c.re, b_d.im), plus(a_c.im, b_d.re)};
}

/// Transforms N complex numbers from `source` into `desk`, the block's shared memory. There is no barrier
/// before the first read; the function returns once all threads have written.
template <unsigned N, class Source>
__device__ __forceinline__ void transform(Desk<N>& desk, const Source& source, const float2* turns) {
  constexpr unsigned THREADS = convolve_threads(N), QUARTER = N / 4;
  constexpr unsigned EACH = QUARTER < THREADS ? 1 : QUARTER / THREADS;
  Complex z[EACH][4];
  unsigned bits = 0, length = N; // the stride is 1 << bits
#pragma unroll 1 // unrolled, the seven sizes would give a robot's driver a megabyte of text to compile
  for (; length >= 4; length /= 4, bits += 2) {
#pragma unroll
    for (unsigned e = 0; e < EACH; e++) {
      const unsigned t = e * THREADS + threadIdx.x;
      if (QUARTER < THREADS && t >= QUARTER) continue;
#pragma unroll
      for (unsigned m = 0; m < 4; m++) {
        z[e][m] = bits == 0 ? source.get(desk, t + m * QUARTER) : desk.get(t + m * QUARTER);
      }
      butterfly(z[e]);
      if (length == 4) continue;
      const unsigned step = (t >> bits) << (bits + 1);
#pragma unroll
      for (unsigned m = 1; m < 4; m++) z[e][m] = times(z[e][m], turn(turns, m * step));
    }
    __syncthreads(); // all have read
#pragma unroll
    for (unsigned e = 0; e < EACH; e++) {
      const unsigned t = e * THREADS + threadIdx.x;
      if (QUARTER < THREADS && t >= QUARTER) continue;
      const unsigned q = t & ((1u << bits) - 1), p = t >> bits;
#pragma unroll
      for (unsigned m = 0; m < 4; m++) desk.put(q + ((4 * p + m) << bits), z[e][m]);
    }
    __syncthreads(); // all have written
  }
  if (length == 1) return;
  // Pairs half a transform apart: each thread has its own pair, which no other thread reads meanwhile.
#pragma unroll 1
  for (unsigned place = threadIdx.x; place < N / 2; place += THREADS) {
    const Complex a = desk.get(place), b = desk.get(place + N / 2);
    desk.put(place, plus(a, b));
    desk.put(place + N / 2, minus(a, b));
  }
  __syncthreads();
}

/// The numbers at place k and at place N - k.
struct Both {
  Complex near, far;
};

template <unsigned N> __device__ inline Both pick(const Desk<N>& desk, unsigned k) {
  return {desk.get(k), desk.get((N - k) % N)};
}

/// Twice the real row's spectrum at k and N - k, from that of the row packed as N complex numbers.
__device__ inline Both untangle(Both z, Complex w) {
  const Complex even = {plus(z.near.re, z.far.re), minus(z.near.im, z.far.im)};
  const Complex odd = {plus(z.near.im, z.far.im), minus(z.far.re, z.near.re)};
  const Complex near = {fused(w.re, odd.re, even.re), fused(w.re, odd.im, even.im)};
  const Complex far = {fused_less(w.re, odd.re, even.re), fused_less(w.re, odd.im, even.im)};
  return {{fused_less(w.im, odd.im, near.re), fused(w.im, odd.re, near.im)},
          conjugate({fused(w.im, odd.im, far.re), fused_less(w.im, odd.re, far.im)})};
}

/// Twice the packed row's spectrum at k and N - k, from that of the real row.
__device__ inline Both tangle(Both p, Complex w) {
  const Complex even = {plus(p.near.re, p.far.re), minus(p.near.im, p.far.im)};
  const Complex gap = {minus(p.near.re, p.far.re), plus(p.near.im, p.far.im)};
  const Complex near = {fused_less(w.re, gap.im, even.re), fused(w.re, gap.re, even.im)};
  const Complex far = {fused(w.re, gap.im, even.re), fused_less(w.re, gap.re, even.im)};
  return {{fused(w.im, gap.re, near.re), fused(w.im, gap.im, near.im)},
          conjugate({fused_less(w.im, gap.re, far.re), fused_less(w.im, gap.im, far.im)})};
}

/// The product at place N / 2, which is its own counterpart.
__device__ inline Complex middle(Complex x, Complex y, bool conjugated) {
  x = {times(2.0f, x.re), times(2.0f, x.im)}, y = {times(2.0f, y.re), times(2.0f, y.im)};
  if (conjugated) y.im = -y.im;
  return {times(2.0f, fused(-x.im, y.im, times(x.re, y.re))), times(2.0f, fused(x.im, y.re, times(x.re, y.im)))};
}

/// Adds the 64 running sums as a tree. The result is the same in all lanes, because butterfly exchanges add
/// the same pairs in each.
__device__ inline float tree(float low, float high) {
  low = plus(low, __shfl_xor_sync(ALL, low, 16)), high = plus(high, __shfl_xor_sync(ALL, high, 16));
  float sum = plus(low, high);
#pragma unroll
  for (unsigned step = 8; step > 0; step /= 2) sum = plus(sum, __shfl_xor_sync(ALL, sum, step));
  return sum;
}

/// 1 over the length, from the length's square; 0 if the square is zero, subnormal or not finite.
__device__ inline float inverse_length(float square) {
  const unsigned exponent = __float_as_uint(square) >> 23 & 255;
  return exponent > 0 && exponent < 255 ? __fdiv_rn(1.0f, __fsqrt_rn(square)) : 0.0f;
}

/// The product's row on the desk of a block, times a power of two; numbers beyond d wrap around to its
/// beginning.
template <unsigned N> struct Result {
  const Desk<N>& desk;
  unsigned d;
  float scale;

  __device__ float linear(unsigned i) const {
    const unsigned at = Desk<N>::at(i / 2);
    return times(i % 2 == 0 ? desk.im[at] : desk.re[at], scale);
  }
  __device__ float number(unsigned i) const {
    return d < 2 * N && i + 1 < d ? plus(linear(i), linear(i + d)) : linear(i);
  }
};

template <unsigned D> __device__ __forceinline__ void convolve(const Sheet& sheet) {
  constexpr unsigned N = D / 2, THREADS = convolve_threads(N);
  constexpr unsigned PAIRS = N / 2 < THREADS ? 1 : N / 2 / THREADS;
  __shared__ Desk<N> desk;
  const Task& task = *sheet.task;
  const unsigned d = task.d;
  const bool is_whole = d == D, backwards = task.unbind != 0;
  const unsigned long long own = static_cast<unsigned long long>(blockIdx.x) * d;
  const float* factor = task.one_key ? sheet.b : sheet.b + own;
  Both kept[PAIRS] = {};

  transform<N>(desk, RowSource{factor, d, is_whole, backwards && !is_whole}, sheet.turns);
#pragma unroll
  for (unsigned e = 0; e < PAIRS; e++) {
    const unsigned k = e * THREADS + threadIdx.x;
    if (N / 2 >= THREADS || k < N / 2) kept[e] = untangle(pick(desk, k), turn(sheet.turns, k));
  }
  if (threadIdx.x == 0) desk.keep(desk.get(N / 2));
  __syncthreads(); // all threads have read the factor

  transform<N>(desk, RowSource{sheet.a + own, d, is_whole, false}, sheet.turns);
  const bool conjugated = backwards && is_whole;
#pragma unroll
  for (unsigned e = 0; e < PAIRS; e++) {
    const unsigned k = e * THREADS + threadIdx.x;
    if (N / 2 < THREADS && k >= N / 2) continue;
    const Complex w = turn(sheet.turns, k);
    const Both x = untangle(pick(desk, k), w);
    const Both z = tangle({product(x.near, kept[e].near, conjugated), product(x.far, kept[e].far, conjugated)}, w);
    desk.put(k, z.near);
    if (k > 0) desk.put(N - k, z.far);
  }
  if (threadIdx.x == 0) desk.put(N / 2, middle(desk.get(N / 2), desk.kept(), conjugated));
  __syncthreads();

  transform<N>(desk, ExchangedSource{}, sheet.turns);
  const Result<N> result = {desk, d, 1.0f / (4 * D)};
  float inverse = 1.0f;
  if (task.unit) {
#pragma unroll 1
    for (unsigned c = threadIdx.x; c < SUMS; c += THREADS) {
      float sum = 0.0f;
#pragma unroll 2
      for (unsigned i = c; i - c < d; i += SUMS) {
        const float x = i < d ? result.number(i) : 0.0f;
        sum = fused(x, x, sum);
      }
      desk.sums[c] = sum;
    }
    __syncthreads();
    const unsigned lane = threadIdx.x % WARP;
    inverse = inverse_length(tree(desk.sums[lane], desk.sums[lane + WARP]));
  }
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < d; i += THREADS) {
    const float x = result.number(i);
    sheet.out[own + i] = task.unit ? times(x, inverse) : x;
  }
}

#define CONVOLVE(D)                                                                                              \
  extern "C" __global__ void __launch_bounds__(convolve_threads(D / 2)) convolve_##D(const Sheet* sheets, Launch) { \
    convolve<D>(sheets[blockIdx.z]);                                                                             \
  }
CONVOLVE(128)
CONVOLVE(256)
CONVOLVE(512)
CONVOLVE(1024)
CONVOLVE(2048)
CONVOLVE(4096)
CONVOLVE(8192)
#undef CONVOLVE

extern "C" __global__ void __launch_bounds__(LEAF_COLUMNS) superpose_leaves(const Sheet* sheets, Launch) {
  const Sheet& sheet = sheets[blockIdx.z];
  const unsigned d = sheet.task->d, rows = sheet.task->rows;
  const unsigned column = blockIdx.x * LEAF_COLUMNS + threadIdx.x, first = blockIdx.y * LEAF;
  if (column >= d) return;
  const unsigned past = first + LEAF < rows ? first + LEAF : rows;
  float leaf = 0.0f;
#pragma unroll 8
  for (unsigned row = first; row < past; row++) {
    const float weight = sheet.weights != nullptr ? sheet.weights[row] : 1.0f;
    leaf = fused(weight, sheet.a[static_cast<unsigned long long>(row) * d + column], leaf);
  }
  sheet.leaves[static_cast<unsigned long long>(blockIdx.y) * d + column] = leaf;
}

/// The scalar product of two rows, the same in all lanes of a warp.
__device__ inline float warp_dot(const float* a, const float* b, unsigned d) {
  const unsigned lane = threadIdx.x % WARP;
  float low = 0.0f, high = 0.0f;
  unsigned i = lane;
#pragma unroll 8
  for (; i - lane + SUMS <= d; i += SUMS) {
    low = fused(a[i], b[i], low);
    high = fused(a[i + WARP], b[i + WARP], high);
  }
  if (i - lane < d) { // a partial last block is padded with zeros
    const bool first = i < d, second = i + WARP < d;
    low = fused(first ? a[i] : 0.0f, first ? b[i] : 0.0f, low);
    high = fused(second ? a[i + WARP] : 0.0f, second ? b[i + WARP] : 0.0f, high);
  }
  return tree(low, high);
}

extern "C" __global__ void __launch_bounds__(JOINERS) superpose_join(const Sheet* sheets, Launch) {
  const Sheet& sheet = sheets[blockIdx.z];
  const unsigned d = sheet.task->d, leaves = (sheet.task->rows + LEAF - 1) / LEAF;
  for (unsigned column = threadIdx.x; column < d; column += JOINERS) {
    float sum = 0.0f;
#pragma unroll 8
    for (unsigned leaf = 0; leaf < leaves; leaf++) {
      sum = fused(1.0f, sheet.leaves[static_cast<unsigned long long>(leaf) * d + column], sum);
    }
    sheet.out[column] = sum;
  }
  if (!sheet.task->unit) return;
  __syncthreads();
  const float inverse = inverse_length(warp_dot(sheet.out, sheet.out, d));
  __syncthreads(); // all have read
  for (unsigned column = threadIdx.x; column < d; column += JOINERS) {
    sheet.out[column] = times(sheet.out[column], inverse);
  }
}

__device__ inline Key key_of(float cosine, unsigned row) {
  const unsigned bits = __float_as_uint(cosine);
  const unsigned order = bits >> 31 ? ~bits : bits | 0x80000000u;
  return static_cast<Key>(order) << 32 | static_cast<Key>(~row);
}

/// A warp's best keys, best first: lane l holds places l and 32 + l.
struct Top {
  Key high, low;

  __device__ void clear() { high = 0, low = 0; }
  /// The key at the last wanted place, the same in all lanes.
  __device__ Key floor(unsigned wanted) const {
    const unsigned last = wanted - 1;
    return __shfl_sync(ALL, last < WARP ? high : low, last % WARP);
  }
  /// Inserts a key that all lanes have.
  __device__ void enter(Key key) {
    const unsigned lane = threadIdx.x % WARP;
    const unsigned place = __popc(__ballot_sync(ALL, high > key)) + __popc(__ballot_sync(ALL, low > key));
    const Key above_high = __shfl_up_sync(ALL, high, 1), above_low = __shfl_up_sync(ALL, low, 1);
    const Key last_high = __shfl_sync(ALL, high, WARP - 1);
    high = lane < place ? high : lane == place ? key : above_high;
    const Key above = lane == 0 ? last_high : above_low;
    low = lane + WARP < place ? low : lane + WARP == place ? key : above;
  }
  /// Inserts the keys of a list in memory that beat the last kept one.
  __device__ void take(const Key* list, unsigned length, unsigned wanted) {
    const unsigned lane = threadIdx.x % WARP;
    Key least = floor(wanted);
    for (unsigned first = 0; first < length; first += WARP) {
      const Key own = first + lane < length ? list[first + lane] : 0;
      for (unsigned left = __ballot_sync(ALL, own > least); left != 0; left &= left - 1) {
        const Key offered = __shfl_sync(ALL, own, __ffs(static_cast<int>(left)) - 1);
        if (offered > least) enter(offered), least = floor(wanted);
      }
    }
  }
  __device__ void put(Key* list, unsigned wanted) const {
    const unsigned lane = threadIdx.x % WARP;
    if (lane < wanted) list[lane] = high;
    if (lane + WARP < wanted) list[lane + WARP] = low;
  }
};

extern "C" __global__ void __launch_bounds__(SEEKERS) nearest_scan(const Sheet* sheets, Launch) {
  __shared__ Key lists[SEEKING_WARPS * MOST_TOP];
  const Sheet& sheet = sheets[blockIdx.z];
  const Task& task = *sheet.task;
  const unsigned d = task.d, wanted = task.wanted, warp = threadIdx.x / WARP;
  const float* query = sheet.b + static_cast<unsigned long long>(blockIdx.y) * d;
  const float own = inverse_length(warp_dot(query, query, d));
  Top top;
  top.clear();
  Key least = 0;
  for (unsigned row = blockIdx.x * SEEKING_WARPS + warp; row < task.rows; row += gridDim.x * SEEKING_WARPS) {
    const float product = warp_dot(sheet.a + static_cast<unsigned long long>(row) * d, query, d);
    const Key key = key_of(times(times(product, sheet.inverse[row]), own), row);
    if (key > least) top.enter(key), least = top.floor(wanted);
  }
  top.put(lists + warp * wanted, wanted);
  __syncthreads();
  if (warp != 0) return;
  top.take(lists + wanted, (SEEKING_WARPS - 1) * wanted, wanted);
  top.put(sheet.found + (static_cast<unsigned long long>(blockIdx.y) * gridDim.x + blockIdx.x) * wanted, wanted);
}

/// launch.number is the number of blocks of the scan.
extern "C" __global__ void __launch_bounds__(WARP) nearest_join(const Sheet* sheets, Launch launch) {
  const Sheet& sheet = sheets[blockIdx.z];
  const unsigned wanted = sheet.task->wanted, length = launch.number * wanted;
  Top top;
  top.clear();
  top.take(sheet.found + static_cast<unsigned long long>(blockIdx.x) * length, length, wanted);
  top.put(sheet.best + static_cast<unsigned long long>(blockIdx.x) * wanted, wanted);
}
