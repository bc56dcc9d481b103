//! Learns from logs by fitting the read-out, a linear map of the field's features. The field itself is not
//! trained: the board's seed determines it.
//!
//! `log` reads a log, `observe` runs it through the field, `moments` and `solve` do the least squares.
//! `validate` judges a read-out on held-out time, `laps` on separate laps and logs, and `score` counts
//! decisions. `parallel` divides the work among threads.

pub mod laps;
pub mod log;
pub mod moments;
pub mod observe;
pub mod parallel;
pub mod score;
pub mod solve;
pub mod validate;

use crate::base::plan::Board;
use crate::field::readout::{Origin, Readout, ReadoutError};
use crate::field::shape::FEATURES;
use crate::field::{Failure, Inspect};
use laps::Course;
use log::Log;
use observe::observe;
use std::fmt;
use validate::{Lesson, Validation, fit, gap};

/// Why learning failed.
#[derive(Debug)]
pub enum LearnError {
    /// The log has no label column.
    NoLabels,
    /// The log is too short to hold out blocks of time.
    TooShort {
        /// Field cycles in the log.
        cycles: usize,
        /// Field cycles needed.
        needed: usize,
    },
    /// Every row has the same decision.
    OneDecision {
        /// The decision.
        label: String,
    },
    /// The engine rejected a row, or was lost.
    Refused {
        /// Line number in the log.
        line: u64,
        /// The error.
        refused: Failure,
    },
    /// The fit is not a valid read-out for this board.
    Readout(ReadoutError),
}

impl fmt::Display for LearnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LearnError::NoLabels => write!(f, "no label column: there is nothing to learn"),
            LearnError::TooShort { cycles, needed } => {
                write!(f, "too short: {cycles} field cycles; cross-validation over blocks of time ")?;
                write!(f, "needs at least {needed}")
            }
            LearnError::OneDecision { label } => {
                write!(f, "the decision is `{label}` in every row: there is nothing to learn")
            }
            LearnError::Refused { line, refused } => {
                write!(f, "line {line}: {refused}")
            }
            LearnError::Readout(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LearnError {}

/// A stage of learning, for progress reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Running the log through the field.
    Observe,
    /// Least squares and their validation.
    Fit,
}

/// Learns the decisions in the column `heading` of `log` with `engine`, which was built for `board` and is
/// left at rest. `watch` receives how much of a stage is done, and the total.
pub fn learn(
    board: &Board,
    engine: &mut dyn Inspect,
    log: &Log,
    heading: &str,
    mut watch: impl FnMut(Stage, usize, usize),
) -> Result<(Readout, Validation), LearnError> {
    let logs = std::slice::from_ref(log);
    let course = course(board, logs, 1)?;
    let seen = observe(board, engine, log, |row| watch(Stage::Observe, row, log.rows()))?;
    teach(board, logs, &course, &seen.features, heading, |done, of| watch(Stage::Fit, done, of))
}

/// The cycles of `logs`, each divided into this many laps.
pub fn course(board: &Board, logs: &[Log], laps: usize) -> Result<Course, LearnError> {
    if logs.iter().any(|log| log.labels().is_empty()) {
        return Err(LearnError::NoLabels);
    }
    Ok(Course::new(board, logs, laps, gap(board.field.dt.as_secs_f64())))
}

/// Fits a read-out to the `features` of all cycles of `course`, the course of `logs`.
pub fn teach(
    board: &Board,
    logs: &[Log],
    course: &Course,
    features: &[f32],
    heading: &str,
    watch: impl FnMut(usize, usize),
) -> Result<(Readout, Validation), LearnError> {
    let (right, labels) = (course.right(), course.labels());
    let lesson = Lesson { features, width: FEATURES, right, labels, gap: course.gap() };
    let (linear, validation) = fit(&lesson, watch)?;
    let best = validation.best();
    let origin = Origin::Log {
        heading: heading.to_string(),
        digest: digest(logs),
        rows: right.len() as u64,
        lambda: best.lambda,
        blocks: best.blocks.iter().map(|block| block.accuracy().unwrap_or(0.0)).collect(),
    };
    let readout = Readout::new(board, linear.folded(), origin).map_err(LearnError::Readout)?;
    Ok((readout, validation))
}

/// The digest of one log; for several logs, the digest of their digests in order.
pub fn digest(logs: &[Log]) -> [u8; 32] {
    match logs {
        [log] => *log.digest(),
        logs => {
            let digests: Vec<u8> = logs.iter().flat_map(|log| *log.digest()).collect();
            *blake3::hash(&digests).as_bytes()
        }
    }
}
