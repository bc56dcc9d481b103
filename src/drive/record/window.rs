//! Which slots are written: all of them, or those from some time before the robot is armed until some time
//! after it is disarmed. Earlier slots are kept in memory until then.

use super::slot::Step;
use crate::base::time::{Instant, Span};
use crate::decision::mode::Mode;
use crate::drive::trace::CHECKPOINT_EVERY;
use std::collections::VecDeque;

/// How long slots are still written after the robot is disarmed, to show how it came to a stop.
const AFTER: Span = Span::from_millis(2_000);
/// Maximum number of slots in memory: 30 s at 1 kHz, 40 MB with a PiCar-X's sensors. At 100 Hz, 30 s take a
/// tenth of that.
const MOST: usize = 30_000;

/// When slots are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// While the robot is armed, from `before` earlier until two seconds later.
    Armed {
        /// How long before arming.
        before: Span,
    },
}

/// The slots in memory, and whether slots are being written.
pub struct Window {
    when: When,
    waiting: VecDeque<Step>,
    /// When writing ends; `None`: slots are not being written.
    until: Option<Instant>,
}

impl Window {
    /// No slots yet.
    pub fn new(when: When) -> Window {
        Window { when, waiting: VecDeque::new(), until: None }
    }

    /// Whether slots are being written.
    pub fn is_open(&self) -> bool {
        self.when == When::Always || self.until.is_some()
    }

    /// Adds a slot. `write` is called with the slots to write, in order; `pass` with those that will not be
    /// written. If any of the slots in memory has a checkpoint, the first slot that is written has one, so
    /// that a replay can start there.
    pub fn take(&mut self, step: Step, mut write: impl FnMut(Step), mut pass: impl FnMut(Step)) {
        let When::Armed { before } = self.when else { return write(step) };
        let now = step.slot.slot;
        if drives(step.slot.mode) {
            self.until = Some(now + AFTER);
        }
        self.waiting.push_back(step);
        if self.until.is_some() {
            let first = self.waiting.iter().position(|step| step.checkpoint.is_some()).unwrap_or(0);
            self.waiting.drain(..first).for_each(&mut pass);
            self.waiting.drain(..).for_each(&mut write);
            self.until = self.until.filter(|until| now < *until);
            return;
        }
        while self.waiting.front().is_some_and(|first| now.since(first.slot.slot) > before + CHECKPOINT_EVERY)
            || self.waiting.len() > MOST
        {
            self.waiting.pop_front().into_iter().for_each(&mut pass);
        }
    }
}

/// Whether a robot in this mode drives, or was stopped while driving.
fn drives(mode: Mode) -> bool {
    matches!(mode, Mode::Armed { .. } | Mode::Degraded { .. } | Mode::Latched { .. })
}

#[cfg(test)]
mod tests {
    use super::super::slot::{Slot, full};
    use super::*;
    use crate::decision::fixture::{at, ms};

    #[test]
    fn slots_before_the_arming_are_written_with_it() {
        let mut window = Window::new(When::Armed { before: ms(100) });
        let (mut written, mut passed) = (Vec::new(), Vec::new());
        // Slots 10 ms apart: armed in slots 1350 to 1359, latched in 1360 to 1369.
        for index in 0..2_500 {
            let mode = match index {
                1_350..1_360 => Mode::Armed { since: at(0) },
                1_360..1_370 => Mode::Latched { cause: crate::base::plan::Cause::EStop },
                _ => Mode::Disarmed,
            };
            // A checkpoint every 5 s.
            let checkpoint = (index % 500 == 0).then(Vec::new);
            let step = Step { checkpoint, slot: Slot { mode, ..full(index) } };
            window.take(step, |step| written.push(step.slot.index), |step| passed.push(step.slot.index));
        }
        assert_eq!(
            (written.first(), written.last()),
            (Some(&1_000), Some(&1_569)),
            "from the last checkpoint that is at least 100 ms before arming to 2 s after disarming"
        );
        assert!(written.is_sorted() && written.len() == 570);
        assert_eq!((passed.first(), passed.contains(&999), passed.contains(&1_000)), (Some(&0), true, false));
        assert_eq!(passed.last(), Some(&1_988), "the remaining slots wait in memory for the next arming");
        assert!(!window.is_open());
    }

    #[test]
    fn with_always_the_first_slot_is_written_at_once() {
        let mut window = Window::new(When::Always);
        let mut written = 0;
        let step = Step { checkpoint: None, slot: Slot { mode: Mode::Boot, ..full(0) } };
        window.take(step, |_| written += 1, |_| panic!("none is left out"));
        assert_eq!((written, window.is_open()), (1, true));
    }
}
