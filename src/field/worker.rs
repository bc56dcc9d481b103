//! The engine on its own thread: takes the newest stimulus, returns a result, and shields the tick from
//! engine failures (a panic, a hang, a slow run): the tick only ever sees
//! that a result is missing. Work that takes longer than a cycle (saving, reopening a device) happens
//! between two cycles, after the result is out.

use super::brain::Brain;
use super::failover::DeviceCounters;
use super::interposer::Interposer;
use super::snapshot::SnapshotSender;
use super::{DeviceTimes, EngineState, Failure, Response, Stimulus};
use crate::executor::Worker;
use crate::frame::MAX_SENSORS;
use crate::plan::{RUNGS, Rung};
use crate::rt::triple_buffer::{Reader, Writer};
use crate::sim::FieldFaults;
use crate::time::{Clock, Instant, Span};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A stimulus on its way to the engine.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// What to compute.
    pub stimulus: Stimulus,
    /// The slot whose frame it was made from: the age of a result counts from here.
    pub slot: Instant,
}

/// The engine's outcome.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The engine's answer; `None`: the stimulus was refused or the engine failed.
    pub response: Option<Response>,
    /// [`Order::slot`].
    pub slot: Instant,
    /// Quality it was computed at.
    pub rung: Rung,
    /// Compute time, start to end.
    pub span: Span,
    /// From the slot whose tick requested it to the end of the cycle.
    pub answer: Span,
    /// How the engine fares after it.
    pub state: EngineState,
    /// The history of its device.
    pub device: DeviceCounters,
    /// Where the time of the cycle went, if a device computed it.
    pub times: Option<DeviceTimes>,
}

impl Order {
    /// Fills a slot before the first order; never taken.
    pub const EMPTY: Order = Order {
        stimulus: Stimulus { cycle: 0, sensors: [0.0; MAX_SENSORS], reward: 0.0, rung: Rung::BEST },
        slot: Instant::ZERO,
    };
}

impl Outcome {
    /// Fills a slot before the first outcome; never taken.
    pub const EMPTY: Outcome = Outcome {
        response: None,
        slot: Instant::ZERO,
        rung: Rung::BEST,
        span: Span::ZERO,
        answer: Span::ZERO,
        state: EngineState::Running,
        device: DeviceCounters { losses: 0, takeovers: 0, retries: 0 },
        times: None,
    };
}

/// Rebuilding an engine: at most this often in a row, the pause doubling each time. A fault in the
/// code or the hardware that comes back three times in a few seconds will come back again.
const REBUILDS: u32 = 3;
const FIRST_PAUSE: Span = Span::from_millis(500);
/// An engine that has run this long since its last failure has earned its rebuilds back.
const FORGIVEN: Span = Span::from_millis(60_000);

/// Virtual compute time of a cycle by rung, as a share of the budget's target, for runs in virtual
/// time. A model, labelled so in every report: it exists to exercise the budget, not to predict.
const MODELLED_SHARE: [f64; RUNGS] = [0.50, 0.46, 0.42, 0.40, 0.33, 0.08];

/// Runs an engine.
pub struct FieldWorker {
    brain: Brain,
    orders: Reader<Order>,
    outcomes: Writer<Outcome>,
    ready: Option<Outcome>,
    faults: FieldFaults,
    /// Virtual time: a rung-0 cycle costs this times its modelled share. `None`: real time.
    modelled: Option<Span>,
    state: EngineState,
    /// Failures in a row, and when the last one was.
    failures: u32,
    failed_at: Instant,
    /// Where snapshots go.
    snapshots: Option<Snapshots>,
    /// Stands between the tick and the brain.
    interposer: Option<Box<dyn Interposer>>,
}

/// When the worker hands the whole brain over for writing.
struct Snapshots {
    sender: SnapshotSender,
    every: Span,
    due: Option<Instant>,
}

/// How long the end waits for room for the last snapshot: within the patience with which workers are ended.
const LAST_SNAPSHOT: Duration = Duration::from_millis(300);

impl FieldWorker {
    /// A worker around `brain`. `modelled` is the budget's target where time is virtual.
    pub fn new(
        brain: Brain,
        orders: Reader<Order>,
        outcomes: Writer<Outcome>,
        faults: FieldFaults,
        modelled: Option<Span>,
    ) -> FieldWorker {
        FieldWorker {
            brain,
            orders,
            outcomes,
            ready: None,
            faults,
            modelled,
            state: EngineState::Running,
            failures: 0,
            failed_at: Instant::ZERO,
            snapshots: None,
            interposer: None,
        }
    }

    /// The same with `interposer` in the brain's place.
    pub fn with_interposer(mut self, interposer: Option<Box<dyn Interposer>>) -> FieldWorker {
        self.interposer = interposer;
        self
    }

    /// The same with a snapshot over `sender` every `every`, and at the end.
    pub fn with_snapshots(mut self, sender: SnapshotSender, every: Span) -> FieldWorker {
        self.snapshots = Some(Snapshots { sender, every, due: None });
        self
    }

    fn compute(&mut self, order: &Order, clock: &dyn Clock) {
        let start = clock.now();
        let faults = &self.faults;
        let (brain, interposer) = (&mut self.brain, &mut self.interposer);
        // A panic leaves the engine's state unknown: the worker drops it and builds it again, so no
        // cycle uses anything half-written (that is what makes the assertion of unwind safety true).
        let answer = catch_unwind(AssertUnwindSafe(|| {
            faults.before_cycle(start);
            brain.inject(faults.gpu(start));
            match interposer {
                Some(interposer) => interposer.cycle(&order.stimulus, brain, start, clock),
                None => brain.cycle(&order.stimulus, start, clock),
            }
        }));
        self.spend(order, start, clock);
        let response = match answer {
            // Of a device that was lost the brain has taken care.
            Ok(Ok(_) | Err(Failure::Refused(_) | Failure::Lost(_))) => answer.ok().and_then(Result::ok),
            // What computes here is not to be used any more, as after a panic.
            Ok(Err(Failure::NotFinite)) => {
                self.failed(clock.now());
                None
            }
            Err(_) => {
                if !self.brain.panicked(clock.now()) {
                    self.failed(clock.now());
                }
                None
            }
        };
        let now = clock.now();
        let (span, times) = (now.since(start), self.brain.device_times().filter(|_| response.is_some()));
        self.ready = Some(Outcome { response, span, times, ..self.without_answer(order, now) });
    }

    /// Virtual compute time, and time that a fault adds.
    fn spend(&self, order: &Order, start: Instant, clock: &dyn Clock) {
        let rung = order.stimulus.rung.index();
        let own = match self.modelled {
            Some(target) => Span::from_secs_f64(target.as_secs_f64() * MODELLED_SHARE[rung]),
            None => clock.now().since(start),
        };
        clock.sleep_until(self.faults.end_of_cycle(start, own));
    }

    fn failed(&mut self, now: Instant) {
        if now.since(self.failed_at) > FORGIVEN {
            self.failures = 0;
        }
        self.failures += 1;
        self.failed_at = now;
        self.state = if self.failures > REBUILDS {
            EngineState::Retired
        } else {
            EngineState::Rebuilding { attempt: self.failures }
        };
    }

    /// Whether the engine may compute now; builds it again when its pause is over (which allocates:
    /// this is not a steady state).
    fn usable(&mut self, now: Instant) -> bool {
        match self.state {
            EngineState::Running | EngineState::StandIn { .. } => true,
            EngineState::Retired => false,
            EngineState::Rebuilding { attempt } => {
                let pause = FIRST_PAUSE.times(1 << (attempt - 1));
                if now.since(self.failed_at) < pause {
                    return false;
                }
                self.brain.rebuild();
                self.state = EngineState::Running;
                true
            }
        }
    }

    /// How the engine fares.
    pub fn fares(&self, now: Instant) -> EngineState {
        match self.state {
            EngineState::Running => self.brain.stand_in(now).unwrap_or(EngineState::Running),
            state => state,
        }
    }

    /// The answer to an order that was not computed.
    fn without_answer(&self, order: &Order, now: Instant) -> Outcome {
        let state = self.fares(now);
        let (slot, rung) = (order.slot, order.stimulus.rung);
        let device = self.brain.device_counters();
        let answer = now.since(slot);
        Outcome { response: None, slot, rung, span: Span::ZERO, answer, state, device, times: None }
    }

    /// Whether there is work between two cycles.
    fn has_chores(&self) -> bool {
        self.brain.has_device() || self.snapshots.is_some()
    }

    /// What can wait until the result has been handed over.
    fn do_chores(&mut self, now: Instant) {
        if self.state != EngineState::Running {
            return; // what there is to save or to hand over is not sound
        }
        self.brain.tend(now);
        if let Some(snapshots) = &mut self.snapshots {
            let due = *snapshots.due.get_or_insert(now + snapshots.every);
            if now >= due && snapshots.sender.hand_over(|live| self.brain.save(live)) {
                snapshots.due = Some(now + snapshots.every);
            }
        }
    }
}

impl Worker for FieldWorker {
    fn name(&self) -> &'static str {
        "field"
    }

    fn core(&self) -> Option<usize> {
        self.brain.plan().cpus.first().copied()
    }

    fn step(&mut self, clock: &dyn Clock) -> Instant {
        let Some(order) = self.orders.take() else {
            self.do_chores(clock.now());
            return Instant::NEVER;
        };
        if !self.usable(clock.now()) {
            self.ready = Some(self.without_answer(&order, clock.now()));
            return Instant::NEVER;
        }
        self.compute(&order, clock);
        // Once more when the result is handed over.
        if self.has_chores() { clock.now() } else { Instant::NEVER }
    }

    fn publish(&mut self, _clock: &dyn Clock) {
        if let Some(outcome) = self.ready.take() {
            self.outcomes.put(outcome);
        }
    }

    fn finish(&mut self, _clock: &dyn Clock) -> bool {
        // A state that a panic has left behind is not written over a good one.
        if self.state == EngineState::Running
            && let Some(snapshots) = &mut self.snapshots
        {
            snapshots.sender.hand_over_last(LAST_SNAPSHOT, |live| self.brain.save(live));
        }
        true
    }
}

#[cfg(test)]
mod tests;
