//! One caller of the control socket, from its first byte to the last byte of its answer. Never waits: every
//! call returns at once, whatever the other side does, and one deadline covers the whole visit.

use super::outcome::UnderWay;
use super::{Ask, LONGEST_LINE, Reply, Request, Sources};
use crate::base::time::{Instant, Span};
use crate::runtime::control::Status;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;

/// How long a visit may take, from accepting the connection to the last byte of the answer, even if bytes
/// arrive singly: every caller is on this machine.
const VISIT: Span = Span::from_millis(2_000);

/// Progress of a visit.
enum Stage {
    /// The line is incomplete.
    Listening { line: Vec<u8> },
    /// The outcome is not known yet, or the answer not made.
    Waiting { request: Request, under_way: UnderWay },
    /// The answer is being sent.
    Speaking { answer: Vec<u8>, sent: usize },
}

/// What is left of a visit after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// It continues.
    Stays,
    /// It is over, successfully or not.
    Over,
}

/// A caller.
pub(super) struct Caller {
    stream: UnixStream,
    until: Instant,
    /// When it connected, or last read part of its answer.
    quiet_since: Instant,
    stage: Stage,
}

impl Caller {
    /// Accepts the caller at the other end of `stream`.
    pub(super) fn new(stream: UnixStream, now: Instant) -> io::Result<Caller> {
        stream.set_nonblocking(true)?;
        let stage = Stage::Listening { line: Vec::new() };
        Ok(Caller { stream, until: now + VISIT, quiet_since: now, stage })
    }

    /// Reads what the caller sends. As soon as the line is complete, passes the request to the robot.
    pub(super) fn recv(&mut self, sources: &Sources, end: &AtomicBool, now: Instant) -> Visit {
        let Stage::Listening { line } = &mut self.stage else { return self.notice_end(sources) };
        let mut bytes = [0; 1024];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Visit::Over,
                Ok(length) => line.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Visit::Stays,
                Err(_) => return Visit::Over,
            }
            if let Some(length) = line.iter().position(|byte| *byte == b'\n') {
                let asked = serde_json::from_slice(&line[..length]);
                return asked.map_or(Visit::Over, |request| self.begin(request, sources, end, now));
            }
            if line.len() > LONGEST_LINE {
                return Visit::Over;
            }
        }
    }

    fn begin(&mut self, request: Request, sources: &Sources, end: &AtomicBool, now: Instant) -> Visit {
        // A line may have waited here for long, for example while the process was stopped. A caller that has
        // gone believes that arming failed.
        if request.ask == Ask::Arm && self.has_gone() {
            return Visit::Over;
        }
        let under_way = UnderWay::begin(request.ask, sources, end, now);
        self.stage = Stage::Waiting { request, under_way };
        Visit::Stays
    }

    /// It has sent its line; anything it sends now can only be its end.
    fn notice_end(&mut self, sources: &Sources) -> Visit {
        if !self.has_gone() {
            return Visit::Stays;
        }
        self.dismiss(sources);
        Visit::Over
    }

    /// Whether the other end is closed in both directions. One that only shut down sending still reads.
    fn has_gone(&self) -> bool {
        let mut look = [PollFd::new(&self.stream, PollFlags::empty())]; // poll always reports HUP
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut look, Some(&at_once)).is_ok()
            && look[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Makes the answer if it is due: `true` if it did. With a map this may take milliseconds.
    pub(super) fn conclude(&mut self, sources: &Sources, now: Instant, last: bool) -> bool {
        let Stage::Waiting { request, under_way } = &self.stage else { return false };
        let Some(outcome) = under_way.look(sources, now, last) else { return false };
        let map = if last || request.without_map { None } else { sources.map(request.near) };
        let status = Status { map, ..sources.status() };
        let reply = Reply { done: outcome.done, why: outcome.why, may_pass: outcome.may_pass, status };
        // A reply is strings and numbers: JSON can represent all of it.
        let mut answer = serde_json::to_vec(&reply).unwrap_or_default();
        answer.push(b'\n');
        self.stage = Stage::Speaking { answer, sent: 0 };
        self.quiet_since = now;
        true
    }

    /// Sends what the other side accepts.
    pub(super) fn speak(&mut self, now: Instant) -> Visit {
        let Stage::Speaking { answer, sent } = &mut self.stage else { return Visit::Stays };
        while *sent < answer.len() {
            match self.stream.write(&answer[*sent..]) {
                Ok(length) => {
                    *sent += length;
                    self.quiet_since = now;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Visit::Stays,
                Err(_) => return Visit::Over,
            }
        }
        Visit::Over
    }

    /// Disconnected early: its request is not carried out later.
    pub(super) fn dismiss(&self, sources: &Sources) {
        if let Stage::Waiting { under_way, .. } = &self.stage {
            under_way.give_up(sources);
        }
    }

    /// Its request, until the answer is made.
    pub(super) fn asks(&self) -> Option<Ask> {
        match &self.stage {
            Stage::Waiting { under_way, .. } => Some(under_way.ask()),
            _ => None,
        }
    }

    /// Since when it has kept others waiting; `None`: it is waiting for the robot.
    pub(super) fn quiet_since(&self) -> Option<Instant> {
        (!matches!(self.stage, Stage::Waiting { .. })).then_some(self.quiet_since)
    }

    /// When its visit ends in any case.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// What to poll for on its behalf.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        let wanted = match self.stage {
            Stage::Listening { .. } => PollFlags::IN,
            Stage::Waiting { .. } => PollFlags::empty(), // poll always reports its end
            Stage::Speaking { .. } => PollFlags::OUT,
        };
        PollFd::new(&self.stream, wanted)
    }
}
