//! The virtual robot of the navigation course: the properties that its drivers rely on.

use super::shipped;
use ganglion::base::plan::{ChipSensor, MotorKind, SensorKind};

/// The ring leaves no direction out: each beam ends where the next begins.
#[test]
fn barn_has_a_ring_of_24_beams() {
    let barn = shipped("barn").board;
    let with_beam = barn.sensors.iter().filter_map(|sensor| Some((sensor, sensor.beam?)));
    let beams: Vec<_> = with_beam.collect();
    assert_eq!(beams.len(), 24);
    for (nth, (plan, beam)) in beams.iter().enumerate() {
        let bearing = 15.0 * nth as f32;
        assert_eq!(
            beam.bearing_deg,
            if bearing > 180.0 { bearing - 360.0 } else { bearing },
            "{}",
            plan.name
        );
        assert_eq!((beam.half_cone_deg, beam.reach), (7.5, 4.0), "{}", plan.name);
        let at = beam.bearing_deg.to_radians();
        let [ahead, left] = [0.08 * at.cos() - beam.at[0], 0.08 * at.sin() - beam.at[1]];
        assert!(ahead.abs() < 1e-4 && left.abs() < 1e-4, "{}: {:?}", plan.name, beam.at);
        let register = 4 * nth as u8;
        let chip = SensorKind::Chip(ChipSensor::FloatRegister { address: 0x60, register });
        assert_eq!(plan.kind, chip, "{}", plan.name);
        assert!(plan.input.is_some_and(|scale| scale.high == beam.reach), "{}", plan.name);
    }
}

#[test]
fn barn_is_simulated_as_it_believes_to_move() {
    let barn = shipped("barn").board;
    let names: Vec<&str> = barn.motors.iter().map(|motor| motor.name.as_str()).collect();
    assert_eq!(names, ["left", "right"]);
    assert!(barn.motors.iter().all(|motor| matches!(motor.kind, MotorKind::DcPair { .. })));
    let (motion, world) = (barn.motion.unwrap(), barn.sim.unwrap());
    assert_eq!((motion.full_speed, motion.track, motion.body), (0.5, Some(0.14), Some([0.25, 0.16])));
    let simulated = (world.full_speed, Some(world.track), Some(world.body));
    assert_eq!(simulated, (motion.full_speed, motion.track, motion.body));
}
