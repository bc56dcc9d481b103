//! What a tether's process counts and measures, for a person to see.

use super::Drops;
use crate::base::time::{Instant, Span};
use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest round trip that is told from a longer one: a minute.
const LONGEST_US: u64 = 60_000_000;
/// Requests whose departure is remembered: more than are ever under way at once.
const UNDER_WAY: usize = 16;

/// Counts of a tether's process since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests that were sealed and sent.
    pub requests: u64,
    /// Answers that were opened and passed on to the runtime.
    pub answers: u64,
    /// Requests that came while no session stood.
    pub unjoined: u64,
    /// Datagrams that the system did not send.
    pub unsent: u64,
    /// Messages that the runtime did not take in time.
    pub unread: u64,
    /// Messages of the runtime that mean nothing.
    pub garbled: u64,
    /// Attempts to join.
    pub attempts: u64,
    /// Sessions.
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
    /// Half of them took at most this.
    pub p50_us: u64,
    /// 99 in 100.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
}

/// Measures from a request's departure to its answer's arrival. Request and answer are known to belong
/// together by the number of their cycle.
pub(super) struct Rounds {
    under_way: [(u64, Instant); UNDER_WAY],
    next: usize,
    all: Histogram<u64>,
}

impl Rounds {
    pub fn new() -> Rounds {
        let all = Histogram::new_with_bounds(1, LONGEST_US, 2).expect("bounds that a histogram has");
        Rounds { under_way: [(0, Instant::NEVER); UNDER_WAY], next: 0, all }
    }

    /// The request of `cycle` left at `now`.
    pub fn left(&mut self, cycle: u64, now: Instant) {
        self.under_way[self.next] = (cycle, now);
        self.next = (self.next + 1) % UNDER_WAY;
    }

    /// The answer of `cycle` came at `now`: how long that took; zero if it is not known.
    pub fn came(&mut self, cycle: u64, now: Instant) -> Span {
        let found =
            self.under_way.iter_mut().find(|(number, left)| *number == cycle && *left != Instant::NEVER);
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
        (1..=3).for_each(|cycle| rounds.left(cycle, at(10 * cycle)));
        assert_eq!(rounds.came(2, at(45)), Span::from_millis(25));
        assert_eq!(rounds.came(2, at(46)), Span::ZERO, "once");
        assert_eq!(rounds.came(3, at(50)), Span::from_millis(20));
        assert_eq!(rounds.came(9, at(50)), Span::ZERO, "it was never sent");
        (10..10 + UNDER_WAY as u64).for_each(|cycle| rounds.left(cycle, at(100)));
        assert_eq!(rounds.came(1, at(100)), Span::ZERO, "long forgotten");
        let figures = rounds.figures();
        assert_eq!(figures.count, 2);
        assert!((24_500..=25_500).contains(&figures.max_us), "{figures:?}");
    }
}
