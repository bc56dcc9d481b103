//! The boards whose robots a brain serves, and what each of them needs once: its read-out, and how long a
//! cycle of its field takes here.

use super::engine::{Opening, Unopened};
use crate::base::plan::{Board, EngineKind};
use crate::base::time::{MonotonicClock, Span};
use crate::field::device::{self, NoDevice, Sharers};
use crate::field::failover::Open;
use crate::field::{Readout, imitate, shipped};
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
    sharers: Sharers,
    readout: OnceLock<Option<Readout>>,
    cycle: OnceLock<Span>,
}

impl ServedBoard {
    /// `board` with its digest, computed by `engine`. All engines on a GPU are among `sharers`.
    pub fn new(mut board: Board, digest: [u8; 32], engine: EngineKind, sharers: Sharers) -> Arc<ServedBoard> {
        let expected = Join::of("", &board, digest);
        board.field.engine = engine;
        // The threads of a brain are for its robots: each is computed by one. That changes no bit of it.
        board.field.threads = 1;
        board.field.cpus = Vec::new();
        let (readout, cycle) = (OnceLock::new(), OnceLock::new());
        Arc::new(ServedBoard { board, digest, expected, sharers, readout, cycle })
    }

    /// The read-out that a robot starts with: the one that comes with the program, or the starting table
    /// imitated, which takes seconds the first time. `None`: the board has no starting table.
    pub fn readout(&self) -> Option<&Readout> {
        let make = || {
            let board = &self.board;
            (!board.field.start.is_empty()).then(|| shipped(board).unwrap_or_else(|| imitate(board)))
        };
        self.readout.get_or_init(make).as_ref()
    }

    /// 99th percentile of the time that a cycle takes, measured once; `None`: not measured yet.
    pub fn cycle(&self) -> Option<Span> {
        self.cycle.get().copied()
    }

    /// Makes the read-out and measures the cycle, unless that is done.
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

    /// States the read-out, in place of one that is taught for seconds.
    #[cfg(test)]
    pub fn starts_with(&self, readout: Readout) {
        let is_new = self.readout.set(Some(readout)).is_ok();
        assert!(is_new, "not made yet");
    }

    /// How to open the GPU for one more robot; `None`: the processor computes.
    pub(super) fn device(&self) -> Result<Option<Open>, NoDevice> {
        match device::find_shared(&self.board.field, Arc::new(Watch::default()), &self.sharers) {
            Ok(open) => Ok(Some(open)),
            Err(why) if self.board.field.engine == EngineKind::Cuda => Err(why),
            Err(_) => Ok(None),
        }
    }
}
