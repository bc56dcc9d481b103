//! The robot's end of the link, without sockets: it makes the datagrams to send, checks those that arrive,
//! and tracks the state of the link. It allocates when it joins, but never for a request or an answer.
//!
//! A session is silent when nothing authentic has arrived for [`SILENCE`] after a request. The robot then
//! tries to join again, but keeps the old session until the brain replies. If an answer in the old session
//! arrives first, that session resumes.

use super::Dropped;
use super::attempts::Attempts;
use super::datagram::{Header, Id, Kind};
use super::figures::{Counts, RoundTrips, Rounds};
use super::join::{Join, JoinReply};
use super::key::{Key, KeyFile};
use super::session::{DataBuffer, Joining, NoRandom, PayloadBuffer, Session};
use crate::base::time::{Instant, Span};
use crate::field::remote::local::{LinkPhase, Text};
use crate::field::remote::message::{ANSWER_BYTES, REQUEST_BYTES};

/// A session counts as silent after this long without an answer: five cycles at 20 Hz.
pub const SILENCE: Span = Span::from_millis(250);
/// Maximum number of forged replies in one attempt to join; later replies are dropped unchecked. Detecting a
/// forged reply takes a curve multiplication, and an attacker may send any number of them.
const REPLIES_CHECKED: u32 = 16;

/// How an arriving datagram was handled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrived<'a> {
    /// An answer to pass on.
    Answer {
        /// Time since its request was sent; zero if that is not known.
        round_trip: Span,
        /// The answer's bytes.
        answer: &'a [u8; ANSWER_BYTES],
    },
    /// The brain's answer to a join; the link may have changed.
    Reply,
    /// Dropped, and counted.
    Dropped(Dropped),
}

/// The robot's end of the link.
pub struct Carrier {
    keys: Vec<Key>,
    join: Join,
    session: Option<Session>,
    joining: Option<Joining>,
    checked: u32,
    attempts: Attempts,
    phase: LinkPhase,
    text: Text,
    /// Send time of the first request since the last authentic datagram; `None`: there was none.
    waiting: Option<Instant>,
    rounds: Rounds,
    counts: Counts,
    sealed: DataBuffer,
    opened: PayloadBuffer,
}

impl Carrier {
    /// A carrier for the robot with `keys`, which joins with `join`. Does nothing before [`Carrier::start`].
    pub fn new(keys: &KeyFile, join: Join) -> Carrier {
        Carrier {
            keys: keys.keys().rev().collect(), // newest first
            join,
            session: None,
            joining: None,
            checked: 0,
            attempts: Attempts::NONE,
            phase: LinkPhase::Joining,
            text: Text::EMPTY,
            waiting: None,
            rounds: Rounds::new(),
            counts: Counts::default(),
            sealed: [0; super::datagram::UP_BYTES],
            opened: [0; super::session::PAYLOAD_MOST],
        }
    }

    /// A runtime has connected: joins from `now` on.
    pub fn start(&mut self, now: Instant) {
        self.stop();
        self.attempts = Attempts::from(now);
    }

    /// The runtime has disconnected: drops the session, so that the brain notices too.
    pub fn stop(&mut self) {
        (self.session, self.joining, self.waiting) = (None, None, None);
        self.attempts = Attempts::NONE;
        (self.phase, self.text) = (LinkPhase::Joining, Text::EMPTY);
    }

    /// State of the link, and a line of text about it.
    pub fn link(&self) -> (LinkPhase, Text) {
        (self.phase, self.text)
    }

    /// The counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The counters, so that the caller can count events outside the carrier.
    pub fn counts_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// Statistics of the round-trip times.
    pub fn round_trips(&self) -> RoundTrips {
        self.rounds.figures()
    }

    /// When [`Carrier::check`] is due next.
    pub fn due(&self) -> Instant {
        let silent = self.waiting.map_or(Instant::NEVER, |since| since + SILENCE);
        self.attempts.next().min(if self.phase == LinkPhase::Joined { silent } else { Instant::NEVER })
    }

    /// Checks for silence; returns whether an attempt to join is due now.
    pub fn check(&mut self, now: Instant) -> bool {
        if self.phase == LinkPhase::Joined && self.waiting.is_some_and(|since| now.since(since) >= SILENCE) {
            self.counts.lost += 1;
            (self.phase, self.text) = (LinkPhase::Joining, Text::of("the brain fell silent"));
            self.attempts = Attempts::from(now);
        }
        now >= self.attempts.next()
    }

    /// Begins an attempt to join; returns the datagram to send. If the robot has two keys, attempts alternate
    /// between them, beginning with the newest.
    pub fn attempt(&mut self, now: Instant) -> Result<Vec<u8>, NoRandom> {
        let key = &self.keys[(self.counts.attempts % self.keys.len() as u64) as usize];
        self.counts.attempts += 1;
        let begun = Joining::begin(key, &self.join);
        // The last byte of the authentication tag is as good as random.
        let random = begun.as_ref().ok().and_then(|(datagram, _)| datagram.last().copied());
        self.attempts.made(now, random.unwrap_or(0));
        let (datagram, joining) = begun?;
        (self.joining, self.checked) = (Some(joining), 0);
        Ok(datagram)
    }

    /// Seals a request. `None`: there is no session, which is counted, or the session has used all counters.
    pub fn request(&mut self, request: &[u8; REQUEST_BYTES], now: Instant) -> Option<&[u8]> {
        let Some(session) = &mut self.session else {
            self.counts.unjoined += 1;
            return None;
        };
        let datagram = session.seal(request, &mut self.sealed)?;
        self.counts.requests += 1;
        self.waiting.get_or_insert(now);
        self.rounds.sent(cycle_of(request), now);
        Some(datagram)
    }

    /// Handles a datagram that arrived.
    pub fn receive(&mut self, datagram: &[u8], now: Instant) -> Arrived<'_> {
        let dropped = match Header::decode(datagram) {
            Ok(Header { kind: Kind::Down, id }) => return self.take_answer(datagram, id, now),
            Ok(Header { kind: Kind::Joined, .. }) => match self.take_reply(datagram, now) {
                Ok(()) => return Arrived::Reply,
                Err(dropped) => dropped,
            },
            Ok(Header { kind: Kind::Join | Kind::Up, .. }) => Dropped::Kind,
            Err(dropped) => dropped,
        };
        self.drop(dropped)
    }

    fn drop(&mut self, why: Dropped) -> Arrived<'static> {
        self.counts.drops.count(why);
        Arrived::Dropped(why)
    }

    fn take_answer(&mut self, datagram: &[u8], id: Id, now: Instant) -> Arrived<'_> {
        let Some(session) = self.session.as_mut().filter(|session| session.id() == id) else {
            return self.drop(Dropped::Foreign);
        };
        let opened = session.open(datagram, &mut self.opened);
        let opened = opened.and_then(|payload| payload.try_into().map_err(|_| Dropped::Content));
        let answer: &[u8; ANSWER_BYTES] = match opened {
            Ok(answer) => answer,
            Err(why) => {
                self.counts.drops.count(why);
                return Arrived::Dropped(why);
            }
        };
        self.waiting = None;
        if self.phase != LinkPhase::Joined {
            // The old session answers again while the robot tries to join.
            (self.phase, self.text) = (LinkPhase::Joined, Text::of("heard again"));
            (self.attempts, self.joining) = (Attempts::NONE, None);
        }
        self.counts.answers += 1;
        Arrived::Answer { round_trip: self.rounds.answered(cycle_of(answer), now), answer }
    }

    fn take_reply(&mut self, datagram: &[u8], now: Instant) -> Result<(), Dropped> {
        let joining = self.joining.as_mut().ok_or(Dropped::Stale)?;
        if self.checked >= REPLIES_CHECKED {
            return Err(Dropped::Limited);
        }
        let answer = joining.answer(datagram);
        if answer.as_ref().err() == Some(&Dropped::Forged) {
            self.checked += 1;
        }
        let (reply, session) = answer?;
        self.joining = None;
        match reply {
            JoinReply::Joined { engine, .. } => {
                (self.phase, self.text) = (LinkPhase::Joined, Text::of(&engine));
                (self.session, self.waiting) = (session, None);
                self.attempts = Attempts::NONE;
                self.counts.joined += 1;
            }
            JoinReply::Refused(why) => {
                (self.phase, self.text) = (LinkPhase::Refused, Text::of(&why));
                self.attempts.refused(now, datagram.last().copied().unwrap_or(0));
                self.counts.refused += 1;
            }
        }
        Ok(())
    }
}

/// The cycle number, which has the same offset in requests and answers. Nothing else in them is read.
fn cycle_of<const N: usize>(message: &[u8; N]) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|at| message[8 + at]))
}

#[cfg(test)]
mod tests;
