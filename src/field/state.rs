//! The whole state of an engine between two cycles, in a form that all engines share: the content of a
//! snapshot file, and what one engine takes over from another.
//!
//! An engine that resumes from its own state continues bit for bit; another engine's results differ only by
//! rounding. Features are not part of the state: they follow from the cells, except for the means that
//! `Reduced` keeps. Values that an engine keeps in f64 are in `fine`, alongside the f32 values that every
//! engine understands.
//!
//! `check` decides whether a state fits an engine, `bounds` how large a number can become; each engine
//! implements its own saving and loading.

mod bounds;
mod check;
mod held;

pub use check::StateError;
pub use held::Held;

use super::Metrics;
use super::shape::{BANK_TOP, BLEND_TOP, CHANNELS, CONTEXT, DESCRIPTOR, ERROR_RING, GROUPS, regressors};
use crate::base::command::MAX_MOTORS;
use crate::base::plan::FieldPlan;
use serde::{Deserialize, Serialize};

/// A whole brain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// What was loaded into the engine.
    pub learned: Learned,
    /// What changes from cycle to cycle.
    pub live: Live,
}

/// What was loaded into an engine: the read-out and the library. It stays when the engine is reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// The weights; [`Shape::weights`](crate::base::plan::Shape::weights) is their number.
    pub readout: Vec<f32>,
    /// One entry per slot of the library.
    pub patterns: Vec<Option<Pattern>>,
}

/// A stored pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    /// 16 x N^3, x fastest, in steps of (1 - beta) / 32767.
    pub volume: Vec<i16>,
    /// 64 numbers relative to rest, divided by the vector's length (at least `NORM_FLOOR`).
    pub context: Vec<f64>,
    /// The value stored with the pattern.
    pub value: f32,
    /// The unrounded original, if the engine keeps it.
    pub fine: Option<FinePattern>,
}

/// A stored pattern without rounding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinePattern {
    /// 16 x N^3, x fastest, within 1 - beta.
    pub volume: Vec<f32>,
    /// 64 numbers relative to rest, not normalised.
    pub context: Vec<f64>,
}

/// What changes from cycle to cycle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// Number of the last cycle.
    pub cycle: u64,
    /// Cycles since the start; 0: at rest.
    pub age: u64,
    /// Whether the half grid is in use.
    pub on_half: bool,
    /// Cells of the full grid, 64 x N^3, x fastest.
    pub whole: Vec<f32>,
    /// Cells of the half grid, 64 x (N/2)^3; empty unless it is in use.
    pub half: Vec<f32>,
    /// The means from which the features are computed; the cells alone do not determine them.
    pub reduced: Reduced,
    /// Cycles since each group was stepped, since the library was matched, and since the last step of
    /// learning.
    pub since_step: [u64; GROUPS],
    /// See `since_step`.
    pub since_blend: u64,
    /// See `since_step`.
    pub since_learn: u64,
    /// The prediction: steps 1 and 6.
    pub senses: Senses,
    /// Slots and weights of the blend, best first, at most `BLEND_TOP`.
    pub blend: Vec<(u32, f64)>,
    /// The bank.
    pub bank: Experiences,
    /// Motor scores of the last cycle, bridge included.
    pub scores: [f64; MAX_MOTORS],
    /// The remainder of the bridge.
    pub bridge: [f64; MAX_MOTORS],
    /// The newest of the periodic metrics.
    pub metrics: Option<Metrics>,
    /// What an engine keeps in f64; empty otherwise.
    pub fine: Fine,
}

/// Means of the last cycle. A group that was skipped (quality levels 4 and 5) still has the means of its last
/// step, and where cells are in half precision, the means were computed before the cells were rounded. Empty:
/// to be computed from the cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reduced {
    /// Mean of each channel.
    pub context: Vec<f64>,
    /// Mean of each block of each group, in the order of the descriptor.
    pub descriptor: Vec<f64>,
}

/// The f64 values of cells and rows, in the same order as the f32 values; empty where an engine has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fine {
    /// See [`Live::whole`].
    pub whole: Vec<f64>,
    /// See [`Live::half`].
    pub half: Vec<f64>,
    /// See [`Experiences::rows`]; not normalised.
    pub rows: Vec<f64>,
}

/// What the engine has learned about the sensors. Vectors have one entry per sensor unless stated otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Senses {
    /// Last values.
    pub sensors: Vec<f64>,
    /// Change of the sensor values since the previous cycle.
    pub change: Vec<f64>,
    /// The prediction of the next values.
    pub prediction: Vec<f64>,
    /// l = W x of the last cycle.
    pub learned: Vec<f64>,
    /// x of the last cycle, n = 64 + 2 S + 1.
    pub regressors: Vec<f64>,
    /// W, sensors x n.
    pub weights: Vec<f64>,
    /// P, n x n.
    pub covariance: Vec<f64>,
    /// Regressor whose weight is pulled to 0 next.
    pub turn: u64,
    /// Mean absolute errors, oldest first, at most `ERROR_RING`.
    pub errors: Vec<f64>,
    /// Cycles that the following averages cover.
    pub observed: u64,
    /// Running mean of the sensors.
    pub mean: Vec<f64>,
    /// Mean squared errors of the prediction, of the forecast "same as before" and of the running mean.
    pub predicted: Vec<f64>,
    /// See `predicted`.
    pub persistent: Vec<f64>,
    /// See `predicted`.
    pub climatic: Vec<f64>,
    /// Mean of d l, the change times the learned change.
    pub agreement: Vec<f64>,
    /// Mean of l^2.
    pub power: Vec<f64>,
}

/// The bank and its sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiences {
    /// Unit descriptors relative to rest, rows in use x `DESCRIPTOR`.
    pub rows: Vec<f32>,
    /// The value of each row.
    pub value: Vec<f64>,
    /// The cycle in which each row was last used.
    pub last_use: Vec<u64>,
    /// The next part of the sweep; `None`: a new sweep begins.
    pub next_part: Option<u64>,
    /// Rows and cosines found in the parts so far, best first.
    pub running: Vec<(u32, f64)>,
    /// Rows and cosines of the last complete sweep, best first.
    pub nearest: Vec<(u32, f64)>,
    /// Where `rows` came from.
    #[serde(skip)]
    pub held: Held,
}

/// The value of one step of a stored volume.
pub fn volume_step(beta: f64) -> f32 {
    (1.0 - beta) as f32 / f32::from(i16::MAX)
}

impl Live {
    /// Reserves room for everything that an engine of `plan` can ever save, so that saving allocates nothing;
    /// the content stays. `fine`: also reserves room for the values of an engine that computes in f64.
    /// Returns the largest total size in bytes.
    pub fn reserve(&mut self, plan: &FieldPlan, fine: bool) -> usize {
        let (shape, n) = (plan.shape, regressors(plan.shape.sensors));
        let (whole, half) = (CHANNELS * shape.cells(), CHANNELS * (shape.grid / 2).pow(3));
        let mut bytes = room(&mut self.whole, whole);
        bytes += room(&mut self.half, half);
        bytes += room(&mut self.reduced.context, CONTEXT);
        bytes += room(&mut self.reduced.descriptor, DESCRIPTOR);
        let senses = &mut self.senses;
        for vector in senses.each_of_a_sensor() {
            bytes += room(vector, shape.sensors);
        }
        bytes += room(&mut senses.regressors, n);
        bytes += room(&mut senses.weights, shape.sensors * n);
        bytes += room(&mut senses.covariance, n * n);
        bytes += room(&mut senses.errors, ERROR_RING);
        bytes += room(&mut self.blend, BLEND_TOP);
        bytes += room(&mut self.bank.rows, shape.bank * DESCRIPTOR);
        bytes += room(&mut self.bank.value, shape.bank);
        bytes += room(&mut self.bank.last_use, shape.bank);
        bytes += room(&mut self.bank.running, BANK_TOP);
        bytes += room(&mut self.bank.nearest, BANK_TOP);
        if fine {
            bytes += room(&mut self.fine.whole, whole);
            bytes += room(&mut self.fine.half, half);
            bytes += room(&mut self.fine.rows, shape.bank * DESCRIPTOR);
        }
        bytes
    }

    /// Empties the parts that not every engine fills, so that no older state stays in them, and forgets where
    /// the rows of the bank came from.
    pub fn clear_extras(&mut self) {
        self.half.clear();
        self.reduced.context.clear();
        self.reduced.descriptor.clear();
        self.fine.whole.clear();
        self.fine.half.clear();
        self.fine.rows.clear();
        self.bank.held = Held::default();
    }
}

impl Senses {
    fn each_of_a_sensor(&mut self) -> [&mut Vec<f64>; 10] {
        [
            &mut self.sensors,
            &mut self.change,
            &mut self.prediction,
            &mut self.learned,
            &mut self.mean,
            &mut self.predicted,
            &mut self.persistent,
            &mut self.climatic,
            &mut self.agreement,
            &mut self.power,
        ]
    }
}

/// Reserves room for `most` elements; returns their size in bytes.
fn room<T>(vector: &mut Vec<T>, most: usize) -> usize {
    vector.reserve_exact(most.saturating_sub(vector.len()));
    most * size_of::<T>()
}

/// Replaces the content of `to`; allocates nothing if there is room.
pub fn refill<T: Clone>(to: &mut Vec<T>, from: &[T]) {
    to.clear();
    to.extend_from_slice(from);
}

/// Converts row or slot indices to their form in files.
pub fn refill_list(to: &mut Vec<(u32, f64)>, from: impl Iterator<Item = (usize, f64)>) {
    to.clear();
    to.extend(from.map(|(number, x)| (number as u32, x)));
}
