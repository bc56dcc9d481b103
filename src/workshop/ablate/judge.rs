//! One drive of an arm, and its figures. Reflexes, limits and backtracking are the board's own in every arm;
//! only the source of the motion differs.

use super::Study;
use crate::base::plan::{Board, FieldPlan};
use crate::base::time::{Clock, MonotonicClock};
use crate::field::STAGES;
use crate::field::engine::Cycle;
use crate::field::{Failure, FieldInput, FieldOutput, Inspect};
use crate::runtime::robot::BuildError;
use crate::workshop::teach::driver::Driver;
use crate::workshop::teach::lesson::{Drive, Third, run};
use crate::workshop::teach::trouble::Troubled;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The figures that a study compares.
pub const FIGURES: [&str; 10] = [
    "contacts",
    "falls",
    "cells_visited",
    "backward_share",
    "still_share",
    "smoothness",
    "reflexes_per_100m",
    "reflexes_change_per_100m",
    "stops_per_100m",
    "stops_change_per_100m",
];

/// The result of one drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// In the order of [`FIGURES`]. Smoothness is the log dimensionless jerk of the motors that moved, NaN if
    /// none moved. A stop is a reflex that began to forbid driving forwards; others only slow the robot.
    /// Changes are from the first third of the drive to the last, NaN if it stood in one of them.
    pub figures: [f64; FIGURES.len()],
    /// Digest of everything that the robot sensed, decided and commanded.
    pub digest: String,
}

impl Run {
    fn of(drive: &Drive) -> Run {
        let (report, smoothness) = (&drive.report, &drive.recorder.smoothness);
        let [first, _, last] = drive.thirds.map(|third| third.per_100_m());
        let [reflexes, stops] = drive.thirds.into_iter().fold(Third::default(), Third::and).per_100_m();
        let moved: Vec<f64> = smoothness.iter().filter_map(|motor| motor.mean()).collect();
        Run {
            figures: [
                report.contacts.all() as f64,
                report.contacts.falls as f64,
                report.coverage.cells as f64,
                report.coverage.backward_share,
                report.coverage.standing_share,
                moved.iter().sum::<f64>() / moved.len() as f64,
                reflexes,
                last[0] - first[0],
                stops,
                last[1] - first[1],
            ],
            digest: drive.recorder.digest(),
        }
    }
}

/// Time spent in cycles, in nanoseconds. Drives on several threads add to it.
#[derive(Debug, Default)]
pub struct Spent {
    stages: [AtomicU64; STAGES.len()],
    /// The total time of the driver's cycles, and their number.
    total: AtomicU64,
    cycles: AtomicU64,
}

impl Spent {
    /// Mean time of the driver's cycle, microseconds; `None`: no cycle ran.
    pub fn cycle_us(&self) -> Option<f64> {
        let [total, cycles] = [&self.total, &self.cycles].map(|sum| sum.load(Ordering::Relaxed) as f64);
        (cycles > 0.0).then(|| total / cycles / 1e3)
    }

    /// Each stage's share of the total; 0 if nothing was computed.
    pub fn shares(&self) -> [f64; STAGES.len()] {
        let spent = std::array::from_fn(|stage| self.stages[stage].load(Ordering::Relaxed) as f64);
        let all = spent.iter().sum::<f64>().max(1.0);
        spent.map(|stage| stage / all)
    }
}

/// Drives `board` with `driver` through `room` as `study` says; its trouble affects every sensor that the
/// driver sees. If `interrupted`, the drive ends early, and its figures mean nothing.
pub fn judge(
    board: &Board,
    driver: &Driver,
    room: u64,
    study: &Study,
    spent: &std::sync::Arc<Spent>,
    interrupted: &AtomicBool,
) -> Result<Run, BuildError> {
    let mut judge = Judge {
        driver: driver.in_room(room),
        plan: board.field.clone(),
        troubled: Troubled::new(study.trouble, room),
        spent: spent.clone(),
    };
    let cycle: Cycle<dyn Inspect> = Box::new(move |engine, input| judge.cycle(engine, input));
    let drive = run(board, room, study.rooms.seconds, study.quality, driver, cycle, interrupted)?;
    Ok(Run::of(&drive))
}

/// Applies the trouble to the sensors and measures the time.
struct Judge {
    driver: Driver,
    plan: FieldPlan,
    troubled: Troubled,
    spent: std::sync::Arc<Spent>,
}

impl Judge {
    fn cycle(&mut self, engine: &mut dyn Inspect, input: &FieldInput) -> Result<FieldOutput, Failure> {
        let seen = self.troubled.see(input, self.plan.shape.sensors);
        let began = MonotonicClock.now();
        let response = self.driver.cycle(&self.plan, &seen, engine)?;
        let took = MonotonicClock.now().since(began);
        self.spent.total.fetch_add(took.as_nanos(), Ordering::Relaxed);
        self.spent.cycles.fetch_add(1, Ordering::Relaxed);
        if let Driver::Field(_) = self.driver {
            for (sum, stage) in self.spent.stages.iter().zip(engine.stage_times()) {
                sum.fetch_add(stage.as_nanos(), Ordering::Relaxed);
            }
        }
        Ok(response)
    }
}
