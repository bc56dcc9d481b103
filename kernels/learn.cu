/// Step 6: what followed the last cycle's regressors, and what is expected next. In f64, as in every
/// engine: an f32 covariance wears out.
///
/// learn_gain, then learn_apply: need `sense` only, so that they may run beside the field's step.
///   Grid (ceil(n / 8), 1, robots) and (ceil((n + sensors) / 8), 1, robots) for n regressors, block
///   256: a warp has a row of P or W. Both return at once where learning is not due.
/// predict: needs learn_apply and features. Grid (ceil(sensors / 8), 1, robots), block 256: a warp a
///   sensor. Shared memory of predict: the regressors, 1.6 KiB; none in the others.
///
/// The two rank-one steps of the contract, the observation and the ridge in turn, become one pass
/// over P: column j after the first step is known from column j and the gain before it, so that every
/// warp finds the second gain by itself. P is read twice and written once a cycle.
#include "arithmetic.cuh"

constexpr unsigned LEARN_THREADS = 256;
constexpr unsigned LEARN_WARPS = LEARN_THREADS / WARP;

__device__ inline unsigned regressors(unsigned sensors) { return CHANNELS + 2 * sensors + 1; }
__device__ inline bool is_finite(double value) { return fabs(value) <= 1.7976931348623157e308; }
__device__ inline double lanes_dot(const double* a, const double* b, unsigned length) {
  double sum = 0.0;
  for (unsigned i = threadIdx.x % WARP; i < length; i += WARP) sum += a[i] * b[i];
  return lanes_sum(sum);
}

extern "C" __global__ void __launch_bounds__(LEARN_THREADS) learn_gain(const Brain* brains, Launch) {
  const Brain& brain = brains[blockIdx.z];
  if (!brain.cycle->learn_due) return;
  Senses& senses = *brain.senses;
  const unsigned n = regressors(brain.rule->sensors), lane = threadIdx.x % WARP;
  const unsigned i = blockIdx.x * LEARN_WARPS + threadIdx.x / WARP;
  if (i >= n) return; // a whole warp
  const double* row = brain.covariance + i * n;
  const double gain = lanes_dot(row, senses.regressors, n);
  if (lane == 0) {
    senses.gain[i] = gain / brain.cycle->keep;
    senses.column[i] = row[senses.turn] / brain.cycle->keep;
    if (i == 0) senses.row = senses.turn;
  }
}

/// The two steps that a row of P or W takes.
struct Learning {
  unsigned n, turn;
  double first;  // 1 + x.P x
  double second; // 1 / rho^2 + P_jj after the first
  bool first_holds, second_holds;
};

/// P e_j after the first step, entry i.
__device__ inline double second_gain(const Senses& senses, const Learning& step, unsigned i) {
  return senses.column[i] - senses.gain[i] * senses.gain[step.turn] / step.first;
}

__device__ inline Learning learning(const Brain& brain) {
  const Senses& senses = *brain.senses;
  Learning step;
  step.n = regressors(brain.rule->sensors);
  step.turn = senses.row;
  step.first = 1.0 + lanes_dot(senses.gain, senses.regressors, step.n);
  step.first_holds = is_finite(step.first) && step.first >= 1.0;
  const double own = second_gain(senses, step, step.turn);
  step.second = 1.0 / (RIDGE * step.n * (1.0 - brain.cycle->keep)) + own;
  step.second_holds = step.first_holds && is_finite(own) && own > 0.0;
  return step;
}

/// P <- P / mu - k (P x)' - k (P e_j)' along row i; back to I / ridge where a number is unsound.
__device__ inline void learn_covariance(const Brain& brain, const Learning& step, unsigned i) {
  const Senses& senses = *brain.senses;
  double* row = brain.covariance + i * step.n;
  const double other = second_gain(senses, step, i);
  for (unsigned k = threadIdx.x % WARP; k < step.n; k += WARP) {
    if (step.second_holds) {
      const double seen = senses.gain[i] * senses.gain[k] / step.first;
      row[k] = row[k] / brain.cycle->keep - seen - other * second_gain(senses, step, k) / step.second;
    } else {
      row[k] = i == k ? 1.0 / RIDGE : 0.0;
    }
  }
}

/// W <- W + (d - W x) k', then W <- W - W_j k', along the row of one sensor.
__device__ inline void learn_weights(const Brain& brain, const Learning& step, unsigned sensor) {
  if (!step.first_holds) return;
  const Senses& senses = *brain.senses;
  double* row = brain.weights + sensor * step.n;
  const double miss = senses.change[sensor] - lanes_dot(row, senses.regressors, step.n);
  const double amount = miss / step.first;
  const double shown = row[step.turn] + amount * senses.gain[step.turn];
  const double shrink = step.second_holds ? -shown / step.second : 0.0;
  __syncwarp(); // all lanes have read the weight that is shown
  for (unsigned k = threadIdx.x % WARP; k < step.n; k += WARP) {
    row[k] += amount * senses.gain[k];
    if (step.second_holds) row[k] += shrink * second_gain(senses, step, k);
  }
}

extern "C" __global__ void __launch_bounds__(LEARN_THREADS) learn_apply(const Brain* brains, Launch) {
  const Brain& brain = brains[blockIdx.z];
  if (!brain.cycle->learn_due) return;
  const Learning step = learning(brain);
  const unsigned row = blockIdx.x * LEARN_WARPS + threadIdx.x / WARP;
  if (row < step.n) {
    learn_covariance(brain, step, row);
  } else if (row < step.n + brain.rule->sensors) {
    learn_weights(brain, step, row - step.n);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0 && step.first_holds) brain.senses->turn = (step.turn + 1) % step.n;
}

/// Regressor j of this cycle.
__device__ inline double regressor(const Brain& brain, unsigned j) {
  const unsigned sensors = brain.rule->sensors;
  if (j < CHANNELS) return CONTEXT_SCALE * brain.about->context[j];
  if (j < CHANNELS + sensors) return brain.senses->sensors[j - CHANNELS];
  if (j < CHANNELS + 2 * sensors) return CHANGE_SCALE * brain.senses->change[j - CHANNELS - sensors];
  return 1.0;
}

extern "C" __global__ void __launch_bounds__(LEARN_THREADS) predict(const Brain* brains, Launch) {
  __shared__ double x[REGRESSORS_HELD];
  const Brain& brain = brains[blockIdx.z];
  Senses& senses = *brain.senses;
  const unsigned n = regressors(brain.rule->sensors), lane = threadIdx.x % WARP;
  if (threadIdx.x < n) {
    x[threadIdx.x] = regressor(brain, threadIdx.x);
    if (blockIdx.x == 0) senses.regressors[threadIdx.x] = x[threadIdx.x];
  }
  __syncthreads();
  const unsigned sensor = blockIdx.x * LEARN_WARPS + threadIdx.x / WARP;
  if (sensor >= brain.rule->sensors) return;
  const double learned = lanes_dot(brain.weights + sensor * n, x, n);
  if (lane != 0) return;
  const double trust = clamp(senses.agreement[sensor] / (senses.power[sensor] + SKILL_FLOOR), 0.0, 1.0);
  senses.learned[sensor] = learned;
  brain.answer->prediction[sensor] = clamp(senses.sensors[sensor] + trust * learned, -1.0, 1.0);
}
