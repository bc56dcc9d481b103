//! What people, signals and the guard ask of a running robot: left by other threads, taken by the tick once a slot.

use crate::mode::Asked;
use crate::time::Instant;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is asked. Read once a slot.
#[derive(Debug, Default)]
pub struct Requests {
    /// Stop and stay stopped: Ctrl-C, SIGTERM, the end of the run.
    pub stop: AtomicBool,
    /// Stand still until armed again; acknowledges what is latched. Taken by the slot that sees it.
    pub disarm: AtomicBool,
    /// Obey the field. Taken by the slot that sees it.
    pub arm: AtomicBool,
    /// Until when a request to arm counts, in nanoseconds of the tick's clock; 0: for ever. See [`Requests::ask_to_arm`].
    pub arm_until: AtomicU64,
}

impl Requests {
    /// Asks for arming, by a slot that begins until `until`: a process that was stopped meanwhile does not obey a
    /// caller who was told long ago that it failed.
    pub fn ask_to_arm(&self, until: Instant) {
        self.arm_until.store(until.as_nanos(), Ordering::Release);
        self.arm.store(true, Ordering::Release);
    }

    /// Takes back a request to arm that no slot has seen, unless a newer one than that until `until` was made.
    pub fn withdraw_arming(&self, until: Instant) {
        if self.arm_until.load(Ordering::Acquire) == until.as_nanos() {
            self.arm.store(false, Ordering::Release);
        }
    }

    /// What is asked at `now`; a request to disarm or to arm counts once.
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
