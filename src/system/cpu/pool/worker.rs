//! A worker: a thread of the pool other than the caller's. How it takes jobs, waits, sleeps and is woken.

use super::affinity::Affinity;
use super::{Envelope, Intake, PoolJob, Signals};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::system::rt::{Refusal, stay_on, touch_stack};
use rtrb::{Consumer, Producer, RingBuffer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::JoinHandle;

/// How long a worker spins after its last job before it sleeps. The two runs of a field cycle are less than
/// this apart, and waking a sleeping worker costs the caller some microseconds and the worker more.
const AWAKE: Span = Span::from_micros(50);

/// The caller's end of a worker.
pub(super) struct Worker<T> {
    done: Consumer<Envelope<T>>,
    asleep: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl<T: PoolJob> Worker<T> {
    /// Starts worker `number`, on core `cpu` if one is given, and waits until the system has granted or
    /// refused that core. `None`: the system refused to start a thread.
    pub fn start(
        number: usize,
        cpu: Option<usize>,
        intake: Intake<T>,
        places: usize,
        signals: Arc<Signals>,
    ) -> Option<(Worker<T>, Option<Refusal>)> {
        // Between two checks by the caller, a worker brings back at most the job that it was performing and
        // all jobs that were handed out since.
        let (returns, done) = RingBuffer::new(places + 1);
        let asleep: Arc<AtomicBool> = Arc::default();
        let mut side = WorkerSide { intake, returns, asleep: asleep.clone(), signals, affinity: None };
        let (answer, answered) = crossbeam_channel::bounded(1);
        let thread = std::thread::Builder::new().name(format!("field-{number}"));
        let thread = thread.spawn(move || {
            touch_stack();
            let _ = answer.send(cpu.and_then(|cpu| stay_on(cpu).err()));
            drop(answer);
            side.affinity = cpu.is_none().then(Affinity::of_this_thread);
            side.serve();
        });
        let worker = Worker { done, asleep, thread: thread.ok()? };
        Some((worker, answered.recv().ok().flatten()))
    }
}

impl<T> Worker<T> {
    /// Takes a job that the worker has finished, if there is one.
    pub fn returned(&mut self) -> Option<Envelope<T>> {
        self.done.pop().ok()
    }

    /// Wakes the worker if it sleeps or is about to. There must be a `SeqCst` fence between sending a job and
    /// this call.
    pub fn wake(&self) {
        // Read first: a swap would take the cache line away from a worker that is awake.
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.nudge();
        }
    }

    /// Unparks the thread in any case.
    pub fn nudge(&self) {
        self.thread.thread().unpark();
    }

    /// Whether it sleeps or is about to.
    #[cfg(test)]
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// Waits until the thread has ended.
    pub fn join(self) {
        let _ = self.thread.join(); // the thread catches and reports its own panics
    }
}

/// The worker's end.
struct WorkerSide<T> {
    intake: Intake<T>,
    returns: Producer<Envelope<T>>,
    asleep: Arc<AtomicBool>,
    signals: Arc<Signals>,
    /// The cores that the thread may use; `None` if it was given one core.
    affinity: Option<Affinity>,
}

impl<T: PoolJob> WorkerSide<T> {
    /// The worker's main loop: runs until the pool is dropped, or a job panics.
    fn serve(mut self) {
        let mut last = MonotonicClock.now();
        while !self.signals.end.load(Ordering::Acquire) {
            let awake = MonotonicClock.now().since(last) < AWAKE;
            self.make_way();
            let taken = self.intake.take().or_else(|| if awake { None } else { self.sleep() });
            let Some(envelope) = taken else {
                std::hint::spin_loop();
                continue;
            };
            if !self.perform(envelope) {
                return;
            }
            last = MonotonicClock.now();
        }
    }

    /// Leaves the caller's core. The system often wakes a thread on the core of the thread that woke it,
    /// especially if the other cores are busy; there the worker would only take the caller's time.
    fn make_way(&self) {
        if let Some(affinity) = &self.affinity {
            affinity.leave(self.signals.caller.load(Ordering::Relaxed));
        }
    }

    /// Performs a job and brings it back. Returns whether the job ended without a panic.
    fn perform(&mut self, mut envelope: Envelope<T>) -> bool {
        // What a panic leaves half-done is dropped with its job and never seen again, so this is unwind safe.
        if catch_unwind(AssertUnwindSafe(|| envelope.job.perform())).is_err() {
            self.signals.panicked.store(true, Ordering::Release);
            return false;
        }
        let fits = self.returns.push(envelope).is_ok();
        debug_assert!(fits, "the ring has room for everything that can come back between two checks");
        true
    }

    /// Sleeps until it is woken; returns a job that arrived meanwhile, unless another thread took it.
    ///
    /// No wake-up is lost. The worker sets `asleep`, fences, and checks the queues once more; the caller
    /// sends, fences, and reads `asleep`. All `SeqCst` fences have a single total order, and the thread whose
    /// fence comes second sees everything that the other thread wrote before the first fence. So either the
    /// worker sees the job and does not park, or the caller sees `asleep` and unparks; and `park` after
    /// `unpark` returns at once. The caller clears `asleep` only together with an unpark, the worker only
    /// before it checks the queues again. Ending does not depend on `asleep`: the pool sets `end` and then
    /// unparks every worker, and the worker checks `end` here after it has set `asleep`, and in each
    /// iteration of `serve`.
    fn sleep(&mut self) -> Option<Envelope<T>> {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut taken = self.intake.take();
        if taken.is_none() && !self.signals.end.load(Ordering::Acquire) {
            std::thread::park();
            self.make_way();
            taken = self.intake.take();
        }
        self.asleep.store(false, Ordering::Relaxed);
        taken
    }
}

/// Tests each half of the protocol in [`WorkerSide::sleep`] on its own: only one run in a million hits the
/// moment between the halves.
#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{Sender, bounded};

    struct Nothing;

    impl PoolJob for Nothing {
        fn perform(&mut self) {}
    }

    fn side() -> (WorkerSide<Nothing>, Sender<Envelope<Nothing>>, Consumer<Envelope<Nothing>>) {
        let (queue, end) = bounded(1);
        let (returns, done) = RingBuffer::new(1);
        let (asleep, signals) = Default::default();
        (WorkerSide { intake: Intake(vec![end]), returns, asleep, signals, affinity: None }, queue, done)
    }

    fn envelope() -> Envelope<Nothing> {
        Envelope { run: 1, place: 0, job: Box::new(Nothing) }
    }

    #[test]
    fn a_worker_checks_the_queues_before_it_sleeps() {
        let (mut side, queue, _done) = side();
        assert!(queue.try_send(envelope()).is_ok(), "sent before it was asleep: no caller will wake it");
        let (tell, told) = bounded(1);
        let thread = std::thread::spawn(move || {
            let _ = tell.send(side.sleep().is_some());
        });
        let took = told.recv_timeout(std::time::Duration::from_secs(60));
        thread.thread().unpark(); // so that the thread ends even if it sleeps
        assert!(took == Ok(true), "it sleeps although there is a job");
        thread.join().unwrap();
    }

    #[test]
    fn a_sleeping_worker_is_woken_once() {
        let (mut side, queue, done) = side();
        let asleep = side.asleep.clone();
        let (tell, told) = bounded(1);
        let thread = std::thread::spawn(move || {
            // `park` may return spuriously, and then `sleep` returns without a job.
            while side.sleep().is_none() {}
            let _ = tell.send(());
        });
        let worker = Worker { done, asleep: asleep.clone(), thread };
        while !asleep.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        assert!(queue.try_send(envelope()).is_ok());
        fence(Ordering::SeqCst);
        worker.wake();
        assert!(told.recv_timeout(std::time::Duration::from_secs(60)).is_ok(), "it was not woken");
        assert!(!asleep.load(Ordering::Relaxed));
        worker.wake(); // no worker sleeps: nothing happens
        worker.join();
    }
}
