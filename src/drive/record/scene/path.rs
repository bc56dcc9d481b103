//! The path that a robot has driven, in a bounded number of points: the older a part is, the fewer points it
//! keeps.

/// Minimum distance between two points, metres: a curve of a small car still looks round.
const STEP_M: f64 = 0.1;
/// Maximum number of points. The newest 500 keep every step: the last 50 m.
const MOST: usize = 1000;

/// The path.
#[derive(Clone, Debug, Default)]
pub struct Path {
    points: Vec<[f64; 2]>,
    /// Where the robot is, which may be less than a step from the last point.
    end: Option<[f64; 2]>,
    /// Index of the last point that [`Path::whole`] returned.
    shown: usize,
}

impl Path {
    /// The robot is at `at`. A position that is not finite is ignored.
    pub fn follow(&mut self, at: [f64; 2]) {
        if !at.iter().all(|metres| metres.is_finite()) {
            return;
        }
        self.end = Some(at);
        let far = |last: &[f64; 2]| (at[0] - last[0]).hypot(at[1] - last[1]) >= STEP_M;
        if self.points.last().is_none_or(far) {
            if self.points.len() >= MOST {
                self.thin();
            }
            self.points.push(at);
        }
    }

    /// Removes every second point of the older half.
    fn thin(&mut self) {
        let (mut index, before) = (0, self.points.len());
        self.points.retain(|_| {
            index += 1;
            index % 2 == 1 || index > MOST / 2
        });
        self.shown = self.shown.saturating_sub(before - self.points.len());
    }

    /// Every point, up to the robot.
    pub fn whole(&mut self) -> Vec<[f64; 2]> {
        self.shown = self.points.len().saturating_sub(1);
        self.points.iter().copied().chain(self.end).collect()
    }

    /// From the last point that `whole` returned, up to the robot.
    pub fn newest(&self) -> Vec<[f64; 2]> {
        self.points[self.shown..].iter().copied().chain(self.end).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path along x, with `steps` positions that are `step` metres apart.
    fn straight(steps: usize, step: f64) -> Path {
        let mut path = Path::default();
        (0..steps).for_each(|index| path.follow([index as f64 * step, 0.0]));
        path
    }

    #[test]
    fn points_are_a_step_apart_and_the_end_is_the_robot() {
        let mut path = straight(200, 1.0 / 32.0);
        let whole = path.whole();
        // Every fourth of 200 positions, and the last.
        assert_eq!(whole.len(), 50 + 1);
        assert_eq!(whole[1], [0.125, 0.0]);
        assert_eq!(whole.last(), Some(&[199.0 / 32.0, 0.0]));
        path.follow([f64::NAN, 0.0]);
        assert_eq!(path.whole(), whole, "a position that is not a number changes nothing");
    }

    #[test]
    fn the_newest_part_joins_the_whole() {
        let mut path = straight(100, 0.25);
        let whole = path.whole();
        path.follow([100.0, 1.0]);
        assert_eq!(path.newest(), [whole[99], [100.0, 1.0], [100.0, 1.0]]);
        assert_eq!(path.whole().len(), whole.len() + 1);
    }

    #[test]
    fn the_newest_part_joins_the_whole_after_a_thinning() {
        let mut path = straight(MOST, 0.125);
        let whole = path.whole();
        path.follow([1000.0, 0.0]);
        assert!(path.points.len() < MOST, "the older half was thinned");
        assert_eq!(path.newest()[0], whole[MOST - 1]);
    }

    #[test]
    fn a_long_path_stays_bounded_and_fine_where_it_is_new() {
        let mut path = Path::default();
        for index in 0..100_000 {
            path.follow([f64::from(index) * 0.125, 0.0]);
            if index % 40 == 0 {
                path.whole();
            }
            assert!(path.newest().len() <= 42, "{index}: {}", path.newest().len());
        }
        let whole = path.whole();
        assert!(whole.len() <= MOST + 1, "{}", whole.len());
        assert_eq!(whole[0], [0.0, 0.0], "it begins at the start");
        assert!(whole.windows(2).all(|two| two[0][0] <= two[1][0]));
        let newest = &whole[whole.len() - MOST / 2..whole.len() - 1];
        assert!(newest.windows(2).all(|two| two[1][0] - two[0][0] == 0.125));
    }
}
