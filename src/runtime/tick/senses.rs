//! The inputs of a control period: readings go into the frame, everything else into the reflexes' signals.

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

/// The inputs of a tick, and the frame that is made from them.
pub(super) struct Senses {
    pub clock: Arc<dyn Clock>,
    pub sleep: SleepWatch,
    pub fast_stops: FastStopReceiver,
    pub readings: heapless::Vec<rtrb::Consumer<Reading>, MAX_INLETS>,
    /// Passes the readings to a recording.
    pub tap: ReadingTap,
    pub admission: Admission,
    pub frame: Frame,
    /// The guard, if the board requires one.
    pub guard: Option<GuardHealth>,
}

impl Senses {
    /// Returns the frame of slot `index`, and the signals: those already `known` (field, wire, loop) and
    /// those that arrived since the last slot. `executed` is what the last command did until this slot.
    /// Readings from before a suspend of the machine are dropped. `reflexes` observe each reading as it
    /// enters the frame.
    pub fn update(
        &mut self,
        index: u64,
        executed: &Executed,
        known: Signals,
        reflexes: &mut Reflexes,
        now: Instant,
    ) -> (Frame, Signals) {
        let slept = self.sleep.take(self.clock.as_ref());
        let stops = self.fast_stops.take(); // before the readings, as its documentation requires
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
            halts: stops.halts,
            readings_lost: stops.readings_lost,
            guard_lost: self.guard.as_ref().is_some_and(|guard| guard.lost(now)),
            slept,
            ..known
        };
        (self.frame, signals)
    }

    /// Passes the field's inputs from `shown` to `put`; returns how many of them are held values.
    pub fn inputs(&self, shown: &Frame, put: &mut dyn FnMut(usize, f32)) -> usize {
        self.admission.inputs(shown, put).held
    }
}
