//! The line to the device's own thread, the only one that talks to the driver. A caller waits for a bounded
//! time: a driver call that hangs blocks only the device's thread.
//!
//! An abandoned thread ends when its call returns; until then it keeps the device.

use super::brains::Brains;
use super::tables::DeviceAnswer;
use super::watch::{Times, Waiting};
use crate::base::plan::FieldPlan;
use crate::base::time::Span;
use crate::field::FieldInput;
use crate::field::sensor_ring::SensorRing;
use crate::system::gpu::{GpuError, GpuInfo, Watch};
use crate::system::rt::{stay_on, wake_on_time};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Timeout of opening: a driver that compiles the kernels on a small robot needs several seconds.
const OPENING: Span = Span::from_millis(60_000);
/// Timeout of a request between cycles: enough to copy a whole state of the largest field on the slowest bus.
const REQUEST: Span = Span::from_millis(10_000);

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
    /// An input for each robot.
    pub inputs: Vec<FieldInput>,
    /// An answer for each robot.
    pub answers: Vec<DeviceAnswer>,
    /// How long the caller waits.
    pub timeout: Span,
    /// The result: the times, or the failure.
    pub result: Result<Times, GpuError>,
}

type Request = Box<dyn FnOnce(&mut Brains) + Send>;

enum GpuTask {
    Cycle(Box<CycleTask>),
    Request(Request),
}

/// The caller's end of the line.
pub struct Line {
    /// `None`: closing.
    tasks: Option<Sender<GpuTask>>,
    cycles: Receiver<Box<CycleTask>>,
    watch: Arc<Watch>,
    abandoned: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    /// Whether the thread has answered in time every time so far.
    answers: Cell<bool>,
}

/// Sets a flag when it is dropped, also during a panic.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Line {
    /// Starts the thread, with the priority of the calling thread, and opens the device on it.
    pub fn open(
        plan: &FieldPlan,
        robots: usize,
        found: &GpuInfo,
        watch: Arc<Watch>,
        sensors: Option<&SensorRing>,
    ) -> Result<Line, NoAnswer> {
        let (tasks, taken) = bounded(1);
        let (done, cycles) = bounded(1);
        let (opened, opening) = bounded(1);
        let (abandoned, ended) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let line = Line {
            tasks: Some(tasks),
            cycles,
            watch: watch.clone(),
            abandoned: abandoned.clone(),
            ended: ended.clone(),
            answers: Cell::new(true),
        };
        let (plan, found, sensors) = (plan.clone(), found.clone(), sensors.cloned());
        let thread = std::thread::Builder::new().name("field-gpu".to_string()).spawn(move || {
            let _ended = Ended(ended);
            set_timer_and_core(&plan);
            match Brains::open(&plan, robots, &found, watch, Waiting::new(abandoned), sensors.as_ref()) {
                Ok(brains) => {
                    warm_up(&taken);
                    if opened.send(Ok(())).is_ok() {
                        serve(brains, &taken, &done);
                    }
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            }
        });
        thread.map_err(|_| NoAnswer::Gone)?;
        line.receive(&opening, OPENING)?.map_err(NoAnswer::Failed)?;
        warm_up(&line.cycles);
        Ok(line)
    }

    /// Runs one cycle within its timeout. After a timeout the line must not be used any more.
    pub fn run_cycle(&self, task: Box<CycleTask>) -> Result<Box<CycleTask>, NoAnswer> {
        let timeout = task.timeout;
        self.send(GpuTask::Cycle(task))?;
        self.receive(&self.cycles, timeout)
    }

    /// Runs a request between two cycles.
    pub fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Brains) -> Result<T, GpuError> + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let (answer, answered) = bounded(1);
        let request = move |brains: &mut Brains| {
            // The caller may have stopped waiting.
            let _ = answer.send(what(brains));
        };
        self.send(GpuTask::Request(Box::new(request)))?;
        self.receive(&answered, REQUEST)?.map_err(NoAnswer::Failed)
    }

    fn send(&self, task: GpuTask) -> Result<(), NoAnswer> {
        let tasks = self.tasks.as_ref().ok_or(NoAnswer::Gone)?;
        tasks.try_send(task).map_err(|_| NoAnswer::Gone)
    }

    fn receive<T>(&self, from: &Receiver<T>, timeout: Span) -> Result<T, NoAnswer> {
        let came = from.recv_timeout(Duration::from_nanos(timeout.as_nanos()));
        self.answers.set(self.answers.get() && came.is_ok());
        came.map_err(|error| match error {
            RecvTimeoutError::Timeout => NoAnswer::Late,
            RecvTimeoutError::Disconnected => NoAnswer::Gone,
        })
    }

    /// The watch of the driver calls: their counts, and the fault that is injected into them.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The flag that is set when the thread has ended; it outlives the line.
    pub fn ended(&self) -> Arc<AtomicBool> {
        self.ended.clone()
    }
}

impl Drop for Line {
    /// Lets the thread release the device; waits for that only if the thread has always answered in time.
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.tasks = None;
        let mut naps = if self.answers.get() { CLOSING_NAPS } else { 0 };
        while naps > 0 && !self.ended.load(Ordering::Acquire) {
            std::thread::sleep(NAP);
            naps -= 1;
        }
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

/// The thread's loop: performs tasks until the line is closed.
fn serve(mut brains: Brains, tasks: &Receiver<GpuTask>, done: &Sender<Box<CycleTask>>) {
    while let Ok(task) = tasks.recv() {
        match task {
            GpuTask::Cycle(mut cycle) => {
                cycle.result = brains.cycle(&cycle.inputs, &mut cycle.answers, cycle.timeout);
                if done.send(cycle).is_err() {
                    return;
                }
            }
            GpuTask::Request(request) => request(&mut brains),
        }
    }
}
