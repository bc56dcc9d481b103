//! Large pages for large allocations. A field with its library and bank takes tens of thousands of 4 KiB
//! pages, more than a processor's TLB holds; in a virtual machine each miss costs a dozen reads. With 2 MiB
//! pages, a few dozen are enough. Large pages are requested where the kernel offers them, and never required.
//!
//! The size of a large page depends on that of the small ones: 2 MiB with 4 KiB, 32 MiB with the 16 KiB of a
//! Raspberry Pi 5 (`kernel_2712.img`). So it is read from the system.

#![allow(unsafe_code)] // libc's madvise: rustix does not know MADV_COLLAPSE

use rustix::param::page_size;
use std::ops::Range;
use std::sync::OnceLock;

/// Where the kernel reports the size (Documentation/admin-guide/mm/transhuge.rst).
const SAYS: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
/// Large pages up to this size are requested even for memory that fills only a sixteenth of one: little is
/// wasted.
const SMALL_WASTE: usize = 2 << 20;

/// The size of a large page, bytes. `said` is the kernel's text, if there is any; `page` is the size of a
/// small page, bytes. Without a valid text, the size is the memory that one lowest-level page table maps: a
/// small page full of 8-byte entries.
fn large(said: Option<&str>, page: usize) -> usize {
    let said = said.and_then(|text| text.trim().parse().ok());
    let is_sound = |size: &usize| size.is_power_of_two() && *size > page;
    said.filter(is_sound).unwrap_or(page * (page / 8))
}

/// The size of a large page on this machine, bytes.
pub fn large_page() -> usize {
    static LARGE: OnceLock<usize> = OnceLock::new();
    *LARGE.get_or_init(|| large(std::fs::read_to_string(SAYS).ok().as_deref(), page_size()))
}

/// The address range of the large pages to request for memory of `size` bytes at `start`; `None`: not worth
/// it, because most of the range would be other memory, or be allocated for nothing.
fn wanted(start: usize, size: usize, large: usize) -> Option<Range<usize>> {
    let least = if large <= SMALL_WASTE { large / 16 } else { large / 2 };
    (size >= least).then(|| start / large * large..(start + size).next_multiple_of(large))
}

/// Requests large pages now for `memory`, and so for its neighbours on the same pages. Every byte must have
/// been written before. Takes milliseconds per megabyte; not for use in a control period.
/// `/proc/self/smaps_rollup` shows whether the kernel did it.
pub fn want_large<T>(memory: &[T]) {
    let large = large_page();
    let Some(pages) = wanted(memory.as_ptr().addr(), size_of_val(memory), large) else { return };
    for at in pages.step_by(large) {
        // Not MADV_HUGEPAGE: a kernel thread would then move the pages later, while a thread of ours waits.
        let at = memory.as_ptr().with_addr(at).cast_mut().cast();
        // SAFETY: this changes how memory is mapped and not what it holds, whatever owns it; where nothing is
        // mapped the call fails. A failure leaves small pages, which work as well.
        let _ = unsafe { libc::madvise(at, large, libc::MADV_COLLAPSE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;

    #[test]
    fn large_page_advice_keeps_memory_contents() {
        for count in [10, 100_000, 3 << 20] {
            let memory: Vec<u32> = (0..count).collect();
            want_large(&memory);
            assert!(memory.iter().zip(0..).all(|(found, expected)| *found == expected));
        }
    }

    #[test]
    fn the_page_size_is_the_systems() {
        let computed = [(4 * KIB, 2 * MIB), (16 * KIB, 32 * MIB), (64 * KIB, 512 * MIB)];
        for (page, expected) in computed {
            assert_eq!(large(None, page), expected, "pages of {page}");
        }
        assert!(page_size() >= 4 * KIB && page_size().is_power_of_two());
        for (said, expected) in
            [("33554432\n", 32 * MIB), ("0\n", 2 * MIB), ("nonsense", 2 * MIB), ("3000", 2 * MIB)]
        {
            assert_eq!(large(Some(said), 4 * KIB), expected, "{said:?}");
        }
    }

    /// The kernel shrinks a request to the whole large pages in it: on a machine with large pages of 32 MiB,
    /// nothing would be left of a request for 2 MiB.
    #[test]
    fn requests_are_whole_pages_of_this_machine() {
        for large in [2 * MIB, 32 * MIB] {
            let (start, size) = (5 * large + 4096, 3 * large);
            let pages = wanted(start, size, large).unwrap();
            assert_eq!((pages.start, pages.end), (5 * large, 9 * large));
            assert!(pages.step_by(large).all(|at| at % large == 0));
        }
        assert_eq!(wanted(0, 128 * KIB, 2 * MIB), Some(0..2 * MIB));
        assert_eq!(wanted(0, 128 * KIB - 1, 2 * MIB), None);
        assert_eq!(wanted(0, 15 * MIB, 32 * MIB), None, "17 MiB would be locked for nothing");
        assert_eq!(wanted(0, 16 * MIB, 32 * MIB), Some(0..32 * MIB));
    }
}
