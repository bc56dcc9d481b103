//! The simulated robot, stepped slot by slot: the tick may be late, and requests may come between slots.

use super::options;
use ganglion::base::plan::Board;
use ganglion::base::time::{Clock, Instant, SimClock, Span};
use ganglion::drive::trace::Record;
use ganglion::runtime::loop_status::LoopStatusCell;
use ganglion::runtime::requests::Requests;
use ganglion::runtime::robot::{Options, Robot};
use ganglion::runtime::tick::Tick;
use ganglion::sim::Plant;
use ganglion::system::executor::Stepper;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A robot that the test steps.
pub struct Stage {
    pub clock: Arc<SimClock>,
    stepper: Stepper,
    pub tick: Tick,
    pub plant: Plant,
    records: rtrb::Consumer<Record>,
    pub requests: Arc<Requests>,
    /// What the tick reports to its watchers.
    pub loop_status: Arc<LoopStatusCell>,
    /// Number of readings that were dropped because their ring was full.
    pub dropped: Arc<AtomicU64>,
}

impl Stage {
    pub fn new(board: &Board, seed: u64, faults: &[&str]) -> Stage {
        Stage::with(board, options(seed, faults))
    }

    pub fn with(board: &Board, options: Options) -> Stage {
        let clock = Arc::new(SimClock::new());
        let first = Instant::ZERO + board.period;
        let robot = Robot::build(board, clock.clone(), first, options).unwrap();
        let plant = robot.plant.clone().unwrap();
        let mut stepper = Stepper::new(clock.clone());
        for started in robot.workers {
            stepper.add(started.worker, started.waker, Instant::ZERO);
        }
        let dropped = robot.senses.readings_dropped.clone();
        let (records, requests, loop_status) = (robot.records, robot.requests, robot.loop_status);
        Stage { clock, stepper, tick: robot.tick, plant, records, requests, loop_status, dropped }
    }

    /// Runs the next slot, delayed by `late`, and returns its record.
    pub fn slot(&mut self, late: Span) -> Record {
        self.stepper.run_until(self.tick.slot() + late);
        self.tick.run();
        self.records.pop().expect("one record per slot")
    }

    /// Runs slots on time until `seconds`, at least one, and returns the last record.
    pub fn until(&mut self, seconds: f64) -> Record {
        let end = Instant::ZERO + Span::from_secs_f64(seconds);
        let mut last = self.slot(Span::ZERO);
        while self.tick.slot() < end {
            last = self.slot(Span::ZERO);
        }
        last
    }

    /// Time since the start.
    pub fn seconds(&self) -> f64 {
        self.tick.slot().since(Instant::ZERO).as_secs_f64()
    }

    /// Distance driven, metres.
    pub fn travelled(&self) -> f64 {
        self.plant.report(self.clock.now()).distance_m
    }
}
