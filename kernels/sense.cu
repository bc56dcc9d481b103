/// Step 1: takes the orders and the sensors from the host's memory, compares them with the prediction,
/// updates the averages behind confidence, skill and trust, and computes the felt sensors. The first half of
/// learning runs concurrently, in the other blocks.
///
/// Launch: grid (1 + ceil(regressors / 2), 1, robots), block 64. The first block senses, with one thread per
/// sensor (there are at most 64); in the others each warp handles a row of the covariance (learn.cuh). Shared
/// memory: two doubles. The host has already refused sensors that are not finite or not in [-1, 1]
/// (step 0).
#include "learn.cuh"

constexpr unsigned SENSE_THREADS = MAX_SENSORS;

/// average <- average + weight (value - average)
__device__ inline void follow(double& average, double value, double weight) { average += weight * (value - average); }

/// Confidence, from the newest errors, 0..=1; 1 if all these errors are 0.
__device__ inline double confidence(const Senses& senses, double* scratch) {
  const unsigned count = senses.filled < CONFIDENCE_CYCLES ? senses.filled : CONFIDENCE_CYCLES;
  double sum = 0.0;
  for (unsigned back = threadIdx.x + 1; back <= count; back += blockDim.x) {
    sum += senses.errors[(senses.head + ERROR_RING - back) % ERROR_RING];
  }
  const double mean = block_sum(sum, scratch) / count;
  return clamp(1.0 - CONFIDENCE_SLOPE * mean, 0.0, 1.0);
}

/// Skill, -1..=1: 1 - error / (error of the better of the two simple forecasts, chosen for each sensor).
__device__ inline double skill(const Senses& senses, unsigned sensors, double* scratch) {
  const unsigned i = threadIdx.x;
  const double mine = i < sensors ? senses.predicted[i] : 0.0;
  const double simple = i < sensors ? fmin(senses.persistent[i], senses.climatic[i]) : 0.0;
  const double floor = SKILL_FLOOR * sensors;
  const double predicted = block_sum(mine, scratch), forecast = block_sum(simple, scratch);
  return fmax(1.0 - (predicted + floor) / (forecast + floor), -1.0);
}

/// Updates the averages of sensor i with `weight` for the newest value; `newest`: these are the first values
/// that are averaged.
__device__ inline void average(Senses& senses, unsigned i, double now, double last, double error, double weight, bool newest) {
  // At the first update, the last value is the only available mean.
  const double mean = newest ? last : senses.mean[i];
  follow(senses.predicted[i], error * error, weight);
  follow(senses.persistent[i], (now - last) * (now - last), weight);
  follow(senses.climatic[i], (now - mean) * (now - mean), weight);
  follow(senses.mean[i], now, weight);
  follow(senses.agreement[i], senses.change[i] * senses.learned[i], weight);
  follow(senses.power[i], senses.learned[i] * senses.learned[i], weight);
}

/// Copies the orders from the host's memory, which is read only once, because reads across a bus are slow.
__device__ inline void take_orders(const Brain& brain) {
  static_assert(sizeof(Cycle) % sizeof(unsigned long long) == 0, "copied in whole words");
  const auto* from = reinterpret_cast<const unsigned long long*>(brain.given);
  auto* to = reinterpret_cast<unsigned long long*>(brain.cycle);
  for (unsigned word = threadIdx.x; word < sizeof(Cycle) / sizeof(unsigned long long); word += blockDim.x) {
    to[word] = from[word];
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(SENSE_THREADS) sense(const Brain* brains, Launch) {
  __shared__ double scratch[SENSE_THREADS / WARP];
  const Brain& brain = brains[blockIdx.z];
  if (blockIdx.x > 0) {
    learn_gain(brain, (blockIdx.x - 1) * (SENSE_THREADS / WARP) + threadIdx.x / WARP);
    return;
  }
  take_orders(brain);
  if (threadIdx.x == 0) brain.report->began = device_clock();
  const Cycle& cycle = *brain.cycle;
  Senses& senses = *brain.senses;
  Answer& answer = *brain.answer;
  const unsigned i = threadIdx.x, sensors = brain.rule->sensors;
  const unsigned long long observed = senses.observed + 1;
  double size = 0.0;
  if (i < sensors) {
    const double now = cycle.sensors[i], last = senses.sensors[i], error = now - answer.prediction[i];
    senses.sensors[i] = now;
    senses.change[i] = now - last;
    senses.felt[i] = static_cast<float>(now + brain.rule->eta * error);
    size = fabs(error);
    if (!cycle.first) {
      const double weight = fmax(brain.rule->average_weight, 1.0 / static_cast<double>(observed));
      average(senses, i, now, last, error, weight, observed == 1);
    }
  }
  const double mean_error = block_sum(size, scratch) / sensors; // its barriers separate the reads from the writes
  if (i == 0) {
    senses.mean_error = mean_error;
    senses.errors[senses.head] = mean_error;
    senses.head = (senses.head + 1) % ERROR_RING;
    senses.filled = senses.filled < ERROR_RING ? senses.filled + 1 : ERROR_RING;
    if (!cycle.first) senses.observed = observed;
  }
  __syncthreads();
  const double sure = confidence(senses, scratch);
  const double worth = cycle.first ? 0.0 : skill(senses, sensors, scratch);
  if (i == 0) {
    answer.cycle = cycle.number;
    answer.confidence = static_cast<float>(sure);
    answer.skill = static_cast<float>(worth);
  }
}
