//! One cycle of a remote field on the wire: a request of 304 bytes and an answer of 176, both little endian.
//! The runtime and the brain read and write them; the tether between them seals and carries them unread.
//!
//! ```text
//! request    0 version 1   1 quality level   2 sensors   3 zero      4 reward (f32)
//!            8 cycle      16 sent (ns)      24 deadline (us, u32)   28 zero
//!           32 zero                                                  48 sensors: 64 x f32
//! answer     0 version 1   1 verdict         2 motors    3 zero      4 compute time (us, u32)
//!            8 cycle      16 sent, echoed   24 waited (us, u32)     28 zero
//!           32 confidence 36 skill          40 novelty (f32 each)   44 zero
//!           48 scores: 16 x f32            112 motors: 16 x f32
//! ```
//!
//! `sent` is a time on the robot's own CLOCK_MONOTONIC, which the brain returns unchanged, so the robot can
//! tell an answer's age without a shared clock. The deadline counts from the request's arrival at the brain.
//! The receiver refuses a whole message if its length or version is wrong, if a byte has an invalid value, or
//! if a number is not finite or out of range.

use crate::base::command::MAX_MOTORS;
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::QualityLevel;
use crate::base::time::{Instant, Span};
use crate::field::{FieldInput, FieldOutput};
use std::fmt;

/// Bytes of a request.
pub const REQUEST_BYTES: usize = 48 + 4 * MAX_SENSORS;
/// Bytes of an answer.
pub const ANSWER_BYTES: usize = 48 + 2 * 4 * MAX_MOTORS;
/// Incremented whenever the meaning of a message changes.
pub const MESSAGE_VERSION: u8 = 1;
/// Largest valid magnitude of a score. A motor, the tanh of its score, saturates far below this.
pub const SCORE_MOST: f32 = 1.0e6;

/// A robot's request to its brain for one cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CycleRequest {
    /// Number of the cycle.
    pub cycle: u64,
    /// When it was sent, on the robot's clock.
    pub sent: Instant,
    /// How long after its arrival at the brain the request may be answered. The brain cannot count from
    /// `sent`, because it does not know the robot's clock.
    pub deadline: Span,
    /// Quality level.
    pub quality: QualityLevel,
    /// Reward, -1..=1.
    pub reward: f32,
    /// How many sensors are used.
    pub count: u8,
    /// Sensors on the field's scale, -1..=1; 0 from `count` on.
    pub sensors: [f32; MAX_SENSORS],
}

/// How a brain handled a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// The numbers are the field's answer.
    Answered = 0,
    /// The request was refused: a sensor, the reward or another value is invalid.
    Refused = 1,
    /// The engine is not ready yet, or it failed and may have to restart from its last snapshot.
    Failed = 2,
    /// The brain did not start on the request before its deadline.
    Late = 3,
}

/// A brain's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CycleAnswer {
    /// [`CycleRequest::cycle`].
    pub cycle: u64,
    /// [`CycleRequest::sent`], returned unchanged.
    pub sent: Instant,
    /// How the brain handled the request.
    pub verdict: Verdict,
    /// How long the brain computed.
    pub computed: Span,
    /// How long the request waited at the brain before that.
    pub waited: Span,
    /// How many motors are used.
    pub count: u8,
    /// Scores of the read-out; 0 from `count` on, and all 0 unless answered.
    pub scores: [f32; MAX_MOTORS],
    /// Motors, -1..=1; 0 from `count` on, and all 0 unless answered.
    pub motors: [f32; MAX_MOTORS],
    /// Confidence, 0..=1.
    pub confidence: f32,
    /// Skill, -1..=1.
    pub skill: f32,
    /// Novelty, 0..=1.
    pub novelty: f32,
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MessageError {
    /// Its length is wrong.
    Length {
        /// Its length in bytes.
        found: usize,
        /// The only valid length.
        expected: usize,
    },
    /// It is of another version.
    Version(u8),
    /// A byte has an invalid value.
    Byte {
        /// Its offset.
        at: usize,
        /// Its value.
        value: u8,
    },
    /// A number is not finite or out of its range.
    Number {
        /// Where it begins, in bytes.
        at: usize,
        /// Its value.
        value: f32,
        /// Its range is -`most`..=`most`.
        most: f32,
    },
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::Length { found, expected } => write!(f, "{found} bytes, not {expected}"),
            MessageError::Version(found) => {
                write!(f, "message version {found}; this program supports version {MESSAGE_VERSION}")
            }
            MessageError::Byte { at, value } => write!(f, "byte {at} is {value}, which is not valid"),
            MessageError::Number { at, value, most } => {
                write!(f, "the number at byte {at} is {value}, not -{most}..={most}")
            }
        }
    }
}

impl std::error::Error for MessageError {}

impl CycleRequest {
    /// The request for `input`, of which the first `count` sensors are used.
    pub fn of(input: &FieldInput, count: usize, sent: Instant, deadline: Span) -> CycleRequest {
        let count = count.min(MAX_SENSORS);
        let mut sensors = [0.0; MAX_SENSORS];
        sensors[..count].copy_from_slice(&input.sensors[..count]);
        let (cycle, quality, reward) = (input.cycle, input.quality, input.reward);
        CycleRequest { cycle, sent, deadline, quality, reward, count: count as u8, sensors }
    }

    /// The input for the brain's engine.
    pub fn input(&self) -> FieldInput {
        let CycleRequest { cycle, sensors, reward, quality, .. } = *self;
        FieldInput { cycle, sensors, reward, quality, place: None }
    }

    /// Encodes as bytes.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..3].copy_from_slice(&[MESSAGE_VERSION, self.quality.index() as u8, self.count]);
        put_f32(&mut bytes, 4, self.reward);
        put_u64(&mut bytes, 8, self.cycle);
        put_u64(&mut bytes, 16, self.sent.as_nanos());
        put_micros(&mut bytes, 24, self.deadline);
        put_row(&mut bytes, 48, &self.sensors[..usize::from(self.count)]);
        bytes
    }

    /// Decodes bytes.
    pub fn decode(bytes: &[u8]) -> Result<CycleRequest, MessageError> {
        let bytes = checked::<REQUEST_BYTES>(bytes)?;
        let quality = QualityLevel::new(bytes[1]).ok_or(MessageError::Byte { at: 1, value: bytes[1] })?;
        let count = at_most(bytes, 2, MAX_SENSORS)?;
        zeros(bytes, &[3..4, 28..48])?;
        let mut sensors = [0.0; MAX_SENSORS];
        take_row(bytes, 48, count, 1.0, &mut sensors)?;
        Ok(CycleRequest {
            cycle: take_u64(bytes, 8),
            sent: Instant::from_nanos(take_u64(bytes, 16)),
            deadline: take_micros(bytes, 24),
            quality,
            reward: take_f32(bytes, 4, 1.0)?,
            count,
            sensors,
        })
    }
}

impl CycleAnswer {
    /// The answer `response` to `request`, of which the first `count` motors are used. Limits the scores to
    /// [`SCORE_MOST`], which extreme weights exceed: the robot would refuse the whole answer.
    pub fn answered(request: &CycleRequest, response: &FieldOutput, count: usize) -> CycleAnswer {
        let count = count.min(MAX_MOTORS);
        let mut answer = CycleAnswer::without(request, Verdict::Answered);
        answer.count = count as u8;
        let limited = response.scores.map(|score| score.clamp(-SCORE_MOST, SCORE_MOST));
        answer.scores[..count].copy_from_slice(&limited[..count]);
        answer.motors[..count].copy_from_slice(&response.motors[..count]);
        (answer.confidence, answer.skill, answer.novelty) =
            (response.confidence, response.skill, response.novelty);
        answer
    }

    /// An answer without numbers.
    pub fn without(request: &CycleRequest, verdict: Verdict) -> CycleAnswer {
        CycleAnswer {
            cycle: request.cycle,
            sent: request.sent,
            verdict,
            computed: Span::ZERO,
            waited: Span::ZERO,
            count: 0,
            scores: [0.0; MAX_MOTORS],
            motors: [0.0; MAX_MOTORS],
            confidence: 0.0,
            skill: 0.0,
            novelty: 0.0,
        }
    }

    /// Refuses a request that cannot be decoded because a number or a byte is invalid. `None`: its length or
    /// version is wrong, so its cycle is not known either.
    pub fn refusing(request: &[u8]) -> Option<CycleAnswer> {
        let bytes = checked::<REQUEST_BYTES>(request).ok()?;
        let input = FieldInput { cycle: take_u64(bytes, 8), ..FieldInput::AT_REST };
        let sent = Instant::from_nanos(take_u64(bytes, 16));
        let request = CycleRequest::of(&input, 0, sent, Span::ZERO);
        Some(CycleAnswer::without(&request, Verdict::Refused))
    }

    /// The field's answer; `None` unless the verdict is [`Verdict::Answered`].
    pub fn response(&self) -> Option<FieldOutput> {
        (self.verdict == Verdict::Answered).then_some(FieldOutput {
            cycle: self.cycle,
            scores: self.scores,
            motors: self.motors,
            confidence: self.confidence,
            skill: self.skill,
            novelty: self.novelty,
        })
    }

    /// Encodes as bytes.
    pub fn encode(&self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..3].copy_from_slice(&[MESSAGE_VERSION, self.verdict as u8, self.count]);
        put_micros(&mut bytes, 4, self.computed);
        put_u64(&mut bytes, 8, self.cycle);
        put_u64(&mut bytes, 16, self.sent.as_nanos());
        put_micros(&mut bytes, 24, self.waited);
        put_row(&mut bytes, 32, &[self.confidence, self.skill, self.novelty]);
        put_row(&mut bytes, SCORES, &self.scores[..usize::from(self.count)]);
        put_row(&mut bytes, MOTORS, &self.motors[..usize::from(self.count)]);
        bytes
    }

    /// Decodes bytes.
    pub fn decode(bytes: &[u8]) -> Result<CycleAnswer, MessageError> {
        let bytes = checked::<ANSWER_BYTES>(bytes)?;
        let verdict = match bytes[1] {
            0 => Verdict::Answered,
            1 => Verdict::Refused,
            2 => Verdict::Failed,
            3 => Verdict::Late,
            value => return Err(MessageError::Byte { at: 1, value }),
        };
        let most = if verdict == Verdict::Answered { MAX_MOTORS } else { 0 };
        let count = at_most(bytes, 2, most)?;
        zeros(bytes, &[3..4, 28..32, 44..48])?;
        let (mut scores, mut motors) = ([0.0; MAX_MOTORS], [0.0; MAX_MOTORS]);
        take_row(bytes, SCORES, count, SCORE_MOST, &mut scores)?;
        take_row(bytes, MOTORS, count, 1.0, &mut motors)?;
        Ok(CycleAnswer {
            cycle: take_u64(bytes, 8),
            sent: Instant::from_nanos(take_u64(bytes, 16)),
            verdict,
            computed: take_micros(bytes, 4),
            waited: take_micros(bytes, 24),
            count,
            scores,
            motors,
            confidence: take_f32(bytes, 32, 1.0)?,
            skill: take_f32(bytes, 36, 1.0)?,
            novelty: take_f32(bytes, 40, 1.0)?,
        })
    }
}

/// Offset of the scores in an answer.
const SCORES: usize = 48;
/// Offset of the motors in an answer.
const MOTORS: usize = SCORES + 4 * MAX_MOTORS;

fn checked<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], MessageError> {
    let whole = bytes.try_into().map_err(|_| MessageError::Length { found: bytes.len(), expected: N })?;
    if bytes[0] == MESSAGE_VERSION { Ok(whole) } else { Err(MessageError::Version(bytes[0])) }
}

fn at_most(bytes: &[u8], at: usize, most: usize) -> Result<u8, MessageError> {
    let value = bytes[at];
    if usize::from(value) <= most { Ok(value) } else { Err(MessageError::Byte { at, value }) }
}

fn zeros(bytes: &[u8], ranges: &[std::ops::Range<usize>]) -> Result<(), MessageError> {
    let found = ranges.iter().cloned().flatten().find(|at| bytes[*at] != 0);
    found.map_or(Ok(()), |at| Err(MessageError::Byte { at, value: bytes[at] }))
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn put_f32(bytes: &mut [u8], at: usize, value: f32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Writes a time in whole microseconds, clamped to the largest value that fits (71 minutes).
fn put_micros(bytes: &mut [u8], at: usize, span: Span) {
    let micros = u32::try_from(span.as_nanos() / 1_000).unwrap_or(u32::MAX);
    bytes[at..at + 4].copy_from_slice(&micros.to_le_bytes());
}

fn put_row(bytes: &mut [u8], at: usize, values: &[f32]) {
    for (index, value) in values.iter().enumerate() {
        put_f32(bytes, at + 4 * index, *value);
    }
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

fn take_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(word(bytes, at))
}

fn take_micros(bytes: &[u8], at: usize) -> Span {
    Span::from_micros(u64::from(u32::from_le_bytes(word(bytes, at))))
}

fn take_f32(bytes: &[u8], at: usize, most: f32) -> Result<f32, MessageError> {
    let value = f32::from_le_bytes(word(bytes, at));
    // Also refuses NaN, which is outside every range.
    if (-most..=most).contains(&value) { Ok(value) } else { Err(MessageError::Number { at, value, most }) }
}

/// Takes `count` numbers; the rest must be 0.
fn take_row(bytes: &[u8], at: usize, count: u8, most: f32, out: &mut [f32]) -> Result<(), MessageError> {
    let (count, all) = (usize::from(count), out.len());
    for (index, value) in out.iter_mut().enumerate().take(count) {
        *value = take_f32(bytes, at + 4 * index, most)?;
    }
    zeros(bytes, std::slice::from_ref(&(at + 4 * count..at + 4 * all)))
}

#[cfg(test)]
mod tests;
