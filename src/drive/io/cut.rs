//! Stops the motors by their line while their bus hangs. A transfer cannot be interrupted: an adapter with a
//! timeout of 20 ms may take 160 (`plan::OwnTime`) or stretch a clock for ever. Meanwhile a halt waits, and a
//! command that ran out goes on.
//!
//! The bus thread notes each transfer and until when the motors obey; the thread of [`Cutter`] looks at these
//! notes while the motors may move, and drives their lines to off once a stop is overdue. The lines belong to
//! both, one at a time: the bus thread never holds them during a transfer. After a cut the bus thread sets
//! everything up again, which is what switches the lines on.

use super::counters::{BusCounters, count};
use super::halt::Halt;
use crate::base::fault::BusFault;
use crate::base::plan::{Line, StopLine};
use crate::base::time::{Clock, Instant, Span};
use crate::hardware::bus::{Edge, Gpio};
use crate::system::executor::{Waker, Worker};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A transfer that takes longer than this and its bits hangs: the kernel's unit for a timeout.
const HANGS: Span = Span::from_millis(10);
/// Bits of the longest transfer: that of an inertial sensor has 17 bytes of nine, doubled for a slow chip.
const LONGEST_BITS: u64 = 300;
/// Between two looks while a stop waits.
const LOOK: Span = Span::from_millis(5);
/// The motors' thread may still stop them in its last call for this long; then its own end is not waited for
/// (`executor::END_PATIENCE`, less a look).
const LAST_LOOKS: u32 = 80;

/// What the bus thread notes for the cutter. One per robot.
#[derive(Debug)]
pub struct InFlight {
    /// Knows the transfer in progress.
    halt: Arc<Halt>,
    /// From when on the motors must not move; [`Instant::NEVER`]: they are known to be stopped.
    stop_due: AtomicU64,
    /// How often the lines were cut, and when the last time, nanoseconds.
    cuts: AtomicU64,
    cut_at: AtomicU64,
    /// How long a transfer takes that hangs.
    hangs: Span,
    waker: Arc<Waker>,
}

impl InFlight {
    /// Nothing in flight on a bus of this speed, motors stopped; `waker` wakes the cutter.
    pub fn new(speed_hz: u32, halt: Arc<Halt>, waker: Arc<Waker>) -> InFlight {
        halt.also_wake(waker.clone());
        let [cuts, cut_at] = [0, 0].map(AtomicU64::new);
        let stop_due = AtomicU64::new(Instant::NEVER.as_nanos());
        let hangs = HANGS + Span::from_nanos(LONGEST_BITS * 1_000_000_000 / u64::from(speed_hz.max(1)));
        InFlight { halt, stop_due, cuts, cut_at, hangs, waker }
    }
    /// A transfer begins.
    pub(super) fn begin(&self, now: Instant) {
        self.halt.transfer(Some(now));
    }
    /// It has ended.
    pub(super) fn end(&self) {
        self.halt.transfer(None);
    }
    /// The motors must not move from `at` on.
    pub(super) fn stop_at(&self, at: Instant) {
        let before = self.stop_due.swap(at.as_nanos(), Ordering::Relaxed);
        if before == Instant::NEVER.as_nanos() && at != Instant::NEVER {
            self.waker.wake();
        }
    }
    /// How often the lines were cut so far, and when the last time. What a cut did is seen with its number.
    pub(super) fn cuts(&self) -> (u64, Instant) {
        let cuts = self.cuts.load(Ordering::Acquire);
        (cuts, Instant::from_nanos(self.cut_at.load(Ordering::Relaxed)))
    }

    fn stop_due(&self) -> Instant {
        Instant::from_nanos(self.stop_due.load(Ordering::Relaxed))
    }
    fn motors_stand(&self) -> bool {
        self.stop_due() == Instant::NEVER
    }
    /// Whether the transfer in progress hangs.
    fn hangs(&self, now: Instant) -> bool {
        self.halt.transfer_since().is_some_and(|began| now.since(began) >= self.hangs)
    }
}

type Shared = Arc<Mutex<Box<dyn Gpio>>>;

/// Lines of a bus thread, some of which the cutter shares.
pub struct SharedLines {
    stop: Shared,
    stops: Vec<Line>,
    rest: Box<dyn Gpio>,
}

impl SharedLines {
    /// `stop` has the lines `stops`, `rest` all others.
    pub fn new(stop: Box<dyn Gpio>, stops: &[StopLine], rest: Box<dyn Gpio>) -> SharedLines {
        let stops = stops.iter().map(|stop| stop.line).collect();
        SharedLines { stop: Arc::new(Mutex::new(stop)), stops, rest }
    }

    fn on<R>(&mut self, line: Line, deed: impl FnOnce(&mut dyn Gpio) -> R) -> R {
        match self.stops.contains(&line) {
            true => deed(self.stop.lock().unwrap_or_else(PoisonError::into_inner).as_mut()),
            false => deed(self.rest.as_mut()),
        }
    }
}

impl Gpio for SharedLines {
    fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
        self.on(line, |gpio| gpio.set(line, high))
    }
    fn get(&mut self, line: Line) -> Result<bool, BusFault> {
        self.on(line, |gpio| gpio.get(line))
    }
    fn next_edge(&mut self, wait: Span) -> Result<Option<Edge>, BusFault> {
        self.rest.next_edge(wait)
    }
}

/// The thread that cuts.
pub struct Cutter {
    in_flight: Arc<InFlight>,
    gpio: Shared,
    stops: Vec<StopLine>,
    counters: Arc<BusCounters>,
}

impl Cutter {
    /// Cuts `stops` of `lines`; counts in `counters`.
    pub fn new(
        lines: &SharedLines,
        stops: Vec<StopLine>,
        in_flight: Arc<InFlight>,
        counters: Arc<BusCounters>,
    ) -> Cutter {
        Cutter { in_flight, gpio: lines.stop.clone(), stops, counters }
    }

    /// Whether the motors may move and should not.
    fn stop_waits(&self, now: Instant) -> bool {
        !self.in_flight.motors_stand()
            && (self.in_flight.halt.is_pending() || self.in_flight.stop_due() <= now)
    }

    /// Cuts if a stop waits for a transfer that hangs. A line that does not obey is tried again at the next
    /// look.
    fn look(&self, now: Instant) {
        if !self.stop_waits(now) || !self.in_flight.hangs(now) {
            return;
        }
        let mut gpio = self.gpio.lock().unwrap_or_else(PoisonError::into_inner);
        let mut any = false;
        for stop in &self.stops {
            any |= gpio.set(stop.line, stop.off_high).is_ok(); // each of them; either stops the motors
        }
        if any {
            self.in_flight.cut_at.store(now.as_nanos(), Ordering::Relaxed);
            self.in_flight.stop_at(Instant::NEVER); // until the bus thread says otherwise
            self.in_flight.cuts.fetch_add(1, Ordering::Release); // after the lines: see `I2cWorker::notice_cut`
            count(&self.counters.cuts);
        }
    }
}

impl Worker for Cutter {
    fn name(&self) -> &'static str {
        "cut"
    }

    fn step(&mut self, clock: &dyn Clock) -> Instant {
        let now = clock.now();
        self.look(now);
        if self.stop_waits(now) { now + LOOK } else { self.in_flight.stop_due() }
    }

    fn publish(&mut self, _clock: &dyn Clock) {}

    /// The motors' thread is at its last call too, and its bus may hang in it.
    fn finish(&mut self, clock: &dyn Clock) -> bool {
        for _ in 0..LAST_LOOKS {
            if self.in_flight.motors_stand() {
                break;
            }
            self.look(clock.now());
            clock.sleep_until(clock.now() + LOOK);
        }
        true
    }
}

#[cfg(test)]
mod tests;
