//! `learn` on laps outside the training data: judges the board's field, fields of other seeds, the field
//! without memory and the baselines, lap by lap, in one table.

use crate::base::plan::Board;
use crate::workshop::learn::LearnError;
use crate::workshop::learn::baselines::{self, Baseline};
use crate::workshop::learn::laps::{self, Course, observe_all};
use crate::workshop::learn::log::Log;
use crate::workshop::learn::score::Confusion;
use crate::workshop::learn::validate::GAP_S;
use serde::Serialize;

/// How to judge laps.
pub struct Asked {
    /// Laps of each log.
    pub laps: usize,
    /// Whether to judge other methods too.
    pub baselines: bool,
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
    /// For each method with several seeds, the mean and the range of their accuracies.
    spreads: Vec<Spread>,
}

/// Correct decisions with one method.
#[derive(Clone, Debug, Serialize)]
struct Judged {
    method: String,
    /// Seed of the field, if the method has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// Share of correct decisions on all laps.
    accuracy: Option<f64>,
    laps: Vec<Option<f64>>,
}

/// Accuracies of one method with several seeds.
#[derive(Clone, Debug, Serialize)]
struct Spread {
    method: String,
    seeds: u64,
    mean: f64,
    least: f64,
    most: f64,
}

const FIELD: &str = "field";
const MEMORYLESS: &str = "field, gamma = lambda = 0";

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
    let mut judged = vec![Judged::of(FIELD, Some(own), &laps::judge(course, &features, asked.jobs)?)];
    drop(features); // with a long log they take most of the memory
    let field = |board: &Board, method| {
        let features = observe_all(board, logs, asked.jobs)?;
        let laps = laps::judge(course, &features, asked.jobs)?;
        Ok(Judged::of(method, Some(board.field.seed), &laps))
    };
    for seed in (1..=asked.seeds).filter(|seed| *seed != own) {
        judged.push(field(&with_seed(board, seed), FIELD)?);
    }
    if asked.baselines {
        let without = laps::memoryless(board);
        judged.push(field(&without, MEMORYLESS)?);
        for seed in (1..=asked.seeds).filter(|seed| *seed != own) {
            judged.push(field(&with_seed(&without, seed), MEMORYLESS)?);
        }
        let inputs = laps::inputs_of_all(board, logs);
        let others = baselines::judge(course, &inputs, board.field.shape.sensors, &Baseline::ALL, asked.jobs);
        let named = Baseline::ALL.iter().zip(&others);
        judged.extend(named.map(|(baseline, laps)| Judged::of(&baseline.name(), None, laps)));
    }
    let spreads = [FIELD, MEMORYLESS].iter().filter_map(|method| Spread::of(method, &judged)).collect();
    let cycles = (0..course.count()).map(|lap| course.lap(lap).len()).collect();
    Ok(Judgement { cycles, judged, spreads })
}

fn with_seed(board: &Board, seed: u64) -> Board {
    let mut board = board.clone();
    board.field.seed = seed;
    board
}

impl Judged {
    fn of(method: &str, seed: Option<u64>, laps: &[Confusion]) -> Judged {
        let sum = |of: fn(&Confusion) -> u64| laps.iter().map(of).sum::<u64>();
        let (right, total) = (sum(Confusion::right), sum(Confusion::total));
        Judged {
            method: method.to_string(),
            seed,
            accuracy: (total > 0).then(|| right as f64 / total as f64),
            laps: laps.iter().map(Confusion::accuracy).collect(),
        }
    }

    fn label(&self) -> String {
        match self.seed {
            Some(seed) => format!("{} (seed {seed})", self.method),
            None => self.method.clone(),
        }
    }
}

impl Spread {
    /// The spread of `method` over its seeds in `judged`; `None` with a single seed.
    fn of(method: &str, judged: &[Judged]) -> Option<Spread> {
        let of_it = judged.iter().filter(|judged| judged.method == method);
        let found: Vec<f64> = of_it.filter_map(|judged| judged.accuracy).collect();
        (found.len() > 1).then(|| Spread {
            method: method.to_string(),
            seeds: found.len() as u64,
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
        let widest = self.judged.iter().map(|judged| judged.label().chars().count()).max().unwrap_or(0);
        for judged in &self.judged {
            let laps: Vec<String> = judged.laps.iter().map(|lap| super::share(*lap)).collect();
            say!(
                "  {:widest$}   {}   all {}",
                judged.label(),
                laps.join("  "),
                super::share(judged.accuracy)
            );
        }
        for Spread { method, seeds, mean, least, most } in &self.spreads {
            say!("  {method}: mean of {seeds} seeds {mean:.4}, lowest {least:.4}, highest {most:.4}");
        }
    }
}
