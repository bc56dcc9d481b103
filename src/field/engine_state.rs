//! The state of an engine, for the tick, the record and reports.

use super::Loss;
use super::remote::NoLink;
use crate::base::time::Span;
use std::fmt;

/// What the engine is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineState {
    /// It computes.
    #[default]
    Running,
    /// It panicked, and is rebuilt after a pause.
    Rebuilding {
        /// Number of this consecutive attempt, from 1.
        attempt: u32,
    },
    /// It panicked too often: no further result will come.
    Retired,
    /// The CPU computes because the GPU is lost; the GPU is reopened after a pause.
    StandIn {
        /// Why the GPU was lost, or could not be reopened.
        loss: Loss,
        /// Number of the next consecutive attempt, from 1.
        attempt: u32,
        /// Time left until the attempt; zero while the GPU is being opened.
        left: Span,
    },
    /// The brain on the other computer does not answer.
    NoLink {
        /// Why.
        why: NoLink,
        /// Whether a smaller field on this machine computes in its place.
        stood_in: bool,
    },
}

impl fmt::Display for EngineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineState::Running => f.write_str("running"),
            EngineState::Rebuilding { attempt } => write!(f, "rebuilding, attempt {attempt}"),
            EngineState::Retired => f.write_str("retired"),
            EngineState::NoLink { why, stood_in: false } => write!(f, "no link: {why}"),
            EngineState::NoLink { why, stood_in: true } => {
                write!(f, "a smaller local field computes: {why}")
            }
            EngineState::StandIn { loss, attempt, left: Span::ZERO } => {
                write!(f, "on the CPU: GPU lost ({loss}), attempt {attempt} under way")
            }
            EngineState::StandIn { loss, attempt, left } => {
                write!(f, "on the CPU: GPU lost ({loss}), attempt {attempt} in {:.1} s", left.as_secs_f64())
            }
        }
    }
}
