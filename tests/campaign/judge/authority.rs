//! Who let the robot move: requests to arm, and all that takes the permission back. Knows no sensor's value.

use super::super::script::Ask;
use super::facts::Facts;
use super::promise::Promise;
use super::{Breach, Stretch};
use ganglion::base::time::{Instant, Span};

/// Added to `disarm_after_ms` before motion without a new arming is a breach: the loop may have been late by
/// as much.
const AFTER_SLACK: Span = Span::from_millis(700);

/// A guard that runs moves its line within this.
const LINE_OFF: Span = Span::from_millis(1);

/// Motion that is allowed for less than this does not begin the count of `disarm_after_ms` anew.
const LEAST_FREE: Span = Span::from_millis(100);

/// Why the robot must not move, and from when on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Revoked {
    promise: Promise,
    raised: Instant,
    deadline: Instant,
}

/// The permission.
#[derive(Debug)]
pub struct Authority {
    revoked: Option<Revoked>,
    /// Something latched that a disarm has not acknowledged.
    latched: bool,
    buttons_down: u32,
    /// A disarm that came a moment before the cause was gone may still count.
    releasing_until: Instant,
    ended: bool,
    armed_at: Option<Instant>,
    /// The motors have turned by the present permission: the robot is armed. One that only may be is not
    /// disarmed.
    has_moved: bool,
    forced_since: Option<Instant>,
    /// Motion has been allowed since.
    free_since: Option<Instant>,
}

impl Authority {
    /// A robot without any request yet.
    pub fn new(facts: &Facts) -> Authority {
        let unarmed = Revoked { promise: Promise::Unarmed, raised: Instant::ZERO, deadline: Instant::ZERO };
        Authority {
            revoked: (!facts.board.safety.auto_arm).then_some(unarmed),
            latched: false,
            buttons_down: 0,
            releasing_until: Instant::ZERO,
            ended: false,
            armed_at: None,
            has_moved: false,
            forced_since: None,
            free_since: None,
        }
    }

    /// Motion without permission.
    pub fn check(&mut self, stretch: &Stretch<'_>) -> Option<Breach> {
        self.has_moved |= self.revoked.is_none();
        let revoked = self.revoked.filter(|revoked| revoked.deadline < stretch.until)?;
        let at = revoked.deadline.max(stretch.from);
        let what = format!(
            "no caller armed the robot since {:.4} s ({}), and the currents are {:?}",
            revoked.raised.as_nanos() as f64 / 1e9,
            revoked.promise.name(),
            stretch.currents
        );
        Some(Breach { promise: revoked.promise, at, what })
    }

    fn revoke(&mut self, promise: Promise, raised: Instant, deadline: Instant) {
        self.has_moved = false;
        // The first reason has the earlier deadline.
        self.revoked.get_or_insert(Revoked { promise, raised, deadline });
    }

    /// The same for what an arming alone does not lift: it is named before what an arming would have lifted.
    fn revoke_for_long(&mut self, promise: Promise, raised: Instant, deadline: Instant) {
        self.revoke(promise, raised, deadline);
        if !std::mem::replace(&mut self.latched, true) {
            self.revoked.iter_mut().for_each(|revoked| (revoked.promise, revoked.raised) = (promise, raised));
        }
    }

    /// A request; `tripped`: a latched rule's limit is passed just now. A disarm and a stop are seen in
    /// the next slot and written in it: two periods and the bus.
    pub fn ask(&mut self, ask: Ask, at: Instant, tripped: bool, facts: &Facts) {
        match ask {
            Ask::Arm => {
                self.armed_at = Some(at);
                if self.free_since.is_some() {
                    self.forced_since = None; // it was not armed for all of it
                }
                if !self.latched && !self.ended {
                    self.revoked = None;
                }
            }
            Ask::Disarm => {
                self.releasing_until = self.releasing_until.max(at + facts.board.period.times(2));
                self.release(tripped);
                self.revoke(Promise::Disarm, at, facts.deadline(at, facts.reaction()));
            }
            Ask::Stop => {
                self.ended = true;
                self.revoke(Promise::Stop, at, facts.deadline(at, facts.reaction()));
            }
        }
    }

    /// A disarm acknowledges what is not there any more.
    fn release(&mut self, tripped: bool) {
        self.latched &= tripped || self.buttons_down > 0;
    }

    /// A sensor answered, or a button came up: a disarm just before may count now.
    pub fn heard(&mut self, at: Instant, tripped: bool) {
        if self.latched && at <= self.releasing_until {
            self.release(tripped);
        }
    }

    /// The machine wakes: any permission to move is from before. The first slot after it sees that, and
    /// what that slot orders is written behind what is on the bus. A machine that fell asleep in the middle
    /// of a slot, behind the loop's look, runs that slot to its end first; the next one comes a period later
    /// by a clock that stood still. Where that slot is late, the half slot's command may be obeyed until its
    /// `command_valid` is over, which `deadline` allows for.
    pub fn woke(&mut self, at: Instant, facts: &Facts) {
        let base = facts.board.period + facts.bus_time;
        self.revoke(Promise::Slept, at, facts.deadline(at, base));
    }

    /// A caller asks the guard for a safe-stop. Where it `lasts`, the line is off at once. A runtime that
    /// hears of it disarms, and a person's disarm it is: it acknowledges what latched, as `ganglion disarm`
    /// does.
    pub fn safe_stop(&mut self, lasts: bool, at: Instant, tripped: bool, facts: &Facts) {
        self.releasing_until = self.releasing_until.max(facts.heard_by(at));
        if lasts {
            self.revoke(Promise::SafeStop, at, at + LINE_OFF);
        }
        self.release(tripped);
    }

    /// A latched rule trips.
    pub fn latch(&mut self, promise: Promise, at: Instant, facts: &Facts) {
        self.revoke_for_long(promise, at, facts.deadline(at, facts.reaction()));
    }

    /// A stop button: its edge is heard at once, without a debounce. Two periods and the bus after it can be
    /// heard.
    pub fn button(&mut self, pressed: bool, at: Instant, facts: &Facts) {
        if pressed {
            self.buttons_down += 1;
            let heard = facts.heard_of_button(at);
            self.revoke_for_long(Promise::Press, at, facts.deadline(heard, facts.reaction()));
        } else {
            self.buttons_down -= 1;
            if at <= self.releasing_until {
                self.release(false);
            }
        }
    }

    /// Whether something other than this file's business forces stillness at `at`. When that ends after
    /// `disarm_after`, the permission is gone, unless a caller armed at the very end. Motion has to be
    /// allowed for `settle_ms`, at least 100 ms, to begin the count anew. Whether it was taken back now.
    pub fn force(&mut self, forced: bool, at: Instant, facts: &Facts) -> bool {
        if !self.has_moved {
            (self.forced_since, self.free_since) = (None, None);
            return false;
        }
        if forced {
            let counts = |free: Instant| at.since(free) >= facts.board.safety.settle.max(LEAST_FREE);
            if self.free_since.take().is_some_and(counts) {
                self.forced_since = None;
            }
            self.forced_since.get_or_insert(at);
            return false;
        }
        let Some(since) = self.forced_since.filter(|_| self.free_since.is_none()) else { return false };
        self.free_since = Some(at);
        let long = facts.disarm_after + facts.board.period.times(4) + AFTER_SLACK;
        let armed_late = self.armed_at.is_some_and(|armed| armed + facts.board.period.times(3) >= at);
        if at.since(since) < long || armed_late || self.revoked.is_some() {
            return false;
        }
        self.revoke(Promise::DisarmAfter, since, at);
        true
    }
}
