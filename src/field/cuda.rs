//! The CUDA engine: the maths of `docs/field.md` on a GPU, with the kernels in `kernels/`.
//!
//! This file is the engine's outer interface. A separate thread (`line`) talks to the device and owns the
//! `brains`: memory (`layout`, `start`), what is due (`schedule`), how it is launched (`launches`), access
//! between cycles (`between`), whole states (`state`). This module knows nothing of the CPU engine;
//! `failover` decides which engine takes over when a device is lost.

mod bank;
mod bank_copy;
mod between;
mod brains;
mod desk;
mod gauge;
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

pub use brains::MOST_ROBOTS;
pub use report::{DeviceFacts, DeviceTimes, KernelFacts, Unfit};
pub use watch::{AWAKE, NAP};

use super::sensor_ring::SensorRing;
use super::shape::{BANK_TOP, BLEND_TOP};
use super::{Failure, FieldInput, FieldOutput, Loss, StageTimes};
use crate::base::plan::FieldPlan;
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::system::gpu::{GpuInfo, Watch, probe};
use line::{CycleTask, Line, NoAnswer};
use start::Start;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tables::DeviceAnswer;
use watch::Times;

/// Timeout of a cycle in periods, unless [`LEAST_TIMEOUT`] is longer: after it the cycle has failed, and no
/// thread waits for its result any longer.
const TIMEOUT_CYCLES: u64 = 4;
/// Shortest timeout of a cycle: after an idle time, the device's clocks are low at first.
const LEAST_TIMEOUT: Span = Span::from_millis(100);

/// Timeout of an emulated device, per cell of the field: about four times as long as it needs.
const EMULATED_CELL: Span = Span::from_micros(2);
/// Shortest timeout of an emulated device: a busy machine may take that long to schedule its thread.
const LEAST_EMULATED: Span = Span::from_millis(1_000);

/// The engine: the brains of one or more robots on a GPU.
pub struct CudaEngine {
    plan: FieldPlan,
    robots: usize,
    found: GpuInfo,
    /// Allocated memory on the device, bytes: that of the start, and that of the library since then.
    device_bytes: usize,
    line: Line,
    start: Start,
    /// The buffers of a cycle, kept here between two cycles.
    cycle_task: Option<Box<CycleTask>>,
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
        if robots == 0 || robots > MOST_ROBOTS {
            return Err(Unfit::Robots { asked: robots });
        }
        let found = probe().map_err(Unfit::Absent)?;
        let line = Line::open(plan, robots, &found, watch, sensors).map_err(Unfit::Silent)?;
        let (device_bytes, _) = line.ask(|brains| Ok(brains.memory())).map_err(Unfit::Silent)?;
        Ok(CudaEngine {
            robots,
            device_bytes,
            line,
            start: Start::new(plan),
            cycle_task: Some(Box::new(CycleTask {
                inputs: vec![FieldInput::AT_REST; robots],
                answers: vec![DeviceAnswer::START; robots],
                timeout: Span::ZERO,
                result: Ok(Times::default()),
            })),
            timeout: timeout(plan, &found),
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
        })
    }

    /// One cycle of every robot of the batch, each with its own input; the first input determines the cycle
    /// number and quality level for all. If one input is refused, nothing changes for any robot.
    ///
    /// # Panics
    /// If the number of inputs differs from the number of robots.
    pub fn cycle_each(&mut self, inputs: &[FieldInput]) -> Result<(), Failure> {
        assert_eq!(inputs.len(), self.robots, "one input per robot");
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
        if let Some(loss) = self.lost.get() {
            return Err(Failure::Lost(loss));
        }
        let begun = MonotonicClock.now();
        let Some(mut task) = self.cycle_task.take() else { return Err(self.lose(Loss::Panicked)) };
        fill(&mut task.inputs);
        task.timeout = self.timeout;
        let task = self.line.run_cycle(task).map_err(|silence| self.silent(silence))?;
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

    fn lose(&self, loss: Loss) -> Failure {
        self.lost.set(Some(loss));
        Failure::Lost(loss)
    }

    /// Runs a request between two cycles; if the device is lost meanwhile, the next cycle reports it.
    fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut brains::Brains) -> Result<T, crate::system::gpu::GpuError> + Send + 'static,
    ) -> Option<T> {
        if self.lost.get().is_some() {
            return None;
        }
        self.line.ask(what).map_err(|silence| self.silent(silence)).ok()
    }

    /// Replaces the timeout of a cycle, which otherwise follows from the plan's period. Needed under a tool
    /// that checks every memory access of the device: a cycle then takes a hundred times as long.
    pub fn set_timeout(&mut self, timeout: Span) {
        self.timeout = timeout;
    }

    /// Returns a function that tells whether the device's thread has ended: only then can the device be
    /// opened again.
    pub fn ended(&self) -> impl Fn() -> bool + Send + 'static {
        let ended: Arc<AtomicBool> = self.line.ended();
        move || ended.load(Ordering::Acquire)
    }
}

/// The timeout of a cycle.
fn timeout(plan: &FieldPlan, found: &GpuInfo) -> Span {
    if is_emulated(found) {
        return EMULATED_CELL.times(plan.shape.volume() as u64).max(LEAST_EMULATED);
    }
    plan.dt.times(TIMEOUT_CYCLES).max(LEAST_TIMEOUT)
}

/// Whether `found` is the stand-in of `kernels/emulator`, an emulated GPU, whose timings are meaningless.
pub fn is_emulated(found: &GpuInfo) -> bool {
    found.name.contains("stand-in")
}
