//! A hobby servo: converts a command to an angle, and an angle to a pulse length. Writes nothing itself; the
//! driver of the chip that generates the pulse converts the length to counts.

use crate::base::plan::MotorKind;
use crate::base::units::Degrees;

/// Frames per second that a hobby servo expects.
pub const FRAME_HZ: f64 = 50.0;
/// Pulse lengths at -90 and +90 degrees; linear in between.
const PULSE_US: [f64; 2] = [500.0, 2500.0];

/// Length of the pulse for `angle`, in microseconds; angles are limited to +-90 degrees.
pub fn pulse_us(angle: Degrees) -> f64 {
    let [low, high] = PULSE_US;
    (low + (f64::from(angle.0) + 90.0) * (high - low) / 180.0).clamp(low, high)
}

/// A servo of the board.
#[derive(Clone, Copy, Debug)]
pub struct Servo {
    /// PWM channel.
    pub channel: u8,
    min_deg: f32,
    max_deg: f32,
    offset_deg: f32,
    mirrored: bool,
}

impl Servo {
    /// The servo that `kind` describes, if `kind` is a servo.
    pub fn of(kind: &MotorKind) -> Option<Servo> {
        let MotorKind::Servo { pwm, min_deg, max_deg, offset_deg, mirrored } = *kind else { return None };
        Some(Servo { channel: pwm, min_deg, max_deg, offset_deg, mirrored })
    }

    /// Angle of the part that the servo moves. Command 0 is straight (or the end nearest to straight, if the
    /// range excludes it), -1 and +1 are the ends, linear in between. NaN counts as 0.
    pub fn angle(&self, command: f32) -> Degrees {
        let straight = 0.0_f32.max(self.min_deg).min(self.max_deg);
        let command = if command.is_nan() { 0.0 } else { command.clamp(-1.0, 1.0) };
        let end = if command < 0.0 { self.min_deg } else { self.max_deg };
        Degrees(straight + command.abs() * (end - straight))
    }

    /// Angle of the servo's shaft at this angle of the part: trimmed, and reversed if mirrored.
    pub fn shaft(&self, angle: Degrees) -> Degrees {
        if self.mirrored { Degrees(-(angle.0 - self.offset_deg)) } else { Degrees(angle.0 + self.offset_deg) }
    }

    /// The pulse for a command, microseconds.
    pub fn pulse_us(&self, command: f32) -> f64 {
        pulse_us(self.shaft(self.angle(command)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servo(min_deg: f32, max_deg: f32, offset_deg: f32, mirrored: bool) -> Servo {
        Servo::of(&MotorKind::Servo { pwm: 2, min_deg, max_deg, offset_deg, mirrored }).unwrap()
    }

    #[test]
    fn a_pulse_is_500_to_2500_us_over_180_degrees() {
        let table = [(-90.0, 500.0), (-45.0, 1000.0), (0.0, 1500.0), (90.0, 2500.0), (1e9, 2500.0)];
        for (angle, expected) in table {
            assert!((pulse_us(Degrees(angle)) - expected).abs() < 1e-9, "{angle} degrees");
        }
        assert!((servo(-30.0, 30.0, 0.0, false).pulse_us(1.0) - 1833.33).abs() < 0.01);
    }

    #[test]
    fn a_command_spans_the_range_and_zero_is_straight() {
        let tilt = servo(-35.0, 65.0, 0.0, false);
        for (command, degrees) in [(-1.0, -35.0), (0.0, 0.0), (1.0, 65.0), (0.5, 32.5), (7.0, 65.0)] {
            assert_eq!(tilt.angle(command).0, degrees);
        }
        assert_eq!(tilt.angle(f32::NAN).0, 0.0);
        let gripper = servo(10.0, 50.0, 0.0, false);
        assert_eq!((gripper.angle(-1.0).0, gripper.angle(0.0).0, gripper.angle(1.0).0), (10.0, 10.0, 50.0));
    }

    #[test]
    fn trim_is_added_or_subtracted_on_a_mirrored_servo() {
        let steering = servo(-30.0, 30.0, 5.0, false);
        assert_eq!(steering.shaft(Degrees(20.0)).0, 25.0);
        let pan = servo(-90.0, 90.0, 5.0, true);
        assert_eq!(pan.shaft(Degrees(20.0)).0, -15.0);
    }
}
