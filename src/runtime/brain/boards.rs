//! The boards whose robots a brain serves, and how long a cycle of each board's field takes on this machine.

use super::engine::{EngineOpener, Unopened};
use crate::base::plan::{Board, EngineKind};
use crate::base::time::{MonotonicClock, Span};
#[cfg(test)]
use crate::field::Readout;
use crate::field::cuda::MOST_ROBOTS;
use crate::field::device::{self, NoDevice, SharedGpu};
use crate::field::failover::Open;
use crate::runtime::tether::join::Join;
use crate::system::gpu::Watch;
use std::sync::{Arc, OnceLock};

/// A board that robots may join with.
pub struct ServedBoard {
    /// The board, with the engine kind that this brain uses.
    pub board: Board,
    /// Digest of its effective values.
    pub digest: [u8; 32],
    /// The join request that its robots must send, apart from their names.
    pub expected: Join,
    cycle: OnceLock<Span>,
    /// The GPU that all its robots share.
    gpu: Result<Arc<SharedGpu>, NoDevice>,
    #[cfg(test)]
    readout: OnceLock<Readout>,
}

impl ServedBoard {
    /// `board` and its `digest`; `engine` computes the fields of its robots, on `threads` threads.
    pub fn new(mut board: Board, digest: [u8; 32], engine: EngineKind, threads: usize) -> Arc<ServedBoard> {
        let expected = Join::of("", &board, digest);
        board.field.engine = engine;
        // A single thread computes each robot's field, so that the other threads can serve other robots. The
        // number of threads does not change a bit of the results.
        board.field.threads = 1;
        board.field.cpus = Vec::new();
        // Each thread waits for one cycle at a time, so no launch can be for more robots than that.
        let gpu = device::find(&board.field, threads.clamp(1, MOST_ROBOTS), Arc::new(Watch::default()));
        Arc::new(ServedBoard {
            board,
            digest,
            expected,
            cycle: OnceLock::new(),
            gpu,
            #[cfg(test)]
            readout: OnceLock::new(),
        })
    }

    /// 99th percentile of the cycle time, measured once; `None`: not measured yet.
    pub fn cycle(&self) -> Option<Span> {
        self.cycle.get().copied()
    }

    /// Measures the cycle time, unless that was already done.
    pub fn prepare(self: &Arc<Self>) -> Result<Span, Unopened> {
        if let Some(cycle) = self.cycle() {
            return Ok(cycle);
        }
        let mut engine = EngineOpener::at_rest(self.clone()).open(Arc::new(MonotonicClock))?;
        let cycle = engine.measure(&MonotonicClock);
        Ok(*self.cycle.get_or_init(|| cycle))
    }

    /// Sets the time of a cycle, for tests in virtual time, where a measurement means nothing.
    #[cfg(test)]
    pub fn takes(&self, cycle: Span) {
        self.cycle.set(cycle).expect("not measured yet");
    }

    /// Sets the read-out with which robots start from rest, so that a test sees every feature.
    #[cfg(test)]
    pub fn starts_with(&self, readout: Readout) {
        self.readout.set(readout).expect("not stated yet");
    }

    /// The read-out set by [`ServedBoard::starts_with`], if the robot `begins` at rest.
    #[cfg(test)]
    pub(super) fn tried_readout(&self, begins: bool) -> Option<Readout> {
        self.readout.get().filter(|_| begins).cloned()
    }

    /// Opens the GPU for another robot; `None`: the CPU computes its field.
    pub(super) fn device(&self) -> Result<Option<Open>, NoDevice> {
        match &self.gpu {
            Ok(gpu) => Ok(Some(gpu.opener())),
            Err(why) if self.board.field.engine == EngineKind::Cuda => Err(why.clone()),
            Err(_) => Ok(None),
        }
    }
}
