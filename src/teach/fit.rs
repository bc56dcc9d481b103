//! The least squares behind teaching: sums over all moments so far, and the read-out that fits them best.

use super::lesson::{Notes, content};
use crate::field::shape::{FEATURES, READOUT_COLUMNS};
use crate::learn::imitate;
use crate::learn::moments::{Moments, Rows};
use crate::learn::solve::Standardised;
use crate::plan::{Board, Rung};

/// Sums for one grid.
pub struct Sums {
    content: Vec<usize>,
    outputs: usize,
    /// What features are taken about: their mean over the made-up moments.
    shift: Vec<f64>,
    moments: Moments,
}

impl Sums {
    /// Of made-up moments: each sensor by itself anywhere on its scale, so that nothing is quite unheard of.
    pub fn of_the_table(board: &Board, rung: Rung) -> Sums {
        let (content, outputs) = (content(), board.field.shape.motors);
        let (all, targets) = imitate::show(board, rung, imitate::SHOWN, board.field.seed);
        let mut notes = Notes::default();
        for (row, wanted) in all.row_iter().zip(targets.column_iter()) {
            notes.features.extend(content.iter().map(|feature| row[*feature] as f32));
            notes.wanted.extend(wanted.iter());
        }
        let shift = rows(&notes, content.len(), outputs).means();
        let moments = Moments::none(content.len(), outputs);
        let mut sums = Sums { content, outputs, shift, moments };
        sums.moments = sums.fresh(&notes);
        sums
    }

    /// Those of `notes` alone.
    pub fn fresh(&self, notes: &Notes) -> Moments {
        let rows = rows(notes, self.content.len(), self.outputs);
        Moments::of(&rows, 0..rows.count(), &self.shift)
    }

    /// These as well.
    pub fn add(&mut self, moments: &Moments) {
        self.moments.add(moments);
    }

    /// Weights for one grid: by motor, a weight a feature and the constant.
    pub fn fit(&self, ridge: f64) -> Vec<f32> {
        let linear = Standardised::new(self.moments.clone(), &self.shift).ridge(ridge);
        let mut weights = vec![0.0; self.outputs * READOUT_COLUMNS];
        for (motor, row) in weights.chunks_exact_mut(READOUT_COLUMNS).enumerate() {
            for (at, feature) in self.content.iter().enumerate() {
                row[*feature] = linear.weights[(motor, at)] as f32;
            }
            row[FEATURES] = linear.constant[motor] as f32;
        }
        weights
    }
}

fn rows(notes: &Notes, width: usize, outputs: usize) -> Rows<'_> {
    Rows { features: &notes.features, width, wanted: &notes.wanted, outputs }
}
