//! How long the robot may go where it has no eyes. Counts time; knows no motor.

use crate::time::Span;

/// How long the robot has been driving backwards, blind. Backwards time adds up and any other time
/// takes away as much, so that short breaks do not start the count anew. Once it is used up, backwards
/// is refused until the whole of it has been paid back, standing or driving forwards.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reverse {
    spent: Span,
    pub(super) refused: bool,
}

impl Reverse {
    /// Notes that for `elapsed` the robot went `backwards` or not; the next command lasts a `period`.
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
