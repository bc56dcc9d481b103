//! The socket of a brain: one thread receives datagrams and passes requests on; the compute threads seal and
//! send their answers themselves, so that no answer waits for another thread.

use super::counters::RobotRow;
use super::robots::{Arrival, Refusal, RobotId};
use super::sessions::{Incoming, Sessions};
use super::workers::{Event, Hub, Outlet};
use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::field::remote::message::{CycleAnswer, REQUEST_BYTES};
use crate::runtime::tether::Drops;
use crate::runtime::tether::datagram::{MOST_BYTES, UP_BYTES};
use crate::runtime::tether::session::PAYLOAD_MOST;
use crossbeam_channel::Sender;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often failed engines are reopened, silent robots are parked, and the end flag is checked.
const MAINTAIN_EVERY: Span = Span::from_millis(100);

const _: () = assert!(REQUEST_BYTES <= PAYLOAD_MOST);

/// The socket, and the sessions on it.
pub struct Network {
    socket: UdpSocket,
    sessions: Mutex<Sessions>,
    hub: Arc<Hub>,
    events: Sender<Event>,
}

/// The status of a brain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrainStatus {
    /// Version of this JSON object.
    pub schema: u32,
    /// Address on which it listens.
    pub listens: SocketAddr,
    /// Maximum number of robots that may join.
    pub most_robots: usize,
    /// Compute threads.
    pub threads: usize,
    /// The robots that have joined.
    pub robots: Vec<RobotStatus>,
    /// Dropped datagrams that belong to no session.
    pub drops: Drops,
    /// The service for em-brain clients, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub em_brain: Option<EmBrainStatus>,
}

/// Counters of the service for em-brain clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmBrainStatus {
    /// Address on which it listens.
    pub listens: SocketAddr,
    /// Connected clients.
    pub clients: usize,
    /// Clients that were accepted.
    pub accepted: u64,
    /// Clients that were rejected because there were too many.
    pub turned_away: u64,
    /// Frames that were answered with an action.
    pub actions: u64,
    /// Frames that were answered with an error.
    pub errors: u64,
    /// Clients that were disconnected because they were silent or slow, or sent invalid frames.
    pub let_go: u64,
}

/// A robot as its brain sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RobotStatus {
    /// Counters and times.
    #[serde(flatten)]
    pub row: RobotRow,
    /// Source address of its newest datagram.
    pub address: Option<SocketAddr>,
    /// Datagrams that were dropped on its sessions.
    pub drops: Drops,
}

impl Network {
    /// The network of `hub` on `socket`; events for the log go to `events`.
    pub fn new(socket: UdpSocket, sessions: Sessions, hub: Arc<Hub>, events: Sender<Event>) -> Network {
        Network { socket, sessions: Mutex::new(sessions), hub, events }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives until `ends` is set.
    ///
    /// # Errors
    ///
    /// If the socket's read timeout cannot be set.
    pub fn serve(&self, ends: &AtomicBool) -> io::Result<()> {
        self.socket.set_read_timeout(Some(Duration::from_nanos(MAINTAIN_EVERY.as_nanos())))?;
        // One extra byte, to detect a datagram that is too long.
        let mut datagram = [0; MOST_BYTES + 1];
        let mut maintained_at = Instant::ZERO;
        while !ends.load(Ordering::Acquire) {
            let received = self.socket.recv_from(&mut datagram);
            let now = MonotonicClock.now();
            if let Ok((length, from)) = received {
                self.take(&datagram[..length], from, now);
            } // Otherwise: a timeout, a signal, or the report that an old answer met a closed port; go on.
            if now.since(maintained_at) >= MAINTAIN_EVERY {
                maintained_at = now;
                self.maintain(now);
            }
        }
        Ok(())
    }

    fn take(&self, datagram: &[u8], from: SocketAddr, now: Instant) {
        let mut payload = [0; PAYLOAD_MOST];
        let incoming = self.sessions().receive(datagram, from, now, &self.hub, &mut payload);
        match incoming {
            Incoming::Nothing => {}
            Incoming::Request(robot, length) => {
                if let Arrival::Answer(answer) = self.hub.receive(robot, &payload[..length], now) {
                    self.answer(robot, &answer);
                }
            }
            Incoming::Reply(reply) => self.send(&reply, from),
            Incoming::Refused { name, why, reply } => {
                self.tell(Event::Refused { name, why: why.to_string() });
                reply.iter().for_each(|reply| self.send(reply, from));
            }
        }
    }

    fn maintain(&self, now: Instant) {
        self.hub.maintain(now);
        let here = self.hub.robots().ids();
        self.sessions().forget_gone(|robot| here.contains(&robot));
    }

    fn send(&self, datagram: &[u8], to: SocketAddr) {
        let _ = self.socket.send_to(datagram, to); // the robot handles this like a lost datagram
    }

    /// The brain's status.
    pub fn status(&self, most_robots: usize, threads: usize) -> io::Result<BrainStatus> {
        let rows = self.hub.robots().rows(MonotonicClock.now());
        let sessions = self.sessions();
        let robots = rows.into_iter().map(|row| {
            let (address, drops) = sessions.of_robot(&row.name);
            RobotStatus { row, address, drops }
        });
        let robots = robots.collect();
        let (listens, drops) = (self.socket.local_addr()?, sessions.drops());
        Ok(BrainStatus { schema: 1, listens, most_robots, threads, robots, drops, em_brain: None })
    }
}

impl Outlet for Network {
    fn answer(&self, robot: RobotId, answer: &CycleAnswer) {
        let mut out = [0; UP_BYTES];
        let mut sessions = self.sessions();
        let Some((datagram, to)) = sessions.seal(robot, answer, &mut out) else { return };
        drop(sessions);
        self.send(datagram, to);
    }

    fn opened(&self, robot: RobotId, opened: &Result<String, Refusal>) {
        let reply = self.sessions().opened(robot, opened);
        if let Some((datagram, to)) = reply {
            self.send(&datagram, to);
        }
    }

    fn tell(&self, event: Event) {
        let _ = self.events.send(event); // fails only at the end, when the receiver is gone
    }
}

#[cfg(test)]
mod tests;
