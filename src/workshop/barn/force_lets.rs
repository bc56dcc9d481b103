//! Force-lets (Bicho, Mallet, Schoener: "Target representation on an autonomous vehicle with low-level
//! sensors", International Journal of Robotics Research 19, 2000): the heading follows a differential
//! equation in which the goal attracts it and each ranger repels it from the obstacle that the ranger sees.

use super::newest::{Baseline, moving, toward};
use crate::field::navigate::{Body, Surroundings, Wish};

/// Strength of the goal's attraction, 1/s.
const GOAL_RATE: f32 = 2.0;
/// Strength of the repulsion from an obstacle that touches the body, 1/s, and the distance over which the
/// repulsion falls to 1/e, metres. Tuned on every fifth world of the course, starting with the third, for
/// both bodies (boards `barn` and `barn-car`).
const REPEL_RATE: f32 = 12.0;
const REPEL_M: f32 = 0.3;
/// Free space beside the body, metres.
const MARGIN_M: f32 = 0.03;
/// Time to contact that sets the speed, seconds, and the slowest speed, metres per second.
const AHEAD_S: f32 = 0.9;
const SLOWEST: f32 = 0.05;
/// Only obstacles within this angle of the heading, radians, limit the speed.
const AHEAD: f32 = 0.6;

/// The driver.
#[derive(Clone, Debug)]
pub struct ForceLets {
    body: Body,
}

impl ForceLets {
    /// A driver for this body.
    pub fn new(body: Body) -> ForceLets {
        ForceLets { body }
    }
}

impl Baseline for ForceLets {
    fn drive(&mut self, around: &Surroundings<'_>, goal: [f64; 2]) -> Wish {
        let (to_goal, goal_m) = toward(around, goal);
        if goal_m < 0.05 {
            return Wish::STOP;
        }
        let mut turn = GOAL_RATE * libm::sinf(to_goal);
        let mut clear_m = f32::INFINITY;
        for beam in around.beams {
            let Some(range) = beam.hit() else { continue };
            let [ahead, left] = beam.point(range, 0.0);
            let bearing = libm::atan2f(left, ahead);
            let gap = (libm::hypotf(ahead, left) - self.body.radius()).max(0.0);
            // The angular range of the force: half the ranger's view plus the angle that the robot needs to
            // pass.
            let passes = (self.body.radius() + MARGIN_M) / (self.body.radius() + MARGIN_M + gap);
            let sigma = libm::atanf(libm::tanf(beam.half_cone) + passes);
            let strength = REPEL_RATE * libm::expf(-gap / REPEL_M);
            turn -= strength * bearing * libm::expf(-bearing * bearing / (2.0 * sigma * sigma));
            if bearing.abs() < AHEAD {
                clear_m = clear_m.min(gap);
            }
        }
        let speed = (clear_m / AHEAD_S).clamp(SLOWEST, self.body.full_speed);
        moving(speed, turn, &self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::super::newest::tests::BODY;
    use super::*;
    use crate::base::time::Span;
    use crate::decision::motion::OdometryPose;
    use crate::field::navigate::Beam;

    fn wish(bearing: f32, range: f32) -> Wish {
        let beam = Beam { bearing, offset: [0.0; 2], half_cone: 0.13, range: Some(range), max_range: 4.0 };
        let around =
            Surroundings { pose: OdometryPose::default(), elapsed: Span::from_millis(20), beams: &[beam] };
        ForceLets::new(BODY).drive(&around, [5.0, 0.0])
    }

    #[test]
    fn it_turns_away_from_what_it_sees_beside_its_way() {
        assert!(wish(0.3, 0.4).curvature < -0.1 && wish(-0.3, 0.4).curvature > 0.1);
        let free = wish(0.3, 4.0);
        assert_eq!((free.speed, free.curvature), (1.0, 0.0));
    }

    #[test]
    fn it_is_slower_the_nearer_the_obstacle() {
        assert!(wish(0.2, 0.25).speed < wish(0.2, 0.45).speed);
    }
}
