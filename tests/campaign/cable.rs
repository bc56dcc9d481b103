//! The tether and the brain of a robot whose field is computed elsewhere, in virtual time: what the script
//! does to the link, and when a valid answer reached the runtime's end. A `Temper` plays the brain.

use super::draw::Draw;
use super::script::{LinkTrouble, Script};
use super::temper::Temper;
use ganglion::base::plan::Board;
use ganglion::base::time::{Clock, Instant, SimClock, Span};
use ganglion::field::remote::local::{FromRuntime, FromTether, LinkPhase, Text};
use ganglion::field::remote::message::{ANSWER_BYTES, CycleAnswer, CycleRequest, Verdict};
use ganglion::field::remote::{Hop, Tether};
use ganglion::field::{FieldEngine, FieldInput};
use ganglion::system::seqpacket::Received;
use std::sync::{Arc, Mutex};

/// Purpose of the link's random numbers.
const CABLE: u64 = 0x6361;
/// Round-trip time over a healthy link, microseconds.
const TRIP_US: [f64; 2] = [200.0, 3_000.0];

/// Times at which the runtime could read an answer to one of its requests.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<Mutex<Vec<Instant>>>);

impl Answers {
    /// Returns and forgets the times since the last call.
    pub fn take(&self) -> Vec<Instant> {
        self.0.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default()
    }
}

/// The link.
struct Cable {
    clock: Arc<SimClock>,
    troubles: Vec<(LinkTrouble, Instant, Instant)>,
    draw: Draw,
    brain: Temper,
    motors: usize,
    silence: Span,
    connected: bool,
    coming: Vec<(Instant, Vec<u8>)>,
    /// The last answer, for a network that delivers it twice.
    last: Option<[u8; ANSWER_BYTES]>,
    answers: Answers,
}

/// The tether of a board that has one, and the times of the answers that come over it.
pub fn tether(
    board: &Board,
    script: &Script,
    seed: u64,
    bent: f64,
    clock: &Arc<SimClock>,
) -> Option<(Tether, Answers)> {
    let silence = board.tether.as_ref()?.silence;
    let answers = Answers::default();
    let cable = Cable {
        clock: clock.clone(),
        troubles: script.link_troubles(),
        draw: Draw::new(seed, CABLE),
        brain: Temper::new(seed, bent),
        motors: board.motors.len(),
        silence,
        connected: false,
        coming: Vec::new(),
        last: None,
        answers: answers.clone(),
    };
    Some((Tether { hop: Box::new(cable), digest: [7; 32], words: Arc::default() }, answers))
}

impl Cable {
    /// The faults at `at`.
    fn at(&self, at: Instant) -> impl Iterator<Item = LinkTrouble> {
        let does = self.troubles.iter().filter(move |(_, from, until)| *from <= at && at < *until);
        does.map(|(trouble, ..)| *trouble)
    }

    fn is_dead(&self, at: Instant) -> bool {
        self.at(at).any(|trouble| trouble == LinkTrouble::Dies)
    }

    /// When the tether's process dies next, if that is not after `until`.
    fn dies_by(&self, until: Instant) -> Option<Instant> {
        let now = self.clock.now();
        let begins = self.troubles.iter().filter(|(trouble, ..)| *trouble == LinkTrouble::Dies);
        begins.map(|(_, from, _)| *from).filter(|from| now < *from && *from <= until).min()
    }

    /// Whether a datagram in flight at `at` is lost.
    fn loses(&mut self, at: Instant) -> bool {
        let troubles: Vec<LinkTrouble> = self.at(at).collect();
        troubles.into_iter().any(|trouble| match trouble {
            LinkTrouble::Cut => true,
            LinkTrouble::Loss { percent } => self.draw.chance(f64::from(percent) / 100.0),
            LinkTrouble::Slow { .. } | LinkTrouble::Noise | LinkTrouble::Dies => false,
        })
    }

    fn put(&mut self, at: Instant, message: &FromTether<'_>) {
        self.coming.push((at, message.encode().as_bytes().to_vec()));
    }

    fn answer(&mut self, request: &CycleRequest) {
        let now = self.clock.now();
        let slow = self.at(now).find_map(|trouble| match trouble {
            LinkTrouble::Slow { ms } => Some(Span::from_millis(ms.into())),
            _ => None,
        });
        let [least, most] = TRIP_US;
        let trip = Span::from_micros(self.draw.between(least, most) as u64) + slow.unwrap_or(Span::ZERO);
        let at = now + trip;
        if self.loses(now) || self.loses(at) {
            return;
        }
        if self.at(now).any(|trouble| trouble == LinkTrouble::Noise) {
            return self.noise(request, at, trip);
        }
        let input = FieldInput { cycle: request.cycle, ..FieldInput::AT_REST };
        let Ok(response) = self.brain.cycle(&input) else { return };
        let answer = CycleAnswer::answered(request, &response, self.motors).encode();
        // An answer in which a motor is NaN does not count.
        if CycleAnswer::decode(&answer).is_ok() {
            self.count(request, at);
        }
        self.put(at, &FromTether::Answer { round_trip: trip, answer: &answer });
        self.last = Some(answer);
    }

    /// Notes that the runtime can read an answer at `at`, unless the answer is too old or the tether dies
    /// before that.
    fn count(&mut self, request: &CycleRequest, at: Instant) {
        if at.since(request.sent) <= self.silence
            && self.dies_by(at).is_none()
            && let Ok(mut all) = self.answers.0.lock()
        {
            all.push(at);
        }
    }

    /// Something other than the answer: random bytes, a truncated answer, an earlier answer again, an answer
    /// from the future, or a refusal.
    fn noise(&mut self, request: &CycleRequest, at: Instant, trip: Span) {
        let verdicts = [Verdict::Refused, Verdict::Failed, Verdict::Late];
        match self.draw.below(5) {
            0 => {
                let bytes = (0..self.draw.below(200)).map(|_| self.draw.bits() as u8).collect();
                self.coming.push((at, bytes));
            }
            1 => {
                let whole = CycleAnswer::without(request, Verdict::Late).encode();
                let message = FromTether::Answer { round_trip: trip, answer: &whole }.encode();
                let length = self.draw.below(message.as_bytes().len());
                self.coming.push((at, message.as_bytes()[..length].to_vec()));
            }
            2 => {
                if let Some(last) = self.last {
                    self.put(at, &FromTether::Answer { round_trip: trip, answer: &last });
                }
            }
            3 => {
                let future = CycleRequest { sent: request.sent + Span::from_millis(1_000), ..*request };
                let answer = CycleAnswer::without(&future, Verdict::Late).encode();
                self.put(at, &FromTether::Answer { round_trip: trip, answer: &answer });
            }
            _ => {
                self.count(request, at); // a refusal, too, shows that the brain is not silent
                let answer = CycleAnswer::without(request, self.draw.pick(&verdicts)).encode();
                self.put(at, &FromTether::Answer { round_trip: trip, answer: &answer });
            }
        }
    }
}

impl Hop for Cable {
    fn connect(&mut self) -> bool {
        self.coming.clear();
        self.connected = !self.is_dead(self.clock.now());
        self.connected
    }

    fn close(&mut self) {
        self.connected = false;
    }

    fn send(&mut self, message: &[u8]) -> bool {
        let now = self.clock.now();
        self.connected &= !self.is_dead(now);
        if !self.connected {
            return false;
        }
        match FromRuntime::decode(message).expect("the runtime sends valid messages") {
            FromRuntime::Hello(_) => self.put(now, &FromTether::Link(LinkPhase::Joined, Text::of("cable"))),
            FromRuntime::Request(bytes) => {
                let request = CycleRequest::decode(bytes).expect("the runtime sends valid requests");
                self.answer(&request);
            }
        }
        true
    }

    fn receive(&mut self, into: &mut [u8], until: Instant) -> Received {
        self.connected &= !self.is_dead(self.clock.now());
        if !self.connected {
            return Received::Closed;
        }
        let first = (0..self.coming.len()).min_by_key(|&place| self.coming[place].0);
        let first = first.filter(|&first| self.coming[first].0 <= until);
        let ends = first.map_or(until, |first| self.coming[first].0);
        if let Some(dies) = self.dies_by(ends) {
            self.clock.sleep_until(dies);
            return Received::Closed;
        }
        match first {
            None => {
                self.clock.sleep_until(until);
                Received::Nothing
            }
            Some(first) => {
                let (at, bytes) = self.coming.remove(first);
                self.clock.sleep_until(at);
                let length = bytes.len().min(into.len());
                into[..length].copy_from_slice(&bytes[..length]);
                Received::Message(length)
            }
        }
    }
}
