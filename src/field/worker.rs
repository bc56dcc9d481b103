//! The engine on its own thread: takes the newest request, returns a result, and shields the tick from engine
//! failures (a panic, a hang, a slow run): the tick only sees a missing result. Work that takes longer than a
//! cycle (saving, reopening a GPU) happens between two cycles, after the result was published.

use super::brain::{Brain, NoAnswer};
use super::failover::DeviceCounters;
use super::navigate::goals::{FieldAnswer, GoalReport, GoalStage};
use super::navigate::senses::NavigationInput;
use super::remote::LinkHealth;
use super::slices::SliceSchedule;
use super::snapshot::SnapshotSchedule;
use super::{Condition, DeviceTimes, EngineState, FieldInput, FieldOutput};
use crate::base::command::Requester;
use crate::base::plan::QualityLevel;
use crate::base::time::{Clock, Instant, Span};
use crate::system::executor::Worker;
use crate::system::rt::triple_buffer::{Reader, Writer};
use std::time::Duration;

/// A request to the engine.
#[derive(Clone, Copy, Debug)]
pub struct FieldRequest {
    /// Number of the cycle.
    pub cycle: u64,
    /// Position of its sensor values in the sensor ring.
    pub place: u8,
    /// Its quality level.
    pub quality: QualityLevel,
    /// Time of the slot whose frame the request was made from; the age of a result counts from this time.
    pub slot: Instant,
    /// The navigator's input, on a board that has a navigator.
    pub navigation: Option<NavigationInput>,
}

/// The engine's result.
#[derive(Clone, Copy, Debug)]
pub struct FieldResult {
    /// The engine's answer; `None`: the input was refused or the engine failed.
    pub response: Option<FieldOutput>,
    /// [`FieldRequest::slot`].
    pub slot: Instant,
    /// Quality level at which it was computed.
    pub quality: QualityLevel,
    /// Compute time, start to end.
    pub span: Span,
    /// Time from the slot whose tick requested the cycle to the end of the cycle.
    pub answer: Span,
    /// The engine's state after the cycle.
    pub state: EngineState,
    /// The counters of its GPU.
    pub device: DeviceCounters,
    /// Where the time of the cycle went, if a GPU computed it.
    pub times: Option<DeviceTimes>,
    /// The link to a brain on another computer, if the field uses one.
    pub link: Option<LinkHealth>,
    /// The progress towards the goal, on a board that has a navigator.
    pub goal: Option<GoalReport>,
}

impl FieldResult {
    /// Who made the motor request.
    pub fn requester(&self) -> Requester {
        self.goal.map_or(Requester::Field, |goal| goal.requester)
    }
}

impl FieldRequest {
    /// The initial content of a buffer; never read.
    pub const EMPTY: FieldRequest = FieldRequest {
        cycle: 0,
        place: 0,
        quality: QualityLevel::BEST,
        slot: Instant::ZERO,
        navigation: None,
    };
}

impl FieldResult {
    /// The initial content of a buffer; never read.
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
        goal: None,
    };
}

/// An engine is rebuilt at most this many times in a row. A fault that comes back three times in a few
/// seconds will come back again.
const REBUILDS: u32 = 3;
/// Pause before the first rebuild in a row; it doubles for each further one.
const FIRST_PAUSE: Span = Span::from_millis(500);
/// After an engine has run for this long since its last failure, the count of rebuilds starts again.
const RESET_AFTER: Span = Span::from_millis(60_000);

/// Runs an engine.
pub struct FieldWorker {
    brain: Brain,
    requests: Reader<FieldRequest>,
    results: Writer<FieldResult>,
    ready: Option<FieldResult>,
    state: EngineState,
    /// Failures in a row, and when the last one was.
    failures: u32,
    failed_at: Instant,
    snapshots: heapless::Vec<SnapshotSchedule, 2>,
    slices: SliceSchedule,
    goals: Option<GoalStage>,
}

/// How long shutdown waits for a free buffer for the last snapshot: less than the time in which workers must
/// end.
const LAST_SNAPSHOT: Duration = Duration::from_millis(300);

impl FieldWorker {
    /// A worker around `brain`.
    pub fn new(brain: Brain, requests: Reader<FieldRequest>, results: Writer<FieldResult>) -> FieldWorker {
        FieldWorker {
            brain,
            requests,
            results,
            ready: None,
            state: EngineState::Running,
            failures: 0,
            failed_at: Instant::ZERO,
            snapshots: heapless::Vec::new(),
            slices: SliceSchedule::default(),
            goals: None,
        }
    }

    /// Adds snapshots on these schedules: one for the file, one for the recording.
    pub fn with_snapshots(mut self, schedules: [Option<SnapshotSchedule>; 2]) -> FieldWorker {
        self.snapshots = schedules.into_iter().flatten().collect();
        self
    }

    /// Adds slices for viewers.
    pub fn with_slices(mut self, schedule: SliceSchedule) -> FieldWorker {
        self.slices = schedule;
        self
    }

    /// Adds a navigator.
    pub fn with_goals(mut self, goals: GoalStage) -> FieldWorker {
        self.goals = Some(goals);
        self
    }

    fn compute(&mut self, request: &FieldRequest, clock: &dyn Clock) {
        let start = clock.now();
        let FieldRequest { cycle, place, quality, .. } = *request;
        let sensors = self.brain.sensors.read(place);
        let input = FieldInput { cycle, sensors, reward: 0.0, quality, place: Some(place) };
        let mut response = match self.brain.cycle(&input, clock) {
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
        let goal = self.navigate(request, &sensors, response.as_mut());
        let now = clock.now();
        let times = self.brain.engine.condition(now).times.filter(|_| response.is_some());
        let span = now.since(start);
        self.ready = Some(FieldResult { response, span, times, goal, ..self.without_answer(request, now) });
    }

    /// Lets the navigator or a behaviour replace the field's request.
    fn navigate(
        &mut self,
        request: &FieldRequest,
        sensors: &[f32],
        response: Option<&mut FieldOutput>,
    ) -> Option<GoalReport> {
        let (goals, input) = (self.goals.as_mut()?, request.navigation.as_ref()?);
        let answer = response.map(|response| FieldAnswer { sensors, motors: &mut response.motors });
        Some(goals.advance(input, request.slot, answer))
    }

    fn failed(&mut self, now: Instant) {
        if now.since(self.failed_at) > RESET_AFTER {
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

    /// Whether the engine may compute now. Rebuilds a failed engine once its pause is over; this allocates,
    /// but only happens after a failure.
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

    /// The engine's state.
    pub fn engine_state(&self, now: Instant) -> EngineState {
        match self.state {
            EngineState::Running => self.brain.engine.condition(now).state,
            state => state,
        }
    }

    /// The result of a request that was not computed.
    fn without_answer(&self, request: &FieldRequest, now: Instant) -> FieldResult {
        let state = self.engine_state(now);
        let (slot, quality) = (request.slot, request.quality);
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
            goal: None,
        }
    }

    /// Work that can wait until the result has been published.
    fn maintain(&mut self, now: Instant) {
        if self.state != EngineState::Running {
            return; // the engine's state is not valid, so it must not be saved
        }
        self.brain.engine.maintain(now);
        self.slices.maintain(&*self.brain.engine, now);
        for snapshots in &mut self.snapshots {
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
        let Some(request) = self.requests.take() else {
            self.maintain(clock.now());
            return Instant::NEVER;
        };
        if !self.usable(clock.now()) {
            self.ready = Some(self.without_answer(&request, clock.now()));
            return Instant::NEVER;
        }
        self.compute(&request, clock);
        clock.now() // step again for maintenance, after the result was published
    }

    fn publish(&mut self, _clock: &dyn Clock) {
        if let Some(result) = self.ready.take() {
            self.results.put(result);
        }
    }

    fn finish(&mut self, _clock: &dyn Clock) -> bool {
        // A state left behind by a panic must not overwrite a good one.
        if self.state == EngineState::Running {
            for snapshots in &mut self.snapshots {
                snapshots.finish(&mut *self.brain.engine, LAST_SNAPSHOT);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
