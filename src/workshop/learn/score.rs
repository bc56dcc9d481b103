//! Counts decisions by right label and chosen label, to measure their accuracy.

use serde::Serialize;
use std::fmt;

/// A confusion matrix: decisions by right label and chosen label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Confusion {
    labels: Vec<String>,
    /// By right label, then by chosen label.
    counts: Vec<Vec<u64>>,
}

impl Confusion {
    /// An empty matrix for decisions among `labels`.
    pub fn new(labels: Vec<String>) -> Confusion {
        let counts = vec![vec![0; labels.len()]; labels.len()];
        Confusion { labels, counts }
    }
    /// Counts one decision.
    pub fn count(&mut self, right: usize, taken: usize) {
        self.counts[right][taken] += 1;
    }
    /// Adds the counts of another matrix with the same labels.
    pub fn add(&mut self, other: &Confusion) {
        let both = self.counts.iter_mut().flatten().zip(other.counts.iter().flatten());
        both.for_each(|(mine, its)| *mine += its);
    }
    /// Decisions counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }
    /// Right decisions.
    pub fn right(&self) -> u64 {
        (0..self.labels.len()).map(|label| self.counts[label][label]).sum()
    }
    /// Share of correct decisions; `None` without any decision.
    pub fn accuracy(&self) -> Option<f64> {
        let total = self.total();
        (total > 0).then(|| self.right() as f64 / total as f64)
    }
    /// The labels.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }
    /// By right label, then by chosen label.
    pub fn counts(&self) -> &[Vec<u64>] {
        &self.counts
    }
}

/// A table with a line for each right label and a column for each chosen label.
impl fmt::Display for Confusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = self.labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let side = widest.max("right \\ chosen".len());
        write!(f, "{:side$}", "right \\ chosen")?;
        for label in &self.labels {
            write!(f, "  {label:>5}")?;
        }
        for (label, row) in self.labels.iter().zip(&self.counts) {
            write!(f, "\n{label:side$}")?;
            for (taken, count) in self.labels.iter().zip(row) {
                write!(f, "  {count:>width$}", width = taken.chars().count().max(5))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_counted_by_truth_and_prediction() {
        let labels = || vec!["go".to_string(), "stay here".to_string()];
        let mut confusion = Confusion::new(labels());
        assert_eq!(confusion.accuracy(), None);
        [(0, 0), (0, 0), (0, 1), (1, 1)].into_iter().for_each(|(right, taken)| confusion.count(right, taken));
        assert_eq!(confusion.counts(), [vec![2, 1], vec![0, 1]]);
        assert_eq!((confusion.total(), confusion.right(), confusion.accuracy()), (4, 3, Some(0.75)));
        let mut twice = Confusion::new(labels());
        twice.add(&confusion);
        twice.add(&confusion);
        assert_eq!(twice.counts(), [vec![4, 2], vec![0, 2]]);
        let table = "right \\ chosen     go  stay here\n\
                     go                  2          1\n\
                     stay here           0          1";
        assert_eq!(confusion.to_string(), table);
    }
}
