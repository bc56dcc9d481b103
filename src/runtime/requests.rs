//! What people, signals and the guard request of a running robot: other threads set it, the tick takes it.

use crate::base::time::Instant;
use crate::decision::mode::Asked;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The requests. Read once a slot.
#[derive(Debug, Default)]
pub struct Requests {
    /// Stop and stay stopped: Ctrl-C, SIGTERM, the end of the run.
    pub stop: AtomicBool,
    /// Stop until armed again; acknowledges what is latched. The slot that reads it clears it.
    pub disarm: AtomicBool,
    /// Obey the field. The slot that reads it clears it.
    pub arm: AtomicBool,
    /// Until when a request to arm counts, in nanoseconds of the tick's clock; 0: for ever. See
    /// [`Requests::ask_to_arm`].
    pub arm_until: AtomicU64,
}

impl Requests {
    /// Requests arming, by a slot that begins no later than `until`: a process that was suspended in between
    /// must not obey a caller that got the answer long ago that the request failed.
    pub fn ask_to_arm(&self, until: Instant) {
        self.arm_until.store(until.as_nanos(), Ordering::Release);
        self.arm.store(true, Ordering::Release);
    }

    /// Withdraws a request to arm that no slot has seen, unless a newer one than that until `until` was made.
    pub fn withdraw_arming(&self, until: Instant) {
        if self.arm_until.load(Ordering::Acquire) == until.as_nanos() {
            self.arm.store(false, Ordering::Release);
        }
    }

    /// The requests at `now`; a request to disarm or to arm counts once.
    pub(crate) fn take(&self, now: Instant) -> Asked {
        let arm = self.arm.swap(false, Ordering::AcqRel);
        let until = self.arm_until.load(Ordering::Acquire);
        Asked {
            stop: self.stop.load(Ordering::Acquire),
            disarm: self.disarm.swap(false, Ordering::AcqRel),
            arm: arm && (until == 0 || now.as_nanos() <= until),
        }
    }
}
