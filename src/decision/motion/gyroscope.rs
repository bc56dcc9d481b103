//! How fast the robot turns, as a gyroscope measures it. A gyroscope measures some rate even when nothing
//! turns: its zero error, up to 20 degrees a second for an MPU-6050 (InvenSense PS-MPU-6000A rev. 3.4,
//! section 6.1), which drifts with the temperature. It is measured whenever the robot stands by its own
//! commands. Until it has stood once, the gyroscope is not used.

use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};

/// While the robot stands, a rate that differs from the mean by more than this, radians a second, shows that
/// something turns it: 1.5 degrees, thirty times the noise of an MPU-6050.
const DISTURBED: f64 = 0.026;
/// After it has stopped, a robot rocks and settles for this long, seconds; what is measured meanwhile is not
/// the zero error.
const SETTLES_FOR: f64 = 0.2;
/// The zero error is known after the robot has then stood undisturbed for this long, seconds. The noise of an
/// MPU-6050 then leaves a hundredth of a degree a second.
const STANDS_FOR: f64 = 0.25;
/// The mean covers about this many of the last seconds: over more, it would not follow the temperature. A
/// zero error that differs from the known one counts only after this time: a person may be turning the robot.
const MEAN_OVER: f64 = 4.0;
/// Largest credible zero error, radians a second: a little more than 20 degrees.
const LARGEST_ZERO: f64 = 0.4;

/// A gyroscope's zero error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gyroscope {
    /// The zero error, radians a second; `None`: not known yet.
    zero: Option<f64>,
    /// The mean rate since the robot has settled (`None`: there was no reading yet), and how long ago that
    /// was, seconds; negative before.
    mean: Option<f64>,
    still_for: f64,
}

impl Gyroscope {
    /// The rate of turn after `seconds` in which the gyroscope measured `rate`, both radians a second.
    /// `stands`: the robot does not move by itself. `None`: the zero error is not known yet.
    pub fn turn(&mut self, rate: f64, stands: bool, seconds: f64) -> Option<f64> {
        let mut mean = self.mean.unwrap_or(rate);
        if !stands || (rate - mean).abs() > DISTURBED {
            (mean, self.still_for) = (rate, -SETTLES_FOR);
        }
        if stands {
            self.still_for = (self.still_for + seconds).min(MEAN_OVER);
            let share = if self.still_for > seconds { seconds / self.still_for } else { 1.0 };
            mean += (rate - mean) * share;
            let differs = self.zero.is_some_and(|zero| (mean - zero).abs() > DISTURBED);
            let long_enough = if differs { MEAN_OVER } else { STANDS_FOR };
            if self.still_for >= long_enough && mean.abs() <= LARGEST_ZERO {
                self.zero = Some(mean);
            }
        }
        self.mean = Some(mean);
        self.zero.map(|zero| rate - zero)
    }
}

impl Remembers for Gyroscope {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        let Gyroscope { zero, mean, still_for } = self;
        remember!(archive: zero, mean, still_for);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: f64 = 0.01;

    fn slots(gyroscope: &mut Gyroscope, count: usize, rate: f64, stands: bool) -> Option<f64> {
        (0..count).map(|_| gyroscope.turn(rate, stands, SLOT)).last().flatten()
    }

    fn is_near(found: Option<f64>, wanted: f64) -> bool {
        found.is_some_and(|found| (found - wanted).abs() < 1e-9)
    }

    #[test]
    fn the_zero_error_is_measured_while_the_robot_stands() {
        let mut gyroscope = Gyroscope::default();
        assert_eq!(slots(&mut gyroscope, 24, 0.1, true), None, "it has not stood for long enough");
        let mut gyroscope = Gyroscope::default();
        assert!(is_near(slots(&mut gyroscope, 26, 0.1, true), 0.0), "a robot that has not moved is settled");
        let mut gyroscope = Gyroscope::default();
        assert_eq!(slots(&mut gyroscope, 100, 0.5, false), None, "it has not stood yet");
        // It still turns a little when it has just stopped.
        assert_eq!(slots(&mut gyroscope, 19, 0.11, true), None);
        assert_eq!(slots(&mut gyroscope, 24, 0.1, true), None, "it has only just settled");
        assert!(is_near(slots(&mut gyroscope, 3, 0.1, true), 0.0));
        assert!(is_near(slots(&mut gyroscope, 100, 0.5, false), 0.4), "less the zero error");
        // A zero error that changes slowly is followed.
        for step in 0..1000 {
            gyroscope.turn(0.1 + 1e-5 * f64::from(step), true, SLOT);
        }
        let turn = gyroscope.turn(0.61, false, SLOT).expect("known");
        assert!((turn - 0.5).abs() < 0.005, "{turn}");
    }

    #[test]
    fn a_robot_that_is_turned_by_hand_keeps_its_zero_error() {
        let mut gyroscope = Gyroscope::default();
        slots(&mut gyroscope, 100, 0.05, true);
        let mut heading = 0.0;
        for step in 0..50 {
            // Half a second, up to 1.5 radians a second and back.
            let by_hand = 1.5 * (1.0 - (f64::from(step) - 25.0).abs() / 25.0);
            heading += gyroscope.turn(0.05 + by_hand, true, SLOT).expect("known") * SLOT;
        }
        assert!((heading - 0.375).abs() < 0.01, "{heading}");
        assert!(is_near(slots(&mut gyroscope, 1, 0.05, false), 0.0), "the zero error is as before");
    }

    #[test]
    fn a_robot_that_is_turned_steadily_from_the_start_has_no_zero() {
        let mut gyroscope = Gyroscope::default();
        assert_eq!(slots(&mut gyroscope, 1000, 1.0, true), None, "no gyroscope has such a zero error");
    }
}
