//! One fixed-size set of sensor samples: the input of the reflexes and of the field.
//!
//! Every sample records when it was taken and whether it is credible. A frame uses no heap memory and is
//! copied whole. This file holds the types; `admit.rs` admits readings (range, finite, frozen, zero) and ages
//! them.

use crate::base::fault::ReadingFault;
use crate::base::time::Instant;

/// Maximum number of sensors on a board (design limit of the field's input vector).
pub const MAX_SENSORS: usize = 64;

/// Whether a sample is credible, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Health {
    /// There has been no reading since the start.
    Never,
    /// The value is valid and younger than its limit.
    Good,
    /// The value was valid, but is older than the board's `max_age_ms`.
    Stale,
    /// The newest reading was refused; `value` stays the last admitted one, and `worst` keeps ageing.
    Bad(ReadingFault),
}

/// A reading that a bus thread hands over: one channel at one moment.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Reading {
    /// Index of the sensor in the board's list.
    pub channel: u8,
    /// Value in the channel's unit, or the fault.
    pub value: Result<f32, ReadingFault>,
    /// When the quantity was sampled (not when it was handed over).
    pub stamp: Instant,
}

/// One channel of a frame.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Sample {
    /// Last admitted value, in the channel's unit.
    pub value: f32,
    /// `value` moved towards its worst case according to its age: the value that the reflex must assume.
    pub worst: f32,
    /// When `value` was sampled.
    pub stamp: Instant,
    /// Whether `value` is credible now.
    pub health: Health,
}

impl Sample {
    /// A channel without any reading.
    pub const NEVER: Sample = Sample { value: 0.0, worst: 0.0, stamp: Instant::ZERO, health: Health::Never };

    /// Its value, if it is credible now.
    pub fn good(&self) -> Option<f32> {
        (self.health == Health::Good).then_some(self.value)
    }
}

/// All channels at one slot.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The slot that this frame was taken for.
    pub slot: Instant,
    /// Number of channels in use.
    pub len: usize,
    /// Samples by channel; entries from `len` on are [`Sample::NEVER`].
    pub samples: [Sample; MAX_SENSORS],
}

impl Frame {
    /// A frame of `len` channels without any reading.
    pub fn empty(len: usize) -> Frame {
        assert!(len <= MAX_SENSORS, "the board check limits the number of sensors");
        Frame { slot: Instant::ZERO, len, samples: [Sample::NEVER; MAX_SENSORS] }
    }
    /// The channels in use.
    pub fn used(&self) -> &[Sample] {
        &self.samples[..self.len]
    }
}
