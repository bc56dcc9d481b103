//! Measures where the time of a cycle goes. An engine reads the monotonic clock once per stage (about 25 ns);
//! its results do not depend on the clock.

use crate::base::time::{Clock, Instant, MonotonicClock, Span};

/// A stage of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The error of the last prediction, and learning from it.
    Learn,
    /// The field's step, and the sums computed along with it.
    Evolve,
    /// Features computed from these sums.
    Features,
    /// The match with the pattern library.
    Library,
    /// The match with the experience bank.
    Bank,
    /// The next prediction, the read-out, and metrics if due.
    Motor,
}

/// Names of the stages, in the order of [`Stage`].
pub const STAGES: [&str; 6] = ["learn", "evolve", "features", "library", "bank", "motor"];

/// Time of each of the [`STAGES`] in one cycle.
pub type StageTimes = [Span; STAGES.len()];

/// Measures how long each stage of a cycle takes.
pub struct StageWatch {
    last: Instant,
    times: StageTimes,
}

impl StageWatch {
    /// A watch that has timed nothing yet.
    pub const NEW: StageWatch = StageWatch { last: Instant::ZERO, times: [Span::ZERO; STAGES.len()] };

    /// Starts timing a cycle.
    pub fn begin(&mut self) {
        *self = StageWatch { last: MonotonicClock.now(), ..StageWatch::NEW };
    }
    /// Charges the time since the last call, or since the start of the cycle, to `stage`.
    pub fn end(&mut self, stage: Stage) {
        let now = MonotonicClock.now();
        let time = &mut self.times[stage as usize];
        *time = *time + now.since(self.last);
        self.last = now;
    }
    /// The times of the current or last cycle.
    pub fn times(&self) -> &StageTimes {
        &self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_counts_for_the_stage_that_ends() {
        let mut watch = StageWatch::NEW;
        watch.begin();
        MonotonicClock.sleep_until(MonotonicClock.now() + Span::from_millis(2));
        watch.end(Stage::Bank);
        watch.end(Stage::Learn);
        MonotonicClock.sleep_until(MonotonicClock.now() + Span::from_millis(2));
        watch.end(Stage::Bank);
        let bank = watch.times()[Stage::Bank as usize];
        assert!(bank >= Span::from_millis(4), "{bank:?}: both periods count");
        assert_eq!(watch.times()[Stage::Motor as usize], Span::ZERO);
        assert_eq!(STAGES[Stage::Bank as usize], "bank");
        watch.begin();
        assert_eq!(watch.times()[Stage::Bank as usize], Span::ZERO);
    }
}
