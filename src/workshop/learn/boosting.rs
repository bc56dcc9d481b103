//! Gradient boosting of shallow trees on histograms (Friedman 2001, algorithm 6; leaves by a Newton step with
//! a ridge, as in Chen and Guestrin 2016): the baseline for decisions based on thresholds of single values.
//!
//! Uses no random numbers and one thread: equal rows give equal trees. Of equally good splits, it takes the
//! one with the lower feature index, then the lower bin.

/// Depth of a tree: a decision can depend on up to three values at once.
const DEPTH: usize = 3;
/// Learning rate: the share of its step that a tree takes.
const RATE: f64 = 0.15;
/// Ridge penalty on a leaf's value: added to the sum of its rows' curvatures.
const RIDGE: f64 = 1.0;
/// Minimum number of rows in a leaf: a quarter of a second at 20 Hz; fewer would fit noise.
const LEAST: usize = 5;
/// Maximum number of bins per feature: codes are bytes, and with more bins a log of minutes would have few
/// rows in each.
const BINS: usize = 128;
/// A gain below this is rounding error.
const GAIN: f64 = 1e-9;

/// The boosted trees: the score of a decision is its start value plus the sum of its trees.
#[derive(Clone, Debug)]
pub struct Boosted {
    start: Vec<f64>,
    /// For each round, one tree per label.
    trees: Vec<Tree>,
}

#[derive(Clone, Debug)]
struct Tree {
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
enum Node {
    Leaf { value: f64 },
    Split { feature: usize, limit: f32, below: usize, above: usize },
}

impl Tree {
    /// The value of the leaf for `row`. The root is node 0.
    fn value(&self, row: &[f32]) -> f64 {
        let mut at = 0;
        loop {
            match self.nodes[at] {
                Node::Leaf { value } => return value,
                Node::Split { feature, limit, below, above } => {
                    at = if row[feature] <= limit { below } else { above };
                }
            }
        }
    }
}

impl Boosted {
    /// Passes the scores of the decisions for one row to `each` after every round, beginning with the first.
    pub fn by_round(&self, row: &[f32], mut each: impl FnMut(&[f64])) {
        let mut scores = self.start.clone();
        for round in self.trees.chunks_exact(scores.len()) {
            scores.iter_mut().zip(round).for_each(|(score, tree)| *score += tree.value(row));
            each(&scores);
        }
    }

    /// Scores of the decisions for one row.
    pub fn scores(&self, row: &[f32]) -> Vec<f64> {
        let mut last = self.start.clone();
        self.by_round(row, |scores| last.copy_from_slice(scores));
        last
    }
}

/// Boosts for `rounds` rounds on `features`, with `width` features per row. `right` has the index of each
/// row's correct decision, below `labels`.
pub fn boost(features: &[f32], width: usize, right: &[usize], labels: usize, rounds: usize) -> Boosted {
    let count = right.len();
    let codes = Codes::new(features, width, count);
    // Start from the logarithm of each decision's share; one additional row keeps it finite for a decision
    // that never occurs.
    let occurs = |label: usize| right.iter().filter(|right| **right == label).count() as f64;
    let start: Vec<f64> = (0..labels).map(|label| libm::log((occurs(label) + 1.0) / count as f64)).collect();
    let mut scores: Vec<f64> = start.iter().copied().cycle().take(count * labels).collect();
    let mut shares = vec![0.0; count * labels];
    let mut trees = Vec::with_capacity(rounds * labels);
    for _ in 0..rounds {
        for (shares, scores) in shares.chunks_exact_mut(labels).zip(scores.chunks_exact(labels)) {
            softmax(scores, shares);
        }
        for label in 0..labels {
            let slopes = (0..count).map(|row| {
                let share = shares[row * labels + label];
                let wanted = if right[row] == label { 1.0 } else { 0.0 };
                Sum { slope: share - wanted, curve: (share * (1.0 - share)).max(1e-6), rows: 1 }
            });
            let mut grower = Grower { codes: &codes, slopes: slopes.collect(), nodes: Vec::new() };
            let mut rows: Vec<u32> = (0..count as u32).collect();
            grower.grow(&mut rows, DEPTH, &mut |row, value| scores[row * labels + label] += value);
            trees.push(Tree { nodes: grower.nodes });
        }
    }
    Boosted { start, trees }
}

fn softmax(scores: &[f64], shares: &mut [f64]) {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    shares.iter_mut().zip(scores).for_each(|(share, score)| *share = libm::exp(score - most));
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= sum);
}

/// Each feature's values as bin numbers.
struct Codes {
    /// Feature by feature, then by row.
    codes: Vec<u8>,
    count: usize,
    /// For each feature, its bin edges: a value in bin b is at most edge b. The last bin has no upper edge.
    limits: Vec<Vec<f32>>,
}

impl Codes {
    fn new(features: &[f32], width: usize, count: usize) -> Codes {
        let mut codes = Vec::with_capacity(width * count);
        let mut limits = Vec::with_capacity(width);
        for feature in 0..width {
            let column: Vec<f32> = features.iter().skip(feature).step_by(width).copied().collect();
            let edges = edges(&column);
            codes.extend(column.iter().map(|value| edges.partition_point(|edge| edge < value) as u8));
            limits.push(edges);
        }
        Codes { codes, count, limits }
    }

    fn of(&self, feature: usize) -> &[u8] {
        &self.codes[feature * self.count..][..self.count]
    }
}

/// Bin edges midway between values, such that each bin holds about the same number of rows.
fn edges(column: &[f32]) -> Vec<f32> {
    let mut sorted = column.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    let mut edges: Vec<f32> = Vec::new();
    for bin in 1..BINS {
        let at = bin * sorted.len() / BINS;
        let Some(low) = at.checked_sub(1).map(|before| sorted[before]) else { continue };
        // Take the next larger value: an edge lies between two different values.
        let Some(high) = sorted[at..].iter().find(|value| **value > low) else { break };
        let edge = low + (high - low) / 2.0;
        if edges.last().is_none_or(|last| *last < edge) {
            edges.push(edge);
        }
    }
    edges
}

/// Sums of the loss's gradient and curvature over rows.
#[derive(Clone, Copy, Default)]
struct Sum {
    slope: f64,
    curve: f64,
    rows: usize,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.slope += other.slope;
        self.curve += other.curve;
        self.rows += other.rows;
    }
    fn without(self, other: Sum) -> Sum {
        Sum { slope: self.slope - other.slope, curve: self.curve - other.curve, rows: self.rows - other.rows }
    }
    /// Twice the loss reduction by a leaf with these rows.
    fn worth(self) -> f64 {
        self.slope * self.slope / (self.curve + RIDGE)
    }
}

struct Grower<'c> {
    codes: &'c Codes,
    /// By row.
    slopes: Vec<Sum>,
    nodes: Vec<Node>,
}

impl Grower<'_> {
    /// Adds the tree of `rows` and returns its root. Calls `leaf` with the value for each row.
    fn grow(&mut self, rows: &mut [u32], depth: usize, leaf: &mut impl FnMut(usize, f64)) -> usize {
        let mut sum = Sum::default();
        rows.iter().for_each(|row| sum.add(self.slopes[*row as usize]));
        let node = self.nodes.len();
        let split = if depth > 0 { self.best_split(rows, sum) } else { None };
        let Some((feature, bin)) = split else {
            let value = -RATE * sum.slope / (sum.curve + RIDGE);
            rows.iter().for_each(|row| leaf(*row as usize, value));
            self.nodes.push(Node::Leaf { value });
            return node;
        };
        let limit = self.codes.limits[feature][bin];
        self.nodes.push(Node::Split { feature, limit, below: 0, above: 0 });
        let codes = self.codes.of(feature);
        rows.sort_by_key(|row| usize::from(codes[*row as usize]) > bin); // stable: rows stay in order
        let edge = rows.partition_point(|row| usize::from(codes[*row as usize]) <= bin);
        let (low, high) = rows.split_at_mut(edge);
        let below = self.grow(low, depth - 1, leaf);
        let above = self.grow(high, depth - 1, leaf);
        self.nodes[node] = Node::Split { feature, limit, below, above };
        node
    }

    fn best_split(&self, rows: &[u32], sum: Sum) -> Option<(usize, usize)> {
        let (mut best, mut most) = (None, sum.worth() + GAIN);
        for (feature, limits) in self.codes.limits.iter().enumerate() {
            let codes = self.codes.of(feature);
            let mut bins = [Sum::default(); BINS];
            rows.iter()
                .for_each(|row| bins[usize::from(codes[*row as usize])].add(self.slopes[*row as usize]));
            let mut below = Sum::default();
            for bin in 0..limits.len() {
                below.add(bins[bin]);
                let above = sum.without(below);
                let worth = below.worth() + above.worth();
                if below.rows >= LEAST && above.rows >= LEAST && worth > most {
                    (best, most) = (Some((feature, bin)), worth);
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seed::{Stream, uniform};
    use crate::field::readout::decide;

    fn values(rows: usize, width: usize, seed: u64) -> Vec<f32> {
        (0..rows * width).map(|i| uniform(seed, Stream::Stimulus, i as u64) as f32).collect()
    }

    fn accuracy(boosted: &Boosted, features: &[f32], width: usize, right: &[usize]) -> f64 {
        let decided = features.chunks_exact(width).zip(right).filter(|(row, right)| {
            let scores: Vec<f32> = boosted.scores(row).iter().map(|score| *score as f32).collect();
            decide(&scores) == **right
        });
        decided.count() as f64 / right.len() as f64
    }

    #[test]
    fn thresholds_of_two_values_are_found() {
        // Opposite corners of the square have the same decision 0. The region of 0 is therefore not convex,
        // so no linear map of the values reproduces it.
        let rule = |row: &[f32]| match (row[0] > 0.4, row[3] > 0.6) {
            (false, false) | (true, true) => 0,
            (true, false) => 1,
            (false, true) => 2,
        };
        let (taught, asked) = (values(2000, 6, 1), values(1000, 6, 2));
        let right = |rows: &[f32]| -> Vec<usize> { rows.chunks_exact(6).map(rule).collect() };
        let boosted = boost(&taught, 6, &right(&taught), 3, 60);
        let found = accuracy(&boosted, &asked, 6, &right(&asked));
        assert!(found > 0.97, "{found}");
        let one_round = boost(&taught, 6, &right(&taught), 3, 1);
        assert!(one_round.trees.len() == 3 && boosted.trees.len() == 180);
    }

    #[test]
    fn shuffled_decisions_cannot_be_learned() {
        let (taught, asked) = (values(1500, 5, 3), values(1500, 5, 4));
        let coin = |seed: u64| -> Vec<usize> {
            (0..1500).map(|row| usize::from(uniform(seed, Stream::World, row) < 0.5)).collect()
        };
        let boosted = boost(&taught, 5, &coin(5), 2, 40);
        let found = accuracy(&boosted, &asked, 5, &coin(6));
        assert!((found - 0.5).abs() < 0.06, "{found}");
    }

    #[test]
    fn a_leaf_value_is_the_newton_step_of_its_rows() {
        // The feature is constant, so the tree is one leaf. Three of the 4 rows are "1"; the start values are
        // the logarithms of 2/4 for "0" and of 4/4 for "1".
        let boosted = boost(&[1.0; 4], 1, &[1, 1, 1, 0], 2, 1);
        let share = 4.0 / 6.0;
        let slope: f64 = 4.0 * share - 3.0;
        let wanted = -RATE * slope / (4.0 * share * (1.0 - share) + RIDGE);
        let Node::Leaf { value } = boosted.trees[1].nodes[0] else { panic!("a constant feature was split") };
        assert!((value - wanted).abs() < 1e-12, "{value} is not {wanted}");
    }

    #[test]
    fn bin_limits_lie_between_values_and_bins_hold_all_rows() {
        assert_eq!(edges(&[1.0, 1.0, 1.0]), [] as [f32; 0]);
        assert_eq!(edges(&[2.0, 1.0, 2.0, 1.0]), [1.5]);
        let many: Vec<f32> = (0..10_000).map(|i| (i % 1000) as f32).collect();
        let edges = edges(&many);
        assert_eq!(edges.len(), BINS - 1);
        assert!(edges.windows(2).all(|two| two[0] < two[1]));
    }
}
