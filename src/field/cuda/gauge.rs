//! Baselines for the engine's timings, measured on the device: a copy in its memory, and a graph without
//! kernels.

use super::launcher::Launcher;
use super::watch::between;
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::system::gpu::{GpuError, Pool};

impl Launcher {
    /// Times one copy of `bytes` within the device's memory, on its clock. Allocates memory for both buffers
    /// temporarily; `None` if there is not enough.
    pub fn time_copy(&self, bytes: usize) -> Result<Option<Span>, GpuError> {
        let there = match Pool::take(&self.gpu, 2 * bytes) {
            Ok(pool) => pool,
            Err(error) if error.is_memory() => return Ok(None),
            Err(error) => return Err(error),
        };
        let (from, to) = (there.address(), there.address() + bytes as u64);
        self.main.fill(from, 0, 2 * bytes)?;
        // The first copy brings the memory up to its full clock.
        self.main.copy_within(from, to, bytes)?;
        self.main.record(&self.marks.begin)?;
        self.main.copy_within(from, to, bytes)?;
        self.settle()?;
        between(&self.marks.begin, &self.marks.settled).map(Some)
    }

    /// Times a graph that only records an event, from its launch until the host sees the event, on the host's
    /// clock.
    pub fn time_nothing(&self) -> Result<Span, GpuError> {
        let clock = MonotonicClock;
        let nothing = self.main.capture(|| self.main.record(&self.marks.settled))?;
        self.main.replay(&nothing)?;
        self.settle()?;
        let start = clock.now();
        self.main.replay(&nothing)?;
        self.settle()?;
        Ok(clock.now().since(start))
    }
}
