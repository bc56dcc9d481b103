//! Decides from the frame what the robot may do and what it wants to do: the restraint, the mode, and the
//! field's request, which is replaced while the robot backs off.

use crate::base::command::Executed;
use crate::base::frame::Frame;
use crate::base::time::Instant;
use crate::decision::mode::{Asked, Mode, Modes};
use crate::decision::reflex::{Reflexes, Signals, Verdict};
use crate::drive::backtrack::Backtrack;
use crate::field::FieldOutput;

/// The deciding parts, except for the arbiter.
pub(super) struct Policy {
    pub reflexes: Reflexes,
    pub modes: Modes,
    pub backtrack: Backtrack,
}

/// The decisions of a slot.
pub(super) struct Decision {
    pub verdict: Verdict,
    pub mode: Mode,
    /// The field's request, and the slot of the frame that it answers.
    pub request: Option<(FieldOutput, Instant)>,
    /// The frame as the field sees it.
    pub shown: Frame,
}

impl Policy {
    /// Makes the decisions for `frame`; `newest` is the field's newest answer.
    pub fn decide(
        &mut self,
        frame: &Frame,
        signals: &Signals,
        asked: Asked,
        newest: Option<(&FieldOutput, Instant)>,
        executed: &Executed,
        now: Instant,
    ) -> Decision {
        let (mut verdict, shown) = self.reflexes.evaluate(frame, signals, now);
        self.backtrack.restrain(executed, &mut verdict);
        let mode = self.modes.advance(&verdict, signals, asked, now);
        let request = self.backtrack.guide(newest, mode, &verdict, &shown, frame.slot);
        Decision { verdict, mode, request, shown }
    }
}
