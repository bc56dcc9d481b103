//! The clock of a replay: it returns the recorded times.

use crate::base::time::{Clock, Instant, Span};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many times a tick reads the clock: at its start, before it writes its record, and after everything.
const TIMES: usize = 3;

/// The next times that the clock returns.
#[derive(Debug, Default)]
pub struct Script {
    times: [AtomicU64; TIMES],
    next: AtomicUsize,
    slept: AtomicU64,
}

impl Script {
    /// Sets the clock readings of the next tick, and how long the machine slept before it.
    pub fn play(&self, times: [Instant; TIMES], slept: Option<Span>) {
        for (place, time) in self.times.iter().zip(times) {
            place.store(time.as_nanos(), Ordering::Relaxed);
        }
        self.next.store(0, Ordering::Relaxed);
        self.slept.fetch_add(slept.map_or(0, Span::as_nanos), Ordering::Relaxed);
    }
}

impl Clock for Script {
    fn now(&self) -> Instant {
        let place = self.next.fetch_add(1, Ordering::Relaxed).min(TIMES - 1);
        Instant::from_nanos(self.times[place].load(Ordering::Relaxed))
    }
    fn sleep_until(&self, _at: Instant) {}
    fn slept(&self) -> Span {
        Span::from_nanos(self.slept.load(Ordering::Relaxed))
    }
    fn is_real(&self) -> bool {
        false
    }
}
