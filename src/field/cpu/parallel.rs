//! The parts of the field and the threads that work on them. A run hands a job to each part that has
//! something to do, takes its new cells in, and shows its results; it does not know what they mean.
//!
//!
//! With one thread the parts come one after the other and share one job and one set of spare cells. With
//! more, every part has its own.

use super::bank::Query;
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

/// What each part is to do; `None`: nothing.
pub type Tasks = [Option<Task>; GROUPS];

/// Parts, threads, and all that goes between them.
pub struct Parallel {
    pool: Pool<Job>,
    parts: Vec<Part>,
    spares: SpareCells,
    /// Jobs without orders.
    blanks: Vec<Box<Job>>,
    /// Jobs of the run under way.
    out: Vec<Box<Job>>,
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
        let at_once = pool.threads() > 1;
        let jobs = if at_once { GROUPS } else { 1 };
        Parallel {
            spares: SpareCells::new(plan, &parts, at_once),
            blanks: (0..jobs).map(|_| Box::new(Job::new(plan, level))).collect(),
            out: Vec::with_capacity(GROUPS),
            orders: Orders { felt: [0.0; MAX_SENSORS], blend: Blend::NONE },
            query: Box::new(Query::NOTHING),
            nearest: [Nearest::NONE; GROUPS],
            pool,
            parts,
        }
    }

    /// Has every task done, the caller does `own` at the same time; then shows each job.
    pub fn run(&mut self, tasks: &Tasks, own: impl FnOnce(), mut show: impl FnMut(&Job)) {
        // The dearest come first (content with its gradients), so that little is left to wait for at the end.
        let due = tasks.iter().enumerate().filter_map(|(number, task)| Some((number, (*task)?)));
        if self.pool.threads() == 1 {
            own();
            for (number, task) in due {
                let mut job = self.make_out(number, task);
                job.perform();
                show(&job);
                self.take_in(job);
            }
            return;
        }
        for (number, task) in due {
            let job = self.make_out(number, task);
            self.out.push(job);
        }
        self.pool.run(&mut self.out, own);
        while let Some(job) = self.out.pop() {
            show(&job);
            self.take_in(job);
        }
    }

    /// What the next jobs receive.
    pub fn order(&mut self, felt: impl Iterator<Item = f64>, blend: Blend) {
        self.orders.felt.iter_mut().zip(felt).for_each(|(to, felt)| *to = felt);
        self.orders.blend = blend;
    }

    /// What the bank is compared with next, a vector of at most unit length; `opens` a new sweep.
    pub fn ask(&mut self, vector: &[f64], opens: bool) {
        self.query.set(vector);
        if opens {
            self.nearest = [Nearest::NONE; GROUPS];
        }
    }

    /// What each shard has found in the sweep so far.
    pub fn nearest(&self) -> &[Nearest; GROUPS] {
        &self.nearest
    }

    /// What the shards found in a sweep that was under way elsewhere.
    pub fn resume(&mut self, found: &[(u32, f64)]) {
        self.nearest = [Nearest::NONE; GROUPS];
        for (row, cosine) in found {
            self.nearest[*row as usize % GROUPS].offer(*row as usize, *cosine as f32);
        }
    }

    /// A row of the bank; `None`: nothing has come as far.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        self.parts[row % GROUPS].row(row)
    }

    /// Replaces the first rows of the bank.
    pub fn set_rows(&mut self, rows: &[f32]) {
        for (row, exact) in rows.chunks_exact(DESCRIPTOR).enumerate() {
            let same = |(held, new): (&f32, &f32)| held.to_bits() == new.to_bits();
            if self.row(row).is_some_and(|held| held.iter().zip(exact).all(same)) {
                continue; // to make a coarse row of an exact one takes most of the time of taking over a state
            }
            self.query.set_row(exact);
            self.store_row(row);
        }
    }

    /// Makes the query a row of the bank.
    pub fn store_row(&mut self, row: usize) {
        self.parts[row % GROUPS].store_row(row, &self.query);
    }

    /// The parts, to look at.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
    /// The parts, to change.
    pub fn parts_mut(&mut self) -> &mut [Part] {
        &mut self.parts
    }
    /// Threads that share the work, the caller included.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
    /// Workers, from 1, that were not granted their core.
    pub fn refusals(&self) -> &[(usize, Refusal)] {
        self.pool.refusals()
    }
    /// Memory taken.
    pub fn bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(Part::bytes).sum();
        let jobs: usize = self.blanks.iter().map(|job| job.bytes()).sum();
        parts + jobs + self.spares.bytes()
    }

    /// A job for part `number`.
    fn make_out(&mut self, number: usize, task: Task) -> Box<Job> {
        let part = &self.parts[number];
        let fixed = part.fixed();
        let mut job = self.blanks.pop().expect("there is a job for each part that is out");
        (job.number, job.task, job.sources) = (number, task, Some(part.sources()));
        job.target = task.grid(fixed.grid).map(|grid| self.spares.take(fixed.storage, grid));
        if let Task::Scan { .. } = task {
            job.nearest = self.nearest[number];
            job.query.clone_from(&self.query);
        } else {
            job.orders = self.orders;
        }
        job
    }

    /// Takes the results of a job.
    fn take_in(&mut self, mut job: Box<Job>) {
        let part = &mut self.parts[job.number];
        match job.task {
            Task::Scan { .. } => self.nearest[job.number] = job.nearest,
            Task::Sweep { .. } => part.fresh = true,
            Task::Halve | Task::Unhalve => part.fresh = false,
        }
        let (storage, whole) = (part.fixed().storage, part.fixed().grid);
        if let (Some(grid), Some(new)) = (job.task.grid(whole), job.target.take()) {
            self.spares.put(storage, grid, part.take(grid < whole, new));
        }
        self.blanks.push(job);
    }
}
