//! Whether a state fits an engine: sizes, ranges, finite numbers. Asked before anything is changed, so that
//! a state that is refused leaves no trace.

use super::{Given, Live, Reduced};
use crate::field::rung::TABLE;
use crate::field::shape::{
    BANK_TOP, BLEND_TOP, CHANNELS, CONTEXT, DESCRIPTOR, ERROR_RING, FieldPlan, PATTERN, READOUT_COLUMNS,
    regressors,
};
use std::fmt;

/// How far a cell may be beyond 1 - beta, and a unit vector longer than 1: the rounding of f32 in the engine that
/// gave it.
const ROUNDING: f64 = 1e-5;

/// Why an engine does not take a state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StateError {
    /// There is another number of them than the engine has.
    Count {
        /// Of what.
        field: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// There are more of them than the engine has room for.
    TooMany {
        /// Of what.
        field: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// A number is none that an engine could have come to.
    Value {
        /// Of what.
        field: &'static str,
        /// Which of them, from 0.
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
                write!(f, "{field}: {found} of them; this field has {wanted}")
            }
            StateError::TooMany { field, found, most } => {
                write!(f, "{field}: {found} of them; this field has room for {most}")
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
    // False for NaN too.
    each(field, list, "must be within 1 - beta", |x| x.abs() <= bound + ROUNDING)
}

fn vector(field: &'static str, list: &[f64], wanted: usize) -> Checked {
    count(field, list, wanted)?;
    finite(field, list)
}

/// Rows of `DESCRIPTOR` numbers; one without direction is shorter than a unit, none is longer.
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

/// What stands in f64 is nothing, or what stands in f32 before it was rounded.
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

/// A list of numbers below `bound` with finite scores.
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

fn waited(field: &'static str, since: &[u64], most: Option<u64>) -> Checked {
    let longest = most.unwrap_or(1);
    match since.iter().position(|since| *since > longest) {
        None => Ok(()),
        Some(at) => {
            let (found, wanted) = (since[at] as f64, "must not be more than a rung leaves out");
            Err(StateError::Value { field, at, found, wanted })
        }
    }
}

impl Given {
    /// Whether an engine of `plan` can take it.
    pub fn check(&self, plan: &FieldPlan) -> Checked {
        let shape = plan.shape;
        count("weights of the read-out", &self.readout, shape.motors * READOUT_COLUMNS)?;
        finite("weights of the read-out", &self.readout)?;
        count("slots of the library", &self.patterns, shape.patterns)?;
        let (cells, bound) = (PATTERN * shape.cells(), 1.0 - plan.params.beta);
        for pattern in self.patterns.iter().flatten() {
            count("cells of a pattern", &pattern.volume, cells)?;
            let steps = "must be -32767..=32767 steps";
            each("cells of a pattern", &pattern.volume, steps, |x| x.abs() <= f64::from(i16::MAX))?;
            count("numbers of a pattern's context", &pattern.context, CONTEXT)?;
            units("length of a pattern's context", &pattern.context, CONTEXT)?;
            finite("value of a pattern", &[pattern.value])?;
            if let Some(fine) = &pattern.fine {
                count("cells of a pattern", &fine.volume, cells)?;
                within("cells of a pattern", &fine.volume, bound)?;
                vector("numbers of a pattern's context", &fine.context, CONTEXT)?;
            }
        }
        Ok(())
    }
}

impl Live {
    /// Whether an engine of `plan` can go on from it.
    pub fn check(&self, plan: &FieldPlan) -> Checked {
        self.check_cells(plan)?;
        self.check_senses(plan)?;
        self.check_bank(plan)?;
        let most = |every: fn(&crate::field::Work) -> u64| TABLE.iter().map(every).max();
        waited("cycles since a group was stepped", &self.since_step, most(|work| work.slow_every))?;
        waited("cycles since the library was matched", &[self.since_blend], most(|work| work.blend_every))?;
        waited("cycles since a step of learning", &[self.since_learn], most(|work| work.learn_every))?;
        ranked("slots of the blend", &self.blend, BLEND_TOP, plan.shape.patterns)?;
        each(
            "weights of the blend",
            &self.blend.iter().map(|b| b.1).collect::<heapless::Vec<_, BLEND_TOP>>(),
            "must be 0..=1",
            |w| w >= 0.0,
        )?;
        finite("scores", &self.scores)?;
        finite("bridge", &self.bridge)?;
        if let Some(m) = &self.metrics {
            finite("metrics", &[m.mean, m.std, m.max, m.energy, m.novelty, m.skill, m.confidence])?;
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
        vector("sensors", &senses.sensors, sensors)?;
        each("sensors", &senses.sensors, "must be -1..=1", |s| s.abs() <= 1.0)?;
        vector("predictions", &senses.prediction, sensors)?;
        each("predictions", &senses.prediction, "must be -1..=1", |s| s.abs() <= 1.0)?;
        let others = [
            ("changes", &senses.change),
            ("learned changes", &senses.learned),
            ("means of sensors", &senses.mean),
            ("errors of the prediction", &senses.predicted),
            ("errors of same as before", &senses.persistent),
            ("errors of the mean", &senses.climatic),
            ("agreements", &senses.agreement),
            ("powers", &senses.power),
        ];
        others.into_iter().try_for_each(|(field, list)| vector(field, list, sensors))?;
        vector("regressors", &senses.regressors, n)?;
        vector("weights of the prediction", &senses.weights, sensors * n)?;
        vector("covariance", &senses.covariance, n * n)?;
        at_most("errors", senses.errors.len(), ERROR_RING)?;
        finite("errors", &senses.errors)?;
        if senses.turn >= n as u64 {
            let (found, wanted) = (senses.turn as f64, "must be a regressor");
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
        finite("values of experiences", &bank.value)?;
        if !self.fine.rows.is_empty() {
            vector("fine numbers of the bank", &self.fine.rows, rows * DESCRIPTOR)?;
        }
        let parts = TABLE.iter().map(|work| work.bank_parts).max().unwrap_or(1);
        if let Some(next) = bank.next_part
            && !(1..parts).contains(&next)
        {
            let wanted = "must be a part that something came before";
            return Err(StateError::Value { field: "part of the sweep", at: 0, found: next as f64, wanted });
        }
        ranked("rows of the sweep under way", &bank.running, BANK_TOP, rows)?;
        ranked("rows of the last sweep", &bank.nearest, BANK_TOP, rows)
    }
}
