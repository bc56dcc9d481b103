//! Poll requests by a device: its line signals that a sample is ready, and its bus thread polls it before
//! devices that are only due.

use crate::system::executor::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The devices of one bus that request a poll, one bit each, by their place in the polling table.
#[derive(Debug, Default)]
pub struct DataReady {
    bits: AtomicU64,
    waker: Arc<Waker>,
}

impl DataReady {
    /// Maximum number of devices of one bus that can request polls.
    pub const PLACES: usize = u64::BITS as usize;

    /// No requests yet. A request wakes the worker behind `waker`.
    pub fn new(waker: Arc<Waker>) -> DataReady {
        DataReady { bits: AtomicU64::new(0), waker }
    }
    /// The device at `place` requests a poll. Never blocks.
    pub fn raise(&self, place: usize) {
        if place < DataReady::PLACES {
            self.bits.fetch_or(1 << place, Ordering::Release);
            self.waker.wake();
        }
    }
    /// Whether any device has requested a poll.
    pub(super) fn is_raised(&self) -> bool {
        self.bits.load(Ordering::Relaxed) != 0
    }
    /// The requests since the last call.
    pub(super) fn take(&self) -> u64 {
        if self.bits.load(Ordering::Relaxed) == 0 { 0 } else { self.bits.swap(0, Ordering::Acquire) }
    }
}
