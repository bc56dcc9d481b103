//! The robots of a brain: who has joined, with which engine, what each asks and gets. No socket and no
//! thread: whoever calls gives the time. A robot joins, its engine is opened elsewhere and handed in; its
//! requests wait here until a thread takes the engine with the request, computes, and brings both back.

use super::admission::{Demand, Overload, admit};
use super::boards::ServedBoard;
use super::counters::{Counters, RobotRow};
use super::engine::{Computed, Opening, RobotEngine, Unopened};
use super::schedule::{Choice, Pending, Queue, choose};
use crate::base::time::{Instant, Span};
use crate::field::remote::message::{CycleAnswer, CycleRequest, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A robot that was silent for this long is parked: its brain is saved and its engine dropped. Longer than a
/// switch or a small computer takes to start again, so that what reboots finds its engine.
pub const PARKED_AFTER: Span = Span::from_millis(60_000);
/// Pause before an engine that failed is opened again; it doubles with each failure in a row.
const FIRST_PAUSE: Span = Span::from_millis(500);
/// The longest such pause.
const LONGEST_PAUSE: Span = Span::from_millis(30_000);
/// An engine that ran this long since its last failure has earned the short pause again.
const FORGIVEN: Span = Span::from_millis(60_000);
/// Longest name of a robot: it becomes the name of a file.
const LONGEST_NAME: usize = 64;

/// Which robot; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RobotId(pub u64);

/// What a brain may spend.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Robots at a time.
    pub robots: usize,
    /// Threads that compute.
    pub threads: usize,
    /// Folder of the snapshots, a file a robot; `None`: no brain outlives its engine.
    pub state: Option<PathBuf>,
}

/// Why a robot may not join.
#[derive(Debug)]
pub enum Refusal {
    /// Its name cannot be the name of a file.
    Name(String),
    /// There are as many robots as may be.
    Full(usize),
    /// They could not be computed in time.
    Overload(Overload),
    /// It gets no engine.
    Unopened(Unopened),
    /// It is being served with another board, and a cycle of it is under way.
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
            Refusal::Full(most) => write!(f, "{most} robots have joined, and the brain takes {most}"),
            Refusal::Overload(overload) => overload.fmt(f),
            Refusal::Unopened(why) => why.fmt(f),
            Refusal::Busy => f.write_str("the robot is served with another board at this moment; join again"),
        }
    }
}

impl std::error::Error for Refusal {}

/// How joining goes on.
pub enum Joined {
    /// The robot has its engine.
    Ready(RobotId),
    /// The engine has to be opened and handed in.
    Opens(RobotId, Opening),
    /// It is being opened already.
    Waits(RobotId),
}

/// What has to be done outside, because it takes time.
pub enum Chore {
    /// Open the engine of a robot and hand it in.
    Open(RobotId, Opening),
    /// Let the engine of a robot that was silent for long write its snapshot and end.
    Park {
        /// Name of the robot.
        name: String,
        /// For how long it was silent.
        silent: Span,
        /// Its engine.
        engine: Box<RobotEngine>,
        /// What was counted.
        row: Box<RobotRow>,
    },
}

/// A cycle for a thread to compute.
pub struct Cycle {
    /// Whose.
    pub robot: RobotId,
    /// With what.
    pub engine: Box<RobotEngine>,
    /// For which request.
    pub pending: Pending,
}

/// What a thread has to do next.
pub enum Task {
    /// Compute, and give the engine back with [`Robots::done`].
    Compute(Cycle),
    /// Send this answer.
    Send(RobotId, CycleAnswer),
    /// Nothing until this time or the next request.
    Wait(Instant),
}

/// What became of a request that arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// It waits to be computed.
    Waits,
    /// It is answered at once.
    Answer(CycleAnswer),
    /// Nobody asked, or nothing that could be answered: dropped.
    Dropped,
}

/// Where the engine of a robot is.
enum Seat {
    Opening,
    Ready(Box<RobotEngine>),
    InHand,
    Failed { again_at: Instant },
}

struct Robot {
    name: String,
    board: Arc<ServedBoard>,
    period: Span,
    seat: Seat,
    engine_name: Option<String>,
    queue: Queue,
    counters: Counters,
    joined_at: Instant,
    heard_at: Instant,
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
    /// None yet.
    pub fn new(limits: Limits) -> Robots {
        Robots { limits, robots: BTreeMap::new(), next: 1 }
    }

    /// Lets the robot `name` of `board` join, with a cycle every `period`.
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
                robot.heard_at = now;
                return Ok(match robot.seat {
                    Seat::Ready(_) | Seat::InHand => Joined::Ready(id),
                    Seat::Opening | Seat::Failed { .. } => Joined::Waits(id),
                });
            }
            if matches!(robot.seat, Seat::InHand | Seat::Opening) {
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
        let opening = Opening::kept_at(board.clone(), self.snapshot_of(name));
        self.robots.insert(id, Robot::new(name, board, period, now));
        Ok(Joined::Opens(id, opening))
    }

    /// Hands in what opening the engine of `id` came to. An error: the robot is refused, and gone.
    pub fn seat(
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
                // One that has been at work before tries again; one that joins is told.
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
            robot.seat = Seat::Ready(Box::new(engine));
            robot.heard_at = robot.heard_at.max(now);
        }
        Ok(name)
    }

    /// Whether all others leave time for `demand` of robot `id`.
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

    /// Takes the bytes of a request of robot `id`.
    pub fn receive(&mut self, id: RobotId, bytes: &[u8], now: Instant) -> Arrival {
        let Some(robot) = self.robots.get_mut(&id) else { return Arrival::Dropped };
        robot.heard_at = now;
        robot.counters.requests += 1;
        let request = match CycleRequest::decode(bytes) {
            Ok(request) => request,
            Err(_) => {
                robot.counters.refused += 1;
                return CycleAnswer::refusing(bytes).map_or(Arrival::Dropped, Arrival::Answer);
            }
        };
        if matches!(robot.seat, Seat::Opening | Seat::Failed { .. }) {
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
            robot.counters.note(&answer, pending.deadline(), now);
            return Task::Send(id, answer);
        }
        match std::mem::replace(&mut robot.seat, Seat::InHand) {
            Seat::Ready(engine) => {
                let pending = robot.queue.take(now).expect("it was chosen");
                Task::Compute(Cycle { robot: id, engine, pending })
            }
            // Its engine was taken away while the request waited.
            other => {
                robot.seat = other;
                let pending = robot.queue.drop_pending().expect("it was chosen");
                robot.counters.failed += 1;
                Task::Send(id, CycleAnswer::without(&pending.request, Verdict::Failed))
            }
        }
    }

    /// Takes a cycle back whose answer was ready at `ready`, with the engine unless it is not to be used
    /// again.
    pub fn done(&mut self, cycle: Cycle, computed: &Computed, ready: Instant) {
        let Some(robot) = self.robots.get_mut(&cycle.robot) else { return };
        let Computed { answer, is_sound, busy } = computed;
        if answer.verdict == Verdict::Answered {
            robot.counters.note_busy(*busy);
        }
        robot.queue.done();
        robot.counters.note(answer, cycle.pending.deadline(), ready);
        if *is_sound {
            robot.seat = Seat::Ready(cycle.engine);
        } else {
            robot.fail(ready); // and the engine is dropped here
        }
    }

    /// What is due at `now` and takes time: engines that failed are opened again, silent robots are parked.
    pub fn chores(&mut self, now: Instant) -> Vec<Chore> {
        let mut chores = Vec::new();
        let folder = self.limits.state.clone();
        for (id, robot) in &mut self.robots {
            if matches!(robot.seat, Seat::Failed { again_at } if now >= again_at) {
                robot.seat = Seat::Opening;
                let snapshot = folder.as_deref().map(|folder| snapshot_in(folder, &robot.name));
                chores.push(Chore::Open(*id, Opening::kept_at(robot.board.clone(), snapshot)));
            }
        }
        let is_silent = |robot: &Robot| now.since(robot.heard_at) >= PARKED_AFTER;
        let leaves = |robot: &Robot| is_silent(robot) && !matches!(robot.seat, Seat::InHand | Seat::Opening);
        let silent: Vec<RobotId> =
            self.robots.iter().filter(|(_, robot)| leaves(robot)).map(|(id, _)| *id).collect();
        chores.extend(silent.into_iter().filter_map(|id| self.park(id, now)));
        chores
    }

    /// The end: every engine that no thread has in hand.
    pub fn end(&mut self, now: Instant) -> Vec<Chore> {
        let all: Vec<RobotId> = self.robots.keys().copied().collect();
        all.into_iter().filter_map(|id| self.park(id, now)).collect()
    }

    fn park(&mut self, id: RobotId, now: Instant) -> Option<Chore> {
        let robot = self.robots.remove(&id)?;
        let row = Box::new(robot.row(now));
        let silent = now.since(robot.heard_at);
        match robot.seat {
            Seat::Ready(engine) => Some(Chore::Park { name: robot.name, silent, engine, row }),
            Seat::Opening | Seat::InHand | Seat::Failed { .. } => None,
        }
    }

    /// How many have joined.
    pub fn len(&self) -> usize {
        self.robots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.robots.is_empty()
    }

    /// The name of a robot that is here.
    pub fn name_of(&self, id: RobotId) -> Option<String> {
        self.robots.get(&id).map(|robot| robot.name.clone())
    }

    /// What computes a robot; `None`: nothing at this moment.
    pub fn engine_name_of(&self, id: RobotId) -> Option<String> {
        self.robots.get(&id)?.engine_name.clone()
    }

    /// Those that have joined.
    pub fn ids(&self) -> BTreeSet<RobotId> {
        self.robots.keys().copied().collect()
    }

    /// A row a robot, by name.
    pub fn rows(&self, now: Instant) -> Vec<RobotRow> {
        let mut rows: Vec<RobotRow> = self.robots.values().map(|robot| robot.row(now)).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    }

    /// What all robots together counted.
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
            seat: Seat::Opening,
            engine_name: None,
            queue: Queue::new(period),
            counters: Counters::default(),
            joined_at: now,
            heard_at: now,
            failures: 0,
            failed_at: Instant::ZERO,
        }
    }

    /// Its engine is not to be used any more, and is opened again after a pause.
    fn fail(&mut self, now: Instant) {
        if now.since(self.failed_at) > FORGIVEN {
            self.failures = 0;
        }
        let pause = FIRST_PAUSE.times(1 << self.failures.min(16)).min(LONGEST_PAUSE);
        self.failures += 1;
        self.failed_at = now;
        self.engine_name = None;
        self.seat = Seat::Failed { again_at: now + pause };
    }

    fn row(&self, now: Instant) -> RobotRow {
        RobotRow {
            name: self.name.clone(),
            board: self.board.board.name.clone(),
            engine: self.engine_name.clone(),
            joined_s: now.since(self.joined_at).as_secs_f64(),
            silent_s: now.since(self.heard_at).as_secs_f64(),
            ..self.counters.row()
        }
    }
}

/// The file of the snapshot of the robot `name`.
pub fn snapshot_in(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.brain"))
}

/// Whether a robot's name is safe as the name of a file, whatever the file system.
fn is_file_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.starts_with('.') && name.chars().all(plain)
}

#[cfg(test)]
mod tests;
