//! Requests from users, signals and the guard to a running robot: other threads set them, the tick takes
//! them.

use crate::base::time::Instant;
use crate::decision::mode::Asked;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The requests. The tick reads them once per slot.
#[derive(Debug, Default)]
pub struct Requests {
    /// Stop and stay stopped: Ctrl-C, SIGTERM, the end of the run.
    pub stop: AtomicBool,
    /// Stop until armed again; also clears a latch. The slot that reads it clears the request.
    pub disarm: AtomicBool,
    /// Follow the field. The slot that reads it clears the request.
    pub arm: AtomicBool,
    /// When a request to arm expires, in nanoseconds of the tick's clock; 0: never. See
    /// [`Requests::ask_to_arm`].
    pub arm_until: AtomicU64,
    /// How often somebody asked to disarm or to stop.
    disarms: AtomicU64,
    /// A request to arm counts only while [`Requests::disarms`] is one less than this; 0: in any case.
    arm_before: AtomicU64,
}

impl Requests {
    /// Requests arming by a slot that begins no later than `until`. After that the caller has been told that
    /// the request failed, so a process that was suspended in between must not arm. The request also counts
    /// only if nobody has asked to disarm since [`Requests::disarms`] was `disarms`: the caller may have
    /// waited long.
    pub fn ask_to_arm(&self, until: Instant, disarms: u64) {
        self.arm_until.store(until.as_nanos(), Ordering::Release);
        self.arm_before.store(disarms.saturating_add(1), Ordering::Release);
        self.arm.store(true, Ordering::Release);
    }

    /// Requests to disarm. Older requests to arm no longer count.
    pub fn ask_to_disarm(&self) {
        self.outdate_arming();
        self.disarm.store(true, Ordering::Release);
    }

    /// Makes older requests to arm void: somebody asked to disarm or to stop.
    pub fn outdate_arming(&self) {
        self.disarms.fetch_add(1, Ordering::AcqRel);
    }

    /// How often somebody asked to disarm or to stop.
    pub fn disarms(&self) -> u64 {
        self.disarms.load(Ordering::Acquire)
    }

    /// Withdraws the request to arm that expires at `until`, if no slot has seen it and no other request has
    /// replaced it.
    pub fn withdraw_arming(&self, until: Instant) {
        if self.arm_until.load(Ordering::Acquire) == until.as_nanos() {
            self.arm.store(false, Ordering::Release);
        }
    }

    /// Takes the requests at `now`; a request to disarm or to arm takes effect once.
    pub(crate) fn take(&self, now: Instant) -> Asked {
        let arm = self.arm.swap(false, Ordering::AcqRel);
        let until = self.arm_until.load(Ordering::Acquire);
        let disarm = self.disarm.swap(false, Ordering::AcqRel);
        // Checked here and not where arming is requested: a disarm may come in between. Its count is advanced
        // first, so a slot that has taken a disarm takes no older request to arm.
        let before = self.arm_before.load(Ordering::Acquire);
        let is_valid = before == 0 || before == self.disarms() + 1;
        Asked {
            stop: self.stop.load(Ordering::Acquire),
            disarm,
            arm: arm && is_valid && (until == 0 || now.as_nanos() <= until),
        }
    }
}
