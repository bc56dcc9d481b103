//! Multinomial logistic regression with a ridge (Hastie, Tibshirani, Friedman, *The Elements of Statistical
//! Learning*, 4.4): the linear map whose scores make the right decisions most probable.
//!
//! Minimised by L-BFGS (Nocedal and Wright, *Numerical Optimization*, algorithm 7.4). The initial Hessian is
//! a quarter of the features' correlations, plus the ridge: with two labels, each label's own block at
//! all-zero scores. It is applied through its Cholesky factor. The field's features are so similar that a
//! plain gradient would converge very slowly. Uses no random numbers and a single thread, so equal rows give
//! bit-identical results.

use super::moments::{Rows, add_products};
use super::solve::{FLOOR, Linear, cholesky};
use nalgebra::{DMatrix, DVector};
use std::collections::VecDeque;

/// Steps in the L-BFGS history.
const REMEMBERED: usize = 12;
/// Maximum number of steps.
const STEPS: usize = 400;
/// A step is small if it reduces the loss by less than this share.
const GAIN: f64 = 1e-6;
/// Converged after this many small steps in a row: a single one may only have been cut short by the line
/// search.
const LITTLE: usize = 3;
/// Maximum halvings of a step: at 1e-9 of its length, a step makes no progress.
const HALVINGS: usize = 30;

/// The training rows: standardised features, and the correct decision (label) for each row.
pub struct Design<'d> {
    /// One column per row of the log; the last feature is a constant 1.
    x: DMatrix<f64>,
    right: &'d [usize],
    labels: usize,
    mean: Vec<f64>,
    scale: Vec<f64>,
    correlation: DMatrix<f64>,
}

impl<'d> Design<'d> {
    /// A design from `features`, `width` per row. `right` has the index of each row's correct decision, below
    /// `labels`.
    pub fn new(features: &[f32], width: usize, right: &'d [usize], labels: usize) -> Design<'d> {
        let nothing = vec![0.0; right.len()];
        let rows = Rows { features, width, wanted: &nothing, outputs: 1 };
        let mean = rows.means();
        let count = right.len() as f64;
        let variance = |j: usize| {
            let squares = features.chunks_exact(width).map(|row| (f64::from(row[j]) - mean[j]).powi(2));
            squares.sum::<f64>() / count
        };
        let scale: Vec<f64> = (0..width).map(|j| 1.0 / (variance(j) + FLOOR * FLOOR).sqrt()).collect();
        let mut x = DMatrix::from_element(width + 1, right.len(), 1.0);
        for (mut column, row) in x.column_iter_mut().zip(features.chunks_exact(width)) {
            for (j, f) in row.iter().enumerate() {
                column[j] = (f64::from(*f) - mean[j]) * scale[j];
            }
        }
        let mut correlation = DMatrix::zeros(width + 1, width + 1);
        add_products(correlation.as_view_mut(), 1.0 / count, &x);
        Design { x, right, labels, mean, scale, correlation }
    }

    /// Minimises the mean loss plus half of `ridge` (above 0) times the sum of the squared weights, without
    /// the constants. `start`: an earlier solution to start from, instead of zero weights.
    pub fn fit(&self, ridge: f64, start: Option<&DMatrix<f64>>) -> DMatrix<f64> {
        let mut factor = &self.correlation * 0.25;
        let width = self.mean.len();
        (0..width).for_each(|j| factor[(j, j)] += ridge);
        factor[(width, width)] += 1e-9;
        assert!(cholesky(&mut factor), "correlations of finite features plus a ridge are positive definite");
        let curved = |gradient: &DMatrix<f64>| {
            let mut step = gradient.clone();
            factor.solve_lower_triangular_mut(&mut step);
            factor.tr_solve_lower_triangular_mut(&mut step);
            step
        };
        let mut weights = start.cloned().unwrap_or_else(|| DMatrix::zeros(width + 1, self.labels));
        let (mut loss, mut gradient) = self.loss(&weights, ridge);
        let mut past: VecDeque<(DMatrix<f64>, DMatrix<f64>)> = VecDeque::new();
        let mut little = 0;
        for _ in 0..STEPS {
            let way = direction(&past, &gradient, curved);
            let slope = gradient.dot(&way);
            let Some((next, next_loss, next_gradient)) = self.descend(&weights, loss, &way, slope, ridge)
            else {
                break;
            };
            little = if loss - next_loss < GAIN * loss { little + 1 } else { 0 };
            let (moved, turned) = (&next - &weights, &next_gradient - &gradient);
            if moved.dot(&turned) > 0.0 {
                past.push_back((moved, turned));
                if past.len() > REMEMBERED {
                    past.pop_front();
                }
            }
            (weights, loss, gradient) = (next, next_loss, next_gradient);
            if little == LITTLE {
                break;
            }
        }
        weights
    }

    /// Backtracking line search: halves the step until the loss falls by at least 1e-4 of what its slope
    /// predicts.
    fn descend(
        &self,
        from: &DMatrix<f64>,
        loss: f64,
        way: &DMatrix<f64>,
        slope: f64,
        ridge: f64,
    ) -> Option<(DMatrix<f64>, f64, DMatrix<f64>)> {
        let mut share = 1.0;
        for _ in 0..HALVINGS {
            let to = from - way * share;
            let (there, gradient) = self.loss(&to, ridge);
            if there <= loss - 1e-4 * share * slope {
                return Some((to, there, gradient));
            }
            share *= 0.5;
        }
        None
    }

    /// Mean loss plus the ridge penalty, and its gradient, for `weights` (one column per label, the last row
    /// is the constant).
    fn loss(&self, weights: &DMatrix<f64>, ridge: f64) -> (f64, DMatrix<f64>) {
        let count = self.right.len() as f64;
        let mut scores = weights.transpose() * &self.x;
        let mut loss = 0.0;
        for (mut scores, right) in scores.column_iter_mut().zip(self.right) {
            let most = scores.max();
            let own = scores[*right];
            scores.apply(|score| *score = libm::exp(*score - most));
            let sum = scores.sum();
            loss += libm::log(sum) + most - own;
            scores /= sum;
            scores[*right] -= 1.0;
        }
        let mut gradient = DMatrix::zeros(weights.nrows(), self.labels);
        gradient.gemm(1.0 / count, &self.x, &scores.transpose(), 0.0);
        let width = self.mean.len();
        let mut squares = 0.0;
        for label in 0..self.labels {
            for j in 0..width {
                gradient[(j, label)] += ridge * weights[(j, label)];
                squares += weights[(j, label)] * weights[(j, label)];
            }
        }
        (loss / count + 0.5 * ridge * squares, gradient)
    }

    /// The weights as a map of the original features.
    pub fn linear(&self, weights: &DMatrix<f64>) -> Linear {
        let width = self.mean.len();
        let own = DMatrix::from_fn(self.labels, width, |label, j| weights[(j, label)] * self.scale[j]);
        let constant = DVector::from_fn(self.labels, |label, _| weights[(width, label)])
            - &own * DVector::from_column_slice(&self.mean);
        Linear { weights: own, constant }
    }
}

/// The L-BFGS step from the history (two-loop recursion); to be subtracted from the weights.
fn direction(
    past: &VecDeque<(DMatrix<f64>, DMatrix<f64>)>,
    gradient: &DMatrix<f64>,
    curved: impl Fn(&DMatrix<f64>) -> DMatrix<f64>,
) -> DMatrix<f64> {
    let mut way = gradient.clone();
    let mut shares = Vec::with_capacity(past.len());
    for (moved, turned) in past.iter().rev() {
        let share = moved.dot(&way) / moved.dot(turned);
        way.zip_apply(turned, |w, t| *w -= share * t);
        shares.push(share);
    }
    let mut way = curved(&way);
    for ((moved, turned), share) in past.iter().zip(shares.iter().rev()) {
        let back = turned.dot(&way) / moved.dot(turned);
        way.zip_apply(moved, |w, m| *w += (share - back) * m);
    }
    way
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seed::{Stream, normal, uniform};

    fn draw(i: usize) -> f64 {
        normal(9, Stream::Stimulus, i as u64)
    }

    #[test]
    fn known_odds_are_recovered_from_two_features() {
        // The decisions are drawn with known odds: the log-odds against the last one are linear in the
        // features.
        let rule = [[2.0, -1.0, 0.5], [0.0, 1.5, -0.5], [0.0, 0.0, 0.0]];
        let count = 20_000;
        let features: Vec<f32> = (0..2 * count).map(|i| draw(i) as f32).collect();
        let decide = |row: usize| {
            let x = &features[2 * row..][..2];
            let odds = rule.map(|w| libm::exp(w[0] * f64::from(x[0]) + w[1] * f64::from(x[1]) + w[2]));
            let drawn = uniform(3, Stream::World, row as u64) * odds.iter().sum::<f64>();
            usize::from(drawn >= odds[0]) + usize::from(drawn >= odds[0] + odds[1])
        };
        let right: Vec<usize> = (0..count).map(decide).collect();
        let design = Design::new(&features, 2, &right, 3);
        let linear = design.linear(&design.fit(1e-7, None));
        for label in 0..2 {
            for feature in 0..2 {
                let odds = linear.weights[(label, feature)] - linear.weights[(2, feature)];
                assert!((odds - rule[label][feature]).abs() < 0.12, "{}", linear.weights);
            }
            let odds = linear.constant[label] - linear.constant[2];
            assert!((odds - rule[label][2]).abs() < 0.12, "{}", linear.constant);
        }
    }

    #[test]
    fn the_gradient_is_zero_at_the_solution_from_any_start() {
        let (count, width) = (300, 40); // features that are as similar as a field's
        let features: Vec<f32> =
            (0..count * width).map(|i| (draw(i / width) + 0.01 * draw(i + 7)) as f32).collect();
        let right: Vec<usize> =
            (0..count).map(|row| usize::from(draw(row) + 0.3 * draw(row + 900) > 0.0)).collect();
        let design = Design::new(&features, width, &right, 2);
        let found = design.fit(1e-3, None);
        let (loss, gradient) = design.loss(&found, 1e-3);
        assert!(gradient.amax() < 1e-3, "{}", gradient.amax());
        let again = design.fit(1e-3, Some(&design.fit(1e-1, None)));
        let (other, _) = design.loss(&again, 1e-3);
        assert!((loss - other).abs() < 1e-4 * loss, "{loss} and {other}");
        // The gradient must equal the difference quotient of the loss.
        let weights = DMatrix::from_fn(width + 1, 2, |j, label| draw(j + 50 * label));
        let (_, gradient) = design.loss(&weights, 1e-3);
        for place in [(0, 0), (17, 1), (width, 0)] {
            let at = |step: f64| {
                let mut weights = weights.clone();
                weights[place] += step;
                design.loss(&weights, 1e-3).0
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((slope - gradient[place]).abs() < 1e-6, "{slope} is not {}", gradient[place]);
        }
    }
}
