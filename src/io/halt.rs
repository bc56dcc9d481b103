//! Stop before everything: a request that any thread may raise and that the motors' bus thread reads before
//! it does anything else. Not a decision: the tick reads the same sensor reading a moment later and decides
//! what happens from then on.

use crate::executor::Waker;
use crate::plan::Cause;
use crate::rt::sync::{Arc, AtomicU64, Ordering};
use crate::time::Instant;

/// The halt request. Raising it never blocks, locks or allocates.
#[derive(Debug, Default)]
pub struct Halt {
    /// How often it was raised.
    raised: AtomicU64,
    /// When it was last raised, nanoseconds.
    at: AtomicU64,
    by_cause: [AtomicU64; Cause::ALL.len()],
    waker: Arc<Waker>,
}

impl Halt {
    /// A halt that wakes the worker behind `waker`.
    pub fn new(waker: Arc<Waker>) -> Halt {
        Halt { waker, ..Halt::default() }
    }

    /// Stop now, because of `cause`. Commands for slots not later than `at` are no longer obeyed; so `at`
    /// must not be earlier than the moment at which the tick got the reading that caused the halt.
    pub fn raise(&self, cause: Cause, at: Instant) {
        self.note(cause);
        self.at.fetch_max(at.as_nanos(), Ordering::Relaxed);
        self.raised.fetch_add(1, Ordering::Release); // after `at`: a reader that sees the count sees the time
        self.waker.wake();
    }

    /// Counts a stop that the bus thread made itself.
    pub(super) fn note(&self, cause: Cause) {
        self.by_cause[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often each cause stopped the motors without waiting for the tick; others are left out.
    pub fn counts(&self) -> impl Iterator<Item = (Cause, u64)> {
        let count = |cause: Cause| self.by_cause[cause as usize].load(Ordering::Relaxed);
        Cause::ALL.into_iter().map(move |cause| (cause, count(cause))).filter(|(_, count)| *count > 0)
    }
}

/// The receiving end, for the motors' bus thread.
#[derive(Debug)]
pub struct HaltWatch {
    halt: Arc<Halt>,
    heard: u64,
}

impl HaltWatch {
    /// Receives what is raised from now on.
    pub fn new(halt: Arc<Halt>) -> HaltWatch {
        let heard = halt.raised.load(Ordering::Relaxed); // a count without further data; in `is_raised` too
        HaltWatch { halt, heard }
    }
    /// Whether a halt was raised that has not been taken.
    pub fn is_raised(&self) -> bool {
        self.halt.raised.load(Ordering::Relaxed) != self.heard
    }
    /// Until when commands are discarded, if a halt was raised since the last call.
    pub fn take(&mut self) -> Option<Instant> {
        let raised = self.halt.raised.load(Ordering::Acquire);
        if raised == self.heard {
            return None;
        }
        self.heard = raised;
        Some(Instant::from_nanos(self.halt.at.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;

    #[test]
    fn a_halt_is_heard_once_with_its_latest_time_and_counted_by_cause() {
        let halt = Arc::new(Halt::new(Arc::default()));
        let mut watch = HaltWatch::new(halt.clone());
        assert_eq!(watch.take(), None);
        assert!(!watch.is_raised());
        halt.raise(Cause::EStop, at(7));
        halt.raise(Cause::Cliff, at(5));
        assert!(watch.is_raised() && watch.is_raised(), "looking is not hearing");
        assert_eq!(watch.take(), Some(at(7)), "an earlier one does not shorten a later one");
        assert!(!watch.is_raised());
        assert_eq!(watch.take(), None);
        halt.raise(Cause::Cliff, at(9));
        assert_eq!(watch.take(), Some(at(9)));
        let counts: Vec<_> = halt.counts().collect();
        assert_eq!(counts, [(Cause::Cliff, 2), (Cause::EStop, 1)]);
    }
}
