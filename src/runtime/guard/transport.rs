//! The connection from a runtime to its guard: a socket in real time, a simulated one in virtual time. It
//! keeps message boundaries, but does not interpret the messages.

use crate::base::time::Span;
use crate::system::seqpacket::{Received, connect_to, drain, receive, send_to, wait_for};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A transport has one connection at a time. Only `wait` blocks.
pub trait Transport: Send {
    /// Connects; returns whether that succeeded.
    fn connect(&mut self) -> bool;
    /// Closes the connection.
    fn disconnect(&mut self);
    /// Whether there is a connection.
    fn is_connected(&self) -> bool;
    /// Sends one message; if that fails, the message is lost.
    fn send(&mut self, bytes: &[u8]);
    /// Reads the next message.
    fn receive(&mut self, into: &mut [u8]) -> Received;
    /// Waits until `asked` is signaled or a message arrives, at most `longest`.
    fn wait(&mut self, asked: &OwnedFd, longest: Span);
}

/// A Unix socket.
pub struct SocketTransport {
    path: PathBuf,
    connection: Option<OwnedFd>,
}

impl SocketTransport {
    /// A transport to the guard at `path`, not connected yet.
    pub fn new(path: PathBuf) -> SocketTransport {
        SocketTransport { path, connection: None }
    }
}

impl Transport for SocketTransport {
    fn connect(&mut self) -> bool {
        self.connection = connect_to(&self.path).ok();
        self.is_connected()
    }
    fn disconnect(&mut self) {
        self.connection = None;
    }
    fn is_connected(&self) -> bool {
        self.connection.is_some()
    }
    fn send(&mut self, bytes: &[u8]) {
        if let Some(connection) = &self.connection {
            let _ = send_to(connection, bytes); // the caller notices the missing answer
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
