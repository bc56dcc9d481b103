//! Workers on threads of their own, in real time.

use super::{Bell, Worker};
use crate::rt::{Granted, Role, RtPlan, become_real_time_on};
use crate::time::{Clock, Instant};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The longest that a worker sleeps without looking at the order to end: ending takes this long at most.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Workers that run on threads until told to end.
pub struct Threads {
    end: Arc<AtomicBool>,
    running: Vec<(&'static str, JoinHandle<()>)>,
    /// What each worker's thread was granted, by its name.
    pub granted: Vec<(&'static str, Granted)>,
}

impl Threads {
    /// No worker yet.
    pub fn new() -> Threads {
        Threads { end: Arc::new(AtomicBool::new(false)), running: Vec::new(), granted: Vec::new() }
    }

    /// Starts `worker` on its own thread with the priority of `role`; returns when the system has
    /// answered what it grants.
    pub fn start(
        &mut self,
        worker: Box<dyn Worker>,
        bell: Arc<Bell>,
        clock: Arc<dyn Clock>,
        role: Role,
        plan: RtPlan,
    ) -> std::io::Result<()> {
        self.start_watched(worker, bell, clock, role, plan, Arc::default())
    }

    /// The same for a worker that is watched: `beat` moves on whenever its thread has done a step or
    /// has woken from its sleep, which it does at least every 50 ms, and stands while a
    /// transfer hangs.
    pub fn start_watched(
        &mut self,
        mut worker: Box<dyn Worker>,
        bell: Arc<Bell>,
        clock: Arc<dyn Clock>,
        role: Role,
        plan: RtPlan,
        beat: Arc<AtomicU64>,
    ) -> std::io::Result<()> {
        let name = worker.name();
        let end = self.end.clone();
        let (answer, answered) = crossbeam_channel::bounded(1);
        let handle = thread::Builder::new().name(name.into()).spawn(move || {
            let _ = answer.send(become_real_time_on(&plan, role, worker.core()));
            let _ = bell.thread.set(thread::current());
            work(worker.as_mut(), &bell, clock.as_ref(), &end, &beat);
            worker.finish(clock.as_ref());
        })?;
        self.running.push((name, handle));
        if let Ok(granted) = answered.recv() {
            self.granted.push((name, granted));
        }
        Ok(())
    }

    /// Tells every worker to end, waits for at most `patience` and returns the names of those that
    /// have not ended by then (a hung transfer, a hung GPU): they are left behind, not waited for.
    pub fn end(mut self, patience: Duration) -> Vec<&'static str> {
        self.end.store(true, Ordering::Release);
        let until = std::time::Instant::now() + patience;
        while self.running.iter().any(|(_, handle)| !handle.is_finished())
            && std::time::Instant::now() < until
        {
            thread::sleep(Duration::from_millis(1));
        }
        let (done, hung): (Vec<_>, Vec<_>) = self.running.drain(..).partition(|(_, h)| h.is_finished());
        for (name, handle) in done {
            if handle.join().is_err() {
                log::error!("the {name} thread ended in a panic");
            }
        }
        hung.into_iter().map(|(name, _)| name).collect()
    }
}

impl Default for Threads {
    fn default() -> Threads {
        Threads::new()
    }
}

fn work(worker: &mut dyn Worker, bell: &Bell, clock: &dyn Clock, end: &AtomicBool, beat: &AtomicU64) {
    while !end.load(Ordering::Acquire) {
        bell.pass_on();
        let next = worker.step(clock);
        worker.publish(clock.now());
        wait(bell, clock, end, next, beat);
    }
}

/// Waits until `next`, the bell, or the order to end.
fn wait(bell: &Bell, clock: &dyn Clock, end: &AtomicBool, next: Instant, beat: &AtomicU64) {
    loop {
        beat.fetch_add(1, Ordering::Relaxed);
        if bell.answered() || end.load(Ordering::Acquire) {
            return;
        }
        let left = next.since(clock.now());
        if left.as_nanos() == 0 {
            return;
        }
        thread::park_timeout(Duration::from_nanos(left.as_nanos()).min(LONGEST_WAIT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MonotonicClock;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu};

    /// Notes where it ran.
    struct Settler {
        core: Option<usize>,
        ran: crossbeam_channel::Sender<usize>,
    }

    impl Worker for Settler {
        fn name(&self) -> &'static str {
            "field"
        }
        fn core(&self) -> Option<usize> {
            self.core
        }
        fn step(&mut self, _clock: &dyn Clock) -> Instant {
            let _ = self.ran.send(sched_getcpu());
            Instant::NEVER
        }
        fn publish(&mut self, _now: Instant) {}
    }

    #[test]
    fn the_field_runs_on_its_own_core_and_the_report_says_so() {
        let set = sched_getaffinity(None).unwrap();
        let core = (0..CpuSet::MAX_CPU).rfind(|&cpu| set.is_set(cpu));
        let plan = RtPlan { strict: false, priority: 0, cpu: None, lock_memory: false };
        let mut threads = Threads::new();
        let (ran, where_it_ran) = crossbeam_channel::unbounded();
        let worker = Box::new(Settler { core, ran });
        threads.start(worker, Arc::default(), Arc::new(MonotonicClock), Role::Field, plan).unwrap();
        assert_eq!(where_it_ran.recv().ok(), core);
        let (name, granted) = &threads.granted[0];
        assert_eq!((*name, granted.cpu, granted.refusals.len()), ("field", core, 0));
        assert!(threads.end(Duration::from_secs(60)).is_empty());
    }

    #[test]
    fn a_thread_that_waits_for_its_bell_is_alive_and_one_that_hangs_is_not() {
        struct Hangs(crossbeam_channel::Receiver<()>);
        impl Worker for Hangs {
            fn name(&self) -> &'static str {
                "hangs"
            }
            fn step(&mut self, _clock: &dyn Clock) -> Instant {
                let _ = self.0.recv(); // as a transfer that does not end
                Instant::NEVER
            }
            fn publish(&mut self, _now: Instant) {}
        }
        let plan = RtPlan { strict: false, priority: 0, cpu: None, lock_memory: false };
        let (let_go, held) = crossbeam_channel::bounded(0);
        let beat = Arc::new(AtomicU64::new(0));
        let mut threads = Threads::new();
        let (worker, clock) = (Box::new(Hangs(held)), Arc::new(MonotonicClock));
        threads.start_watched(worker, Arc::default(), clock, Role::Bus, plan, beat.clone()).unwrap();
        thread::sleep(4 * LONGEST_WAIT);
        assert_eq!(beat.load(Ordering::Relaxed), 0, "in its first step");
        let_go.send(()).unwrap();
        while beat.load(Ordering::Relaxed) < 3 {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(threads.end(Duration::from_secs(60)).is_empty());
    }
}
