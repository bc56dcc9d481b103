//! A set-up in steps. A driver sets its chip up in one go and waits in between; a bus thread that also serves
//! the motors cannot wait. So every step runs the set-up from its beginning, on ports that replay the answers
//! of earlier calls from a journal. The step allows one new action (a transfer, an access to a line, the
//! start of a wait) and refuses everything after it. The step that refuses nothing is the last one.
//!
//! Without this, a halt would wait for the whole set-up of another chip on the motors' bus, and the tests in
//! `io::i2c::tests::set_ups` would fail.
//!
//! A set-up must meet one requirement: given the same answers, it makes the same calls, whatever the time. A
//! checksum detects a set-up that does not, and a fault ends it before it writes anything out of place. This
//! file has no chip, schedule or retry logic, and does not use the heap.

use super::{DeviceFault, Ports};
use crate::base::fault::BusFault;
use crate::base::plan::Line;
use crate::base::time::{Clock, Instant, Span};
use crate::hardware::bus::{Edge, Gpio, I2c, Op};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Maximum number of bytes of answers. The longest set-up (VL53L0X) reads some eighty bytes and polls a
/// register in a loop, which [`TIMEOUT`] ends after five hundred polls.
const ANSWERS: usize = 1024;
/// Maximum number of calls in a set-up that set or read a line. A shut-down input needs two: low, then high.
const LINES: usize = 8;
/// Maximum number of transfers that no device acknowledges without ending the set-up: a chip that already has
/// its new address does not answer at the old one.
const MISSES: usize = 4;
/// Delay before the same transfer is repeated, as by a driver that polls its chip until it is ready.
/// Calibrations take some milliseconds, so two more do not matter.
const ASK_AGAIN: Span = Span::from_millis(2);
/// Time limit of a set-up, from its first step. The longest set-up in use has 120 transfers of 0.4 ms and two
/// waits of some milliseconds; on a bus that also serves other devices, it takes several times as long.
const TIMEOUT: Span = Span::from_millis(1_000);

/// Progress of a set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetUp {
    /// The set-up is complete.
    Done,
    /// The set-up continues with the next step, at this time or later.
    Again(Instant),
}

/// The calls of one set-up so far.
#[derive(Debug, Default)]
pub struct Journal {
    began: Option<Instant>,
    /// Number of calls made.
    made: u32,
    /// Checksum of the calls, in order.
    sum: u32,
    /// When the most recent wait is over.
    resume_at: Instant,
    transfers: Transfers,
    lines: heapless::Vec<Result<bool, BusFault>, LINES>,
}

#[derive(Debug, Default)]
struct Transfers {
    answers: heapless::Vec<u8, ANSWERS>,
    /// Numbers of the transfers that no device acknowledged.
    missed: heapless::Vec<u32, MISSES>,
    /// Checksum of the last transfer, and when it ended.
    last: Option<(u32, Instant)>,
}

impl Journal {
    /// An empty journal; the next step is the first one.
    pub fn new() -> Journal {
        Journal::default()
    }

    /// Makes the set-up restart with the next step.
    pub fn clear(&mut self) {
        (self.began, self.made, self.sum, self.resume_at) = (None, 0, 0, Instant::ZERO);
        self.transfers.answers.clear();
        self.transfers.missed.clear();
        self.transfers.last = None;
        self.lines.clear();
    }

    /// Runs one step of the set-up `work`: at most one transfer, and no wait. A preempted call
    /// ([`DeviceFault::gave_way`]) leaves the journal as it was; any other fault ends the set-up.
    pub fn step(
        &mut self,
        ports: &mut Ports<'_>,
        work: impl FnOnce(&mut Ports<'_>) -> Result<(), DeviceFault>,
    ) -> Result<SetUp, DeviceFault> {
        let now = ports.clock.now();
        if now < self.resume_at {
            return Ok(SetUp::Again(self.resume_at));
        }
        let until = *self.began.get_or_insert(now) + TIMEOUT;
        let course = Course::new(self.made, self.sum);
        let step = {
            let clock = Waits { clock: ports.clock, course: &course };
            let mut i2c = Wire {
                i2c: &mut *ports.i2c,
                clock: ports.clock,
                course: &course,
                until,
                kept: &mut self.transfers,
                given: 0,
                fault: None,
            };
            let mut gpio = Lines { gpio: &mut *ports.gpio, course: &course, kept: &mut self.lines, given: 0 };
            let outcome = work(&mut Ports { i2c: &mut i2c, gpio: &mut gpio, clock: &clock });
            match i2c.fault {
                Some(fault) => Err(fault),
                None => course.end(outcome, ports.clock.now()),
            }
        };
        match step {
            Err(fault) if fault.gave_way() => {}
            Ok(SetUp::Again(at)) => {
                (self.made, self.sum) = course.made();
                self.resume_at = at;
            }
            _ => self.clear(),
        }
        step
    }
}

/// The position of one run through a set-up. The three ports of one thread share it; it uses atomics because
/// a clock must be shareable between threads.
struct Course {
    /// Number of calls in the journal, and their checksum.
    known: u32,
    known_sum: u32,
    /// Number of calls made in this run, and their checksum, including the new one.
    asked: AtomicU32,
    sum: AtomicU32,
    phase: AtomicU8,
    /// The next step comes at this time or later.
    wake: AtomicU64,
}

/// The journal has answered all calls so far.
const KNOWN: u8 = 0;
/// The new call was made, and no call came after it.
const NEW: u8 = 1;
/// A call was refused: there is a next step.
const REFUSED: u8 = 2;
/// The new call was not made, because it was too early.
const NOT_YET: u8 = 3;
/// The set-up did not repeat its earlier calls.
const STRAYED: u8 = 4;

/// Who answers a call.
enum Turn {
    /// The journal.
    Known(u32),
    /// The port itself; nothing else may follow in this step.
    New(u32),
    /// Neither.
    Refused,
}

impl Course {
    fn new(known: u32, known_sum: u32) -> Course {
        Course {
            known,
            known_sum,
            asked: AtomicU32::new(0),
            sum: AtomicU32::new(0),
            phase: AtomicU8::new(KNOWN),
            wake: AtomicU64::new(0),
        }
    }

    /// Registers a call to a port; `what` is its checksum.
    fn turn(&self, what: u32) -> Turn {
        let (nth, sum) = self.so_far();
        match self.phase() {
            KNOWN if nth == self.known && sum != self.known_sum => self.enter(STRAYED),
            KNOWN => {
                self.asked.store(nth + 1, Ordering::Relaxed);
                self.sum.store(mixed(sum, what), Ordering::Relaxed);
                if nth < self.known {
                    return Turn::Known(nth);
                }
                self.enter(NEW);
                return Turn::New(nth);
            }
            NEW => self.enter(REFUSED),
            _ => {}
        }
        Turn::Refused
    }

    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Relaxed)
    }
    fn enter(&self, phase: u8) {
        self.phase.store(phase, Ordering::Relaxed);
    }
    fn so_far(&self) -> (u32, u32) {
        (self.asked.load(Ordering::Relaxed), self.sum.load(Ordering::Relaxed))
    }

    /// Sets the earliest time of the next step.
    fn wake_at(&self, at: Instant) {
        self.wake.store(at.as_nanos(), Ordering::Relaxed);
    }

    /// Number of calls made so far, and their checksum.
    fn made(&self) -> (u32, u32) {
        if self.phase() == NOT_YET { (self.known, self.known_sum) } else { self.so_far() }
    }

    /// The result of the run, at its end.
    fn end(&self, outcome: Result<(), DeviceFault>, now: Instant) -> Result<SetUp, DeviceFault> {
        let wake = Instant::from_nanos(self.wake.load(Ordering::Relaxed));
        match self.phase() {
            KNOWN if self.so_far() == (self.known, self.known_sum) => outcome.map(|()| SetUp::Done),
            KNOWN | STRAYED => Err(DeviceFault::Endless { register: 0 }),
            // A wait at the end of the set-up counts too.
            NEW if wake <= now => outcome.map(|()| SetUp::Done),
            _ => Ok(SetUp::Again(wake.max(now))),
        }
    }
}

/// Adds `what` to a checksum that depends on the order (like FNV-1a, but a word at a time and with a
/// rotation).
const fn mixed(sum: u32, what: u32) -> u32 {
    (sum ^ what).wrapping_mul(0x0100_0193).rotate_left(5)
}

/// The checksum of a transfer: address, bytes written, number of bytes read.
fn sum_of(address: u8, ops: &[Op<'_>]) -> u32 {
    ops.iter().fold(mixed(1, address.into()), |sum, op| match op {
        Op::Write(bytes) => bytes.iter().fold(mixed(sum, 2), |sum, byte| mixed(sum, (*byte).into())),
        Op::Read(bytes) => mixed(mixed(sum, 3), bytes.len() as u32),
    })
}

/// The bus.
struct Wire<'a> {
    i2c: &'a mut dyn I2c,
    clock: &'a dyn Clock,
    course: &'a Course,
    until: Instant,
    kept: &'a mut Transfers,
    /// Bytes of the kept answers that were replayed in this run.
    given: usize,
    /// The fault that ends the set-up, whatever the driver makes of it.
    fault: Option<DeviceFault>,
}

impl Wire<'_> {
    /// Replays answers from the journal.
    fn replay(&mut self, nth: u32, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        if self.kept.missed.contains(&nth) {
            return Err(BusFault::Nack);
        }
        for op in ops {
            let Op::Read(back) = op else { continue };
            let end = self.given + back.len();
            let Some(kept) = self.kept.answers.get(self.given..end) else {
                self.course.enter(STRAYED);
                return Err(BusFault::Preempted);
            };
            back.copy_from_slice(kept);
            self.given = end;
        }
        Ok(())
    }

    /// Makes the one new transfer of this step.
    fn make(&mut self, nth: u32, what: u32, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let register = ops.iter().find_map(first_byte).unwrap_or(0);
        let now = self.clock.now();
        if now > self.until {
            return self.end_with(DeviceFault::Endless { register });
        }
        if let Some((_, ended)) = self.kept.last.filter(|(last, _)| *last == what)
            && now < ended + ASK_AGAIN
        {
            self.course.enter(NOT_YET);
            self.course.wake_at(ended + ASK_AGAIN);
            return Err(BusFault::Preempted);
        }
        let kept = match self.i2c.transfer(address, ops) {
            Ok(()) => ops.iter().all(|op| match op {
                Op::Read(back) => self.kept.answers.extend_from_slice(back).is_ok(),
                Op::Write(_) => true,
            }),
            Err(BusFault::Nack) => self.kept.missed.push(nth).is_ok(),
            // A bus fault ends the set-up here, before the driver can do anything else.
            Err(fault) => return self.end_with(DeviceFault::Bus { register, fault }),
        };
        if !kept {
            return self.end_with(DeviceFault::Endless { register });
        }
        self.kept.last = Some((what, self.clock.now()));
        if self.kept.missed.last() == Some(&nth) { Err(BusFault::Nack) } else { Ok(()) }
    }

    fn end_with(&mut self, fault: DeviceFault) -> Result<(), BusFault> {
        self.fault = Some(fault);
        Err(BusFault::Preempted)
    }
}

fn first_byte(op: &Op<'_>) -> Option<u8> {
    match op {
        Op::Write(bytes) => bytes.first().copied(),
        Op::Read(_) => None,
    }
}

impl I2c for Wire<'_> {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let what = sum_of(address, ops);
        match self.course.turn(what) {
            Turn::Known(nth) => self.replay(nth, ops),
            Turn::New(nth) => self.make(nth, what, address, ops),
            Turn::Refused => Err(BusFault::Preempted),
        }
    }
}

/// The lines.
struct Lines<'a> {
    gpio: &'a mut dyn Gpio,
    course: &'a Course,
    kept: &'a mut heapless::Vec<Result<bool, BusFault>, LINES>,
    given: usize,
}

impl Lines<'_> {
    fn turn(
        &mut self,
        what: u32,
        ask: impl FnOnce(&mut dyn Gpio) -> Result<bool, BusFault>,
    ) -> Result<bool, BusFault> {
        match self.course.turn(what) {
            Turn::Known(_) => {
                self.given += 1;
                self.kept.get(self.given - 1).copied().unwrap_or(Err(BusFault::Unsupported))
            }
            Turn::New(_) => {
                let answer = ask(self.gpio);
                // If there is no room, the next step cannot replay this answer: the call then fails with
                // `Unsupported`.
                let _ = self.kept.push(answer);
                answer
            }
            Turn::Refused => Err(BusFault::Preempted),
        }
    }
}

impl Gpio for Lines<'_> {
    fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
        let what = mixed(mixed(4, line.0), high.into());
        self.turn(what, |gpio| gpio.set(line, high).map(|()| high)).map(drop)
    }

    fn get(&mut self, line: Line) -> Result<bool, BusFault> {
        self.turn(mixed(5, line.0), |gpio| gpio.get(line))
    }

    /// Not supported: a set-up that waits for an edge would block its bus thread.
    fn next_edge(&mut self, _wait: Span) -> Result<Option<Edge>, BusFault> {
        Err(BusFault::Unsupported)
    }
}

/// The clock: starting a wait ends the step.
struct Waits<'a> {
    clock: &'a dyn Clock,
    course: &'a Course,
}

impl Clock for Waits<'_> {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn sleep_until(&self, at: Instant) {
        if let Turn::New(_) = self.course.turn(6) {
            self.course.wake_at(at);
        }
    }

    fn is_real(&self) -> bool {
        self.clock.is_real()
    }
}

#[cfg(test)]
mod tests;
