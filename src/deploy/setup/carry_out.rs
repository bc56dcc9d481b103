//! Makes changes, and takes them back. Each change is in the journal, on the disk, before it is made; each
//! that is taken back leaves the journal afterwards. So both can be cut off anywhere and begun again.

use super::deed::{Deed, DeedError};
use super::files;
use super::journal::{Entry, Journal, JournalError};
use super::programs::Programs;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

/// How far it has come. What sees it may end it there, as a power cut would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'d> {
    /// The change is in the journal and comes next.
    Noted(&'d Deed),
    /// The change is made.
    Done(&'d Deed),
    /// What was before is back; the journal still has the change.
    Restored(&'d Deed),
    /// The journal no longer has it.
    Forgotten(&'d Deed),
    /// Somebody has changed it since: it stays as it is.
    LeftAlone(&'d Deed),
}

/// Why it ended before its end.
#[derive(Debug)]
pub enum CarryOutError {
    /// A change.
    Deed(DeedError),
    /// The journal.
    Journal(JournalError),
    /// What saw the steps ended it.
    Ended,
}

/// What sees the steps.
pub type Seen<'s> = &'s mut dyn FnMut(Step) -> ControlFlow<()>;

/// Makes the changes in order, each noted first; returns how many. Those that are there already are none.
pub fn apply(
    root: &Path,
    deeds: &[&Deed],
    programs: &dyn Programs,
    seen: Seen,
) -> Result<usize, CarryOutError> {
    if deeds.is_empty() {
        return Ok(0);
    }
    let _lock = Journal::lock(root)?;
    let mut journal = Journal::load(root)?;
    let mut count = 0;
    for deed in deeds {
        let before = deed.now(root)?;
        if before == deed.done() {
            continue;
        }
        journal.note(root, deed, before);
        journal.keep(root)?;
        tell(seen, Step::Noted(deed))?;
        deed.perform(root, programs)?;
        tell(seen, Step::Done(deed))?;
        count += 1;
    }
    Ok(count)
}

/// Takes all changes of the journal back, the newest first; returns how many. What was changed since
/// stays, and so does its entry.
pub fn undo(root: &Path, programs: &dyn Programs, seen: Seen) -> Result<usize, CarryOutError> {
    if !root.join(super::journal::FOLDER).exists() {
        return Ok(0);
    }
    let _lock = Journal::lock(root)?;
    let mut journal = Journal::load(root)?;
    let (mut count, mut at) = (0, journal.changes.len());
    while at > 0 {
        at -= 1;
        let entry = journal.changes[at].clone();
        if !restore(root, &entry, programs)? {
            tell(seen, Step::LeftAlone(&entry.deed))?;
            continue;
        }
        tell(seen, Step::Restored(&entry.deed))?;
        entry.folders.iter().rev().for_each(|folder| files::remove_if_empty(root, folder));
        journal.changes.remove(at);
        journal.keep(root)?;
        tell(seen, Step::Forgotten(&entry.deed))?;
        count += 1;
    }
    journal.keep(root)?;
    Ok(count)
}

/// Puts back what was before a change. `false`: it was changed since, and nothing was done.
fn restore(root: &Path, entry: &Entry, programs: &dyn Programs) -> Result<bool, CarryOutError> {
    let Entry { deed, before, .. } = entry;
    let now = match deed.now(root) {
        Ok(now) => now,
        Err(DeedError::File(..)) => return Ok(false), // a folder, a device: not what was put there
        Err(error) => return Err(error.into()),
    };
    if now == deed.done() {
        deed.restore(root, before, programs)?;
        return Ok(true);
    }
    // A setting of the kernel does not outlive it: another value is another start's.
    Ok(now == *before || matches!(deed, Deed::Set { .. }))
}

fn tell(seen: Seen, step: Step) -> Result<(), CarryOutError> {
    match seen(step) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(CarryOutError::Ended),
    }
}

impl From<DeedError> for CarryOutError {
    fn from(error: DeedError) -> CarryOutError {
        CarryOutError::Deed(error)
    }
}

impl From<JournalError> for CarryOutError {
    fn from(error: JournalError) -> CarryOutError {
        CarryOutError::Journal(error)
    }
}

impl fmt::Display for CarryOutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CarryOutError::Deed(error) => write!(f, "{error}"),
            CarryOutError::Journal(error) => write!(f, "{error}"),
            CarryOutError::Ended => f.write_str("ended between two steps"),
        }
    }
}

impl std::error::Error for CarryOutError {}
