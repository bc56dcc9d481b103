//! How large learned numbers can become: bounds that follow from the equations in `docs/field.md`, for
//! checking numbers from a file. No run can produce a number beyond them.
//!
//! Sensors and predictions are within -1..=1 (step 0, step 6), so their errors and changes are within 2, and
//! the means of the squares within 4. The remaining bounds concern the least squares of step 6, with n
//! regressors x, which learn in every cycle or, at lower quality levels, in every few cycles:
//!
//! - W minimises C = sum of mu^age (d - W x)^2 + c_j W_j^2. Its cost is at most that of W = 0, which
//!   is at most 4 per observation, for at most min(observations so far, 1 / (1 - mu)) of them.
//! - c_j is the ridge on weight j: 1 / P_jj if nothing else is known about it, at most that otherwise. It
//!   starts as the ridge, decays for n observations and is then renewed by ridge n (1 - mu). So it
//!   never falls below `least_ridge`, P never exceeds 1 / c, and |W_i|^2 is at most C / c.

use crate::base::plan::FieldPlan;
use crate::field::quality::TABLE;
use crate::field::shape::{CHANGE_SCALE, CONTEXT, CONTEXT_SCALE, RIDGE, regressors};

/// Largest change or error of a number within -1..=1.
pub(super) const CHANGE_MOST: f64 = 2.0;
/// Largest square of such a change or error, and so the largest mean of squares.
pub(super) const SQUARE_MOST: f64 = CHANGE_MOST * CHANGE_MOST;
/// Bound on the contexts and descriptors that callers store, in single precision and not normalised. Below
/// it, the sum of their squares does not overflow in double precision; nothing else is computed from them.
pub(super) const STORED_MOST: f64 = 2.0 * f32::MAX as f64;
/// More cycles than any robot runs: 285 000 years at 1 kHz. Up to here, whole numbers are exact in f64.
pub(super) const CYCLES_MOST: u64 = 1 << 53;

/// Margin for what the equations leave out: the rounding of 10^9 steps, and a covariance that was reset to
/// the ridge, after which weights are pulled to their values at that time instead of to 0.
const ROOM: f64 = 4.0;

/// Bounds on the numbers of the least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LearnerBounds {
    /// Length of a row of W.
    pub weights: f64,
    /// An element of P.
    pub covariance: f64,
    /// The prediction W x of one sensor.
    pub output: f64,
}

impl LearnerBounds {
    /// The bounds after `age` cycles of a field of `plan`.
    pub fn of(plan: &FieldPlan, age: u64) -> LearnerBounds {
        let (often, seldom) = (kept(plan, 1), kept(plan, learnt_every()));
        let ridge = least_ridge(regressors(plan.shape.sensors), often, seldom);
        // Without forgetting, 1 / 0 is infinite and the age decides.
        let observations = (1.0 / (1.0 - often)).min(age as f64);
        let weights = ROOM * (SQUARE_MOST * observations / ridge).sqrt();
        let weights = weights.min(f64::MAX);
        LearnerBounds {
            weights,
            covariance: (ROOM / ridge).min(f64::MAX),
            output: (weights * longest_x(plan)).min(f64::MAX),
        }
    }
}

/// mu: the forgetting factor over `cycles` cycles.
fn kept(plan: &FieldPlan, cycles: u64) -> f64 {
    libm::pow(plan.params.forget_per_s, plan.dt.as_secs_f64() * cycles as f64)
}

/// Cycles between two steps of learning at the quality level that learns least often.
fn learnt_every() -> u64 {
    TABLE.iter().map(|work| work.learn_every).max().unwrap_or(1)
}

/// The smallest ridge on a weight, if the forgetting factor of each observation is between `seldom` and
/// `often`.
fn least_ridge(n: usize, often: f64, seldom: f64) -> f64 {
    let n = n as f64;
    let kept = libm::pow(seldom, n);
    // c <- c kept + ridge n (1 - mu) never falls below its start or its fixed point, whichever is lower.
    let balance = if kept < 1.0 { n * (1.0 - often) / (1.0 - kept) } else { 1.0 };
    RIDGE * balance.min(1.0) * kept
}

/// How large each regressor can be, in order: context relative to rest, sensors, their changes, the constant.
pub(super) fn regressor_most(plan: &FieldPlan, at: usize) -> f64 {
    let sensors = plan.shape.sensors;
    let about_rest = CHANGE_MOST * (1.0 - plan.params.beta);
    match at {
        at if at < CONTEXT => CONTEXT_SCALE * about_rest,
        at if at < CONTEXT + sensors => 1.0,
        at if at < CONTEXT + 2 * sensors => CHANGE_SCALE * CHANGE_MOST,
        _ => 1.0,
    }
}

/// The largest possible length of the vector of regressors.
fn longest_x(plan: &FieldPlan) -> f64 {
    let squares =
        (0..regressors(plan.shape.sensors)).map(|at| regressor_most(plan, at)).map(|most| most * most);
    squares.sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seed::{Stream, uniform};
    use crate::field::predict::Learner;
    use crate::field::state::Senses;

    const SENSORS: usize = 4;

    fn plan(forget_per_s: f64) -> FieldPlan {
        let mut plan = crate::field::sample::board(8).field;
        plan.shape.sensors = SENSORS;
        plan.params.forget_per_s = forget_per_s;
        plan
    }

    /// The worst known input: regressors that stay the same for 700 cycles and then take another direction,
    /// and changes at their limits, at alternating quality levels.
    #[test]
    fn worst_case_learning_stays_within_the_bounds() {
        for forget_per_s in [0.5, 0.9, 0.99, 1.0] {
            let plan = plan(forget_per_s);
            let n = regressors(SENSORS);
            let mut learner = Learner::new(SENSORS, n);
            let (mut most_weight, mut most_covariance) = (0.0_f64, 0.0_f64);
            for cycle in 0..6_000_u64 {
                let phase = cycle / 700;
                let x: Vec<f64> = (0..n)
                    .map(|at| {
                        regressor_most(&plan, at) * (2.0 * uniform(phase, Stream::Stimulus, at as u64) - 1.0)
                    })
                    .collect();
                let wanted = [2.0, -2.0, if cycle % 2 == 0 { 2.0 } else { -2.0 }, 0.0];
                let cycles = if phase % 2 == 0 { 1 } else { learnt_every() };
                learner.observe(&x, &wanted, kept(&plan, cycles));
                let bounds = LearnerBounds::of(&plan, cycle + 1);
                let mut known = Senses::default();
                learner.save(&mut known);
                let row = |row: &[f64]| row.iter().map(|w| w * w).sum::<f64>().sqrt();
                let weight = known.weights.chunks_exact(n).map(row).fold(0.0, f64::max);
                let covariance = known.covariance.iter().fold(0.0_f64, |most, p| most.max(p.abs()));
                assert!(weight <= bounds.weights / ROOM, "{forget_per_s}, {cycle}: {weight} of {bounds:?}");
                assert!(
                    covariance <= bounds.covariance / ROOM,
                    "{forget_per_s}, {cycle}: {covariance}, {bounds:?}"
                );
                (most_weight, most_covariance) = (most_weight.max(weight), most_covariance.max(covariance));
            }
            assert!(most_weight > 0.01 && most_covariance > 0.5, "something was learned");
        }
    }

    #[test]
    fn bounds_are_always_finite_and_usually_small() {
        let usual = LearnerBounds::of(&plan(0.99), 1_000_000);
        assert!(usual.weights < 1e4 && usual.covariance < 1e3 && usual.output < 1e7, "{usual:?}");
        for forget_per_s in [0.001, 0.5, 1.0] {
            for age in [0, 1, CYCLES_MOST] {
                let bounds = LearnerBounds::of(&plan(forget_per_s), age);
                assert!(
                    [bounds.weights, bounds.covariance, bounds.output].iter().all(|b| b.is_finite()),
                    "{bounds:?}"
                );
            }
        }
    }
}
