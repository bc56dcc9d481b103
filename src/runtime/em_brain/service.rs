//! The sockets of the em-brain protocol: one thread accepts clients, each client has a thread that serves it
//! (`client_thread`), and the brain's threads compute the cycles.
//!
//! What clients can cost is limited by their number, the length of a frame, the time to receive a frame and
//! to send an answer, and the silence between two frames.

mod client_thread;

use super::profile::Profile;
use crate::field::brain::MotorRequests;
use crate::field::remote::message::CycleAnswer;
use crate::runtime::brain::boards::ServedBoard;
use crate::runtime::brain::network::{BrainStatus, EmBrainStatus, Network};
use crate::runtime::brain::robots::{Refusal, RobotId};
use crate::runtime::brain::workers::{Event, Hub, Outlet};
use client_thread::ClientThread;
use crossbeam_channel::Sender;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Maximum number of clients at a time: each has a thread, and usually sends 20 frames a second.
const CLIENTS_MOST: usize = 32;
/// How often a waiting thread checks whether the service is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Counts {
    accepted: AtomicU64,
    turned_away: AtomicU64,
    actions: AtomicU64,
    errors: AtomicU64,
    let_go: AtomicU64,
}

/// A message to a client's thread.
enum Message {
    /// The client's engine was opened (its name), or could not be opened (why).
    Opened(Result<String, String>),
    /// The answer of a cycle.
    Answer(CycleAnswer),
}

#[derive(Default)]
struct Clients {
    by_robot: HashMap<RobotId, Sender<Message>>,
    names: BTreeSet<String>,
}

/// The service.
pub struct EmBrain {
    listener: TcpListener,
    profile: Arc<Profile>,
    board: Arc<ServedBoard>,
    requests: MotorRequests,
    hub: Arc<Hub>,
    clients: Mutex<Clients>,
    counts: Counts,
}

impl EmBrain {
    /// A service that accepts robots of `board` on `listener` and converts their vectors with `profile`;
    /// `hub` computes their cycles.
    pub fn new(listener: TcpListener, profile: Profile, board: Arc<ServedBoard>, hub: Arc<Hub>) -> EmBrain {
        let requests = MotorRequests::of(&board.board);
        let (profile, clients, counts) = (Arc::new(profile), Mutex::default(), Counts::default());
        EmBrain { listener, profile, board, requests, hub, clients, counts }
    }

    /// Accepts clients until `ends` is set, and returns when the last one is gone.
    ///
    /// # Errors
    ///
    /// If the listener cannot be made non-blocking.
    pub fn serve(&self, ends: &AtomicBool) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        thread::scope(|scope| {
            while !ends.load(Ordering::Acquire) {
                let (stream, from) = match self.listener.accept() {
                    Ok(accepted) => accepted,
                    // No client is waiting, the client is gone again, or no descriptor is free: retry.
                    Err(_) => {
                        thread::sleep(LOOK_EVERY / 4);
                        continue;
                    }
                };
                let Some(name) = self.admit(from.ip()) else {
                    self.counts.turned_away.fetch_add(1, Ordering::Relaxed);
                    continue; // closed
                };
                self.counts.accepted.fetch_add(1, Ordering::Relaxed);
                let own = name.clone();
                let spawned = thread::Builder::new().name("em-brain".into()).spawn_scoped(scope, move || {
                    let mut client = ClientThread::new(self, own);
                    let ended = client.serve(stream, ends);
                    if ended.is_err() {
                        self.counts.let_go.fetch_add(1, Ordering::Relaxed);
                    }
                });
                if spawned.is_err() {
                    self.clients().names.remove(&name);
                    self.counts.turned_away.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        })
    }

    /// The first free name for a client from `address`, unless there are too many clients. No key can have
    /// such a name, so a client never gets the brain of a robot that has a key.
    fn admit(&self, address: IpAddr) -> Option<String> {
        let mut clients = self.clients();
        if clients.names.len() >= CLIENTS_MOST {
            return None;
        }
        let address = address.to_string().replace(':', "_");
        let names = (1..).map(|nth| match nth {
            1 => format!("_em-{address}"),
            nth => format!("_em-{address}-{nth}"),
        });
        let name = names.take(CLIENTS_MOST + 1).find(|name| !clients.names.contains(name))?;
        clients.names.insert(name.clone());
        Some(name)
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to the thread of `robot`; returns whether `robot` is a client.
    fn tell(&self, robot: RobotId, message: Message) -> bool {
        let clients = self.clients();
        let Some(sender) = clients.by_robot.get(&robot) else { return false };
        let _ = sender.try_send(message); // full: the thread has given up on the earlier messages
        true
    }

    /// The status of the service.
    pub fn status(&self) -> io::Result<EmBrainStatus> {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { accepted, turned_away, actions, errors, let_go } = &self.counts;
        Ok(EmBrainStatus {
            listens: self.listener.local_addr()?,
            clients: self.clients().names.len(),
            accepted: count(accepted),
            turned_away: count(turned_away),
            actions: count(actions),
            errors: count(errors),
            let_go: count(let_go),
        })
    }
}

/// Routes the answers to all robots: those to clients through their threads, all others over the network.
pub struct Outlets {
    /// The robots that joined with a key.
    pub network: Network,
    /// The clients of the em-brain protocol.
    pub em_brain: Option<EmBrain>,
}

impl Outlets {
    /// The status of the brain.
    pub fn status(&self, most_robots: usize, threads: usize) -> io::Result<BrainStatus> {
        let em_brain = self.em_brain.as_ref().map(EmBrain::status).transpose()?;
        Ok(BrainStatus { em_brain, ..self.network.status(most_robots, threads)? })
    }
}

impl Outlet for Outlets {
    fn answer(&self, robot: RobotId, answer: &CycleAnswer) {
        let em_brain = self.em_brain.as_ref();
        if !em_brain.is_some_and(|service| service.tell(robot, Message::Answer(*answer))) {
            self.network.answer(robot, answer);
        }
    }

    fn opened(&self, robot: RobotId, opened: &Result<String, Refusal>) {
        let is_client = |service: &EmBrain| {
            let result = match opened {
                Ok(engine) => Ok(engine.clone()),
                Err(why) => Err(why.to_string()),
            };
            service.tell(robot, Message::Opened(result))
        };
        if !self.em_brain.as_ref().is_some_and(is_client) {
            self.network.opened(robot, opened);
        }
    }

    fn tell(&self, event: Event) {
        self.network.tell(event);
    }
}

#[cfg(test)]
mod tests;
