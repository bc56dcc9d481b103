//! A device asks to be polled: its line signals that a sample is ready, and its bus thread polls it before
//! devices that are only due.

use crate::system::executor::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The devices of one bus that ask, one bit each, by their place in the polling table.
#[derive(Debug, Default)]
pub struct DataReady {
    bits: AtomicU64,
    waker: Arc<Waker>,
}

impl DataReady {
    /// Most devices that can ask on one bus.
    pub const PLACES: usize = u64::BITS as usize;

    /// No device asks; one that does wakes the worker behind `waker`.
    pub fn new(waker: Arc<Waker>) -> DataReady {
        DataReady { bits: AtomicU64::new(0), waker }
    }
    /// The device at `place` asks. Never blocks.
    pub fn raise(&self, place: usize) {
        if place < DataReady::PLACES {
            self.bits.fetch_or(1 << place, Ordering::Release);
            self.waker.wake();
        }
    }
    /// Whether any device asks.
    pub(super) fn is_raised(&self) -> bool {
        self.bits.load(Ordering::Relaxed) != 0
    }
    /// Those that asked since the last call.
    pub(super) fn take(&self) -> u64 {
        if self.bits.load(Ordering::Relaxed) == 0 { 0 } else { self.bits.swap(0, Ordering::Acquire) }
    }
}
