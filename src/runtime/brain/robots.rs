//! The table of a brain's robots: their engines, requests and counters. It has no sockets or threads, and the
//! caller passes the current time. When a robot joins, its engine is opened elsewhere and installed here. Its
//! requests wait here until a thread takes a request and the engine, computes, and returns the engine.

use super::admission::{Demand, Overload, admit};
use super::boards::ServedBoard;
use super::counters::{Counters, RobotRow};
use super::engine::{Computed, EngineOpener, RobotEngine, Unopened};
use super::schedule::{Choice, Pending, Queue, choose};
use crate::base::time::{Instant, Span};
use crate::field::remote::message::{CycleAnswer, CycleRequest, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A robot that was silent for this long is parked: its brain is saved and its engine dropped. A network
/// switch or a small computer restarts faster than this, so a robot that reboots still finds its engine.
pub const PARKED_AFTER: Span = Span::from_millis(60_000);
/// Pause before a failed engine is opened again; it doubles with each consecutive failure.
const FIRST_PAUSE: Span = Span::from_millis(500);
/// The longest such pause.
const LONGEST_PAUSE: Span = Span::from_millis(30_000);
/// After this long without a failure, the pause is short again.
const FORGIVEN: Span = Span::from_millis(60_000);
/// Longest name of a robot: it becomes the name of a file.
const LONGEST_NAME: usize = 64;

/// ID of a robot; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RobotId(pub u64);

/// The limits of a brain.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of robots at a time.
    pub robots: usize,
    /// Compute threads.
    pub threads: usize,
    /// Folder of the snapshots, one file per robot; `None`: brains are not saved.
    pub state: Option<PathBuf>,
}

/// Why a robot may not join.
#[derive(Debug)]
pub enum Refusal {
    /// Its name cannot be the name of a file.
    Name(String),
    /// The number of robots has reached its limit.
    Full(usize),
    /// All robots together could not be computed in time.
    Overload(Overload),
    /// Its engine cannot be opened.
    Unopened(Unopened),
    /// The robot is still served with another board or rate: its engine is computing or being opened.
    Busy,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Name(name) => write!(
                f,
                "the robot's name {name:?} has to be 1 to {LONGEST_NAME} letters, digits, '-', '_' or '.', and not \
                 begin with '.'"
            ),
            Refusal::Full(most) => write!(f, "{most} robots have joined, and the brain takes at most {most}"),
            Refusal::Overload(overload) => overload.fmt(f),
            Refusal::Unopened(why) => why.fmt(f),
            Refusal::Busy => f.write_str("the robot is still served with another board or rate; join again"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The next step of a join.
pub enum Joined {
    /// The robot has its engine.
    Ready(RobotId),
    /// The engine must be opened and installed.
    Opens(RobotId, EngineOpener),
    /// The engine is already being opened, or has failed and will be opened again.
    Waits(RobotId),
}

/// Slow work, which is done outside the table.
pub enum Chore {
    /// Open the engine of a robot and install it.
    Open(RobotId, EngineOpener),
    /// Let a robot's engine write its snapshot and end: the robot is silent, or the brain ends.
    Park {
        /// Name of the robot.
        name: String,
        /// How long the robot was silent.
        silent: Span,
        /// Its engine.
        engine: Box<RobotEngine>,
        /// Its row in the table.
        row: Box<RobotRow>,
    },
}

/// A cycle for a thread to compute.
pub struct Cycle {
    /// The robot.
    pub robot: RobotId,
    /// Its engine.
    pub engine: Box<RobotEngine>,
    /// Its request.
    pub pending: Pending,
}

/// The next task of a thread.
pub enum Task {
    /// Compute, and return the engine with [`Robots::done`].
    Compute(Cycle),
    /// Send this answer.
    Send(RobotId, CycleAnswer),
    /// Wait until this time or the next request.
    Wait(Instant),
}

/// What happens to a request that arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// The request waits to be computed.
    Waits,
    /// Answer it at once with this.
    Answer(CycleAnswer),
    /// The request is dropped, because the robot is unknown, or because the request has the wrong length or
    /// version, so that its cycle is unknown.
    Dropped,
}

/// State of a robot's engine.
enum EngineSlot {
    Opening,
    Ready(Box<RobotEngine>),
    InUse,
    Failed { again_at: Instant },
}

struct Robot {
    name: String,
    board: Arc<ServedBoard>,
    period: Span,
    slot: EngineSlot,
    engine_name: Option<String>,
    queue: Queue,
    counters: Counters,
    joined_at: Instant,
    last_seen: Instant,
    failures: u32,
    failed_at: Instant,
}

/// All robots.
pub struct Robots {
    limits: Limits,
    robots: BTreeMap<RobotId, Robot>,
    next: u64,
}

impl Robots {
    /// An empty table.
    pub fn new(limits: Limits) -> Robots {
        Robots { limits, robots: BTreeMap::new(), next: 1 }
    }

    /// Lets the robot `name` of `board` join, with one cycle per `period`.
    pub fn join(
        &mut self,
        name: &str,
        board: &Arc<ServedBoard>,
        period: Span,
        now: Instant,
    ) -> Result<Joined, Refusal> {
        if !is_file_name(name) {
            return Err(Refusal::Name(name.chars().take(LONGEST_NAME).collect()));
        }
        let known = self.robots.iter().find(|(_, robot)| robot.name == name).map(|(id, _)| *id);
        if let Some(id) = known {
            let robot = self.robots.get_mut(&id).expect("just found");
            if robot.board.digest == board.digest && robot.period == period {
                robot.last_seen = now;
                return Ok(match robot.slot {
                    EngineSlot::Ready(_) | EngineSlot::InUse => Joined::Ready(id),
                    EngineSlot::Opening | EngineSlot::Failed { .. } => Joined::Waits(id),
                });
            }
            if matches!(robot.slot, EngineSlot::InUse | EngineSlot::Opening) {
                return Err(Refusal::Busy);
            }
            self.robots.remove(&id);
        }
        if self.robots.len() >= self.limits.robots {
            return Err(Refusal::Full(self.limits.robots));
        }
        if let Some(cycle) = board.cycle() {
            self.admit(None, Demand { cycle, period })?;
        }
        let id = RobotId(self.next);
        self.next += 1;
        let opener = EngineOpener::kept_at(board.clone(), self.snapshot_of(name));
        self.robots.insert(id, Robot::new(name, board, period, now));
        Ok(Joined::Opens(id, opener))
    }

    /// Installs the opened engine of `id`. On an error the robot is refused and removed, unless its
    /// engine had failed before: then the robot stays, and its engine is opened again later.
    pub fn install(
        &mut self,
        id: RobotId,
        opened: Result<RobotEngine, Unopened>,
        now: Instant,
    ) -> Result<String, Refusal> {
        let fits = match (&opened, self.robots.get(&id)) {
            (Ok(_), Some(robot)) => match robot.board.cycle() {
                Some(cycle) => self.admit(Some(id), Demand { cycle, period: robot.period }),
                None => Ok(()),
            },
            _ => Ok(()),
        };
        let engine = match fits.and(opened.map_err(Refusal::Unopened)) {
            Ok(engine) => engine,
            Err(refusal) => {
                // For a robot whose engine has failed before, try again later; a new robot is refused.
                match self.robots.get_mut(&id) {
                    Some(robot) if robot.failures > 0 => robot.fail(now),
                    _ => _ = self.robots.remove(&id),
                }
                return Err(refusal);
            }
        };
        let name = engine.name();
        if let Some(robot) = self.robots.get_mut(&id) {
            robot.engine_name = Some(name.clone());
            robot.slot = EngineSlot::Ready(Box::new(engine));
            robot.last_seen = robot.last_seen.max(now);
        }
        Ok(name)
    }

    /// Checks whether the other robots leave enough time for `demand` of robot `id`; `None`: a new robot.
    fn admit(&self, id: Option<RobotId>, demand: Demand) -> Result<(), Refusal> {
        let others = self.robots.iter().filter(|(other, _)| Some(**other) != id);
        let present = others.filter_map(|(_, robot)| {
            let cycle = robot.counters.cycle_p99().or(robot.board.cycle())?;
            Some(Demand { cycle, period: robot.period })
        });
        admit(self.limits.threads, present, demand).map_err(Refusal::Overload)
    }

    fn snapshot_of(&self, name: &str) -> Option<PathBuf> {
        self.limits.state.as_deref().map(|folder| snapshot_in(folder, name))
    }

    /// Handles an encoded request from robot `id`.
    pub fn receive(&mut self, id: RobotId, bytes: &[u8], now: Instant) -> Arrival {
        let Some(robot) = self.robots.get_mut(&id) else { return Arrival::Dropped };
        robot.last_seen = now;
        robot.counters.requests += 1;
        let request = match CycleRequest::decode(bytes) {
            Ok(request) => request,
            Err(_) => {
                robot.counters.refused += 1;
                return CycleAnswer::refusing(bytes).map_or(Arrival::Dropped, Arrival::Answer);
            }
        };
        if matches!(robot.slot, EngineSlot::Opening | EngineSlot::Failed { .. }) {
            robot.counters.failed += 1;
            return Arrival::Answer(CycleAnswer::without(&request, Verdict::Failed));
        }
        robot.counters.replaced += u64::from(robot.queue.offer(Pending { request, arrived: now }));
        Arrival::Waits
    }

    /// What to do at `now`.
    pub fn next_task(&mut self, now: Instant) -> Task {
        let choice = choose(self.robots.iter().map(|(id, robot)| (*id, &robot.queue)), now);
        let id = match choice {
            Choice::Wait(until) => return Task::Wait(until),
            Choice::Compute(id) | Choice::Late(id) => id,
        };
        let robot = self.robots.get_mut(&id).expect("chosen among them");
        if let Choice::Late(_) = choice {
            let pending = robot.queue.drop_pending().expect("it was late");
            let mut answer = CycleAnswer::without(&pending.request, Verdict::Late);
            answer.waited = now.since(pending.arrived);
            robot.counters.count(&answer, pending.deadline(), now);
            return Task::Send(id, answer);
        }
        match std::mem::replace(&mut robot.slot, EngineSlot::InUse) {
            EngineSlot::Ready(engine) => {
                let pending = robot.queue.take(now).expect("it was chosen");
                Task::Compute(Cycle { robot: id, engine, pending })
            }
            // Its engine failed while the request waited.
            other => {
                robot.slot = other;
                let pending = robot.queue.drop_pending().expect("it was chosen");
                robot.counters.failed += 1;
                Task::Send(id, CycleAnswer::without(&pending.request, Verdict::Failed))
            }
        }
    }

    /// Takes back a cycle whose answer was ready at `ready`; keeps its engine if it is still usable.
    pub fn done(&mut self, cycle: Cycle, computed: &Computed, ready: Instant) {
        let Some(robot) = self.robots.get_mut(&cycle.robot) else { return };
        let Computed { answer, is_sound, busy } = computed;
        if answer.verdict == Verdict::Answered {
            robot.counters.record_busy(*busy);
        }
        robot.queue.done();
        robot.counters.count(answer, cycle.pending.deadline(), ready);
        if *is_sound {
            robot.slot = EngineSlot::Ready(cycle.engine);
        } else {
            robot.fail(ready); // drops the engine
        }
    }

    /// The slow work that is due at `now`: failed engines to open again, silent robots to park.
    pub fn chores(&mut self, now: Instant) -> Vec<Chore> {
        let mut chores = Vec::new();
        let folder = self.limits.state.clone();
        for (id, robot) in &mut self.robots {
            if matches!(robot.slot, EngineSlot::Failed { again_at } if now >= again_at) {
                robot.slot = EngineSlot::Opening;
                let snapshot = folder.as_deref().map(|folder| snapshot_in(folder, &robot.name));
                chores.push(Chore::Open(*id, EngineOpener::kept_at(robot.board.clone(), snapshot)));
            }
        }
        let is_silent = |robot: &Robot| now.since(robot.last_seen) >= PARKED_AFTER;
        let leaves = |robot: &Robot| {
            is_silent(robot) && !matches!(robot.slot, EngineSlot::InUse | EngineSlot::Opening)
        };
        let silent: Vec<RobotId> =
            self.robots.iter().filter(|(_, robot)| leaves(robot)).map(|(id, _)| *id).collect();
        chores.extend(silent.into_iter().filter_map(|id| self.park(id, now)));
        chores
    }

    /// Removes all robots, at the end; returns a chore for each engine that is ready, to park it.
    pub fn end(&mut self, now: Instant) -> Vec<Chore> {
        let all: Vec<RobotId> = self.robots.keys().copied().collect();
        all.into_iter().filter_map(|id| self.park(id, now)).collect()
    }

    fn park(&mut self, id: RobotId, now: Instant) -> Option<Chore> {
        let robot = self.robots.remove(&id)?;
        let row = Box::new(robot.row(now));
        let silent = now.since(robot.last_seen);
        match robot.slot {
            EngineSlot::Ready(engine) => Some(Chore::Park { name: robot.name, silent, engine, row }),
            EngineSlot::Opening | EngineSlot::InUse | EngineSlot::Failed { .. } => None,
        }
    }

    /// How many robots have joined.
    pub fn len(&self) -> usize {
        self.robots.len()
    }

    /// Whether no robot has joined.
    pub fn is_empty(&self) -> bool {
        self.robots.is_empty()
    }

    /// The name of a robot that has joined.
    pub fn name_of(&self, id: RobotId) -> Option<String> {
        self.robots.get(&id).map(|robot| robot.name.clone())
    }

    /// Name of a robot's engine; `None`: it has none at this moment.
    pub fn engine_name_of(&self, id: RobotId) -> Option<String> {
        self.robots.get(&id)?.engine_name.clone()
    }

    /// IDs of the robots that have joined.
    pub fn ids(&self) -> BTreeSet<RobotId> {
        self.robots.keys().copied().collect()
    }

    /// One row for each robot, sorted by name.
    pub fn rows(&self, now: Instant) -> Vec<RobotRow> {
        let mut rows: Vec<RobotRow> = self.robots.values().map(|robot| robot.row(now)).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    }

    /// The counters of all robots together.
    pub fn totals(&self) -> Counters {
        let mut all = Counters::default();
        self.robots.values().for_each(|robot| all.add(&robot.counters));
        all
    }
}

impl Robot {
    fn new(name: &str, board: &Arc<ServedBoard>, period: Span, now: Instant) -> Robot {
        Robot {
            name: name.to_string(),
            board: board.clone(),
            period,
            slot: EngineSlot::Opening,
            engine_name: None,
            queue: Queue::new(period),
            counters: Counters::default(),
            joined_at: now,
            last_seen: now,
            failures: 0,
            failed_at: Instant::ZERO,
        }
    }

    /// Drops the engine; it is opened again after a pause.
    fn fail(&mut self, now: Instant) {
        if now.since(self.failed_at) > FORGIVEN {
            self.failures = 0;
        }
        let pause = FIRST_PAUSE.times(1 << self.failures.min(16)).min(LONGEST_PAUSE);
        self.failures += 1;
        self.failed_at = now;
        self.engine_name = None;
        self.slot = EngineSlot::Failed { again_at: now + pause };
    }

    fn row(&self, now: Instant) -> RobotRow {
        RobotRow {
            name: self.name.clone(),
            board: self.board.board.name.clone(),
            engine: self.engine_name.clone(),
            joined_s: now.since(self.joined_at).as_secs_f64(),
            silent_s: now.since(self.last_seen).as_secs_f64(),
            ..self.counters.row()
        }
    }
}

/// The snapshot file of the robot `name`.
pub fn snapshot_in(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.brain"))
}

/// Whether a robot's name is a safe file name on any file system.
fn is_file_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.starts_with('.') && name.chars().all(plain)
}

#[cfg(test)]
mod tests;
