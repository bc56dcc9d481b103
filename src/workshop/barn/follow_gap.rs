//! Follow the gap (Sezer, Gokasan: "A novel obstacle avoidance algorithm: Follow the Gap Method", Robotics
//! and Autonomous Systems 60, 2012): the heading is the weighted mean of the direction of the goal and that
//! of the middle of the largest gap between obstacles. The nearer the nearest obstacle, the more weight the
//! gap gets.

use super::newest::{Baseline, toward};
use crate::field::navigate::{Body, Surroundings, Wish};
use std::f32::consts::{FRAC_PI_2, PI};

/// Headings that are considered: every 3 degrees, up to 84 degrees to either side. The ends of a gap must be
/// less than half a turn apart, or their middle could be behind the robot.
const STEP: f32 = PI / 60.0;
const HEADINGS: usize = 57;
const OUTERMOST: f32 = STEP * (HEADINGS / 2) as f32;
/// Obstacles farther away than this are ignored, metres: the distance driven in two seconds at full speed.
const HORIZON_M: f32 = 1.0;
/// Free space beside the body, metres. This and [`ALPHA_M`] were tuned on every fifth world of the course,
/// starting with the third, for both bodies (boards `barn` and `barn-car`).
const MARGIN_M: f32 = 0.05;
/// Weight of the gap relative to the goal, metres: the paper's alpha, with distances in metres.
const ALPHA_M: f32 = 0.2;
/// Beyond this angle to the wanted direction, radians, the robot turns on the spot.
const SHARP: f32 = 1.0;
/// Speed of a turn on the spot, as a share of full speed.
const TURN_SPEED: f32 = 0.3;
/// Distance of the point that it steers to, metres.
const AIM_M: f32 = 0.4;

/// The driver.
#[derive(Clone, Debug)]
pub struct FollowGap {
    body: Body,
}

/// An obstacle, as seen from the robot's reference point.
#[derive(Clone, Copy)]
struct Obstacle {
    bearing: f32,
    distance: f32,
    /// Half the angle that it blocks, given the robot's own width.
    half: f32,
}

/// A run of free headings, bounded by obstacles or by the ends of the view.
#[derive(Clone, Copy)]
struct Gap {
    /// Indices of its first and its last heading.
    first: usize,
    last: usize,
}

impl FollowGap {
    /// A driver for this body.
    pub fn new(body: Body) -> FollowGap {
        FollowGap { body }
    }

    fn obstacles(&self, around: &Surroundings<'_>) -> Vec<Obstacle> {
        let inflated = self.body.half_width + MARGIN_M;
        let points = around.beams.iter().filter_map(|beam| Some(beam.point(beam.hit()?, 0.0)));
        points
            .map(|[ahead, left]| {
                let distance = libm::hypotf(ahead, left).max(1e-3);
                let half = libm::asinf((inflated / distance).min(1.0));
                Obstacle { bearing: libm::atan2f(left, ahead), distance, half }
            })
            .filter(|obstacle| obstacle.distance < HORIZON_M)
            .collect()
    }

    /// The direction of the midpoint between the obstacles at the two ends of `gap`. Compared with the
    /// bisector of the gap's angle, it leans away from the nearer obstacle.
    fn middle(gap: Gap, obstacles: &[Obstacle]) -> f32 {
        let end = |heading: f32| {
            let beside = |one: &&Obstacle| (one.bearing - heading).abs() < one.half + 1.5 * STEP;
            let nearest = obstacles.iter().filter(beside).map(|one| one.distance).fold(HORIZON_M, f32::min);
            [nearest * libm::cosf(heading), nearest * libm::sinf(heading)]
        };
        let (right, left) = (end(heading(gap.first) - STEP), end(heading(gap.last) + STEP));
        libm::atan2f(right[1] + left[1], right[0] + left[0])
    }
}

fn heading(index: usize) -> f32 {
    index as f32 * STEP - OUTERMOST
}

/// The largest run of free headings; of equally large ones, the one nearest to `wanted`.
fn largest(free: &[bool], wanted: f32) -> Option<Gap> {
    let mut best: Option<Gap> = None;
    let mut first = None;
    for (index, is_free) in free.iter().chain(&[false]).enumerate() {
        match (first, is_free) {
            (None, true) => first = Some(index),
            (Some(begin), false) => {
                let gap = Gap { first: begin, last: index - 1 };
                let size = |gap: Gap| gap.last - gap.first;
                let off = |gap: Gap| (heading(usize::midpoint(gap.first, gap.last)) - wanted).abs();
                let is_better = best.is_none_or(|best| {
                    size(gap) > size(best) || (size(gap) == size(best) && off(gap) < off(best))
                });
                if is_better {
                    best = Some(gap);
                }
                first = None;
            }
            _ => {}
        }
    }
    best
}

/// Steers towards `bearing`; the clear distance ahead sets the speed.
fn steer(bearing: f32, clear_m: f32) -> Wish {
    if bearing.abs() > SHARP {
        return Wish { speed: TURN_SPEED, curvature: f32::INFINITY.copysign(bearing) };
    }
    let speed = ((clear_m - 0.15) / 0.6).clamp(0.2, 1.0);
    Wish { speed, curvature: 2.0 * libm::sinf(bearing) / AIM_M }
}

impl Baseline for FollowGap {
    fn drive(&mut self, around: &Surroundings<'_>, goal: [f64; 2]) -> Wish {
        let (to_goal, goal_m) = toward(around, goal);
        if goal_m < 0.05 {
            return Wish::STOP;
        }
        if to_goal.abs() > FRAC_PI_2 {
            return steer(to_goal, 0.0); // the goal is out of view: turn towards it
        }
        let obstacles = self.obstacles(around);
        let is_free = |index: usize| {
            obstacles
                .iter()
                .all(|one| (heading(index) - one.bearing).abs() >= one.half || one.distance >= goal_m)
        };
        let free: Vec<bool> = (0..HEADINGS).map(is_free).collect();
        let ahead = obstacles.iter().filter(|one| one.bearing.abs() < 0.6).map(|one| one.distance);
        let clear_m = ahead.fold(HORIZON_M, f32::min) - self.body.radius();
        let Some(gap) = largest(&free, to_goal) else {
            return steer(FRAC_PI_2.copysign(to_goal), 0.0); // no heading is free: turn on the spot
        };
        let to_gap = FollowGap::middle(gap, &obstacles);
        let nearest =
            obstacles.iter().map(|one| one.distance - self.body.radius()).fold(f32::INFINITY, f32::min);
        let weight = ALPHA_M / nearest.max(0.01);
        steer((weight * to_gap + to_goal) / (weight + 1.0), clear_m)
    }
}

#[cfg(test)]
mod tests {
    use super::super::newest::tests::BODY;
    use super::*;
    use crate::base::time::Span;
    use crate::decision::motion::OdometryPose;
    use crate::field::navigate::Beam;

    /// The motion chosen with a ring of 24 beams. `seen` lists the beams that see something: bearing in
    /// degrees, distance in metres.
    fn wish(seen: &[(i32, f32)]) -> Wish {
        let beams: Vec<Beam> = (-11..=12)
            .map(|nth: i32| {
                let range =
                    seen.iter().find(|(degrees, _)| *degrees == nth * 15).map_or(4.0, |(_, far)| *far);
                let bearing = (nth as f32 * 15.0).to_radians();
                Beam { bearing, offset: [0.0; 2], half_cone: 0.13, range: Some(range), max_range: 4.0 }
            })
            .collect();
        let around =
            Surroundings { pose: OdometryPose::default(), elapsed: Span::from_millis(20), beams: &beams };
        FollowGap::new(BODY).drive(&around, [5.0, 0.0])
    }

    #[test]
    fn it_goes_straight_where_nothing_is_near() {
        let wish = wish(&[(0, 3.0)]);
        assert!(wish.speed >= 1.0 && wish.curvature.abs() < 1e-6, "{wish:?}");
    }

    #[test]
    fn it_turns_to_the_larger_gap() {
        let right_blocked = wish(&[(0, 0.5), (-15, 0.5), (-30, 0.5), (-45, 0.5), (-60, 0.5)]);
        assert!(right_blocked.curvature > 0.1, "{right_blocked:?}");
        let left_blocked = wish(&[(0, 0.5), (15, 0.5), (30, 0.5), (45, 0.5), (60, 0.5)]);
        assert!(left_blocked.curvature < -0.1, "{left_blocked:?}");
    }

    #[test]
    fn it_turns_on_the_spot_where_nothing_is_free() {
        let around: Vec<(i32, f32)> = (-11..=12).map(|nth| (nth * 15, 0.25)).collect();
        assert!(wish(&around).curvature.is_infinite());
    }
}
