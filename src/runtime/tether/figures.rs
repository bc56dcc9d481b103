//! The counters and round-trip times of the tether's process, for its status.

use super::Drops;
use crate::base::time::{Instant, Span};
use hdrhistogram::Histogram;
use serde::Serialize;

/// Longer round trips count as this long: a minute.
const LONGEST_US: u64 = 60_000_000;
/// Number of requests whose send time is kept: more than are ever outstanding.
const OUTSTANDING: usize = 16;

/// Counts of the tether's process since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests that were sealed and sent.
    pub requests: u64,
    /// Answers that were opened and passed on to the runtime.
    pub answers: u64,
    /// Requests that came while there was no session.
    pub unjoined: u64,
    /// Datagrams that the system refused to send.
    pub unsent: u64,
    /// Messages that the runtime did not read in time.
    pub unread: u64,
    /// Invalid messages from the runtime.
    pub garbled: u64,
    /// Attempts to join.
    pub attempts: u64,
    /// Sessions that began.
    pub joined: u64,
    /// Refusals by the brain.
    pub refused: u64,
    /// How often a session fell silent.
    pub lost: u64,
    /// Datagrams that were dropped.
    pub drops: Drops,
}

/// Round trips on the network, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RoundTrips {
    /// How many were measured.
    pub count: u64,
    /// Median.
    pub p50_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
}

/// Measures the time from sending a request to receiving its answer, which has the same cycle number.
pub(super) struct Rounds {
    outstanding: [(u64, Instant); OUTSTANDING],
    next: usize,
    all: Histogram<u64>,
}

impl Rounds {
    pub fn new() -> Rounds {
        let all = Histogram::new_with_bounds(1, LONGEST_US, 2).expect("valid bounds");
        Rounds { outstanding: [(0, Instant::NEVER); OUTSTANDING], next: 0, all }
    }

    /// The request for `cycle` was sent at `now`.
    pub fn sent(&mut self, cycle: u64, now: Instant) {
        self.outstanding[self.next] = (cycle, now);
        self.next = (self.next + 1) % OUTSTANDING;
    }

    /// The answer for `cycle` arrived at `now`. Returns the round trip; zero if the request is not known.
    pub fn answered(&mut self, cycle: u64, now: Instant) -> Span {
        let found =
            self.outstanding.iter_mut().find(|(number, left)| *number == cycle && *left != Instant::NEVER);
        let Some((_, left)) = found else { return Span::ZERO };
        let took = now.since(std::mem::replace(left, Instant::NEVER));
        self.all.saturating_record((took.as_nanos() / 1_000).max(1));
        took
    }

    pub fn figures(&self) -> RoundTrips {
        let at = |quantile| self.all.value_at_quantile(quantile);
        RoundTrips { count: self.all.len(), p50_us: at(0.5), p99_us: at(0.99), max_us: self.all.max() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::at;

    #[test]
    fn round_trips_are_matched_by_cycle_number() {
        let mut rounds = Rounds::new();
        (1..=3).for_each(|cycle| rounds.sent(cycle, at(10 * cycle)));
        assert_eq!(rounds.answered(2, at(45)), Span::from_millis(25));
        assert_eq!(rounds.answered(2, at(46)), Span::ZERO, "an answer counts once");
        assert_eq!(rounds.answered(3, at(50)), Span::from_millis(20));
        assert_eq!(rounds.answered(9, at(50)), Span::ZERO, "it was never sent");
        (10..10 + OUTSTANDING as u64).for_each(|cycle| rounds.sent(cycle, at(100)));
        assert_eq!(rounds.answered(1, at(100)), Span::ZERO, "long forgotten");
        let figures = rounds.figures();
        assert_eq!(figures.count, 2);
        assert!((24_500..=25_500).contains(&figures.max_us), "{figures:?}");
    }
}
