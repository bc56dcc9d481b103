//! Whether the robot is stuck: it commands itself forwards and the sonar's picture does not change. A robot
//! that drives along a wall sees the wall at the rim of its cone, always as far; so only a long way without
//! a change shows it.

/// Echoes of one scene differ by less than this: three times a sonar's noise and the size of its steps.
const SAME_M: f64 = 0.01;
/// This much way forwards by its commands without a change, metres: with half a metre, every robot that
/// followed a wall of a room of 4 m by 3 m backed off from nothing, again and again. Twelve seconds at a
/// PiCar-X's pace.
const WAY_M: f64 = 2.5;
/// Farther echoes say nothing: of a large room's far end, or of nothing at all, there may be no change.
const FAR_M: f64 = 2.0;

/// How long the picture has been the same.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Stuck {
    range: f64,
    way: f64,
}

impl Stuck {
    /// The robot has commanded itself `way` metres forwards (negative: backwards, which begins anew).
    pub fn went(&mut self, way: f64) {
        self.way = if way < 0.0 { 0.0 } else { self.way + way };
    }

    /// The newest echo, metres; `None`: there is none to trust.
    pub fn look(&mut self, range: Option<f64>) {
        match range.filter(|range| *range <= FAR_M) {
            Some(range) if (range - self.range).abs() <= SAME_M => {}
            range => *self = Stuck { range: range.unwrap_or(f64::INFINITY), way: 0.0 },
        }
    }

    /// The way that it has not gone, metres, if it is stuck.
    pub fn not_gone(&self) -> Option<f64> {
        (self.way > WAY_M).then_some(self.way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it is stuck after these steps of way and echo.
    fn stuck_after(steps: impl IntoIterator<Item = (f64, Option<f64>)>) -> bool {
        let mut stuck = Stuck::default();
        for (way, range) in steps {
            stuck.went(way);
            stuck.look(range);
        }
        stuck.not_gone().is_some()
    }

    #[test]
    fn driving_without_a_change_of_the_echo_counts_as_stuck() {
        let noise = |step: u32| 0.94 + 0.004 * f64::from(step % 3);
        assert!(stuck_after((0..60).map(|step| (0.05, Some(noise(step))))));
        assert!(!stuck_after((0..48).map(|step| (0.05, Some(noise(step))))), "not yet");
        assert!(
            !stuck_after((0..60).map(|step| (0.05, Some(1.9 - 0.03 * f64::from(step))))),
            "it comes nearer"
        );
        assert!(!stuck_after((0..60).map(|_| (0.05, Some(3.0)))), "too far to show it");
        assert!(!stuck_after((0..60).map(|_| (0.05, None))), "no echo to be trusted");
        let back = |step| if step == 30 { -0.01 } else { 0.05 };
        assert!(!stuck_after((0..60).map(|step| (back(step), Some(1.0)))), "it backed");
        assert!(!stuck_after((0..500).map(|_| (0.0, Some(1.0)))), "it stands");
    }
}
