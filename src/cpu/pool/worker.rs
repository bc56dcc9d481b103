//! One thread of the pool beside the caller's: how it takes jobs, waits, sleeps and is woken.

use super::affinity::Affinity;
use super::{Intake, Notice, PoolJob, Sheet};
use crate::rt::{Refusal, stay_on, touch_stack};
use crate::time::{Clock, MonotonicClock, Span};
use rtrb::{Consumer, Producer, RingBuffer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::JoinHandle;

/// How long a worker keeps looking after its last job before it sleeps. A cycle has two runs with less than
/// this between them, and waking a sleeper costs the caller some microseconds and the worker more.
const AWAKE: Span = Span::from_micros(50);

/// The caller's end of a worker.
pub(super) struct Worker<T> {
    done: Consumer<Sheet<T>>,
    asleep: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl<T: PoolJob> Worker<T> {
    /// Starts worker `number`, on `cpu` if one is given, and waits for the system's answer. `None`: the
    /// system starts no thread.
    pub fn start(
        number: usize,
        cpu: Option<usize>,
        intake: Intake<T>,
        places: usize,
        notice: Arc<Notice>,
    ) -> Option<(Worker<T>, Option<Refusal>)> {
        // Between two looks of the caller a worker brings back what it had in hand and at most
        // what was handed out since.
        let (returns, done) = RingBuffer::new(places + 1);
        let asleep: Arc<AtomicBool> = Arc::default();
        let mut hand = WorkerSide { intake, returns, asleep: asleep.clone(), notice, affinity: None };
        let (answer, answered) = crossbeam_channel::bounded(1);
        let thread = std::thread::Builder::new().name(format!("field-{number}"));
        let thread = thread.spawn(move || {
            touch_stack();
            let _ = answer.send(cpu.and_then(|cpu| stay_on(cpu).err()));
            drop(answer);
            hand.affinity = cpu.is_none().then(Affinity::of_this_thread);
            hand.serve();
        });
        let worker = Worker { done, asleep, thread: thread.ok()? };
        Some((worker, answered.recv().ok().flatten()))
    }
}

impl<T> Worker<T> {
    /// A job that it has finished.
    pub fn returned(&mut self) -> Option<Sheet<T>> {
        self.done.pop().ok()
    }

    /// Wakes it if it sleeps or is about to. Call it after a `SeqCst` fence that follows the sending.
    pub fn wake(&self) {
        // Read first: a worker that is awake shall not lose the line that it looks at.
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.nudge();
        }
    }

    /// Wakes it in any case.
    pub fn nudge(&self) {
        self.thread.thread().unpark();
    }

    /// Whether it sleeps or is about to.
    #[cfg(test)]
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// Waits until it has ended.
    pub fn join(self) {
        let _ = self.thread.join(); // it catches and reports its own panics
    }
}

/// The worker's end.
struct WorkerSide<T> {
    intake: Intake<T>,
    returns: Producer<Sheet<T>>,
    asleep: Arc<AtomicBool>,
    notice: Arc<Notice>,
    /// Where it may sit, if it was not given a core.
    affinity: Option<Affinity>,
}

impl<T: PoolJob> WorkerSide<T> {
    /// A worker's life: until the pool is dropped, or a job panics.
    fn serve(mut self) {
        let mut last = MonotonicClock.now();
        while !self.notice.end.load(Ordering::Acquire) {
            let awake = MonotonicClock.now().since(last) < AWAKE;
            self.make_way();
            let taken = self.intake.take().or_else(|| if awake { None } else { self.sleep() });
            let Some(sheet) = taken else {
                std::hint::spin_loop();
                continue;
            };
            if !self.perform(sheet) {
                return;
            }
            last = MonotonicClock.now();
        }
    }

    /// Leaves the caller's core. A thread is often woken on the core of the thread that woke it, above all if
    /// the others are busy; but there it only takes the caller's time.
    fn make_way(&self) {
        if let Some(affinity) = &self.affinity {
            affinity.leave(self.notice.caller.load(Ordering::Relaxed));
        }
    }

    /// Performs a job and brings it back. Returns whether it survived that.
    fn perform(&mut self, mut sheet: Sheet<T>) -> bool {
        // What a panic leaves half-done is dropped with its job and never seen again: that makes
        // the assertion of unwind safety true.
        if catch_unwind(AssertUnwindSafe(|| sheet.job.perform())).is_err() {
            self.notice.panicked.store(true, Ordering::Release);
            return false;
        }
        let fits = self.returns.push(sheet).is_ok();
        debug_assert!(fits, "the ring holds all that can come back between two looks");
        true
    }

    /// Sleeps until it is woken; returns a job that arrived meanwhile, unless another thread took it.
    ///
    /// No wake-up is lost. The worker raises its flag, fences, and looks at the queues once more; the
    /// caller sends, fences, and looks at the flag. Whichever fence is second in the one order of all
    /// `SeqCst` fences, its thread sees what the other wrote before its own: the worker sees the
    /// job and does not park, or the caller sees the flag and unparks, and `park` after `unpark`
    /// returns at once. The caller lowers the flag only together with an unpark, and the worker
    /// only before it looks again. Ending needs no flag: the pool unparks every worker after it
    /// set the end flag, which is checked here after the flag and on each turn of `serve`.
    fn sleep(&mut self) -> Option<Sheet<T>> {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut taken = self.intake.take();
        if taken.is_none() && !self.notice.end.load(Ordering::Acquire) {
            std::thread::park();
            self.make_way();
            taken = self.intake.take();
        }
        self.asleep.store(false, Ordering::Relaxed);
        taken
    }
}

/// The two halves of the promise in [`Hand::sleep`], each alone: a run hits the moment between them
/// once in a million times.
#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{Sender, bounded};

    struct Nothing;

    impl PoolJob for Nothing {
        fn perform(&mut self) {}
    }

    fn hand() -> (WorkerSide<Nothing>, Sender<Sheet<Nothing>>, Consumer<Sheet<Nothing>>) {
        let (queue, end) = bounded(1);
        let (returns, done) = RingBuffer::new(1);
        let (asleep, notice) = Default::default();
        (WorkerSide { intake: Intake(vec![end]), returns, asleep, notice, affinity: None }, queue, done)
    }

    fn sheet() -> Sheet<Nothing> {
        Sheet { run: 1, place: 0, job: Box::new(Nothing) }
    }

    #[test]
    fn a_worker_about_to_sleep_looks_once_more() {
        let (mut hand, queue, _done) = hand();
        assert!(queue.try_send(sheet()).is_ok(), "sent before the flag was up: no caller will wake it");
        let (tell, told) = bounded(1);
        let thread = std::thread::spawn(move || {
            let _ = tell.send(hand.sleep().is_some());
        });
        let took = told.recv_timeout(std::time::Duration::from_secs(60));
        thread.thread().unpark(); // only a worker that sleeps needs it
        assert!(took == Ok(true), "it sleeps over a job");
        thread.join().unwrap();
    }

    #[test]
    fn a_worker_that_has_raised_its_flag_is_woken_once() {
        let (mut hand, queue, done) = hand();
        let asleep = hand.asleep.clone();
        let (tell, told) = bounded(1);
        let thread = std::thread::spawn(move || {
            // `park` may end for no reason, and so may `sleep`.
            while hand.sleep().is_none() {}
            let _ = tell.send(());
        });
        let worker = Worker { done, asleep: asleep.clone(), thread };
        while !asleep.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        assert!(queue.try_send(sheet()).is_ok());
        fence(Ordering::SeqCst);
        worker.wake();
        assert!(told.recv_timeout(std::time::Duration::from_secs(60)).is_ok(), "it was not woken");
        assert!(!asleep.load(Ordering::Relaxed));
        worker.wake(); // no worker sleeps: nothing happens
        worker.join();
    }
}
