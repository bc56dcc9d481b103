//! Backing off, between the field's request and the arbiter. A robot that sees nothing behind itself goes
//! back the way it came and no other: while the field wants backwards, the steering is that of the recorded
//! way; where no way is left, backwards is forbidden like a reflex would. After it has backed off from an
//! edge or an obstacle it turns away, from the ground sensor that was dark or else to the side it took last,
//! so that it does not come back to the same place; after an edge it does not steer back for a while. What
//! the sonar has lost may be beside the robot: it is not steered at (`beside`). Commands that change nothing
//! in what the robot sees show that it is stuck, and it backs off (`stuck`).
//!
//! It only changes requests and tightens limits: reflexes and arbiter come after it and have the last word.
//! Pure; all its memory is there from the start. A board without `[backing]` has none of it.

mod beside;
mod path;
mod phase;
mod stuck;

pub use path::LONGEST_M;

use crate::base::command::{Executed, MAX_MOTORS};
use crate::base::frame::{Frame, Health};
use crate::base::plan::{BackingPlan, Board, Cause, Rule, Trip};
use crate::base::time::Instant;
use crate::decision::mode::Mode;
use crate::decision::motion::{MotionModel, Odometer, OdometryPose};
use crate::decision::reflex::{MAX_RULES, Verdict};
use crate::field::FieldOutput;
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};
use beside::{Beside, Body};
use path::Path;
use phase::{Phase, Scene};
use std::cmp::Ordering;
use stuck::Stuck;

/// A request for less is none: the noise of a read-out does not ask to back off. The arbiter takes half of
/// it for a stop.
const LEAST_BACK: f32 = 0.02;
/// Steering beyond this takes a side: a fifth of full lock is more than the noise of a read-out.
const TURNS: f32 = 0.2;
/// From an edge it turns by a right angle at least. By less it would go on towards it, at a slant, and a
/// wheel would come over the edge's next corner beside the sensors.
const ALONG_RAD: f32 = std::f32::consts::FRAC_PI_2;
/// After a turn from an edge it does not steer back towards it for this much way forwards, metres: two
/// lengths of the car and more. In a bend the front wheel cuts inside the track of its ground sensor, and
/// clipped the corner of the edge that no sensor had seen.
const NOT_BACK_M: f64 = 0.4;
/// After each turn that ended before the same edge or obstacle, it backs off further by this before the next,
/// to the other side: otherwise the way back would undo the turn, and the next would end there again.
const FURTHER_M: f64 = 0.1;
/// At most this many times, because the way is less true the farther back it goes: with twice as many, cars
/// backed into discs four times as often. From an edge it keeps its side for as long.
const FURTHER_MOST: u32 = 2;
/// It looks this far ahead for what it must not sweep over, metres: two lengths of the car, which its front
/// goes in a second and a half.
const AHEAD_M: f64 = 0.3;
/// In a turn that has begun, this far: twice what it takes to stop.
const TURNING_M: f64 = 0.08;
/// Steering to try where the requested one would sweep over something, as shares of full lock to the
/// requested side: the nearest first.
const INSTEAD: [f32; 8] = [0.5, 0.25, 0.0, -0.25, -0.5, -0.75, -1.0, 1.0];
/// It slows down while the wheels are not as they were when it came, and waits when they differ by this share
/// of full lock: at a cusp of its way they swing, which takes more time than way.
const WAITS: f32 = 0.2;
/// Beside its way it heads towards it so as to be there after this much way, metres, and takes that heading
/// within the second: a length of the car, and half of one.
const TOWARDS_M: f64 = 0.2;
const WITHIN_M: f64 = 0.1;
/// But by no more than this: with more it would leave what it has swept. And by no less than the second, the
/// reckoning's rounding.
const AT_MOST_RAD: f64 = 0.3;
const EVEN_RAD: f64 = 1e-6;
/// It backs at most this far for room to turn in, metres, for the same reason.
const ROOM_M: f64 = 0.1;
/// A way shorter than this is none: the robot would creep.
const NO_WAY_M: f64 = 0.01;

/// Counts, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BackingCounters {
    /// Times that it began to back off.
    pub times: u64,
    /// How far it went backwards, by its commands, metres.
    pub metres: f64,
    /// Turns away.
    pub turns: u64,
    /// Times that it found itself stuck: it drove forwards and the picture before it stayed the same.
    pub stuck: u64,
    /// Slots with a request to go backwards and no way left.
    pub without_way: u64,
}

/// The stage; on a board without `[backing]`, the default, it changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Backtrack {
    backing: Option<Backing>,
}

impl Backtrack {
    /// The stage of `board`, with no way behind it.
    pub fn new(board: &Board) -> Backtrack {
        Backtrack { backing: Backing::of(board) }
    }

    /// Its counts, if the board has `[backing]`.
    pub fn counters(&self) -> Option<BackingCounters> {
        self.backing.as_ref().map(|backing| backing.counters)
    }

    /// Goes the way that the last command went, and takes backwards out of `verdict` where no way is left.
    pub fn restrain(&mut self, executed: &Executed, verdict: &mut Verdict) {
        let Some(backing) = &mut self.backing else { return };
        backing.record(executed);
        backing.limit(verdict);
    }

    /// The field's answer as the arbiter gets it. `shown` is the frame as the field sees it. A call of its
    /// own: it needs the mode, and the mode depends on the verdict that [`Backtrack::restrain`] makes.
    pub fn guide(
        &mut self,
        field: Option<(&FieldOutput, Instant)>,
        mode: Mode,
        verdict: &Verdict,
        shown: &Frame,
        slot: Instant,
    ) -> Option<(FieldOutput, Instant)> {
        let (mut response, taken) = field.map(|(response, taken)| (*response, taken))?;
        if let Some(backing) = &mut self.backing {
            backing.heed(mode);
            backing.guide(&mut response.motors, verdict, shown, slot);
        }
        Some((response, taken))
    }
}

/// A ground sensor that looks to one side.
#[derive(Clone, Copy, Debug)]
struct Eye {
    channel: usize,
    trip: Trip,
    /// Metres to the left of the middle.
    left: f32,
}

#[derive(Clone, Debug)]
struct Backing {
    plan: BackingPlan,
    odometer: Odometer,
    /// The motor that steers, and its command for the right.
    steering: usize,
    right: f32,
    /// The steering command that went out last.
    wheels: f32,
    eyes: heapless::Vec<Eye, MAX_RULES>,
    /// The channel that sees obstacles ahead, and from where on no rule of it holds any more, metres.
    sonar: Option<(usize, f32)>,
    beside: Beside,
    stuck: Stuck,
    path: Path,
    phase: Phase,
    /// Steering command of the next turn.
    side: f32,
    /// It turns from an edge.
    from_edge: bool,
    /// How far it does not steer back after a turn from an edge, metres, and the side to which it turned.
    kept: (f64, f32),
    /// It had no room to turn and turns all the same: there was no way left to look for more.
    tight: bool,
    /// Turns in a row that ended before something.
    failed: u32,
    /// How far it has gone backwards since it last went forwards, metres.
    backed: f64,
    /// Since when the robot has been armed; `None`: it is not.
    armed: Option<Instant>,
    counters: BackingCounters,
}

impl Backing {
    fn of(board: &Board) -> Option<Backing> {
        let plan = board.backing?;
        let motion = MotionModel::of(board)?;
        let (steering, [low, high]) = motion.steering?;
        let right = if high >= low { 1.0 } else { -1.0 };
        let edges = board.reflexes.iter().filter(|rule| rule.cause == Cause::Cliff);
        let eyes = edges.filter_map(|rule| {
            let [_, left] = board.sensors[rule.channel].looks_at?;
            Some(Eye { channel: rule.channel, trip: rule.trip, left })
        });
        let [length, width] = board.motion?.body.unwrap_or_default().map(f64::from);
        let body = Body { front: (motion.wheelbase + length) / 2.0, half: width / 2.0 };
        let nearest = |rule: &&Rule| match rule.trip {
            Trip::Below(limit) if rule.cause == Cause::Obstacle => Some(limit),
            _ => None,
        };
        let sonar = board.reflexes.iter().filter(|rule| nearest(rule).is_some());
        let sonar = sonar.max_by(|a, b| nearest(a).partial_cmp(&nearest(b)).unwrap_or(Ordering::Equal));
        Some(Backing {
            sonar: sonar.map(|rule| (rule.channel, rule.clear)),
            beside: Beside::new(plan.pass_m.into(), body),
            stuck: Stuck::default(),
            plan,
            odometer: Odometer::new(motion),
            steering,
            right,
            wheels: 0.0,
            eyes: eyes.collect(),
            path: Path::new(plan.trail_m.into()),
            phase: Phase::Following,
            side: right,
            from_edge: false,
            kept: (0.0, right),
            tight: false,
            failed: 0,
            backed: 0.0,
            armed: None,
            counters: BackingCounters::default(),
        })
    }

    fn record(&mut self, executed: &Executed) {
        let mut motors = executed.command.motors;
        if !executed.is_confirmed() {
            self.each_drive(&mut motors, |_| 0.0);
        }
        let way = self.odometer.advance(executed.until, &motors);
        self.wheels = motors[self.steering];
        self.beside.went(way);
        self.stuck.went(way);
        self.kept.0 -= way;
        if way >= 0.0 {
            self.path.forwards(way, motors[self.steering], self.odometer.standing());
            self.backed = if way > 0.0 { 0.0 } else { self.backed };
        } else {
            self.path.backwards(-way);
            self.backed -= way;
            self.counters.metres -= way;
        }
    }

    /// A robot that is not armed may be carried elsewhere: its way begins when it is armed, with what the
    /// person who arms it vouches for.
    fn heed(&mut self, mode: Mode) {
        let armed = mode.obeys_since();
        if armed.is_none() || armed != self.armed {
            self.armed = armed;
            self.path.begin(self.plan.start_m.into(), self.odometer.standing());
            self.phase = Phase::Following;
            (self.failed, self.from_edge) = (0, false);
            self.kept.0 = 0.0;
            self.beside.forget();
            self.stuck = Stuck::default();
        }
    }

    /// The curvature with which it came to where it is, and where it was then.
    fn came_from(&self) -> (f64, Option<OdometryPose>) {
        let curvature = self.odometer.motion().curvature(self.path.steering());
        (curvature, self.path.standing(curvature))
    }

    /// Steering for the way back. Where it is beside its way by its own reckoning, it steers towards it:
    /// first the heading to the place, then the curvature to the heading.
    fn way_back(&self) -> f32 {
        let (curvature, came_from) = self.came_from();
        let Some(came_from) = came_from else { return self.path.steering() };
        let here = self.odometer.standing();
        let to_left = here.sees(came_from.at)[1];
        let heading = came_from.heading - (to_left / TOWARDS_M).clamp(-AT_MOST_RAD, AT_MOST_RAD);
        let off = (heading - here.heading).clamp(-AT_MOST_RAD, AT_MOST_RAD);
        if off.abs() < EVEN_RAD {
            return self.path.steering();
        }
        self.odometer.motion().steering(curvature - off / WITHIN_M)
    }

    /// Whether the way back is longer than what it takes to stop.
    fn has_way(&self) -> bool {
        let coast = -self.odometer.speed().min(0.0) * self.odometer.motion().lag_s;
        self.path.length() > NO_WAY_M + coast
    }

    fn limit(&self, verdict: &mut Verdict) {
        if !self.has_way() {
            verdict.limits.backward = 0.0;
        }
    }

    fn guide(&mut self, motors: &mut [f32; MAX_MOTORS], verdict: &Verdict, shown: &Frame, slot: Instant) {
        let wanted = self.odometer.motion().drive(motors);
        if !wanted.is_finite() {
            return; // the arbiter refuses it
        }
        self.look_ahead(shown);
        let not_gone = self.stuck.not_gone();
        if let Some(way) = not_gone {
            self.stuck = Stuck::default();
            self.path.backwards(way);
            self.odometer.put(self.came_from().1.unwrap_or(self.odometer.standing()));
            self.beside.touched(self.odometer.standing());
        }
        let edge = verdict.active & Cause::Cliff.bit() != 0;
        self.from_edge |= edge;
        let can_turn = match self.phase {
            Phase::Turning { .. } => self.tight || self.is_clear(self.side, TURNING_M),
            Phase::Backing { due: true } => self.find_side(),
            _ => true,
        };
        let asked = FURTHER_M * f64::from(self.failed.min(FURTHER_MOST));
        let scene = Scene {
            wants_back: wanted < -LEAST_BACK,
            has_way: self.has_way(),
            forward: verdict.limits.forward > 0.0,
            can_turn,
            near: verdict.active & Cause::Obstacle.bit() != 0 && self.sees_near(shown),
            edge,
            stuck: not_gone.is_some(),
            enough: self.backed >= asked && (can_turn || self.backed >= asked + ROOM_M) || !self.has_way(),
            turn_rad: if self.from_edge { self.plan.turn_rad.max(ALONG_RAD) } else { self.plan.turn_rad },
            heading: self.odometer.standing().heading,
            slot,
        };
        let before = self.phase;
        self.phase = before.next(&scene, &self.plan);
        self.count(before, &scene);
        self.learn_from(before, &scene);
        self.look(shown);
        match self.phase {
            Phase::Following => {
                self.keep_clear(motors);
                self.keep_off(motors);
            }
            Phase::Passing => {
                self.keep_clear(motors);
                self.keep_off(motors);
                self.keep_side(motors[self.steering]);
            }
            Phase::Backing { due }
                if scene.wants_back || due && scene.has_way && !(scene.forward && scene.enough) =>
            {
                motors[self.steering] = self.way_back();
                let floor = if due { self.plan.floor } else { 0.0 };
                let share = (1.0 - (motors[self.steering] - self.wheels).abs() / WAITS).max(0.0);
                self.each_drive(motors, |drive| share * drive.min(-floor));
            }
            Phase::Backing { .. } => {}
            Phase::Turning { .. } => {
                motors[self.steering] = self.side;
                let floor = self.plan.floor;
                self.each_drive(motors, |drive| drive.max(floor));
            }
        }
    }

    /// A turn that ended before something: the next one goes to the other side, unless the edge is there.
    fn learn_from(&mut self, before: Phase, scene: &Scene) {
        match (before, self.phase) {
            (Phase::Backing { .. }, Phase::Turning { .. }) => self.tight = !scene.can_turn,
            (Phase::Turning { .. }, Phase::Backing { .. }) => {
                self.failed = self.failed.saturating_add(1);
                if !self.from_edge || self.failed > FURTHER_MOST {
                    self.side = -self.side;
                }
            }
            (Phase::Turning { .. }, Phase::Following) => {
                if self.from_edge {
                    self.kept = (NOT_BACK_M, self.side);
                }
                (self.failed, self.from_edge) = (0, false);
            }
            _ if scene.stuck => self.failed = self.failed.max(1), // it backs at least once as far
            _ => {}
        }
    }

    fn count(&mut self, before: Phase, scene: &Scene) {
        let is_backing = |phase| matches!(phase, Phase::Backing { .. });
        let is_turning = |phase| matches!(phase, Phase::Turning { .. });
        self.counters.times += u64::from(is_backing(self.phase) && !is_backing(before));
        self.counters.turns += u64::from(is_turning(self.phase) && !is_turning(before));
        self.counters.stuck += u64::from(scene.stuck);
        self.counters.without_way += u64::from(scene.wants_back && !scene.has_way);
    }

    /// Takes in the newest echo.
    fn look_ahead(&mut self, shown: &Frame) {
        let sample = self.sonar.map(|(channel, _)| shown.samples[channel]);
        let range =
            sample.filter(|sample| sample.health == Health::Good).map(|sample| f64::from(sample.value));
        self.stuck.look(range);
        if let Some(range) = range {
            self.beside.look(range, self.odometer.standing());
        }
    }

    /// Whether the last echo is that of something near. The worst case of a sonar that says nothing comes
    /// nearer with every slot: a reflex heeds it, but there is nothing to pass or to turn away from.
    fn sees_near(&self, shown: &Frame) -> bool {
        self.sonar.is_none_or(|(channel, clear)| shown.samples[channel].value <= clear)
    }

    /// Steers straight on where the request is to steer back towards the edge that it has turned from.
    fn keep_off(&self, motors: &mut [f32; MAX_MOTORS]) {
        let (way, side) = self.kept;
        if way > 0.0 && motors[self.steering] * side < 0.0 {
            motors[self.steering] = 0.0;
        }
    }

    /// Steers clear of the remembered obstacles beside the robot, as near to the request as it can.
    fn keep_clear(&self, motors: &mut [f32; MAX_MOTORS]) {
        let wanted = motors[self.steering];
        let side = if wanted < 0.0 { -1.0 } else { 1.0 };
        let instead = INSTEAD.iter().map(|share| side * share);
        let clear = std::iter::once(wanted).chain(instead).find(|steering| self.is_clear(*steering, AHEAD_M));
        motors[self.steering] = clear.unwrap_or(wanted);
    }

    /// Whether nothing that is remembered is in the way for the next `way` metres with this steering.
    fn is_clear(&self, steering: f32, way: f64) -> bool {
        let curvature = self.odometer.motion().curvature(steering);
        self.beside.is_clear(self.odometer.standing(), curvature, way)
    }

    /// Whether it can turn to one side at least: to the one that it wants, or else to the other.
    fn find_side(&mut self) -> bool {
        if !self.is_clear(self.side, AHEAD_M) && self.is_clear(-self.side, AHEAD_M) {
            self.side = -self.side;
        }
        self.is_clear(self.side, AHEAD_M)
    }

    /// Keeps the side to which the field steers, if it steers clearly.
    fn keep_side(&mut self, steering: f32) {
        if steering.abs() > TURNS {
            self.side = steering.signum();
        }
    }

    fn each_drive(&self, motors: &mut [f32; MAX_MOTORS], to: impl Fn(f32) -> f32) {
        for &motor in &self.odometer.motion().drives {
            motors[motor] = to(motors[motor]);
        }
    }

    /// Keeps the side away from the edge, if it is seen on one side only.
    fn look(&mut self, shown: &Frame) {
        let is_dark = |eye: &&Eye| eye.trip.trips(shown.samples[eye.channel].value);
        let sides = self.eyes.iter().filter(is_dark);
        let (left, right) = sides
            .fold((false, false), |(left, right), eye| (left || eye.left > 0.0, right || eye.left < 0.0));
        if left != right {
            self.side = if left { self.right } else { -self.right };
        }
    }
}

impl Remembers for Backtrack {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        archive.part("trail");
        let Backtrack { backing } = self;
        backing.as_mut().map_or(Ok(()), |backing| backing.walk(archive))
    }
}

impl Remembers for Backing {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        let Backing {
            plan: _,
            odometer,
            steering: _,
            right: _,
            wheels,
            eyes: _,
            sonar: _,
            beside,
            stuck,
            path,
            phase,
            side,
            from_edge,
            kept,
            tight,
            failed,
            backed,
            armed,
            counters: _,
        } = self;
        odometer.walk(archive)?;
        beside.walk(archive)?;
        path.walk(archive)?;
        remember!(archive: wheels, stuck, phase, side, from_edge, kept, tight, failed, backed, armed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
