//! One action on a machine: a file, a link, a kernel setting, a group membership. Each can be compared with
//! the current state, done, and undone.

use super::files::{self, State, put, state};
use super::programs::{ProgramError, Programs};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// One action. Paths are relative to the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetupAction {
    /// Write a file.
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Its whole content.
        content: String,
    },
    /// Create a symbolic link.
    Link {
        /// Path of the link.
        path: PathBuf,
        /// Its target.
        to: String,
    },
    /// Change a setting of the running kernel; after a reboot, other files set it.
    Set {
        /// Path of the setting.
        path: PathBuf,
        /// The value.
        content: String,
    },
    /// Remove a link.
    Remove {
        /// Path of the link.
        path: PathBuf,
    },
    /// Add a user to a group, effective from the next login.
    Join {
        /// The user.
        user: String,
        /// The group.
        group: String,
    },
}

/// What failed, and why.
#[derive(Debug)]
pub enum SetupActionError {
    /// A file, as an absolute path.
    File(PathBuf, io::Error),
    /// A program.
    Program(ProgramError),
}

impl SetupAction {
    /// The file or link, if the action has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            SetupAction::Write { path, .. }
            | SetupAction::Link { path, .. }
            | SetupAction::Set { path, .. }
            | SetupAction::Remove { path } => Some(path),
            SetupAction::Join { .. } => None,
        }
    }

    /// Whether both change the same thing.
    pub fn same_place(&self, other: &SetupAction) -> bool {
        match (self.path(), other.path()) {
            (None, None) => self == other,
            (mine, its) => mine == its,
        }
    }

    /// Whether the action takes effect only at the next boot, because the boot loader reads it.
    pub fn needs_reboot(&self) -> bool {
        self.path().is_some_and(|path| path.starts_with("boot"))
    }

    /// The current state.
    pub fn now(&self, root: &Path) -> Result<State, SetupActionError> {
        match self {
            SetupAction::Join { user, group } if is_member(root, user, group) => Ok(State::Member),
            SetupAction::Join { .. } => Ok(State::Absent),
            SetupAction::Set { path, .. } => {
                let value = files::text(root, &path.to_string_lossy());
                Ok(value.map_or(State::Absent, State::File))
            }
            SetupAction::Write { path, .. }
            | SetupAction::Link { path, .. }
            | SetupAction::Remove { path } => state(root, path).map_err(|error| refused(path, error)),
        }
    }

    /// The state after the action.
    pub fn done(&self) -> State {
        match self {
            SetupAction::Write { content, .. } | SetupAction::Set { content, .. } => {
                State::File(content.clone())
            }
            SetupAction::Link { to, .. } => State::Link(to.clone()),
            SetupAction::Remove { .. } => State::Absent,
            SetupAction::Join { .. } => State::Member,
        }
    }

    /// Carries out the action.
    pub fn perform(&self, root: &Path, programs: &dyn Programs) -> Result<(), SetupActionError> {
        self.bring_to(root, &self.done(), programs)
    }

    /// Restores the earlier state.
    pub fn restore(
        &self,
        root: &Path,
        before: &State,
        programs: &dyn Programs,
    ) -> Result<(), SetupActionError> {
        self.bring_to(root, before, programs)
    }

    fn bring_to(&self, root: &Path, wanted: &State, programs: &dyn Programs) -> Result<(), SetupActionError> {
        match self {
            SetupAction::Write { path, .. }
            | SetupAction::Link { path, .. }
            | SetupAction::Remove { path } => put(root, path, wanted).map_err(|error| refused(path, error)),
            // Write in place: the kernel owns this file.
            SetupAction::Set { path, .. } => match wanted {
                State::File(value) => {
                    let file = std::fs::OpenOptions::new().write(true).truncate(true).open(root.join(path));
                    let written = file.and_then(|mut file| file.write_all(value.as_bytes()));
                    written.map_err(|error| refused(path, error))
                }
                State::Absent | State::Link(_) | State::Member => Ok(()),
            },
            SetupAction::Join { user, group } => {
                let joins = *wanted == State::Member;
                let ran = match joins {
                    true => programs.run("usermod", &["-aG", group, user]),
                    false => programs.run("gpasswd", &["-d", user, group]),
                };
                ran.map_err(SetupActionError::Program)
            }
        }
    }
}

fn refused(path: &Path, error: io::Error) -> SetupActionError {
    SetupActionError::File(Path::new("/").join(path), error)
}

/// Whether /etc/group lists `user` as a member of `group`.
fn is_member(root: &Path, user: &str, group: &str) -> bool {
    groups_of(root, user).iter().any(|name| name == group)
}

/// The groups of which /etc/group lists `user` as a member.
pub fn groups_of(root: &Path, user: &str) -> Vec<String> {
    let all = files::text(root, "etc/group").unwrap_or_default();
    let of = |line: &str| {
        let mut fields = line.split(':');
        let (name, members) = (fields.next()?, fields.nth(2)?);
        members.split(',').any(|member| member == user).then(|| name.to_string())
    };
    all.lines().filter_map(of).collect()
}

impl fmt::Display for SetupAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupAction::Write { path, content } => {
                write!(f, "write /{}:", path.display())?;
                content.lines().try_for_each(|line| write!(f, "\n    | {line}"))
            }
            SetupAction::Link { path, to } => write!(f, "link /{} to {to}", path.display()),
            SetupAction::Set { path, content } => write!(f, "set /{} to {content}", path.display()),
            SetupAction::Remove { path } => write!(f, "remove /{}", path.display()),
            SetupAction::Join { user, group } => write!(f, "usermod -aG {group} {user}"),
        }
    }
}

impl fmt::Display for SetupActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupActionError::File(path, error) => write!(f, "{}: {error}", path.display()),
            SetupActionError::Program(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for SetupActionError {}
