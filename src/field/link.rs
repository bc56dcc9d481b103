//! The tick's end of the link to the engine: launches cycles, collects their results and knows the age of the
//! newest result. Never waits: an unfinished cycle is collected later, and a cycle that comes due before then
//! is counted as skipped.

use super::FieldOutput;
use super::failover::DeviceCounters;
use super::navigate::senses::NavigationInput;
use super::remote::{LinkCounters, LinkHealth};
use super::sensor_ring::SensorWriter;
use super::worker::{FieldRequest, FieldResult};
use crate::base::command::Requester;
use crate::base::plan::QualityLevel;
use crate::base::time::{Instant, Span};
use crate::field::EngineState;
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};
use crate::system::executor::Waker;
use crate::system::rt::triple_buffer::{Reader, Writer};
use std::sync::Arc;

/// Counts for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FieldCounters {
    /// Cycles launched.
    pub launched: u64,
    /// Cycles that came due while the previous one was still being computed.
    pub skipped: u64,
    /// Lost or refused samples for which cycles got the last good value (`admit::HELD`).
    pub held: u64,
    /// Cycles that came back without an answer (for example, input refused or engine failed).
    pub unanswered: u64,
    /// How many times the engine on the GPU was lost.
    pub losses: u64,
    /// How many times the CPU engine took over.
    pub takeovers: u64,
    /// How many attempts were made to reopen the GPU.
    pub retries: u64,
    /// What happened on the link to a brain on another computer, if the field uses one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkCounters>,
}

/// The silence of a brain that never answered: longer than any limit.
const NEVER_HEARD: Span = Span::from_nanos(u64::MAX);

/// The tick's end.
pub struct FieldLink {
    requests: Writer<FieldRequest>,
    results: Reader<FieldResult>,
    sensors: SensorWriter,
    waker: Arc<Waker>,
    /// Slots from one launch to the next.
    every: u64,
    cycle: u64,
    launched_at: Option<Instant>,
    newest: Option<(FieldOutput, Instant)>,
    /// Who made the motor request in `newest`.
    requester: Requester,
    state: EngineState,
    link: Option<LinkHealth>,
    counters: FieldCounters,
}

impl FieldLink {
    /// A link on which nothing has been launched.
    pub fn new(
        requests: Writer<FieldRequest>,
        results: Reader<FieldResult>,
        sensors: SensorWriter,
        waker: Arc<Waker>,
        every: u32,
    ) -> FieldLink {
        FieldLink {
            requests,
            sensors,
            results,
            waker,
            every: u64::from(every.max(1)),
            cycle: 0,
            launched_at: None,
            newest: None,
            requester: Requester::Field,
            state: EngineState::Running,
            link: None,
            counters: FieldCounters::default(),
        }
    }

    /// Continues with the cycle after `last`, if the engine resumes from an earlier run.
    pub fn continue_after(&mut self, last: u64) {
        self.cycle = last.wrapping_add(1);
    }

    /// The result that has arrived since the last call, if any.
    pub fn collect(&mut self) -> Option<FieldResult> {
        let result = self.results.take()?;
        self.launched_at = None;
        (self.state, self.link) = (result.state, result.link);
        let DeviceCounters { losses, takeovers, retries } = result.device;
        let link = result.link.map(|link| link.counters);
        self.counters = FieldCounters { losses, takeovers, retries, link, ..self.counters };
        match result.response {
            Some(response) => {
                (self.newest, self.requester) = (Some((response, result.slot)), result.requester());
            }
            None => self.counters.unanswered += 1,
        }
        Some(result)
    }

    /// The newest result, however old, and the slot of the frame from which it was computed.
    pub fn newest(&self) -> Option<(&FieldOutput, Instant)> {
        self.newest.as_ref().map(|(response, slot)| (response, *slot))
    }

    /// Who made the motor request in the newest result.
    pub fn requester(&self) -> Requester {
        self.requester
    }

    /// Age of the newest result, counted from the slot of the frame from which it was computed.
    pub fn age(&self, now: Instant) -> Option<Span> {
        self.newest.as_ref().map(|(_, slot)| now.since(*slot))
    }

    /// For how long the current cycle has been running.
    pub fn running_for(&self, now: Instant) -> Option<Span> {
        self.launched_at.map(|at| now.since(at))
    }

    /// For how long the brain on another computer has not answered; `None`: the field does not depend on one.
    pub fn silence(&self, now: Instant) -> Option<Span> {
        let link = self.link.filter(|link| !link.stood_in)?;
        Some(link.heard.map_or(NEVER_HEARD, |heard| now.since(heard)))
    }

    /// The last known state of the engine.
    pub fn engine_state(&self) -> EngineState {
        self.state
    }

    /// Launches a cycle if one is due in slot number `index` and the engine is free. `navigation` then makes
    /// the navigator's input; `inputs` writes the sensors, and returns how many of them are held values.
    pub fn launch(
        &mut self,
        index: u64,
        slot: Instant,
        quality: QualityLevel,
        navigation: impl FnOnce() -> Option<NavigationInput>,
        inputs: impl FnOnce(&mut dyn FnMut(usize, f32)) -> usize,
    ) {
        if !index.is_multiple_of(self.every) {
            return;
        }
        if self.launched_at.is_some() {
            self.counters.skipped += 1;
            return;
        }
        let (place, held) = self.sensors.write(inputs);
        self.requests.put(FieldRequest { cycle: self.cycle, place, quality, slot, navigation: navigation() });
        self.waker.wake();
        self.cycle += 1;
        self.launched_at = Some(slot);
        self.counters.launched += 1;
        self.counters.held += held as u64;
    }

    /// Counts so far.
    pub fn counters(&self) -> FieldCounters {
        self.counters
    }
}

impl Remembers for FieldLink {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        archive.part("field link");
        let FieldLink {
            requests: _,
            results: _,
            sensors: _,
            waker: _,
            every: _,
            cycle: _, // numbers the requests: no decision depends on it
            launched_at,
            newest,
            requester,
            state: _,
            link,
            counters: _,
        } = self;
        remember!(archive: launched_at, newest, requester, link);
        Ok(())
    }
}
