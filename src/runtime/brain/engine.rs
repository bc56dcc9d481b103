//! The engine of one robot: its own state, read-out, library and bank, its snapshots, and one cycle of it. A
//! panic or a number that is none ends this engine and no other.

use super::boards::ServedBoard;
use super::schedule::Pending;
use crate::base::plan::QualityLevel;
use crate::base::time::{Clock, Instant, Span};
use crate::field::brain::{Before, Brain, BrainError, NoAnswer};
use crate::field::device::NoDevice;
use crate::field::engine::Cycle;
use crate::field::remote::message::{CycleAnswer, CycleRequest, Verdict};
use crate::field::snapshot::{
    Beside, ExistingSnapshot, Snapshot, SnapshotCounts, SnapshotError, SnapshotSchedule, SnapshotWriter,
    UsableSnapshot,
};
use crate::field::{FieldInput, Inspect, footprint};
use crate::system::rt::room::{self, NoRoom};
use crate::system::rt::thread_time;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A robot's brain is written this often: what a crash of the machine may cost, against a disk that 64 robots
/// share.
const SAVE_EVERY: Span = Span::from_millis(30_000);
/// How long the end of a robot waits for its last snapshot.
const LAST_SNAPSHOT: Duration = Duration::from_secs(3);
/// Cycles before those that are measured: the first touch memory and fill caches.
const WARM_UP: u64 = 16;
/// Cycles that are measured; of these the second longest counts, because the longest is the machine's.
const MEASURED: u64 = 100;
/// The measurement ends after this long at the latest: a large field takes tens of milliseconds a cycle.
const LONGEST_MEASUREMENT: Span = Span::from_millis(2_000);

/// Why a robot gets no engine.
#[derive(Debug)]
pub enum Unopened {
    /// It needs more memory than there is.
    Room(NoRoom),
    /// Its snapshot cannot be used.
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: SnapshotError,
    },
    /// The GPU that was asked for is not there.
    Device(NoDevice),
    /// The engine cannot be built.
    Brain(BrainError),
    /// The thread that writes its snapshots cannot be started.
    Thread(std::io::Error),
    /// Building it panicked.
    Panicked,
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unopened::Room(error) => write!(f, "not enough memory on the brain: {error}"),
            Unopened::Snapshot { path, error } => {
                write!(f, "{}: {error}; move the file away to start from rest", path.display())
            }
            Unopened::Device(error) => error.fmt(f),
            Unopened::Brain(error) => error.fmt(f),
            Unopened::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Unopened::Panicked => f.write_str("building the engine failed inside the brain"),
        }
    }
}

impl std::error::Error for Unopened {}

/// What it takes to open the engine of a robot.
pub struct Opening {
    board: Arc<ServedBoard>,
    snapshot: Option<PathBuf>,
    around: Option<Cycle<dyn Inspect>>,
}

/// The engine of one robot.
pub struct RobotEngine {
    brain: Brain,
    sensors: usize,
    motors: usize,
    kept: Option<(SnapshotSchedule, SnapshotWriter)>,
    resumed_age: Option<u64>,
}

/// What became of a request.
pub struct Computed {
    /// The answer.
    pub answer: CycleAnswer,
    /// Whether the engine may go on; if not, it has to be opened again.
    pub is_sound: bool,
    /// Time that its thread could do nothing else: the processor's, or all of it where a device computes.
    pub busy: Span,
}

/// Measures how long a thread is kept from other work. Another program that takes the core for a while does
/// not make a cycle longer, and must not keep robots from joining.
struct Busy {
    /// `None`: a device computes, or time is virtual, and the clock counts.
    processor: Option<Span>,
    start: Instant,
}

impl Busy {
    fn begin(clock: &dyn Clock, is_on_device: bool) -> Busy {
        let processor = (clock.is_real() && !is_on_device).then(thread_time);
        Busy { processor, start: clock.now() }
    }

    fn end(&self, clock: &dyn Clock) -> Span {
        self.processor.map_or_else(|| clock.now().since(self.start), |start| thread_time().less(start))
    }
}

impl Opening {
    /// The engine of a robot of `board` at rest, which no file keeps.
    pub fn at_rest(board: Arc<ServedBoard>) -> Opening {
        Opening { board, snapshot: None, around: None }
    }

    /// The engine of a robot of `board` whose brain is kept in the file at `snapshot`, if there is one.
    pub fn kept_at(board: Arc<ServedBoard>, snapshot: Option<PathBuf>) -> Opening {
        Opening { board, snapshot, around: None }
    }

    /// The same with a cycle around the engine's own, which fails as a test wants it to.
    #[cfg(test)]
    pub fn with_cycle(mut self, around: Cycle<dyn Inspect>) -> Opening {
        self.around = Some(around);
        self
    }

    /// The board.
    pub fn board(&self) -> &Arc<ServedBoard> {
        &self.board
    }

    /// Opens it, which takes memory, reads a file and may take seconds.
    pub fn open(self, clock: Arc<dyn Clock>) -> Result<RobotEngine, Unopened> {
        // Nothing of what a panic leaves half-made is used.
        catch_unwind(AssertUnwindSafe(|| self.open_or_panic(clock))).unwrap_or(Err(Unopened::Panicked))
    }

    fn open_or_panic(self, clock: Arc<dyn Clock>) -> Result<RobotEngine, Unopened> {
        let Opening { board: served, snapshot: path, around } = self;
        let board = &served.board;
        room::demand(footprint::field_bytes(&board.field)).map_err(Unopened::Room)?;
        let found = path.as_ref().map_or(Ok(None), |path| {
            let found = Snapshot::find(path, board);
            found.map_err(|error| Unopened::Snapshot { path: path.clone(), error })
        })?;
        let (resume, standing) = match found {
            Some(UsableSnapshot { snapshot, in_place_of: None }) => (Some(snapshot), ExistingSnapshot::Sound),
            Some(UsableSnapshot { snapshot, in_place_of: Some(_) }) => {
                (Some(snapshot), ExistingSnapshot::Refused)
            }
            None => (None, ExistingSnapshot::Sound),
        };
        #[cfg(not(test))]
        let readout = None;
        #[cfg(test)]
        let readout = served.tried_readout(resume.is_none());
        let device = served.device().map_err(Unopened::Device)?;
        let before = Before { device, cycle: around, ..Before::default() };
        let mut brain =
            Brain::resume(board, readout, resume.as_ref(), before, clock).map_err(Unopened::Brain)?;
        let keep = |path| brain.keep(board, path, standing, SAVE_EVERY, Beside { map: None });
        let kept = path.map(keep).transpose().map_err(Unopened::Thread)?;
        let age = resume.map(|snapshot| snapshot.state().live.age);
        let shape = board.field.shape;
        let resumed_age = age.filter(|age| *age > 0);
        Ok(RobotEngine { brain, sensors: shape.sensors, motors: shape.motors, kept, resumed_age })
    }
}

impl RobotEngine {
    /// What computes, and why.
    pub fn name(&self) -> String {
        self.brain.engine.name()
    }

    /// Cycles that it had lived through when it was opened; `None`: it started at rest.
    pub fn resumed_age(&self) -> Option<u64> {
        self.resumed_age
    }

    /// One cycle.
    pub fn answer(&mut self, pending: &Pending, clock: &dyn Clock) -> Computed {
        let request = &pending.request;
        let start = clock.now();
        let busy = Busy::begin(clock, self.brain.engine.device_name().is_some());
        let (answer, is_sound) = self.compute(request, clock);
        let busy = busy.end(clock);
        let waited = start.since(pending.arrived);
        let answer = CycleAnswer { computed: clock.now().since(start), waited, ..answer };
        Computed { answer, is_sound, busy }
    }

    fn compute(&mut self, request: &CycleRequest, clock: &dyn Clock) -> (CycleAnswer, bool) {
        let without = |verdict| CycleAnswer::without(request, verdict);
        if usize::from(request.count) != self.sensors {
            return (without(Verdict::Refused), true);
        }
        match self.brain.cycle(&request.input(), clock) {
            Ok(response) => (CycleAnswer::answered(request, &response, self.motors), true),
            Err(NoAnswer::Refused) => (without(Verdict::Refused), true),
            Err(NoAnswer::Missed) => (without(Verdict::Failed), true),
            Err(NoAnswer::Unsound) => (without(Verdict::Failed), false),
        }
    }

    /// What can wait until the answer is out: tends the device, hands a snapshot to its writer.
    pub fn do_chores(&mut self, now: Instant) {
        self.brain.engine.maintain(now);
        if let Some((schedule, _)) = &mut self.kept {
            schedule.maintain(&mut *self.brain.engine, now);
        }
    }

    /// Its end: the last snapshot is written. What was written, if anything is.
    pub fn finish(mut self) -> Option<SnapshotCounts> {
        let (schedule, writer) = self.kept.as_mut()?;
        schedule.finish(&mut *self.brain.engine, LAST_SNAPSHOT);
        Some(writer.end(LAST_SNAPSHOT))
    }

    /// Runs cycles at the best quality and returns the 99th percentile of the time that they keep a thread.
    pub(super) fn measure(&mut self, clock: &dyn Clock) -> Span {
        let mut longest = [Span::ZERO; 2];
        let until = clock.now() + LONGEST_MEASUREMENT;
        for cycle in 0..WARM_UP + MEASURED {
            let start = clock.now();
            if cycle > 1 && start >= until {
                break;
            }
            let busy = Busy::begin(clock, self.brain.engine.device_name().is_some());
            let input = FieldInput { cycle, quality: QualityLevel::BEST, ..FieldInput::AT_REST };
            let _ = self.brain.engine.cycle(&input); // one that fails took its time as well
            let took = busy.end(clock);
            if cycle == WARM_UP {
                longest = [Span::ZERO; 2];
            }
            longest = match took {
                took if took > longest[0] => [took, longest[0]],
                took => [longest[0], longest[1].max(took)],
            };
        }
        longest[1]
    }
}
