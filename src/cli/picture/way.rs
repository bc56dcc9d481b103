//! The path that a robot drove, in bounded memory: a point every few centimetres. When there are too many
//! points, every second one is removed and the spacing doubles.

/// Initial minimum distance between two points, metres: a tenth of a PiCar-X's length, so curves look round.
const FIRST_STEP_M: f64 = 0.02;
/// Maximum number of points: 80 m at the initial distance, and about 50 kB in a picture.
const MOST_POINTS: usize = 4_000;

/// The path so far.
#[derive(Clone, Debug)]
pub(super) struct Way {
    points: Vec<[f64; 2]>,
    step_m: f64,
}

impl Default for Way {
    fn default() -> Way {
        Way { points: Vec::new(), step_m: FIRST_STEP_M }
    }
}

impl Way {
    /// Adds the robot's present position `at`.
    pub(super) fn go(&mut self, at: [f64; 2]) {
        let is_near = |last: &[f64; 2]| libm::hypot(at[0] - last[0], at[1] - last[1]) < self.step_m;
        if self.points.last().is_some_and(is_near) {
            return;
        }
        if self.points.len() == MOST_POINTS {
            let mut nth = 0;
            self.points.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
            self.step_m *= 2.0;
        }
        self.points.push(at);
    }

    /// The path up to `end`, where the robot is now.
    pub(super) fn to(&self, end: [f64; 2]) -> Vec<[f64; 2]> {
        let last = self.points.last().filter(|last| **last == end);
        let rest = if last.is_some() { None } else { Some(end) };
        self.points.iter().copied().chain(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_robot_adds_no_point() {
        let mut way = Way::default();
        [0.0, 0.0, 0.019, 0.021, 0.03, 0.042].into_iter().for_each(|x| way.go([x, 0.0]));
        assert_eq!(way.points, [[0.0, 0.0], [0.021, 0.0], [0.042, 0.0]]);
        assert_eq!(way.to([0.05, 0.0]).len(), 4, "the end is part of the path");
        assert_eq!(way.to([0.042, 0.0]).len(), 3, "the end is in it only once");
    }

    #[test]
    fn a_long_way_is_drawn_more_coarsely_from_the_same_start() {
        let mut way = Way::default();
        for step in 0..10 * MOST_POINTS {
            way.go([step as f64 * 0.021, 0.0]);
        }
        assert!((MOST_POINTS / 2..=MOST_POINTS).contains(&way.points.len()), "{}", way.points.len());
        assert_eq!(way.points[0], [0.0, 0.0]);
        let apart = way.points.windows(2).map(|pair| pair[1][0] - pair[0][0]).fold(0.0, f64::max);
        assert!(way.step_m > 8.0 * FIRST_STEP_M && apart < 2.0 * way.step_m, "{apart}");
        assert_eq!(way.points.capacity().next_power_of_two(), MOST_POINTS.next_power_of_two());
    }
}
