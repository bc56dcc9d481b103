//! The robots' brains on one device: memory, streams and graphs, and one cycle of all of them. Runs on the
//! device's own thread (`line`); `between` reads and writes between cycles, `state` and `save` copy whole
//! states.

use super::bank_copy::BankCopy;
use super::desk::Desk;
use super::launches::{AnswerTask, Cut, Kernels, Step};
use super::layout::{BufferRange, Layout};
use super::library::Library;
use super::save::Drain;
use super::schedule::Schedule;
use super::start::Start;
use super::tables::{Cycle, DeviceAnswer};
use super::watch::{Marks, Times, Waiting};
use crate::base::plan::FieldPlan;
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::field::sensor_ring::SensorRing;
use crate::field::shape::{DESCRIPTOR, GROUPS};
use crate::field::{FieldInput, StageTimes};
use crate::system::gpu::{
    Gpu, GpuError, GpuInfo, Graph, Image, Launch, Pinned, Pool, Priority, Stream, Watch, image_files,
};
use std::sync::Arc;

/// Size in bytes of the pinned buffer for large copies between cycles, which are done in pieces: a field
/// needs a few pieces, and a piece takes less than a millisecond on the slowest supported bus.
const STAGING: usize = 4 << 20;

/// Timeout of the first cycle: some devices load the kernels during it.
const FIRST: Span = Span::from_millis(4_000);

/// Maximum number of robots in one launch: they are the z dimension of every grid.
pub const MOST_ROBOTS: usize = 64;

/// Brains on a device. Fields are dropped in order: the context's objects before the context.
pub struct Brains {
    graphs: Graphs,
    /// Graphs of the same launches with an event after each stage; captured whenever the timing of stages is
    /// switched on. `None`: it is off.
    watched: Option<Graphs>,
    pub(super) marks: Marks,
    pub(super) main: Stream,
    pub(super) kernels: Kernels,
    image: Image,
    pub(super) staging: Pinned,
    pub(super) drain: Drain,
    pub(super) pool: Pool,
    pub(super) library: Library,
    pub(super) desk: Desk,
    pub(super) bank_copy: BankCopy,
    /// How long the last cycle took on the device: the next one is expected to take as long.
    usual: Span,
    pub(super) layout: Layout,
    pub(super) start: Start,
    pub(super) schedule: Schedule,
    pub(super) plan: FieldPlan,
    pub(super) waiting: Waiting,
    pub(super) gpu: Gpu,
}

impl Brains {
    /// Brains of `robots` robots in their initial state, on the device `found`. Allocates all memory of host
    /// and device here, except that of the library, and runs every kernel of a cycle, so that nothing is
    /// loaded or initialised during a later cycle.
    pub fn open(
        plan: &FieldPlan,
        robots: usize,
        found: &GpuInfo,
        watch: Arc<Watch>,
        waiting: Waiting,
        sensors: Option<&SensorRing>,
    ) -> Result<Brains, GpuError> {
        let gpu = Gpu::open(found, watch)?;
        let cut = Cut::of(plan.shape.grid, robots, found.multiprocessors);
        let image = Image::load(&gpu, &image_files())?;
        let kernels = Kernels::new(&image, plan, cut)?;
        let start = Start::new(plan);
        let layout = Layout::new(plan, start.connections(), robots, cut.scan_blocks);
        let mut brains = Brains {
            graphs: Graphs::default(),
            watched: None,
            marks: Marks::new(&gpu)?,
            main: Stream::new(&gpu, Priority::High)?,
            kernels,
            image,
            staging: Pinned::take(&gpu, STAGING)?,
            drain: Drain::new(&gpu, layout.saved.bytes)?,
            pool: Pool::take(&gpu, layout.bytes)?,
            library: Library::new(plan),
            desk: Desk::new(&gpu, robots, sensors)?,
            bank_copy: BankCopy::new(plan.shape.bank),
            usual: Span::ZERO,
            layout,
            start,
            schedule: Schedule::new(plan),
            plan: plan.clone(),
            waiting,
            gpu,
        };
        brains.write_start()?;
        brains.graphs = brains.record_graphs(false)?;
        brains.rehearse()?;
        Ok(brains)
    }

    /// Number of robots.
    pub fn robots(&self) -> usize {
        self.layout.robots.len()
    }

    /// The image of the kernels.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Bytes on the device, and pinned bytes of the host.
    pub fn memory(&self) -> (usize, usize) {
        let device = self.pool.bytes() + self.library.bytes();
        (device, self.staging.len() + self.drain.bytes() + self.desk.bytes())
    }

    /// The address of a buffer.
    pub(super) fn address(&self, place: BufferRange) -> u64 {
        self.pool.address() + place.at as u64
    }

    /// One cycle of all robots, with an input and an answer for each. The first input determines the cycle
    /// number and quality level for all. Makes one driver call, unless the answer is late or stages are
    /// timed. `timeout` is how long the caller waits.
    pub fn cycle(
        &mut self,
        inputs: &[FieldInput],
        answers: &mut [DeviceAnswer],
        timeout: Span,
    ) -> Result<Times, GpuError> {
        let Some(first) = inputs.first() else { return Ok(Times::default()) };
        let clock = MonotonicClock;
        let begun = clock.now();
        let was_on_half = self.schedule.state().on_half;
        let orders = self.schedule.schedule(first);
        let launches = Launches {
            on_half: orders.on_half,
            moves: was_on_half != orders.on_half,
            steps: orders.count.into_iter().max().unwrap_or(1).max(1),
        };
        self.desk.lay(orders, inputs);
        if self.watched.is_some() {
            self.main.record(&self.marks.begin)?;
        }
        self.main.replay(self.watched.as_ref().unwrap_or(&self.graphs).of(launches))?;
        let submitted = clock.now();
        self.waiting.until_reported(&self.desk, &self.main, self.usual.min(timeout), timeout)?;
        let seen = clock.now();
        let mut lasted = Span::ZERO;
        for (robot, answer) in answers.iter_mut().enumerate() {
            let report = self.desk.report(robot);
            *answer = report.answer;
            lasted = lasted.max(report.lasted);
        }
        self.follow_bank();
        self.schedule.settle();
        let kernels = self.gpu.as_reported(lasted);
        // Measured on the device's clock, so it does not depend on when this thread polled.
        self.usual = kernels;
        Ok(Times { submit: submitted.since(begun), kernels, whole: seen.since(begun) })
    }

    /// Brings the host's copy of robot 0's bank up to date after a cycle.
    fn follow_bank(&mut self) {
        let mut exact = [0.0; DESCRIPTOR];
        if let Some(touched) = self.desk.touched(0, &mut exact) {
            self.bank_copy.touch(&touched, &exact);
        }
    }

    /// Launches a step for all robots.
    pub(super) fn launch(&self, step: Step) -> Result<(), GpuError> {
        let (grid, words) = ([step.grid[0], step.grid[1], self.robots() as u32], step.words);
        self.main.launch(&Launch {
            kernel: step.kernel,
            grid,
            block: step.block,
            table: self.brains(),
            words,
        })
    }

    /// Address of the table of brains.
    fn brains(&self) -> u64 {
        self.address(self.layout.shared.brains)
    }

    /// Captures a graph for each combination of launches that a cycle may need.
    fn record_graphs(&self, watched: bool) -> Result<Graphs, GpuError> {
        let most = Schedule::most_sub_steps(&self.plan);
        let record = |on_half: bool, moves: bool| -> Result<Vec<Graph>, GpuError> {
            let graph = |steps: u32| {
                let launches = Launches { on_half, moves, steps };
                self.main.capture(|| if watched { self.watched(launches) } else { self.unwatched(launches) })
            };
            (1..=most).map(graph).collect()
        };
        let both = |on_half: bool| Ok([record(on_half, false)?, record(on_half, true)?]);
        Ok(Graphs([both(false)?, both(true)?]))
    }

    /// The launches of a cycle, one after another: what can run in parallel shares a launch. The metrics come
    /// after the answer, which does not need them.
    fn unwatched(&self, launches: Launches) -> Result<(), GpuError> {
        let on = |step: Step| self.launch(step);
        on(self.kernels.sense())?;
        self.evolve(launches)?;
        on(self.kernels.features(launches.on_half))?;
        on(self.kernels.scan())?;
        on(self.kernels.answer(&[AnswerTask::Bank, AnswerTask::Library, AnswerTask::Act]))?;
        on(self.kernels.deliver())?;
        on(self.kernels.metrics(false))
    }

    /// The move to another grid, if there is one, and the sub-steps.
    fn evolve(&self, launches: Launches) -> Result<(), GpuError> {
        if launches.moves {
            self.launch(self.kernels.movement(launches.on_half))?;
        }
        let steps = 0..launches.steps;
        steps.into_iter().try_for_each(|step| self.launch(self.kernels.evolve(launches.on_half, step)))
    }

    /// The launches of a cycle with an event after each stage, and one task of `answer` per launch. Learning
    /// is timed as part of the stages in which it runs, those of `sense` and `features`.
    fn watched(&self, launches: Launches) -> Result<(), GpuError> {
        let on = |step: Step| self.launch(step);
        let mark = |stage: usize| self.main.record(&self.marks.stages[stage]);
        on(self.kernels.sense())?;
        mark(0)?;
        self.evolve(launches)?;
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

    /// Switches the timing of stages on or off. Timed stages run one after another, which takes longer.
    pub fn watch_stages(&mut self, on: bool) -> Result<(), GpuError> {
        self.watched = if on { Some(self.record_graphs(true)?) } else { None };
        Ok(())
    }

    /// Time of each stage in the last cycle; `None` unless the timing of stages is on.
    pub fn stage_times(&self) -> Result<Option<StageTimes>, GpuError> {
        self.watched.as_ref().map(|_| self.marks.stage_times()).transpose()
    }

    /// Runs every graph and every kernel of a cycle at least once, and then resets the field.
    fn rehearse(&mut self) -> Result<(), GpuError> {
        let rehearsal = FieldInput::AT_REST;
        let inputs = vec![rehearsal; self.robots()];
        let mut answers = vec![DeviceAnswer::START; self.robots()];
        self.cycle(&inputs, &mut answers, FIRST)?;
        for launches in Launches::all(Schedule::most_sub_steps(&self.plan)) {
            self.desk.lay(&launches.rehearsal(), &inputs);
            self.main.replay(self.graphs.of(launches))?;
            self.settle()?;
        }
        self.launch(self.kernels.metrics(true))?;
        self.settle()?;
        self.reset()
    }

    /// Waits until the stream has finished all its work.
    pub(super) fn settle(&self) -> Result<(), GpuError> {
        self.main.record(&self.marks.settled)?;
        self.waiting.until(&self.marks.settled)
    }
}

/// Which launches a cycle needs.
#[derive(Clone, Copy)]
struct Launches {
    /// The grid in use.
    on_half: bool,
    /// The previous cycle was on the other grid.
    moves: bool,
    /// The largest number of sub-steps of a group.
    steps: u32,
}

impl Launches {
    /// Every combination, in an order in which each cycle can follow the one before: the half grid is entered
    /// before it is used or left.
    fn all(most_steps: u32) -> impl Iterator<Item = Launches> {
        let grids = [(false, false), (true, true), (true, false), (false, true)];
        grids.into_iter().flat_map(move |(on_half, moves)| {
            (1..=most_steps).map(move |steps| Launches { on_half, moves, steps })
        })
    }

    /// Orders that need exactly these launches, for the rehearsal: all groups are stepped, and the sub-steps
    /// leave the cells as they are.
    fn rehearsal(self) -> Cycle {
        let Launches { on_half, moves: moved, steps } = self;
        let (count, hold) = ([steps; GROUPS], [1.0; GROUPS]);
        Cycle { on_half, moved, count, hold, parts: 1, ..Cycle::default() }
    }
}

/// A graph for each combination, indexed by grid, by whether the field moves to it, and by the number of
/// sub-steps minus one.
#[derive(Default)]
struct Graphs([[Vec<Graph>; 2]; 2]);

impl Graphs {
    fn of(&self, launches: Launches) -> &Graph {
        &self.0[usize::from(launches.on_half)][usize::from(launches.moves)][launches.steps as usize - 1]
    }
}
