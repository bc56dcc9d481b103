//! A scripted tether and brain, in virtual time: what happens to each request, and when.

use ganglion::base::time::{Clock, Instant, SimClock, Span};
use ganglion::field::FieldOutput;
use ganglion::field::remote::Hop;
use ganglion::field::remote::local::{FromRuntime, FromTether, LinkPhase, Text};
use ganglion::field::remote::message::{CycleAnswer, CycleRequest, Verdict};
use ganglion::system::seqpacket::Received;
use std::sync::{Arc, Mutex};

/// The fate of a request.
#[derive(Clone, Debug)]
pub enum Fate {
    /// The brain answers after this time, with these motors.
    Answer(Span, Vec<f32>),
    /// The brain answers without numbers.
    Without(Verdict),
    /// The request or its answer is lost.
    Lost,
    /// These bytes come back instead, immediately.
    Raw(Vec<u8>),
    /// The tether's process dies.
    Dies,
}

type Decide = Box<dyn FnMut(&CycleRequest) -> Fate + Send>;

/// The connection to the script.
pub struct Script {
    clock: Arc<SimClock>,
    /// Whether the tether's process is listening at the given time.
    listens: Box<dyn Fn(Instant) -> bool + Send>,
    decide: Decide,
    connected: bool,
    coming: Vec<(Instant, Vec<u8>)>,
    /// When each answer arrived.
    pub heard: Arc<Mutex<Vec<Instant>>>,
}

impl Script {
    pub fn new(clock: Arc<SimClock>, decide: impl FnMut(&CycleRequest) -> Fate + Send + 'static) -> Script {
        Script {
            clock,
            listens: Box::new(|_| true),
            decide: Box::new(decide),
            connected: false,
            coming: Vec::new(),
            heard: Arc::default(),
        }
    }

    /// This script, with a process that listens only when `listens` is true.
    pub fn listening(self, listens: impl Fn(Instant) -> bool + Send + 'static) -> Script {
        Script { listens: Box::new(listens), ..self }
    }

    fn put(&mut self, at: Instant, message: &FromTether<'_>) {
        self.coming.push((at, message.encode().as_bytes().to_vec()));
    }

    fn meet(&mut self, request: &CycleRequest) {
        let now = self.clock.now();
        match (self.decide)(request) {
            Fate::Answer(after, motors) => {
                let (at, answer) = (now + after, answer_to(request, &motors).encode());
                self.put(at, &FromTether::Answer { round_trip: after, answer: &answer });
            }
            Fate::Without(verdict) => {
                let answer = CycleAnswer::without(request, verdict).encode();
                self.put(now, &FromTether::Answer { round_trip: Span::ZERO, answer: &answer });
            }
            Fate::Lost => {}
            Fate::Raw(bytes) => self.coming.push((now, bytes)),
            Fate::Dies => self.connected = false,
        }
    }
}

/// An answer with these motors.
pub fn answer_to(request: &CycleRequest, motors: &[f32]) -> CycleAnswer {
    let mut response = FieldOutput {
        cycle: request.cycle,
        scores: Default::default(),
        motors: Default::default(),
        confidence: 0.5,
        skill: 0.0,
        novelty: 0.0,
    };
    response.motors[..motors.len()].copy_from_slice(motors);
    CycleAnswer::answered(request, &response, motors.len())
}

impl Hop for Script {
    fn connect(&mut self) -> bool {
        self.coming.clear();
        self.connected = (self.listens)(self.clock.now());
        self.connected
    }

    fn close(&mut self) {
        self.connected = false;
    }

    fn send(&mut self, message: &[u8]) -> bool {
        if !self.connected {
            return false;
        }
        match FromRuntime::decode(message).expect("the runtime sends valid messages") {
            FromRuntime::Hello(_) => {
                let now = self.clock.now();
                self.put(now, &FromTether::Link(LinkPhase::Joined, Text::of("script")));
            }
            FromRuntime::Request(bytes) => {
                let request = CycleRequest::decode(bytes).expect("the runtime sends valid requests");
                self.meet(&request);
            }
        }
        true
    }

    fn receive(&mut self, into: &mut [u8], until: Instant) -> Received {
        self.connected &= (self.listens)(self.clock.now());
        if !self.connected {
            return Received::Closed;
        }
        let first = (0..self.coming.len()).min_by_key(|&at| self.coming[at].0);
        match first.filter(|&first| self.coming[first].0 <= until) {
            None => {
                self.clock.sleep_until(until);
                Received::Nothing
            }
            Some(first) => {
                let (at, bytes) = self.coming.remove(first);
                self.clock.sleep_until(at);
                self.heard.lock().unwrap().push(at);
                into[..bytes.len()].copy_from_slice(&bytes);
                Received::Message(bytes.len())
            }
        }
    }
}
