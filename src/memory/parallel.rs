//! Large batches on several threads, by the pool that never waits long for a busy core: any free thread takes
//! the next piece of a batch, and the caller repeats a late one. Each row is computed as in a batch of one,
//! and the best of a search are merged in one order: the results are the same bits for any number of threads.

use super::dim::Dim;
use super::fault::Fault;
use super::nearest::Best;
use super::ops::{Length, Workspace};
use super::rows::{PIECES, Piece, Rows, alone, rows_per_piece};
use super::store::{Block, Scan, Store};
use crate::cpu::pool::{Pool, PoolJob};
use crate::cpu::simd::Level;
use std::sync::Arc;

/// The operation on the rows of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// [`Workspace::bind`]
    Bind,
    /// [`Workspace::unbind`]
    Unbind,
}

/// The second factor of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Keys<'a> {
    /// One for each row.
    Each(&'a Rows),
    /// One for all.
    One(&'a [f32]),
}

/// A share of a batch or of a search, with all that it needs. Done twice it gives the same.
struct Job {
    workspace: Workspace,
    level: Level,
    order: Option<Order>,
    out: Option<Piece>,
    best: Vec<Best>,
}

/// What a job is to do; what it reads is shared.
#[derive(Clone)]
enum Order {
    Convolve { verb: Verb, length: Length, rows: Piece, keys: Piece },
    Search { block: Arc<Block>, from: usize, to: usize, queries: Piece },
}

impl PoolJob for Job {
    fn perform(&mut self) {
        // Taken, so that what it reads is released as soon as it is done: a writer may be waiting.
        match &self.order.take() {
            Some(Order::Convolve { verb, length, rows, keys }) => {
                let Some(out) = self.out.as_mut().and_then(Arc::get_mut) else { return };
                let done = match verb {
                    Verb::Bind => self.workspace.bind(rows, keys, *length, out),
                    Verb::Unbind => self.workspace.unbind(rows, keys, *length, out),
                };
                debug_assert_eq!(done, Ok(()), "shapes are checked before pieces go out");
            }
            Some(Order::Search { block, from, to, queries }) => {
                let (from, to, best) = (*from, *to, &mut self.best[..queries.len() / block.d]);
                best.iter_mut().for_each(Best::clear);
                self.level.run(Scan { block, from, to, queries, best });
            }
            None => {}
        }
    }
}

/// Threads and their desks.
#[expect(clippy::vec_box)] // jobs travel boxed: a box goes through the pool's queues in one word
pub struct Parallel {
    dim: Dim,
    pool: Pool<Job>,
    jobs: Vec<Box<Job>>,
    at_work: Vec<Box<Job>>,
    spares: Vec<Box<Job>>,
    orders: Vec<Order>,
    shared: Piece,
    most_queries: usize,
}

impl Parallel {
    /// `threads` threads, the caller's included, kept on `cpus` in turn if any are named (the caller goes to
    /// the first by itself), for batches of at most `most_rows` rows and searches with at most `most_queries`
    /// queries.
    pub fn new(dim: Dim, threads: usize, cpus: &[usize], most_rows: usize, most_queries: usize) -> Parallel {
        Parallel::at_level(dim, threads, cpus, (most_rows, most_queries), Level::best())
    }

    /// The same with instructions of one's choice.
    pub fn at_level(
        dim: Dim,
        threads: usize,
        cpus: &[usize],
        (most_rows, most_queries): (usize, usize),
        level: Level,
    ) -> Parallel {
        let pool = Pool::new(threads, cpus, PIECES);
        let workspace = Workspace::at_level(dim, level);
        let job = |out: Option<Piece>| {
            let best = vec![Best::of(1); most_queries];
            Box::new(Job { workspace: workspace.clone(), level, order: None, out, best })
        };
        let room = rows_per_piece(most_rows) * dim.get();
        let spares = (0..pool.spares()).map(|_| job(Some(Arc::new(vec![0.0; room])))).collect();
        Parallel {
            dim,
            jobs: (0..PIECES).map(|_| job(None)).collect(),
            at_work: Vec::with_capacity(PIECES),
            spares,
            orders: Vec::with_capacity(PIECES),
            shared: Arc::new(Vec::with_capacity(most_queries.max(1) * dim.get())),
            most_queries,
            pool,
        }
    }

    /// Threads at work, the caller included.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Pieces that the caller did again because a thread was late with them, since the start.
    pub fn stand_ins(&self) -> u64 {
        self.pool.stand_ins()
    }

    /// Binds or unbinds each row with its key.
    pub fn convolve(
        &mut self,
        verb: Verb,
        rows: &Rows,
        keys: Keys,
        length: Length,
        out: &mut Rows,
    ) -> Result<(), Fault> {
        self.check(rows, keys, out)?;
        if let Keys::One(key) = keys {
            self.take_shared(key);
        }
        self.orders.clear();
        for (place, piece) in rows.pieces.iter().enumerate() {
            let keys = match keys {
                Keys::Each(keys) => keys.pieces[place].clone(),
                Keys::One(_) => Some(self.shared.clone()),
            };
            if let (Some(rows), Some(keys)) = (piece.clone(), keys) {
                self.orders.push(Order::Convolve { verb, length, rows, keys });
            }
        }
        for (place, piece) in out.pieces.iter_mut().enumerate() {
            alone(piece.get_or_insert_default());
            let mut job = self.next_job();
            job.out = piece.take();
            job.order = Some(self.orders[place].clone());
            self.at_work.push(job);
        }
        self.run(|place| rows.pieces[place].as_ref().map_or(0, |piece| piece.len()), |_| ());
        for (piece, mut job) in out.pieces.iter_mut().zip(self.at_work.drain(..)) {
            *piece = job.out.take();
            self.jobs.push(job);
        }
        Ok(())
    }

    fn check(&self, rows: &Rows, keys: Keys, out: &Rows) -> Result<(), Fault> {
        let d = self.dim.get();
        let (same, key_length) = match keys {
            Keys::Each(keys) => (keys, keys.dim().get()),
            Keys::One(key) => (rows, key.len()),
        };
        for (what, found) in [("rows", rows.dim().get()), ("keys", key_length), ("out", out.dim().get())] {
            if found != d {
                return Err(Fault::OtherDimension { what, found, wanted: d });
            }
        }
        for (what, found) in [("keys", same.len()), ("out", out.len())] {
            if found != rows.len() {
                return Err(Fault::Shape { what, d, wanted: rows.len(), found: found * d });
            }
        }
        Ok(())
    }

    /// Compares queries (one after the other) with all rows of a store; as [`Store::nearest`].
    pub fn nearest(&mut self, store: &Store, queries: &[f32], best: &mut [Best]) -> Result<(), Fault> {
        store.fits(queries, best.len())?;
        if store.dim() != self.dim {
            let (found, wanted) = (store.dim().get(), self.dim.get());
            return Err(Fault::OtherDimension { what: "the store", found, wanted });
        }
        if best.len() > self.most_queries {
            let (found, most) = (best.len(), self.most_queries);
            return Err(Fault::Range { what: "queries", found, least: 0, most });
        }
        self.take_shared(queries);
        let share = rows_per_piece(store.len());
        self.orders.clear();
        for from in (0..store.len()).step_by(share) {
            let (block, to, queries) = (store.share(), (from + share).min(store.len()), self.shared.clone());
            self.orders.push(Order::Search { block, from, to, queries });
        }
        for place in 0..self.orders.len() {
            let mut job = self.next_job();
            order(&mut job, best);
            job.order = Some(self.orders[place].clone());
            self.at_work.push(job);
        }
        self.run(|_| 0, |job| order(job, best));
        best.iter_mut().for_each(Best::clear);
        for job in self.at_work.drain(..) {
            best.iter_mut().zip(&job.best).for_each(|(all, part)| all.merge(part));
            self.jobs.push(job);
        }
        Ok(())
    }

    fn next_job(&mut self) -> Box<Job> {
        self.jobs.pop().unwrap_or_else(|| unreachable!("there is one for each piece"))
    }

    /// Puts numbers where threads can read them. A thread that is late with an older run keeps its own copy
    /// of what it read; only then is memory taken.
    fn take_shared(&mut self, numbers: &[f32]) {
        if Arc::get_mut(&mut self.shared).is_none() {
            self.shared = Arc::new(Vec::with_capacity(self.shared.capacity()));
        }
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.clear();
            shared.extend_from_slice(numbers);
        }
    }

    /// Has all jobs done. `room(place)`: numbers that a stand-in needs room for.
    fn run(&mut self, room: impl Fn(usize) -> usize, prepare: impl Fn(&mut Job)) {
        let Parallel { pool, at_work, spares, orders, .. } = self;
        pool.strays(|job| spares.push(job));
        pool.run(
            at_work,
            || (),
            |place| {
                let mut job = spares.pop()?;
                // A job that came back late from a search has none: without it the rows would be lost.
                if let Some(out) = Arc::get_mut(job.out.get_or_insert_default()) {
                    out.resize(room(place), 0.0);
                }
                prepare(&mut job);
                job.order = Some(orders[place].clone());
                Some(job)
            },
        );
        orders.clear();
    }
}

/// Gives a job's lists the lengths that are wanted.
fn order(job: &mut Job, best: &[Best]) {
    job.best.iter_mut().zip(best).for_each(|(own, wanted)| *own = Best::of(wanted.wanted()));
}
