//! The running bench: one thread is the far side of the wires; the caller acts on the far side, and examines
//! what happened on the wires. The only lock of this program is in this file.

use super::device::Device;
use super::far::{FarSide, REFRESH};
use super::record::Record;
use super::wire::{ANY, Command, Fault, Port};
use ganglion::base::plan::Board;
use ganglion::base::time::{Clock, Instant, MonotonicClock, Span};
use std::cell::RefCell;
use std::io;
use std::process::Command as Program;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Priority of the far side: below the runtime's real-time threads (79 and up), so that it never delays them,
/// and above all compute threads, because a real car does not wait for a processor.
const FAR_PRIORITY: u8 = 40;
/// Priority of the caller, so that rows act on time even on a loaded machine.
const ROW_PRIORITY: u8 = 20;
/// After this delay, the kernel module has reported every event with an earlier timestamp: the thread that
/// carries out the transfer has run by then.
const REPORT_DELAY: Span = Span::from_millis(5);
/// During a long wait, events are read this often, so that their queue does not overflow (it has room for
/// 30 s of a busy robot).
const DRAIN_INTERVAL: Span = Span::from_millis(1000);
/// Polling interval of the caller while it waits for something.
const POLL_INTERVAL: Span = Span::from_millis(5);

/// The far side, and when it started: earlier events belong to an earlier row and are ignored.
struct Behind {
    far: FarSide,
    since: Instant,
}

/// What was seen on the wires. No thread wakes up for these events: the kernel timestamps and queues them
/// until a row polls.
struct Sight {
    port: Device,
    record: Record,
}

impl Sight {
    /// Collects everything that the kernel module has reported so far.
    fn look(&mut self) {
        while let Some(event) = fatal(self.port.next(Span::ZERO)) {
            self.record.take(&event);
        }
    }
}

/// A running bench.
pub struct Bench {
    behind: Arc<Mutex<Behind>>,
    sight: RefCell<Sight>,
    board: Board,
    clock: MonotonicClock,
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic ends the program with a failure anyway; the data is still usable until then.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bench {
    /// Opens the device and starts the far side's thread, which runs until the program ends.
    pub fn start(board: &Board) -> io::Result<Bench> {
        let clock = MonotonicClock;
        let behind = Behind { far: FarSide::new(board, 1, clock.now()), since: clock.now() };
        let sight = Sight { port: Device::open()?, record: Record::new(board) };
        let mut bench = Bench {
            behind: Arc::new(Mutex::new(behind)),
            sight: RefCell::new(sight),
            board: board.clone(),
            clock,
        };
        bench.renew(1)?; // the devices must exist before the far side refreshes them
        let (behind, port) = (bench.behind.clone(), Device::open()?);
        thread::Builder::new().name("far-side".into()).spawn(move || run_far_side(&behind, port))?;
        urgent(ROW_PRIORITY);
        Ok(bench)
    }

    /// The board that the car behind the wires was built from.
    pub fn board(&self) -> &Board {
        &self.board
    }
    /// The current time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }
    /// Waits.
    pub fn wait(&self, time: Span) {
        self.wait_until(self.now() + time);
    }
    /// Waits until `at`.
    pub fn wait_until(&self, at: Instant) {
        while at.since(self.now()) > DRAIN_INTERVAL {
            self.clock.sleep_until(self.now() + DRAIN_INTERVAL);
            self.sight.borrow_mut().look();
        }
        self.clock.sleep_until(at);
    }

    /// Puts a new car, without faults, at its start in the world of `seed`, and empties the record.
    pub fn renew(&mut self, seed: u64) -> io::Result<()> {
        let now = self.now();
        let mut out = Vec::new();
        let mut far = FarSide::new(&self.board, seed, now);
        far.begin(now, &mut out);
        *locked(&self.behind) = Behind { far, since: now };
        let sight = self.sight.get_mut();
        sight.port.send(&out)?;
        sight.look(); // discards the old car's events
        sight.record = Record::new(&self.board);
        Ok(())
    }

    /// Acts on the far side, and sends the resulting commands to the kernel at once.
    pub fn act<T>(
        &mut self,
        act: impl FnOnce(&mut FarSide, Instant, &mut Vec<Command>) -> T,
    ) -> io::Result<T> {
        let mut out = Vec::new();
        let mut behind = locked(&self.behind);
        let result = act(&mut behind.far, self.clock.now(), &mut out);
        if !out.is_empty() {
            self.sight.get_mut().port.send(&out)?;
        }
        Ok(result)
    }

    /// Sends the kernel module commands that do not involve the car.
    pub fn send(&mut self, commands: &[Command]) -> io::Result<()> {
        self.sight.get_mut().port.send(commands)
    }

    /// Makes the next `count` transfers (-1: all) with `address` (`None`: with any) fail in this way.
    pub fn fault(&mut self, address: Option<u8>, kind: Fault, argument: i32, count: i32) -> io::Result<()> {
        let address = address.map_or(ANY, u16::from);
        self.send(&[Command::Fault { address, kind, argument, count, skip: 0 }])
    }

    /// Queries the record, after completing it up to the current time.
    pub fn seen<T>(&self, ask: impl FnOnce(&mut Record) -> T) -> T {
        let now = self.now();
        self.sight.borrow_mut().look();
        if self.sight.borrow().record.seen() < now {
            self.clock.sleep_until(now + REPORT_DELAY);
            let mut sight = self.sight.borrow_mut();
            sight.look();
            sight.record.quiet_until(now);
        }
        ask(&mut self.sight.borrow_mut().record)
    }

    /// Waits until `ask` returns an answer, at most until `end`.
    pub fn until<T>(&self, end: Instant, mut ask: impl FnMut(&Record) -> Option<T>) -> Option<T> {
        loop {
            if self.now() >= end {
                return self.seen(|record| ask(record));
            }
            let mut sight = self.sight.borrow_mut();
            sight.look();
            if let Some(answer) = ask(&sight.record) {
                return Some(answer);
            }
            drop(sight);
            self.wait(POLL_INTERVAL);
        }
    }
}

/// The loop of the far side: handles every event at once, and refreshes the sensors' values when due.
fn run_far_side(behind: &Mutex<Behind>, mut port: Device) {
    urgent(FAR_PRIORITY);
    let clock = MonotonicClock;
    let mut due = clock.now();
    let mut out = Vec::with_capacity(64);
    loop {
        let mut event = fatal(port.next(due.since(clock.now())));
        let mut behind = locked(behind);
        while let Some(known) = event {
            if known.end >= behind.since {
                behind.far.take(&known, clock.now(), &mut out);
            }
            event = fatal(port.next(Span::ZERO));
        }
        let now = clock.now();
        if now >= due {
            behind.far.refresh(now, &mut out);
            due = now + REFRESH;
        }
        if !out.is_empty() {
            fatal(port.send(&out));
            out.clear();
        }
    }
}

/// A bench with a failed device proves nothing, so the program ends, and its missing result counts as a
/// failure.
fn fatal<T>(outcome: io::Result<T>) -> T {
    outcome.unwrap_or_else(|error| {
        eprintln!("hil-guest: /dev/hilplant: {error}");
        std::process::exit(70);
    })
}

/// Gives the calling thread SCHED_FIFO at this priority; its children get ordinary scheduling again. Uses
/// `chrt`, because the system call would be this program's only unsafe line.
pub fn urgent(priority: u8) {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let priority = priority.to_string();
    let asked =
        Program::new("chrt").args(["--reset-on-fork", "--fifo", "--pid", &priority, &thread]).status();
    if !asked.is_ok_and(|status| status.success()) {
        eprintln!("hil-guest: chrt cannot give thread {thread} priority {priority}: latencies will be worse");
    }
}
