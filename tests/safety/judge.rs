//! What users may rely on, judged only by what the robot did: nothing moves that was not armed, a stopped
//! robot stays stopped until it has been disarmed and armed again, in this order, and nothing moves without
//! required data or a way to stop.

use super::{BATTERY, FLOOR, RANGE, Slot, safety, sensors};
use ganglion::base::time::{Instant, Span};
use ganglion::drive::trace::Record;

/// Plausible battery voltages at which the latched rule stops the robot.
const EMPTY: std::ops::RangeInclusive<f32> = 5.0..=6.2;

/// What an observer knows about a robot.
pub struct Trust {
    /// A request to arm has come since the last disarm, latch, stop, suspend or long outage.
    armed: bool,
    latched: bool,
    stopped: bool,
    armed_at: Instant,
    now: Instant,
    /// When each required sensor was last read.
    read: [(usize, Option<Instant>); 2],
    confirmed: Option<Instant>,
    /// When the frame of the field's newest answer was taken.
    taken: Option<Instant>,
    guarded: bool,
    /// Slots lost in a row up to now.
    lost: u64,
    /// Slots that the last slot lost; the next slot will notice it.
    overrun: u64,
    /// The time since which the robot has not been allowed to move, without interruption.
    held_since: Option<Instant>,
}

impl Trust {
    /// For a robot at `now`: just armed, with good readings until then, or never armed, with no readings yet.
    pub fn new(armed: bool, now: Instant) -> Trust {
        let known = armed.then_some(now);
        Trust {
            armed,
            latched: false,
            stopped: false,
            armed_at: now,
            now,
            read: [(RANGE, known), (FLOOR, known)],
            confirmed: known,
            taken: known,
            guarded: true,
            lost: 0,
            overrun: 0,
            held_since: None,
        }
    }

    /// Follows a slot; from `record` it uses only the time, and the time since which the robot says that it
    /// has obeyed.
    pub fn follow(&mut self, slot: &Slot, record: &Record) {
        let now = record.slot;
        self.now = now;
        self.lost = if self.overrun > 0 { self.lost + self.overrun } else { 0 };
        self.overrun = slot.overrun;
        self.note_readings(slot, now);
        if let Some((age, true)) = slot.receipt {
            self.confirmed = Some(now - age);
        }
        if let Some((_, age)) = slot.request {
            self.taken = Some(now - Span::from_millis(age));
        }
        self.guarded = !slot.guard_lost;
        self.stopped |= slot.asked.stop;
        let empty = |(channel, value, _): &(u8, Result<f32, _>, i64)| {
            usize::from(*channel) == BATTERY && value.is_ok_and(|volts| EMPTY.contains(&volts))
        };
        if slot.e_stop || slot.readings.iter().any(empty) {
            (self.latched, self.armed) = (true, false);
        } else if slot.asked.disarm || slot.slept > Span::ZERO {
            // A suspend acknowledges nothing: a latched robot stays latched.
            (self.latched, self.armed) = (self.latched && !slot.asked.disarm, false);
        } else if slot.asked.arm && !self.latched {
            self.armed = true;
        }
        self.note_hold(now);
        self.armed_at = record.mode.obeys_since().unwrap_or(self.armed_at);
    }

    fn note_readings(&mut self, slot: &Slot, now: Instant) {
        for (channel, read) in &mut self.read {
            if slot.slept > Span::ZERO {
                *read = None;
            }
            let own =
                slot.readings.iter().filter(|(of, value, _)| usize::from(*of) == *channel && value.is_ok());
            let stamps = own.map(|(_, _, offset)| now - Span::from_millis(offset.min(&0).unsigned_abs()));
            *read = stamps.chain(*read).max();
        }
    }

    /// A robot that has not been allowed to move for `disarm_after` counts as disarmed.
    fn note_hold(&mut self, now: Instant) {
        if self.held().is_ok() {
            self.held_since = None;
            return;
        }
        let since = *self.held_since.get_or_insert(now);
        self.armed &= now.since(since) < safety().disarm_after;
    }

    /// Why the robot must not move, if there is a reason: only causes that must stop it, not all that may.
    fn held(&self) -> Result<(), &'static str> {
        let safety = safety();
        let older = |at: Option<Instant>, limit| at.is_none_or(|at| self.now.since(at) > limit);
        let old = |(channel, read): &(usize, Option<Instant>)| older(*read, sensors()[*channel].max_age);
        if self.read.iter().any(old) {
            Err("a required sensor was not read")
        } else if older(self.confirmed, safety.wire_lost) {
            Err("no command was confirmed")
        } else if older(self.taken, safety.field_fresh + safety.field_fade) {
            Err("the field is silent")
        } else if !self.guarded {
            Err("the guard is lost")
        } else if self.lost >= u64::from(safety.late_slots) {
            Err("the loop is late")
        } else {
            Ok(())
        }
    }

    /// Whether the robot may move in the slot that was followed last, or why not.
    pub fn may_move(&self) -> Result<(), &'static str> {
        if self.stopped {
            Err("the process is ending")
        } else if self.latched {
            Err("a stop was not acknowledged")
        } else if !self.armed {
            Err("no caller armed it")
        } else if self.taken.is_some_and(|taken| taken < self.armed_at) {
            Err("the field's answer is from before arming")
        } else {
            self.held()
        }
    }
}
