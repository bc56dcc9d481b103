//! A fixed pool of threads. The caller and its workers take jobs from one queue until it is empty; then the
//! caller waits for the jobs that workers have in hand. Nothing is allocated after [`Pool::new`], and the
//! result does not depend on which thread did what. Knows no field.
//!
//! A worker on a core that another process uses may lose that core in the middle of a job for a slice of the
//! scheduler, 3 to 4 ms, and the run takes that much longer. The tick does not wait for a run, and the budget
//! lowers the quality where runs are often late.
//!
//! The queue is behind a mutex, which a thread holds for as long as it takes to move a pointer. The caller is
//! the field's thread, which is no real-time thread.

use crate::system::rt::{Refusal, stay_on, touch_stack};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Something that carries its own orders and results.
pub trait PoolJob: Send + 'static {
    /// Does what was ordered.
    fn perform(&mut self);
}

/// What the caller and all workers share.
struct Shared<T> {
    queue: Mutex<Queue<T>>,
    /// Jobs have arrived, or the pool ends. Workers wait for it.
    arrived: Condvar,
    /// The last job is done, or a worker has panicked. The caller waits for it.
    finished: Condvar,
}

struct Queue<T> {
    waiting: VecDeque<Box<T>>,
    done: Vec<Box<T>>,
    /// Jobs that are not done yet: those that wait, and those in hand.
    missing: usize,
    /// A worker has panicked.
    panicked: bool,
    /// The pool is being dropped.
    end: bool,
}

impl<T> Shared<T> {
    /// The queue; no thread panics while it holds it.
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: PoolJob> Shared<T> {
    /// A worker's life: until the pool is dropped, or a job panics.
    fn serve(&self) {
        loop {
            let Some(mut job) = self.next() else { return };
            // What a panic leaves half-done is never seen again: that makes the assertion true.
            let performed = catch_unwind(AssertUnwindSafe(|| job.perform()));
            let mut queue = self.lock();
            match performed {
                Ok(()) => queue.put(job),
                Err(_) => queue.panicked = true,
            }
            if queue.is_over() {
                self.finished.notify_one();
            }
            if queue.panicked {
                return;
            }
        }
    }

    /// A worker's next job; `None` at the end.
    fn next(&self) -> Option<Box<T>> {
        let idle = |queue: &mut Queue<T>| queue.waiting.is_empty() && !queue.end;
        let queue = self.arrived.wait_while(self.lock(), idle);
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        if queue.end { None } else { queue.waiting.pop_front() }
    }
}

impl<T> Queue<T> {
    fn put(&mut self, job: Box<T>) {
        self.done.push(job);
        self.missing -= 1;
    }
    fn is_over(&self) -> bool {
        self.missing == 0 || self.panicked
    }
}

/// The caller's own thread and the workers beside it.
pub struct Pool<T> {
    shared: Arc<Shared<T>>,
    workers: Vec<JoinHandle<()>>,
    refusals: Vec<(usize, Refusal)>,
}

impl<T: PoolJob> Pool<T> {
    /// A pool of `threads`, the caller being one (1..=`most_jobs`), for at most `most_jobs` jobs a run.
    /// Worker i stays on `cpus[i % len]` if there are any; `cpus[0]` is for the caller, which goes
    /// there by itself. Fewer threads where the system starts no more: the work is the same.
    pub fn new(threads: usize, cpus: &[usize], most_jobs: usize) -> Pool<T> {
        let (waiting, done) = (VecDeque::with_capacity(most_jobs), Vec::with_capacity(most_jobs));
        let queue = Mutex::new(Queue { waiting, done, missing: 0, panicked: false, end: false });
        let shared = Arc::new(Shared { queue, arrived: Condvar::new(), finished: Condvar::new() });
        let mut pool = Pool { shared, workers: Vec::new(), refusals: Vec::new() };
        for number in 1..threads.clamp(1, most_jobs.max(1)) {
            let cpu = (!cpus.is_empty()).then(|| cpus[number % cpus.len()]);
            if pool.start(number, cpu).is_err() {
                break;
            }
        }
        pool
    }

    /// Starts worker `number`, on `cpu` if one is given, and waits for the system's answer.
    fn start(&mut self, number: usize, cpu: Option<usize>) -> std::io::Result<()> {
        let shared = self.shared.clone();
        let (answer, answered) = crossbeam_channel::bounded(1);
        let thread = std::thread::Builder::new().name(format!("field-{number}"));
        self.workers.push(thread.spawn(move || {
            touch_stack();
            let _ = answer.send(cpu.and_then(|cpu| stay_on(cpu).err()));
            drop(answer);
            shared.serve();
        })?);
        let refusal = answered.recv().ok().flatten();
        self.refusals.extend(refusal.map(|refusal| (number, refusal)));
        Ok(())
    }

    /// Performs every job, the first ones first; afterwards `jobs` has them in any order. The caller does
    /// `own` while the workers have begun already.
    ///
    /// # Panics
    /// If a worker has panicked, now or in an earlier run. A pool whose run has panicked, wherever, has lost
    /// jobs and panics when it is run again.
    pub fn run(&mut self, jobs: &mut Vec<Box<T>>, own: impl FnOnce()) {
        let mut queue = self.shared.lock();
        let whole = queue.missing == 0 && queue.done.is_empty();
        if whole {
            queue.missing = jobs.len();
            queue.waiting.extend(jobs.drain(..));
        }
        drop(queue);
        assert!(whole, "an earlier run of the field engine's threads has panicked");
        self.shared.arrived.notify_all();
        own();
        let mut queue = self.shared.lock();
        while let Some(mut job) = queue.waiting.pop_front() {
            drop(queue);
            job.perform();
            queue = self.shared.lock();
            queue.put(job);
        }
        let queue = self.shared.finished.wait_while(queue, |queue| !queue.is_over());
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        jobs.append(&mut queue.done);
        let panicked = queue.panicked;
        drop(queue);
        assert!(!panicked, "a worker thread of the field engine has panicked");
    }
}

impl<T> Pool<T> {
    /// Threads at work, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Workers, from 1, that were not granted their core.
    pub fn refusals(&self) -> &[(usize, Refusal)] {
        &self.refusals
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        self.shared.lock().end = true;
        self.shared.arrived.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join(); // it catches and reports its own panics
        }
    }
}

#[cfg(test)]
mod tests;
