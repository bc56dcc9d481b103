//! Checks whether a state fits an engine: its sizes, and whether some run could have produced its numbers.
//! The check runs before any change, so that a refused state changes nothing, and before a save, so that a
//! saved state is not refused later.

use super::bounds::{self, CHANGE_MOST, CYCLES_MOST, LearnerBounds, SQUARE_MOST, STORED_MOST};
use super::{Learned, Live, Reduced, Senses};
use crate::base::plan::FieldPlan;
use crate::field::quality::TABLE;
use crate::field::shape::{
    BANK_TOP, BLEND_TOP, BRIDGE_S, CHANNELS, CONTEXT, DESCRIPTOR, ERROR_RING, PATTERN, READOUT_COLUMNS,
    READOUT_MOST, WORTH_MOST, regressors,
};
use std::fmt;

/// How far a cell may exceed 1 - beta, and a unit vector's length may exceed 1: the f32 rounding of the
/// engine that saved it.
const ROUNDING: f64 = 1e-5;

/// Why an engine refuses a state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StateError {
    /// The state has more or fewer of these numbers than the engine.
    Count {
        /// Which numbers.
        field: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// The state has more of these numbers than the engine has room for.
    TooMany {
        /// Which numbers.
        field: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// A value that no engine could produce.
    Value {
        /// Which numbers.
        field: &'static str,
        /// Its index, from 0.
        at: usize,
        /// The number.
        found: f64,
        /// What it should be.
        wanted: &'static str,
    },
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Count { field, found, wanted } => {
                write!(f, "{field}: found {found}; this field has {wanted}")
            }
            StateError::TooMany { field, found, most } => {
                write!(f, "{field}: found {found}; this field has room for {most}")
            }
            StateError::Value { field, at, found, wanted } => {
                write!(f, "{field}, number {at}: {found}; {wanted}")
            }
        }
    }
}

impl std::error::Error for StateError {}

type Checked = Result<(), StateError>;

fn count<T>(field: &'static str, list: &[T], wanted: usize) -> Checked {
    let found = list.len();
    if found == wanted { Ok(()) } else { Err(StateError::Count { field, found, wanted }) }
}

fn at_most(field: &'static str, found: usize, most: usize) -> Checked {
    if found <= most { Ok(()) } else { Err(StateError::TooMany { field, found, most }) }
}

fn each<T: Copy + Into<f64>>(
    field: &'static str,
    list: &[T],
    wanted: &'static str,
    fits: impl Fn(f64) -> bool,
) -> Checked {
    match list.iter().position(|x| !fits((*x).into())) {
        None => Ok(()),
        Some(at) => Err(StateError::Value { field, at, found: list[at].into(), wanted }),
    }
}

fn finite<T: Copy + Into<f64>>(field: &'static str, list: &[T]) -> Checked {
    each(field, list, "must be finite", f64::is_finite)
}

fn within<T: Copy + Into<f64>>(field: &'static str, list: &[T], bound: f64) -> Checked {
    // The comparison is false for NaN too.
    each(field, list, "must be within 1 - beta", |x| x.abs() <= bound + ROUNDING)
}

/// Checks that the numbers are within `bounds`, which no run of a field can exceed. NaN is refused too.
fn bounded<T: Copy + Into<f64>>(field: &'static str, list: &[T], bounds: [f64; 2]) -> Checked {
    let [least, most] = [bounds[0] - ROUNDING, bounds[1] + ROUNDING];
    each(field, list, "no run of this field can produce it", |x| (least..=most).contains(&x))
}

/// The range -`most`..=`most`.
fn about_0(most: f64) -> [f64; 2] {
    [-most, most]
}

fn cycles_at_most(field: &'static str, cycles: u64, most: u64) -> Checked {
    let (found, wanted) = (cycles as f64, "must not exceed the cycles that were run");
    if cycles <= most { Ok(()) } else { Err(StateError::Value { field, at: 0, found, wanted }) }
}

/// Checks that no row of `of` numbers is longer than a unit vector; a row without direction may be shorter.
fn units<T: Copy + Into<f64>>(field: &'static str, list: &[T], of: usize) -> Checked {
    finite(field, list)?;
    for (at, row) in list.chunks_exact(of).enumerate() {
        let found = row.iter().map(|x| (*x).into() * (*x).into()).sum::<f64>().sqrt();
        if found > 1.0 + ROUNDING {
            return Err(StateError::Value { field, at, found, wanted: "must be of unit length, or shorter" });
        }
    }
    Ok(())
}

/// Checks that the f64 values are absent, or round to the f32 values.
fn beside(field: &'static str, fine: &[f64], coarse: &[f32]) -> Checked {
    if fine.is_empty() {
        return Ok(());
    }
    count(field, fine, coarse.len())?;
    let differs = |(fine, coarse): (&f64, &f32)| (*fine as f32).to_bits() != coarse.to_bits();
    match fine.iter().zip(coarse).position(differs) {
        None => Ok(()),
        Some(at) => {
            let wanted = "must round to its value in single precision";
            Err(StateError::Value { field, at, found: fine[at], wanted })
        }
    }
}

/// Checks a list of indices with scores: at most `most` entries, indices below `bound`, scores within -1..=1
/// and best first.
fn ranked(field: &'static str, list: &[(u32, f64)], most: usize, bound: usize) -> Checked {
    at_most(field, list.len(), most)?;
    for (at, (number, score)) in list.iter().enumerate() {
        if *number as usize >= bound {
            let found = f64::from(*number);
            return Err(StateError::Value { field, at, found, wanted: "must be in use" });
        }
        let behind = at == 0 || list[at - 1].1 >= *score;
        if !(score.abs() <= 1.0 + ROUNDING && behind) {
            let wanted = "must be -1..=1, best first";
            return Err(StateError::Value { field, at, found: *score, wanted });
        }
    }
    Ok(())
}

fn skipped_at_most(field: &'static str, since: &[u64], most: Option<u64>) -> Checked {
    let longest = most.unwrap_or(1);
    match since.iter().position(|since| *since > longest) {
        None => Ok(()),
        Some(at) => {
            let (found, wanted) = (since[at] as f64, "must not exceed what a quality level skips");
            Err(StateError::Value { field, at, found, wanted })
        }
    }
}

/// Checks that rows of W and elements of P are within what least squares can produce, and P is symmetric.
fn check_learner(senses: &Senses, sensors: usize, n: usize, learned: &LearnerBounds) -> Checked {
    count("weights of the prediction", &senses.weights, sensors * n)?;
    count("covariance", &senses.covariance, n * n)?;
    bounded("weights of the prediction", &senses.weights, about_0(learned.weights))?;
    for (at, row) in senses.weights.chunks_exact(n).enumerate() {
        let found = row.iter().map(|w| w * w).sum::<f64>().sqrt();
        if found > learned.weights + ROUNDING {
            let wanted = "no run of this field can produce it";
            return Err(StateError::Value { field: "length of a row of the prediction", at, found, wanted });
        }
    }
    bounded("covariance", &senses.covariance, about_0(learned.covariance))?;
    let p = |i: usize, j: usize| senses.covariance[i * n + j];
    let lopsided = (0..n).find_map(|i| (0..i).find(|j| p(i, *j) != p(*j, i)).map(|j| i * n + j));
    match lopsided {
        None => Ok(()),
        Some(at) => {
            let (found, wanted) = (senses.covariance[at], "must equal the value above the diagonal");
            Err(StateError::Value { field: "covariance", at, found, wanted })
        }
    }
}

/// Bound on the reported score (the read-out's score plus the bridge) if the read-out's score is at most
/// `raw`. In the first cycle on another grid, the bridge makes up the difference to the previous score; it
/// then fades with `BRIDGE_S`, and may be set again in the next cycle.
fn reported_most(raw: f64, plan: &FieldPlan) -> f64 {
    let fades = libm::exp(-plan.dt.as_secs_f64() / BRIDGE_S);
    2.0 * raw / (1.0 - fades)
}

impl Learned {
    /// Whether an engine of `plan` can load this.
    pub fn check(&self, plan: &FieldPlan) -> Checked {
        let shape = plan.shape;
        count("weights of the read-out", &self.readout, shape.weights())?;
        bounded("weights of the read-out", &self.readout, about_0(f64::from(READOUT_MOST)))?;
        count("slots of the library", &self.patterns, shape.patterns)?;
        let (cells, bound) = (PATTERN * shape.cells(), 1.0 - plan.params.beta);
        for pattern in self.patterns.iter().flatten() {
            count("cells of a pattern", &pattern.volume, cells)?;
            let steps = "must be -32767..=32767 steps";
            each("cells of a pattern", &pattern.volume, steps, |x| x.abs() <= f64::from(i16::MAX))?;
            count("numbers of a pattern's context", &pattern.context, CONTEXT)?;
            units("length of a pattern's context", &pattern.context, CONTEXT)?;
            finite("value of a pattern", &[pattern.value])?; // it is only returned, never computed with
            if let Some(fine) = &pattern.fine {
                count("cells of a pattern", &fine.volume, cells)?;
                within("cells of a pattern", &fine.volume, bound)?;
                count("numbers of a pattern's context", &fine.context, CONTEXT)?;
                bounded("numbers of a pattern's context", &fine.context, about_0(STORED_MOST))?;
            }
        }
        Ok(())
    }
}

impl Live {
    /// Whether an engine of `plan` can resume from this.
    pub fn check(&self, plan: &FieldPlan) -> Checked {
        cycles_at_most("cycles since the start", self.age, CYCLES_MOST)?;
        cycles_at_most("number of the last cycle", self.cycle, CYCLES_MOST)?;
        self.check_cells(plan)?;
        self.check_senses(plan)?;
        self.check_bank(plan)?;
        let most = |every: fn(&crate::field::Work) -> u64| TABLE.iter().map(every).max();
        skipped_at_most("cycles since a group was stepped", &self.since_step, most(|work| work.slow_every))?;
        skipped_at_most(
            "cycles since the library was matched",
            &[self.since_blend],
            most(|work| work.blend_every),
        )?;
        skipped_at_most(
            "cycles since a step of learning",
            &[self.since_learn],
            most(|work| work.learn_every),
        )?;
        ranked("slots of the blend", &self.blend, BLEND_TOP, plan.shape.patterns)?;
        each(
            "weights of the blend",
            &self.blend.iter().map(|b| b.1).collect::<heapless::Vec<_, BLEND_TOP>>(),
            "must be 0..=1",
            |w| w >= 0.0,
        )?;
        let most = reported_most(f64::from(READOUT_MOST) * READOUT_COLUMNS as f64, plan);
        bounded("scores", &self.scores, about_0(most))?;
        bounded("bridge", &self.bridge, about_0(2.0 * most))?;
        if let Some(m) = &self.metrics {
            let cell = 1.0 - plan.params.beta;
            bounded("metrics", &[m.mean], about_0(cell))?;
            bounded("metrics", &[m.std, m.max, m.energy], [0.0, cell])?;
            bounded("metrics", &[m.novelty, m.confidence], [0.0, 1.0])?;
            bounded("metrics", &[m.skill], about_0(1.0))?;
        }
        Ok(())
    }

    fn check_cells(&self, plan: &FieldPlan) -> Checked {
        let (shape, bound) = (plan.shape, 1.0 - plan.params.beta);
        let halves = if self.on_half { CHANNELS * (shape.grid / 2).pow(3) } else { 0 };
        count("cells of the whole grid", &self.whole, CHANNELS * shape.cells())?;
        count("cells of the half grid", &self.half, halves)?;
        within("cells of the whole grid", &self.whole, bound)?;
        within("cells of the half grid", &self.half, bound)?;
        beside("fine cells of the whole grid", &self.fine.whole, &self.whole)?;
        beside("fine cells of the half grid", &self.fine.half, &self.half)?;
        let Reduced { context, descriptor } = &self.reduced;
        if !(context.is_empty() && descriptor.is_empty()) {
            count("means of channels", context, CONTEXT)?;
            count("means of blocks", descriptor, DESCRIPTOR)?;
            within("means of channels", context, bound)?;
            within("means of blocks", descriptor, bound)?;
        }
        Ok(())
    }

    fn check_senses(&self, plan: &FieldPlan) -> Checked {
        let (sensors, n, senses) = (plan.shape.sensors, regressors(plan.shape.sensors), &self.senses);
        let learned = LearnerBounds::of(plan, self.age);
        let of_a_sensor = [
            ("sensors", &senses.sensors, about_0(1.0)),
            ("predictions", &senses.prediction, about_0(1.0)),
            ("changes", &senses.change, about_0(CHANGE_MOST)),
            ("means of sensors", &senses.mean, about_0(1.0)),
            ("errors of the prediction", &senses.predicted, [0.0, SQUARE_MOST]),
            ("errors of same as before", &senses.persistent, [0.0, SQUARE_MOST]),
            ("errors of the mean", &senses.climatic, [0.0, SQUARE_MOST]),
            ("learned changes", &senses.learned, about_0(learned.output)),
            ("agreements", &senses.agreement, about_0(CHANGE_MOST * learned.output)),
            ("powers", &senses.power, [0.0, learned.output * learned.output]),
        ];
        for (field, list, bounds) in of_a_sensor {
            count(field, list, sensors)?;
            bounded(field, list, bounds)?;
        }
        at_most("errors", senses.errors.len(), ERROR_RING)?;
        bounded("errors", &senses.errors, [0.0, CHANGE_MOST])?;
        cycles_at_most("cycles behind the averages", senses.observed, self.age)?;
        count("regressors", &senses.regressors, n)?;
        for (at, x) in senses.regressors.iter().enumerate() {
            bounded("regressors", &[*x], about_0(bounds::regressor_most(plan, at)))?;
        }
        check_learner(senses, sensors, n, &learned)?;
        if senses.turn >= n as u64 {
            let (found, wanted) = (senses.turn as f64, "must be the number of a regressor");
            return Err(StateError::Value { field: "turn of the ridge", at: 0, found, wanted });
        }
        Ok(())
    }

    fn check_bank(&self, plan: &FieldPlan) -> Checked {
        let (bank, rows) = (&self.bank, self.bank.value.len());
        at_most("experiences", rows, plan.shape.bank)?;
        count("numbers of the bank", &bank.rows, rows * DESCRIPTOR)?;
        count("last uses of experiences", &bank.last_use, rows)?;
        units("length of an experience", &bank.rows, DESCRIPTOR)?;
        bounded("values of experiences", &bank.value, [0.0, WORTH_MOST])?;
        bank.last_use
            .iter()
            .try_for_each(|last| cycles_at_most("last uses of experiences", *last, self.cycle))?;
        if !self.fine.rows.is_empty() {
            count("fine numbers of the bank", &self.fine.rows, rows * DESCRIPTOR)?;
            bounded("fine numbers of the bank", &self.fine.rows, about_0(STORED_MOST))?;
        }
        let parts = TABLE.iter().map(|work| work.bank_parts).max().unwrap_or(1);
        if let Some(next) = bank.next_part
            && !(1..parts).contains(&next)
        {
            let wanted = "must be a part after the first";
            return Err(StateError::Value { field: "part of the sweep", at: 0, found: next as f64, wanted });
        }
        ranked("rows of the current sweep", &bank.running, BANK_TOP, rows)?;
        ranked("rows of the last sweep", &bank.nearest, BANK_TOP, rows)
    }
}
