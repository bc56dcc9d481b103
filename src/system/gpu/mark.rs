//! A marker file that exists while the driver loads a fatbin. Machine code that crashes the driver would end
//! the process at every start; a marker that no process holds any more shows that this happened.

use crate::system::rt::flock::{Flock, LockError};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Only its owner needs access.
const MODE: u32 = 0o600;

/// A marker file that this process holds until the value is dropped; contains `None` if another thread or
/// process holds the marker, or if it cannot be created.
pub(super) struct MarkFile(Option<(PathBuf, Flock)>);

impl Drop for MarkFile {
    fn drop(&mut self) {
        if let Some((path, _held)) = &self.0 {
            let _ = std::fs::remove_file(path); // if that fails, the next start skips the fatbin
        }
    }
}

impl MarkFile {
    /// Creates a marker at `path`. `None`: one is there that no process holds, so a process ended while it
    /// loaded the file. The result is also `None` if an existing marker cannot be opened or locked.
    pub(super) fn leave(path: &Path) -> Option<MarkFile> {
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let new = flags | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        match open(path, new, Mode::from_raw_mode(MODE)) {
            Ok(file) => Some(MarkFile(Flock::take(file).ok().map(|held| (path.to_path_buf(), held)))),
            Err(Errno::EXIST) => match open(path, flags | OFlags::RDONLY, Mode::empty()) {
                // Another thread or process is loading the same file now.
                Ok(file) => matches!(Flock::take(file), Err(LockError::Held(_))).then_some(MarkFile(None)),
                // The marker was removed in between: the process that loaded the file has survived.
                Err(Errno::NOENT) => Some(MarkFile(None)),
                Err(_) => None,
            },
            // In a folder that cannot be written, no markers are kept.
            Err(_) => Some(MarkFile(None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_mark_shows_that_a_process_died() {
        let path = std::env::temp_dir().join(format!("ganglion-mark-{}.loading", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mark = MarkFile::leave(&path).expect("no process left a marker here");
        assert!(path.exists());
        assert!(matches!(MarkFile::leave(&path), Some(MarkFile(None))), "a process holds it now");
        drop(mark);
        assert!(!path.exists());
        // As left by a process that ended while it loaded the file.
        std::fs::write(&path, "").unwrap();
        assert!(MarkFile::leave(&path).is_none());
        assert!(path.exists(), "it stays until a person removes it");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(MarkFile::leave(&path), Some(MarkFile(Some(_)))));
        let nowhere = Path::new("/proc/no/such/folder.loading");
        assert!(matches!(MarkFile::leave(nowhere), Some(MarkFile(None))));
    }
}
