//! The loop's status: what the tick writes in every slot for the threads that watch the loop (guard
//! heartbeat, watchdog, control socket). Only the tick writes it, with plain stores, except for the counter
//! of the motors' bus, which that bus's thread advances. Any thread may read it. Each value is read
//! atomically, but two values may come from different slots.

use crate::base::frame::MAX_SENSORS;
use crate::decision::mode::{ArmRefusal, Disarm, Mode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};

/// The values of one slot.
#[derive(Debug, Default)]
pub struct LoopStatusCell {
    slots: AtomicU64,
    skipped: AtomicU64,
    confirmed: AtomicU64,
    mode: AtomicU8,
    latched: AtomicU8,
    active: AtomicU16,
    refusal: AtomicU8,
    refused: AtomicU64,
    armings: AtomicU64,
    disarmed: AtomicU64,
    readings_refused: ByChannel,
    bus: Arc<AtomicU64>,
}

/// A count for each sensor.
#[derive(Debug)]
struct ByChannel([AtomicU64; MAX_SENSORS]);

impl Default for ByChannel {
    fn default() -> ByChannel {
        ByChannel(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// A copy of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopStatus {
    /// Slots that ran.
    pub slots: u64,
    /// Slots that came due and did not run.
    pub skipped: u64,
    /// Commands confirmed on the wire.
    pub confirmed: u64,
    /// [`Mode::code`] of the last slot.
    pub mode: u8,
    /// Bit number of the latched cause, if any.
    pub latched: Option<u8>,
    /// Active causes, one bit each.
    pub active: u16,
    /// What prevents arming.
    pub refusal: ArmRefusal,
    /// Requests to arm that were refused.
    pub refused: u64,
    /// How often the robot was armed.
    pub armings: u64,
    /// Why the robot was last disarmed; `None`: it has been armed since, or was never disarmed.
    pub disarmed: Option<Disarm>,
    /// Advances while the thread of the motors' bus is alive, whatever the state of the bus.
    pub bus: u64,
}

impl LoopStatusCell {
    /// Writes the status of one slot. The count of slots is written last: a reader that sees it also sees the
    /// other values of that slot, or newer ones.
    pub(crate) fn store(&self, status: &LoopStatus) {
        self.skipped.store(status.skipped, Ordering::Relaxed);
        self.confirmed.store(status.confirmed, Ordering::Relaxed);
        self.mode.store(status.mode, Ordering::Relaxed);
        self.latched.store(status.latched.map_or(0, |bit| bit + 1), Ordering::Relaxed);
        self.active.store(status.active, Ordering::Relaxed);
        self.refusal.store(status.refusal.bits(), Ordering::Relaxed);
        self.refused.store(status.refused, Ordering::Relaxed);
        self.armings.store(status.armings, Ordering::Relaxed);
        self.disarmed.store(status.disarmed.map_or(0, Disarm::bits), Ordering::Relaxed);
        self.slots.store(status.slots, Ordering::Release);
    }

    /// Writes how many readings of each sensor were refused, in the order of the board's sensors.
    pub(crate) fn store_readings_refused(&self, counts: impl Iterator<Item = u64>) {
        for (cell, count) in self.readings_refused.0.iter().zip(counts) {
            cell.store(count, Ordering::Relaxed);
        }
    }

    /// How many readings of each sensor were refused, in the order of the board's sensors; 0 beyond them.
    pub fn readings_refused(&self) -> impl Iterator<Item = u64> {
        self.readings_refused.0.iter().map(|cell| cell.load(Ordering::Relaxed))
    }

    /// The newest status.
    pub fn load(&self) -> LoopStatus {
        let slots = self.slots.load(Ordering::Acquire);
        LoopStatus {
            slots,
            skipped: self.skipped.load(Ordering::Relaxed),
            confirmed: self.confirmed.load(Ordering::Relaxed),
            mode: self.mode.load(Ordering::Relaxed),
            latched: self.latched.load(Ordering::Relaxed).checked_sub(1),
            active: self.active.load(Ordering::Relaxed),
            refusal: ArmRefusal::from_bits(self.refusal.load(Ordering::Relaxed)),
            refused: self.refused.load(Ordering::Relaxed),
            armings: self.armings.load(Ordering::Relaxed),
            disarmed: Disarm::from_bits(self.disarmed.load(Ordering::Relaxed)),
            bus: self.bus.load(Ordering::Relaxed),
        }
    }

    /// The counter that the thread of the motors' bus advances.
    pub(crate) fn bus_beat(&self) -> Arc<AtomicU64> {
        self.bus.clone()
    }
}

impl LoopStatus {
    /// Whether the robot followed its field in the last slot, with or without a restraint.
    pub fn is_armed(&self) -> bool {
        ["armed", "degraded"].contains(&Mode::name_of(self.mode))
    }

    /// The bit number of the latched cause, if `mode` has one.
    pub(crate) fn latched_in(mode: Mode) -> Option<u8> {
        match mode {
            Mode::Latched { cause } => Some(cause as u8),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::Cause;
    use crate::base::time::Span;

    #[test]
    fn a_stored_status_is_read_back() {
        let loop_status = LoopStatusCell::default();
        let mut refusal = ArmRefusal::NONE;
        for bits in [0, 1, 16 + 2] {
            refusal = ArmRefusal::from_bits(bits);
            assert_eq!(refusal.bits(), bits);
        }
        let mode = Mode::Latched { cause: Cause::FieldLate };
        let status = LoopStatus {
            slots: 9,
            skipped: 1,
            confirmed: 8,
            mode: mode.code(),
            latched: LoopStatus::latched_in(mode),
            active: 0x104,
            refusal,
            refused: 2,
            armings: 3,
            disarmed: Some(Disarm::Stillness { lasted: Span::from_millis(5_000), causes: 0x810 }),
            bus: 0,
        };
        assert_eq!(status.latched, Some(0), "cause 0 is not the same as no cause");
        loop_status.store(&status);
        assert_eq!(loop_status.load(), status);
        loop_status.store_readings_refused([0, 7].into_iter());
        assert_eq!(loop_status.readings_refused().take(3).collect::<Vec<_>>(), [0, 7, 0]);
    }
}
