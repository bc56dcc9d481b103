//! The drivers and the simulated robot together, connected only by the bus traits: what the drivers write
//! moves the car as the board describes, hardware faults show up where they should, and the world is
//! deterministic.

mod faults;
mod imu;
mod motion;
mod property;
mod wander;
mod wires;

use ganglion::base::command::Command;
use ganglion::base::plan::{Board, LineSensor, MotionErrors, SensorKind};
use ganglion::base::time::{Clock, Instant, SimClock, Span};
use ganglion::deploy::board;
use ganglion::hardware::bus::{Gpio, I2c};
use ganglion::hardware::device::actuators::{Actuators, HatActuators};
use ganglion::hardware::device::adc::HatAdc;
use ganglion::hardware::device::hc_sr04::HcSr04;
use ganglion::hardware::device::{DeviceFault, Ports};
use ganglion::sim::{Fault, Plant, Report};
use std::sync::Arc;

/// A shipped board, whose simulated wheels and gyroscope have no errors.
fn shipped(name: &str) -> Board {
    let mut board = board::built_in(name).expect("a built-in board").expect("a sound one").board;
    board.sim.iter_mut().for_each(|sim| sim.errors = MotionErrors::default());
    board
}

const fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

/// A robot in virtual time with its drivers, connected directly.
struct Rig {
    board: Board,
    clock: Arc<SimClock>,
    plant: Plant,
    i2c: Box<dyn I2c>,
    gpio: Box<dyn Gpio>,
    actuators: HatActuators,
}

impl Rig {
    fn new(board: Board, seed: u64, faults: &[&str]) -> Rig {
        let clock = Arc::new(SimClock::new());
        clock.set(Instant::ZERO + ms(123_456)); // no code may assume that a clock starts at zero
        let faults: Vec<Fault> = faults.iter().map(|line| line.parse().expect("a fault")).collect();
        let plant = Plant::new(&board, seed, &faults, clock.clone());
        let actuators = HatActuators::new(&board.motors, board.mcu.as_ref().expect("a controller"));
        Rig { i2c: plant.i2c(), gpio: plant.gpio(), board, clock, plant, actuators }
    }

    /// The desk robot, set up; its clock then shows 520 ms since the start.
    fn ready(seed: u64, faults: &[&str]) -> Rig {
        let mut rig = Rig::new(shipped("sim"), seed, faults);
        rig.set_up().expect("sets up");
        rig
    }

    fn set_up(&mut self) -> Result<(), DeviceFault> {
        self.actuators.initialise(&mut Ports {
            i2c: self.i2c.as_mut(),
            gpio: self.gpio.as_mut(),
            clock: self.clock.as_ref(),
        })
    }

    fn stop(&mut self) -> Result<(), DeviceFault> {
        self.actuators.stop(&mut Ports {
            i2c: self.i2c.as_mut(),
            gpio: self.gpio.as_mut(),
            clock: self.clock.as_ref(),
        })
    }

    /// Both drive wheels at `drive`, the front wheels at `steering`, every other servo centred.
    fn command(&mut self, drive: f32, steering: f32) -> Result<(), DeviceFault> {
        self.command_wheels([drive; 2], steering)
    }

    /// The left and the right drive wheel at `wheels`, the rest as in `command`.
    fn command_wheels(&mut self, wheels: [f32; 2], steering: f32) -> Result<(), DeviceFault> {
        let mut command = Command::still(self.board.motors.len());
        for (request, motor) in command.motors.iter_mut().zip(&self.board.motors) {
            *request = match motor.name.as_str() {
                "left" => wheels[0],
                "right" => wheels[1],
                "steering" => steering,
                _ => 0.0,
            };
        }
        self.actuators.write(
            &command,
            &mut Ports { i2c: self.i2c.as_mut(), gpio: self.gpio.as_mut(), clock: self.clock.as_ref() },
        )
    }

    fn sleep(&self, span: Span) {
        self.clock.sleep_until(self.clock.now() + span);
    }

    /// Waits until the time since the robot's start is `at`; fails if that has passed.
    fn wait_until(&self, at: Span) {
        let at = self.plant.zero() + at;
        assert!(self.clock.now() <= at, "the clock is past {at:?}");
        self.clock.sleep_until(at);
    }

    fn report(&self) -> Report {
        self.plant.report(self.clock.now())
    }

    fn adc(&mut self, channel: u8) -> Result<f32, DeviceFault> {
        HatAdc::new(0x14, channel, 1.0).read(self.i2c.as_mut())
    }

    fn range(&mut self) -> Result<f32, DeviceFault> {
        let lines = self.board.sensors.iter().find_map(|sensor| match sensor.kind {
            SensorKind::Lines(LineSensor::HcSr04 { trig, echo }) => Some((trig, echo)),
            _ => None,
        });
        let (trig, echo) = lines.expect("a sonar");
        let mut module = HcSr04::new(trig, echo);
        module.measure(self.gpio.as_mut(), self.clock.as_ref()).map(|range| range.0)
    }
}
