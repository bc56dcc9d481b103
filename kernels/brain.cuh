/// The data layout that host and device share: sizes, and the structs that a cycle reads and writes.
///
/// The sizes are those of src/field/shape.rs, with the same meaning; docs/field.md is the specification.
/// Fields are ordered widest first, so that no struct has padding and a host in another language can write
/// it byte by byte; both sides must agree on the sizes asserted at the end.
#pragma once

constexpr unsigned CHANNELS = 64;
constexpr unsigned GROUP = 8; // channels that are reduced together
constexpr unsigned GROUPS = CHANNELS / GROUP;
constexpr unsigned CONTENT_GROUPS = 4;                // groups whose gradients are features
constexpr unsigned PATTERN_FIRST = 32;                // first channel that patterns are blended into
constexpr unsigned PATTERN = 16;                      // number of these channels
constexpr unsigned BLOCKS = 4;                        // blocks per axis of the pooled features
constexpr unsigned COLUMNS = BLOCKS * BLOCKS;         // blocks of one plane
constexpr unsigned BLOCK_COUNT = BLOCKS * BLOCKS * BLOCKS;
constexpr unsigned DESCRIPTOR = GROUPS * BLOCK_COUNT;
constexpr unsigned GRADIENT = CONTENT_GROUPS * 3 * 2 * BLOCK_COUNT;
constexpr unsigned FEATURES = CHANNELS + DESCRIPTOR + GRADIENT;
constexpr unsigned BLEND_TOP = 3;
constexpr unsigned BANK_TOP = 5;
constexpr unsigned MAX_SENSORS = 64;
constexpr unsigned MAX_MOTORS = 16;
constexpr unsigned MAX_REGRESSORS = CHANNELS + 2 * MAX_SENSORS + 1;
constexpr unsigned REGRESSORS_HELD = 200;             // the next multiple of 8
constexpr unsigned ERROR_RING = 1000;
constexpr unsigned CONFIDENCE_CYCLES = 100;
constexpr unsigned METRIC_RING = 64;                  // 6400 cycles of metrics: five minutes at 20 Hz
constexpr unsigned SCAN_BLOCKS = 64;                  // maximum blocks of a scan: each writes a list to be merged
constexpr unsigned NO_ROW = 0xffffffffu;

constexpr double NORM_FLOOR = 1e-3;
constexpr double CONFIDENCE_SLOPE = 1.5;
constexpr double SKILL_FLOOR = 1e-9;
constexpr float REWARD_FLOOR = 0.1f;
constexpr double CONTEXT_SCALE = 16.0;
constexpr double CHANGE_SCALE = 8.0;
constexpr double RIDGE = 1.0;

/// Constant during a run.
struct Rule {
  double eta;               // weight of the error in the drive
  double average_weight;    // min(1, dt / 10 s): weight of the newest value in long averages
  double bridge_fade;       // exp(-dt / 0.2 s)
  double temperature;       // of the softmax over the library's cosines
  double novelty_threshold;
  double error_threshold;
  double age_per_cycle;     // dt / 60 s: an experience of age 1 counts half
  float gamma;
  float reach;              // largest f32 <= 1 - beta: the size of F and the bound of f32 cells
  float half_reach;         // largest binary16 <= 1 - beta: the bound of f16 cells
  float own;                // 1 - pattern_share
  float pattern_step;       // pattern_share x the size of one step of a stored volume
  float lambda[2];          // on the full grid; a quarter of that on the half grid
  unsigned grid;            // cells per axis of the whole grid: 8, 16, 32 or 64
  unsigned sensors;
  unsigned motors;
  unsigned patterns;        // slots of the library
  unsigned rows;            // capacity of the bank
  unsigned learns;          // whether the bank stores
  unsigned half_groups;     // bit g: the cells of group g are kept as binary16
};

/// One cycle's orders, written by the host. All except the inputs depend only on the cycle's number, the
/// quality level and the earlier orders.
struct Cycle {
  unsigned long long number;
  double keep;              // forgetting factor: 0.99^(seconds since the last step of learning)
  double noise[MAX_MOTORS]; // exploration, already scaled
  const float* sensors;     // in host memory; each finite and in [-1, 1]: the host refuses others (step 0)
  float reward;             // likewise
  unsigned ticket;          // the report of this cycle repeats it
  unsigned first;           // first cycle: no previous value, nothing to learn from
  unsigned on_half;         // grid in use: 0 whole, 1 half
  unsigned moved;           // first cycle on this grid, but not the very first cycle
  unsigned learn_due;       // never in the first cycle
  unsigned blend_due;
  unsigned blend_top;       // patterns in the blend, at most BLEND_TOP
  unsigned metrics_due;
  unsigned part;            // of the bank's sweep
  unsigned parts;
  unsigned count[GROUPS];   // sub-steps of each group; 0: it does not change
  unsigned front[GROUPS];   // which of the two buffers holds the group before the cycle
  unsigned left[GROUPS];    // the same on the previous grid; only the moves read it
  unsigned stale[GROUPS];   // the group's sums do not match its cells: reduce it even without sub-steps
  float take[GROUPS];       // share k of F in a sub-step
  float hold[GROUPS];       // 1 - k
  unsigned unused;
};

/// What the host reads back: the answer, and what an engine can be queried for. The kernels also keep these
/// values here between cycles. 0 at the start, except novelty, which is 1 until the first sweep.
struct Answer {
  unsigned long long cycle;
  double prediction[MAX_SENSORS];
  double weight[BLEND_TOP]; // of the blended slots
  double cosine[BANK_TOP];  // of the nearest rows
  float scores[MAX_MOTORS];
  float motors[MAX_MOTORS];
  float confidence;
  float skill;
  float novelty;
  unsigned experiences;     // rows in use
  unsigned blended;         // slots in use
  unsigned slot[BLEND_TOP];
  unsigned nearest;         // rows found
  unsigned row[BANK_TOP];
};

/// A cycle's result in host memory; the host polls the ticket until it is this cycle's.
struct Report {
  Answer answer;
  unsigned long long began; // device clock, ns: when the first kernel had read the orders
  unsigned long long ended; // and when the answer was complete
  double value;             // of the row that the cycle changed; undefined if it changed none
  unsigned long long last_use;
  float exact[DESCRIPTOR];
  unsigned ticket;          // written last
  unsigned touched;         // the row of the bank that the cycle stored or recognised; NO_ROW: none
  unsigned unused[2];
};

/// The wiring on one grid of n cells per axis.
struct Wires {
  const float* profile;     // [sensor][axis x, y, z][n]
};

/// Which sensors reach which channel. Channel c has taps first[c]..first[c + 1].
struct Taps {
  const unsigned* first;    // [CHANNELS + 1]
  const unsigned* sensor;
  const float* weight;      // gain x B
  const float* bias;        // [CHANNELS], gain x h
};

/// State of the sensors in steps 1 and 6. 0 at the start.
struct Senses {
  double sensors[MAX_SENSORS];
  double change[MAX_SENSORS];
  double learned[MAX_SENSORS];    // l = W x of the last cycle
  double mean[MAX_SENSORS];       // averages from which the skill is computed
  double predicted[MAX_SENSORS];
  double persistent[MAX_SENSORS];
  double climatic[MAX_SENSORS];
  double agreement[MAX_SENSORS];  // averages from which the trust is computed
  double power[MAX_SENSORS];
  double regressors[REGRESSORS_HELD]; // x of the last cycle
  double gain[REGRESSORS_HELD];   // P x
  double column[REGRESSORS_HELD]; // P e_j
  double errors[ERROR_RING];
  double mean_error;
  unsigned long long observed;    // cycles in the averages
  float felt[MAX_SENSORS];        // s + eta e
  unsigned head;                  // where the next error goes
  unsigned filled;
  unsigned turn;                  // the next regressor to be treated as 0
  unsigned row;                   // the same, kept constant during a learning step
};

/// The descriptor relative to rest, at unit length, with which the bank's rows are compared.
struct alignas(16) Query { // read sixteen bytes at a time
  float exact[DESCRIPTOR];
  signed char bytes[DESCRIPTOR];  // in steps of scale
  float scale;
  float error;                    // at least the length of (exact - bytes)
  unsigned points;                // whether it has a direction: its length reached NORM_FLOOR
  unsigned arrived;               // finished blocks of features
};

/// Step 4's vectors relative to rest, and the vectors at rest.
struct About {
  double context[CHANNELS];
  double descriptor[DESCRIPTOR];
  double rest_context[CHANNELS];
  double rest_descriptor[DESCRIPTOR];
  Query query;                    // of the newest descriptor
};

/// A row of the bank and its cosine; NO_ROW: none.
struct Match {
  double cosine;
  unsigned row;
  unsigned unused;
};

/// Progress of the sweep. 0 at the start.
struct Sweep {
  Match running[BANK_TOP];  // found in the parts so far
  unsigned next_part;       // the part that comes next; 0: a new sweep begins
  unsigned touched;         // the row changed by the last cycle or an experience added since; NO_ROW: none
};

/// The bank. Rows are unit descriptors; each is kept twice: coarse for the scan, exact for the decision.
struct Bank {
  const float* given;       // [DESCRIPTOR + 1]: an experience from outside, and its value
  float* exact;             // [rows][DESCRIPTOR]
  signed char* coarse;      // [rows][DESCRIPTOR]
  float* scale;             // [rows]: the size of one step of the row's bytes
  float* error;             // [rows]: length of (exact - coarse), rounded up
  double* value;            // [rows]
  unsigned long long* last_use; // [rows], cycle number
  float* high;              // [rows]: upper bound of the cosine
  float* low;               // [SCAN_BLOCKS][BANK_TOP]: the highest lower bounds of the cosines
  Match* found;             // [SCAN_BLOCKS][BANK_TOP], then [SCAN_BLOCKS]: rows that may be replaced
  Sweep* sweep;
};

/// One line of the metrics ring.
struct Metric {
  unsigned long long cycle;
  float mean, std, max, energy, novelty, skill, confidence;
  unsigned unused;
};

/// The metrics ring and its intermediate sums.
struct Metrics {
  double sum[CHANNELS];
  double square[CHANNELS];
  Metric ring[METRIC_RING];
  unsigned long long written; // total entries; the newest is at (written - 1) % METRIC_RING
  float most[CHANNELS];       // largest |u|
  unsigned arrived;           // finished blocks
  unsigned unused;
};

/// Everything that one robot's cycle accesses: the addresses of its own buffers.
struct Brain {
  const Rule* rule;
  const Cycle* given;         // in host memory: the orders, read once by the first kernel
  Cycle* cycle;               // device copy of the orders, for all other kernels
  Answer* answer;
  Report* report;             // in host memory
  Wires wires[2];             // whole grid, half grid
  Taps taps;
  void* cells[2][2][GROUPS];  // [grid][buffer][group]: [GROUP][n][n][n], x fastest
  const short* const* volumes[2]; // [slot]: address of its [PATTERN][n][n][n], in steps of (1 - beta) / 32767
  const double* contexts;     // [slot][CHANNELS], unit length, relative to rest
  const unsigned* stored;     // [slot], 0 for an empty one
  float* channel_sums;        // [slab][CHANNELS]
  float* block_sums;          // [slab][GROUPS][COLUMNS]
  float* group_sums;          // [CONTENT_GROUPS][n][n][n]: sums of the content groups' channels
  float* features;            // [FEATURES]
  About* about;
  Senses* senses;
  double* weights;            // W: [sensor][regressor]
  double* covariance;         // P: [regressor][regressor]; I / RIDGE at the start
  Bank bank;
  const float* readout;       // [grid][motor][FEATURES + 1]
  double* scores;             // [MAX_MOTORS] of the last cycle, then [MAX_MOTORS] of the bridge
  Metrics* metrics;
};

/// What differs between two launches of a kernel in one cycle.
struct Launch {
  unsigned number;            // evolve: which sub-step, from 0. metrics: 1 measures even if not due. answer, deliver:
                              // blocks of the scan
  unsigned planes_or_tasks;   // evolve, features: planes of a slab; divides a quarter of the grid. answer: its tasks
};

static_assert(sizeof(Rule) == 112 && sizeof(Cycle) == 392 && sizeof(Answer) == 768 && sizeof(Report) == 2864, "agreed with the host");
static_assert(sizeof(Senses) == 17696 && sizeof(About) == 11792 && sizeof(Sweep) == 88, "agreed with the host");
static_assert(sizeof(Metric) == 40 && sizeof(Metrics) == 3856 && sizeof(Brain) == 552, "agreed with the host");
static_assert(FEATURES == 2112 && REGRESSORS_HELD >= MAX_REGRESSORS, "as in src/field/shape.rs");
