//! The simulated robot as its users hold it: handles on its wires, and a report at the end. What is
//! behind the wires is `robot.rs`.
//!
//! The mutex stands for the wire, which real threads share as well. It exists only in the simulator:
//! no production code locks anything because of it.

use super::bus::{SimGpio, SimI2c};
use super::car::Contacts;
use super::faults::Fault;
use super::robot::Robot;
use super::world::{Pose, World};
use crate::board::plan::{Board, BusPlan, I2cTiming};
use crate::bus::{Gpio, I2c};
use crate::time::{Clock, Instant, Span};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the simulated robot has been through, at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// When.
    pub at: Instant,
    /// Where the rear axle is.
    pub pose: Pose,
    /// Metres a second.
    pub speed: f64,
    /// Angle of the front wheels, degrees, positive to the right.
    pub steering_deg: f64,
    /// Contacts by kind.
    pub contacts: Contacts,
    /// Way driven, forwards and backwards, metres.
    pub distance_m: f64,
    /// Battery under its present load, volts.
    pub battery_v: f64,
    /// Times the microcontroller was reset, by its line or by itself.
    pub mcu_resets: u64,
    /// Those of them that it did by itself.
    pub brown_outs: u64,
    /// I2C transfers asked for.
    pub transfers: u64,
    /// Those of them that failed.
    pub failed_transfers: u64,
}

impl Report {
    /// Contacts of any kind, falls among them.
    pub fn collisions(&self) -> u64 {
        self.contacts.all()
    }
    /// Everything but the time as bits, for a digest.
    pub fn bits(&self) -> [u64; 14] {
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
            self.distance_m.to_bits(),
            self.battery_v.to_bits(),
            self.mcu_resets,
            self.brown_outs,
            self.transfers,
            self.failed_transfers,
        ]
    }
}

/// The simulated robot. Clones are the same robot.
#[derive(Clone)]
pub struct Plant {
    robot: Arc<Mutex<Robot>>,
    clock: Arc<dyn Clock>,
    timing: I2cTiming,
}

impl Plant {
    /// The robot of `board` in the world of `board.sim` (the usual room if the board has none), laid
    /// out from `seed`. Its time begins at the clock's present moment; faults count from there.
    pub fn new(board: &Board, seed: u64, faults: &[Fault], clock: Arc<dyn Clock>) -> Plant {
        let timing = match board.bus {
            BusPlan::Sim(timing) | BusPlan::Linux { timing, .. } => timing,
            // A log has no wire; a robot that is simulated all the same gets the usual one.
            BusPlan::Log => I2cTiming { speed_hz: 100_000, timeout: Span::from_millis(20) },
        };
        let robot = Robot::new(board, seed, faults, clock.now());
        Plant { robot: Arc::new(Mutex::new(robot)), clock, timing }
    }

    /// A handle on the I2C bus. A bus has one owner; a second handle is for tests and tools.
    pub fn i2c(&self) -> Box<dyn I2c> {
        Box::new(SimI2c::new(self.clone()))
    }
    /// A handle on the lines. All handles see the same edges, each edge is delivered once: only the
    /// owner of the echo lines may ask for edges.
    pub fn gpio(&self) -> Box<dyn Gpio> {
        Box::new(SimGpio::new(self.clone()))
    }
    /// What it has been through up to `now`.
    pub fn report(&self, now: Instant) -> Report {
        self.robot_at(now).report(now)
    }
    /// Whether no drive motor has a pulse now.
    pub fn motors_still(&self) -> bool {
        self.robot_at(self.clock.now()).is_still()
    }
    /// The room, for tests and drawings.
    pub fn world(&self) -> World {
        self.robot_at(self.clock.now()).world().clone()
    }
    /// When its time began.
    pub fn zero(&self) -> Instant {
        self.robot_at(self.clock.now()).zero()
    }

    /// The clock that its wires take their time from.
    pub(super) fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }
    /// Speed and patience of its I2C bus.
    pub(super) fn timing(&self) -> I2cTiming {
        self.timing
    }
    /// The robot, moved on to `now`.
    pub(super) fn robot_at(&self, now: Instant) -> MutexGuard<'_, Robot> {
        // A panic elsewhere leaves a robot that is still whole: every step ends as it began.
        let mut robot = self.robot.lock().unwrap_or_else(PoisonError::into_inner);
        robot.advance(now);
        robot
    }
}
