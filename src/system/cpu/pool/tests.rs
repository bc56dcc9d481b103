//! The pool, without a field: which thread did what, how often, and what came back. A test holds a worker up
//! at a gate, then opens the gate. Nothing here depends on how long anything takes, except that a watchdog
//! ends a test that would hang.

mod late;
mod long;

use super::*;
use crate::system::rt::Request;
use crate::system::rt::heap::{CountingHeap, allocations_here, allocations_since};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::{Barrier, Condvar, Mutex};
use std::thread::{self, ThreadId};

#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

type Action = dyn Fn(&Job) + Send + Sync;

/// Runs its action and squares its place; records which thread did that, how often, and on which core.
struct Job {
    id: usize,
    place: usize,
    action: Arc<Action>,
    square: Option<usize>,
    times: usize,
    by: Option<ThreadId>,
    core: usize,
    /// Allocations of its thread since that thread's first job.
    allocated: Option<u64>,
}

thread_local! {
    static AT_FIRST: Cell<Option<u64>> = const { Cell::new(None) };
    static KEPT: RefCell<Option<Farewell>> = const { RefCell::new(None) };
}

impl PoolJob for Job {
    fn perform(&mut self) {
        let action = self.action.clone();
        action(self);
        self.square = Some(self.place * self.place);
        self.times += 1;
        self.by = Some(thread::current().id());
        self.core = if cfg!(miri) { 0 } else { sched_getcpu() };
        if AT_FIRST.get().is_none() {
            AT_FIRST.set(allocations_here());
        }
        self.allocated = allocations_since(AT_FIRST.get());
    }
}

fn job(id: usize, place: usize, action: &Arc<Action>) -> Box<Job> {
    let action = action.clone();
    Box::new(Job { id, place, action, square: None, times: 0, by: None, core: 0, allocated: None })
}

#[expect(clippy::vec_box)] // jobs travel as boxes, whatever their size
fn jobs(count: usize, action: impl Fn(&Job) + Send + Sync + 'static) -> Vec<Box<Job>> {
    let action: Arc<Action> = Arc::new(action);
    (0..count).map(|place| job(place, place, &action)).collect()
}

/// Every place has a finished job, in order.
fn assert_squares(jobs: &[Box<Job>]) {
    for (place, job) in jobs.iter().enumerate() {
        assert_eq!((job.place, job.square), (place, Some(place * place)));
    }
}

fn threads_of(jobs: &[Box<Job>]) -> BTreeSet<String> {
    jobs.iter().map(|job| format!("{:?}", job.by)).collect()
}

fn no_spare(_: usize) -> Option<Box<Job>> {
    None
}

/// Waits until all the threads that `together` expects have arrived.
fn meet(together: &Barrier) {
    together.wait();
}

/// Holds up every thread but its maker until it is opened.
struct Gate {
    maker: ThreadId,
    /// How many threads have arrived, and whether it is open.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

/// The maker's end of a gate. It opens the gate when it is dropped, so that the pool of a failed test can
/// end.
struct Keeper(Arc<Gate>);

impl Keeper {
    fn new() -> Keeper {
        let state = Mutex::new((0, false));
        Keeper(Arc::new(Gate { maker: thread::current().id(), state, changed: Condvar::new() }))
    }
}

impl std::ops::Deref for Keeper {
    type Target = Arc<Gate>;
    fn deref(&self) -> &Arc<Gate> {
        &self.0
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl Gate {
    fn pass(&self) {
        if thread::current().id() == self.maker {
            return;
        }
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| !state.1).unwrap());
    }
    /// Waits until `count` threads have arrived.
    fn await_arrivals(&self, count: usize) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.0 < count).unwrap());
    }
    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// Fails if `body` does not end: a lost wake-up, or an endless wait for a worker.
fn watched(body: impl FnOnce() + Send + 'static) {
    let (ended, end) = bounded(1);
    let thread = thread::spawn(move || {
        body();
        let _ = ended.send(());
    });
    match end.recv_timeout(Duration::from_secs(120)) {
        Err(crossbeam_channel::RecvTimeoutError::Timeout) => panic!("the test hangs"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

#[test]
fn jobs_come_back_in_order_from_as_many_threads_as_asked() {
    watched(|| {
        for asked in [1, 2, 3, 8, 20] {
            let mut pool = Pool::new(asked, &[], 8);
            let threads = asked.min(8);
            assert_eq!((pool.threads(), pool.spares()), (threads, 2 * (threads - 1)));
            // As many jobs as threads, and each waits for all the others: no thread does two.
            let together = Barrier::new(threads);
            let mut all = jobs(threads, move |_| meet(&together));
            for round in 1..=20 {
                let mut own = 0;
                pool.run(&mut all, || own += 1, no_spare);
                assert_squares(&all);
                assert!(own == 1 && all.iter().all(|job| job.times == round && job.id == job.place));
                assert_eq!(threads_of(&all).len(), threads);
            }
            assert_eq!((pool.stand_ins(), pool.out()), (0, 0));
        }
    });
}

#[test]
fn fewer_jobs_than_threads_and_none_work() {
    watched(|| {
        let mut pool = Pool::new(3, &[], 8);
        for count in [0, 1, 2, 8, 0, 5] {
            let mut all = jobs(count, |_| {});
            pool.run(&mut all, || {}, no_spare);
            assert_squares(&all);
            assert!(all.len() == count && all.iter().all(|job| job.times == 1));
        }
    });
}

#[test]
fn job_positions_stay_with_their_thread() {
    watched(|| {
        let mut pool = Pool::new(2, &[], 8);
        let (caller, gate) = (thread::current().id(), Keeper::new());
        let done = Arc::new(AtomicUsize::new(0));
        let (at, count) = (gate.clone(), done.clone());
        let mut all = jobs(8, move |job| {
            // The worker's last job waits until the caller has done all of its own half.
            if job.place == 7 {
                at.pass();
            }
            if job.place < 4 && count.fetch_add(1, Ordering::SeqCst) == 3 {
                at.open();
                at.await_arrivals(1);
            }
        });
        // A worker that is awake could find its own queue empty just before it is filled, and then take a job
        // from the caller's queue.
        while !pool.workers[0].is_asleep() {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(5));
        pool.run(&mut all, || gate.await_arrivals(1), no_spare);
        assert!(all[..4].iter().all(|job| job.by == Some(caller)));
        assert!(all[7].by != Some(caller), "the worker begins with its own half");
    });
}

#[test]
fn a_worker_that_panics_is_reported_and_no_run_waits_for_it() {
    watched(|| {
        let mut pool = Pool::new(2, &[], 2);
        let (caller, gate) = (thread::current().id(), Keeper::new());
        let at = gate.clone();
        let mut all = jobs(2, move |_| {
            at.pass();
            assert!(thread::current().id() == caller, "unlucky");
        });
        let none = |_| {
            gate.open();
            None
        };
        let own = || gate.await_arrivals(1);
        let outcome = catch_unwind(AssertUnwindSafe(|| pool.run(&mut all, own, none)));
        let said = *outcome.unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(said, "a worker thread of the field engine has panicked");
        let mut others = jobs(2, |_| {});
        assert!(catch_unwind(AssertUnwindSafe(|| pool.run(&mut others, || {}, no_spare))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| pool.settle())).is_err());
        drop(pool);
    });
}

#[test]
fn after_a_panic_of_the_caller_the_pool_is_not_used_again() {
    watched(|| {
        let mut pool = Pool::new(2, &[], 2);
        let mut all = jobs(2, |_| {});
        let outcome = catch_unwind(AssertUnwindSafe(|| pool.run(&mut all, || panic!("own"), no_spare)));
        assert!(outcome.is_err());
        let mut others = jobs(2, |_| {});
        let again = catch_unwind(AssertUnwindSafe(|| pool.run(&mut others, || {}, no_spare)));
        assert!(again.unwrap_err().downcast::<&str>().unwrap().contains("earlier run"));
        drop(pool);
    });
}

/// Counts its drop, which comes when the thread that holds it ends.
struct Farewell(Arc<AtomicUsize>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn stay(gone: &Arc<AtomicUsize>) {
    KEPT.with_borrow_mut(|kept| {
        kept.get_or_insert_with(|| Farewell(gone.clone()));
    });
}

#[test]
fn no_thread_outlives_its_pool() {
    watched(|| {
        let gone = Arc::new(AtomicUsize::new(0));
        let mut pool = Pool::new(4, &[], 4);
        let (together, kept) = (Barrier::new(4), gone.clone());
        let mut all = jobs(4, move |_| {
            stay(&kept);
            together.wait();
        });
        (0..3).for_each(|_| pool.run(&mut all, || {}, no_spare));
        assert_eq!(gone.load(Ordering::SeqCst), 0, "the same threads serve every run");
        drop(pool);
        assert_eq!(gone.load(Ordering::SeqCst), 3, "the caller is the fourth and stays");
        KEPT.take();
    });
}

#[test]
fn a_pool_ends_while_a_late_job_is_running() {
    watched(|| {
        let gone = Arc::new(AtomicUsize::new(0));
        let mut pool = Pool::new(2, &[], 2);
        let (gate, kept) = (Keeper::new(), gone.clone());
        let at = gate.clone();
        let mut all = jobs(2, move |_| {
            stay(&kept);
            at.pass();
        });
        let action = all[0].action.clone();
        pool.run(&mut all, || gate.await_arrivals(1), |place| Some(job(100, place, &action)));
        assert_eq!(pool.out(), 1);
        let opener = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20)); // by then the pool waits for its worker
            gate.open();
        });
        drop(pool);
        assert_eq!(gone.load(Ordering::SeqCst), 1);
        opener.join().unwrap();
        drop(all);
        assert_eq!(Arc::strong_count(&action), 1, "the late job ended with the pool");
        KEPT.take();
    });
}
