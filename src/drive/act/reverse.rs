//! Limits how long the robot drives in the direction in which it has no sensors. Counts time only; knows
//! nothing of motors.

use crate::base::time::Span;

/// How long the robot has been driving backwards, blind. Time backwards adds up and any other time is
/// subtracted, so short breaks do not restart the count. Once the allowed time is used up, driving backwards
/// is refused until the count is back at zero, with the robot stopped or driving forwards.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Reverse {
    spent: Span,
    pub(super) refused: bool,
}

impl Reverse {
    /// Records whether the robot went `backwards` during `elapsed`; the next command lasts a `period`.
    pub(super) fn note(&mut self, backwards: bool, elapsed: Span, period: Span, longest: Span) {
        let spent = if backwards { self.spent + elapsed } else { self.spent.less(elapsed) };
        self.spent = spent.min(longest);
        if self.spent + period > longest {
            self.refused = true;
        } else if self.spent == Span::ZERO {
            self.refused = false;
        }
    }
}
