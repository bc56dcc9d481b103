//! A global allocator that counts, so that "no allocation in a tick" is measured, not just claimed. To each
//! allocation it adds a thread-local increment and two relaxed atomic operations; it changes nothing else. A
//! program installs it with `#[global_allocator]`; where it is not installed, counts are `None`.

#![allow(unsafe_code)] // a global allocator is an unsafe trait; every call is passed on unchanged

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
}
static INSTALLED: AtomicBool = AtomicBool::new(false);
static EVERYWHERE: AtomicU64 = AtomicU64::new(0);

/// The system allocator, with counters.
pub struct CountingHeap;

fn count() {
    // `try_with`: a thread that is being torn down may still allocate; only its own count then misses it.
    let _ = HERE.try_with(|here| here.set(here.get() + 1));
    EVERYWHERE.fetch_add(1, Ordering::Relaxed);
    INSTALLED.store(true, Ordering::Relaxed);
}

// SAFETY: every method passes its arguments to `System` unchanged and returns what it returns; the
// counting neither allocates (const thread-local, plain atomics) nor unwinds.
unsafe impl GlobalAlloc for CountingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: `pointer` came from `System` with `layout`, as every block of this allocator did.
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as for `realloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Allocations of the calling thread since it began; `None` where the counter is not installed.
pub fn allocations_here() -> Option<u64> {
    INSTALLED.load(Ordering::Relaxed).then(|| HERE.with(Cell::get))
}

/// Allocations of the calling thread since `before`, an earlier result of [`allocations_here`].
pub fn allocations_since(before: Option<u64>) -> Option<u64> {
    Some(allocations_here()? - before?)
}

/// Allocations of all threads since the start; `None` where the counter is not installed.
pub fn allocations_everywhere() -> Option<u64> {
    INSTALLED.load(Ordering::Relaxed).then(|| EVERYWHERE.load(Ordering::Relaxed))
}
