//! A brain on another computer, and a smaller field on this machine on standby. Both get every input: while
//! the answer travels, the local field computes too, so its state is up to date when it has to take over.
//!
//! The local field takes over in the same cycle in which the link is found to be bad: no brain is joined, or
//! the second request in a row has no answer. A single missed answer changes nothing, because the one before
//! it is still fresh. The brain takes over again after it has answered for a while. The arbiter limits how
//! fast commands change at either switch.

use super::engine::RemoteEngine;
use super::health::{LinkHealth, NoLink};
use crate::base::time::{Clock, Instant, Span};
use crate::field::slices::FieldSlices;
use crate::field::state::{Learned, Live, StateError};
use crate::field::{Condition, EngineState, Failure, FieldEngine, FieldInput, FieldOutput};
use std::sync::Arc;

/// The brain must answer for this long before it is used again: longer than a network switch or an access
/// point takes to settle after a cable is plugged in, and longer than the plug's contacts bounce.
const PROOF: Span = Span::from_millis(3_000);
/// A link is bad after this many requests in a row without an answer. A single missing answer is tolerated,
/// because one datagram in a hundred may be lost.
const MISSES: u32 = 2;

/// The engine.
pub struct Standby {
    remote: RemoteEngine,
    here: Box<dyn FieldEngine>,
    clock: Arc<dyn Clock>,
    /// Requests in a row without an answer in time.
    misses: u32,
    /// While the local field's output is used: when the brain began to answer again; `None`: it does not
    /// answer.
    good_since: Option<Instant>,
    /// Whether the local field's output is used instead of the brain's.
    stood_in: bool,
    /// Number of prompt answers before the last request.
    prompt: u64,
}

impl Standby {
    /// `remote`, with `here` on standby.
    pub fn new(remote: RemoteEngine, here: Box<dyn FieldEngine>, clock: Arc<dyn Clock>) -> Standby {
        Standby { remote, here, clock, misses: 0, good_since: None, stood_in: false, prompt: 0 }
    }

    /// A cycle for which the brain is used: waits for its answer.
    fn use_brain(
        &mut self,
        asked: Result<(), Failure>,
        own: Result<FieldOutput, Failure>,
    ) -> Result<FieldOutput, Failure> {
        let until = self.remote.wait_ends();
        let answer = asked.and_then(|()| self.remote.answer(until));
        if answer.is_ok() {
            self.misses = 0;
            return answer;
        }
        self.misses += 1;
        if self.remote.has_joined() && self.misses < MISSES {
            return answer;
        }
        self.stood_in = true;
        self.good_since = None;
        self.remote.counters().takeovers += 1;
        own
    }

    /// A cycle in which the local field's output is used and the link is watched. It does not wait for the
    /// brain's answer, which is read in the next cycle.
    fn stand_in(&mut self, own: Result<FieldOutput, Failure>) -> Result<FieldOutput, Failure> {
        let now = self.clock.now();
        let before = std::mem::replace(&mut self.prompt, self.remote.prompt());
        self.misses = if self.prompt > before { 0 } else { self.misses.saturating_add(1) };
        if !self.remote.has_joined() || self.misses >= MISSES {
            self.good_since = None;
        } else if now.since(*self.good_since.get_or_insert(now)) >= PROOF {
            self.stood_in = false;
            self.remote.counters().returns += 1;
        }
        own
    }
}

impl FieldEngine for Standby {
    fn name(&self) -> String {
        format!("{}; {} on standby", self.remote.name(), self.here.name())
    }

    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, Failure> {
        let asked = self.remote.ask(input);
        if let Err(refused @ Failure::Refused(_)) = asked {
            return Err(refused);
        }
        let own = self.here.cycle(input);
        if self.stood_in {
            return self.stand_in(own);
        }
        if let Err(Failure::NotFinite) = own {
            self.here.reset(); // its output is not used now, so it may restart
        }
        self.prompt = self.remote.prompt();
        self.use_brain(asked, own)
    }

    /// Never saves: the brain keeps its own state, and the local field is up to date when it is needed.
    fn save(&mut self, _live: &mut Live) -> bool {
        false
    }

    /// Nothing to restore, see [`Standby::save`].
    fn restore(&mut self, _live: &Live) -> Result<(), StateError> {
        Ok(())
    }

    fn load(&mut self, learned: &Learned) -> Result<(), StateError> {
        self.here.load(learned)
    }

    fn reset(&mut self) {
        self.here.reset();
    }

    fn rebuild(&mut self, learned: &Learned) {
        self.here.rebuild(learned);
    }

    /// No slices while the brain computes: the local field is then only on standby.
    fn slices(&self) -> Option<FieldSlices> {
        if self.stood_in { self.here.slices() } else { None }
    }

    fn condition(&self, now: Instant) -> Condition {
        let Condition { state, link, .. } = self.remote.condition(now);
        let link = link.map(|link| LinkHealth { stood_in: self.stood_in, ..link });
        if !self.stood_in {
            return Condition { state, link, ..Condition::default() };
        }
        let left = self.good_since.map_or(PROOF, |since| PROOF.less(now.since(since)));
        let why = self.remote.trouble(now).unwrap_or(NoLink::Proving(left));
        Condition { state: EngineState::NoLink { why, stood_in: true }, link, ..Condition::default() }
    }
}
