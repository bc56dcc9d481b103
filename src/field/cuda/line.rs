//! The line to the device's own thread, the only one that talks to the driver. Several engines may share it,
//! one for each robot. Cycles that arrive while the device computes wait, and then share a launch. A caller
//! waits for a bounded time: a driver call that hangs blocks only the device's thread.
//!
//! If one engine loses the device, all that share it have lost it: the thread ends as soon as its current
//! call returns. Until then it keeps the device.

use super::brains::{Brains, RobotKey};
use super::launcher::{Launcher, MOST_ROBOTS};
use super::tables::DeviceAnswer;
use super::watch::{Times, Waiting};
use crate::base::plan::FieldPlan;
use crate::base::time::Span;
use crate::field::sensor_ring::SensorRing;
use crate::field::{FieldInput, Loss};
use crate::system::gpu::{GpuError, GpuInfo, Watch};
use crate::system::rt::{stay_on, wake_on_time};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Timeout of opening: a driver that compiles the kernels on a small robot needs several seconds.
const OPENING: Span = Span::from_millis(60_000);
/// Timeout of a request between cycles: enough to copy a whole state of the largest field on the slowest bus.
const REQUEST: Span = Span::from_millis(10_000);

/// Tasks that can wait: as many cycles as one launch can hold, and as many requests.
const QUEUE: usize = 2 * MOST_ROBOTS;

/// Timeout of closing, in naps: freeing a few hundred megabytes takes a few milliseconds.
const CLOSING_NAPS: u32 = 2_000;
const NAP: Duration = Duration::from_millis(1);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoAnswer {
    /// A driver call failed.
    Failed(GpuError),
    /// The answer did not come in time.
    Late,
    /// The thread has ended, or cannot be started.
    Gone,
}

/// A cycle's inputs and results. The buffers go to the thread and come back, so that a cycle allocates
/// nothing.
pub struct CycleTask {
    /// The robots.
    pub robots: Vec<RobotKey>,
    /// An input for each robot.
    pub inputs: Vec<FieldInput>,
    /// An answer for each robot.
    pub answers: Vec<DeviceAnswer>,
    /// How long the caller waits.
    pub timeout: Span,
    /// The result: the times, or the failure.
    pub result: Result<Times, GpuError>,
    /// Takes the task back to its engine.
    done: Sender<Box<CycleTask>>,
}

impl CycleTask {
    /// A task for cycles of these robots, and where it comes back.
    pub fn new(robots: Vec<RobotKey>) -> (Box<CycleTask>, Receiver<Box<CycleTask>>) {
        let (done, cycles) = bounded(1);
        warm_up(&cycles);
        let (inputs, answers) =
            (vec![FieldInput::AT_REST; robots.len()], vec![DeviceAnswer::START; robots.len()]);
        let (timeout, result) = (Span::ZERO, Ok(Times::default()));
        (Box::new(CycleTask { robots, inputs, answers, timeout, result, done }), cycles)
    }
}

type Request = Box<dyn FnOnce(&mut Brains) + Send>;

enum GpuTask {
    Cycle(Box<CycleTask>),
    Request(Request),
    /// The device is lost.
    End,
}

/// The line. It is closed when its last user drops it.
pub struct Line {
    tasks: Sender<GpuTask>,
    watch: Arc<Watch>,
    loss: OnceLock<Loss>,
    abandoned: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    /// Whether the thread has answered in time every time so far.
    answers: AtomicBool,
}

/// Sets a flag when it is dropped, also during a panic.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Line {
    /// Starts the thread, with the priority of the calling thread, and opens the device on it, for launches
    /// of up to `robots` robots.
    pub fn open(
        plan: &FieldPlan,
        robots: usize,
        found: &GpuInfo,
        watch: Arc<Watch>,
    ) -> Result<Line, NoAnswer> {
        let (tasks, taken) = bounded(QUEUE);
        let (opened, opening) = bounded(1);
        let (abandoned, ended) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let line = Line {
            tasks,
            watch: watch.clone(),
            loss: OnceLock::new(),
            abandoned: abandoned.clone(),
            ended: ended.clone(),
            answers: AtomicBool::new(true),
        };
        let (plan, found) = (plan.clone(), found.clone());
        let thread = std::thread::Builder::new().name("field-gpu".to_string()).spawn(move || {
            let _ended = Ended(ended);
            set_timer_and_core(&plan);
            match Launcher::open(&plan, robots, &found, watch, Waiting::new(abandoned)) {
                Ok(launcher) => {
                    let brains = Brains::new(&plan, launcher);
                    warm_up(&taken);
                    if opened.send(Ok(())).is_ok() {
                        serve(brains, &taken);
                    }
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            }
        });
        thread.map_err(|_| NoAnswer::Gone)?;
        line.receive(&opening, OPENING)?.map_err(NoAnswer::Failed)?;
        Ok(line)
    }

    /// Adds a robot in its initial state; returns its key.
    pub fn join(&self, sensors: Option<&SensorRing>) -> Result<RobotKey, NoAnswer> {
        let sensors = sensors.cloned();
        // For the first robot, the driver loads the kernels.
        self.ask_within(OPENING, move |brains| brains.join(sensors.as_ref()))
    }

    /// Removes a robot; the thread frees its memory between two cycles, or with the lost device.
    pub fn leave(&self, robot: RobotKey) {
        if self.loss().is_none() {
            let request: Request = Box::new(move |brains| brains.leave(robot));
            let _ = self.send(GpuTask::Request(request), REQUEST);
        }
    }

    /// Runs one cycle within its timeout; `cycles` belongs to the task.
    pub fn run_cycle(
        &self,
        task: Box<CycleTask>,
        cycles: &Receiver<Box<CycleTask>>,
    ) -> Result<Box<CycleTask>, NoAnswer> {
        let timeout = task.timeout;
        self.send(GpuTask::Cycle(task), timeout)?;
        self.receive(cycles, timeout)
    }

    /// Runs a request between two cycles.
    pub fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Brains) -> Result<T, GpuError> + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.ask_within(REQUEST, what)
    }

    fn ask_within<T: Send + 'static>(
        &self,
        timeout: Span,
        what: impl FnOnce(&mut Brains) -> Result<T, GpuError> + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let (answer, answered) = bounded(1);
        let request = move |brains: &mut Brains| {
            // The caller may have stopped waiting.
            let _ = answer.send(what(brains));
        };
        self.send(GpuTask::Request(Box::new(request)), timeout)?;
        self.receive(&answered, timeout)?.map_err(NoAnswer::Failed)
    }

    fn send(&self, task: GpuTask, timeout: Span) -> Result<(), NoAnswer> {
        let sent = self.tasks.send_timeout(task, Duration::from_nanos(timeout.as_nanos()));
        self.in_time(sent.map_err(|error| if error.is_timeout() { NoAnswer::Late } else { NoAnswer::Gone }))
    }

    fn receive<T>(&self, from: &Receiver<T>, timeout: Span) -> Result<T, NoAnswer> {
        let came = from.recv_timeout(Duration::from_nanos(timeout.as_nanos()));
        self.in_time(came.map_err(|error| match error {
            RecvTimeoutError::Timeout => NoAnswer::Late,
            RecvTimeoutError::Disconnected => NoAnswer::Gone,
        }))
    }

    /// Notes if the thread did not answer in time.
    fn in_time<T>(&self, result: Result<T, NoAnswer>) -> Result<T, NoAnswer> {
        if result.is_err() {
            self.answers.store(false, Ordering::Relaxed);
        }
        result
    }

    /// Why the device is lost to all engines that share it; `None`: it is not.
    pub fn loss(&self) -> Option<Loss> {
        self.loss.get().copied()
    }

    /// Gives the device up; returns the reason that was given first.
    pub fn lose(&self, loss: Loss) -> Loss {
        let first = *self.loss.get_or_init(|| loss);
        self.abandoned.store(true, Ordering::Relaxed);
        let _ = self.tasks.try_send(GpuTask::End); // if the queue is full, the thread sees the flag
        first
    }

    /// The watch of the driver calls: their counts, and the fault that is injected into them.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Waits until the thread has released the device, for a bounded time, and only if the thread has always
    /// answered in time.
    pub fn wait_for_end(&self) {
        let mut naps = if self.answers.load(Ordering::Relaxed) { CLOSING_NAPS } else { 0 };
        while naps > 0 && !self.has_ended() {
            std::thread::sleep(NAP);
            naps -= 1;
        }
    }

    /// Whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
        let _ = self.tasks.try_send(GpuTask::End);
        self.wait_for_end();
    }
}

/// Sets the thread's timer and core: it wakes on time, on the core of the field's thread, which waits while
/// this one works.
fn set_timer_and_core(plan: &FieldPlan) {
    let placed = plan.cpus.first().map_or(Ok(()), |core| stay_on(*core));
    for refusal in [wake_on_time(), placed].into_iter().filter_map(Result::err) {
        log::warn!("the GPU's thread: {refusal}");
    }
}

/// A channel allocates when a thread first has to wait on it. Waiting once makes that happen now instead of
/// during a cycle.
fn warm_up<T>(channel: &Receiver<T>) {
    let _ = channel.recv_timeout(NAP);
}

/// The thread's loop: performs tasks until the line is closed or the device is lost. Cycles that wait at the
/// same time run together.
fn serve(mut brains: Brains, tasks: &Receiver<GpuTask>) {
    let mut cycles: Vec<Box<CycleTask>> = Vec::with_capacity(MOST_ROBOTS);
    let mut next = None;
    while let Some(task) = next.take().or_else(|| tasks.recv().ok())
        && !brains.are_abandoned()
    {
        match task {
            GpuTask::Cycle(cycle) => {
                let mut room = brains.most().saturating_sub(cycle.robots.len());
                cycles.push(cycle);
                while let Ok(more) = tasks.try_recv() {
                    match more {
                        GpuTask::Cycle(cycle) if cycle.robots.len() <= room => {
                            room -= cycle.robots.len();
                            cycles.push(cycle);
                        }
                        other => {
                            next = Some(other);
                            break;
                        }
                    }
                }
                brains.cycle(&mut cycles);
                for cycle in cycles.drain(..) {
                    let done = cycle.done.clone();
                    let _ = done.send(cycle); // its engine may be gone
                }
            }
            GpuTask::Request(request) => request(&mut brains),
            GpuTask::End => return,
        }
    }
}
