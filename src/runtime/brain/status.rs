//! The status socket of a running brain: a process that connects gets one line of JSON.

use super::network::BrainStatus;
use crate::system::seqpacket::SocketLock;
use rustix::net::SocketType;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Default path of the status socket.
pub const BRAIN_SOCKET: &str = "/run/ganglion-brain/brain.sock";
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 8;
/// How often the thread checks for callers and for the end; a caller waits at most this long if it is alone.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A caller that does not read for this long is disconnected; a brain that does not answer for this long
/// counts as hung.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest line that is read: about five times the length of the line for 64 robots.
const LONGEST_LINE: u64 = 1 << 19;

/// The status socket.
pub struct StatusSocket {
    listener: UnixListener,
    _place: SocketLock,
}

impl StatusSocket {
    /// Listens at `path`. Processes of the socket's owner and group may connect.
    ///
    /// # Errors
    ///
    /// If the system refuses, or another brain is listening there.
    pub fn open(path: &Path) -> io::Result<StatusSocket> {
        let mut place = SocketLock::take(path)?;
        let listener = UnixListener::from(place.listen(SocketType::STREAM, BACKLOG)?);
        listener.set_nonblocking(true)?;
        Ok(StatusSocket { listener, _place: place })
    }

    /// Sends each caller the result of `status`, until `ends` is set.
    pub fn serve(&self, ends: &AtomicBool, status: impl Fn() -> io::Result<BrainStatus>) {
        while !ends.load(Ordering::Acquire) {
            match self.listener.accept() {
                Ok((caller, _)) => _ = status().and_then(|status| tell(caller, &status)), // fails if the caller is gone
                Err(_) => thread::sleep(LOOK_EVERY),
            }
        }
    }
}

fn tell(mut caller: UnixStream, status: &BrainStatus) -> io::Result<()> {
    caller.set_nonblocking(false)?;
    caller.set_write_timeout(Some(TIMEOUT))?;
    let mut line = serde_json::to_vec(status).map_err(io::Error::other)?;
    line.push(b'\n');
    caller.write_all(&line)
}

/// The status of the brain that listens at `path`.
///
/// # Errors
///
/// If no process answers there, or if the process that answers is not a brain.
pub fn ask(path: &Path) -> io::Result<BrainStatus> {
    let brain = UnixStream::connect(path)?;
    brain.set_read_timeout(Some(TIMEOUT))?;
    let mut line = Vec::new();
    brain.take(LONGEST_LINE).read_to_end(&mut line)?;
    serde_json::from_slice(&line).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}
