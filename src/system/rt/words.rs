//! Words of memory on pages of their own, which a device and this program both read and write in place. They
//! belong to the program, not to a driver: they stay valid whatever happens to the device.

#![allow(unsafe_code)] // page-aligned memory; reasons at each place

use rustix::param::page_size;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Whole pages of words, all 0 at the start. Every access is atomic, because a device accesses them too.
pub struct Words {
    start: NonNull<AtomicU32>,
    layout: Layout,
}

// SAFETY: the memory holds atomics and this value alone owns it; it is freed once, when the last owner goes.
unsafe impl Send for Words {}
// SAFETY: as above; shared access is by atomics only.
unsafe impl Sync for Words {}

impl Words {
    /// At least `count` words, on whole pages. Touches them all.
    ///
    /// # Panics
    /// If `count` is 0 or more than the address space holds.
    pub fn new(count: usize) -> Words {
        let bytes = (count * size_of::<u32>()).next_multiple_of(page_size());
        let layout = Layout::from_size_align(bytes, page_size()).expect("a few pages");
        assert!(bytes > 0, "no words");
        // SAFETY: the size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start.cast()) else { handle_alloc_error(layout) };
        let words = Words { start, layout };
        // Fresh pages are mapped when they are first written: here, not in a control period.
        words.iter().for_each(|word| word.store(0, std::sync::atomic::Ordering::Relaxed));
        words
    }

    /// Length in bytes: whole pages.
    pub fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Deref for Words {
    type Target = [AtomicU32];

    fn deref(&self) -> &[AtomicU32] {
        let count = self.layout.size() / size_of::<u32>();
        // SAFETY: as many words as were allocated, all written at the start, alive as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), count) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { dealloc(self.start.as_ptr().cast(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn words_start_zero_on_their_own_pages() {
        let [one, two] = [1, 2000].map(Words::new);
        for words in [&one, &two] {
            assert!(words.as_ptr().addr().is_multiple_of(page_size()));
            assert!(words.bytes().is_multiple_of(page_size()) && words.len() * 4 == words.bytes());
            assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        }
        assert!(two.len() >= 2000);
    }
}
