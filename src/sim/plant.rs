//! The simulated robot as its users see it: handles on its wires, and a report of its state. `robot.rs`
//! models what is behind the wires.
//!
//! The mutex represents the wire, which the threads of a real robot share as well. It exists only in the
//! simulator: a real robot has no lock in its place.

use super::bus::{SimGpio, SimI2c};
use super::contact::{Contact, Contacts};
use super::course::Coverage;
use super::faults::Fault;
use super::pose_cell::PoseCell;
use super::robot::{Robot, Witness};
use super::world::{Pose, World};
use crate::base::fault::BusFault;
use crate::base::plan::{Board, I2cTiming, Line};
use crate::base::time::{Clock, Instant, Span};
use crate::hardware::bus::{Gpio, Hardware, I2c, LineState, LineUse, OpenError, Usage};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State and counts of the simulated robot at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// When.
    pub at: Instant,
    /// Where the rear axle is.
    pub pose: Pose,
    /// Metres per second.
    pub speed: f64,
    /// Angle of the front wheels, degrees, positive to the right.
    pub steering_deg: f64,
    /// Contacts by kind.
    pub contacts: Contacts,
    /// Distance driven, forwards and backwards, metres.
    pub distance_m: f64,
    /// How much of the room it has covered, and how it drove.
    pub coverage: Coverage,
    /// Battery voltage under its present load.
    pub battery_v: f64,
    /// Resets of the microcontroller, by its line or by itself.
    pub mcu_resets: u64,
    /// Brown-outs of the supply. Each also resets the microcontroller, if there is one.
    pub brown_outs: u64,
    /// I2C transfers requested.
    pub transfers: u64,
    /// I2C transfers that failed.
    pub failed_transfers: u64,
}

impl Report {
    /// The fields as bits for a digest: all except the time, the coverage and the number of contacts while
    /// driving backwards.
    pub fn bits(&self) -> [u64; 16] {
        let Report { pose, contacts, .. } = self;
        [
            pose.x.to_bits(),
            pose.y.to_bits(),
            pose.heading.to_bits(),
            self.speed.to_bits(),
            self.steering_deg.to_bits(),
            contacts.walls,
            contacts.discs,
            contacts.falls,
            contacts.head_on,
            contacts.falls_after_stop,
            self.distance_m.to_bits(),
            self.battery_v.to_bits(),
            self.mcu_resets,
            self.brown_outs,
            self.transfers,
            self.failed_transfers,
        ]
    }
}

/// The simulated robot. Clones share the same robot.
#[derive(Clone)]
pub struct Plant {
    robot: Arc<Mutex<Robot>>,
    clock: Arc<dyn Clock>,
    pose: Arc<PoseCell>,
    /// One entry per bus.
    timings: Arc<[I2cTiming]>,
}

impl Plant {
    /// The robot of `board` in the world of `board.sim` (the default room if the board has none), laid out
    /// from `seed`. Its time starts at the clock's present time; the times of faults count from then.
    pub fn new(board: &Board, seed: u64, faults: &[Fault], clock: Arc<dyn Clock>) -> Plant {
        // The board of a log has no I2C bus; a robot simulated from it gets the usual timing.
        let usual = I2cTiming { speed_hz: 100_000, timeout: Span::from_millis(20) };
        let timings: Vec<I2cTiming> = board.i2c.iter().map(|bus| bus.timing).collect();
        let timings = if timings.is_empty() { vec![usual] } else { timings };
        let robot = Robot::new(board, seed, faults, clock.now());
        let pose = robot.pose_cell();
        Plant { robot: Arc::new(Mutex::new(robot)), clock, pose, timings: timings.into() }
    }

    /// A handle on the first I2C bus, for tests and tools. Everywhere else, a bus has only one owner.
    pub fn i2c(&self) -> Box<dyn I2c> {
        Box::new(SimI2c::new(self.clone(), 0, self.timings[0])) // there is at least one bus
    }
    /// A handle on all lines that receives the edges of every echo, for tests and tools.
    pub fn gpio(&self) -> Box<dyn Gpio> {
        let now = self.clock.now();
        let watch = self.robot_at(now).watch_echoes(now);
        Box::new(SimGpio::new(self.clone(), watch))
    }
    /// State and counts at `now`.
    pub fn report(&self, now: Instant) -> Report {
        self.robot_at(now).report(now)
    }
    /// The first contacts, at most [`MOST_CONTACTS`](super::MOST_CONTACTS).
    pub fn first_contacts(&self) -> Vec<Contact> {
        self.robot_at(self.clock.now()).first_contacts().to_vec()
    }
    /// Whether no drive motor gets a pulse now.
    pub fn motors_still(&self) -> bool {
        self.robot_at(self.clock.now()).is_still()
    }
    /// From now on, reports to `witness` what happens on the wires.
    pub fn tell(&self, witness: Box<dyn Witness>) {
        let now = self.clock.now();
        self.robot_at(now).tell(witness, now);
    }
    /// Advances the world to `now`.
    pub fn advance(&self, now: Instant) {
        drop(self.robot_at(now));
    }
    /// The room, for tests and drawings.
    pub fn world(&self) -> World {
        self.robot_at(self.clock.now()).world().clone()
    }
    /// Where the car and the moving discs are, for readers that must not make the bus threads wait.
    pub fn pose_cell(&self) -> Arc<PoseCell> {
        self.pose.clone()
    }
    /// When its time began.
    pub fn zero(&self) -> Instant {
        self.robot_at(self.clock.now()).zero()
    }

    /// The clock that times its wires.
    pub(super) fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }
    /// The robot, advanced to `now`.
    pub(super) fn robot_at(&self, now: Instant) -> MutexGuard<'_, Robot> {
        // After a panic in another thread, the robot is still consistent: no step leaves it half updated.
        let mut robot = self.robot.lock().unwrap_or_else(PoisonError::into_inner);
        robot.advance(now);
        robot
    }
}

/// The error for a wire that the simulator does not have.
fn absent(what: String) -> OpenError {
    let why = "the simulated robot does not have it".into();
    let fix = "use a device and a bus that the board file lists".into();
    OpenError { what, why, fix, denied: false }
}

impl Hardware for Plant {
    fn i2c(&self, bus: usize) -> Result<Box<dyn I2c>, OpenError> {
        let timing = *self.timings.get(bus).ok_or_else(|| absent(format!("I2C bus {bus}")))?;
        Ok(Box::new(SimI2c::new(self.clone(), bus, timing)))
    }

    /// A line keeps its level when its handle is dropped, as on Raspberry Pi OS; here that matters only for
    /// the controller's reset.
    fn line_state(&self, line: Line) -> Result<LineState, OpenError> {
        let held = self.robot_at(self.clock.now()).holds_in_reset(line);
        Ok(if held { LineState::Kept { high: false } } else { LineState::Floats })
    }

    fn gpio(&self, _owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
        let now = self.clock.now();
        let mut robot = self.robot_at(now);
        let mut watched: Vec<Line> = Vec::new();
        for LineUse { line, usage } in lines {
            let done = match *usage {
                Usage::Output { high } => robot.set_line(*line, high, now),
                Usage::Input { .. } => robot.line_is_high(*line, now).map(drop),
                Usage::Watched { .. } | Usage::Rising { .. } => {
                    watched.push(*line);
                    robot.line_is_high(*line, now).map(drop)
                }
            };
            done.map_err(|fault: BusFault| absent(format!("line {} ({fault:?})", line.0)))?;
        }
        let watch = robot.watch(watched, now);
        drop(robot);
        Ok(Box::new(SimGpio::new(self.clone(), watch)))
    }
}
