//! One caller of the control socket, from its first byte to the last byte of its answer. Never blocks: every
//! call returns at once, whatever the other side does. One deadline covers the whole connection.

use super::outcome::PendingRequest;
use super::{Ask, LONGEST_LINE, Request, Sources};
use crate::base::time::{Instant, Span};
use crate::runtime::control::Status;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;

/// How long a connection may take from `accept` to the last byte of the answer. Every caller is on this
/// machine, so this is enough even if bytes arrive one at a time.
const LONGEST: Span = Span::from_millis(2_000);

/// The additional parts that a caller requests in its answer.
#[derive(Clone, Copy)]
struct Wanted {
    /// Where to read the map; `None`: where the robot is.
    near: Option<[f64; 2]>,
    map: bool,
    slices: bool,
}

/// Progress of a connection.
enum Stage {
    /// The line is incomplete.
    Reading { line: Vec<u8> },
    /// The result is not known yet, or the answer is not made yet.
    Waiting { wanted: Wanted, pending: PendingRequest },
    /// The answer is being sent.
    Writing { answer: Vec<u8>, sent: usize },
}

/// The state of a connection after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// The connection continues.
    Open,
    /// The connection has ended, successfully or not.
    Done,
}

/// A caller.
pub(super) struct Caller {
    stream: UnixStream,
    until: Instant,
    /// When the caller connected, its answer was made, or it last read part of the answer.
    idle_since: Instant,
    stage: Stage,
}

impl Caller {
    /// The caller at the other end of `stream`.
    pub(super) fn new(stream: UnixStream, now: Instant) -> io::Result<Caller> {
        stream.set_nonblocking(true)?;
        let stage = Stage::Reading { line: Vec::new() };
        Ok(Caller { stream, until: now + LONGEST, idle_since: now, stage })
    }

    /// Reads what the caller sends. As soon as the line is complete, passes the request to the robot.
    pub(super) fn recv(&mut self, sources: &Sources, end: &AtomicBool, now: Instant) -> Connection {
        let Stage::Reading { line } = &mut self.stage else { return self.notice_end(sources) };
        let mut bytes = [0; 1024];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Connection::Done,
                Ok(length) => line.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Connection::Open,
                Err(_) => return Connection::Done,
            }
            if let Some(length) = line.iter().position(|byte| *byte == b'\n') {
                let asked = serde_json::from_slice(&line[..length]);
                return asked.map_or(Connection::Done, |request| self.begin(request, sources, end, now));
            }
            if line.len() > LONGEST_LINE {
                return Connection::Done;
            }
        }
    }

    fn begin(&mut self, request: Request, sources: &Sources, end: &AtomicBool, now: Instant) -> Connection {
        // The line may have waited long, for example while the process was stopped. A caller that is gone
        // believes that arming failed.
        if request.ask == Ask::Arm && self.has_gone() {
            return Connection::Done;
        }
        let pending = PendingRequest::begin(&request, sources, end, now);
        let Request { near, without_map, with_slices, .. } = request;
        let wanted = Wanted { near, map: !without_map, slices: with_slices };
        self.stage = Stage::Waiting { wanted, pending };
        Connection::Open
    }

    /// Ends the connection of a caller that has sent its line and is gone.
    fn notice_end(&mut self, sources: &Sources) -> Connection {
        if !self.has_gone() {
            return Connection::Open;
        }
        self.abandon(sources);
        Connection::Done
    }

    /// Whether the connection is closed in both directions. A caller that only shut down sending still reads.
    fn has_gone(&self) -> bool {
        let mut look = [PollFd::new(&self.stream, PollFlags::empty())]; // poll always reports HUP
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut look, Some(&at_once)).is_ok()
            && look[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Makes the answer if the result is known; returns whether it did. An answer with a map may take
    /// milliseconds.
    pub(super) fn make_answer(&mut self, sources: &Sources, now: Instant, last: bool) -> bool {
        let Stage::Waiting { wanted, pending } = &self.stage else { return false };
        let Some(outcome) = pending.poll(sources, now, last) else { return false };
        let map = if wanted.map && !last { sources.map(wanted.near) } else { None };
        let slices = if wanted.slices { sources.slices() } else { None };
        let status = Status { map, slices, ..sources.status() };
        let reply = pending.reply(outcome, status);
        // Cannot fail: a reply has only strings and numbers.
        let mut answer = serde_json::to_vec(&reply).unwrap_or_default();
        answer.push(b'\n');
        self.stage = Stage::Writing { answer, sent: 0 };
        self.idle_since = now;
        true
    }

    /// Sends what the other side accepts.
    pub(super) fn write_answer(&mut self, now: Instant) -> Connection {
        let Stage::Writing { answer, sent } = &mut self.stage else { return Connection::Open };
        while *sent < answer.len() {
            match self.stream.write(&answer[*sent..]) {
                Ok(length) => {
                    *sent += length;
                    self.idle_since = now;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Connection::Open,
                Err(_) => return Connection::Done,
            }
        }
        Connection::Done
    }

    /// Withdraws a request to arm, or an order, of a caller that is disconnected early.
    pub(super) fn abandon(&self, sources: &Sources) {
        if let Stage::Waiting { pending, .. } = &self.stage {
            pending.withdraw(sources);
        }
    }

    /// The request that waits for its result or its answer, if there is one.
    pub(super) fn pending_ask(&self) -> Option<Ask> {
        match &self.stage {
            Stage::Waiting { pending, .. } => Some(pending.ask()),
            _ => None,
        }
    }

    /// Since when the caller has been idle; `None`: it is waiting for the robot.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (!matches!(self.stage, Stage::Waiting { .. })).then_some(self.idle_since)
    }

    /// The latest time at which its connection ends.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// The descriptor and events to poll for.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        let wanted = match self.stage {
            Stage::Reading { .. } => PollFlags::IN,
            Stage::Waiting { .. } => PollFlags::empty(), // poll always reports its end
            Stage::Writing { .. } => PollFlags::OUT,
        };
        PollFd::new(&self.stream, wanted)
    }
}
