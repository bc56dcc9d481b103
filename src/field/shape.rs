//! Sizes, constants and free parameters of the field, each with its reason. The relations between them are
//! checked at compile time.

use crate::base::plan::{FieldPlan, Params, Shape, Storage};

/// Channels of the field.
pub const CHANNELS: usize = 64;
/// Channels are reduced in groups of this many, for descriptor and gradients.
pub const GROUP: usize = 8;
/// Groups of channels.
pub const GROUPS: usize = CHANNELS / GROUP;
/// Content channels 0..32: driven by the sensors.
pub const CONTENT: usize = 32;
/// Groups of content channels, the ones whose gradients are features.
pub const CONTENT_GROUPS: usize = CONTENT / GROUP;
/// First pattern channel.
pub const PATTERN_FIRST: usize = 32;
/// Pattern channels 32..48.
pub const PATTERN: usize = 16;
/// First slow channel.
pub const SLOW_FIRST: usize = 48;
/// Slow channels 48..64: they remember for seconds.
pub const SLOW: usize = 16;
/// Blocks per axis of the pooled features.
pub const BLOCKS: usize = 4;
/// Blocks of the grid.
pub const BLOCK_COUNT: usize = BLOCKS * BLOCKS * BLOCKS;
/// Context: mean of each channel.
pub const CONTEXT: usize = CHANNELS;
/// Descriptor: group x block means, group slowest, x fastest.
pub const DESCRIPTOR: usize = GROUPS * BLOCK_COUNT;
/// Gradient features: content group x axis (x, y, z) x (signed mean, mean magnitude) x block,
/// in that order, block fastest (x fastest within).
pub const GRADIENT: usize = CONTENT_GROUPS * 3 * 2 * BLOCK_COUNT;
/// All features, in the order context, descriptor, gradients.
pub const FEATURES: usize = CONTEXT + DESCRIPTOR + GRADIENT;
/// Columns of a read-out: features and a constant 1.
pub const READOUT_COLUMNS: usize = FEATURES + 1;
/// Grids for which a read-out has weights: the full one and the half one of the lowest quality level. The
/// same scene has different features on each.
pub const READOUT_GRIDS: usize = 2;
/// Largest weight of a read-out. At this weight, the single-precision rounding error of a feature alone
/// changes a motor's score by about 1; a larger weight would only amplify rounding.
pub const READOUT_MOST: f32 = 1.0 / f32::EPSILON;
/// Largest value of an experience, which is a reward or a mean error of numbers within -1..=1.
pub const WORTH_MOST: f64 = 2.0;
/// Recent prediction errors kept for confidence.
pub const ERROR_RING: usize = 1000;
/// Number of rows that an engine on the CPU allocates at a time in one of the bank's eight shards: 82 kB.
pub const BANK_BLOCK: usize = 32;
/// Number of best matches that a sweep of the bank returns.
pub const BANK_TOP: usize = 5;
/// Maximum number of patterns in a blend.
pub const BLEND_TOP: usize = 3;
/// Cycles from one set of metrics to the next.
pub const METRICS_EVERY: u64 = 100;
/// The confidence uses the mean of this many newest errors of the ring.
pub const CONFIDENCE_CYCLES: usize = 100;
/// Confidence is 1 minus this times their mean: a mean error of 2/3, for sensors within -1..=1, gives a
/// confidence of 0.
pub const CONFIDENCE_SLOPE: f64 = 1.5;
/// Horizon of the averages for the skill, seconds: long enough to average the noise of single errors, short
/// compared to the time between changes of behaviour.
pub const SKILL_HORIZON_S: f64 = 10.0;
/// Mean square error that is ignored: an error of 3e-5 is below what a 12-bit converter
/// resolves. Keeps the skill at 0 where sensors do not change and both errors vanish.
pub const SKILL_FLOOR: f64 = 1e-9;
/// Rewards with a magnitude up to this are ignored.
pub const REWARD_FLOOR: f32 = 0.1;
/// A vector relative to rest that is shorter than this is considered to have no direction: it may be only
/// the rounding error of an f32 field at rest.
pub const NORM_FLOOR: f64 = 1e-3;
/// An experience counts half when it was last recognised this many seconds ago.
pub const RECENCY_S: f64 = 60.0;
/// Time constant of the transition of the motor scores after a change of resolution, seconds.
pub const BRIDGE_S: f64 = 0.2;
/// Regressors of the prediction: context relative to rest, sensors, their last change, a constant 1.
pub const fn regressors(sensors: usize) -> usize {
    CONTEXT + 2 * sensors + 1
}
/// Factor of the context in the regressors: a receptive field fills about a thirtieth of the cube, and a
/// channel has four of them, so its mean moves by about a sixteenth.
pub const CONTEXT_SCALE: f64 = 16.0;
/// Factor of the last change in the regressors: a sine of 0.4 Hz at 20 Hz changes by up to an eighth of its
/// amplitude per cycle; with this factor, the ridge weights sensors and changes equally.
pub const CHANGE_SCALE: f64 = 8.0;
/// Ridge of the prediction's least squares, in squared units of the regressors: the weight of one observation
/// of unit size. With a tenth of this ridge, the prediction learns noise for its first 20 s; with ten times
/// as much, it learns slowly.
pub const RIDGE: f64 = 1.0;

const _: () = assert!(PATTERN_FIRST == CONTENT && SLOW_FIRST == PATTERN_FIRST + PATTERN);
const _: () = assert!(SLOW_FIRST + SLOW == CHANNELS && CHANNELS.is_multiple_of(GROUP));
const _: () = assert!(FEATURES == 2112);

impl Shape {
    /// Cells of one channel.
    pub const fn cells(&self) -> usize {
        self.grid * self.grid * self.grid
    }
    /// Number of weights of a read-out: [`READOUT_GRIDS`] x motors x [`READOUT_COLUMNS`], those of the full
    /// grid first.
    pub const fn weights(&self) -> usize {
        READOUT_GRIDS * self.motors * READOUT_COLUMNS
    }
    /// Copies a read-out's weights into `into`, which holds those of both grids; weights for one grid only
    /// are used for both. Returns false and copies nothing if their number is wrong, or one is not finite or
    /// beyond [`READOUT_MOST`].
    pub fn copy_weights(&self, weights: &[f32], into: &mut [f32]) -> bool {
        let one = self.motors * READOUT_COLUMNS;
        let fits = [one, self.weights()].contains(&weights.len()) && into.len() == self.weights();
        let sound = fits && weights.iter().all(|weight| weight.abs() <= READOUT_MOST);
        if sound {
            into.chunks_exact_mut(weights.len()).for_each(|grid| grid.copy_from_slice(weights));
        }
        sound
    }
    /// Range of a read-out's weights for the full grid (`on_half`: for the half grid).
    pub const fn weights_on(&self, on_half: bool) -> std::ops::Range<usize> {
        let one = self.motors * READOUT_COLUMNS;
        if on_half { one..2 * one } else { 0..one }
    }
    /// Cells of the field.
    pub const fn volume(&self) -> usize {
        CHANNELS * self.cells()
    }
}

impl Params {
    /// Largest gain of the map u -> F: below 1 the field only fades, above 1 it can hold patterns.
    /// The kernel 1 + lambda * Laplacian has Fourier gains from 1 down to 1 - 12 lambda.
    pub fn field_gain(&self) -> f64 {
        (1.0 - self.beta) * self.gamma * (1.0 - 12.0 * self.lambda).abs().max(1.0)
    }
}

/// How a step of `dt` seconds with time constant `t` is divided: the number of equal sub-steps, and the share
/// k <= 1 by which each moves towards F.
pub fn sub_steps(dt: f64, t: f64) -> (usize, f64) {
    // A quotient that is an integer except for rounding must not cost an extra sub-step.
    let count = (dt / t - 1e-9).ceil().max(1.0);
    (count as usize, dt / (t * count))
}

/// Cycle offset of each group, for quality levels that do not step the pattern and slow groups in every
/// cycle: such a group is stepped when the cycle number plus its offset is due. Each cycle steps one pattern
/// group and one slow group, so that all cycles cost the same; the order also balances the load between two
/// threads that take alternate groups.
pub const TURN: [u64; GROUPS] = [0, 0, 0, 0, 0, 1, 1, 0];

/// Whether work that runs every `every` cycles is due: because the cycle's number is a multiple of `every`,
/// or because numbers were skipped and the work has not run for `every` cycles.
pub fn is_due(cycle: u64, every: u64, since: u64) -> bool {
    cycle.is_multiple_of(every) || since >= every
}

/// Smallest share k of a sub-step for which cells may be kept in half precision: below it, the steps of a
/// slow channel vanish in the rounding to 11 bits, and the channel stops short of its target.
pub const HALF_SHARE: f64 = 0.1;

impl FieldPlan {
    /// How the cells of a group of eight channels are stored: see [`HALF_SHARE`].
    pub fn storage_of(&self, group: usize) -> Storage {
        let t = if group * GROUP < SLOW_FIRST { self.params.t_fast } else { self.params.t_slow };
        let (_, share) = sub_steps(self.dt.as_secs_f64(), t);
        if share < HALF_SHARE { Storage::F32 } else { self.storage }
    }
}

impl Storage {
    /// The largest value of this storage that is not above `limit` (1 - beta, below 1); for halves, below it.
    pub fn bound(self, limit: f64) -> f32 {
        match self {
            Storage::F32 => {
                let nearest = limit as f32;
                if f64::from(nearest) > limit { nearest.next_down() } else { nearest }
            }
            // Cutting bits off a normal number rounds it towards 0.
            Storage::F16 => f32::from_bits((limit as f32).next_down().to_bits() & !0x1fff),
        }
    }
}
