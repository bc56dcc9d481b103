//! The link to a remote brain, as configured by a board: `[tether]`.

use super::{EngineKind, FieldPlan, Shape};
use crate::base::time::Span;
use std::path::PathBuf;

/// How a robot reaches the brain that computes its field, and what happens without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TetherPlan {
    /// Where the brain listens, `HOST:PORT`.
    pub address: String,
    /// The file with the robot's key, which only the tether's process reads.
    pub key: PathBuf,
    /// Longest time without an answer from the brain before the link counts as lost.
    pub silence: Span,
    /// Whether a lost link keeps the robot stopped until a person arms it again.
    pub latched: bool,
    /// What happens while the link is lost.
    pub on_loss: OnLoss,
}

/// What happens while the link to the brain is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// The motors stop.
    Stop,
    /// A smaller field on this machine drives the robot.
    Local {
        /// Its cells per axis.
        grid: usize,
        /// Capacity of its experience bank.
        bank: usize,
    },
}

impl TetherPlan {
    /// The smaller field that this machine computes in place of `field` while the link is lost; `None`: the
    /// robot stops.
    pub fn local(&self, field: &FieldPlan) -> Option<FieldPlan> {
        match self.on_loss {
            OnLoss::Stop => None,
            OnLoss::Local { grid, bank } => {
                let shape = Shape { grid, bank, ..field.shape };
                Some(FieldPlan { engine: EngineKind::Cpu, shape, ..field.clone() })
            }
        }
    }
}
