//! The link to a brain on another computer: the motors stop when the brain is silent. Knows when answers
//! could be read, but not what the runtime did with them.

use super::facts::Facts;
use super::promise::Promise;
use super::{Breach, Stretch};
use ganglion::base::time::{Instant, Span};

/// A link latches only after it has worked. After this many answers the loop has certainly seen one of them.
const CERTAINLY_SEEN: u64 = 5;

/// What is known about the link of a board that has one.
#[derive(Debug, Default)]
pub struct Link {
    heard: Option<Instant>,
    answers: u64,
    exercised: u64,
}

impl Link {
    /// How often a silence began to force a stop since the last call.
    pub fn take_exercised(&mut self) -> u64 {
        std::mem::take(&mut self.exercised)
    }

    /// An answer could be read at `at`. Returns whether the silence before it has certainly latched.
    pub fn answered(&mut self, at: Instant, facts: &Facts) -> bool {
        let latched = self.latches(at, facts);
        self.heard = Some(at);
        self.answers += 1;
        latched
    }

    /// Whether the silence up to `at` has certainly latched, because two more slots have seen it.
    pub fn latches(&self, at: Instant, facts: &Facts) -> bool {
        let latched = facts.board.tether.as_ref().is_some_and(|plan| plan.latched);
        latched && self.answers >= CERTAINLY_SEEN && self.stopped_by(facts.reaction(), facts) <= at
    }

    /// When the motors must have stopped, if no further answer arrives.
    fn stopped_by(&self, base: Span, facts: &Facts) -> Instant {
        let (Some(plan), Some(heard)) = (&facts.board.tether, self.heard) else { return Instant::ZERO };
        facts.deadline(heard + plan.silence, base)
    }

    /// Whether a silent brain forces a stop at `at`.
    pub fn forces(&self, facts: &Facts, at: Instant) -> bool {
        // The first slot after `silence` has passed notices it, and the command of that slot is sent.
        facts.board.tether.is_some() && self.stopped_by(facts.board.period + facts.bus_time, facts) <= at
    }

    /// Returns a breach if there was motion while the brain was silent.
    pub fn check(&mut self, stretch: &Stretch<'_>, facts: &Facts) -> Option<Breach> {
        let silence = facts.board.tether.as_ref()?.silence;
        if let Some(lost) = self.heard.map(|heard| heard + silence) {
            self.exercised += u64::from(stretch.from < lost && lost <= stretch.until);
        }
        let stopped = self.stopped_by(facts.board.period + facts.bus_time, facts).max(stretch.from);
        (stopped < stretch.until).then(|| {
            let heard = self.heard.map_or("never".to_string(), |heard| {
                format!("read at {:.4} s", heard.as_nanos() as f64 / 1e9)
            });
            let what = format!("the brain's last answer: {heard}; the currents are {:?}", stretch.currents);
            Breach { promise: Promise::LinkLost, at: stopped, what }
        })
    }
}
