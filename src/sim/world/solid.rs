//! Thin walls and moving discs, which only a world from a file has.

use super::{Outline, Pose, distance, distance_to_body};
use crate::base::plan::MoverPlan;
use libm::{cos, sin};

/// A mover waits while the robot's body is this near: people and other robots do not walk into it.
const COURTESY_M: f64 = 0.1;

/// A straight wall without thickness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wall {
    /// One end.
    pub from: [f64; 2],
    /// The other end.
    pub to: [f64; 2],
}

impl Wall {
    /// The wall between two points: x0, y0, x1, y1.
    pub fn of([x0, y0, x1, y1]: [f64; 4]) -> Wall {
        Wall { from: [x0, y0], to: [x1, y1] }
    }

    /// The four sides of a box with these opposite corners.
    pub fn sides([x0, y0, x1, y1]: [f64; 4]) -> [Wall; 4] {
        [[x0, y0, x1, y0], [x1, y0, x1, y1], [x1, y1, x0, y1], [x0, y1, x0, y0]].map(Wall::of)
    }

    /// Distance from `from` to this wall along a ray in the direction `toward` (of length 1); `None`: the ray
    /// misses the wall.
    pub fn ray(&self, from: [f64; 2], toward: [f64; 2]) -> Option<f64> {
        let along = [self.to[0] - self.from[0], self.to[1] - self.from[1]];
        let offset = [self.from[0] - from[0], self.from[1] - from[1]];
        let across = toward[0] * along[1] - toward[1] * along[0];
        if across.abs() < f64::EPSILON {
            return None; // parallel: seen end-on, a wall has no thickness
        }
        let way = (offset[0] * along[1] - offset[1] * along[0]) / across;
        let share = (offset[0] * toward[1] - offset[1] * toward[0]) / across;
        (way >= 0.0 && (0.0..=1.0).contains(&share)).then_some(way)
    }

    /// Whether a body of this outline at `pose` overlaps the wall: the wall is clipped by the sides of the
    /// body in turn (Liang and Barsky 1984).
    pub fn touches(&self, outline: &Outline, pose: &Pose) -> bool {
        let (sin, cos) = (sin(pose.heading), cos(pose.heading));
        let seen = |point: [f64; 2]| {
            let offset = [point[0] - pose.x, point[1] - pose.y];
            [offset[0] * cos + offset[1] * sin, offset[1] * cos - offset[0] * sin]
        };
        let (from, to) = (seen(self.from), seen(self.to));
        let half = outline.width / 2.0;
        let sides = [[outline.back(), outline.front()], [-half, half]];
        let (mut first, mut last) = (0.0_f64, 1.0_f64);
        for (axis, [low, high]) in sides.into_iter().enumerate() {
            let along = to[axis] - from[axis];
            if along.abs() < f64::EPSILON {
                if from[axis] <= low || from[axis] >= high {
                    return false;
                }
                continue;
            }
            let (enters, leaves) = ((low - from[axis]) / along, (high - from[axis]) / along);
            first = first.max(enters.min(leaves));
            last = last.min(enters.max(leaves));
        }
        first < last
    }
}

/// A moving disc.
#[derive(Clone, Debug, PartialEq)]
pub struct Mover {
    plan: MoverPlan,
    at: [f64; 2],
    /// Index of the point that it goes to.
    next: usize,
}

impl Mover {
    /// At the first point of its path.
    pub fn new(plan: &MoverPlan) -> Mover {
        Mover { at: plan.way.first().copied().unwrap_or_default(), next: 1, plan: plan.clone() }
    }
    /// Its centre.
    pub fn at(&self) -> [f64; 2] {
        self.at
    }
    /// The points of its round trip.
    pub fn way(&self) -> &[[f64; 2]] {
        &self.plan.way
    }
    /// Its radius.
    pub fn radius(&self) -> f64 {
        self.plan.radius
    }

    /// Moves on for `seconds`, unless that brings it too near to the robot's body.
    pub fn advance(&mut self, seconds: f64, outline: &Outline, pose: &Pose) {
        let Some(target) = self.plan.way.get(self.next % self.plan.way.len().max(1)).copied() else { return };
        let (far, step) = (distance(self.at, target), self.plan.speed * seconds);
        let share = if far > step { step / far } else { 1.0 };
        let at = [0, 1].map(|axis| self.at[axis] + share * (target[axis] - self.at[axis]));
        if distance_to_body(outline, pose, at) < self.plan.radius + COURTESY_M {
            return;
        }
        self.at = at;
        if share >= 1.0 {
            self.next = (self.next + 1) % self.plan.way.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTLINE: Outline = Outline { wheelbase: 0.1, track: 0.1, length: 0.3, width: 0.2 };

    #[test]
    fn rays_meet_walls_only_between_their_ends() {
        let wall = Wall::of([2.0, 0.0, 2.0, 1.0]);
        assert_eq!(wall.ray([0.0, 0.5], [1.0, 0.0]), Some(2.0));
        assert_eq!(wall.ray([0.0, 0.5], [-1.0, 0.0]), None, "it is behind");
        assert_eq!(wall.ray([0.0, 1.5], [1.0, 0.0]), None, "the ray passes beside it");
        assert_eq!(wall.ray([2.0, -1.0], [0.0, 1.0]), None, "it is seen from its end");
    }

    #[test]
    fn body_touches_a_wall_that_crosses_it_or_ends_in_it() {
        // The body reaches from 0.1 m behind the axle to 0.2 m ahead of it.
        let at = |x: f64, heading: f64| Pose { x, y: 0.0, heading };
        let wall = Wall::of([1.0, -1.0, 1.0, 1.0]);
        for (x, heading, touches) in
            [(0.79, 0.0, false), (0.81, 0.0, true), (1.09, 0.0, true), (1.11, 0.0, false)]
        {
            assert_eq!(wall.touches(&OUTLINE, &at(x, heading)), touches, "{x}");
        }
        let quarter = std::f64::consts::FRAC_PI_2;
        assert!(!wall.touches(&OUTLINE, &at(0.89, quarter)) && wall.touches(&OUTLINE, &at(0.91, quarter)));
        assert!(Wall::of([0.05, 0.0, 0.06, 0.0]).touches(&OUTLINE, &at(0.0, 0.0)), "it lies inside");
        assert!(!Wall::of([0.3, 0.0, 2.0, 0.0]).touches(&OUTLINE, &at(0.0, 0.0)), "it begins ahead");
    }

    #[test]
    fn mover_goes_round_and_waits_for_the_robot() {
        let plan = MoverPlan { radius: 0.2, speed: 1.0, way: vec![[0.0, 0.0], [1.0, 0.0]] };
        let mut mover = Mover::new(&plan);
        let far = Pose { x: 50.0, y: 50.0, heading: 0.0 };
        (0..1000).for_each(|_| mover.advance(0.001, &OUTLINE, &far));
        assert!((mover.at()[0] - 1.0).abs() < 1e-9);
        (0..500).for_each(|_| mover.advance(0.001, &OUTLINE, &far));
        assert!((mover.at()[0] - 0.5).abs() < 0.01, "it is on its way back: {:?}", mover.at());
        let behind = Pose { x: -0.3, y: 0.0, heading: 0.0 };
        (0..5000).for_each(|_| mover.advance(0.001, &OUTLINE, &behind));
        // The front of the body is at -0.1 m.
        assert!((mover.at()[0] - 0.2).abs() < 0.01, "it waits: {:?}", mover.at());
    }
}
