//! What this process occupies, as the kernel counts it: memory, threads, open files. A long run must not need
//! more of them from hour to hour.

use super::room::{field, text};
use crate::base::time::{Instant, Span};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// How long a reading is used: usage changes slowly, and reading it takes several system calls.
const READ_EVERY: Span = Span::from_millis(1_000);

/// What this process occupies, read at most once a second however many threads ask. They are not real-time
/// threads: the meter reads `/proc` and has a lock.
#[derive(Debug, Default)]
pub struct UsageMeter {
    /// The newest reading and its time.
    newest: Mutex<Option<(Instant, ProcessUsage)>>,
}

impl UsageMeter {
    /// The usage at `now`, at most a second old. A caller that is late gets the newest reading. All callers
    /// use the same clock.
    pub fn at(&self, now: Instant) -> ProcessUsage {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        match *newest {
            Some((read, usage)) if now < read + READ_EVERY => usage,
            _ => newest.insert((now, ProcessUsage::now())).1,
        }
    }
}

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
    /// What this process occupies now.
    fn now() -> ProcessUsage {
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
    fn a_meter_sees_what_the_process_holds_after_a_second() {
        let meter = UsageMeter::default();
        let at = |ms| meter.at(Instant::ZERO + Span::from_millis(ms));
        let before = at(5_000);
        let held: Vec<File> = (0..200).map(|_| File::open("/dev/null").unwrap()).collect();
        // Each page is written, so it is in RAM.
        let memory = vec![1u8; 64 << 20];
        assert_eq!([at(5_000), at(5_999), at(4_000)], [before; 3], "it reads once for all that ask");
        let with = at(6_000);
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
