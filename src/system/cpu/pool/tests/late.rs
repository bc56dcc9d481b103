//! Late jobs: the caller does them again, they come back later, and a run without a spare job waits for the
//! late one.

use super::*;

#[test]
fn a_run_ends_without_a_delayed_worker() {
    watched(|| {
        let mut pool = Pool::new(2, &[], 4);
        let (caller, gate) = (thread::current().id(), Keeper::new());
        let at = gate.clone();
        let mut all = jobs(4, move |_| at.pass());
        let action = all[0].action.clone();
        let mut asked = Vec::new();
        // The caller begins once a worker is held up with one job.
        pool.run(
            &mut all,
            || gate.await_arrivals(1),
            |place| {
                asked.push(place);
                Some(job(100, place, &action))
            },
        );
        let [late] = asked[..] else { panic!("{asked:?}") };
        assert_squares(&all);
        assert!(all.iter().all(|job| job.id == if job.place == late { 100 } else { job.place }));
        assert!(all.iter().all(|job| job.by == Some(caller)));
        assert_eq!((pool.stand_ins(), pool.out()), (1, 1));
        pool.late_jobs(|_| panic!("it is still held up"));

        // Two more runs while the late job is outstanding: the caller does everything, and needs no spare.
        for times in 2..=3 {
            pool.run(&mut all, || {}, |place| panic!("asked for {place}"));
            assert_squares(&all);
            assert!(all.iter().all(|job| job.by == Some(caller)));
            let on_time = (late + 1) % 4;
            assert_eq!((all[on_time].times, pool.stand_ins(), pool.out()), (times, 1, 1));
        }

        gate.open();
        pool.settle();
        assert_eq!(pool.out(), 0);
        let mut back = Vec::new();
        pool.late_jobs(|job| back.push((job.id, job.square, job.times)));
        pool.late_jobs(|job| back.push((job.id, job.square, job.times)));
        assert_eq!(back, [(late, Some(late * late), 1)], "complete, and handed over once");
    });
}

#[test]
fn a_late_job_returning_in_a_later_run_is_not_counted_there() {
    watched(|| {
        let mut pool = Pool::new(2, &[], 2);
        let gate = Keeper::new();
        let at = gate.clone();
        let mut all = jobs(2, move |_| at.pass());
        let action = all[0].action.clone();
        pool.run(&mut all, || gate.await_arrivals(1), |place| Some(job(100, place, &action)));
        let late = stood_in(&all);
        // The worker comes back while the caller does its own jobs, and may take a job of this run.
        let spare = |place| Some(job(200, place, &action));
        pool.run(&mut all, || gate.open(), spare);
        pool.settle();
        let mut back = Vec::new();
        pool.late_jobs(|job| back.push(job.id));
        assert!(back.contains(&late) && all.iter().all(|job| job.id != late), "{back:?}");
        assert_eq!(back.len() as u64, pool.stand_ins());
        assert_squares(&all);
    });
}

#[test]
fn a_spare_job_that_has_started_counts() {
    watched(|| {
        let mut pool = Pool::new(2, &[], 2);
        let gate = Keeper::new();
        let at = gate.clone();
        let mut all = jobs(2, move |_| at.pass());
        let action = all[0].action.clone();
        let spare = |place| {
            gate.open(); // so the original comes back while its stand-in is at work
            let action: Arc<Action> = Arc::new(|_| thread::sleep(Duration::from_millis(5)));
            Some(job(100, place, &action))
        };
        pool.run(&mut all, || gate.await_arrivals(1), spare);
        let late = stood_in(&all);
        pool.settle();
        let mut back = Vec::new();
        pool.late_jobs(|job| back.push((job.id, job.times)));
        assert_eq!(back, [(late, 1)]);
        drop(action);
    });
}

#[test]
fn without_a_spare_the_run_waits_for_the_late_job() {
    watched(|| {
        let mut pool = Pool::new(2, &[], 4);
        let (caller, gate) = (thread::current().id(), Keeper::new());
        let at = gate.clone();
        let mut all = jobs(4, move |_| at.pass());
        let mut asked = 0;
        let none = |_| {
            asked += 1;
            gate.open();
            None
        };
        pool.run(&mut all, || gate.await_arrivals(1), none);
        assert_squares(&all);
        assert!(all.iter().any(|job| job.by != Some(caller)));
        assert!(all.iter().all(|job| job.times == 1 && job.id == job.place));
        assert_eq!((asked, pool.stand_ins(), pool.out()), (1, 0, 0));
    });
}

/// The place of the late job that job number 100 replaced.
fn stood_in(all: &[Box<Job>]) -> usize {
    let places: Vec<_> = all.iter().filter(|job| job.id == 100).map(|job| job.place).collect();
    let [place] = places[..] else { panic!("{places:?}") };
    place
}

/// Waits until a worker has helped since `helped` was last set to 0.
fn await_help(helped: &AtomicUsize) {
    while helped.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
}

#[test]
fn no_job_is_handed_out_while_one_is_far_too_late() {
    watched(|| {
        let mut pool = Pool::new(3, &[], 6);
        let (caller, gate, helped) = (thread::current().id(), Keeper::new(), Arc::new(AtomicUsize::new(0)));
        let at = gate.clone();
        let mut held = jobs(6, move |job| {
            if job.place == 5 {
                at.pass()
            }
        });
        let simple: Arc<Action> = Arc::new(|_| {});
        let spare = |place| Some(job(100, place, &simple));
        pool.run(&mut held, || gate.await_arrivals(1), spare);
        assert!(pool.out() > 0);

        let count = helped.clone();
        let mut all = jobs(6, move |_| {
            count.fetch_add(usize::from(thread::current().id() != caller), Ordering::SeqCst);
        });
        // The other worker helps for as long as no queue can be blocked.
        for _ in 0..MOST_RUNS_LATE {
            helped.store(0, Ordering::SeqCst);
            pool.run(&mut all, || await_help(&helped), spare);
            assert_squares(&all);
            all.iter_mut().for_each(|job| job.square = None);
        }
        for _ in 0..3 {
            let idle = || thread::sleep(Duration::from_millis(2)); // time enough for a worker to take one
            pool.run(&mut all, idle, |place| panic!("{place} was handed out"));
            assert_squares(&all);
            assert!(all.iter().all(|job| job.by == Some(caller)));
        }
        gate.open();
        pool.settle();
        let action = all[0].action.clone();
        let mut all: Vec<_> = (0..6).map(|place| job(place, place, &action)).collect();
        helped.store(0, Ordering::SeqCst);
        pool.run(&mut all, || await_help(&helped), spare);
        assert_squares(&all);
    });
}
