//! Ridge regression by normal equations, on standardised features with a free constant.

use super::moments::{Moments, add_products};
use nalgebra::{DMatrix, DVector};

/// The square of this is added to every feature's variance before the feature is divided by its standard
/// deviation. A feature that varies by less than this, a hundredth of the field's range, is only the far tail
/// of a bump or f32 rounding; scaled to unit variance, it would count like a signal.
pub const FLOOR: f64 = 1e-2;

/// A linear map of features: y = weights x + constant.
#[derive(Clone, Debug)]
pub struct Linear {
    /// By output and feature.
    pub weights: DMatrix<f64>,
    /// By output.
    pub constant: DVector<f64>,
}

impl Linear {
    /// In the form that engines accept: for each output, the weights and then the constant.
    pub fn folded(&self) -> Vec<f32> {
        let rows = self.weights.row_iter().zip(self.constant.iter());
        rows.flat_map(|(row, constant)| {
            let row: Vec<f32> = row.iter().chain([constant]).map(|weight| *weight as f32).collect();
            row
        })
        .collect()
    }
}

/// The correlations of a range of rows: features are standardised, target values centred.
pub struct Standardised {
    mean: DVector<f64>,
    scale: DVector<f64>,
    wanted_mean: DVector<f64>,
    /// Correlations among the features, lower triangle.
    correlation: DMatrix<f64>,
    /// Covariances of the standardised features with the target values.
    towards: DMatrix<f64>,
}

impl Standardised {
    /// From the moments of the rows about `shift`.
    pub fn new(moments: Moments, shift: &[f64]) -> Standardised {
        let Moments { count, x, y, mut xx, mut xy } = moments;
        let (mean, wanted_mean) = (x / count, y / count);
        let variance = |j: usize| (xx[(j, j)] / count - mean[j] * mean[j]).max(0.0);
        let scale = DVector::from_fn(mean.len(), |j, _| 1.0 / (variance(j) + FLOOR * FLOOR).sqrt());
        for j in 0..mean.len() {
            for i in j..mean.len() {
                xx[(i, j)] = (xx[(i, j)] / count - mean[i] * mean[j]) * scale[i] * scale[j];
            }
            for k in 0..wanted_mean.len() {
                xy[(j, k)] = (xy[(j, k)] / count - mean[j] * wanted_mean[k]) * scale[j];
            }
        }
        let mean = mean + DVector::from_column_slice(shift);
        Standardised { mean, scale, wanted_mean, correlation: xx, towards: xy }
    }

    /// Minimises the mean square error plus `lambda` (above 0) times the squared weights of standardised
    /// features.
    /// # Panics
    /// Panics if features are not finite; those of an engine always are.
    pub fn ridge(&self, lambda: f64) -> Linear {
        let mut factor = self.correlation.clone();
        (0..factor.nrows()).for_each(|j| factor[(j, j)] += lambda);
        assert!(cholesky(&mut factor), "correlations of finite features plus a ridge are positive definite");
        let mut weights = self.towards.clone();
        // A factor has no zero on its diagonal: the solves cannot fail.
        factor.solve_lower_triangular_mut(&mut weights);
        factor.tr_solve_lower_triangular_mut(&mut weights);
        for (mut row, scale) in weights.row_iter_mut().zip(self.scale.iter()) {
            row *= *scale;
        }
        let constant = &self.wanted_mean - weights.tr_mul(&self.mean);
        Linear { weights: weights.transpose(), constant }
    }
}

/// Columns per factoring step.
const PANEL: usize = 96;

/// Cholesky factorisation: replaces the lower triangle of `a` by L with a = L L'. Returns false if `a` is not
/// positive definite. Works in panels (Golub and Van Loan, *Matrix Computations*, 4.2.6), so that nearly all
/// of the work is matrix products, which run ten times as fast as single columns.
pub(super) fn cholesky(a: &mut DMatrix<f64>) -> bool {
    let width = a.nrows();
    for first in (0..width).step_by(PANEL) {
        let panel = PANEL.min(width - first);
        let rest = first + panel;
        let Some(corner) = a.view((first, first), (panel, panel)).into_owned().cholesky() else {
            return false;
        };
        let corner = corner.unpack();
        a.view_mut((first, first), (panel, panel)).copy_from(&corner);
        let Some(inverse) = corner.solve_lower_triangular(&DMatrix::identity(panel, panel)) else {
            return false;
        };
        let below = a.view((rest, first), (width - rest, panel)) * inverse.transpose();
        a.view_mut((rest, first), (width - rest, panel)).copy_from(&below);
        add_products(a.view_mut((rest, rest), (width - rest, width - rest)), -1.0, &below);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seed::{Stream, normal};
    use crate::workshop::learn::moments::Rows;

    fn draw(i: usize) -> f64 {
        normal(1, Stream::Stimulus, i as u64)
    }

    #[test]
    fn the_cholesky_factor_multiplies_back() {
        // Wider than two panels, and not a multiple of a panel.
        let width = 2 * PANEL + 31;
        let x = DMatrix::from_fn(width, width + 5, |i, j| draw(i * 1000 + j));
        let a = &x * x.transpose();
        let mut factor = a.clone();
        assert!(cholesky(&mut factor));
        let lower = factor.lower_triangle();
        let error = (&lower * lower.transpose() - &a).lower_triangle().amax();
        assert!(error < 1e-9 * a.amax(), "{error}");
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_is_refused() {
        let mut a = DMatrix::identity(PANEL + 3, PANEL + 3);
        a[(PANEL + 1, PANEL + 1)] = -1.0;
        assert!(!cholesky(&mut a));
        let mut a = DMatrix::from_element(2, 2, f64::NAN);
        assert!(!cholesky(&mut a));
    }

    #[test]
    fn a_linear_rule_is_recovered_at_any_scale_and_offset() {
        let (count, width) = (700, 5);
        let scales = [1.0, 30.0, 0.5, 4.0, 1.0];
        let features: Vec<f32> =
            (0..count * width).map(|i| (scales[i % width] * draw(i) + 7.0) as f32).collect();
        let rule = |row: &[f32]| {
            let x: Vec<f64> = row.iter().map(|f| f64::from(*f)).collect();
            [2.0 * x[0] - 0.1 * x[1] + 3.0, 0.25 * x[3] - x[4]]
        };
        let wanted: Vec<f64> = features.chunks_exact(width).flat_map(rule).collect();
        let rows = Rows { features: &features, width, wanted: &wanted, outputs: 2 };
        let shift = rows.means();
        let linear = Standardised::new(Moments::of(&rows, 0..count, &shift), &shift).ridge(1e-9);
        let expected = [[2.0, -0.1, 0.0, 0.0, 0.0, 3.0], [0.0, 0.0, 0.0, 0.25, -1.0, 0.0]];
        for (got, expected) in linear.folded().iter().zip(expected.as_flattened()) {
            assert!((f64::from(*got) - expected).abs() < 1e-4, "{:?}", linear.folded());
        }
        // A ridge as large as the variance halves the weight of a single feature.
        let linear = Standardised::new(Moments::of(&rows, 0..count, &shift), &shift).ridge(1.0);
        assert!((linear.weights[(0, 0)] - 1.0).abs() < 0.2, "{}", linear.weights);
    }

    #[test]
    fn a_nearly_constant_feature_gets_no_weight() {
        let count = 400;
        let cell = |i: usize| if i.is_multiple_of(2) { draw(i) } else { 0.5 + 1e-7 * draw(i) };
        let features: Vec<f32> = (0..2 * count).map(|i| cell(i) as f32).collect();
        let wanted: Vec<f64> = (0..count).map(|row| draw(2 * row) + 0.1 * draw(2 * row + 1)).collect();
        let rows = Rows { features: &features, width: 2, wanted: &wanted, outputs: 1 };
        let shift = rows.means();
        let linear = Standardised::new(Moments::of(&rows, 0..count, &shift), &shift).ridge(1e-4);
        let swing = linear.weights[(0, 1)].abs() * 1e-7;
        assert!(swing < 1e-3, "rounding moves the output by {swing}");
    }
}
