//! A hobby servo: from a command to an angle, from an angle to a pulse, from a pulse to counts.
//! Writes nothing itself.

use super::MotorKind;
use super::robot_hat::PERIOD;
use crate::units::Degrees;

/// Frames a second that a hobby servo expects.
pub const FRAME_HZ: f64 = 50.0;
/// The library's frame: counts are a share of exactly 20 ms, although the nearest prescaler makes it
/// 20.02 ms. The 0.1 % (a tenth of a degree) is kept, so that trims found with the vendor's tools hold.
const FRAME_US: f64 = 20_000.0;
/// Pulses at -90 and +90 degrees, and what lies between.
const PULSE_US: [f64; 2] = [500.0, 2500.0];
/// Counts are cut off, not rounded, as the library does. A hundredth of a count (0.05 us) first, so
/// that an angle whose counts are whole does not lose one to binary fractions.
const NEARLY: f64 = 0.01;

/// Length of the pulse that holds `angle`, in microseconds; beyond +-90 degrees it is that of 90.
pub fn pulse_us(angle: Degrees) -> f64 {
    let [low, high] = PULSE_US;
    (low + (f64::from(angle.0) + 90.0) * (high - low) / 180.0).clamp(low, high)
}

/// Counts of a pulse.
pub fn counts(pulse_us: f64) -> u16 {
    libm::floor(pulse_us * f64::from(PERIOD) / FRAME_US + NEARLY) as u16
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
    /// The servo that `kind` describes, if it is one.
    pub fn of(kind: &MotorKind) -> Option<Servo> {
        match *kind {
            MotorKind::Servo { pwm, min_deg, max_deg, offset_deg, mirrored } => {
                Some(Servo { channel: pwm, min_deg, max_deg, offset_deg, mirrored })
            }
            _ => None,
        }
    }

    /// What the part on the servo is to do: 0 is straight (the end nearest to it where the range
    /// leaves it out), -1 and +1 are the ends, straight lines between. NaN is straight.
    pub fn angle(&self, command: f32) -> Degrees {
        let straight = 0.0_f32.max(self.min_deg).min(self.max_deg);
        let command = if command.is_nan() { 0.0 } else { command.clamp(-1.0, 1.0) };
        let end = if command < 0.0 { self.min_deg } else { self.max_deg };
        Degrees(straight + command.abs() * (end - straight))
    }

    /// What the servo's shaft has to do for that: trimmed, and the other way round if mirrored.
    pub fn shaft(&self, angle: Degrees) -> Degrees {
        if self.mirrored { Degrees(-(angle.0 - self.offset_deg)) } else { Degrees(angle.0 + self.offset_deg) }
    }

    /// Counts for a command.
    pub fn counts(&self, command: f32) -> u16 {
        counts(pulse_us(self.shaft(self.angle(command))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servo(min_deg: f32, max_deg: f32, offset_deg: f32, mirrored: bool) -> Servo {
        Servo::of(&MotorKind::Servo { pwm: 2, min_deg, max_deg, offset_deg, mirrored }).unwrap()
    }

    #[test]
    fn counts_are_the_librarys() {
        let table = [(-90.0, 102), (-30.0, 238), (0.0, 307), (30.0, 375), (65.0, 455), (90.0, 511)];
        for (angle, expected) in table {
            assert_eq!(counts(pulse_us(Degrees(angle))), expected, "{angle} degrees");
        }
        assert_eq!(counts(pulse_us(Degrees(-1000.0))), 102);
        assert_eq!(counts(pulse_us(Degrees(1000.0))), 511);
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
    fn trim_is_added_or_for_a_mirrored_servo_taken_off() {
        let steering = servo(-30.0, 30.0, 5.0, false);
        assert_eq!(steering.shaft(Degrees(20.0)).0, 25.0);
        let pan = servo(-90.0, 90.0, 5.0, true);
        assert_eq!(pan.shaft(Degrees(20.0)).0, -15.0);
    }
}
