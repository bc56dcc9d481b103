//! Updating the package of the robot that this program runs on: [`stage`] a package, put it on [`trial`],
//! commit it or go back to the version before. All of it happens on the robot, so the
//! command that started it may end at any time.
//!
//! What makes it survive a power cut at any moment: the [`marker`] of an unfinished update is on the disk
//! before the first change, and its phase alone decides. Until the phase says `committed`, every boot goes
//! back to the proven version: [`recover`]. The means to go back (a copy of the proven program, its package,
//! a unit that runs at boot: [`net`]) are in place before the marker is, and need no file of the new package.
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

/// Why an update was refused, or could not go on.
#[derive(Debug)]
pub enum UpdateError {
    /// Only root may change the system.
    NotRoot,
    /// A file that `ganglion setup` makes is missing: the signers, or the board.
    NotSetUp(PathBuf),
    /// Another update is in progress.
    Busy,
    /// An update has not ended: it is being tried, or the robot has to go back first.
    Unfinished(Marker),
    /// Not a package, or damaged.
    Damaged(PathBuf, String),
    /// The signature is missing, damaged, of a key that this robot does not trust, or of a revoked key.
    Signature(PathBuf, String),
    /// Another package: name found.
    OtherPackage(String),
    /// For another kind of processor.
    OtherArchitecture {
        /// Of the package.
        found: String,
        /// Of this robot.
        wanted: String,
    },
    /// The package supports other boards.
    OtherBoard {
        /// What the robot's board is built on.
        robot: Vec<String>,
        /// What the package supports.
        package: Vec<String>,
    },
    /// The new program refuses the robot's board file, in its words.
    BoardRefused(String),
    /// Older than what is installed.
    Downgrade {
        /// Installed.
        from: String,
        /// Offered.
        to: String,
    },
    /// Another package of the version that is installed.
    SameVersion(String),
    /// Too little space.
    Space {
        /// Where.
        place: PathBuf,
        /// How much is needed, in bytes.
        needed: u64,
        /// How much there is.
        free: u64,
    },
    /// A folder that the update has to write to is mounted read-only.
    ReadOnly(PathBuf),
    /// The robot is armed.
    Armed,
    /// The motors did not confirm their stop; the words of `safe-stop`.
    Moving(String),
    /// Nothing complete is staged.
    NothingStaged,
    /// The package of the installed version is not kept, so there would be no way back.
    NoWayBack(String),
    /// There is no version before the installed one.
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

/// For `map_err`: an error at `path`.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> UpdateError + '_ {
    move |error| UpdateError::File(path.to_path_buf(), error)
}

/// How an update ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// One of the phases that end an update.
    pub phase: Phase,
    /// The version before it.
    pub from: String,
    /// The version that was tried.
    pub to: String,
    /// Why the robot went back.
    pub why: Option<Why>,
}

/// A version as Debian writes it.
///
/// # Errors
///
/// It has a character that would not be safe in a file name, is empty or is longer than 64 characters.
pub fn version(text: &str) -> Result<&str, UnsafeVersion> {
    let sound = |c: char| c.is_ascii_alphanumeric() || ".+~-".contains(c);
    match !text.is_empty() && text.len() <= 64 && !text.starts_with(['.', '-']) && text.chars().all(sound) {
        true => Ok(text),
        false => Err(UnsafeVersion),
    }
}

/// A version that would not be safe in a file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsafeVersion;

impl fmt::Display for UnsafeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the version may have letters, digits and . + ~ - only")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_safe_in_a_file_name() {
        for sound in ["0.1.0", "1.0~rc1", "2.0+git20261124", "1.0-1"] {
            assert_eq!(version(sound), Ok(sound));
        }
        for bad in ["", "../1", "1/2", "1 0", ".1", "-1", "1:0", &"1".repeat(65)] {
            assert!(version(bad).is_err(), "{bad}");
        }
    }
}
