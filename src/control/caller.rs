//! One caller of the control socket, from its first byte to the last one of its answer. Never waits: whatever its other
//! side does, each call returns at once, and one deadline covers the whole visit.

use super::outcome::UnderWay;
use super::{Ask, LONGEST_LINE, Reply, Request, Sources};
use crate::control::Status;
use crate::time::{Instant, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;

/// How long a visit may take, from being let in to the last byte of the answer, however few bytes come at a time: whoever
/// asks is on this machine.
const VISIT: Span = Span::from_millis(2_000);

/// How far a visit has come.
enum Stage {
    /// The line is not whole yet.
    Listening { line: Vec<u8> },
    /// Its outcome is not known yet, or its answer not made.
    Waiting { request: Request, under_way: UnderWay },
    /// The answer is on its way.
    Speaking { answer: Vec<u8>, sent: usize },
}

/// What is left of a visit after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// It goes on.
    Stays,
    /// It is over, well or not.
    Over,
}

/// A caller.
pub(super) struct Caller {
    stream: UnixStream,
    until: Instant,
    /// When it came, or last took part of its answer.
    quiet_since: Instant,
    stage: Stage,
}

impl Caller {
    /// Lets in whoever is at the other end of `stream`.
    pub(super) fn new(stream: UnixStream, now: Instant) -> io::Result<Caller> {
        stream.set_nonblocking(true)?;
        let stage = Stage::Listening { line: Vec::new() };
        Ok(Caller { stream, until: now + VISIT, quiet_since: now, stage })
    }

    /// Takes what it has to say. The moment the line is whole, what it asks is asked of the robot.
    pub(super) fn hear(&mut self, sources: &Sources, end: &AtomicBool, now: Instant) -> Visit {
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
        // A line may lie here for long, while the process was stopped, say. Whoever has gone believes that arming failed.
        if request.ask == Ask::Arm && self.has_gone() {
            return Visit::Over;
        }
        let under_way = UnderWay::begin(request.ask, sources, end, now);
        self.stage = Stage::Waiting { request, under_way };
        Visit::Stays
    }

    /// It has said what it wanted to say; what is heard now can only be its end.
    fn notice_end(&mut self, sources: &Sources) -> Visit {
        if !self.has_gone() {
            return Visit::Stays;
        }
        self.dismiss(sources);
        Visit::Over
    }

    /// Whether its other end is closed in both directions. One that has only said that it will say no more still listens.
    fn has_gone(&self) -> bool {
        let mut look = [PollFd::new(&self.stream, PollFlags::empty())]; // HUP is always told
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut look, Some(&at_once)).is_ok()
            && look[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Makes the answer if it is due: `true` if it was. That may take some milliseconds, where the board has a map.
    pub(super) fn conclude(&mut self, sources: &Sources, now: Instant, last: bool) -> bool {
        let Stage::Waiting { request, under_way } = &self.stage else { return false };
        let Some(outcome) = under_way.look(sources, now, last) else { return false };
        let map = if last { None } else { sources.map(request.near) };
        let status = Status { map, ..sources.status() };
        let reply = Reply { done: outcome.done, why: outcome.why, may_pass: outcome.may_pass, status };
        // A reply is strings and numbers: there is nothing in it that JSON cannot say.
        let mut answer = serde_json::to_vec(&reply).unwrap_or_default();
        answer.push(b'\n');
        self.stage = Stage::Speaking { answer, sent: 0 };
        self.quiet_since = now;
        true
    }

    /// Sends what the other side takes.
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

    /// Sent away before its time: what it asked is not done later.
    pub(super) fn dismiss(&self, sources: &Sources) {
        if let Stage::Waiting { under_way, .. } = &self.stage {
            under_way.give_up(sources);
        }
    }

    /// What it asked, while the answer is not made.
    pub(super) fn asks(&self) -> Option<Ask> {
        match &self.stage {
            Stage::Waiting { under_way, .. } => Some(under_way.ask()),
            _ => None,
        }
    }

    /// Since when it has kept everybody waiting; `None`: the robot keeps it waiting.
    pub(super) fn quiet_since(&self) -> Option<Instant> {
        (!matches!(self.stage, Stage::Waiting { .. })).then_some(self.quiet_since)
    }

    /// When its visit ends in any case.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// What to wait for on its behalf.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        let wanted = match self.stage {
            Stage::Listening { .. } => PollFlags::IN,
            Stage::Waiting { .. } => PollFlags::empty(), // its end is told in any case
            Stage::Speaking { .. } => PollFlags::OUT,
        };
        PollFd::new(&self.stream, wanted)
    }
}
