//! Replays a recorded run: the same tick runs on the recorded inputs (readings, results of the field,
//! receipts, requests, times), and each slot is compared with the recorded one, bit for bit. No hardware, no
//! engine, no real clock.

mod compare;
mod field;
mod script;
#[cfg(test)]
mod tests;

pub use compare::{Difference, Names, first_difference_of_runs};
pub use field::{FieldAnswers, FieldReplay, FieldStart, FieldUnknown, NoFieldReplay};

use crate::base::command::{Command, OnWire};
use crate::base::frame::Reading;
use crate::base::plan::{Board, Cause, QualityLevel};
use crate::base::time::{Grid, Instant, Span};
use crate::drive::fast_stop_events::FastStopReceiver;
use crate::drive::io::Halt;
use crate::drive::motor_link::MotorLink;
use crate::drive::record::{FieldRecord, Slot, Step};
use crate::drive::trace::{Record, WIRES};
use crate::field::link::FieldLink;
use crate::field::sensor_ring::{SensorRing, SensorWriter};
use crate::field::worker::{FieldRequest, FieldResult};
use crate::runtime::guard::frame::{GuardStatus, Phase};
use crate::runtime::guard::{GuardHealth, Link};
use crate::runtime::requests::Requests;
use crate::runtime::tick::{Deciders, Parts, Tick};
use crate::system::checkpoint::Unfit;
use crate::system::rt::triple_buffer::{Reader, Writer, triple_buffer};
use script::Script;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of readings in a slot: more than all inlets of a tick hold together, and more than a
/// recording keeps.
const READINGS: usize = 1 << 15;

/// The status of a healthy guard.
const WELL: GuardStatus =
    GuardStatus { phase: Phase::Trusted, line_on: true, line_sound: true, trips: 0, beats: 0, stop: 0 };

/// Why a slot cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The recording starts with this slot, in the middle of a run, without a checkpoint.
    Begin {
        /// Number of the slot.
        index: u64,
    },
    /// Slots between two recorded ones are missing from the recording.
    Slots {
        /// Number of the last one before.
        after: u64,
        /// How many slots are missing.
        count: u64,
    },
    /// Some readings of this slot are missing from the recording.
    Readings {
        /// Number of the slot.
        index: u64,
        /// How many readings are missing.
        count: u32,
    },
    /// The checkpoint before this slot belongs to another board or program.
    Checkpoint {
        /// Number of the slot.
        index: u64,
        /// The first value that does not match.
        unfit: Unfit,
    },
    /// Something in this slot is impossible on this board.
    Misfit {
        /// Number of the slot.
        index: u64,
        /// What is impossible.
        what: &'static str,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Begin { index } => write!(
                f,
                "slot {index} is in the middle of a run, and there is no checkpoint at or before it"
            ),
            Missing::Slots { after, count } => {
                write!(f, "{count} slots that ran after slot {after} are missing from the recording")
            }
            Missing::Readings { index, count } => {
                write!(f, "{count} readings of slot {index} are missing from the recording")
            }
            Missing::Checkpoint { index, unfit } => {
                write!(f, "the checkpoint before slot {index} does not match this board at {unfit}")
            }
            Missing::Misfit { index, what } => write!(f, "slot {index} does not fit this board: {what}"),
        }
    }
}

/// The result for a slot.
#[derive(Clone, Debug, PartialEq)]
pub enum Replayed {
    /// The decisions were the same as recorded.
    Equal,
    /// The decisions differ; this is the first value that differs.
    Differs(Difference),
    /// Neither this slot nor any other before the next checkpoint can be replayed.
    Missing(Missing),
}

/// A tick that runs on a recording. It starts with the first slot of the run or with a checkpoint, and after
/// a loss it continues at the next checkpoint.
pub struct Replay {
    board: Board,
    quality: Option<QualityLevel>,
    tick: Tick,
    period: Span,
    script: Arc<Script>,
    requests: Arc<Requests>,
    readings: rtrb::Producer<Reading>,
    halt: Arc<Halt>,
    readings_dropped: Arc<AtomicU64>,
    outcomes: Writer<FieldResult>,
    /// What the tick requests from the field. The results are already known.
    orders: Reader<FieldRequest>,
    sensor_ring: SensorRing,
    _commands: Reader<Command>,
    receipts: rtrb::Producer<OnWire>,
    guard: Option<Arc<Link>>,
    records: rtrb::Consumer<Record>,
    /// Names of sensors and motors.
    names: Names,
    sensors: usize,
    /// The last slot of the recording.
    last: Option<u64>,
    /// Why slots cannot be replayed at present.
    lost_track: Option<Missing>,
    /// Slots that ran but are missing from the recording.
    gaps: u64,
    /// Whether the decisions may differ from the run's: the tick then keeps its own state where the recorded
    /// state is different.
    is_other: bool,
}

impl Replay {
    /// A replay of a run of `board`, before its first slot. `quality`: the quality level, if the run was
    /// fixed at one.
    pub fn new(board: &Board, quality: Option<QualityLevel>) -> std::io::Result<Replay> {
        let script = Arc::new(Script::default());
        let requests = Arc::new(Requests::default());
        let (readings, inlet) = rtrb::RingBuffer::new(READINGS);
        let mut inlets = heapless::Vec::new();
        let _ = inlets.push(inlet); // an empty list has room for one
        let halt = Arc::new(Halt::new(Arc::default()));
        let readings_dropped = Arc::new(AtomicU64::new(0));
        let (requested, orders) = triple_buffer(FieldRequest::EMPTY);
        let (outcomes, collected) = triple_buffer(FieldResult::EMPTY);
        let (commands, _commands) = triple_buffer(Command::still(board.motors.len()));
        let (receipts, confirmed) = rtrb::RingBuffer::new(WIRES);
        let (trace, records) = rtrb::RingBuffer::new(1);
        let guard = match board.guard {
            Some(plan) if plan.required => Some(Link::new(true)?),
            _ => None,
        };
        let sensor_ring = SensorRing::new();
        let sensors = SensorWriter::new(sensor_ring.clone());
        let tick = Tick::new(Parts {
            clock: script.clone(),
            requests: requests.clone(),
            grid: Grid::new(Instant::ZERO, board.period),
            readings: inlets,
            fast_stops: FastStopReceiver::new(halt.clone(), readings_dropped.clone()),
            deciders: Deciders::of(board, quality),
            field: FieldLink::new(requested, collected, sensors, Arc::default(), board.field.every_ticks),
            motor_link: MotorLink::new(&board.motors, commands, confirmed, Arc::default()),
            trace,
            records_dropped: Arc::default(),
            loop_status: Arc::default(),
            // The guard either answered in this slot or is lost.
            guard: guard.clone().map(|link| GuardHealth::new(link, Span::ZERO)),
        });
        Ok(Replay {
            board: board.clone(),
            quality,
            tick,
            period: board.period,
            script,
            requests,
            readings,
            halt,
            readings_dropped,
            outcomes,
            orders,
            sensor_ring,
            _commands,
            receipts,
            guard,
            records,
            names: Names::of(board),
            sensors: board.sensors.len(),
            last: None,
            lost_track: None,
            gaps: 0,
            is_other: false,
        })
    }

    /// Like [`Replay::new`], for a board whose limits differ from the run's: the replay continues after a
    /// difference, with the state that its own decisions have led to. The readings are those of the run,
    /// because what the robot would have sensed instead is unknown.
    pub fn what_if(board: &Board, quality: Option<QualityLevel>) -> std::io::Result<Replay> {
        Ok(Replay { is_other: true, ..Replay::new(board, quality)? })
    }

    /// Slots that ran but are missing from the recording.
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Runs the tick on `step` and compares the result. `lost`: how many slots were lost between this one and
    /// the next, from the next slot's record.
    pub fn step(&mut self, step: &Step, lost: u64) -> Replayed {
        let slot = &step.slot;
        match self.begin(step) {
            Ok(None) => {}
            Ok(Some(difference)) => return Replayed::Differs(difference),
            Err(missing) => return Replayed::Missing(self.lost_track.insert(missing).clone()),
        }
        if let Err(missing) = self.feed(slot, lost) {
            return Replayed::Missing(self.lost_track.insert(missing).clone());
        }
        self.tick.run();
        let Ok(record) = self.records.pop() else {
            return Replayed::Missing(Missing::Misfit { index: slot.index, what: "it produced no record" });
        };
        match compare::first_difference(slot, &record, &self.names) {
            None => Replayed::Equal,
            Some(difference) => Replayed::Differs(difference),
        }
    }

    /// Brings the tick to its state before `step`. If the tick is already at this slot, but its state differs
    /// from the recorded one, returns the difference.
    fn begin(&mut self, step: &Step) -> Result<Option<Difference>, Missing> {
        let slot = &step.slot;
        let broken = self.follows(slot).err().or(self.lost_track.take());
        let mut difference = None;
        match (&step.checkpoint, broken) {
            (None, Some(missing)) => return Err(missing),
            (Some(checkpoint), Some(_)) => self.resume(slot, checkpoint)?,
            (Some(checkpoint), None) if slot.index == 0 => self.resume(slot, checkpoint)?,
            (Some(_), None) if self.is_other => {}
            (None, None) if slot.index == 0 => self.tick.start_at(slot.slot),
            (Some(checkpoint), None) => {
                let index = slot.index;
                let remembered = self.tick.remembered();
                let (decided, names) = remembered.map_err(|unfit| Missing::Checkpoint { index, unfit })?;
                difference = compare::first_forgotten(index, checkpoint, &decided, &names);
            }
            (None, None) => {}
        }
        match slot.untold {
            0 => Ok(difference),
            count => Err(Missing::Readings { index: slot.index, count }),
        }
    }

    /// Checks that `slot` is the first of a run or the one that follows the last.
    fn follows(&mut self, slot: &Slot) -> Result<(), Missing> {
        let index = slot.index;
        let Some(last) = self.last.replace(index) else {
            return if index == 0 { Ok(()) } else { Err(Missing::Begin { index }) };
        };
        let next = last.saturating_add(1).saturating_add(slot.lost);
        if index == next {
            return Ok(());
        }
        let count = index.saturating_sub(next);
        self.gaps = self.gaps.saturating_add(count);
        Err(Missing::Slots { after: last, count })
    }

    /// Replaces the tick with one that continues from `checkpoint`, whatever input the previous one has
    /// missed.
    fn resume(&mut self, slot: &Slot, checkpoint: &[u8]) -> Result<(), Missing> {
        let misfit = |_| Missing::Misfit { index: slot.index, what: "the system cannot start a replay" };
        let fresh = Replay::new(&self.board, self.quality).map_err(misfit)?;
        *self = Replay { last: self.last, gaps: self.gaps, is_other: self.is_other, ..fresh };
        let unfit = |unfit| Missing::Checkpoint { index: slot.index, unfit };
        self.tick.resume(checkpoint).map_err(unfit)
    }

    /// Passes all inputs of the slot to the places from which the tick reads them.
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
            let outcome = outcome(field, slot)
                .ok_or_else(|| misfit("it has an answer for more motors than any board has"))?;
            self.outcomes.put(outcome);
        }
        if let Some(link) = self.guard.as_ref().filter(|_| !slot.signals.guard_lost) {
            link.update(&WELL, None, slot.began);
        }
        Ok(())
    }
}

/// The field's result as the tick collected it.
fn outcome(field: &FieldRecord, slot: &Slot) -> Option<FieldResult> {
    let response = match &field.answer {
        Some(answer) => Some(answer.response()?),
        None => None,
    };
    let FieldRecord { span, took: answer, age, quality, times, link, goal, .. } = *field;
    Some(FieldResult {
        response,
        slot: slot.slot - age,
        quality,
        span,
        answer,
        times,
        link,
        goal,
        ..FieldResult::EMPTY
    })
}
