//! The CUDA engine: the maths of `docs/field.md` on a GPU, with the kernels in `kernels/`.
//!
//! This file is the engine's outer interface. A separate thread (`line`) talks to the device and owns the
//! `brains`. They share the device (`launcher`, `launches`); each robot has its own `brain`: memory
//! (`layout`, `start`), what is due (`schedule`), access between cycles (`between`), whole states (`state`).
//! The engines of several robots may share one line. This module knows nothing of the CPU engine; `failover`
//! decides which engine takes over when a device is lost.

mod bank;
mod bank_copy;
mod between;
mod brain;
mod brains;
mod desk;
mod gauge;
mod launcher;
mod launches;
mod layout;
mod library;
mod line;
mod report;
mod save;
mod schedule;
mod start;
mod state;
mod tables;
mod verbs;
mod watch;

#[cfg(test)]
mod fixture;

pub use launcher::MOST_ROBOTS;
pub use report::{DeviceFacts, DeviceTimes, KernelFacts, Unfit};
pub use watch::{AWAKE, NAP};

use super::sensor_ring::SensorRing;
use super::shape::{BANK_TOP, BLEND_TOP};
use super::{Failure, FieldInput, FieldOutput, Loss, StageTimes};
use crate::base::plan::FieldPlan;
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::system::gpu::{GpuError, GpuInfo, Watch, probe};
use brain::Brain;
use brains::{Brains, RobotKey};
use crossbeam_channel::Receiver;
use line::{CycleTask, Line, NoAnswer};
use start::Start;
use std::cell::Cell;
use std::sync::Arc;
use tables::DeviceAnswer;
use watch::Times;

/// Timeout of a cycle in periods, unless [`LEAST_TIMEOUT`] is longer: after it the cycle has failed, and no
/// thread waits for its result any longer.
const TIMEOUT_CYCLES: u64 = 4;
/// Shortest timeout of a cycle: after an idle time, the device's clocks are low at first.
const LEAST_TIMEOUT: Span = Span::from_millis(100);

/// Timeout of an emulated device, per cell of each field: about four times as long as it needs.
const EMULATED_CELL: Span = Span::from_micros(2);
/// Shortest timeout of an emulated device: a busy machine may take that long to schedule its thread.
const LEAST_EMULATED: Span = Span::from_millis(1_000);

/// The engine: the brains of one or more robots on a GPU, which may also compute those of other engines.
pub struct CudaEngine {
    plan: FieldPlan,
    /// Its robots on the line: one, or a batch.
    robots: Vec<RobotKey>,
    found: GpuInfo,
    /// Memory of its robots on the device, bytes: that of the start, and that of the library since then.
    device_bytes: usize,
    line: Arc<Line>,
    start: Start,
    /// The buffers of a cycle, kept here between two cycles.
    cycle_task: Option<Box<CycleTask>>,
    /// Where they come back.
    cycles: Receiver<Box<CycleTask>>,
    timeout: Span,
    /// Robot 0's last answer, and the parts that callers get by reference.
    answer: DeviceAnswer,
    blend: (heapless::Vec<usize, BLEND_TOP>, heapless::Vec<f64, BLEND_TOP>),
    nearest: heapless::Vec<(usize, f64), BANK_TOP>,
    /// The values of the stored patterns.
    values: Vec<Option<f32>>,
    times: Times,
    stages: StageTimes,
    watches_stages: bool,
    /// Time from the request to the result, in the last cycle.
    round: Span,
    /// What this engine has lost, although the line may still work for others.
    lost: Cell<Option<Loss>>,
}

impl CudaEngine {
    /// An engine for `robots` robots in its initial state, on this machine's GPU; allocates all its memory
    /// here, except that of the library. If that is not possible, returns why.
    pub fn open(plan: &FieldPlan, robots: usize) -> Result<CudaEngine, Unfit> {
        CudaEngine::open_with(plan, robots, Arc::new(Watch::default()), None)
    }

    /// Opens an engine with a shared watch, through which others can inject faults. If an input names a place
    /// in `sensors`, the device reads the input's sensors from there.
    pub fn open_with(
        plan: &FieldPlan,
        robots: usize,
        watch: Arc<Watch>,
        sensors: Option<&SensorRing>,
    ) -> Result<CudaEngine, Unfit> {
        let device = SharedDevice::open(plan, robots, watch)?;
        CudaEngine::join_as(plan, &device, robots, sensors)
    }

    /// The engine of a further robot on an open device, which was opened for the same plan.
    pub fn join(
        plan: &FieldPlan,
        device: &SharedDevice,
        sensors: Option<&SensorRing>,
    ) -> Result<CudaEngine, Unfit> {
        CudaEngine::join_as(plan, device, 1, sensors)
    }

    fn join_as(
        plan: &FieldPlan,
        device: &SharedDevice,
        robots: usize,
        sensors: Option<&SensorRing>,
    ) -> Result<CudaEngine, Unfit> {
        let (line, found) = (device.line.clone(), device.found.clone());
        let robots = (0..robots).map(|_| line.join(sensors)).collect::<Result<Vec<_>, _>>();
        let robots = robots.map_err(Unfit::Silent)?;
        let (cycle_task, cycles) = CycleTask::new(robots.clone());
        let mut engine = CudaEngine {
            robots,
            device_bytes: 0,
            line,
            start: Start::new(plan),
            cycle_task: Some(cycle_task),
            cycles,
            timeout: timeout(plan, device),
            answer: DeviceAnswer::START,
            blend: Default::default(),
            nearest: heapless::Vec::new(),
            values: vec![None; plan.shape.patterns],
            times: Times::default(),
            stages: StageTimes::default(),
            watches_stages: false,
            round: Span::ZERO,
            lost: Cell::new(None),
            plan: plan.clone(),
            found,
        };
        engine.note_memory(engine.each(|brain| Ok(brain.memory().0)));
        Ok(engine)
    }

    /// One cycle of every robot of the batch, each with its own input. If one input is refused, nothing
    /// changes for any robot.
    ///
    /// # Panics
    /// If the number of inputs differs from the number of robots.
    pub fn cycle_each(&mut self, inputs: &[FieldInput]) -> Result<(), Failure> {
        assert_eq!(inputs.len(), self.robots.len(), "one input per robot");
        let sensors = self.plan.shape.sensors;
        inputs.iter().try_for_each(|input| input.check(sensors).map(drop))?;
        self.run_cycle(|buffer| buffer.copy_from_slice(inputs))
    }

    /// The answer of robot `robot` of the batch in the last cycle; before the first cycle, the initial
    /// answer. `None`: there is no such robot, or the device's thread did not return the last cycle.
    pub fn response_of(&self, robot: usize) -> Option<FieldOutput> {
        Some(self.cycle_task.as_ref()?.answers.get(robot)?.response())
    }

    /// One cycle on the device's thread.
    fn run_cycle(&mut self, fill: impl FnOnce(&mut [FieldInput])) -> Result<(), Failure> {
        if let Some(loss) = self.loss() {
            return Err(Failure::Lost(loss));
        }
        let begun = MonotonicClock.now();
        let Some(mut task) = self.cycle_task.take() else { return Err(self.lose(Loss::Panicked)) };
        fill(&mut task.inputs);
        task.timeout = self.timeout;
        let task = self.line.run_cycle(task, &self.cycles).map_err(|silence| self.silent(silence))?;
        let result = task.result;
        self.answer = task.answers[0];
        self.cycle_task = Some(task);
        self.times = result.map_err(|error| self.silent(NoAnswer::Failed(error)))?;
        self.round = MonotonicClock.now().since(begun);
        self.update_answer();
        Ok(())
    }

    /// Updates the parts of the answer that callers get by reference.
    fn update_answer(&mut self) {
        let answer = &self.answer;
        let blended = answer.blended as usize;
        self.blend.0.clear();
        self.blend.1.clear();
        self.blend.0.extend(answer.slot.iter().take(blended).map(|slot| *slot as usize));
        self.blend.1.extend(answer.weight.iter().take(blended).copied());
        self.nearest.clear();
        let found = answer.row.iter().zip(answer.cosine).take(answer.nearest as usize);
        self.nearest.extend(found.map(|(row, cosine)| (*row as usize, cosine)));
    }

    fn silent(&self, silence: NoAnswer) -> Failure {
        self.lose(report::loss(silence, self.line.watch().under_way()))
    }

    /// Lack of memory affects only this engine; anything else is a loss for all engines on the device.
    fn lose(&self, loss: Loss) -> Failure {
        let loss = if matches!(loss, Loss::Memory { .. }) { loss } else { self.line.lose(loss) };
        self.lost.set(Some(loss));
        Failure::Lost(loss)
    }

    fn loss(&self) -> Option<Loss> {
        self.lost.get().or_else(|| self.line.loss())
    }

    /// Runs a request between two cycles; if the device is lost meanwhile, the next cycle reports it.
    fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Brains) -> Result<T, GpuError> + Send + 'static,
    ) -> Option<T> {
        if self.loss().is_some() {
            return None;
        }
        self.line.ask(what).map_err(|silence| self.silent(silence)).ok()
    }

    /// Reads from the first robot, or does what only the first one needs.
    fn read<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Brain) -> Result<T, GpuError> + Send + 'static,
    ) -> Option<T> {
        let first = self.robots[0];
        self.ask(move |brains| what(brains.robot(first)?))
    }

    /// Does the same for each robot; returns the result of the last one.
    fn each<T: Send + 'static>(
        &self,
        mut act: impl FnMut(&mut Brain) -> Result<T, GpuError> + Send + 'static,
    ) -> Option<T> {
        let robots = self.robots.clone();
        self.ask(move |brains| {
            robots.into_iter().try_fold(None, |_, robot| act(brains.robot(robot)?).map(Some))
        })?
    }

    /// Replaces the timeout of a cycle, which otherwise follows from the plan's period. Needed under a tool
    /// that checks every memory access of the device: a cycle then takes a hundred times as long.
    pub fn set_timeout(&mut self, timeout: Span) {
        self.timeout = timeout;
    }
}

impl Drop for CudaEngine {
    fn drop(&mut self) {
        self.robots.iter().for_each(|robot| self.line.leave(*robot));
    }
}

/// An open device, to which the robots of several engines may join.
#[derive(Clone)]
pub struct SharedDevice {
    line: Arc<Line>,
    found: GpuInfo,
    /// Maximum number of robots in a launch.
    robots: usize,
}

impl SharedDevice {
    /// Opens this machine's GPU for robots with this plan, up to `robots` in one launch. If that is not
    /// possible, returns why.
    pub fn open(plan: &FieldPlan, robots: usize, watch: Arc<Watch>) -> Result<SharedDevice, Unfit> {
        if robots == 0 || robots > MOST_ROBOTS {
            return Err(Unfit::Robots { asked: robots });
        }
        let found = probe().map_err(Unfit::Absent)?;
        let line = Line::open(plan, robots, &found, watch).map_err(Unfit::Silent)?;
        Ok(SharedDevice { line: Arc::new(line), found, robots })
    }

    /// Whether the device is lost, for all engines on it.
    pub fn is_lost(&self) -> bool {
        self.line.loss().is_some()
    }

    /// After a loss: whether the device's thread has ended, for which this waits a little. Only then can the
    /// device be opened again.
    pub fn has_ended(&self) -> bool {
        self.line.wait_for_end();
        self.line.has_ended()
    }
}

/// The timeout of a cycle.
fn timeout(plan: &FieldPlan, device: &SharedDevice) -> Span {
    if is_emulated(&device.found) {
        // The emulator computes the robots of a launch one after the other.
        let cells = (plan.shape.volume() * device.robots) as u64;
        return EMULATED_CELL.times(cells).max(LEAST_EMULATED);
    }
    plan.dt.times(TIMEOUT_CYCLES).max(LEAST_TIMEOUT)
}

/// Whether `found` is the stand-in of `kernels/emulator`, an emulated GPU, whose timings are meaningless.
pub fn is_emulated(found: &GpuInfo) -> bool {
    found.name.contains("stand-in")
}
