//! The guard's default socket, and a client that sends it one request.

use super::frame::{Ask, GuardAnswer, LENGTH, Request};
use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::system::seqpacket::{Received, connect_to, receive, send_to, wait_for};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Where the guard listens by default: in its own directory, which the runtime's user cannot write to.
pub const GUARD_SOCKET: &str = "/run/ganglion-guard/guard.sock";

/// Delay before asking again: the guard handles a waiting connection within a millisecond.
const ASK_AGAIN: Span = Span::from_millis(2);

/// Sends the guard at `path` one request and waits for its answer, at most `timeout`. Asks again if the guard
/// has no room for the connection, or closes it without an answer: when all places are taken, a new caller
/// takes the place of another.
pub fn ask_once(path: &Path, ask: Ask, timeout: Span) -> io::Result<GuardAnswer> {
    let clock = MonotonicClock;
    let until = clock.now() + timeout;
    loop {
        let error = match connect_to(path).and_then(|connection| ask_over(connection, ask, until)) {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        // WouldBlock: as many connections as the socket allows wait to be accepted.
        let crowded = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe, ErrorKind::WouldBlock];
        if !crowded.contains(&error.kind()) || clock.now() + ASK_AGAIN >= until {
            return Err(error);
        }
        clock.sleep_until(clock.now() + ASK_AGAIN);
    }
}

/// One request on its own connection.
fn ask_over(connection: OwnedFd, ask: Ask, until: Instant) -> io::Result<GuardAnswer> {
    let clock = MonotonicClock;
    let request = Request { sequence: 1, stamp: clock.now(), ask };
    if !send_to(&connection, &request.encode()) {
        return Err(ErrorKind::BrokenPipe.into());
    }
    let mut bytes = [0; LENGTH + 1]; // one extra byte, to detect a message that is too long
    loop {
        match receive(&connection, &mut bytes) {
            Received::Message(length) => {
                let answer = GuardAnswer::decode(&bytes[..length.min(bytes.len())]);
                return answer.map_err(|error| io::Error::new(ErrorKind::InvalidData, error));
            }
            Received::Closed => return Err(ErrorKind::ConnectionReset.into()),
            Received::Nothing if clock.now() >= until => return Err(ErrorKind::TimedOut.into()),
            Received::Nothing => _ = wait_for(&[&connection], until.since(clock.now())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::guard::frame::{GuardStatus, Phase};
    use crate::system::seqpacket::{listen_at, next_of};
    use std::thread;

    /// Long enough for a loaded machine; the test waits for events, not for its end.
    const SOON: Span = Span::from_millis(60_000);
    const STATUS: GuardStatus =
        GuardStatus { phase: Phase::Waiting, line_on: false, line_sound: true, trips: 3, beats: 7, stop: 0 };

    /// The first two connections end without an answer, one of them unread.
    #[test]
    fn a_request_is_repeated_until_it_is_answered() {
        let path = std::env::temp_dir().join(format!("ganglion-again-{}.sock", std::process::id()));
        let (place, listener) = listen_at(&path).unwrap();
        let asks = thread::spawn({
            let path = path.clone();
            move || ask_once(&path, Ask::Status, SOON)
        });
        let next = || {
            assert!(wait_for(&[&listener], SOON));
            next_of(&listener).unwrap()
        };
        drop(next());
        let mut bytes = [0; LENGTH];
        for is_answered in [false, true] {
            let connection = next();
            assert!(wait_for(&[&connection], SOON));
            assert_eq!(receive(&connection, &mut bytes), Received::Message(LENGTH));
            let request = Request::decode(&bytes).unwrap();
            assert_eq!((request.sequence, request.ask), (1, Ask::Status));
            let answer = GuardAnswer { sequence: request.sequence, refused: None, status: STATUS };
            assert!(!is_answered || send_to(&connection, &answer.encode()));
        }
        assert_eq!(asks.join().unwrap().unwrap().status, STATUS);
        drop(place);
        std::fs::remove_file(path.with_extension("sock.lock")).unwrap();
    }
}
