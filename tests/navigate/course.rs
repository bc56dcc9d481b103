//! A world of discs in a walled room, and a robot in it: a rectangle that moves by kinematics, a ring of
//! sonars, dead reckoning that may drift. It is small enough to be obviously right, and knows nothing of the
//! simulator.

use ganglion::base::seed::{Stream, normal};
use ganglion::base::time::Span;
use ganglion::decision::motion::OdometryPose;
use ganglion::field::navigate::{Beam, Body, Driver, Surroundings, Wish};
use std::f64::consts::TAU;

/// Time of a cycle, seconds.
pub const CYCLE: f64 = 0.02;
/// The sonars measure in every third cycle.
const SONAR_CYCLES: u64 = 3;
/// Sonars of the ring.
const SONARS: usize = 24;
/// What a sonar sees at most, metres.
const SONAR_RANGE: f64 = 4.0;
/// Half of a sonar's opening angle, degrees.
const SONAR_CONE: f64 = 6.0;
/// Time constant of the speed, seconds.
const LAG: f64 = 0.1;

/// A disc: centre and radius, metres.
pub type Disc = ([f64; 2], f64);

/// The body of a small car with an Ackermann steering.
pub const CAR: Body =
    Body { half_width: 0.065, front: 0.1686, rear: 0.0814, turning_radius: 0.1732, full_speed: 0.5 };
/// A body of the same size that turns on the spot.
pub const DIFFERENTIAL: Body = Body { front: 0.125, rear: 0.125, turning_radius: 0.0, ..CAR };

/// A room from (0, 0) to `room`, with discs.
#[derive(Clone)]
pub struct World {
    pub room: [f64; 2],
    pub discs: Vec<Disc>,
    pub start: OdometryPose,
}

impl World {
    /// Discs of 4 cm along a line, close enough to each other that nothing fits between them.
    pub fn wall(&mut self, from: [f64; 2], to: [f64; 2]) {
        let parts = (libm::hypot(to[0] - from[0], to[1] - from[1]) / 0.06).ceil().max(1.0) as usize;
        for part in 0..=parts {
            let share = part as f64 / parts as f64;
            let at = [0, 1].map(|axis| from[axis] + share * (to[axis] - from[axis]));
            self.discs.push((at, 0.04));
        }
    }

    fn ray(&self, from: [f64; 2], angle: f64) -> f64 {
        let direction = [angle.cos(), angle.sin()];
        let mut nearest = f64::INFINITY;
        for axis in 0..2 {
            let wall = if direction[axis] > 0.0 { self.room[axis] } else { 0.0 };
            nearest = nearest.min((wall - from[axis]) / direction[axis]);
        }
        for (centre, radius) in &self.discs {
            let to = [centre[0] - from[0], centre[1] - from[1]];
            let along = to[0] * direction[0] + to[1] * direction[1];
            let square = radius * radius - (to[0] * to[0] + to[1] * to[1] - along * along);
            if square >= 0.0 && along > 0.0 {
                nearest = nearest.min((along - square.sqrt()).max(0.0));
            }
        }
        nearest
    }

    fn touches(&self, body: &Body, pose: OdometryPose) -> bool {
        let [front, rear, side] = [body.front, body.rear, body.half_width].map(f64::from);
        let is_outside = |at: [f64; 2]| (0..2).any(|axis| at[axis] < 0.0 || at[axis] > self.room[axis]);
        let corners = [(front, side), (front, -side), (-rear, side), (-rear, -side)];
        corners.iter().any(|(ahead, left)| is_outside(pose.place(*ahead, *left)))
            || self.discs.iter().any(|(centre, radius)| {
                let [ahead, left] = pose.sees(*centre);
                let nearest = [ahead.clamp(-rear, front), left.clamp(-side, side)];
                libm::hypot(ahead - nearest[0], left - nearest[1]) < *radius
            })
    }
}

/// What senses and motion do wrong.
#[derive(Clone, Copy, Default)]
pub struct Weather {
    pub seed: u64,
    /// Standard deviation of a range, as a share of it.
    pub noise: f64,
    /// Share by which dead reckoning overestimates the way, and a tenth of it the turns.
    pub drift: f64,
    /// No readings from here to there, seconds.
    pub blind: [f64; 2],
}

/// How a drive went.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// When the robot came within 0.4 m of the goal, seconds.
    pub reached: Option<f64>,
    /// Cycles in which the body touched something; the robot then does not move.
    pub contacts: u64,
    /// How often it changed between forwards and backwards.
    pub reversals: u64,
    /// Where it was in each cycle.
    pub path: Vec<[f64; 2]>,
}

/// A robot on its way.
pub struct Robot<'w> {
    world: &'w World,
    body: Body,
    weather: Weather,
    pub pose: OdometryPose,
    odometry: OdometryPose,
    wheels: [f64; 2],
    cycle: u64,
    last_sign: f64,
}

impl<'w> Robot<'w> {
    pub fn new(world: &'w World, body: Body, weather: Weather) -> Robot<'w> {
        let pose = world.start;
        Robot { world, body, weather, pose, odometry: pose, wheels: [0.0; 2], cycle: 0, last_sign: 0.0 }
    }

    /// Drives with `driver` until the goal is reached or `seconds` have passed.
    pub fn drive(&mut self, driver: &mut dyn Driver, goal: [f64; 2], seconds: f64, run: &mut Run) {
        for _ in 0..(seconds / CYCLE) as u64 {
            let beams = self.sense();
            let elapsed = Span::from_secs_f64(CYCLE);
            let around = Surroundings { pose: self.odometry, elapsed, beams: &beams };
            let wish = driver.drive(&around, Some(goal));
            self.advance(wish, run);
            let [x, y] = self.pose.at;
            run.path.push([x, y]);
            if libm::hypot(x - goal[0], y - goal[1]) < 0.4 {
                run.reached = Some(self.cycle as f64 * CYCLE);
                return;
            }
        }
    }

    fn sense(&self) -> Vec<Beam> {
        let seconds = self.cycle as f64 * CYCLE;
        let is_blind = (self.weather.blind[0]..self.weather.blind[1]).contains(&seconds);
        let is_fresh = self.cycle.is_multiple_of(SONAR_CYCLES) && !is_blind;
        let middle = self.body.middle();
        let from = self.pose.place(f64::from(middle), 0.0);
        let range = |sonar: usize| {
            let bearing = self.pose.heading + TAU * sonar as f64 / SONARS as f64;
            let cone = [-1.0, -0.5, 0.0, 0.5, 1.0].map(|part| (part * SONAR_CONE).to_radians());
            let nearest =
                cone.iter().map(|off| self.world.ray(from, bearing + off)).fold(f64::INFINITY, f64::min);
            let draw = self.cycle * SONARS as u64 + sonar as u64;
            let noise = self.weather.noise * normal(self.weather.seed, Stream::SensorNoise, draw);
            (nearest * (1.0 + noise)).clamp(0.02, SONAR_RANGE) as f32
        };
        let beam = |sonar: usize| Beam {
            bearing: (TAU * sonar as f64 / SONARS as f64 + TAU / 2.0).rem_euclid(TAU) as f32
                - std::f32::consts::PI,
            offset: [middle, 0.0],
            half_cone: SONAR_CONE.to_radians() as f32,
            range: is_fresh.then(|| range(sonar)),
            max_range: SONAR_RANGE as f32,
        };
        (0..SONARS).map(beam).collect()
    }

    fn advance(&mut self, wish: Wish, run: &mut Run) {
        self.cycle += 1;
        let half_track = self.body.half_width;
        let limited = match self.body.turning_radius {
            0.0 => wish,
            radius => Wish { curvature: wish.curvature.clamp(-1.0 / radius, 1.0 / radius), ..wish },
        };
        let share = 1.0 - (-CYCLE / LAG).exp();
        for (speed, wheel) in self.wheels.iter_mut().zip(limited.wheels(half_track)) {
            *speed += share * (f64::from(wheel * self.body.full_speed) - *speed);
        }
        let [left, right] = self.wheels;
        let (way, turn) =
            ((left + right) / 2.0 * CYCLE, (right - left) / f64::from(2.0 * half_track) * CYCLE);
        let ahead = |pose: OdometryPose, way: f64, turn: f64| {
            let middle = OdometryPose { heading: pose.heading + turn / 2.0, ..pose };
            OdometryPose { at: middle.place(way, 0.0), heading: pose.heading + turn }
        };
        let next = ahead(self.pose, way, turn);
        if self.world.touches(&self.body, next) {
            run.contacts += 1;
            self.wheels = [0.0; 2];
            return;
        }
        self.pose = next;
        let drift = self.weather.drift;
        self.odometry = ahead(self.odometry, way * (1.0 + drift), turn * (1.0 + 0.1 * drift));
        if way.abs() > 0.02 * CYCLE {
            run.reversals += u64::from(way.signum() * self.last_sign < 0.0);
            self.last_sign = way.signum();
        }
    }
}
