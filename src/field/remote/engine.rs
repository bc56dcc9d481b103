//! The engine of a field that is computed by a brain on another computer. A cycle sends a request over the
//! local hop and waits for its answer, at most until shortly before the next cycle. If none comes, the cycle
//! has no answer, and the next cycle sends a new request.
//!
//! The brain keeps the field's state and its read-out, takes the snapshots and resumes from them. So there is
//! nothing to save, restore, load or reset here; these calls do not affect the brain. Every message that
//! arrives is an answer, a report about the link or the tether's refusal; any other is dropped and counted.

use super::health::{LinkCounters, LinkHealth, LinkTimes, LinkWords, NoLink};
use super::hop::Hop;
use super::local::{DIGEST_BYTES, FromTether, Hello, LOCAL_MOST, LinkPhase, Unwanted, encode_request};
use super::message::{CycleAnswer, CycleRequest};
use crate::base::plan::{FieldPlan, TetherPlan};
use crate::base::time::{Clock, Instant, Span};
use crate::field::state::{Learned, Live, StateError};
use crate::field::{Condition, EngineState, Failure, FieldEngine, FieldInput, FieldOutput};
use crate::system::seqpacket::Received;
use std::sync::Arc;

/// Time between two attempts to connect. A tether that its service manager restarts is back within a second,
/// and an attempt takes a few microseconds.
const CONNECT_EVERY: Span = Span::from_millis(100);
/// The wait for an answer ends after this many eighths of the field's period: the rest is for handing the
/// result over before the slot of the next cycle, which would otherwise be skipped.
const TIMEOUT_EIGHTHS: u64 = 7;
/// Maximum number of messages that one call of `read` takes; a cycle makes two. A brain sends one answer per
/// cycle, so more than this is abnormal; the rest waits for the next call.
const MOST_MESSAGES: usize = 64;
/// A joined brain may be silent for this many periods before the state reports it.
const PERIODS_UNNOTICED: u64 = 2;

/// The stage of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    NoTether,
    Unwanted(Unwanted),
    /// Connected; the tether has reported nothing yet, or is joining.
    Joining,
    Joined,
    Refused,
}

/// What a message means for the current request.
enum RequestStatus {
    /// Nothing.
    Other,
    /// The brain's answer.
    Answer(FieldOutput),
    /// The brain reports that there will be no answer.
    Unserved,
}

/// The engine.
pub struct RemoteEngine {
    hop: Box<dyn Hop>,
    clock: Arc<dyn Clock>,
    words: Arc<LinkWords>,
    hello: Hello,
    address: String,
    sensors: usize,
    motors: usize,
    dt: Span,
    /// Longest wait for an answer.
    timeout: Span,
    /// Age of a request above which answers to it are ignored.
    silence: Span,
    stage: Stage,
    connect_at: Instant,
    heard: Option<Instant>,
    began: Option<Instant>,
    /// Answers that reached the tether in time.
    prompt: u64,
    /// The newest request; `None` once it has been answered.
    asked: Option<CycleRequest>,
    counters: LinkCounters,
    times: Option<LinkTimes>,
}

impl RemoteEngine {
    /// The engine for the field of `plan`. `hop` leads to the robot's tether, and `digest` is the board's
    /// digest. Text about the link goes to `words`.
    pub fn new(
        plan: &FieldPlan,
        tether: &TetherPlan,
        digest: [u8; DIGEST_BYTES],
        hop: Box<dyn Hop>,
        words: Arc<LinkWords>,
        clock: Arc<dyn Clock>,
    ) -> RemoteEngine {
        let timeout = Span::from_nanos(plan.dt.as_nanos() / 8 * TIMEOUT_EIGHTHS).min(tether.silence);
        RemoteEngine {
            hop,
            clock,
            words,
            hello: Hello::new(digest),
            address: tether.address.clone(),
            sensors: plan.shape.sensors,
            motors: plan.shape.motors,
            dt: plan.dt,
            timeout,
            silence: tether.silence,
            stage: Stage::NoTether,
            connect_at: Instant::ZERO,
            heard: None,
            began: None,
            prompt: 0,
            asked: None,
            counters: LinkCounters::default(),
            times: None,
        }
    }

    /// Sends the request of a cycle, if there is a brain to send it to. Never waits.
    pub(super) fn ask(&mut self, input: &FieldInput) -> Result<(), Failure> {
        input.check(self.sensors)?; // the brain would refuse it too, a round trip later
        let now = self.clock.now();
        (self.times, self.asked) = (None, None);
        self.began.get_or_insert(now);
        self.connect(now);
        self.read(now);
        if self.stage != Stage::Joined {
            return Err(self.missed());
        }
        let request = CycleRequest::of(input, self.sensors, now, self.timeout);
        if !self.hop.send(encode_request(&request).as_bytes()) {
            return Err(self.missed());
        }
        self.counters.asked += 1;
        self.asked = Some(request);
        Ok(())
    }

    /// The answer to the last request; waits for it until `until` at most.
    pub(super) fn answer(&mut self, until: Instant) -> Result<FieldOutput, Failure> {
        match self.read(until) {
            RequestStatus::Answer(response) => Ok(response),
            RequestStatus::Unserved | RequestStatus::Other => Err(self.missed()),
        }
    }

    /// When the wait for the answer to the last request ends.
    pub(super) fn wait_ends(&self) -> Instant {
        self.asked.map_or(Instant::ZERO, |request| request.sent + self.timeout)
    }

    /// The link's counts, for an engine that wraps this one.
    pub(super) fn counters(&mut self) -> &mut LinkCounters {
        &mut self.counters
    }

    /// Whether a brain has been joined, so that answers may come.
    pub(super) fn has_joined(&self) -> bool {
        self.stage == Stage::Joined
    }

    /// Answers so far that reached the tether in time, including those that no cycle waited for.
    pub(super) fn prompt(&self) -> u64 {
        self.prompt
    }

    fn missed(&mut self) -> Failure {
        self.counters.missed += 1;
        Failure::Missed
    }

    fn connect(&mut self, now: Instant) {
        if !matches!(self.stage, Stage::NoTether | Stage::Unwanted(_)) || now < self.connect_at {
            return;
        }
        self.connect_at = now + CONNECT_EVERY;
        if self.hop.connect() && self.hop.send(self.hello.encode().as_bytes()) {
            self.counters.connections += 1;
            self.stage = Stage::Joining;
        } else {
            self.disconnect(Stage::NoTether);
        }
    }

    fn disconnect(&mut self, stage: Stage) {
        self.hop.close();
        self.stage = stage;
    }

    /// Reads messages until the answer to the newest request has arrived, or until `until`.
    fn read(&mut self, until: Instant) -> RequestStatus {
        let mut buffer = [0; LOCAL_MOST + 1];
        for _ in 0..MOST_MESSAGES {
            if matches!(self.stage, Stage::NoTether | Stage::Unwanted(_)) {
                break;
            }
            match self.hop.receive(&mut buffer, until) {
                Received::Message(length) => match self.take(&buffer[..length.min(buffer.len())]) {
                    RequestStatus::Other => {}
                    heard => return heard,
                },
                Received::Nothing => break,
                Received::Closed => self.disconnect(Stage::NoTether),
            }
        }
        RequestStatus::Other
    }

    fn take(&mut self, bytes: &[u8]) -> RequestStatus {
        match FromTether::decode(bytes) {
            Ok(FromTether::Answer { round_trip, answer }) => match CycleAnswer::decode(answer) {
                Ok(answer) => return self.take_answer(&answer, round_trip),
                Err(_) => self.counters.refused += 1,
            },
            Ok(FromTether::Link(phase, text)) => {
                self.stage = match phase {
                    LinkPhase::Joining => Stage::Joining,
                    LinkPhase::Joined => Stage::Joined,
                    LinkPhase::Refused => Stage::Refused,
                };
                self.words.leave(phase, text);
            }
            Ok(FromTether::Refused(why)) => self.disconnect(Stage::Unwanted(why)),
            Err(_) => self.counters.refused += 1,
        }
        RequestStatus::Other
    }

    fn take_answer(&mut self, answer: &CycleAnswer, round_trip: Span) -> RequestStatus {
        let now = self.clock.now();
        let age = now.since(answer.sent);
        if answer.sent > now || age > self.silence {
            self.counters.late += 1;
            return RequestStatus::Other;
        }
        // An earlier answer may have been queued until now, so the time of its arrival at the tether is used.
        self.heard = self.heard.max(Some((answer.sent + round_trip).min(now)));
        self.prompt += u64::from(answer.response().is_some() && round_trip <= self.timeout);
        let is_newest = |request: &CycleRequest| (request.cycle, request.sent) == (answer.cycle, answer.sent);
        if !self.asked.as_ref().is_some_and(is_newest) {
            self.counters.late += 1;
            return RequestStatus::Other;
        }
        self.asked = None;
        match answer.response() {
            Some(response) if usize::from(answer.count) == self.motors => {
                self.times = Some(split(age, round_trip, answer));
                RequestStatus::Answer(response)
            }
            Some(_) => {
                self.counters.refused += 1;
                RequestStatus::Unserved
            }
            None => {
                self.counters.unserved += 1;
                RequestStatus::Unserved
            }
        }
    }

    /// Why the brain does not answer; `None`: it does.
    pub(super) fn trouble(&self, now: Instant) -> Option<NoLink> {
        match self.stage {
            Stage::NoTether => Some(NoLink::NoTether),
            Stage::Unwanted(why) => Some(NoLink::Unwanted(why)),
            Stage::Joining => Some(NoLink::Joining),
            Stage::Refused => Some(NoLink::Refused),
            Stage::Joined => {
                let silent = now.since(self.heard.or(self.began)?);
                (silent > self.dt.times(PERIODS_UNNOTICED)).then_some(NoLink::Silent(silent))
            }
        }
    }
}

impl FieldEngine for RemoteEngine {
    fn name(&self) -> String {
        format!("remote, the brain at {} over the tether", self.address)
    }

    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, Failure> {
        self.ask(input)?;
        let until = self.wait_ends();
        self.answer(until)
    }

    /// Never saves: the brain keeps the state.
    fn save(&mut self, _live: &mut Live) -> bool {
        false
    }

    /// Nothing to restore: the brain resumes from its own snapshot.
    fn restore(&mut self, _live: &Live) -> Result<(), StateError> {
        Ok(())
    }

    /// Nothing to load: the brain has the read-out.
    fn load(&mut self, _learned: &Learned) -> Result<(), StateError> {
        Ok(())
    }

    /// Does nothing: the brain decides when its field restarts.
    fn reset(&mut self) {}

    fn condition(&self, now: Instant) -> Condition {
        let state = match self.trouble(now) {
            None => EngineState::Running,
            Some(why) => EngineState::NoLink { why, stood_in: false },
        };
        let (heard, counters, times) = (self.heard, self.counters, self.times);
        let link = LinkHealth { heard, stood_in: false, counters, times };
        Condition { state, link: Some(link), ..Condition::default() }
    }
}

/// Splits the time of a cycle. The tether and the brain measured their parts; each part is clamped to the
/// time that is left, so that the parts add up to `whole`.
fn split(whole: Span, round_trip: Span, answer: &CycleAnswer) -> LinkTimes {
    let round_trip = round_trip.min(whole);
    let waited = answer.waited.min(round_trip);
    let computed = answer.computed.min(round_trip.less(waited));
    LinkTimes { hop: whole.less(round_trip), network: round_trip.less(waited + computed), waited, computed }
}
