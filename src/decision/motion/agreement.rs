//! Whether the gyroscope measures the turns that the commands make. One that is mounted upside down measures
//! the opposite, and dead reckoning with it would be worse than without it. So does one on a robot that turns
//! the wrong way, because its servo is mounted the other way round or its motors are swapped; nothing here
//! can tell these apart.

use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};
use std::f64::consts::{PI, TAU};

/// Commands that turn the robot more slowly than this, radians a second, are not compared, because an error
/// of the steering would count too much: half a degree turns a PiCar-X at 0.2 m/s by 0.02 rad/s.
const TURNS: f64 = 0.1;
/// The comparison covers about this much of the last turns, radians: two turns.
const OVER: f64 = 2.0 * TAU;
/// Turns that are compared before there is a result, radians: half a turn.
const ENOUGH: f64 = PI;
/// Below this share, the gyroscope measures the opposite. A robot that is blocked or slips measures about 0.
const OPPOSITE: f64 = -0.5;

/// Whether a gyroscope that measures this share of the commanded turns measures the opposite of them.
pub fn is_opposite(share: f64) -> bool {
    share < OPPOSITE
}

/// The commanded turns, and what the gyroscope measured meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Agreement {
    /// Radians by which the commands have turned the robot, to either side; older turns count less.
    commanded: f64,
    /// Radians that the gyroscope measured in the commanded direction.
    measured: f64,
}

impl Agreement {
    /// In `seconds` the commands turned the robot by `commanded` radians, and the gyroscope measured
    /// `measured` radians, both positive to the left.
    pub fn add(&mut self, commanded: f64, measured: f64, seconds: f64) {
        let turn = commanded.abs();
        if turn < TURNS * seconds {
            return;
        }
        let kept = 1.0 - turn / OVER;
        self.commanded = self.commanded * kept + turn;
        self.measured = self.measured * kept + measured * commanded.signum();
    }

    /// The share of the commanded turns that the gyroscope measures: about 1, below -0.5 if it measures the
    /// opposite ([`is_opposite`]). `None`: the robot has turned too little so far.
    pub fn share(&self) -> Option<f64> {
        (self.commanded >= ENOUGH).then(|| self.measured / self.commanded)
    }
}

impl Remembers for Agreement {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        let Agreement { commanded, measured } = self;
        remember!(archive: commanded, measured);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share after this many seconds of a turn of 1 rad/s to the left and to the right by turns, of which
    /// the gyroscope measures `share`.
    fn share_after(agreement: &mut Agreement, seconds: usize, share: f64) -> Option<f64> {
        for slot in 0..100 * seconds {
            let commanded = if slot / 100 % 2 == 0 { 1.0 } else { -1.0 };
            agreement.add(0.01 * commanded, 0.01 * share * commanded, 0.01);
        }
        agreement.share()
    }

    #[test]
    fn the_share_is_known_after_more_than_half_a_turn() {
        for share in [1.0, 0.0, -1.0] {
            let mut agreement = Agreement::default();
            assert_eq!(share_after(&mut agreement, 3, share), None);
            let found = share_after(&mut agreement, 4, share).expect("seven radians");
            assert!((found - share).abs() < 1e-9, "{share}: {found}");
            assert_eq!(is_opposite(found), share < 0.0, "{share}");
        }
    }

    #[test]
    fn old_turns_and_slow_ones_do_not_count() {
        let mut agreement = Agreement::default();
        share_after(&mut agreement, 100, -1.0);
        assert!(share_after(&mut agreement, 10, 1.0).is_some_and(|share| !is_opposite(share)));
        assert!(share_after(&mut agreement, 100, 1.0).is_some_and(|share| share > 0.99));
        let before = agreement;
        agreement.add(0.05, -20.0, 1.0);
        assert_eq!(agreement, before);
    }
}
