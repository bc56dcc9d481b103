//! What comes in during a control period: readings into the frame, and what else the reflexes must know.

use super::MAX_INLETS;
use crate::base::command::Executed;
use crate::base::frame::{Frame, Reading};
use crate::base::time::{Clock, Instant, SleepWatch};
use crate::decision::admit::Admission;
use crate::decision::reflex::{Reflexes, Signals};
use crate::drive::fast_stop_events::FastStopReceiver;
use crate::drive::trace::ReadingTap;
use crate::runtime::guard::GuardHealth;
use std::sync::Arc;

/// The inputs of a tick, and the frame that is made of them.
pub(super) struct Senses {
    pub clock: Arc<dyn Clock>,
    pub sleep: SleepWatch,
    pub alarm: FastStopReceiver,
    pub readings: heapless::Vec<rtrb::Consumer<Reading>, MAX_INLETS>,
    /// Where a recording gets them from.
    pub tap: ReadingTap,
    pub admission: Admission,
    pub frame: Frame,
    /// A guard that the board requires.
    pub guard: Option<GuardHealth>,
}

impl Senses {
    /// The frame of slot number `index`, until which the last command was `executed`, and the signals: what
    /// is `known` of field, wire and loop, and what has come in. Readings from before a sleep say nothing
    /// about the present. `reflexes` meet each reading on its way into the frame.
    pub fn update(
        &mut self,
        index: u64,
        executed: &Executed,
        known: Signals,
        reflexes: &mut Reflexes,
        now: Instant,
    ) -> (Frame, Signals) {
        let slept = self.sleep.take(self.clock.as_ref());
        let heard = self.alarm.take(); // before the readings, as it says
        self.tap.begin(index);
        let tap = &mut self.tap;
        let news = self.readings.iter_mut().flat_map(|inlet| std::iter::from_fn(|| inlet.pop().ok()));
        let news = news.inspect(|reading| tap.note(reading));
        self.frame.slot = executed.until;
        let last = &executed.command;
        self.admission.update(&mut self.frame, news, slept.is_some(), last, now, |frame, channel, value| {
            reflexes.observe(frame, channel, value, now);
        });
        let signals = Signals {
            halts: heard.halts,
            readings_lost: heard.readings_lost,
            guard_lost: self.guard.as_ref().is_some_and(|guard| guard.lost(now)),
            slept,
            ..known
        };
        (self.frame, signals)
    }

    /// Puts in what the field gets of `shown`; how many of these values are held.
    pub fn inputs(&self, shown: &Frame, put: &mut dyn FnMut(usize, f32)) -> usize {
        self.admission.inputs(shown, put).held
    }
}
