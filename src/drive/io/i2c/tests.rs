//! The bus thread on a bus that fails on request: the order of work in a step, halts, devices that fail
//! alone, the order of the recovery steps. Virtual time.

use crate::base::command::{Command, OnWire};
use crate::base::fault::{BusFault, ReadingFault};
use crate::base::plan::{Cause, Restraint, Rule, SensorPlan, Trip};
use crate::base::time::{Clock, SimClock};
use crate::decision::fixture::{at, ms, range};
use crate::drive::io::*;
use crate::hardware::bus::fake::{LooseI2c, Seen};
use crate::hardware::bus::{Absent, Gpio, I2c, Measure, Repair};
use crate::hardware::device::actuators::Actuators;
use crate::hardware::device::{DeviceFault, Polled, Ports, Say};
use crate::system::executor::{Stepper, Waker};
use crate::system::rt::triple_buffer::{Writer, triple_buffer};
use std::sync::Mutex;

mod overtaking;
mod set_ups;
mod steady;
mod stops;

const HAT: u8 = 0x14;
/// First bytes of what is written: set-up of the motors, a command, a stop, set-up of a device.
const INIT: u8 = 0xA0;
const WRITE: u8 = 0xA1;
const STOP: u8 = 0xA2;
const DEVICE: u8 = 0xA3;

fn bus_fault(register: u8) -> impl Fn(BusFault) -> DeviceFault {
    move |fault| DeviceFault::Bus { register, fault }
}

struct TwoWheels;

impl TwoWheels {
    fn send(what: u8, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        ports.i2c.write(HAT, &[what, 0, 0]).map_err(bus_fault(what))
    }
}

impl Actuators for TwoWheels {
    fn initialise(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        TwoWheels::send(INIT, ports)
    }
    fn write(&mut self, _: &Command, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        TwoWheels::send(WRITE, ports)
    }
    fn stop(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        TwoWheels::send(STOP, ports)
    }
}

/// One byte, read in one transfer, from a chip that has to be set up.
struct Byte(u8);

impl Polled for Byte {
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        ports.i2c.write(self.0, &[DEVICE]).map_err(bus_fault(DEVICE))
    }
    fn poll(&mut self, ports: &mut Ports<'_>, send: &mut Say<'_>) -> Result<(), DeviceFault> {
        let mut byte = [0];
        let read = ports.i2c.read(self.0, &mut byte).map_err(bus_fault(0));
        let sense = |()| match byte {
            [0xFF] => Err(DeviceFault::DeadBytes { register: 0 }),
            [byte] => Ok(f32::from(byte)),
        };
        send(0, read.and_then(sense));
        read
    }
}

/// Accepts every measure and records it.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Measure>>>);

impl Repair for Notes {
    fn can(&self, _: Measure) -> bool {
        true
    }
    fn take(&mut self, measure: Measure) -> Result<(), BusFault> {
        self.0.lock().unwrap().push(measure);
        Ok(())
    }
}

struct Rig {
    clock: Arc<SimClock>,
    bus: LooseI2c,
    stepper: Stepper,
    commands: Writer<Command>,
    receipts: rtrb::Consumer<OnWire>,
    readings: rtrb::Consumer<Reading>,
    waker: Arc<Waker>,
    halt: Arc<Halt>,
    data_ready: Arc<DataReady>,
    counters: Arc<BusCounters>,
    measures: Notes,
}

/// A robot with the devices at `addresses`, on channels in that order, each polled every 10 ms. A value below
/// 50 on channel 0 trips a stop rule.
fn rig(addresses: &[u8]) -> Rig {
    rig_of(&addresses.iter().map(|&address| (address, 10)).collect::<Vec<_>>())
}

/// Like [`rig`], with a separate period in ms for each address.
fn rig_of(devices: &[(u8, u64)]) -> Rig {
    let poll = |(channel, &(address, period)): (usize, &(u8, u64))| PollPlan {
        controller: address == HAT,
        ..plan(Box::new(Byte(address)), channel as u8, period)
    };
    rig_with(devices.iter().enumerate().map(poll).collect())
}

fn plan(device: Box<dyn Polled>, channel: u8, period: u64) -> PollPlan {
    PollPlan { device, channels: vec![channel], period: ms(period), controller: false, prompted: false }
}

/// Like [`rig`], with the devices `polls`.
fn rig_with(polls: Vec<PollPlan>) -> Rig {
    rig_of_motors(Box::new(TwoWheels), polls)
}

fn rig_of_motors(actuators: Box<dyn Actuators>, polls: Vec<PollPlan>) -> Rig {
    let clock = Arc::new(SimClock::new());
    let bus = LooseI2c::new(clock.clone());
    bus.answer(100);
    rig_on(clock, bus.clone(), Box::new(bus), Box::new(Absent), Some(HAT), actuators, polls)
}

/// Like [`rig`], with the wires `i2c` and `gpio`; `bus` is the fake behind `i2c`. `fragile` as in
/// [`BusParts`].
fn rig_on(
    clock: Arc<SimClock>,
    bus: LooseI2c,
    i2c: Box<dyn I2c>,
    gpio: Box<dyn Gpio>,
    fragile: Option<u8>,
    actuators: Box<dyn Actuators>,
    polls: Vec<PollPlan>,
) -> Rig {
    let waker: Arc<Waker> = Arc::default();
    let halt = Arc::new(Halt::new(waker.clone()));
    let (commands, taken) = triple_buffer(Command::still(2));
    let (receipts, confirmed) = rtrb::RingBuffer::new(64);
    let (readings, sensed) = rtrb::RingBuffer::new(READING_RING);
    let names = (0..polls.len()).map(|place| format!("device {place}"));
    let counters = Arc::new(BusCounters::new("test", names));
    let floor = Rule {
        cause: Cause::Cliff,
        channel: 0,
        trip: Trip::Below(50.0),
        clear: 60.0,
        hold: Span::ZERO,
        retreat: Span::ZERO,
        restraint: Restraint::NoForward,
        latched: false,
    };
    let sensors = [SensorPlan { valid: [0.0, 255.0], ..range() }];
    let (data_ready, measures) = (Arc::new(DataReady::new(waker.clone())), Notes::default());
    let worker = I2cWorker::new(BusParts {
        in_flight: None,
        name: "i2c",
        i2c,
        gpio,
        repair: Box::new(measures.clone()),
        rail_off: ms(300),
        fragile,
        timeout: ms(10),
        motors: Some(MotorEnd { actuators, commands: taken, receipts, halt: HaltWatch::new(halt.clone()) }),
        polls,
        fast_stops: FastStops::of(&[floor], &sensors, [0]),
        data_ready: data_ready.clone(),
        halt: halt.clone(),
        outlet: Outlet::new(readings, Arc::default()),
        counters: counters.clone(),
    });
    let mut stepper = Stepper::new(clock.clone());
    stepper.add(Box::new(worker), waker.clone(), Instant::ZERO);
    let (receipts, readings) = (confirmed, sensed);
    Rig { clock, bus, stepper, commands, receipts, readings, waker, halt, data_ready, counters, measures }
}

impl Rig {
    /// Runs up to `until` ms and discards what was recorded up to then.
    fn settle(&mut self, until: u64) {
        self.stepper.run_until(at(until));
        self.bus.take_seen();
        while self.readings.pop().is_ok() {}
        while self.receipts.pop().is_ok() {}
    }
    fn command(&mut self, seq: u64, slot: u64) {
        self.command_for(1_000, seq, slot);
    }
    /// Sends a command that is valid for this many ms.
    fn command_for(&mut self, valid: u64, seq: u64, slot: u64) {
        let (slot, valid_until) = (at(slot), at(slot + valid));
        self.commands.put(Command { seq, slot, valid_until, ..Command::still(2) });
        self.waker.wake();
    }
    /// First bytes of what was written, and addresses of what was read, in order.
    fn wire_log(&self) -> Vec<u8> {
        self.bus.take_seen().iter().map(|seen| seen.wrote.unwrap_or(seen.address)).collect()
    }
    fn readings(&mut self) -> Vec<(u8, Result<f32, ReadingFault>)> {
        std::iter::from_fn(|| self.readings.pop().ok())
            .map(|reading| (reading.channel, reading.value))
            .collect()
    }
    fn count(&self, counter: impl Fn(&BusCounters) -> &AtomicU64) -> u64 {
        counter(&self.counters).load(Ordering::Relaxed)
    }
}

#[test]
fn possible_recovery_measures_are_reported() {
    let rig = rig(&[0x60]);
    let names: Vec<&str> = rig.counters.measures().map(|step| step.name()).collect();
    assert_eq!(names, ["clear", "rebind", "rail-off", "rail-on"]);
    assert_eq!(BusCounters::new("motors", []).measures().count(), 0, "no bus thread has reported any");
}

#[test]
fn everything_is_set_up_before_it_is_read() {
    let mut rig = rig(&[0x40, 0x41]);
    rig.stepper.run_until(at(5));
    assert_eq!(rig.wire_log(), [INIT, DEVICE, DEVICE, 0x40, 0x41]);
    assert_eq!(rig.readings(), [(0, Ok(100.0)), (1, Ok(100.0))]);
}

#[test]
fn halt_goes_before_pending_command_and_due_polls() {
    let mut rig = rig(&[0x40, 0x41]);
    rig.settle(9);
    // A command and a halt at the same time as both polls fall due.
    rig.clock.set(at(10));
    rig.command(7, 10);
    rig.data_ready.raise(1);
    rig.halt.raise(Cause::EStop, at(10));
    rig.stepper.run_until(at(12));
    assert_eq!(rig.wire_log()[..2], [STOP, 0x41], "the command was made without knowing of the halt");
    assert_eq!((rig.count(|c| &c.halts), rig.count(|c| &c.withheld)), (1, 1));
    assert!(rig.receipts.pop().is_ok_and(|receipt| receipt.seq == 7 && !receipt.complete));
    rig.settle(19);
    rig.command(8, 20);
    rig.stepper.run_until(at(20));
    assert_eq!(rig.wire_log()[0], WRITE, "the next command is written");
    assert!(rig.receipts.pop().is_ok_and(|receipt| receipt.seq == 8 && receipt.complete));
}

#[test]
fn commands_go_before_requested_polls_and_those_before_due_ones() {
    let mut rig = rig(&[0x40, 0x41, 0x42]);
    rig.settle(14);
    rig.clock.set(at(20));
    rig.command(1, 20);
    rig.data_ready.raise(2);
    rig.stepper.run_until(at(22));
    assert_eq!(rig.wire_log()[..3], [WRITE, 0x42, 0x40]);
}

#[test]
fn stop_follows_a_poll_in_progress_at_once() {
    let mut rig = rig(&[0x40, 0x41]);
    rig.settle(9);
    let begun = at(10) + Span::from_micros(200); // the first polls followed both set-ups, 10 ms earlier
    rig.stepper.run_until(begun);
    rig.halt.raise(Cause::EStop, begun);
    rig.stepper.run_until(at(12));
    let seen = rig.bus.take_seen();
    let stop = seen.iter().position(|seen| seen.wrote == Some(STOP)).expect("it stopped");
    assert_eq!(stop, 1, "after one poll, before the other: {seen:?}");
    assert_eq!(seen[1].at.since(seen[0].at), Span::from_micros(100));
}

#[test]
fn reading_past_a_limit_stops_the_motors_at_once_and_once() {
    let mut rig = rig(&[0x40, 0x41]);
    rig.settle(8);
    rig.bus.answer(40);
    rig.stepper.run_until(at(40));
    let log = rig.wire_log();
    let stop = log.iter().position(|&byte| byte == STOP).expect("it stopped");
    assert_eq!(log[stop - 1], 0x40);
    assert_eq!(log.iter().filter(|&&byte| byte == STOP).count(), 1, "{log:02x?}");
    assert_eq!(rig.halt.counts().collect::<Vec<_>>(), [(Cause::Cliff, 1)]);
    // A command that the tick decided before it could know of the halt is not obeyed.
    let stopped = rig.clock.now();
    rig.bus.answer(100);
    rig.settle(55);
    rig.bus.answer(40);
    rig.stepper.run_until(at(75));
    assert!(rig.clock.now() > stopped);
    rig.wire_log();
    rig.command(1, 55);
    rig.stepper.run_until(at(76));
    assert!(!rig.wire_log().contains(&WRITE));
    rig.command(2, 76);
    rig.stepper.run_until(at(77));
    assert!(rig.wire_log().contains(&WRITE));
}

#[test]
fn failing_device_is_set_up_again_alone() {
    let mut rig = rig(&[0x40, 0x41]);
    rig.settle(100);
    rig.bus.fail(0x41, Some(BusFault::Nack));
    for slot in (100..1_100).step_by(10) {
        rig.command(slot, slot);
        rig.stepper.run_until(at(slot + 9));
    }
    let seen = rig.bus.take_seen();
    assert_eq!(seen.iter().filter(|seen| seen.wrote == Some(WRITE) && seen.worked).count(), 100);
    assert_eq!(
        seen.iter().filter(|seen| seen.address == 0x40).count(),
        100,
        "the other one keeps its period"
    );
    let asked = seen.iter().filter(|seen| seen.address == 0x41).count();
    assert!(
        (12..40).contains(&asked),
        "polled {asked} times: each attempt is three transfers, and attempts become rarer"
    );
    assert!(!seen.iter().any(|seen| seen.wrote == Some(INIT)), "the motors were not reset");
    let readings = rig.readings();
    assert!(readings.iter().filter(|(channel, _)| *channel == 1).all(|(_, value)| value.is_err()));
    assert_eq!(rig.counters.taken(RecoveryStep::Reset), 1, "only the first set-up");
    rig.bus.fail(0x41, None);
    rig.stepper.run_until(at(4_000));
    let back: Vec<_> = rig.bus.take_seen().into_iter().filter(|seen| seen.address == 0x41).collect();
    assert_eq!(back[0].wrote, Some(DEVICE), "its registers may be lost: {:?}", &back[..2]);
    assert_eq!(back[1].wrote, None);
    assert!(back.len() > 50, "it is polled as before");
}

#[test]
fn device_with_invalid_values_is_set_up_ever_more_rarely() {
    let mut rig = rig(&[0x40]);
    rig.settle(100);
    rig.bus.answer(0xFF);
    rig.stepper.run_until(at(10_100));
    let set_ups = rig.wire_log().iter().filter(|&&byte| byte == DEVICE).count();
    assert!((3..=5).contains(&set_ups), "{set_ups} times in ten seconds: after 0.1, 1, 3 and 7 s");
    assert_eq!(rig.count(|c| &c.failures), 0, "the bus has no fault");
    let device = &rig.counters.devices[0];
    assert_eq!(
        (device.is_lost(), device.losses.load(Ordering::Relaxed)),
        (true, 1),
        "lost once and still lost"
    );
    rig.bus.answer(100);
    rig.stepper.run_until(at(10_200));
    assert!(!rig.counters.devices[0].is_lost(), "back with its first value");
}

#[test]
fn hung_bus_takes_every_recovery_step_and_is_given_up() {
    use Measure::{Clear, RailOff, RailOn, Rebind};
    let mut rig = rig(&[0x40]);
    rig.settle(6_000);
    rig.bus.hang(true);
    rig.stepper.run_until(at(6_030));
    let seen = rig.bus.take_seen();
    assert_eq!((seen[0].address, seen[1].wrote), (0x40, Some(INIT)), "reset at once: {seen:?}");
    assert_eq!(seen.len(), 2 + usize::from(seen.len() > 2), "a transfer that timed out is not retried");
    rig.stepper.run_until(at(16_000));
    assert_eq!(*rig.measures.0.lock().unwrap(), [Clear, Rebind, RailOff, RailOn]);
    let taken = RecoveryStep::ALL.map(|step| rig.counters.taken(step));
    assert_eq!(taken, [1 + 10, 1, 1, 1, 1, 1], "the first set-up, ten resets, each measure once, then dead");
    let readings = rig.readings();
    assert!(
        readings.len() > 5 && readings.iter().all(|(_, v)| *v == Err(ReadingFault::Bus(BusFault::TimedOut))),
        "{readings:?}"
    );
    // A bus that was given up gets one attempt every five seconds, and stop commands, because no line holds
    // these motors.
    rig.settle(16_000);
    rig.stepper.run_until(at(36_000));
    let attempts: Vec<u8> = rig.wire_log().into_iter().filter(|byte| *byte != STOP).collect();
    assert!(
        (3..=4).contains(&attempts.len()) && attempts.iter().all(|&byte| byte == INIT),
        "{attempts:02x?}"
    );
    rig.bus.hang(false);
    rig.stepper.run_until(at(36_000) + DEAD_RETRY + ms(100));
    let log: Vec<u8> = rig.wire_log().into_iter().filter(|byte| *byte != STOP).collect();
    assert_eq!(log[..3], [INIT, DEVICE, 0x40], "it comes back with a full set-up");
}

#[test]
fn failing_controller_alone_causes_a_bus_reset() {
    let mut rig = rig(&[0x40]);
    rig.settle(6_000);
    rig.bus.fail(HAT, Some(BusFault::Nack));
    for slot in (6_000..6_100).step_by(10) {
        rig.command(slot, slot);
        rig.stepper.run_until(at(slot + 9));
    }
    let (first, reset) = outage(&rig.bus.take_seen());
    assert!(
        (ms(10)..ms(13)).contains(&reset.since(first)),
        "a control period and the last attempt: {first:?} {reset:?}"
    );
    rig.bus.fail(HAT, None);
    rig.settle(12_000);
    rig.command(1, 12_000);
    rig.stepper.run_until(at(12_001));
    assert!(rig.wire_log().contains(&WRITE));
    assert_eq!(rig.counters.taken(RecoveryStep::Dead), 0);
}

/// Start times of the first failed transfer with the controller and of its reset.
fn outage(seen: &[Seen]) -> (Instant, Instant) {
    let first = seen.iter().find(|seen| seen.address == HAT && !seen.worked).expect("a failure");
    let reset = seen.iter().find(|seen| seen.wrote == Some(INIT)).expect("it was reset");
    (first.at, reset.at)
}

/// The controller's converter, polled every 20 ms, and another device, every 10 ms.
fn rig_with_converter() -> Rig {
    let rig = rig_of(&[(HAT, 20), (0x41, 10)]);
    rig.bus.answer(100);
    rig
}

#[test]
fn silent_controller_is_noticed_within_a_control_period() {
    // An unchanged command writes nothing, so the second failure would come only with the next poll.
    for phase in 0..20 {
        let mut rig = rig_with_converter();
        let from = 6_000 + phase;
        rig.settle(from);
        rig.bus.fail(HAT, Some(BusFault::Nack));
        rig.stepper.run_until(at(from + 60));
        let (first, reset) = outage(&rig.bus.take_seen());
        assert!(reset.since(first) < ms(14), "{} us at phase {phase}", reset.since(first).as_micros_f64());
    }
}

#[test]
fn controller_is_probed_at_once_when_no_device_answers() {
    for phase in 0..20 {
        let mut rig = rig_with_converter();
        let from = 6_000 + phase;
        rig.settle(from);
        [HAT, 0x41].iter().for_each(|&address| rig.bus.fail(address, Some(BusFault::Nack)));
        rig.stepper.run_until(at(from + 60));
        let seen = rig.bus.take_seen();
        let (_, reset) = outage(&seen);
        let first = seen.iter().find(|seen| !seen.worked).unwrap().at;
        assert!(reset.since(first) < ms(15), "{} us at phase {phase}", reset.since(first).as_micros_f64());
    }
}

#[test]
fn spark_of_a_few_milliseconds_causes_no_reset() {
    for length in 1..=8 {
        let mut rig = rig_with_converter();
        rig.settle(6_000);
        for slot in (6_000..7_000).step_by(10) {
            rig.command(slot, slot);
            rig.bus.fail(HAT, (slot % 100 == 0).then_some(BusFault::Nack));
            rig.stepper.run_until(at(slot + length));
            rig.bus.fail(HAT, None);
            rig.stepper.run_until(at(slot + 9));
        }
        let seen = rig.bus.take_seen();
        assert!(seen.iter().filter(|seen| !seen.worked).count() >= 10, "sparks of {length} ms are seen");
        assert!(!seen.iter().any(|seen| seen.wrote == Some(INIT)), "sparks of {length} ms reset nothing");
    }
}

#[test]
fn lost_arbitration_at_the_controller_resets_it() {
    let mut rig = rig_with_converter();
    rig.settle(6_000);
    rig.bus.fail_once(0x41, BusFault::ArbitrationLost);
    rig.stepper.run_until(at(6_020));
    assert_eq!((rig.count(|c| &c.retries), rig.count(|c| &c.failures)), (1, 0));
    rig.bus.fail_once(HAT, BusFault::ArbitrationLost);
    rig.stepper.run_until(at(6_060));
    let seen = rig.bus.take_seen();
    let lost = seen.iter().rposition(|seen| !seen.worked).unwrap();
    assert_eq!(seen[lost + 1].wrote, Some(INIT), "it may hold part of a frame: {:?}", seen[lost]);
}

#[test]
fn device_is_polled_at_its_period_after_its_line_falls_silent() {
    let mut rig = rig_with(vec![PollPlan { prompted: true, ..plan(Box::new(Byte(0x40)), 0, 10) }]);
    for ms in (5..100).step_by(10) {
        rig.stepper.run_until(at(ms));
        rig.data_ready.raise(0);
    }
    rig.settle(96);
    rig.stepper.run_until(at(1_105));
    let polls: Vec<Instant> = rig.bus.take_seen().iter().map(|seen| seen.at).collect();
    assert_eq!(polls[0].since(at(95)).as_nanos() / 1_000_000, 15, "the line gets another half period");
    assert_eq!(polls.len(), 100, "then once a period");
    assert_eq!(rig.count(|c| &c.devices[0].unprompted), 1 + 100, "the first poll, and these");
    rig.data_ready.raise(0);
    rig.settle(1_106);
    rig.stepper.run_until(at(1_119));
    assert_eq!(rig.wire_log(), [0_u8; 0], "its line signals again, so no timed polls");
}

#[test]
fn command_that_is_not_renewed_expires() {
    let mut rig = rig(&[0x40]);
    rig.settle(9);
    rig.command(1, 10);
    rig.stepper.run_until(at(1_009));
    assert!(!rig.wire_log().contains(&STOP));
    rig.stepper.run_until(at(1_015));
    assert_eq!(rig.wire_log().iter().filter(|&&byte| byte == STOP).count(), 1);
    assert_eq!(rig.count(|c| &c.expired), 1);
}

#[test]
fn late_command_stops_the_motors_and_is_not_confirmed() {
    let mut rig = rig(&[]);
    rig.settle(29);
    rig.command_for(5, 1, 10);
    rig.stepper.run_until(at(40));
    assert_eq!(rig.wire_log(), [STOP]);
    assert!(rig.receipts.pop().is_ok_and(|receipt| receipt.seq == 1 && !receipt.complete));
    assert_eq!((rig.count(|c| &c.written), rig.count(|c| &c.expired)), (0, 1));
}

#[test]
fn longest_write_gap_counts_only_motors_that_may_move() {
    let mut rig = rig(&[]);
    rig.settle(100);
    let write_gap_us = |rig: &Rig| rig.counters.longest_write_gap().as_nanos() / 1_000;
    assert_eq!(write_gap_us(&rig), 0, "set up, and not moving");
    for (seq, slot) in [(1, 100), (2, 110), (3, 120)] {
        rig.command_for(30, seq, slot);
        rig.settle(slot + 10);
    }
    assert_eq!(write_gap_us(&rig), 10_000, "from slot to slot");
    rig.settle(400);
    let expired = write_gap_us(&rig);
    assert!((30_000..31_000).contains(&expired), "the last command was valid for 30 ms: {expired}");
    rig.command(4, 1_000);
    rig.settle(1_010);
    assert_eq!(write_gap_us(&rig), expired, "they were stopped in between");
}
