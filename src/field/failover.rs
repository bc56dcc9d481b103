//! Runs the engine on a GPU and fails over to the CPU when the GPU is lost. It keeps the last good state, and
//! the standby CPU engine continues from that state. Another thread reopens the GPU with growing backoff, so
//! that a driver that hangs while opening blocks only that thread. This module knows nothing about the GPU,
//! which it calls "the device", except that the engine on it can be lost.
//!
//! ```text
//!            cycle: Lost                       opened, and it took the CPU's state
//! on device ------------> on the CPU, waiting --------------------------------> on device
//!                            |  ^
//!              pause is over |  | opening failed: the pause doubles
//!                            v  |
//!                    on the CPU, opening
//! ```

#[cfg(test)]
mod tests;

use super::engine::{Condition, FieldEngine};
use super::sensor_ring::SensorRing;
use super::slices::FieldSlices;
use super::state::{Learned, Live, StateError};
use super::{EngineState, Failure, FieldInput, FieldOutput, Loss};
use crate::base::plan::FieldPlan;
use crate::base::time::{Clock, Instant, Span};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Opens the device and builds the engine on it; the engine reads the sensors from the given ring. Called
/// repeatedly, on a separate thread.
pub type Open = Box<dyn FnMut(&FieldPlan, &SensorRing) -> Result<Box<dyn FieldEngine>, Loss> + Send>;

/// The pause before the first retry; each further retry doubles it.
const FIRST_PAUSE: Span = Span::from_millis(500);
/// The longest pause: an attempt once a minute costs little.
const LONGEST_PAUSE: Span = Span::from_millis(60_000);
/// If a device is lost more than this long after it was opened, the pauses start from the shortest again.
const FORGIVEN: Span = Span::from_millis(60_000);
/// Time between two saves of the last good state. If the device is lost, what the field learned since the
/// last save is lost with it.
const SAVE_EVERY: Span = Span::from_millis(1000);
/// How long the start waits for the device: a driver may have to compile the kernels first.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The device's history, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// How many times it was lost.
    pub losses: u64,
    /// How many times the CPU took over.
    pub takeovers: u64,
    /// How many attempts were made to reopen it.
    pub retries: u64,
}

/// A request to the opener: drop the lost engine, if there is one (this may hang), then open the device.
type Request = Option<Box<dyn FieldEngine>>;

/// The engine on the device while there is one, and everything needed to do without it.
pub struct Failover {
    /// The CPU engine: on standby, or computing.
    here: Box<dyn FieldEngine>,
    remote: Option<Box<dyn FieldEngine>>,
    lost: Option<Box<dyn FieldEngine>>,
    ask: Sender<Request>,
    answers: Receiver<Result<Box<dyn FieldEngine>, Loss>>,
    /// Whether the opener has a request that it has not answered yet.
    opening: bool,
    /// The last good state.
    good: Box<Live>,
    spare: Box<Live>,
    dt: Span,
    cycles_per_save: u64,
    cycles_since_save: u64,
    loss: Loss,
    attempt: u32,
    opened_at: Instant,
    retry_at: Instant,
    counters: DeviceCounters,
    clock: Arc<dyn Clock>,
}

impl Failover {
    /// Opens the device for the first time and waits for it. `here` becomes the standby engine; the engine on
    /// the device starts from the state of `here`.
    pub fn new(
        plan: &FieldPlan,
        learned: Arc<Learned>,
        sensors: &SensorRing,
        mut here: Box<dyn FieldEngine>,
        open: Open,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Failover> {
        let (ask, asked) = bounded(1);
        let (answer, answers) = bounded(1);
        let (plan_there, sensors) = (plan.clone(), sensors.clone());
        thread::Builder::new()
            .name("open device".into())
            .spawn(move || keep_opening(&plan_there, &learned, &sensors, open, &asked, &answer))?;
        let mut good = Box::<Live>::default();
        here.save(&mut good);
        let mut failover = Failover {
            here,
            remote: None,
            lost: None,
            ask,
            answers,
            opening: true,
            spare: good.clone(),
            good,
            dt: plan.dt,
            cycles_per_save: (SAVE_EVERY.as_nanos() / plan.dt.as_nanos().max(1)).max(1),
            cycles_since_save: 0,
            loss: Loss::Timeout { call: "opening" },
            attempt: 0,
            opened_at: Instant::ZERO,
            retry_at: Instant::ZERO,
            counters: DeviceCounters::default(),
            clock,
        };
        failover.spare.reserve(plan, false);
        let _ = failover.ask.send(None);
        match failover.answers.recv_timeout(START_TIMEOUT) {
            Ok(answer) => {
                failover.opening = false;
                failover.take(answer, Instant::ZERO);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => failover.attempt = 1,
        }
        Ok(failover)
    }

    /// Gives the device up; `here` continues from the last good state.
    fn lose(&mut self, loss: Loss, now: Instant) {
        self.counters.losses += 1;
        self.counters.takeovers += 1;
        if now.since(self.opened_at) > FORGIVEN {
            self.attempt = 0;
        }
        self.lost = self.remote.take();
        self.schedule_retry(loss, now);
        if self.here.restore(&self.good).is_err() {
            self.here.reset(); // cannot happen with the same plan; a start at rest is safe too
        }
    }

    fn schedule_retry(&mut self, loss: Loss, now: Instant) {
        let pause = FIRST_PAUSE.times(1 << self.attempt.min(16)).min(LONGEST_PAUSE);
        self.attempt = self.attempt.saturating_add(1);
        (self.loss, self.retry_at) = (loss, now + pause);
    }

    /// Handles the opener's answer: if the device was opened, gives it the state of `here`.
    fn take(&mut self, opened: Result<Box<dyn FieldEngine>, Loss>, now: Instant) {
        let mut remote = match opened {
            Ok(remote) => remote,
            Err(loss) => return self.schedule_retry(loss, now),
        };
        if !self.here.save(&mut self.spare) || remote.restore(&self.spare).is_err() {
            self.lost = Some(remote);
            return self.schedule_retry(Loss::State, now);
        }
        std::mem::swap(&mut self.good, &mut self.spare);
        (self.remote, self.cycles_since_save, self.opened_at) = (Some(remote), 0, now);
    }
}

impl FieldEngine for Failover {
    fn name(&self) -> String {
        match &self.remote {
            Some(remote) => format!("{}; {} on standby", remote.name(), self.here.name()),
            None => format!("{}, in place of a GPU", self.here.name()),
        }
    }

    fn device_name(&self) -> Option<String> {
        self.remote.as_ref().and_then(|remote| remote.device_name())
    }

    /// One cycle, on the device or else on `here`. If the device is lost in this cycle, `here` continues from
    /// the last good state, and computes the same input if less than a cycle period has passed.
    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, Failure> {
        let Some(remote) = &mut self.remote else { return self.here.cycle(input) };
        let start = self.clock.now();
        let answer = remote.cycle(input);
        self.cycles_since_save += 1;
        let loss = match answer {
            Ok(_) | Err(Failure::Refused(_) | Failure::Missed) => return answer,
            Err(Failure::Lost(loss)) => loss,
            Err(Failure::NotFinite) => Loss::NotFinite,
        };
        self.lose(loss, self.clock.now());
        // With a full bank, restoring the state may itself take a whole cycle period.
        if self.clock.now().since(start) < self.dt { self.here.cycle(input) } else { Err(loss.into()) }
    }

    fn save(&mut self, live: &mut Live) -> bool {
        self.remote.as_mut().unwrap_or(&mut self.here).save(live)
    }

    fn restore(&mut self, live: &Live) -> Result<(), StateError> {
        self.remote.as_mut().unwrap_or(&mut self.here).restore(live)
    }

    fn load(&mut self, learned: &Learned) -> Result<(), StateError> {
        self.here.load(learned)?;
        self.remote.as_mut().map_or(Ok(()), |remote| remote.load(learned))
    }

    fn reset(&mut self) {
        self.remote.as_mut().unwrap_or(&mut self.here).reset();
    }

    /// Rebuilds only the standby engine: a device that panicked counts as lost, and is reopened.
    fn rebuild(&mut self, learned: &Learned) {
        self.here.rebuild(learned);
    }

    /// A device that panics is lost, and `here` continues.
    fn survives_panic(&mut self, now: Instant) -> bool {
        let was_there = self.remote.is_some();
        if was_there {
            self.lose(Loss::Panicked, now);
        }
        was_there
    }

    /// Taken from the last good state while the device computes: the device itself is not disturbed.
    fn slices(&self) -> Option<FieldSlices> {
        match self.remote {
            Some(_) => FieldSlices::of_saved(&self.good),
            None => self.here.slices(),
        }
    }

    /// Saves the device's state, reopens a lost device, and gives a reopened one the state of `here`.
    fn maintain(&mut self, now: Instant) {
        if let Some(remote) = &mut self.remote {
            if self.cycles_since_save >= self.cycles_per_save && remote.save_soon(&mut self.spare) {
                std::mem::swap(&mut self.good, &mut self.spare);
                self.cycles_since_save = 0;
            }
            return;
        }
        if self.opening {
            if let Ok(answer) = self.answers.try_recv() {
                self.opening = false;
                self.take(answer, now);
            }
        } else if now >= self.retry_at {
            self.counters.retries += 1;
            self.opening = self.ask.try_send(self.lost.take()).is_ok();
            if !self.opening {
                self.schedule_retry(Loss::Error { call: "opening" }, now); // the opener is gone
            }
        }
    }

    fn condition(&self, now: Instant) -> Condition {
        let (state, times) = match &self.remote {
            Some(remote) => (EngineState::Running, remote.condition(now).times),
            None => {
                let left = if self.opening { Span::ZERO } else { self.retry_at.since(now) };
                (EngineState::StandIn { loss: self.loss, attempt: self.attempt, left }, None)
            }
        };
        Condition { state, device: self.counters, times, link: None }
    }
}

/// The opener's loop: drops lost engines and opens the device on request. It ends when the [`Failover`] is
/// dropped, unless the driver hangs.
fn keep_opening(
    plan: &FieldPlan,
    learned: &Learned,
    sensors: &SensorRing,
    mut open: Open,
    asked: &Receiver<Request>,
    answer: &Sender<Result<Box<dyn FieldEngine>, Loss>>,
) {
    for lost in asked {
        // A panic here counts as a failed opening; nothing from it is used afterwards.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            drop(lost);
            let mut remote = open(plan, sensors)?;
            remote.load(learned).map_err(|_| Loss::State)?;
            Ok(remote)
        }));
        if answer.send(opened.unwrap_or(Err(Loss::Panicked))).is_err() {
            return;
        }
    }
}
