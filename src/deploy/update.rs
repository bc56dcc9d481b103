//! Updates the package of the robot that this program runs on: [`stage`] a package, put it on [`trial`], then
//! commit it or go back to the previous version. All of it happens on the robot, so the command that started
//! it may end at any time.
//!
//! How it survives a power cut at any moment: the [`marker`] of an unfinished update is on disk before the
//! first change, and its phase alone decides what a boot does. Until the phase is final, every boot goes back
//! to the proven version: [`recover`]. What this needs (a copy of the proven program, its package, a unit
//! that runs at boot: [`net`]) is in place before the marker, and uses no file of the new package.
//!
//! dpkg installs, verifies and removes; nothing here knows which files a package has.

pub mod command;
pub mod deaths;
pub mod gate;
pub mod history;
pub mod layout;
pub mod marker;
pub mod net;
pub mod package;
pub mod recover;
pub mod stage;
pub mod state;
pub mod trial;

use command::CommandError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use layout::Layout;
pub use marker::{Marker, Phase, Why};

/// Why an update was refused or could not continue.
#[derive(Debug)]
pub enum UpdateError {
    /// Only root may change the system.
    NotRoot,
    /// A file that `ganglion setup` creates is missing: the signers or the board.
    NotSetUp(PathBuf),
    /// Another update is in progress.
    Busy,
    /// An earlier update is unfinished: its version is on trial, or the robot has to go back first.
    Unfinished(Marker),
    /// Not a package, or a damaged one.
    Damaged(PathBuf, String),
    /// The signature is missing or damaged, or its key is revoked or not trusted by this robot.
    Signature(PathBuf, String),
    /// The package has another name; this is the name.
    OtherPackage(String),
    /// The package is for another processor architecture.
    OtherArchitecture {
        /// The package's architecture.
        found: String,
        /// This robot's architecture.
        wanted: String,
    },
    /// The package does not support this robot's board.
    OtherBoard {
        /// The boards on which the robot's board is based.
        robot: Vec<String>,
        /// The boards that the package supports.
        package: Vec<String>,
    },
    /// The new program rejects the robot's board file; this is its message.
    BoardRefused(String),
    /// The package is older than the installed version.
    Downgrade {
        /// The installed version.
        from: String,
        /// The offered version.
        to: String,
    },
    /// A different package with the installed version's number.
    SameVersion(String),
    /// Too little disk space.
    Space {
        /// The path.
        place: PathBuf,
        /// Needed space, in bytes.
        needed: u64,
        /// Free space, in bytes.
        free: u64,
    },
    /// A folder that the update writes to is mounted read-only.
    ReadOnly(PathBuf),
    /// The robot is armed.
    Armed,
    /// The motors did not confirm their stop; this is the message of `safe-stop`.
    Moving(String),
    /// No complete package is staged.
    NothingStaged,
    /// The installed version's package is not kept, so there would be no way back.
    NoWayBack(String),
    /// There is no previous version to return to.
    NothingBefore,
    /// A file could not be read or written.
    File(PathBuf, io::Error),
    /// Another program failed.
    Command(CommandError),
}

impl From<CommandError> for UpdateError {
    fn from(error: CommandError) -> UpdateError {
        UpdateError::Command(error)
    }
}

/// For `map_err`: turns an I/O error into an error at `path`.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> UpdateError + '_ {
    move |error| UpdateError::File(path.to_path_buf(), error)
}

/// How an update ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// One of the final phases.
    pub phase: Phase,
    /// The version installed before the update.
    pub from: String,
    /// The version on trial.
    pub to: String,
    /// Why the robot went back.
    pub why: Option<Why>,
}

/// Longest version, in characters; with it, the name of a kept package stays far below the limit of any file
/// system.
const LONGEST_VERSION: usize = 64;

/// Checks that a Debian version is safe in a file name.
pub fn version(text: &str) -> Result<&str, UnsafeVersion> {
    let sound = |c: char| c.is_ascii_alphanumeric() || ".+~-".contains(c);
    match text {
        "" => Err(UnsafeVersion::Empty),
        _ if !text.chars().all(sound) => Err(UnsafeVersion::Character),
        _ if text.starts_with(['.', '-']) => Err(UnsafeVersion::Start),
        _ if text.len() > LONGEST_VERSION => Err(UnsafeVersion::Long),
        _ => Ok(text),
    }
}

/// Why a version is unsafe in a file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsafeVersion {
    /// It is empty.
    Empty,
    /// It has a character other than letters, digits and `. + ~ -`.
    Character,
    /// It begins with `.` or `-`.
    Start,
    /// It is longer than 64 characters.
    Long,
}

impl fmt::Display for UnsafeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnsafeVersion::Empty => f.write_str("it has no version"),
            UnsafeVersion::Character => {
                f.write_str("the version may contain only letters, digits and . + ~ -")
            }
            UnsafeVersion::Start => f.write_str("the version may not begin with . or -"),
            UnsafeVersion::Long => write!(f, "the version has more than {LONGEST_VERSION} characters"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_names_are_safe_as_file_names() {
        for sound in ["0.1.0", "1.0~rc1", "2.0+git20261124", "1.0-1"] {
            assert_eq!(version(sound), Ok(sound));
        }
        use UnsafeVersion::{Character, Empty, Long, Start};
        let (longest, longer) = ("1".repeat(64), "1".repeat(65));
        assert_eq!(version(&longest), Ok(&*longest));
        let bad =
            [("", Empty), ("../1", Character), ("1/2", Character), ("1 0", Character), ("1:0", Character)];
        for (bad, why) in bad.into_iter().chain([(".1", Start), ("-1", Start), (&*longer, Long)]) {
            assert_eq!(version(bad), Err(why), "{bad}");
        }
    }
}
