//! What the baselines have in common: their view of the surroundings, and simple geometry.

use crate::field::navigate::navigator::State;
use crate::field::navigate::{Beam, Body, Driver, Surroundings, Wish};

/// A method that decides from the position of the goal and the current surroundings.
pub trait Baseline: Send {
    /// The motion that the robot should make now. `goal` is in the frame of the pose, metres.
    fn drive(&mut self, around: &Surroundings, goal: [f64; 2]) -> Wish;
}

/// A baseline as a driver: it sees the newest reading of each ranger until the next one arrives.
#[derive(Clone, Debug)]
pub struct Newest<B> {
    baseline: B,
    beams: Vec<Beam>,
}

impl<B: Baseline> Newest<B> {
    /// Drives by `baseline`.
    pub fn of(baseline: B) -> Newest<B> {
        Newest { baseline, beams: Vec::new() }
    }
}

impl<B: Baseline> Driver for Newest<B> {
    fn drive(&mut self, around: &Surroundings, goal: Option<[f64; 2]>) -> Wish {
        self.beams.resize_with(around.beams.len(), || around.beams[0]);
        for (held, beam) in self.beams.iter_mut().zip(around.beams) {
            *held = Beam { range: beam.range.or(held.range), ..*beam };
        }
        let around = Surroundings { beams: &self.beams, ..*around };
        goal.map_or(Wish::STOP, |goal| self.baseline.drive(&around, goal))
    }

    fn state(&self) -> State {
        State::Going
    }
}

/// The motion with this forward speed, metres per second, and this turn rate, radians per second, positive to
/// the left.
pub fn moving(forward: f32, turn: f32, body: &Body) -> Wish {
    if forward.abs() < 1e-3 {
        let speed = (turn.abs() * body.half_track / body.full_speed).min(1.0);
        return Wish { speed, curvature: f32::INFINITY.copysign(turn) };
    }
    Wish { speed: (forward / body.full_speed).clamp(-1.0, 1.0), curvature: turn / forward }
}

/// Bearing of `goal` from the robot, radians, positive to the left, and its distance in metres.
pub fn toward(around: &Surroundings<'_>, goal: [f64; 2]) -> (f32, f32) {
    let [ahead, left] = around.pose.sees(goal);
    (libm::atan2(left, ahead) as f32, libm::hypot(ahead, left) as f32)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two driven wheels in the middle of a small body.
    pub const BODY: Body = Body {
        half_width: 0.08,
        front: 0.125,
        rear: 0.125,
        turning_radius: 0.0,
        half_track: 0.07,
        full_speed: 0.5,
    };

    #[test]
    fn a_rate_of_turn_becomes_a_curvature() {
        let body = Body { half_track: 0.1, ..BODY };
        assert_eq!(moving(0.5, 2.0, &body), Wish { speed: 1.0, curvature: 4.0 });
        assert_eq!(moving(-0.2, 0.5, &body), Wish { speed: -0.4, curvature: -2.5 });
        assert_eq!(moving(0.0, -1.0, &body), Wish { speed: 0.2, curvature: f32::NEG_INFINITY });
    }
}
