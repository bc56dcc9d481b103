//! The sufficient statistics for least squares over a range of rows: counts, sums and products. Ranges can be
//! added and subtracted, so a cross-validation need not sum all rows again for each block.
//!
//! Uses f64, sums in a fixed order, and a single thread, so equal rows give bit-identical results.

use nalgebra::{DMatrix, DMatrixViewMut, DVector};
use std::ops::Range;

/// Rows of features, with the target values of each.
pub struct Rows<'d> {
    /// Row by row, `width` features each.
    pub features: &'d [f32],
    /// Features per row.
    pub width: usize,
    /// Row by row, `outputs` target values each.
    pub wanted: &'d [f64],
    /// Target values per row.
    pub outputs: usize,
}

impl Rows<'_> {
    /// Number of rows.
    pub fn count(&self) -> usize {
        self.wanted.len() / self.outputs
    }
    /// Features of one row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.features[row * self.width..][..self.width]
    }
    /// Mean of each feature over all rows.
    pub fn means(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.width];
        for row in self.features.chunks_exact(self.width) {
            sums.iter_mut().zip(row).for_each(|(sum, f)| *sum += f64::from(*f));
        }
        sums.iter().map(|sum| sum / self.count().max(1) as f64).collect()
    }
}

/// Sums over rows of features x (less a fixed shift, which keeps the products small) and targets y.
#[derive(Clone, Debug)]
pub struct Moments {
    /// Number of rows.
    pub count: f64,
    /// Sum of x.
    pub x: DVector<f64>,
    /// Sum of y.
    pub y: DVector<f64>,
    /// Sum of x x', the lower triangle.
    pub xx: DMatrix<f64>,
    /// Sum of x y'.
    pub xy: DMatrix<f64>,
}

/// Rows per matrix product: enough to be worth the copy.
const CHUNK: usize = 512;
/// Columns per step of a product; each step skips what lies above the diagonal.
const PANEL: usize = 192;

impl Moments {
    /// Moments of no rows.
    pub fn none(width: usize, outputs: usize) -> Moments {
        Moments {
            count: 0.0,
            x: DVector::zeros(width),
            y: DVector::zeros(outputs),
            xx: DMatrix::zeros(width, width),
            xy: DMatrix::zeros(width, outputs),
        }
    }

    /// Moments of the rows in `range`, with `shift` subtracted from the features.
    pub fn of(rows: &Rows<'_>, range: Range<usize>, shift: &[f64]) -> Moments {
        let mut moments = Moments::none(rows.width, rows.outputs);
        let mut first = range.start;
        while first < range.end {
            let count = CHUNK.min(range.end - first);
            moments.take(rows, first, count, shift);
            first += count;
        }
        moments
    }

    fn take(&mut self, rows: &Rows<'_>, first: usize, count: usize, shift: &[f64]) {
        let features = &rows.features[first * rows.width..][..count * rows.width];
        let shifted = features.chunks_exact(rows.width).flat_map(|row| row.iter().zip(shift));
        let x = DMatrix::from_iterator(rows.width, count, shifted.map(|(f, s)| f64::from(*f) - s));
        let y = DMatrix::from_column_slice(
            rows.outputs,
            count,
            &rows.wanted[first * rows.outputs..][..count * rows.outputs],
        );
        self.count += count as f64;
        self.x += x.column_sum();
        self.y += y.column_sum();
        self.xy.gemm(1.0, &x, &y.transpose(), 1.0);
        add_products(self.xx.as_view_mut(), 1.0, &x);
    }

    /// Adds the moments of other rows.
    pub fn add(&mut self, other: &Moments) {
        self.combine(other, 1.0);
    }
    /// Subtracts the moments of some of these rows.
    pub fn remove(&mut self, other: &Moments) {
        self.combine(other, -1.0);
    }
    fn combine(&mut self, other: &Moments, sign: f64) {
        self.count += sign * other.count;
        self.x.axpy(sign, &other.x, 1.0);
        self.y.axpy(sign, &other.y, 1.0);
        self.xx.zip_apply(&other.xx, |a, b| *a += sign * b);
        self.xy.zip_apply(&other.xy, |a, b| *a += sign * b);
    }
}

/// `sum += factor * x x'` in the lower triangle. Some elements above the diagonal change too: they must not
/// be read.
pub fn add_products(mut sum: DMatrixViewMut<'_, f64>, factor: f64, x: &DMatrix<f64>) {
    let width = x.nrows();
    let transposed = x.transpose();
    for first in (0..width).step_by(PANEL) {
        let panel = PANEL.min(width - first);
        let (below, across) = (x.rows(first, width - first), transposed.columns(first, panel));
        sum.view_mut((first, first), (width - first, panel)).gemm(factor, &below, &across, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seed::{Stream, normal};

    #[test]
    fn ranges_can_be_added_and_subtracted() {
        // More rows than a chunk, more features than a panel.
        let (count, width, outputs) = (CHUNK + 77, PANEL + 9, 2);
        let draw = |i: usize| normal(1, Stream::Stimulus, i as u64);
        let features: Vec<f32> = (0..count * width).map(|i| draw(i) as f32).collect();
        let wanted: Vec<f64> = (0..count * outputs).map(|i| draw(i + 7)).collect();
        let rows = Rows { features: &features, width, wanted: &wanted, outputs };
        let shift = rows.means();
        let mut sum = Moments::of(&rows, 0..200, &shift);
        sum.add(&Moments::of(&rows, 200..count, &shift));
        sum.remove(&Moments::of(&rows, 30..90, &shift));
        assert_eq!(sum.count, (count - 60) as f64);

        let kept = || (0..count).filter(|row| !(30..90).contains(row));
        let x = |row: usize, j: usize| f64::from(features[row * width + j]) - shift[j];
        let y = |row: usize, k: usize| wanted[row * outputs + k];
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
        for (i, j) in [(0, 0), (200, 3), (PANEL, PANEL - 1), (width - 1, width - 1)] {
            near(sum.xx[(i, j)], kept().map(|row| x(row, i) * x(row, j)).sum());
            near(sum.xy[(i, 1)], kept().map(|row| x(row, i) * y(row, 1)).sum());
            near(sum.x[j], kept().map(|row| x(row, j)).sum());
        }
        near(sum.y[0], kept().map(|row| y(row, 0)).sum());
    }
}
