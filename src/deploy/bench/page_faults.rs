//! Page faults of this process as the kernel counts them. A cycle that touches memory for the first time
//! waits while the kernel maps that memory.

use std::fs::File;
use std::io::Read;

/// Minor page faults of all threads so far; `None` if the kernel does not report them. Does not allocate.
pub fn page_faults() -> Option<u64> {
    let mut text = [0u8; 1024]; // the line has some 52 numbers
    let length = File::open("/proc/self/stat").and_then(|mut file| file.read(&mut text)).ok()?;
    minor_faults(&String::from_utf8_lossy(&text[..length]))
}

/// `minflt`, the tenth field of `/proc/PID/stat` (proc(5)). The second field is the program's name in
/// parentheses, which may contain blanks and parentheses itself, so fields are counted after it.
fn minor_faults(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(10 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::rt::pages::large_page;

    #[test]
    fn the_tenth_field_of_proc_stat_is_found_after_any_name() {
        let behind = "S 1 2 3 4 5 4194304 678 9 10 11 12 13";
        assert_eq!(minor_faults(&format!("42 (ganglion) {behind}")), Some(678));
        assert_eq!(minor_faults(&format!("42 (a b) c) {behind}")), Some(678));
        assert_eq!(minor_faults("42 (cut) S 1 2"), None);
        assert_eq!(minor_faults(""), None);
    }

    #[test]
    fn touching_new_memory_counts_page_faults() {
        let before = page_faults().expect("Linux counts them");
        let mut pages = vec![0u8; 64 << 20]; // far more than an allocator keeps
        pages.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(&mut pages);
        // With huge pages there are fewer than 16,384 faults: 32 at 2 MiB, or 2 at a Raspberry Pi 5's 32 MiB.
        let fewest = (pages.len() / large_page()) as u64;
        assert!(page_faults().expect("Linux counts them") >= before + fewest.max(1));
    }
}
