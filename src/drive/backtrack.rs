//! Backs off along the recorded path. Runs between the field's request and the arbiter. A robot that sees
//! nothing behind itself only goes back the way it came: while the field wants to reverse, the steering is
//! that of the recorded path; where no path is left, reversing is forbidden, as by a reflex. After it has
//! backed off from an edge or an obstacle, it turns away from the side on which a ground sensor saw the edge
//! or a ranger that looks to that side the obstacle, or else to the side that it took last, so that it does
//! not come back to the same place. If it does come back, as in a corner, it backs off further each time
//! (`same_place`). After an edge it does not steer back for a while. An obstacle that the sonar has lost and
//! an edge that a ground sensor has seen may be beside the robot, so it does not steer or turn towards them
//! (`beside`). If the sonar's echo does not change although the commands are forwards, the robot is stuck and
//! backs off (`stuck`).
//!
//! This stage only changes requests and tightens limits, and the arbiter still applies every limit after it.
//! Pure; all its memory is allocated at the start. A board without `[backing]` has none of this.

mod beside;
mod eyes;
mod path;
mod phase;
mod same_place;
mod stuck;

pub use path::LONGEST_M;

use crate::base::command::{Executed, MAX_MOTORS};
use crate::base::frame::{Frame, Health};
use crate::base::plan::{BackingPlan, Board, Cause};
use crate::base::time::Instant;
use crate::decision::mode::Mode;
use crate::decision::motion::{MotionModel, Odometer, OdometryPose};
use crate::decision::reflex::{MAX_RULES, Verdict};
use crate::field::FieldOutput;
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};
use beside::{Beside, Body};
use eyes::{EdgeSensor, SideRanger, Sonar};
use path::Path;
use phase::{Phase, Scene};
use same_place::SamePlace;
use stuck::Stuck;

/// Smaller reverse requests are read-out noise. The arbiter treats requests below half of this as a stop.
const LEAST_BACK: f32 = 0.02;
/// Steering beyond this chooses a side: a fifth of full lock is more than read-out noise.
const TURNS: f32 = 0.2;
/// The robot turns away from an edge by at least a right angle. After a smaller turn it would still approach
/// the edge at a slant, and a wheel would pass over the edge's next corner outside the sensors' track.
const ALONG_RAD: f32 = std::f32::consts::FRAC_PI_2;
/// After a turn from an edge the robot does not steer back towards it for this distance forwards, metres:
/// more than one and a half lengths of the car. In a bend the front wheel cuts inside the track of its ground
/// sensor; without this limit the wheel went over a corner of the edge that no sensor had seen.
const NOT_BACK_M: f64 = 0.4;
/// After each turn that ended at the same edge or obstacle, the robot backs off this much further, metres,
/// before its next turn: otherwise the way back would undo the turn, and the next turn would end there again.
const FURTHER_M: f64 = 0.1;
/// The distance grows at most this many times, because the path is less accurate the farther back it goes:
/// with twice as many, cars backed into discs four times as often. At an edge the robot keeps turning to the
/// same side until more than this many turns have failed.
const FURTHER_MOST: u32 = 2;
/// The robot checks this distance ahead for places that it must not sweep over, metres: a little more than
/// the length of the car, which its front covers in a second and a half.
const AHEAD_M: f64 = 0.3;
/// In a turn that has begun, the robot checks this distance, metres: twice the stopping distance.
const TURNING_M: f64 = 0.08;
/// Steering to try, in this order, where the requested steering would sweep over something, as shares of full
/// lock to the requested side.
const INSTEAD: [f32; 8] = [0.5, 0.25, 0.0, -0.25, -0.5, -0.75, -1.0, 1.0];
/// The robot slows down while its wheels are not yet steered as they were on the recorded path, and waits
/// when they differ by this share of full lock: at a cusp of the path the wheels have to swing over, which
/// takes longer than the path allows.
const WAITS: f32 = 0.2;
/// When the robot is beside its path, it takes a heading that reaches the path after the first of these
/// distances, and turns to that heading within the second, metres: four fifths of the length of the car, and
/// two fifths.
const TOWARDS_M: f64 = 0.2;
const WITHIN_M: f64 = 0.1;
/// The largest and the smallest correction of the robot's heading: with more it would leave the area that it
/// has swept; anything less is a rounding error of dead reckoning.
const AT_MOST_RAD: f64 = 0.3;
const EVEN_RAD: f64 = 1e-6;
/// The robot backs up at most this much further to get room for a turn, metres, to stay within the area that
/// it has swept.
const ROOM_M: f64 = 0.1;
/// If a board does not state how far its range sensor sees, readings below this share of its upper limit
/// count as seen: it returns about that limit if nothing is within its range.
const WITHIN_RANGE: f32 = 0.9;
/// A path shorter than this counts as no path, metres: on it, the robot would only creep.
const NO_WAY_M: f64 = 0.01;

/// Counts, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BackingCounters {
    /// How often the robot went backwards after it had gone forwards.
    pub times: u64,
    /// How far the robot went backwards, computed from its commands, metres.
    pub metres: f64,
    /// Turns away from an edge or obstacle.
    pub turns: u64,
    /// How often the robot was stuck: its commands were forwards, but the sonar's echo did not change.
    pub stuck: u64,
    /// Slots with a request to reverse and no path left.
    pub without_way: u64,
}

/// The backtracking stage. On a board without `[backing]` it is the default, which changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Backtrack {
    backing: Option<Backing>,
}

impl Backtrack {
    /// The stage of `board`, with no recorded path.
    pub fn new(board: &Board) -> Backtrack {
        Backtrack { backing: Backing::of(board) }
    }

    /// The counts, if the board has `[backing]`.
    pub fn counters(&self) -> Option<BackingCounters> {
        self.backing.as_ref().map(|backing| backing.counters)
    }

    /// Records the motion of the last command, and forbids reversing in `verdict` where no path is left.
    pub fn restrain(&mut self, executed: &Executed, verdict: &mut Verdict) {
        let Some(backing) = &mut self.backing else { return };
        backing.record(executed);
        backing.limit(verdict);
    }

    /// The field's answer as the arbiter gets it. `shown` is the frame as the field sees it. This is a
    /// separate call because it needs the mode, which depends on the verdict of [`Backtrack::restrain`].
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
            backing.observe(mode);
            backing.guide(&mut response.motors, verdict, shown, slot);
        }
        Some((response, taken))
    }
}

#[derive(Clone, Debug)]
struct Backing {
    plan: BackingPlan,
    odometer: Odometer,
    /// The motor that steers.
    steering: usize,
    right: f32,
    /// The steering command that went out last.
    wheels: f32,
    /// The sensors that see edges.
    edge_sensors: heapless::Vec<EdgeSensor, MAX_RULES>,
    /// The rangers that see obstacles beside the robot.
    side_rangers: heapless::Vec<SideRanger, MAX_RULES>,
    sonar: Option<Sonar>,
    beside: Beside,
    stuck: Stuck,
    path: Path,
    phase: Phase,
    /// Steering command of the next turn.
    side: f32,
    /// Whether the robot is turning away from an edge.
    from_edge: bool,
    /// Distance left, in metres, before the robot may steer back after turning away from an edge, and the
    /// side to which it turned.
    kept: (f64, f32),
    /// Whether the robot turns with too little room, because it has already backed up by [`ROOM_M`] or no
    /// path is left.
    tight: bool,
    /// Turns in a row that ended at an edge or obstacle.
    failed: u32,
    /// The retreats that began where the last one did.
    same_place: SamePlace,
    /// How far the robot has gone backwards since it last went forwards, metres.
    backed: f64,
    /// Since when the robot has been armed; `None`: it is not armed.
    armed: Option<Instant>,
    counters: BackingCounters,
}

impl Backing {
    fn of(board: &Board) -> Option<Backing> {
        let plan = board.backing?;
        let motion = MotionModel::of(board)?;
        let (steering, [low, high]) = motion.steering?;
        let right = if high >= low { 1.0 } else { -1.0 };
        let [length, width] = board.motion?.body.unwrap_or_default().map(f64::from);
        let body = Body { front: (motion.wheelbase + length) / 2.0, half: width / 2.0 };
        Some(Backing {
            sonar: Sonar::of(board),
            beside: Beside::new(plan.pass_m.into(), body),
            stuck: Stuck::default(),
            plan,
            odometer: Odometer::new(motion),
            steering,
            right,
            wheels: 0.0,
            edge_sensors: board.reflexes.iter().filter_map(|rule| EdgeSensor::of(board, rule)).collect(),
            side_rangers: board.reflexes.iter().filter_map(|rule| SideRanger::of(board, rule)).collect(),
            path: Path::new(plan.trail_m.into()),
            phase: Phase::Following,
            side: right,
            from_edge: false,
            kept: (0.0, right),
            tight: false,
            failed: 0,
            same_place: SamePlace::default(),
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
        let way = self.odometer.advance(executed.until, &motors, None);
        self.wheels = motors[self.steering];
        self.beside.went(way);
        self.stuck.went(way);
        self.kept.0 -= way;
        if way >= 0.0 {
            self.path.forwards(way, motors[self.steering], self.odometer.pose());
            self.backed = if way > 0.0 { 0.0 } else { self.backed };
        } else {
            self.path.backwards(-way);
            self.counters.times += u64::from(self.backed == 0.0);
            self.backed -= way;
            self.counters.metres -= way;
        }
    }

    /// Begins the path anew when the robot is armed, because it may have been carried while it was not. The
    /// new path starts with the free stretch behind the robot that the board file states (`start_m`).
    fn observe(&mut self, mode: Mode) {
        let armed = mode.obeys_since();
        if armed.is_none() || armed != self.armed {
            self.armed = armed;
            self.path.begin(self.plan.start_m.into(), self.odometer.pose());
            self.phase = Phase::Following;
            (self.failed, self.from_edge) = (0, false);
            self.same_place = SamePlace::default();
            self.kept.0 = 0.0;
            self.beside.forget();
            self.stuck = Stuck::default();
        }
    }

    /// The curvature with which the robot reached its present place, and the pose that it had there.
    fn came_from(&self) -> (f64, Option<OdometryPose>) {
        let curvature = self.odometer.motion().curvature(self.path.steering());
        (curvature, self.path.pose(curvature))
    }

    /// Steering for the way back. If dead reckoning puts the robot beside its path, this steers it towards
    /// the path: first it chooses the heading that leads to the path, then the curvature that leads to that
    /// heading.
    fn way_back(&self) -> f32 {
        let (curvature, came_from) = self.came_from();
        let Some(came_from) = came_from else { return self.path.steering() };
        let here = self.odometer.pose();
        let to_left = here.sees(came_from.at)[1];
        let heading = came_from.heading - (to_left / TOWARDS_M).clamp(-AT_MOST_RAD, AT_MOST_RAD);
        let off = (heading - here.heading).clamp(-AT_MOST_RAD, AT_MOST_RAD);
        if off.abs() < EVEN_RAD {
            return self.path.steering();
        }
        self.odometer.motion().steering(curvature - off / WITHIN_M)
    }

    /// Whether the path back is longer than the stopping distance by more than [`NO_WAY_M`].
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
            self.odometer.put(self.came_from().1.unwrap_or(self.odometer.pose()));
            self.beside.touched(self.odometer.pose());
        }
        let edge = verdict.active & Cause::Cliff.bit() != 0;
        let obstacle = verdict.active & Cause::Obstacle.bit() != 0;
        let forward = verdict.limits.forward > 0.0;
        self.from_edge |= edge;
        let can_turn = match self.phase {
            Phase::Turning { .. } => self.tight || self.is_clear(self.side, TURNING_M),
            Phase::Backing { due: true } => self.find_side(),
            _ => true,
        };
        let asked = FURTHER_M * f64::from(self.failed.min(FURTHER_MOST)) + self.same_place.further();
        let scene = Scene {
            wants_back: wanted < -LEAST_BACK,
            has_way: self.has_way(),
            forward,
            can_turn,
            near: obstacle && self.sees_near(shown),
            beside: obstacle && !forward && self.side_rangers.iter().any(|ranger| ranger.sees(shown)),
            edge,
            stuck: not_gone.is_some(),
            enough: self.backed >= asked && (can_turn || self.backed >= asked + ROOM_M) || !self.has_way(),
            turn_rad: if self.from_edge { self.plan.turn_rad.max(ALONG_RAD) } else { self.plan.turn_rad },
            heading: self.odometer.pose().heading,
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

    /// Notes where a retreat begins. If a turn ended at an edge or obstacle, the next one goes to the other
    /// side; after an edge it does so only when more than [`FURTHER_MOST`] turns have failed.
    fn learn_from(&mut self, before: Phase, scene: &Scene) {
        let retreats = |phase| matches!(phase, Phase::Backing { due: true });
        if retreats(self.phase) && !retreats(before) {
            self.same_place.retreat(self.odometer.pose().at);
        }
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
            _ if scene.stuck => self.failed = self.failed.max(1), // it backs off further at least once
            _ => {}
        }
    }

    fn count(&mut self, before: Phase, scene: &Scene) {
        let is_turning = |phase| matches!(phase, Phase::Turning { .. });
        self.counters.turns += u64::from(is_turning(self.phase) && !is_turning(before));
        self.counters.stuck += u64::from(scene.stuck);
        self.counters.without_way += u64::from(scene.wants_back && !scene.has_way);
    }

    /// Evaluates the newest ranges, and remembers where ground sensors see an edge.
    fn look_ahead(&mut self, shown: &Frame) {
        let echo = self.sonar.and_then(|sonar| Some((shown.samples[sonar.channel].good()?, sonar.reach)));
        let seen = echo.filter(|(range, reach)| range < reach);
        self.stuck.look(seen.map(|(range, _)| range.into()));
        if let Some((range, _)) = echo {
            self.beside.look(range.into(), self.odometer.pose());
        }
        for sensor in &self.edge_sensors {
            if shown.samples[sensor.channel].health == Health::Good && sensor.sees(shown) {
                self.beside.see_edge(sensor.spot, self.odometer.pose());
            }
        }
        for ranger in &self.side_rangers {
            if let Some(range) = shown.samples[ranger.channel].good() {
                self.beside.see(&ranger.beam, range, self.odometer.pose());
            }
        }
    }

    /// Whether the last echo came from something near. While a sonar is silent, its worst case comes nearer
    /// in every slot: the reflexes act on that, but there is nothing to pass or to turn away from.
    fn sees_near(&self, shown: &Frame) -> bool {
        self.sonar.is_none_or(|sonar| shown.samples[sonar.channel].value <= sonar.clear)
    }

    /// Steers straight on if the request would steer back towards the edge from which the robot has turned
    /// away.
    fn keep_off(&self, motors: &mut [f32; MAX_MOTORS]) {
        let (way, side) = self.kept;
        if way > 0.0 && motors[self.steering] * side < 0.0 {
            motors[self.steering] = 0.0;
        }
    }

    /// Keeps clear of the remembered places beside the robot: by the requested steering if possible,
    /// otherwise by the first of [`INSTEAD`] that does.
    fn keep_clear(&self, motors: &mut [f32; MAX_MOTORS]) {
        let wanted = motors[self.steering];
        let side = if wanted < 0.0 { -1.0 } else { 1.0 };
        let instead = INSTEAD.iter().map(|share| side * share);
        let clear = std::iter::once(wanted).chain(instead).find(|steering| self.is_clear(*steering, AHEAD_M));
        motors[self.steering] = clear.unwrap_or(wanted);
    }

    /// Whether no remembered place is in the way for the next `way` metres with this steering.
    fn is_clear(&self, steering: f32, way: f64) -> bool {
        let curvature = self.odometer.motion().curvature(steering);
        self.beside.is_clear(self.odometer.pose(), curvature, way)
    }

    /// Chooses the side of the turn: the preferred one, or the other if only that one is clear. Returns
    /// whether it is clear.
    fn find_side(&mut self) -> bool {
        if !self.is_clear(self.side, AHEAD_M) && self.is_clear(-self.side, AHEAD_M) {
            self.side = -self.side;
        }
        self.is_clear(self.side, AHEAD_M)
    }

    /// Remembers the side to which the field steers, if it steers by more than [`TURNS`].
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

    /// Remembers the side away from the edge and from what is beside the robot, if all of it is on one side.
    fn look(&mut self, shown: &Frame) {
        let edges = self.edge_sensors.iter().filter(|sensor| sensor.sees(shown));
        let beside = self.side_rangers.iter().filter(|ranger| ranger.sees(shown));
        let sides = edges.map(|sensor| sensor.spot[1]).chain(beside.map(|ranger| ranger.beam.bearing_deg));
        let (left, right) =
            sides.fold((false, false), |(left, right), of| (left || of > 0.0, right || of < 0.0));
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
            edge_sensors: _,
            side_rangers: _,
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
            same_place,
            backed,
            armed,
            counters: _,
        } = self;
        odometer.walk(archive)?;
        beside.walk(archive)?;
        path.walk(archive)?;
        remember!(archive: wheels, stuck, phase, side, from_edge, kept, tight, failed, same_place, backed, armed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
