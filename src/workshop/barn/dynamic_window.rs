//! Dynamic window (Fox, Burgard, Thrun: "The dynamic window approach to collision avoidance", IEEE Robotics
//! and Automation Magazine 4, 1997): considers the pairs of forward speed and turn rate that the motors can
//! reach within `WINDOW_S` and from which the robot can still stop before an obstacle, and takes the one with
//! the best weighted sum of heading, clearance and speed. It never drives backwards, so a car that has no
//! room ahead stops.

use super::newest::{Baseline, moving, toward};
use crate::field::navigate::{Body, Surroundings, Wish};
use std::f32::consts::PI;

/// Weights of heading, clearance and speed (the paper's alpha, beta, gamma). Tuned on every fifth world of
/// the course, starting with the third, for both bodies (boards `barn` and `barn-car`).
const HEADING: f32 = 0.1;
const CLEARANCE: f32 = 0.8;
const SPEED: f32 = 0.6;
/// Clearance beyond this brings no further gain, metres.
const CLEAR_M: f32 = 1.0;
/// How far ahead in time an arc is followed, seconds.
const LOOK_S: f32 = 2.0;
/// Number of points that are checked on an arc. At full speed they are 7 cm apart, less than the diameter of
/// a disc of the course.
const POINTS: usize = 15;
/// Time in which the motors must reach a speed, seconds.
const WINDOW_S: f32 = 0.25;
/// Accelerations that are assumed, m/s^2 and rad/s^2; the boards' drive motors allow up to 4 m/s^2.
const ACCELERATION: f32 = 2.0;
const TURN_ACCELERATION: f32 = 20.0;
/// Fastest turn that it considers, radians per second.
const FASTEST_TURN: f32 = 3.0;
/// Numbers of candidate forward speeds and turn rates.
const SPEEDS: usize = 8;
const TURNS: usize = 21;
/// Free space around the body, metres.
const MARGIN_M: f32 = 0.02;
/// Assumed deceleration, m/s^2: half of [`ACCELERATION`].
const BRAKE: f32 = 1.0;

/// The driver.
#[derive(Clone, Debug)]
pub struct DynamicWindow {
    body: Body,
    /// The last choice: metres per second, radians per second.
    last: [f32; 2],
}

impl DynamicWindow {
    /// A driver for this body, at rest.
    pub fn new(body: Body) -> DynamicWindow {
        DynamicWindow { body, last: [0.0; 2] }
    }

    /// How far the robot can travel at these speeds before it touches one of `points`, metres; at most
    /// [`CLEAR_M`], also if it touches none within [`LOOK_S`].
    fn clearance(&self, [forward, turn]: [f32; 2], points: &[[f32; 2]]) -> f32 {
        let near = self.body.radius() + MARGIN_M;
        let gap = |[x, y]: [f32; 2], point: &[f32; 2]| libm::hypotf(point[0] - x, point[1] - y);
        for step in 1..=POINTS {
            let seconds = LOOK_S * step as f32 / POINTS as f32;
            let at = place([forward, turn], seconds);
            // A point that is already too close does not block an arc that leads away from it.
            let hits = |point: &[f32; 2]| gap(at, point) < near.min(gap([0.0; 2], point));
            if points.iter().any(hits) {
                return (forward * LOOK_S * (step - 1) as f32 / POINTS as f32).min(CLEAR_M);
            }
        }
        CLEAR_M
    }
}

/// Where an arc leads in this time: metres ahead and to the left.
fn place([forward, turn]: [f32; 2], seconds: f32) -> [f32; 2] {
    let turned = turn * seconds;
    if turned.abs() < 1e-4 {
        return [forward * seconds, 0.0];
    }
    let radius = forward / turn;
    [radius * libm::sinf(turned), radius * (1.0 - libm::cosf(turned))]
}

/// Number `nth` of `count` values from `low` to `high`.
fn between(low: f32, high: f32, nth: usize, count: usize) -> f32 {
    low + (high - low) * nth as f32 / (count - 1) as f32
}

impl Baseline for DynamicWindow {
    fn drive(&mut self, around: &Surroundings<'_>, goal: [f64; 2]) -> Wish {
        let (to_goal, goal_m) = toward(around, goal);
        if goal_m < 0.05 {
            return Wish::STOP;
        }
        // What a beam sees lies on an arc, which is represented by its middle and its ends.
        let hits = around.beams.iter().filter_map(|beam| Some((beam, beam.hit()?)));
        let points: Vec<[f32; 2]> = hits
            .flat_map(|(beam, range)| {
                [-beam.half_cone, 0.0, beam.half_cone].map(|aside| beam.point(range, aside))
            })
            .collect();
        let [forward, turn] = self.last;
        let fastest = self.body.full_speed;
        let (slow, fast) = (
            (forward - ACCELERATION * WINDOW_S).clamp(0.0, fastest),
            (forward + ACCELERATION * WINDOW_S).clamp(0.0, fastest),
        );
        let (right, left) = (
            (turn - TURN_ACCELERATION * WINDOW_S).clamp(-FASTEST_TURN, FASTEST_TURN),
            (turn + TURN_ACCELERATION * WINDOW_S).clamp(-FASTEST_TURN, FASTEST_TURN),
        );
        let mut best: Option<(f32, [f32; 2])> = None;
        for candidate in 0..SPEEDS * TURNS {
            let speeds = [
                between(slow, fast, candidate / TURNS, SPEEDS),
                between(right, left, candidate % TURNS, TURNS),
            ];
            let clear_m = self.clearance(speeds, &points);
            if speeds[0] * speeds[0] > 2.0 * clear_m * BRAKE {
                continue; // it could not stop in time
            }
            if speeds[1].abs() * self.body.turning_radius > speeds[0] {
                continue; // a car cannot turn so tightly
            }
            let then = to_goal - speeds[1] * WINDOW_S;
            let off = libm::fabsf(libm::remainderf(then, 2.0 * PI));
            let score =
                HEADING * (1.0 - off / PI) + CLEARANCE * clear_m / CLEAR_M + SPEED * speeds[0] / fastest;
            if best.is_none_or(|(best, _)| score > best) {
                best = Some((score, speeds));
            }
        }
        // Nothing is admissible: the robot stops and, if it can, turns on the spot towards the goal.
        self.last = best.map_or([0.0, 1.5_f32.copysign(to_goal)], |(_, speeds)| speeds);
        moving(self.last[0], self.last[1], &self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::super::newest::tests::BODY;
    use super::*;

    #[test]
    fn an_arc_of_a_quarter_turn_ends_beside_its_start() {
        let [ahead, left] = place([0.5, 0.5], PI);
        assert!((ahead - 1.0).abs() < 1e-5 && (left - 1.0).abs() < 1e-5, "{ahead} {left}");
    }

    #[test]
    fn clearance_ends_at_the_obstacle() {
        let window = DynamicWindow::new(BODY);
        let clear = window.clearance([0.5, 0.0], &[[0.6, 0.0]]);
        assert!((0.3..0.45).contains(&clear), "{clear}");
        assert_eq!(window.clearance([0.5, 0.0], &[[0.6, 0.3]]), CLEAR_M, "it passes beside the point");
        assert_eq!(window.clearance([0.5, 0.0], &[[-0.1, 0.0]]), CLEAR_M, "it drives away from the point");
    }
}
