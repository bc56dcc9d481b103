//! The socket of a brain: one thread takes datagrams and hands requests over; the threads that compute seal
//! and send their answers themselves, so that no answer waits for another thread.

use super::counters::RobotRow;
use super::reception::{Incoming, Reception};
use super::robots::{Arrival, Refusal, RobotId};
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

/// How often engines are tended and the end is looked for.
const TEND_EVERY: Span = Span::from_millis(100);

const _: () = assert!(REQUEST_BYTES <= PAYLOAD_MOST);

/// The socket with the sessions on it.
pub struct Network {
    socket: UdpSocket,
    reception: Mutex<Reception>,
    hub: Arc<Hub>,
    events: Sender<Event>,
}

/// All that a brain says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrainStatus {
    /// Of this layout.
    pub schema: u32,
    /// Where it listens.
    pub listens: SocketAddr,
    /// Robots that may join.
    pub most_robots: usize,
    /// Threads that compute.
    pub threads: usize,
    /// Those that have joined.
    pub robots: Vec<RobotStatus>,
    /// Datagrams that were dropped in nobody's name.
    pub drops: Drops,
    /// The service for em-brain clients, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub em_brain: Option<EmBrainStatus>,
}

/// What the service for em-brain clients counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmBrainStatus {
    /// Where it listens.
    pub listens: SocketAddr,
    /// Clients that are connected.
    pub clients: usize,
    /// Clients that were accepted.
    pub accepted: u64,
    /// Clients that were turned away, because there were too many.
    pub turned_away: u64,
    /// Frames that were answered with an action.
    pub actions: u64,
    /// Frames that were answered with an error.
    pub errors: u64,
    /// Clients that were let go: silent, slow, or out of step with their frames.
    pub let_go: u64,
}

/// A robot as its brain sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RobotStatus {
    /// What was counted and measured.
    #[serde(flatten)]
    pub row: RobotRow,
    /// Where its newest datagram came from.
    pub address: Option<SocketAddr>,
    /// Datagrams that were dropped in its name.
    pub drops: Drops,
}

impl Network {
    /// The network of `hub` on `socket`; what people should know goes to `events`.
    pub fn new(socket: UdpSocket, reception: Reception, hub: Arc<Hub>, events: Sender<Event>) -> Network {
        Network { socket, reception: Mutex::new(reception), hub, events }
    }

    fn reception(&self) -> MutexGuard<'_, Reception> {
        self.reception.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives until `ends`.
    ///
    /// # Errors
    ///
    /// What the system says of the socket.
    pub fn serve(&self, ends: &AtomicBool) -> io::Result<()> {
        self.socket.set_read_timeout(Some(Duration::from_nanos(TEND_EVERY.as_nanos())))?;
        // One byte more than any datagram: a longer one is seen to be longer.
        let mut datagram = [0; MOST_BYTES + 1];
        let mut tended_at = Instant::ZERO;
        while !ends.load(Ordering::Acquire) {
            let received = self.socket.recv_from(&mut datagram);
            let now = MonotonicClock.now();
            if let Ok((length, from)) = received {
                self.take(&datagram[..length], from, now);
            } // Timed out, interrupted, or an old answer met a closed port: the next one counts.
            if now.since(tended_at) >= TEND_EVERY {
                tended_at = now;
                self.maintain(now);
            }
        }
        Ok(())
    }

    fn take(&self, datagram: &[u8], from: SocketAddr, now: Instant) {
        let mut payload = [0; PAYLOAD_MOST];
        let incoming = self.reception().receive(datagram, from, now, &self.hub, &mut payload);
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
        self.reception().forget_gone(|robot| here.contains(&robot));
    }

    fn send(&self, datagram: &[u8], to: SocketAddr) {
        let _ = self.socket.send_to(datagram, to); // lost here is lost on the way: the robot sees it missing
    }

    /// How it fares.
    pub fn status(&self, most_robots: usize, threads: usize) -> io::Result<BrainStatus> {
        let rows = self.hub.robots().rows(MonotonicClock.now());
        let reception = self.reception();
        let robots = rows.into_iter().map(|row| {
            let (address, drops) = reception.of_robot(&row.name);
            RobotStatus { row, address, drops }
        });
        let robots = robots.collect();
        let (listens, drops) = (self.socket.local_addr()?, reception.drops());
        Ok(BrainStatus { schema: 1, listens, most_robots, threads, robots, drops, em_brain: None })
    }
}

impl Outlet for Network {
    fn answer(&self, robot: RobotId, answer: &CycleAnswer) {
        let mut out = [0; UP_BYTES];
        let mut reception = self.reception();
        let Some((datagram, to)) = reception.seal(robot, answer, &mut out) else { return };
        drop(reception);
        self.send(datagram, to);
    }

    fn opened(&self, robot: RobotId, opened: &Result<String, Refusal>) {
        let reply = self.reception().opened(robot, opened);
        if let Some((datagram, to)) = reply {
            self.send(&datagram, to);
        }
    }

    fn tell(&self, event: Event) {
        let _ = self.events.send(event); // nobody listens at the end
    }
}

#[cfg(test)]
mod tests;
