//! One control period in a screenful of code: what happens, and in which order. The tick contains no
//! arithmetic; each line calls another module. It never waits, allocates, locks, logs or formats. `senses`
//! makes the frame and the signals; `policy` makes the verdict, the mode and the request; `act` makes the
//! command.

mod checkpoint;
mod parts;
mod policy;
mod senses;

pub use parts::{Deciders, Parts};

use crate::base::frame::Frame;
use crate::base::plan::QualityLevel;
use crate::base::time::{Clock, Grid, Instant, SleepWatch};
use crate::decision::admit::Admission;
use crate::decision::budget::Budget;
use crate::decision::mode::{Disarm, Mode};
use crate::decision::reflex::Signals;
use crate::drive::act::{ActCounters, Arbiter};
use crate::drive::backtrack::BackingCounters;
use crate::drive::motor_link::MotorLink;
use crate::drive::trace::{CheckpointTap, FieldTrace, Inputs, ReadingTap, Record, Recorder};
use crate::field::EngineState;
use crate::field::link::{FieldCounters, FieldLink};
use crate::field::navigate::senses::NavigationSenses;
use crate::field::worker::FieldResult;
use crate::runtime::loop_status::{LoopStatus, LoopStatusCell};
use crate::runtime::requests::Requests;
use crate::system::rt::heap::{allocations_here, allocations_since};
use policy::{Decision, Policy};
use senses::Senses;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of workers that deliver readings: eight I2C buses, edges, lines, slow values, the map.
pub const MAX_INLETS: usize = 12;

/// Everything that a control period touches.
pub struct Tick {
    pub(crate) clock: Arc<dyn Clock>,
    requests: Arc<Requests>,
    pub(crate) grid: Grid,
    senses: Senses,
    policy: Policy,
    arbiter: Arbiter,
    motor_link: MotorLink,
    field: FieldLink,
    navigation: Option<NavigationSenses>,
    budget: Budget,
    lost: u64,
    trace: rtrb::Producer<Record>,
    records_dropped: Arc<AtomicU64>,
    loop_status: Arc<LoopStatusCell>,
    /// Passes checkpoints to a recording.
    checkpoints: CheckpointTap,
}

impl Tick {
    /// Runs the slot that is due. Called at the slot's time or later, never earlier.
    pub fn run(&mut self) {
        let allocations = allocations_here();
        let began = self.clock.now();
        let slot = self.grid.slot();
        let index = self.grid.index();
        if index == 0 {
            self.checkpoint();
        }

        let asked = self.requests.take(began);
        let receipts = self.motor_link.receipts();
        let executed = self.motor_link.executed(slot, began);
        let outcome = self.field.collect();
        let quality = self.choose_level(outcome.as_ref(), began);
        let known = Signals {
            field_age: self.field.age(began),
            link_silence: self.field.silence(began),
            wire_age: executed.unconfirmed,
            backed: executed.backed(),
            skipped_slots: self.lost,
            disarmed: asked.disarm,
            ..Signals::default()
        };
        let (frame, signals) = self.senses.update(index, &executed, known, &mut self.policy.reflexes, began);
        self.navigation.iter_mut().for_each(|own| own.follow(&executed, &frame));
        let Decision { verdict, mode, request, shown } =
            self.policy.decide(&frame, &signals, asked, self.field.newest(), &executed, began);
        let request = request.as_ref().map(|(response, taken)| (response, *taken));
        let command = self.arbiter.decide(mode, &verdict, request, &executed, began);
        let command = command.requested_by(self.field.requester());
        self.motor_link.hand_over(command);
        self.launch(index, slot, (&frame, &shown), mode, quality);
        self.loop_status.store_readings_refused(self.senses.admission.refused());
        self.loop_status.store(&self.status(verdict.active));

        let (readings, untold) = self.senses.tap.counts();
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
            quality,
            frame,
            command: *self.motor_link.command(),
            field: outcome.map(|outcome| FieldTrace::of(&outcome, slot)),
            receipts,
            allocations: allocations_since(allocations),
            inputs: Inputs { asked, signals, readings, untold },
        });
        self.lost = self.grid.done(self.clock.now());
        self.checkpoint();
    }

    /// Chooses the quality of the next cycle from the time of the last cycle, or of the one in progress.
    fn choose_level(&mut self, outcome: Option<&FieldResult>, now: Instant) -> QualityLevel {
        match (outcome, self.field.running_for(now)) {
            (Some(outcome), _) if outcome.response.is_some() => {
                self.budget.record(outcome.quality, outcome.span, now)
            }
            (None, Some(running)) => self.budget.overdue(running, now),
            _ => self.budget.quality(),
        }
    }

    fn status(&self, active: u16) -> LoopStatus {
        let modes = &self.policy.modes;
        LoopStatus {
            slots: self.grid.slots_begun(),
            skipped: self.grid.slots_skipped(),
            confirmed: self.motor_link.confirmed(),
            mode: modes.mode().code(),
            latched: LoopStatus::latched_in(modes.mode()),
            active,
            refusal: modes.refusal(),
            refused: modes.refused(),
            armings: modes.armings(),
            disarmed: modes.disarmed(),
            bus: 0, // written by the bus thread
        }
    }

    fn launch(
        &mut self,
        index: u64,
        slot: Instant,
        (frame, shown): (&Frame, &Frame),
        mode: Mode,
        quality: QualityLevel,
    ) {
        let (navigation, senses) = (&mut self.navigation, &self.senses);
        let around = || navigation.as_mut().map(|own| own.input(frame, mode.obeys_since().is_some()));
        self.field.launch(index, slot, quality, around, |put| senses.inputs(shown, put));
    }

    fn write_down(&mut self, record: Record) {
        if self.trace.push(record).is_err() {
            self.records_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// For the code that runs ticks and reports on them.
impl Tick {
    /// The slot that is due next.
    pub fn slot(&self) -> Instant {
        self.grid.slot()
    }
    /// Begins a new grid whose first slot is `first`.
    pub fn start_at(&mut self, first: Instant) {
        self.grid = Grid::new(first, self.grid.period());
        self.senses.sleep = SleepWatch::new(self.clock.as_ref());
        self.lost = 0;
    }
    /// The grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }
    /// Attaches a recording: readings also go to `readings`, and checkpoints to `checkpoints`. Returns the
    /// taps that it replaces.
    pub fn record_to(
        &mut self,
        readings: ReadingTap,
        checkpoints: CheckpointTap,
    ) -> (ReadingTap, CheckpointTap) {
        let before = std::mem::replace(&mut self.senses.tap, readings);
        (before, std::mem::replace(&mut self.checkpoints, checkpoints))
    }
    /// A recorder for the records of this tick.
    pub fn recorder(&self) -> Recorder {
        Recorder::new(self.grid.period(), self.motor_link.command().len)
    }
    /// Mode of the robot after the last slot.
    pub fn mode(&self) -> Mode {
        self.policy.modes.mode()
    }
    /// Whether the robot was armed, or free to arm by itself, before it was stopped.
    pub fn is_willing(&self) -> bool {
        self.policy.modes.is_willing()
    }
    /// Why the robot is disarmed, or was disarmed before it latched or stopped; `None`: it has been armed
    /// since, or was never disarmed.
    pub fn disarmed(&self) -> Option<Disarm> {
        self.policy.modes.disarmed()
    }
    /// The system refused something that a strict board requires, so the robot must not arm.
    pub fn refuse_real_time(&mut self) {
        self.policy.modes.refuse_real_time();
    }
    /// How often and how far the robot backed off.
    pub fn backing(&self) -> Option<BackingCounters> {
        self.policy.backtrack.counters()
    }
    /// What the arbiter refused of the field's requests.
    pub fn command_counters(&self) -> ActCounters {
        self.arbiter.counters()
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
    /// The admission of readings, with its counters.
    pub fn admission(&self) -> &Admission {
        &self.senses.admission
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::at;
    use crate::decision::mode::Asked;

    #[test]
    fn late_or_withdrawn_arming_requests_are_ignored() {
        let requests = Requests::default();
        let arms = |now| requests.take(at(now)).arm;
        requests.ask_to_arm(at(1_500), 0);
        assert!(arms(1_500) && !arms(1_500), "a request counts once");
        requests.ask_to_arm(at(1_500), 0);
        assert!(!arms(1_501) && !arms(1_400), "it had expired, and is forgotten");
        requests.ask_to_arm(at(1_500), 0);
        requests.withdraw_arming(at(1_500));
        assert!(!arms(1_400), "withdrawn");
        requests.ask_to_arm(at(1_600), 0);
        requests.withdraw_arming(at(1_500));
        assert!(arms(1_550), "another caller's request stays");
    }

    #[test]
    fn arming_requests_older_than_a_disarm_are_ignored() {
        let requests = Requests::default();
        let taken = || requests.take(at(1_000));
        let seen = requests.disarms();
        requests.ask_to_arm(at(1_500), seen);
        requests.ask_to_disarm();
        assert!(taken() == Asked { disarm: true, ..Asked::default() }, "in one slot");
        requests.ask_to_arm(at(1_500), seen);
        assert!(!taken().arm, "repeated after the slot that took the disarm");
        requests.ask_to_arm(at(1_500), requests.disarms());
        assert!(taken().arm, "a new request");
        requests.ask_to_arm(at(1_500), requests.disarms());
        requests.outdate_arming();
        assert!(taken() == Asked::default(), "the program was asked to stop");
    }
}
