/// Step 6: learn what followed the last cycle's regressors, and predict what comes next. In f64, as in every
/// engine: an f32 covariance degrades over time.
///
/// Each part is done by warps that handle one row of P or W each, in the same launch as other work:
///   learn_gain by blocks of `sense`: it needs no orders and runs even if no learning is due;
///   learn_apply by blocks of `features`, after learn_gain and `sense`; returns at once if not due;
///   predict by blocks of `answer`, after learn_apply and the features.
/// Shared memory: the regressors, 1.6 KiB.
///
/// The two rank-one steps of docs/field.md, first the observation, then the ridge of one regressor in turn,
/// become one pass over P: column j after the first step follows from column j and the gain before that step,
/// so that every warp can compute the second gain itself. P is read twice and written once a cycle.
#pragma once
#include "arithmetic.cuh"

__device__ inline unsigned regressors(unsigned sensors) { return CHANNELS + 2 * sensors + 1; }
__device__ inline bool is_finite(double value) { return fabs(value) <= 1.7976931348623157e308; }
__device__ inline double lanes_dot(const double* a, const double* b, unsigned length) {
  double sum = 0.0;
  for (unsigned i = threadIdx.x % WARP; i < length; i += WARP) sum += a[i] * b[i];
  return lanes_sum(sum);
}

/// Entry i of P x and of P e_j, before P is divided by `keep`.
__device__ inline void learn_gain(const Brain& brain, unsigned i) {
  Senses& senses = *brain.senses;
  const unsigned n = regressors(brain.rule->sensors);
  if (i >= n) return; // a whole warp
  const double* row = brain.covariance + i * n;
  const double gain = lanes_dot(row, senses.regressors, n);
  if (threadIdx.x % WARP != 0) return;
  senses.gain[i] = gain;
  senses.column[i] = row[senses.turn];
  if (i == 0) senses.row = senses.turn;
}

/// The factors of the two steps of a row of P or W: reciprocals instead of divisions, because each factor is
/// used in every column.
struct Learning {
  unsigned n, turn;
  double grow;    // 1 / mu: P is multiplied by it first
  double first;   // 1 / (1 + x.P x)
  double crossed; // (P x)_j times `first`: the multiple of P x that the first step subtracts from column j
  double second;  // 1 / (1 / rho^2 + P_jj after the first step)
  bool first_holds, second_holds;
};

/// Entry i of P x.
__device__ inline double first_gain(const Senses& senses, const Learning& step, unsigned i) {
  return senses.gain[i] * step.grow;
}
/// Entry i of P e_j after the first step.
__device__ inline double second_gain(const Senses& senses, const Learning& step, unsigned i) {
  return senses.column[i] * step.grow - first_gain(senses, step, i) * step.crossed;
}

__device__ inline Learning learning(const Brain& brain) {
  const Senses& senses = *brain.senses;
  Learning step;
  step.n = regressors(brain.rule->sensors);
  step.turn = senses.row;
  step.grow = 1.0 / brain.cycle->keep;
  const double first = 1.0 + lanes_dot(senses.gain, senses.regressors, step.n) * step.grow;
  step.first_holds = is_finite(first) && first >= 1.0;
  step.first = 1.0 / first;
  step.crossed = first_gain(senses, step, step.turn) * step.first;
  const double own = second_gain(senses, step, step.turn);
  step.second = 1.0 / (1.0 / (RIDGE * step.n * (1.0 - brain.cycle->keep)) + own);
  step.second_holds = step.first_holds && is_finite(own) && own > 0.0;
  return step;
}

/// P <- P / mu - k (P x)' - k (P e_j)' along row i; reset to I / ridge if a number is invalid.
__device__ inline void learn_covariance(const Brain& brain, const Learning& step, unsigned i) {
  const Senses& senses = *brain.senses;
  double* row = brain.covariance + i * step.n;
  const double gain = first_gain(senses, step, i), other = second_gain(senses, step, i);
  for (unsigned k = threadIdx.x % WARP; k < step.n; k += WARP) {
    if (step.second_holds) {
      const double seen = gain * first_gain(senses, step, k) * step.first; // the same bits on both sides of the diagonal
      row[k] = row[k] * step.grow - seen - other * second_gain(senses, step, k) * step.second;
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
  const double amount = miss * step.first;
  const double shown = row[step.turn] + amount * first_gain(senses, step, step.turn);
  const double shrink = step.second_holds ? -shown * step.second : 0.0;
  __syncwarp(); // all lanes have read the weight at `turn`
  for (unsigned k = threadIdx.x % WARP; k < step.n; k += WARP) {
    row[k] += amount * first_gain(senses, step, k);
    if (step.second_holds) row[k] += shrink * second_gain(senses, step, k);
  }
}

/// Learns from the last cycle's regressors; this is warp number `warp` of `warps`.
__device__ inline void learn_apply(const Brain& brain, unsigned warp, unsigned warps) {
  if (!brain.cycle->learn_due) return;
  const Learning step = learning(brain);
#pragma unroll 1
  for (unsigned row = warp; row < step.n + brain.rule->sensors; row += warps) {
    if (row < step.n) {
      learn_covariance(brain, step, row);
    } else {
      learn_weights(brain, step, row - step.n);
    }
  }
  if (warp == 0 && threadIdx.x % WARP == 0 && step.first_holds) brain.senses->turn = (step.turn + 1) % step.n;
}

/// Regressor j of this cycle.
__device__ inline double regressor(const Brain& brain, unsigned j) {
  const unsigned sensors = brain.rule->sensors;
  if (j < CHANNELS) return CONTEXT_SCALE * brain.about->context[j];
  if (j < CHANNELS + sensors) return brain.senses->sensors[j - CHANNELS];
  if (j < CHANNELS + 2 * sensors) return CHANGE_SCALE * brain.senses->change[j - CHANNELS - sensors];
  return 1.0;
}

/// Predicts one sensor per warp; `block` is the number of this block among those that predict.
__device__ inline void predict(const Brain& brain, unsigned block) {
  __shared__ double x[REGRESSORS_HELD];
  Senses& senses = *brain.senses;
  const unsigned n = regressors(brain.rule->sensors), lane = threadIdx.x % WARP;
  if (threadIdx.x < n) {
    x[threadIdx.x] = regressor(brain, threadIdx.x);
    if (block == 0) senses.regressors[threadIdx.x] = x[threadIdx.x];
  }
  __syncthreads();
  const unsigned sensor = block * (blockDim.x / WARP) + threadIdx.x / WARP;
  if (sensor >= brain.rule->sensors) return;
  const double learned = lanes_dot(brain.weights + sensor * n, x, n);
  if (lane != 0) return;
  const double trust = clamp(senses.agreement[sensor] / (senses.power[sensor] + SKILL_FLOOR), 0.0, 1.0);
  senses.learned[sensor] = learned;
  brain.answer->prediction[sensor] = clamp(senses.sensors[sensor] + trust * learned, -1.0, 1.0);
}
