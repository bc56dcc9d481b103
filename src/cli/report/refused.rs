//! What the arbiter refused of the field's requests, in the report of a run.

use crate::drive::act::ActCounters;
use serde::Serialize;

/// How long the arbiter refused requests.
#[derive(Debug, Serialize)]
pub(super) struct RefusedReport {
    /// Requests with a value that is not finite: the motors stopped, seconds.
    not_finite_s: f64,
    /// Reversing after `reverse_max_ms`: the robot stood still or only drove forwards, seconds.
    reverse_s: f64,
}

impl RefusedReport {
    /// From the counters of a tick with this period, seconds.
    pub(super) fn of(counters: &ActCounters, period_s: f64) -> RefusedReport {
        let ActCounters { not_finite, reverse_refused } = counters;
        let seconds = |slots: u64| slots as f64 * period_s;
        RefusedReport { not_finite_s: seconds(*not_finite), reverse_s: seconds(*reverse_refused) }
    }

    /// The lines of the page: none for what was never refused.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let why = [
            (self.not_finite_s, "of requests with a value that is not finite: a bug in the field"),
            (self.reverse_s, "of reversing beyond `reverse_max_ms`"),
        ];
        why.into_iter()
            .filter(|(seconds, _)| *seconds > 0.0)
            .map(|(seconds, why)| format!("  refused    {seconds:.2} s {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_refused_has_a_line() {
        let lines = |not_finite, reverse_refused| -> Vec<String> {
            RefusedReport::of(&ActCounters { not_finite, reverse_refused }, 0.01).lines().collect()
        };
        assert_eq!(lines(0, 0), Vec::<String>::new());
        assert!(matches!(&lines(0, 70)[..], [reverse] if reverse.contains("0.70 s of reversing")));
        assert!(matches!(&lines(3, 0)[..], [bug] if bug.contains("0.03 s of requests")));
        assert_eq!(lines(3, 70).len(), 2);
    }
}
