//! The threads of a brain: compute threads, each of which takes the most urgent cycle of any robot, and one
//! opener thread that opens and parks engines, so that no robot waits for another to join or leave.

use super::counters::RobotRow;
use super::engine::EngineOpener;
use super::robots::{Arrival, Chore, Cycle, Refusal, RobotId, Robots, Task};
use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::field::remote::message::CycleAnswer;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often an idle thread checks whether the brain is ending.
const LONGEST_WAIT: Span = Span::from_millis(200);

/// An event for the person or program that runs the brain.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A robot has its engine.
    Joined {
        /// Its name.
        name: String,
        /// Its board.
        board: String,
        /// What computes its field.
        engine: String,
        /// Cycles that its brain had computed before; `None`: it starts at rest.
        resumed_age: Option<u64>,
    },
    /// A robot may not join, or its failed engine could not be opened again.
    Refused {
        /// Its name.
        name: String,
        /// Why it was refused.
        why: String,
    },
    /// The engine of a robot failed and will be opened again.
    Failed {
        /// Its name.
        name: String,
    },
    /// A robot's engine was dropped, because the robot was silent for a long time or because the brain ends.
    Left {
        /// Its last row in the table.
        row: Box<RobotRow>,
        /// Whether its brain was saved to a file.
        saved: bool,
    },
}

/// Receives the results of the threads. Any thread may call it, so it must not block.
pub trait Outlet: Send + Sync + 'static {
    /// An answer for a robot.
    fn answer(&self, robot: RobotId, answer: &CycleAnswer);

    /// The engine of a robot was opened, or the robot may not join. This may call the [`Hub`].
    fn opened(&self, robot: RobotId, opened: &Result<String, Refusal>);

    /// Reports an event to the user.
    fn tell(&self, event: Event);
}

/// The robots, and the state that the threads share.
pub struct Hub {
    robots: Mutex<Robots>,
    arrived: Condvar,
    ends: AtomicBool,
    opener_tasks: Sender<OpenerTask>,
}

/// A task for the opener thread.
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
    /// Locks the table of robots; hold it only briefly.
    pub fn robots(&self) -> MutexGuard<'_, Robots> {
        self.robots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts the bytes of a request, and wakes a thread for it.
    pub fn receive(&self, id: RobotId, bytes: &[u8], now: Instant) -> Arrival {
        let arrival = self.robots().receive(id, bytes, now);
        if arrival == Arrival::Waits {
            self.arrived.notify_one();
        }
        arrival
    }

    /// Lets the opener thread open the engine of a robot.
    pub fn open(&self, id: RobotId, opener: EngineOpener) {
        let _ = self.opener_tasks.send(OpenerTask::Do(Chore::Open(id, opener))); // fails only at shutdown, after the opener
    }

    /// Does periodic work; called about ten times a second.
    pub fn maintain(&self, now: Instant) {
        let chores = self.robots().chores(now);
        for chore in chores {
            let _ = self.opener_tasks.send(OpenerTask::Do(chore)); // as above
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
                        // Woken, interrupted or timed out: check again.
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

    /// Computes one cycle, and sends the answer before anything else is done.
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
        // A newer request may have come in the meantime.
        self.arrived.notify_one();
    }

    fn open_until_the_end(&self, tasks: &Receiver<OpenerTask>, outlet: &impl Outlet) {
        for task in tasks {
            match task {
                OpenerTask::End => return,
                OpenerTask::Do(Chore::Open(id, opener)) => self.open_now(id, opener, outlet),
                OpenerTask::Do(Chore::Park { engine, row, .. }) => {
                    let saved = engine.finish().is_some_and(|counts| counts.written > 0 && counts.finished);
                    outlet.tell(Event::Left { row, saved });
                }
            }
        }
    }

    fn open_now(&self, id: RobotId, opener: EngineOpener, outlet: &impl Outlet) {
        let (clock, board) = (MonotonicClock, opener.board().clone());
        // Measures the board's cycle time first, because it decides whether the robot may join.
        let opened = board.prepare().and_then(|_| opener.open(Arc::new(clock)));
        let resumed_age = opened.as_ref().ok().and_then(|engine| engine.resumed_age());
        let name = self.robots().name_of(id);
        let installed = self.robots().install(id, opened, clock.now());
        outlet.opened(id, &installed);
        let Some(name) = name else { return };
        outlet.tell(match installed {
            Ok(engine) => Event::Joined { name, board: board.board.name.clone(), engine, resumed_age },
            Err(why) => Event::Refused { name, why: why.to_string() },
        });
    }
}

impl Workers {
    /// Starts `threads` compute threads for `robots`, and the opener. Their results go to the outlet that
    /// `outlet` makes from the hub.
    pub fn start<O: Outlet>(
        robots: Robots,
        threads: usize,
        outlet: impl FnOnce(&Arc<Hub>) -> Arc<O>,
    ) -> io::Result<(Workers, Arc<O>)> {
        let (opener_tasks, tasks) = unbounded();
        let hub = Arc::new(Hub {
            robots: Mutex::new(robots),
            arrived: Condvar::new(),
            ends: AtomicBool::new(false),
            opener_tasks,
        });
        let outlet = outlet(&hub);
        let mut workers = Workers { hub: hub.clone(), threads: Vec::new(), opener: None };
        for _ in 0..threads {
            let (hub, outlet) = (hub.clone(), outlet.clone());
            let thread = thread::Builder::new().name("compute".into());
            workers.threads.push(thread.spawn(move || hub.compute(&*outlet, &MonotonicClock))?);
        }
        let opener_outlet = outlet.clone();
        let opener = thread::Builder::new().name("open robots".into());
        workers.opener = Some(opener.spawn(move || hub.open_until_the_end(&tasks, &*opener_outlet))?);
        Ok((workers, outlet))
    }

    /// The state that the threads share.
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
            let _ = thread.join(); // a thread that panicked holds no engine any more
        }
        let Some(opener) = self.opener.take() else { return };
        let chores = self.hub.robots().end(MonotonicClock.now());
        for chore in chores {
            let _ = self.hub.opener_tasks.send(OpenerTask::Do(chore)); // the opener runs until `End`
        }
        let _ = self.hub.opener_tasks.send(OpenerTask::End);
        let _ = opener.join(); // a panic was already reported
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.halt();
    }
}
