//! The recorded path: steering over distance, as a stack. Driving forwards pushes pieces, driving backwards
//! pops them. Its size is fixed: the oldest pieces are forgotten.

use crate::decision::motion::OdometryPose;
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};

/// Length of a piece, metres: two control periods of a PiCar-X at full speed. At that speed the steering
/// changes by at most a twentieth of full lock over a piece; shorter pieces would only cost memory.
const PIECE_M: f64 = 0.01;
/// A piece that rounding makes shorter than [`PIECE_M`] by up to this, metres, still counts as a piece.
const LEAST_M: f64 = 1e-9;
/// Maximum number of pieces: 4 m in all, so no retreat is longer.
const PIECES: usize = 400;
/// The longest path that it can record, metres.
pub const LONGEST_M: f64 = PIECE_M * PIECES as f64;

/// A piece of the path: the steering command on it, and the robot's pose at its end.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Piece {
    steering: f32,
    end: OdometryPose,
}

/// The recorded path.
#[derive(Clone, Debug)]
pub struct Path {
    /// The whole pieces, the oldest first.
    pieces: heapless::Deque<Piece, PIECES>,
    /// The length of the next, unfinished piece, metres, and the steering on it.
    open: f64,
    steering: f32,
    /// Maximum number of pieces for this robot.
    most: usize,
}

impl Path {
    /// An empty path. It will keep the last `longest_m` metres, at most [`LONGEST_M`].
    pub fn new(longest_m: f64) -> Path {
        // 1e-6: a decimal value may be slightly too small in binary.
        let most = ((longest_m / PIECE_M + 1e-6) as usize).clamp(1, PIECES);
        Path { pieces: heapless::Deque::new(), open: 0.0, steering: 0.0, most }
    }

    /// Forgets the path: the robot, now at `pose`, may have been moved. Takes the `straight` metres behind it
    /// as the new path.
    pub fn begin(&mut self, straight: f64, pose: OdometryPose) {
        self.pieces.clear();
        (self.open, self.steering) = (0.0, 0.0);
        let pieces = (straight / PIECE_M + 1e-6) as usize;
        for piece in (0..pieces).rev() {
            let end = pose.ahead(-PIECE_M * piece as f64, 0.0);
            self.forwards(PIECE_M, 0.0, end);
        }
    }

    /// The robot went `way` metres forwards with this steering, and is now at `pose`.
    pub fn forwards(&mut self, way: f64, steering: f32, pose: OdometryPose) {
        self.steering = steering;
        self.open += way.clamp(0.0, LONGEST_M);
        while self.open >= PIECE_M - LEAST_M {
            self.open = (self.open - PIECE_M).max(0.0);
            if self.pieces.len() >= self.most {
                self.pieces.pop_front();
            }
            // There is room: the oldest has gone.
            let _ = self.pieces.push_back(Piece { steering, end: pose.ahead(-self.open, 0.0) });
        }
    }

    /// The robot went `way` metres backwards.
    pub fn backwards(&mut self, way: f64) {
        self.open -= way.clamp(0.0, 2.0 * LONGEST_M);
        while self.open < 0.0 {
            let Some(piece) = self.pieces.pop_back() else {
                self.open = 0.0;
                return;
            };
            (self.open, self.steering) = (self.open + PIECE_M, piece.steering);
        }
    }

    /// Its length, metres.
    pub fn length(&self) -> f64 {
        self.pieces.len() as f64 * PIECE_M + self.open
    }

    /// The steering with which the robot reached its present place.
    pub fn steering(&self) -> f32 {
        match self.pieces.back() {
            Some(before) if self.open <= 0.0 => before.steering,
            _ => self.steering,
        }
    }

    /// The pose that the robot had at this point of the path, if its steering meant this `curvature` (1/m,
    /// positive to the left); `None`: the path is empty.
    pub fn pose(&self, curvature: f64) -> Option<OdometryPose> {
        self.pieces.back().map(|before| before.end.ahead(self.open, curvature))
    }
}

impl Remembers for Path {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        let Path { pieces, open, steering, most: _ } = self;
        remember!(archive: pieces, open, steering);
        archive.demand("open", (0.0..=PIECE_M).contains(open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HERE: OdometryPose = OdometryPose { at: [0.0; 2], heading: 0.0 };

    #[test]
    fn path_back_has_the_recorded_steering_in_reverse() {
        let mut path = Path::new(1.0);
        path.begin(0.0, HERE);
        assert!(path.length().abs() < 1e-12);
        for (way, steering) in [(0.1, 0.2), (0.05, -0.6), (0.025, 1.0)] {
            path.forwards(way, steering, HERE);
        }
        assert!((path.length() - 0.175).abs() < 1e-9);
        for (back, steering) in
            [(0.0, 1.0), (0.02, 1.0), (0.01, -0.6), (0.04, -0.6), (0.01, 0.2), (0.09, 0.2)]
        {
            path.backwards(back);
            let found = path.steering();
            assert!((found - steering).abs() < 1e-6, "{found} for {steering}, {} m left", path.length());
        }
        path.backwards(1.0);
        assert!(path.length().abs() < 1e-12, "it went back further than the path");
        path.forwards(0.03, 0.5, HERE);
        assert!((path.length() - 0.03).abs() < 1e-9, "and the remainder does not count as debt");
    }

    #[test]
    fn a_restart_drops_the_path_except_its_trusted_part() {
        let mut path = Path::new(1.0);
        path.forwards(0.5, 0.7, HERE);
        path.begin(0.15, HERE);
        assert!((path.length() - 0.15).abs() < 1e-9 && path.steering().abs() < 1e-6);
    }

    #[test]
    fn only_the_last_metres_are_kept() {
        let mut path = Path::new(0.3);
        path.forwards(2.0, -1.0, HERE);
        path.forwards(0.2, 1.0, HERE);
        let length = path.length();
        assert!((0.3 - 1e-9..0.3 + PIECE_M + 1e-9).contains(&length), "{length}");
        path.backwards(0.25);
        assert!((path.steering() + 1.0).abs() < 1e-6, "the newest piece goes first");
        let mut most = Path::new(1e9);
        most.forwards(1e9, 0.0, HERE);
        most.forwards(LONGEST_M, 0.0, HERE);
        assert!((most.length() - LONGEST_M).abs() < PIECE_M + 1e-6);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn length_is_distance_forwards_minus_distance_back(
            ways in prop::collection::vec((-0.3_f64..0.3, -1.0_f32..1.0), 1..60),
        ) {
            let mut path = Path::new(LONGEST_M);
            let mut length = 0.0_f64;
            for (way, steering) in ways {
                if way > 0.0 {
                    path.forwards(way, steering, HERE);
                    prop_assert!((path.steering() - steering).abs() < 1e-6);
                } else {
                    path.backwards(-way);
                }
                length = (length + way).max(0.0);
                // Beyond the maximum length the oldest pieces go, one at a time.
                length = length.min(LONGEST_M + PIECE_M);
                prop_assert!((path.length() - length).abs() < PIECE_M + 1e-9, "{} {length}", path.length());
            }
        }
    }
}
