//! Obstacles that the sonar no longer sees and the robot has not yet passed, and edges that it has seen. An
//! obstacle enters and leaves the sonar's cone at its rim; the echo then jumps, which shows where the
//! obstacle is. A ranger that looks to one side shows it directly, and a ground sensor shows an edge. A robot
//! that steers sharply moves its front to where its sonar does not look, and its flank to where no sensor
//! looks, so it must not sweep over these places.
//!
//! The robot remembers a few places for a few metres, by dead reckoning from its own commands. This is not a
//! map.

use crate::base::plan::BeamPlan;
use crate::decision::motion::OdometryPose;
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};

/// The echo jumps by more than this when an obstacle enters or leaves the cone, metres: five times as far as
/// a robot moves between two echoes, at half a metre a second and ten echoes a second.
const LEAP_M: f64 = 0.25;
/// The rim of the cone, radians from its axis: 15 degrees for an HC-SR04.
const RIM_RAD: f64 = 0.26;
/// Up to this angle from the axis, radians, the sonar surely sees an obstacle: the rim's angle is larger.
const SURE_RAD: f64 = 0.17;
/// A place within [`SURE_RAD`] that is nearer than the echo by more than this, metres, is free: the noise is
/// smaller.
const SURE_M: f64 = 0.07;
/// A turn of at least this much between two echoes shows on which side an obstacle entered or left the cone,
/// radians: a tenth of a second of a gentle bend. After a smaller turn it may be on either side.
const TURNED_RAD: f64 = 0.02;
/// The robot forgets a place after driving this distance, metres: the error of dead reckoning from commands
/// is a tenth of the distance, and by then about the width of the robot.
const KEPT_M: f64 = 1.5;
/// Clearance between the body and a place, metres: a fifth of the width of the robot.
const AIR_M: f64 = 0.025;
/// A ranger that looks to one side shows the place of an obstacle that is nearer than this, metres: there,
/// its cone (12.5 degrees to each side of the axis of a VL53L0X) is no wider than the robot's track.
const BESIDE_M: f64 = 0.25;
/// A ranger's place counts as known within this distance of a remembered one, metres: the robot covers it
/// between four readings.
const APART_M: f64 = 0.04;
/// Maximum number of places that it remembers.
const PLACES: usize = 24;
/// Below this curvature, 1/m, a path counts as straight.
const STRAIGHT: f64 = 0.05;

/// The body of the robot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Body {
    /// From the rear axle to the front and the sonar, metres.
    pub front: f64,
    /// Half of the width, metres.
    pub half: f64,
}

/// A place that the body must not sweep over: where something stands, or where the floor ends.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct SeenPlace {
    at: [f64; 2],
    /// Distance driven since a sensor saw it, metres.
    age: f64,
    /// The floor ends there; the sonar looks over it.
    is_edge: bool,
}

/// The last echo.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Echo {
    range: f64,
    from: OdometryPose,
}

/// What may be beside the robot.
#[derive(Clone, Debug)]
pub struct Beside {
    /// Echoes from farther away than this are ignored, metres.
    within: f64,
    body: Body,
    last: Option<Echo>,
    places: heapless::Deque<SeenPlace, PLACES>,
}

impl Beside {
    /// Nothing remembered so far. `within`: how near an obstacle must have been to be remembered, metres;
    /// with 0, nothing is remembered.
    pub fn new(within: f64, body: Body) -> Beside {
        Beside { within, body, last: None, places: heapless::Deque::new() }
    }

    /// The robot has driven `way` metres, forwards or backwards.
    pub fn went(&mut self, way: f64) {
        self.places.iter_mut().for_each(|place| place.age += way.abs());
        while self.places.front().is_some_and(|place| place.age > KEPT_M) {
            self.places.pop_front();
        }
    }

    /// Forgets everything.
    pub fn forget(&mut self) {
        self.last = None;
        self.places.clear();
    }

    /// The robot at `pose` is stuck: something is at its front, and its dead reckoning is wrong.
    pub fn touched(&mut self, pose: OdometryPose) {
        self.forget();
        let Body { front, half } = self.body;
        for left in [half, -half] {
            self.keep(pose.place(front, left), false);
        }
    }

    /// The newest echo, taken at `pose`.
    pub fn look(&mut self, range: f64, pose: OdometryPose) {
        self.clear_sight(range, pose);
        if let Some(last) = self.last.replace(Echo { range, from: pose }) {
            let turned = pose.heading - last.from.heading;
            if range > last.range + LEAP_M && last.range < self.within {
                self.keep_at_rim(last, -turned); // it left on the side from which the cone turned away
            } else if range < last.range - LEAP_M && range < self.within {
                self.keep_at_rim(Echo { range, from: pose }, turned); // it came into sight
            }
        }
    }

    /// The newest reading of a ranger that looks to one side, taken at `pose`, metres.
    pub fn see(&mut self, beam: &BeamPlan, range: f32, pose: OdometryPose) {
        let range = f64::from(range);
        if self.within <= 0.0 || range > BESIDE_M {
            return;
        }
        let ([ahead, left], bearing) = (beam.at.map(f64::from), f64::from(beam.bearing_deg).to_radians());
        let at = pose.place(ahead + range * libm::cos(bearing), left + range * libm::sin(bearing));
        self.keep_apart(at, false);
    }

    /// A ground sensor of the robot at `pose` sees an edge at this spot, metres ahead and to the left.
    pub fn see_edge(&mut self, [ahead, left]: [f32; 2], pose: OdometryPose) {
        if self.within > 0.0 {
            self.keep_apart(pose.place(ahead.into(), left.into()), true);
        }
    }

    /// Remembers a place unless one near it is known.
    fn keep_apart(&mut self, at: [f64; 2], is_edge: bool) {
        let is_known = |place: &SeenPlace| {
            let away = (place.at[0] - at[0]).hypot(place.at[1] - at[1]);
            place.is_edge == is_edge && away < APART_M
        };
        if !self.places.iter().any(is_known) {
            self.keep(at, is_edge);
        }
    }

    /// Whether no remembered place is in the robot's way: on the next `way` metres at `curvature` (1/m,
    /// positive to the left) from `pose`.
    pub fn is_clear(&self, pose: OdometryPose, curvature: f64, way: f64) -> bool {
        !self.places.iter().any(|place| self.sweeps(pose.sees(place.at), curvature, way))
    }

    /// Whether the body sweeps over the place `x` metres ahead of the rear axle and `y` metres to its left.
    fn sweeps(&self, [x, y]: [f64; 2], curvature: f64, way: f64) -> bool {
        let Body { front, half } = Body { front: self.body.front + AIR_M, half: self.body.half + AIR_M };
        if curvature.abs() < STRAIGHT {
            return y.abs() < half && x > 0.0 && x < front + way;
        }
        // Mirrored, so that the circle's centre is on the left.
        let (radius, y) = (1.0 / curvature.abs(), y * curvature.signum());
        let (from_middle, inner) = (x.hypot(radius - y), (radius - half).max(0.0));
        let outer = front.hypot(radius + half);
        // The angle of the place on the circle, and the angle that the front reaches at that distance from
        // the centre.
        let round = libm::atan2(x, radius - y);
        let reach = libm::asin((front / from_middle.max(front)).min(1.0));
        from_middle > inner && from_middle < outer && round > 0.0 && round < reach + way / radius
    }

    /// Forgets places in the middle of the cone that are nearer than `range`: the sonar would have seen an
    /// obstacle there.
    fn clear_sight(&mut self, range: f64, pose: OdometryPose) {
        for _ in 0..self.places.len() {
            let Some(place) = self.places.pop_front() else { return };
            let [x, y] = pose.sees(place.at);
            let (x, distance) = (x - self.body.front, (x - self.body.front).hypot(y));
            let free =
                !place.is_edge && x > 0.0 && libm::atan2(y, x).abs() < SURE_RAD && distance < range - SURE_M;
            if !free {
                let _ = self.places.push_back(place); // there is room: a place was just taken out
            }
        }
    }

    /// Remembers an obstacle at the rim of the cone: on the left for `left` > 0, on the right for `left` < 0,
    /// and on both sides if the turn was too small to tell.
    fn keep_at_rim(&mut self, echo: Echo, left: f64) {
        for side in [1.0, -1.0] {
            if left * side > -TURNED_RAD {
                let (sin, cos) = (libm::sin(RIM_RAD), libm::cos(RIM_RAD));
                self.keep(
                    echo.from.place(self.body.front + echo.range * cos, side * echo.range * sin),
                    false,
                );
            }
        }
    }

    fn keep(&mut self, at: [f64; 2], is_edge: bool) {
        if self.places.is_full() {
            self.places.pop_front();
        }
        let _ = self.places.push_back(SeenPlace { at, age: 0.0, is_edge }); // there is room: the oldest has gone
    }
}

impl Remembers for Beside {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        let Beside { within: _, body: _, last, places } = self;
        remember!(archive: last, places);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: Body = Body { front: 0.17, half: 0.065 };
    /// Full lock of a PiCar-X: tan 30 degrees / 0.0872 m.
    const LOCK: f64 = 6.6;

    fn at(x: f64, heading: f64) -> OdometryPose {
        OdometryPose { at: [x, 0.0], heading }
    }

    /// After these echoes: range, x, heading.
    fn after(echoes: &[[f64; 3]]) -> Beside {
        let mut beside = Beside::new(0.7, BODY);
        echoes.iter().for_each(|&[range, x, heading]| beside.look(range, at(x, heading)));
        beside
    }

    #[test]
    fn obstacle_out_of_the_cone_is_avoided_until_passed_or_expired() {
        // The robot turned right, so the lost obstacle is on the left: 0.6 m ahead and 0.15 m to the side.
        let mut beside = after(&[[0.65, -0.05, 0.1], [0.6, 0.0, 0.05], [1.5, 0.0, 0.0]]);
        assert!(beside.is_clear(at(0.0, 0.0), 0.0, 1.0), "straight on is clear");
        assert!(beside.is_clear(at(0.0, 0.0), -1.0, 1.0), "the right is clear");
        assert!(!beside.is_clear(at(0.0, 0.0), 0.5, 0.6), "the left is not clear");
        assert!(beside.is_clear(at(0.0, 0.0), 0.5, 0.2), "a short distance to the left is clear");
        assert!(!beside.is_clear(at(0.55, 0.0), LOCK, 0.2), "its front sweeps over it");
        assert!(beside.is_clear(at(0.55, 0.0), -LOCK, 0.2));
        assert!(beside.is_clear(at(0.85, 0.0), LOCK, 0.2), "it is behind the rear axle");
        beside.went(1.0);
        assert!(!beside.is_clear(at(0.55, 0.0), LOCK, 0.2));
        beside.went(-0.6);
        assert!(beside.is_clear(at(0.55, 0.0), LOCK, 0.2), "it is forgotten: its place is too uncertain");
    }

    #[test]
    fn obstacle_without_a_turn_may_be_on_either_side() {
        let mut beside = after(&[[0.55, 0.0, 0.0], [1.5, 0.0, 0.0]]);
        let sides = |beside: &Beside| [LOCK, -LOCK].map(|side| beside.is_clear(at(0.45, 0.0), side, 0.2));
        assert_eq!(sides(&beside), [false, false]);
        beside.look(1.5, at(0.0, 0.25));
        assert_eq!(sides(&beside), [true, false], "the sonar has looked to the left");
    }

    #[test]
    fn a_ranger_to_the_right_keeps_the_flank_clear() {
        let mut beside = Beside::new(0.7, BODY);
        let beam = BeamPlan { at: [0.16, -0.055], bearing_deg: -40.0, half_cone_deg: 12.5, reach: 1.2 };
        // The obstacle is 0.25 m ahead of the axle and 0.13 m to the right, and then beside the car.
        let sides = |beside: &Beside| [-LOCK, 0.0, LOCK].map(|side| beside.is_clear(at(0.1, 0.0), side, 0.3));
        beside.see(&beam, 1.2, at(0.0, 0.0));
        assert_eq!(sides(&beside), [true; 3], "nothing is near");
        for _ in 0..PLACES {
            beside.see(&beam, 0.12, at(0.0, 0.0));
        }
        assert_eq!(sides(&beside), [false, true, true]);
        assert_eq!(beside.places.len(), 1, "readings of one obstacle do not push out other places");
        let mut none = Beside::new(0.0, BODY);
        none.see(&beam, 0.12, at(0.0, 0.0));
        assert_eq!(sides(&none), [true; 3], "its board asks for no memory");
    }

    #[test]
    fn an_edge_is_remembered_though_the_sonar_looks_over_it() {
        let mut beside = Beside::new(0.7, BODY);
        beside.see_edge([0.16, 0.058], at(0.0, 0.0));
        beside.see_edge([0.16, 0.058], at(0.01, 0.0));
        assert_eq!(beside.places.len(), 1, "the edge is in sight for several slots");
        // The car has backed off by 0.15 m.
        let sides = |beside: &Beside| [-2.0, 0.0, 2.0].map(|side| beside.is_clear(at(-0.15, 0.0), side, 0.3));
        assert_eq!(sides(&beside), [true, false, false], "only the right is clear");
        beside.look(2.0, at(-0.15, 0.2));
        assert_eq!(sides(&beside), [true, false, false]);
        beside.went(1.6);
        assert_eq!(sides(&beside), [true; 3], "its place is too uncertain");
        let mut none = Beside::new(0.0, BODY);
        none.see_edge([0.16, 0.058], at(0.0, 0.0));
        assert_eq!(sides(&none), [true; 3], "its board asks for no memory");
    }

    #[test]
    fn touch_is_remembered_but_far_and_slow_changes_are_not() {
        let free = |beside: &Beside| beside.is_clear(at(0.6, 0.0), LOCK, 0.3);
        assert!(free(&after(&[[0.9, -0.05, 0.1], [1.5, 0.0, 0.0]])), "far");
        assert!(free(&after(&[[0.5, 0.0, 0.1], [0.7, 0.0, 0.05], [0.9, 0.0, 0.0]])), "along a wall");
        let mut beside = after(&[[0.6, -0.05, 0.1], [1.5, 0.0, 0.0]]);
        beside.touched(at(0.0, 0.0));
        assert!(free(&beside), "nothing else is known any more");
        assert!(!beside.is_clear(at(0.0, 0.0), LOCK, 0.1) && !beside.is_clear(at(0.0, 0.0), 0.0, 0.1));
        assert!(!beside.is_clear(at(-0.05, 0.0), -LOCK, 0.2), "backing a little is not enough for a turn");
        assert!(beside.is_clear(at(-0.15, 0.0), -LOCK, 0.2) && beside.is_clear(at(-0.15, 0.0), LOCK, 0.2));
    }
}
