//! The least squares behind teaching: the regressors of a moment, sums over all moments so far, and the
//! weights that fit them best.

use super::driver::Driver;
use super::lesson::Notes;
use crate::base::plan::{Board, Rung};
use crate::field::imitate::{self, is_content};
use crate::field::readout::Origin;
use crate::field::shape::{FEATURES, READOUT_COLUMNS};
use crate::field::{Readout, ReadoutError};
use crate::workshop::learn::moments::{Moments, Rows};
use crate::workshop::learn::solve::{Linear, Standardised};
use std::sync::Arc;

/// The regressors of a moment: a fit has a weight for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regressors {
    /// These features of the field, in rising order.
    Features(Vec<usize>),
    /// This many inputs of the field: no field, no memory.
    Sensors(usize),
}

impl Regressors {
    /// The features of the content channels: what a read-out of a table has weights for.
    pub fn content() -> Regressors {
        Regressors::Features((0..FEATURES).filter(|&feature| is_content(feature)).collect())
    }

    /// Their number.
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
                Ok(Driver::Field(Arc::new(Readout::new(board, weights, Origin::Table)?)))
            }
            Regressors::Sensors(_) => Ok(Driver::Map(weights)),
        }
    }

    /// By motor, a weight a feature (or sensor) and the constant.
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

/// Sums for one grid.
pub struct Sums<'r> {
    regressors: &'r Regressors,
    outputs: usize,
    /// The centre of the regressors: their mean over the made-up moments.
    shift: Vec<f64>,
    moments: Moments,
}

impl<'r> Sums<'r> {
    /// Of made-up moments: each sensor by itself anywhere on its scale, so that nothing is quite unheard of.
    /// Features other than the content's are 0 in them. A map of the sensors begins with nothing.
    pub fn of_the_table(board: &Board, rung: Rung, regressors: &'r Regressors) -> Sums<'r> {
        let outputs = board.field.shape.motors;
        let moments = Moments::none(regressors.count(), outputs);
        let mut sums = Sums { regressors, outputs, shift: vec![0.0; regressors.count()], moments };
        if let Regressors::Features(features) = regressors {
            let (all, targets) = imitate::show(board, rung, imitate::SHOWN, board.field.seed);
            let mut notes = Notes::default();
            for (row, wanted) in all.row_iter().zip(targets.column_iter()) {
                notes.seen.extend(features.iter().map(|feature| row[*feature] as f32));
                notes.wanted.extend(wanted.iter());
            }
            sums.shift = sums.rows(&notes).means();
            sums.moments = sums.fresh(&notes);
        }
        sums
    }

    /// The sums of `notes` alone.
    pub fn fresh(&self, notes: &Notes) -> Moments {
        let rows = self.rows(notes);
        Moments::of(&rows, 0..rows.count(), &self.shift)
    }

    /// Adds `notes`.
    pub fn add(&mut self, moments: &Moments) {
        self.moments.add(moments);
    }

    /// Weights for one grid: by motor, a weight a regressor, in a feature's or sensor's own place, and the
    /// constant.
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
    fn a_map_of_the_sensors_is_found_from_what_was_noted() {
        let board = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        let motors = board.field.shape.motors;
        let regressors = Regressors::Sensors(3);
        let mut sums = Sums::of_the_table(&board, Rung::BEST, &regressors);
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
