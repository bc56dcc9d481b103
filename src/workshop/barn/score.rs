//! The results of a driver's runs.

use super::drive::{Outcome, Run};
use crate::workshop::ablate::interval::Interval;
use serde::Serialize;

/// Speed of the benchmark's own robot, metres per second: its score measures time against this speed.
pub const BENCHMARK_SPEED: f64 = 2.0;

/// Figures of one driver.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    /// Runs that reached the goal without a contact.
    pub reached: usize,
    /// Runs that ended at a contact.
    pub contacts: usize,
    /// Runs that ran out of time.
    pub timeouts: usize,
    /// Share of the runs that reached the goal, with a 95 % interval over the worlds.
    pub success: Option<Interval>,
    /// Seconds to the goal, for the runs that reached it.
    pub seconds: Option<Interval>,
    /// The benchmark's score: a run's time is compared with the ideal time, the shortest path at 2 m/s. The
    /// best value is 0.5, because a time below twice the ideal one counts as twice the ideal one.
    pub score: Option<Interval>,
    /// The same score, with the ideal time at this robot's full speed.
    pub score_own_speed: Option<Interval>,
    /// Reversals of direction per run.
    pub reversals: Option<Interval>,
    /// How often per run it changed between turning to the left and to the right.
    pub swings: Option<Interval>,
}

impl Score {
    /// The figures of `runs` by a robot with this full speed, metres per second.
    pub fn of(runs: &[Run], full_speed: f64) -> Score {
        let count = |outcome: Outcome| runs.iter().filter(|run| run.outcome == outcome).count();
        let over = |figure: &dyn Fn(&Run) -> f64| Interval::of(&[runs.iter().map(figure).collect()]);
        let did = |run: &Run| run.outcome == Outcome::Reached;
        Score {
            reached: count(Outcome::Reached),
            contacts: count(Outcome::Contact),
            timeouts: count(Outcome::Timeout),
            success: over(&|run| f64::from(u8::from(did(run)))),
            seconds: over(&|run| if did(run) { run.seconds } else { f64::NAN }),
            score: over(&|run| score(run, BENCHMARK_SPEED)),
            score_own_speed: over(&|run| score(run, full_speed)),
            reversals: over(&|run| run.reversals as f64),
            swings: over(&|run| run.swings as f64),
        }
    }
}

/// Success times T* / clip(T, 2 T*, 8 T*), where T* is the time for the shortest path at `speed`.
fn score(run: &Run, speed: f64) -> f64 {
    let best = run.shortest_m / speed;
    match run.outcome {
        Outcome::Reached => best / run.seconds.clamp(2.0 * best, 8.0 * best),
        Outcome::Contact | Outcome::Timeout => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(outcome: Outcome, seconds: f64) -> Run {
        Run {
            world: 0,
            outcome,
            seconds,
            shortest_m: 10.0,
            driven_m: 10.0,
            reversals: 1,
            swings: 1,
            why: None,
            digest: String::new(),
            path: Vec::new(),
        }
    }

    #[test]
    fn score_is_clipped_at_both_ends() {
        // T* is 5 s at 2 m/s.
        for (seconds, expected) in [(5.0, 0.5), (10.0, 0.5), (20.0, 0.25), (40.0, 0.125), (90.0, 0.125)] {
            assert_eq!(score(&run(Outcome::Reached, seconds), BENCHMARK_SPEED), expected, "{seconds}");
        }
        assert_eq!(score(&run(Outcome::Contact, 5.0), BENCHMARK_SPEED), 0.0);
    }

    #[test]
    fn only_runs_that_arrive_have_a_time() {
        let runs = [run(Outcome::Reached, 20.0), run(Outcome::Timeout, 100.0), run(Outcome::Contact, 3.0)];
        let score = Score::of(&runs, 0.5);
        assert_eq!((score.reached, score.contacts, score.timeouts), (1, 1, 1));
        assert_eq!(score.seconds.map(|seconds| seconds.mean), Some(20.0));
        assert_eq!(score.score_own_speed.map(|score| score.mean), Some(0.5 / 3.0));
    }
}
