//! A fixed pool of threads that never waits long for one of them. Jobs go out over queues of fixed size, each
//! thread takes the next, and the caller is one of the threads. Nothing is locked or allocated after
//! [`Pool::new`], and the result does not depend on which thread did what. Knows no field.
//!
//! # The bound
//! A thread on a core that another process uses may be preempted in the middle of a job and come back a whole
//! scheduler slice later, 3 to 4 ms: longer than all jobs together. So the pool does not wait for such a
//! thread. A job reads what it shares and writes what it owns, so it can be done twice without harm. When no
//! job is left to take and one is still out, the caller spins for its *patience*: the longest time that one
//! of its own jobs took in this run (or in the previous run, if it has done none; at least
//! [`LEAST_PATIENCE`]). Then it does the late jobs again itself, as *stand-ins*. It does each place at most
//! once, so while there are spares a run takes at most
//!
//! > what the caller alone would need + patience
//!
//! plus the cost of handing out (some microseconds to wake a sleeper). A late original becomes a *stray*: it
//! comes back in a later run and [`Pool::strays`] returns it. The caller does not yield its core while it
//! waits: that would give a slice to whatever waits for the core. A worker on the caller's own core therefore
//! gets a stand-in, within the same bound.
//!
//! # Why no thread waits for one that was preempted inside a queue
//! The way back is a ring buffer with one writer and one reader for each worker (rtrb), where the item of a
//! writer that was preempted half-way is only not visible yet. The way out is a channel (crossbeam), of which
//! only `try_send` and `try_recv` are used. They neither lock nor allocate, but a taker that was preempted
//! between claiming a slot and clearing it would block the next user of that slot. Such a taker has not
//! brought its job back. So while a job is out from more than [`LAPS`] runs ago nothing is handed out, and
//! the queues are long enough that no thread reaches that slot earlier.
//!
//! Each thread has its own queue, filled with its share of the places in a row, and takes from the others
//! when its own is empty: on quiet cores a place stays with one thread and its caches.

mod affinity;
mod worker;

use crate::rt::Refusal;
use crate::time::{Clock, MonotonicClock, Span};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::time::Duration;
use worker::Worker;

/// The caller's minimum patience: waking a thread on another core and having it take a job costs some ten
/// microseconds, and a shorter job is no reason to wait less.
pub const LEAST_PATIENCE: Span = Span::from_micros(20);
/// Runs after which a job that is still out stops the handing out: a slice of the scheduler is
/// less than this many runs of a large field (0.5 ms each), and the queues stay below a page or two.
const LAPS: usize = 16;
/// How long [`Pool::settle`] sleeps between two checks: short compared with the slice that it waits for.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Something that carries its own orders and results and can be done twice without harm: it reads
/// what it shares immutably and writes only what it owns.
pub trait PoolJob: Send + 'static {
    /// Does what was ordered.
    fn perform(&mut self);
}

/// A job on its way.
struct Sheet<T> {
    run: u64,
    place: usize,
    job: Box<T>,
}

/// What the caller and all workers share.
#[derive(Default)]
struct Notice {
    /// The pool is being dropped.
    end: AtomicBool,
    /// A worker has panicked.
    panicked: AtomicBool,
    /// The core on which the caller was last seen.
    caller: AtomicUsize,
}

/// Where a thread takes its jobs from: its own queue first, then the next one's, and so on round.
struct Intake<T>(Vec<Receiver<Sheet<T>>>);

impl<T> Intake<T> {
    fn take(&self) -> Option<Sheet<T>> {
        self.0.iter().find_map(|queue| queue.try_recv().ok())
    }
}

/// The caller's own thread and the workers beside it.
pub struct Pool<T> {
    places: usize,
    workers: Vec<Worker<T>>,
    notice: Arc<Notice>,
    refusals: Vec<(usize, Refusal)>,
    /// One for each thread, the caller's first.
    queues: Vec<Sender<Sheet<T>>>,
    intake: Intake<T>,
    /// Jobs that fitted no queue; the caller does them.
    kept: Vec<Sheet<T>>,
    /// By place, in this run.
    finished: Vec<Option<Box<T>>>,
    missing: usize,
    run: u64,
    /// Between the beginning and the end of a run; left so by a run that panicked.
    open: bool,
    /// The run of each job that is out although its place is finished.
    late: Vec<u64>,
    strays: Vec<Box<T>>,
    longest: Span,
    stand_ins: u64,
}

impl<T: PoolJob> Pool<T> {
    /// A pool of `threads`, the caller being one (1..=`places`), for at most `places` jobs a run.
    /// Worker i stays on `cpus[i % len]` if there are any; `cpus[0]` is for the caller, which goes
    /// there by itself. Fewer threads where the system starts no more: the work is the same.
    pub fn new(threads: usize, cpus: &[usize], places: usize) -> Pool<T> {
        let threads = threads.clamp(1, places.max(1));
        let capacity = (LAPS + 2) * places.max(1);
        let (queues, ends): (Vec<_>, Vec<_>) = (0..threads).map(|_| bounded(capacity)).unzip();
        let intake =
            |first: usize| Intake((0..threads).map(|n| ends[(first + n) % threads].clone()).collect());
        let notice: Arc<Notice> = Arc::default();
        let mut refusals = Vec::new();
        let workers = (1..threads).map_while(|number| {
            let cpu = (!cpus.is_empty()).then(|| cpus[number % cpus.len()]);
            let (worker, refusal) = Worker::start(number, cpu, intake(number), places, notice.clone())?;
            refusals.extend(refusal.map(|refusal| (number, refusal)));
            Some(worker)
        });
        let workers: Vec<_> = workers.collect();
        let most_late = 2 * workers.len();
        Pool {
            places,
            workers,
            notice,
            refusals,
            queues,
            intake: intake(0),
            kept: Vec::with_capacity(places),
            finished: (0..places).map(|_| None).collect(),
            missing: 0,
            run: 0,
            open: false,
            late: Vec::with_capacity(most_late),
            strays: Vec::with_capacity(most_late),
            longest: Span::ZERO,
            stand_ins: 0,
        }
    }

    /// Performs every job. Afterwards `jobs` has one done per place, in order: the original or its stand-in.
    ///
    /// The caller does `own` while the workers have begun already. `stand_in(place)` returns a job
    /// equal to the late one at `place`; `None`: there is no spare, and the run waits for it.
    ///
    /// # Panics
    /// If a worker has panicked, now or in an earlier run; if there are more jobs than places.
    /// A pool whose run has panicked, wherever, has lost jobs and panics when it is run again.
    pub fn run(
        &mut self,
        jobs: &mut Vec<Box<T>>,
        own: impl FnOnce(),
        stand_in: impl FnMut(usize) -> Option<Box<T>>,
    ) {
        if self.workers.is_empty() {
            own();
            return jobs.iter_mut().for_each(|job| job.perform());
        }
        let count = jobs.len();
        self.begin(count);
        self.hand_out(jobs);
        own();
        let patience = self.perform_own().max(LEAST_PATIENCE);
        if !self.all_are_back_within(patience) {
            self.stand_in(count, stand_in);
        }
        while self.missing > 0 {
            std::thread::yield_now();
            self.collect();
        }
        self.open = false;
        jobs.extend(self.finished[..count].iter_mut().filter_map(Option::take));
    }

    fn begin(&mut self, count: usize) {
        assert!(!self.open, "an earlier run of the field engine's threads has panicked");
        assert!(count <= self.places, "{count} jobs for {} places", self.places);
        self.collect();
        self.open = true;
        self.run += 1;
        self.missing = count;
    }

    fn hand_out(&mut self, jobs: &mut Vec<Box<T>>) {
        let (count, threads) = (jobs.len(), self.queues.len());
        let blocked = self.late.iter().any(|run| run + (LAPS as u64) < self.run);
        self.notice.caller.store(rustix::thread::sched_getcpu(), Ordering::Relaxed);
        // The caller's own queue last: a worker that is awake has to find its own filled first.
        for thread in (0..threads).rev() {
            let first = (thread * count).div_ceil(threads);
            for (place, job) in (first..).zip(jobs.drain(first..)) {
                let sheet = Sheet { run: self.run, place, job };
                if blocked {
                    self.kept.push(sheet);
                } else if let Err(unsent) = self.queues[thread].try_send(sheet) {
                    self.kept.push(unsent.into_inner());
                }
            }
        }
        if !blocked {
            // The other half of the promise in `Hand::sleep`: send, then fence, then read who sleeps.
            fence(Ordering::SeqCst);
            self.workers.iter().take(count).for_each(Worker::wake);
        }
    }

    /// The caller's part of the jobs. Returns the longest time that one took.
    fn perform_own(&mut self) -> Span {
        let mut is_first = true;
        while let Some(mut sheet) = self.kept.pop().or_else(|| self.intake.take()) {
            let begun = MonotonicClock.now();
            sheet.job.perform();
            let spent = MonotonicClock.now().since(begun);
            self.longest = if is_first { spent } else { self.longest.max(spent) };
            is_first = false;
            self.finish(sheet.place, sheet.job);
        }
        self.longest
    }

    fn all_are_back_within(&mut self, patience: Span) -> bool {
        let begun = MonotonicClock.now();
        loop {
            self.collect();
            if self.missing == 0 {
                return true;
            }
            if MonotonicClock.now().since(begun) > patience {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// Does the late ones again, as far as there are spares.
    fn stand_in(&mut self, count: usize, mut spare: impl FnMut(usize) -> Option<Box<T>>) {
        for place in 0..count {
            self.collect();
            if self.finished[place].is_none()
                && let Some(mut job) = spare(place)
            {
                job.perform();
                self.late.push(self.run);
                self.finish(place, job);
                self.stand_ins += 1;
            }
        }
    }

    fn finish(&mut self, place: usize, job: Box<T>) {
        self.finished[place] = Some(job);
        self.missing -= 1;
    }

    /// Takes what has come back: to its place, or to the strays if that place is finished.
    fn collect(&mut self) {
        for index in 0..self.workers.len() {
            while let Some(sheet) = self.workers[index].returned() {
                if self.open && sheet.run == self.run && self.finished[sheet.place].is_none() {
                    self.finish(sheet.place, sheet.job);
                    continue;
                }
                if let Some(out) = self.late.iter().position(|run| *run == sheet.run) {
                    self.late.swap_remove(out);
                }
                self.strays.push(sheet.job);
            }
        }
        assert!(
            !self.notice.panicked.load(Ordering::Acquire),
            "a worker thread of the field engine has panicked"
        );
    }

    /// Returns the jobs of earlier runs that have come back late since the last call.
    ///
    /// # Panics
    /// If a worker has panicked.
    pub fn strays(&mut self, take: impl FnMut(Box<T>)) {
        self.collect();
        self.strays.drain(..).for_each(take);
    }

    /// Sleeps until none is out. Not for a cycle.
    ///
    /// # Panics
    /// If a worker has panicked.
    pub fn settle(&mut self) {
        self.collect();
        while !self.late.is_empty() {
            std::thread::sleep(LOOK_EVERY);
            self.collect();
        }
    }
}

/// Figures of a pool.
impl<T> Pool<T> {
    /// Threads at work, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// How many spares are enough never to wait, if the caller takes strays before each run: a worker
    /// may be late with a job, bring it back during the next run, and be late again in that one.
    pub fn spares(&self) -> usize {
        2 * self.workers.len()
    }

    /// How many jobs of earlier runs were still out at the last check: at the beginning of a run, in
    /// [`Pool::strays`] or in [`Pool::settle`].
    #[cfg(test)]
    pub fn out(&self) -> usize {
        self.late.len()
    }

    /// Jobs done again because a worker was late, since the start.
    pub fn stand_ins(&self) -> u64 {
        self.stand_ins
    }

    /// Workers, from 1, that were not granted their core.
    pub fn refusals(&self) -> &[(usize, Refusal)] {
        &self.refusals
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        self.notice.end.store(true, Ordering::Release);
        self.workers.iter().for_each(Worker::nudge);
        self.workers.drain(..).for_each(Worker::join);
    }
}

#[cfg(test)]
mod tests;
