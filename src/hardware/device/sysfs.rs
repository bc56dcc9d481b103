//! A number in a file of sysfs. The file stays open and is read again from its beginning, into a buffer on
//! the stack. `hwmon.rs`, `thermal.rs` and `gpu_sysfs.rs` decide which file it is and what the number means.

use super::DeviceFault;
use crate::base::fault::BusFault;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Longer than any number: a sign, 19 digits, a newline.
const BUFFER: usize = 32;

/// An open file with a number in it.
#[derive(Debug)]
pub struct Number {
    file: File,
}

impl Number {
    /// Opens the file at `path`.
    pub fn open(path: &Path) -> Result<Number, DeviceFault> {
        File::open(path).map(|file| Number { file }).map_err(|error| fault(&error))
    }

    /// Its current content. Anything other than one whole number is a fault.
    pub fn read(&self) -> Result<i64, DeviceFault> {
        let mut buffer = [0; BUFFER];
        let length = self.file.read_at(&mut buffer, 0).map_err(|error| fault(&error))?;
        let text = std::str::from_utf8(&buffer[..length]).ok();
        text.and_then(|text| text.trim_ascii().parse().ok())
            .ok_or(DeviceFault::Kernel { fault: BusFault::Io })
    }
}

/// Maps the error to a bus fault: to read such a file, the kernel often has to use a bus.
fn fault(error: &Error) -> DeviceFault {
    let fault = match error.kind() {
        ErrorKind::NotFound => BusFault::Absent,
        ErrorKind::TimedOut => BusFault::TimedOut,
        ErrorKind::PermissionDenied | ErrorKind::Unsupported => BusFault::Unsupported,
        _ => match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => BusFault::Absent,
            Some(libc::EREMOTEIO) => BusFault::Nack,
            _ => BusFault::Io,
        },
    };
    DeviceFault::Kernel { fault }
}

/// The fault if no such file exists.
pub const ABSENT: DeviceFault = DeviceFault::Kernel { fault: BusFault::Absent };

/// The entries of `folder`, by name; empty if it cannot be read.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Whether the file at `path` consists of `word`, ignoring white space at both ends.
pub fn says(path: &Path, word: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.trim() == word)
}

#[cfg(test)]
pub mod tree {
    //! A small tree of files, for tests.

    use rustix::fs::Access;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Where trees are if the system has it: in memory, where syncing a file takes no time. Setup syncs each
    /// file and folder.
    const IN_MEMORY: &str = "/dev/shm";

    /// A folder that is removed when dropped.
    pub struct Tree(PathBuf);

    impl Tree {
        /// Creates files from paths and contents.
        pub fn of(files: &[(&str, &str)]) -> Tree {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let nth = NEXT.fetch_add(1, Ordering::Relaxed);
            let writable = rustix::fs::access(IN_MEMORY, Access::WRITE_OK | Access::EXEC_OK);
            let place = writable.map_or_else(|_| std::env::temp_dir(), |()| PathBuf::from(IN_MEMORY));
            let tree = Tree(place.join(format!("ganglion-sysfs-{}-{nth}", std::process::id())));
            files.iter().for_each(|(path, content)| tree.put(path, content));
            tree
        }
        /// Writes another file, or new content.
        pub fn put(&self, path: &str, content: &str) {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        pub fn root(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tree::Tree;
    use super::*;

    #[test]
    fn a_number_is_read_again_each_time() {
        let tree = Tree::of(&[("in1_input", "5012\n")]);
        let number = Number::open(&tree.root().join("in1_input")).unwrap();
        assert_eq!((number.read(), number.read()), (Ok(5012), Ok(5012)));
        tree.put("in1_input", "-7\n");
        assert_eq!(number.read(), Ok(-7));
        for nonsense in ["", "x", "12 13", "1.5"] {
            tree.put("in1_input", nonsense);
            assert_eq!(number.read(), Err(DeviceFault::Kernel { fault: BusFault::Io }), "{nonsense:?}");
        }
        assert_eq!(Number::open(&tree.root().join("in2_input")).map(|_| ()), Err(ABSENT));
    }

    #[test]
    fn errors_keep_their_meaning() {
        let said = |errno| fault(&Error::from_raw_os_error(errno));
        let kernel = |fault| DeviceFault::Kernel { fault };
        assert_eq!(said(libc::EREMOTEIO), kernel(BusFault::Nack));
        assert_eq!(said(libc::ETIMEDOUT), kernel(BusFault::TimedOut));
        assert_eq!(said(libc::ENODEV), kernel(BusFault::Absent));
        assert_eq!(said(libc::EIO), kernel(BusFault::Io));
        assert_eq!(said(libc::EACCES), kernel(BusFault::Unsupported));
    }
}
