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
}

impl Requests {
    /// Requests arming by a slot that begins no later than `until`. After that the caller has been told that
    /// the request failed, so a process that was suspended in between must not arm.
    pub fn ask_to_arm(&self, until: Instant) {
        self.arm_until.store(until.as_nanos(), Ordering::Release);
        self.arm.store(true, Ordering::Release);
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
        Asked {
            stop: self.stop.load(Ordering::Acquire),
            disarm: self.disarm.swap(false, Ordering::AcqRel),
            arm: arm && (until == 0 || now.as_nanos() <= until),
        }
    }
}
