//! The halt: a stop request that any thread may raise and that the motors' bus thread checks before anything
//! else. It only bridges the time to the next tick, which takes the same sensor reading and decides what
//! happens from then on.

use crate::base::plan::Cause;
use crate::base::time::{Instant, Span};
use crate::system::executor::Waker;
use crate::system::rt::sync::{Arc, AtomicU64, OnceLock, Ordering};

/// A halt wakes the cutter only if the transfer in progress has taken this long. Most transfers are over by
/// then, and a second wake-up would delay every stop on a sound bus (by 12 of 60 us on the virtual bench).
/// Otherwise the cutter wakes when the command on the wire expires.
const LONG: Span = Span::from_millis(2);

/// The halt request. Raising it never blocks, locks or allocates.
#[derive(Debug, Default)]
pub struct Halt {
    /// How often it was raised.
    raised: AtomicU64,
    /// When it was last raised, nanoseconds.
    at: AtomicU64,
    /// How many halts the motors' bus thread has taken.
    taken: AtomicU64,
    by_cause: [AtomicU64; Cause::ALL.len()],
    waker: Arc<Waker>,
    /// When the transfer on the motors' bus began, nanoseconds; 0: none in progress.
    transfer: AtomicU64,
    /// What wakes the thread that cuts the motors' lines while a transfer hangs, if there is one.
    cutter: OnceLock<Arc<Waker>>,
}

impl Halt {
    /// A halt that wakes the worker behind `waker`.
    pub fn new(waker: Arc<Waker>) -> Halt {
        Halt { waker, ..Halt::default() }
    }

    /// A halt also wakes the cutter behind `waker` if the transfer in progress takes long.
    pub fn also_wake(&self, waker: Arc<Waker>) {
        let _ = self.cutter.set(waker); // set once, when the robot is assembled
    }

    /// A transfer on the motors' bus begins at `now`; `None`: the one in progress has ended.
    pub(super) fn transfer(&self, now: Option<Instant>) {
        self.transfer.store(now.map_or(0, |now| now.as_nanos().max(1)), Ordering::Relaxed);
    }

    /// When the transfer in progress began.
    pub(super) fn transfer_since(&self) -> Option<Instant> {
        let began = self.transfer.load(Ordering::Relaxed);
        (began != 0).then(|| Instant::from_nanos(began))
    }

    /// Stop now, because of `cause`. Commands for slots not later than `at` are no longer obeyed; so `at`
    /// must not be earlier than the moment at which the tick got the reading that caused the halt.
    pub fn raise(&self, cause: Cause, at: Instant) {
        self.note(cause);
        self.at.fetch_max(at.as_nanos(), Ordering::Relaxed);
        self.raised.fetch_add(1, Ordering::Release); // after `at`: a reader that sees the count sees the time
        self.waker.wake();
        if let Some(cutter) = self.cutter.get()
            && self.transfer_since().is_some_and(|began| at.since(began) >= LONG)
        {
            cutter.wake();
        }
    }

    /// Whether a halt was raised that the motors' bus thread has not taken yet.
    pub(super) fn is_pending(&self) -> bool {
        self.raised.load(Ordering::Relaxed) != self.taken.load(Ordering::Relaxed)
    }

    /// Counts a stop that the bus thread made itself.
    pub(super) fn note(&self, cause: Cause) {
        self.by_cause[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often each cause stopped the motors without waiting for the tick. Causes that never did are left
    /// out.
    pub fn counts(&self) -> impl Iterator<Item = (Cause, u64)> {
        let count = |cause: Cause| self.by_cause[cause as usize].load(Ordering::Relaxed);
        Cause::ALL.into_iter().map(move |cause| (cause, count(cause))).filter(|(_, count)| *count > 0)
    }
}

/// The receiving end, for the motors' bus thread.
#[derive(Debug)]
pub struct HaltWatch {
    halt: Arc<Halt>,
    taken: u64,
}

impl HaltWatch {
    /// Receives halts raised from now on.
    pub fn new(halt: Arc<Halt>) -> HaltWatch {
        let taken = halt.raised.load(Ordering::Relaxed); // relaxed, as in `is_raised`: only the count is read
        HaltWatch { halt, taken }
    }
    /// Whether a halt was raised that has not been taken.
    pub fn is_raised(&self) -> bool {
        self.halt.raised.load(Ordering::Relaxed) != self.taken
    }
    /// The time up to which commands are discarded, if a halt was raised since the last call.
    pub fn take(&mut self) -> Option<Instant> {
        let raised = self.halt.raised.load(Ordering::Acquire);
        if raised == self.taken {
            return None;
        }
        self.taken = raised;
        self.halt.taken.store(raised, Ordering::Relaxed);
        Some(Instant::from_nanos(self.halt.at.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::at;

    #[test]
    fn halt_is_received_once_with_its_latest_time_and_counted() {
        let halt = Arc::new(Halt::new(Arc::default()));
        let mut watch = HaltWatch::new(halt.clone());
        assert_eq!(watch.take(), None);
        assert!(!watch.is_raised());
        halt.raise(Cause::EStop, at(7));
        halt.raise(Cause::Cliff, at(5));
        assert!(watch.is_raised() && watch.is_raised(), "checking does not take the halt");
        assert_eq!(watch.take(), Some(at(7)), "a halt with an earlier time does not replace a later time");
        assert!(!watch.is_raised());
        assert_eq!(watch.take(), None);
        halt.raise(Cause::Cliff, at(9));
        assert_eq!(watch.take(), Some(at(9)));
        let counts: Vec<_> = halt.counts().collect();
        assert_eq!(counts, [(Cause::Cliff, 2), (Cause::EStop, 1)]);
    }
}
