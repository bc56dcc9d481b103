//! The threads that do I/O. They poll devices from a table (which device feeds which channel, how often, on
//! which bus) and turn the results into readings; `admit.rs` decides whether to believe them.
//!
//! `i2c` is the thread of a bus, made of `polls` (the table), `motors` (commands), `retry`,
//! `controller_timeout` and `ladder` (recovery). `edges`, `lines`, `slow` and `log` are the other threads;
//! `cut` stops the motors through their line while their bus hangs. `fast_stop` finds urgent readings; `halt`
//! and `data_ready` pass stops and poll requests to a bus thread; `counters` is for reports.

mod counters;
mod cut;
mod data_ready;
mod edges;
mod halt;
mod i2c;
mod ladder;
mod lines;
mod log;
mod motors;
mod polls;
mod retry;
mod controller_timeout;
mod slow;
mod fast_stop;

pub use counters::{BusCounters, DeviceCounters, SenseCounters};
pub use cut::{Cutter, InFlight, SharedLines};
pub use data_ready::DataReady;
pub use edges::EdgesWorker;
pub use fast_stop::FastStops;
pub use halt::{Halt, HaltWatch};
pub use i2c::{BusParts, I2cWorker};
pub use ladder::{DEAD_RETRY, Ladder, RecoveryStep};
pub use lines::{ButtonLine, LinesWorker, ReadyLine};
pub use log::{LogRows, LogWorker};
pub use motors::MotorEnd;
pub use polls::PollPlan;
pub use slow::SlowWorker;

use crate::base::frame::{MAX_SENSORS, Reading};
use crate::base::plan::Cause;
use crate::base::time::{Clock, Instant, Span};
use rtrb::Producer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Capacity of a worker's ring to the tick: many times what a period needs, because the fullest board makes
/// about twenty polls per period. The ring overflows only if the tick has stopped; the loss is counted.
pub const READING_RING: usize = 1024;

/// A worker's end of the ring to the tick.
pub struct Outlet {
    ring: Producer<Reading>,
    staged: heapless::Vec<Reading, MAX_SENSORS>,
    dropped: Arc<AtomicU64>,
}

impl Outlet {
    /// An outlet into `ring`; readings for which the ring has no room are counted in `dropped`.
    pub fn new(ring: Producer<Reading>, dropped: Arc<AtomicU64>) -> Outlet {
        Outlet { ring, staged: heapless::Vec::new(), dropped }
    }
    /// Stages `reading` for the next [`Outlet::publish`].
    pub fn stage(&mut self, reading: Reading) {
        if self.staged.push(reading).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
    /// Hands over the staged readings. A time read from the clock after this call is never earlier than the
    /// moment at which the tick could take the readings.
    pub fn publish(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        for &reading in &self.staged {
            if self.ring.push(reading).is_err() {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.staged.clear();
        // Without this fence the processor may read the time before other cores see its earlier writes.
        fence(Ordering::SeqCst);
    }
    /// Hands over the staged readings. If one of them tripped a stop rule (`crossed`), returns the cause with
    /// a time: the tick may have made its decisions before that time without those readings.
    fn publish_with(&mut self, crossed: &mut Option<Cause>, clock: &dyn Clock) -> Option<(Cause, Instant)> {
        self.publish();
        crossed.take().map(|cause| (cause, clock.now()))
    }
}

/// When a channel is due. Times are absolute, so a late poll does not shift the ones after it; a poll that is
/// more than a period late skips the missed ones.
#[derive(Clone, Copy, Debug)]
struct Due {
    period: Span,
    at: Instant,
}

impl Due {
    fn every(period: Span, first: Instant) -> Due {
        Due { period, at: first }
    }
    fn advance(&mut self, now: Instant) {
        self.at += self.period;
        if self.at <= now {
            self.at = now + self.period;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflowing_queue_counts_every_loss() {
        let (producer, mut consumer) = rtrb::RingBuffer::new(2);
        let dropped = Arc::new(AtomicU64::new(0));
        let mut outlet = Outlet::new(producer, dropped.clone());
        for channel in 0..5 {
            outlet.stage(Reading { channel, value: Ok(0.0), stamp: Instant::ZERO });
        }
        outlet.publish();
        outlet.publish();
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
        assert_eq!(consumer.pop().map(|r| r.channel), Ok(0));
        assert_eq!(consumer.pop().map(|r| r.channel), Ok(1));
        assert!(consumer.pop().is_err());
    }

    /// A clock that returns a new time on every call, and checks the ring before it does.
    struct Witness {
        ring: std::sync::Mutex<rtrb::Consumer<Reading>>,
        /// How many readings had been published at each returned time (1 ns, 2 ns, ...).
        published: std::sync::Mutex<Vec<usize>>,
    }
    impl Clock for Witness {
        fn now(&self) -> Instant {
            let mut published = self.published.lock().expect("one thread");
            published.push(self.ring.lock().expect("one thread").slots());
            Instant::from_nanos(published.len() as u64)
        }
        fn sleep_until(&self, _: Instant) {}
        fn is_real(&self) -> bool {
            false
        }
    }

    #[test]
    fn halt_time_is_not_before_its_reading_is_published() {
        let (producer, consumer) = rtrb::RingBuffer::new(2);
        let clock = Witness { ring: consumer.into(), published: Vec::new().into() };
        let mut outlet = Outlet::new(producer, Arc::default());
        clock.now();
        outlet.stage(Reading { channel: 0, value: Ok(0.0), stamp: Instant::ZERO });
        let mut crossed = Some(Cause::EStop);
        let (cause, at) = outlet.publish_with(&mut crossed, &clock).expect("it crossed");
        assert_eq!((cause, crossed), (Cause::EStop, None));
        // With an earlier time, a command decided in between would count as made with the reading.
        let published = clock.published.lock().expect("one thread");
        assert_eq!(published[at.as_nanos() as usize - 1], 1, "{published:?}");
        drop(published);
        assert_eq!(outlet.publish_with(&mut crossed, &clock), None, "reported once");
    }

    #[test]
    fn poll_keeps_its_grid_and_skips_missed_times() {
        let mut due = Due::every(Span::from_nanos(10), Instant::ZERO);
        due.advance(Instant::from_nanos(3));
        assert_eq!(due.at, Instant::from_nanos(10));
        due.advance(Instant::from_nanos(47));
        assert_eq!(due.at, Instant::from_nanos(57));
    }
}
