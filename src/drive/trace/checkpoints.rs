//! The channel on which checkpoints of the tick go to a recording. Its buffers are allocated before the run
//! and circulate: empty ones go to the tick, full ones to the recording, which returns them. If the tick
//! finds no empty buffer, it leaves the checkpoint out and counts it.

use crate::base::time::Span;
use crate::system::checkpoint::{Archive, ROOM, Remembers};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Interval between checkpoints. A replay can begin at any checkpoint, and after a loss it continues at the
/// next one. At half this interval, checkpoints would be a tenth of a recording; at twice the interval, the
/// loss of one slot would cost a replay ten seconds.
pub const CHECKPOINT_EVERY: Span = Span::from_millis(5_000);
/// Number of buffers: the non-real-time thread empties one within about 20 ms; checkpoints are seconds apart.
const BUFFERS: usize = 3;

/// The tick's state before slot number `index`.
pub struct Checkpoint {
    /// Number of the slot that continues from this state.
    pub index: u64,
    room: Box<[u8]>,
    used: usize,
}

/// The tick's end of the channel; by default, nothing is recorded.
#[derive(Default)]
pub struct CheckpointTap {
    line: Option<Line>,
    /// Number of the slot before which the next checkpoint is due.
    due: u64,
}

struct Line {
    empty: rtrb::Consumer<Box<[u8]>>,
    full: rtrb::Producer<Checkpoint>,
    left_out: Arc<AtomicU64>,
}

/// The recording's end of the channel.
pub struct Checkpoints {
    spare: rtrb::Producer<Box<[u8]>>,
    full: rtrb::Consumer<Checkpoint>,
    /// The next checkpoint, if its slot has not come yet.
    next: Option<Checkpoint>,
    left_out: Arc<AtomicU64>,
}

/// A channel for checkpoints.
pub fn checkpoint_tap() -> (CheckpointTap, Checkpoints) {
    let (mut spare, empty) = rtrb::RingBuffer::new(BUFFERS);
    let (filled, full) = rtrb::RingBuffer::new(BUFFERS);
    for _ in 0..BUFFERS {
        // Not zeros, so that the kernel maps the memory now and not when the tick first writes to it.
        let _ = spare.push(vec![1; ROOM].into_boxed_slice()); // the ring has room for all of them
    }
    let left_out: Arc<AtomicU64> = Arc::default();
    let line = Line { empty, full: filled, left_out: left_out.clone() };
    let tap = CheckpointTap { line: Some(line), due: 0 };
    (tap, Checkpoints { spare, full, next: None, left_out })
}

impl CheckpointTap {
    /// Whether a checkpoint before slot number `index` is to be taken.
    pub fn is_due(&self, index: u64) -> bool {
        self.line.is_some() && index >= self.due
    }

    /// Saves `what` as it is before slot number `index`; the next checkpoint is due [`CHECKPOINT_EVERY`]
    /// later.
    pub fn take(&mut self, index: u64, period: Span, what: &mut impl Remembers) {
        let Some(Line { empty, full, left_out }) = &mut self.line else { return };
        self.due = index.saturating_add(CHECKPOINT_EVERY.as_nanos() / period.as_nanos().max(1));
        let Ok(mut room) = empty.pop() else {
            left_out.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut archive = Archive::writer(&mut room);
        let walked = what.walk(&mut archive);
        // A checkpoint that does not fit is sent with length 0, because only the recording can return the
        // buffer.
        let used = if walked.is_ok() { archive.at() } else { 0 };
        left_out.fetch_add(u64::from(walked.is_err()), Ordering::Relaxed);
        let _ = full.push(Checkpoint { index, room, used }); // the ring has room for all buffers
    }
}

impl Checkpoints {
    /// Checkpoints that were due and that the tick left out: no buffer was free, or the state did not fit.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// The bytes of the checkpoint before slot number `index`, if there is one. Earlier ones are dropped.
    pub fn before(&mut self, index: u64) -> Option<Vec<u8>> {
        let mut found = None;
        while let Some(checkpoint) = self.next.take().or_else(|| self.full.pop().ok()) {
            if checkpoint.index > index {
                self.next = Some(checkpoint);
                break;
            }
            let Checkpoint { index: of, room, used } = checkpoint;
            if of == index && used > 0 {
                found = Some(room[..used].to_vec());
            }
            let _ = self.spare.push(room); // the ring has room for all buffers
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::checkpoint::{Unfit, remember};

    struct Counter(u64);

    impl Remembers for Counter {
        fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
            let Counter(count) = self;
            remember!(archive: count);
            Ok(())
        }
    }

    #[test]
    fn buffers_circulate_and_a_missing_one_is_counted() {
        let (mut tap, mut taken) = checkpoint_tap();
        let second = Span::from_millis(1_000);
        for index in (0..20).filter(|index| index % 5 == 0) {
            assert!(tap.is_due(index));
            tap.take(index, second, &mut Counter(index + 1));
            assert!(!tap.is_due(index + 4) && tap.is_due(index + 5));
        }
        assert_eq!(taken.left_out(), 1, "three buffers, and none was returned");
        assert_eq!((taken.before(4), taken.before(5)), (None, Some(vec![6])));
        assert_eq!((taken.before(9), taken.before(10)), (None, Some(vec![11])));
        tap.take(20, second, &mut Counter(21));
        assert_eq!((taken.before(20), taken.left_out()), (Some(vec![21]), 1));
        assert!(!CheckpointTap::default().is_due(0), "nothing is recorded");
    }
}
