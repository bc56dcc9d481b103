//! Files below a root: `/`, or a folder in a test. Reads the current state as a value that can be restored,
//! and writes files atomically and durably, never through a symbolic link.

use crate::system::bounded_read;
use crate::system::codec;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

/// Largest file whose content is stored, in bytes: the longest known config.txt has a few kilobytes.
const LONGEST_FILE: u64 = 1 << 20;
/// Mode of new folders, less the umask: every user may read them.
const FOLDER_MODE: u32 = 0o755;

/// The state of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The path does not exist; for a membership: not a member.
    Absent,
    /// A file with this content.
    File(String),
    /// A symbolic link with this target.
    Link(String),
    /// Member of the group.
    Member,
}

/// The state of `path` below `root`. Anything but a text file or a link is an error.
pub fn state(root: &Path, path: &Path) -> io::Result<State> {
    let full = root.join(path);
    let found = match std::fs::symlink_metadata(&full) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(State::Absent),
        Err(error) => return Err(error),
    };
    if found.is_symlink() {
        let to = std::fs::read_link(&full)?.into_os_string().into_string();
        return to.map(State::Link).map_err(|_| odd("a link to a name that is not UTF-8"));
    }
    if !found.is_file() {
        return Err(odd("neither a file nor a link"));
    }
    bounded_read::text(&full, LONGEST_FILE).map(State::File)
}

/// Brings `path` below `root` into the state `wanted`, and creates its folders.
pub fn put(root: &Path, path: &Path, wanted: &State) -> io::Result<()> {
    let full = root.join(path);
    match wanted {
        State::File(content) => {
            make_folders(root, path)?;
            codec::replace(&full, content.as_bytes())
        }
        State::Link(to) => {
            make_folders(root, path)?;
            codec::replace_with_link(&full, Path::new(to))
        }
        State::Absent => match full.parent().is_some_and(Path::is_dir) {
            true => codec::remove(&full),
            false => Ok(()),
        },
        State::Member => Err(odd("a membership is not a file")),
    }
}

/// The first symbolic link on the way to `path` below `root`, including `path` itself.
pub fn link_on_the_way(root: &Path, path: &Path) -> Option<PathBuf> {
    let is_link = |part: &PathBuf| root.join(part).is_symlink();
    folders(path).into_iter().chain([path.to_path_buf()]).find(is_link)
}

/// The folders of `path` that do not exist, outermost first.
pub fn missing_folders(root: &Path, path: &Path) -> Vec<PathBuf> {
    folders(path).into_iter().filter(|folder| !root.join(folder).exists()).collect()
}

/// Creates the folders of `path`; each is synced to disk before the next.
fn make_folders(root: &Path, path: &Path) -> io::Result<()> {
    if let Some(link) = folders(path).into_iter().find(|folder| root.join(folder).is_symlink()) {
        return Err(odd(&format!("/{} is a link, and setup does not write through links", link.display())));
    }
    for folder in missing_folders(root, path) {
        let folder = root.join(folder);
        std::fs::DirBuilder::new().mode(FOLDER_MODE).create(&folder)?;
        codec::sync(folder.parent().unwrap_or(root))?;
    }
    Ok(())
}

/// Removes a folder if it exists and is empty, and syncs that to disk.
pub fn remove_if_empty(root: &Path, folder: &Path) {
    let folder = root.join(folder);
    if std::fs::remove_dir(&folder).is_ok() {
        let _ = codec::sync(folder.parent().unwrap_or(root));
    }
}

/// The folders of a relative path, outermost first.
fn folders(path: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_path_buf).collect();
    folders.retain(|folder| matches!(folder.components().next(), Some(Component::Normal(_))));
    folders.reverse();
    folders
}

fn odd(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// The trimmed text of a file below `root`; `None` if it cannot be read. All reads of `/proc` and `/sys` use
/// this, so that tests can simulate a machine.
pub fn text(root: &Path, path: &str) -> Option<String> {
    let text = std::fs::read_to_string(root.join(path)).ok()?;
    Some(text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_string())
}

/// Sorted names in a folder below `root`; empty if the folder does not exist.
pub fn names(root: &Path, path: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join(path)) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
