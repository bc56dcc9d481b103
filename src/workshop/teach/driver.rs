//! The driver of a simulated robot: its starting table with a correction by the field, with a correction by a
//! linear map of the sensors without memory, or alone. The last two are compared with the field.

use crate::base::command::MAX_MOTORS;
use crate::base::plan::FieldPlan;
use crate::field::{Failure, FieldInput, FieldOutput, Inspect, Readout};
use std::sync::Arc;

/// What computes the motion.
#[derive(Clone, Debug)]
pub enum Driver {
    /// The table with the field's correction by this read-out.
    Field(Arc<Readout>),
    /// The table corrected by the tanh of a linear map of the field's inputs: for each motor, a weight per
    /// input and the constant.
    Map(Vec<f32>),
    /// The starting table alone.
    Table,
}

impl Driver {
    /// The read-out for the robot's field; `None` with another driver.
    pub fn readout(&self) -> Option<Readout> {
        match self {
            Driver::Field(readout) => Some(Readout::clone(readout)),
            Driver::Map(_) | Driver::Table => None,
        }
    }

    /// Runs one cycle. With another driver the field is not computed.
    pub fn cycle(
        &self,
        plan: &FieldPlan,
        input: &FieldInput,
        engine: &mut dyn Inspect,
    ) -> Result<FieldOutput, Failure> {
        let sensors = &input.sensors[..plan.shape.sensors];
        let (motors, scores) = ([0.0; MAX_MOTORS], [0.0; MAX_MOTORS]);
        let (cycle, confidence, skill, novelty) = (input.cycle, 0.0, 0.0, 0.0);
        let mut response = FieldOutput { cycle, scores, motors, confidence, skill, novelty };
        match self {
            Driver::Field(_) => response = engine.cycle(input)?,
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

/// The map's output for `motor`.
fn mapped(weights: &[f32], sensors: &[f32], motor: usize) -> f32 {
    let row = &weights[motor * (sensors.len() + 1)..][..sensors.len() + 1];
    let sum: f32 = row.iter().zip(sensors).map(|(weight, sensor)| weight * sensor).sum();
    libm::tanhf(sum + row[sensors.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_a_row_per_motor_with_the_constant_last() {
        let weights = [1.0, 0.0, 0.5, 0.0, -2.0, 0.0];
        let sensors = [0.25, 0.5];
        assert_eq!(mapped(&weights, &sensors, 0), libm::tanhf(0.75));
        assert_eq!(mapped(&weights, &sensors, 1), libm::tanhf(-1.0));
    }
}
