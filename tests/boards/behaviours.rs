//! What comments and documents say about the behaviours of the shipped boards.

use super::shipped;
use ganglion::base::plan::{BumpPlace, piecewise_linear};
use ganglion::decision::motion::MotionModel;
use std::f64::consts::TAU;

/// A car that has lost its line turns back to the side on which it saw the line last.
#[test]
fn a_line_is_remembered_for_more_than_a_full_circle() {
    for name in ["picarx-v4", "picarx-v5", "sim"] {
        let board = shipped(name).board;
        let motion = MotionModel::of(&board).expect("it states its motion");
        let behaviour = board.behaviours.iter().find(|behaviour| behaviour.name == "follow-line");
        let behaviour = behaviour.expect("it follows lines");
        let field = &board.decision_fields[behaviour.curvature.field];
        let forgets_after = field.forgets_after.expect("a limit").as_secs_f64();
        let circle_s = |at: f32| {
            let speed = motion.full_speed * f64::from(piecewise_linear(&behaviour.speed.points, at));
            let wanted = piecewise_linear(&behaviour.curvature.points, at);
            let curvature = motion.curvature(motion.steering(wanted.into())); // at most its sharpest
            TAU / (speed * curvature.abs())
        };
        let mut circles = 0;
        for input in &field.inputs {
            let BumpPlace::Fixed(at) = input.at else { panic!("{name}: a bump that moves") };
            if at != 0.0 {
                circles += 1;
                let circle_s = circle_s(at);
                assert!(
                    forgets_after > circle_s,
                    "{name}: forgets after {forgets_after} s, circle {circle_s} s"
                );
            }
        }
        assert_eq!(circles, 2, "{name}: one sensor on either side");
    }
}
