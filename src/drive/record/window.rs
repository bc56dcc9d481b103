//! Which slots go into a file: all of them, or those from some time before the robot is armed until some time
//! after it is disarmed. The slots before are kept in memory until then.

use super::slot::Slot;
use crate::base::time::{Instant, Span};
use crate::decision::mode::Mode;
use std::collections::VecDeque;

/// What is still written after a robot was disarmed: how it came to a stop.
const AFTER: Span = Span::from_millis(2_000);
/// Most slots that wait: 30 s at 1 kHz. With a PiCar-X's sensors that is 40 MB, at 100 Hz a tenth of it.
const MOST: usize = 30_000;

/// When slots are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// From `before` the robot is armed until it is disarmed.
    Armed {
        /// How much of the time before.
        before: Span,
    },
}

/// The slots that wait, and whether slots are written.
pub struct Window {
    when: When,
    waiting: VecDeque<Slot>,
    /// Until when slots are written; `None`: they are not.
    until: Option<Instant>,
}

impl Window {
    /// Nothing has come.
    pub fn new(when: When) -> Window {
        Window { when, waiting: VecDeque::new(), until: None }
    }

    /// Whether slots are written at present.
    pub fn is_open(&self) -> bool {
        self.when == When::Always || self.until.is_some()
    }

    /// Takes a slot in. `write` gets those that are to be written from now on, in order; `pass` those that
    /// are not going to be.
    pub fn take(&mut self, slot: Slot, mut write: impl FnMut(Slot), mut pass: impl FnMut(Slot)) {
        let When::Armed { before } = self.when else { return write(slot) };
        let now = slot.slot;
        if drives(slot.mode) {
            self.until = Some(now + AFTER);
        }
        self.waiting.push_back(slot);
        if self.until.is_some() {
            self.waiting.drain(..).for_each(&mut write);
            self.until = self.until.filter(|until| now < *until);
            return;
        }
        while self.waiting.front().is_some_and(|first| now.since(first.slot) > before)
            || self.waiting.len() > MOST
        {
            self.waiting.pop_front().into_iter().for_each(&mut pass);
        }
    }
}

/// Whether a robot in this mode drives, or was stopped while it did.
fn drives(mode: Mode) -> bool {
    matches!(mode, Mode::Armed { .. } | Mode::Degraded { .. } | Mode::Latched { .. })
}

#[cfg(test)]
mod tests {
    use super::super::slot::full;
    use super::*;
    use crate::decision::fixture::{at, ms};

    #[test]
    fn what_came_before_the_arming_is_written_with_it() {
        let mut window = Window::new(When::Armed { before: ms(100) });
        let (mut written, mut passed) = (Vec::new(), Vec::new());
        // 10 ms apart: armed from 50 to 59, latched to 69.
        for index in 0..500 {
            let mode = match index {
                50..60 => Mode::Armed { since: at(0) },
                60..70 => Mode::Latched { cause: crate::base::plan::Cause::EStop },
                _ => Mode::Disarmed,
            };
            let slot = Slot { mode, ..full(index) };
            window.take(slot, |slot| written.push(slot.index), |slot| passed.push(slot.index));
        }
        assert_eq!(
            (written.first(), written.last()),
            (Some(&39), Some(&269)),
            "10 before the last that was not armed, 200 after"
        );
        assert!(written.is_sorted() && written.len() == 231);
        assert_eq!((passed.first(), passed.contains(&38), passed.contains(&39)), (Some(&0), true, false));
        assert_eq!(passed.last(), Some(&488), "the rest waits for the next arming");
        assert!(!window.is_open());
    }

    #[test]
    fn always_is_at_once() {
        let mut window = Window::new(When::Always);
        let mut written = 0;
        window.take(Slot { mode: Mode::Boot, ..full(0) }, |_| written += 1, |_| panic!("none is left out"));
        assert_eq!((written, window.is_open()), (1, true));
    }
}
