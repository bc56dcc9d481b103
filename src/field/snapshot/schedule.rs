//! Decides when a brain is handed to the snapshot writer, or to a recording.

use super::SnapshotSender;
use crate::base::time::{Instant, Span};
use crate::field::FieldEngine;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Hands a brain to the writer when that is due.
pub struct SnapshotSchedule {
    sender: SnapshotSender,
    due: Due,
}

/// When a brain is handed over.
enum Due {
    /// At intervals, the first of which begins with the first call, and at the end.
    Every { every: Span, next: Option<Instant> },
    /// Whenever this is set.
    Asked(Arc<AtomicBool>),
}

impl SnapshotSchedule {
    /// A snapshot over `sender` every `every`.
    pub fn new(sender: SnapshotSender, every: Span) -> SnapshotSchedule {
        SnapshotSchedule { sender, due: Due::Every { every, next: None } }
    }

    /// A snapshot over `sender` whenever `asked` is set.
    pub fn when_asked(sender: SnapshotSender, asked: Arc<AtomicBool>) -> SnapshotSchedule {
        SnapshotSchedule { sender, due: Due::Asked(asked) }
    }

    /// Hands over the state of `engine` if that is due. If the engine cannot save now, the next call tries
    /// again.
    pub fn maintain(&mut self, engine: &mut dyn FieldEngine, now: Instant) {
        let mut hand_over = || self.sender.hand_over(|live| engine.save(live));
        match &mut self.due {
            Due::Every { every, next } => {
                if now >= *next.get_or_insert(now + *every) && hand_over() {
                    *next = Some(now + *every);
                }
            }
            // Cleared first: whoever takes the copy may ask for another one at once.
            Due::Asked(asked) => {
                if asked.swap(false, Ordering::AcqRel) && !hand_over() {
                    asked.store(true, Ordering::Release);
                }
            }
        }
    }

    /// Hands over the last state, if snapshots are taken at intervals; waits for a free buffer for at most
    /// `timeout`.
    pub fn finish(&mut self, engine: &mut dyn FieldEngine, timeout: Duration) {
        if matches!(self.due, Due::Every { .. }) {
            self.sender.hand_over_last(timeout, |live| engine.save(live));
        }
    }
}
