//! Which ranges of host memory a device may still be copying to or from. A stream counts its copies; the
//! stream, or an event after them, reports which are done. Until then the host must not touch the ranges: the
//! compiler does not see what the device reads and writes.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// Number of copies that one allocation tracks separately. Beyond this number, a new copy is merged with an
/// earlier one of the same stream.
const KEPT: usize = 8;

/// Progress of a stream, in copies.
#[derive(Default)]
pub(super) struct Progress {
    given: Cell<u64>,
    done: Cell<u64>,
}

/// A position in a stream: all copies up to it.
pub(super) struct StreamPosition {
    progress: Rc<Progress>,
    ticket: u64,
}

impl Progress {
    /// The position after the newest copy.
    pub(super) fn mark(self: &Rc<Progress>) -> StreamPosition {
        StreamPosition { progress: self.clone(), ticket: self.given.get() }
    }

    /// Counts one more copy.
    fn give(self: &Rc<Progress>) -> StreamPosition {
        self.given.set(self.given.get() + 1);
        self.mark()
    }
}

impl StreamPosition {
    /// The stream has reached this position.
    pub(super) fn is_passed(&self) {
        self.progress.done.set(self.progress.done.get().max(self.ticket));
    }

    fn is_known_to_be_passed(&self) -> bool {
        self.ticket <= self.progress.done.get()
    }
}

/// What a copy does with host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyDirection {
    /// Reads it.
    In,
    /// Writes it.
    Out,
}

struct Flight {
    mark: StreamPosition,
    range: Range<usize>,
    way: CopyDirection,
}

/// The copies under way on one allocation, and the threads that read or write it.
#[derive(Default)]
pub(super) struct Flights {
    under_way: RefCell<heapless::Vec<Flight, KEPT>>,
    readers: Cell<u32>,
    is_written: Cell<bool>,
}

impl Flights {
    /// Begins a copy. Returns false if the copy must not begin, because a thread is using the allocation in a
    /// way that excludes it, or because too many streams copy at once.
    pub(super) fn begin(&self, progress: &Rc<Progress>, range: Range<usize>, way: CopyDirection) -> bool {
        if self.is_looked_at(way) {
            return false;
        }
        let mut under_way = self.under_way.borrow_mut();
        under_way.retain(|flight| !flight.mark.is_known_to_be_passed());
        if under_way.is_full() {
            let same = under_way.iter_mut().find(|flight| Rc::ptr_eq(&flight.mark.progress, progress));
            let Some(flight) = same else { return false };
            flight.range = flight.range.start.min(range.start)..flight.range.end.max(range.end);
            flight.way = if way == CopyDirection::Out { way } else { flight.way };
            flight.mark = progress.give();
            return true;
        }
        under_way.push(Flight { mark: progress.give(), range, way }).is_ok()
    }

    /// Whether a thread is using the allocation in a way that excludes a copy in this direction.
    fn is_looked_at(&self, way: CopyDirection) -> bool {
        self.is_written.get() || way == CopyDirection::Out && self.readers.get() > 0
    }

    /// Begins reading a range. Returns false if a copy is writing it.
    pub(super) fn read(&self, range: &Range<usize>) -> bool {
        let free = self.is_free(range, |way| way == CopyDirection::Out);
        self.readers.set(self.readers.get() + u32::from(free));
        free
    }

    /// Begins writing a range. Returns false if a copy is using it. An allocation has at most one writer, and
    /// no reader at the same time: the writer borrows the allocation.
    pub(super) fn write(&self, range: &Range<usize>) -> bool {
        let free = self.is_free(range, |_| true);
        self.is_written.set(free);
        free
    }

    pub(super) fn end_read(&self) {
        self.readers.set(self.readers.get().saturating_sub(1));
    }

    pub(super) fn end_write(&self) {
        self.is_written.set(false);
    }

    fn is_free(&self, range: &Range<usize>, is_in_the_way: impl Fn(CopyDirection) -> bool) -> bool {
        let under_way = self.under_way.borrow();
        let meets = |flight: &Flight| flight.range.start < range.end && range.start < flight.range.end;
        !under_way
            .iter()
            .any(|flight| meets(flight) && is_in_the_way(flight.way) && !flight.mark.is_known_to_be_passed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_free_once_its_stream_has_passed_it() {
        let (flights, progress) = (Flights::default(), Rc::<Progress>::default());
        assert!(flights.begin(&progress, 0..64, CopyDirection::Out));
        assert!(!flights.read(&(63..80)) && !flights.write(&(0..1)));
        assert!(flights.read(&(64..80)), "the range beside it");
        flights.end_read();
        let mark = progress.mark();
        assert!(flights.begin(&progress, 64..128, CopyDirection::In));
        mark.is_passed();
        assert!(flights.read(&(0..128)), "a range that a copy only reads may be read");
        flights.end_read();
        assert!(!flights.write(&(100..101)) && flights.write(&(0..64)));
        flights.end_write();
        progress.mark().is_passed();
        assert!(flights.write(&(0..128)));
    }

    #[test]
    fn no_copy_writes_a_range_that_a_thread_reads() {
        let (flights, progress) = (Flights::default(), Rc::<Progress>::default());
        assert!(flights.read(&(0..64)));
        assert!(
            !flights.begin(&progress, 0..64, CopyDirection::Out)
                && flights.begin(&progress, 0..64, CopyDirection::In)
        );
        flights.end_read();
        progress.mark().is_passed();
        assert!(flights.write(&(0..64)));
        assert!(
            !flights.begin(&progress, 0..64, CopyDirection::In)
                && !flights.begin(&progress, 0..64, CopyDirection::Out)
        );
        flights.end_write();
        assert!(flights.begin(&progress, 0..64, CopyDirection::Out));
    }

    #[test]
    fn copies_of_one_stream_are_tracked_together() {
        let flights = Flights::default();
        let streams: Vec<Rc<Progress>> = (0..KEPT).map(|_| Rc::default()).collect();
        for stream in &streams {
            assert!(flights.begin(stream, 0..8, CopyDirection::In));
        }
        assert!(
            flights.begin(&streams[0], 100..108, CopyDirection::Out),
            "a second copy of the first stream"
        );
        assert!(!flights.begin(&Rc::default(), 0..8, CopyDirection::In), "one stream too many");
        assert!(!flights.read(&(104..105)));
        streams[0].mark().is_passed();
        assert!(flights.read(&(104..105)) && !flights.write(&(0..8)));
        streams.iter().for_each(|stream| stream.mark().is_passed());
        flights.end_read();
        assert!(flights.write(&(0..200)));
    }
}
