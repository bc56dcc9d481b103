//! A robot put together: a checked board, a clock, the workers and the tick, joined by rings and
//! slots. The only place that knows every part; it decides nothing. `drive.rs` runs it.

use crate::act::Arbiter;
use crate::admit::Admission;
use crate::board::plan::{Board, BusPlan};
use crate::budget::Budget;
use crate::command::{Command, OnWire};
use crate::crew::{Bell, Worker};
use crate::device::SensorKind;
use crate::device::actuators::Actuators;
use crate::device::adc::HatAdc;
use crate::device::button::Button;
use crate::device::float_register::FloatRegister;
use crate::device::hc_sr04::HcSr04;
use crate::field::brain::{Brain, BrainError};
use crate::field::link::FieldLink;
use crate::field::snapshot::{Desk, Snapshot, SnapshotError, SnapshotWriter, snapshot_line};
use crate::field::takeover::Open;
use crate::field::worker::{FieldWorker, Order, Outcome};
use crate::field::{Readout, ReadoutError};
use crate::frame::{Frame, Reading};
use crate::learn::imitate;
use crate::mode::Modes;
use crate::reflex::Reflexes;
use crate::rt::slot::{Reader, slot};
use crate::rt::{Refusal, Role};
use crate::sense::{BusCounters, EdgesWorker, I2cWorker, LogRows, LogWorker, Outlet, Polled, READING_RING};
use crate::sim::{Fault, FieldFaults, Plant};
use crate::tick::{MAX_INLETS, Requests, Tick};
use crate::time::{Clock, Grid, Instant, Span};
use crate::trace::{Record, TRACE_RING};
use crate::wire::WireLink;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Receipts between a bus and the tick: it leaves one a command, and the tick takes them each slot.
const RECEIPT_RING: usize = 64;

/// What a run adds to a board.
#[derive(Default)]
pub struct Options {
    /// Seed of the simulated world and its noise.
    pub seed: u64,
    /// Faults that the simulator is to show.
    pub faults: Vec<Fault>,
    /// A learned read-out; without one the board's starting table is taught to the field.
    pub readout: Option<Readout>,
    /// Rows of a log, for boards whose bus is a log.
    pub log: Option<LogRows>,
    /// A brain to go on with; its read-out is used unless another is given.
    pub resume: Option<Snapshot>,
    /// Where the brain is kept.
    pub snapshots: Option<SnapshotPlan>,
    /// Opens the device that the field is computed on; without it that is the CPU.
    pub device: Option<Open>,
}

/// Where the brain is kept, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPlan {
    /// The file; replaced whole each time.
    pub path: PathBuf,
    /// From one to the next. One more is written at the end.
    pub every: Span,
}

/// Why a robot cannot be put together.
#[derive(Debug)]
pub enum BuildError {
    /// The board names wires that this build cannot drive.
    NoBus {
        /// Name of the board.
        board: String,
    },
    /// The board's bus is a log and none was given.
    NoLog,
    /// A sensor or motor of the board cannot stand on its bus.
    Misfit {
        /// What does not fit.
        what: String,
    },
    /// The read-out was made for another field.
    Readout(ReadoutError),
    /// The snapshot was made for another field.
    Snapshot(SnapshotError),
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
                "board '{board}' stands on real I2C and GPIO, which this build does not drive yet; \
                 'ganglion run --board sim' drives the simulated PiCar-X"
            ),
            BuildError::NoLog => write!(f, "this board reads a log: use 'ganglion replay --log FILE'"),
            BuildError::Misfit { what } => write!(f, "{what}"),
            BuildError::Readout(error) => error.fmt(f),
            BuildError::Snapshot(error) => error.fmt(f),
            BuildError::Brain(error) => error.fmt(f),
            BuildError::Thread(error) => write!(f, "a thread cannot be started: {error}"),
        }
    }
}

impl std::error::Error for BuildError {}

/// One worker with what it takes to run it.
pub struct Hand {
    /// The worker.
    pub worker: Box<dyn Worker>,
    /// What wakes it.
    pub bell: Arc<Bell>,
    /// Its priority among the threads.
    pub role: Role,
}

/// A robot that has not been started.
pub struct Robot {
    /// One control period.
    pub tick: Tick,
    /// Everything beside the tick.
    pub hands: Vec<Hand>,
    /// Records of the slots.
    pub records: rtrb::Consumer<Record>,
    /// Records that did not fit the ring.
    pub records_dropped: Arc<AtomicU64>,
    /// What its I2C bus has been through.
    pub bus: Arc<BusCounters>,
    /// The simulated world, where it stands in one.
    pub plant: Option<Plant>,
    /// Stop requests.
    pub requests: Arc<Requests>,
    /// What computes the field, and why that.
    pub engine_name: String,
    /// What the engine's own threads were refused.
    pub engine_refusals: Vec<Refusal>,
    /// Where the brain's snapshots are written, if they are. To be taken out before the robot is run, and asked for
    /// the end of it.
    pub snapshots: Option<SnapshotWriter>,
    /// Cycles that the brain had lived through when it was taken up; `None`: it began at rest.
    pub resumed_age: Option<u64>,
    /// Faults of the script that have nothing to strike here.
    pub idle_faults: Vec<&'static str>,
}

/// The workers' ends of the lines to the tick.
struct MotorEnds {
    commands: Reader<Command>,
    receipts: rtrb::Producer<OnWire>,
    bell: Arc<Bell>,
}

/// The inlets of a tick, while its workers are being put together.
struct Inlets {
    readings: heapless::Vec<rtrb::Consumer<Reading>, MAX_INLETS>,
    bus: Arc<BusCounters>,
}

/// The line from the tick to the motors: both its ends.
fn motor_line(motors: usize) -> (WireLink, MotorEnds) {
    let (put, commands) = slot(Command::still(motors));
    let (receipts, confirmed) = rtrb::RingBuffer::new(RECEIPT_RING);
    let bell: Arc<Bell> = Arc::default();
    (WireLink::new(put, confirmed, bell.clone()), MotorEnds { commands, receipts, bell })
}

impl Inlets {
    fn new() -> Inlets {
        Inlets { readings: heapless::Vec::new(), bus: Arc::default() }
    }

    /// A new inlet of readings into the tick.
    fn outlet(&mut self) -> Outlet {
        let (producer, consumer) = rtrb::RingBuffer::new(READING_RING);
        let fits = self.readings.push(consumer).is_ok();
        assert!(fits, "fewer workers than MAX_INLETS feed a tick");
        Outlet::new(producer, self.bus.readings_dropped.clone())
    }
}

impl Robot {
    /// Puts a robot together on `clock`. The first slot is `first`. Nothing runs yet; memory is
    /// taken here, and the starting table is taught to the field (seconds on a small machine).
    pub fn build(
        board: &Board,
        clock: Arc<dyn Clock>,
        first: Instant,
        options: Options,
    ) -> Result<Robot, BuildError> {
        // The slow part first: the simulator's faults count their time from the moment it is made.
        let resume = options.resume.as_ref();
        let mut brain = brain(board, options.readout, resume, options.device)?;
        let (engine_name, engine_refusals) = (brain.engine_name(), brain.refusals());
        let idle_faults = match brain.has_device() {
            true => Vec::new(),
            false => {
                options.faults.iter().filter(|f| f.kind.gpu().is_some()).map(|f| f.kind.name()).collect()
            }
        };
        let lived = resume.map(|snapshot| &snapshot.state().live).filter(|live| live.age > 0);
        let (resumed_age, last_cycle) = (lived.map(|live| live.age), lived.map(|live| live.cycle));
        let kept = keep(board, &mut brain, options.snapshots)?;
        let (wire, ends) = motor_line(board.motors.len());
        let bus_bell = ends.bell.clone();
        let mut inlets = Inlets::new();
        let mut hands = Vec::new();
        let world = World { seed: options.seed, faults: &options.faults, log: options.log };
        let plant = wire_up(board, &clock, first, world, ends, &mut inlets, &mut hands)?;
        let requests = Arc::new(Requests::default());
        let (trace, records) = rtrb::RingBuffer::new(TRACE_RING);
        let records_dropped = Arc::new(AtomicU64::new(0));
        let bus = inlets.bus.clone();
        let zero = plant.as_ref().map_or(first, Plant::zero);
        let faults = FieldFaults::new(&options.faults, zero);
        let (desk, snapshots) = kept.unzip();
        let mut field = link_field(board, brain, faults, desk, clock.is_real(), &bus_bell, &mut hands);
        last_cycle.into_iter().for_each(|last| field.continue_after(last));
        let tick = Tick {
            requests: requests.clone(),
            grid: Grid::new(first, board.period),
            readings: inlets.readings,
            admission: Admission::new(&board.sensors),
            frame: Frame::empty(board.sensors.len()),
            reflexes: Reflexes::new(&board.reflexes, &board.sensors, board.safety),
            field,
            budget: Budget::new(board.budget),
            modes: Modes::new(board.safety),
            arbiter: Arbiter::new(&board.motors, board.safety, board.period),
            wire,
            command: Command::still(board.motors.len()),
            lost: 0,
            trace,
            records_dropped: records_dropped.clone(),
            clock,
        };
        Ok(Robot {
            tick,
            hands,
            records,
            records_dropped,
            bus,
            plant,
            requests,
            engine_name,
            engine_refusals,
            snapshots,
            resumed_age,
            idle_faults,
        })
    }
}

/// What stands behind the wires in this run.
struct World<'o> {
    seed: u64,
    faults: &'o [Fault],
    log: Option<LogRows>,
}

/// Opens the board's wires and puts a worker on each. Returns the simulated world, if it is one.
fn wire_up(
    board: &Board,
    clock: &Arc<dyn Clock>,
    first: Instant,
    world: World<'_>,
    ends: MotorEnds,
    inlets: &mut Inlets,
    hands: &mut Vec<Hand>,
) -> Result<Option<Plant>, BuildError> {
    match &board.bus {
        BusPlan::Linux { .. } => Err(BuildError::NoBus { board: board.name.clone() }),
        BusPlan::Log => {
            let rows = world.log.ok_or(BuildError::NoLog)?;
            let (outlet, bell) = (inlets.outlet(), ends.bell);
            let worker = LogWorker::new(outlet, rows, first, board.period, ends.commands, ends.receipts);
            hands.push(Hand { worker: Box::new(worker), bell, role: Role::Bus });
            Ok(None)
        }
        BusPlan::Sim(_) => {
            let plant = Plant::new(board, world.seed, world.faults, clock.clone());
            hands.push(i2c_hand(board, &plant, ends, inlets)?);
            hands.extend(edges_hand(board, &plant, inlets));
            Ok(Some(plant))
        }
    }
}

fn i2c_hand(board: &Board, plant: &Plant, ends: MotorEnds, inlets: &mut Inlets) -> Result<Hand, BuildError> {
    let mcu = board.mcu.as_ref().ok_or_else(|| BuildError::Misfit {
        what: format!("board '{}' has motors on a Robot HAT but no [mcu]", board.name),
    })?;
    let polls = board.sensors.iter().enumerate().filter_map(|(channel, sensor)| {
        let device = match sensor.kind {
            SensorKind::HatAdc { channel, per_count } => {
                Polled::Adc(HatAdc::new(mcu.address, channel, per_count))
            }
            SensorKind::FloatRegister { address, register } => {
                Polled::Float(FloatRegister::new(address, register))
            }
            SensorKind::Button { line, active_low } => Polled::Button(Button::new(line, active_low)),
            _ => return None,
        };
        Some((channel as u8, device, sensor.period))
    });
    let polls = polls.collect();
    let worker = I2cWorker::new(
        plant.i2c(),
        plant.gpio(),
        Actuators::new(&board.motors, mcu),
        polls,
        inlets.outlet(),
        ends.commands,
        ends.receipts,
        inlets.bus.clone(),
    );
    Ok(Hand { worker: Box::new(worker), bell: ends.bell, role: Role::Bus })
}

/// The worker of the edge-timed sensors, where the board has any.
fn edges_hand(board: &Board, plant: &Plant, inlets: &mut Inlets) -> Option<Hand> {
    let sonars: Vec<_> = board
        .sensors
        .iter()
        .enumerate()
        .filter_map(|(channel, sensor)| match sensor.kind {
            SensorKind::HcSr04 { trig, echo } => {
                Some((channel as u8, HcSr04::new(trig, echo), sensor.period))
            }
            _ => None,
        })
        .collect();
    if sonars.is_empty() {
        return None;
    }
    let worker = EdgesWorker::new(plant.gpio(), inlets.outlet(), sonars);
    Some(Hand { worker: Box::new(worker), bell: Arc::default(), role: Role::Edges })
}

/// The field's engine with its read-out: the one that was given, or that of the snapshot it goes on from, or the
/// board's starting table taught to it; without any of them it asks for nothing.
fn brain(
    board: &Board,
    readout: Option<Readout>,
    resume: Option<&Snapshot>,
    device: Option<Open>,
) -> Result<Brain, BuildError> {
    if let Some(readout) = &readout {
        readout.check(board).map_err(BuildError::Readout)?;
    }
    if let Some(snapshot) = resume {
        snapshot.check(board).map_err(BuildError::Snapshot)?;
    }
    let untaught = resume.is_none() && !board.field.start.is_empty();
    let readout = readout.or_else(|| untaught.then(|| imitate(board)));
    let state = resume.map(Snapshot::state);
    Brain::new(board, readout.as_ref(), state, device).map_err(BuildError::Brain)
}

/// The line on which the brain goes to its file, and how often it does.
type Kept = ((Desk, Span), SnapshotWriter);

fn keep(board: &Board, brain: &mut Brain, plan: Option<SnapshotPlan>) -> Result<Option<Kept>, BuildError> {
    let Some(SnapshotPlan { path, every }) = plan else { return Ok(None) };
    let given = brain.given();
    let line = snapshot_line(path, board, given, |live| brain.save(live)).map_err(BuildError::Thread)?;
    Ok(Some(((line.0, every), line.1)))
}

/// Puts the engine on its worker and returns the tick's end of the line.
fn link_field(
    board: &Board,
    brain: Brain,
    faults: FieldFaults,
    snapshots: Option<(Desk, Span)>,
    real: bool,
    bus_bell: &Bell,
    hands: &mut Vec<Hand>,
) -> FieldLink {
    let (orders, taken) = slot(Order::EMPTY);
    let (outcomes, collected) = slot(Outcome::EMPTY);
    let bell: Arc<Bell> = Arc::default();
    bus_bell.then(bell.clone());
    let modelled = (!real).then_some(match board.bus {
        BusPlan::Log => Span::ZERO, // a replay is as fast as the machine: the field costs no time of the log
        _ => board.budget.target,
    });
    let mut worker = FieldWorker::new(brain, taken, outcomes, faults, modelled);
    if let Some((desk, every)) = snapshots {
        worker = worker.with_snapshots(desk, every);
    }
    hands.push(Hand { worker: Box::new(worker), bell: bell.clone(), role: Role::Field });
    FieldLink::new(orders, collected, bell, board.field.every_ticks)
}
