//! Large pages for large memory. A field with its library and bank lies on tens of thousands of 4 KiB pages,
//! more than a processor's TLB holds; each miss costs a virtual machine a dozen reads. With 2 MiB pages it is
//! a few dozen pages. Requested where the kernel offers them, and never required.

#![allow(unsafe_code)] // madvise of libc: rustix does not know MADV_COLLAPSE

/// The size of a large page on x86-64 and, with small pages of 4 KiB, on 64-bit ARM.
const LARGE: usize = 2 << 20;

/// Requests large pages now under `memory`, and under its neighbours on the same pages. Every byte must have
/// been written before. Takes milliseconds per megabyte; not for a steady period. `/proc/self/smaps_rollup`
/// shows whether the kernel did it.
pub fn want_large<T>(memory: &[T]) {
    let size = size_of_val(memory);
    if size < LARGE / 16 {
        return; // it would lie on small pages for the most part of a large one that others use
    }
    let start = memory.as_ptr().addr() / LARGE * LARGE;
    let end = (memory.as_ptr().addr() + size).next_multiple_of(LARGE);
    for at in (start..end).step_by(LARGE) {
        // Not MADV_HUGEPAGE: with it a kernel thread moves pages later, while a thread waits for them.
        let at = memory.as_ptr().with_addr(at).cast_mut().cast();
        // SAFETY: this changes how memory is mapped and not what it holds, whoever it belongs to; where
        // nothing is mapped the call fails. A failure leaves small pages, which do as well.
        let _ = unsafe { libc::madvise(at, LARGE, libc::MADV_COLLAPSE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_memory_holds_stays() {
        for count in [10, 100_000, 3 << 20] {
            let memory: Vec<u32> = (0..count).collect();
            want_large(&memory);
            assert!(memory.iter().zip(0..).all(|(found, expected)| *found == expected));
        }
    }
}
