//! The baselines that a field must beat on laps outside its training data: the most common decision, logistic
//! regression and gradient boosting, on the field's inputs of one cycle and of the last ten.
//!
//! The ridge and the number of boosting rounds are selected on the last part of the training data: as for a
//! read-out, the selection does not see the judged lap.

use super::boosting::boost;
use super::laps::Course;
use super::logistic::Design;
use super::parallel;
use super::score::Confusion;
use crate::field::readout::decide;

/// Cycles that the longer baselines use.
pub const WINDOW: usize = 10;
/// Ridge penalties to try, the largest first.
const RIDGES: [f64; 4] = [1e-2, 1e-3, 1e-4, 1e-5];
/// Maximum rounds of boosting.
const ROUNDS: usize = 150;
/// The selection uses the last part of the training data: one part in this many.
const KEPT: usize = 5;

/// A baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The most common decision in the training data.
    Majority,
    /// Multinomial logistic regression on this many cycles.
    Logistic(usize),
    /// Gradient boosting on this many cycles.
    Boosting(usize),
}

impl Baseline {
    /// All baselines.
    pub const ALL: [Baseline; 5] = [
        Baseline::Majority,
        Baseline::Logistic(1),
        Baseline::Logistic(WINDOW),
        Baseline::Boosting(1),
        Baseline::Boosting(WINDOW),
    ];

    /// Its name.
    pub fn name(self) -> String {
        let of = |cycles| if cycles == 1 { "1 row".to_string() } else { format!("{cycles} rows") };
        match self {
            Baseline::Majority => "commonest decision".to_string(),
            Baseline::Logistic(cycles) => format!("logistic regression, {}", of(cycles)),
            Baseline::Boosting(cycles) => format!("gradient boosting, {}", of(cycles)),
        }
    }

    fn cycles(self) -> usize {
        match self {
            Baseline::Majority => 1,
            Baseline::Logistic(cycles) | Baseline::Boosting(cycles) => cycles,
        }
    }
}

/// Judges `baselines` on each lap of `course`, on up to `jobs` threads. Returns results by baseline, then by
/// lap. `inputs` has `width` values per cycle.
pub fn judge(
    course: &Course,
    inputs: &[f32],
    width: usize,
    baselines: &[Baseline],
    jobs: usize,
) -> Vec<Vec<Confusion>> {
    let laps = 0..course.count();
    let pieces: Vec<(Baseline, usize)> =
        baselines.iter().flat_map(|baseline| laps.clone().map(|lap| (*baseline, lap))).collect();
    let judged =
        parallel::map(jobs, &pieces, |(baseline, lap)| judge_lap(course, inputs, width, *baseline, *lap));
    judged.chunks(course.count().max(1)).map(<[Confusion]>::to_vec).collect()
}

fn judge_lap(course: &Course, inputs: &[f32], width: usize, baseline: Baseline, lap: usize) -> Confusion {
    let cycles = baseline.cycles();
    let (rows, width) = (stacked(course, inputs, width, cycles), width * cycles);
    let (taught, right) = course.of(&rows, width, &course.others(lap));
    let model = Model::fit(baseline, &taught, width, &right, course);
    let mut confusion = Confusion::new(course.labels().to_vec());
    for cycle in course.lap(lap) {
        let scores = model.scores(&rows[cycle * width..][..width]);
        confusion.count(course.right()[cycle], decide(&scores));
    }
    confusion
}

/// For each cycle, the inputs of the last `cycles` cycles up to and including it, newest first. Where these
/// reach back beyond the start of a log, its first row is repeated.
fn stacked(course: &Course, inputs: &[f32], width: usize, cycles: usize) -> Vec<f32> {
    let mut rows = Vec::with_capacity(inputs.len() * cycles);
    for cycle in 0..course.right().len() {
        let first = course.first_of_log(cycle);
        for back in 0..cycles {
            let at = cycle.saturating_sub(back).max(first);
            rows.extend_from_slice(&inputs[at * width..][..width]);
        }
    }
    rows
}

/// A fitted baseline, which computes scores of the decisions from a row.
enum Model {
    Same(Vec<f32>),
    /// For each label, one weight per value and the constant.
    Linear(Vec<f32>, usize),
    Boosted(super::boosting::Boosted),
}

impl Model {
    fn fit(baseline: Baseline, rows: &[f32], width: usize, right: &[usize], course: &Course) -> Model {
        let labels = course.labels().len();
        let judged = right.len() - right.len() / KEPT;
        let early = judged.saturating_sub(course.gap()).max(1);
        let (held, held_right) = (&rows[judged * width..], &right[judged..]);
        match baseline {
            Baseline::Majority => {
                let occurs = |label| right.iter().filter(|right| **right == label).count() as f32;
                Model::Same((0..labels).map(occurs).collect())
            }
            Baseline::Logistic(_) => {
                let design = Design::new(&rows[..early * width], width, &right[..early], labels);
                let mut weights = None;
                let count = RIDGES.map(|ridge| {
                    let fitted = design.fit(ridge, weights.as_ref());
                    let model = Model::Linear(design.linear(&fitted).folded(), width);
                    weights = Some(fitted);
                    held.chunks_exact(width)
                        .zip(held_right)
                        .filter(|(row, right)| decide(&model.scores(row)) == **right)
                        .count()
                });
                let ridge = RIDGES[first_most(&count)];
                let design = Design::new(rows, width, right, labels);
                Model::Linear(design.linear(&design.fit(ridge, None)).folded(), width)
            }
            Baseline::Boosting(_) => {
                let boosted = boost(&rows[..early * width], width, &right[..early], labels, ROUNDS);
                let mut count = vec![0; ROUNDS];
                for (row, right) in held.chunks_exact(width).zip(held_right) {
                    let mut round = 0;
                    boosted.by_round(row, |scores| {
                        count[round] += usize::from(decide(&single(scores)) == *right);
                        round += 1;
                    });
                }
                Model::Boosted(boost(rows, width, right, labels, first_most(&count) + 1))
            }
        }
    }

    fn scores(&self, row: &[f32]) -> Vec<f32> {
        match self {
            Model::Same(scores) => scores.clone(),
            Model::Linear(weights, width) => weights
                .chunks_exact(width + 1)
                .map(|weights| {
                    let products = weights.iter().zip(row).map(|(w, x)| f64::from(*w) * f64::from(*x));
                    (products.sum::<f64>() + f64::from(weights[*width])) as f32
                })
                .collect(),
            Model::Boosted(boosted) => single(&boosted.scores(row)),
        }
    }
}

fn single(scores: &[f64]) -> Vec<f32> {
    scores.iter().map(|score| *score as f32).collect()
}

/// Index of the largest count. If several are equal, the first one: a larger ridge or fewer rounds.
fn first_most(counts: &[usize]) -> usize {
    let most = counts.iter().max();
    counts.iter().position(|count| Some(count) == most).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::sample::board;
    use crate::workshop::learn::log::Log;
    use std::path::Path;

    /// The accuracy of each baseline on two laps in which `a` oscillates. The correct decision depends on
    /// whether `a` was above 1 m `late` rows earlier (0: in the same row).
    fn judged(late: u64, baselines: &[Baseline], jobs: usize) -> Vec<f64> {
        let board = board(8);
        let a = |row: u64| 1.0 + 0.9 * libm::sin(row as f64 * 0.61) * libm::cos(row as f64 * 0.173);
        let mut text = "a,b,what\n".to_string();
        for row in 0..800 {
            let what = if row >= late && a(row - late) > 1.0 { "stay" } else { "go" };
            text.push_str(&format!("{:.4},1.0,{what}\n", a(row)));
        }
        let log = Log::parse(Path::new("x.csv"), text.as_bytes(), &board, Some("what")).unwrap();
        let logs = [log];
        let course = Course::new(&board, &logs, 2, 20);
        let inputs = crate::workshop::learn::laps::inputs_of_all(&board, &logs);
        let laps = judge(&course, &inputs, board.field.shape.sensors, baselines, jobs);
        let of = |laps: &Vec<Confusion>| {
            assert_eq!(laps.iter().map(Confusion::total).collect::<Vec<_>>(), [400, 400]);
            laps.iter().map(Confusion::right).sum::<u64>() as f64 / 800.0
        };
        laps.iter().map(of).collect()
    }

    #[test]
    fn a_rule_of_one_row_is_found_in_one_row() {
        let found = judged(0, &Baseline::ALL, 1);
        assert!(found[0] < 0.6, "the most common decision is no better than chance: {found:?}");
        assert!(found[1..].iter().all(|found| *found > 0.97), "{found:?}");
    }

    #[test]
    fn rule_of_an_earlier_row_is_found_only_with_history() {
        let [one, ten] = [1, WINDOW].map(|cycles| judged(7, &[Baseline::Logistic(cycles)], 2)[0]);
        assert!(one < 0.8 && ten > 0.95, "{one} {ten}");
        let [one, ten] = [1, WINDOW].map(|cycles| judged(7, &[Baseline::Boosting(cycles)], 2)[0]);
        assert!(one < 0.8 && ten > 0.95, "{one} {ten}");
    }
}
