//! The CUDA engine: the maths of `docs/field.md` on a GPU, as `kernels/` computes it.
//!
//! This file is the engine as others see it. A thread of its own (`line`) talks to the device; the `brains`
//! live there: memory (`layout`, `start`), what is due (`schedule`), how it is launched (`launches`), access
//! between cycles (`between`), whole states (`state`). It knows no CPU engine; `failover` decides
//! which engine takes over when a device is lost.

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

use super::sensor_ring::SensorRing;
use super::shape::{BANK_TOP, BLEND_TOP};
use super::{Failure, FieldInput, FieldOutput, Loss, StageTimes};
use crate::base::plan::FieldPlan;
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::system::gpu::{GpuInfo, Watch, probe};
use line::{Line, NoAnswer, Turn};
use start::Start;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tables::Answer;
use watch::Times;

/// A cycle that takes this many periods has failed: no thread waits for its result any more.
const PATIENCE_CYCLES: u64 = 4;
/// No cycle is given up sooner: the first after a pause finds the device's clocks low.
const LEAST_PATIENCE: Span = Span::from_millis(100);

/// An emulated device gets this much for each cell, some four times what it needs; and never less than a
/// second, which is what a busy machine may take to run its thread at all.
const EMULATED_CELL: Span = Span::from_micros(2);
const LEAST_EMULATED: Span = Span::from_millis(1_000);

/// Brains on a GPU.
pub struct CudaEngine {
    plan: FieldPlan,
    robots: usize,
    found: GpuInfo,
    /// Taken on the device: at the start, and for the library since.
    device_bytes: usize,
    line: Line,
    start: Start,
    /// Where the memory of a turn rests between two cycles.
    turn: Option<Box<Turn>>,
    timeout: Span,
    /// Robot 0's last answer, and the parts that callers get by reference.
    answer: Answer,
    blend: (heapless::Vec<usize, BLEND_TOP>, heapless::Vec<f64, BLEND_TOP>),
    nearest: heapless::Vec<(usize, f64), BANK_TOP>,
    /// Values that patterns were stored with.
    values: Vec<Option<f32>>,
    times: Times,
    stages: StageTimes,
    watches_stages: bool,
    /// Order given -> result seen, in the last cycle.
    round: Span,
    lost: Cell<Option<Loss>>,
}

impl CudaEngine {
    /// An engine of `robots` robots at the start, on the GPU of this machine; takes all its memory here. Or
    /// why there is none.
    pub fn open(plan: &FieldPlan, robots: usize) -> Result<CudaEngine, Unfit> {
        CudaEngine::open_with(plan, robots, Arc::new(Watch::default()), None)
    }

    /// The same with a watch that others hold too: they can inject faults. Sensors of a stimulus that names a
    /// place in `sensors` are read there.
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
            turn: Some(Box::new(Turn {
                inputs: vec![FieldInput::AT_REST; robots],
                answers: vec![Answer::START; robots],
                timeout: Span::ZERO,
                outcome: Ok(Times::default()),
            })),
            timeout: timeout(plan, &found),
            answer: Answer::START,
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

    /// One cycle of every robot of the batch, each on its own stimulus; the first says number and rung for
    /// all. A refused stimulus changes nothing for any of them.
    ///
    /// # Panics
    /// If there are not as many stimuli as robots.
    pub fn cycle_each(&mut self, inputs: &[FieldInput]) -> Result<(), Failure> {
        assert_eq!(inputs.len(), self.robots, "a stimulus a robot");
        let sensors = self.plan.shape.sensors;
        inputs.iter().try_for_each(|input| input.check(sensors).map(drop))?;
        self.turn(|turn| turn.copy_from_slice(inputs))
    }

    /// What robot `robot` of the batch answered in the last cycle; `None`: there is no such robot, or no
    /// cycle yet.
    pub fn response_of(&self, robot: usize) -> Option<FieldOutput> {
        Some(self.turn.as_ref()?.answers.get(robot)?.response())
    }

    /// One cycle on the device's thread.
    fn turn(&mut self, fill: impl FnOnce(&mut [FieldInput])) -> Result<(), Failure> {
        if let Some(loss) = self.lost.get() {
            return Err(Failure::Lost(loss));
        }
        let begun = MonotonicClock.now();
        let Some(mut turn) = self.turn.take() else { return Err(self.lose(Loss::Panicked)) };
        fill(&mut turn.inputs);
        turn.timeout = self.timeout;
        let turn = self.line.turn(turn).map_err(|silence| self.silent(silence))?;
        let outcome = turn.outcome;
        self.answer = turn.answers[0];
        self.turn = Some(turn);
        self.times = outcome.map_err(|error| self.silent(NoAnswer::Failed(error)))?;
        self.round = MonotonicClock.now().since(begun);
        self.show();
        Ok(())
    }

    /// The parts of the answer that callers get by reference.
    fn show(&mut self) {
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

    /// Has something done between two cycles; a device that is lost shows in the next one.
    fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut brains::Brains) -> Result<T, crate::system::gpu::GpuError> + Send + 'static,
    ) -> Option<T> {
        if self.lost.get().is_some() {
            return None;
        }
        self.line.ask(what).map_err(|silence| self.silent(silence)).ok()
    }

    /// The longest wait for a cycle, where the plan's period does not decide it: under a tool that checks
    /// every access of the device, a cycle takes a hundred times as long.
    pub fn set_patience(&mut self, timeout: Span) {
        self.timeout = timeout;
    }

    /// Says whether the device's thread has ended: only then can the device be opened again.
    pub fn ended(&self) -> impl Fn() -> bool + Send + 'static {
        let ended: Arc<AtomicBool> = self.line.ended();
        move || ended.load(Ordering::Acquire)
    }
}

/// How long to wait for a cycle.
fn timeout(plan: &FieldPlan, found: &GpuInfo) -> Span {
    if is_emulated(found) {
        return EMULATED_CELL.times(plan.shape.volume() as u64).max(LEAST_EMULATED);
    }
    plan.dt.times(PATIENCE_CYCLES).max(LEAST_PATIENCE)
}

/// Whether it is the stand-in of `kernels/emulator`, an emulated GPU: its figures are meaningless.
pub fn is_emulated(found: &GpuInfo) -> bool {
    found.name.contains("stand-in")
}
