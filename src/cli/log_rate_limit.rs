//! A rate limit for log messages from one place in the program. A caller, a sensor or a file that provokes
//! the same message again and again must not fill a disk or hide other messages. Once the quota is used up,
//! messages appear only rarely, with a count of those that were dropped.

use crate::base::time::{Instant, Span};

/// Lines that may be logged in a burst: enough for a board's warnings or a self-test's findings.
const AT_ONCE: u64 = 40;
/// After the burst, one more line is allowed per interval: at most 8,640 a day, about a megabyte.
const ONE_EVERY: Span = Span::from_millis(10_000);

/// The quota of one place in the program. Never allocates and never waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRateLimit {
    /// Lines that may still be logged at once.
    left: u64,
    /// The time up to which new lines have been credited.
    earned_at: Instant,
    left_out: u64,
}

impl LogRateLimit {
    /// The quota before anything is logged.
    pub const FULL: LogRateLimit = LogRateLimit { left: AT_ONCE, earned_at: Instant::ZERO, left_out: 0 };

    /// Whether another line may be logged now, and if so, how many were dropped since the last one. `None`:
    /// drop it.
    pub fn ask(&mut self, now: Instant) -> Option<u64> {
        self.earn(now);
        if self.left == 0 {
            self.left_out += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.left_out))
    }

    /// The number of dropped lines that were not reported yet. `None` if there are none, or if the quota does
    /// not allow a line now.
    pub fn settle(&mut self, now: Instant) -> Option<u64> {
        if self.left_out == 0 { None } else { self.ask(now).or_else(|| self.not_asked()) }
    }

    /// The number of dropped lines that were not reported yet, even if the quota is used up: for the final
    /// report. `None` if there are none.
    pub fn take_dropped(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.left_out)).filter(|left_out| *left_out > 0)
    }

    /// Undoes what `ask` has counted: a report that the quota does not allow is not a dropped line.
    fn not_asked(&mut self) -> Option<u64> {
        self.left_out -= 1;
        None
    }

    fn earn(&mut self, now: Instant) {
        let lines = now.since(self.earned_at).as_nanos() / ONE_EVERY.as_nanos();
        self.left = self.left.saturating_add(lines);
        self.earned_at += ONE_EVERY.times(lines);
        if self.left >= AT_ONCE {
            (self.left, self.earned_at) = (AT_ONCE, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::at;

    #[test]
    fn a_flood_gives_a_few_lines_and_an_exact_count() {
        let mut rate_limit = LogRateLimit::FULL;
        let (mut said, mut told) = (0, 0);
        for millisecond in 0..100_000 {
            if let Some(left_out) = rate_limit.ask(at(1_000 + millisecond)) {
                said += 1;
                told += left_out;
            }
        }
        assert!((AT_ONCE..=AT_ONCE + 10).contains(&said), "{said}");
        assert_eq!(said + told + rate_limit.take_dropped().unwrap_or(0), 100_000);
        assert_eq!(rate_limit.take_dropped(), None, "reported once");
    }

    #[test]
    fn drops_are_reported_once_a_line_is_earned() {
        let mut rate_limit = LogRateLimit::FULL;
        (0..AT_ONCE + 5).for_each(|_| _ = rate_limit.ask(at(1)));
        assert_eq!((rate_limit.settle(at(2)), rate_limit.settle(at(9_000))), (None, None));
        assert_eq!(rate_limit.settle(at(10_002)), Some(5));
        assert_eq!(rate_limit.settle(at(30_000)), None, "there is nothing more to report");
        assert_eq!(rate_limit.ask(at(30_000)), Some(0));
    }

    #[test]
    fn silence_restores_the_full_quota() {
        let mut rate_limit = LogRateLimit::FULL;
        assert!((0..1_000).all(|line| rate_limit.ask(at(10_000 * line)) == Some(0)));
        let mut rate_limit = LogRateLimit::FULL;
        (0..AT_ONCE + 1).for_each(|_| _ = rate_limit.ask(at(1)));
        assert_eq!(rate_limit.ask(at(1_000_000)), Some(1));
        assert_eq!(
            (1..AT_ONCE).filter(|_| rate_limit.ask(at(1_000_000)).is_some()).count() as u64,
            AT_ONCE - 1
        );
        assert_eq!(rate_limit.ask(at(1_000_000)), None, "never more than the full quota");
    }
}
