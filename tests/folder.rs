//! A folder for the files of one test.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new, empty folder. Dropping it removes it with all its files.
pub struct Folder(PathBuf);

impl Folder {
    /// A folder in the temporary folder. No two are the same; `test` in its name tells a person whose it is.
    pub fn new(test: &str) -> Folder {
        Folder::inside(std::env::temp_dir(), test)
    }

    /// A folder in `place`. A test with large files chooses the build folder: the temporary folder may be in
    /// memory.
    pub fn inside(place: impl AsRef<Path>, test: &str) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = place.as_ref().join(format!("ganglion-{test}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path); // left by a process that was killed and had the same id
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Folder(path)
    }

    /// The path of a file in it, as text for a command line.
    pub fn path(&self, name: &str) -> String {
        self.join(name).to_str().expect("a path in UTF-8").to_string()
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.join(name), content).expect("a file is written");
        self.path(name)
    }

    /// The names of what is in it, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self).expect("the folder exists").map(|entry| entry.expect("an entry"));
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Deref for Folder {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
