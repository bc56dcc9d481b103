//! The engine of one robot, with its own state, read-out, library, bank and snapshots. A panic or a result
//! that is not finite ends only this engine.

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

/// How often a robot's brain is saved. A crash of the machine loses at most this much; more often would be
/// too much for a disk that 64 robots share.
const SAVE_EVERY: Span = Span::from_millis(30_000);
/// Longest wait for a buffer for a robot's last snapshot, and then for the snapshot to be written.
const LAST_SNAPSHOT: Duration = Duration::from_secs(3);
/// Cycles before the measured ones: the first cycles touch memory and fill caches.
const WARM_UP: u64 = 16;
/// Number of measured cycles. The second longest counts; the longest is blamed on the rest of the machine.
const MEASURED: u64 = 100;
/// Time limit of the measurement, because a cycle of a large field takes tens of milliseconds.
const LONGEST_MEASUREMENT: Span = Span::from_millis(2_000);

/// Why a robot gets no engine.
#[derive(Debug)]
pub enum Unopened {
    /// The engine needs more memory than is available.
    Room(NoRoom),
    /// Its snapshot cannot be used.
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Why the snapshot cannot be used.
        error: SnapshotError,
    },
    /// The requested GPU is not available.
    Device(NoDevice),
    /// The engine cannot be built.
    Brain(BrainError),
    /// The thread that writes its snapshots cannot be started.
    Thread(std::io::Error),
    /// Building the engine panicked.
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

/// Everything that is needed to open the engine of a robot.
pub struct EngineOpener {
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

/// The result of a request.
pub struct Computed {
    /// The answer.
    pub answer: CycleAnswer,
    /// Whether the engine may continue; if not, it must be opened again.
    pub is_sound: bool,
    /// Time for which its thread could do nothing else: CPU time, or elapsed time if a device computes.
    pub busy: Span,
}

/// Measures how long a cycle occupies its thread. It counts CPU time: otherwise, another program that takes
/// the core for a while would make cycles look longer and keep robots from joining.
struct Busy {
    /// `None`: a device computes or time is virtual, so elapsed time counts.
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

impl EngineOpener {
    /// An opener for a robot of `board` that starts at rest and whose brain is not saved.
    pub fn at_rest(board: Arc<ServedBoard>) -> EngineOpener {
        EngineOpener { board, snapshot: None, around: None }
    }

    /// An opener for a robot of `board` whose brain is read from and saved to the file `snapshot`, if given.
    pub fn kept_at(board: Arc<ServedBoard>, snapshot: Option<PathBuf>) -> EngineOpener {
        EngineOpener { board, snapshot, around: None }
    }

    /// Wraps the engine's cycle, so that a test can make it fail.
    #[cfg(test)]
    pub fn with_cycle(mut self, around: Cycle<dyn Inspect>) -> EngineOpener {
        self.around = Some(around);
        self
    }

    /// The board.
    pub fn board(&self) -> &Arc<ServedBoard> {
        &self.board
    }

    /// Opens the engine. This allocates memory, reads a file and may take seconds.
    pub fn open(self, clock: Arc<dyn Clock>) -> Result<RobotEngine, Unopened> {
        // After a panic, no part of the half-built engine is used.
        catch_unwind(AssertUnwindSafe(|| self.open_or_panic(clock))).unwrap_or(Err(Unopened::Panicked))
    }

    fn open_or_panic(self, clock: Arc<dyn Clock>) -> Result<RobotEngine, Unopened> {
        let EngineOpener { board: served, snapshot: path, around } = self;
        let board = &served.board;
        room::demand(footprint::field_bytes(&board.field)).map_err(Unopened::Room)?;
        let found = path.as_ref().map_or(Ok(None), |path| {
            let found = Snapshot::find(path, board);
            found.map_err(|error| Unopened::Snapshot { path: path.clone(), error })
        })?;
        let (resume, existing) = match found {
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
        let keep = |path| brain.keep(board, path, existing, SAVE_EVERY, Beside { map: None });
        let kept = path.map(keep).transpose().map_err(Unopened::Thread)?;
        let age = resume.map(|snapshot| snapshot.state().live.age);
        let shape = board.field.shape;
        let resumed_age = age.filter(|age| *age > 0);
        Ok(RobotEngine { brain, sensors: shape.sensors, motors: shape.motors, kept, resumed_age })
    }
}

impl RobotEngine {
    /// What computes the field, and why.
    pub fn name(&self) -> String {
        self.brain.engine.name()
    }

    /// Cycles that the brain had computed when it was opened; `None`: it started at rest.
    pub fn resumed_age(&self) -> Option<u64> {
        self.resumed_age
    }

    /// Computes one cycle.
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

    /// Work that can wait until the answer is sent: maintains the device, passes a snapshot to its writer.
    pub fn do_chores(&mut self, now: Instant) {
        self.brain.engine.maintain(now);
        if let Some((schedule, _)) = &mut self.kept {
            schedule.maintain(&mut *self.brain.engine, now);
        }
    }

    /// Ends the engine and writes its last snapshot; returns the snapshot counts, if its brain is saved.
    pub fn finish(mut self) -> Option<SnapshotCounts> {
        let (schedule, writer) = self.kept.as_mut()?;
        schedule.finish(&mut *self.brain.engine, LAST_SNAPSHOT);
        Some(writer.end(LAST_SNAPSHOT))
    }

    /// Runs cycles at the best quality; returns the 99th percentile of the time for which one occupies its
    /// thread.
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
            let _ = self.brain.engine.cycle(&input); // a failed cycle also takes time
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
