//! Large pages for large memory. A field with its library and bank lies on tens of thousands of pages of
//! 4 KiB, more than a processor remembers the places of; looking one up again costs a virtual machine a
//! dozen reads. On pages of 2 MiB it is a few dozen. Asked for where the kernel offers it, and never needed.

#![allow(unsafe_code)] // madvise of libc: rustix does not know MADV_COLLAPSE

/// The size of a large page on x86-64 and, with small pages of 4 KiB, on 64-bit ARM.
const LARGE: usize = 2 << 20;

/// Asks for large pages under `memory`, and for whatever lies beside it on the same ones, now. Every byte has been
/// written before. Takes milliseconds a megabyte; not for a steady period. Whether the kernel did it can be seen in
/// `/proc/self/smaps_rollup`.
pub fn want_large<T>(memory: &[T]) {
    let size = size_of_val(memory);
    if size < LARGE / 16 {
        return; // it would lie on small pages for the most part of a large one that others use
    }
    let start = memory.as_ptr().addr() / LARGE * LARGE;
    let end = (memory.as_ptr().addr() + size).next_multiple_of(LARGE);
    for at in (start..end).step_by(LARGE) {
        // Not MADV_HUGEPAGE: that has a thread of the kernel move pages about later, while somebody waits for them.
        let at = memory.as_ptr().with_addr(at).cast_mut().cast();
        // SAFETY: this changes how memory is mapped and not what it holds, whoever it belongs to; where nothing is
        // mapped the call fails. A failure leaves small pages, which do as well.
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
