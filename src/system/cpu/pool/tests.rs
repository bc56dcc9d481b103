//! The pool, without a field: which thread did what, how often, and on which core. Nothing here depends on
//! how long anything takes, except that a watchdog ends a test that would hang.

use super::*;
use crate::system::rt::Request;
use crate::system::rt::heap::{CountingHeap, allocations_here, allocations_since};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

/// Short runs of a test; few under Miri, which takes milliseconds for one.
const RUNS: usize = if cfg!(miri) { 20 } else { 10_000 };

type Deed = dyn Fn(&Job) + Send + Sync;

/// Does a deed, and notes how often, which thread did it and on which core.
struct Job {
    place: usize,
    deed: Arc<Deed>,
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
        let deed = self.deed.clone();
        deed(self);
        self.times += 1;
        self.by = Some(thread::current().id());
        self.core = if cfg!(miri) { 0 } else { sched_getcpu() };
        if AT_FIRST.get().is_none() {
            AT_FIRST.set(allocations_here());
        }
        self.allocated = allocations_since(AT_FIRST.get());
    }
}

#[expect(clippy::vec_box)] // jobs travel as boxes, whatever their size
fn jobs(count: usize, deed: impl Fn(&Job) + Send + Sync + 'static) -> Vec<Box<Job>> {
    let deed: Arc<Deed> = Arc::new(deed);
    let job = |place| Job { place, deed: deed.clone(), times: 0, by: None, core: 0, allocated: None };
    (0..count).map(|place| Box::new(job(place))).collect()
}

/// As many jobs as threads, each of which waits for all the others: no thread does two.
#[expect(clippy::vec_box)]
fn one_for_each(threads: usize) -> Vec<Box<Job>> {
    let together = Barrier::new(threads);
    jobs(threads, move |_| {
        together.wait();
    })
}

/// Every job is there once, and has been done `times` times.
fn assert_done(all: &[Box<Job>], count: usize, times: usize) {
    let places: BTreeSet<_> = all.iter().map(|job| job.place).collect();
    assert_eq!((all.len(), places), (count, (0..count).collect()));
    assert!(all.iter().all(|job| job.times == times));
}

fn threads_of(jobs: &[Box<Job>]) -> BTreeSet<String> {
    jobs.iter().map(|job| format!("{:?}", job.by)).collect()
}

/// Lets between 0 and 120 us pass, so that runs find the workers awake, falling asleep and asleep.
fn pause(run: usize) {
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_micros((run * 7919 % 121) as u64) {
        std::hint::spin_loop();
    }
}

/// Fails if `body` does not end: a lost wake-up, or a wait for a worker in vain.
fn watched(body: impl FnOnce() + Send + 'static) {
    let (ended, end) = crossbeam_channel::bounded(1);
    let thread = thread::spawn(move || {
        body();
        let _ = ended.send(());
    });
    match end.recv_timeout(Duration::from_secs(120)) {
        Err(crossbeam_channel::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// What `body` says when it panics.
fn panic_of(body: impl FnOnce()) -> &'static str {
    *catch_unwind(AssertUnwindSafe(body)).expect_err("a panic").downcast::<&str>().expect("a text")
}

#[test]
fn jobs_come_back_from_as_many_threads_as_asked() {
    watched(|| {
        for asked in [1, 2, 3, 8, 20] {
            let mut pool = Pool::new(asked, &[], 8);
            let threads = asked.min(8);
            assert_eq!(pool.threads(), threads);
            let mut all = one_for_each(threads);
            for round in 1..=20 {
                let mut own = 0;
                pool.run(&mut all, || own += 1);
                assert_done(&all, threads, round);
                assert_eq!((own, threads_of(&all).len()), (1, threads));
            }
        }
    });
}

#[test]
fn fewer_jobs_than_threads_or_none_are_done_too() {
    watched(|| {
        let mut pool = Pool::new(3, &[], 8);
        for count in [0, 1, 2, 8, 0, 5] {
            let mut all = jobs(count, |_| {});
            let mut own = 0;
            pool.run(&mut all, || own += 1);
            assert_done(&all, count, 1);
            assert_eq!(own, 1);
        }
    });
}

#[test]
fn a_worker_is_waited_for_and_the_caller_does_the_rest() {
    watched(|| {
        let mut pool = Pool::new(2, &[], 4);
        let caller = thread::current().id();
        let (come, rest) = (Barrier::new(2), AtomicUsize::new(0));
        let come = Arc::new(come);
        let at = come.clone();
        // The worker keeps its job until the caller has done the other three.
        let mut all = jobs(4, move |_| {
            if thread::current().id() == caller {
                rest.fetch_add(1, Ordering::SeqCst);
                return;
            }
            at.wait();
            while rest.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
        });
        pool.run(&mut all, || _ = come.wait());
        assert_done(&all, 4, 1);
        assert_eq!(all.iter().filter(|job| job.by == Some(caller)).count(), 3);
    });
}

#[test]
fn a_worker_that_panics_is_reported_and_no_run_waits_for_it() {
    watched(|| {
        let mut pool = Pool::new(2, &[], 2);
        let caller = thread::current().id();
        let come = Arc::new(Barrier::new(2));
        let at = come.clone();
        let mut all = jobs(2, move |_| {
            if thread::current().id() != caller {
                at.wait();
                panic!("unlucky");
            }
        });
        let own = || _ = come.wait();
        assert_eq!(panic_of(|| pool.run(&mut all, own)), "a worker thread of the field engine has panicked");
        let mut others = jobs(2, |_| {});
        assert!(panic_of(|| pool.run(&mut others, || {})).contains("earlier run"));
    });
}

#[test]
fn after_a_panic_of_the_caller_the_pool_is_not_used_again() {
    watched(|| {
        let mut pool = Pool::new(2, &[], 2);
        let done = Arc::new(AtomicUsize::new(0));
        let count = done.clone();
        let mut all = jobs(1, move |_| _ = count.fetch_add(1, Ordering::SeqCst));
        // The worker has done all there was, and its job must not be taken for one of the next run.
        let own = || {
            while done.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            panic!("own");
        };
        assert_eq!(panic_of(|| pool.run(&mut all, own)), "own");
        let mut others = jobs(1, |_| {});
        assert!(panic_of(|| pool.run(&mut others, || {})).contains("earlier run"));
    });
}

/// Counts when it is dropped: with the thread that keeps it.
struct Farewell(Arc<AtomicUsize>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn no_thread_outlives_its_pool() {
    watched(|| {
        let gone = Arc::new(AtomicUsize::new(0));
        let mut pool = Pool::new(4, &[], 4);
        let (together, kept) = (Barrier::new(4), gone.clone());
        let mut all = jobs(4, move |_| {
            KEPT.with_borrow_mut(|mine| _ = mine.get_or_insert_with(|| Farewell(kept.clone())));
            together.wait();
        });
        (0..3).for_each(|_| pool.run(&mut all, || {}));
        assert_eq!(gone.load(Ordering::SeqCst), 0, "the same threads serve every run");
        drop(pool);
        assert_eq!(gone.load(Ordering::SeqCst), 3, "the caller is the fourth and stays");
        KEPT.take();
    });
}

#[test]
fn no_wake_up_is_lost_in_ten_thousand_runs() {
    // Each job waits for all the others, so a run ends only if every worker has come.
    for threads in [2, 3] {
        watched(move || {
            let mut pool = Pool::new(threads, &[], threads);
            let mut all = one_for_each(threads);
            for run in 1..=RUNS {
                pool.run(&mut all, || {});
                pause(run);
            }
            assert_done(&all, threads, RUNS);
            assert_eq!(threads_of(&all).len(), threads);
        });
    }
}

#[test]
fn every_job_is_done_once_a_run_in_ten_thousand_runs() {
    for threads in [1, 2, 3] {
        watched(move || {
            let mut pool = Pool::new(threads, &[], 8);
            let mut all = jobs(8, |_| {});
            for run in 1..=RUNS {
                pool.run(&mut all, || {});
                assert_done(&all, 8, run);
                pause(run);
            }
        });
    }
}

#[test]
fn nothing_is_allocated_after_the_first_run() {
    for threads in [1, 2, 3] {
        watched(move || {
            let mut pool = Pool::new(threads, &[], threads);
            let mut all = one_for_each(threads);
            pool.run(&mut all, || {});
            let before = allocations_here();
            for run in 0..RUNS / 10 {
                pool.run(&mut all, || {});
                pause(run); // so that they sleep and are woken
            }
            assert_eq!(allocations_since(before), Some(0), "the caller of {threads}");
            // Every thread has done one job in each run.
            assert_eq!(threads_of(&all).len(), threads);
            assert!(all.iter().all(|job| job.allocated == Some(0)), "{threads} threads");
        });
    }
}

/// The cores of this process.
fn cores() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

#[test]
fn workers_run_on_the_cores_they_were_given() {
    if cfg!(miri) {
        return; // it has no cores
    }
    watched(|| {
        let cores = cores();
        // The last first: no thread is there by chance.
        let cpus: Vec<_> = cores.iter().rev().copied().collect();
        let mut pool = Pool::new(3, &cpus, 3);
        assert!(pool.refusals().is_empty());
        let caller = thread::current().id();
        let mut all = one_for_each(3);
        for _ in 0..20 {
            pool.run(&mut all, || {});
            let workers = all.iter().filter(|job| job.by != Some(caller));
            let mut ran: Vec<_> = workers.map(|job| job.core).collect();
            let mut expected = [cpus[1 % cpus.len()], cpus[2 % cpus.len()]];
            ran.sort();
            expected.sort();
            assert_eq!(ran, expected);
        }
        assert_eq!(self::cores(), cores, "the caller stays where it may");
    });
}

#[test]
fn a_core_that_is_not_there_is_refused_and_the_worker_works_all_the_same() {
    if cfg!(miri) {
        return;
    }
    watched(|| {
        let cores = cores();
        let mut pool = Pool::new(3, &[cores[0], CpuSet::MAX_CPU, cores[0]], 3);
        let refused: Vec<_> =
            pool.refusals().iter().map(|(worker, refusal)| (*worker, refusal.what)).collect();
        assert_eq!(refused, [(1, Request::FieldCore(CpuSet::MAX_CPU))]);
        let mut all = one_for_each(3);
        pool.run(&mut all, || {});
        assert_done(&all, 3, 1);
    });
}
