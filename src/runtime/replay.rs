//! A recorded run decided again. The same tick runs on what the recording holds (readings, results of the
//! field, receipts, requests, times), and each slot is compared with what was recorded, bit for bit. No wire,
//! no engine, no clock.

mod compare;
mod script;

pub use compare::Difference;

use crate::base::command::{Command, OnWire};
use crate::base::frame::Reading;
use crate::base::plan::{Board, Cause, Rung};
use crate::base::time::{Grid, Instant, Span};
use crate::drive::alarm::Alarm;
use crate::drive::io::Halt;
use crate::drive::motor_link::MotorLink;
use crate::drive::record::{FieldResult, Slot};
use crate::drive::trace::{Record, WIRES};
use crate::field::link::FieldLink;
use crate::field::sensor_ring::{SensorRing, SensorWriter};
use crate::field::worker::{Order, Outcome};
use crate::runtime::guard::frame::{Phase, Standing};
use crate::runtime::guard::{GuardHealth, Link};
use crate::runtime::requests::Requests;
use crate::runtime::tick::{Deciders, Parts, Tick};
use crate::system::rt::triple_buffer::{Reader, Writer, triple_buffer};
use script::Script;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most readings in a slot: what all inlets of a tick hold together, and more than a recording keeps.
const READINGS: usize = 1 << 15;

/// A guard that answers well.
const WELL: Standing =
    Standing { phase: Phase::Trusted, line_on: true, line_sound: true, trips: 0, beats: 0, stop: 0 };

/// Why a slot cannot be decided again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The recording begins with this slot, in the middle of a run.
    Begin {
        /// Its number.
        index: u64,
    },
    /// Slots between two recorded ones are not in the recording.
    Slots {
        /// Number of the last one before.
        after: u64,
        /// How many.
        count: u64,
    },
    /// Some of the readings of this slot are not in the recording.
    Readings {
        /// Number of the slot.
        index: u64,
        /// How many.
        count: u32,
    },
    /// What is in this slot fits no tick of this board.
    Misfit {
        /// Number of the slot.
        index: u64,
        /// What does not fit.
        what: &'static str,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Begin { index } => write!(
                f,
                "the recording begins with slot {index}, in the middle of a run; what was decided before is not in it"
            ),
            Missing::Slots { after, count } => {
                write!(f, "{count} slots after slot {after} ran and are not in the recording")
            }
            Missing::Readings { index, count } => {
                write!(f, "{count} readings of slot {index} are not in the recording")
            }
            Missing::Misfit { index, what } => write!(f, "slot {index} is of another board: {what}"),
        }
    }
}

/// What came of a slot.
#[derive(Clone, Debug, PartialEq)]
pub enum Replayed {
    /// It was decided as recorded.
    Equal,
    /// It was decided otherwise; this is the first value that differs.
    Differs(Difference),
    /// It cannot be decided again, and nothing after it.
    Missing(Missing),
}

/// The tick on a recording.
pub struct Replay {
    tick: Tick,
    period: Span,
    script: Arc<Script>,
    requests: Arc<Requests>,
    readings: rtrb::Producer<Reading>,
    halt: Arc<Halt>,
    readings_dropped: Arc<AtomicU64>,
    outcomes: Writer<Outcome>,
    /// Orders go nowhere: the results are known.
    _orders: Reader<Order>,
    _commands: Reader<Command>,
    receipts: rtrb::Producer<OnWire>,
    guard: Option<Arc<Link>>,
    records: rtrb::Consumer<Record>,
    /// Names of sensors and motors.
    names: compare::Names,
    sensors: usize,
    last: Option<u64>,
}

impl Replay {
    /// A replay of a run of `board`, at the level `rung` if the run was held there. Before the first slot.
    pub fn new(board: &Board, rung: Option<Rung>) -> std::io::Result<Replay> {
        let script = Arc::new(Script::default());
        let requests = Arc::new(Requests::default());
        let (readings, inlet) = rtrb::RingBuffer::new(READINGS);
        let mut inlets = heapless::Vec::new();
        let _ = inlets.push(inlet); // an empty list has room for one
        let halt = Arc::new(Halt::new(Arc::default()));
        let readings_dropped = Arc::new(AtomicU64::new(0));
        let (orders, _orders) = triple_buffer(Order::EMPTY);
        let (outcomes, collected) = triple_buffer(Outcome::EMPTY);
        let (commands, _commands) = triple_buffer(Command::still(board.motors.len()));
        let (receipts, confirmed) = rtrb::RingBuffer::new(WIRES);
        let (trace, records) = rtrb::RingBuffer::new(1);
        let guard = match board.guard {
            Some(plan) if plan.required => Some(Link::new(true)?),
            _ => None,
        };
        let sensors = SensorWriter::new(SensorRing::new());
        let tick = Tick::new(Parts {
            clock: script.clone(),
            requests: requests.clone(),
            grid: Grid::new(Instant::ZERO, board.period),
            readings: inlets,
            alarm: Alarm::new(halt.clone(), readings_dropped.clone()),
            deciders: Deciders::of(board, rung),
            field: FieldLink::new(orders, collected, sensors, Arc::default(), board.field.every_ticks),
            motor_link: MotorLink::new(&board.motors, commands, confirmed, Arc::default()),
            trace,
            records_dropped: Arc::default(),
            loop_status: Arc::default(),
            // Heard in the very slot or lost.
            guard: guard.clone().map(|link| GuardHealth::new(link, Span::ZERO)),
        });
        Ok(Replay {
            tick,
            period: board.period,
            script,
            requests,
            readings,
            halt,
            readings_dropped,
            outcomes,
            _orders,
            _commands,
            receipts,
            guard,
            records,
            names: compare::Names::of(board),
            sensors: board.sensors.len(),
            last: None,
        })
    }

    /// Decides `slot` again. `lost`: how many slots were lost after it, which the next one says.
    pub fn slot(&mut self, slot: &Slot, lost: u64) -> Replayed {
        if let Err(missing) = self.follows(slot).and_then(|()| self.feed(slot, lost)) {
            return Replayed::Missing(missing);
        }
        self.tick.run();
        let Ok(record) = self.records.pop() else {
            return Replayed::Missing(Missing::Misfit { index: slot.index, what: "it left no record" });
        };
        match compare::first_difference(slot, &record, &self.names) {
            None => Replayed::Equal,
            Some(difference) => Replayed::Differs(difference),
        }
    }

    /// Whether `slot` is the one after the last, whole.
    fn follows(&mut self, slot: &Slot) -> Result<(), Missing> {
        let index = slot.index;
        match self.last.replace(index) {
            None if index > 0 => return Err(Missing::Begin { index }),
            None => self.tick.start_at(slot.slot),
            Some(last) => {
                let next = last.saturating_add(1).saturating_add(slot.lost);
                if index != next {
                    return Err(Missing::Slots { after: last, count: index.saturating_sub(next) });
                }
            }
        }
        match slot.untold {
            0 => Ok(()),
            count => Err(Missing::Readings { index, count }),
        }
    }

    /// Puts everything that the slot had where the tick takes it from.
    fn feed(&mut self, slot: &Slot, lost: u64) -> Result<(), Missing> {
        let misfit = |what| Missing::Misfit { index: slot.index, what };
        let over = slot.slot + self.period.times(lost.saturating_add(if lost > 0 { 1 } else { 0 }));
        self.script.play([slot.began, slot.ended, slot.ended.max(over)], slot.signals.slept);
        self.requests.stop.store(slot.asked.stop, Ordering::Relaxed);
        self.requests.disarm.store(slot.asked.disarm, Ordering::Relaxed);
        self.requests.arm.store(slot.asked.arm, Ordering::Relaxed);
        for reading in &slot.readings {
            if usize::from(reading.channel) >= self.sensors {
                return Err(misfit("it has a reading of a sensor that the board lacks"));
            }
            self.readings.push(*reading).map_err(|_| misfit("it has more readings than a slot can take"))?;
        }
        for cause in Cause::ALL.into_iter().filter(|cause| slot.signals.halts & cause.bit() != 0) {
            self.halt.raise(cause, slot.slot);
        }
        self.readings_dropped.fetch_add(u64::from(slot.signals.readings_lost), Ordering::Relaxed);
        for receipt in &slot.receipts {
            self.receipts.push(*receipt).map_err(|_| misfit("it has more receipts than a slot can take"))?;
        }
        if let Some(field) = &slot.field {
            let outcome =
                outcome(field, slot).ok_or_else(|| misfit("it has an answer for more motors than any"))?;
            self.outcomes.put(outcome);
        }
        if let Some(link) = self.guard.as_ref().filter(|_| !slot.signals.guard_lost) {
            link.heard(&WELL, None, slot.began);
        }
        Ok(())
    }
}

/// The field's result as the tick collected it.
fn outcome(field: &FieldResult, slot: &Slot) -> Option<Outcome> {
    let response = match &field.answer {
        Some(answer) => Some(answer.response()?),
        None => None,
    };
    let (span, answer, rung, times) = (field.span, field.took, field.rung, field.times);
    Some(Outcome { response, slot: slot.slot - field.age, rung, span, answer, times, ..Outcome::EMPTY })
}
