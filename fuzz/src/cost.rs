//! Limits the CPU time and memory that an input may cost, both measured on the thread that processes it.
//! Exceeding a limit is a panic, like any other failure.

use rustix::time::{ClockId, clock_gettime};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Maximum CPU time for one input, in nanoseconds: a user may be waiting for the result.
const LONGEST_NS: i64 = 1_000_000_000;
/// Maximum memory for one input, in bytes, in addition to copies of the input.
const MOST: usize = 64 << 20;
/// Maximum number of copies of an input in memory at once: as bytes, text, values, and messages about them.
const COPIES: usize = 10;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system allocator, with a count of the bytes that each thread holds.
pub struct Heap;

fn count(bytes: isize) {
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call is passed on to the system allocator unchanged; counting does not touch the allocations.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's guarantees hold for the system allocator too.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}

fn processor_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Runs `work`, which processes an input of `length` bytes. Panics if that costs more than the limits.
pub fn of(length: usize, work: impl FnOnce() -> bool) {
    let held = HELD.get();
    PEAK.set(held);
    let began = processor_ns();
    work();
    let (took, grew) = (processor_ns() - began, (PEAK.get() - held).max(0) as usize);
    assert!(took <= LONGEST_NS, "an input of {length} bytes took {} ms of CPU time", took / 1_000_000);
    assert!(grew <= COPIES * length + MOST, "an input of {length} bytes took {grew} bytes of memory");
}
