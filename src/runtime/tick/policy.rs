//! From the frame to what the robot may do and wants to do: restraint, mode, and the field's request on its
//! way through the trail.

use crate::base::command::Executed;
use crate::base::frame::Frame;
use crate::base::time::Instant;
use crate::decision::mode::{Asked, Mode, Modes};
use crate::decision::reflex::{Reflexes, Signals, Verdict};
use crate::drive::backtrack::Backtrack;
use crate::field::FieldOutput;

/// What decides, apart from the arbiter.
pub(super) struct Policy {
    pub reflexes: Reflexes,
    pub modes: Modes,
    pub trail: Backtrack,
}

/// What was decided in a slot.
pub(super) struct Decision {
    pub verdict: Verdict,
    pub mode: Mode,
    /// What the field wants, and the slot of the frame behind it.
    pub request: Option<(FieldOutput, Instant)>,
    /// The frame as the field sees it.
    pub shown: Frame,
}

impl Policy {
    /// Decides about `frame`; `newest` is the field's newest answer.
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
        self.trail.restrain(executed, &mut verdict);
        let mode = self.modes.advance(&verdict, signals, asked, now);
        let request = self.trail.guide(newest, mode, &verdict, &shown, frame.slot);
        Decision { verdict, mode, request, shown }
    }
}
