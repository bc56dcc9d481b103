//! Judges each lap with a read-out fitted to the other laps, including those of other logs.
//!
//! A block of a cross-validation lies between training data of the same lap. The accuracy on a separate lap
//! is a better estimate of how well the next lap will go.

use super::LearnError;
use super::observe::{Observed, observe};
use super::parallel;
use super::score::Confusion;
use super::validate::{Lesson, fit};
use crate::base::plan::Board;
use crate::field::engine;
use crate::field::shape::FEATURES;
use crate::workshop::learn::log::Log;
use std::ops::Range;

/// The cycles of one or more logs, in order.
pub struct Course {
    /// Cycles of each log.
    logs: Vec<Range<usize>>,
    /// Cycles of each lap.
    laps: Vec<Range<usize>>,
    /// Index of the correct decision, by cycle.
    right: Vec<usize>,
    labels: Vec<String>,
    /// Number of cycles that separate judged cycles from training data.
    gap: usize,
}

impl Course {
    /// Divides each of `logs` into this many laps of equal length.
    pub fn new(board: &Board, logs: &[Log], laps: usize, gap: usize) -> Course {
        let every = board.field.every_ticks.max(1) as usize;
        let mut course = Course {
            logs: Vec::new(),
            laps: Vec::new(),
            right: Vec::new(),
            labels: board.decisions.iter().map(|decision| decision.label.clone()).collect(),
            gap,
        };
        for log in logs {
            let first = course.right.len();
            course.right.extend(log.labels().iter().step_by(every));
            let cycles = course.right.len() - first;
            let edge = |lap: usize| first + lap * cycles / laps;
            course.laps.extend((0..laps).map(|lap| edge(lap)..edge(lap + 1)));
            course.logs.push(first..first + cycles);
        }
        course
    }

    /// Number of laps.
    pub fn count(&self) -> usize {
        self.laps.len()
    }
    /// Cycles of a lap.
    pub fn lap(&self, lap: usize) -> Range<usize> {
        self.laps[lap].clone()
    }
    /// Index of the correct decision, by cycle.
    pub fn right(&self) -> &[usize] {
        &self.right
    }
    /// The decisions.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }
    /// Number of cycles that separate judged cycles from training data.
    pub fn gap(&self) -> usize {
        self.gap
    }

    /// The training cycles for judging `lap`: all cycles outside it, except the gap before it and the gap
    /// after it in its own log.
    pub fn others(&self, lap: usize) -> Vec<usize> {
        let own = &self.laps[lap];
        let log = self.logs.iter().find(|log| log.contains(&own.start)).unwrap_or(own);
        let hidden = own.start.saturating_sub(self.gap).max(log.start)..(own.end + self.gap).min(log.end);
        (0..self.right.len()).filter(|cycle| !hidden.contains(cycle)).collect()
    }

    /// The rows of `features` (`width` values each) and the correct decisions of the given cycles.
    pub fn of(&self, features: &[f32], width: usize, cycles: &[usize]) -> (Vec<f32>, Vec<usize>) {
        let rows = cycles.iter().flat_map(|cycle| &features[cycle * width..][..width]);
        (rows.copied().collect(), cycles.iter().map(|cycle| self.right[*cycle]).collect())
    }
}

/// Features of all cycles of `logs`. Each log runs from rest in its own engine, on up to `jobs` threads.
pub fn observe_all(board: &Board, logs: &[Log], jobs: usize) -> Result<Vec<f32>, LearnError> {
    let seen =
        parallel::map(jobs, logs, |log| observe(board, engine::build(&board.field).as_mut(), log, |_| ()));
    let seen: Result<Vec<Observed>, LearnError> = seen.into_iter().collect();
    Ok(seen?.into_iter().flat_map(|seen| seen.features).collect())
}

/// Judges each lap with a read-out fitted to the others' `features`, on up to `jobs` threads. The selection
/// of the ridge does not see the lap.
pub fn judge(course: &Course, features: &[f32], jobs: usize) -> Result<Vec<Confusion>, LearnError> {
    let laps: Vec<usize> = (0..course.count()).collect();
    let judged = parallel::map(jobs, &laps, |lap| {
        let (taught, right) = course.of(features, FEATURES, &course.others(*lap));
        let lesson = |features, right| Lesson {
            features,
            width: FEATURES,
            right,
            labels: course.labels(),
            gap: course.gap,
        };
        let (linear, _) = fit(&lesson(&taught, &right), |_, _| ())?;
        Ok(lesson(features, &course.right).judge(&linear, course.lap(*lap)))
    });
    judged.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course() -> Course {
        Course {
            logs: vec![0..10, 10..30],
            laps: vec![0..10, 10..20, 20..30],
            right: (0..30).map(|cycle| cycle % 2).collect(),
            labels: vec!["a".to_string(), "b".to_string()],
            gap: 3,
        }
    }

    #[test]
    fn a_lap_is_scored_without_its_neighbours_in_time() {
        let course = course();
        // The end of the first log and the beginning of the second are adjacent only in the table.
        assert_eq!(course.others(0), (10..30).collect::<Vec<_>>());
        assert_eq!(course.others(1), (0..10).chain(23..30).collect::<Vec<_>>());
        assert_eq!(course.others(2), (0..17).collect::<Vec<_>>());
        let (rows, right) = course.of(&(0..60).map(|i| i as f32).collect::<Vec<_>>(), 2, &[3, 29]);
        assert_eq!((rows, right), (vec![6.0, 7.0, 58.0, 59.0], vec![1, 1]));
    }
}
