//! All motors of a board behind one Robot HAT: set up, obey a command, stop. Decides nothing; what
//! a command may ask is settled before it gets here.

use super::dc_motor::{self, DcMotor};
use super::registers::Registers;
use super::robot_hat::{self, RobotHat, Timer, timer_of, timer_registers};
use super::servo::{self, Servo};
use super::{DeviceFault, McuPlan};
use crate::board::plan::MotorPlan;
use crate::bus::{Gpio, I2c};
use crate::command::{Command, MAX_MOTORS};
use crate::time::{Clock, Span};
use crate::units::Duty;

/// Between two servos that start to move: each draws its stall current for a moment, and together
/// they pull the 5 V rail down (the vendor's robot.py waits as long).
const SERVO_PAUSE: Span = Span::from_millis(150);

/// A motor and its place in a command.
#[derive(Clone, Copy, Debug)]
struct Placed<M> {
    place: usize,
    motor: M,
}

/// The motors.
#[derive(Clone, Debug)]
pub struct Actuators {
    registers: Registers,
    drives: heapless::Vec<Placed<DcMotor>, MAX_MOTORS>,
    servos: heapless::Vec<Placed<Servo>, MAX_MOTORS>,
    timers: heapless::Vec<(u8, Timer), { robot_hat::TIMERS as usize }>,
    /// No pulse on any drive channel, ready to send.
    stop: heapless::Vec<[u8; 3], { robot_hat::CHANNELS as usize }>,
}

impl Actuators {
    /// The motors of a checked board. Recorded motors have no hardware and are left out.
    pub fn new(motors: &[MotorPlan], mcu: &McuPlan) -> Actuators {
        let mut actuators = Actuators {
            registers: Registers::new(RobotHat::new(mcu)),
            drives: heapless::Vec::new(),
            servos: heapless::Vec::new(),
            timers: heapless::Vec::new(),
            stop: heapless::Vec::new(),
        };
        for (place, plan) in motors.iter().enumerate() {
            if let Some(motor) = DcMotor::of(&plan.kind) {
                let _ = actuators.drives.push(Placed { place, motor }); // a command has no more places
                for channel in motor.channels() {
                    actuators.run_timer(channel, Timer::at(mcu.clock_hz, dc_motor::PWM_HZ));
                    let _ = actuators.stop.push(robot_hat::frame(robot_hat::pulse_register(channel), 0));
                }
            } else if let Some(motor) = Servo::of(&plan.kind) {
                let _ = actuators.servos.push(Placed { place, motor });
                actuators.run_timer(motor.channel, Timer::at(mcu.clock_hz, servo::FRAME_HZ));
            }
        }
        actuators
    }

    /// The board check has refused channels of one timer that need two frequencies.
    fn run_timer(&mut self, channel: u8, setting: Timer) {
        let timer = timer_of(channel);
        if self.timers.iter().all(|(known, _)| *known != timer) {
            let _ = self.timers.push((timer, setting)); // as many places as there are timers
        }
    }

    /// Resets the controller and sets everything up: drive motors still, timers, servos straight,
    /// one after the other. Takes 220 ms and 150 ms for each servo but the first.
    pub fn initialise(
        &mut self,
        i2c: &mut dyn I2c,
        gpio: &mut dyn Gpio,
        clock: &dyn Clock,
    ) -> Result<(), DeviceFault> {
        self.registers.forget();
        self.drives.iter_mut().for_each(|drive| drive.motor.forget());
        self.registers.hat().reset(gpio, clock)?;
        for frame in &self.stop {
            self.registers.hold(frame[0], 0, i2c, clock)?;
        }
        for (timer, setting) in &self.timers {
            for (register, value) in timer_registers(*timer).into_iter().zip(setting.register_values()) {
                self.registers.hold(register, value, i2c, clock)?;
            }
        }
        for (nth, servo) in self.servos.iter().enumerate() {
            if nth > 0 {
                clock.sleep_until(clock.now() + SERVO_PAUSE);
            }
            let register = robot_hat::pulse_register(servo.motor.channel);
            self.registers.hold(register, servo.motor.counts(0.0), i2c, clock)?;
        }
        Ok(())
    }

    /// Obeys `command`: drive motors first, each of them even if the one before failed; then servos;
    /// then registers that have not been written for long. Motors beyond the command's end stand.
    /// The first fault is returned, and what failed is written again with the next command.
    pub fn write(
        &mut self,
        command: &Command,
        i2c: &mut dyn I2c,
        gpio: &mut dyn Gpio,
        clock: &dyn Clock,
    ) -> Result<(), DeviceFault> {
        let wish = |place: usize| command.used().get(place).copied().unwrap_or(0.0);
        let mut outcome = Ok(());
        for Placed { place, motor } in &mut self.drives {
            let driven = motor.drive(Duty::clamped(wish(*place)), &mut self.registers, i2c, gpio, clock);
            outcome = outcome.and(driven);
        }
        outcome?;
        for Placed { place, motor } in &self.servos {
            let register = robot_hat::pulse_register(motor.channel);
            self.registers.hold(register, motor.counts(wish(*place)), i2c, clock)?;
        }
        self.registers.renew(i2c, clock)
    }

    /// Takes the pulse from every drive motor with frames that were encoded beforehand, whatever is
    /// believed to be there; tries each of them and returns the first fault. Servos keep their pulse.
    pub fn stop(&mut self, i2c: &mut dyn I2c) -> Result<(), DeviceFault> {
        let address = self.registers.hat().address();
        let mut outcome = Ok(());
        for frame in &self.stop {
            let register = frame[0];
            let written = i2c.write(address, frame).map_err(|fault| DeviceFault::Bus { register, fault });
            outcome = outcome.and(written);
            self.registers.doubt(register, 0); // written again with the next command, at no cost to this one
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::fake::{FakeGpio, FakeI2c};
    use crate::bus::{BusFault, Line};
    use crate::device::MotorKind;
    use crate::time::{Instant, SimClock};
    use std::sync::Arc;

    const MCU: McuPlan = McuPlan { address: 0x14, clock_hz: 72_000_000, timers: 4, reset: Line(5) };

    fn motor(name: &str, kind: MotorKind) -> MotorPlan {
        MotorPlan { name: name.into(), kind, limit: 1.0, slew_per_s: 4.0 }
    }

    fn steering() -> MotorKind {
        MotorKind::Servo { pwm: 2, min_deg: -30.0, max_deg: 30.0, offset_deg: 0.0, mirrored: false }
    }

    fn v4() -> Vec<MotorPlan> {
        let dc = |pwm, dir, mirrored| MotorKind::DcDir { pwm, dir: Line(dir), mirrored, min_duty: 0.5 };
        vec![
            motor("steering", steering()),
            motor("left", dc(13, 23, false)),
            motor(
                "pan",
                MotorKind::Servo { pwm: 0, min_deg: -90.0, max_deg: 90.0, offset_deg: 0.0, mirrored: true },
            ),
            motor("right", dc(12, 24, true)),
            motor("log", MotorKind::Recorded { drive: true }),
        ]
    }

    struct Rig {
        clock: Arc<SimClock>,
        i2c: FakeI2c,
        gpio: FakeGpio,
        actuators: Actuators,
    }

    impl Rig {
        fn new() -> Rig {
            let clock = Arc::new(SimClock::new());
            let gpio = FakeGpio::new(clock.clone());
            Rig { clock, i2c: FakeI2c::recording(), gpio, actuators: Actuators::new(&v4(), &MCU) }
        }
        fn ready() -> Rig {
            let mut rig = Rig::new();
            rig.actuators.initialise(&mut rig.i2c, &mut rig.gpio, rig.clock.as_ref()).unwrap();
            rig.i2c.take_written();
            rig
        }
        fn write(&mut self, motors: &[f32]) -> Result<(), DeviceFault> {
            let mut command = Command::still(motors.len());
            command.motors[..motors.len()].copy_from_slice(motors);
            self.actuators.write(&command, &mut self.i2c, &mut self.gpio, self.clock.as_ref())
        }
    }

    #[test]
    fn setting_up_stills_the_motors_before_their_timers_run_and_centres_servos_one_by_one() {
        let mut rig = Rig::new();
        rig.actuators.initialise(&mut rig.i2c, &mut rig.gpio, rig.clock.as_ref()).unwrap();
        let expected: Vec<Vec<u8>> = vec![
            vec![0x2D, 0, 0],
            vec![0x2C, 0, 0],
            vec![0x40, 0x01, 0x5F],
            vec![0x44, 0x0F, 0xFF],
            vec![0x43, 0x00, 0x09],
            vec![0x47, 0x0F, 0xFF],
            vec![0x22, 0x01, 0x33], // 307: steering straight
            vec![0x20, 0x01, 0x33],
        ];
        assert_eq!(rig.i2c.take_written(), expected);
        assert_eq!(rig.clock.now(), Instant::ZERO + Span::from_millis(220 + 150));
    }

    #[test]
    fn a_command_writes_drives_first_and_only_what_changed() {
        let mut rig = Rig::ready();
        rig.write(&[1.0, 1.0, 0.0, 0.2, 0.7]).unwrap();
        let full = vec![0x2D, 0x0F, 0xFF];
        let written = rig.i2c.take_written();
        assert_eq!(written[0], full);
        assert_eq!(written[1][0], 0x2C);
        assert_eq!(written[2], [0x22, 0x01, 0x77]); // 375: 30 degrees to the right
        assert_eq!(written.len(), 3);
        rig.write(&[1.0, 1.0, 0.0, 0.2, 0.7]).unwrap();
        assert!(rig.i2c.take_written().is_empty());
        rig.write(&[1.0, 0.0, 0.0, 0.2, 0.7]).unwrap();
        assert_eq!(rig.i2c.take_written(), [[0x2D, 0, 0]]);
    }

    #[test]
    fn everything_is_written_again_within_half_a_second() {
        let mut rig = Rig::ready();
        let start = rig.clock.now();
        let mut seen = Vec::new();
        for tick in 1..=50 {
            rig.clock.sleep_until(start + Span::from_millis(10).times(tick));
            rig.write(&[0.0; 5]).unwrap();
            seen.extend(rig.i2c.take_written().into_iter().map(|bytes| bytes[0]));
        }
        seen.sort_unstable();
        assert!(seen.len() <= 16, "each at most twice: {seen:02x?}");
        seen.dedup();
        assert_eq!(seen, [0x20, 0x22, 0x2C, 0x2D, 0x40, 0x43, 0x44, 0x47]);
    }

    #[test]
    fn stopping_tries_every_motor_and_the_next_command_rewrites_it() {
        let mut rig = Rig::ready();
        rig.write(&[0.0, 1.0, 0.0, 1.0, 0.0]).unwrap();
        let mut broken = FakeI2c::new().fault(0x14, BusFault::Nack).write(0x14, &[0x2C, 0, 0]);
        let fault = rig.actuators.stop(&mut broken).unwrap_err();
        assert_eq!(fault, DeviceFault::Bus { register: 0x2D, fault: BusFault::Nack });
        rig.i2c.take_written();
        rig.write(&[0.0, 1.0, 0.0, 1.0, 0.0]).unwrap();
        assert_eq!(rig.i2c.take_written(), [[0x2D, 0x0F, 0xFF], [0x2C, 0x0F, 0xFF]]);
    }

    #[test]
    fn one_motor_that_fails_does_not_keep_the_other_from_its_command() {
        let mut rig = Rig::ready();
        rig.write(&[0.0, 1.0, 0.0, 1.0, 0.0]).unwrap();
        rig.i2c = FakeI2c::new().fault(0x14, BusFault::Nack).write(0x14, &[0x2C, 0, 0]);
        assert!(rig.write(&[0.0; 5]).is_err());
    }

    #[test]
    fn a_short_command_and_nan_leave_motors_still() {
        let mut rig = Rig::ready();
        rig.write(&[0.0, 1.0, 0.0, 1.0, 0.0]).unwrap();
        rig.i2c.take_written();
        rig.write(&[f32::NAN, f32::NAN]).unwrap();
        assert_eq!(rig.i2c.take_written(), [[0x2D, 0, 0], [0x2C, 0, 0]]);
    }

    #[test]
    fn a_v5_stops_both_channels_of_every_pair() {
        let pair = |forward, backward| MotorKind::DcPair { forward, backward, min_duty: 0.5 };
        let motors = [motor("left", pair(13, 12)), motor("right", pair(14, 15)), motor("aux", pair(18, 19))];
        let plan = McuPlan { timers: 7, ..MCU };
        let mut actuators = Actuators::new(&motors, &plan);
        let mut i2c = FakeI2c::recording();
        actuators.stop(&mut i2c).unwrap();
        let registers: Vec<u8> = i2c.take_written().iter().map(|bytes| bytes[0]).collect();
        assert_eq!(registers, [0x2D, 0x2C, 0x2E, 0x2F, 0x32, 0x33]);
        let clock = Arc::new(SimClock::new());
        let mut gpio = FakeGpio::new(clock.clone());
        actuators.initialise(&mut i2c, &mut gpio, clock.as_ref()).unwrap();
        let timers: Vec<u8> = i2c.take_written()[6..].iter().map(|bytes| bytes[0]).collect();
        assert_eq!(timers, [0x43, 0x47, 0x51, 0x55, 0x52, 0x56]);
    }
}
