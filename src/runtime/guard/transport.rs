//! The path from a runtime to its guard: one connection that keeps message borders. In real time it is a
//! socket; in virtual time, whatever the stepper of both ends provides. Knows no frame.

use crate::base::time::Span;
use crate::system::seqpacket::{Received, connect_to, drain, receive, send_to, wait_for};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// One connection at a time. Nothing but `wait` waits.
pub trait Transport: Send {
    /// Makes the connection; returns whether there is one now.
    fn connect(&mut self) -> bool;
    /// Closes it.
    fn part(&mut self);
    /// Whether there is one.
    fn is_connected(&self) -> bool;
    /// Sends one message. One that cannot be sent is lost.
    fn send(&mut self, bytes: &[u8]);
    /// Reads the next message.
    fn receive(&mut self, into: &mut [u8]) -> Received;
    /// Waits until `asked` is signalled or a message arrives, at most `longest`.
    fn wait(&mut self, asked: &OwnedFd, longest: Span);
}

/// A socket.
pub struct SocketTransport {
    path: PathBuf,
    connection: Option<OwnedFd>,
}

impl SocketTransport {
    /// To the guard that listens at `path`; no connection yet.
    pub fn new(path: PathBuf) -> SocketTransport {
        SocketTransport { path, connection: None }
    }
}

impl Transport for SocketTransport {
    fn connect(&mut self) -> bool {
        self.connection = connect_to(&self.path).ok();
        self.is_connected()
    }
    fn part(&mut self) {
        self.connection = None;
    }
    fn is_connected(&self) -> bool {
        self.connection.is_some()
    }
    fn send(&mut self, bytes: &[u8]) {
        if let Some(connection) = &self.connection {
            let _ = send_to(connection, bytes); // no answer comes, and that is what counts
        }
    }
    fn receive(&mut self, into: &mut [u8]) -> Received {
        self.connection.as_ref().map_or(Received::Nothing, |connection| receive(connection, into))
    }
    fn wait(&mut self, asked: &OwnedFd, longest: Span) {
        match &self.connection {
            Some(connection) => wait_for(&[asked, connection], longest),
            None => wait_for(&[asked], longest),
        };
        drain(asked);
    }
}
