//! A marker file beside machine code while the driver loads it. Code that crashes the driver would end the
//! process at every start; a marker that no process holds any more shows that it did.

use crate::rt::flock::{Flock, LockError};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Only its owner has to see it.
const MODE: u32 = 0o600;

/// The state before a load.
pub(super) enum Begun {
    /// It may be loaded; the mark lies there until it is dropped.
    Marked(#[allow(dead_code, reason = "held, not asked")] Mark),
    /// A process ended in the middle of it.
    Broke,
}

/// A mark that this process holds; nothing, where another one holds it or none can be left.
pub(super) struct Mark(Option<(PathBuf, Flock)>);

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some((path, _held)) = &self.0 {
            clear(path);
        }
    }
}

/// Leaves a mark at `path`.
pub(super) fn begin(path: &Path) -> Begun {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let created = open(path, flags | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(MODE));
    match created {
        Ok(file) => Begun::Marked(Mark(Flock::take(file).ok().map(|held| (path.to_path_buf(), held)))),
        Err(Errno::EXIST) => match open(path, flags | OFlags::RDONLY, Mode::empty()) {
            Ok(file) => match Flock::take(file) {
                // Another thread or process loads the same just now.
                Err(LockError::Held(_)) => Begun::Marked(Mark(None)),
                Ok(_) | Err(LockError::System(_)) => Begun::Broke,
            },
            // It was removed in between: the process that loaded it is alive.
            Err(Errno::NOENT) => Begun::Marked(Mark(None)),
            Err(_) => Begun::Broke,
        },
        // A folder that cannot be written holds no marks, and nothing that we have put there.
        Err(_) => Begun::Marked(Mark(None)),
    }
}

/// Removes a mark, whichever process left it.
pub(super) fn clear(path: &Path) {
    let _ = std::fs::remove_file(path); // if it cannot be, the next start is as this one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_no_process_holds_says_that_one_ended_there() {
        let path = std::env::temp_dir().join(format!("ganglion-mark-{}.loading", std::process::id()));
        clear(&path);
        let Begun::Marked(mark) = begin(&path) else { panic!("no process was here") };
        assert!(path.exists());
        assert!(matches!(begin(&path), Begun::Marked(Mark(None))), "a process is here just now");
        drop(mark);
        assert!(!path.exists());
        // As a process leaves it that ends in the middle.
        std::fs::write(&path, "").unwrap();
        assert!(matches!(begin(&path), Begun::Broke));
        assert!(path.exists(), "it stays until what it warns of is dealt with");
        clear(&path);
        assert!(matches!(begin(&path), Begun::Marked(Mark(Some(_)))));
        let nowhere = Path::new("/proc/no/such/folder.loading");
        assert!(matches!(begin(nowhere), Begun::Marked(Mark(None))));
    }
}
