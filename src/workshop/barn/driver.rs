//! What a driver of the navigation course is given, and what it answers.

use crate::base::plan::Board;
use crate::base::time::Span;
use crate::decision::motion::OdometryPose;

/// One ranging sensor's reading in the robot's frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beam {
    /// Where it looks: radians from straight ahead, positive to the left.
    pub bearing: f32,
    /// Where it is: metres ahead of the reference point and to its left.
    pub offset: [f32; 2],
    /// Half its opening angle, radians.
    pub half_cone: f32,
    /// The reading in metres; `None`: no fresh one.
    pub range: Option<f32>,
    /// A reading of this or more means nothing seen, metres.
    pub max_range: f32,
}

impl Beam {
    /// The distance to what it sees; `None`: it sees nothing, or has no fresh reading.
    pub fn hit(&self) -> Option<f32> {
        self.range.filter(|range| *range < self.max_range)
    }

    /// The point that it sees, metres ahead and to the left, if it lies `aside` radians off the beam's
    /// middle.
    pub fn point(&self, range: f32, aside: f32) -> [f32; 2] {
        let bearing = self.bearing + aside;
        [self.offset[0] + range * libm::cosf(bearing), self.offset[1] + range * libm::sinf(bearing)]
    }
}

/// What a driver knows in one cycle.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Where the robot believes it is, from its own commands.
    pub pose: OdometryPose,
    /// Time since the last cycle.
    pub elapsed: Span,
    /// Its ranging sensors.
    pub beams: &'a [Beam],
}

/// What a driver wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// Share of full speed, -1..=1. On a robot that its wheels turn it is the speed of the faster wheel.
    pub speed: f32,
    /// Curvature of the path, 1/m, positive to the left. On such a robot an infinite one turns it on the
    /// spot.
    pub curvature: f32,
}

impl Wish {
    /// To stand.
    pub const STAND: Wish = Wish { speed: 0.0, curvature: 0.0 };

    /// To go forwards this fast, metres a second, and to turn to the left at this rate, radians a second, as
    /// far as the wheels can: if they cannot, the curve stays and the speed drops.
    pub fn moving(forward: f32, turn: f32, body: &Body) -> Wish {
        let fastest = forward.abs() + turn.abs() * body.track / 2.0;
        let speed = (fastest / body.full_speed).min(1.0);
        if forward.abs() < 1e-3 {
            return Wish { speed, curvature: f32::INFINITY.copysign(turn) };
        }
        Wish { speed: speed.copysign(forward), curvature: turn / forward }
    }
}

/// The robot's outline and speed, as its board states them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Body {
    /// Distance between the left and the right wheels, metres.
    pub track: f32,
    /// Speed at full command, metres a second.
    pub full_speed: f32,
    /// From the reference point to the farthest corner, metres.
    pub radius: f32,
}

impl Body {
    /// The body of `board`, if `[motion]` states it.
    pub fn of(board: &Board) -> Option<Body> {
        let motion = board.motion?;
        let [length, width] = motion.body?;
        let front = (motion.wheelbase + length) / 2.0;
        Some(Body {
            track: motion.track?,
            full_speed: motion.full_speed,
            radius: libm::hypotf(front, width / 2.0),
        })
    }
}

/// Something that drives to a goal.
pub trait Driver: Send {
    /// What it wants in this cycle. The goal is in the frame of the pose; `None`: there is none, so it
    /// stands.
    fn drive(&mut self, around: &Surroundings<'_>, goal: Option<[f64; 2]>) -> Wish;
}

/// Bearing of `goal` from the robot, radians, positive to the left, and its distance in metres.
pub fn toward(around: &Surroundings<'_>, goal: [f64; 2]) -> (f32, f32) {
    let [ahead, left] = around.pose.sees(goal);
    (libm::atan2(left, ahead) as f32, libm::hypot(ahead, left) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_keeps_its_curve_when_the_wheels_are_too_slow() {
        let body = Body { track: 0.2, full_speed: 0.5, radius: 0.15 };
        let wish = Wish::moving(0.5, 2.0, &body);
        assert_eq!((wish.speed, wish.curvature), (1.0, 4.0));
        let back = Wish::moving(-0.2, 0.5, &body);
        assert_eq!((back.speed, back.curvature), (-0.5, -2.5));
        let spot = Wish::moving(0.0, -1.0, &body);
        assert_eq!((spot.speed, spot.curvature), (0.2, f32::NEG_INFINITY));
    }
}
