//! The journal of a setup. The earlier state of everything that setup changes is on disk before the change,
//! so an interrupted setup can be finished, and everything can be undone.

use super::action::SetupAction;
use super::files::{self, State, missing_folders};
use crate::system::bounded_read;
use crate::system::codec;
use crate::system::rt::flock::{Flock, Holder, LockError};
use rustix::fs::{Mode, OFlags, open};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The journal's folder, accessible to root only: it has copies of files that not every user may read.
pub const FOLDER: &str = "var/lib/ganglion-setup";
/// The journal's file.
pub const FILE: &str = "var/lib/ganglion-setup/changes.json";
/// Version of the file's format.
const SCHEMA: u32 = 1;
/// Largest journal, in bytes. A setup makes about twenty entries; the longest has two copies of a config.txt.
const LONGEST: u64 = 16 << 20;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The action.
    #[serde(rename = "deed")]
    pub action: SetupAction,
    /// The earlier state.
    pub before: State,
    /// Folders that did not exist, outermost first.
    pub folders: Vec<PathBuf>,
    /// The boot in which the action was done; empty if unknown.
    pub boot: String,
}

/// All changes that can be undone, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    schema: u32,
    /// The entries, oldest first.
    pub changes: Vec<Entry>,
}

/// Why the journal cannot be used.
#[derive(Debug)]
pub enum JournalError {
    /// One of its files or folders could not be read or written.
    File(PathBuf, io::Error),
    /// Its content is invalid.
    Content(PathBuf, String),
    /// Another setup is running.
    Busy(Holder),
}

impl Journal {
    /// Reads the journal below `root`; empty if there is none.
    pub fn load(root: &Path) -> Result<Journal, JournalError> {
        let at = Path::new("/").join(FILE);
        let text = match bounded_read::text(&root.join(FILE), LONGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Journal::empty()),
            Err(error) => return Err(JournalError::File(at, error)),
        };
        match serde_json::from_str::<Journal>(&text) {
            Ok(journal) if journal.schema == SCHEMA => Ok(journal),
            Ok(journal) => Err(JournalError::Content(at, format!("schema {}, not {SCHEMA}", journal.schema))),
            Err(error) => Err(JournalError::Content(at, error.to_string())),
        }
    }

    fn empty() -> Journal {
        Journal { schema: SCHEMA, changes: Vec::new() }
    }

    /// Writes the journal to disk. An empty journal is removed, with its folder.
    pub fn keep(&self, root: &Path) -> Result<(), JournalError> {
        let at = root.join(FILE);
        let kept = if self.changes.is_empty() {
            let removed = codec::remove(&at);
            files::remove_if_empty(root, Path::new(FOLDER));
            removed
        } else {
            serde_json::to_vec_pretty(self)
                .map_err(io::Error::from)
                .and_then(|text| codec::replace(&at, &text))
        };
        kept.map_err(|error| JournalError::File(Path::new("/").join(FILE), error))
    }

    /// Takes the setup lock, which is a lock on the journal's folder; creates the folder if necessary.
    pub fn lock(root: &Path) -> Result<Flock, JournalError> {
        let folder = root.join(FOLDER);
        let refused = |error| JournalError::File(Path::new("/").join(FOLDER), error);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(refused)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = open(&folder, flags, Mode::empty()).map_err(|error| refused(error.into()))?;
        Flock::take(opened).map_err(|error| match error {
            LockError::Held(holder) => JournalError::Busy(holder),
            LockError::System(error) => refused(error),
        })
    }

    /// Records a change that is about to be made. If the last entry for the same thing is identical, that
    /// change was interrupted, or undone by something else, and is not recorded twice.
    pub fn note(&mut self, root: &Path, action: &SetupAction, before: State) {
        let boot = boot(root);
        let last = self.changes.iter_mut().rev().find(|entry| entry.action.same_place(action));
        if let Some(entry) = last.filter(|entry| entry.action == *action && entry.before == before) {
            entry.boot = boot;
            return;
        }
        let folders = action.path().map_or(Vec::new(), |path| missing_folders(root, path));
        self.changes.push(Entry { action: action.clone(), before, folders, boot });
    }

    /// Whether there are changes since the last boot that take effect only at the next one.
    pub fn waits_for_reboot(&self, root: &Path) -> bool {
        let boot = boot(root);
        let waits = |entry: &Entry| {
            let stands = entry.action.now(root).is_ok_and(|now| now == entry.action.done());
            entry.action.needs_reboot() && entry.boot == boot && stands
        };
        self.changes.iter().any(waits)
    }
}

/// The kernel's id of this boot.
fn boot(root: &Path) -> String {
    files::text(root, "proc/sys/kernel/random/boot_id").unwrap_or_default()
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::File(path, error) => write!(f, "{}: {error}", path.display()),
            JournalError::Content(path, why) => {
                write!(f, "{}: not a journal of a setup: {why}", path.display())
            }
            JournalError::Busy(holder) => write!(f, "another setup is running: {holder}"),
        }
    }
}

impl std::error::Error for JournalError {}
