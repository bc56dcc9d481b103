//! What this process occupies, as the kernel counts it: memory, threads, open files. A long run must not need
//! more of them from hour to hour.

use super::room::{field, text};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a process occupies. A value that the system does not report is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// Memory that is in RAM, KiB.
    pub resident_kib: Option<u64>,
    /// Memory that is locked in RAM, KiB.
    pub locked_kib: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Open file descriptors.
    pub open_files: Option<u64>,
}

impl ProcessUsage {
    /// What this process occupies now. It reads `/proc`, so no real-time thread may call it.
    pub fn now() -> ProcessUsage {
        ProcessUsage::under(Path::new("/proc/self"))
    }

    fn under(folder: &Path) -> ProcessUsage {
        let status = text(&folder.join("status")).unwrap_or_default();
        let files = std::fs::read_dir(folder.join("fd")).map(Iterator::count);
        ProcessUsage {
            resident_kib: field(&status, "VmRSS:"),
            locked_kib: field(&status, "VmLck:"),
            threads: field(&status, "Threads:"),
            // Reading the folder opens a descriptor too.
            open_files: files.ok().map(|files| files.saturating_sub(1) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_process_sees_its_own_memory_and_files() {
        let before = ProcessUsage::now();
        let held: Vec<File> = (0..200).map(|_| File::open("/dev/null").unwrap()).collect();
        // Each page is written, so it is in RAM.
        let memory = vec![1u8; 64 << 20];
        let with = ProcessUsage::now();
        // Other tests of this process open and close some files and allocate and free some memory meanwhile.
        assert!(with.open_files > before.open_files.map(|files| files + 100), "{before:?} {with:?}");
        assert!(with.resident_kib > Some(64 << 10), "{before:?} {with:?}");
        assert!(with.threads >= Some(1) && with.locked_kib.is_some(), "{with:?}");
        drop((held, memory));
    }

    #[test]
    fn what_the_system_does_not_report_is_absent() {
        assert_eq!(ProcessUsage::under(Path::new("/nonexistent")), ProcessUsage::default());
    }
}
