//! `learn` on laps outside the training data: judges the board's field and fields of other seeds, lap by lap,
//! in one table.

use crate::base::plan::Board;
use crate::workshop::learn::LearnError;
use crate::workshop::learn::laps::{self, Course, observe_all};
use crate::workshop::learn::log::Log;
use crate::workshop::learn::score::Confusion;
use crate::workshop::learn::validate::GAP_S;
use serde::Serialize;

/// How to judge laps.
pub struct Asked {
    /// Laps of each log.
    pub laps: usize,
    /// Also judge fields with seeds from 1 to this number; 0: only the board's own field.
    pub seeds: u64,
    /// Logs and laps that are processed at once.
    pub jobs: usize,
}

/// The judgement, by lap.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    /// Cycles of each lap.
    cycles: Vec<usize>,
    judged: Vec<Judged>,
    /// The mean and the range of the accuracies, with several seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<Spread>,
}

/// Correct decisions with one seed of the field.
#[derive(Clone, Debug, Serialize)]
struct Judged {
    seed: u64,
    /// Share of correct decisions on all laps.
    accuracy: Option<f64>,
    laps: Vec<Option<f64>>,
}

/// Accuracies with several seeds.
#[derive(Clone, Debug, Serialize)]
struct Spread {
    seeds: usize,
    mean: f64,
    least: f64,
    most: f64,
}

/// Judges each lap of `course` with a read-out fitted to the others; `features` are those of the board's own
/// field.
pub fn judge(
    asked: &Asked,
    board: &Board,
    logs: &[Log],
    course: &Course,
    features: Vec<f32>,
) -> Result<Judgement, LearnError> {
    let own = board.field.seed;
    let mut judged = vec![Judged::of(own, &laps::judge(course, &features, asked.jobs)?)];
    drop(features); // with a long log they take most of the memory
    for seed in (1..=asked.seeds).filter(|seed| *seed != own) {
        let mut board = board.clone();
        board.field.seed = seed;
        let features = observe_all(&board, logs, asked.jobs)?;
        judged.push(Judged::of(seed, &laps::judge(course, &features, asked.jobs)?));
    }
    let cycles = (0..course.count()).map(|lap| course.lap(lap).len()).collect();
    Ok(Judgement { cycles, spread: Spread::of(&judged), judged })
}

impl Judged {
    fn of(seed: u64, laps: &[Confusion]) -> Judged {
        let sum = |of: fn(&Confusion) -> u64| laps.iter().map(of).sum::<u64>();
        let (right, total) = (sum(Confusion::right), sum(Confusion::total));
        Judged {
            seed,
            accuracy: (total > 0).then(|| right as f64 / total as f64),
            laps: laps.iter().map(Confusion::accuracy).collect(),
        }
    }
}

impl Spread {
    /// The spread over the seeds in `judged`; `None` with a single seed.
    fn of(judged: &[Judged]) -> Option<Spread> {
        let found: Vec<f64> = judged.iter().filter_map(|judged| judged.accuracy).collect();
        (found.len() > 1).then(|| Spread {
            seeds: found.len(),
            mean: found.iter().sum::<f64>() / found.len() as f64,
            least: found.iter().copied().fold(f64::INFINITY, f64::min),
            most: found.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

impl Judgement {
    /// Prints the table.
    pub fn print(&self) {
        say!("accuracy on each lap, after learning from the others (gaps of {GAP_S} s):");
        for Judged { seed, accuracy, laps } in &self.judged {
            let laps: Vec<String> = laps.iter().map(|lap| super::share(*lap)).collect();
            say!("  seed {seed:<5} {}   all {}", laps.join("  "), super::share(*accuracy));
        }
        if let Some(Spread { seeds, mean, least, most }) = &self.spread {
            say!("  mean of {seeds} seeds {mean:.4}, lowest {least:.4}, highest {most:.4}");
        }
    }
}
