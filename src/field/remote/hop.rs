//! Carries messages to the tether's process and back: a local socket, or a script in a test. No call waits
//! longer than it is told to.

use crate::base::time::{Clock, Instant};
use crate::system::seqpacket::{self, Received};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A connection to the tether's process.
pub trait Hop: Send {
    /// Reconnects; fails instead of waiting.
    fn connect(&mut self) -> bool;

    /// Drops the connection.
    fn close(&mut self);

    /// Sends one message; `false`: the queue is full or the other side is gone.
    fn send(&mut self, message: &[u8]) -> bool;

    /// The next message; waits for it until `until` at most.
    fn receive(&mut self, into: &mut [u8], until: Instant) -> Received;
}

/// The local socket.
pub struct SocketHop<C> {
    path: PathBuf,
    connection: Option<OwnedFd>,
    clock: C,
}

impl<C: Clock> SocketHop<C> {
    /// A hop to the socket at `path`; `clock` measures the waits, which are in real time.
    pub fn new(path: PathBuf, clock: C) -> SocketHop<C> {
        SocketHop { path, connection: None, clock }
    }
}

impl<C: Clock> Hop for SocketHop<C> {
    fn connect(&mut self) -> bool {
        self.connection = seqpacket::connect_to(&self.path).ok();
        self.connection.is_some()
    }

    fn close(&mut self) {
        self.connection = None;
    }

    fn send(&mut self, message: &[u8]) -> bool {
        self.connection.as_ref().is_some_and(|connection| seqpacket::send_to(connection, message))
    }

    fn receive(&mut self, into: &mut [u8], until: Instant) -> Received {
        let Some(connection) = &self.connection else { return Received::Closed };
        loop {
            match seqpacket::receive(connection, into) {
                Received::Nothing => {}
                received => return received,
            }
            let left = until.since(self.clock.now());
            if left.as_nanos() == 0 {
                return Received::Nothing;
            }
            seqpacket::wait_for(&[connection], left);
        }
    }
}
