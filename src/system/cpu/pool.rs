//! A fixed pool of threads that never waits long for any of them. The caller is one of the threads: it puts
//! the jobs into queues of fixed size, and each thread takes the next job. Nothing is locked or allocated
//! after [`Pool::new`], and the result does not depend on which thread did what. It knows nothing about the
//! field.
//!
//! # The bound
//! A worker on a core that another process uses may be preempted in the middle of a job and resume a whole
//! scheduler slice later, 3 to 4 ms: longer than all jobs together. So the pool does not wait for it. A job
//! reads what it shares and writes only what it owns, so the caller can do it a second time without harm.
//! When no job is left to take and some are outstanding, the caller spins until a timeout: the longest time
//! that one of its own jobs took in this run (or, if it has done none, in the last run in which it did any;
//! at least [`LEAST_TIMEOUT`]). Then it does each late job again itself, as a *stand-in*, at most once per
//! place. So while there are spare jobs, a run takes at most
//!
//! > the time that the caller alone would need + the timeout
//!
//! plus the cost of handing out the jobs (some microseconds to wake a sleeping thread). The late job comes
//! back in a later run, and [`Pool::late_jobs`] returns it. The caller does not yield its core while it
//! waits: that would give a slice to whatever else waits for that core. A worker on the caller's own core
//! therefore gets a stand-in too, within the same bound.
//!
//! # Why no thread waits for one that was preempted inside a queue
//! Each worker returns its jobs through its own single-producer, single-consumer ring buffer (rtrb): if the
//! worker is preempted half-way, a job is merely not visible yet. Jobs go out over channels (crossbeam), of
//! which the pool uses only `try_send` and `try_recv`. Neither locks nor allocates, but a thread that was
//! preempted between claiming a slot and clearing it would block the next sender that needs this slot. Such a
//! thread has not brought its job back. So while a job from more than [`MOST_RUNS_LATE`] runs ago is
//! outstanding, the pool hands out no jobs, and the queues are long enough that the caller does not reach
//! that slot before then.
//!
//! Each thread has its own queue, filled with its share of the places, and takes from the others when its own
//! is empty: on otherwise idle cores, a place stays with one thread and its caches.

mod affinity;
mod worker;

use crate::base::time::{Clock, MonotonicClock, Span};
use crate::system::rt::Refusal;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::time::Duration;
use worker::Worker;

/// The caller's shortest timeout. A thread on another core needs about ten microseconds to wake and take a
/// job, however short the job is.
pub const LEAST_TIMEOUT: Span = Span::from_micros(20);
/// While a job that is more than this many runs old is outstanding, the pool hands out no jobs. A scheduler
/// slice is shorter than this many runs of a large field (0.5 ms each), and the queues still fit into a page
/// or two.
const MOST_RUNS_LATE: usize = 16;
/// How long [`Pool::settle`] sleeps between two checks: short compared with the slice that it waits for.
const SETTLE_CHECK: Duration = Duration::from_micros(200);

/// A job carries its own input and results. A second job with the same input can be done at the same time: a
/// job does not change what it shares, and writes only what it owns.
pub trait PoolJob: Send + 'static {
    /// Does the work.
    fn perform(&mut self);
}

/// A job on its way to a thread or back.
struct Envelope<T> {
    run: u64,
    place: usize,
    job: Box<T>,
}

/// What the caller and all workers share.
#[derive(Default)]
struct Signals {
    /// The pool is being dropped.
    end: AtomicBool,
    /// A worker has panicked.
    panicked: AtomicBool,
    /// The core on which the caller was last seen.
    caller: AtomicUsize,
}

/// Where a thread takes its jobs from: its own queue first, then those of the threads after it, wrapping
/// around.
struct Intake<T>(Vec<Receiver<Envelope<T>>>);

impl<T> Intake<T> {
    fn take(&self) -> Option<Envelope<T>> {
        self.0.iter().find_map(|queue| queue.try_recv().ok())
    }
}

/// The caller's own thread and the workers.
pub struct Pool<T> {
    places: usize,
    workers: Vec<Worker<T>>,
    signals: Arc<Signals>,
    refusals: Vec<(usize, Refusal)>,
    /// One queue for each thread, the caller's first.
    queues: Vec<Sender<Envelope<T>>>,
    intake: Intake<T>,
    /// Jobs that were not handed out; the caller does them.
    kept: Vec<Envelope<T>>,
    /// The jobs of this run that are done, by place.
    finished: Vec<Option<Box<T>>>,
    /// Places of this run without a finished job.
    missing: usize,
    /// The number of this run.
    run: u64,
    /// A run has begun and not ended. Stays true if the run panicked.
    open: bool,
    /// The run number of each job that is still outstanding although its place is finished.
    late: Vec<u64>,
    /// Late jobs that have come back.
    late_jobs: Vec<Box<T>>,
    /// The longest time that one of the caller's jobs took, in the last run in which it did any.
    longest: Span,
    stand_ins: u64,
}

impl<T: PoolJob> Pool<T> {
    /// A pool of `threads` threads including the caller (1..=`places`), for at most `places` jobs per run. If
    /// `cpus` names cores, worker i stays on `cpus[i % len]`; `cpus[0]` is for the caller, which moves there
    /// itself. The pool has fewer threads if the system refuses to start more: the results are the same.
    pub fn new(threads: usize, cpus: &[usize], places: usize) -> Pool<T> {
        let threads = threads.clamp(1, places.max(1));
        let capacity = (MOST_RUNS_LATE + 2) * places.max(1);
        let (queues, ends): (Vec<_>, Vec<_>) = (0..threads).map(|_| bounded(capacity)).unzip();
        let intake =
            |first: usize| Intake((0..threads).map(|n| ends[(first + n) % threads].clone()).collect());
        let signals: Arc<Signals> = Arc::default();
        let mut refusals = Vec::new();
        let workers = (1..threads).map_while(|number| {
            let cpu = (!cpus.is_empty()).then(|| cpus[number % cpus.len()]);
            let (worker, refusal) = Worker::start(number, cpu, intake(number), places, signals.clone())?;
            refusals.extend(refusal.map(|refusal| (number, refusal)));
            Some(worker)
        });
        let workers: Vec<_> = workers.collect();
        let most_late = 2 * workers.len();
        Pool {
            places,
            workers,
            signals,
            refusals,
            queues,
            intake: intake(0),
            kept: Vec::with_capacity(places),
            finished: (0..places).map(|_| None).collect(),
            missing: 0,
            run: 0,
            open: false,
            late: Vec::with_capacity(most_late),
            late_jobs: Vec::with_capacity(most_late),
            longest: Span::ZERO,
            stand_ins: 0,
        }
    }

    /// Performs every job. Afterwards `jobs` has a finished job for each place, in order: the original or its
    /// stand-in.
    ///
    /// The caller calls `own` after it has woken the workers. `stand_in(place)` returns a job with the input
    /// of the late one at `place`; `None`: there is no spare job, and the run waits for the late one.
    ///
    /// # Panics
    /// If a worker has panicked, now or in an earlier run; if there are more jobs than places. After any
    /// panic in a run the pool has lost jobs, and it panics when it is run again.
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
        let timeout = self.perform_own().max(LEAST_TIMEOUT);
        if !self.all_are_back_within(timeout) {
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
        let blocked = self.late.iter().any(|run| run + (MOST_RUNS_LATE as u64) < self.run);
        self.signals.caller.store(rustix::thread::sched_getcpu(), Ordering::Relaxed);
        // The caller's own queue comes last: a worker that is awake should find jobs in its own queue first.
        for thread in (0..threads).rev() {
            let first = (thread * count).div_ceil(threads);
            for (place, job) in (first..).zip(jobs.drain(first..)) {
                let envelope = Envelope { run: self.run, place, job };
                if blocked {
                    self.kept.push(envelope);
                } else if let Err(unsent) = self.queues[thread].try_send(envelope) {
                    self.kept.push(unsent.into_inner());
                }
            }
        }
        if !blocked {
            // The caller's half of the protocol in `WorkerSide::sleep`: send, then fence, then read which
            // workers are asleep.
            fence(Ordering::SeqCst);
            self.workers.iter().take(count).for_each(Worker::wake);
        }
    }

    /// Performs jobs until none is left to take. Returns the longest time that one took, in this run or, if
    /// the caller did none, in the last run in which it did any.
    fn perform_own(&mut self) -> Span {
        let mut is_first = true;
        while let Some(mut envelope) = self.kept.pop().or_else(|| self.intake.take()) {
            let begun = MonotonicClock.now();
            envelope.job.perform();
            let spent = MonotonicClock.now().since(begun);
            self.longest = if is_first { spent } else { self.longest.max(spent) };
            is_first = false;
            self.finish(envelope.place, envelope.job);
        }
        self.longest
    }

    /// Waits for at most `timeout`; returns whether every job has come back.
    fn all_are_back_within(&mut self, timeout: Span) -> bool {
        let begun = MonotonicClock.now();
        loop {
            self.collect();
            if self.missing == 0 {
                return true;
            }
            if MonotonicClock.now().since(begun) > timeout {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// Does the late jobs again, as long as there are spare ones.
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

    /// Takes the jobs that have come back: each goes to its place, or to `late_jobs` if it is from an earlier
    /// run or its place is already finished.
    fn collect(&mut self) {
        for index in 0..self.workers.len() {
            while let Some(envelope) = self.workers[index].returned() {
                if self.open && envelope.run == self.run && self.finished[envelope.place].is_none() {
                    self.finish(envelope.place, envelope.job);
                    continue;
                }
                if let Some(out) = self.late.iter().position(|run| *run == envelope.run) {
                    self.late.swap_remove(out);
                }
                self.late_jobs.push(envelope.job);
            }
        }
        assert!(
            !self.signals.panicked.load(Ordering::Acquire),
            "a worker thread of the field engine has panicked"
        );
    }

    /// Returns the jobs of earlier runs that have come back late since the last call.
    ///
    /// # Panics
    /// If a worker has panicked.
    pub fn late_jobs(&mut self, take: impl FnMut(Box<T>)) {
        self.collect();
        self.late_jobs.drain(..).for_each(take);
    }

    /// Sleeps until no job is outstanding. Takes too long for a field cycle.
    ///
    /// # Panics
    /// If a worker has panicked.
    pub fn settle(&mut self) {
        self.collect();
        while !self.late.is_empty() {
            std::thread::sleep(SETTLE_CHECK);
            self.collect();
        }
    }
}

/// Figures of a pool.
impl<T> Pool<T> {
    /// Number of threads, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// How many spare jobs are enough if the caller takes the returned late jobs before each run. Two for
    /// each worker: it may be late with a job, bring it back during the next run, and be late again in that
    /// run.
    pub fn spares(&self) -> usize {
        2 * self.workers.len()
    }

    /// How many late jobs were still outstanding at the last check: in a run, in [`Pool::late_jobs`] or in
    /// [`Pool::settle`].
    #[cfg(test)]
    pub fn out(&self) -> usize {
        self.late.len()
    }

    /// Jobs that the caller did again because a worker was late, since the start.
    pub fn stand_ins(&self) -> u64 {
        self.stand_ins
    }

    /// Workers (numbered from 1) that were not granted their core.
    pub fn refusals(&self) -> &[(usize, Refusal)] {
        &self.refusals
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        self.signals.end.store(true, Ordering::Release);
        self.workers.iter().for_each(Worker::nudge);
        self.workers.drain(..).for_each(Worker::join);
    }
}

#[cfg(test)]
mod tests;
