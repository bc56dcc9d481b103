//! Estimates how far to trust a fit, and selects the ridge. Each block of time is judged with a fit to the
//! other blocks. Rows are never shuffled: neighbours in time are nearly equal, so a fit that has seen one
//! already knows the other.

use super::LearnError;
use super::moments::{Moments, Rows};
use super::score::Confusion;
use super::solve::{Linear, Standardised};
use crate::field::readout::decide;
use std::ops::Range;

/// Number of blocks of time.
pub const BLOCKS: usize = 5;
/// The fit leaves out rows closer than this to the judged block, in seconds: the half-life of the slow
/// channels, after which a row has mostly forgotten the block.
pub const GAP_S: f64 = 5.0;
/// Ridge penalties to try, as fractions of a feature's variance. Below the smallest, the weights become so
/// large that rounding in an f32 field (about 1e-6) shifts the scores by about as much as the scores of two
/// decisions differ.
pub const LAMBDAS: [f64; 5] = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1];

/// Cycles, and the right decision in each.
pub struct Lesson<'d> {
    /// Cycle by cycle, `width` each.
    pub features: &'d [f32],
    /// Features of a cycle.
    pub width: usize,
    /// Index of the right decision, by cycle.
    pub right: &'d [usize],
    /// The decisions.
    pub labels: &'d [String],
    /// Number of cycles that separate judged cycles from training data.
    pub gap: usize,
}

/// The decisions with one ridge, each block judged by a fit to the other blocks.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The ridge.
    pub lambda: f64,
    /// The counts, block by block.
    pub blocks: Vec<Confusion>,
}

/// The outcome of a cross-validation.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The trials, by ascending ridge.
    pub trials: Vec<Trial>,
    best: usize,
}

impl Trial {
    /// The counts of all blocks together.
    pub fn total(&self) -> Confusion {
        let labels = self.blocks.first().map_or_else(Vec::new, |block| block.labels().to_vec());
        let mut total = Confusion::new(labels);
        self.blocks.iter().for_each(|block| total.add(block));
        total
    }
    fn right(&self) -> u64 {
        self.blocks.iter().map(Confusion::right).sum()
    }
}

impl Validation {
    /// The trial whose ridge the fit uses.
    pub fn best(&self) -> &Trial {
        &self.trials[self.best]
    }
}

/// Cycles in a span of [`GAP_S`].
pub fn gap(dt_s: f64) -> usize {
    (GAP_S / dt_s).ceil() as usize
}

/// Cross-validates, then fits to all cycles with the best ridge. `watch` receives the finished and the total
/// number of steps.
pub fn fit(
    lesson: &Lesson<'_>,
    mut watch: impl FnMut(usize, usize),
) -> Result<(Linear, Validation), LearnError> {
    lesson.check_is_learnable()?;
    let steps = 2 * BLOCKS + 1;
    let wanted = lesson.one_hot();
    let rows = Rows {
        features: lesson.features,
        width: lesson.width,
        wanted: &wanted,
        outputs: lesson.labels.len(),
    };
    let shift = rows.means();
    let mut total = Moments::none(rows.width, rows.outputs);
    let mut parts = Vec::new();
    for block in 0..BLOCKS {
        watch(block, steps);
        let part = Moments::of(&rows, lesson.block(block), &shift);
        total.add(&part);
        parts.push(part);
    }
    let mut trials: Vec<Trial> =
        LAMBDAS.map(|lambda| Trial { lambda, blocks: Vec::with_capacity(BLOCKS) }).into();
    for (block, part) in parts.iter().enumerate() {
        watch(BLOCKS + block, steps);
        let mut others = total.clone();
        others.remove(part);
        lesson.gaps(block).into_iter().for_each(|gap| others.remove(&Moments::of(&rows, gap, &shift)));
        let others = Standardised::new(others, &shift);
        for trial in &mut trials {
            trial.blocks.push(lesson.judge(&others.ridge(trial.lambda), lesson.block(block)));
        }
    }
    watch(2 * BLOCKS, steps);
    let best = choose(&trials);
    let linear = Standardised::new(total, &shift).ridge(trials[best].lambda);
    watch(steps, steps);
    Ok((linear, Validation { trials, best }))
}

/// The largest ridge that is not worse than the best one by more than one standard error (Breiman, Friedman,
/// Olshen, Stone 1984). A larger ridge gives smaller weights to what may be chance, and lets less of the
/// field's rounding into the scores. The standard error is that of the block-by-block difference between the
/// two ridges: a block that is hard with one ridge is hard with all, which says nothing about which ridge is
/// better.
fn choose(trials: &[Trial]) -> usize {
    let most = trials.iter().map(Trial::right).max().unwrap_or(0);
    let Some(best) = trials.iter().position(|trial| trial.right() == most) else { return 0 };
    let as_good = |trial: &Trial| {
        let blocks = trials[best].blocks.iter().zip(&trial.blocks);
        let worse: Vec<f64> =
            blocks.map(|(best, block)| best.right() as f64 - block.right() as f64).collect();
        let count = worse.len() as f64;
        let mean = worse.iter().sum::<f64>() / count;
        let squares: f64 = worse.iter().map(|worse| (worse - mean).powi(2)).sum();
        mean <= (squares / (count * (count - 1.0).max(1.0))).sqrt()
    };
    trials.iter().rposition(as_good).unwrap_or(best)
}

impl Lesson<'_> {
    /// Number of cycles.
    pub fn count(&self) -> usize {
        self.right.len()
    }

    fn check_is_learnable(&self) -> Result<(), LearnError> {
        // Each block must be at least twice as long as the gap that is cut from it when its neighbour is
        // judged.
        let needed = BLOCKS * (2 * self.gap).max(2);
        if self.count() < needed {
            return Err(LearnError::TooShort { cycles: self.count(), needed });
        }
        let first = self.right[0];
        if self.right.iter().all(|right| *right == first) {
            return Err(LearnError::OneDecision { label: self.labels[first].clone() });
        }
        Ok(())
    }

    /// Target values: 1 for the right decision, 0 for the others.
    fn one_hot(&self) -> Vec<f64> {
        let mut wanted = vec![0.0; self.count() * self.labels.len()];
        for (row, right) in wanted.chunks_exact_mut(self.labels.len()).zip(self.right) {
            row[*right] = 1.0;
        }
        wanted
    }

    fn block(&self, block: usize) -> Range<usize> {
        let edge = |block: usize| block * self.count() / BLOCKS;
        edge(block)..edge(block + 1)
    }

    /// The cycles left out just before and just after a block.
    fn gaps(&self, block: usize) -> [Range<usize>; 2] {
        let Range { start, end } = self.block(block);
        [start.saturating_sub(self.gap)..start, end..(end + self.gap).min(self.count())]
    }

    /// The decisions that `linear` makes in `cycles`.
    pub fn judge(&self, linear: &Linear, cycles: Range<usize>) -> Confusion {
        let weights = linear.folded();
        let mut confusion = Confusion::new(self.labels.to_vec());
        let mut scores = vec![0.0; self.labels.len()];
        for cycle in cycles {
            let features = &self.features[cycle * self.width..][..self.width];
            for (score, row) in scores.iter_mut().zip(weights.chunks_exact(self.width + 1)) {
                *score = apply(row, features);
            }
            confusion.count(self.right[cycle], decide(&scores));
        }
        confusion
    }
}

/// Applies one row of weights, the constant last, to `features`, as an engine computes it.
fn apply(row: &[f32], features: &[f32]) -> f32 {
    let products = row.iter().zip(features).map(|(w, f)| f64::from(*w) * f64::from(*f));
    (products.sum::<f64>() + f64::from(row[features.len()])) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seed::{Stream, normal};

    /// Random features and the correct decisions. The first feature determines the decision, apart from added
    /// noise of `noise` times its standard deviation.
    fn features(cycles: usize, width: usize, noise: f64) -> (Vec<f32>, Vec<usize>) {
        let draw = |i: usize| normal(3, Stream::Stimulus, i as u64);
        let right: Vec<usize> = (0..cycles).map(|cycle| usize::from(draw(cycle) > 0.3)).collect();
        let cell = |i: usize| match i % width {
            0 => draw(i / width) + noise * draw(cycles + i),
            _ => draw(cycles + i),
        };
        ((0..cycles * width).map(|i| cell(i) as f32).collect(), right)
    }

    fn labels() -> Vec<String> {
        vec!["no".to_string(), "yes".to_string()]
    }

    #[test]
    fn a_rule_is_learned_and_noise_is_not() {
        let (features, right) = features(2000, 7, 0.0);
        let labels = labels();
        let lesson = Lesson { features: &features, width: 7, right: &right, labels: &labels, gap: 20 };
        let mut steps = Vec::new();
        let (linear, validation) = fit(&lesson, |done, of| steps.push((done, of))).unwrap();
        let total = validation.best().total();
        assert_eq!(total.total(), 2000, "every cycle is judged once");
        assert!(total.accuracy().unwrap() > 0.97, "{total}");
        assert!(lesson.judge(&linear, 0..2000).accuracy().unwrap() > 0.97);
        assert_eq!(steps, (0..=11).map(|done| (done, 11)).collect::<Vec<_>>());
        // The same features with the decisions of other cycles: there is nothing to learn.
        let chance: Vec<usize> = (0..2000).map(|cycle| right[cycle * 7 % 2000]).collect();
        let lesson = Lesson { right: &chance, ..lesson };
        let (_, validation) = fit(&lesson, |_, _| ()).unwrap();
        let majority = chance.iter().filter(|right| **right == 0).count() as f64 / 2000.0;
        assert!(validation.best().total().accuracy().unwrap() < majority + 0.03);
    }

    #[test]
    fn neighbours_in_time_do_not_leak_across_the_gap() {
        // The features are a random walk's position, and each decision is a coin flip held for 40 cycles: a
        // fit can predict a block only from its neighbours in time.
        let mut position = [0.0f64; 30];
        let mut features = Vec::new();
        let mut right = Vec::new();
        for cycle in 0..1200u64 {
            for (axis, x) in position.iter_mut().enumerate() {
                *x += normal(4, Stream::Stimulus, cycle * 30 + axis as u64);
                features.push(*x as f32);
            }
            right.push(usize::from(normal(5, Stream::Stimulus, cycle / 40) > 0.0));
        }
        let labels = labels();
        let lesson = Lesson { features: &features, width: 30, right: &right, labels: &labels, gap: 40 };
        let (linear, validation) = fit(&lesson, |_, _| ()).unwrap();
        let seen = lesson.judge(&linear, 0..1200).accuracy().unwrap();
        let unseen = validation.best().total().accuracy().unwrap();
        assert!(seen > 0.75 && unseen < 0.65, "seen {seen}, unseen {unseen}");
    }

    #[test]
    fn the_largest_of_equally_good_ridges_is_selected() {
        let trial = |right: [u64; 4]| {
            let block = |right: u64| {
                let mut block = Confusion::new(labels());
                (0..100).for_each(|cycle| block.count(0, usize::from(cycle >= right)));
                block
            };
            Trial { lambda: 1.0, blocks: right.map(block).into() }
        };
        // Both trials are worse than the best one by 2 on average: one by 2 in every block, the other by 18
        // in a single block, while it is as good or better in the rest.
        let (best, always, by_chance) = ([90, 50, 70, 95], [88, 48, 68, 93], [92, 58, 70, 77]);
        assert_eq!(choose(&[best, always].map(trial)), 0);
        assert_eq!(choose(&[best, by_chance].map(trial)), 1);
        assert_eq!(choose(&[always, best, by_chance, always].map(trial)), 2);
        assert_eq!(choose(&[best, best].map(trial)), 1, "equals");
    }

    #[test]
    fn blocks_and_gaps_tile_the_time() {
        let labels = labels();
        let right = vec![0; 103];
        let lesson = Lesson { features: &[], width: 0, right: &right, labels: &labels, gap: 5 };
        let blocks: Vec<_> = (0..BLOCKS).map(|block| lesson.block(block)).collect();
        assert_eq!(blocks, [0..20, 20..41, 41..61, 61..82, 82..103]);
        assert_eq!(lesson.gaps(0), [0..0, 20..25]);
        assert_eq!(lesson.gaps(2), [36..41, 61..66]);
        assert_eq!(lesson.gaps(4), [77..82, 103..103]);
    }

    #[test]
    fn a_short_or_constant_log_is_refused() {
        let labels = labels();
        let lesson = |right: &[usize], gap| {
            let features = vec![0.0; right.len()];
            let lesson = Lesson { features: &features, width: 1, right, labels: &labels, gap };
            fit(&lesson, |_, _| ()).map(|_| ()).expect_err("there is nothing to learn")
        };
        assert!(matches!(lesson(&[0, 1, 0], 5), LearnError::TooShort { cycles: 3, needed: 50 }));
        assert!(matches!(lesson(&[1; 60], 5), LearnError::OneDecision { label } if label == "yes"));
    }
}
