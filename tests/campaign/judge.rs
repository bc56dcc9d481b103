//! The judge: from the traffic on the wires, the callers' requests and the times of the loop's slots, it
//! decides whether the motors turned while a promise forbade it. Written from docs/promises.md and
//! boards/README.md; it uses no code of the runtime's decisions and asks the runtime nothing.
//!
//! The promises are in `authority` (who allowed the robot to move), `senses` (which sensors forbid it),
//! `retreat` (rules that demand backing away), `wire` (commands, buses, backing), `guard` and `link`; `facts`
//! has the times. A promise is checked from one event to the next: the motors' currents are constant in
//! between.

pub mod authority;
pub mod facts;
pub mod guard;
pub mod link;
pub mod promise;
pub mod retreat;
pub mod senses;
pub mod wire;

use super::script::Ask;
use super::tape::What;
use authority::Authority;
use facts::Facts;
use ganglion::base::command::MAX_MOTORS;
use ganglion::base::time::Instant;
use guard::Guarding;
use link::Link;
use promise::{COUNT, Promise, Watched};
use senses::Senses;
use wire::Wire;

/// An event that a judge is told about.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// Seen on the wires.
    Seen(What),
    /// A caller's request.
    Asked(Ask),
    /// A stop button is pressed or released.
    Button {
        /// Pressed.
        pressed: bool,
    },
    /// A person asks the guard for a safe-stop.
    SafeStop,
    /// The machine wakes from a suspend, during which the clock stopped.
    Woke,
    /// The runtime was able to read an answer from its brain.
    Answered,
    /// The loop ran the slot that was due at this time.
    Slot(Instant),
}

/// A stretch of time with constant currents.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// Start.
    pub from: Instant,
    /// End.
    pub until: Instant,
    /// Per drive motor, -1..=1.
    pub currents: &'a [f32],
    /// The time since which some motor has continuously had current.
    pub moving_since: Instant,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    /// The promise.
    pub promise: Promise,
    /// When the breach began.
    pub at: Instant,
    /// What was observed, as text.
    pub what: String,
}

/// The judge of one run.
pub struct Judge {
    facts: Facts,
    authority: Authority,
    senses: Senses,
    wire: Wire,
    guarding: Guarding,
    link: Link,
    watched: Watched,
    at: Instant,
    currents: heapless::Vec<f32, MAX_MOTORS>,
    moving_since: Option<Instant>,
    /// When motors last had current.
    moved_at: Option<Instant>,
    waiting: Vec<(Instant, Happening)>,
    breach: Option<Breach>,
    /// How often each promise was put to the test.
    pub exercised: [u64; COUNT],
    /// How often the motors began to turn.
    pub starts: u64,
}

impl Judge {
    /// A judge of these promises.
    pub fn new(facts: Facts, watched: Watched) -> Judge {
        Judge {
            authority: Authority::new(&facts),
            senses: Senses::new(&facts),
            wire: Wire::new(&facts),
            guarding: Guarding::default(),
            link: Link::default(),
            facts,
            watched,
            at: Instant::ZERO,
            currents: heapless::Vec::new(),
            moving_since: None,
            moved_at: None,
            waiting: Vec::new(),
            breach: None,
            exercised: [0; COUNT],
            starts: 0,
        }
    }

    /// Queues an event; [`Judge::look`] evaluates it.
    pub fn tell(&mut self, at: Instant, happening: Happening) {
        self.waiting.push((at, happening));
    }

    /// Evaluates all events up to `until`; after that, no event before `until` may be told. Returns the first
    /// breach, if there was one.
    pub fn look(&mut self, until: Instant) -> Option<&Breach> {
        self.waiting.sort_by_key(|(at, _)| *at); // stable: equal times keep their order
        let due = self.waiting.partition_point(|(at, _)| *at <= until);
        let mut waiting = std::mem::take(&mut self.waiting);
        for (at, happening) in waiting.drain(..due) {
            self.pass(at);
            self.take(at, &happening);
        }
        self.waiting = waiting;
        self.pass(until);
        self.breach.as_ref()
    }

    /// The process has ended: motors that still turn will turn for ever.
    pub fn end(&mut self, at: Instant) -> Option<&Breach> {
        self.look(at);
        self.exercised[Promise::End as usize] += 1;
        let excused = !self.facts.can_hold(at, at)
            && self
                .facts
                .dead
                .iter()
                .any(|(from, until)| *from <= at && *until + self.facts.answered() >= at);
        if self.moving_since.is_some() && !excused {
            let what = format!("the process has ended and the currents are {:?}", self.currents);
            self.report(Breach { promise: Promise::End, at, what });
        }
        self.breach.as_ref()
    }

    /// Time passes with unchanged currents.
    fn pass(&mut self, until: Instant) {
        let from = self.at;
        if until <= from {
            return;
        }
        self.at = until;
        let Some(moving_since) = self.moving_since else { return };
        self.moved_at = Some(until);
        let currents = self.currents.clone();
        let stretch = Stretch { from, until, currents: &currents, moving_since };
        let breaches = [
            self.authority.check(&stretch),
            self.senses.check(&stretch, &self.facts),
            self.wire.check(&stretch, &self.facts),
            self.guarding.check(&stretch, &self.facts),
            self.link.check(&stretch, &self.facts),
        ];
        for promise in self.guarding.take_exercised() {
            self.exercised[promise as usize] += 1;
        }
        self.exercised[Promise::LinkLost as usize] += self.link.take_exercised();
        self.senses.retreats.pass(&stretch, &self.facts);
        for breach in breaches.into_iter().flatten() {
            self.report(breach);
        }
    }

    fn report(&mut self, breach: Breach) {
        if self.watched.has(breach.promise) {
            self.breach.get_or_insert(breach);
        }
    }

    fn take(&mut self, at: Instant, happening: &Happening) {
        match happening {
            Happening::Seen(What::Currents(currents)) => self.take_currents(at, currents),
            Happening::Seen(What::Heard { sensor, value }) => {
                if let Some(tripped) = self.senses.observe(*sensor, *value, at, &self.facts) {
                    self.count(tripped.promise());
                    if tripped.latches() {
                        self.count(Promise::Latch);
                        self.authority.latch(Promise::Latch, at, &self.facts);
                    }
                }
                self.authority.heard(at, self.is_latching(at));
                let [required, ruled] = std::mem::take(&mut self.senses.staled);
                self.exercised[Promise::Retreat as usize] +=
                    std::mem::take(&mut self.senses.retreats.exercised);
                self.exercised[Promise::Required as usize] += u64::from(required);
                self.exercised[Promise::Silent as usize] += u64::from(ruled);
            }
            Happening::Seen(What::Controller { .. }) => {}
            Happening::Asked(ask) => {
                match ask {
                    Ask::Arm => {
                        self.exercised[Promise::Unarmed as usize] += u64::from(self.moving_since.is_none())
                    }
                    Ask::Disarm => {
                        self.count(Promise::Disarm);
                        self.senses.retreats.release();
                    }
                    Ask::Stop => self.count(Promise::Stop),
                }
                if *ask == Ask::Arm && self.senses.misses_one() {
                    self.exercised[Promise::NeverRead as usize] += 1;
                }
                self.authority.ask(*ask, at, self.is_latching(at), &self.facts);
            }
            Happening::Button { pressed } => {
                if *pressed {
                    self.count(Promise::Press);
                }
                self.authority.button(*pressed, at, &self.facts);
            }
            Happening::SafeStop if self.facts.board.guard.is_some() => {
                self.senses.retreats.release();
                let lasts = self.facts.remembers(at);
                if lasts {
                    self.count(Promise::SafeStop);
                }
                self.authority.safe_stop(lasts, at, self.is_latching(at), &self.facts);
            }
            Happening::SafeStop => {}
            Happening::Woke => {
                self.count(Promise::Slept);
                self.senses.wake(at);
                self.authority.woke(at, &self.facts);
            }
            Happening::Answered => {
                if self.link.answered(at, &self.facts) {
                    self.exercised[Promise::Latch as usize] += 1;
                    self.authority.latch(Promise::Latch, at, &self.facts);
                }
                self.authority.heard(at, self.is_latching(at));
            }
            Happening::Slot(slot) => {
                if self.wire.slot(*slot, at, &self.facts) {
                    self.count(Promise::CommandValid);
                }
            }
        }
        // Whether anything forces a stop now; `authority` measures for how long without interruption.
        let forced = self.senses.forces(at, &self.facts)
            || self.wire.forces(at, &self.facts)
            || Guarding::forces(&self.facts, at)
            || self.link.forces(&self.facts, at);
        if self.authority.force(forced, at, &self.facts) {
            self.exercised[Promise::DisarmAfter as usize] += 1;
        }
    }

    /// Whether a cause that is present at this time would latch again as soon as it is acknowledged.
    fn is_latching(&self, at: Instant) -> bool {
        self.senses.latching() || self.link.latches(at, &self.facts)
    }

    fn take_currents(&mut self, at: Instant, currents: &[f32]) {
        let moves = currents.iter().any(|current| *current != 0.0);
        self.currents = currents.iter().copied().collect();
        match (self.moving_since, moves) {
            (None, true) => {
                self.moving_since = Some(at);
                self.starts += 1;
            }
            (Some(_), false) => self.moving_since = None,
            _ => {}
        }
        self.wire.currents(at, currents);
        for promise in self.wire.take_exercised() {
            self.exercised[promise as usize] += 1;
        }
    }

    /// Counts that `promise` began to apply, if the motors turn.
    fn count(&mut self, promise: Promise) {
        self.exercised[promise as usize] += u64::from(self.moving_since.is_some());
    }
}
