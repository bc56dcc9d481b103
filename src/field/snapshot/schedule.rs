//! Decides when a brain is handed to the snapshot writer.

use super::SnapshotSender;
use crate::base::time::{Instant, Span};
use crate::field::FieldEngine;
use std::time::Duration;

/// Hands a brain to the writer at intervals, and at the end. The first interval begins with the first call.
pub struct SnapshotSchedule {
    sender: SnapshotSender,
    every: Span,
    due: Option<Instant>,
}

impl SnapshotSchedule {
    /// A snapshot over `sender` every `every`.
    pub fn new(sender: SnapshotSender, every: Span) -> SnapshotSchedule {
        SnapshotSchedule { sender, every, due: None }
    }

    /// Hands over the state of `engine` if that is due. If the engine cannot save now, the next call tries
    /// again.
    pub fn maintain(&mut self, engine: &mut dyn FieldEngine, now: Instant) {
        let due = *self.due.get_or_insert(now + self.every);
        if now >= due && self.sender.hand_over(|live| engine.save(live)) {
            self.due = Some(now + self.every);
        }
    }

    /// Hands over the last state; waits for a free buffer for at most `timeout`.
    pub fn finish(&mut self, engine: &mut dyn FieldEngine, timeout: Duration) {
        self.sender.hand_over_last(timeout, |live| engine.save(live));
    }
}
