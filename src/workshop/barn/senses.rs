//! What a driver senses, taken from the field's input: the ranges that the runtime admitted, and the pose
//! that follows from the commands that it gave.
//!
//! The field's input does not tell a held value from a fresh one, so a driver sees a held range as a fresh
//! one.

use crate::base::command::MAX_MOTORS;
use crate::base::plan::{Board, ComputedSensor, Curve, Scale, SensorKind};
use crate::base::time::{Instant, Span};
use crate::decision::motion::{MotionModel, Odometer, OdometryPose};
use crate::field::FieldInput;
use crate::field::navigate::Beam;

/// The senses of one board.
#[derive(Clone, Debug)]
pub struct Senses {
    /// The field's input, and its scale, of each beam.
    ranges: Vec<(usize, Scale)>,
    beams: Vec<Beam>,
    /// The field's input, its scale, and the motor, of each echo of a command.
    echoes: Vec<(usize, Scale, usize)>,
    odometer: Odometer,
    /// Time between two cycles.
    every: Span,
}

impl Senses {
    /// The senses of `board`. `None`: it does not state how it moves, or it has no beams, or the field does
    /// not get the echo of every drive command.
    pub fn of(board: &Board) -> Option<Senses> {
        let inputs = board.sensors.iter().filter_map(|sensor| sensor.input.map(|scale| (sensor, scale)));
        let (mut ranges, mut beams, mut echoes) = (Vec::new(), Vec::new(), Vec::new());
        for (input, (sensor, scale)) in inputs.enumerate() {
            if let SensorKind::Computed(ComputedSensor::MotorEcho { motor }) = sensor.kind {
                echoes.push((input, scale, motor));
            } else if let Some(beam) = sensor.beam {
                ranges.push((input, scale));
                beams.push(Beam {
                    bearing: beam.bearing_deg.to_radians(),
                    offset: beam.at,
                    half_cone: beam.half_cone_deg.to_radians(),
                    range: None,
                    max_range: beam.reach,
                });
            }
        }
        let motion = MotionModel::of(board)?;
        let is_complete = motion.drives.iter().all(|drive| echoes.iter().any(|(_, _, motor)| motor == drive));
        (is_complete && !beams.is_empty()).then(|| Senses {
            ranges,
            beams,
            echoes,
            odometer: Odometer::new(motion),
            every: board.period.times(u64::from(board.field.every_ticks)),
        })
    }

    /// Time between two cycles.
    pub fn every(&self) -> Span {
        self.every
    }
    /// How commands move the robot.
    pub fn motion(&self) -> &MotionModel {
        self.odometer.motion()
    }
    /// The beams with their last readings.
    pub fn beams(&self) -> &[Beam] {
        &self.beams
    }

    /// Takes the input of a cycle. Returns where the robot believes it is.
    pub fn take(&mut self, input: &FieldInput) -> OdometryPose {
        for ((at, scale), beam) in self.ranges.iter().zip(&mut self.beams) {
            beam.range = Some(value(*scale, input.sensors[*at]));
        }
        let mut motors = [0.0; MAX_MOTORS];
        for (at, scale, motor) in &self.echoes {
            motors[*motor] = value(*scale, input.sensors[*at]);
        }
        self.odometer.advance(Instant::ZERO + self.every.times(input.cycle), &motors);
        self.odometer.pose()
    }
}

/// The physical value of `scaled`: the inverse of [`Scale::apply`].
fn value(scale: Scale, scaled: f32) -> f32 {
    let share = (scaled + 1.0) / 2.0;
    match scale.curve {
        Curve::Linear => scale.low + share * (scale.high - scale.low),
        Curve::Log => scale.low * libm::powf(scale.high / scale.low, share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_commands_come_back_from_the_fields_scale() {
        for curve in [Curve::Linear, Curve::Log] {
            let scale = Scale { low: 0.1, high: 4.0, curve };
            for range in [0.1, 0.7, 2.0, 4.0] {
                assert!((value(scale, scale.apply(range)) - range).abs() < 1e-5, "{range}");
            }
        }
    }

    #[test]
    fn the_barn_board_has_a_ring_of_24_beams() {
        let board = crate::deploy::board::built_in("barn").unwrap().unwrap().board;
        let mut senses = Senses::of(&board).expect("it states all that is needed");
        assert_eq!((senses.beams().len(), senses.every()), (24, Span::from_millis(20)));
        let mut input = FieldInput::AT_REST;
        input.sensors[..24].fill(1.0);
        senses.take(&input);
        assert!(
            senses.beams().iter().all(|beam| beam.hit().is_none()),
            "the end of the scale is nothing seen"
        );
        input.sensors[6] = 0.0;
        senses.take(&input);
        let left = &senses.beams()[6];
        assert!((left.hit().unwrap() - 2.0).abs() < 1e-6);
        let point = left.point(2.0, 0.0);
        assert!(point[0].abs() < 1e-4 && (point[1] - 2.08).abs() < 1e-4, "it looks to the left: {point:?}");
    }

    #[test]
    fn a_board_without_beams_has_no_senses() {
        assert!(
            Senses::of(&crate::deploy::board::built_in("virtual-bench").unwrap().unwrap().board).is_none()
        );
    }
}
