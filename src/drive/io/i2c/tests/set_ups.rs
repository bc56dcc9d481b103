//! Devices that are set up while the motors drive: the motors' bus is never busy for longer than one call.

use super::*;
use crate::base::plan::{Axis, ImuQuantity};
use crate::base::seed::{Stream, bits};
use crate::hardware::bus::Op;
use crate::hardware::device::bench::Ranger;
use crate::hardware::device::mpu6050::Mpu6050;
use crate::hardware::device::vl53l0x::{FIRST_ADDRESS, Vl53l0x};
use proptest::prelude::*;

const IMU: u8 = 0x68;
/// Validity of a command, ms: three slots.
const VALID: u64 = 30;

/// A bus on which one device sometimes does not acknowledge, for several transfers in a row.
struct Nacks {
    clock: Arc<SimClock>,
    inner: Box<dyn I2c>,
    device: u8,
    from: Instant,
    /// One transfer in this many starts such a series.
    odds: u64,
    seed: u64,
    nth: u64,
    left: u64,
}

impl I2c for Nacks {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let now = self.clock.now();
        if address != self.device || now < self.from {
            return self.inner.transfer(address, ops);
        }
        self.nth += 1;
        let draw = bits(self.seed, Stream::Fault, self.nth);
        if self.left == 0 && draw.is_multiple_of(self.odds) {
            self.left = 1 + (draw >> 32) % 8; // a transfer fails after three tries
        }
        if self.left == 0 {
            return self.inner.transfer(address, ops);
        }
        self.left -= 1;
        self.clock.sleep_until(now + Span::from_micros(30));
        Err(BusFault::Nack)
    }
}

/// A range finder added to the other devices.
struct WithRanger(LooseI2c, Ranger);

impl I2c for WithRanger {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        if address == FIRST_ADDRESS { self.1.transfer(address, ops) } else { self.0.transfer(address, ops) }
    }
}

fn imu() -> Box<dyn Polled> {
    let outputs = [ImuQuantity::Roll, ImuQuantity::Rotation(Axis::Z)];
    Box::new(Mpu6050::new(IMU, outputs.into(), None))
}

/// Motors, a byte device, and `device` at `address`, which after the first second does not always answer.
fn troubled(device: Box<dyn Polled>, address: u8, odds: u64, seed: u64) -> Rig {
    let clock = Arc::new(SimClock::new());
    let bus = LooseI2c::new(clock.clone());
    bus.answer(IMU); // also a harmless reading
    let inner = Box::new(WithRanger(bus.clone(), Ranger::new(clock.clone())));
    let from = at(1_000);
    let i2c =
        Box::new(Nacks { clock: clock.clone(), inner, device: address, from, odds, seed, nth: 0, left: 0 });
    let polls =
        vec![plan(Box::new(Byte(0x41)), 0, 10), PollPlan { channels: vec![1, 2], ..plan(device, 1, 10) }];
    rig_on(clock, bus, i2c, Box::new(Absent), Some(HAT), Box::new(TwoWheels), polls)
}

/// Drives for `seconds` with one command per slot. Returns the longest gap between two writes to the motors,
/// microseconds.
fn longest_gap(rig: &mut Rig, seconds: u64) -> f64 {
    rig.settle(1_000);
    for slot in (1_000..1_000 * (1 + seconds)).step_by(10) {
        rig.command_for(VALID, slot, slot);
        rig.stepper.run_until(at(slot + 9));
    }
    let words: Vec<Instant> =
        rig.bus.take_seen().iter().filter(|seen| seen.address == HAT).map(|seen| seen.at).collect();
    words.windows(2).map(|pair| pair[1].since(pair[0]).as_micros_f64()).fold(0.0, f64::max)
}

/// The largest allowed gap: a slot, and one call of a device (three tries with their pauses, or two
/// transfers).
const MOST_US: f64 = 10_000.0 + 1_600.0;

fn keeps_the_motors_bus_free(device: Box<dyn Polled>, address: u8, odds: u64, seed: u64) {
    let mut rig = troubled(device, address, odds, seed);
    let gap = longest_gap(&mut rig, 6);
    let set_ups = rig.count(|c| &c.devices[1].set_ups);
    assert!(gap <= MOST_US, "{gap} us without a write, {set_ups} set-ups");
    assert_eq!(rig.count(|c| &c.expired), 0, "no command expired");
    assert_eq!(rig.counters.taken(RecoveryStep::Reset), 1, "a failing device affects no other");
    let others = rig.count(|c| &c.devices[0].polls);
    assert!((698..=701).contains(&others), "{others} of 700: the other device keeps its period");
}

#[test]
fn one_missed_imu_acknowledge_does_not_delay_the_motors() {
    let mut rig = troubled(imu(), IMU, u64::MAX, 0);
    rig.settle(999);
    assert_eq!(rig.count(|c| &c.devices[1].set_ups), 1);
    rig.bus.fail(IMU, Some(BusFault::Nack));
    rig.stepper.run_until(at(1_005));
    rig.bus.fail(IMU, None);
    let gap = longest_gap(&mut rig, 2);
    assert!(gap <= MOST_US, "{gap} us without a write");
    assert_eq!(rig.count(|c| &c.devices[1].set_ups), 2, "one more set-up, counted once");
    assert_eq!(rig.count(|c| &c.expired), 0);
    let readings = rig.readings();
    assert!(readings.iter().rev().any(|(channel, value)| *channel == 1 && value.is_ok()), "it is back");
}

#[test]
fn halt_during_a_set_up_stops_at_once_and_set_up_continues() {
    let mut rig = troubled(imu(), IMU, u64::MAX, 0);
    rig.stepper.run_until(at(100)); // the IMU waits for its reset
    rig.command_for(VALID, 1, 100);
    rig.stepper.run_until(at(101));
    rig.bus.take_seen();
    rig.halt.raise(Cause::EStop, at(101));
    rig.stepper.run_until(at(102));
    assert_eq!(rig.wire_log()[0], STOP);
    rig.stepper.run_until(at(260));
    assert_eq!(rig.count(|c| &c.devices[1].set_ups), 1);
    let asked = rig.bus.take_seen();
    assert!(!asked.iter().any(|seen| seen.wrote == Some(0x75)), "its identity is not read again");
    let readings = rig.readings();
    assert!(readings.iter().any(|(channel, value)| *channel == 1 && value.is_ok()));
}

#[test]
fn reset_bus_restarts_its_set_ups() {
    let mut rig = troubled(imu(), IMU, u64::MAX, 0);
    rig.stepper.run_until(at(100));
    rig.bus.take_seen();
    rig.bus.fail_once(HAT, BusFault::Io);
    rig.command_for(VALID, 1, 100);
    rig.stepper.run_until(at(500));
    let asked: Vec<_> =
        rig.bus.take_seen().iter().filter(|seen| seen.address == IMU).map(|s| s.wrote).collect();
    assert_eq!(asked[0], Some(0x75), "from the start: {asked:02x?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn unanswering_device_never_makes_the_motor_bus_unavailable(
        seed in any::<u64>(),
        odds in prop::sample::select(vec![2_u64, 7, 30, 200, 900]),
    ) {
        keeps_the_motors_bus_free(imu(), IMU, odds, seed);
        keeps_the_motors_bus_free(Box::new(Vl53l0x::new(FIRST_ADDRESS, None)), FIRST_ADDRESS, odds, seed);
    }
}
