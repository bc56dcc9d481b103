//! A slot as it is recorded: everything that its decisions were based on, in order, and all its decisions,
//! bit for bit. The encoding is bincode; times are stored relative to the slot's time, because small numbers
//! take few bytes.

use crate::base::command::{Command, MAX_MOTORS, OnWire, Source};
use crate::base::frame::{Frame, Reading, Sample};
use crate::base::plan::{Limits, QualityLevel};
use crate::base::time::{Instant, Span};
use crate::decision::mode::{Asked, Mode};
use crate::decision::reflex::Signals;
use crate::drive::trace::{FieldTrace, Record};
use crate::field::navigate::goals::GoalReport;
use crate::field::remote::LinkHealth;
use crate::field::{DeviceTimes, EngineState, FieldOutput};
use crate::system::codec::{self, CodecError};
use serde::{Deserialize, Serialize};

/// Version of the encoding: raised when a field is added, removed or moved. A program reads only its own
/// version.
pub const FORMAT: u32 = 11;

/// What a recording keeps of one slot.
#[derive(Clone, Debug)]
pub struct Step {
    /// The tick's state before the slot; present only every few seconds.
    pub checkpoint: Option<Vec<u8>>,
    /// The slot.
    pub slot: Slot,
}

/// One slot of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Slot {
    /// When it was due.
    pub slot: Instant,
    /// Number of the slot on the grid.
    pub index: u64,
    /// When its work started.
    pub began: Instant,
    /// When its work ended.
    pub ended: Instant,
    /// Slots lost before it.
    pub lost: u64,
    /// What was requested.
    pub asked: Asked,
    /// The inputs of the reflexes besides the frame.
    pub signals: Signals,
    /// The readings that were taken, in order.
    pub readings: Vec<Reading>,
    /// Number of readings that were taken but are not in the recording.
    pub untold: u32,
    /// Commands confirmed since the previous slot.
    pub receipts: Vec<OnWire>,
    /// The field's result that the slot collected.
    pub field: Option<FieldRecord>,
    /// State of the robot at the end of the slot.
    pub mode: Mode,
    /// Active causes.
    pub active: u16,
    /// Causes that became active.
    pub tripped: u16,
    /// Causes that remain until the robot is disarmed.
    pub latched: u16,
    /// The combined limits of all causes.
    pub limits: Limits,
    /// Quality level of the next cycle.
    pub quality: QualityLevel,
    /// The frame, limited to the channels in use.
    pub frame: Vec<Sample>,
    /// Number of the command.
    pub seq: u64,
    /// When the command's validity ends.
    pub valid_until: Instant,
    /// What decided the command.
    pub source: Source,
    /// Values of the motors in use.
    pub motors: Vec<f32>,
}

/// A field's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FieldRecord {
    /// The answer, if there was one.
    pub answer: Option<RecordedAnswer>,
    /// Compute time.
    pub span: Span,
    /// From the slot that requested it to the end of the cycle.
    pub took: Span,
    /// From the slot that requested it to this slot.
    pub age: Span,
    /// Quality level at which the cycle was computed.
    pub quality: QualityLevel,
    /// Why the engine did not run, as text; `None`: it ran.
    pub state: Option<String>,
    /// Where the time was spent, if a device computed the cycle.
    pub times: Option<DeviceTimes>,
    /// The link to a remote brain, if the field has one.
    pub link: Option<LinkHealth>,
    /// What the robot does about its goal, on a board that has a navigator.
    pub goal: Option<GoalReport>,
}

/// The field's answer. Trailing zeros of the vectors are left out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedAnswer {
    /// Number of the cycle.
    pub cycle: u64,
    /// Scores.
    pub scores: Vec<f32>,
    /// Motors.
    pub motors: Vec<f32>,
    /// Confidence.
    pub confidence: f32,
    /// Skill.
    pub skill: f32,
    /// Novelty.
    pub novelty: f32,
}

impl Slot {
    /// The slot described by `record`, which took `readings`.
    pub fn of(record: &Record, readings: Vec<Reading>, untold: u32) -> Slot {
        Slot {
            slot: record.slot,
            index: record.index,
            began: record.began,
            ended: record.ended,
            lost: record.lost,
            asked: record.inputs.asked,
            signals: record.inputs.signals,
            readings,
            untold,
            receipts: record.receipts.to_vec(),
            field: record.field.as_ref().map(FieldRecord::of),
            mode: record.mode,
            active: record.active,
            tripped: record.tripped,
            latched: record.latched,
            limits: record.limits,
            quality: record.quality,
            frame: record.frame.used().to_vec(),
            seq: record.command.seq,
            valid_until: record.command.valid_until,
            source: record.command.source,
            motors: record.command.used().to_vec(),
        }
    }

    /// Encodes the slot.
    pub fn bytes(&self) -> Result<Vec<u8>, CodecError> {
        let mut near = self.clone();
        let slot = self.slot.as_nanos();
        near.times(|time| *time = Instant::from_nanos(folded(time.as_nanos().wrapping_sub(slot))));
        let mut bytes = Vec::new();
        codec::append(&near, &mut bytes)?;
        Ok(bytes)
    }

    /// Decodes a slot.
    pub fn read(bytes: &[u8]) -> Result<Slot, CodecError> {
        let mut read: Slot = codec::record(bytes)?;
        let slot = read.slot.as_nanos();
        read.times(|time| *time = Instant::from_nanos(slot.wrapping_add(unfolded(time.as_nanos()))));
        Ok(read)
    }

    /// Applies `change` to each time that is stored relative to the slot's own.
    fn times(&mut self, mut change: impl FnMut(&mut Instant)) {
        [&mut self.began, &mut self.ended, &mut self.valid_until].into_iter().for_each(&mut change);
        self.readings.iter_mut().for_each(|reading| change(&mut reading.stamp));
        self.frame.iter_mut().for_each(|sample| change(&mut sample.stamp));
        for receipt in &mut self.receipts {
            change(&mut receipt.slot);
            change(&mut receipt.at);
        }
    }

    /// The frame as the tick had it; `None` if it has more channels than a frame can have.
    pub fn whole_frame(&self) -> Option<Frame> {
        let mut frame = Frame::empty(0);
        frame.samples.get_mut(..self.frame.len())?.copy_from_slice(&self.frame);
        (frame.len, frame.slot) = (self.frame.len(), self.slot);
        Some(frame)
    }

    /// The command as the tick sent it; `None` if it has more motors than a command can have.
    pub fn command(&self) -> Option<Command> {
        let mut command = Command::still(self.motors.len());
        command.motors.get_mut(..self.motors.len())?.copy_from_slice(&self.motors);
        let Slot { seq, slot, valid_until, source, .. } = *self;
        Some(Command { seq, slot, valid_until, source, ..command })
    }
}

impl FieldRecord {
    fn of(trace: &FieldTrace) -> FieldRecord {
        let state = (trace.state != EngineState::Running).then(|| trace.state.to_string());
        let answer = trace.response.as_ref().map(RecordedAnswer::of);
        let FieldTrace { span, answer: took, age, quality, times, link, goal, .. } = *trace;
        FieldRecord { answer, span, took, age, quality, state, times, link, goal }
    }
}

impl RecordedAnswer {
    fn of(response: &FieldOutput) -> RecordedAnswer {
        let FieldOutput { cycle, confidence, skill, novelty, .. } = *response;
        let (scores, motors) = (shortened(&response.scores), shortened(&response.motors));
        RecordedAnswer { cycle, scores, motors, confidence, skill, novelty }
    }

    /// The answer as the engine returned it; `None` if it is longer than an answer can be.
    pub fn response(&self) -> Option<FieldOutput> {
        let RecordedAnswer { cycle, confidence, skill, novelty, .. } = *self;
        let (scores, motors) = (lengthened(&self.scores)?, lengthened(&self.motors)?);
        Some(FieldOutput { cycle, scores, motors, confidence, skill, novelty })
    }
}

/// Without trailing zeros.
fn shortened(values: &[f32; MAX_MOTORS]) -> Vec<f32> {
    let used = values.iter().rposition(|value| value.to_bits() != 0).map_or(0, |last| last + 1);
    values[..used].to_vec()
}

fn lengthened(values: &[f32]) -> Option<[f32; MAX_MOTORS]> {
    let mut whole = [0.0; MAX_MOTORS];
    whole.get_mut(..values.len())?.copy_from_slice(values);
    Some(whole)
}

/// Zigzag encoding, which maps small differences of either sign to small numbers: 0, -1, 1, -2, 2 become 0,
/// 1, 2, 3, 4.
fn folded(distance: u64) -> u64 {
    let signed = distance as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

fn unfolded(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::full;
