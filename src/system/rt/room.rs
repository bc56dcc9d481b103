//! The memory that this process may still take: what the machine has available, or less if a control group or
//! the process itself has a limit. Code that allocates a lot at once checks first, because the kernel grants
//! any request and kills a process later, when it touches the memory.

use crate::system::bounded_read;
use rustix::process::{Resource, getrlimit};
use std::fmt;
use std::path::Path;

/// Longest file that is read here; `/proc/meminfo` has 2 kB.
const LONGEST: u64 = 1 << 16;
/// Kept free for the rest of the process and of the machine, which also need memory meanwhile.
const SPARE: u64 = 32 << 20;

/// Where `/proc` and `/sys` are.
const ROOT: &str = "/";

/// More memory is needed than is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Bytes needed.
    pub wanted: u64,
    /// Bytes available.
    pub left: u64,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let (wanted, left) = (megabytes(self.wanted), megabytes(self.left));
        write!(f, "{wanted:.0} MB of memory are needed, but only {left:.0} MB are left for this program")
    }
}

/// Bytes that this process may still take; `None` if the system does not report it.
pub fn left() -> Option<u64> {
    left_under(Path::new(ROOT)).into_iter().chain(addresses()).min()
}

/// Address space that the process may still use if it is limited (`ulimit -v`): beyond the limit every
/// request is refused at once, and a refused allocation ends the program.
fn addresses() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let used_kib = field(&text(Path::new("/proc/self/status"))?, "VmSize:")?;
    Some(limit.saturating_sub(used_kib.saturating_mul(1024)).saturating_sub(SPARE))
}

/// Fails if fewer than `wanted` bytes are left. If the system does not report what is left, it succeeds.
pub fn demand(wanted: u64) -> Result<(), NoRoom> {
    let Some(left) = left() else { return Ok(()) };
    if wanted <= left { Ok(()) } else { Err(NoRoom { wanted, left }) }
}

fn left_under(root: &Path) -> Option<u64> {
    let machine = text(&root.join("proc/meminfo")).and_then(|text| {
        let kib: u64 = field(&text, "MemAvailable:")?;
        kib.checked_mul(1024)
    });
    machine.into_iter().chain(group(root)).min().map(|bytes| bytes.saturating_sub(SPARE))
}

/// Bytes left in the tightest of this process's control groups.
fn group(root: &Path) -> Option<u64> {
    let groups = text(&root.join("proc/self/cgroup"))?;
    // Cgroup v2 has one line, `0::/PATH`.
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let top = root.join("sys/fs/cgroup");
    let folders = top.join(path);
    folders.ancestors().take_while(|folder| folder.starts_with(&top)).filter_map(left_in).min()
}

/// Bytes left in one group: its limit minus its usage; inactive file caches count as free.
fn left_in(folder: &Path) -> Option<u64> {
    let number = |file: &str| -> Option<u64> { text(&folder.join(file))?.trim().parse().ok() };
    let (limit, held) = (number("memory.max")?, number("memory.current")?);
    let caches = text(&folder.join("memory.stat")).and_then(|text| field(&text, "inactive_file"));
    Some(limit.saturating_sub(held.saturating_sub(caches.unwrap_or(0))))
}

/// The number after `name` on the line that begins with it.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten()
    })
}

pub(super) fn text(path: &Path) -> Option<String> {
    bounded_read::text(path, LONGEST).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A machine with these files.
    struct Machine(PathBuf);

    impl Machine {
        fn with(name: &str, files: &[(&str, &str)]) -> Machine {
            let root = std::env::temp_dir().join(format!("ganglion-room-{name}-{}", std::process::id()));
            for (file, text) in files {
                let path = root.join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Machine(root)
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:        1000000 kB\nMemFree:  9 kB\nMemAvailable:     500000 kB\n");

    #[test]
    fn the_limit_is_the_machines_available_memory() {
        let machine = Machine::with("machine", &[MEMINFO]);
        assert_eq!(left_under(&machine.0), Some(500_000 * 1024 - SPARE));
        assert_eq!(left_under(Path::new("/nowhere")), None);
    }

    #[test]
    fn the_limit_is_what_the_tightest_cgroup_leaves() {
        let mut files = vec![
            MEMINFO,
            ("proc/self/cgroup", "0::/system.slice/ganglion.service\n"),
            ("sys/fs/cgroup/system.slice/ganglion.service/memory.max", "200000000\n"),
            ("sys/fs/cgroup/system.slice/ganglion.service/memory.current", "80000000\n"),
            ("sys/fs/cgroup/system.slice/ganglion.service/memory.stat", "anon 1\ninactive_file 30000000\n"),
        ];
        assert_eq!(left_under(&Machine::with("group", &files).0), Some(150_000_000 - SPARE));
        files.push(("sys/fs/cgroup/system.slice/memory.max", "100000000\n"));
        files.push(("sys/fs/cgroup/system.slice/memory.current", "90000000\n"));
        assert_eq!(left_under(&Machine::with("slice", &files).0), Some(0), "never below zero");
        files[2].1 = "max\n";
        assert_eq!(left_under(&Machine::with("max", &files[..5]).0), Some(500_000 * 1024 - SPARE));
    }

    #[test]
    fn this_machine_reports_its_memory_and_refuses_too_much() {
        let refusal = demand(u64::MAX).unwrap_err();
        assert!(refusal.to_string().contains("MB are left for this program"), "{refusal}");
        assert_eq!(demand(1), Ok(()));
    }
}
