//! Runs a robot: on threads in real time, or stepped in virtual time. Both end the same way: a stop is
//! requested, the stop command goes out on the wire, the workers end, and only then are the figures taken. A
//! panic in one of its threads also ends a run: the motor worker stops the motors, and the run reports which
//! thread panicked.

use crate::base::plan::RtPlan;
use crate::base::time::{Clock, Instant, SimClock, Span};
use crate::drive::record::RecordSender;
use crate::drive::trace::Recorder;
use crate::memory::map::Feed;
use crate::runtime::requests::Requests;
use crate::runtime::robot::{Robot, WorkerThread};
use crate::runtime::tick::Tick;
use crate::system::executor::{END_PATIENCE, Ended, Rest, Stepper, Threads};
use crate::system::rt::{Granted, Refusal, Role, become_real_time};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Slots between the stop request and the end: enough to decide, write and confirm the stop, even if a poll
/// is already on the bus.
const STOP_SLOTS: u64 = 10;
/// Time from the start of the threads to the first slot, in which they request priorities and lock memory.
pub const START_UP: Span = Span::from_millis(50);
/// How often the calling, non-real-time thread drains the trace; the ring buffer holds four seconds at 1 kHz.
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// How a run ended.
pub struct Ending {
    /// The stopped tick, whose counters go into the run's figures.
    pub tick: Tick,
    /// The counts of the run.
    pub recorder: Recorder,
    /// What the system granted to each thread; empty in virtual time.
    pub granted: Vec<(&'static str, Granted)>,
    /// Workers that did not end when asked to.
    pub hung: Vec<&'static str>,
    /// Threads that panicked and so ended the run; the tick may be one of them.
    pub panicked: Vec<&'static str>,
    /// Whether the motors are known to have stopped.
    pub rest: Rest,
    /// From the first slot to the end of the last.
    pub elapsed: Span,
    /// Whether the slots that ran and were skipped add up to the time that passed on the clock.
    pub identity_holds: bool,
}

/// Runs `robot` in virtual time until `until` or until `interrupted`, as fast as the machine can. `watch` is
/// called after each slot. A panic in `watch`, in the tick or in a worker is resumed when the workers have
/// ended.
pub fn step(
    robot: Robot,
    clock: &Arc<SimClock>,
    until: Instant,
    interrupted: &AtomicBool,
    mut watch: impl FnMut(&Recorder),
) -> Ending {
    let Robot { mut tick, workers, mut records, requests, mut recording, mut feed, .. } = robot;
    let mut stepper = Stepper::new(clock.clone());
    for started in workers {
        stepper.add(started.worker, started.waker, Instant::ZERO);
    }
    let mut recorder = tick.recorder();
    let mut plan = StopPlan::new(until);
    // After a panic, the workers' state is used only for the last call to each worker.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        while plan.goes_on(tick.slot(), || interrupted.load(Ordering::Relaxed), &requests) {
            stepper.run_until(tick.slot());
            tick.run();
            drain(&mut records, &mut recorder, &mut recording, &mut feed);
            watch(&recorder);
        }
        let figures = (tick.grid.elapsed(), tick.grid.identity_holds(clock.now()));
        stepper.run_until(tick.slot());
        figures
    }));
    let Ended { hung, panicked, rest } = stepper.finish();
    let (elapsed, identity_holds) = ran.unwrap_or_else(|panic| resume_unwind(panic));
    Ending { tick, recorder, granted: Vec::new(), hung, panicked, rest, elapsed, identity_holds }
}

/// Why a run in real time could not begin; the motors have not moved.
#[derive(Debug)]
pub enum RunnerError {
    /// The system refused to start a thread.
    Thread(std::io::Error),
    /// The board is strict and the system refused a thread's request.
    Refused {
        /// Which thread.
        thread: &'static str,
        /// What was refused.
        refusal: Refusal,
    },
}

impl From<std::io::Error> for RunnerError {
    fn from(error: std::io::Error) -> RunnerError {
        RunnerError::Thread(error)
    }
}

impl std::fmt::Display for RunnerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunnerError::Thread(error) => write!(f, "cannot start a thread: {error}"),
            RunnerError::Refused { thread, refusal } => {
                write!(f, "the {thread} thread: {refusal}; the board is strict")
            }
        }
    }
}

impl std::error::Error for RunnerError {}

/// Runs `robot` on threads in real time until `until` or until `interrupted`. The calling thread is not a
/// real-time thread: it drains the trace and calls `watch`. However this function ends, even by a panic in
/// `watch`, it stops the motors and ends every thread, with a bounded wait for both.
pub fn run(
    robot: Robot,
    clock: &Arc<dyn Clock>,
    until: Instant,
    interrupted: &Arc<AtomicBool>,
    plan: RtPlan,
    mut watch: impl FnMut(&Recorder),
) -> Result<Ending, RunnerError> {
    let Robot { tick, workers, mut records, requests, loop_status, engine_refusals, .. } = robot;
    let (mut recording, mut feed) = (robot.recording, robot.feed);
    let mut recorder = tick.recorder();
    let mut threads = Threads::new();
    let watched = motors_bus(&workers);
    for (place, started) in workers.into_iter().enumerate() {
        let beat = if watched == Some(place) { loop_status.bus_beat() } else { Arc::default() };
        threads.start_watched(started.worker, started.waker, clock.clone(), started.role, plan, beat)?;
    }
    if let Some((_, granted)) = threads.granted.iter_mut().find(|(_, granted)| granted.role == Role::Field) {
        // Adds the engine's refusals to those of the field's own thread, as far as they fit.
        for refusal in engine_refusals {
            let _ = granted.refusals.push(refusal);
        }
    }
    if let Some(refused) = first_refusal(&threads.granted, &plan) {
        return Err(refused);
    }
    let ends = Ends { until, interrupted: interrupted.clone(), alarm: threads.alarm(), requests };
    let (answer, answered) = crossbeam_channel::bounded(1);
    let mut ticking = Ticking::start(ends, move |ends| {
        let granted = become_real_time(&plan, Role::Tick);
        let enough = granted.enough(&plan).is_ok();
        let _ = answer.send(granted);
        enough.then(|| tick_on(tick, ends))
    })?;
    if let Ok(granted) = answered.recv() {
        threads.granted.insert(0, ("tick", granted));
    }
    while !ticking.has_ended() {
        thread::sleep(DRAIN_EVERY);
        drain(&mut records, &mut recorder, &mut recording, &mut feed);
        watch(&recorder);
    }
    let joined = ticking.join();
    drain(&mut records, &mut recorder, &mut recording, &mut feed);
    let granted = std::mem::take(&mut threads.granted);
    let Ended { hung, mut panicked, rest } = threads.end(END_PATIENCE);
    let ticked = joined.unwrap_or_else(|panic| resume_unwind(panic));
    let ticked = match (ticked, first_refusal(&granted, &plan)) {
        (Some(ticked), None) => ticked,
        (_, Some(refused)) => return Err(refused),
        (None, None) => unreachable!("only a refusal keeps the tick from running"),
    };
    if ticked.panicked {
        panicked.insert(0, "tick");
    }
    let Ticked { tick, identity_holds, .. } = ticked;
    let elapsed = tick.grid.elapsed();
    Ok(Ending { tick, recorder, granted, hung, panicked, rest, elapsed, identity_holds })
}

/// The place of the worker of the motors' bus, which the service manager's watchdog watches; if no worker has
/// motors, as with a log, of the first bus worker. The threads that switch the motors' lines and those of
/// other buses have the same role, and may come first.
fn motors_bus(workers: &[WorkerThread]) -> Option<usize> {
    let motors = workers.iter().position(|started| started.worker.has_motors());
    motors.or_else(|| workers.iter().position(|started| started.role == Role::Bus))
}

fn first_refusal(granted: &[(&'static str, Granted)], plan: &RtPlan) -> Option<RunnerError> {
    granted.iter().find_map(|(thread, granted)| {
        granted.enough(plan).err().map(|refusal| RunnerError::Refused { thread, refusal })
    })
}

/// The conditions that end the tick thread.
struct Ends {
    until: Instant,
    /// Set by the caller.
    interrupted: Arc<AtomicBool>,
    /// Set by a worker that panicked, or by this module.
    alarm: Arc<AtomicBool>,
    requests: Arc<Requests>,
}

impl Ends {
    fn requested(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.alarm.load(Ordering::Acquire)
    }
}

/// What the tick's thread returns.
struct Ticked {
    tick: Tick,
    /// Whether the slots that ran and were skipped added up to the elapsed time at the last slot.
    identity_holds: bool,
    panicked: bool,
}

/// The tick's thread. If this is dropped without having been joined, because the waiting thread panicked, the
/// tick must end, and gets the usual time to write its stop command.
struct Ticking {
    alarm: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<Ticked>>>,
}

impl Ticking {
    fn start(
        ends: Ends,
        body: impl FnOnce(&Ends) -> Option<Ticked> + Send + 'static,
    ) -> std::io::Result<Ticking> {
        let alarm = ends.alarm.clone();
        let thread = thread::Builder::new().name("tick".into()).spawn(move || body(&ends))?;
        Ok(Ticking { alarm, thread: Some(thread) })
    }
    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
    fn join(&mut self) -> thread::Result<Option<Ticked>> {
        self.thread.take().map_or(Ok(None), JoinHandle::join)
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.alarm.store(true, Ordering::Release);
        let until = std::time::Instant::now() + END_PATIENCE;
        while !self.has_ended() && std::time::Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs the ticks until the end.
fn tick_on(mut tick: Tick, ends: &Ends) -> Ticked {
    let mut plan = StopPlan::new(ends.until);
    let mut identity_holds = true;
    // After a panic the tick does not run again; only its counters are read.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        while plan.goes_on(tick.slot(), || ends.requested(), &ends.requests) {
            tick.clock.sleep_until(tick.slot());
            tick.run();
            identity_holds = tick.grid.identity_holds(tick.clock.now());
        }
    }));
    Ticked { tick, identity_holds, panicked: ran.is_err() }
}

fn drain(
    records: &mut rtrb::Consumer<crate::drive::trace::Record>,
    recorder: &mut Recorder,
    recording: &mut Option<RecordSender>,
    feed: &mut Option<Feed>,
) {
    while let Ok(record) = records.pop() {
        recorder.absorb(&record);
        if let Some(recording) = recording {
            recording.take(&record);
        }
        if let Some(feed) = feed {
            feed.send(&record);
        }
    }
}

/// Decides when a run ends: [`STOP_SLOTS`] slots after a given time or a request, so that the stop command
/// still goes out.
struct StopPlan {
    until: Instant,
    slots_left: Option<u64>,
}

impl StopPlan {
    fn new(until: Instant) -> StopPlan {
        StopPlan { until, slots_left: None }
    }

    /// Whether the slot at `slot` must still run.
    fn goes_on(&mut self, slot: Instant, interrupted: impl FnOnce() -> bool, requests: &Requests) -> bool {
        match &mut self.slots_left {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None if slot >= self.until || interrupted() => {
                requests.stop.store(true, Ordering::Release);
                self.slots_left = Some(STOP_SLOTS);
            }
            None => {}
        }
        true
    }
}
