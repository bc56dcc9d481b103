//! A brushed motor on an H-bridge: one PWM channel and a direction line (Robot HAT v4, TC1508S), or two PWM
//! channels, one per direction (v5, TC618S). Converts a command's duty to the duty cycle of the PWM, and
//! writes the channels in an order that never drives a bridge in both directions.

use super::pulses::Pulses;
use super::{DeviceFault, Ports};
use crate::base::plan::{Line, MotorKind};
use crate::base::units::Duty;

/// Frequency that the vehicle's own library uses (prescaler 10, 4095 counts): above it the bridges get warm;
/// below about 1 kHz the motors whine louder.
pub const PWM_HZ: f64 = 1758.0;
/// A duty smaller than one count of the coarsest chip counts as zero.
const LEAST_DUTY: f32 = 1.0 / 4095.0;

/// Duty cycle of the PWM for the magnitude of `duty`: zero for a duty near zero, otherwise between `min_duty`
/// (below which the motor only hums) and 1.
pub fn share(duty: Duty, min_duty: f32) -> f32 {
    let size = Duty::clamped(duty.0).0.abs(); // NaN means stop
    if size < LEAST_DUTY { 0.0 } else { min_duty + (1.0 - min_duty) * size }
}

/// A motor of the board.
#[derive(Clone, Copy, Debug)]
pub struct DcMotor {
    bridge: Bridge,
    min_duty: f32,
}

#[derive(Clone, Copy, Debug)]
enum Bridge {
    /// `ahead`: whether the direction line was last set to forward; `None`: unknown.
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
    /// The motor that `kind` describes, if `kind` is a DC motor.
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

    /// The motor's PWM channels: it is driven only while one of them has a pulse.
    pub fn channels(&self) -> heapless::Vec<u8, 2> {
        let mut channels = heapless::Vec::new();
        let (first, second) = match self.bridge {
            Bridge::Dir { pwm, .. } => (pwm, None),
            Bridge::Pair { forward, backward } => (forward, Some(backward)),
        };
        channels.extend(std::iter::once(first).chain(second)); // at most two, which fit
        channels
    }

    /// Forgets the state of the direction line.
    pub fn forget(&mut self) {
        if let Bridge::Dir { ahead, .. } = &mut self.bridge {
            *ahead = None;
        }
    }

    /// Drives the motor at `duty` from now on.
    pub fn drive(
        &mut self,
        duty: Duty,
        pulses: &mut dyn Pulses,
        ports: &mut Ports<'_>,
    ) -> Result<(), DeviceFault> {
        let share = share(duty, self.min_duty);
        let wanted = duty.0 > 0.0;
        match &mut self.bridge {
            Bridge::Dir { pwm, dir, mirrored, ahead } => {
                if share > 0.0 && *ahead != Some(wanted) {
                    // The bridge must not be switched under power.
                    pulses.drive(*pwm, 0.0, ports)?;
                    *ahead = None;
                    let line = *dir;
                    // For the left motor, low means forward; the right motor is mounted mirrored.
                    let turned = ports.gpio.set(line, wanted == *mirrored);
                    turned.map_err(|fault| DeviceFault::Line { line, fault })?;
                    *ahead = Some(wanted);
                }
                pulses.drive(*pwm, share, ports)
            }
            Bridge::Pair { forward, backward } => {
                // With both channels high, the motor would brake by short circuit, so the idle channel goes
                // low first.
                let (driven, resting) = if wanted { (*forward, *backward) } else { (*backward, *forward) };
                pulses.drive(resting, 0.0, ports)?;
                pulses.drive(driven, share, ports)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::base::plan::McuPlan;
    use crate::base::time::SimClock;
    use crate::hardware::bus::I2c;
    use crate::hardware::bus::fake::{FakeGpio, FakeI2c};
    use crate::hardware::device::hat_pulses::{HatPulses, share_counts};
    use std::sync::Arc;

    const LEFT: MotorKind = MotorKind::DcDir { pwm: 13, dir: Line(23), mirrored: false, min_duty: 0.5 };
    const RIGHT: MotorKind = MotorKind::DcDir { pwm: 12, dir: Line(24), mirrored: true, min_duty: 0.5 };
    const PAIR: MotorKind = MotorKind::DcPair { forward: 13, backward: 12, min_duty: 0.5 };

    fn pulses() -> HatPulses {
        let plan =
            McuPlan { address: 0x14, others: [None; 3], clock_hz: 72_000_000, timers: 4, reset: Line(5) };
        HatPulses::new([].iter(), &plan)
    }

    fn drive(
        motor: &mut DcMotor,
        duty: f32,
        pulses: &mut HatPulses,
        i2c: &mut dyn I2c,
        gpio: &mut FakeGpio,
        clock: &SimClock,
    ) -> Result<(), DeviceFault> {
        motor.drive(Duty(duty), pulses, &mut Ports { i2c, gpio, clock })
    }

    #[test]
    fn forward_is_low_on_the_left_and_high_on_the_mirrored_right() {
        let clock = Arc::new(SimClock::new());
        for (kind, ahead, line) in [(LEFT, false, Line(23)), (RIGHT, true, Line(24))] {
            let mut motor = DcMotor::of(&kind).unwrap();
            let mut i2c = FakeI2c::recording();
            let mut gpio = FakeGpio::new(clock.clone());
            let mut pulses = pulses();
            for duty in [1.0, 0.5, -0.5, 0.0, -1.0] {
                drive(&mut motor, duty, &mut pulses, &mut i2c, &mut gpio, clock.as_ref()).unwrap();
            }
            let sets: Vec<_> = gpio.sets.iter().map(|set| (set.line, set.high)).collect();
            // A stop leaves the line alone: driving on in the same direction does not switch it.
            assert_eq!(sets, [(line, ahead), (line, !ahead)]);
        }
    }

    #[test]
    fn reversing_writes_zero_before_the_direction_line_changes() {
        let clock = Arc::new(SimClock::new());
        let mut motor = DcMotor::of(&LEFT).unwrap();
        let mut pulses = pulses();
        let mut gpio = FakeGpio::new(clock.clone());
        let mut i2c = FakeI2c::new().write(0x14, &[0x2D, 0, 0]).write(0x14, &[0x2D, 0x0F, 0xFF]); // 0, then full ahead
        drive(&mut motor, 1.0, &mut pulses, &mut i2c, &mut gpio, clock.as_ref()).unwrap();
        // The write of zero fails: the line must not switch, and the motor must not be reversed.
        let mut i2c = FakeI2c::new().fault(0x14, BusFault::Nack);
        assert!(drive(&mut motor, -1.0, &mut pulses, &mut i2c, &mut gpio, clock.as_ref()).is_err());
        assert_eq!(gpio.sets.len(), 1);
    }

    #[test]
    fn a_failed_direction_line_leaves_the_motor_still() {
        let clock = Arc::new(SimClock::new());
        let mut motor = DcMotor::of(&LEFT).unwrap();
        let mut gpio = FakeGpio::new(clock.clone()).broken(Line(23), BusFault::Io);
        let mut i2c = FakeI2c::new().write(0x14, &[0x2D, 0, 0]);
        let fault = drive(&mut motor, 1.0, &mut pulses(), &mut i2c, &mut gpio, clock.as_ref());
        assert_eq!(fault, Err(DeviceFault::Line { line: Line(23), fault: BusFault::Io }));
    }

    #[test]
    fn a_pair_never_has_both_channels_high() {
        let clock = Arc::new(SimClock::new());
        let mut motor = DcMotor::of(&PAIR).unwrap();
        let mut pulses = pulses();
        let mut gpio = FakeGpio::new(clock.clone());
        let mut i2c = FakeI2c::recording();
        for duty in [1.0, -1.0, 0.5, 0.0, -0.2, 0.2] {
            drive(&mut motor, duty, &mut pulses, &mut i2c, &mut gpio, clock.as_ref()).unwrap();
        }
        let mut counts = [0u16; 2];
        for bytes in i2c.take_written() {
            counts[usize::from(bytes[0] - 0x2C)] = u16::from_be_bytes([bytes[1], bytes[2]]);
            assert!(counts[0] == 0 || counts[1] == 0, "{counts:?}");
        }
        assert_eq!(counts, [0, share_counts(share(Duty(0.2), 0.5))]);
    }
}
