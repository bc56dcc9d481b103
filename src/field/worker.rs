//! The engine on its own thread: takes the newest stimulus, returns a result, and shields the tick from
//! engine failures (a panic, a hang, a slow run): the tick only ever sees
//! that a result is missing. Work that takes longer than a cycle (saving, reopening a device) happens
//! between two cycles, after the result is out.

use super::brain::{Brain, NoAnswer};
use super::failover::DeviceCounters;
use super::remote::LinkHealth;
use super::snapshot::SnapshotSchedule;
use super::{Condition, DeviceTimes, EngineState, FieldInput, FieldOutput};
use crate::base::plan::QualityLevel;
use crate::base::time::{Clock, Instant, Span};
use crate::system::executor::Worker;
use crate::system::rt::triple_buffer::{Reader, Writer};
use std::time::Duration;

/// An order on its way to the engine.
#[derive(Clone, Copy, Debug)]
pub struct FieldRequest {
    /// Number of the cycle.
    pub cycle: u64,
    /// Where its sensors lie in the robot's ring.
    pub place: u8,
    /// Its quality.
    pub quality: QualityLevel,
    /// The slot whose frame it was made from: the age of a result counts from here.
    pub slot: Instant,
}

/// The engine's outcome.
#[derive(Clone, Copy, Debug)]
pub struct FieldResult {
    /// The engine's answer; `None`: the stimulus was refused or the engine failed.
    pub response: Option<FieldOutput>,
    /// [`FieldRequest::slot`].
    pub slot: Instant,
    /// Quality it was computed at.
    pub quality: QualityLevel,
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
    /// The link to a brain elsewhere, if the field needs one.
    pub link: Option<LinkHealth>,
}

impl FieldRequest {
    /// Fills a slot before the first order; never taken.
    pub const EMPTY: FieldRequest =
        FieldRequest { cycle: 0, place: 0, quality: QualityLevel::BEST, slot: Instant::ZERO };
}

impl FieldResult {
    /// Fills a slot before the first outcome; never taken.
    pub const EMPTY: FieldResult = FieldResult {
        response: None,
        slot: Instant::ZERO,
        quality: QualityLevel::BEST,
        span: Span::ZERO,
        answer: Span::ZERO,
        state: EngineState::Running,
        device: DeviceCounters { losses: 0, takeovers: 0, retries: 0 },
        times: None,
        link: None,
    };
}

/// Rebuilding an engine: at most this often in a row, the pause doubling each time. A fault in the
/// code or the hardware that comes back three times in a few seconds will come back again.
const REBUILDS: u32 = 3;
const FIRST_PAUSE: Span = Span::from_millis(500);
/// An engine that has run this long since its last failure has earned its rebuilds back.
const FORGIVEN: Span = Span::from_millis(60_000);

/// Runs an engine.
pub struct FieldWorker {
    brain: Brain,
    orders: Reader<FieldRequest>,
    outcomes: Writer<FieldResult>,
    ready: Option<FieldResult>,
    state: EngineState,
    /// Failures in a row, and when the last one was.
    failures: u32,
    failed_at: Instant,
    snapshots: Option<SnapshotSchedule>,
}

/// How long the end waits for room for the last snapshot: within the patience with which workers are ended.
const LAST_SNAPSHOT: Duration = Duration::from_millis(300);

impl FieldWorker {
    /// A worker around `brain`.
    pub fn new(brain: Brain, orders: Reader<FieldRequest>, outcomes: Writer<FieldResult>) -> FieldWorker {
        FieldWorker {
            brain,
            orders,
            outcomes,
            ready: None,
            state: EngineState::Running,
            failures: 0,
            failed_at: Instant::ZERO,
            snapshots: None,
        }
    }

    /// The same with snapshots when `schedule` says so, and at the end.
    pub fn with_snapshots(mut self, schedule: SnapshotSchedule) -> FieldWorker {
        self.snapshots = Some(schedule);
        self
    }

    fn compute(&mut self, order: &FieldRequest, clock: &dyn Clock) {
        let start = clock.now();
        let FieldRequest { cycle, place, quality, .. } = *order;
        let sensors = self.brain.sensors.read(place);
        let input = FieldInput { cycle, sensors, reward: 0.0, quality, place: Some(place) };
        let response = match self.brain.cycle(&input, clock) {
            Ok(mut response) => {
                self.brain.request(&mut response, &input.sensors);
                Some(response)
            }
            Err(NoAnswer::Refused | NoAnswer::Missed) => None,
            Err(NoAnswer::Unsound) => {
                self.failed(clock.now());
                None
            }
        };
        let now = clock.now();
        let times = self.brain.engine.condition(now).times.filter(|_| response.is_some());
        let span = now.since(start);
        self.ready = Some(FieldResult { response, span, times, ..self.without_answer(order, now) });
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
            EngineState::Running | EngineState::StandIn { .. } | EngineState::NoLink { .. } => true,
            EngineState::Retired => false,
            EngineState::Rebuilding { attempt } => {
                let pause = FIRST_PAUSE.times(1 << (attempt - 1));
                if now.since(self.failed_at) < pause {
                    return false;
                }
                self.brain.engine.rebuild(&self.brain.learned);
                self.state = EngineState::Running;
                true
            }
        }
    }

    /// How the engine fares.
    pub fn fares(&self, now: Instant) -> EngineState {
        match self.state {
            EngineState::Running => self.brain.engine.condition(now).state,
            state => state,
        }
    }

    /// The answer to an order that was not computed.
    fn without_answer(&self, order: &FieldRequest, now: Instant) -> FieldResult {
        let state = self.fares(now);
        let (slot, quality) = (order.slot, order.quality);
        let Condition { device, link, .. } = self.brain.engine.condition(now);
        let answer = now.since(slot);
        FieldResult {
            response: None,
            slot,
            quality,
            span: Span::ZERO,
            answer,
            state,
            device,
            times: None,
            link,
        }
    }

    /// What can wait until the result has been handed over.
    fn do_chores(&mut self, now: Instant) {
        if self.state != EngineState::Running {
            return; // what there is to save or to hand over is not sound
        }
        self.brain.engine.maintain(now);
        if let Some(snapshots) = &mut self.snapshots {
            snapshots.maintain(&mut *self.brain.engine, now);
        }
    }
}

impl Worker for FieldWorker {
    fn name(&self) -> &'static str {
        "field"
    }

    fn core(&self) -> Option<usize> {
        self.brain.plan.cpus.first().copied()
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
        clock.now() // once more when the result is handed over, for the chores
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
            snapshots.finish(&mut *self.brain.engine, LAST_SNAPSHOT);
        }
        true
    }
}

#[cfg(test)]
mod tests;
