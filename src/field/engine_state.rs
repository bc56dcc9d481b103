//! The state of an engine, as the tick, the record and people see it.

use super::Loss;
use super::remote::NoLink;
use crate::base::time::Span;
use std::fmt;

/// How the engine fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineState {
    /// Computes.
    #[default]
    Running,
    /// Panicked; is built again after a pause.
    Rebuilding {
        /// Which attempt in a row this is, from 1.
        attempt: u32,
    },
    /// Panicked too often: no further result will come.
    Retired,
    /// Computes on the CPU, as the GPU is lost; it is opened again after a pause.
    StandIn {
        /// Why the GPU is lost, or could not be opened again.
        loss: Loss,
        /// Which attempt in a row comes next, from 1.
        attempt: u32,
        /// Until then; nothing while it is being opened.
        left: Span,
    },
    /// The brain elsewhere does not answer.
    NoLink {
        /// Why.
        why: NoLink,
        /// A smaller field on this machine computes in its place.
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
                write!(f, "a smaller field here computes: {why}")
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
