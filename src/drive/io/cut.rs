//! Stops the motors through their line while their bus hangs. A transfer cannot be interrupted: an adapter
//! with a timeout of 20 ms may take 160 ms (`plan::OwnTime`), or forever if a device stretches the clock.
//! Meanwhile a halt waits, and the motors keep obeying an expired command.
//!
//! The bus thread records each transfer and how long the motors may obey their command. The [`Cutter`] thread
//! checks these records while the motors may move, and switches their lines off once a stop is overdue. Both
//! threads share the lines under a lock, which the bus thread never holds during a transfer. After a cut the
//! bus thread sets everything up again, which switches the lines on.

use super::counters::{BusCounters, count};
use super::halt::Halt;
use crate::base::fault::BusFault;
use crate::base::plan::{Line, StopLine};
use crate::base::time::{Clock, Instant, Span};
use crate::hardware::bus::{Edge, Gpio};
use crate::system::executor::{Waker, Worker};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A transfer counts as hung if it takes longer than this plus the time of the longest transfer's bits: this
/// is the unit of the kernel's transfer timeouts.
const HANGS: Span = Span::from_millis(10);
/// Bits of a transfer of 17 bytes, nine bits each, which is more than any driver here needs; twice that for a
/// slow chip.
const LONGEST_BITS: u64 = 17 * 9 * 2;
/// Interval between checks while a stop waits.
const CHECK_EVERY: Span = Span::from_millis(5);
/// Number of checks after the end of the run, while the motors' thread may still hang in its last call. They
/// take 400 ms in all, so that even a slow last check ends before `executor::END_PATIENCE`, after which
/// threads that have not ended are abandoned.
const LAST_CHECKS: u32 = 80;

/// What the bus thread records for the cutter. One per robot.
#[derive(Debug)]
pub struct InFlight {
    /// Holds the start of the transfer in progress.
    halt: Arc<Halt>,
    /// Time from which on the motors must not move; [`Instant::NEVER`]: they are known to be stopped.
    stop_due: AtomicU64,
    /// How often the lines were cut, and the time of the last cut in nanoseconds.
    cuts: AtomicU64,
    cut_at: AtomicU64,
    /// A transfer that takes longer than this counts as hung.
    hangs: Span,
    waker: Arc<Waker>,
}

impl InFlight {
    /// A bus of this speed with no transfer in progress and the motors stopped; `waker` wakes the cutter.
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
    /// The transfer has ended.
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
    /// How often the lines were cut so far, and when last. A reader that sees the count also sees the effect
    /// of the cut.
    pub(super) fn cuts(&self) -> (u64, Instant) {
        let cuts = self.cuts.load(Ordering::Acquire);
        (cuts, Instant::from_nanos(self.cut_at.load(Ordering::Relaxed)))
    }

    fn stop_due(&self) -> Instant {
        Instant::from_nanos(self.stop_due.load(Ordering::Relaxed))
    }
    fn motors_stopped(&self) -> bool {
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
    /// `stop` drives the lines `stops`, `rest` all others.
    pub fn new(stop: Box<dyn Gpio>, stops: &[StopLine], rest: Box<dyn Gpio>) -> SharedLines {
        let stops = stops.iter().map(|stop| stop.line).collect();
        SharedLines { stop: Arc::new(Mutex::new(stop)), stops, rest }
    }

    fn on<R>(&mut self, line: Line, action: impl FnOnce(&mut dyn Gpio) -> R) -> R {
        match self.stops.contains(&line) {
            true => action(self.stop.lock().unwrap_or_else(PoisonError::into_inner).as_mut()),
            false => action(self.rest.as_mut()),
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

/// The thread that cuts the motors' lines.
pub struct Cutter {
    in_flight: Arc<InFlight>,
    gpio: Shared,
    stops: Vec<StopLine>,
    counters: Arc<BusCounters>,
}

impl Cutter {
    /// A cutter for the lines `stops` among `lines`; it counts its cuts in `counters`.
    pub fn new(
        lines: &SharedLines,
        stops: Vec<StopLine>,
        in_flight: Arc<InFlight>,
        counters: Arc<BusCounters>,
    ) -> Cutter {
        Cutter { in_flight, gpio: lines.stop.clone(), stops, counters }
    }

    /// Whether the motors may be moving although they should not.
    fn stop_overdue(&self, now: Instant) -> bool {
        !self.in_flight.motors_stopped()
            && (self.in_flight.halt.is_pending() || self.in_flight.stop_due() <= now)
    }

    /// Cuts if a stop waits for a transfer that hangs. If no line can be set, tries again at the next check.
    fn check(&self, now: Instant) {
        if !self.stop_overdue(now) || !self.in_flight.hangs(now) {
            return;
        }
        let mut gpio = self.gpio.lock().unwrap_or_else(PoisonError::into_inner);
        let mut any = false;
        for stop in &self.stops {
            any |= gpio.set(stop.line, stop.off_high).is_ok(); // try every line: any of them stops the motors
        }
        if any {
            self.in_flight.cut_at.store(now.as_nanos(), Ordering::Relaxed);
            self.in_flight.stop_at(Instant::NEVER); // until the bus thread says otherwise
            self.in_flight.cuts.fetch_add(1, Ordering::Release); // after the lines: `I2cWorker::notice_cut`
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
        self.check(now);
        if self.stop_overdue(now) { now + CHECK_EVERY } else { self.in_flight.stop_due() }
    }

    fn publish(&mut self, _clock: &dyn Clock) {}

    /// The motors' thread makes its last call at the same time, and its bus may hang during that call.
    fn finish(&mut self, clock: &dyn Clock) -> bool {
        for _ in 0..LAST_CHECKS {
            if self.in_flight.motors_stopped() {
                break;
            }
            self.check(clock.now());
            clock.sleep_until(clock.now() + CHECK_EVERY);
        }
        true
    }
}

#[cfg(test)]
mod tests;
