//! Computes the field of a recorded run again. The replayed tick makes the same requests as in the run; an
//! engine answers each of them, and the answers are compared with the recorded ones: bit for bit if the CPU
//! computed them, else up to rounding.
//!
//! An engine's state depends on every cycle since its start. So the field can be computed again from the
//! start of a run, or from a copy of the field in the recording, until a cycle is missing.

use super::compare::{Difference, Search};
use super::{Names, Replay};
use crate::base::command::Requester;
use crate::base::plan::{Board, EngineKind};
use crate::base::time::{Instant, MonotonicClock};
use crate::drive::record::{FieldRecord, Slot};
use crate::field::brain::{Before, Brain, BrainError, NoAnswer};
use crate::field::readout::{Readout, ReadoutError};
use crate::field::snapshot::FieldCopy;
use crate::field::worker::FieldRequest;
use crate::field::{FieldInput, FieldOutput};
use std::fmt;
use std::sync::Arc;

/// Largest accepted difference between a value from the GPU engine and the same value from the CPU engine.
/// The two add in a different order: a cell differs by about 2e-5, and the skill, a quotient of small errors,
/// by up to 1e-3 (`tests/cuda/engine.rs` checks both limits).
const ROUNDING: f32 = 1e-3;

/// Why the field cannot be computed again from here on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldUnknown {
    /// The recording starts with this slot, and no copy of the field in it can be used.
    Begin(u64),
    /// This slot could not be replayed, so its request is unknown.
    Request(u64),
    /// The engine of the run did not answer in this slot.
    NoAnswer(u64),
    /// The robot's engine was not running in this slot, or another one computed in its place; the engine's
    /// state as text.
    Engine(u64, String),
}

impl fmt::Display for FieldUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldUnknown::Begin(index) => {
                write!(
                    f,
                    "the recording starts with slot {index}, and no copy of the field in it can be used"
                )
            }
            FieldUnknown::Request(index) => write!(f, "slot {index} could not be replayed"),
            FieldUnknown::NoAnswer(index) => write!(f, "the robot's engine did not answer in slot {index}"),
            FieldUnknown::Engine(index, state) => write!(f, "the engine's state in slot {index}: {state}"),
        }
    }
}

/// Why no engine can compute the field of a run.
#[derive(Debug)]
pub enum NoFieldReplay {
    /// A brain computer computed the field, and its state before the run is unknown.
    Remote,
    /// The read-out was made for another board.
    Readout(ReadoutError),
    /// The engine cannot be built.
    Brain(BrainError),
}

impl fmt::Display for NoFieldReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoFieldReplay::Remote => {
                f.write_str("a brain computer computed the field, and its state before the run is unknown")
            }
            NoFieldReplay::Readout(error) => error.fmt(f),
            NoFieldReplay::Brain(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NoFieldReplay {}

/// Where the computation of a run's field can start.
#[derive(Debug, Default)]
pub struct FieldStart {
    /// The field was at rest before the run's first slot.
    pub at_rest: bool,
    /// Copies of the field after some of its cycles.
    pub copies: Vec<FieldCopy>,
}

/// How many answers were compared, and how the comparison ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldAnswers {
    /// Answers that are the same, up to rounding if a GPU computed them.
    pub equal: u64,
    /// How many of these had their motors replaced in order to reach a goal; those motors were not compared.
    pub steered: u64,
    /// Answers before the first compared one, to requests made while the field's state was unknown.
    pub before: u64,
    /// The largest difference of a value; 0 unless a GPU computed the run's field.
    pub largest: f32,
    /// The first value that differs; nothing is computed after it.
    pub differs: Option<Difference>,
    /// Why nothing more is computed.
    pub unknown: Option<FieldUnknown>,
}

/// The field of a run, computed again.
pub struct FieldReplay {
    brain: Brain,
    names: Names,
    /// Largest difference that is not reported; 0: every bit counts.
    bound: f32,
    start: FieldStart,
    /// The outstanding request: the time of its slot, and the replay's answer, which is compared once the
    /// run's engine has answered.
    pending: Option<(Instant, Option<FieldOutput>)>,
    begun: bool,
    /// Number of the next cycle; `None`: the field's state is unknown.
    next: Option<u64>,
    answers: FieldAnswers,
}

impl FieldReplay {
    /// The field of `board`, with the read-out that the run was given; it is computed from `start` on.
    /// `computed_by` is the engine of the run; the CPU stands in for a GPU.
    pub fn new(
        board: &Board,
        readout: Option<Readout>,
        computed_by: EngineKind,
        mut start: FieldStart,
    ) -> Result<FieldReplay, NoFieldReplay> {
        if computed_by == EngineKind::Remote {
            return Err(NoFieldReplay::Remote);
        }
        if let Some(readout) = &readout {
            readout.check(board).map_err(NoFieldReplay::Readout)?;
        }
        let mut board = board.clone();
        let (engine, bound) = match computed_by {
            EngineKind::Reference => (EngineKind::Reference, 0.0),
            EngineKind::Cuda => (EngineKind::Cpu, ROUNDING),
            EngineKind::Auto | EngineKind::Cpu | EngineKind::Remote => (EngineKind::Cpu, 0.0),
        };
        board.field.engine = engine;
        let brain = Brain::resume(&board, readout, None, Before::default(), Arc::new(MonotonicClock));
        let brain = brain.map_err(NoFieldReplay::Brain)?;
        start.copies.retain(|copy| copy.fits(&brain.learned));
        Ok(FieldReplay {
            brain,
            names: Names::of(&board),
            bound,
            start,
            pending: None,
            begun: false,
            next: None,
            answers: FieldAnswers::default(),
        })
    }

    /// The result of the comparison so far.
    pub fn answers(&self) -> &FieldAnswers {
        &self.answers
    }

    /// Compares the result that the tick collected in `slot`, then computes the request that `replay` made in
    /// it. `replayed`: the slot could be replayed.
    pub fn step(&mut self, slot: &Slot, replay: &mut Replay, replayed: bool) {
        let request = replay.take_request();
        if self.answers.differs.is_some() {
            return;
        }
        if !std::mem::replace(&mut self.begun, true) {
            match slot.index == 0 && self.start.at_rest {
                true => self.next = Some(0),
                false => self.lose(FieldUnknown::Begin(slot.index)),
            }
        }
        if !replayed {
            self.lose(FieldUnknown::Request(slot.index));
        } else if let Some(field) = &slot.field {
            match self.next {
                Some(_) => self.compare(slot, field),
                None => self.restore(slot, field),
            }
        }
        if let Some((request, sensors)) = request {
            let answer = self.next.and_then(|cycle| {
                self.next = Some(cycle + 1);
                self.answer(&FieldInput {
                    cycle,
                    sensors,
                    reward: 0.0,
                    quality: request.quality,
                    place: None,
                })
            });
            self.pending = Some((request.slot, answer));
        }
    }

    /// Marks the field's state as unknown from here on.
    fn lose(&mut self, why: FieldUnknown) {
        (self.next, self.pending) = (None, None);
        self.answers.unknown.get_or_insert(why);
    }

    /// Continues from the copy that was made after the cycle of this answer, if there is one.
    fn restore(&mut self, slot: &Slot, field: &FieldRecord) {
        let requested = slot.slot - field.age;
        let is_own = self.pending.take().is_some_and(|(slot, _)| slot == requested);
        let Some(answer) = field.answer.as_ref().filter(|_| is_own && field.state.is_none()) else { return };
        let copy = self.start.copies.iter().find(|copy| copy.live().cycle == answer.cycle);
        let engine = &mut self.brain.engine;
        if self.answers.equal == 0 && copy.is_some_and(|copy| engine.restore(copy.live()).is_ok()) {
            (self.next, self.answers.unknown) = (Some(answer.cycle + 1), None);
        }
        self.answers.before += u64::from(self.answers.equal == 0);
    }

    /// The engine's answer, as a robot's worker would return it.
    fn answer(&mut self, input: &FieldInput) -> Option<FieldOutput> {
        let answer: Result<FieldOutput, NoAnswer> = self.brain.cycle(input, &MonotonicClock);
        let mut answer = answer.ok()?;
        self.brain.request(&mut answer, &input.sensors);
        Some(answer)
    }

    fn compare(&mut self, slot: &Slot, field: &FieldRecord) {
        let index = slot.index;
        if let Some(state) = &field.state {
            self.lose(FieldUnknown::Engine(index, state.clone()));
            return;
        }
        let requested = slot.slot - field.age;
        let Some((_, computed)) = self.pending.take().filter(|(slot, _)| *slot == requested) else {
            self.lose(FieldUnknown::Request(index));
            return;
        };
        match (&field.answer, computed) {
            // Both refused the input, which changes no state.
            (None, None) => self.answers.equal += 1,
            (None, Some(_)) => self.lose(FieldUnknown::NoAnswer(index)),
            (Some(recorded), computed) => {
                let steered = field.goal.is_some_and(|goal| goal.requester != Requester::Field);
                let mut search = Search::in_slot(index);
                let recorded = recorded.response();
                search.value("whether the field answered", &recorded.is_some(), &computed.is_some());
                if let Some((recorded, computed)) = recorded.zip(computed) {
                    let apart = search.answers((&recorded, &computed), self.bound, !steered, &self.names);
                    self.answers.largest = self.answers.largest.max(apart);
                }
                self.answers.differs = search.found();
                let is_equal = self.answers.differs.is_none();
                self.answers.equal += u64::from(is_equal);
                self.answers.steered += u64::from(is_equal && steered);
            }
        }
    }
}

impl Replay {
    /// The request to the field that the newest slot made, and its sensors.
    fn take_request(&mut self) -> Option<(FieldRequest, [f32; crate::base::frame::MAX_SENSORS])> {
        let request = self.orders.take()?;
        Some((request, self.sensor_ring.read(request.place)))
    }
}
