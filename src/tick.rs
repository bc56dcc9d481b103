//! One control period, on one screen: what happens in which order. Holds no arithmetic; each line calls the
//! file it names. Never waits, allocates, locks, logs or formats.

mod parts;

pub use parts::Parts;

use crate::act::Arbiter;
use crate::admit::Admission;
use crate::alarm::{Alarm, Heard};
use crate::budget::Budget;
use crate::command::Command;
use crate::field::EngineState;
use crate::field::link::{FieldCounters, FieldLink};
use crate::field::worker::Outcome;
use crate::frame::{Frame, MAX_SENSORS, Reading};
use crate::guard::GuardHealth;
use crate::loop_status::{LoopStatus, LoopStatusCell};
use crate::mode::{Disarm, Mode, Modes};
use crate::motor_link::MotorLink;
use crate::plan::Rung;
use crate::reflex::{Reflexes, Signals};
use crate::requests::Requests;
use crate::rt::heap::{allocations_here, allocations_since};
use crate::time::{Clock, Grid, Instant, SleepWatch, Span};
use crate::trace::{FieldTrace, Record, Recorder};
use crate::trail::{BackingCounters, Trail};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Workers that may deliver readings side by side: eight I2C buses, edges, lines, slow values, the map.
pub const MAX_INLETS: usize = 12;

/// Everything that a control period touches.
pub struct Tick {
    pub(crate) clock: Arc<dyn Clock>,
    requests: Arc<Requests>,
    pub(crate) grid: Grid,
    sleep: SleepWatch,
    alarm: Alarm,
    readings: heapless::Vec<rtrb::Consumer<Reading>, MAX_INLETS>,
    admission: Admission,
    frame: Frame,
    reflexes: Reflexes,
    field: FieldLink,
    budget: Budget,
    modes: Modes,
    trail: Trail,
    arbiter: Arbiter,
    motor_link: MotorLink,
    command: Command,
    lost: u64,
    trace: rtrb::Producer<Record>,
    records_dropped: Arc<AtomicU64>,
    loop_status: Arc<LoopStatusCell>,
    /// A guard that the board requires.
    guard: Option<GuardHealth>,
}

impl Tick {
    /// Runs the slot that is due. Called at the slot or late, never early.
    pub fn run(&mut self) {
        let allocations = allocations_here();
        let began = self.clock.now();
        let slot = self.grid.slot();
        let index = self.grid.index();

        let slept = self.sleep.take(self.clock.as_ref());
        let heard = self.alarm.take();
        let hardware = self.motor_link.receipts();
        self.trail.record(&self.command, slot, self.motor_link.unconfirmed_for(began));
        self.sense(slot, began, slept);
        let outcome = self.field.collect();
        let rung = self.weigh(outcome.as_ref(), began);
        let asked = self.requests.take(began);
        if asked.disarm {
            self.reflexes.rearm();
        }
        let signals = self.signals(heard, slept, slot, began);
        let mut verdict = self.reflexes.evaluate(&self.frame, &signals, began);
        self.trail.restrain(&mut verdict);
        let mode = self.modes.advance(&verdict, &signals, asked, began);
        let shown = self.reflexes.remind(&self.frame);
        let request = self.trail.guide(self.field.newest(), mode, &verdict, &shown, slot);
        let request = request.as_ref().map(|(response, taken)| (response, *taken));
        self.command = self.arbiter.decide(mode, &verdict, request, slot, began);
        self.launch(index, slot, &shown, rung, began);
        self.motor_link.hand_over(&mut self.command);
        self.loop_status.leave(&self.status());

        let ended = self.clock.now();
        self.write_down(Record {
            index,
            slot,
            began,
            ended,
            lost: self.lost,
            mode,
            active: verdict.active,
            tripped: verdict.tripped,
            latched: verdict.latched,
            limits: verdict.limits,
            rung,
            frame: self.frame,
            command: self.command,
            field: outcome.map(|outcome| FieldTrace::of(&outcome, slot)),
            hardware,
            allocations: allocations_since(allocations),
        });
        self.lost = self.grid.done(self.clock.now());
    }

    /// Checks every new reading against its rules, puts the last of each channel into the frame, and ages
    /// every sample. Readings from before a sleep say nothing about the present.
    fn sense(&mut self, slot: Instant, now: Instant, slept: Option<Span>) {
        self.frame.slot = slot;
        for inlet in &mut self.readings {
            while let Ok(reading) = inlet.pop() {
                if let Some(value) = self.admission.admit(&mut self.frame, &reading, now) {
                    self.reflexes.meet(&self.frame, reading.channel, value, now);
                }
            }
        }
        if slept.is_some() {
            self.admission.forget(&mut self.frame, now);
        }
        self.admission.age(&mut self.frame, &self.command, now);
    }

    /// The cost of the last cycle, or of the one in progress, decides the next one's quality.
    fn weigh(&mut self, outcome: Option<&Outcome>, now: Instant) -> Rung {
        match (outcome, self.field.running_for(now)) {
            (Some(outcome), _) if outcome.response.is_some() => {
                self.budget.record(outcome.rung, outcome.span, now)
            }
            (None, Some(running)) => self.budget.overdue(running, now),
            _ => self.budget.rung(),
        }
    }

    fn signals(&self, heard: Heard, slept: Option<Span>, slot: Instant, now: Instant) -> Signals {
        Signals {
            halts: heard.halts,
            readings_lost: heard.readings_lost,
            field_age: self.field.age(now),
            wire_age: self.motor_link.unconfirmed_for(now),
            skipped_slots: self.lost,
            guard_lost: self.guard.as_ref().is_some_and(|guard| guard.lost(now)),
            slept,
            backed: self.arbiter.backed(slot, self.motor_link.unconfirmed_for(now)),
        }
    }

    fn status(&self) -> LoopStatus {
        LoopStatus {
            slots: self.grid.slots_run() + 1, // this one
            skipped: self.grid.slots_skipped(),
            confirmed: self.motor_link.confirmed(),
            mode: self.modes.mode().code(),
            latched: LoopStatus::latched_in(self.modes.mode()),
            active: self.reflexes.active(),
            refusal: self.modes.refusal(),
            refused: self.modes.refused(),
            armings: self.modes.armings(),
            disarmed: self.modes.disarmed(),
            bus: 0, // its own thread's
        }
    }

    fn launch(&mut self, index: u64, slot: Instant, shown: &Frame, rung: Rung, now: Instant) {
        let mut sensors = [0.0; MAX_SENSORS];
        let held = self.admission.inputs(shown, &mut sensors).held;
        self.field.launch(index, slot, &sensors, held, rung, self.motor_link.is_prompt(now));
    }

    fn write_down(&mut self, record: Record) {
        if self.trace.push(record).is_err() {
            self.records_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// For code that runs ticks and reports on them.
impl Tick {
    /// The slot that is due next.
    pub fn slot(&self) -> Instant {
        self.grid.slot()
    }
    /// Begins a new grid whose first slot is `first`.
    pub fn start_at(&mut self, first: Instant) {
        self.grid = Grid::new(first, self.grid.period());
        self.sleep = SleepWatch::new(self.clock.as_ref());
        self.lost = 0;
    }
    /// The grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }
    /// A recorder for what this tick will record.
    pub fn recorder(&self) -> Recorder {
        Recorder::new(self.grid.period(), self.command.len)
    }
    /// State of the robot after the last slot.
    pub fn mode(&self) -> Mode {
        self.modes.mode()
    }
    /// Whether the robot drove, or was free to arm by itself, when it was last not stopped.
    pub fn is_willing(&self) -> bool {
        self.modes.is_willing()
    }
    /// Why the robot is disarmed, or was before it ended; `None`: it was armed since, or never disarmed.
    pub fn disarmed(&self) -> Option<Disarm> {
        self.modes.disarmed()
    }
    /// The system refused something that a strict board requires: the robot will not arm.
    pub fn refuse_real_time(&mut self) {
        self.modes.refuse_real_time();
    }
    /// How often and how far it backed off.
    pub fn backing(&self) -> Option<BackingCounters> {
        self.trail.counters()
    }
    /// Counters of the link to the field.
    pub fn field_counters(&self) -> FieldCounters {
        self.field.counters()
    }
    /// The engine's newest known state.
    pub fn engine_state(&self) -> EngineState {
        self.field.engine_state()
    }
    /// Commands that newer ones replaced before the bus read them.
    pub fn commands_replaced(&self) -> u64 {
        self.motor_link.replaced()
    }
    /// What happened to the readings.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;

    #[test]
    fn a_request_to_arm_that_is_late_or_withdrawn_is_none() {
        let requests = Requests::default();
        let arms = |now| requests.take(at(now)).arm;
        requests.ask_to_arm(at(1_500));
        assert!(arms(1_500) && !arms(1_500), "once");
        requests.ask_to_arm(at(1_500));
        assert!(!arms(1_501) && !arms(1_400), "late, and forgotten");
        requests.ask_to_arm(at(1_500));
        requests.withdraw_arming(at(1_500));
        assert!(!arms(1_400), "withdrawn");
        requests.ask_to_arm(at(1_600));
        requests.withdraw_arming(at(1_500));
        assert!(arms(1_550), "another caller's");
    }
}
