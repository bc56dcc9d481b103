//! Workers on their own threads, in real time. Each worker gets its last call unless it hangs: at once after
//! it has panicked, otherwise when [`Threads`] is ended or dropped, even if the thread that started it
//! panics.

use super::last::{Last, last_call};
use super::{Ended, Rest, Waker, Worker};
use crate::base::plan::RtPlan;
use crate::base::time::{Clock, Instant};
use crate::system::rt::{Granted, Role, become_real_time_on};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The longest time that a worker sleeps without checking for the request to end: a sleeping worker ends
/// within this time.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// How long workers may take to end. Those that have not ended by then are abandoned (a hung transfer, a hung
/// engine).
pub const END_PATIENCE: Duration = Duration::from_millis(500);

/// Workers that run on threads until [`Threads::end`] or until dropped.
pub struct Threads {
    end: Arc<AtomicBool>,
    alarm: Arc<AtomicBool>,
    running: Vec<Running>,
    /// What the system granted to each worker's thread, by its name.
    pub granted: Vec<(&'static str, Granted)>,
}

/// A running worker.
struct Running {
    name: &'static str,
    has_motors: bool,
    handle: JoinHandle<Last>,
}

impl Threads {
    /// No workers yet.
    pub fn new() -> Threads {
        Threads { end: Arc::default(), alarm: Arc::default(), running: Vec::new(), granted: Vec::new() }
    }

    /// Set as soon as a worker has panicked. A panic is a bug, and the worker's task is no longer done, even
    /// if the task is only polling a button. So a running robot has to stop.
    pub fn alarm(&self) -> Arc<AtomicBool> {
        self.alarm.clone()
    }

    /// Starts `worker` on its own thread with the priority of `role`; returns once the system has granted or
    /// refused what the thread requested.
    pub fn start(
        &mut self,
        worker: Box<dyn Worker>,
        waker: Arc<Waker>,
        clock: Arc<dyn Clock>,
        role: Role,
        plan: RtPlan,
    ) -> std::io::Result<()> {
        self.start_watched(worker, waker, clock, role, plan, Arc::default())
    }

    /// Like [`Threads::start`], for a worker that is watched: `beat` advances whenever its thread has done a
    /// step or has woken up, which happens at least every 50 ms. It stops while a transfer hangs.
    pub fn start_watched(
        &mut self,
        mut worker: Box<dyn Worker>,
        waker: Arc<Waker>,
        clock: Arc<dyn Clock>,
        role: Role,
        plan: RtPlan,
        beat: Arc<AtomicU64>,
    ) -> std::io::Result<()> {
        let (name, has_motors) = (worker.name(), worker.has_motors());
        let (end, alarm) = (self.end.clone(), self.alarm.clone());
        let (answer, answered) = crossbeam_channel::bounded(1);
        let handle = thread::Builder::new().name(name.into()).spawn(move || {
            let worked = catch_unwind(AssertUnwindSafe(|| {
                let _ = answer.send(become_real_time_on(&plan, role, worker.core()));
                waker.answer_here();
                work(worker.as_mut(), &waker, clock.as_ref(), &end, &beat);
            }));
            if worked.is_err() {
                alarm.store(true, Ordering::Release);
            }
            last_call(worker.as_mut(), clock.as_ref(), worked.is_err())
        })?;
        self.running.push(Running { name, has_motors, handle });
        if let Ok(granted) = answered.recv() {
            self.granted.push((name, granted));
        }
        Ok(())
    }

    /// Tells every worker to end, waits for at most `timeout` and returns how they ended. Those that have
    /// not ended by then are abandoned; if one of them has motors, these are not known to have stopped.
    pub fn end(mut self, timeout: Duration) -> Ended {
        self.end_all(timeout)
    }

    fn end_all(&mut self, timeout: Duration) -> Ended {
        self.end.store(true, Ordering::Release);
        self.running.iter().for_each(|worker| worker.handle.thread().unpark());
        let until = std::time::Instant::now() + timeout;
        while self.running.iter().any(|worker| !worker.handle.is_finished())
            && std::time::Instant::now() < until
        {
            thread::sleep(Duration::from_millis(1));
        }
        let mut ended = Ended::default();
        for Running { name, has_motors, handle } in self.running.drain(..) {
            if handle.is_finished() {
                ended.add(name, handle.join().unwrap_or(Last::unheard(true, has_motors)));
            } else {
                ended.hung.push(name);
                ended.add(name, Last::unheard(false, has_motors));
            }
        }
        ended
    }
}

/// Dropped without a call to [`Threads::end`]: the thread that started them panicked, or a thread could not
/// be started.
impl Drop for Threads {
    fn drop(&mut self) {
        if !self.running.is_empty() && self.end_all(END_PATIENCE).rest == Rest::Unheard {
            log::error!("the motors did not confirm that they stopped: cut their power");
        }
    }
}

impl Default for Threads {
    fn default() -> Threads {
        Threads::new()
    }
}

fn work(worker: &mut dyn Worker, waker: &Waker, clock: &dyn Clock, end: &AtomicBool, beat: &AtomicU64) {
    while !end.load(Ordering::Acquire) {
        let next = worker.step(clock);
        worker.publish(clock);
        wait(waker, clock, end, next, beat);
    }
}

/// Waits until `next`; the waker or the request to end ends the wait earlier.
fn wait(waker: &Waker, clock: &dyn Clock, end: &AtomicBool, next: Instant, beat: &AtomicU64) {
    loop {
        beat.fetch_add(1, Ordering::Relaxed);
        if waker.answered() || end.load(Ordering::Acquire) {
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
    use crate::base::time::MonotonicClock;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu};

    /// Reports the core on which it ran.
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
        fn publish(&mut self, _clock: &dyn Clock) {}
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
        assert_eq!(threads.end(Duration::from_secs(60)), Ended::default());
    }

    #[test]
    fn a_waiting_thread_counts_as_alive_a_hanging_one_does_not() {
        struct Hangs(crossbeam_channel::Receiver<()>);
        impl Worker for Hangs {
            fn name(&self) -> &'static str {
                "hangs"
            }
            fn step(&mut self, _clock: &dyn Clock) -> Instant {
                let _ = self.0.recv(); // like a transfer that does not end
                Instant::NEVER
            }
            fn publish(&mut self, _clock: &dyn Clock) {}
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
        assert_eq!(threads.end(Duration::from_secs(60)), Ended::default());
    }
}
