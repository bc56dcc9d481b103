//! The guard's default socket, and a client that sends it one request.

use super::frame::{Ask, GuardAnswer, LENGTH, Request};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::system::seqpacket::{Received, connect_to, receive, send_to, wait_for};
use std::io;
use std::path::Path;

/// Where the guard listens by default: in its own directory, which the runtime's user cannot write to.
pub const GUARD_SOCKET: &str = "/run/ganglion-guard/guard.sock";

/// Sends the guard at `path` one request and waits for its answer, at most `timeout`.
pub fn ask_once(path: &Path, ask: Ask, timeout: Span) -> io::Result<GuardAnswer> {
    let clock = MonotonicClock;
    let connection = connect_to(path)?;
    let request = Request { sequence: 1, stamp: clock.now(), ask };
    if !send_to(&connection, &request.encode()) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    let until = clock.now() + timeout;
    let mut bytes = [0; LENGTH + 1];
    loop {
        match receive(&connection, &mut bytes) {
            Received::Message(length) => {
                let answer = GuardAnswer::decode(&bytes[..length.min(bytes.len())]);
                return answer.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
            }
            Received::Closed => return Err(io::ErrorKind::ConnectionReset.into()),
            Received::Nothing if clock.now() >= until => return Err(io::ErrorKind::TimedOut.into()),
            Received::Nothing => _ = wait_for(&[&connection], until.since(clock.now())),
        }
    }
}
