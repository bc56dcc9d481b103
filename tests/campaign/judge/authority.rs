//! Who allowed the robot to move: requests to arm, and everything that withdraws the permission. Uses no
//! sensor values.

use super::super::script::Ask;
use super::facts::Facts;
use super::promise::Promise;
use super::{Breach, Stretch};
use ganglion::base::time::{Instant, Span};

/// Allowance on top of `disarm_after_ms`, because the loop may have been this late: motion without a new
/// arming is a breach only after both.
const AFTER_SLACK: Span = Span::from_millis(700);

/// A running guard switches its line within this time.
const LINE_OFF: Span = Span::from_millis(1);

/// Motion that is allowed for less than this does not restart the count of `disarm_after_ms`.
const LEAST_FREE: Span = Span::from_millis(100);

/// Why the robot must not move, and from when.
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
    /// Something latched, and no disarm has acknowledged it.
    latched: bool,
    buttons_down: u32,
    /// Until then, a disarm that came before its cause ended may still acknowledge the cause.
    releasing_until: Instant,
    ended: bool,
    armed_at: Option<Instant>,
    /// The motors have turned under the present permission, so the robot is certainly armed. Until then it
    /// may or may not be armed, and does not count as disarmed.
    has_moved: bool,
    forced_since: Option<Instant>,
    /// The time from which nothing has forced a stop.
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

    /// Returns a breach if there was motion without permission.
    pub fn check(&mut self, stretch: &Stretch<'_>) -> Option<Breach> {
        self.has_moved |= self.revoked.is_none();
        let revoked = self.revoked.filter(|revoked| revoked.deadline < stretch.until)?;
        let at = revoked.deadline.max(stretch.from);
        let what = format!(
            "no caller has armed the robot since {:.4} s ({}), and the currents are {:?}",
            revoked.raised.as_nanos() as f64 / 1e9,
            revoked.promise.name(),
            stretch.currents
        );
        Some(Breach { promise: revoked.promise, at, what })
    }

    fn revoke(&mut self, promise: Promise, raised: Instant, deadline: Instant) {
        self.has_moved = false;
        // The first reason stays: its deadline is earlier.
        self.revoked.get_or_insert(Revoked { promise, raised, deadline });
    }

    /// Revokes for a reason that arming alone does not clear. A breach names this reason rather than one that
    /// arming would have cleared.
    fn revoke_for_long(&mut self, promise: Promise, raised: Instant, deadline: Instant) {
        self.revoke(promise, raised, deadline);
        if !std::mem::replace(&mut self.latched, true) {
            self.revoked.iter_mut().for_each(|revoked| (revoked.promise, revoked.raised) = (promise, raised));
        }
    }

    /// Takes a caller's request; `tripped`: a cause that would latch again is present at this time. A disarm
    /// and a stop are seen in the next slot and written in it: two periods and the bus time.
    pub fn ask(&mut self, ask: Ask, at: Instant, tripped: bool, facts: &Facts) {
        match ask {
            Ask::Arm => {
                self.armed_at = Some(at);
                if self.free_since.is_some() {
                    self.forced_since = None; // the robot was not armed for all of that time
                }
                if !self.latched && !self.ended {
                    self.revoked = None;
                }
            }
            Ask::Disarm => {
                self.releasing_until = self.releasing_until.max(facts.seen_by_loop(at));
                self.release(tripped);
                self.revoke(Promise::Disarm, at, facts.deadline(at, facts.reaction()));
            }
            Ask::Stop => {
                self.ended = true;
                self.revoke(Promise::Stop, at, facts.deadline(at, facts.reaction()));
            }
        }
    }

    /// A disarm acknowledges causes that have ended.
    fn release(&mut self, tripped: bool) {
        self.latched &= tripped || self.buttons_down > 0;
    }

    /// A sensor or the brain answered: a disarm shortly before may acknowledge the cause now.
    pub fn heard(&mut self, at: Instant, tripped: bool) {
        if self.latched && at <= self.releasing_until {
            self.release(tripped);
        }
    }

    /// The machine wakes. Any permission to move dates from before the suspend, so it is revoked. The first
    /// slot afterwards notices the suspend, and its stop is written after whatever is on the bus. If the
    /// machine was suspended in the middle of a slot, after the loop's check, the loop first completes that
    /// slot; the next slot comes one period later by a clock that stood still during the suspend. If that
    /// next slot is late, the interrupted slot's command may be obeyed until its `command_valid` is over,
    /// which `deadline` allows for.
    pub fn woke(&mut self, at: Instant, facts: &Facts) {
        let base = facts.board.period + facts.bus_time;
        self.revoke(Promise::Slept, at, facts.deadline(at, base));
    }

    /// A caller asks the guard for a safe-stop. If it `lasts`, the line goes off at once. A runtime that
    /// receives it disarms, and this counts as a disarm by a person: it acknowledges latched causes, as
    /// `ganglion disarm` does.
    pub fn safe_stop(&mut self, lasts: bool, at: Instant, tripped: bool, facts: &Facts) {
        self.releasing_until = self.releasing_until.max(facts.heard_by(at));
        if lasts {
            self.revoke(Promise::SafeStop, at, at + LINE_OFF);
        }
        self.release(tripped);
    }

    /// A cause latches: a latched rule has tripped, or the link is lost.
    pub fn latch(&mut self, promise: Promise, at: Instant, facts: &Facts) {
        self.revoke_for_long(promise, at, facts.deadline(at, facts.reaction()));
    }

    /// A stop button is pressed or released. Its edge is received at once, without debouncing, or when a late
    /// thread resumes. The deadline is two periods and the bus time after that.
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

    /// Whether something outside this file forces a stop at `at`. If such a stop lasts for longer than
    /// `disarm_after`, the permission is gone, unless a caller armed just before its end. The forced time
    /// starts again from zero only after motion was allowed for `settle_ms` or 100 ms, whichever is longer.
    /// Returns whether the permission was withdrawn now.
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
