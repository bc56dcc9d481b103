//! Assembles a robot from a checked board and a clock: the workers and the tick, connected by ring buffers
//! and triple buffers. This is the only place that knows every part; it decides nothing. `runner.rs` runs the
//! robot.
//!
//! `wire_up` creates the workers for the buses and lines, simulated or real; `devices` knows which sensors
//! share a chip; `computer` replaces the kernel's files in a simulation.

mod computer;
mod devices;
mod injector;
mod wire_up;

use crate::base::plan::{Board, BusPlan, QualityLevel};
use crate::base::time::{Clock, Grid, Instant, Span};
use crate::drive::fast_stop_events::FastStopReceiver;
use crate::drive::io::{BusCounters, Halt, LogRows, SenseCounters};
use crate::drive::record::RecordSender;
use crate::drive::trace::{Record, TRACE_RING};
use crate::field::brain::{Before, Brain, BrainError};
use crate::field::engine::Cycle;
use crate::field::failover::Open;
use crate::field::link::FieldLink;
use crate::field::navigate::Driver;
use crate::field::navigate::goals::{GoalSender, GoalStage, Task};
use crate::field::navigate::navigator::{self, Navigator};
use crate::field::remote::{LinkWords, Tether};
use crate::field::sensor_ring::SensorWriter;
use crate::field::slices::{NewestSlices, SliceSchedule};
use crate::field::snapshot::{
    Beside, CopyMap, ExistingSnapshot, Snapshot, SnapshotError, SnapshotSchedule, SnapshotWriter,
};
use crate::field::worker::{FieldRequest, FieldResult, FieldWorker};
use crate::field::{Inspect, Readout, ReadoutError, footprint};
use crate::hardware::bus::{Hardware, OpenError};
use crate::memory::map::{Feed, Recollection};
use crate::runtime::guard::GuardHealth;
use crate::runtime::loop_status::LoopStatusCell;
use crate::runtime::requests::Requests;
use crate::runtime::tick::{Deciders, Parts, Tick};
use crate::sim::{Fault, FieldFaults, Plant};
use crate::system::executor::{Waker, Worker};
use crate::system::gpu::Watch;
use crate::system::rt::room::{self, NoRoom};
use crate::system::rt::triple_buffer::triple_buffer;
use crate::system::rt::{Refusal, Role};
pub(crate) use devices::actuators;
pub use devices::motor_lines;
use injector::FaultInjector;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use wire_up::{World, motor_line, wire_up};

/// What a run adds to a board.
#[derive(Default)]
pub struct Options {
    /// Seed of the simulated world and its noise.
    pub seed: u64,
    /// Faults that the simulator injects.
    pub faults: Vec<Fault>,
    /// Learned read-out weights; without them the starting table drives alone.
    pub readout: Option<Readout>,
    /// Rows of a log, for boards whose bus is a log.
    pub log: Option<LogRows>,
    /// A brain to resume; its read-out is used unless another is given.
    pub resume: Option<Snapshot>,
    /// Where the brain is saved.
    pub snapshots: Option<SnapshotPlan>,
    /// Requests from users and signals. An option, because some threads need them before the robot is built.
    pub requests: Arc<Requests>,
    /// The loop's status, an option for the same reason.
    pub loop_status: Arc<LoopStatusCell>,
    /// The tick's view of the guard, if the board requires one.
    pub guard: Option<GuardHealth>,
    /// Opens the device that computes the field; without it, the CPU computes.
    pub device: Option<Open>,
    /// The link to the brain that computes the field, for a tethered board; without it, this machine computes
    /// the same field.
    pub tether: Option<Tether>,
    /// The device's watch, into which scripted faults are injected.
    pub watch: Arc<Watch>,
    /// Every cycle runs at this quality level; without it, the budget chooses.
    pub quality: Option<QualityLevel>,
    /// Accept a read-out that did not pass its trial.
    pub untried: bool,
    /// Wraps the cycle of the CPU engine; in simulations only.
    pub around: Option<Cycle<dyn Inspect>>,
    /// The wires of a board on real hardware. A simulated board has its own, but uses these if given.
    pub hardware: Option<Arc<dyn Hardware>>,
    /// Where the slots are recorded.
    pub recording: Option<RecordSender>,
    /// What the robot does first, on a board that has a navigator.
    pub task: Task,
    /// Drives to a goal in place of the board's navigator; in studies only.
    pub driver: Option<Box<dyn Driver>>,
}

/// Where the brain is saved, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPlan {
    /// The file; each write replaces it atomically.
    pub path: PathBuf,
    /// Interval between writes. Another write follows at the end.
    pub every: Span,
    /// State of the file before the first write.
    pub existing: ExistingSnapshot,
}

/// Why a robot cannot be built.
#[derive(Debug)]
pub enum BuildError {
    /// The board uses real wires and none were given.
    NoBus {
        /// Name of the board.
        board: String,
    },
    /// A wire cannot be opened.
    Wires(OpenError),
    /// The board's bus is a log and none was given.
    NoLog,
    /// A sensor or motor of the board does not fit on its bus.
    Misfit {
        /// What does not fit.
        what: String,
    },
    /// The read-out was made for another field.
    Readout(ReadoutError),
    /// The snapshot was made for another field.
    Snapshot(SnapshotError),
    /// The field needs more memory than is available.
    Room(NoRoom),
    /// The engine cannot be built.
    Brain(BrainError),
    /// The thread that writes snapshots cannot be started.
    Thread(std::io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoBus { board } => write!(
                f,
                "board '{board}' uses real I2C and GPIO, but no wires were opened for it; \
                 'ganglion run --simulate' with this board drives it in the simulator"
            ),
            BuildError::Wires(error) => error.fmt(f),
            BuildError::NoLog => write!(f, "this board reads a log: use 'ganglion replay --log FILE'"),
            BuildError::Misfit { what } => write!(f, "{what}"),
            BuildError::Readout(error) => error.fmt(f),
            BuildError::Snapshot(error) => error.fmt(f),
            BuildError::Room(error) => write!(f, "not enough memory for the field: {error}"),
            BuildError::Brain(error) => error.fmt(f),
            BuildError::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for BuildError {}

/// A worker, and what is needed to run it.
pub struct WorkerThread {
    /// The worker.
    pub worker: Box<dyn Worker>,
    /// What wakes it.
    pub waker: Arc<Waker>,
    /// Its priority among the threads.
    pub role: Role,
}

/// The device that computes the field, or did until it was lost.
#[derive(Clone, Debug, Default)]
pub struct Device {
    /// Its product name; `None`: it could not be opened when the robot was built.
    pub name: Option<String>,
}

/// A robot that has not been started.
pub struct Robot {
    /// Runs one control period.
    pub tick: Tick,
    /// Everything except the tick.
    pub workers: Vec<WorkerThread>,
    /// Records of the slots.
    pub records: rtrb::Consumer<Record>,
    /// Records that did not fit into the ring.
    pub records_dropped: Arc<AtomicU64>,
    /// Counters of each bus thread, the motors' first.
    pub buses: Vec<Arc<BusCounters>>,
    /// Counters of all sensors.
    pub senses: Arc<SenseCounters>,
    /// Stops the motors at once; the tick decides what happens next.
    pub halt: Arc<Halt>,
    /// The simulated world, if there is one.
    pub plant: Option<Plant>,
    /// Where the slots are recorded.
    pub recording: Option<RecordSender>,
    /// Passes each slot's record to the map, if the board has one.
    pub feed: Option<Feed>,
    /// The map, for queries.
    pub recollection: Option<Recollection>,
    /// Requests from users, signals and the guard.
    pub requests: Arc<Requests>,
    /// The loop's status.
    pub loop_status: Arc<LoopStatusCell>,
    /// What computes the field, and why.
    pub engine_name: String,
    /// The device that was given to the field; `None`: only the CPU computes it.
    pub device: Option<Device>,
    /// The settings that the system refused for the engine's own threads.
    pub engine_refusals: Vec<Refusal>,
    /// Messages about the link to a remote brain, if one computes the field.
    pub link_words: Option<Arc<LinkWords>>,
    /// Writes the brain's snapshots, if they are saved. Take it out before the robot runs, and call its `end`
    /// after the run.
    pub snapshots: Option<SnapshotWriter>,
    /// Cycles that the brain had computed when it was loaded; `None`: it started at rest.
    pub resumed_age: Option<u64>,
    /// Scripted faults that have no target on this robot: the name of each, and why.
    pub idle_faults: Vec<(&'static str, &'static str)>,
    /// Gives orders to the navigator, on a board that has one.
    pub goals: Option<GoalSender>,
    /// Slices through the field, for users who watch the robot in real time.
    pub slices: Option<NewestSlices>,
}

impl Robot {
    /// Builds a robot on `clock`, with its first slot at `first`. Nothing runs yet; all memory is allocated
    /// here.
    pub fn build(
        board: &Board,
        clock: Arc<dyn Clock>,
        first: Instant,
        options: Options,
    ) -> Result<Robot, BuildError> {
        let link_words = options.tether.as_ref().map(|tether| tether.words.clone());
        let is_remote = link_words.is_some();
        room::demand(memory_needed(board, is_remote)).map_err(BuildError::Room)?;
        // The engine is built first, because building it is slow, and fault times count from the creation of
        // the simulator.
        let resume = options.resume.as_ref();
        let has_device = options.device.is_some();
        let before = Before { device: options.device, cycle: options.around, tether: options.tether };
        let mut brain = brain(board, options.readout, options.untried, resume, before, clock.clone())?;
        let (engine_name, engine_refusals) = (brain.engine.name(), std::mem::take(&mut brain.refusals));
        let device = has_device.then(|| Device { name: brain.engine.device_name() });
        let idle = |fault: &Fault| Some((fault.kind.name(), fault.idle(board, has_device)?));
        let idle_faults = options.faults.iter().filter_map(idle).collect();
        let lived = resume.map(|snapshot| &snapshot.state().live).filter(|live| live.age > 0);
        let (resumed_age, last_cycle) = (lived.map(|live| live.age), lived.map(|live| live.cycle));
        let (motor_link, ends) = motor_line(&board.motors);
        let world = World {
            seed: options.seed,
            faults: &options.faults,
            log: options.log,
            hardware: options.hardware,
        };
        let wired = wire_up(board, &clock, first, world, ends)?;
        let (mut workers, plant) = (wired.workers, wired.plant);
        let (feed, recollection) = wired.map.unzip();
        if let (Some(recollection), Some(places)) = (&recollection, resume.and_then(Snapshot::map)) {
            let resumed = recollection.with(|map| map.restore(places));
            resumed.map_err(|error| BuildError::Snapshot(SnapshotError::State(error)))?;
        }
        let beside = Beside { map: recollection.as_ref().map(copied) };
        let keep = |SnapshotPlan { path, existing, every }| brain.keep(board, path, existing, every, beside);
        let kept = options.snapshots.map(keep).transpose().map_err(BuildError::Thread)?;
        let mut recording = options.recording;
        let tap = recording.as_mut().and_then(RecordSender::field_copy_tap).filter(|_| !is_remote);
        let copies = tap.map(|tap| brain.copy_when_asked(board, tap.asked(), move |copy| tap.send(copy)));
        let copies = copies.transpose().map_err(BuildError::Thread)?.flatten();
        let (requests, loop_status) = (options.requests, options.loop_status);
        let (trace, records) = rtrb::RingBuffer::new(TRACE_RING);
        let records_dropped = Arc::new(AtomicU64::new(0));
        let zero = plant.as_ref().map_or(first, Plant::zero);
        let faults = FieldFaults::new(&options.faults, zero);
        let modelled = (!clock.is_real() && !is_remote).then_some(match board.bus {
            BusPlan::Log => Span::ZERO, // a log is replayed as fast as possible: the field takes no time
            _ => board.budget.target,
        });
        if modelled.is_some() || !faults.is_empty() {
            let injector = FaultInjector { faults, watch: options.watch, modelled, clock: clock.clone() };
            brain.engine = injector.around(brain.engine);
        }
        let (schedule, snapshots) = kept.unzip();
        let navigator = || {
            let settings = navigator::Options { seed: options.seed, ..navigator::Options::default() };
            Some(Box::new(Navigator::of(board, settings)?) as Box<dyn Driver>)
        };
        let driver = options.driver.or_else(navigator);
        let (stage, goals) =
            driver.and_then(|driver| GoalStage::of(board, driver, options.task, options.seed)).unzip();
        let (watched, slices) = clock.is_real().then(NewestSlices::channel).unzip();
        let recorded = recording.as_mut().and_then(RecordSender::slice_tap);
        let readers = SliceSchedule::new(watched.into_iter().chain(recorded).collect());
        let mut field = link_field(board, brain, ([schedule, copies], stage, readers), &mut workers);
        last_cycle.into_iter().for_each(|last| field.continue_after(last));
        let mut tick = Tick::new(Parts {
            requests: requests.clone(),
            grid: Grid::new(first, board.period),
            readings: wired.readings,
            fast_stops: FastStopReceiver::new(wired.halt.clone(), wired.senses.readings_dropped.clone()),
            deciders: Deciders::of(board, options.quality),
            field,
            motor_link,
            trace,
            records_dropped: records_dropped.clone(),
            loop_status: loop_status.clone(),
            guard: options.guard,
            clock,
        });
        if let Some(sender) = &mut recording {
            let (readings, checkpoints) = sender.taps();
            tick.record_to(readings, checkpoints);
        }
        Ok(Robot {
            tick,
            workers,
            records,
            records_dropped,
            buses: wired.buses,
            senses: wired.senses,
            halt: wired.halt,
            plant,
            recording,
            feed,
            recollection,
            requests,
            loop_status,
            engine_name,
            device,
            engine_refusals,
            link_words,
            snapshots,
            resumed_age,
            idle_faults,
            goals,
            slices,
        })
    }
}

/// Bytes that the field takes on this machine: with a remote brain, only those of the standby field.
fn memory_needed(board: &Board, is_remote: bool) -> u64 {
    let local = board.tether.as_ref().filter(|_| is_remote).map(|tether| tether.local(&board.field));
    match local {
        None => footprint::field_bytes(&board.field),
        Some(local) => local.as_ref().map_or(0, footprint::field_bytes),
    }
}

/// The engine that computes the field, with the given read-out and the snapshot to resume from. Both must
/// have been made for this board. A read-out of zeros leaves the driving to the starting table, if there is
/// one.
fn brain(
    board: &Board,
    readout: Option<Readout>,
    untried: bool,
    resume: Option<&Snapshot>,
    mut before: Before,
    clock: Arc<dyn Clock>,
) -> Result<Brain, BuildError> {
    if let (Some(plan), Some(tether)) = (&board.tether, before.tether.take()) {
        return Ok(Brain::remote(board, plan, tether, clock));
    }
    if let Some(readout) = &readout {
        readout.check(board).map_err(BuildError::Readout)?;
        if readout.has_failed() && !untried {
            return Err(BuildError::Readout(ReadoutError::Failed));
        }
    }
    if let Some(snapshot) = resume {
        snapshot.check(board).map_err(BuildError::Snapshot)?;
    }
    Brain::resume(board, readout, resume, before, clock).map_err(BuildError::Brain)
}

/// A function that copies the map for a snapshot; the snapshot writer calls it.
fn copied(recollection: &Recollection) -> CopyMap {
    let recollection = recollection.clone();
    Box::new(move |places| recollection.with(|map| map.save(places)))
}

/// Creates the worker that runs the engine, and returns the tick's end of the link.
fn link_field(
    board: &Board,
    brain: Brain,
    (snapshots, goals, slices): ([Option<SnapshotSchedule>; 2], Option<GoalStage>, SliceSchedule),
    workers: &mut Vec<WorkerThread>,
) -> FieldLink {
    let (requests, taken) = triple_buffer(FieldRequest::EMPTY);
    let (results, collected) = triple_buffer(FieldResult::EMPTY);
    let waker: Arc<Waker> = Arc::default();
    let sensors = SensorWriter::new(brain.sensors.clone());
    let mut worker = FieldWorker::new(brain, taken, results).with_slices(slices).with_snapshots(snapshots);
    if let Some(goals) = goals {
        worker = worker.with_goals(goals);
    }
    workers.push(WorkerThread { worker: Box::new(worker), waker: waker.clone(), role: Role::Field });
    FieldLink::new(requests, collected, sensors, waker, board.field.every_ticks)
}
