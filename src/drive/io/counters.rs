//! Counters of sensors and buses for reports: the workers count, reports read. No decision depends on these
//! figures.

use super::ladder::RecoveryStep;
use crate::base::time::Span;
use crate::hardware::bus::Measure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Adds one to `counter`.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Counters that all workers share.
#[derive(Debug, Default)]
pub struct SenseCounters {
    /// Readings that did not fit into their ring buffer.
    pub readings_dropped: Arc<AtomicU64>,
    /// Button levels that had changed without an edge being delivered.
    pub edges_lost: AtomicU64,
    /// Edges that the kernel dropped because they were not read in time.
    pub edge_overruns: Arc<AtomicU64>,
    /// How often the lines had so many edges that their thread only polled levels for a while.
    pub edge_storms: AtomicU64,
}

/// Counters of one polled device.
#[derive(Debug, Default)]
pub struct DeviceCounters {
    /// The sensors that it feeds, for reports.
    pub name: String,
    /// How often it was polled for a reading.
    pub polls: AtomicU64,
    /// Polls and set-ups whose transfer failed.
    pub failures: AtomicU64,
    /// How often it was set up, including the first time.
    pub set_ups: AtomicU64,
    /// Polls that began at least a whole period late.
    pub late: AtomicU64,
    /// Timed polls of a device whose line should have requested them: edges of the line were lost.
    pub unprompted: AtomicU64,
    /// How often it was lost: it did not answer, could not be set up, or kept returning invalid values.
    pub losses: AtomicU64,
    lost: AtomicBool,
    longest_ns: AtomicU64,
}

impl DeviceCounters {
    /// Counters of the device called `name`.
    pub fn new(name: String) -> DeviceCounters {
        DeviceCounters { name, ..DeviceCounters::default() }
    }
    /// Records that the device returns no values.
    pub(super) fn lose(&self) {
        if !self.lost.swap(true, Ordering::Relaxed) {
            count(&self.losses);
        }
    }
    /// Records that the device returned a value.
    pub(super) fn find(&self) {
        self.lost.store(false, Ordering::Relaxed);
    }
    /// Whether it was lost and has not returned a value since.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
    /// Records how long a poll took.
    pub(super) fn took(&self, span: Span) {
        self.longest_ns.fetch_max(span.as_nanos(), Ordering::Relaxed);
    }
    /// The longest poll so far. (A set-up is not a poll.)
    pub fn longest(&self) -> Span {
        Span::from_nanos(self.longest_ns.load(Ordering::Relaxed))
    }
}

/// Counters of one bus thread.
#[derive(Debug, Default)]
pub struct BusCounters {
    /// Name of the bus in the board file.
    pub name: String,
    /// Transfers that failed for good, after their retries.
    pub failures: AtomicU64,
    /// Retries of failed transfers.
    pub retries: AtomicU64,
    /// How often the motors' controller was set up (including the first time); on a bus without one, how
    /// often the bus was restarted.
    pub set_ups: AtomicU64,
    /// Recovery steps taken, by [`RecoveryStep`]; the first set-up does not count.
    pub steps_taken: [AtomicU64; RecoveryStep::ALL.len()],
    /// Recovery steps available here, by [`RecoveryStep`].
    pub reachable: [AtomicBool; RecoveryStep::ALL.len()],
    /// Commands that every motor accepted.
    pub written: AtomicU64,
    /// Commands that expired before they could be written, or while the motors obeyed them because no newer
    /// one came.
    pub expired: AtomicU64,
    /// Commands that were dropped because the tick made them before it could know the cause of a halt.
    pub withheld: AtomicU64,
    /// How often the motors were stopped without waiting for the tick.
    pub halts: AtomicU64,
    /// How often the motors' lines were switched off while the bus hung in a transfer.
    pub cuts: AtomicU64,
    /// How often the motors were stopped again because they were not known to have stopped: the previous
    /// stop, or the bus, had failed.
    pub stops_again: AtomicU64,
    /// Its devices, in polling-table order.
    pub devices: Vec<DeviceCounters>,
    longest_write_gap_ns: AtomicU64,
}

impl BusCounters {
    /// Counters of the bus called `name` with these devices.
    pub fn new(name: impl Into<String>, devices: impl IntoIterator<Item = String>) -> BusCounters {
        let devices = devices.into_iter().map(DeviceCounters::new).collect();
        BusCounters { name: name.into(), devices, ..BusCounters::default() }
    }
    /// Records and returns whether `measure` can be taken here.
    pub(super) fn reaches(&self, measure: Measure, can: bool) -> bool {
        for (step, reachable) in RecoveryStep::ALL.into_iter().zip(&self.reachable) {
            if step.measure() == Some(measure) {
                reachable.store(can, Ordering::Relaxed);
            }
        }
        can
    }
    /// The measures that can be taken here, besides a reset.
    pub fn measures(&self) -> impl Iterator<Item = RecoveryStep> {
        let reachable = |(_, reachable): &(RecoveryStep, &AtomicBool)| reachable.load(Ordering::Relaxed);
        RecoveryStep::ALL.into_iter().zip(&self.reachable).filter(reachable).map(|(step, _)| step)
    }
    /// Records how long the motors received nothing while they may have been moving.
    pub(super) fn count_write_gap(&self, span: Span) {
        self.longest_write_gap_ns.fetch_max(span.as_nanos(), Ordering::Relaxed);
    }
    /// The longest time between two messages that reached the motors (a command, a stop, a line that holds
    /// them) while they were not known to have stopped. Motors that no line holds are known to have stopped
    /// only at the end of a set-up.
    pub fn longest_write_gap(&self) -> Span {
        Span::from_nanos(self.longest_write_gap_ns.load(Ordering::Relaxed))
    }
    /// The devices that currently return no values.
    pub fn lost(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().filter(|device| device.is_lost()).map(|device| device.name.as_str())
    }
    /// How often `step` was taken.
    pub fn taken(&self, step: RecoveryStep) -> u64 {
        self.steps_taken[step as usize].load(Ordering::Relaxed)
    }
}
