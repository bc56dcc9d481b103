//! Time as the loop sees it: nanoseconds on one monotonic axis, a real or simulated clock, and the grid of
//! absolute slots on which every control period is based.
//!
//! Terms: an [`Instant`] is a point on the clock's axis, a [`Span`] a length, a *slot* the scheduled time of
//! one control period. Nothing here uses the wall clock.

use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::{AtomicU64, Ordering};

/// A length of time in nanoseconds, never negative.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// A span of `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Span {
        Span(ns)
    }
    /// A span of `us` microseconds.
    pub const fn from_micros(us: u64) -> Span {
        Span(us * 1_000)
    }
    /// A span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Span {
        Span(ms * 1_000_000)
    }
    /// A span of `s` seconds; negative values and NaN become zero, over-long ones saturate.
    pub fn from_secs_f64(s: f64) -> Span {
        Span((s * 1e9) as u64)
    }
    /// The length in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// The length in microseconds, with fractions.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
    /// The length in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// This span times `n`; saturates.
    pub const fn times(self, n: u64) -> Span {
        Span(self.0.saturating_mul(n))
    }
    /// This span minus `other`, not below zero.
    pub const fn less(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

/// A point in time: nanoseconds since the clock's own zero. Points of two clocks cannot be compared.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Instant(u64);

impl Instant {
    /// The clock's own zero.
    pub const ZERO: Instant = Instant(0);
    /// Later than any time that a clock returns; a deadline of `NEVER` means "sleep until woken".
    pub const NEVER: Instant = Instant(u64::MAX);

    /// The point `ns` nanoseconds after the clock's zero.
    pub const fn from_nanos(ns: u64) -> Instant {
        Instant(ns)
    }
    /// Nanoseconds since the clock's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Time since `earlier`; zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Instant) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Instant {
    type Output = Instant;
    fn add(self, span: Span) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Instant {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Instant {
    type Output = Instant;
    fn sub(self, span: Span) -> Instant {
        Instant(self.0.saturating_sub(span.0))
    }
}

/// Where time comes from. One of the two interfaces that a simulation replaces (the other is the bus).
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Instant;
    /// Returns no earlier than `at`; at once if `at` has passed. The deadline is absolute, so drift does not
    /// accumulate.
    fn sleep_until(&self, at: Instant);
    /// How long the machine has slept (been suspended) since it was started: time that passed while this
    /// clock was stopped.
    fn slept(&self) -> Span {
        Span::ZERO
    }
    /// Whether times from this clock are real (`false`: virtual time; reports label it).
    fn is_real(&self) -> bool;
}

/// `CLOCK_MONOTONIC`, with sleeps until absolute deadlines.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> Instant {
        read(rustix::time::ClockId::Monotonic)
    }

    fn sleep_until(&self, at: Instant) {
        let target = rustix::time::Timespec {
            tv_sec: (at.0 / 1_000_000_000) as i64,
            tv_nsec: (at.0 % 1_000_000_000) as i64,
        };
        // A signal may end the sleep early (EINTR); the deadline is absolute, so sleeping again is exact.
        while rustix::thread::clock_nanosleep_absolute(rustix::thread::ClockId::Monotonic, &target)
            == Err(rustix::io::Errno::INTR)
        {}
    }

    /// How far `CLOCK_BOOTTIME`, which keeps running during suspend, is ahead of this clock. Never
    /// overestimated.
    fn slept(&self) -> Span {
        let mut slept = Span::ZERO;
        for _ in 0..READINGS {
            let (before, boot, after) = (self.now(), read(rustix::time::ClockId::Boottime), self.now());
            slept = slept.max(boot.since(after));
            if after.since(before) < AT_ONCE {
                break;
            }
        }
        slept
    }

    fn is_real(&self) -> bool {
        true
    }
}

/// Reads a kernel clock. Both clocks that are read here count from the start of the machine.
fn read(clock: rustix::time::ClockId) -> Instant {
    let t = rustix::time::clock_gettime(clock);
    Instant(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Two clock readings this close together count as simultaneous. This is a hundred times the time that they
/// take, and a hundredth of [`NOTICEABLE`]. A thread that is preempted between the two underestimates the
/// sleep; without this limit, its next accurate reading would look like a new sleep.
const AT_ONCE: Span = Span::from_micros(100);
/// Maximum number of attempts: a thread is practically never preempted in all of them.
const READINGS: usize = 4;
/// Shorter sleeps are ignored: a sample is then at most 10 ms, one control period of the shipped boards,
/// older than its timestamp says. Real sleeps take a hundred times as long.
const NOTICEABLE: Span = Span::from_millis(10);

/// Detects that the machine has slept.
#[derive(Clone, Copy, Debug)]
pub struct SleepWatch {
    slept: Span,
}

impl SleepWatch {
    /// A watch that detects sleeps from now on.
    pub fn new(clock: &dyn Clock) -> SleepWatch {
        SleepWatch { slept: clock.slept() }
    }

    /// How long the machine has slept since `new` or the last sleep that was returned; `None` if that is less
    /// than `NOTICEABLE`.
    pub fn take(&mut self, clock: &dyn Clock) -> Option<Span> {
        let slept = clock.slept();
        let more = slept.less(self.slept);
        if more < NOTICEABLE {
            return None;
        }
        self.slept = slept;
        Some(more)
    }
}

/// Virtual time. Only sleeping moves the clock, so a run is as fast as the machine allows and the same every
/// time. The stepper in `executor/stepper.rs` keeps a separate cursor for each worker.
#[derive(Debug, Default)]
pub struct SimClock {
    cursor: AtomicU64,
    slept: AtomicU64,
}

impl SimClock {
    /// A clock at zero.
    pub fn new() -> SimClock {
        SimClock::default()
    }
    /// Puts the cursor at `at`, earlier or later. Only the stepper does this, between workers.
    pub fn set(&self, at: Instant) {
        self.cursor.store(at.0, Ordering::Relaxed);
    }
    /// The simulated machine sleeps for `span`: this clock stops, as the kernel's does.
    pub fn sleep_machine(&self, span: Span) {
        self.slept.fetch_add(span.0, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Instant {
        Instant(self.cursor.load(Ordering::Relaxed))
    }
    fn sleep_until(&self, at: Instant) {
        self.cursor.fetch_max(at.0, Ordering::Relaxed);
    }
    fn slept(&self) -> Span {
        Span(self.slept.load(Ordering::Relaxed))
    }
    fn is_real(&self) -> bool {
        false
    }
}

/// The grid of slots: absolute deadlines `start + n * period`. A late period never shifts the grid; slots
/// that passed completely are counted as skipped, so `slots_run + slots_skipped` always equals the slots that
/// have come due.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    start: Instant,
    period: Span,
    run: u64,
    skipped: u64,
}

impl Grid {
    /// A grid whose first slot is `start`.
    ///
    /// # Panics
    /// If `period` is zero: the board check refuses that, so it is a programming error here.
    pub fn new(start: Instant, period: Span) -> Grid {
        assert!(period > Span::ZERO, "a control period must be longer than zero");
        Grid { start, period, run: 0, skipped: 0 }
    }
    /// The next slot to run.
    pub fn slot(&self) -> Instant {
        self.start + self.period.times(self.index())
    }
    /// Notes that the slot ran and its work ended at `now`. Returns how many further slots are lost: those
    /// whose whole period had passed by `now`.
    pub fn done(&mut self, now: Instant) -> u64 {
        self.run += 1;
        let behind = now.since(self.slot());
        let lost = if now < self.slot() { 0 } else { behind.as_nanos() / self.period.as_nanos() };
        self.skipped += lost;
        lost
    }
    /// Number of the next slot to run, counted from 0.
    pub fn index(&self) -> u64 {
        self.run + self.skipped
    }
    /// Slots run so far.
    pub fn slots_run(&self) -> u64 {
        self.run
    }
    /// Slots run so far, including the current one.
    pub fn slots_begun(&self) -> u64 {
        self.run + 1
    }
    /// Slots that came due and did not run.
    pub fn slots_skipped(&self) -> u64 {
        self.skipped
    }
    /// The grid's first slot, the slots run, and the slots skipped.
    pub fn progress(&self) -> (Instant, u64, u64) {
        (self.start, self.run, self.skipped)
    }
    /// A grid with the same period that has progressed this far.
    pub fn resumed(&self, (start, run, skipped): (Instant, u64, u64)) -> Grid {
        Grid { start, period: self.period, run, skipped }
    }
    /// The period.
    pub fn period(&self) -> Span {
        self.period
    }
    /// Time from the first slot to the next slot to run.
    pub fn elapsed(&self) -> Span {
        self.slot().since(self.start)
    }
    /// The identity that every run must satisfy: elapsed / period = slots run + slots skipped. It is checked
    /// against a clock rather than against itself: at `now` no slot that has passed completely is missing
    /// from the count, and none is counted twice.
    pub fn identity_holds(&self, now: Instant) -> bool {
        let due = now.since(self.start).as_nanos() / self.period.as_nanos();
        // The slot in progress may or may not be counted yet.
        self.index() == due || self.index() == due + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_period_skips_whole_slots_and_keeps_the_grid() {
        let period = Span::from_millis(10);
        let mut grid = Grid::new(Instant::from_nanos(5), period);
        assert_eq!(grid.done(Instant::from_nanos(5) + Span::from_millis(3)), 0);
        assert_eq!(grid.slot(), Instant::from_nanos(5) + period);
        // Work that ends 35 ms after its slot overruns the slots at +10 and +20 ms completely, and part of
        // the one at +30 ms.
        let end = grid.slot() + Span::from_millis(35);
        assert_eq!(grid.done(end), 2);
        assert_eq!(grid.slot(), Instant::from_nanos(5) + period.times(4));
        assert_eq!((grid.slots_run(), grid.slots_skipped()), (2, 2));
        assert!(grid.identity_holds(end));
        assert_eq!(grid.elapsed().as_nanos() / period.as_nanos(), 4);
    }

    #[test]
    fn the_slot_sum_fails_when_a_slot_is_lost_uncounted() {
        let mut grid = Grid::new(Instant::ZERO, Span::from_millis(10));
        grid.done(Instant::from_nanos(1));
        assert!(!grid.identity_holds(Instant::ZERO + Span::from_millis(45)));
    }

    #[test]
    fn virtual_time_moves_only_by_sleeping() {
        let clock = SimClock::new();
        clock.sleep_until(Instant::from_nanos(70));
        clock.sleep_until(Instant::from_nanos(20));
        assert_eq!(clock.now(), Instant::from_nanos(70));
    }

    #[test]
    fn suspend_is_reported_once_and_the_clock_stops_during_it() {
        let clock = SimClock::new();
        clock.sleep_machine(Span::from_millis(3_000)); // before the watch exists
        let mut watch = SleepWatch::new(&clock);
        assert_eq!(watch.take(&clock), None);
        clock.sleep_machine(Span::from_millis(9));
        assert_eq!(watch.take(&clock), None);
        clock.sleep_machine(Span::from_millis(60_000));
        assert_eq!(watch.take(&clock), Some(Span::from_millis(60_009)));
        assert_eq!((watch.take(&clock), clock.now()), (None, Instant::ZERO));
    }

    #[test]
    fn an_awake_machine_reports_no_suspend() {
        let clock = MonotonicClock;
        let mut watch = SleepWatch::new(&clock);
        let seen: Vec<_> = (0..100_000).filter_map(|_| watch.take(&clock)).collect();
        assert_eq!(seen, []);
        let (ahead, boot) = (clock.now() + clock.slept(), read(rustix::time::ClockId::Boottime));
        assert!(boot.since(ahead) < Span::from_millis(5_000), "{boot:?} {ahead:?}");
    }
}
