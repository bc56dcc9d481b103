//! The guard's task: the motors stop when the guard and the runtime cannot communicate. Knows when the script
//! kills the guard or pauses either process, but none of their messages.

use super::facts::{Facts, overlaps};
use super::promise::Promise;
use super::{Breach, Stretch};
use ganglion::base::time::{Instant, Span};

/// The guard's own thread cuts its line as soon as its timeout ends. In virtual time it needs no longer than
/// this, unless the judge has miscalculated.
const AT_ONCE: Span = Span::from_millis(1);

/// The promises of this file that applied since they were last taken.
#[derive(Debug, Default)]
pub struct Guarding {
    exercised: Vec<Promise>,
}

impl Guarding {
    /// The promises of this file that applied since the last call.
    pub fn take_exercised(&mut self) -> Vec<Promise> {
        std::mem::take(&mut self.exercised)
    }

    /// The time by which a runtime that needs its guard must have stopped the motors, if the guard has been
    /// dead or paused since `from`.
    fn lost_from(facts: &Facts, from: Instant) -> Instant {
        let timeout = facts.board.guard.map_or(Span::ZERO, |plan| plan.timeout);
        // The newest answered request was sent no later than `from`. One slot notices the timeout, and the
        // command of that slot is sent.
        facts.deadline(from + timeout, facts.board.period + facts.bus_time)
    }

    /// Whether a lost guard forces a stop at `at`.
    pub fn forces(facts: &Facts, at: Instant) -> bool {
        let required = facts.board.guard.is_some_and(|plan| plan.required);
        let lost =
            |(from, until): &(Instant, Instant)| at < *until && Guarding::lost_from(facts, *from) <= at;
        required && facts.unguarded.iter().any(lost)
    }

    /// Returns a breach if there was motion without a guard, or without a runtime.
    pub fn check(&mut self, stretch: &Stretch<'_>, facts: &Facts) -> Option<Breach> {
        let plan = facts.board.guard?;
        if plan.required
            && let Some(breach) = self.check_guard(stretch, facts)
        {
            return Some(breach);
        }
        self.check_runtime(stretch, facts, plan.timeout)
    }

    fn check_guard(&mut self, stretch: &Stretch<'_>, facts: &Facts) -> Option<Breach> {
        let first = facts.unguarded.partition_point(|(_, until)| *until <= stretch.from);
        for (from, until) in facts.unguarded[first..].iter().take_while(|(from, _)| *from < stretch.until) {
            let lost = Guarding::lost_from(facts, *from).max(stretch.from);
            if lost < stretch.until.min(*until) {
                let what = told("no guard answers", *from, stretch);
                return Some(Breach { promise: Promise::GuardLost, at: lost, what });
            }
            if stretch.from <= *from {
                self.exercised.push(Promise::GuardLost);
            }
        }
        None
    }

    /// A runtime whose threads are all paused sends no heartbeat: the guard cuts the line, unless the guard
    /// itself is in trouble.
    fn check_runtime(&mut self, stretch: &Stretch<'_>, facts: &Facts, timeout: Span) -> Option<Breach> {
        let first = facts.late_all.partition_point(|(_, until)| *until <= stretch.from);
        for spell in facts.late_all[first..].iter().take_while(|(from, _)| *from < stretch.until) {
            let (from, until) = *spell;
            let taken = from + timeout + AT_ONCE;
            if taken >= until || facts.unguarded.iter().any(|unwell| overlaps(unwell, from, until)) {
                continue;
            }
            if taken.max(stretch.from) < stretch.until.min(until) {
                let what = told("no thread of the runtime runs", from, stretch);
                return Some(Breach { promise: Promise::GuardTrips, at: taken.max(stretch.from), what });
            }
            if stretch.from <= from {
                self.exercised.push(Promise::GuardTrips);
            }
        }
        None
    }
}

fn told(why: &str, from: Instant, stretch: &Stretch<'_>) -> String {
    let seconds = from.as_nanos() as f64 / 1e9;
    format!("{why} since {seconds:.4} s; the currents are {:?}", stretch.currents)
}
