//! The payloads of the handshake: a robot's description of itself, and the brain's reply. Little endian; a
//! text is a length byte, then UTF-8 without control characters.
//!
//! ```text
//! join    0 format 1   1 message version   2 sensors   3 motors   4 sensors listed   5 motors listed
//!         6 time between two cycles (us, u32)          10 digest of the board (32)
//!        42 BLAKE3 of all sensors and motors as listed (32)
//!        74 robot, board; for each sensor listed: name, unit, low (f32), high (f32); for each motor: name
//! reply   0 joined: 1   1 session (8)   9 name of the engine
//!         0 refused: 2  1 why, in words
//! ```
//!
//! A join lists as many sensors and motors as fit into one datagram. The BLAKE3 covers all of them, so a
//! difference beyond the list is noticed, although it cannot be named.

use super::datagram::{HANDSHAKE_PAYLOAD_MOST, Id};
use crate::base::command::MAX_MOTORS;
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::Board;
use crate::base::time::Span;
use crate::field::remote::local::TEXT_MOST;
use crate::field::remote::message::MESSAGE_VERSION;
use std::fmt;

mod difference;

pub use difference::Difference;

/// Incremented when the meaning of a join's bytes changes.
pub const JOIN_FORMAT: u8 = 1;
/// Longest name, in bytes: as in board files.
pub const NAME_MOST: usize = 32;
/// Longest unit, in bytes; a longer one is cut off.
pub const UNIT_MOST: usize = 16;

const FIXED: usize = 74;
const DIGEST: usize = blake3::OUT_LEN;
const JOINED: u8 = 1;
const REFUSED: u8 = 2;

/// A sensor as it enters the field.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinSensor {
    /// Its name on the board.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The value that becomes -1.
    pub low: f32,
    /// The value that becomes +1.
    pub high: f32,
}

/// A robot's description of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// Version of its cycle messages.
    pub message_version: u8,
    /// The robot's name, as in its key.
    pub robot: String,
    /// Name of its board.
    pub board: String,
    /// Digest of the board's effective values.
    pub digest: [u8; DIGEST],
    /// Time between two cycles of its field, in whole microseconds.
    pub period: Span,
    /// Number of sensors of its field.
    pub sensor_count: usize,
    /// Number of motors.
    pub motor_count: usize,
    /// The first sensors, as many as fit into a datagram.
    pub sensors: Vec<JoinSensor>,
    /// The first motors, if all sensors fit.
    pub motors: Vec<String>,
    /// BLAKE3 of all sensors and motors.
    pub channels: [u8; DIGEST],
}

/// A brain's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinReply {
    /// The brain answers the robot's requests from now on.
    Joined {
        /// ID of the session. The brain chooses it, and never reuses an ID while it runs.
        session: Id,
        /// Name of the engine that computes the robot's field.
        engine: String,
    },
    /// The robot may not join; the text says why, with both values.
    Refused(String),
}

/// Why bytes are not a valid join or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// Their format is not [`JOIN_FORMAT`].
    Format(u8),
    /// They end too early.
    Truncated,
    /// There are more bytes after their end.
    Trailing,
    /// The byte at this offset has an invalid value.
    Byte(usize),
    /// The text at this offset is too long, or is not one line of UTF-8.
    Text(usize),
    /// The number at this offset is not finite.
    Number(usize),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Format(found) => {
                write!(f, "the join request has format {found}; this program supports format {JOIN_FORMAT}")
            }
            JoinError::Truncated => f.write_str("it ends too early"),
            JoinError::Trailing => f.write_str("there are more bytes after its end"),
            JoinError::Byte(at) => write!(f, "byte {at} has an invalid value"),
            JoinError::Text(at) => write!(f, "the text at byte {at} is too long or not one line of UTF-8"),
            JoinError::Number(at) => write!(f, "the number at byte {at} is not finite"),
        }
    }
}

impl std::error::Error for JoinError {}

impl Join {
    /// The join of the robot called `robot`, whose `board` has `digest`.
    pub fn of(robot: &str, board: &Board, digest: [u8; DIGEST]) -> Join {
        let inputs = board.sensors.iter().filter_map(|sensor| Some((sensor, sensor.input?)));
        let mut sensors: Vec<JoinSensor> = inputs
            .map(|(sensor, scale)| JoinSensor {
                name: clipped(&sensor.name, NAME_MOST),
                unit: clipped(&sensor.unit, UNIT_MOST),
                low: scale.low,
                high: scale.high,
            })
            .collect();
        let mut motors: Vec<String> =
            board.motors.iter().map(|motor| clipped(&motor.name, NAME_MOST)).collect();
        let (sensor_count, motor_count) = (sensors.len(), motors.len());
        let channels = digest_of(&sensors, &motors);
        let mut room = HANDSHAKE_PAYLOAD_MOST - FIXED - 2 * (1 + NAME_MOST);
        sensors.truncate(fitting(&sensors, put_sensor, &mut room));
        motors.truncate(if sensors.len() < sensor_count {
            0
        } else {
            fitting(&motors, |name, bytes| put_name(name, bytes), &mut room)
        });
        Join {
            message_version: MESSAGE_VERSION,
            robot: clipped(robot, NAME_MOST),
            board: clipped(&board.name, NAME_MOST),
            digest,
            period: Span::from_micros(u64::from(micros(board.field.dt))),
            sensor_count,
            motor_count,
            sensors,
            motors,
            channels,
        }
    }

    /// Encodes it as bytes; there are at most [`HANDSHAKE_PAYLOAD_MOST`] if it was made by [`Join::of`] or
    /// decoded from a datagram.
    pub fn encode(&self) -> Vec<u8> {
        let counts = [self.sensor_count, self.motor_count, self.sensors.len(), self.motors.len()];
        let mut bytes = vec![JOIN_FORMAT, self.message_version];
        bytes.extend(counts.map(|count| count as u8));
        bytes.extend(micros(self.period).to_le_bytes());
        bytes.extend(self.digest);
        bytes.extend(self.channels);
        put_name(&self.robot, &mut bytes);
        put_name(&self.board, &mut bytes);
        self.sensors.iter().for_each(|sensor| put_sensor(sensor, &mut bytes));
        self.motors.iter().for_each(|motor| put_name(motor, &mut bytes));
        bytes
    }

    /// Decodes it from bytes.
    pub fn decode(bytes: &[u8]) -> Result<Join, JoinError> {
        let mut reader = Reader { bytes, at: 0 };
        let [format] = reader.take()?;
        if format != JOIN_FORMAT {
            return Err(JoinError::Format(format));
        }
        let [message_version] = reader.take()?;
        let [sensor_count, motor_count] = [reader.count(MAX_SENSORS)?, reader.count(MAX_MOTORS)?];
        let [sensors, motors] = [reader.count(sensor_count)?, reader.count(motor_count)?];
        Ok(Join {
            message_version,
            sensor_count,
            motor_count,
            period: Span::from_micros(u64::from(u32::from_le_bytes(reader.take()?))),
            digest: reader.take()?,
            channels: reader.take()?,
            robot: reader.text(NAME_MOST)?,
            board: reader.text(NAME_MOST)?,
            sensors: (0..sensors).map(|_| reader.sensor()).collect::<Result<_, _>>()?,
            motors: (0..motors).map(|_| reader.text(NAME_MOST)).collect::<Result<_, _>>()?,
        })
        .and_then(|join| reader.end().map(|()| join))
    }
}

impl JoinReply {
    /// A refusal with `words` as one line, cut off at [`TEXT_MOST`] bytes.
    pub fn refused(words: &impl fmt::Display) -> JoinReply {
        JoinReply::Refused(clipped(&words.to_string(), TEXT_MOST))
    }

    /// Encodes it as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            JoinReply::Joined { session, engine } => {
                bytes.push(JOINED);
                bytes.extend(session.0);
                put_text(engine, NAME_MOST, &mut bytes);
            }
            JoinReply::Refused(words) => {
                bytes.push(REFUSED);
                put_text(words, TEXT_MOST, &mut bytes);
            }
        }
        bytes
    }

    /// Decodes it from bytes.
    pub fn decode(bytes: &[u8]) -> Result<JoinReply, JoinError> {
        let mut reader = Reader { bytes, at: 0 };
        let reply = match reader.take()? {
            [JOINED] => JoinReply::Joined { session: Id(reader.take()?), engine: reader.text(NAME_MOST)? },
            [REFUSED] => JoinReply::Refused(reader.text(TEXT_MOST)?),
            [_] => return Err(JoinError::Byte(0)),
        };
        reader.end().map(|()| reply)
    }
}

/// Reads bytes from the front; fails with [`JoinError::Truncated`] at the end.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], JoinError> {
        let rest = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        self.at += N;
        rest.copied().ok_or(JoinError::Truncated)
    }

    fn count(&mut self, most: usize) -> Result<usize, JoinError> {
        let [count] = self.take()?;
        let count = usize::from(count);
        if count <= most { Ok(count) } else { Err(JoinError::Byte(self.at - 1)) }
    }

    fn text(&mut self, most: usize) -> Result<String, JoinError> {
        let start = self.at;
        let [length] = self.take()?;
        let length = usize::from(length);
        let bytes = self.bytes.get(self.at..self.at + length).ok_or(JoinError::Truncated)?;
        self.at += length;
        match std::str::from_utf8(bytes) {
            Ok(text) if length <= most && !text.chars().any(char::is_control) => Ok(text.to_string()),
            _ => Err(JoinError::Text(start)),
        }
    }

    fn number(&mut self) -> Result<f32, JoinError> {
        let value = f32::from_le_bytes(self.take()?);
        if value.is_finite() { Ok(value) } else { Err(JoinError::Number(self.at - 4)) }
    }

    fn sensor(&mut self) -> Result<JoinSensor, JoinError> {
        let (name, unit) = (self.text(NAME_MOST)?, self.text(UNIT_MOST)?);
        Ok(JoinSensor { name, unit, low: self.number()?, high: self.number()? })
    }

    fn end(&self) -> Result<(), JoinError> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(JoinError::Trailing) }
    }
}

fn put_text(text: &str, most: usize, bytes: &mut Vec<u8>) {
    let text = clipped(text, most);
    bytes.push(text.len() as u8);
    bytes.extend(text.as_bytes());
}

fn put_name(name: &str, bytes: &mut Vec<u8>) {
    put_text(name, NAME_MOST, bytes);
}

fn put_sensor(sensor: &JoinSensor, bytes: &mut Vec<u8>) {
    put_name(&sensor.name, bytes);
    put_text(&sensor.unit, UNIT_MOST, bytes);
    bytes.extend(sensor.low.to_le_bytes());
    bytes.extend(sensor.high.to_le_bytes());
}

/// How many of `all` fit into `room` bytes; subtracts their size from `room`.
fn fitting<T>(all: &[T], put: fn(&T, &mut Vec<u8>), room: &mut usize) -> usize {
    let mut one = Vec::new();
    let fits = |item: &&T| {
        one.clear();
        put(item, &mut one);
        room.checked_sub(one.len()).map(|left| *room = left).is_some()
    };
    all.iter().take_while(fits).count()
}

fn digest_of(sensors: &[JoinSensor], motors: &[String]) -> [u8; DIGEST] {
    let mut bytes = vec![sensors.len() as u8, motors.len() as u8];
    sensors.iter().for_each(|sensor| put_sensor(sensor, &mut bytes));
    motors.iter().for_each(|motor| put_name(motor, &mut bytes));
    *blake3::hash(&bytes).as_bytes()
}

/// At most the first `most` bytes of `text`, with control characters replaced by spaces.
fn clipped(text: &str, most: usize) -> String {
    let mut line = String::new();
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if line.len() + c.len_utf8() > most {
            break;
        }
        line.push(c);
    }
    line
}

/// In whole microseconds, limited to [`u32::MAX`] (over an hour).
fn micros(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
