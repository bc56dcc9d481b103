//! The threads of a brain: as many as it may compute on, each of which takes the most urgent cycle of any
//! robot, and one that opens and parks engines, so that no robot waits for another that joins or leaves.

use super::counters::RobotRow;
use super::engine::Opening;
use super::robots::{Arrival, Chore, Cycle, Refusal, RobotId, Robots, Task};
use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::field::remote::message::CycleAnswer;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread without work looks this often whether the brain ends.
const LONGEST_WAIT: Span = Span::from_millis(200);

/// What a brain tells whoever runs it.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A robot has its engine.
    Joined {
        /// Its name.
        name: String,
        /// Its board.
        board: String,
        /// What computes it.
        engine: String,
        /// Cycles that it had lived through before; `None`: it starts at rest.
        resumed_age: Option<u64>,
    },
    /// A robot may not join.
    Refused {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// The engine of a robot failed and is opened again.
    Failed {
        /// Its name.
        name: String,
    },
    /// A robot was silent for long: its engine is dropped.
    Left {
        /// Its row at the end.
        row: Box<RobotRow>,
        /// Whether its brain is in a file now.
        saved: bool,
    },
}

/// Who takes what the threads make. Called by any of them; must not wait.
pub trait Outlet: Send + Sync + 'static {
    /// An answer for a robot.
    fn answer(&self, robot: RobotId, answer: &CycleAnswer);

    /// The engine of a robot was opened, or it may not join. It may ask the [`Hub`].
    fn opened(&self, robot: RobotId, opened: &Result<String, Refusal>);

    /// Something for people.
    fn tell(&self, event: Event);
}

/// The robots, and what the threads share.
pub struct Hub {
    robots: Mutex<Robots>,
    arrived: Condvar,
    ends: AtomicBool,
    orders: Sender<OpenerTask>,
}

/// What the opener is told to do.
enum OpenerTask {
    Do(Chore),
    End,
}

/// The running threads.
pub struct Workers {
    hub: Arc<Hub>,
    threads: Vec<JoinHandle<()>>,
    opener: Option<JoinHandle<()>>,
}

impl Hub {
    /// The robots, for a moment.
    pub fn robots(&self) -> MutexGuard<'_, Robots> {
        self.robots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the bytes of a request; wakes a thread for it.
    pub fn receive(&self, id: RobotId, bytes: &[u8], now: Instant) -> Arrival {
        let arrival = self.robots().receive(id, bytes, now);
        if arrival == Arrival::Waits {
            self.arrived.notify_one();
        }
        arrival
    }

    /// Has the engine of a robot opened.
    pub fn open(&self, id: RobotId, opening: Opening) {
        let _ = self.orders.send(OpenerTask::Do(Chore::Open(id, opening))); // without an opener the brain ends
    }

    /// Does what is due now and then; to be called about ten times a second.
    pub fn maintain(&self, now: Instant) {
        let chores = self.robots().chores(now);
        for chore in chores {
            let _ = self.orders.send(OpenerTask::Do(chore)); // as above
        }
    }

    fn compute(&self, outlet: &impl Outlet, clock: &MonotonicClock) {
        while !self.ends.load(Ordering::Acquire) {
            let task = {
                let mut robots = self.robots();
                match robots.next_task(clock.now()) {
                    Task::Wait(until) => {
                        let wait = until.since(clock.now()).min(LONGEST_WAIT);
                        let wait = Duration::from_nanos(wait.as_nanos());
                        // Woken, interrupted or timed out: it looks again.
                        drop(self.arrived.wait_timeout(robots, wait));
                        continue;
                    }
                    task => task,
                }
            };
            match task {
                Task::Send(robot, answer) => outlet.answer(robot, &answer),
                Task::Compute(cycle) => self.serve(cycle, outlet, clock),
                Task::Wait(_) => {}
            }
        }
    }

    /// One cycle: the answer leaves before anything else is done.
    fn serve(&self, mut cycle: Cycle, outlet: &impl Outlet, clock: &MonotonicClock) {
        let computed = cycle.engine.answer(&cycle.pending, clock);
        outlet.answer(cycle.robot, &computed.answer);
        let ready = clock.now();
        if computed.is_sound {
            cycle.engine.do_chores(ready);
        }
        let robot = cycle.robot;
        self.robots().done(cycle, &computed, ready);
        if !computed.is_sound
            && let Some(name) = self.robots().name_of(robot)
        {
            outlet.tell(Event::Failed { name });
        }
        // A newer request may have come meanwhile.
        self.arrived.notify_one();
    }

    fn open_until_the_end(&self, orders: &Receiver<OpenerTask>, outlet: &impl Outlet) {
        for order in orders {
            match order {
                OpenerTask::End => return,
                OpenerTask::Do(Chore::Open(id, opening)) => self.open_now(id, opening, outlet),
                OpenerTask::Do(Chore::Park { engine, row, .. }) => {
                    let saved = engine.finish().is_some_and(|counts| counts.written > 0 && counts.finished);
                    outlet.tell(Event::Left { row, saved });
                }
            }
        }
    }

    fn open_now(&self, id: RobotId, opening: Opening, outlet: &impl Outlet) {
        let (clock, board) = (MonotonicClock, opening.board().clone());
        // Whether a robot fits is known when its board was measured.
        let opened = board.prepare().and_then(|_| opening.open(Arc::new(clock)));
        let resumed_age = opened.as_ref().ok().and_then(|engine| engine.resumed_age());
        let name = self.robots().name_of(id);
        let seated = self.robots().seat(id, opened, clock.now());
        outlet.opened(id, &seated);
        let Some(name) = name else { return };
        outlet.tell(match seated {
            Ok(engine) => Event::Joined { name, board: board.board.name.clone(), engine, resumed_age },
            Err(why) => Event::Refused { name, why: why.to_string() },
        });
    }
}

impl Workers {
    /// Starts `threads` threads that compute for `robots`, and the opener. What they make goes to `outlet`,
    /// which is made from the hub.
    pub fn start<O: Outlet>(
        robots: Robots,
        threads: usize,
        outlet: impl FnOnce(&Arc<Hub>) -> Arc<O>,
    ) -> io::Result<(Workers, Arc<O>)> {
        let (orders, chores) = unbounded();
        let hub = Arc::new(Hub {
            robots: Mutex::new(robots),
            arrived: Condvar::new(),
            ends: AtomicBool::new(false),
            orders,
        });
        let outlet = outlet(&hub);
        let mut workers = Workers { hub: hub.clone(), threads: Vec::new(), opener: None };
        for _ in 0..threads {
            let (hub, outlet) = (hub.clone(), outlet.clone());
            let thread = thread::Builder::new().name("compute".into());
            workers.threads.push(thread.spawn(move || hub.compute(&*outlet, &MonotonicClock))?);
        }
        let told = outlet.clone();
        let opener = thread::Builder::new().name("open robots".into());
        workers.opener = Some(opener.spawn(move || hub.open_until_the_end(&chores, &*told))?);
        Ok((workers, outlet))
    }

    /// What the threads share.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Ends the threads and writes the snapshot of every robot.
    pub fn end(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        self.hub.ends.store(true, Ordering::Release);
        self.hub.arrived.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // one that panicked has nothing in hand any more
        }
        let Some(opener) = self.opener.take() else { return };
        let chores = self.hub.robots().end(MonotonicClock.now());
        for chore in chores {
            let _ = self.hub.orders.send(OpenerTask::Do(chore)); // the opener is there until its end
        }
        let _ = self.hub.orders.send(OpenerTask::End);
        let _ = opener.join(); // a panic of it has been reported
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.halt();
    }
}
