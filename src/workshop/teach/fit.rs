//! The least squares of teaching: the regressors of a situation, the sums over all situations so far, and the
//! weights that fit them best.

use super::driver::Driver;
use super::lesson::{Notes, lean};
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::{Board, QualityLevel};
use crate::field::readout::Origin;
use crate::field::shape::{
    BLOCK_COUNT, CONTENT, CONTENT_GROUPS, CONTEXT, DESCRIPTOR, FEATURES, READOUT_COLUMNS,
};
use crate::field::{FieldInput, Readout, ReadoutError, engine};
use crate::workshop::learn::moments::{Moments, Rows};
use crate::workshop::learn::solve::{Linear, Standardised};
use std::sync::Arc;

/// The regressors: a fit has a weight for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regressors {
    /// These features of the field, in ascending order.
    Features(Vec<usize>),
    /// This many of the field's inputs, from the first one, used directly: without the field, so without
    /// memory.
    Sensors(usize),
}

impl Regressors {
    /// The features of the content channels: a correction has weights only for these.
    pub fn content() -> Regressors {
        Regressors::Features((0..FEATURES).filter(|&feature| is_content(feature)).collect())
    }

    /// Number of regressors.
    pub fn count(&self) -> usize {
        match self {
            Regressors::Features(features) => features.len(),
            Regressors::Sensors(sensors) => *sensors,
        }
    }

    /// The driver with `weights` from [`Sums::fit`].
    pub fn driver(&self, board: &Board, weights: Vec<f32>) -> Result<Driver, ReadoutError> {
        match self {
            Regressors::Features(_) => {
                Ok(Driver::Field(Arc::new(Readout::new(board, weights, Origin::Given)?)))
            }
            Regressors::Sensors(_) => Ok(Driver::Map(weights)),
        }
    }

    /// A driver with zero weights: it drives like the table alone, but it computes its regressors in every
    /// cycle, as [`Driver::Table`] does not.
    pub fn untaught(&self, board: &Board) -> Driver {
        match self {
            Regressors::Features(_) => Driver::Field(Arc::new(Readout::silent(board))),
            Regressors::Sensors(sensors) => Driver::Map(vec![0.0; board.field.shape.motors * (sensors + 1)]),
        }
    }

    /// For each motor, a weight per feature (or sensor) and the constant.
    fn weights(&self, linear: &Linear) -> Vec<f32> {
        let (outputs, width) = (linear.constant.len(), self.count());
        let columns = match self {
            Regressors::Features(_) => READOUT_COLUMNS,
            Regressors::Sensors(sensors) => sensors + 1,
        };
        let mut weights = vec![0.0; outputs * columns];
        for (motor, row) in weights.chunks_exact_mut(columns).enumerate() {
            for at in 0..width {
                let column = if let Regressors::Features(features) = self { features[at] } else { at };
                row[column] = linear.weights[(motor, at)] as f32;
            }
            row[columns - 1] = linear.constant[motor] as f32;
        }
        weights
    }
}

/// Whether a feature uses only content channels. A correction leaves out the other features: what slow
/// channels contain after seconds in one scene does not occur often enough in any lesson.
pub fn is_content(feature: usize) -> bool {
    let descriptor = CONTEXT + CONTENT_GROUPS * BLOCK_COUNT;
    feature < CONTENT || (CONTEXT..descriptor).contains(&feature) || feature >= CONTEXT + DESCRIPTOR
}

/// The least-squares sums for one grid.
pub struct Sums<'r> {
    regressors: &'r Regressors,
    outputs: usize,
    /// Subtracted from the regressors before they are summed: their values after one cycle with all sensors
    /// in the middle of their scales.
    shift: Vec<f64>,
    moments: Moments,
}

impl<'r> Sums<'r> {
    /// Sums of no situations.
    pub fn none(board: &Board, quality: QualityLevel, regressors: &'r Regressors) -> Sums<'r> {
        let outputs = board.field.shape.motors;
        let shift = match regressors {
            Regressors::Features(features) => {
                let mut engine = engine::build(&lean(board).field);
                let middle = [0.0; MAX_SENSORS];
                // No engine rejects the middle of a scale.
                let _ = engine.cycle(&FieldInput {
                    cycle: 0,
                    sensors: middle,
                    reward: 0.0,
                    quality,
                    place: None,
                });
                let mut all = vec![0.0; FEATURES];
                engine.copy_features(&mut all);
                features.iter().map(|feature| f64::from(all[*feature])).collect()
            }
            Regressors::Sensors(sensors) => vec![0.0; *sensors],
        };
        Sums { regressors, outputs, shift, moments: Moments::none(regressors.count(), outputs) }
    }

    /// The moments of `notes` alone.
    pub fn fresh(&self, notes: &Notes) -> Moments {
        let rows = self.rows(notes);
        Moments::of(&rows, 0..rows.count(), &self.shift)
    }

    /// Adds `moments`.
    pub fn add(&mut self, moments: &Moments) {
        self.moments.add(moments);
    }

    /// The weights for one grid: for each motor, a weight per regressor, at the feature's or sensor's own
    /// index, and the constant.
    pub fn fit(&self, ridge: f64) -> Vec<f32> {
        self.regressors.weights(&Standardised::new(self.moments.clone(), &self.shift).ridge(ridge))
    }

    fn rows<'n>(&self, notes: &'n Notes) -> Rows<'n> {
        let width = self.regressors.count();
        Rows { features: &notes.seen, width, wanted: &notes.wanted, outputs: self.outputs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sensor_map_is_fitted_to_the_recorded_samples() {
        let board = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        let motors = board.field.shape.motors;
        let regressors = Regressors::Sensors(3);
        let mut sums = Sums::none(&board, QualityLevel::BEST, &regressors);
        let mut notes = Notes::default();
        for moment in 0..60_u8 {
            let seen = [f32::from(moment % 7), f32::from(moment % 5), f32::from(moment % 3)];
            notes.seen.extend(seen);
            let wanted = |motor: usize| f64::from(seen[motor % 3]) * (motor + 1) as f64 - 0.5;
            notes.wanted.extend((0..motors).map(wanted));
        }
        let fresh = sums.fresh(&notes);
        sums.add(&fresh);
        let weights = sums.fit(1e-9);
        assert_eq!(weights.len(), motors * 4);
        for (motor, row) in weights.chunks_exact(4).enumerate() {
            let mut expected = [0.0, 0.0, 0.0, -0.5];
            expected[motor % 3] = (motor + 1) as f32;
            assert!(row.iter().zip(expected).all(|(got, wanted)| (got - wanted).abs() < 1e-4), "{row:?}");
        }
        assert!(matches!(regressors.driver(&board, weights), Ok(Driver::Map(_))));
    }
}
