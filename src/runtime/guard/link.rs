//! Data about the guard that the threads of a runtime share: when it last sent a good answer, the line level
//! that a driver wants, and how each side waits for the other. Atomics and two event descriptors; no locks.

use super::frame::{GuardRefusal, GuardStatus, Phase, Reason};
use crate::base::fault::BusFault;
use crate::base::time::{Clock, Instant, Span};
use crate::system::seqpacket::{drain, wait_for};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The longest that a driver waits for the guard to switch the line: twice the usual timeout of 50 ms. The
/// driver asks while it sets up its chip, which takes half a second, and tries again later if that fails.
pub(super) const LONGEST_SET: Span = Span::from_millis(100);

/// The shared state. One per runtime.
pub struct Link {
    /// Send time of the newest request that got a good answer; 0: none yet.
    seen: AtomicU64,
    phase: AtomicU8,
    reason: AtomicU8,
    refused: AtomicU8,
    line: AtomicU8,
    trips: AtomicU32,
    stop: AtomicU8,
    connections: AtomicU64,
    /// A stop was requested: the line stays off until the robot is armed again, even if a driver wants it on.
    waits: AtomicBool,
    /// A driver wants the line on.
    wanted_on: AtomicBool,
    /// Number and level of a driver's newest request: `number << 1 | on`; 0: none yet.
    request: AtomicU64,
    /// Number and result of the newest request that was answered: `number << 1 | done`.
    reply: AtomicU64,
    /// Signaled by the driver.
    pub(super) asked: OwnedFd,
    /// Signaled by the heartbeat.
    done: OwnedFd,
    taken: AtomicBool,
    ending: AtomicBool,
    /// Steps the heartbeat in virtual time, where it has no thread.
    step: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What the runtime knows about its guard, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// The guard's newest status; `None`: it has not answered, is not connected, or trusts another runtime.
    pub status: Option<GuardStatus>,
    /// Why the guard refused this runtime.
    pub refused: Option<GuardRefusal>,
    /// How often a connection was made.
    pub connections: u64,
}

impl Link {
    /// A link before the first message. `wanted_on`: the line should be on although no driver asks for it.
    pub fn new(wanted_on: bool) -> io::Result<Arc<Link>> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Arc::new(Link {
            seen: AtomicU64::new(0),
            phase: AtomicU8::new(NOT_CONNECTED),
            reason: AtomicU8::new(0),
            refused: AtomicU8::new(0),
            line: AtomicU8::new(0),
            trips: AtomicU32::new(0),
            stop: AtomicU8::new(0),
            waits: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            wanted_on: AtomicBool::new(wanted_on),
            request: AtomicU64::new(0),
            reply: AtomicU64::new(0),
            asked: eventfd(0, flags)?,
            done: eventfd(0, flags)?,
            taken: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            step: OnceLock::new(),
        }))
    }

    /// The current state.
    pub fn look(&self) -> LinkState {
        let reason = self.reason.load(Ordering::Relaxed);
        let reason = Reason::ALL.into_iter().find(|known| *known as u8 == reason);
        let phase = match (self.phase.load(Ordering::Relaxed), reason) {
            (0, _) => Some(Phase::Waiting),
            (1, _) => Some(Phase::Greeted),
            (2, _) => Some(Phase::Trusted),
            (3, Some(reason)) => Some(Phase::Tripped(reason)),
            _ => None,
        };
        let line = self.line.load(Ordering::Relaxed);
        let status = phase.map(|phase| GuardStatus {
            phase,
            line_on: line & 1 != 0,
            line_sound: line & 2 != 0,
            trips: self.trips.load(Ordering::Relaxed),
            beats: 0,
            stop: self.stop.load(Ordering::Relaxed),
        });
        let refused = GuardRefusal::of(self.refused.load(Ordering::Relaxed));
        LinkState { status, refused, connections: self.connections.load(Ordering::Relaxed) }
    }

    /// Whether the guard trusts this runtime now.
    pub fn is_trusted(&self) -> bool {
        self.phase.load(Ordering::Acquire) == TRUSTED
    }

    /// Whether the line should be on.
    pub(super) fn wanted_on(&self) -> bool {
        self.wanted_on.load(Ordering::Acquire)
    }

    /// Whether the line stays off until the robot is armed.
    pub(super) fn waits(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }
    pub(super) fn wait_for_arming(&self, waits: bool) {
        self.waits.store(waits, Ordering::Release);
    }

    /// Claims the line for a driver; `false`: the line already has an owner.
    pub(super) fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::AcqRel)
    }
    pub(super) fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// Requests, for a driver, that the line be switched on or off, and waits for the answer, at most
    /// [`LONGEST_SET`]. After that, the request is withdrawn.
    pub(super) fn request(&self, on: bool, clock: &dyn Clock) -> Result<(), BusFault> {
        self.wanted_on.store(on, Ordering::Release);
        let number = (self.request.load(Ordering::Relaxed) >> 1) + 1;
        let request = number << 1 | u64::from(on);
        self.request.store(request, Ordering::Release);
        ring(&self.asked);
        if let Some(step) = self.step.get() {
            step();
        }
        let until = clock.now() + LONGEST_SET;
        loop {
            let reply = self.reply.load(Ordering::Acquire);
            if reply >> 1 == number {
                return if reply & 1 == 1 { Ok(()) } else { Err(BusFault::TimedOut) };
            }
            let left = until.since(clock.now());
            if left == Span::ZERO {
                // The number counts as answered, so a late answer matches no request.
                self.reply.store(number << 1, Ordering::Release);
                return Err(BusFault::TimedOut);
            }
            match self.step.get() {
                // The step has run, and nothing else can deliver an answer while this driver waits.
                Some(_) => clock.sleep_until(until),
                None => _ = wait_for(&[&self.done], left),
            }
            drain(&self.done);
        }
    }

    /// Sets the function that steps the heartbeat in virtual time; it is called when a driver asks.
    pub fn step_by(&self, step: Box<dyn Fn() + Send + Sync>) {
        let _ = self.step.set(step); // a link has one heartbeat
    }

    /// Number and level of the newest request, if it has no answer yet.
    pub(super) fn pending(&self) -> Option<(u64, bool)> {
        let request = self.request.load(Ordering::Acquire);
        let answered = self.reply.load(Ordering::Acquire) >> 1;
        (request >> 1 > answered).then_some((request >> 1, request & 1 == 1))
    }

    /// The guard has answered request `number`.
    pub(super) fn answer(&self, number: u64, done: bool) {
        if self.pending().is_some_and(|(pending, _)| pending == number) {
            self.reply.store(number << 1 | u64::from(done), Ordering::Release);
            ring(&self.done);
        }
    }

    /// The process's descriptors that the heartbeat thread needs, besides those that it opens itself.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.asked.as_fd(), self.done.as_fd()]
    }

    /// A connection was made.
    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// The connection is gone.
    pub(super) fn lost(&self) {
        self.phase.store(NOT_CONNECTED, Ordering::Release);
    }

    /// Stores the guard's status, from its answer to a request that was sent at `made`.
    pub fn update(&self, status: &GuardStatus, refused: Option<GuardRefusal>, made: Instant) {
        let (phase, reason) = match status.phase {
            // The guard trusts another runtime.
            Phase::Trusted if !matches!(refused, None | Some(GuardRefusal::Line)) => (NOT_OURS, 0),
            Phase::Waiting => (0, 0),
            Phase::Greeted => (1, 0),
            Phase::Trusted => (TRUSTED, 0),
            Phase::Tripped(reason) => (3, reason as u8),
        };
        self.reason.store(reason, Ordering::Relaxed);
        self.refused.store(refused.map_or(0, |refused| refused as u8), Ordering::Relaxed);
        self.line.store(u8::from(status.line_on) | u8::from(status.line_sound) << 1, Ordering::Relaxed);
        self.trips.store(status.trips, Ordering::Relaxed);
        self.stop.store(status.stop, Ordering::Relaxed);
        self.phase.store(phase, Ordering::Release);
        // A robot whose line should be on but is off cannot drive, so such an answer does not count as good.
        let may_be_off = !self.wanted_on() || self.waits();
        let follows = status.line_sound && (status.line_on || may_be_off);
        if phase == TRUSTED && follows {
            self.seen.fetch_max(made.as_nanos(), Ordering::Release);
        }
    }

    /// Makes the heartbeat end.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        ring(&self.asked);
    }
    pub(super) fn ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }
}

const TRUSTED: u8 = 2;
const NOT_OURS: u8 = 4;
const NOT_CONNECTED: u8 = u8::MAX;

/// Makes `descriptor` readable.
fn ring(descriptor: &OwnedFd) {
    // Cannot fail: the counter is full only after 2^64 signals without a read.
    let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
}

/// The tick's view of the guard.
#[derive(Clone)]
pub struct GuardHealth {
    link: Arc<Link>,
    timeout: Span,
}

impl GuardHealth {
    /// The guard behind `link`. It is lost if its newest good answer is to a request older than `timeout`.
    pub fn new(link: Arc<Link>, timeout: Span) -> GuardHealth {
        GuardHealth { link, timeout }
    }

    /// Whether the guard is lost: it died, hangs, has switched the line off or never answered. Costs one
    /// load.
    pub fn lost(&self, now: Instant) -> bool {
        let seen = self.link.seen.load(Ordering::Acquire);
        seen == 0 || now.since(Instant::from_nanos(seen)) > self.timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::MonotonicClock;
    use crate::decision::fixture::{at, ms};

    const WELL: GuardStatus =
        GuardStatus { phase: Phase::Trusted, line_on: true, line_sound: true, trips: 0, beats: 0, stop: 0 };

    #[test]
    fn guard_is_lost_until_seen_and_again_after_the_timeout() {
        let link = Link::new(true).unwrap();
        let health = GuardHealth::new(link.clone(), ms(50));
        assert!(health.lost(at(0)) && health.lost(at(1_000)));
        link.update(&WELL, None, at(1_000));
        assert!(!health.lost(at(1_000)) && !health.lost(at(1_050)));
        assert!(health.lost(at(1_051)));
        for unwell in [
            GuardStatus { phase: Phase::Tripped(Reason::Stalled), ..WELL },
            GuardStatus { phase: Phase::Tripped(Reason::Asked), stop: 3, ..WELL },
            GuardStatus { line_on: false, ..WELL },
            GuardStatus { line_sound: false, ..WELL },
        ] {
            link.update(&unwell, None, at(2_000));
            assert!(health.lost(at(2_000)), "{unwell:?}");
            assert_eq!(link.look().status, Some(unwell));
        }
        link.update(&WELL, Some(GuardRefusal::Busy), at(2_500));
        assert!(health.lost(at(2_500)) && !link.is_trusted(), "it trusts another runtime");
        link.update(&WELL, None, at(3_000));
        link.update(&WELL, None, at(2_900));
        assert!(!health.lost(at(3_050)), "an older answer does not replace a newer one");
    }

    #[test]
    fn the_line_may_be_off_while_no_driver_wants_it_on() {
        let link = Link::new(false).unwrap();
        link.update(&GuardStatus { line_on: false, ..WELL }, None, at(1_000));
        assert!(!GuardHealth::new(link, ms(50)).lost(at(1_000)));
    }

    #[test]
    fn line_waiting_for_arming_may_be_off_while_wanted_on() {
        let link = Link::new(true).unwrap();
        let health = GuardHealth::new(link.clone(), ms(50));
        link.wait_for_arming(true);
        link.update(&GuardStatus { line_on: false, ..WELL }, None, at(1_000));
        assert!(!health.lost(at(1_000)), "the robot can be armed");
        link.wait_for_arming(false);
        link.update(&GuardStatus { line_on: false, ..WELL }, None, at(2_000));
        assert!(health.lost(at(2_000)));
    }

    #[test]
    fn unanswered_request_times_out_and_is_withdrawn() {
        let link = Link::new(false).unwrap();
        assert_eq!(link.request(true, &MonotonicClock), Err(BusFault::TimedOut));
        assert_eq!(link.pending(), None);
        link.answer(1, true);
        assert_eq!(link.pending(), None);
        assert!(link.wanted_on(), "the driver still wants it on");
    }

    #[test]
    fn only_the_answer_with_its_number_settles_a_request() {
        let link = Link::new(false).unwrap();
        for (level, done) in [(true, true), (false, true), (true, false)] {
            let driver = std::thread::spawn({
                let link = link.clone();
                move || link.request(level, &MonotonicClock)
            });
            let (number, on) = loop {
                wait_for(&[&link.asked], ms(20));
                if let Some(pending) = link.pending() {
                    break pending;
                }
            };
            drain(&link.asked);
            assert_eq!(on, level);
            link.answer(number + 1, !done);
            link.answer(number, done);
            let expected = if done { Ok(()) } else { Err(BusFault::TimedOut) };
            assert_eq!(driver.join().unwrap(), expected);
        }
    }

    #[test]
    fn the_line_has_one_owner() {
        let link = Link::new(false).unwrap();
        assert!(link.take() && !link.take());
        link.give_back();
        assert!(link.take());
    }
}
