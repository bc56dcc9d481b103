//! Judges expired commands, buses that are lost and come back, and driving backwards for too long. Uses no
//! sensor values and no requests.

use super::facts::Facts;
use super::promise::Promise;
use super::{Breach, Stretch};
use ganglion::base::time::{Instant, Span};

/// A command that changes nothing is not written, and counts as received for this long after the controller's
/// last answer (boards/README.md, `wire_lost_ms`).
const UNASKED: Span = Span::from_millis(25);

/// What the wires show.
#[derive(Debug)]
pub struct Wire {
    /// The slot that ran last.
    slot: Instant,
    backwards_since: Option<Instant>,
    exercised: Vec<Promise>,
    moving: bool,
    /// The first spell of a dead bus that has not ended.
    next_dead: usize,
    reverse_max: Span,
}

impl Wire {
    /// Nothing was seen yet.
    pub fn new(facts: &Facts) -> Wire {
        Wire {
            slot: Instant::ZERO,
            backwards_since: None,
            exercised: Vec::new(),
            moving: false,
            next_dead: 0,
            reverse_max: facts.board.safety.reverse_max,
        }
    }

    /// At `at`, the loop ran the slot that was due at `slot`. Returns whether its last command had expired by
    /// then.
    pub fn slot(&mut self, slot: Instant, at: Instant, facts: &Facts) -> bool {
        let late = at.since(self.slot) > facts.board.safety.command_valid;
        self.slot = slot;
        while facts
            .dead
            .get(self.next_dead)
            .is_some_and(|(_, until)| *until + facts.answered() + Span::from_millis(1_000) < at)
        {
            self.next_dead += 1;
        }
        late
    }

    /// The currents changed to these.
    pub fn currents(&mut self, at: Instant, currents: &[f32]) {
        self.moving = currents.iter().any(|current| *current != 0.0);
        // Certainly backwards: some motor backwards, none forwards.
        let backwards = self.moving && currents.iter().all(|current| *current <= 0.0);
        match (self.backwards_since, backwards) {
            (None, true) => self.backwards_since = Some(at),
            (Some(since), false) => {
                if at.since(since) + Span::from_millis(100) > self.reverse_max {
                    self.exercised.push(Promise::Reverse);
                }
                self.backwards_since = None;
            }
            _ => {}
        }
    }

    /// The promises of this file that applied since the last call.
    pub fn take_exercised(&mut self) -> Vec<Promise> {
        std::mem::take(&mut self.exercised)
    }

    /// When a dead bus must have stopped the motors, if a line can.
    fn lost_from(facts: &Facts, from: Instant) -> Instant {
        let base = facts.reaction() + facts.timeout.times(2) + UNASKED;
        facts.deadline(from + facts.board.safety.wire_lost, base)
    }

    /// Whether a dead bus forces a stop at `at`.
    pub fn forces(&self, at: Instant, facts: &Facts) -> bool {
        let spells =
            facts.dead[self.next_dead.min(facts.dead.len())..].iter().take_while(|(from, _)| *from <= at);
        spells.into_iter().any(|(from, until)| Wire::lost_from(facts, *from) <= at && at < *until)
    }

    /// Returns a breach if there was motion that the state of the wires forbids.
    pub fn check(&mut self, stretch: &Stretch<'_>, facts: &Facts) -> Option<Breach> {
        self.check_valid(stretch, facts)
            .or_else(|| self.check_bus(stretch, facts))
            .or_else(|| self.check_reverse(stretch, facts))
    }

    /// A command is valid for `command_valid` after its slot; a transfer on the bus at that time may finish.
    fn check_valid(&self, stretch: &Stretch<'_>, facts: &Facts) -> Option<Breach> {
        let valid_until = self.slot + facts.board.safety.command_valid;
        if valid_until + facts.bus_time >= stretch.until {
            return None;
        }
        let from = facts.deadline(valid_until, facts.bus_time);
        let what = || {
            format!(
                "no command since the slot of {:.4} s; the currents are {:?}",
                self.slot.as_nanos() as f64 / 1e9,
                stretch.currents
            )
        };
        (from < stretch.until).then(|| Breach {
            promise: Promise::CommandValid,
            at: from.max(stretch.from),
            what: what(),
        })
    }

    fn check_bus(&mut self, stretch: &Stretch<'_>, facts: &Facts) -> Option<Breach> {
        for (from, until) in facts.dead[self.next_dead.min(facts.dead.len())..]
            .iter()
            .take_while(|(from, _)| *from < stretch.until)
        {
            let lost = Wire::lost_from(facts, *from);
            let seconds = from.as_nanos() as f64 / 1e9;
            // A spell in `dead` includes the timeout of a hung transfer; other transfers may have succeeded
            // before.
            let let_go = Instant::ZERO + until.since(Instant::ZERO).less(facts.timeout);
            if facts.can_hold(*from, stretch.until)
                && lost < stretch.until.min(let_go)
                && stretch.moving_since < let_go
            {
                let what = format!(
                    "the motors' bus has been dead since {seconds:.4} s; the currents are {:?}",
                    stretch.currents
                );
                return Some(Breach { promise: Promise::BusLost, at: lost.max(stretch.from), what });
            }
            // No command got through for longer than `wire_lost`: the robot may not drive when the bus is
            // back.
            let silent =
                facts.board.safety.wire_lost + facts.board.safety.command_valid + facts.board.period.times(3);
            let back = facts.deadline(*until, facts.answered());
            if until.since(*from) > silent && stretch.moving_since <= *from && back < stretch.until {
                let what = format!(
                    "the motors' bus was dead from {seconds:.4} s to {:.4} s and the motors have not stood still since; the currents are {:?}",
                    until.as_nanos() as f64 / 1e9,
                    stretch.currents
                );
                return Some(Breach { promise: Promise::BusBack, at: back.max(stretch.from), what });
            }
            if stretch.from <= *until && *until < stretch.until && stretch.moving_since <= *from {
                self.exercised.push(Promise::BusBack);
            }
            if stretch.from <= *from && *from < stretch.until {
                self.exercised.push(Promise::BusLost);
            }
        }
        None
    }

    /// Returns a breach if the robot backed for longer than `reverse_max` plus the time that a command takes.
    fn check_reverse(&self, stretch: &Stretch<'_>, facts: &Facts) -> Option<Breach> {
        let since = self.backwards_since?;
        let base = facts.board.safety.reverse_max + facts.board.period;
        if since + base + facts.reaction() >= stretch.until {
            return None;
        }
        let from = facts.deadline(since + base, facts.reaction());
        let what = || {
            format!(
                "backwards since {:.4} s; the currents are {:?}",
                since.as_nanos() as f64 / 1e9,
                stretch.currents
            )
        };
        (from < stretch.until).then(|| Breach {
            promise: Promise::Reverse,
            at: from.max(stretch.from),
            what: what(),
        })
    }
}
