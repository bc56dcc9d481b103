//! Carries out a request: sets its flag for the tick, and reads the result from the loop status. A
//! [`PendingRequest`] never waits; the server polls it until there is a result.

use super::goal::OrderRefusal;
use super::measured::newest;
use super::status::{causes, latched};
use super::{Ask, Reply, Request, Sources, Status};
use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::decision::mode::Mode;
use crate::runtime::loop_status::LoopStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Longest wait for a result. A loop that runs shows the result after two slots at the latest, so a loop that
/// takes longer than this counts as hung.
const LONGEST: Span = Span::from_millis(500);

/// Interval between two reads of the loop's status for a caller inside the program.
const POLL_EVERY: Duration = Duration::from_millis(1);

/// Carries out a request from this program's own screen, as the control socket would. Waits for the outcome,
/// half a second at most.
pub fn carry_out(ask: Ask, sources: &Sources, end: &AtomicBool) -> Reply {
    let pending = PendingRequest::begin(&Request::plain(ask), sources, end, MonotonicClock.now());
    let outcome = loop {
        if let Some(outcome) = pending.poll(sources, MonotonicClock.now(), false) {
            break outcome;
        }
        thread::sleep(POLL_EVERY);
    };
    pending.reply(outcome, sources.status())
}

/// A request whose result is not known yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRequest {
    ask: Ask,
    /// Slots that had run when the request was made.
    slots: u64,
    /// Deadline for a result; after it, the request has failed.
    until: Instant,
    /// How often somebody had asked to disarm or to stop when the caller began to wait.
    disarms: u64,
    /// For [`Ask::Go`]: the number of the order, or why it was refused.
    order: Option<Result<u64, OrderRefusal>>,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ControlOutcome {
    pub done: bool,
    /// Why the request was not carried out, as text.
    pub why: Vec<String>,
    /// Whether a retry in a moment may help.
    pub may_pass: bool,
}

impl PendingRequest {
    /// Passes the request on: sets its flag, or gives the order.
    pub(super) fn begin(
        request: &Request,
        sources: &Sources,
        end: &AtomicBool,
        now: Instant,
    ) -> PendingRequest {
        let (ask, slots) = (request.ask, sources.loop_status.load().slots);
        let disarms = request.disarms.unwrap_or_else(|| sources.requests.disarms());
        let mut begun = PendingRequest { ask, slots, until: now + LONGEST, disarms, order: None };
        match ask {
            Ask::Status => {}
            Ask::Stop => {
                sources.requests.outdate_arming();
                end.store(true, Ordering::Release);
            }
            Ask::Disarm => sources.requests.ask_to_disarm(),
            Ask::Arm => sources.requests.ask_to_arm(begun.until, disarms),
            Ask::Go => begun.order = Some(sources.order(request.task)),
        }
        begun
    }

    /// The result, once there is one. `last`: this is the final poll.
    pub(super) fn poll(&self, sources: &Sources, now: Instant, last: bool) -> Option<ControlOutcome> {
        let status = sources.loop_status.load();
        if self.ask == Ask::Status {
            return Some(ControlOutcome::DONE);
        }
        if let Some(order) = self.order {
            return self.obeyed(order, sources, now, last);
        }
        // After two slots, the result is known: the first may have begun before the request was made, but the
        // second has read it and acted on it.
        if status.slots >= self.slots + 2 {
            let outdated = self.ask == Ask::Arm && sources.requests.disarms() != self.disarms;
            return Some(judge(self.ask, &status, outdated));
        }
        if now < self.until && !last {
            return None;
        }
        self.withdraw(sources);
        // A stop or a disarm stays requested, because that is safe.
        let why = vec!["the control loop is not running".to_string()];
        Some(ControlOutcome { done: false, why, may_pass: true })
    }

    /// The result of an order: the field's worker reports the number of the newest order that it has
    /// received.
    fn obeyed(
        &self,
        order: Result<u64, OrderRefusal>,
        sources: &Sources,
        now: Instant,
        last: bool,
    ) -> Option<ControlOutcome> {
        let number = match order {
            Err(refusal) => {
                let (why, may_pass) = (vec![refusal.why()], refusal.may_pass());
                return Some(ControlOutcome { done: false, why, may_pass });
            }
            Ok(number) => number,
        };
        if newest(&sources.measured).goal.is_some_and(|goal| goal.order >= number) {
            return Some(ControlOutcome::DONE);
        }
        if now < self.until && !last {
            return None;
        }
        self.withdraw(sources);
        let why = vec!["the field did not take up the order in time".to_string()];
        Some(ControlOutcome { done: false, why, may_pass: true })
    }

    /// Withdraws a request to arm that has not taken effect, or an order, because no caller waits for it any
    /// more.
    pub(super) fn withdraw(&self, sources: &Sources) {
        if self.ask == Ask::Arm {
            sources.requests.withdraw_arming(self.until);
        }
        if let (Some(Ok(number)), Some(goals)) = (self.order, &sources.goals) {
            goals.withdraw(number);
        }
    }

    pub(super) fn ask(&self) -> Ask {
        self.ask
    }

    /// The answer with this outcome and status.
    pub(super) fn reply(&self, outcome: ControlOutcome, status: Status) -> Reply {
        let ControlOutcome { done, why, may_pass } = outcome;
        // The count at the beginning, not now: a disarm in between must also end the caller's wait.
        let disarms = (self.ask == Ask::Arm).then_some(self.disarms);
        Reply { done, why, may_pass, disarms, status }
    }
}

impl ControlOutcome {
    const DONE: ControlOutcome = ControlOutcome { done: true, why: Vec::new(), may_pass: false };
}

/// The result of `ask`. `outdated`: somebody has asked to disarm or to stop since the caller began to wait.
fn judge(ask: Ask, after: &LoopStatus, outdated: bool) -> ControlOutcome {
    match ask {
        Ask::Arm if !after.is_armed() => why_not(after, outdated),
        Ask::Disarm if after.is_armed() || after.latched.is_some() => {
            let still = causes(after).map(|cause| format!("{} is still active", cause.name()));
            ControlOutcome { done: false, why: still.collect(), may_pass: true }
        }
        Ask::Arm | Ask::Disarm | Ask::Stop | Ask::Status | Ask::Go => ControlOutcome::DONE,
    }
}

fn why_not(status: &LoopStatus, outdated: bool) -> ControlOutcome {
    let permanent = |words: String| ControlOutcome { done: false, why: vec![words], may_pass: false };
    if let Some(cause) = latched(status) {
        return permanent(format!("{} has latched: find out why, then disarm and arm again", cause.name()));
    }
    if Mode::name_of(status.mode) == "stopped" {
        return permanent("the program is shutting down".into());
    }
    if outdated {
        return permanent("the robot was disarmed while this request waited".into());
    }
    let mut why: Vec<String> = status.refusal.reasons().map(str::to_string).collect();
    let active: Vec<&str> = causes(status).map(|cause| cause.name()).collect();
    if !active.is_empty() {
        why.push(format!("active: {}", active.join(", ")));
    }
    if why.is_empty() {
        why.push("the self-test has only just finished".into());
    }
    ControlOutcome { done: false, why, may_pass: true }
}
