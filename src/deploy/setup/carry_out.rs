//! Makes changes and undoes them. Each change is in the journal, on disk, before it is made, and leaves the
//! journal only after it is undone. So making and undoing can be interrupted anywhere and started again.

use super::action::{SetupAction, SetupActionError};
use super::files;
use super::journal::{Entry, Journal, JournalError};
use super::programs::Programs;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

/// Progress. The observer may end the work at each step, as a power cut would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'d> {
    /// The change is in the journal and will be made next.
    Noted(&'d SetupAction),
    /// The change is made.
    Done(&'d SetupAction),
    /// The earlier state is restored; the change is still in the journal.
    Restored(&'d SetupAction),
    /// The change is no longer in the journal.
    Forgotten(&'d SetupAction),
    /// A person or program has changed the file or link since, so it stays as it is.
    LeftAlone(&'d SetupAction),
}

/// Why the work did not finish.
#[derive(Debug)]
pub enum CarryOutError {
    /// A change failed.
    Action(SetupActionError),
    /// The journal failed.
    Journal(JournalError),
    /// The observer ended the work.
    Ended,
}

/// The observer of the steps.
pub type Seen<'s> = &'s mut dyn FnMut(Step) -> ControlFlow<()>;

/// Makes the changes in order, each recorded first, and returns how many were made. Changes that are already
/// in place do not count.
pub fn apply(
    root: &Path,
    actions: &[&SetupAction],
    programs: &dyn Programs,
    seen: Seen,
) -> Result<usize, CarryOutError> {
    if actions.is_empty() {
        return Ok(0);
    }
    let _lock = Journal::lock(root)?;
    let mut journal = Journal::load(root)?;
    let mut count = 0;
    for action in actions {
        let before = action.now(root)?;
        if before == action.done() {
            continue;
        }
        journal.note(root, action, before);
        journal.keep(root)?;
        tell(seen, Step::Noted(action))?;
        action.perform(root, programs)?;
        tell(seen, Step::Done(action))?;
        count += 1;
    }
    Ok(count)
}

/// Undoes all changes in the journal, newest first, and returns how many it undid. A file or link that was
/// changed since stays as it is, and so does its journal entry. A kernel setting that was changed since stays
/// as it is too, but counts as undone.
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
            tell(seen, Step::LeftAlone(&entry.action))?;
            continue;
        }
        tell(seen, Step::Restored(&entry.action))?;
        entry.folders.iter().rev().for_each(|folder| files::remove_if_empty(root, folder));
        journal.changes.remove(at);
        journal.keep(root)?;
        tell(seen, Step::Forgotten(&entry.action))?;
        count += 1;
    }
    journal.keep(root)?;
    Ok(count)
}

/// Restores the state before a change. `false`: the file was changed since, and nothing was done.
fn restore(root: &Path, entry: &Entry, programs: &dyn Programs) -> Result<bool, CarryOutError> {
    let Entry { action, before, .. } = entry;
    let now = match action.now(root) {
        Ok(now) => now,
        Err(SetupActionError::File(..)) => return Ok(false), // a folder, a device: not what setup put there
        Err(error) => return Err(error.into()),
    };
    if now == action.done() {
        action.restore(root, before, programs)?;
        return Ok(true);
    }
    // A kernel setting does not survive a reboot: another value was set later, so there is nothing to undo.
    Ok(now == *before || matches!(action, SetupAction::Set { .. }))
}

fn tell(seen: Seen, step: Step) -> Result<(), CarryOutError> {
    match seen(step) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(CarryOutError::Ended),
    }
}

impl From<SetupActionError> for CarryOutError {
    fn from(error: SetupActionError) -> CarryOutError {
        CarryOutError::Action(error)
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
            CarryOutError::Action(error) => write!(f, "{error}"),
            CarryOutError::Journal(error) => write!(f, "{error}"),
            CarryOutError::Ended => f.write_str("interrupted between two steps"),
        }
    }
}

impl std::error::Error for CarryOutError {}
