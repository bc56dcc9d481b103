//! The outcome of a run, collected when the workers have ended: motors, simulated world, last snapshot.

use crate::base::time::Clock;
use crate::drive::io::{BusCounters, Halt, SenseCounters};
use crate::field::snapshot::{SnapshotCounts, SnapshotWriter};
use crate::runtime::robot::Robot;
use crate::runtime::runner::Ending;
use crate::sim::{Plant, Report};
use crate::system::executor::Rest;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// How long the end waits for a snapshot to reach the disk; after that, the previous one remains.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(10);

/// What is outside the tick and is read again when the run is over, under its names in [`Robot`].
pub struct Outside {
    plant: Option<Plant>,
    snapshots: Option<SnapshotWriter>,
    pub(crate) buses: Vec<Arc<BusCounters>>,
    pub(crate) senses: Arc<SenseCounters>,
    pub(crate) halt: Arc<Halt>,
    pub(crate) records_dropped: Arc<AtomicU64>,
    pub(crate) engine_name: String,
    pub(crate) resumed_age: Option<u64>,
    pub(crate) idle_faults: Vec<&'static str>,
}

impl Outside {
    /// Keeps handles on what `robot` leaves behind.
    pub(super) fn of(robot: &mut Robot) -> Outside {
        Outside {
            plant: robot.plant.clone(),
            snapshots: robot.snapshots.take(),
            buses: robot.buses.clone(),
            senses: robot.senses.clone(),
            halt: robot.halt.clone(),
            records_dropped: robot.records_dropped.clone(),
            engine_name: robot.engine_name.clone(),
            resumed_age: robot.resumed_age,
            idle_faults: robot.idle_faults.clone(),
        }
    }
}

/// A run that has ended.
pub struct RunOutcome {
    /// How it ended, and what was counted.
    pub ending: Ending,
    /// What was outside the tick.
    pub outside: Outside,
    /// What the simulated world has seen, where there is one.
    pub world: Option<Report>,
    /// Whether the motors have stopped, if the simulator knows.
    pub motors_still: Option<bool>,
    /// Counts of the snapshots, if the run writes any.
    pub snapshots: Option<SnapshotCounts>,
}

impl RunOutcome {
    pub(super) fn new(ending: Ending, outside: Outside, clock: &dyn Clock) -> RunOutcome {
        RunOutcome {
            world: outside.plant.as_ref().map(|plant| plant.report(clock.now())),
            motors_still: outside.plant.as_ref().map(Plant::motors_still),
            snapshots: outside.snapshots.as_ref().map(|writer| writer.end(SNAPSHOT_PATIENCE)),
            ending,
            outside,
        }
    }

    /// Whether the motors may still run, as far as is known.
    pub fn may_run(&self) -> bool {
        self.motors_still == Some(false) || self.ending.rest == Rest::Unheard
    }

    /// Whether nothing panicked, the slots add up to the elapsed time, and the motors are known to be still.
    pub fn is_sound(&self) -> bool {
        self.ending.panicked.is_empty() && self.ending.identity_holds && !self.may_run()
    }
}
