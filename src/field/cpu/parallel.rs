//! The parts of the field and the threads that work on them. A run performs a job for each part that has a
//! task, takes over the job's new cells and passes on the job's results without interpreting them.
//!
//! With one thread, the parts take turns and share one job and one set of spare cells. With more threads,
//! every part has its own job and spare cells, and there are additional ones for each worker: a late worker
//! keeps the cells that it reads and those that it writes until it finishes, while the field continues with
//! the cells that the calling thread computed instead.

use super::bank::Query;
use super::cells::Cells;
use super::job::{Job, JobInputs, Task};
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

/// The task of each part; `None`: nothing to do.
pub type Tasks = [Option<Task>; GROUPS];

/// The order in which parts are handed out. Each thread gets an equal share of this list, its most expensive
/// parts first (content channels with their gradients, then patterns, then slow channels), so that the waits
/// at the end are short.
const ORDER: [usize; GROUPS] = [0, 1, 4, 6, 2, 3, 5, 7];

/// Parts, threads, and the jobs between them.
pub struct Parallel {
    pool: Pool<Job>,
    stock: Stock,
    /// Jobs of the current run.
    out: Vec<Box<Job>>,
    /// The row of the bank in which the query will be stored as soon as no job reads its shard.
    pending: Option<usize>,
}

/// What jobs are made from, and where they and their results return.
struct Stock {
    parts: Vec<Part>,
    spares: SpareCells,
    /// Idle jobs.
    idle: Vec<Box<Job>>,
    inputs: JobInputs,
    /// The query that the bank is compared with.
    query: Box<Query>,
    /// The best rows of each shard in the current sweep of the bank.
    nearest: [Nearest; GROUPS],
}

impl Parallel {
    /// The parts of `plan`, at rest, with as many threads as the plan asks for and the system grants.
    pub fn new(plan: &FieldPlan, projections: &Projections, level: Level) -> Parallel {
        let parts: Vec<Part> = (0..GROUPS).map(|number| Part::new(number, plan, projections)).collect();
        let pool: Pool<Job> = Pool::new(plan.threads, &plan.cpus, GROUPS);
        let spares = pool.spares();
        let jobs = if spares > 0 { GROUPS + spares } else { 1 };
        let mut idle = Vec::with_capacity(jobs);
        idle.extend((0..jobs).map(|_| Box::new(Job::new(plan, level))));
        // For each late job: the cells that it holds, and those that its repetition writes.
        let spares = SpareCells::new(plan, &parts, 2 * spares, spares > 0);
        let inputs = JobInputs { felt: [0.0; MAX_SENSORS], blend: Blend::NONE };
        let (query, nearest) = (Box::new(Query::NOTHING), [Nearest::NONE; GROUPS]);
        let stock = Stock { parts, spares, idle, inputs, query, nearest };
        Parallel { pool, stock, out: Vec::with_capacity(GROUPS), pending: None }
    }

    /// Performs every task, and `own` on the caller's thread at the same time; then passes each job to
    /// `show`.
    pub fn run(&mut self, tasks: &Tasks, own: impl FnOnce(), mut show: impl FnMut(&Job)) {
        let Parallel { pool, stock, out, .. } = self;
        pool.late_jobs(|job| stock.recycle(job));
        let mut due: heapless::Vec<(usize, Task), GROUPS> = heapless::Vec::new();
        due.extend(ORDER.into_iter().filter_map(|number| Some((number, tasks[number]?))));
        if pool.threads() == 1 {
            own();
            for (number, task) in due {
                let mut job = stock.prepare(number, task).expect("the last job has been returned");
                job.perform();
                show(&job);
                stock.take_in(job);
            }
            return;
        }
        out.extend(due.iter().filter_map(|(number, task)| stock.prepare(*number, *task)));
        assert!(out.len() == due.len(), "there is a job for each part, and cells for each job");
        pool.run(out, own, |place| {
            let (number, task) = due[place];
            stock.prepare(number, task)
        });
        for job in out.drain(..) {
            show(&job);
            stock.take_in(job);
        }
    }

    /// Sets the inputs of the next jobs.
    pub fn set_inputs(&mut self, felt: impl Iterator<Item = f64>, blend: Blend) {
        self.stock.inputs.felt.iter_mut().zip(felt).for_each(|(to, felt)| *to = felt);
        self.stock.inputs.blend = blend;
    }

    /// Sets the next query of the bank, a vector of at most unit length; `opens`: a new sweep starts.
    pub fn ask(&mut self, vector: &[f64], opens: bool) {
        self.store_pending(true);
        self.stock.query.set(vector);
        if opens {
            self.stock.nearest = [Nearest::NONE; GROUPS];
        }
    }

    /// The best rows that each shard has found in the sweep so far.
    pub fn nearest(&self) -> &[Nearest; GROUPS] {
        &self.stock.nearest
    }

    /// Restores what the shards had found in a sweep that was in progress when the state was saved.
    pub fn resume(&mut self, found: &[(u32, f64)]) {
        self.stock.nearest = [Nearest::NONE; GROUPS];
        for (row, cosine) in found {
            self.stock.nearest[*row as usize % GROUPS].offer(*row as usize, *cosine as f32);
        }
    }

    /// A row of the bank, or the pending row that will be stored there; `None`: it is not allocated yet.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        if self.pending == Some(row) {
            Some(self.stock.query.exact())
        } else {
            self.stock.parts[row % GROUPS].row(row)
        }
    }

    /// Replaces the first rows of the bank; waits for late workers.
    pub fn set_rows(&mut self, rows: &[f32]) {
        self.wait_for_jobs();
        self.pending = None;
        for (row, exact) in rows.chunks_exact(DESCRIPTOR).enumerate() {
            let same = |(held, new): (&f32, &f32)| held.to_bits() == new.to_bits();
            // Quantising exact rows takes most of the time of restoring a state, so skip unchanged rows.
            if self.row(row).is_some_and(|held| held.iter().zip(exact).all(same)) {
                continue;
            }
            self.stock.query.set_row(exact);
            let stored = self.stock.parts[row % GROUPS].store_row(row, &self.stock.query);
            assert!(stored, "no job is running");
        }
    }

    /// Stores the query in a row of the bank: now, or, if a late worker still reads the shard, before the
    /// next comparison.
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
            // A worker has been late since the last comparison, and a row must not change while the worker
            // reads it.
            self.wait_for_jobs();
            assert!(self.stock.parts[part].store_row(row, &self.stock.query), "no job is running");
        }
        self.pending = None;
    }

    /// Waits until no job is running, so that the jobs' inputs can be changed. This may take too long for a
    /// cycle, so a cycle waits only before it stores a row in a shard that a late worker still reads.
    fn wait_for_jobs(&mut self) {
        self.pool.settle();
        let stock = &mut self.stock;
        self.pool.late_jobs(|job| stock.recycle(job));
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.stock.parts
    }
    /// The parts, mutable; waits for late workers.
    pub fn parts_mut(&mut self) -> &mut [Part] {
        self.wait_for_jobs();
        &mut self.stock.parts
    }
    /// Threads that share the work, including the caller.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
    /// Jobs that the caller redid because a worker was late.
    pub fn stand_ins(&self) -> u64 {
        self.pool.stand_ins()
    }
    /// Workers, numbered from 1, that were not granted their core.
    pub fn refusals(&self) -> &[(usize, Refusal)] {
        self.pool.refusals()
    }
    /// Memory, bytes.
    pub fn bytes(&self) -> usize {
        let parts: usize = self.stock.parts.iter().map(Part::bytes).sum();
        let jobs: usize = self.stock.idle.iter().map(|job| job.bytes()).sum();
        parts + jobs + self.stock.spares.bytes()
    }
}

impl Stock {
    /// Prepares a job for part `number`; `None`: late jobs hold all spare jobs or cells.
    fn prepare(&mut self, number: usize, task: Task) -> Option<Box<Job>> {
        let part = &self.parts[number];
        let target = match task.grid(part.fixed().grid) {
            Some(grid) => Some(self.spares.take(part.fixed().storage, grid)?),
            None => None,
        };
        let Some(mut job) = self.idle.pop() else {
            self.store(number, task, target);
            return None;
        };
        (job.number, job.task, job.target, job.sources) = (number, task, target, Some(part.sources()));
        if let Task::Scan { .. } = task {
            job.nearest = self.nearest[number];
            job.query.clone_from(&self.query);
        } else {
            job.inputs = self.inputs;
        }
        Some(job)
    }

    /// Takes over the results of a job.
    fn take_in(&mut self, mut job: Box<Job>) {
        let part = &mut self.parts[job.number];
        let is_half = matches!(job.task, Task::Halve | Task::Sweep { half: true, .. });
        match job.task {
            Task::Scan { .. } => self.nearest[job.number] = job.nearest,
            Task::Sweep { .. } => part.fresh = true,
            Task::Halve | Task::Unhalve => part.fresh = false,
        }
        job.target = job.target.take().map(|new| part.take(is_half, new));
        self.recycle(job);
    }

    /// Takes back a job whose results are no longer needed, and the cells that it holds.
    fn recycle(&mut self, mut job: Box<Job>) {
        let cells = job.target.take();
        self.store(job.number, job.task, cells);
        self.idle.push(job);
    }

    fn store(&mut self, number: usize, task: Task, cells: Option<Arc<Cells>>) {
        let fixed = self.parts[number].fixed();
        if let (Some(grid), Some(cells)) = (task.grid(fixed.grid), cells) {
            self.spares.put(fixed.storage, grid, cells);
        }
    }
}
