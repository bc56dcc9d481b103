//! What the senses have been through, for people: counted by the workers, read when somebody asks.
//! Nothing is decided by these figures.

use super::ladder::RecoveryStep;
use crate::time::Span;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Adds one to `counter`.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Of all workers together.
#[derive(Debug, Default)]
pub struct SenseCounters {
    /// Readings that did not fit their ring.
    pub readings_dropped: Arc<AtomicU64>,
    /// Levels of buttons that had changed without an edge being delivered.
    pub edges_lost: AtomicU64,
    /// Edges that the kernel dropped because they were not read in time.
    pub edge_overruns: Arc<AtomicU64>,
    /// Times that a line had so many edges that it was looked at by its level only for a while.
    pub edge_storms: AtomicU64,
}

/// Of one polled device.
#[derive(Debug, Default)]
pub struct DeviceCounters {
    /// The sensors that it feeds, for people.
    pub name: String,
    /// Times it was asked for a reading.
    pub polls: AtomicU64,
    /// Polls and set-ups whose transfer failed.
    pub failures: AtomicU64,
    /// Times it was set up, the first included.
    pub set_ups: AtomicU64,
    /// Polls that began a whole period late, or later.
    pub late: AtomicU64,
    /// Polls by the clock of a device whose line should have asked for them: its edges are lost.
    pub unprompted: AtomicU64,
    /// Times that it was lost: it did not answer, could not be set up, or gave one answer after the other that made no
    /// sense.
    pub losses: AtomicU64,
    lost: AtomicBool,
    longest_ns: AtomicU64,
}

impl DeviceCounters {
    /// Of the device called `name`.
    pub fn new(name: String) -> DeviceCounters {
        DeviceCounters { name, ..DeviceCounters::default() }
    }
    /// It gives no values.
    pub(super) fn lose(&self) {
        if !self.lost.swap(true, Ordering::Relaxed) {
            count(&self.losses);
        }
    }
    /// It gave a value.
    pub(super) fn find(&self) {
        self.lost.store(false, Ordering::Relaxed);
    }
    /// Whether it was lost and has not given a value since.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
    /// A poll took this long.
    pub(super) fn took(&self, span: Span) {
        self.longest_ns.fetch_max(span.as_nanos(), Ordering::Relaxed);
    }
    /// The longest poll so far. (A set-up is no poll.)
    pub fn longest(&self) -> Span {
        Span::from_nanos(self.longest_ns.load(Ordering::Relaxed))
    }
}

/// Of one bus thread.
#[derive(Debug, Default)]
pub struct BusCounters {
    /// Name of the bus, as the board has it.
    pub name: String,
    /// Transfers that failed for good: after their retries.
    pub failures: AtomicU64,
    /// Transfers that were tried again.
    pub retries: AtomicU64,
    /// Times that the motors' controller was set up (the first included), or a bus without one begun anew.
    pub set_ups: AtomicU64,
    /// Steps of recovery taken, by [`RecoveryStep`]; the first set-up is none.
    pub rungs: [AtomicU64; RecoveryStep::ALL.len()],
    /// Commands that every motor took.
    pub written: AtomicU64,
    /// Commands that had expired before they could be written, or ran out afterwards.
    pub expired: AtomicU64,
    /// Commands that were made before the reason of a halt could be known, and were not obeyed.
    pub withheld: AtomicU64,
    /// Times that the motors were stopped without waiting for the tick.
    pub halts: AtomicU64,
    /// Times that the motors were stopped again because they were not known to stand: the stop before had failed, or the
    /// bus had.
    pub stops_again: AtomicU64,
    /// Its devices, in the order of the polling table.
    pub devices: Vec<DeviceCounters>,
    longest_unled_ns: AtomicU64,
}

impl BusCounters {
    /// Of the bus called `name` with these devices.
    pub fn new(name: impl Into<String>, devices: impl IntoIterator<Item = String>) -> BusCounters {
        let devices = devices.into_iter().map(DeviceCounters::new).collect();
        BusCounters { name: name.into(), devices, ..BusCounters::default() }
    }
    /// Motors that may have moved were without a word for this long.
    pub(super) fn unled(&self, span: Span) {
        self.longest_unled_ns.fetch_max(span.as_nanos(), Ordering::Relaxed);
    }
    /// The longest time from one word that got through to the motors (a command, a stop, a line that holds them) to the next,
    /// while they were not known to stand. Motors that no line holds are known to stand only at the end of a set-up.
    pub fn longest_unled(&self) -> Span {
        Span::from_nanos(self.longest_unled_ns.load(Ordering::Relaxed))
    }
    /// The devices that give no values now.
    pub fn lost(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().filter(|device| device.is_lost()).map(|device| device.name.as_str())
    }
    /// How often `rung` was taken.
    pub fn taken(&self, rung: RecoveryStep) -> u64 {
        self.rungs[rung as usize].load(Ordering::Relaxed)
    }
}
