//! Where recordings are stored: one named file, or a folder of numbered files whose oldest are deleted.
//! Numbers continue from run to run; the wall clock is not used, because a robot's may be wrong.

use crate::base::time::Span;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What a recording is written to.
pub trait Medium: Write + Send {
    /// Returns once everything written is safe from a power failure.
    fn sync(&mut self) -> io::Result<()>;
}

impl Medium for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Opens a new file to write.
pub type Opener = Box<dyn FnMut(&Path) -> io::Result<Box<dyn Medium>> + Send>;

/// Opens files in the file system: only new ones, and without following links.
pub fn disk() -> Opener {
    Box::new(|path| {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o640);
        options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
        Ok(Box::new(options.open(path)?))
    })
}

/// Where recordings go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingTarget {
    /// In this file.
    File(PathBuf),
    /// In numbered files in this folder.
    Folder(PathBuf),
}

/// Limits for a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Size of a file, bytes, at which a new one is started.
    pub file: u64,
    /// Age of a file at which a new one is started.
    pub age: Span,
    /// Maximum size of all recordings in the folder together, bytes; the newest two files always remain.
    pub total: u64,
}

impl Default for Quota {
    /// An hour's drive at 100 Hz takes about 250 MB; a gigabyte is a fraction of the smallest card in use.
    fn default() -> Quota {
        Quota { file: 64_000_000, age: Span::from_millis(3_600_000), total: 1_024_000_000 }
    }
}

/// The file name extension.
const ENDING: &str = ".mcap";

impl RecordingTarget {
    /// The target that `path` names: a folder if it is one, or if it ends in '/' or does not end in `.mcap`.
    pub fn of(path: &Path) -> RecordingTarget {
        let text = path.to_string_lossy();
        let is_file = text.ends_with(ENDING) && !path.is_dir();
        if is_file { RecordingTarget::File(path.into()) } else { RecordingTarget::Folder(path.into()) }
    }

    /// The path of the next file.
    pub fn next(&self, board: &str, part: u64) -> io::Result<PathBuf> {
        match self {
            RecordingTarget::File(path) if part == 0 => Ok(path.clone()),
            // After a failure, the rest of the run is written to files beside the named one.
            RecordingTarget::File(path) => Ok(path.with_extension(format!("{part}.mcap"))),
            RecordingTarget::Folder(folder) => {
                let last = numbered(folder)?.last().map_or(0, |(number, _)| *number);
                let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
                let board: String = board.chars().take(40).map(safe).collect();
                Ok(folder.join(format!("{:06}-{board}{ENDING}", last + 1)))
            }
        }
    }

    /// Deletes the oldest recordings until the remaining ones fit into `total`; the newest two stay. Returns
    /// how many were deleted.
    pub fn tidy(&self, total: u64) -> io::Result<u64> {
        let RecordingTarget::Folder(folder) = self else { return Ok(0) };
        let files = numbered(folder)?;
        let size = |path: &Path| path.symlink_metadata().map_or(0, |data| data.len());
        let mut kept: u64 = files.iter().map(|(_, path)| size(path)).sum();
        let mut removed = 0;
        for (_, path) in files.iter().take(files.len().saturating_sub(2)) {
            if kept <= total {
                break;
            }
            kept -= size(path);
            std::fs::remove_file(path)?;
            removed += 1;
        }
        Ok(removed)
    }
}

/// The recordings in a folder with their numbers, oldest first. Ignores other files.
pub fn numbered(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(ENDING));
        let number = name.and_then(|name| name.split_once('-')).and_then(|(number, _)| number.parse().ok());
        found.extend(number.map(|number| (number, path)));
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ganglion-store-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn numbering_continues_and_the_oldest_files_go_first() {
        let folder = folder("numbers");
        let place = RecordingTarget::of(&folder);
        let mut open = disk();
        for number in 1..=5 {
            let path = place.next("a b/c", 0).unwrap();
            assert_eq!(path, folder.join(format!("{number:06}-a_b_c.mcap")));
            open(&path).unwrap().write_all(&[0; 100]).unwrap();
        }
        open(&folder.join("notes.mcap")).unwrap().write_all(&[0; 1_000]).unwrap();
        assert_eq!(place.tidy(350).unwrap(), 2);
        let left: Vec<u64> = numbered(&folder).unwrap().into_iter().map(|(number, _)| number).collect();
        assert_eq!(left, [3, 4, 5], "other files stay and do not count");
        assert_eq!(place.tidy(0).unwrap(), 1, "two stay");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn recordings_are_never_overwritten() {
        let folder = folder("names");
        let path = folder.join("run.mcap");
        assert_eq!(RecordingTarget::of(&path), RecordingTarget::File(path.clone()));
        assert_eq!(RecordingTarget::of(&folder.join("run")), RecordingTarget::Folder(folder.join("run")));
        disk()(&path).unwrap();
        assert_eq!(disk()(&path).err().map(|error| error.kind()), Some(io::ErrorKind::AlreadyExists));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
