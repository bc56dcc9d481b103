//! All that an engine knows between two cycles, in terms that every engine shares: what a snapshot file
//! holds, and what one engine takes over from another.
//!
//! An engine that resumes from its own state continues bit for bit as if nothing had happened; another
//! engine continues within its rounding. Features are not part of it: they follow from the cells, except
//! for the means that `Reduced` keeps. What an engine knows in more than f32 is in `fine`, beside what
//! every engine understands.
//!
//! `check` decides whether a state fits an engine, `bounds` how large a number can become; each engine saves
//! and loads its own.

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
    /// The part that came from outside.
    pub learned: Learned,
    /// What it has lived through.
    pub live: Live,
}

/// The part that came from outside; it stays when an engine goes back to rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// [`Shape::weights`](crate::base::plan::Shape::weights) of them.
    pub readout: Vec<f32>,
    /// A line a slot of the library.
    pub patterns: Vec<Option<Pattern>>,
}

/// A stored pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    /// 16 x N^3, x fastest, in steps of (1 - beta) / 32767.
    pub volume: Vec<i16>,
    /// 64, about rest, divided by its length (at least `NORM_FLOOR`).
    pub context: Vec<f64>,
    /// The value stored with it.
    pub value: f32,
    /// The original, of an engine that keeps it.
    pub fine: Option<FinePattern>,
}

/// A stored pattern without rounding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinePattern {
    /// 16 x N^3, x fastest, within 1 - beta.
    pub volume: Vec<f32>,
    /// 64, about rest, of any length.
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
    /// Cells of the whole grid, 64 x N^3, x fastest.
    pub whole: Vec<f32>,
    /// Cells of the half grid, 64 x (N/2)^3; empty unless it is in use.
    pub half: Vec<f32>,
    /// What features are made of where the cells do not say it any more.
    pub reduced: Reduced,
    /// Cycles since each group was stepped, the library matched, a step of learning taken.
    pub since_step: [u64; GROUPS],
    /// See `since_step`.
    pub since_blend: u64,
    /// See `since_step`.
    pub since_learn: u64,
    /// Steps 1 and 6.
    pub senses: Senses,
    /// Slots and weights of the blend, best first, at most `BLEND_TOP`.
    pub blend: Vec<(u32, f64)>,
    /// The bank.
    pub bank: Experiences,
    /// Motor scores of the last cycle, bridge included.
    pub scores: [f64; MAX_MOTORS],
    /// The rest of the bridge.
    pub bridge: [f64; MAX_MOTORS],
    /// The newest of the regular metrics.
    pub metrics: Option<Metrics>,
    /// What an engine keeps in f64; empty otherwise.
    pub fine: Fine,
}

/// Means of the last cycle. A group that stands still at rung 4 keeps them, and where its cells are halves
/// they were taken before the cells were rounded. Empty: to be taken again from the cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reduced {
    /// Mean of each channel.
    pub context: Vec<f64>,
    /// Mean of each block of each group, in the order of the descriptor.
    pub descriptor: Vec<f64>,
}

/// Cells and rows in f64, beside and in the order of those in f32; empty where an engine has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fine {
    /// See [`Live::whole`].
    pub whole: Vec<f64>,
    /// See [`Live::half`].
    pub half: Vec<f64>,
    /// See [`Experiences::rows`]; of any length.
    pub rows: Vec<f64>,
}

/// The engine's knowledge of the sensors. Vectors are one entry a sensor unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Senses {
    /// Last values.
    pub sensors: Vec<f64>,
    /// Their change against the cycle before.
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
    /// Regressor that is next seen as 0.
    pub turn: u64,
    /// Mean absolute errors, oldest first, at most `ERROR_RING`.
    pub errors: Vec<f64>,
    /// Cycles behind the averages that follow.
    pub observed: u64,
    /// Running mean of the sensors.
    pub mean: Vec<f64>,
    /// Mean squares of the errors of the prediction, of "as before", of the running mean.
    pub predicted: Vec<f64>,
    /// See `predicted`.
    pub persistent: Vec<f64>,
    /// See `predicted`.
    pub climatic: Vec<f64>,
    /// Mean of d l, the change times what was learned.
    pub agreement: Vec<f64>,
    /// Mean of l^2.
    pub power: Vec<f64>,
}

/// The bank and its sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiences {
    /// Unit descriptors about rest, rows in use x `DESCRIPTOR`.
    pub rows: Vec<f32>,
    /// A number a row.
    pub value: Vec<f64>,
    /// Number of the cycle of its last use, a row.
    pub last_use: Vec<u64>,
    /// Part of the sweep that is needed next; `None`: a sweep has to begin.
    pub next_part: Option<u64>,
    /// Rows and cosines found in the parts so far, best first.
    pub running: Vec<(u32, f64)>,
    /// Rows and cosines of the last whole sweep, best first.
    pub nearest: Vec<(u32, f64)>,
    /// Where `rows` came from.
    #[serde(skip)]
    pub held: Held,
}

/// What one step of a stored volume is worth.
pub fn volume_step(beta: f64) -> f32 {
    (1.0 - beta) as f32 / f32::from(i16::MAX)
}

impl Live {
    /// Makes room for everything that an engine of `plan` may ever have to say, so that saving into it takes
    /// no memory; what it holds stays. `fine`: also for an engine that computes in f64. How many bytes all of
    /// it is at most.
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

    /// Empties the parts that not every engine fills, so that nothing of an older state stays in them, and
    /// forgets where the rows of the bank came from.
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

/// Makes room for `most` of them; how many bytes they are.
fn room<T>(vector: &mut Vec<T>, most: usize) -> usize {
    vector.reserve_exact(most.saturating_sub(vector.len()));
    most * size_of::<T>()
}

/// Replaces what `to` holds; takes no memory where there is room.
pub fn refill<T: Clone>(to: &mut Vec<T>, from: &[T]) {
    to.clear();
    to.extend_from_slice(from);
}

/// Numbers of rows or slots as files have them.
pub fn refill_list(to: &mut Vec<(u32, f64)>, from: impl Iterator<Item = (usize, f64)>) {
    to.clear();
    to.extend(from.map(|(number, x)| (number as u32, x)));
}
