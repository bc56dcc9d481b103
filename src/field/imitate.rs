//! Teaches the board's hand-written starting table to the field: feeds made-up sensor values to
//! the engine, and fits the motor read-out so that it reproduces the table from the features. From
//! then on the field drives, with its own smoothing and memory, and the table is not used.
//!
//! A ridge regression in its dual form (Saunders, Gammerman, Vovk 1998): there are fewer training
//! cycles than features, so the system to solve has one row per cycle, not one per feature.

use crate::base::frame::MAX_SENSORS;
use crate::base::plan::{Board, FieldPlan, Rung, Shape};
use crate::base::seed::{Stream, uniform};
use crate::base::time::Span;
use crate::field::shape::{
    BLOCK_COUNT, CONTENT, CONTENT_GROUPS, CONTEXT, DESCRIPTOR, FEATURES, READOUT_COLUMNS, READOUT_GRIDS,
};
use crate::field::{Readout, Stimulus, engine};
use nalgebra::{Cholesky, DMatrix};

/// Cycles to show. Twice as many take a third off the error and twice the time (about a
/// second on a laptop core at grid 16).
pub const SHOWN: usize = 2400;
/// Cycles of one set of values; the fit takes the last. At the pace below the content channels are
/// then close to their resting state; more of them for the same time would mean fewer sets.
const HELD: usize = 3;
/// Time between two shown cycles: one time constant of the content channels, so that a cycle goes as
/// far as it can in one step. The resting state does not depend on it.
const PACE: Span = Span::from_millis(50);
/// How often a sensor is in its usual interval.
const USUALLY: f64 = 0.75;
/// Ridge, as a share of the mean of the kernel's diagonal: small enough to follow the curves'
/// corners; ten times less gains nothing on values that were not shown.
const RIDGE: f64 = 1e-5;
/// Distance of motor targets from the ends of tanh, where its inverse grows without bound.
const NEAR_FULL: f32 = 0.97;

/// A rung on the whole grid and one on the half: their other differences are not content.
pub const GRIDS: [Rung; READOUT_GRIDS] = [Rung::BEST, Rung::WORST];

/// Fits a read-out to `board`'s starting table, on an engine of its own.
pub fn imitate(board: &Board) -> Readout {
    let weights = GRIDS.map(|rung| {
        let (features, targets) = show(board, rung, SHOWN, board.field.seed);
        fit(&features, &targets)
    });
    Readout::of_table(board, weights.concat())
}

/// Root of the mean squared difference between what `readout` makes of fresh made-up values and
/// what the table wants of each motor, at `rung`. For tests and for a person who changes the table.
pub fn imitation_error(board: &Board, readout: &Readout, rung: Rung) -> Vec<f64> {
    // Another seed for the values only: the field itself stays the one that was taught.
    let (features, targets) = show(board, rung, SHOWN / 4, board.field.seed.wrapping_add(1));
    let on_half = rung.work().half_resolution;
    let weights = &readout.weights()[board.field.shape.weights_on(on_half)];
    let rows = weights.chunks_exact(READOUT_COLUMNS);
    let squared = rows.zip(targets.row_iter()).map(|(weights, wanted)| {
        let errors = features.row_iter().zip(wanted.iter()).map(|(features, wanted)| {
            let sum: f64 = features.iter().zip(weights).map(|(f, w)| f * f64::from(*w)).sum();
            libm::tanh(sum + f64::from(weights[FEATURES])) - libm::tanh(*wanted)
        });
        errors.map(|error| error * error).sum::<f64>() / features.nrows() as f64
    });
    squared.map(f64::sqrt).collect()
}

/// Shows `cycles` cycles at `rung` and returns features (a row a kept cycle) and targets before the tanh (a
/// row a motor, a column a kept cycle).
pub fn show(board: &Board, rung: Rung, cycles: usize, seed: u64) -> (DMatrix<f64>, DMatrix<f64>) {
    let shape = board.field.shape;
    let mut engine = engine::build(&lean(&board.field));
    let mut features = DMatrix::zeros(cycles / HELD, FEATURES);
    let mut targets = DMatrix::zeros(shape.motors, cycles / HELD);
    let mut row = vec![0.0f32; FEATURES];
    let usual = usual_intervals(board);
    for cycle in 0..cycles / HELD * HELD {
        let sensors = made_up(seed, cycle / HELD, &usual);
        let stimulus = Stimulus { cycle: cycle as u64, sensors, reward: 0.0, rung, place: None };
        // Made-up values are within -1..=1, so no engine refuses them.
        let _ = engine.cycle(&stimulus);
        if cycle % HELD == HELD - 1 {
            let set = cycle / HELD;
            engine.copy_features(&mut row);
            for feature in (0..FEATURES).filter(|&feature| is_content(feature)) {
                features[(set, feature)] = f64::from(row[feature]);
            }
            for motor in 0..shape.motors {
                targets[(motor, set)] = target(&board.field, motor, &sensors);
            }
        }
    }
    (features, targets)
}

/// The same field without its memories of experience, which features do not depend on.
fn lean(plan: &FieldPlan) -> FieldPlan {
    let shape = Shape { bank: 1, patterns: 1, ..plan.shape };
    FieldPlan { shape, dt: PACE, learn: false, ..plan.clone() }
}

/// Whether a feature is of content channels only. The others are left out: a table of what to do
/// now has no use for memory, and what slow channels hold after seconds of one scene was never shown.
pub fn is_content(feature: usize) -> bool {
    let descriptor = CONTEXT + CONTENT_GROUPS * BLOCK_COUNT;
    feature < CONTENT || (CONTEXT..descriptor).contains(&feature) || feature >= CONTEXT + DESCRIPTOR
}

/// Values of set number `set`. Each sensor for itself is mostly in its usual interval and now and
/// then anywhere on its scale: most of what a robot meets is that one thing is out of the ordinary,
/// and a fit to values that are all extraordinary at once would be best where it matters least.
fn made_up(seed: u64, set: usize, usual: &[[f32; 2]]) -> [f32; MAX_SENSORS] {
    let mut sensors = [0.0; MAX_SENSORS];
    for (sensor, (value, usual)) in sensors.iter_mut().zip(usual).enumerate() {
        let draw =
            |which: usize| uniform(seed, Stream::Stimulus, ((set * MAX_SENSORS + sensor) * 2 + which) as u64);
        let [low, high] = if draw(0) < USUALLY { *usual } else { [-1.0, 1.0] };
        *value = low + (high - low) * draw(1) as f32;
    }
    sensors
}

/// Where each sensor usually is: where no curve of its own requests anything; anywhere, if its
/// curves always request something; around the middle, if it has none.
fn usual_intervals(board: &Board) -> Vec<[f32; 2]> {
    let interval = |sensor| {
        let mut curves = board.field.start.iter().filter(|curve| curve.sensor == sensor).peekable();
        if curves.peek().is_none() {
            return [-0.5, 0.5];
        }
        curves.fold([-1.0, 1.0], |[low, high], curve| {
            let (first, last) = (curve.points[0], curve.points[curve.points.len() - 1]);
            if last[1].abs() < f32::EPSILON {
                [last[0].max(low), high]
            } else if first[1].abs() < f32::EPSILON {
                [low, first[0].min(high)]
            } else {
                [low, high]
            }
        })
    };
    (0..board.field.shape.sensors).map(interval).collect()
}

/// What the table wants of `motor`, before the tanh.
pub fn target(plan: &FieldPlan, motor: usize, sensors: &[f32]) -> f64 {
    libm::atanh(f64::from(plan.start_wants(motor, sensors).clamp(-NEAR_FULL, NEAR_FULL)))
}

/// Weights (a row a motor, [`READOUT_COLUMNS`] each) of the ridge regression of `targets` on the
/// centred `features`.
fn fit(features: &DMatrix<f64>, targets: &DMatrix<f64>) -> Vec<f32> {
    let mean = features.row_mean();
    let target_mean = targets.column_mean();
    let mut centred = features.clone();
    for mut row in centred.row_iter_mut() {
        row -= &mean;
    }
    let mut wanted = targets.transpose();
    for mut row in wanted.row_iter_mut() {
        row -= target_mean.transpose();
    }
    let mut kernel = &centred * centred.transpose();
    let ridge = RIDGE * kernel.trace() / kernel.nrows() as f64 + f64::MIN_POSITIVE;
    for cycle in 0..kernel.nrows() {
        kernel[(cycle, cycle)] += ridge;
    }
    // A kernel matrix with something on its diagonal is positive definite; without a decomposition
    // (features that are no numbers) the honest read-out is the one that requests nothing.
    let Some(kernel) = Cholesky::new(kernel) else { return vec![0.0; targets.nrows() * READOUT_COLUMNS] };
    let weights = centred.transpose() * kernel.solve(&wanted);
    let mut rows = Vec::with_capacity(targets.nrows() * READOUT_COLUMNS);
    for motor in 0..targets.nrows() {
        let column = weights.column(motor);
        rows.extend(column.iter().map(|weight| *weight as f32));
        rows.push((target_mean[motor] - mean.transpose().dot(&column)) as f32);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_says_what_the_table_says_on_values_it_was_not_shown() {
        let loaded = crate::deploy::board::built_in("sim").unwrap().unwrap();
        let readout = imitate(&loaded.board);
        let nothing = Readout::of_table(&loaded.board, vec![0.0; readout.weights().len()]);
        for rung in GRIDS {
            let errors = imitation_error(&loaded.board, &readout, rung);
            let of_nothing = imitation_error(&loaded.board, &nothing, rung);
            for (motor, (error, of_nothing)) in loaded.board.motors.iter().zip(errors.iter().zip(of_nothing))
            {
                let most = 0.45 * of_nothing + 1e-6;
                assert!(*error <= most, "{rung:?}, {}: {error} of {of_nothing}", motor.name);
            }
        }
    }
}
