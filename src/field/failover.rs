//! The engine on a device, and failover when it is lost: the brain keeps the last good state, the standby CPU
//! engine continues from it, and another thread reopens the device with growing backoff, so that a driver
//! that hangs while opening blocks only that thread. Knows no GPU: only that an engine can be lost.
//!
//! ```text
//!            cycle: Lost                       opened, and it took the CPU's state
//! on device ------------> on the CPU, waiting --------------------------------> on device
//!                            |  ^
//!              pause is over |  | opening failed: twice the pause
//!                            v  |
//!                    on the CPU, opening
//! ```

#[cfg(test)]
mod tests;

use super::state::{Learned, Live, StateError};
use super::{DeviceTimes, Engine, Failure, Loss, Response, Stimulus};
use crate::field::EngineState;
use crate::gpu::GpuFault;
use crate::plan::FieldPlan;
use crate::time::{Clock, Instant, Span};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// An engine that can be lost, as the brain sees it.
pub trait Remote: Send {
    /// See [`Engine::name`].
    fn name(&self) -> String;
    /// The device's own name, as people know it.
    fn device_name(&self) -> Option<String> {
        None
    }
    /// See [`Engine::cycle`].
    fn cycle(&mut self, stimulus: &Stimulus) -> Result<Response, Failure>;
    /// See [`Engine::save`].
    fn save(&mut self, live: &mut Live) -> bool;
    /// See [`Engine::restore`].
    fn restore(&mut self, live: &Live) -> Result<(), StateError>;
    /// See [`Engine::load`].
    fn load(&mut self, learned: &Learned) -> Result<(), StateError>;
    /// See [`Engine::device_times`].
    fn device_times(&self) -> Option<DeviceTimes> {
        None
    }
    /// See [`Engine::inject`].
    fn inject(&mut self, fault: Option<GpuFault>);
}

impl Remote for Engine {
    fn name(&self) -> String {
        Engine::name(self)
    }
    fn device_name(&self) -> Option<String> {
        match self {
            Engine::Cuda(engine) => Some(engine.device_name().to_string()),
            Engine::Reference(_) | Engine::Cpu(_) => None,
        }
    }
    fn cycle(&mut self, stimulus: &Stimulus) -> Result<Response, Failure> {
        Engine::cycle(self, stimulus)
    }
    fn save(&mut self, live: &mut Live) -> bool {
        Engine::save(self, live)
    }
    fn restore(&mut self, live: &Live) -> Result<(), StateError> {
        Engine::restore(self, live)
    }
    fn load(&mut self, learned: &Learned) -> Result<(), StateError> {
        Engine::load(self, learned)
    }
    fn device_times(&self) -> Option<DeviceTimes> {
        Engine::device_times(self)
    }
    fn inject(&mut self, fault: Option<GpuFault>) {
        Engine::inject(self, fault);
    }
}

/// Opens the device and builds the engine on it, under the fault that the script has for it just now. Called
/// on a thread of its own, again and again.
pub type Open = Box<dyn FnMut(&FieldPlan, Option<GpuFault>) -> Result<Box<dyn Remote>, Loss> + Send>;

/// The pause before the first retry; it doubles with each.
const FIRST_PAUSE: Span = Span::from_millis(500);
/// The longest: an attempt once a minute is no burden.
const LONGEST_PAUSE: Span = Span::from_millis(60_000);
/// A device that has computed for this long since it was opened has earned its short pauses back.
const FORGIVEN: Span = Span::from_millis(60_000);
/// Time between two saves of the last good state: what the field learned since is lost with the device.
const SAVE_EVERY: Span = Span::from_millis(1000);
/// How long the start waits for the device: a driver may have to compile the kernels first.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// The device's history, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Times it was lost.
    pub losses: u64,
    /// Times the CPU went on in its place.
    pub takeovers: u64,
    /// Times it was opened again, or tried to be.
    pub retries: u64,
}

/// A request to the opener.
struct Request {
    /// A lost engine, to drop there, where that may hang.
    lost: Option<Box<dyn Remote>>,
    fault: Option<GpuFault>,
}

/// The engine on the device while there is one, and all that it takes to do without it.
pub struct Failover {
    remote: Option<Box<dyn Remote>>,
    lost: Option<Box<dyn Remote>>,
    ask: Sender<Request>,
    answers: Receiver<Result<Box<dyn Remote>, Loss>>,
    /// Whether the opener has a request and has not answered.
    opening: bool,
    /// The last state that was good, and room for the next.
    good: Box<Live>,
    spare: Box<Live>,
    dt: Span,
    cycles_per_save: u64,
    cycles_since_save: u64,
    loss: Loss,
    attempt: u32,
    opened_at: Instant,
    retry_at: Instant,
    fault: Option<GpuFault>,
    counters: DeviceCounters,
}

impl Failover {
    /// Opens the device for the first time and waits for it. `here` is on standby: both begin with its state.
    pub fn new(
        plan: &FieldPlan,
        learned: Arc<Learned>,
        here: &mut Engine,
        open: Open,
    ) -> std::io::Result<Failover> {
        let (ask, asked) = bounded(1);
        let (answer, answers) = bounded(1);
        let plan_there = plan.clone();
        thread::Builder::new()
            .name("open device".into())
            .spawn(move || keep_opening(&plan_there, &learned, open, &asked, &answer))?;
        let mut good = Box::<Live>::default();
        here.save(&mut good);
        let mut failover = Failover {
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
            fault: None,
            counters: DeviceCounters::default(),
        };
        failover.spare.reserve(plan, here.kind() == "reference");
        let _ = failover.ask.send(Request { lost: None, fault: None });
        match failover.answers.recv_timeout(START_PATIENCE) {
            Ok(answer) => {
                failover.opening = false;
                failover.take(answer, here, Instant::ZERO);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => failover.attempt = 1,
        }
        Ok(failover)
    }

    /// The engine on the device, while there is one.
    pub fn name(&self) -> Option<String> {
        self.remote.as_ref().map(|remote| remote.name())
    }

    /// What people call the device, while there is one.
    pub fn device_name(&self) -> Option<String> {
        self.remote.as_ref().and_then(|remote| remote.device_name())
    }

    /// Whether the device computes.
    pub fn is_taken(&self) -> bool {
        self.remote.is_some()
    }

    /// Where the time of its last cycle went; `None` where it does not compute.
    pub fn times(&self) -> Option<DeviceTimes> {
        self.remote.as_ref().and_then(|remote| remote.device_times())
    }

    /// How it fares, where it does not compute.
    pub fn state(&self, now: Instant) -> Option<EngineState> {
        let left = if self.opening { Span::ZERO } else { self.retry_at.since(now) };
        let stand_in = EngineState::StandIn { loss: self.loss, attempt: self.attempt, left };
        (!self.is_taken()).then_some(stand_in)
    }

    /// Its history.
    pub fn counters(&self) -> DeviceCounters {
        self.counters
    }

    /// What the device is to do wrong from now on.
    pub fn inject(&mut self, fault: Option<GpuFault>) {
        if fault != self.fault {
            self.fault = fault;
            if let Some(remote) = &mut self.remote {
                remote.inject(fault);
            }
        }
    }

    /// One cycle, on the device or else `here`. Where the device is lost in it, `here` resumes from the last
    /// good state, with this very order if it is not older than a cycle.
    pub fn cycle(
        &mut self,
        here: &mut Engine,
        stimulus: &Stimulus,
        start: Instant,
        clock: &dyn Clock,
    ) -> Result<Response, Failure> {
        let Some(remote) = &mut self.remote else { return here.cycle(stimulus) };
        let answer = remote.cycle(stimulus);
        self.cycles_since_save += 1;
        match answer {
            Ok(_) | Err(Failure::Refused(_)) => answer,
            Err(failure) => {
                let loss = if let Failure::Lost(loss) = failure { loss } else { Loss::NotFinite };
                self.lose(here, loss, clock.now());
                // To take the state over may itself take a cycle's time, with a full bank.
                if clock.now().since(start) < self.dt { here.cycle(stimulus) } else { Err(loss.into()) }
            }
        }
    }

    /// Takes the device as lost; `here` resumes from the last good state.
    pub fn lose(&mut self, here: &mut Engine, loss: Loss, now: Instant) {
        self.counters.losses += 1;
        self.counters.takeovers += 1;
        if now.since(self.opened_at) > FORGIVEN {
            self.attempt = 0;
        }
        self.lost = self.remote.take();
        self.put_off(loss, now);
        if here.restore(&self.good).is_err() {
            here.rest(); // it is built alike, so it takes what was saved; and if not, the start is sound too
        }
    }

    fn put_off(&mut self, loss: Loss, now: Instant) {
        let pause = FIRST_PAUSE.times(1 << self.attempt.min(16)).min(LONGEST_PAUSE);
        self.attempt = self.attempt.saturating_add(1);
        (self.loss, self.retry_at) = (loss, now + pause);
    }

    /// The work between two cycles: saves the state of the device, opens a lost one again, gives one that was
    /// opened the state of `here`.
    pub fn tend(&mut self, here: &mut Engine, now: Instant) {
        if let Some(remote) = &mut self.remote {
            if self.cycles_since_save >= self.cycles_per_save && remote.save(&mut self.spare) {
                std::mem::swap(&mut self.good, &mut self.spare);
                self.cycles_since_save = 0;
            }
            return;
        }
        if self.opening {
            if let Ok(answer) = self.answers.try_recv() {
                self.opening = false;
                self.take(answer, here, now);
            }
        } else if now >= self.retry_at {
            self.counters.retries += 1;
            let request = Request { lost: self.lost.take(), fault: self.fault };
            self.opening = self.ask.try_send(request).is_ok();
            if !self.opening {
                self.put_off(Loss::Error { call: "opening" }, now); // the opener is gone
            }
        }
    }

    /// Gives the device the state of `here`, if it was opened and takes it.
    fn take(&mut self, opened: Result<Box<dyn Remote>, Loss>, here: &mut Engine, now: Instant) {
        let mut remote = match opened {
            Ok(remote) => remote,
            Err(loss) => return self.put_off(loss, now),
        };
        if !here.save(&mut self.spare) || remote.restore(&self.spare).is_err() {
            self.lost = Some(remote);
            return self.put_off(Loss::State, now);
        }
        std::mem::swap(&mut self.good, &mut self.spare);
        remote.inject(self.fault);
        (self.remote, self.cycles_since_save, self.opened_at) = (Some(remote), 0, now);
    }

    /// What the device holds. False: not now.
    pub fn save(&mut self, live: &mut Live) -> Option<bool> {
        self.remote.as_mut().map(|remote| remote.save(live))
    }
}

/// The opener's life: shuts down lost engines, opens requested ones. It ends with the brain, or hangs.
fn keep_opening(
    plan: &FieldPlan,
    learned: &Learned,
    mut open: Open,
    asked: &Receiver<Request>,
    answer: &Sender<Result<Box<dyn Remote>, Loss>>,
) {
    for request in asked {
        // A driver that panics here is one more way not to be opened; nothing of it is used afterwards.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            drop(request.lost);
            let mut remote = open(plan, request.fault)?;
            remote.load(learned).map_err(|_| Loss::State)?;
            Ok(remote)
        }));
        if answer.send(opened.unwrap_or(Err(Loss::Panicked))).is_err() {
            return;
        }
    }
}
