//! The journal of a setup: what each thing was before it was changed, on the disk before it is changed. So a
//! setup that was cut off anywhere can be finished, and all of it taken back.

use super::deed::Deed;
use super::files::{self, State, missing_folders};
use crate::system::codec;
use crate::system::intake;
use crate::system::rt::flock::{Flock, Holder, LockError};
use rustix::fs::{Mode, OFlags, open};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Its folder, root's alone: it has copies of files whose readers are chosen.
pub const FOLDER: &str = "var/lib/ganglion-setup";
/// Its file.
pub const FILE: &str = "var/lib/ganglion-setup/changes.json";
/// Version of the file's format.
const SCHEMA: u32 = 1;
/// Longest journal: a setup makes about twenty entries; the longest has two copies of a config.txt.
const LONGEST: u64 = 16 << 20;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What is done.
    pub deed: Deed,
    /// What was there.
    pub before: State,
    /// Folders that were not there, outermost first.
    pub folders: Vec<PathBuf>,
    /// The start of the machine in which it was done; unknown: empty.
    pub boot: String,
}

/// All changes that are to be taken back, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    schema: u32,
    /// Oldest first.
    pub changes: Vec<Entry>,
}

/// Why there is no journal.
#[derive(Debug)]
pub enum JournalError {
    /// A file or folder of it.
    File(PathBuf, io::Error),
    /// Its content.
    Content(PathBuf, String),
    /// Another setup is at work.
    Busy(Holder),
}

impl Journal {
    /// The one below `root`; empty if there is none.
    pub fn load(root: &Path) -> Result<Journal, JournalError> {
        let at = Path::new("/").join(FILE);
        let text = match intake::text(&root.join(FILE), LONGEST) {
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

    /// Writes it to the disk; an empty one goes, and its folder.
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

    /// Takes the lock of setups, for which the folder is created.
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

    /// Notes a change that is about to be made. If the last change of the same thing is this very one, it was
    /// cut off before or taken back by something else, and is not noted twice.
    pub fn note(&mut self, root: &Path, deed: &Deed, before: State) {
        let boot = boot(root);
        let last = self.changes.iter_mut().rev().find(|entry| entry.deed.same_place(deed));
        if let Some(entry) = last.filter(|entry| entry.deed == *deed && entry.before == before) {
            entry.boot = boot;
            return;
        }
        let folders = deed.path().map_or(Vec::new(), |path| missing_folders(root, path));
        self.changes.push(Entry { deed: deed.clone(), before, folders, boot });
    }

    /// Changes that count only from the next start of the machine on, and were made since its last.
    pub fn waits_for_reboot(&self, root: &Path) -> bool {
        let boot = boot(root);
        let waits = |entry: &Entry| {
            let stands = entry.deed.now(root).is_ok_and(|now| now == entry.deed.done());
            entry.deed.needs_reboot() && entry.boot == boot && stands
        };
        self.changes.iter().any(waits)
    }
}

/// The kernel's number of this start of the machine.
fn boot(root: &Path) -> String {
    files::text(root, "proc/sys/kernel/random/boot_id").unwrap_or_default()
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::File(path, error) => write!(f, "{}: {error}", path.display()),
            JournalError::Content(path, why) => write!(f, "{}: no journal of a setup: {why}", path.display()),
            JournalError::Busy(holder) => write!(f, "another setup is at work: {holder}"),
        }
    }
}

impl std::error::Error for JournalError {}
