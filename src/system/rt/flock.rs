//! Kernel locks on open files (flock(2)): one process has the lock, and the kernel releases it when that
//! process ends, however it dies, so a lock cannot go stale. Takes locks and finds their holders; the caller
//! decides what a lock means.

use rustix::fs::{FlockOperation, flock, fstat, major, minor};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A lock that this process holds until this value is dropped.
#[derive(Debug)]
pub struct Flock {
    file: OwnedFd,
}

impl Drop for Flock {
    /// Unlocks the file instead of only closing it: a child that another thread has just forked shares the
    /// open file until it calls exec, and would keep the lock until then.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// The holder of a lock, as far as it is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// PID of the process; `None`: not visible from here (another namespace).
    pub pid: Option<u32>,
}

/// Why a lock is not available.
#[derive(Debug)]
pub enum LockError {
    /// Another open file has the lock.
    Held(Holder),
    /// The system's reason.
    System(io::Error),
}

impl Flock {
    /// Takes the lock on `file`, or returns its holder at once.
    pub fn take(file: OwnedFd) -> Result<Flock, LockError> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Flock { file }),
            Err(Errno::WOULDBLOCK) => Err(LockError::Held(Holder { pid: holder_of(&file) })),
            Err(error) => Err(LockError::System(error.into())),
        }
    }

    /// The holder of the lock on `file`; `None`: the lock is free. Takes a shared lock for a moment, during
    /// which a [`Flock::take`] finds the lock held.
    pub fn ask(file: OwnedFd) -> io::Result<Option<Holder>> {
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(None),
            Err(Errno::WOULDBLOCK) => Ok(Some(Holder { pid: holder_of(&file) })),
            Err(error) => Err(error.into()),
        }
    }
}

/// Maximum number of times that the kernel's list is read if the holder is not in it. The kernel hands the
/// list out in pieces, so a lock that another process drops meanwhile can move the holder's line from a later
/// piece into an earlier one, which has already been read.
const LOOKS: usize = 4;

/// The process that has the exclusive lock on `file`, according to the kernel's list.
fn holder_of(file: impl AsFd) -> Option<u32> {
    let about = fstat(file).ok()?;
    let place = format!("{:02x}:{:02x}:{}", major(about.st_dev), minor(about.st_dev), about.st_ino);
    look_for(&place, || std::fs::read_to_string("/proc/locks").ok())
}

fn look_for(place: &str, mut list: impl FnMut() -> Option<String>) -> Option<u32> {
    (0..LOOKS).find_map(|_| holder_in(&list()?, place))
}

/// Like [`holder_of`], from the text of the list: `1: FLOCK  ADVISORY  WRITE 4711 00:16:1234 0 EOF`.
fn holder_in(locks: &str, place: &str) -> Option<u32> {
    let lines = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.into_iter().find_map(|words| match words[..] {
        // Waiting processes have an arrow in the second column. Processes of other namespaces have a PID of 0
        // or less.
        [_, "FLOCK", _, "WRITE", pid, at, ..] if at == place => pid.parse().ok().filter(|pid| *pid > 0),
        _ => None,
    })
}

impl Holder {
    /// This process itself: another part of it has the lock.
    #[cfg(test)]
    pub fn is_this_process(&self) -> bool {
        self.pid == Some(std::process::id())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pid) = self.pid else { return f.write_str("another process") };
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        match name.trim() {
            "" => write!(f, "process {pid}"),
            name => write!(f, "{name} ({pid})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_lock_ends_on_drop_even_if_a_child_has_the_file() {
        let path = std::env::temp_dir().join(format!("ganglion-flock-child-{}", std::process::id()));
        let open = || OwnedFd::from(File::create(&path).unwrap());
        let file = open();
        let of_a_child = file.try_clone().unwrap();
        let lock = Flock::take(file).unwrap();
        assert!(matches!(Flock::take(open()), Err(LockError::Held(_))));
        drop(lock);
        assert!(Flock::take(open()).is_ok());
        drop(of_a_child);
        let _ = std::fs::remove_file(path);
    }

    #[test]
    fn a_second_locker_learns_the_holder() {
        let path = std::env::temp_dir().join(format!("ganglion-flock-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let open = || OwnedFd::from(File::open(&path).unwrap());
        assert_eq!(Flock::ask(open()).unwrap(), None);
        let first = Flock::take(open()).unwrap();
        let Err(LockError::Held(holder)) = Flock::take(open()) else { panic!("two hold the lock") };
        assert_eq!(Flock::ask(open()).unwrap(), Some(holder));
        assert!(holder.is_this_process(), "{holder}");
        drop(first);
        assert_eq!(Flock::ask(open()).unwrap(), None);
        Flock::take(open()).unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_missed_lock_entry_is_found_by_a_bounded_retry() {
        let mut lists = ["", "", "1: FLOCK  ADVISORY  WRITE 4711 00:16:12 0 EOF\n"].into_iter();
        assert_eq!(look_for("00:16:12", || lists.next().map(String::from)), Some(4711));
        let mut looks = 0;
        let empty = || {
            looks += 1;
            Some(String::new())
        };
        assert_eq!((look_for("00:16:12", empty), looks), (None, LOOKS));
    }

    #[test]
    fn the_kernels_lock_list_is_parsed_by_file_and_type() {
        let locks = "1: FLOCK  ADVISORY  WRITE 4711 00:16:12 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 4712 00:16:12 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 4713 00:16:13 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 4714 00:16:14 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 00:16:15 0 EOF\n";
        assert_eq!(holder_in(locks, "00:16:12"), Some(4711));
        for place in ["00:16:13", "00:16:14", "00:16:15", "00:17:12"] {
            assert_eq!(holder_in(locks, place), None, "{place}");
        }
    }
}
