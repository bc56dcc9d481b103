//! The boards whose robots a brain serves, and how long a cycle of the field of each takes here.

use super::engine::{Opening, Unopened};
use crate::base::plan::{Board, EngineKind};
use crate::base::time::{MonotonicClock, Span};
#[cfg(test)]
use crate::field::Readout;
use crate::field::device::{self, NoDevice};
use crate::field::failover::Open;
use crate::runtime::tether::join::Join;
use crate::system::gpu::Watch;
use std::sync::{Arc, OnceLock};

/// A board that robots may join with.
pub struct ServedBoard {
    /// The board; its field is computed as this brain does it.
    pub board: Board,
    /// Digest of its effective values.
    pub digest: [u8; 32],
    /// What a robot of it says when it joins, but for its own name.
    pub expected: Join,
    cycle: OnceLock<Span>,
    #[cfg(test)]
    readout: OnceLock<Readout>,
}

impl ServedBoard {
    /// `board` with its digest, computed by `engine`.
    pub fn new(mut board: Board, digest: [u8; 32], engine: EngineKind) -> Arc<ServedBoard> {
        let expected = Join::of("", &board, digest);
        board.field.engine = engine;
        // The threads of a brain are for its robots: each is computed by one. That changes no bit of it.
        board.field.threads = 1;
        board.field.cpus = Vec::new();
        Arc::new(ServedBoard {
            board,
            digest,
            expected,
            cycle: OnceLock::new(),
            #[cfg(test)]
            readout: OnceLock::new(),
        })
    }

    /// 99th percentile of the time that a cycle takes, measured once; `None`: not measured yet.
    pub fn cycle(&self) -> Option<Span> {
        self.cycle.get().copied()
    }

    /// Measures the cycle, unless that is done.
    pub fn prepare(self: &Arc<Self>) -> Result<Span, Unopened> {
        if let Some(cycle) = self.cycle() {
            return Ok(cycle);
        }
        let mut engine = Opening::at_rest(self.clone()).open(Arc::new(MonotonicClock))?;
        let cycle = engine.measure(&MonotonicClock);
        Ok(*self.cycle.get_or_init(|| cycle))
    }

    /// States how long a cycle takes, where virtual time makes a measurement meaningless.
    #[cfg(test)]
    pub fn takes(&self, cycle: Span) {
        self.cycle.set(cycle).expect("not measured yet");
    }

    /// States the read-out that robots at rest begin with, so that a test sees every feature.
    #[cfg(test)]
    pub fn starts_with(&self, readout: Readout) {
        self.readout.set(readout).expect("not stated yet");
    }

    /// What [`ServedBoard::starts_with`] stated, for a robot that `begins` at rest.
    #[cfg(test)]
    pub(super) fn tried_readout(&self, begins: bool) -> Option<Readout> {
        self.readout.get().filter(|_| begins).cloned()
    }

    /// How to open the GPU for one more robot; `None`: the processor computes.
    pub(super) fn device(&self) -> Result<Option<Open>, NoDevice> {
        match device::find(&self.board.field, Arc::new(Watch::default())) {
            Ok(open) => Ok(Some(open)),
            Err(why) if self.board.field.engine == EngineKind::Cuda => Err(why),
            Err(_) => Ok(None),
        }
    }
}
