//! The way that the robot came: steering over distance, as a stack. Driving forwards puts way on it, driving
//! backwards takes way off. Of fixed size: the oldest way is forgotten.

use crate::decision::motion::OdometryPose;
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};

/// One piece of the way, metres: two control periods of a PiCar-X at full speed. Its steering changes by a
/// twentieth of its range on it; shorter pieces cost memory and show nothing.
const PIECE_M: f64 = 0.01;
/// Rounding may leave this much of a piece: it is no piece.
const LEAST_M: f64 = 1e-9;
/// Most pieces: no retreat is longer than the 4 m that they make.
const PIECES: usize = 400;
/// The longest way that it can record, metres.
pub const LONGEST_M: f64 = PIECE_M * PIECES as f64;

/// A piece of the way: the steering command on it, and where the robot was at its end.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Piece {
    steering: f32,
    end: OdometryPose,
}

/// The recorded way.
#[derive(Clone, Debug)]
pub struct Path {
    /// The whole pieces, the oldest first.
    pieces: heapless::Deque<Piece, PIECES>,
    /// How far the robot is on the next piece, metres, and the steering there.
    open: f64,
    steering: f32,
    /// Most pieces of this robot.
    most: usize,
}

impl Path {
    /// No way yet. Keeps the last `longest_m` metres of the way to come, at most [`LONGEST_M`].
    pub fn new(longest_m: f64) -> Path {
        // The small part makes up for a decimal that is a hair too short.
        let most = ((longest_m / PIECE_M + 1e-6) as usize).clamp(1, PIECES);
        Path { pieces: heapless::Deque::new(), open: 0.0, steering: 0.0, most }
    }

    /// Forgets the way: the robot, at `standing`, may be elsewhere. Takes the `straight` metres behind it for
    /// a way.
    pub fn begin(&mut self, straight: f64, standing: OdometryPose) {
        self.pieces.clear();
        (self.open, self.steering) = (0.0, 0.0);
        let pieces = (straight / PIECE_M + 1e-6) as usize;
        for piece in (0..pieces).rev() {
            let end = standing.ahead(-PIECE_M * piece as f64, 0.0);
            self.forwards(PIECE_M, 0.0, end);
        }
    }

    /// The robot went this far forwards, metres, with this steering, and is at `standing`.
    pub fn forwards(&mut self, way: f64, steering: f32, standing: OdometryPose) {
        self.steering = steering;
        self.open += way.clamp(0.0, LONGEST_M);
        while self.open >= PIECE_M - LEAST_M {
            self.open = (self.open - PIECE_M).max(0.0);
            if self.pieces.len() >= self.most {
                self.pieces.pop_front();
            }
            // There is room: the oldest has gone.
            let _ = self.pieces.push_back(Piece { steering, end: standing.ahead(-self.open, 0.0) });
        }
    }

    /// The robot went this far backwards, metres.
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

    /// The steering with which the robot came to where it is.
    pub fn steering(&self) -> f32 {
        match self.pieces.back() {
            Some(before) if self.open <= 0.0 => before.steering,
            _ => self.steering,
        }
    }

    /// Where the robot was when it had come this far, if its steering meant this `curvature` (1/m, positive
    /// to the left); `None`: there is no way.
    pub fn standing(&self, curvature: f64) -> Option<OdometryPose> {
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
    fn the_way_back_replays_the_steering_in_reverse() {
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
        assert!(path.length().abs() < 1e-12, "more than there was");
        path.forwards(0.03, 0.5, HERE);
        assert!((path.length() - 0.03).abs() < 1e-9, "and no debt");
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
        assert!((path.steering() + 1.0).abs() < 1e-6, "the newest goes first");
        let mut most = Path::new(1e9);
        most.forwards(1e9, 0.0, HERE);
        most.forwards(LONGEST_M, 0.0, HERE);
        assert!((most.length() - LONGEST_M).abs() < PIECE_M + 1e-6);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn path_length_is_forward_minus_backward_distance(
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
                // Beyond the longest the oldest goes, a piece at a time.
                length = length.min(LONGEST_M + PIECE_M);
                prop_assert!((path.length() - length).abs() < PIECE_M + 1e-9, "{} {length}", path.length());
            }
        }
    }
}
