//! Why a cycle has no answer.

use super::RefusedInput;
use std::fmt;

/// Why an engine gave no answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failure {
    /// The input is invalid. The field is unchanged and accepts the next input.
    Refused(RefusedInput),
    /// The engine is lost with all its state. Only an engine on a GPU can be lost.
    Lost(Loss),
    /// The engine's answer or prediction is not finite: nothing in its state can be trusted any more.
    NotFinite,
    /// A brain on another computer did not answer in time. The engine asks again in the next cycle.
    Missed,
}

/// Why an engine on a GPU was lost, and in which driver call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A call did not return in time.
    Timeout {
        /// The call.
        call: &'static str,
    },
    /// A call failed.
    Error {
        /// The call.
        call: &'static str,
    },
    /// The context is gone: every further call fails.
    ContextLost {
        /// The call that reported it.
        call: &'static str,
    },
    /// There is not enough memory on the device.
    Memory {
        /// The call that needed it.
        call: &'static str,
    },
    /// This program's code for the GPU panicked.
    Panicked,
    /// The state to resume from does not fit.
    State,
    /// Its answer or prediction was not finite.
    NotFinite,
    /// In its trial, its results differed from the CPU's.
    Wrong,
}

impl From<RefusedInput> for Failure {
    fn from(refused: RefusedInput) -> Failure {
        Failure::Refused(refused)
    }
}

impl From<Loss> for Failure {
    fn from(loss: Loss) -> Failure {
        Failure::Lost(loss)
    }
}

impl Failure {
    /// The refused value, if this is [`Failure::Refused`].
    pub fn refused(self) -> Option<RefusedInput> {
        match self {
            Failure::Refused(refused) => Some(refused),
            Failure::Lost(_) | Failure::NotFinite | Failure::Missed => None,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Timeout { call } => write!(f, "{call} took too long"),
            Loss::Error { call } => write!(f, "{call} failed"),
            Loss::ContextLost { call } => write!(f, "context lost in {call}"),
            Loss::Memory { call } => write!(f, "out of memory in {call}"),
            Loss::Panicked => f.write_str("its code panicked"),
            Loss::NotFinite => f.write_str("it computed a value that is not finite"),
            Loss::State => f.write_str("it did not accept the brain's state"),
            Loss::Wrong => f.write_str("its results differ from the CPU's"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(RefusedInput { sensor: Some(sensor), value }) => {
                write!(f, "sensor {sensor} is {value}, not -1..=1")
            }
            Failure::Refused(RefusedInput { sensor: None, value }) => {
                write!(f, "the reward is {value}, not -1..=1")
            }
            Failure::NotFinite => f.write_str("the engine computed a value that is not finite"),
            Failure::Missed => f.write_str("the brain did not answer in time"),
            Failure::Lost(loss) => write!(f, "the engine is lost: {loss}"),
        }
    }
}
