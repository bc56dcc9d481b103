//! What drives a simulated robot: its field with a read-out, a linear map of the sensors that has no memory,
//! or the starting table by itself. The last two are what a field is compared with.

use crate::base::command::MAX_MOTORS;
use crate::base::plan::{Board, FieldPlan};
use crate::field::{Failure, Inspect, Readout, Response, Stimulus};
use std::sync::Arc;

/// What drives.
#[derive(Clone, Debug)]
pub enum Driver {
    /// The field, with this read-out.
    Field(Arc<Readout>),
    /// tanh of a linear map of the field's inputs: by motor, a weight for each input and the constant.
    Map(Vec<f32>),
    /// The starting table.
    Table,
}

impl Driver {
    /// The read-out for the robot's field: one that requests nothing where another driver drives.
    pub fn readout(&self, board: &Board) -> Readout {
        match self {
            Driver::Field(readout) => Readout::clone(readout),
            Driver::Map(_) | Driver::Table => Readout::of_table(board, Vec::new()),
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
        let wanted: &dyn Fn(usize) -> f32 = match self {
            Driver::Field(_) => return engine.cycle(stimulus),
            Driver::Map(weights) => &|motor| mapped(weights, sensors, motor),
            Driver::Table => &|motor| plan.start_wants(motor, sensors).clamp(-1.0, 1.0),
        };
        let mut motors = [0.0; MAX_MOTORS];
        for (motor, request) in motors[..plan.shape.motors].iter_mut().enumerate() {
            *request = wanted(motor);
        }
        let scores = [0.0; MAX_MOTORS];
        Ok(Response { cycle: stimulus.cycle, scores, motors, confidence: 0.0, skill: 0.0, novelty: 0.0 })
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
