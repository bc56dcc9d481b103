//! Workers in one thread, in virtual time: the same order, the same results, every time.
//!
//! Each worker has its own position on the time axis. The stepper always runs the one whose next event is
//! earliest (ties: handing over before working, then the order in which they were added), with the clock's
//! cursor at that worker's time, so workers overlap as threads would.

use super::last::last_call;
use super::{Ended, Waker, Worker};
use crate::base::time::{Clock, Instant, SimClock};
use std::sync::Arc;

struct SteppedWorker {
    worker: Box<dyn Worker>,
    waker: Arc<Waker>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// Waits for `at`, or for its waker.
    Waiting { at: Instant },
    /// Has worked; hands over the result at `done`, then waits for `next`.
    Working { done: Instant, next: Instant },
}

/// All workers of a robot in virtual time.
pub struct Stepper {
    clock: Arc<SimClock>,
    places: Vec<SteppedWorker>,
}

impl Stepper {
    /// A stepper without workers.
    pub fn new(clock: Arc<SimClock>) -> Stepper {
        Stepper { clock, places: Vec::new() }
    }

    /// Adds `worker`; its first step is at `first`.
    pub fn add(&mut self, worker: Box<dyn Worker>, waker: Arc<Waker>, first: Instant) {
        self.places.push(SteppedWorker { worker, waker, state: State::Waiting { at: first } });
    }

    /// Runs every event up to and including `until`, then sets the clock there. Wakers that were signaled
    /// since the last call count as signaled at the clock's current time.
    pub fn run_until(&mut self, until: Instant) {
        self.hear_bells(self.clock.now());
        while let Some((at, place)) = self.earliest(until) {
            self.clock.set(at);
            self.places[place].advance(self.clock.as_ref(), at);
            self.hear_bells(at);
        }
        self.clock.set(until);
    }

    /// Makes the last call to every worker at the clock's current time and returns the results. Also works
    /// after a worker has panicked and the panic has unwound through [`Stepper::run_until`].
    pub fn finish(&mut self) -> Ended {
        let now = self.clock.now();
        let mut ended = Ended::default();
        for place in &mut self.places {
            self.clock.set(now);
            ended.add(place.worker.name(), last_call(place.worker.as_mut(), self.clock.as_ref(), false));
        }
        ended
    }

    fn hear_bells(&mut self, now: Instant) {
        for place in &mut self.places {
            if !place.waker.answered() {
                continue;
            }
            match &mut place.state {
                State::Waiting { at } => *at = (*at).min(now),
                // Woken while it works: it checks again as soon as it has handed over.
                State::Working { done, next } => *next = (*next).min(*done),
            }
        }
    }

    fn earliest(&self, until: Instant) -> Option<(Instant, usize)> {
        let event = |place: &SteppedWorker| match place.state {
            State::Working { done, .. } => (done, 0),
            State::Waiting { at } => (at, 1),
        };
        (0..self.places.len())
            .map(|index| (event(&self.places[index]), index))
            .filter(|((at, _), _)| *at <= until)
            .min()
            .map(|((at, _), index)| (at, index))
    }
}

impl SteppedWorker {
    fn advance(&mut self, clock: &dyn Clock, at: Instant) {
        self.state = match self.state {
            State::Working { next, .. } => {
                self.worker.publish(clock);
                State::Waiting { at: next.max(at) }
            }
            State::Waiting { .. } => {
                let next = self.worker.step(clock);
                State::Working { done: clock.now(), next }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Span;
    use std::sync::Mutex;

    /// Works for `cost` every `period` and records when it handed over.
    struct Diary {
        name: &'static str,
        period: Span,
        cost: Span,
        lines: Arc<Mutex<Vec<(&'static str, u64)>>>,
    }

    impl Worker for Diary {
        fn name(&self) -> &'static str {
            self.name
        }
        fn step(&mut self, clock: &dyn Clock) -> Instant {
            let now = clock.now();
            clock.sleep_until(now + self.cost);
            now + self.period
        }
        fn publish(&mut self, clock: &dyn Clock) {
            self.lines.lock().unwrap().push((self.name, clock.now().as_nanos()));
        }
    }

    #[test]
    fn workers_overlap_and_hand_over_in_order_of_time() {
        let clock = Arc::new(SimClock::new());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let mut stepper = Stepper::new(clock.clone());
        for (name, period, cost) in [("slow", 100, 70), ("quick", 30, 5)] {
            let (period, cost) = (Span::from_nanos(period), Span::from_nanos(cost));
            let worker = Diary { name, period, cost, lines: lines.clone() };
            stepper.add(Box::new(worker), Arc::default(), Instant::ZERO);
        }
        stepper.run_until(Instant::from_nanos(100));
        let expected = [("quick", 5), ("quick", 35), ("quick", 65), ("slow", 70), ("quick", 95)];
        assert_eq!(*lines.lock().unwrap(), expected);
        assert_eq!(clock.now(), Instant::from_nanos(100));
    }

    #[test]
    fn a_bell_wakes_an_idle_worker_once() {
        let clock = Arc::new(SimClock::new());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let waker = Arc::new(Waker::default());
        let mut stepper = Stepper::new(clock);
        let forever = Span::from_nanos(u64::MAX);
        let worker =
            Diary { name: "field", period: forever, cost: Span::from_nanos(8), lines: lines.clone() };
        stepper.add(Box::new(worker), waker.clone(), Instant::NEVER);
        stepper.run_until(Instant::from_nanos(10));
        waker.wake();
        waker.wake();
        stepper.run_until(Instant::from_nanos(50));
        assert_eq!(*lines.lock().unwrap(), [("field", 18)]);
    }
}
