//! Estimates the robot's pose from its own commands, with the model of a kinematic bicycle (Rajamani,
//! *Vehicle Dynamics and Control*, section 2.2, reference point on the rear axle) or of a differential drive
//! (Siegwart and Nourbakhsh, *Introduction to Autonomous Mobile Robots*, section 3.2). The speed, and the
//! turn rate of a differential drive, lag behind the commands. On a board with a gyroscope
//! (`[motion] turning`), the robot turns as the [`gyroscope`] measures, not as commanded, unless that is the
//! opposite ([`agreement`]). Starts at (0, 0), heading along x. The estimate drifts, as all dead reckoning
//! does, and does not notice when a wheel slips or a wall blocks the robot. The drift limits the accuracy of
//! places.

pub mod agreement;
pub mod gyroscope;

use crate::base::command::MAX_MOTORS;
use crate::base::frame::Sample;
use crate::base::plan::{Board, MotorKind, MotorPlan, TurnSensor};
use crate::base::time::{Instant, Span};
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};
use agreement::{Agreement, is_opposite};
use gyroscope::Gyroscope;

/// The longest time that one command is assumed to have lasted. In a longer gap (a stalled loop), the robot
/// is assumed to have stood still for the rest, because motors stop when their command expires.
const LONGEST: Span = Span::from_millis(200);
/// Below this speed, metres per second, and below this rate of turn, radians a second, a robot that is
/// commanded to stand counts as standing.
const STANDS: f64 = 0.001;

/// How the robot's commands move it.
#[derive(Clone, Debug, PartialEq)]
pub struct MotionModel {
    /// Speed at full command, metres per second.
    pub full_speed: f64,
    /// Distance between the axles, metres.
    pub wheelbase: f64,
    /// Time constant of the speed, seconds; 0: none.
    pub lag_s: f64,
    /// The drive motors; the mean of their commands sets the speed.
    pub drives: Vec<usize>,
    /// The motor that steers, and its angle at -1 and +1 in degrees, positive to the right. Without one, and
    /// without `wheels`, the robot is assumed to go straight.
    pub steering: Option<(usize, [f64; 2])>,
    /// The wheels that turn the robot by their speed difference, on a robot without a steering motor.
    pub wheels: Option<Wheels>,
    /// The sensor that measures how fast the robot turns; `None`: its commands tell.
    pub turning: Option<TurnSensor>,
}

/// The wheels of a differential drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Wheels {
    /// Motors of the left side.
    pub left: Vec<usize>,
    /// Motors of the right side.
    pub right: Vec<usize>,
    /// Distance between the two sides, metres.
    pub track: f64,
}

impl Wheels {
    /// The wheels of `board`: drive motors whose names contain "left" or "right". `None`: one side has none,
    /// the board has a servo, or it does not state its track.
    fn of(board: &Board) -> Option<Wheels> {
        let has_servo = board.motors.iter().any(|motor| matches!(motor.kind, MotorKind::Servo { .. }));
        let track = board.motion?.track.filter(|_| !has_servo)?.into();
        let drives = || board.motors.iter().enumerate().filter(|(_, motor)| motor.kind.drives());
        let called = |name: &str, other: &str| -> Vec<usize> {
            let is = |motor: &MotorPlan| motor.name.contains(name) && !motor.name.contains(other);
            drives().filter(|(_, motor)| is(motor)).map(|(number, _)| number).collect()
        };
        let (left, right) = (called("left", "right"), called("right", "left"));
        (!left.is_empty() && !right.is_empty()).then_some(Wheels { left, right, track })
    }
}

impl MotionModel {
    /// How commands move the robot of `board`, if the board states it.
    pub fn of(board: &Board) -> Option<MotionModel> {
        let plan = board.motion?;
        let steers = |(number, motor): (usize, &MotorPlan)| {
            let MotorKind::Servo { min_deg, max_deg, .. } = motor.kind else { return None };
            (motor.name == "steering").then(|| (number, [min_deg, max_deg].map(f64::from)))
        };
        let drives = board.motors.iter().enumerate().filter(|(_, motor)| motor.kind.drives());
        Some(MotionModel {
            full_speed: plan.full_speed.into(),
            wheelbase: plan.wheelbase.into(),
            lag_s: plan.lag.as_secs_f64(),
            drives: drives.map(|(number, _)| number).collect(),
            steering: board.motors.iter().enumerate().find_map(steers),
            wheels: Wheels::of(board),
            turning: plan.turning,
        })
    }

    /// How fast the robot turns according to its sensor, radians a second, positive to the left; the sensor's
    /// zero error is still in it. `None`: it has no such sensor, or no reading that can be trusted.
    pub fn measured_turn(&self, samples: &[Sample]) -> Option<f64> {
        let TurnSensor { channel, scale } = self.turning?;
        let measured = samples.get(channel)?.good()?;
        Some(f64::from(measured / scale).to_radians())
    }

    /// Curvature of the path with this steering command, 1/m, positive to the left.
    pub fn curvature(&self, steering: f32) -> f64 {
        let [low, high] = self.steering.map_or([0.0; 2], |(_, angles)| angles);
        let angle = low + (f64::from(steering) + 1.0) / 2.0 * (high - low);
        -libm::tan(angle.to_radians()) / self.wheelbase
    }

    /// The steering command for a path of this curvature, 1/m, positive to the left; the sharpest possible
    /// command if the curvature is beyond it.
    pub fn steering(&self, curvature: f64) -> f32 {
        let [low, high] = self.steering.map_or([-1.0, 1.0], |(_, angles)| angles);
        let angle = libm::atan(-curvature * self.wheelbase).to_degrees();
        (2.0 * (angle - low) / (high - low) - 1.0).clamp(-1.0, 1.0) as f32
    }

    /// The commands for this speed of the reference point, -1..=1 of full speed, along a path of this
    /// curvature, 1/m, positive to the left. On a differential drive, both wheels are slowed down if one
    /// would exceed full speed, so that the curvature is kept. An infinite curvature turns the robot on the
    /// spot, to the left if positive; `speed` is then that of the wheels.
    pub fn commands(&self, speed: f32, curvature: f32) -> [f32; MAX_MOTORS] {
        let mut motors = [0.0; MAX_MOTORS];
        self.drives.iter().for_each(|motor| motors[*motor] = speed);
        if let Some((steering, _)) = self.steering {
            motors[steering] = self.steering(curvature.into());
        }
        if let Some(Wheels { left, right, track }) = &self.wheels {
            let (ahead, turn) = match curvature {
                spot if spot.is_infinite() => (0.0, speed * spot.signum()),
                curvature => (speed, speed * curvature * *track as f32 / 2.0),
            };
            let fastest = (ahead.abs() + turn.abs()).max(1.0);
            left.iter().for_each(|motor| motors[*motor] = (ahead - turn) / fastest);
            right.iter().for_each(|motor| motors[*motor] = (ahead + turn) / fastest);
        }
        motors
    }

    /// How fast these commands turn the robot, radians a second, positive to the left; `None`: it has no
    /// differential drive.
    fn spin(&self, motors: &[f32; MAX_MOTORS]) -> Option<f64> {
        let Wheels { left, right, track } = self.wheels.as_ref()?;
        let mean = |side: &[usize]| {
            side.iter().map(|motor| f64::from(motors[*motor])).sum::<f64>() / side.len().max(1) as f64
        };
        Some((mean(right) - mean(left)) * self.full_speed / track)
    }

    /// The drive command in `motors`: the mean of the drive motors.
    pub fn drive(&self, motors: &[f32; MAX_MOTORS]) -> f32 {
        let sum: f32 = self.drives.iter().map(|motor| motors[*motor]).sum();
        sum / self.drives.len().max(1) as f32
    }
}

/// A position and a heading.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OdometryPose {
    /// Metres.
    pub at: [f64; 2],
    /// Radians from x towards y (to the left).
    pub heading: f64,
}

impl OdometryPose {
    /// The pose after `way` metres (negative: backwards) along this `curvature`, 1/m, positive to the left.
    pub fn ahead(self, way: f64, curvature: f64) -> OdometryPose {
        self.moved(way, way * curvature)
    }

    /// The pose after `way` metres (negative: backwards) while it turns by `turn` radians to the left.
    pub fn moved(self, way: f64, turn: f64) -> OdometryPose {
        let middle = self.heading + turn / 2.0;
        let at = [self.at[0] + way * libm::cos(middle), self.at[1] + way * libm::sin(middle)];
        OdometryPose { at, heading: self.heading + turn }
    }

    /// The position `ahead` metres in front of this pose and `left` metres to its left.
    pub fn place(self, ahead: f64, left: f64) -> [f64; 2] {
        let (sin, cos) = (libm::sin(self.heading), libm::cos(self.heading));
        [self.at[0] + ahead * cos - left * sin, self.at[1] + ahead * sin + left * cos]
    }

    /// How far in front of this pose and to its left a position is, metres: the inverse of
    /// [`OdometryPose::place`].
    pub fn sees(self, [x, y]: [f64; 2]) -> [f64; 2] {
        let (sin, cos) = (libm::sin(self.heading), libm::cos(self.heading));
        let (x, y) = (x - self.at[0], y - self.at[1]);
        [x * cos + y * sin, y * cos - x * sin]
    }
}

/// Dead reckoning.
#[derive(Clone, Debug)]
pub struct Odometer {
    motion: MotionModel,
    standing: OdometryPose,
    speed: f64,
    /// How fast the robot turns, radians a second, positive to the left.
    spin: f64,
    gyroscope: Gyroscope,
    agreement: Agreement,
    last: Option<Instant>,
}

impl Odometer {
    /// A robot at the origin.
    pub fn new(motion: MotionModel) -> Odometer {
        Odometer {
            motion,
            standing: OdometryPose::default(),
            speed: 0.0,
            spin: 0.0,
            gyroscope: Gyroscope::default(),
            agreement: Agreement::default(),
            last: None,
        }
    }

    /// How commands move the robot.
    pub fn motion(&self) -> &MotionModel {
        &self.motion
    }

    /// The estimated pose.
    pub fn pose(&self) -> OdometryPose {
        self.standing
    }

    /// Corrects the estimate: something other than its commands shows that the robot is here.
    pub fn put(&mut self, standing: OdometryPose) {
        self.standing = standing;
    }

    /// The estimated speed, metres per second, negative backwards.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// The share of the commanded turns that the gyroscope measures ([`Agreement::share`]).
    pub fn turns_measured(&self) -> Option<f64> {
        self.agreement.share()
    }

    /// The robot was given this command at `slot`; `turn` is the rate of turn that its sensor measures
    /// ([`MotionModel::measured_turn`]). Returns how far it went since the last command, metres, negative
    /// backwards.
    pub fn advance(&mut self, slot: Instant, motors: &[f32; MAX_MOTORS], turn: Option<f64>) -> f64 {
        let passed = self.last.map_or(Span::ZERO, |last| slot.since(last));
        self.last = Some(slot);
        let seconds = passed.min(LONGEST).as_secs_f64();
        let MotionModel { full_speed, lag_s, drives, steering, .. } = &self.motion;
        let wanted = drives.iter().map(|motor| f64::from(motors[*motor])).sum::<f64>()
            / drives.len().max(1) as f64
            * full_speed;
        let share = if *lag_s > 0.0 { 1.0 - libm::exp(-seconds / lag_s) } else { 1.0 };
        self.speed += (wanted - self.speed) * share;
        let way = self.speed * seconds;
        let spin = self.motion.spin(motors);
        if let Some(wanted) = spin {
            self.spin += (wanted - self.spin) * share;
        }
        let is_to_stand = wanted == 0.0 && spin.unwrap_or(0.0) == 0.0;
        let stands = is_to_stand && self.speed.abs() < STANDS && self.spin.abs() < STANDS;
        let measured = turn.and_then(|turn| self.gyroscope.turn(turn, stands, seconds));
        let curvature = steering.map_or(0.0, |(motor, _)| self.motion.curvature(motors[motor]));
        let commanded = if spin.is_some() { self.spin * seconds } else { way * curvature };
        if let Some(measured) = measured {
            self.agreement.add(commanded, measured * seconds, seconds);
        }
        let used = measured.filter(|_| !self.turns_measured().is_some_and(is_opposite));
        self.standing = self.standing.moved(way, used.map_or(commanded, |turn| turn * seconds));
        way
    }
}

impl Remembers for Odometer {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        let Odometer { motion: _, standing, speed, spin, gyroscope, agreement, last } = self;
        remember!(archive: standing, speed, spin, last);
        gyroscope.walk(archive)?;
        agreement.walk(archive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::frame::Health;
    use std::f64::consts::TAU;

    fn motion(lag_s: f64) -> MotionModel {
        let steering = Some((2, [-30.0, 30.0]));
        MotionModel {
            full_speed: 0.5,
            wheelbase: 0.1,
            lag_s,
            drives: vec![0, 1],
            steering,
            wheels: None,
            turning: None,
        }
    }

    /// Two wheels 0.2 m apart.
    fn two_wheels(lag_s: f64) -> MotionModel {
        let wheels = Some(Wheels { left: vec![0], right: vec![1], track: 0.2 });
        MotionModel { steering: None, wheels, ..motion(lag_s) }
    }

    fn drive(odometer: &mut Odometer, from: u64, slots: u64, command: [f32; 3]) {
        drive_turning(odometer, from, slots, command, None);
    }

    /// The same with this measured rate of turn.
    fn drive_turning(odometer: &mut Odometer, from: u64, slots: u64, command: [f32; 3], turn: Option<f64>) {
        let mut motors = [0.0; MAX_MOTORS];
        motors[..3].copy_from_slice(&command);
        for slot in from..from + slots {
            odometer.advance(Instant::ZERO + Span::from_millis(10 * slot), &motors, turn);
        }
    }

    #[test]
    fn place_and_sees_are_inverse_transforms() {
        let left = OdometryPose { at: [1.0, 2.0], heading: std::f64::consts::FRAC_PI_2 };
        let place = left.place(3.0, 0.5);
        assert!((place[0] - 0.5).abs() < 1e-12 && (place[1] - 5.0).abs() < 1e-12, "{place:?}");
        let slant = OdometryPose { at: [-0.3, 0.7], heading: 2.2 };
        let [ahead, beside] = slant.sees(slant.place(1.5, -0.4));
        assert!((ahead - 1.5).abs() < 1e-12 && (beside + 0.4).abs() < 1e-12, "{ahead}, {beside}");
    }

    #[test]
    fn a_full_circle_ends_where_it_began() {
        let mut odometer = Odometer::new(motion(0.0));
        drive(&mut odometer, 0, 101, [1.0, 1.0, 0.0]);
        let OdometryPose { at: [x, y], heading } = odometer.pose();
        assert!((x - 0.5).abs() < 1e-9 && y.abs() < 1e-9 && heading.abs() < 1e-9, "{x} {y} {heading}");
        // To the right at 30 degrees: a circle of radius 0.1 / tan 30 degrees.
        let radius = 0.1 / (30.0_f64).to_radians().tan();
        let slots = (TAU * radius / 0.5 / 0.01).round() as u64;
        drive(&mut odometer, 101, slots, [1.0, 1.0, 1.0]);
        let OdometryPose { at: [x, y], heading } = odometer.pose();
        assert!((heading + TAU).abs() < 0.05, "a turn to the right: {heading}");
        assert!((x - 0.5).abs() < 0.01 && y.abs() < 0.01, "{x} {y}");
    }

    #[test]
    fn it_turns_as_measured_and_without_a_good_reading_as_told() {
        let turning = Some(TurnSensor { channel: 1, scale: 2.0 });
        let model = MotionModel { turning, ..motion(0.0) };
        let reading = |health| [Sample::NEVER, Sample { value: 20.0, health, ..Sample::NEVER }];
        let measured = model.measured_turn(&reading(Health::Good)).expect("a good reading");
        assert!((measured - 10.0_f64.to_radians()).abs() < 1e-9, "{measured}");
        assert_eq!(model.measured_turn(&reading(Health::Stale)), None);
        assert_eq!(motion(0.0).measured_turn(&reading(Health::Good)), None, "it has no such sensor");
        let mut odometer = Odometer::new(model.clone());
        let mut slot = 0;
        // Its steering is straight, and its gyroscope has a zero error of a tenth of a radian a second.
        let mut turned = |slots: u64, drive: f32, turn: Option<f64>| {
            let before = odometer.pose().heading;
            drive_turning(&mut odometer, slot, slots, [drive, drive, 0.0], turn);
            slot += slots;
            odometer.pose().heading - before
        };
        assert_eq!(turned(10, 0.5, Some(0.6)), 0.0, "the zero error is not known yet");
        assert!(turned(100, 0.0, Some(0.1)).abs() < 1e-9, "it stands");
        assert!((turned(100, 0.5, Some(0.6)) - 0.5).abs() < 1e-6, "as measured");
        assert_eq!(turned(100, 0.5, None), 0.0, "as told");
        assert!((turned(10, 0.0, Some(1.1)) - 0.1).abs() < 1e-6, "turned by hand");
    }

    #[test]
    fn a_gyroscope_upside_down_is_found_and_not_used() {
        let model = MotionModel { turning: Some(TurnSensor { channel: 0, scale: 1.0 }), ..motion(0.0) };
        let circle_s = TAU * 0.1 / libm::tan(30.0_f64.to_radians()) / 0.5;
        for way_up in [1.0, -1.0] {
            let mut odometer = Odometer::new(model.clone());
            drive_turning(&mut odometer, 0, 101, [0.0; 3], Some(0.0));
            let slots = (circle_s / 0.01).round() as u64;
            let left = |odometer: &mut Odometer, from| {
                drive_turning(odometer, from, slots, [1.0, 1.0, -1.0], Some(way_up * TAU / circle_s));
            };
            left(&mut odometer, 101);
            assert!(odometer.turns_measured().is_some_and(|share| (share - way_up).abs() < 0.01));
            let before = odometer.pose().heading;
            left(&mut odometer, 101 + slots);
            let turned = odometer.pose().heading - before;
            assert!((turned - TAU).abs() < 0.05, "{way_up}: {turned}");
        }
    }

    #[test]
    fn two_wheels_turn_by_their_difference() {
        let mut odometer = Odometer::new(two_wheels(0.0));
        drive(&mut odometer, 0, 101, [-0.4, 0.4, 0.0]);
        let OdometryPose { at: [x, y], heading } = odometer.pose();
        assert!((heading - 0.8 * 0.5 / 0.2).abs() < 1e-6 && x.abs() < 1e-9 && y.abs() < 1e-9, "{heading}");
        let mut straight = Odometer::new(two_wheels(0.1));
        drive(&mut straight, 0, 201, [1.0, 1.0, 0.0]);
        let OdometryPose { at: [x, y], heading } = straight.pose();
        assert!((x - (2.0 - 0.1) * 0.5).abs() < 0.003 && y.abs() < 1e-9 && heading.abs() < 1e-9, "{x}");
    }

    #[test]
    fn commands_follow_the_wanted_curve_with_either_body() {
        let model = two_wheels(0.0);
        let pair = |speed: f32, curvature: f32| {
            let motors = model.commands(speed, curvature);
            [motors[0], motors[1]]
        };
        assert_eq!(pair(0.5, 0.0), [0.5, 0.5]);
        assert_eq!(pair(0.5, f32::INFINITY), [-0.5, 0.5], "it turns to the left on the spot");
        assert_eq!(pair(0.5, f32::NEG_INFINITY), [0.5, -0.5]);
        assert_eq!(pair(0.8, 10.0), [0.0, 1.0], "it turns about its left wheel, as fast as it can");
        assert_eq!(pair(-0.5, 5.0), [-0.25, -0.75]);
        for curvature in [-30.0, -3.0, 0.5, 4.0] {
            let mut odometer = Odometer::new(model.clone());
            let motors = model.commands(0.6, curvature);
            drive(&mut odometer, 0, 21, [motors[0], motors[1], 0.0]);
            let way = odometer.speed() * 0.2;
            assert!((odometer.pose().heading - way * f64::from(curvature)).abs() < 1e-5, "{curvature}");
        }
        let car = motion(0.0);
        let motors = car.commands(0.6, 2.0);
        assert_eq!((motors[0], motors[1]), (0.6, 0.6));
        assert!((car.curvature(motors[2]) - 2.0).abs() < 1e-5);
    }

    #[test]
    fn lag_delays_motion_and_a_loop_stall_counts_little() {
        let mut odometer = Odometer::new(motion(0.1));
        drive(&mut odometer, 0, 201, [1.0, 1.0, 0.0]);
        let [x, _] = odometer.pose().at;
        assert!((x - (2.0 - 0.1) * 0.5).abs() < 0.003, "{x}");
        let before = odometer.pose().at[0];
        drive(&mut odometer, 10_000, 1, [1.0, 1.0, 0.0]);
        assert!(odometer.pose().at[0] - before <= 0.2 * 0.5 + 1e-9);
    }
}
