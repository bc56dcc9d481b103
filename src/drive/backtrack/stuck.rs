//! Detects a stuck robot: its commands are forwards and the sonar's echo does not change. A robot that drives
//! along a wall sees the wall at the rim of the sonar's cone at a constant distance, so only a long distance
//! without a change counts.

/// Echoes of one scene differ by at most this, metres: three times a sonar's noise, and its resolution.
const SAME_M: f64 = 0.01;
/// The robot counts as stuck when its commands should have moved it this far forwards without a change of the
/// echo, metres: twelve seconds at a PiCar-X's pace. With half a metre, every robot that followed a wall in a
/// room of 4 m by 3 m backed off for no reason, again and again.
const WAY_M: f64 = 2.5;

/// The distance driven while the echo has stayed the same.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Stuck {
    range: f64,
    way: f64,
}

impl Stuck {
    /// The commands moved the robot `way` metres forwards (negative: backwards, which restarts the count).
    pub fn went(&mut self, way: f64) {
        self.way = if way < 0.0 { 0.0 } else { self.way + way };
    }

    /// The newest echo, metres; `None` restarts the count: there is no echo that can be trusted, or nothing
    /// is within range, and the reading does not change although the robot moves.
    pub fn look(&mut self, range: Option<f64>) {
        match range {
            Some(range) if (range - self.range).abs() <= SAME_M => {}
            range => *self = Stuck { range: range.unwrap_or(f64::INFINITY), way: 0.0 },
        }
    }

    /// The distance that was commanded but not driven, metres, if the robot is stuck.
    pub fn not_gone(&self) -> Option<f64> {
        (self.way > WAY_M).then_some(self.way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the robot is stuck after these steps, each a distance and an echo.
    fn stuck_after(steps: impl IntoIterator<Item = (f64, Option<f64>)>) -> bool {
        let mut stuck = Stuck::default();
        for (way, range) in steps {
            stuck.went(way);
            stuck.look(range);
        }
        stuck.not_gone().is_some()
    }

    #[test]
    fn distance_without_a_changing_echo_means_stuck() {
        let noise = |step: u32| 0.94 + 0.004 * f64::from(step % 3);
        assert!(stuck_after((0..60).map(|step| (0.05, Some(noise(step))))));
        assert!(!stuck_after((0..48).map(|step| (0.05, Some(noise(step))))), "not yet");
        assert!(
            !stuck_after((0..60).map(|step| (0.05, Some(1.9 - 0.03 * f64::from(step))))),
            "it comes nearer"
        );
        assert!(!stuck_after((0..60).map(|_| (0.05, None))), "no echo");
        let back = |step| if step == 30 { -0.01 } else { 0.05 };
        assert!(!stuck_after((0..60).map(|step| (back(step), Some(1.0)))), "it drove back in between");
        assert!(!stuck_after((0..500).map(|_| (0.0, Some(1.0)))), "it stands still");
    }
}
