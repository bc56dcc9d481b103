//! The health of the link to a brain on another computer, for the tick, the record and reports.

use super::local::{LinkPhase, Text, Unwanted};
use crate::base::time::{Instant, Span};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The health of the link after a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct LinkHealth {
    /// When the brain last answered; `None`: never.
    pub heard: Option<Instant>,
    /// Whether a field on this machine stands in for the brain's; a bad link then does not stop the robot.
    pub stood_in: bool,
    /// Counts so far.
    pub counters: LinkCounters,
    /// Where the time of the last cycle went, if the brain answered it.
    pub times: Option<LinkTimes>,
}

/// What happened on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LinkCounters {
    /// Requests sent.
    pub asked: u64,
    /// Cycles in which the brain could not be asked, or did not give the awaited answer in time.
    pub missed: u64,
    /// Answers to earlier cycles, which were dropped.
    pub late: u64,
    /// Messages that were refused as a whole.
    pub refused: u64,
    /// Requests that the brain refused, failed to compute or did not start on before the deadline.
    pub unserved: u64,
    /// Connections to the tether's process.
    pub connections: u64,
    /// How often the field on this machine took over.
    pub takeovers: u64,
    /// How often the brain took over again.
    pub returns: u64,
}

/// Where the time from a request to its answer went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LinkTimes {
    /// To the tether's process and back.
    pub hop: Span,
    /// On the network, both ways.
    pub network: Span,
    /// At the brain, before computing.
    pub waited: Span,
    /// Computing.
    pub computed: Span,
}

impl LinkTimes {
    /// Names of the parts, in order.
    pub const PARTS: [&str; 4] = ["hop", "network", "waited", "computed"];

    /// The parts, in order.
    pub fn parts(&self) -> [Span; LinkTimes::PARTS.len()] {
        [self.hop, self.network, self.waited, self.computed]
    }
}

/// Why the brain does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLink {
    /// Nothing listens on the tether's socket.
    NoTether,
    /// The tether's process does not serve this runtime.
    Unwanted(Unwanted),
    /// The tether has not joined a brain yet.
    Joining,
    /// The brain refuses the robot; the log has its reason.
    Refused,
    /// The tether has joined a brain, but no answer has come for this long.
    Silent(Span),
    /// The brain answers again, and must do so for this much longer before it takes over.
    Proving(Span),
}

impl fmt::Display for NoLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoLink::NoTether => f.write_str("the tether's process is not running"),
            NoLink::Unwanted(why) => why.fmt(f),
            NoLink::Joining => f.write_str("the tether is joining the brain"),
            NoLink::Refused => f.write_str("the brain refuses this robot"),
            NoLink::Silent(span) => {
                write!(f, "the brain has not answered for {:.0} ms", span.as_secs_f64() * 1e3)
            }
            NoLink::Proving(left) => {
                write!(f, "the brain answers again and takes over in {:.1} s", left.as_secs_f64())
            }
        }
    }
}

/// The newest text about the link, passed from the field's thread to reports.
#[derive(Debug, Default)]
pub struct LinkWords(Mutex<Option<(LinkPhase, Text)>>);

impl LinkWords {
    /// Stores a text. Called only when the link has changed.
    pub(super) fn leave(&self, phase: LinkPhase, text: Text) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((phase, text));
    }

    /// The newest text, if one was left since the last call.
    pub fn take(&self) -> Option<(LinkPhase, Text)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
