//! What other threads can see of the thread that talks to the driver, and the faults that they can inject.
//! Everything is atomic: no thread waits for another.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use super::GpuFault;
use super::driver::Call;
use super::error::GpuError;

/// Shared by the thread that calls the driver and those that watch it.
#[derive(Debug, Default)]
pub struct Watch {
    /// Number of the injected fault, counted from 1; 0: none; [`SPENT`] once a [`GpuFault::Error`] has
    /// struck.
    fault: AtomicU8,
    /// The context was lost by injection, and no other has been opened since.
    lost: AtomicBool,
    /// Number of the call under way, counted from 1; 0: none.
    under_way: AtomicU8,
    calls: AtomicU64,
    copies_in: AtomicU64,
    copies_out: AtomicU64,
    bytes_out: AtomicU64,
    copies_within: AtomicU64,
    launches: AtomicU64,
    replays: AtomicU64,
    device_allocations: AtomicU64,
    pinned_allocations: AtomicU64,
    failures: AtomicU64,
    /// The last call that failed: its number, counted from 1, in the upper half, its code in the lower half;
    /// 0: none.
    failed: AtomicU64,
}

const SPENT: u8 = 0x80;

const FAULTS: [GpuFault; 6] =
    [GpuFault::Error, GpuFault::Stuck, GpuFault::Hang, GpuFault::Slow, GpuFault::Lost, GpuFault::Memory];

/// Counts since the watch was created. Copies include those of replayed graphs; launches do not include the
/// kernels of graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Driver calls.
    pub calls: u64,
    /// Copies from the host to the device that were requested.
    pub copies_in: u64,
    /// Copies from the device to the host.
    pub copies_out: u64,
    /// Bytes of these copies.
    pub bytes_out: u64,
    /// Copies from device to device.
    pub copies_within: u64,
    /// Kernels launched individually, so not those of graphs.
    pub launches: u64,
    /// Graphs launched.
    pub replays: u64,
    /// Allocations on the device.
    pub device_allocations: u64,
    /// Page-locked allocations on the host.
    pub pinned_allocations: u64,
    /// Calls that failed, injected failures included. "Not yet done" is not a failure.
    pub failures: u64,
}

impl Watch {
    /// A watch with nothing injected and nothing counted.
    pub fn new() -> Watch {
        Watch::default()
    }

    /// Injects a fault, or removes it. Injecting the same fault again changes nothing: an error strikes one
    /// call, and another only after it has been removed and injected again.
    pub fn inject(&self, fault: Option<GpuFault>) {
        let number = fault.map_or(0, number_of);
        // The thread that calls the driver only ever adds SPENT to the current value.
        let keep = |old: u8| (old & !SPENT != number).then_some(number);
        let _ = self.fault.fetch_update(Ordering::Release, Ordering::Acquire, keep);
    }

    /// The fault that is injected now.
    pub fn injected(&self) -> Option<GpuFault> {
        FAULTS.get(usize::from(self.fault.load(Ordering::Acquire) & !SPENT).wrapping_sub(1)).copied()
    }

    /// The driver call that has begun and not returned.
    pub fn under_way(&self) -> Option<Call> {
        Call::ALL.get(usize::from(self.under_way.load(Ordering::Acquire)).wrapping_sub(1)).copied()
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            calls: count(&self.calls),
            copies_in: count(&self.copies_in),
            copies_out: count(&self.copies_out),
            bytes_out: count(&self.bytes_out),
            copies_within: count(&self.copies_within),
            launches: count(&self.launches),
            replays: count(&self.replays),
            device_allocations: count(&self.device_allocations),
            pinned_allocations: count(&self.pinned_allocations),
            failures: count(&self.failures),
        }
    }

    pub(super) fn begin(&self, call: Call) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.under_way.store(call as u8 + 1, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.under_way.store(0, Ordering::Release);
    }

    /// Adds to the requested work.
    pub(super) fn add(&self, more: &Counts) {
        let add = |counter: &AtomicU64, n: u64| {
            if n > 0 {
                counter.fetch_add(n, Ordering::Relaxed);
            }
        };
        add(&self.copies_in, more.copies_in);
        add(&self.copies_out, more.copies_out);
        add(&self.bytes_out, more.bytes_out);
        add(&self.copies_within, more.copies_within);
        add(&self.launches, more.launches);
        add(&self.replays, more.replays);
        add(&self.device_allocations, more.device_allocations);
        add(&self.pinned_allocations, more.pinned_allocations);
        add(&self.failures, more.failures);
    }

    /// The last call that failed.
    pub fn last_failure(&self) -> Option<GpuError> {
        let noted = self.failed.load(Ordering::Relaxed);
        let call = Call::ALL.get(((noted >> u32::BITS) as usize).wrapping_sub(1))?;
        Some(GpuError { call: *call, code: noted as u32 as i32 })
    }

    /// Notes a call that failed.
    pub(super) fn note(&self, error: GpuError) {
        let call = (error.call as u64 + 1) << u32::BITS;
        self.failed.store(call | u64::from(error.code as u32), Ordering::Relaxed);
    }

    /// Whether an injected error strikes this call: true once per injection.
    pub(super) fn spend_error(&self) -> bool {
        let error = number_of(GpuFault::Error);
        self.fault.compare_exchange(error, error | SPENT, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether an injected fault has made the context lost: from the first call during the fault until
    /// another context is opened.
    pub(super) fn is_lost(&self) -> bool {
        if self.injected() == Some(GpuFault::Lost) {
            self.lost.store(true, Ordering::Release);
        }
        self.lost.load(Ordering::Acquire)
    }

    /// Call this when another context is opened.
    pub(super) fn forget_loss(&self) {
        self.lost.store(false, Ordering::Release);
    }
}

fn number_of(fault: GpuFault) -> u8 {
    match fault {
        GpuFault::Error => 1,
        GpuFault::Stuck => 2,
        GpuFault::Hang => 3,
        GpuFault::Slow => 4,
        GpuFault::Lost => 5,
        GpuFault::Memory => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn injected_faults_are_seen_until_removed() {
        let watch = Watch::new();
        assert_eq!(watch.injected(), None);
        for fault in FAULTS {
            watch.inject(Some(fault));
            assert_eq!(watch.injected(), Some(fault));
        }
        watch.inject(None);
        assert_eq!((watch.injected(), watch.spend_error()), (None, false));
    }

    #[test]
    fn an_injected_error_fails_one_call_however_often_injected() {
        let watch = Watch::new();
        for _ in 0..2 {
            watch.inject(Some(GpuFault::Error));
            assert!(watch.spend_error());
            watch.inject(Some(GpuFault::Error));
            assert!(!watch.spend_error());
            assert_eq!(watch.injected(), Some(GpuFault::Error));
            watch.inject(None);
        }
    }

    #[test]
    fn a_loss_outlives_its_injection_and_ends_with_a_new_context() {
        let watch = Watch::new();
        watch.inject(Some(GpuFault::Lost));
        assert!(watch.is_lost());
        watch.forget_loss();
        assert!(watch.is_lost(), "still injected");
        watch.inject(None);
        assert!(watch.is_lost(), "no context was opened since");
        watch.forget_loss();
        assert!(!watch.is_lost());
    }

    #[test]
    fn the_last_call_that_failed_is_noted_with_its_code() {
        let watch = Watch::new();
        assert_eq!(watch.last_failure(), None);
        for (call, code) in [(Call::Init, 3), (Call::Replay, 700), (Call::EventQuery, -1)] {
            watch.note(GpuError { call, code });
            assert_eq!(watch.last_failure(), Some(GpuError { call, code }));
        }
    }

    #[test]
    fn every_running_call_is_visible() {
        let watch = Watch::new();
        for call in Call::ALL {
            watch.begin(*call);
            assert_eq!(watch.under_way(), Some(*call));
        }
        watch.end();
        assert_eq!(watch.under_way(), None);
    }
}
