//! An interposer stands between the tick and the brain of a simulated robot: it sees each stimulus and each
//! answer, and may change either. Teaching and comparisons need it; no robot has one.

use super::brain::Brain;
use super::{Failure, Response, Stimulus};
use crate::command::MAX_MOTORS;
use crate::time::{Clock, Instant};

/// Stands in the brain's place.
pub trait Interposer: Send {
    /// One cycle, ordered at `start`: what `brain` answers, or what this makes of it.
    fn cycle(
        &mut self,
        stimulus: &Stimulus,
        brain: &mut Brain,
        start: Instant,
        clock: &dyn Clock,
    ) -> Result<Response, Failure>;
}

/// An answer with these motors and nothing else.
pub fn only_motors(stimulus: &Stimulus, motors: [f32; MAX_MOTORS]) -> Response {
    let scores = [0.0; MAX_MOTORS];
    Response { cycle: stimulus.cycle, scores, motors, confidence: 0.0, skill: 0.0, novelty: 0.0 }
}
