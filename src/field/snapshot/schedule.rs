//! Decides when a brain is handed over to the snapshot writer or to a recording.

use super::{HandOver, SnapshotSender};
use crate::base::time::{Instant, Span};
use crate::field::FieldEngine;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Hands a brain over to the writer when one is due.
pub struct SnapshotSchedule {
    sender: SnapshotSender,
    due: Due,
}

/// When a brain is handed over.
enum Due {
    /// At intervals, counted from the first call, and at the end.
    Every { every: Span, next: Option<Instant> },
    /// Whenever this is set.
    Asked(Arc<AtomicBool>),
}

impl SnapshotSchedule {
    /// A schedule that hands a brain to `sender` at intervals of `every`.
    pub fn new(sender: SnapshotSender, every: Span) -> SnapshotSchedule {
        SnapshotSchedule { sender, due: Due::Every { every, next: None } }
    }

    /// A schedule that hands a brain to `sender` whenever `asked` is set.
    pub fn when_asked(sender: SnapshotSender, asked: Arc<AtomicBool>) -> SnapshotSchedule {
        SnapshotSchedule { sender, due: Due::Asked(asked) }
    }

    /// Hands over the state of `engine` if that is due. If the engine cannot save now, the next call tries
    /// again; if the writer has no free buffer, only a requested copy is tried again.
    pub fn maintain(&mut self, engine: &mut dyn FieldEngine, now: Instant) {
        let mut hand_over = || self.sender.hand_over(|live| engine.save(live));
        match &mut self.due {
            Due::Every { every, next } => {
                if now >= *next.get_or_insert(now + *every) && hand_over() != HandOver::NotNow {
                    *next = Some(now + *every);
                }
            }
            // Cleared before the save: the receiver of the copy may ask for another one at once.
            Due::Asked(asked) => {
                if asked.swap(false, Ordering::AcqRel) && hand_over() != HandOver::Given {
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

#[cfg(test)]
mod tests {
    use super::super::writer::{Buffers, start};
    use super::*;
    use crate::field::sample::board;
    use crate::field::state::{Learned, Live, StateError};
    use crate::field::{Failure, FieldInput, FieldOutput};
    use crossbeam_channel::bounded;

    /// An engine that can or cannot save, and that calls `meanwhile` during a save.
    struct Saver<F: Fn() + Send> {
        saves: bool,
        meanwhile: F,
    }

    impl<F: Fn() + Send> FieldEngine for Saver<F> {
        fn name(&self) -> String {
            String::new()
        }
        fn cycle(&mut self, _: &FieldInput) -> Result<FieldOutput, Failure> {
            Err(Failure::NotFinite) // no test computes
        }
        fn save(&mut self, _: &mut Live) -> bool {
            (self.meanwhile)();
            self.saves
        }
        fn restore(&mut self, _: &Live) -> Result<(), StateError> {
            Ok(())
        }
        fn load(&mut self, _: &Learned) -> Result<(), StateError> {
            Ok(())
        }
        fn reset(&mut self) {}
    }

    #[test]
    fn a_copy_is_asked_for_until_one_is_handed_over() {
        let asked = Arc::new(AtomicBool::new(false));
        let (wrote, written) = bounded::<()>(8);
        // The writer holds its only buffer until the test lets it go.
        let (release, held) = bounded::<()>(0);
        let write = move |_: &Live, _: &mut Vec<u8>| {
            let _ = (wrote.send(()), held.recv());
            Ok(())
        };
        let buffers = Buffers { count: 1, bytes: 0, thread: "copy" };
        let (sender, _) = start(&board(8), buffers, |_| true, write).expect("a thread");
        let mut schedule = SnapshotSchedule::when_asked(sender, asked.clone());
        let mut engine = Saver { saves: false, meanwhile: || () };
        let mut is_still_asked = |engine: &mut dyn FieldEngine| {
            schedule.maintain(engine, Instant::ZERO);
            asked.load(Ordering::Acquire)
        };
        assert!(!is_still_asked(&mut engine), "no copy was requested");
        asked.store(true, Ordering::Release);
        assert!(is_still_asked(&mut engine), "the engine cannot save now");
        // A second request arrives while the engine saves: it needs another copy.
        let again = asked.clone();
        let mut asking = Saver { saves: true, meanwhile: move || again.store(true, Ordering::Release) };
        assert!(is_still_asked(&mut asking), "asked again");
        written.recv().expect("the first copy");
        engine.saves = true;
        assert!(is_still_asked(&mut engine), "the writer has the only buffer");
        release.send(()).expect("the writer waits");
        while is_still_asked(&mut engine) {
            std::thread::yield_now();
        }
        written.recv().expect("the second copy");
        drop(release);
        assert!(!is_still_asked(&mut engine) && written.is_empty(), "no third copy was requested");
    }
}
