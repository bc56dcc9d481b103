//! The line to the device's own thread, the only one that talks to the driver. A caller waits for a
//! bounded time: a driver call that hangs costs that thread, not the caller.
//!
//! An abandoned thread ends by itself when its call returns; until then it holds the device.

use super::brains::Brains;
use super::tables::Answer;
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

/// How long opening may take: a driver that compiles the kernels on a small robot needs some seconds.
const OPENING: Span = Span::from_millis(60_000);
/// How long a request between cycles may take: a whole state of the largest field on the slowest bus.
const REQUEST: Span = Span::from_millis(10_000);

/// How long closing may take, in naps: giving back a few hundred megabytes takes some milliseconds.
const CLOSING_NAPS: u32 = 2_000;
const NAP: Duration = Duration::from_millis(1);

/// Why nothing came back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoAnswer {
    /// The driver refused a call.
    Failed(GpuError),
    /// It took too long.
    Late,
    /// The thread has ended, or cannot be started.
    Gone,
}

/// A cycle's way there and back. Its memory goes round, so that a cycle allocates nothing.
pub struct Turn {
    /// A stimulus a robot.
    pub inputs: Vec<FieldInput>,
    /// An answer a robot.
    pub answers: Vec<Answer>,
    /// How long the caller waits.
    pub timeout: Span,
    /// How it went.
    pub outcome: Result<Times, GpuError>,
}

type Request = Box<dyn FnOnce(&mut Brains) + Send>;

enum GpuTask {
    Turn(Box<Turn>),
    Request(Request),
}

/// This end.
pub struct Line {
    /// `None`: no further orders.
    orders: Option<Sender<GpuTask>>,
    turns: Receiver<Box<Turn>>,
    watch: Arc<Watch>,
    abandoned: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    /// Whether the thread came back every time that a caller waited for it.
    answers: Cell<bool>,
}

/// Sets a flag when it is dropped, however that comes about.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Line {
    /// Starts the thread, which takes the priority of the calling one, and opens the device there.
    pub fn open(
        plan: &FieldPlan,
        robots: usize,
        found: &GpuInfo,
        watch: Arc<Watch>,
        sensors: Option<&SensorRing>,
    ) -> Result<Line, NoAnswer> {
        let (orders, taken) = bounded(1);
        let (done, turns) = bounded(1);
        let (opened, opening) = bounded(1);
        let (abandoned, ended) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let line = Line {
            orders: Some(orders),
            turns,
            watch: watch.clone(),
            abandoned: abandoned.clone(),
            ended: ended.clone(),
            answers: Cell::new(true),
        };
        let (plan, found, sensors) = (plan.clone(), found.clone(), sensors.cloned());
        let thread = std::thread::Builder::new().name("field-gpu".to_string()).spawn(move || {
            let _ended = Ended(ended);
            keep_time(&plan);
            match Brains::open(&plan, robots, &found, watch, Waiting::new(abandoned), sensors.as_ref()) {
                Ok(brains) => {
                    wait_in_vain(&taken);
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
        wait_in_vain(&line.turns);
        Ok(line)
    }

    /// One cycle, within its patience. A line that was silent once is of no further use.
    pub fn turn(&self, turn: Box<Turn>) -> Result<Box<Turn>, NoAnswer> {
        let timeout = turn.timeout;
        self.send(GpuTask::Turn(turn))?;
        self.receive(&self.turns, timeout)
    }

    /// Has something done between two cycles.
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

    fn send(&self, order: GpuTask) -> Result<(), NoAnswer> {
        let orders = self.orders.as_ref().ok_or(NoAnswer::Gone)?;
        orders.try_send(order).map_err(|_| NoAnswer::Gone)
    }

    fn receive<T>(&self, from: &Receiver<T>, timeout: Span) -> Result<T, NoAnswer> {
        let came = from.recv_timeout(Duration::from_nanos(timeout.as_nanos()));
        self.answers.set(self.answers.get() && came.is_ok());
        came.map_err(|error| match error {
            RecvTimeoutError::Timeout => NoAnswer::Late,
            RecvTimeoutError::Disconnected => NoAnswer::Gone,
        })
    }

    /// Calls of the driver, and the fault that is injected into them.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Whether the thread has ended; outlives the line.
    pub fn ended(&self) -> Arc<AtomicBool> {
        self.ended.clone()
    }
}

impl Drop for Line {
    /// Lets the thread give the device back, and waits for that, if it has always come back before.
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.orders = None;
        let mut naps = if self.answers.get() { CLOSING_NAPS } else { 0 };
        while naps > 0 && !self.ended.load(Ordering::Acquire) {
            std::thread::sleep(NAP);
            naps -= 1;
        }
    }
}

/// The thread wakes on time, on the core of the field's thread, which waits while this one works.
fn keep_time(plan: &FieldPlan) {
    let placed = plan.cpus.first().map_or(Ok(()), |core| stay_on(*core));
    for refusal in [wake_on_time(), placed].into_iter().filter_map(Result::err) {
        log::warn!("the GPU's thread: {refusal}");
    }
}

/// A channel allocates for its waiting threads when one first has to wait: here, and not in a cycle.
fn wait_in_vain<T>(channel: &Receiver<T>) {
    let _ = channel.recv_timeout(NAP);
}

/// The thread's life: orders until there are no more.
fn serve(mut brains: Brains, orders: &Receiver<GpuTask>, done: &Sender<Box<Turn>>) {
    while let Ok(order) = orders.recv() {
        match order {
            GpuTask::Turn(mut turn) => {
                turn.outcome = brains.cycle(&turn.inputs, &mut turn.answers, turn.timeout);
                if done.send(turn).is_err() {
                    return;
                }
            }
            GpuTask::Request(request) => request(&mut brains),
        }
    }
}
