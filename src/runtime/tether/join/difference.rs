//! The first difference between a robot's board and the brain's, with both values.

use super::{Join, JoinSensor};
use crate::base::time::Span;
use std::fmt;

/// A difference between a robot and a brain; the robot's value comes first.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// Version of the messages.
    Version(u8, u8),
    /// Number of sensors.
    SensorCount(usize, usize),
    /// The sensor with this number, counted from 1.
    Sensor(usize, JoinSensor, JoinSensor),
    /// Number of motors.
    MotorCount(usize, usize),
    /// The motor with this number, counted from 1.
    Motor(usize, String, String),
    /// A sensor or motor beyond the listed ones, of which there are this many.
    Beyond(usize),
    /// Time between two cycles.
    Period(Span, Span),
    /// Something else about the board; only the digests show it.
    Digest([u8; 8], [u8; 8]),
}

impl Join {
    /// The first difference between the robot's join `self` and the one that the brain expects. The names of
    /// robot and board may differ.
    pub fn difference(&self, expected: &Join) -> Option<Difference> {
        let (robot, brain) = (self, expected);
        if robot.message_version != brain.message_version {
            return Some(Difference::Version(robot.message_version, brain.message_version));
        }
        if robot.sensor_count != brain.sensor_count {
            return Some(Difference::SensorCount(robot.sensor_count, brain.sensor_count));
        }
        if robot.motor_count != brain.motor_count {
            return Some(Difference::MotorCount(robot.motor_count, brain.motor_count));
        }
        let sensor = first_difference(&robot.sensors, &brain.sensors);
        if let Some((at, robot, brain)) = sensor {
            return Some(Difference::Sensor(at, robot, brain));
        }
        if let Some((at, robot, brain)) = first_difference(&robot.motors, &brain.motors) {
            return Some(Difference::Motor(at, robot, brain));
        }
        if robot.channels != brain.channels {
            return Some(Difference::Beyond(robot.sensors.len() + robot.motors.len()));
        }
        if robot.period != brain.period {
            return Some(Difference::Period(robot.period, brain.period));
        }
        let start = |digest: &[u8; 32]| std::array::from_fn(|at| digest[at]);
        (robot.digest != brain.digest).then(|| Difference::Digest(start(&robot.digest), start(&brain.digest)))
    }
}

/// Number (from 1) and values of the first pair that differs.
fn first_difference<T: Clone + PartialEq>(robot: &[T], brain: &[T]) -> Option<(usize, T, T)> {
    let mut pairs = robot.iter().zip(brain).enumerate();
    pairs.find(|(_, (robot, brain))| robot != brain).map(|(at, (r, b))| (at + 1, r.clone(), b.clone()))
}

impl fmt::Display for JoinSensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` in {} from {} to {}", self.name, self.unit, self.low, self.high)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |bytes: &[u8; 8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let ms = |span: &Span| span.as_secs_f64() * 1e3;
        match self {
            Difference::Version(robot, brain) => {
                write!(f, "the robot speaks version {robot} of the messages, the brain version {brain}")
            }
            Difference::SensorCount(robot, brain) => {
                write!(f, "the robot's field has {robot} sensors, the brain's {brain}")
            }
            Difference::Sensor(at, robot, brain) => {
                write!(f, "sensor {at} is {robot}, the brain's board has {brain}")
            }
            Difference::MotorCount(robot, brain) => {
                write!(f, "the robot has {robot} motors, the brain's board {brain}")
            }
            Difference::Motor(at, robot, brain) => {
                write!(f, "motor {at} is `{robot}`, the brain's board has `{brain}`")
            }
            Difference::Beyond(count) => {
                write!(f, "sensors and motors differ after the first {count}")
            }
            Difference::Period(robot, brain) => write!(
                f,
                "the robot computes a cycle every {} ms, the brain's board every {} ms",
                ms(robot),
                ms(brain)
            ),
            Difference::Digest(robot, brain) => write!(
                f,
                "the robot's board has digest {}, the brain's has {}; compare them with 'ganglion check'",
                hex(robot),
                hex(brain)
            ),
        }
    }
}
