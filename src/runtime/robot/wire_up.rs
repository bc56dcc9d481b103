//! Opens the buses and lines of a board and creates their workers: one per bus, one for the sonars, one for
//! the buttons and data-ready lines, one for the kernel's files. The workers are the same on simulated and
//! real wires.

use super::devices::{self, Planned};
use super::{BuildError, WorkerThread};
use crate::base::command::{Command, OnWire};
use crate::base::frame::Reading;
use crate::base::plan::{Attachment, Board, BusPlan, Line, LineSensor, MotorPlan, SensorKind, StopLine};
use crate::base::time::{Clock, Instant, Span};
use crate::decision::motion::MotionModel;
use crate::drive::io::{
    BusCounters, BusParts, ButtonLine, Cutter, DataReady, EdgesWorker, FastStops, Halt, HaltWatch, I2cWorker,
    InFlight, LinesWorker, LogRows, LogWorker, MotorEnd, Outlet, PollPlan, READING_RING, ReadyLine,
    SenseCounters, SharedLines, SlowWorker,
};
use crate::drive::motor_link::MotorLink;
use crate::hardware::bus::{Absent, Bias, Gpio, Hardware, I2c, LineUse, NoRepair, Repair, Usage};
use crate::hardware::device::hc_sr04::HcSr04;
use crate::memory::map::{Feed, Map, Recollection, feed};
use crate::runtime::tick::MAX_INLETS;
use crate::sim::{Fault, Plant};
use crate::system::executor::{Waker, Worker};
use crate::system::rt::Role;
use crate::system::rt::triple_buffer::{Reader, triple_buffer};
use std::sync::Arc;

/// Capacity of the ring of receipts from the motors' bus to the tick: one receipt per command, and the tick
/// takes them each slot.
const RECEIPT_RING: usize = 64;
/// Bus thread names, by bus number; a board has at most this many buses.
const BUS_NAMES: [&str; MAX_INLETS - 4] =
    ["i2c", "i2c-1", "i2c-2", "i2c-3", "i2c-4", "i2c-5", "i2c-6", "i2c-7"];

/// The lines of a bus thread, and where it notes its transfers if a cutter thread watches for hung ones.
type BusLines = (Box<dyn Gpio>, Option<Arc<InFlight>>);

/// What this run's wires lead to: a simulated world, a log or real hardware.
pub(super) struct World<'o> {
    pub seed: u64,
    pub faults: &'o [Fault],
    pub log: Option<LogRows>,
    pub hardware: Option<Arc<dyn Hardware>>,
}

/// The workers of a board, and the tick's ends of their links.
pub(super) struct Wired {
    pub workers: Vec<WorkerThread>,
    pub readings: heapless::Vec<rtrb::Consumer<Reading>, MAX_INLETS>,
    pub buses: Vec<Arc<BusCounters>>,
    pub senses: Arc<SenseCounters>,
    pub halt: Arc<Halt>,
    /// The simulated world, if there is one.
    pub plant: Option<Plant>,
    /// A thread switches the motors' lines off while their bus hangs; only on real wires in real time.
    pub cuts: bool,
    /// Ends of the link to the map, if the board has one: for records and for queries.
    pub map: Option<(Feed, Recollection)>,
}

/// The bus worker's ends of the link between tick and motors.
pub(super) struct MotorEnds {
    commands: Reader<Command>,
    receipts: rtrb::Producer<OnWire>,
    pub waker: Arc<Waker>,
}

/// Both ends of the link between tick and motors.
pub(super) fn motor_line(motors: &[MotorPlan]) -> (MotorLink, MotorEnds) {
    let (put, commands) = triple_buffer(Command::still(motors.len()));
    let (receipts, confirmed) = rtrb::RingBuffer::new(RECEIPT_RING);
    let waker: Arc<Waker> = Arc::default();
    (MotorLink::new(motors, put, confirmed, waker.clone()), MotorEnds { commands, receipts, waker })
}

/// Opens the board's buses and lines, and creates their workers.
pub(super) fn wire_up(
    board: &Board,
    clock: &Arc<dyn Clock>,
    first: Instant,
    world: World<'_>,
    ends: MotorEnds,
) -> Result<Wired, BuildError> {
    let edge_overruns =
        world.hardware.as_ref().map_or_else(Arc::default, |hardware| hardware.edge_overruns());
    let mut wired = Wired {
        workers: Vec::new(),
        readings: heapless::Vec::new(),
        buses: Vec::new(),
        senses: Arc::new(SenseCounters { edge_overruns, ..SenseCounters::default() }),
        halt: Arc::new(Halt::new(ends.waker.clone())),
        plant: None,
        cuts: false,
        map: None,
    };
    wired.add_map(board)?;
    let hardware = match (&board.bus, world.hardware) {
        (BusPlan::Log, _) => {
            let rows = world.log.ok_or(BuildError::NoLog)?;
            wired.add_log(board, rows, first, ends)?;
            return Ok(wired);
        }
        (_, Some(hardware)) => hardware,
        (BusPlan::Sim, None) => {
            let plant = Plant::new(board, world.seed, world.faults, clock.clone());
            wired.plant = Some(plant.clone());
            Arc::new(plant)
        }
        (BusPlan::Linux { .. }, None) => return Err(BuildError::NoBus { board: board.name.clone() }),
    };
    wired.cuts = clock.is_real() && matches!(board.bus, BusPlan::Linux { .. });
    wired.add_all(board, hardware.as_ref(), ends)?;
    Ok(wired)
}

impl Wired {
    /// A new ring that carries readings to the tick; returns the worker's end.
    fn outlet(&mut self) -> Result<Outlet, BuildError> {
        let (producer, consumer) = rtrb::RingBuffer::new(READING_RING);
        let misfit = |_| BuildError::Misfit { what: format!("more than {MAX_INLETS} sources of readings") };
        self.readings.push(consumer).map_err(misfit)?;
        Ok(Outlet::new(producer, self.senses.readings_dropped.clone()))
    }

    fn add_worker(&mut self, worker: impl Worker + 'static, waker: Arc<Waker>, role: Role) {
        self.workers.push(WorkerThread { worker: Box::new(worker), waker, role });
    }

    fn add_log(
        &mut self,
        board: &Board,
        rows: LogRows,
        first: Instant,
        ends: MotorEnds,
    ) -> Result<(), BuildError> {
        self.buses.push(Arc::new(BusCounters::new("log", [])));
        let outlet = self.outlet()?;
        let worker = LogWorker::new(outlet, rows, first, board.period, ends.commands, ends.receipts);
        self.add_worker(worker, ends.waker, Role::Bus);
        Ok(())
    }

    fn add_all(&mut self, board: &Board, hardware: &dyn Hardware, ends: MotorEnds) -> Result<(), BuildError> {
        let mut readies = Vec::new();
        let mut ends = Some(ends);
        // The motors always have their own thread, even without a bus.
        for bus in 0..board.i2c.len().max(1) {
            self.add_bus(board, bus, hardware, ends.take(), &mut readies)?;
        }
        self.add_edges(board, hardware)?;
        self.add_lines(board, hardware, readies)?;
        self.add_slow(board)
    }

    /// The thread for bus `bus`; `ends`: only for the bus that has the motors.
    fn add_bus(
        &mut self,
        board: &Board,
        bus: usize,
        hardware: &dyn Hardware,
        ends: Option<MotorEnds>,
        readies: &mut Vec<ReadyLine>,
    ) -> Result<(), BuildError> {
        let name = *BUS_NAMES.get(bus).ok_or_else(|| BuildError::Misfit {
            what: format!("board '{}' has more than {} I2C buses", board.name, BUS_NAMES.len()),
        })?;
        let plan = board.i2c.get(bus);
        let (i2c, repair): (Box<dyn I2c>, Box<dyn Repair>) = match plan {
            Some(_) => (
                hardware.i2c(bus).map_err(BuildError::Wires)?,
                hardware.repair(bus).map_err(BuildError::Wires)?,
            ),
            None => (Box::new(Absent), Box::new(NoRepair)),
        };
        let mut lines = devices::sensor_lines(board, bus);
        let mut stops = Vec::new();
        if ends.is_some() {
            lines.extend(devices::motor_lines(board));
            stops = if self.cuts { board.stop_lines() } else { stops };
        }
        let waker = ends.as_ref().map_or_else(Arc::default, |ends| ends.waker.clone());
        let motors = match ends {
            Some(ends) => Some(MotorEnd {
                actuators: devices::actuators(board)?,
                commands: ends.commands,
                receipts: ends.receipts,
                halt: HaltWatch::new(self.halt.clone()),
            }),
            None => None,
        };
        let planned = devices::polls(board, Attachment::Bus(bus))?;
        let data_ready = Arc::new(DataReady::new(waker.clone()));
        for (place, line) in planned.iter().enumerate().filter_map(|(place, one)| Some((place, one.ready?))) {
            readies.push(ReadyLine { line, data_ready: data_ready.clone(), place });
        }
        let (polls, counters) = self.table(plan.map_or("motors", |plan| plan.name.as_str()), planned);
        let speed = plan.map_or(0, |plan| plan.timing.speed_hz);
        let (gpio, in_flight) = self.shared_lines(hardware, name, lines, stops, speed, &counters)?;
        let parts = BusParts {
            name,
            i2c,
            gpio,
            in_flight,
            repair,
            rail_off: plan.and_then(|plan| plan.recovery.rail).map_or(Span::ZERO, |rail| rail.off),
            fragile: board.mcu.as_ref().filter(|_| bus == 0).map(|mcu| mcu.address),
            timeout: board.period,
            motors,
            fast_stops: fast_stops(board, polls.iter().flat_map(|poll| poll.channels.iter().copied())),
            polls,
            data_ready,
            halt: self.halt.clone(),
            outlet: self.outlet()?,
            counters,
        };
        self.add_worker(I2cWorker::new(parts), waker, Role::Bus);
        Ok(())
    }

    /// The lines of a bus thread. Those in `stops` are shared with a cutter thread, which switches them off
    /// while the bus hangs; in that case also returns where the bus thread notes its transfers.
    fn shared_lines(
        &mut self,
        hardware: &dyn Hardware,
        name: &'static str,
        lines: Vec<LineUse>,
        stops: Vec<StopLine>,
        speed_hz: u32,
        counters: &Arc<BusCounters>,
    ) -> Result<BusLines, BuildError> {
        if stops.is_empty() {
            return Ok((lines_of(hardware, name, &lines)?, None));
        }
        let is_stop = |used: &LineUse| stops.iter().any(|stop| stop.line == used.line);
        let (stop, rest): (Vec<LineUse>, Vec<LineUse>) = lines.into_iter().partition(is_stop);
        let (stop, rest) = (lines_of(hardware, "stop", &stop)?, lines_of(hardware, name, &rest)?);
        let shared = SharedLines::new(stop, &stops, rest);
        let waker: Arc<Waker> = Arc::default();
        let in_flight = Arc::new(InFlight::new(speed_hz, self.halt.clone(), waker.clone()));
        let cutter = Cutter::new(&shared, stops, in_flight.clone(), counters.clone());
        // The same priority as the bus: a halt wakes both, and the bus thread, woken first, runs first.
        self.add_worker(cutter, waker, Role::Bus);
        Ok((Box::new(shared), Some(in_flight)))
    }

    /// A polling table and its counters; the counters are also kept for reports.
    fn table(&mut self, name: &str, planned: Vec<Planned>) -> (Vec<PollPlan>, Arc<BusCounters>) {
        let names: Vec<String> = planned.iter().map(|one| one.name.clone()).collect();
        let counters = Arc::new(BusCounters::new(name, names));
        self.buses.push(counters.clone());
        (planned.into_iter().map(|one| one.poll).collect(), counters)
    }

    /// The thread for the edge-timed sensors, if the board has any.
    fn add_edges(&mut self, board: &Board, hardware: &dyn Hardware) -> Result<(), BuildError> {
        let (mut sonars, mut lines, mut channels) = (Vec::new(), Vec::new(), Vec::new());
        for (channel, sensor) in board.sensors.iter().enumerate() {
            let SensorKind::Lines(LineSensor::HcSr04 { trig, echo }) = sensor.kind else { continue };
            sonars.push((channel as u8, HcSr04::new(trig, echo), sensor.period));
            lines.push(LineUse { line: trig, usage: Usage::Output { high: false } });
            lines.push(watched(echo, Bias::AsIs));
            channels.push(channel as u8);
        }
        if sonars.is_empty() {
            return Ok(());
        }
        let gpio = lines_of(hardware, "edges", &lines)?;
        let (outlet, fast_stops) = (self.outlet()?, fast_stops(board, channels));
        let worker = EdgesWorker::new(gpio, outlet, sonars, fast_stops, self.halt.clone());
        self.add_worker(worker, Arc::default(), Role::Edges);
        Ok(())
    }

    /// The thread for the buttons and data-ready lines, if the board has any.
    fn add_lines(
        &mut self,
        board: &Board,
        hardware: &dyn Hardware,
        readies: Vec<ReadyLine>,
    ) -> Result<(), BuildError> {
        let (mut buttons, mut lines) = (Vec::new(), Vec::new());
        for (channel, sensor) in board.sensors.iter().enumerate() {
            let SensorKind::Lines(LineSensor::Button { line, active_low }) = sensor.kind else { continue };
            buttons.push(ButtonLine { channel: channel as u8, line, active_low, period: sensor.period });
            // Pulled to the level of a released button. No debounce: the first contact counts.
            lines.push(watched(line, if active_low { Bias::Up } else { Bias::Down }));
        }
        let rising = Usage::Rising { bias: Bias::AsIs };
        lines.extend(readies.iter().map(|ready| LineUse { line: ready.line, usage: rising }));
        if lines.is_empty() {
            return Ok(());
        }
        let gpio = lines_of(hardware, "lines", &lines)?;
        let fast_stops = fast_stops(board, buttons.iter().map(|button| button.channel));
        let (outlet, halt, senses) = (self.outlet()?, self.halt.clone(), self.senses.clone());
        let worker = LinesWorker::new(gpio, outlet, buttons, readies, fast_stops, halt, senses);
        self.add_worker(worker, Arc::default(), Role::Lines);
        Ok(())
    }

    /// The thread for the map, if the board has something to remember.
    fn add_map(&mut self, board: &Board) -> Result<(), BuildError> {
        let (things, period) = devices::things(board);
        let (Some(motion), false) = (MotionModel::of(board), things.is_empty()) else { return Ok(()) };
        let map = Map::new(motion, things).map_err(|fault| BuildError::Misfit { what: fault.to_string() })?;
        let (worker, trace, askers) = feed(map, self.outlet()?, period);
        self.add_worker(worker, Arc::default(), Role::Slow);
        self.map = Some((trace, askers));
        Ok(())
    }

    /// The thread that reads values from files, if the board has any.
    fn add_slow(&mut self, board: &Board) -> Result<(), BuildError> {
        let planned = match self.plant {
            Some(_) => devices::simulated_files(board),
            None => devices::polls(board, Attachment::Files)?,
        };
        if planned.is_empty() {
            return Ok(());
        }
        let (polls, counters) = self.table("slow", planned);
        let fast_stops = fast_stops(board, polls.iter().flat_map(|poll| poll.channels.iter().copied()));
        let worker = SlowWorker::new(polls, fast_stops, self.outlet()?, self.halt.clone(), counters);
        self.add_worker(worker, Arc::default(), Role::Slow);
        Ok(())
    }
}

fn watched(line: Line, bias: Bias) -> LineUse {
    LineUse { line, usage: Usage::Watched { bias, debounce: Span::ZERO } }
}

fn fast_stops(board: &Board, channels: impl IntoIterator<Item = u8>) -> FastStops {
    FastStops::of(&board.reflexes, &board.sensors, channels)
}

/// A handle for `lines`; if there are none, one whose calls all fail.
fn lines_of(
    hardware: &dyn Hardware,
    owner: &'static str,
    lines: &[LineUse],
) -> Result<Box<dyn Gpio>, BuildError> {
    if lines.is_empty() {
        return Ok(Box::new(Absent));
    }
    hardware.gpio(owner, lines).map_err(BuildError::Wires)
}
