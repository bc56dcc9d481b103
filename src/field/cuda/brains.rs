//! The robots' brains on one device: memory, streams and graphs, and one cycle of all of them. Lives on the
//! device's own thread (`line`); `between` has reads and writes between cycles, `state` whole states.

use super::launches::{Cut, Kernels, Step};
use super::layout::{CYCLE_PITCH, Layout, Place};
use super::schedule::Schedule;
use super::start::Start;
use super::tables::{ANSWER, Answer};
use super::watch::{Marks, Times, Waiting};
use crate::base::plan::FieldPlan;
use crate::base::time::{Clock, MonotonicClock};
use crate::field::{StageTimes, Stimulus};
use crate::system::gpu::{
    Found, Gpu, GpuError, Graph, Image, Launch, Pinned, Pool, Priority, Stream, Watch, image_files,
};
use std::sync::Arc;

/// Pinned memory that large copies between cycles go through, a piece at a time: a few pieces make a field,
/// and a piece takes less than a millisecond on the slowest bus that is promised.
const STAGING: usize = 4 << 20;

/// Robots in one launch at most: z of every grid.
pub const MOST_ROBOTS: usize = 64;

/// Brains on a device. Fields are dropped in their order: the context's own objects before the context.
pub struct Brains {
    /// By grid, then by sub-steps less one.
    graphs: [Vec<Graph>; 2],
    /// The same work in one line with a mark after each stage; made when stages are first watched.
    watched: Option<[Vec<Graph>; 2]>,
    pub(super) marks: Marks,
    pub(super) main: Stream,
    side: Stream,
    pub(super) kernels: Kernels,
    image: Image,
    orders: Pinned,
    answers: Pinned,
    pub(super) staging: Pinned,
    pub(super) pool: Pool,
    pub(super) layout: Layout,
    pub(super) start: Start,
    pub(super) schedule: Schedule,
    pub(super) plan: FieldPlan,
    pub(super) waiting: Waiting,
    pub(super) gpu: Gpu,
}

impl Brains {
    /// Brains of `robots` robots at the start, on the device that was found. Takes all memory here, of the
    /// host and of the device, and runs every kernel once, so that nothing is loaded or found out in a cycle.
    pub fn open(
        plan: &FieldPlan,
        robots: usize,
        found: &Found,
        watch: Arc<Watch>,
        waiting: Waiting,
    ) -> Result<Brains, GpuError> {
        let gpu = Gpu::open(found, watch)?;
        let cut = Cut::of(plan.shape.grid, robots, found.multiprocessors);
        let image = Image::load(&gpu, &image_files())?;
        let kernels = Kernels::new(&image, plan, cut)?;
        let start = Start::new(plan);
        let layout = Layout::new(plan, start.hardware(), robots, cut.scan_blocks);
        let mut brains = Brains {
            graphs: [Vec::new(), Vec::new()],
            watched: None,
            marks: Marks::new(&gpu)?,
            main: Stream::new(&gpu, Priority::High)?,
            side: Stream::new(&gpu, Priority::High)?,
            kernels,
            image,
            orders: Pinned::take(&gpu, robots * CYCLE_PITCH)?,
            answers: Pinned::take(&gpu, robots * ANSWER)?,
            staging: Pinned::take(&gpu, STAGING)?,
            pool: Pool::take(&gpu, layout.bytes)?,
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

    /// Robots.
    pub fn robots(&self) -> usize {
        self.layout.robots.len()
    }

    /// The image of the kernels.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Bytes on the device, and pinned bytes of the host.
    pub fn memory(&self) -> (usize, usize) {
        let pinned = [&self.orders, &self.answers, &self.staging];
        (self.pool.bytes(), pinned.iter().map(|pinned| pinned.len()).sum())
    }

    /// Where a buffer lies.
    pub(super) fn address(&self, place: Place) -> u64 {
        self.pool.address() + place.at as u64
    }

    /// One cycle of all robots: a stimulus and an answer each. The first stimulus says number and rung for
    /// all.
    pub fn cycle(&mut self, stimuli: &[Stimulus], answers: &mut [Answer]) -> Result<Times, GpuError> {
        let clock = MonotonicClock;
        let begun = clock.now();
        let was_on_half = self.schedule.standing().on_half;
        self.write_orders(stimuli)?;
        let (on_half, steps) = self.work();
        self.main.record(&self.marks.begin)?;
        let orders = self.address(self.layout.shared.cycles);
        self.main.copy_in(orders, &self.orders, 0..stimuli.len() * CYCLE_PITCH)?;
        self.main.record(&self.marks.ordered)?;
        if self.schedule.moves(was_on_half) {
            self.launch(self.kernels.movement(on_half))?;
        }
        let graphs = self.watched.as_ref().unwrap_or(&self.graphs);
        self.main.replay(&graphs[usize::from(on_half)][steps - 1])?;
        self.main.record(&self.marks.computed)?;
        let place = self.address(self.layout.shared.answers);
        self.main.copy_out(place, &self.answers, 0..stimuli.len() * ANSWER)?;
        self.main.record(&self.marks.answered)?;
        let submitted = clock.now();
        self.waiting.until(&self.marks.answered)?;
        let seen = clock.now();
        for (answer, table) in answers.iter_mut().zip(self.answers.bytes()?.chunks_exact(ANSWER)) {
            *answer = Answer::read(table);
        }
        self.schedule.settle();
        self.marks.times(begun, submitted, seen)
    }

    /// Writes every robot's orders into its pinned slot.
    fn write_orders(&mut self, stimuli: &[Stimulus]) -> Result<(), GpuError> {
        let Some(first) = stimuli.first() else { return Ok(()) };
        let mut slots = self.orders.bytes_mut()?;
        let orders = self.schedule.order(first);
        for (stimulus, slot) in stimuli.iter().zip(slots.chunks_exact_mut(CYCLE_PITCH)) {
            orders.write(&stimulus.sensors, stimulus.reward, slot);
        }
        Ok(())
    }

    /// The grid of the orders, and the most sub-steps that a group takes.
    fn work(&self) -> (bool, usize) {
        let orders = self.schedule.orders();
        (orders.on_half, orders.count.into_iter().max().unwrap_or(1).max(1) as usize)
    }

    /// Launches a step for all robots.
    pub(super) fn launch(&self, step: Step) -> Result<(), GpuError> {
        launch(&self.main, step, self.brains(), self.robots())
    }

    /// Address of the table of brains.
    fn brains(&self) -> u64 {
        self.address(self.layout.shared.brains)
    }

    /// A graph for each grid and number of sub-steps: these decide which launches a rung needs.
    fn record_graphs(&self, watched: bool) -> Result<[Vec<Graph>; 2], GpuError> {
        let most = Schedule::most_sub_steps(&self.plan);
        let record = |on_half: bool| -> Result<Vec<Graph>, GpuError> {
            let graph = |steps: u32| {
                self.main.capture(|| match watched {
                    false => self.branched(on_half, steps),
                    true => self.in_line(on_half, steps),
                })
            };
            (1..=most).map(graph).collect()
        };
        Ok([record(false)?, record(true)?])
    }

    /// The launches of a cycle: learning beside the field, then the bank beside all else that needs the
    /// features.
    fn branched(&self, on_half: bool, steps: u32) -> Result<(), GpuError> {
        let (main, side, brains, robots) = (&self.main, &self.side, self.brains(), self.robots());
        let on = |stream: &Stream, step: Step| launch(stream, step, brains, robots);
        on(main, self.kernels.sense())?;
        main.fork(&self.marks.sensed)?;
        side.wait(&self.marks.sensed)?;
        for step in self.kernels.learning() {
            on(side, step)?;
        }
        for sub_step in 0..steps {
            on(main, self.kernels.evolve(on_half, sub_step))?;
        }
        on(main, self.kernels.features(on_half))?;
        main.fork(&self.marks.reduced)?;
        side.wait(&self.marks.reduced)?;
        on(side, self.kernels.library())?;
        for step in self.kernels.answer() {
            on(side, step)?;
        }
        side.fork(&self.marks.matched)?;
        for step in self.kernels.bank() {
            on(main, step)?;
        }
        main.wait(&self.marks.matched)?;
        on(main, self.kernels.metrics(false))
    }

    /// The same one after another, with a mark at the end of each stage.
    fn in_line(&self, on_half: bool, steps: u32) -> Result<(), GpuError> {
        let on = |step: Step| self.launch(step);
        let mark = |stage: usize| self.main.record(&self.marks.stages[stage]);
        on(self.kernels.sense())?;
        self.kernels.learning().into_iter().try_for_each(on)?;
        mark(0)?;
        (0..steps).try_for_each(|sub_step| on(self.kernels.evolve(on_half, sub_step)))?;
        mark(1)?;
        on(self.kernels.features(on_half))?;
        mark(2)?;
        on(self.kernels.library())?;
        mark(3)?;
        self.kernels.bank().into_iter().try_for_each(on)?;
        mark(4)?;
        self.kernels.answer().into_iter().try_for_each(on)?;
        on(self.kernels.metrics(false))?;
        mark(5)
    }

    /// Whether stages are timed: they then run one after another, which takes longer.
    pub fn watch_stages(&mut self, on: bool) -> Result<(), GpuError> {
        self.watched = if on { Some(self.record_graphs(true)?) } else { None };
        Ok(())
    }

    /// Time of each stage in the last cycle; `None` unless they are watched.
    pub fn stage_times(&self) -> Result<Option<StageTimes>, GpuError> {
        self.watched.as_ref().map(|_| self.marks.stage_times()).transpose()
    }

    /// Runs every graph and every kernel once, on a field that is put back to rest afterwards.
    fn rehearse(&mut self) -> Result<(), GpuError> {
        let rehearsal = Stimulus::AT_REST;
        let stimuli = vec![rehearsal; self.robots()];
        let mut answers = vec![Answer::START; self.robots()];
        self.cycle(&stimuli, &mut answers)?;
        for on_half in [false, true] {
            self.launch(self.kernels.movement(!on_half))?;
            for graph in &self.graphs[usize::from(on_half)] {
                self.main.replay(graph)?;
            }
        }
        self.launch(self.kernels.metrics(true))?;
        self.settle()?;
        self.rest()
    }

    /// Waits until the stream is done with everything.
    pub(super) fn settle(&self) -> Result<(), GpuError> {
        self.main.record(&self.marks.answered)?;
        self.waiting.until(&self.marks.answered)
    }
}

/// Launches a step for `robots` robots on a stream.
fn launch(stream: &Stream, step: Step, brains: u64, robots: usize) -> Result<(), GpuError> {
    let [x, y] = step.grid;
    let grid = [x, y, robots as u32];
    stream.launch(&Launch { kernel: step.kernel, grid, block: step.block, table: brains, words: step.words })
}
