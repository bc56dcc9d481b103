//! The path that a robot has driven, in a bounded number of points, to be drawn.

/// A path whose newer half keeps every step. When there are too many points, the older half loses those that
/// change its shape least, by the area of the triangle with their two neighbours (Visvalingam and Whyatt,
/// *Line generalisation by repeated elimination of points*, 1993).
#[derive(Clone, Debug)]
pub struct DrivenPath {
    points: Vec<[f64; 2]>,
    /// Where the robot is, which may be less than a step from the last point.
    end: Option<[f64; 2]>,
    /// Index of the last point that [`DrivenPath::whole`] returned.
    shown: usize,
    /// Minimum distance between two points, metres.
    step_m: f64,
    /// Maximum number of points.
    most: usize,
}

impl DrivenPath {
    /// An empty path, with points at least `step_m` metres apart and never more than `most` of them (at least
    /// eight).
    pub fn new(step_m: f64, most: usize) -> DrivenPath {
        DrivenPath { points: Vec::new(), end: None, shown: 0, step_m, most: most.max(8) }
    }

    /// The robot is at `at`, metres. A position that is not finite is ignored.
    pub fn follow(&mut self, at: [f64; 2]) {
        if !at.iter().all(|metres| metres.is_finite()) {
            return;
        }
        self.end = Some(at);
        let is_far = |last: &[f64; 2]| libm::hypot(at[0] - last[0], at[1] - last[1]) >= self.step_m;
        if self.points.last().is_none_or(is_far) {
            if self.points.len() >= self.most {
                self.thin();
            }
            self.points.push(at);
        }
    }

    /// Removes from a quarter to a half of the older half: points with small triangles, but never two
    /// neighbours, whose triangles would no longer be theirs.
    fn thin(&mut self) {
        let areas: Vec<f64> = self.points[..self.points.len() / 2].windows(3).map(twice_the_area).collect();
        let mut sorted = areas.clone();
        let (_, median, _) = sorted.select_nth_unstable_by(areas.len() / 2, f64::total_cmp);
        let (mut index, mut is_gap, shown) = (0_usize, false, self.shown);
        self.points.retain(|_| {
            let point = index;
            index += 1;
            // The first point has no triangle: the path keeps its start.
            let area = point.checked_sub(1).and_then(|triangle| areas.get(triangle));
            is_gap = !is_gap && area.is_some_and(|area| area <= median);
            self.shown -= usize::from(is_gap && point <= shown);
            !is_gap
        });
    }

    /// Every point, up to the robot.
    pub fn whole(&mut self) -> Vec<[f64; 2]> {
        self.shown = self.points.len().saturating_sub(1);
        self.newest_from(0)
    }

    /// From the last point that `whole` returned, or the one before it, up to the robot.
    pub fn newest(&self) -> Vec<[f64; 2]> {
        self.newest_from(self.shown)
    }

    fn newest_from(&self, first: usize) -> Vec<[f64; 2]> {
        self.points[first..].iter().copied().chain(self.end).collect()
    }
}

/// Twice the area of the triangle of three points, square metres.
fn twice_the_area(points: &[[f64; 2]]) -> f64 {
    let [a, b, c] = [points[0], points[1], points[2]];
    ((b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1000;

    /// A path along x, with `steps` positions that are `step` metres apart.
    fn straight(steps: usize, step: f64) -> DrivenPath {
        let mut path = DrivenPath::new(0.1, MOST);
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
        // The last shown point is in the half that is not thinned, or somewhere in the other.
        for shown in [MOST, MOST / 4, MOST / 4 + 1, 1] {
            let mut path = straight(shown, 0.125);
            let whole = path.whole();
            (shown..=MOST).for_each(|index| path.follow([index as f64 * 0.125, 0.0]));
            assert!(path.points.len() < MOST, "the older half was thinned");
            let begin = path.newest()[0][0];
            assert!(begin <= whole[shown - 1][0] && whole[shown - 1][0] - begin <= 0.125, "{shown}: {begin}");
        }
    }

    #[test]
    fn a_long_path_stays_bounded_and_fine_where_it_is_new() {
        let mut path = DrivenPath::new(0.1, MOST);
        for index in 0..100_000 {
            path.follow([f64::from(index) * 0.125, 0.0]);
            if index % 40 == 0 {
                path.whole();
            }
            assert!(path.newest().len() <= 43, "{index}: {}", path.newest().len());
        }
        let whole = path.whole();
        assert!((MOST / 2..=MOST + 1).contains(&whole.len()), "{}", whole.len());
        assert_eq!(whole[0], [0.0, 0.0], "it begins at the start");
        assert!(whole.windows(2).all(|two| two[0][0] <= two[1][0]));
        let newest = &whole[whole.len() - MOST / 2..whole.len() - 1];
        assert!(newest.windows(2).all(|two| two[1][0] - two[0][0] == 0.125));
    }

    #[test]
    fn a_corner_stays_when_straight_parts_are_thinned() {
        let mut path = DrivenPath::new(0.1, 64);
        let corner = 30;
        for index in 0..2_000 {
            let x = f64::from(index.min(corner)) * 0.125;
            path.follow([x, f64::from((index - corner).max(0)) * 0.125]);
        }
        let whole = path.whole();
        assert!(whole.len() <= 65 && whole.contains(&[3.75, 0.0]), "{whole:?}");
        assert!(whole.iter().all(|[x, y]| *x == 3.75 || *y == 0.0), "no point left the two straight lines");
    }
}
