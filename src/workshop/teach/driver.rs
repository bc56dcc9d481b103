//! The driver of a simulated robot: the starting table corrected by the field; the table corrected by a
//! linear map of the sensors, which has no memory; the table alone; or random requests. The last three are
//! baselines for the field.

use crate::base::command::MAX_MOTORS;
use crate::base::plan::{Board, FieldPlan};
use crate::base::seed::{Stream, uniform};
use crate::base::time::Span;
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
    /// Requests at random, without the table.
    Random(RandomRequests),
}

impl Driver {
    /// The read-out for the robot's field; `None` for the other drivers.
    pub fn readout(&self) -> Option<Readout> {
        match self {
            Driver::Field(readout) => Some(Readout::clone(readout)),
            Driver::Map(_) | Driver::Table | Driver::Random(_) => None,
        }
    }

    /// The same driver for a drive through the room with this seed. Only a random driver depends on the seed.
    pub fn in_room(&self, room: u64) -> Driver {
        match self {
            Driver::Random(requests) => Driver::Random(RandomRequests { room, ..requests.clone() }),
            other => other.clone(),
        }
    }

    /// Runs one cycle. The field is computed only for [`Driver::Field`].
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
            Driver::Random(requests) => {
                for (motor, request) in response.motors[..plan.shape.motors].iter_mut().enumerate() {
                    *request = requests.of(motor, input.cycle);
                }
                return Ok(response);
            }
        }
        plan.correct_start(&mut response.motors, sensors);
        Ok(response)
    }
}

/// How long a random request is kept. At full speed a PiCar-X drives 0.25 m in this time, its own length.
/// Requests that change faster average out, and the robot stays where it is; requests that change more slowly
/// only drive it into a wall.
const KEPT: Span = Span::from_millis(500);

/// Requests at random: every value of a motor is equally likely. Limits, reflexes and the arbiter act on them
/// as on those of any driver.
#[derive(Clone, Debug)]
pub struct RandomRequests {
    room: u64,
    /// Cycles for which a request is kept.
    cycles: u64,
    /// For each motor, the number of the draw that it uses. On a robot that steers, all drive motors use the
    /// same draw.
    draws: Vec<u64>,
}

impl RandomRequests {
    /// For the motors of `board`.
    pub fn new(board: &Board) -> RandomRequests {
        let drives = |motor: usize| board.motors[motor].kind.drives();
        let count = board.motors.len();
        let steers = !(0..count).all(drives);
        let draw = |motor| if steers && drives(motor) { 0 } else { 1 + motor as u64 };
        let cycle_ns = board.period.as_nanos().saturating_mul(board.field.every_ticks.into()).max(1);
        let cycles = (KEPT.as_nanos() / cycle_ns).max(1);
        RandomRequests { room: 0, cycles, draws: (0..count).map(draw).collect() }
    }

    /// The request for `motor` in this cycle.
    fn of(&self, motor: usize, cycle: u64) -> f32 {
        let draw = self.draws.get(motor).copied().unwrap_or_default();
        let index = (cycle / self.cycles) * (MAX_MOTORS as u64 + 1) + draw;
        (2.0 * uniform(self.room, Stream::RandomRequest, index) - 1.0) as f32
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
    fn random_requests_are_kept_and_fill_the_whole_range() {
        let board = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        let motors = board.motors.len();
        let Driver::Random(requests) = Driver::Random(RandomRequests::new(&board)).in_room(7) else {
            panic!("the driver stays random")
        };
        let at = |cycle: u64| (0..motors).map(|motor| requests.of(motor, cycle)).collect::<Vec<_>>();
        assert_eq!(at(0), at(requests.cycles - 1), "kept");
        assert_ne!(at(0), at(requests.cycles), "drawn again");
        for (motor, plan) in board.motors.iter().enumerate() {
            let drawn = (0..200).map(|nth| requests.of(motor, nth * requests.cycles));
            let (low, high) =
                drawn.fold((1.0_f32, -1.0_f32), |(low, high), request| (low.min(request), high.max(request)));
            assert!(low < -0.9 && high > 0.9 && low >= -1.0 && high < 1.0, "{}: {low} {high}", plan.name);
        }
        let drives: Vec<usize> = (0..motors).filter(|motor| board.motors[*motor].kind.drives()).collect();
        assert!(drives.iter().all(|motor| requests.of(*motor, 3) == requests.of(drives[0], 3)), "one draw");
        let other = RandomRequests { room: 8, ..requests.clone() };
        assert_ne!(other.of(0, 0), requests.of(0, 0), "another room, other requests");
    }

    #[test]
    fn a_map_has_a_row_per_motor_with_the_constant_last() {
        let weights = [1.0, 0.0, 0.5, 0.0, -2.0, 0.0];
        let sensors = [0.25, 0.5];
        assert_eq!(mapped(&weights, &sensors, 0), libm::tanhf(0.75));
        assert_eq!(mapped(&weights, &sensors, 1), libm::tanhf(-1.0));
    }
}
