//! The car in motion: a kinematic bicycle with motors that lag and a steering servo of limited speed, or two
//! driven wheels that turn it by their speed difference; and a body that stops at obstacles. Pins and
//! registers are not modelled here.
//!
//! Kinematic means that tyres do not slip, which holds below about 1 m/s on a dry floor. The model is that of
//! Rajamani, Vehicle Dynamics and Control, section 2.2, with the reference point on the rear axle.

use super::contact::{Contact, ContactLog, Contacts};
use super::eye::Eye;
use super::ground::Spots;
use super::sonar::HALF_CONE_DEG;
use super::world::{Obstacle, Outline, Pose, Wheel, World};
use crate::base::plan::{MotionErrors, SimPlan};
use crate::base::time::Span;
use libm::{cos, exp, sin, tan};

/// Length of one step, seconds. The fastest part of the model is the servo (70 ms from straight ahead to 30
/// degrees). The car moves half a millimetre in a step. A bus transfer is shorter than a step, so a command
/// takes effect at most 1 ms late.
pub const STEP_S: f64 = 0.001;
/// [`STEP_S`] as a span of time.
pub const STEP: Span = Span::from_nanos((STEP_S * 1e9) as u64);
/// Time constant of the speed, for a car of 0.8 kg at 0.5 m/s with two gear motors of 0.08 Nm stall torque
/// and wheels of 32.5 mm radius: m * v / F = 0.8 * 0.5 / 4.9.
const LAG_S: f64 = 0.08;
/// The vendor's figure for its servo, degrees per second.
const SERVO_DEG_PER_S: f64 = 428.0;
/// End stop of the front axle's linkage, degrees; this also keeps the tangent finite.
const LINKAGE_DEG: f64 = 40.0;
/// A slower car counts as stopped: it would move less than a tenth of a millimetre in a day.
const STANDS_M_PER_S: f64 = 1e-9;
/// A slower turn counts as driving straight.
const STANDS_RAD_PER_S: f64 = 1e-9;
/// A contact has ended when there is this much space around the body again. A car that is pushed against a
/// wall and rebounds by less than this counts as hitting the wall once.
const APART_M: f64 = 0.01;
/// An obstacle that touches the front is nearer to the sonar than this; a corner of the car is half its width
/// away from the sonar.
const IN_SIGHT_M: f64 = 0.1;

/// Once the car has backed this far from an edge that was under its ground sensors, it counts as having left
/// the edge: the sensors are 7 cm ahead of the front wheels.
const AWAY_M: f64 = 0.10;
/// Slow enough to count as stopped for the edge: a twentieth of full speed.
const SLOW_M_PER_S: f64 = 0.025;

/// An edge that was under a ground sensor, as a driver would remember it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Edge {
    /// Whether the car has stopped since a sensor was first over the edge.
    stopped: bool,
    /// How far the car has driven backwards since a sensor was last over the edge, metres.
    back: f64,
}

/// The car.
#[derive(Clone, Debug)]
pub struct Car {
    outline: Outline,
    spots: Spots,
    full_speed: f64,
    errors: MotionErrors,
    lag: f64,
    pose: Pose,
    speed: f64,
    /// Angle of the front wheels in radians, positive to the right.
    steering: f64,
    /// How fast its two wheels turn it to the left, radians per second; `None`: the front wheels steer.
    spin: Option<f64>,
    /// Half the angle of its ranger's view ahead, degrees.
    half_sight_deg: f64,
    in_contact: bool,
    fallen: bool,
    edge: Option<Edge>,
    contacts: ContactLog,
    /// Steps so far, with the present one.
    steps: u64,
    distance: f64,
}

impl Car {
    /// A stopped car at the start of `world`.
    pub fn new(plan: &SimPlan, world: &World) -> Car {
        let outline = Outline::of(plan);
        Car {
            outline,
            spots: Spots::ahead_of_wheels(&outline),
            full_speed: plan.full_speed.into(),
            errors: plan.errors,
            lag: 1.0 - exp(-STEP_S / LAG_S),
            pose: world.start(),
            speed: 0.0,
            steering: 0.0,
            spin: None,
            half_sight_deg: HALF_CONE_DEG,
            in_contact: false,
            fallen: false,
            edge: None,
            contacts: ContactLog::default(),
            steps: 0,
            distance: 0.0,
        }
    }

    /// The same car with ground sensors at these spots.
    pub fn looking_at(self, spots: Spots) -> Car {
        Car { spots, ..self }
    }

    /// The same car with a ranger that sees this far to each side of straight ahead.
    pub fn seeing(self, half_sight_deg: f64) -> Car {
        Car { half_sight_deg, ..self }
    }

    /// One step of [`STEP_S`] for a car that steers with its left and right wheels; `wheels` is the drive of
    /// each, -1..=1.
    pub fn step_wheels(&mut self, wheels: [f64; 2], world: &World) {
        let [left, right] = wheels.map(|wheel| wheel.clamp(-1.0, 1.0));
        let left = left * (1.0 - self.errors.left_slower);
        let wanted = (right - left) * self.full_speed / self.outline.track;
        let spin = self.spin.unwrap_or(0.0);
        self.spin = Some(spin + (wanted - spin) * self.lag);
        self.go((left + right) / 2.0, world);
    }

    /// One step of [`STEP_S`]: `drive` is the mean of the motors, -1..=1; `steering_deg` is the commanded
    /// angle of the servo, positive to the right (`None`: it has no pulse and keeps its angle).
    pub fn step(&mut self, drive: f64, steering_deg: Option<f64>, world: &World) {
        if let Some(target) = steering_deg {
            self.turn_wheels(target + self.errors.steering_deg);
        }
        self.go(drive, world);
    }

    fn go(&mut self, drive: f64, world: &World) {
        self.steps += 1;
        self.speed += (drive.clamp(-1.0, 1.0) * self.full_speed - self.speed) * self.lag;
        if self.fallen || self.speed.abs() < STANDS_M_PER_S {
            self.speed = 0.0; // fallen: it rests on its belly
            if self.fallen || self.spin.is_none_or(|spin| spin.abs() < STANDS_RAD_PER_S) {
                return;
            }
        }
        let mut next = self.moved();
        if let Some(obstacle) = world.touched(&self.outline, &next) {
            let (speed, spin) = (self.speed, self.spin);
            self.stop_at(obstacle, world);
            match spin.and_then(|spin| self.slide(speed, spin, world)) {
                Some(free) => next = free,
                None => return,
            }
        }
        self.distance += self.speed.abs() * STEP_S;
        self.pose = next;
        if self.in_contact {
            self.in_contact = world.touched(&self.outline.inflated(APART_M), &next).is_some();
        }
        self.note_edges(world);
        if let Some(wheel) = world.wheel_over_cliff(&self.outline, &next) {
            self.fallen = true;
            let ahead = self.speed > 0.0 && wheel == Wheel::Front;
            let stopped = self.edge.is_some_and(|edge| edge.stopped);
            self.contacts.counts.falls_after_stop += u64::from(ahead && stopped);
            self.note(None, self.speed < 0.0);
        }
    }

    /// The part of a step that a car with two driven wheels can still make when its body touches something:
    /// the straight motion or the turn; `None`: neither.
    fn slide(&mut self, speed: f64, spin: f64, world: &World) -> Option<Pose> {
        for (speed, spin) in [(speed, 0.0), (0.0, spin)] {
            (self.speed, self.spin) = (speed, Some(spin));
            let next = self.moved();
            if world.touched(&self.outline, &next).is_none() {
                return Some(next);
            }
        }
        (self.speed, self.spin) = (0.0, Some(0.0));
        None
    }

    fn note_edges(&mut self, world: &World) {
        let before = self.edge.unwrap_or(Edge { stopped: false, back: 0.0 });
        let stopped = before.stopped || self.speed < SLOW_M_PER_S;
        if self.spots.at(&self.pose).into_iter().any(|spot| world.is_cliff(spot)) {
            self.edge = Some(Edge { stopped: self.edge.is_some() && stopped, back: 0.0 });
        } else if self.edge.is_some() {
            let back = before.back + (-self.speed * STEP_S).max(0.0);
            self.edge = (back < AWAY_M).then_some(Edge { stopped, back });
        }
    }

    fn turn_wheels(&mut self, target_deg: f64) {
        let most = (SERVO_DEG_PER_S * STEP_S).to_radians();
        let target = target_deg.clamp(-LINKAGE_DEG, LINKAGE_DEG).to_radians();
        self.steering += (target - self.steering).clamp(-most, most);
    }

    /// The pose after this step: an arc, approximated by a straight move along the heading in its middle.
    fn moved(&self) -> Pose {
        let turn = self.turn_rad_s() * STEP_S;
        let way = self.speed * STEP_S;
        let middle = self.pose.heading + turn / 2.0;
        Pose {
            x: self.pose.x + way * cos(middle),
            y: self.pose.y + way * sin(middle),
            heading: self.pose.heading + turn,
        }
    }

    fn stop_at(&mut self, obstacle: Obstacle, world: &World) {
        let forwards = self.speed > 0.0;
        self.speed = 0.0;
        self.spin = self.spin.map(|_| 0.0);
        if self.in_contact {
            return;
        }
        self.in_contact = true;
        let nearest = Eye::ahead(&self.outline, self.half_sight_deg).nearest(world, &self.pose);
        self.contacts.counts.head_on += u64::from(forwards && nearest < IN_SIGHT_M);
        self.note(Some(obstacle), !forwards);
    }

    fn note(&mut self, with: Option<Obstacle>, backwards: bool) {
        let after = STEP.times(self.steps);
        self.contacts.add(Contact { after, with, pose: self.pose, backwards });
    }

    /// How fast it turns to the left, radians per second.
    pub fn turn_rad_s(&self) -> f64 {
        self.spin.unwrap_or_else(|| -self.speed / self.outline.wheelbase * tan(self.steering))
    }
    /// Pose of the rear axle.
    pub fn pose(&self) -> Pose {
        self.pose
    }
    /// Its outline.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }
    /// Metres per second, negative backwards.
    pub fn speed(&self) -> f64 {
        self.speed
    }
    /// Angle of the front wheels in degrees, positive to the right.
    pub fn steering_deg(&self) -> f64 {
        self.steering.to_degrees()
    }
    /// Contacts so far.
    pub fn contacts(&self) -> Contacts {
        self.contacts.counts
    }
    /// The first contacts, at most [`MOST_CONTACTS`](super::MOST_CONTACTS).
    pub fn first_contacts(&self) -> &[Contact] {
        self.contacts.first()
    }
    /// Distance driven, forwards and backwards, metres.
    pub fn distance(&self) -> f64 {
        self.distance
    }
    /// Whether it hangs over an edge.
    pub fn has_fallen(&self) -> bool {
        self.fallen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An empty hall, with the car far from its walls.
    fn hall() -> (SimPlan, World) {
        let plan = SimPlan { room: [100.0, 100.0], discs: 0, cliffs: vec![], ..SimPlan::default() };
        let far = |at: f64| (10.0..90.0).contains(&at);
        let world = (0..).map(|seed| World::new(&plan, seed)).find(|w| far(w.start().x) && far(w.start().y));
        (plan, world.unwrap())
    }

    fn steps(car: &mut Car, n: usize, drive: f64, steering: f64, world: &World) {
        for _ in 0..n {
            car.step(drive, Some(steering), world);
        }
    }

    #[test]
    fn two_wheels_turn_the_car_by_their_difference() {
        let (plan, world) = hall();
        let mut car = Car::new(&plan, &world);
        let heading = car.pose().heading;
        for _ in 0..1000 {
            car.step_wheels([-0.2, 0.2], &world);
        }
        // The wheels' speeds differ by 0.4 times 0.5 m/s, for one second minus the lag of 0.08 s.
        let turned = 0.4 * 0.5 / f64::from(plan.track) * (1.0 - LAG_S);
        assert!(
            (car.pose().heading - heading - turned).abs() < 0.01,
            "it must turn to the left: {}",
            car.turn_rad_s()
        );
        assert!(car.distance() < 1e-6 && car.speed().abs() < 1e-6);
        for _ in 0..1000 {
            car.step_wheels([0.5, 0.5], &world);
        }
        assert!((car.speed() - 0.25).abs() < 1e-3 && car.turn_rad_s().abs() < 1e-3);
    }

    #[test]
    fn a_car_frees_itself_from_a_side_contact() {
        let plan = SimPlan { discs: 0, cliffs: vec![], ..SimPlan::default() };
        let world = World::new(&plan, 1);
        let mut car = Car::new(&plan, &world);
        (0..20_000).for_each(|_| car.step_wheels([0.5, 0.5], &world));
        assert_eq!((car.contacts().walls, car.speed()), (1, 0.0), "it stands at the wall");
        let before = car.distance();
        (0..1000).for_each(|_| car.step_wheels([-0.4, -0.6], &world));
        assert!(car.distance() > before + 0.1, "it must drive off backwards");
    }

    #[test]
    fn speed_follows_the_closed_form() {
        let (plan, world) = hall();
        let mut car = Car::new(&plan, &world);
        steps(&mut car, 80, 1.0, 0.0, &world);
        assert!((car.speed() - 0.5 * (1.0 - exp(-1.0))).abs() < 1e-9);
        steps(&mut car, 2000, -1.0, 0.0, &world);
        assert!((car.speed() + 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_turning_circle_follows_from_the_wheelbase() {
        let (plan, world) = hall();
        for degrees in [30.0_f64, -20.0, 10.0] {
            let mut car = Car::new(&plan, &world);
            steps(&mut car, 1000, 1.0, degrees, &world);
            let radius = f64::from(plan.wheelbase) / tan(degrees.to_radians()).abs();
            // The centre lies on the line of the rear axle, on the side to which the car steers.
            let side = |pose: Pose| pose.point(0.0, -radius.copysign(degrees));
            let centre = side(car.pose());
            let mut turned = car.pose().heading;
            steps(&mut car, 3000, 1.0, degrees, &world);
            turned = car.pose().heading - turned;
            let still_centre = side(car.pose());
            assert!((centre[0] - still_centre[0]).abs() < 1e-6, "{centre:?} {still_centre:?}");
            assert!((centre[1] - still_centre[1]).abs() < 1e-6);
            let expected = -(0.5 * 3.0 / radius).copysign(degrees);
            assert!((turned - expected).abs() < 1e-4 * expected.abs(), "{turned} {expected}");
        }
    }

    #[test]
    fn the_servo_has_a_speed_and_the_linkage_an_end_stop() {
        let (plan, world) = hall();
        let mut car = Car::new(&plan, &world);
        steps(&mut car, 50, 0.0, 30.0, &world);
        assert!((car.steering_deg() - 21.4).abs() < 1e-9);
        steps(&mut car, 1000, 0.0, -80.0, &world);
        assert!((car.steering_deg() + 40.0).abs() < 1e-9);
        car.step(0.0, None, &world);
        assert!((car.steering_deg() + 40.0).abs() < 1e-9, "a servo without pulses keeps its angle");
    }

    #[test]
    fn a_wall_is_hit_once_however_long_it_is_pushed() {
        let plan = SimPlan { discs: 0, cliffs: vec![], ..SimPlan::default() };
        let world = World::new(&plan, 1);
        let mut car = Car::new(&plan, &world);
        steps(&mut car, 20_000, 1.0, 0.0, &world);
        assert_eq!(car.contacts(), Contacts { walls: 1, head_on: 1, ..Contacts::default() });
        let there = car.distance();
        steps(&mut car, 1000, 1.0, 0.0, &world);
        assert!(car.distance() - there < 0.001, "it must not pass through the wall");
        steps(&mut car, 500, -1.0, 0.0, &world);
        steps(&mut car, 2000, 1.0, 0.0, &world);
        assert_eq!(car.contacts().walls, 2, "it left the wall and came back");
        steps(&mut car, 20_000, -1.0, 0.0, &world);
        let Contacts { walls, head_on, backwards, .. } = car.contacts();
        assert_eq!((walls, head_on, backwards), (3, 2, 1), "no sensor looks backwards");
    }

    #[test]
    fn a_wheel_over_the_edge_ends_the_drive() {
        // A gap along every wall, so that driving straight on always reaches one.
        let cliffs =
            vec![[0.0, 0.0, 4.0, 0.3], [0.0, 2.7, 4.0, 3.0], [0.0, 0.0, 0.3, 3.0], [3.7, 0.0, 4.0, 3.0]];
        let plan = SimPlan { discs: 0, cliffs, ..SimPlan::default() };
        let world = World::new(&plan, 1);
        let mut car = Car::new(&plan, &world);
        steps(&mut car, 20_000, 1.0, 0.0, &world);
        assert!(car.has_fallen());
        let pose = car.pose();
        steps(&mut car, 1000, -1.0, 0.0, &world);
        let fallen = Contacts { falls: 1, ..Contacts::default() };
        assert_eq!((car.pose(), car.contacts()), (pose, fallen), "it never stopped for the edge");
        // The same backwards: there is no ground sensor at the rear.
        let mut car = Car::new(&plan, &world);
        steps(&mut car, 20_000, -1.0, 0.0, &world);
        assert_eq!(car.contacts(), Contacts { falls: 1, backwards: 1, ..Contacts::default() });
    }

    #[test]
    fn edge_is_forgotten_if_the_car_drives_on_without_backing() {
        let cliffs =
            vec![[0.0, 0.0, 4.0, 0.3], [0.0, 2.7, 4.0, 3.0], [0.0, 0.0, 0.3, 3.0], [3.7, 0.0, 4.0, 3.0]];
        let plan = SimPlan { discs: 0, cliffs, ..SimPlan::default() };
        let world = World::new(&plan, 1);
        for (back_ms, forgotten) in [(0, 1), (150, 1), (500, 0)] {
            let mut car = Car::new(&plan, &world);
            while !car.spots.at(&car.pose).into_iter().any(|spot| world.is_cliff(spot)) {
                steps(&mut car, 1, 0.5, 0.0, &world);
            }
            steps(&mut car, 1000, 0.0, 0.0, &world);
            assert!(!car.has_fallen());
            steps(&mut car, back_ms, -1.0, 0.0, &world);
            assert_eq!(car.contacts(), Contacts::default());
            // Over the same edge without stopping again: the earlier stop counts unless the car has left the
            // edge.
            steps(&mut car, 20_000, 1.0, 0.0, &world);
            let after_stop = car.contacts().falls_after_stop;
            assert_eq!((car.contacts().falls, after_stop), (1, forgotten), "{back_ms} ms back");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn car_stays_finite_and_outside_of_things(
            seed in 0_u64..1000,
            requests in prop::collection::vec((-2.0_f64..2.0, -90.0_f64..90.0, 1_usize..400), 1..12),
        ) {
            let plan = SimPlan { cliffs: vec![], ..SimPlan::default() };
            let world = World::new(&plan, seed);
            let mut car = Car::new(&plan, &world);
            for (drive, steering, n) in requests {
                for _ in 0..n {
                    car.step(drive, Some(steering), &world);
                    let Pose { x, y, heading } = car.pose();
                    prop_assert!(x.is_finite() && y.is_finite() && heading.is_finite());
                    prop_assert!(car.speed().abs() <= f64::from(plan.full_speed) + 1e-9);
                    prop_assert_eq!(world.touched(car.outline(), &car.pose()), None);
                }
            }
        }
    }
}
