//! Local SOCK_SEQPACKET sockets that never block. A message arrives whole or not at all, and each side
//! notices at once when the other closes. The guard, the rebind helper and the tether use them.

mod lock;

pub use lock::SocketLock;

use crate::base::time::Span;
use lock::open;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, connect, recv, send,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Connections that may wait to be accepted: a runtime, a safe-stop and a user.
const BACKLOG: i32 = 4;

/// Listens at `path`, where its owner and its group may connect, for as long as the lock is held. Replaces a
/// socket that a dead process left behind, but not one on which a process listens.
pub fn listen_at(path: &Path) -> io::Result<(SocketLock, OwnedFd)> {
    let mut lock = SocketLock::take(path)?;
    let socket = lock.listen(SocketType::SEQPACKET, BACKLOG)?;
    Ok((lock, socket))
}

/// Connects to the socket at `path`. A Unix socket connects at once or refuses.
pub fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = open(SocketType::SEQPACKET)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// The next connection, if one is waiting.
pub fn next_of(listener: &OwnedFd) -> Option<OwnedFd> {
    accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()
}

/// What was read from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message of this many bytes; whatever does not fit into the buffer is cut off.
    Message(usize),
    /// Nothing yet.
    Nothing,
    /// The other side is gone.
    Closed,
}

/// Reads the next message from `connection`, without waiting.
pub fn receive(connection: impl AsFd, into: &mut [u8]) -> Received {
    loop {
        return match recv(&connection, &mut *into, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Received::Closed,
            Ok((_, length)) => Received::Message(length),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Received::Nothing,
            Err(_) => Received::Closed,
        };
    }
}

/// Sends one message without waiting; `false`: the queue is full or the other side is gone.
pub fn send_to(connection: impl AsFd, bytes: &[u8]) -> bool {
    send(connection, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok_and(|sent| sent == bytes.len())
}

/// Waits until one of `descriptors` is readable, at most `longest`; returns whether one is. Polls only the
/// first four.
pub fn wait_for(descriptors: &[impl AsFd], longest: Span) -> bool {
    let mut waited_for = heapless::Vec::<PollFd<'_>, 4>::new();
    for descriptor in descriptors.iter().take(4) {
        let _ = waited_for.push(PollFd::new(descriptor, PollFlags::IN)); // there is room for all four
    }
    // Interrupted or timed out: the caller checks again.
    poll(&mut waited_for, Some(&timespec(longest))).is_ok_and(|ready| ready > 0)
}

/// Clears a non-blocking event descriptor.
pub fn drain(event: &OwnedFd) {
    let mut count = [0; 8];
    let _ = rustix::io::read(event, &mut count); // it is fine if there is nothing to clear
}

/// Converts a span to the kernel's `timespec`.
pub fn timespec(span: Span) -> Timespec {
    let nanos = span.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::guard::AllowedUser;

    fn path(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("ganglion-{name}-{}.sock", std::process::id()))
    }

    #[test]
    fn message_boundaries_are_kept_and_the_end_is_seen() {
        let path = path("borders");
        let (place, listener) = listen_at(&path).unwrap();
        assert!(next_of(&listener).is_none());
        let here = connect_to(&path).unwrap();
        let there = next_of(&listener).unwrap();
        assert!(AllowedUser::own().is_at(&there));
        let mut buffer = [0; 8];
        assert_eq!(receive(&there, &mut buffer), Received::Nothing);
        assert!(send_to(&here, b"one") && send_to(&here, b"three"));
        assert_eq!(receive(&there, &mut buffer), Received::Message(3));
        assert_eq!(&buffer[..3], b"one");
        assert_eq!(receive(&there, &mut buffer), Received::Message(5));
        drop(here);
        assert_eq!(receive(&there, &mut buffer), Received::Closed);
        assert!(!send_to(&there, b"x"), "the send fails, without SIGPIPE");
        drop(place);
        assert!(!path.exists());
        std::fs::remove_file(path.with_extension("sock.lock")).unwrap();
    }
}
