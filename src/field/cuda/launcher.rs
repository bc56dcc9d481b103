//! What the robots on a device share: its context, the kernels, the stream, and the graphs with which one
//! launch computes a cycle of several robots. A table on the device says which robots: block z works for the
//! robot in row z.

use super::brain::Brain;
use super::brains::RobotKey;
use super::launches::{AnswerTask, Cut, Kernels, Launches, Step};
use super::schedule::Schedule;
use super::tables::BRAIN;
use super::watch::{Marks, Waiting};
use crate::base::plan::FieldPlan;
use crate::base::time::Span;
use crate::field::StageTimes;
use crate::system::gpu::{
    Gpu, GpuError, GpuInfo, Graph, Image, Launch, Pinned, Pool, Priority, Stream, Watch, image_files,
};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Size in bytes of the pinned buffer for large copies between cycles, which are done in pieces: a field
/// needs a few pieces, and a piece takes less than a millisecond on the slowest supported bus.
const STAGING: usize = 4 << 20;

/// Maximum number of robots in one launch: they are the z dimension of every grid.
pub const MOST_ROBOTS: usize = 64;

/// A device, ready to launch cycles. Fields are dropped in order: the context's objects before the context.
pub struct Launcher {
    /// The graphs for one robot, for two, and so on.
    graphs: Vec<Graphs>,
    /// Graphs of the same launches for the maximum number of robots, with an event after each stage; captured
    /// whenever the timing of stages is switched on. `None`: it is off.
    watched: RefCell<Option<Graphs>>,
    table: LaunchTable,
    pub(super) marks: Marks,
    pub(super) main: Stream,
    pub(super) kernels: Kernels,
    image: Image,
    pub(super) staging: RefCell<Pinned>,
    /// How long the last cycle took on the device: the next one is expected to take as long.
    pub(super) usual: Cell<Span>,
    /// The largest number of sub-steps that a cycle can need.
    most_steps: u32,
    pub(super) waiting: Waiting,
    pub(super) gpu: Gpu,
}

impl Launcher {
    /// Opens the device `found` for up to `robots` robots with this plan, and captures all graphs.
    pub fn open(
        plan: &FieldPlan,
        robots: usize,
        found: &GpuInfo,
        watch: Arc<Watch>,
        waiting: Waiting,
    ) -> Result<Launcher, GpuError> {
        let gpu = Gpu::open(found, watch)?;
        let cut = Cut::of(plan.shape.grid, robots, found.multiprocessors);
        let image = Image::load(&gpu, &image_files())?;
        let mut launcher = Launcher {
            graphs: Vec::new(),
            watched: RefCell::new(None),
            table: LaunchTable::new(&gpu, robots)?,
            marks: Marks::new(&gpu)?,
            main: Stream::new(&gpu, Priority::High)?,
            kernels: Kernels::new(&image, plan, cut)?,
            image,
            staging: RefCell::new(Pinned::take(&gpu, STAGING)?),
            usual: Cell::new(Span::ZERO),
            most_steps: Schedule::most_sub_steps(plan),
            waiting,
            gpu,
        };
        launcher.graphs =
            (1..=robots).map(|robots| launcher.record(robots, false)).collect::<Result<_, _>>()?;
        Ok(launcher)
    }

    /// The image of the kernels.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Bytes on the device, and pinned bytes of the host.
    pub fn memory(&self) -> (usize, usize) {
        (self.table.pool.bytes(), self.staging.borrow().len())
    }

    /// Maximum number of robots in a launch.
    pub fn robots(&self) -> usize {
        self.graphs.len()
    }

    /// Every combination of launches that a cycle may need.
    pub fn all_launches(&self) -> impl Iterator<Item = Launches> {
        Launches::all(self.most_steps)
    }

    /// Marks the start of a cycle, if stages are timed.
    pub fn begin(&self) -> Result<(), GpuError> {
        if self.watched.borrow().is_some() { self.main.record(&self.marks.begin) } else { Ok(()) }
    }

    /// Launches a cycle of `brains`, which need the same launches. Makes one driver call, and another one for
    /// each row of the table that changes.
    pub fn replay<'a>(
        &self,
        launches: Launches,
        brains: impl ExactSizeIterator<Item = &'a Brain>,
    ) -> Result<(), GpuError> {
        let robots = brains.len();
        self.table.fill(&self.main, brains)?;
        let watched = self.watched.borrow();
        self.main.replay(watched.as_ref().unwrap_or(&self.graphs[robots - 1]).of(launches))
    }

    /// Launches a step for `brain` alone, and waits for its end.
    pub fn launch_alone(&self, brain: &Brain, step: Step) -> Result<(), GpuError> {
        self.table.fill(&self.main, std::iter::once(brain))?;
        self.launch(step, 1)?;
        self.settle()
    }

    /// Waits until the stream has finished all its work.
    pub(super) fn settle(&self) -> Result<(), GpuError> {
        self.main.record(&self.marks.settled)?;
        self.waiting.until(&self.marks.settled)
    }

    /// Launches a step for the first `robots` robots of the table.
    fn launch(&self, step: Step, robots: usize) -> Result<(), GpuError> {
        let (grid, words) = ([step.grid[0], step.grid[1], robots as u32], step.words);
        self.main.launch(&Launch {
            kernel: step.kernel,
            grid,
            block: step.block,
            table: self.table.address(),
            words,
        })
    }

    /// Captures a graph for each combination of launches that a cycle of `robots` robots may need.
    fn record(&self, robots: usize, watched: bool) -> Result<Graphs, GpuError> {
        let record = |on_half: bool, moves: bool| -> Result<Vec<Graph>, GpuError> {
            let graph = |steps: u32| {
                let launches = Launches { on_half, moves, steps };
                let on = |step: Step| self.launch(step, robots);
                self.main.capture(|| {
                    if watched { self.watched(launches, on) } else { self.unwatched(launches, on) }
                })
            };
            (1..=self.most_steps).map(graph).collect()
        };
        let both = |on_half: bool| Ok([record(on_half, false)?, record(on_half, true)?]);
        Ok(Graphs([both(false)?, both(true)?]))
    }

    /// The launches of a cycle, one after another: what can run in parallel shares a launch. The metrics come
    /// after the answer, which does not need them.
    fn unwatched(
        &self,
        launches: Launches,
        on: impl Fn(Step) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        on(self.kernels.sense())?;
        self.evolve(launches, &on)?;
        on(self.kernels.features(launches.on_half))?;
        on(self.kernels.scan())?;
        on(self.kernels.answer(&[AnswerTask::Bank, AnswerTask::Library, AnswerTask::Act]))?;
        on(self.kernels.deliver())?;
        on(self.kernels.metrics(false))
    }

    /// The move to another grid, if there is one, and the sub-steps.
    fn evolve(&self, launches: Launches, on: impl Fn(Step) -> Result<(), GpuError>) -> Result<(), GpuError> {
        if launches.moves {
            on(self.kernels.movement(launches.on_half))?;
        }
        (0..launches.steps).try_for_each(|step| on(self.kernels.evolve(launches.on_half, step)))
    }

    /// The launches of a cycle with an event after each stage, and one task of `answer` per launch. Learning
    /// is timed as part of the stages in which it runs, those of `sense` and `features`.
    fn watched(&self, launches: Launches, on: impl Fn(Step) -> Result<(), GpuError>) -> Result<(), GpuError> {
        let mark = |stage: usize| self.main.record(&self.marks.stages[stage]);
        on(self.kernels.sense())?;
        mark(0)?;
        self.evolve(launches, &on)?;
        mark(1)?;
        on(self.kernels.features(launches.on_half))?;
        mark(2)?;
        on(self.kernels.answer(&[AnswerTask::Library]))?;
        mark(3)?;
        on(self.kernels.scan())?;
        on(self.kernels.answer(&[AnswerTask::Bank]))?;
        mark(4)?;
        on(self.kernels.answer(&[AnswerTask::Act]))?;
        on(self.kernels.metrics(false))?;
        mark(5)?;
        on(self.kernels.deliver()) // last: once the host sees the answer, all events are reached
    }

    /// Switches the timing of stages on or off. Timed stages run one after another, which takes longer, and
    /// every launch must then be for all robots.
    pub fn watch_stages(&self, on: bool) -> Result<(), GpuError> {
        let graphs = if on { Some(self.record(self.robots(), true)?) } else { None };
        *self.watched.borrow_mut() = graphs;
        Ok(())
    }

    /// Time of each stage in the last cycle; `None` unless the timing of stages is on.
    pub fn stage_times(&self) -> Result<Option<StageTimes>, GpuError> {
        self.watched.borrow().as_ref().map(|_| self.marks.stage_times()).transpose()
    }
}

/// A graph for each combination, indexed by grid, by whether the field moves to it, and by the number of
/// sub-steps minus one.
struct Graphs([[Vec<Graph>; 2]; 2]);

impl Graphs {
    fn of(&self, launches: Launches) -> &Graph {
        &self.0[usize::from(launches.on_half)][usize::from(launches.moves)][launches.steps as usize - 1]
    }
}

/// The table of the robots of a launch: a copy of each one's own table.
struct LaunchTable {
    pool: Pool,
    /// The robot in each row.
    rows: RefCell<Vec<Option<RobotKey>>>,
}

impl LaunchTable {
    fn new(gpu: &Gpu, robots: usize) -> Result<LaunchTable, GpuError> {
        Ok(LaunchTable { pool: Pool::take(gpu, robots * BRAIN)?, rows: RefCell::new(vec![None; robots]) })
    }

    fn address(&self) -> u64 {
        self.pool.address()
    }

    /// Makes `brains` the robots of the first rows, for the work that follows on `stream`. Copies only the
    /// rows that change, within the device.
    fn fill<'a>(
        &self,
        stream: &Stream,
        brains: impl ExactSizeIterator<Item = &'a Brain>,
    ) -> Result<(), GpuError> {
        for (row, (held, brain)) in self.rows.borrow_mut().iter_mut().zip(brains).enumerate() {
            if *held != Some(brain.key) {
                let to = self.address() + (row * BRAIN) as u64;
                stream.copy_within(brain.address(brain.layout.table), to, BRAIN)?;
                *held = Some(brain.key);
            }
        }
        Ok(())
    }
}
