//! Stops by the motors' line while an adapter ignores its timeout: threads in real time, and transfers that
//! hang until the test has seen the line go off. Checks only order and counts.

use super::*;
use crate::base::command::{Command, OnWire};
use crate::base::plan::{Cause, RtPlan};
use crate::base::time::MonotonicClock;
use crate::decision::fixture::ms;
use crate::drive::io::{BusParts, DataReady, FastStops, HaltWatch, I2cWorker, MotorEnd, Outlet, PollPlan};
use crate::hardware::bus::{Absent, I2c, NoRepair, Op};
use crate::hardware::device::actuators::Actuators;
use crate::hardware::device::enable::Enabled;
use crate::hardware::device::{DeviceFault, Polled, Ports, Say};
use crate::system::executor::{Rest, Threads};
use crate::system::rt::Role;
use crate::system::rt::triple_buffer::{Writer, triple_buffer};
use crossbeam_channel::{Receiver, Sender};
use std::time::Duration;

const LINE: Line = Line(6);
const MOTORS: u8 = 0x40;
const SENSOR: u8 = 0x29;
/// Longer than any wait here; a test that waits this long fails.
const LONG: Duration = Duration::from_secs(20);

/// What happened, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// A hanging transfer to this address began.
    Hangs(u8),
    /// The hanging transfer returned.
    Returned,
    /// A command was written.
    Wrote,
    /// The line was driven on or off.
    Line(bool),
}

/// The adapter: transfers succeed at once, but those with the address `hang` wait until the test releases
/// them.
struct Adapter {
    hang: Arc<AtomicU64>,
    release: Receiver<Result<(), BusFault>>,
    seen: Sender<Seen>,
}

impl I2c for Adapter {
    fn transfer(&mut self, address: u8, _: &mut [Op<'_>]) -> Result<(), BusFault> {
        if self.hang.load(Ordering::SeqCst) != u64::from(address) {
            return Ok(());
        }
        let _ = self.seen.send(Seen::Hangs(address));
        let result = self.release.recv_timeout(LONG).unwrap_or(Err(BusFault::TimedOut));
        self.hang.store(0, Ordering::SeqCst);
        let _ = self.seen.send(Seen::Returned);
        result
    }
}

struct Wire(Sender<Seen>);

impl Gpio for Wire {
    fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
        assert_eq!(line, LINE);
        let _ = self.0.send(Seen::Line(high));
        Ok(())
    }
    fn get(&mut self, _: Line) -> Result<bool, BusFault> {
        Err(BusFault::Unsupported)
    }
    fn next_edge(&mut self, _: Span) -> Result<Option<Edge>, BusFault> {
        Ok(None)
    }
}

struct Wheels(Sender<Seen>);

impl Wheels {
    fn send(ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        ports.i2c.write(MOTORS, &[0]).map_err(|fault| DeviceFault::Bus { register: 0, fault })
    }
}

impl Actuators for Wheels {
    fn initialise(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        Wheels::send(ports)
    }
    fn write(&mut self, _: &Command, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        Wheels::send(ports)?;
        let _ = self.0.send(Seen::Wrote);
        Ok(())
    }
    fn stop(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        Wheels::send(ports)
    }
}

struct Sensor;

impl Polled for Sensor {
    fn poll(&mut self, ports: &mut Ports<'_>, send: &mut Say<'_>) -> Result<(), DeviceFault> {
        let read = ports.i2c.read(SENSOR, &mut [0]);
        let read = read.map_err(|fault| DeviceFault::Bus { register: 0, fault });
        send(0, read.map(|()| 1.0));
        read
    }
}

struct Rig {
    threads: Threads,
    hang: Arc<AtomicU64>,
    release: Sender<Result<(), BusFault>>,
    seen: Receiver<Seen>,
    commands: Writer<Command>,
    receipts: rtrb::Consumer<OnWire>,
    _readings: rtrb::Consumer<crate::base::frame::Reading>,
    waker: Arc<Waker>,
    halt: Arc<Halt>,
    counters: Arc<BusCounters>,
    seq: u64,
}

impl Rig {
    fn new() -> Rig {
        let (saw, seen) = crossbeam_channel::unbounded();
        let (release, gone) = crossbeam_channel::unbounded();
        let (hang, waker): (Arc<AtomicU64>, Arc<Waker>) = (Arc::default(), Arc::default());
        let halt = Arc::new(Halt::new(waker.clone()));
        let counters = Arc::new(BusCounters::new("motors", ["range".to_string()]));
        let (commands, taken) = triple_buffer(Command::still(1));
        let (receipt, receipts) = rtrb::RingBuffer::new(64);
        let (reading, readings) = rtrb::RingBuffer::new(4096);
        let stops = vec![StopLine { line: LINE, off_high: false }];
        let shared = SharedLines::new(Box::new(Wire(saw.clone())), &stops, Box::new(Absent));
        let bell: Arc<Waker> = Arc::default();
        let in_flight = Arc::new(InFlight::new(400_000, halt.clone(), bell.clone()));
        let cutter = Cutter::new(&shared, stops, in_flight.clone(), counters.clone());
        let poll = PollPlan {
            device: Box::new(Sensor),
            channels: vec![0],
            period: ms(1),
            controller: false,
            prompted: false,
        };
        let worker = I2cWorker::new(BusParts {
            name: "i2c",
            i2c: Box::new(Adapter { hang: hang.clone(), release: gone, seen: saw.clone() }),
            gpio: Box::new(shared),
            repair: Box::new(NoRepair),
            rail_off: Span::ZERO,
            fragile: None,
            in_flight: Some(in_flight),
            timeout: ms(10),
            motors: Some(MotorEnd {
                actuators: Box::new(Enabled::new(Box::new(Wheels(saw)), LINE, true)),
                commands: taken,
                receipts: receipt,
                halt: HaltWatch::new(halt.clone()),
            }),
            polls: vec![poll],
            fast_stops: FastStops::of(&[], &[], [0]),
            data_ready: Arc::new(DataReady::new(waker.clone())),
            halt: halt.clone(),
            outlet: Outlet::new(reading, Arc::default()),
            counters: counters.clone(),
        });
        let mut threads = Threads::new();
        let plan = RtPlan { strict: false, priority: 0, cpu: None, lock_memory: false };
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
        threads.start(Box::new(cutter), bell, clock.clone(), Role::Lines, plan).unwrap();
        threads.start(Box::new(worker), waker.clone(), clock, Role::Bus, plan).unwrap();
        let mut rig = Rig {
            threads,
            hang,
            release,
            seen,
            commands,
            receipts,
            _readings: readings,
            waker,
            halt,
            counters,
            seq: 0,
        };
        let set_up = [rig.next(), rig.next(), rig.next()];
        assert_eq!(set_up, [Seen::Line(false), Seen::Line(false), Seen::Line(true)], "held, then set up");
        rig
    }
    fn next(&mut self) -> Seen {
        self.seen.recv_timeout(LONG).expect("something happens")
    }
    /// Sends a command that is valid for this long, and waits until it is written.
    fn command(&mut self, valid: Span) {
        self.seq += 1;
        let now = MonotonicClock.now();
        let command = Command { seq: self.seq, slot: now, valid_until: now + valid, ..Command::still(1) };
        self.commands.put(command);
        self.waker.wake();
        while self.next() != Seen::Wrote {}
    }
    /// The next transfer with `address` hangs; returns when it does.
    fn hang(&mut self, address: u8) {
        self.hang.store(u64::from(address), Ordering::SeqCst);
        assert_eq!(self.next(), Seen::Hangs(address));
    }
    fn cuts(&self) -> u64 {
        self.counters.cuts.load(Ordering::Relaxed)
    }
    /// The hung transfer returns `result`, and everything is set up again: the line goes off and on.
    fn comes_back(&mut self, result: Result<(), BusFault>) {
        self.release.send(result).unwrap();
        assert_eq!(self.next(), Seen::Returned);
        let mut offs = 0;
        while self.next() == Seen::Line(false) {
            offs += 1;
        }
        assert!(
            (1..=2).contains(&offs),
            "{result:?}: off for the set-up, and perhaps once more for a halt: {offs}"
        );
        assert_eq!(self.cuts(), 1);
    }
    fn end(self) {
        let ended = self.threads.end(Duration::from_secs(20));
        assert_eq!((ended.rest, ended.hung.len(), ended.panicked.len()), (Rest::Heard, 0, 0));
    }
}

#[test]
fn halt_cuts_the_line_while_another_devices_transfer_hangs() {
    for result in [Err(BusFault::TimedOut), Ok(())] {
        let mut rig = Rig::new();
        rig.command(Span::from_secs_f64(3600.0));
        rig.hang(SENSOR);
        std::thread::sleep(Duration::from_millis(5)); // longer than a transfer on a sound bus
        rig.halt.raise(Cause::EStop, MonotonicClock.now());
        assert_eq!(rig.next(), Seen::Line(false), "the transfer has not returned");
        rig.comes_back(result); // also after `Ok`: only a set-up switches the line on again
        rig.command(Span::from_secs_f64(3600.0));
        rig.end();
    }
}

#[test]
fn expired_command_on_a_hung_bus_is_cut_off() {
    let mut rig = Rig::new();
    let begin = MonotonicClock.now();
    rig.command(ms(50));
    rig.hang(SENSOR);
    assert_eq!(rig.next(), Seen::Line(false));
    let cut_by = MonotonicClock.now().since(begin);
    std::thread::sleep(Duration::from_millis(50)); // the transfer goes on
    rig.comes_back(Err(BusFault::TimedOut));
    let receipts = std::iter::from_fn(|| rig.receipts.pop().ok()).count();
    assert_eq!(receipts, 1);
    let counters = rig.counters.clone();
    rig.end();
    assert!(counters.longest_write_gap() <= cut_by, "the gap ends when the line is switched");
}

#[test]
fn stop_that_hangs_is_done_by_the_line() {
    let mut rig = Rig::new();
    rig.command(ms(200)); // the line is off by the time the command expires
    rig.hang.store(u64::from(MOTORS), Ordering::SeqCst); // no command follows: the next transfer is the stop
    rig.halt.raise(Cause::EStop, MonotonicClock.now());
    assert_eq!([rig.next(), rig.next()], [Seen::Hangs(MOTORS), Seen::Line(false)]);
    rig.release.send(Err(BusFault::TimedOut)).unwrap();
    while rig.next() != Seen::Line(true) {}
    assert_eq!(rig.cuts(), 1);
    rig.end();
}

/// While no stop waits, a hung transfer is left to the adapter; on a sound bus a halt is carried out by a
/// write.
#[test]
fn nothing_is_cut_while_the_motors_may_move_or_the_bus_works() {
    let mut rig = Rig::new();
    rig.command(Span::from_secs_f64(3600.0));
    rig.hang(SENSOR);
    std::thread::sleep(Duration::from_millis(60)); // more than five times the limit of a transfer
    rig.release.send(Ok(())).unwrap();
    assert_eq!(rig.next(), Seen::Returned);
    for _ in 0..20 {
        rig.halt.raise(Cause::Cliff, MonotonicClock.now());
        rig.command(Span::from_secs_f64(3600.0));
    }
    assert_eq!((rig.cuts(), rig.counters.set_ups.load(Ordering::Relaxed)), (0, 1));
    rig.end();
}

/// If the program ends while its bus hangs, the line still goes off during the last call.
#[test]
fn the_line_goes_off_at_the_end_of_a_run_whose_bus_hangs() {
    let mut rig = Rig::new();
    rig.command(Span::from_secs_f64(3600.0));
    rig.hang.store(u64::from(MOTORS), Ordering::SeqCst);
    let Rig { threads, seen, release, counters, .. } = rig;
    let end = std::thread::spawn(move || threads.end(Duration::from_secs(20)));
    let next = || seen.recv_timeout(LONG).unwrap();
    assert_eq!([next(), next()], [Seen::Hangs(MOTORS), Seen::Line(false)]);
    release.send(Err(BusFault::TimedOut)).unwrap();
    let ended = end.join().unwrap();
    assert_eq!((ended.rest, counters.cuts.load(Ordering::Relaxed)), (Rest::Heard, 1));
}
