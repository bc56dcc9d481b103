//! Many short runs: no wake-up is lost, no job is lost or done twice, nothing is allocated. Also checks which
//! cores the threads run on.

use super::*;
use crate::long::or_in_full;

/// Number of short runs in each test; few under Miri, which takes milliseconds for each.
const RUNS: usize = if cfg!(miri) { 20 } else { 10_000 };

/// Lets between 0 and 120 us pass, so that runs find the workers awake, falling asleep and asleep.
fn pause(run: usize) {
    let until = MonotonicClock.now() + Span::from_micros((run * 7919 % 121) as u64);
    while MonotonicClock.now() < until {
        std::hint::spin_loop();
    }
}

#[test]
fn no_wake_up_is_lost() {
    // Each job waits for all the others, so a run ends only if every worker has arrived. On busy cores each
    // run waits for the scheduler, so ten thousand take long.
    let runs = or_in_full(RUNS / 5, RUNS);
    for threads in [2, 3] {
        watched(move || {
            let mut pool = Pool::new(threads, &[], threads);
            let together = Barrier::new(threads);
            let mut all = jobs(threads, move |_| meet(&together));
            for run in 1..=runs {
                pool.run(&mut all, || {}, no_spare);
                assert!(all.iter().all(|job| job.times == run));
                pause(run);
            }
            assert_eq!(threads_of(&all).len(), threads);
        });
    }
}

fn note(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::SeqCst);
}

/// Runs as an engine does: late jobs that came back become spare jobs.
#[expect(clippy::vec_box)] // as `jobs`
fn circulate(pool: &mut Pool<Job>, all: &mut Vec<Box<Job>>, spares: &mut Vec<Box<Job>>, runs: usize) {
    for run in 0..runs {
        pool.late_jobs(|job| spares.push(job));
        all.iter_mut().for_each(|job| job.square = None);
        pool.run(
            all,
            || {},
            |place| {
                let mut spare = spares.pop().expect("as many as `Pool::spares` returns are enough");
                (spare.place, spare.square) = (place, None);
                Some(spare)
            },
        );
        assert_squares(all);
        pause(run);
    }
}

#[test]
fn every_job_is_done_once_in_ten_thousand_runs() {
    for threads in [1, 2, 3] {
        watched(move || {
            let mut pool = Pool::new(threads, &[], 8);
            let done = Arc::new(AtomicUsize::new(0));
            let count = done.clone();
            let mut all = jobs(8, move |_| note(&count));
            let action = all[0].action.clone();
            let mut spares: Vec<_> = (0..pool.spares()).map(|n| job(8 + n, 0, &action)).collect();
            circulate(&mut pool, &mut all, &mut spares, RUNS);
            pool.settle();
            pool.late_jobs(|job| spares.push(job));
            assert_eq!(done.load(Ordering::SeqCst) as u64, 8 * RUNS as u64 + pool.stand_ins());
            let mut ids: Vec<_> = all.iter().chain(&spares).map(|job| job.id).collect();
            ids.sort();
            assert_eq!(ids, (0..8 + pool.spares()).collect::<Vec<_>>(), "each once");
        });
    }
}

#[test]
fn nothing_is_allocated_after_the_first_run() {
    for threads in [1, 2, 3] {
        watched(move || {
            let mut pool = Pool::new(threads, &[], threads);
            let together = Barrier::new(threads);
            let mut all = jobs(threads, move |_| meet(&together));
            pool.run(&mut all, || {}, no_spare);
            let before = allocations_here();
            for run in 0..RUNS / 10 {
                pool.run(&mut all, || {}, no_spare);
                pause(run); // so that the workers sleep and are woken
            }
            assert_eq!(allocations_since(before), Some(0), "the caller, {threads} threads");
            // Every thread has done one job in each run.
            assert_eq!(threads_of(&all).len(), threads);
            assert!(all.iter().all(|job| job.allocated == Some(0)), "{threads} threads");
        });
    }
}

#[test]
fn a_spare_job_allocates_nothing() {
    watched(|| {
        let mut pool = Pool::new(2, &[], 2);
        for round in 0..20 {
            let gate = Keeper::new();
            let at = gate.clone();
            let mut all = jobs(2, move |_| at.pass());
            let mut spare = Some(job(100, 0, &all[0].action));
            let mut back = Vec::with_capacity(1);
            let before = allocations_here();
            let stand_in = |place| {
                let mut spare = spare.take()?;
                spare.place = place;
                Some(spare)
            };
            pool.run(&mut all, || gate.await_arrivals(1), stand_in);
            gate.open();
            pool.settle();
            pool.late_jobs(|job| back.push(job));
            assert_eq!(allocations_since(before), Some(0), "round {round}");
            assert_squares(&all);
            assert!(back.len() == 1 && back[0].times == 1 && all[back[0].place].id == 100);
        }
        assert_eq!(pool.stand_ins(), 20);
    });
}

/// The cores of this process.
fn cores() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

#[test]
fn workers_run_on_the_cores_they_were_given() {
    if cfg!(miri) {
        return; // no cores to choose from
    }
    watched(|| {
        let cores = cores();
        // The last core first, so that no thread is on its core by chance.
        let cpus: Vec<_> = cores.iter().rev().copied().collect();
        let mut pool = Pool::new(3, &cpus, 3);
        assert!(pool.refusals().is_empty());
        let (caller, together) = (thread::current().id(), Barrier::new(3));
        let mut all = jobs(3, move |_| meet(&together));
        for _ in 0..20 {
            pool.run(&mut all, || {}, no_spare);
            let workers = all.iter().filter(|job| job.by != Some(caller));
            let mut ran: Vec<_> = workers.map(|job| job.core).collect();
            let mut expected = [cpus[1 % cpus.len()], cpus[2 % cpus.len()]];
            ran.sort();
            expected.sort();
            assert_eq!(ran, expected);
        }
        assert_eq!(self::cores(), cores, "the caller may still use all of its cores");
    });
}

#[test]
fn missing_core_is_refused_and_the_worker_still_works() {
    if cfg!(miri) {
        return;
    }
    watched(|| {
        let cores = cores();
        let mut pool = Pool::new(3, &[cores[0], CpuSet::MAX_CPU, cores[0]], 3);
        let refused: Vec<_> =
            pool.refusals().iter().map(|(worker, refusal)| (*worker, refusal.what)).collect();
        assert_eq!(refused, [(1, Request::FieldCore(CpuSet::MAX_CPU))]);
        let together = Barrier::new(3);
        let mut all = jobs(3, move |_| meet(&together));
        pool.run(&mut all, || {}, no_spare);
        assert_squares(&all);
    });
}

#[test]
fn two_threads_on_one_busy_core_lose_nothing() {
    if cfg!(miri) {
        return;
    }
    watched(|| {
        let core = *cores().last().unwrap();
        crate::system::rt::stay_on(core).unwrap();
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        let neighbour = thread::spawn(move || {
            crate::system::rt::stay_on(core).unwrap();
            while !ended.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let mut pool = Pool::new(2, &[core], 8);
        assert!(pool.refusals().is_empty());
        let mut all = jobs(8, |_| pause(100));
        let action = all[0].action.clone();
        let mut spares: Vec<_> = (0..pool.spares()).map(|n| job(8 + n, 0, &action)).collect();
        circulate(&mut pool, &mut all, &mut spares, 300);
        pool.settle();
        pool.late_jobs(|job| spares.push(job));
        end.store(true, Ordering::Relaxed);
        neighbour.join().unwrap();
        assert!(all.iter().chain(&spares).all(|job| job.core == core || job.times == 0));
        assert_eq!(spares.len(), pool.spares());
    });
}
