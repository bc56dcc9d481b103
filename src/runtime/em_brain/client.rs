//! The protocol with one client, independent of sockets: what each of its frames requests, and which frame is
//! the answer. The client sends first, and each of its frames is answered with one frame.

use super::frame::{Frame, FrameFault, Kind};
use super::profile::{BadVector, Profile};
use crate::base::command::MAX_MOTORS;
use crate::base::plan::QualityLevel;
use crate::field::FieldInput;
use std::fmt;
use std::sync::Arc;

/// The brain's version in the handshake, which clients print.
const BRAIN_VERSION: f32 = 1.0;
/// Dimensions that are assumed if a client's handshake does not contain them.
const DEFAULT_SENSORS: f32 = 16.0;
const DEFAULT_MOTORS: f32 = 4.0;

/// Why a client gets an error frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClientError {
    /// A frame of a kind that clients do not send.
    Kind(Kind),
    /// A sensory frame before the handshake.
    NoHandshake,
    /// Its vectors do not have the profile's dimensions.
    Dimensions {
        /// Its number of sensors.
        sensors: f32,
        /// Its number of motors.
        motors: f32,
    },
    /// An invalid sensory vector.
    Vector(BadVector),
    /// Bytes that are not a valid frame.
    Frame(FrameFault),
    /// The brain sent no answer.
    NoAnswer,
}

impl ClientError {
    /// The error number, as in the earlier service.
    fn code(self) -> f32 {
        match self {
            ClientError::Kind(_) => 1.0,
            ClientError::Vector(BadVector::Empty) => 3.0,
            ClientError::NoHandshake
            | ClientError::Dimensions { .. }
            | ClientError::Vector(_)
            | ClientError::Frame(_) => 2.0,
            ClientError::NoAnswer => 5.0,
        }
    }

    /// The frame that reports it to the client.
    pub fn frame(self) -> Frame {
        Frame { kind: Kind::Error, values: vec![self.code()] }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Kind(kind) => write!(f, "a frame of kind {kind:?}, which clients do not send"),
            ClientError::NoHandshake => f.write_str("a sensory frame before the handshake"),
            ClientError::Dimensions { sensors, motors } => {
                write!(f, "it has {sensors} sensors and {motors} motors, unlike the profile")
            }
            ClientError::Vector(BadVector::Empty) => f.write_str("an empty sensory vector"),
            ClientError::Vector(BadVector::Length(length)) => {
                write!(f, "a sensory vector of {length} values, unlike the profile")
            }
            ClientError::Vector(BadVector::Number(at)) => {
                write!(f, "value {at} of the sensory vector is not finite")
            }
            ClientError::Frame(fault) => fault.fmt(f),
            ClientError::NoAnswer => f.write_str("the brain gave no answer in time"),
        }
    }
}

/// What a frame requests.
#[allow(clippy::large_enum_variant)] // passed on at once and never stored
#[derive(Clone, Debug)]
pub enum ClientRequest {
    /// An engine, answered by [`Client::handshake_answer`].
    Join,
    /// A cycle, answered by [`Client::action`].
    Cycle(FieldInput),
}

/// One client.
pub struct Client {
    profile: Arc<Profile>,
    joined: bool,
    cycle: u64,
}

impl Client {
    /// A client that has not sent anything yet.
    pub fn new(profile: Arc<Profile>) -> Client {
        Client { profile, joined: false, cycle: 0 }
    }

    /// What `frame` requests.
    pub fn take(&mut self, frame: &Frame) -> Result<ClientRequest, ClientError> {
        match frame.kind {
            Kind::Handshake => {
                let value = |at: usize, default| frame.values.get(at).copied().unwrap_or(default);
                let (sensors, motors) = (value(1, DEFAULT_SENSORS), value(2, DEFAULT_MOTORS));
                let [own_sensors, own_motors] =
                    [self.profile.sensors(), self.profile.motors()].map(|count| count as f32);
                // A client that sends a reward may count it as a sensor.
                let fits = sensors == own_sensors || sensors == own_sensors + 1.0;
                if fits && motors == own_motors {
                    Ok(ClientRequest::Join)
                } else {
                    Err(ClientError::Dimensions { sensors, motors })
                }
            }
            Kind::Sensory if !self.joined => Err(ClientError::NoHandshake),
            Kind::Sensory => {
                let (sensors, reward) = self.profile.sense(&frame.values).map_err(ClientError::Vector)?;
                self.cycle += 1;
                let (cycle, quality) = (self.cycle, QualityLevel::BEST);
                Ok(ClientRequest::Cycle(FieldInput { cycle, sensors, reward, quality, place: None }))
            }
            Kind::Action | Kind::Error | Kind::Unknown(_) => Err(ClientError::Kind(frame.kind)),
        }
    }

    /// The answer to its handshake, once it has an engine.
    pub fn handshake_answer(&mut self, on_gpu: bool) -> Frame {
        self.joined = true;
        let dimensions = [self.profile.sensors(), self.profile.motors()].map(|count| count as f32);
        let [sensors, motors] = dimensions;
        let values = vec![BRAIN_VERSION, sensors, motors, f32::from(u8::from(on_gpu)), 0.0];
        Frame { kind: Kind::Handshake, values }
    }

    /// The answer to its sensory frame.
    pub fn action(&self, motors: &[f32; MAX_MOTORS]) -> Frame {
        Frame { kind: Kind::Action, values: self.profile.act(motors) }
    }
}
