//! What drives a simulated robot: its starting table with a correction by the field, with one by a linear map
//! of the sensors that has no memory, or by itself. The last two are what a field is compared with.

use crate::base::command::MAX_MOTORS;
use crate::base::plan::FieldPlan;
use crate::field::{Failure, Inspect, Readout, Response, Stimulus};
use std::sync::Arc;

/// What drives.
#[derive(Clone, Debug)]
pub enum Driver {
    /// The table with the field's correction, by this read-out.
    Field(Arc<Readout>),
    /// The table, corrected by the tanh of a linear map of the field's inputs: by motor, a weight for each
    /// input and the constant.
    Map(Vec<f32>),
    /// The starting table by itself.
    Table,
}

impl Driver {
    /// The read-out for the robot's field: none where another driver drives.
    pub fn readout(&self) -> Option<Readout> {
        match self {
            Driver::Field(readout) => Some(Readout::clone(readout)),
            Driver::Map(_) | Driver::Table => None,
        }
    }

    /// One cycle. A field that does not drive does not compute either.
    pub fn cycle(
        &self,
        plan: &FieldPlan,
        stimulus: &Stimulus,
        engine: &mut dyn Inspect,
    ) -> Result<Response, Failure> {
        let sensors = &stimulus.sensors[..plan.shape.sensors];
        let (motors, scores) = ([0.0; MAX_MOTORS], [0.0; MAX_MOTORS]);
        let (cycle, confidence, skill, novelty) = (stimulus.cycle, 0.0, 0.0, 0.0);
        let mut response = Response { cycle, scores, motors, confidence, skill, novelty };
        match self {
            Driver::Field(_) => response = engine.cycle(stimulus)?,
            Driver::Map(weights) => {
                for (motor, correction) in response.motors[..plan.shape.motors].iter_mut().enumerate() {
                    *correction = mapped(weights, sensors, motor);
                }
            }
            Driver::Table => {}
        }
        plan.correct_start(&mut response.motors, sensors);
        Ok(response)
    }
}

/// What the map wants of `motor`.
fn mapped(weights: &[f32], sensors: &[f32], motor: usize) -> f32 {
    let row = &weights[motor * (sensors.len() + 1)..][..sensors.len() + 1];
    let sum: f32 = row.iter().zip(sensors).map(|(weight, sensor)| weight * sensor).sum();
    libm::tanhf(sum + row[sensors.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_a_row_a_motor_with_its_constant_last() {
        let weights = [1.0, 0.0, 0.5, 0.0, -2.0, 0.0];
        let sensors = [0.25, 0.5];
        assert_eq!(mapped(&weights, &sensors, 0), libm::tanhf(0.75));
        assert_eq!(mapped(&weights, &sensors, 1), libm::tanhf(-1.0));
    }
}
