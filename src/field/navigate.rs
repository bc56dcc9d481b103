//! Finds the way to a goal from ranges and dead reckoning. `docs/goals.md` has the maths.
//!
//! [`place_grid`] remembers where obstacles were detected, [`goal_wave`] spreads from the goal around them,
//! [`heading`] is a decision field that reads the wave's slope, and [`navigator`] turns the field's peak into
//! a [`Wish`]. [`senses`] runs in the tick, [`goals`] in the field's worker. Code here
//! that runs in a cycle neither blocks nor allocates.

pub mod place_grid;
pub mod goal_wave;
pub mod heading;
pub mod navigator;
pub mod senses;
pub mod goals;

use crate::base::plan::Board;
use crate::base::time::Span;
use crate::decision::motion::{MotionModel, OdometryPose};

/// The robot keeps this distance from detected obstacles, metres: half a cell's diagonal, since an obstacle
/// may be anywhere in its cell, and a margin for steering.
const CLEARANCE: f32 = 0.105;

/// One ranging sensor's reading in the robot's frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beam {
    /// Where it points, radians from straight ahead, positive to the left.
    pub bearing: f32,
    /// Where the sensor is, metres from the robot's reference point: ahead, to the left.
    pub offset: [f32; 2],
    /// Half of its opening angle, radians; 0 for a thin ray.
    pub half_cone: f32,
    /// What it measured, metres; `None`: no fresh reading.
    pub range: Option<f32>,
    /// A reading of this or more means that there is nothing within this range, metres.
    pub max_range: f32,
}

impl Beam {
    /// The distance to what it sees; `None`: it sees nothing, or has no fresh reading.
    pub fn hit(&self) -> Option<f32> {
        self.range.filter(|range| *range < self.max_range)
    }

    /// The point at `range` that lies `aside` radians off the beam's axis, metres ahead and to the left of
    /// the reference point.
    pub fn point(&self, range: f32, aside: f32) -> [f32; 2] {
        let bearing = self.bearing + aside;
        [self.offset[0] + range * libm::cosf(bearing), self.offset[1] + range * libm::sinf(bearing)]
    }
}

/// The input of a driver in each cycle.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Where the robot is, by dead reckoning.
    pub pose: OdometryPose,
    /// Time since the last call.
    pub elapsed: Span,
    /// The ranging sensors, in the same order in every call.
    pub beams: &'a [Beam],
}

/// What a driver would like the robot to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// Speed of the reference point as a share of full speed, -1..=1; negative backwards.
    pub speed: f32,
    /// Curvature of the path, 1/m, positive to the left, whatever the direction of travel. Infinite: a turn
    /// on the spot, to the left if positive; `speed` is then that of the wheels, and not negative. Only a
    /// body that can turn on the spot gets such a wish. [`MotionModel::commands`] converts speed and
    /// curvature to motor commands.
    pub curvature: f32,
}

impl Wish {
    /// Stand still.
    pub const STOP: Wish = Wish { speed: 0.0, curvature: 0.0 };
}

/// Something that drives to a goal: the navigator, or a baseline that it is compared with.
pub trait Driver: Send {
    /// What the robot should do now. `goal` is a position in the frame of the pose, metres.
    fn drive(&mut self, around: &Surroundings, goal: Option<[f64; 2]>) -> Wish;

    /// What it is doing about its goal.
    fn state(&self) -> navigator::State;

    /// The curvature, 1/m, positive to the left, for a robot at `pose` that drives forwards without a goal
    /// and would take the curvature `wanted`: `wanted` itself, unless the driver remembers an obstacle there
    /// or prefers ground that it has not visited for long. Called after [`Driver::drive`]. A driver without a
    /// memory returns `wanted`.
    fn wander(&mut self, _pose: OdometryPose, wanted: f32) -> f32 {
        wanted
    }
}

/// Size and abilities of the robot's body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Body {
    /// Half of its width, metres.
    pub half_width: f32,
    /// From the reference point (the middle of the driven axle) to its front, metres.
    pub front: f32,
    /// From the reference point to its rear, metres.
    pub rear: f32,
    /// Radius of its tightest curve, metres; 0: it turns on the spot.
    pub turning_radius: f32,
    /// Half of the distance between the wheels that turn it on the spot, metres; 0 on a robot that steers.
    pub half_track: f32,
    /// Speed at full command, metres per second.
    pub full_speed: f32,
}

/// A property of the body that is out of range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BodyError {
    /// Which property.
    pub name: &'static str,
    /// Its value.
    pub value: f32,
    /// Smallest and largest permitted value.
    pub range: [f32; 2],
}

impl Body {
    /// The body of `board`; `None`: the board does not state it, or the robot can neither steer nor turn on
    /// the spot.
    pub fn of(board: &Board) -> Option<Body> {
        let plan = board.motion?;
        let [length, width] = plan.body?;
        let motion = MotionModel::of(board)?;
        let track = motion.wheels.as_ref().map(|wheels| wheels.track as f32);
        let sharpest = |_| libm::fmin(motion.curvature(-1.0).abs(), motion.curvature(1.0).abs());
        let turning_radius = match track {
            Some(_) => 0.0,
            None => motion.steering.map(sharpest).filter(|curvature| *curvature > 0.0)?.recip() as f32,
        };
        Some(Body {
            half_width: width / 2.0,
            front: (plan.wheelbase + length) / 2.0,
            rear: (length - plan.wheelbase) / 2.0,
            turning_radius,
            half_track: track.unwrap_or(0.0) / 2.0,
            full_speed: plan.full_speed,
        })
    }

    /// From the reference point to its farthest corner, metres.
    pub fn radius(&self) -> f32 {
        libm::hypotf(self.front.max(self.rear), self.half_width)
    }

    /// Half of its length, metres.
    pub fn half_length(&self) -> f32 {
        (self.front + self.rear) / 2.0
    }

    /// Distance that its middle keeps from any detected obstacle, metres. A body that turns on the spot needs
    /// room for its corners.
    pub fn keeps_clear(&self) -> f32 {
        let beside = self.half_width + CLEARANCE;
        if self.turns_on_spot() {
            beside.max(libm::hypotf(self.half_width, self.half_length()))
        } else {
            beside
        }
    }

    /// The radius of the area around its middle that it passes in its sharpest turn, metres. An obstacle in
    /// there can come to its side without ever being in front of a sensor that looks ahead.
    pub fn turns_past(&self) -> f32 {
        2.0 * self.turning_radius + self.keeps_clear()
    }

    /// How far the middle of the body is ahead of the reference point, metres.
    pub fn middle(&self) -> f32 {
        (self.front - self.rear) / 2.0
    }

    /// Whether it turns on the spot.
    pub fn turns_on_spot(&self) -> bool {
        self.turning_radius == 0.0
    }

    /// Checks the range of each property; the error names the first one that is out of range. The ranges are
    /// those of robots that fit on a lattice of [`place_grid::SIDE`] cells of [`place_grid::CELL`] metres.
    pub fn check(&self) -> Result<(), BodyError> {
        for (name, value, range) in [
            ("half_width", self.half_width, [0.01, 1.0]),
            ("front", self.front, [0.0, 2.0]),
            ("rear", self.rear, [0.0, 2.0]),
            ("turning_radius", self.turning_radius, [0.0, 3.0]),
            ("half_track", self.half_track, [0.0, 1.0]),
            ("full_speed", self.full_speed, [0.01, 5.0]),
        ] {
            if !(range[0] <= value && value <= range[1]) {
                return Err(BodyError { name, value, range });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small car.
    pub(super) const CAR: Body = Body {
        half_width: 0.065,
        front: 0.1686,
        rear: 0.0814,
        turning_radius: 0.1732,
        half_track: 0.0,
        full_speed: 0.5,
    };

    #[test]
    fn bodies_of_the_shipped_boards_are_in_range() {
        let body = |name: &str| {
            let board = crate::deploy::board::built_in(name).unwrap().unwrap().board;
            Body::of(&board).expect("the board states its body")
        };
        let car = body("picarx-v4");
        assert_eq!(car.check(), Ok(()));
        assert!(!car.turns_on_spot() && (0.15..0.25).contains(&car.turning_radius), "{car:?}");
        let barn = body("barn");
        assert_eq!(barn.check(), Ok(()));
        assert!(barn.turns_on_spot() && barn.half_track == 0.07 && barn.middle().abs() < 0.01, "{barn:?}");
    }

    #[test]
    fn a_body_out_of_range_is_refused_by_name() {
        let good = Body {
            half_width: 0.1,
            front: 0.2,
            rear: 0.1,
            turning_radius: 0.0,
            half_track: 0.1,
            full_speed: 0.5,
        };
        assert_eq!(good.check(), Ok(()));
        let slow = Body { full_speed: 0.0, ..good };
        assert_eq!(slow.check(), Err(BodyError { name: "full_speed", value: 0.0, range: [0.01, 5.0] }));
        assert_eq!(Body { rear: f32::NAN, ..good }.check().map_err(|error| error.name), Err("rear"));
    }
}
