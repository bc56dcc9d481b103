//! A brain's counters and times of one robot, and the robot's row in the status.

use crate::base::time::{Instant, Span};
use crate::field::remote::message::{CycleAnswer, Verdict};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longer times are recorded as this value, in ns: ten seconds, more than any deadline.
const LONGEST_NS: u64 = 10_000_000_000;
/// Significant digits of a percentile: with two, each of a robot's four histograms takes less than 30 kB.
const DIGITS: u8 = 2;

/// Counters and times of one robot.
pub struct Counters {
    /// Requests that arrived.
    pub requests: u64,
    /// Requests that were computed and answered.
    pub answered: u64,
    /// Answers that were ready only after the request's deadline.
    pub missed: u64,
    /// Requests that were too late to compute.
    pub late: u64,
    /// Requests that were replaced by a newer one before they were served.
    pub replaced: u64,
    /// Requests of the wrong size, or with a value out of range.
    pub refused: u64,
    /// Requests without a result because the engine failed or was not ready.
    pub failed: u64,
    busy: Histogram<u64>,
    computed: Histogram<u64>,
    waited: Histogram<u64>,
    /// Time left before the deadline; 0 if it was missed.
    left: Histogram<u64>,
}

/// Percentiles of a time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

/// A row of the table of robots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RobotRow {
    /// Name of the robot.
    pub name: String,
    /// Name of its board.
    pub board: String,
    /// What computes the robot's field, and why; `None`: the robot has no engine at the moment.
    pub engine: Option<String>,
    /// Seconds since it joined.
    pub joined_s: f64,
    /// Seconds since its last datagram.
    pub silent_s: f64,
    /// See [`Counters::requests`].
    pub requests: u64,
    /// See [`Counters::answered`].
    pub cycles: u64,
    /// See [`Counters::missed`].
    pub missed: u64,
    /// See [`Counters::late`].
    pub late: u64,
    /// See [`Counters::replaced`].
    pub replaced: u64,
    /// See [`Counters::refused`].
    pub refused: u64,
    /// See [`Counters::failed`].
    pub failed: u64,
    /// Compute time; `None`: no cycle has been computed yet.
    pub computed_us: Option<Figures>,
    /// Time that requests waited before they were computed.
    pub waited_us: Option<Figures>,
    /// The least time left before the deadline in 99 of 100 cycles (the 1st percentile), in microseconds.
    pub margin_us: Option<f64>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("valid bounds")
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            requests: 0,
            answered: 0,
            missed: 0,
            late: 0,
            replaced: 0,
            refused: 0,
            failed: 0,
            busy: histogram(),
            computed: histogram(),
            waited: histogram(),
            left: histogram(),
        }
    }
}

impl Counters {
    /// Counts an answer that was ready at `now`, to a request with this deadline.
    pub fn count(&mut self, answer: &CycleAnswer, deadline: Instant, now: Instant) {
        match answer.verdict {
            Verdict::Refused => self.refused += 1,
            Verdict::Failed => self.failed += 1,
            Verdict::Late => self.late += 1,
            Verdict::Answered => {
                self.answered += 1;
                self.missed += u64::from(now > deadline);
                self.computed.saturating_record(answer.computed.as_nanos());
                self.waited.saturating_record(answer.waited.as_nanos());
                self.left.saturating_record(deadline.since(now).as_nanos());
            }
        }
    }

    /// Records how long a cycle occupied its thread.
    pub fn record_busy(&mut self, busy: Span) {
        self.busy.saturating_record(busy.as_nanos());
    }

    /// 99th percentile of the time that a cycle occupies its thread, once there are enough cycles.
    pub fn cycle_p99(&self) -> Option<Span> {
        (self.busy.len() >= ENOUGH).then(|| Span::from_nanos(self.busy.value_at_quantile(0.99)))
    }

    /// The counters as a robot's row; the caller fills in the rest.
    pub fn row(&self) -> RobotRow {
        RobotRow {
            name: String::new(),
            board: String::new(),
            engine: None,
            joined_s: 0.0,
            silent_s: 0.0,
            requests: self.requests,
            cycles: self.answered,
            missed: self.missed,
            late: self.late,
            replaced: self.replaced,
            refused: self.refused,
            failed: self.failed,
            computed_us: Figures::of(&self.computed),
            waited_us: Figures::of(&self.waited),
            margin_us: (!self.left.is_empty()).then(|| self.left.value_at_quantile(0.01) as f64 / 1e3),
        }
    }

    /// Adds the counters and times of `other`.
    pub fn add(&mut self, other: &Counters) {
        self.requests += other.requests;
        self.answered += other.answered;
        self.missed += other.missed;
        self.late += other.late;
        self.replaced += other.replaced;
        self.refused += other.refused;
        self.failed += other.failed;
        for (all, more) in [
            (&mut self.busy, &other.busy),
            (&mut self.computed, &other.computed),
            (&mut self.waited, &other.waited),
            (&mut self.left, &other.left),
        ] {
            let _ = all.add(more); // cannot fail: the bounds are the same
        }
    }
}

/// Number of cycles needed for a meaningful 99th percentile.
const ENOUGH: u64 = 200;

impl Figures {
    /// The percentiles of a histogram of nanoseconds; `None`: it is empty.
    pub fn of(histogram: &Histogram<u64>) -> Option<Figures> {
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Figures {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
        })
    }
}
