//! A brushed motor on a bridge of the Robot HAT: one PWM and a direction line (v4, TC1508S), or two
//! PWMs, one a direction (v5, TC618S). Turns a duty into counts and writes them in an order that
//! never drives a bridge both ways.

use super::registers::Registers;
use super::robot_hat::{PERIOD, pulse_register};
use super::{DeviceFault, MotorKind};
use crate::bus::{Gpio, I2c, Line};
use crate::time::Clock;
use crate::units::Duty;

/// Frequency of the vehicle's own library (prescaler 10, 4095 counts): above it the bridges get
/// warm, below about 1 kHz the motors sing louder.
pub const PWM_HZ: f64 = 1758.0;

/// Counts for the size of `duty`: none for less than one count of it, otherwise from `min_duty`,
/// below which the motor only hums, to all.
pub fn counts(duty: Duty, min_duty: f32) -> u16 {
    let size = Duty::clamped(duty.0).0.abs(); // NaN is still
    if size * f32::from(PERIOD) < 1.0 {
        return 0;
    }
    libm::roundf((min_duty + (1.0 - min_duty) * size) * f32::from(PERIOD)) as u16
}

/// A motor of the board.
#[derive(Clone, Copy, Debug)]
pub struct DcMotor {
    bridge: Bridge,
    min_duty: f32,
}

#[derive(Clone, Copy, Debug)]
enum Bridge {
    /// `ahead`: how the line was last driven; `None`: unknown.
    Dir {
        pwm: u8,
        dir: Line,
        mirrored: bool,
        ahead: Option<bool>,
    },
    Pair {
        forward: u8,
        backward: u8,
    },
}

impl DcMotor {
    /// The motor that `kind` describes, if it is one.
    pub fn of(kind: &MotorKind) -> Option<DcMotor> {
        match *kind {
            MotorKind::DcDir { pwm, dir, mirrored, min_duty } => {
                Some(DcMotor { bridge: Bridge::Dir { pwm, dir, mirrored, ahead: None }, min_duty })
            }
            MotorKind::DcPair { forward, backward, min_duty } => {
                Some(DcMotor { bridge: Bridge::Pair { forward, backward }, min_duty })
            }
            MotorKind::Servo { .. } | MotorKind::Recorded { .. } => None,
        }
    }

    /// Its PWM channels: with no pulse on any of them it is not driven.
    pub fn channels(&self) -> heapless::Vec<u8, 2> {
        let mut channels = heapless::Vec::new();
        let (first, second) = match self.bridge {
            Bridge::Dir { pwm, .. } => (pwm, None),
            Bridge::Pair { forward, backward } => (forward, Some(backward)),
        };
        channels.extend(std::iter::once(first).chain(second)); // at most the two that fit
        channels
    }

    /// How the direction line stands is not known any more.
    pub fn forget(&mut self) {
        if let Bridge::Dir { ahead, .. } = &mut self.bridge {
            *ahead = None;
        }
    }

    /// Drives the motor from now on.
    pub fn drive(
        &mut self,
        duty: Duty,
        registers: &mut Registers,
        i2c: &mut dyn I2c,
        gpio: &mut dyn Gpio,
        clock: &dyn Clock,
    ) -> Result<(), DeviceFault> {
        let counts = counts(duty, self.min_duty);
        let wanted = duty.0 > 0.0;
        match &mut self.bridge {
            Bridge::Dir { pwm, dir, mirrored, ahead } => {
                let pulse = pulse_register(*pwm);
                if counts > 0 && *ahead != Some(wanted) {
                    // The bridge must not be switched over under power.
                    registers.hold(pulse, 0, i2c, clock)?;
                    *ahead = None;
                    let line = *dir;
                    // Forward is low on the left; the right motor is mounted mirrored.
                    gpio.set(line, wanted == *mirrored).map_err(|fault| DeviceFault::Line { line, fault })?;
                    *ahead = Some(wanted);
                }
                registers.hold(pulse, counts, i2c, clock)
            }
            Bridge::Pair { forward, backward } => {
                // Both channels high is a short-circuit brake: the one that rests goes down first.
                let (driven, resting) = if wanted { (*forward, *backward) } else { (*backward, *forward) };
                registers.hold(pulse_register(resting), 0, i2c, clock)?;
                registers.hold(pulse_register(driven), counts, i2c, clock)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::BusFault;
    use crate::bus::fake::{FakeGpio, FakeI2c};
    use crate::device::McuPlan;
    use crate::device::robot_hat::RobotHat;
    use crate::time::SimClock;
    use std::sync::Arc;

    const LEFT: MotorKind = MotorKind::DcDir { pwm: 13, dir: Line(23), mirrored: false, min_duty: 0.5 };
    const RIGHT: MotorKind = MotorKind::DcDir { pwm: 12, dir: Line(24), mirrored: true, min_duty: 0.5 };
    const PAIR: MotorKind = MotorKind::DcPair { forward: 13, backward: 12, min_duty: 0.5 };

    fn registers() -> Registers {
        let plan = McuPlan { address: 0x14, clock_hz: 72_000_000, timers: 4, reset: Line(5) };
        Registers::new(RobotHat::new(&plan))
    }

    #[test]
    fn duty_skips_what_does_not_turn_the_motor() {
        let table = [(0.0, 0), (1e-5, 0), (0.01, 2068), (0.5, 3071), (1.0, 4095), (-1.0, 4095), (3.0, 4095)];
        for (duty, expected) in table {
            assert_eq!(counts(Duty(duty), 0.5), expected, "duty {duty}");
        }
        assert_eq!(counts(Duty(f32::NAN), 0.5), 0);
    }

    #[test]
    fn forward_is_low_on_the_left_and_high_on_the_mirrored_right() {
        let clock = Arc::new(SimClock::new());
        for (kind, ahead, line) in [(LEFT, false, Line(23)), (RIGHT, true, Line(24))] {
            let mut motor = DcMotor::of(&kind).unwrap();
            let mut i2c = FakeI2c::recording();
            let mut gpio = FakeGpio::new(clock.clone());
            let mut registers = registers();
            for duty in [1.0, 0.5, -0.5, 0.0, -1.0] {
                motor.drive(Duty(duty), &mut registers, &mut i2c, &mut gpio, clock.as_ref()).unwrap();
            }
            let sets: Vec<_> = gpio.sets.iter().map(|set| (set.line, set.high)).collect();
            // Stillness leaves the line alone: going on the same way needs no switch.
            assert_eq!(sets, [(line, ahead), (line, !ahead)]);
        }
    }

    #[test]
    fn a_reversal_writes_zero_before_the_line_turns() {
        let clock = Arc::new(SimClock::new());
        let mut motor = DcMotor::of(&LEFT).unwrap();
        let mut registers = registers();
        let mut gpio = FakeGpio::new(clock.clone());
        let mut i2c = FakeI2c::new().write(0x14, &[0x2D, 0, 0]).write(0x14, &[0x2D, 0x0F, 0xFF]); // 0, then full ahead
        motor.drive(Duty(1.0), &mut registers, &mut i2c, &mut gpio, clock.as_ref()).unwrap();
        // The zero fails: the line must not turn, and the motor is not driven the other way.
        let mut i2c = FakeI2c::new().fault(0x14, BusFault::Nack);
        assert!(motor.drive(Duty(-1.0), &mut registers, &mut i2c, &mut gpio, clock.as_ref()).is_err());
        assert_eq!(gpio.sets.len(), 1);
    }

    #[test]
    fn a_line_that_does_not_turn_leaves_the_motor_still() {
        let clock = Arc::new(SimClock::new());
        let mut motor = DcMotor::of(&LEFT).unwrap();
        let mut gpio = FakeGpio::new(clock.clone()).broken(Line(23), BusFault::Io);
        let mut i2c = FakeI2c::new().write(0x14, &[0x2D, 0, 0]);
        let fault = motor.drive(Duty(1.0), &mut registers(), &mut i2c, &mut gpio, clock.as_ref());
        assert_eq!(fault, Err(DeviceFault::Line { line: Line(23), fault: BusFault::Io }));
    }

    #[test]
    fn a_pair_never_has_both_channels_high() {
        let clock = Arc::new(SimClock::new());
        let mut motor = DcMotor::of(&PAIR).unwrap();
        let mut registers = registers();
        let mut gpio = FakeGpio::new(clock.clone());
        let mut i2c = FakeI2c::recording();
        for duty in [1.0, -1.0, 0.5, 0.0, -0.2, 0.2] {
            motor.drive(Duty(duty), &mut registers, &mut i2c, &mut gpio, clock.as_ref()).unwrap();
        }
        let mut pulses = [0u16; 2];
        for bytes in i2c.take_written() {
            pulses[usize::from(bytes[0] - 0x2C)] = u16::from_be_bytes([bytes[1], bytes[2]]);
            assert!(pulses[0] == 0 || pulses[1] == 0, "{pulses:?}");
        }
        assert_eq!(pulses, [0, counts(Duty(0.2), 0.5)]);
    }
}
