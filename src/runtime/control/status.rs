//! The status of a running robot, assembled from the counters of its threads. Collecting it makes no
//! real-time thread wait.

use super::measured::{Measured, newest};
use super::room::{Room, RoomStatus};
use crate::base::plan::Cause;
use crate::decision::mode::{Disarm, Mode};
use crate::drive::io::{BusCounters, RecoveryStep, SenseCounters};
use crate::drive::record::{RecordingCounts, RecordingStatus, RobotShape};
use crate::field::navigate::goals::{GoalSender, Place};
use crate::field::slices::{NewestSlices, SlicesMessage};
use crate::memory::map::{MapStatus, Recollection};
use crate::runtime::guard::Link;
use crate::runtime::loop_status::{LoopStatus, LoopStatusCell};
use crate::runtime::requests::Requests;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Version of the JSON object; incremented when a key changes its meaning or is removed, not when one is
/// added.
pub const SCHEMA: u32 = 1;

/// The sources of a status.
#[derive(Clone)]
pub struct Sources {
    /// Name of the board.
    pub board: String,
    /// BLAKE3 of the board's effective values, in hexadecimal digits.
    pub board_digest: String,
    /// The robot is simulated.
    pub simulated: bool,
    /// What computes the field, and why.
    pub engine: String,
    /// The non-real-time thread's latest measurements.
    pub measured: Arc<Mutex<Measured>>,
    /// The tick's status.
    pub loop_status: Arc<LoopStatusCell>,
    /// Requests to the tick.
    pub requests: Arc<Requests>,
    /// Counters of each bus thread, the motors' first.
    pub buses: Vec<Arc<BusCounters>>,
    /// Counters of all sensors.
    pub senses: Arc<SenseCounters>,
    /// The link to the guard, if the board has one.
    pub link: Option<Arc<Link>>,
    /// Whether the robot refuses to drive without the guard.
    pub guard_required: bool,
    /// The map of where things were met, if the board has one.
    pub recollection: Option<Recollection>,
    /// The simulated room, if the robot is in one.
    pub room: Option<Room>,
    /// Slot records that were dropped because the non-real-time thread was too slow to take them.
    pub records_dropped: Arc<AtomicU64>,
    /// A remark for the user, if there is one.
    pub remark: Arc<OnceLock<String>>,
    /// Counts of the recording, if there is one.
    pub recording: Option<Arc<RecordingCounts>>,
    /// Gives orders to the navigator, if the board has one.
    pub goals: Option<GoalSender>,
    /// The places of the board's patrol.
    pub patrol: Vec<Place>,
    /// Names of the board's behaviours.
    pub behaviours: Vec<String>,
    /// Size of the robot, and its range sensors.
    pub shape: RobotShape,
    /// Slices through the field.
    pub slices: Option<NewestSlices>,
}

/// The status of a robot at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `SCHEMA`.
    pub schema: u32,
    /// Name of the board.
    pub board: String,
    /// BLAKE3 of the board's effective values, in hexadecimal digits; identifies the board whatever its name.
    /// Empty if the runtime does not report it.
    #[serde(default)]
    pub board_digest: String,
    /// The robot is simulated.
    #[serde(default)]
    pub simulated: bool,
    /// What computes the field, and why.
    pub engine: String,
    /// The engine's state: `running`, or what happened to it.
    pub engine_state: String,
    /// The robot's mode.
    pub mode: String,
    /// The latched cause, which stays until the robot is disarmed.
    pub latched: Option<String>,
    /// Why the robot was disarmed, as text, unless it has been armed since.
    #[serde(default)]
    pub disarmed_by: Option<String>,
    /// Active causes of restraint.
    pub causes: Vec<String>,
    /// What prevents arming, as text.
    pub refusal: Vec<String>,
    /// Requests to arm that were refused.
    pub arm_refused: u64,
    /// How often the robot was armed.
    pub armings: u64,
    /// Slots that ran.
    pub slots_run: u64,
    /// Slots that came due and did not run.
    pub slots_skipped: u64,
    /// Commands confirmed on the wire.
    pub commands_confirmed: u64,
    /// What the run has measured so far, each value under its own key.
    #[serde(flatten)]
    pub measured: Measured,
    /// Each bus, the motors' first.
    pub buses: Vec<BusStatus>,
    /// The guard, if the board has one.
    pub guard: Option<GuardSummary>,
    /// The map of where things were met, if the board has one.
    #[serde(default)]
    pub map: Option<MapStatus>,
    /// A remark for the user: why the robot does not arm by itself.
    #[serde(default)]
    pub remark: Option<String>,
    /// The simulated room, if the robot is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<RoomStatus>,
    /// Slots that are missing from these figures, because the non-real-time thread was too slow to take their
    /// records.
    #[serde(default)]
    pub records_dropped: u64,
    /// Sensor readings that were dropped because the tick was too slow to take them.
    #[serde(default)]
    pub readings_dropped: u64,
    /// Line edges that were not delivered, or that the kernel dropped because they were not read in time.
    #[serde(default)]
    pub edges_dropped: u64,
    /// How often the input lines had so many edges that their thread only polled levels for a while: a short
    /// press of a stop button may be lost then.
    #[serde(default)]
    pub edge_storms: u64,
    /// Version of the running program; empty if the runtime does not report it.
    #[serde(default)]
    pub version: String,
    /// The recording, if there is one.
    #[serde(default)]
    pub recording: Option<RecordingStatus>,
    /// The places of the board's patrol: metres ahead and to the left of the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patrol: Vec<Place>,
    /// Names of the board's behaviours, in the order of the board file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behaviours: Vec<String>,
    /// Size of the robot, and its range sensors, as the board states them.
    #[serde(default)]
    pub shape: RobotShape,
    /// Slices through the field, for a caller that asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<SlicesMessage>,
}

/// A bus thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusStatus {
    /// Name of the bus.
    pub name: String,
    /// Transfers that failed, even after their retries.
    pub failures: u64,
    /// Retries of failed transfers.
    pub retries: u64,
    /// How often the motors' controller was set up, including the first time; on a bus without one, how often
    /// the bus was restarted.
    pub set_ups: u64,
    /// Commands that expired before they could be written, or while they were in force because no newer one
    /// came.
    pub expired: u64,
    /// Stop commands repeated because the motors were not known to have stopped.
    #[serde(default)]
    pub stops_again: u64,
    /// How often the motors were stopped without waiting for the tick.
    #[serde(default)]
    pub halts: u64,
    /// How often the motors were stopped by their line while the bus hung in a transfer.
    #[serde(default)]
    pub cuts: u64,
    /// Devices without values, because they do not answer or their answers are invalid.
    #[serde(default)]
    pub lost: Vec<String>,
    /// Recovery steps taken, by name.
    pub recovery: BTreeMap<String, u64>,
    /// Names of the recovery steps that are available besides a reset: those that the board permits and that
    /// the system granted when the bus was opened.
    #[serde(default)]
    pub measures: Vec<String>,
}

/// The guard as the runtime sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuardSummary {
    /// Whether the robot refuses to drive without the guard.
    pub required: bool,
    /// Its state: `absent`, `waiting`, `greeted`, `trusted`, `tripped`.
    pub phase: String,
    /// Why it has switched the line off, if it has.
    pub reason: Option<String>,
    /// Whether the line is on, so that the motors may run.
    pub line_on: bool,
    /// How often it tripped; clean ends do not count.
    pub trips: u32,
    /// Why it refuses this runtime, if it does.
    pub refused: Option<String>,
    /// How often a connection was made.
    pub connections: u64,
}

impl Sources {
    /// The contents of the map around a place; decoding takes some milliseconds.
    pub fn map(&self, near: Option<[f64; 2]>) -> Option<MapStatus> {
        let status = self.recollection.as_ref()?.status(near);
        status.map_err(|fault| log::warn!("the map: {fault}")).ok()
    }

    fn edges_dropped(&self) -> u64 {
        self.senses.edges_lost.load(Ordering::Relaxed) + self.senses.edge_overruns.load(Ordering::Relaxed)
    }

    /// Slices through the field; `None`: the field is computed elsewhere, or has not run yet.
    pub fn slices(&self) -> Option<SlicesMessage> {
        self.slices.as_ref()?.get().as_ref().map(SlicesMessage::of)
    }

    /// The robot's status now, without its map and slices.
    pub fn status(&self) -> Status {
        let status = self.loop_status.load();
        let mut measured = newest(&self.measured);
        for (sensor, refused) in measured.sensors.iter_mut().zip(self.loop_status.readings_refused()) {
            sensor.refused = refused;
        }
        let goal = measured.goal.as_ref().and_then(|goal| goal.goal);
        Status {
            schema: SCHEMA,
            board: self.board.clone(),
            board_digest: self.board_digest.clone(),
            simulated: self.simulated,
            engine: self.engine.clone(),
            engine_state: measured.engine_state.to_string(),
            mode: Mode::name_of(status.mode).into(),
            latched: latched(&status).map(|cause| cause.name().into()),
            disarmed_by: status.disarmed.map(why_disarmed),
            causes: causes(&status).map(|cause| cause.name().into()).collect(),
            refusal: status.refusal.reasons().map(str::to_string).collect(),
            arm_refused: status.refused,
            armings: status.armings,
            slots_run: status.slots,
            slots_skipped: status.skipped,
            commands_confirmed: status.confirmed,
            measured,
            buses: self.buses.iter().map(|bus| BusStatus::of(bus)).collect(),
            guard: self.link.as_ref().map(|link| GuardSummary::of(link, self.guard_required)),
            map: None,
            room: self.room.as_ref().map(|room| room.status(goal)),
            records_dropped: self.records_dropped.load(Ordering::Relaxed),
            readings_dropped: self.senses.readings_dropped.load(Ordering::Relaxed),
            edges_dropped: self.edges_dropped(),
            edge_storms: self.senses.edge_storms.load(Ordering::Relaxed),
            version: env!("CARGO_PKG_VERSION").into(),
            remark: self.remark.get().cloned(),
            recording: self.recording.as_ref().map(|counts| counts.look()),
            patrol: self.patrol.clone(),
            behaviours: self.behaviours.clone(),
            shape: self.shape.clone(),
            slices: None,
        }
    }
}

/// The text for a requested disarm. The one-line status leaves it out.
const ASKED: &str = "on request";

/// Why a robot was disarmed, as text.
pub fn why_disarmed(why: Disarm) -> String {
    match why {
        Disarm::Asked => ASKED.to_string(),
        Disarm::Stillness { lasted, causes } => {
            let active = Cause::ALL.into_iter().filter(|cause| causes & cause.bit() != 0);
            let names: Vec<&str> = active.map(Cause::name).collect();
            // No slot ran, so no cause was recorded: the loop was late.
            let because = if names.is_empty() { "loop-late".to_string() } else { names.join(", ") };
            format!("stood still for {:.1} s because of {because}", lasted.as_secs_f64())
        }
        Disarm::Slept { lasted } => format!("the machine slept for {:.1} s", lasted.as_secs_f64()),
    }
}

/// The active causes.
pub(super) fn causes(status: &LoopStatus) -> impl Iterator<Item = Cause> {
    let active = status.active;
    Cause::ALL.into_iter().filter(move |cause| active & cause.bit() != 0)
}

/// The latched cause.
pub(super) fn latched(status: &LoopStatus) -> Option<Cause> {
    let bit = status.latched?;
    Cause::ALL.into_iter().find(|cause| *cause as u8 == bit)
}

impl BusStatus {
    fn of(bus: &BusCounters) -> BusStatus {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let taken = RecoveryStep::ALL.into_iter().map(|step| (step.name().to_string(), bus.taken(step)));
        BusStatus {
            name: bus.name.clone(),
            failures: count(&bus.failures),
            retries: count(&bus.retries),
            set_ups: count(&bus.set_ups),
            expired: count(&bus.expired),
            stops_again: count(&bus.stops_again),
            halts: count(&bus.halts),
            cuts: count(&bus.cuts),
            lost: bus.lost().map(String::from).collect(),
            recovery: taken.filter(|(_, times)| *times > 0).collect(),
            measures: bus.measures().map(|step| step.name().to_string()).collect(),
        }
    }
}

impl GuardSummary {
    fn of(link: &Link, required: bool) -> GuardSummary {
        use crate::runtime::guard::frame::Phase;
        let seen = link.look();
        GuardSummary {
            required,
            phase: seen.status.map_or("absent", |status| status.phase.name()).into(),
            reason: seen.status.and_then(|status| match status.phase {
                Phase::Tripped(reason) => Some(reason.name().into()),
                _ => None,
            }),
            line_on: seen.status.is_some_and(|status| status.line_on),
            trips: seen.status.map_or(0, |status| status.trips),
            refused: seen.refused.map(|refused| refused.reason().into()),
            connections: seen.connections,
        }
    }
}

impl Status {
    /// One line for display: the mode and any problems.
    pub fn line(&self) -> String {
        let mut line = self.mode.clone();
        let mut add = |words: &str| {
            line.push_str(if line.contains("; ") { ", " } else { "; " });
            line.push_str(words);
        };
        if self.simulated {
            add("simulated");
        }
        self.latched.iter().for_each(|cause| add(&format!("latched {cause}")));
        let disarmed = self.mode == Mode::Disarmed.name();
        self.disarmed_by.iter().filter(|why| disarmed && *why != ASKED).for_each(|why| add(why));
        self.causes.iter().for_each(|cause| add(cause));
        if self.engine_state != "running" {
            add(&format!("engine {}", self.engine_state));
        }
        if let Some(guard) = self.guard.as_ref().filter(|guard| guard.phase != "trusted") {
            add(&format!("guard {}", guard.phase));
        }
        self.remark.iter().filter(|_| self.armings == 0).for_each(|words| add(words));
        line
    }
}

#[cfg(test)]
impl Sources {
    /// The sources of a robot whose loop is not running.
    pub(crate) fn idle() -> Sources {
        Sources {
            board: "sim".into(),
            board_digest: String::new(),
            simulated: false,
            engine: "none".into(),
            measured: Arc::default(),
            loop_status: Arc::default(),
            requests: Arc::default(),
            buses: Vec::new(),
            senses: Arc::default(),
            link: None,
            guard_required: false,
            recollection: None,
            room: None,
            records_dropped: Arc::default(),
            remark: Arc::default(),
            recording: None,
            goals: None,
            patrol: Vec::new(),
            behaviours: Vec::new(),
            shape: RobotShape::default(),
            slices: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Span;

    #[test]
    fn status_of_a_simulated_robot_says_so_first() {
        let status = Sources { simulated: true, ..Sources::idle() }.status();
        assert!(status.line().split("; ").nth(1).is_some_and(|rest| rest.starts_with("simulated")));
        assert!(!Sources::idle().status().line().contains("simulated"));
    }

    #[test]
    fn floods_of_edges_halts_and_cuts_are_in_the_status() {
        let bus = Arc::new(BusCounters::new("i2c", []));
        bus.halts.store(3, Ordering::Relaxed);
        bus.cuts.store(1, Ordering::Relaxed);
        let sources = Sources { buses: vec![bus], ..Sources::idle() };
        sources.senses.edge_storms.store(2, Ordering::Relaxed);
        let status = sources.status();
        assert_eq!((status.edge_storms, status.buses[0].halts, status.buses[0].cuts), (2, 3, 1));
    }

    #[test]
    fn automatic_disarming_is_explained() {
        let lasted = Span::from_millis(5_010);
        let causes = Cause::SensorLost.bit() | Cause::FieldMissing.bit();
        let held = why_disarmed(Disarm::Stillness { lasted, causes });
        assert_eq!(held, "stood still for 5.0 s because of field-missing, sensor-lost");
        let stalled = why_disarmed(Disarm::Stillness { lasted, causes: 0 });
        assert_eq!(stalled, "stood still for 5.0 s because of loop-late");
        let slept = why_disarmed(Disarm::Slept { lasted: Span::from_millis(60_000) });
        assert_eq!(slept, "the machine slept for 60.0 s");
        assert_eq!(why_disarmed(Disarm::Asked), ASKED);
    }
}
