//! The neural field: one sensor vector in and one motor vector out per cycle. `docs/field.md` defines the
//! maths, and every engine implements exactly that definition.
//!
//! A cycle goes through at most six layers, on three threads. The tick's [`link`] sends the request; the
//! [`worker`] receives it on the field's thread and isolates the tick from failures; [`failover`] chooses the
//! device or the standby engine; [`cuda`]'s engine passes the cycle over its `line` to the device's thread,
//! which owns the `brains`. Without a GPU there are three layers: link, worker and the [`cpu`] engine. Every
//! engine, including a remote one, is a [`FieldEngine`]; `brain` connects the layers.

pub mod brain;
pub mod cpu;
pub mod cuda;
pub mod decision_field;
pub mod device;
pub mod engine;
mod engine_state;
mod failure;
pub mod footprint;
pub mod link;
pub mod behave;
pub mod navigate;
pub mod readout;
mod predict;
pub mod reference;
mod quality;
pub mod sensor_ring;
#[cfg(test)]
pub(crate) mod sample;
mod stage;
pub mod shape;
pub mod slices;
pub mod snapshot;
pub mod state;
pub mod remote;
pub mod failover;
pub mod trial;
pub mod projections;
pub mod worker;

pub use cuda::DeviceTimes;
pub use engine::{Condition, FieldEngine, Inspect};
pub use engine_state::EngineState;
pub use failure::{Failure, Loss};
pub use link::FieldCounters;
pub use quality::{TABLE, Work};
pub use readout::{Readout, ReadoutError};
pub use stage::{STAGES, Stage, StageTimes};

use crate::base::command::MAX_MOTORS;
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::QualityLevel;

/// The input of one cycle.
#[derive(Clone, Copy, Debug)]
pub struct FieldInput {
    /// Number of the cycle, from 0. Determines the noise, and which parts of a level's work are due.
    pub cycle: u64,
    /// Sensors on their scale, -1..=1; only the first `sensors` entries (see the shape) are used.
    /// A value that is out of range or not finite is refused (see [`RefusedInput`]).
    pub sensors: [f32; MAX_SENSORS],
    /// Reward, -1..=1; |r| <= 0.1 counts as no reward.
    pub reward: f32,
    /// Quality of this cycle.
    pub quality: QualityLevel,
    /// Place in the robot's sensor ring where the tick wrote these sensors. An engine that reads them there
    /// first checks that they are still the same.
    pub place: Option<u8>,
}

impl FieldInput {
    /// All sensors in the middle of their scales, no reward, best quality.
    pub const AT_REST: FieldInput = FieldInput {
        cycle: 0,
        sensors: [0.0; MAX_SENSORS],
        reward: 0.0,
        quality: QualityLevel::BEST,
        place: None,
    };

    /// The first `count` sensors, if they and the reward are within -1..=1; otherwise, as the error, the
    /// first value that is out of range.
    pub fn check(&self, count: usize) -> Result<&[f32], RefusedInput> {
        let is_valid = |value: &f32| value.abs() <= 1.0; // false for NaN too
        let sensors = &self.sensors[..count];
        if let Some(sensor) = sensors.iter().position(|value| !is_valid(value)) {
            return Err(RefusedInput { sensor: Some(sensor), value: sensors[sensor] });
        }
        if is_valid(&self.reward) {
            Ok(sensors)
        } else {
            Err(RefusedInput { sensor: None, value: self.reward })
        }
    }
}

/// The value that makes every engine refuse an input; the field is left untouched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefusedInput {
    /// Index of the sensor; `None`: the reward.
    pub sensor: Option<usize>,
    /// The value.
    pub value: f32,
}

/// The answer of one cycle.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct FieldOutput {
    /// [`FieldInput::cycle`].
    pub cycle: u64,
    /// Rows of the read-out before the tanh; class scores where the read-out chooses labels.
    pub scores: [f32; MAX_MOTORS],
    /// tanh of the scores plus exploration noise: the motor vector, -1..=1.
    pub motors: [f32; MAX_MOTORS],
    /// 0..=1, from the mean of the last 100 absolute errors.
    pub confidence: f32,
    /// 1 - MSE / MSE of the better simple forecast (persistence or running mean), averaged over 10 s,
    /// -1..=1; above 0, the prediction beats both.
    pub skill: f32,
    /// 1 - the largest cosine between the descriptor and the rows of the bank.
    pub novelty: f32,
}

/// Statistics of the field. The engine computes and keeps them every 100 cycles, and also computes them on
/// request.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Metrics {
    /// Cycle they belong to.
    pub cycle: u64,
    /// Mean of all cells.
    pub mean: f32,
    /// Standard deviation of all cells.
    pub std: f32,
    /// Largest |u|.
    pub max: f32,
    /// Mean square.
    pub energy: f32,
    /// See [`FieldOutput::novelty`].
    pub novelty: f32,
    /// See [`FieldOutput::skill`].
    pub skill: f32,
    /// See [`FieldOutput::confidence`].
    pub confidence: f32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_out_of_range_is_named() {
        let mut input = FieldInput::AT_REST;
        input.sensors[..4].copy_from_slice(&[1.0, -1.0, 0.5, f32::NAN]);
        assert_eq!(input.check(3), Ok([1.0, -1.0, 0.5].as_slice()), "sensors past the third are ignored");
        let refused = input.check(4).unwrap_err();
        assert!(refused.sensor == Some(3) && refused.value.is_nan());
        for value in [1.000_1, -1.000_1, f32::INFINITY] {
            input.sensors[1] = value;
            assert_eq!(input.check(4), Err(RefusedInput { sensor: Some(1), value }));
            let rewarded = FieldInput { reward: value, ..FieldInput::AT_REST };
            assert_eq!(rewarded.check(4), Err(RefusedInput { sensor: None, value }));
        }
    }
}
