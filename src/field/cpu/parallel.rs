//! The parts of the field and the threads that work on them. A run hands a job to each part that has
//! something to do, takes its new cells in, and shows its results; it does not know what they mean.
//!
//! With one thread the parts come one after the other and share one job and one set of spare cells. With
//! more, every part has its own, and there are spares for each worker: a late worker keeps the cells that it
//! reads and those that it writes until it comes back, while the field goes on with the cells that a stand-in
//! computed.

use super::bank::Query;
use super::cells::Cells;
use super::job::{Job, Orders, Task};
use super::library::Blend;
use super::nearest::Nearest;
use super::part::{Part, SpareCells};
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::FieldPlan;
use crate::field::projections::Projections;
use crate::field::shape::{DESCRIPTOR, GROUPS};
use crate::system::cpu::pool::{Pool, PoolJob};
use crate::system::cpu::simd::Level;
use crate::system::rt::Refusal;
use std::sync::Arc;

/// What each part is to do; `None`: nothing.
pub type Tasks = [Option<Task>; GROUPS];

/// The order in which parts are handed out. Each thread gets an equal share of this list, its most expensive
/// parts first (content with its gradients, then patterns, then slow channels), so that the waits at the end
/// are short.
const ORDER: [usize; GROUPS] = [0, 1, 4, 6, 2, 3, 5, 7];

/// Parts, threads, and all that goes between them.
pub struct Parallel {
    pool: Pool<Job>,
    stock: Stock,
    /// Jobs of the run under way.
    out: Vec<Box<Job>>,
    /// The query is to be stored in this row of the bank, as soon as no job reads its shard.
    pending: Option<usize>,
}

/// What jobs are made from and return to.
struct Stock {
    parts: Vec<Part>,
    spares: SpareCells,
    /// Jobs without orders.
    blanks: Vec<Box<Job>>,
    orders: Orders,
    /// What the bank is compared with.
    query: Box<Query>,
    /// The best rows of each shard in the sweep of the bank under way.
    nearest: [Nearest; GROUPS],
}

impl Parallel {
    /// The parts of `plan`, at rest, and as many threads as it asks for and the system grants.
    pub fn new(plan: &FieldPlan, projections: &Projections, level: Level) -> Parallel {
        let parts: Vec<Part> = (0..GROUPS).map(|number| Part::new(number, plan, projections)).collect();
        let pool: Pool<Job> = Pool::new(plan.threads, &plan.cpus, GROUPS);
        let spares = pool.spares();
        let jobs = if spares > 0 { GROUPS + spares } else { 1 };
        let mut blanks = Vec::with_capacity(jobs);
        blanks.extend((0..jobs).map(|_| Box::new(Job::new(plan, level))));
        // For each late job the cells that its stand-in writes and those that it holds itself.
        let spares = SpareCells::new(plan, &parts, 2 * spares, spares > 0);
        let orders = Orders { felt: [0.0; MAX_SENSORS], blend: Blend::NONE };
        let (query, nearest) = (Box::new(Query::NOTHING), [Nearest::NONE; GROUPS]);
        let stock = Stock { parts, spares, blanks, orders, query, nearest };
        Parallel { pool, stock, out: Vec::with_capacity(GROUPS), pending: None }
    }

    /// Performs every task, and `own` on the caller's thread meanwhile; then shows each job.
    pub fn run(&mut self, tasks: &Tasks, own: impl FnOnce(), mut show: impl FnMut(&Job)) {
        let Parallel { pool, stock, out, .. } = self;
        pool.strays(|job| stock.put_away(job));
        let mut due: heapless::Vec<(usize, Task), GROUPS> = heapless::Vec::new();
        due.extend(ORDER.into_iter().filter_map(|number| Some((number, tasks[number]?))));
        if pool.threads() == 1 {
            own();
            for (number, task) in due {
                let mut job = stock.make_out(number, task).expect("the last job has come back");
                job.perform();
                show(&job);
                stock.take_in(job);
            }
            return;
        }
        out.extend(due.iter().filter_map(|(number, task)| stock.make_out(*number, *task)));
        assert!(out.len() == due.len(), "there is a job for each part, and cells for each job");
        pool.run(out, own, |place| {
            let (number, task) = due[place];
            stock.make_out(number, task)
        });
        for job in out.drain(..) {
            show(&job);
            stock.take_in(job);
        }
    }

    /// What the next jobs receive.
    pub fn order(&mut self, felt: impl Iterator<Item = f64>, blend: Blend) {
        self.stock.orders.felt.iter_mut().zip(felt).for_each(|(to, felt)| *to = felt);
        self.stock.orders.blend = blend;
    }

    /// What the bank is compared with next, a vector of at most unit length; `opens` a new sweep.
    pub fn ask(&mut self, vector: &[f64], opens: bool) {
        self.store_pending(true);
        self.stock.query.set(vector);
        if opens {
            self.stock.nearest = [Nearest::NONE; GROUPS];
        }
    }

    /// What each shard has found in the sweep so far.
    pub fn nearest(&self) -> &[Nearest; GROUPS] {
        &self.stock.nearest
    }

    /// What the shards found in a sweep that was under way elsewhere.
    pub fn resume(&mut self, found: &[(u32, f64)]) {
        self.stock.nearest = [Nearest::NONE; GROUPS];
        for (row, cosine) in found {
            self.stock.nearest[*row as usize % GROUPS].offer(*row as usize, *cosine as f32);
        }
    }

    /// A row of the bank as it is, or as it will be before the next comparison; `None`: no row there yet.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        if self.pending == Some(row) {
            Some(self.stock.query.exact())
        } else {
            self.stock.parts[row % GROUPS].row(row)
        }
    }

    /// Replaces the first rows of the bank; waits for late workers.
    pub fn set_rows(&mut self, rows: &[f32]) {
        self.settle();
        self.pending = None;
        for (row, exact) in rows.chunks_exact(DESCRIPTOR).enumerate() {
            let same = |(held, new): (&f32, &f32)| held.to_bits() == new.to_bits();
            // To make a coarse row of an exact one takes most of the time of taking over a state.
            if self.row(row).is_some_and(|held| held.iter().zip(exact).all(same)) {
                continue;
            }
            self.stock.query.set_row(exact);
            let stored = self.stock.parts[row % GROUPS].store_row(row, &self.stock.query);
            assert!(stored, "no job is out");
        }
    }

    /// Makes the query a row of the bank: now, or before the next comparison if a late worker still reads the
    /// shard.
    pub fn store_row(&mut self, row: usize) {
        self.pending = Some(row);
        self.store_pending(false);
    }

    fn store_pending(&mut self, wait: bool) {
        let Some(row) = self.pending else { return };
        let part = row % GROUPS;
        if !self.stock.parts[part].store_row(row, &self.stock.query) {
            if !wait {
                return;
            }
            // A worker has been late since the last comparison, and a row must not change while it reads.
            self.settle();
            assert!(self.stock.parts[part].store_row(row, &self.stock.query), "no job is out");
        }
        self.pending = None;
    }

    /// Waits until no job is out, to change what jobs read. Takes too long for a cycle.
    fn settle(&mut self) {
        self.pool.settle();
        let stock = &mut self.stock;
        self.pool.strays(|job| stock.put_away(job));
    }

    /// The parts, to look at.
    pub fn parts(&self) -> &[Part] {
        &self.stock.parts
    }
    /// The parts, to change; waits for late workers.
    pub fn parts_mut(&mut self) -> &mut [Part] {
        self.settle();
        &mut self.stock.parts
    }
    /// Threads that share the work, the caller included.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
    /// Jobs that the caller did again because a worker was late.
    pub fn stand_ins(&self) -> u64 {
        self.pool.stand_ins()
    }
    /// Workers, from 1, that were not granted their core.
    pub fn refusals(&self) -> &[(usize, Refusal)] {
        self.pool.refusals()
    }
    /// Memory taken.
    pub fn bytes(&self) -> usize {
        let parts: usize = self.stock.parts.iter().map(Part::bytes).sum();
        let jobs: usize = self.stock.blanks.iter().map(|job| job.bytes()).sum();
        parts + jobs + self.stock.spares.bytes()
    }
}

impl Stock {
    /// A job for part `number`; `None` while too many are out.
    fn make_out(&mut self, number: usize, task: Task) -> Option<Box<Job>> {
        let part = &self.parts[number];
        let target = match task.grid(part.fixed().grid) {
            Some(grid) => Some(self.spares.take(part.fixed().storage, grid)?),
            None => None,
        };
        let Some(mut job) = self.blanks.pop() else {
            self.store(number, task, target);
            return None;
        };
        (job.number, job.task, job.target, job.sources) = (number, task, target, Some(part.sources()));
        if let Task::Scan { .. } = task {
            job.nearest = self.nearest[number];
            job.query.clone_from(&self.query);
        } else {
            job.orders = self.orders;
        }
        Some(job)
    }

    /// Takes the results of a job.
    fn take_in(&mut self, mut job: Box<Job>) {
        let part = &mut self.parts[job.number];
        let is_half = matches!(job.task, Task::Halve | Task::Sweep { half: true, .. });
        match job.task {
            Task::Scan { .. } => self.nearest[job.number] = job.nearest,
            Task::Sweep { .. } => part.fresh = true,
            Task::Halve | Task::Unhalve => part.fresh = false,
        }
        job.target = job.target.take().map(|new| part.take(is_half, new));
        self.put_away(job);
    }

    /// Takes a job whose results are not needed.
    fn put_away(&mut self, mut job: Box<Job>) {
        let cells = job.target.take();
        self.store(job.number, job.task, cells);
        self.blanks.push(job);
    }

    fn store(&mut self, number: usize, task: Task, cells: Option<Arc<Cells>>) {
        let fixed = self.parts[number].fixed();
        if let (Some(grid), Some(cells)) = (task.grid(fixed.grid), cells) {
            self.spares.put(fixed.storage, grid, cells);
        }
    }
}
