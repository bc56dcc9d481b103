//! Threads that share the parts of the field. A part is handed over whole, as a box, through a
//! ring of fixed size, and handed back when its work is done: nothing is shared, locked or
//! allocated, and which thread did the work cannot be seen in the result. Knows no field.
//!
//! Waiting is `park`: a caller that is itself woken by `unpark` may find its token used up and must
//! look at its own queue before it sleeps, as anybody who parks has to. Workers inherit priority and
//! affinity of the thread that builds the crew.

use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// Something that carries its own orders and results.
pub trait Work: Send + 'static {
    /// Does what was ordered.
    fn work(&mut self);
}

/// A part on its way to a worker, with the thread to wake when it is done.
type Given<T> = (Box<T>, Thread);

struct Worker<T> {
    given: Option<Producer<Given<T>>>,
    done: Consumer<Box<T>>,
    thread: Option<JoinHandle<()>>,
}

/// The caller's own thread and the workers beside it.
pub struct Crew<T> {
    workers: Vec<Worker<T>>,
    own: VecDeque<Box<T>>,
}

impl<T: Work> Crew<T> {
    /// A crew of `threads` (the caller is one of them) for at most `parts` parts at a time. Fewer
    /// where the system grants no more: the work is the same.
    pub fn new(threads: usize, parts: usize) -> Crew<T> {
        let workers = (1..threads.clamp(1, parts)).map_while(|number| Worker::start(number, parts));
        Crew { workers: workers.collect(), own: VecDeque::with_capacity(parts) }
    }

    /// Threads at work, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Has every part do its work; they come back in the order they were in.
    ///
    /// # Panics
    /// If a worker has panicked: its part of the field is lost, and the engine with it.
    pub fn run(&mut self, parts: &mut Vec<Box<T>>) {
        if self.workers.is_empty() {
            return parts.iter_mut().for_each(|part| part.work());
        }
        let (count, crew) = (parts.len(), self.threads());
        let caller = std::thread::current();
        for (index, part) in parts.drain(..).enumerate() {
            match index % crew {
                0 => self.own.push_back(part),
                worker => self.workers[worker - 1].give(part, &caller),
            }
        }
        self.own.iter_mut().for_each(|part| part.work());
        for index in 0..count {
            parts.push(match index % crew {
                0 => self.own.pop_front().expect("one was put in for each index"),
                worker => self.workers[worker - 1].take(),
            });
        }
    }
}

impl<T: Work> Worker<T> {
    fn start(number: usize, parts: usize) -> Option<Worker<T>> {
        let (given, work) = RingBuffer::new(parts);
        let (results, done) = RingBuffer::new(parts);
        let thread = std::thread::Builder::new().name(format!("field-{number}"));
        let thread = thread.spawn(move || serve(work, results)).ok()?;
        Some(Worker { given: Some(given), done, thread: Some(thread) })
    }

    fn give(&mut self, part: Box<T>, caller: &Thread) {
        if let (Some(given), Some(thread)) = (&mut self.given, &self.thread) {
            // The ring has a place for every part. Only a dead worker's ring loses one: take() says so.
            let _ = given.push((part, caller.clone()));
            thread.thread().unpark();
        }
    }

    fn take(&mut self) -> Box<T> {
        loop {
            if let Ok(part) = self.done.pop() {
                return part;
            }
            assert!(!self.done.is_abandoned(), "a worker thread of the field engine has panicked");
            // Woken by the worker; the time limit is for one that died and will wake nobody.
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

/// A worker's life: until the crew is dropped.
fn serve<T: Work>(mut given: Consumer<Given<T>>, mut done: Producer<Box<T>>) {
    loop {
        match given.pop() {
            Ok((mut part, caller)) => {
                part.work();
                let _ = done.push(part); // full only if the crew is gone, and then nobody misses it
                caller.unpark();
            }
            Err(_) if given.is_abandoned() => return,
            Err(_) => std::thread::park(),
        }
    }
}

impl<T> Drop for Crew<T> {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.given = None; // abandons the ring: the worker leaves its loop
            if let Some(thread) = worker.thread.take() {
                thread.thread().unpark();
                let _ = thread.join(); // a panic has been reported where it happened
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::ThreadId;

    struct Square {
        number: u64,
        by: Option<ThreadId>,
    }
    impl Work for Square {
        fn work(&mut self) {
            assert!(self.number != 13, "unlucky");
            self.number *= self.number;
            self.by = Some(std::thread::current().id());
        }
    }
    #[expect(clippy::vec_box)] // parts travel as boxes, whatever their size
    fn squares(numbers: impl Iterator<Item = u64>) -> Vec<Box<Square>> {
        numbers.map(|number| Box::new(Square { number, by: None })).collect()
    }

    #[test]
    fn parts_come_back_in_order_from_as_many_threads_as_asked() {
        for threads in [1, 2, 3, 8, 20] {
            let mut crew = Crew::new(threads, 8);
            let mut parts = squares(0..8);
            for _ in 0..100 {
                parts.iter_mut().enumerate().for_each(|(i, part)| part.number = i as u64);
                crew.run(&mut parts);
                assert!(parts.iter().enumerate().all(|(i, part)| part.number == (i * i) as u64));
            }
            let mut by: Vec<_> = parts.iter().map(|part| format!("{:?}", part.by)).collect();
            by.sort();
            by.dedup();
            assert_eq!(by.len(), threads.min(8));
            assert_eq!(crew.threads(), threads.min(8));
        }
    }

    #[test]
    fn a_worker_that_panics_is_told_and_not_waited_for() {
        let mut crew = Crew::new(2, 2);
        let mut parts = squares([1, 13].into_iter());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| crew.run(&mut parts)));
        assert!(outcome.is_err());
        drop(crew); // and the others still go home
    }

    /// Counts when it is dropped: with the thread that keeps it.
    struct Farewell(Arc<AtomicUsize>);
    impl Drop for Farewell {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    thread_local! {
        static KEPT: RefCell<Option<Farewell>> = const { RefCell::new(None) };
    }
    struct Stay(Arc<AtomicUsize>);
    impl Work for Stay {
        fn work(&mut self) {
            KEPT.with_borrow_mut(|kept| {
                kept.get_or_insert_with(|| Farewell(self.0.clone()));
            });
        }
    }

    #[test]
    fn no_thread_outlives_its_crew() {
        let gone = Arc::new(AtomicUsize::new(0));
        let mut crew = Crew::new(4, 8);
        let mut parts: Vec<_> = (0..8).map(|_| Box::new(Stay(gone.clone()))).collect();
        (0..3).for_each(|_| crew.run(&mut parts));
        assert_eq!(gone.load(Ordering::SeqCst), 0, "the same threads serve every run");
        drop(crew);
        assert_eq!(gone.load(Ordering::SeqCst), 3, "the caller is the fourth and stays");
    }
}
