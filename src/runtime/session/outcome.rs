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

/// How long the end of a run waits for the last snapshot to reach the disk; after that, the run ends and the
/// previous snapshot remains.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);

/// Handles on those parts of a [`Robot`] outside its tick that are read after the run.
pub struct RunHandles {
    plant: Option<Plant>,
    snapshots: Option<SnapshotWriter>,
    pub(crate) buses: Vec<Arc<BusCounters>>,
    pub(crate) senses: Arc<SenseCounters>,
    pub(crate) halt: Arc<Halt>,
    pub(crate) records_dropped: Arc<AtomicU64>,
    pub(crate) engine_name: String,
    pub(crate) resumed_age: Option<u64>,
    pub(crate) idle_faults: Vec<(&'static str, &'static str)>,
}

impl RunHandles {
    /// Takes the handles from `robot`.
    pub(super) fn of(robot: &mut Robot) -> RunHandles {
        RunHandles {
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
    /// Handles on the parts outside the tick.
    pub handles: RunHandles,
    /// What happened in the simulated world, if there is one.
    pub world: Option<Report>,
    /// Whether no drive motor gets a pulse any more; `None`: the robot is not simulated.
    pub motors_still: Option<bool>,
    /// How many snapshots were written and how many failed, if the run saves the brain.
    pub snapshots: Option<SnapshotCounts>,
}

impl RunOutcome {
    pub(super) fn new(ending: Ending, handles: RunHandles, clock: &dyn Clock) -> RunOutcome {
        RunOutcome {
            world: handles.plant.as_ref().map(|plant| plant.report(clock.now())),
            motors_still: handles.plant.as_ref().map(Plant::motors_still),
            snapshots: handles.snapshots.as_ref().map(|writer| writer.end(SNAPSHOT_TIMEOUT)),
            ending,
            handles,
        }
    }

    /// The simulated robot, if the robot is simulated.
    pub fn plant(&self) -> Option<&Plant> {
        self.handles.plant.as_ref()
    }

    /// Whether the motors may still be running, as far as is known.
    pub fn may_run(&self) -> bool {
        self.motors_still == Some(false) || self.ending.rest == Rest::Unheard
    }

    /// Whether nothing panicked, the slots add up to the elapsed time, and the motors are known to have
    /// stopped.
    pub fn is_sound(&self) -> bool {
        self.ending.panicked.is_empty() && self.ending.identity_holds && !self.may_run()
    }
}
