//! The conversation with one client, without a socket: what each frame of it asks for, and the frames that
//! answer. The client speaks first, and each of its frames gets one frame.

use super::frame::{Frame, FrameFault, Kind};
use super::profile::{BadVector, Profile};
use crate::base::command::MAX_MOTORS;
use crate::base::plan::QualityLevel;
use crate::field::FieldInput;
use std::fmt;
use std::sync::Arc;

/// The version of the brain that clients are told. They print it.
const BRAIN_VERSION: f32 = 1.0;
/// Dimensions of a client that does not say its own in the handshake.
const SENSORS_UNSAID: f32 = 16.0;
const MOTORS_UNSAID: f32 = 4.0;

/// What a client did wrong, or what went wrong for it; the number is what it is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// A frame of a kind that clients do not send.
    Kind(Kind),
    /// Sensors before the handshake.
    NoHandshake,
    /// Its vectors are not those of the profile.
    Dimensions {
        /// Its sensors.
        sensors: f32,
        /// Its motors.
        motors: f32,
    },
    /// A sensory vector that no field is given.
    Vector(BadVector),
    /// Bytes that are no frame.
    Frame(FrameFault),
    /// The brain gave no answer.
    NoAnswer,
}

impl Trouble {
    /// The number of the error, as the earlier service gave them.
    fn code(self) -> f32 {
        match self {
            Trouble::Kind(_) => 1.0,
            Trouble::Vector(BadVector::Empty) => 3.0,
            Trouble::NoHandshake | Trouble::Dimensions { .. } | Trouble::Vector(_) | Trouble::Frame(_) => 2.0,
            Trouble::NoAnswer => 5.0,
        }
    }

    /// The frame that tells the client.
    pub fn frame(self) -> Frame {
        Frame { kind: Kind::Error, values: vec![self.code()] }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Kind(kind) => write!(f, "a frame of kind {kind:?}, which no client sends"),
            Trouble::NoHandshake => f.write_str("sensors before the handshake"),
            Trouble::Dimensions { sensors, motors } => {
                write!(f, "it has {sensors} sensors and {motors} motors, other than the profile")
            }
            Trouble::Vector(BadVector::Empty) => f.write_str("an empty sensory vector"),
            Trouble::Vector(BadVector::Length(length)) => {
                write!(f, "a sensory vector of {length} values, other than the profile")
            }
            Trouble::Vector(BadVector::Number(at)) => write!(f, "value {at} of its sensors is not finite"),
            Trouble::Frame(fault) => fault.fmt(f),
            Trouble::NoAnswer => f.write_str("the brain gave no answer in time"),
        }
    }
}

/// What a frame asks for.
#[allow(clippy::large_enum_variant)] // passed on at once; there is never more than one
#[derive(Clone, Debug)]
pub enum Asked {
    /// An engine; then [`Client::welcome`].
    Join,
    /// A cycle; then [`Client::action`].
    Cycle(FieldInput),
}

/// One client.
pub struct Client {
    profile: Arc<Profile>,
    joined: bool,
    cycle: u64,
}

impl Client {
    /// Nothing was said yet.
    pub fn new(profile: Arc<Profile>) -> Client {
        Client { profile, joined: false, cycle: 0 }
    }

    /// What `frame` asks for.
    pub fn take(&mut self, frame: &Frame) -> Result<Asked, Trouble> {
        match frame.kind {
            Kind::Handshake => {
                let said = |at: usize, unsaid| frame.values.get(at).copied().unwrap_or(unsaid);
                let (sensors, motors) = (said(1, SENSORS_UNSAID), said(2, MOTORS_UNSAID));
                let [own_sensors, own_motors] =
                    [self.profile.sensors(), self.profile.motors()].map(|count| count as f32);
                // A client that sends a reward may count it as a sensor.
                let fits = sensors == own_sensors || sensors == own_sensors + 1.0;
                if fits && motors == own_motors {
                    Ok(Asked::Join)
                } else {
                    Err(Trouble::Dimensions { sensors, motors })
                }
            }
            Kind::Sensory if !self.joined => Err(Trouble::NoHandshake),
            Kind::Sensory => {
                let (sensors, reward) = self.profile.sense(&frame.values).map_err(Trouble::Vector)?;
                self.cycle += 1;
                let (cycle, quality) = (self.cycle, QualityLevel::BEST);
                Ok(Asked::Cycle(FieldInput { cycle, sensors, reward, quality, place: None }))
            }
            Kind::Action | Kind::Error | Kind::Unknown(_) => Err(Trouble::Kind(frame.kind)),
        }
    }

    /// It has an engine.
    pub fn welcome(&mut self, on_gpu: bool) -> Frame {
        self.joined = true;
        let dimensions = [self.profile.sensors(), self.profile.motors()].map(|count| count as f32);
        let [sensors, motors] = dimensions;
        let values = vec![BRAIN_VERSION, sensors, motors, f32::from(u8::from(on_gpu)), 0.0];
        Frame { kind: Kind::Handshake, values }
    }

    /// The answer of its cycle.
    pub fn action(&self, motors: &[f32; MAX_MOTORS]) -> Frame {
        Frame { kind: Kind::Action, values: self.profile.act(motors) }
    }
}
