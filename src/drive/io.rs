//! The polling table at work: which device feeds which channel, how often, on which bus thread. This module
//! polls devices and turns the results into readings; `admit.rs` decides whether to believe them.

//!
//! `i2c` is the thread of a bus, made of `polls` (the table), `motors` (commands), `retry`,
//! `controller_timeout` and `ladder` (recovery). `edges`, `lines`, `slow` and `log` are the threads beside
//! it; `cut` stops the motors by their line while their bus hangs. `fast_stop` finds urgent readings; `halt`
//! and `data_ready` pass that on to a bus thread; `counters` is for reports.

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
pub use ladder::{DEAD_LOOK, Ladder, RecoveryStep};
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

/// Readings that fit between two ticks on one bus, many times over: the fullest board polls about twenty a
/// period. The ring overflows only if the tick has stopped; the loss is counted.
pub const READING_RING: usize = 1024;

/// Where a worker's readings leave for the tick.
pub struct Outlet {
    ring: Producer<Reading>,
    staged: heapless::Vec<Reading, MAX_SENSORS>,
    dropped: Arc<AtomicU64>,
}

impl Outlet {
    /// An outlet into `ring`; what does not fit is counted in `dropped`.
    pub fn new(ring: Producer<Reading>, dropped: Arc<AtomicU64>) -> Outlet {
        Outlet { ring, staged: heapless::Vec::new(), dropped }
    }
    /// Keeps `reading` for the next hand-over.
    pub fn stage(&mut self, reading: Reading) {
        if self.staged.push(reading).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
    /// Hands over what was staged. A time that is read after this is not earlier than the moment at which the
    /// tick could have the readings.
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
        // The processor may read the time before other cores see what it wrote earlier.
        fence(Ordering::SeqCst);
    }
    /// Hands over what was staged. Takes the cause from `crossed`, if a reading crossed into a stop rule,
    /// with a time: what the tick decided before it may not take those readings into account.
    fn publish_with(&mut self, crossed: &mut Option<Cause>, clock: &dyn Clock) -> Option<(Cause, Instant)> {
        self.publish();
        crossed.take().map(|cause| (cause, clock.now()))
    }
}

/// An entry of the polling table: when a channel is due. Absolute times, so a late poll does not shift the
/// ones after it; a poll more than a period late drops the missed ones.
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
        /// For each time that was returned, in nanoseconds from 1, the readings that had left by then.
        had_left: std::sync::Mutex<Vec<usize>>,
    }
    impl Clock for Witness {
        fn now(&self) -> Instant {
            let mut had_left = self.had_left.lock().expect("one thread");
            had_left.push(self.ring.lock().expect("one thread").slots());
            Instant::from_nanos(had_left.len() as u64)
        }
        fn sleep_until(&self, _: Instant) {}
        fn is_real(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_halt_is_stamped_when_its_reading_was_sent() {
        let (producer, consumer) = rtrb::RingBuffer::new(2);
        let clock = Witness { ring: consumer.into(), had_left: Vec::new().into() };
        let mut outlet = Outlet::new(producer, Arc::default());
        clock.now();
        outlet.stage(Reading { channel: 0, value: Ok(0.0), stamp: Instant::ZERO });
        let mut crossed = Some(Cause::EStop);
        let (cause, at) = outlet.publish_with(&mut crossed, &clock).expect("it crossed");
        assert_eq!((cause, crossed), (Cause::EStop, None));
        // With an earlier date, a command decided in between would count as one that knew of it.
        let had_left = clock.had_left.lock().expect("one thread");
        assert_eq!(had_left[at.as_nanos() as usize - 1], 1, "{had_left:?}");
        drop(had_left);
        assert_eq!(outlet.publish_with(&mut crossed, &clock), None, "said once");
    }

    #[test]
    fn a_poll_keeps_its_period_and_drops_missed_ones() {
        let mut due = Due::every(Span::from_nanos(10), Instant::ZERO);
        due.advance(Instant::from_nanos(3));
        assert_eq!(due.at, Instant::from_nanos(10));
        due.advance(Instant::from_nanos(47));
        assert_eq!(due.at, Instant::from_nanos(57));
    }
}
