//! A latest-value slot between two threads: the writer never waits, the reader never waits, and a
//! reader sees the newest whole value or none. Three cells: one the writer's, one the reader's, one
//! in the middle that changes hands by a single atomic swap (triple buffering).
//!
//! For data where only the newest counts (commands, stimuli, field results). Where every item counts
//! (readings, receipts, trace) use a ring. `scripts/check-loom` tries every interleaving of the two threads.

#![allow(unsafe_code)] // the hand-over of a cell between two threads; reasons at each place

use super::sync::{Arc, AtomicU8, Ordering, UnsafeCell};

/// Set in the state while the middle cell holds a value that the reader has not taken.
const FRESH: u8 = 0b100;
const INDEX: u8 = 0b011;

struct Cells<T> {
    cells: [UnsafeCell<T>; 3],
    /// Index of the middle cell, and [`FRESH`].
    middle: AtomicU8,
}

// SAFETY: a cell is touched only by the side whose index names it; indices change hands only by the
// atomic swap of `middle`, which orders the accesses (AcqRel). At any time the writer's, the
// reader's and the middle index are three different numbers, so no cell has two owners.
unsafe impl<T: Send> Sync for Cells<T> {}

/// The writing end. There is one.
pub struct Writer<T> {
    shared: Arc<Cells<T>>,
    mine: u8,
}

/// The reading end. There is one.
pub struct Reader<T> {
    shared: Arc<Cells<T>>,
    mine: u8,
}

/// A slot that holds nothing new yet; `initial` only fills the cells.
pub fn triple_buffer<T: Copy + Send>(initial: T) -> (Writer<T>, Reader<T>) {
    let shared = Arc::new(Cells {
        cells: std::array::from_fn(|_| UnsafeCell::new(initial)),
        middle: AtomicU8::new(1),
    });
    (Writer { shared: shared.clone(), mine: 0 }, Reader { shared, mine: 2 })
}

impl<T: Copy + Send> Writer<T> {
    /// Makes `value` the newest. Returns whether the previous value was never taken.
    pub fn put(&mut self, value: T) -> bool {
        // SAFETY: `mine` is the writer's own index (see `Cells`): no other thread uses this cell.
        self.shared.cells[self.mine as usize].with_mut(|cell| unsafe { *cell = value });
        let before = self.shared.middle.swap(self.mine | FRESH, Ordering::AcqRel);
        self.mine = before & INDEX;
        before & FRESH != 0
    }
}

impl<T: Copy + Send> Reader<T> {
    /// The newest value, if one has been put since the last call.
    pub fn take(&mut self) -> Option<T> {
        if self.shared.middle.load(Ordering::Relaxed) & FRESH == 0 {
            return None;
        }
        let before = self.shared.middle.swap(self.mine, Ordering::AcqRel);
        self.mine = before & INDEX;
        // SAFETY: `mine` is now the reader's own index; the swap's acquire makes the writer's store visible.
        Some(self.shared.cells[self.mine as usize].with(|cell| unsafe { *cell }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_value_is_taken_and_only_once() {
        let (mut writer, mut reader) = triple_buffer(0u32);
        assert_eq!(reader.take(), None);
        assert!(!writer.put(1));
        assert!(writer.put(2), "1 was never taken");
        assert_eq!(reader.take(), Some(2));
        assert_eq!(reader.take(), None);
        assert!(!writer.put(3));
        assert_eq!(reader.take(), Some(3));
    }

    #[test]
    fn two_threads_never_see_a_torn_or_older_value() {
        // All elements of a value are the same number: in a torn read, some would differ.
        let rounds = if cfg!(miri) { 300 } else { 200_000u64 };
        let (mut writer, mut reader) = triple_buffer([0u64; 16]);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in 1..=rounds {
                    writer.put([n; 16]);
                }
            });
            let mut last = 0;
            while last < rounds {
                if let Some(value) = reader.take() {
                    assert!(value.iter().all(|&n| n == value[0]), "torn: {value:?}");
                    assert!(value[0] > last, "{} after {last}", value[0]);
                    last = value[0];
                } else {
                    std::hint::spin_loop();
                }
            }
        });
    }
}
