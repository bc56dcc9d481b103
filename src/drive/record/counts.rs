//! What a recording has written and lost: counted by the threads that handle it, readable by any thread.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The counters.
#[derive(Debug, Default)]
pub struct RecordingCounts {
    pub(super) slots: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) files: AtomicU64,
    pub(super) removed: AtomicU64,
    /// Slots that were put into the queue of the writing thread.
    pub(super) queued: AtomicU64,
    /// Slots from that queue that the thread has handled.
    pub(super) taken: AtomicU64,
    pub(super) overrun: AtomicU64,
    pub(super) unwritten: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) checkpoints_left_out: AtomicU64,
    pub(super) processor_us: AtomicU64,
    pub(super) writing: AtomicBool,
    pub(super) ended: AtomicBool,
    pub(super) last_failure: Mutex<Option<String>>,
}

/// A copy of the counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingStatus {
    /// Slots are being written to a file.
    pub writing: bool,
    /// The writing thread is gone: nothing more is recorded in this run.
    pub ended: bool,
    /// Slots that were written.
    pub slots: u64,
    /// Bytes of all files of this run.
    pub bytes: u64,
    /// Files that were started.
    pub files: u64,
    /// Older recordings that were deleted to stay within the limit.
    pub removed: u64,
    /// Slots that were lost because the disk was too slow.
    pub overrun: u64,
    /// Slots that were lost because the disk returned an error or the writing thread failed.
    pub unwritten: u64,
    /// How often writing failed.
    pub failures: u64,
    /// Checkpoints that were due and are missing: after a loss, replay continues only at a later one.
    pub checkpoints_left_out: u64,
    /// Processor time of the writing thread, microseconds.
    pub processor_us: u64,
    /// The system's last error message.
    pub last_failure: Option<String>,
}

impl RecordingCounts {
    /// The current counts.
    pub fn look(&self) -> RecordingStatus {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let ended = self.ended.load(Ordering::Relaxed);
        // A thread that has panicked leaves slots in its queue.
        let left = if ended { of(&self.queued).saturating_sub(of(&self.taken)) } else { 0 };
        RecordingStatus {
            writing: self.writing.load(Ordering::Relaxed),
            ended,
            slots: of(&self.slots),
            bytes: of(&self.bytes),
            files: of(&self.files),
            removed: of(&self.removed),
            overrun: of(&self.overrun),
            unwritten: of(&self.unwritten) + left,
            failures: of(&self.failures),
            checkpoints_left_out: of(&self.checkpoints_left_out),
            processor_us: of(&self.processor_us),
            last_failure: self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Slots that are missing from the files so far.
    pub(super) fn lost(&self) -> u64 {
        self.overrun.load(Ordering::Relaxed) + self.unwritten.load(Ordering::Relaxed)
    }

    pub(super) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    /// Counts a failed write with the system's message. Returns whether that message differs from the last
    /// one.
    pub(super) fn failed(&self, words: String) -> bool {
        RecordingCounts::add(&self.failures, 1);
        let mut last = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = last.as_ref() != Some(&words);
        *last = Some(words);
        is_news
    }
}

impl RecordingStatus {
    /// Slots that are missing from the files although they should be there.
    pub fn lost(&self) -> u64 {
        self.overrun + self.unwritten
    }
}
