//! The inertial sensor's driver against the chip's model: readings match the car's motion, and a power loss
//! is noticed.

use super::{Rig, ms, shipped};
use ganglion::base::plan::ImuQuantity::{Acceleration, Pitch, Roll, Rotation, Temperature};
use ganglion::base::plan::{Axis, ChipSensor, ImuQuantity, LineRole, SensorKind, SensorPlan};
use ganglion::base::time::{Clock, Instant, SimClock};
use ganglion::hardware::bus::{Bias, Hardware, LineUse, Usage};
use ganglion::hardware::device::{self, DeviceFault, Polled, Ports};
use ganglion::sim::Plant;
use std::path::Path;
use std::sync::Arc;

const QUANTITIES: [ImuQuantity; 5] = [Roll, Pitch, Rotation(Axis::Z), Acceleration(Axis::Z), Temperature];

/// The desk robot with an inertial sensor, and its device; the robot is set up.
fn rig(faults: &[&str]) -> (Rig, Box<dyn Polled>) {
    let mut board = shipped("sim");
    let template = board.sensors[0].clone();
    let plans = QUANTITIES.map(|quantity| SensorPlan {
        name: format!("{quantity:?}"),
        kind: SensorKind::Chip(ChipSensor::Mpu6050 { address: 0x68, quantity, ready: None }),
        bus: 0,
        ..template.clone()
    });
    let device = device::open(&plans.iter().collect::<Vec<_>>(), &board, Path::new("/")).expect("a device");
    board.sensors.extend(plans);
    let mut rig = Rig::new(board, 1, faults);
    rig.set_up().expect("sets up");
    (rig, device)
}

fn set_up(rig: &mut Rig, device: &mut dyn Polled) -> Result<(), DeviceFault> {
    device.set_up(&mut Ports { i2c: rig.i2c.as_mut(), gpio: rig.gpio.as_mut(), clock: rig.clock.as_ref() })
}

fn poll(rig: &mut Rig, device: &mut dyn Polled) -> Result<[f32; 5], DeviceFault> {
    let mut values = [Ok(f32::NAN); 5];
    let mut ports = Ports { i2c: rig.i2c.as_mut(), gpio: rig.gpio.as_mut(), clock: rig.clock.as_ref() };
    device.poll(&mut ports, &mut |nth, value| values[nth] = value)?;
    let mut read = [0.0; 5];
    for (read, value) in read.iter_mut().zip(values) {
        *read = value?;
    }
    Ok(read)
}

fn near(value: f32, expected: f32, within: f32) -> bool {
    (value - expected).abs() <= within
}

#[test]
fn standing_turning_and_leaning_are_distinguished() {
    let (mut rig, mut device) = rig(&["tilt-over@4+1"]);
    set_up(&mut rig, device.as_mut()).unwrap();
    let [roll, pitch, turn, up, die] = poll(&mut rig, device.as_mut()).unwrap();
    assert!(near(roll, 0.0, 1.5) && near(pitch, 0.0, 1.5) && near(turn, 0.0, 0.3), "{roll} {pitch} {turn}");
    assert!(near(up, 9.81, 0.2) && near(die, 31.0, 0.5), "{up} {die}");

    rig.command(0.3, 1.0).unwrap();
    rig.sleep(ms(600));
    let before = rig.report().pose.heading;
    let [_, _, turn, ..] = poll(&mut rig, device.as_mut()).unwrap();
    rig.sleep(ms(100));
    let turned = ((rig.report().pose.heading - before) / 0.1).to_degrees() as f32;
    assert!(turned < -20.0 && near(turn, turned, 0.1 * turned.abs()), "{turn} instead of {turned}");

    rig.command(0.0, 0.0).unwrap();
    rig.wait_until(ms(4500));
    let [roll, ..] = poll(&mut rig, device.as_mut()).unwrap();
    assert!(near(roll, 60.0, 1.5), "{roll}");
}

#[test]
fn a_power_loss_is_noticed_and_a_set_up_recovers() {
    let (mut rig, mut device) = rig(&["brown-out@2+0.5"]);
    let asleep = Err(DeviceFault::Asleep { register: 0x6B });
    assert_eq!(poll(&mut rig, device.as_mut()), asleep, "never set up");
    set_up(&mut rig, device.as_mut()).unwrap();
    rig.command(0.3, 0.0).unwrap();
    rig.wait_until(ms(1900));
    assert!(poll(&mut rig, device.as_mut()).is_ok());
    rig.wait_until(ms(2600));
    assert_eq!(poll(&mut rig, device.as_mut()), asleep);
    set_up(&mut rig, device.as_mut()).unwrap();
    let [.., up, _] = poll(&mut rig, device.as_mut()).unwrap();
    assert!(near(up, 9.81, 0.2), "{up}: the configured scale is in effect again");
}

/// Wired as on the Jetson, the sensor pulses its data-ready line once per sample after that is enabled.
#[test]
fn the_data_ready_line_rises_once_per_sample() {
    let board = ganglion::sim::rehearsal(&shipped("jetson-orin-nano")).expect("it drives here").board;
    let roll = board.sensors.iter().find(|sensor| sensor.name == "roll").expect("an inertial sensor");
    let line = roll.kind.line(LineRole::Ready).expect("a data-ready line");
    let clock = Arc::new(SimClock::new());
    let plant = Plant::new(&board, 1, &[], clock.clone());
    let rising = LineUse { line, usage: Usage::Rising { bias: Bias::AsIs } };
    let mut gpio = Hardware::gpio(&plant, "test", &[rising]).expect("the line is there");
    assert_eq!(gpio.next_edge(ms(50)).unwrap().map(|edge| edge.stamp), None, "asleep");
    let mut i2c = plant.i2c();
    for write in [[0x6B, 0x01], [0x1A, 0x02], [0x19, 9], [0x38, 0x01]] {
        i2c.write(0x68, &write).expect("it answers");
    }
    let woken = clock.now();
    let stamps: Vec<Instant> =
        (0..3).filter_map(|_| gpio.next_edge(ms(50)).unwrap()).map(|edge| edge.stamp).collect();
    assert_eq!(stamps.len(), 3);
    assert!(stamps[0] > woken && stamps.windows(2).all(|two| two[1].since(two[0]) == ms(10)), "{stamps:?}");
}
