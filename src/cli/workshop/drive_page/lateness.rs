//! Times as histograms: percentiles to three digits, and bars a tenth of a decade wide for display.

use crate::base::time::Span;
use crate::drive::trace::Latency;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Bars per decade: each bin edge is a quarter above the one before, a step that the eye can still see.
const PER_DECADE: f64 = 10.0;
/// Number of bars, which range from a microsecond to ten seconds; shorter times count in the first bar,
/// longer ones in the last.
const BARS: usize = 71;

/// Longest time that the percentiles resolve, nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// The times of one part of the loop.
#[derive(Debug)]
pub struct Times {
    title: &'static str,
    exact: Option<Histogram<u64>>,
    bars: [u64; BARS],
}

/// What the page shows of these times.
#[derive(Debug, Serialize)]
pub struct TimesShown {
    /// What was timed.
    pub title: &'static str,
    /// Percentiles, microseconds.
    pub percentiles: Latency,
    /// Index of the first bar that is not empty.
    pub first: usize,
    /// Counts of the bars from there to the last one that is not empty.
    pub counts: Vec<u64>,
}

impl Times {
    /// No times yet.
    pub fn new(title: &'static str) -> Times {
        Times { title, exact: Histogram::new_with_bounds(1, LONGEST, 3).ok(), bars: [0; BARS] }
    }

    /// Adds a time.
    pub fn add(&mut self, time: Span) {
        if let Some(exact) = &mut self.exact {
            exact.saturating_record(time.as_nanos());
        }
        let bar = (libm::log10(time.as_micros_f64().max(1.0)) * PER_DECADE) as usize;
        self.bars[bar.min(BARS - 1)] += 1;
    }

    /// What the page shows; `None` if no time was recorded.
    pub fn shown(&self) -> Option<TimesShown> {
        let percentiles = self.exact.as_ref().and_then(Latency::of)?;
        let first = self.bars.iter().position(|count| *count > 0)?;
        let last = self.bars.iter().rposition(|count| *count > 0)?;
        Some(TimesShown { title: self.title, percentiles, first, counts: self.bars[first..=last].to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_percentiles_count_the_same_times() {
        let mut times = Times::new("work");
        assert!(times.shown().is_none());
        [0, 5, 100, 101, 1_000].into_iter().for_each(|micros| times.add(Span::from_micros(micros)));
        times.add(Span::from_nanos(u64::MAX));
        let shown = times.shown().unwrap();
        assert_eq!((shown.first, shown.counts.len()), (0, BARS));
        assert_eq!((shown.counts[20], shown.counts[30], shown.counts[BARS - 1]), (2, 1, 1));
        assert_eq!((shown.counts.iter().sum::<u64>(), shown.percentiles.n), (6, 6));
    }
}
