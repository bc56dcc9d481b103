//! Backing off, between the field's request and the arbiter. A robot that sees nothing behind itself goes
//! back the way it came and no other: while the field wants backwards, the steering is that of the recorded
//! way; where no way is left, backwards is forbidden like a reflex would. After it has backed off from an
//! edge or an obstacle it turns away, from the ground sensor that was dark or else to the side it took
//! last, so that it does not come back to the same place. An obstacle that it steered clear of may be
//! beside it once the sonar has lost it: it turns on for a little.
//!
//! It only changes requests and tightens limits: reflexes and arbiter come after it and have the last word.
//! Pure; all its memory is there from the start. A board without `[backing]` has none of it.

mod path;
mod phase;

pub use path::LONGEST_M;

use crate::command::{Command, MAX_MOTORS};
use crate::field::Response;
use crate::frame::Frame;
use crate::mode::Mode;
use crate::motion::{Motion, Odometer};
use crate::plan::{BackingPlan, Board, Cause, Trip};
use crate::reflex::{MAX_RULES, Verdict};
use crate::time::{Instant, Span};
use path::Path;
use phase::{Phase, Scene};

/// A request for less is none: the noise of a read-out is no wish to back off. The arbiter takes half of it
/// for a stop.
const WISH: f32 = 0.02;
/// Steering beyond this takes a side: a fifth of full lock is more than the noise of a read-out.
const TURNS: f32 = 0.2;
/// After each turn that ended before what it turned from, it backs off further by this before the next, to
/// the other side: otherwise the way back would undo the turn, and the next one would end there again.
const FURTHER_M: f64 = 0.1;
/// So many times at most: half a metre is more than the car needs to turn round in.
const FURTHER_MOST: u32 = 5;
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
    /// Slots in which it was to go backwards and no way was left.
    pub without_way: u64,
}

/// The stage; of a board without `[backing]`, as by default, it changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    backing: Option<Backing>,
}

impl Trail {
    /// The stage of `board`, with no way behind it.
    pub fn new(board: &Board) -> Trail {
        Trail { backing: Backing::of(board) }
    }

    /// What it did, where it does anything.
    pub fn counters(&self) -> Option<BackingCounters> {
        self.backing.as_ref().map(|backing| backing.counters)
    }

    /// Records what `command`, the last one, has done until `slot`. It did nothing unless `unconfirmed`, the
    /// time since the last confirmation, is shorter than a command is valid.
    pub fn record(&mut self, command: &Command, slot: Instant, unconfirmed: Option<Span>) {
        if let Some(backing) = &mut self.backing {
            backing.record(command, slot, unconfirmed);
        }
    }

    /// Takes backwards out of `verdict` where no way is left.
    pub fn restrain(&self, verdict: &mut Verdict) {
        if self.backing.as_ref().is_some_and(|backing| !backing.has_way()) {
            verdict.limits.backward = 0.0;
        }
    }

    /// The field's answer as the arbiter gets it. `shown` is the frame as the field sees it.
    pub fn guide(
        &mut self,
        field: Option<(&Response, Instant)>,
        mode: Mode,
        verdict: &Verdict,
        shown: &Frame,
        slot: Instant,
    ) -> Option<(Response, Instant)> {
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
    command_valid: Span,
    odometer: Odometer,
    /// The motor that steers, and its command for the right.
    steering: usize,
    right: f32,
    eyes: heapless::Vec<Eye, MAX_RULES>,
    path: Path,
    phase: Phase,
    /// Steering command of the next turn.
    side: f32,
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
        let motion = Motion::of(board)?;
        let (steering, [low, high]) = motion.steering?;
        let right = if high >= low { 1.0 } else { -1.0 };
        let edges = board.reflexes.iter().filter(|rule| rule.cause == Cause::Cliff);
        let eyes = edges.filter_map(|rule| {
            let [_, left] = board.sensors[rule.channel].looks_at?;
            Some(Eye { channel: rule.channel, trip: rule.trip, left })
        });
        Some(Backing {
            plan,
            command_valid: board.safety.command_valid,
            odometer: Odometer::new(motion),
            steering,
            right,
            eyes: eyes.collect(),
            path: Path::new(plan.trail_m.into()),
            phase: Phase::Following,
            side: right,
            failed: 0,
            backed: 0.0,
            armed: None,
            counters: BackingCounters::default(),
        })
    }

    fn record(&mut self, command: &Command, slot: Instant, unconfirmed: Option<Span>) {
        let mut motors = command.motors;
        if unconfirmed.is_none_or(|age| age >= self.command_valid) {
            self.each_drive(&mut motors, |_| 0.0);
        }
        let way = self.odometer.advance(slot, &motors);
        if way >= 0.0 {
            self.path.forwards(way, motors[self.steering]);
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
            self.path.begin(self.plan.start_m.into());
            self.phase = Phase::Following;
            self.failed = 0;
        }
    }

    /// Whether the way back is longer than what it takes to stop.
    fn has_way(&self) -> bool {
        let coast = -self.odometer.speed().min(0.0) * self.odometer.motion().lag_s;
        self.path.length() > NO_WAY_M + coast
    }

    fn guide(&mut self, motors: &mut [f32; MAX_MOTORS], verdict: &Verdict, shown: &Frame, slot: Instant) {
        let wanted = self.odometer.motion().drive(motors);
        if !wanted.is_finite() {
            return; // the arbiter refuses it
        }
        let asked = FURTHER_M * f64::from(self.failed.min(FURTHER_MOST));
        let scene = Scene {
            wants_back: wanted < -WISH,
            has_way: self.has_way(),
            forward: verdict.limits.forward > 0.0,
            near: verdict.active & Cause::Obstacle.bit() != 0,
            edge: verdict.active & Cause::Cliff.bit() != 0,
            enough: self.backed >= asked || !self.has_way(),
            heading: self.odometer.standing().heading,
            slot,
        };
        let before = self.phase;
        self.phase = before.next(&scene, &self.plan);
        self.count(before, &scene);
        self.learn_from(before);
        self.look(shown);
        match self.phase {
            Phase::Following => {}
            Phase::Passing => self.keep_side(motors[self.steering]),
            Phase::Backing { due }
                if scene.wants_back || due && scene.has_way && !(scene.forward && scene.enough) =>
            {
                motors[self.steering] = self.path.steering();
                let floor = if due { self.plan.floor } else { 0.0 };
                self.each_drive(motors, |drive| drive.min(-floor));
            }
            Phase::Backing { .. } => {}
            Phase::Turning { .. } => {
                motors[self.steering] = self.side;
                let floor = self.plan.floor;
                self.each_drive(motors, |drive| drive.max(floor));
            }
        }
    }

    /// A turn that ended before something: the next one goes to the other side.
    fn learn_from(&mut self, before: Phase) {
        match (before, self.phase) {
            (Phase::Turning { .. }, Phase::Backing { .. }) => {
                self.failed = self.failed.saturating_add(1);
                self.side = -self.side;
            }
            (Phase::Turning { .. }, Phase::Following) => self.failed = 0,
            _ => {}
        }
    }

    fn count(&mut self, before: Phase, scene: &Scene) {
        let is_backing = |phase| matches!(phase, Phase::Backing { .. });
        let is_turning = |phase| matches!(phase, Phase::Turning { .. });
        self.counters.times += u64::from(scene.wants_back && is_backing(self.phase) && !is_backing(before));
        self.counters.turns += u64::from(is_turning(self.phase) && !is_turning(before));
        self.counters.without_way += u64::from(scene.wants_back && !scene.has_way);
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

#[cfg(test)]
mod tests;
