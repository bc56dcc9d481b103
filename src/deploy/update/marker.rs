//! The marker: the one file that says whether an update is unfinished, and how it ended. Its phase decides
//! what the next boot does. It is written whole, to the disk, before what it announces begins.

use super::{Layout, UpdateError, at, state};
use crate::system::{codec, intake};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;

/// Longest marker, in bytes: versions, and the last words of a program.
const LONGEST: u64 = 64 << 10;

/// How far an update is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The way back is in place; nothing has changed yet.
    Prepared,
    /// dpkg installs the new version.
    Installing,
    /// Guard and runtime start.
    Starting,
    /// They run, and are watched.
    Trying,
    /// The proven version is being installed again.
    Back,
    /// The new version stays.
    Committed,
    /// As `Committed`, of a return to the version before that a person requested. There is no further step
    /// back.
    Returned,
    /// The proven version runs again.
    RolledBack,
    /// Neither version runs: the motors stay stopped, and a person has to look.
    BothBad,
}

impl Phase {
    /// Whether the update has ended: a boot closes it and changes nothing.
    pub fn is_final(self) -> bool {
        matches!(self, Phase::Committed | Phase::Returned | Phase::RolledBack | Phase::BothBad)
    }
}

/// Why an update went back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// A person requested it.
    Asked,
    /// The power went, or the machine died, in this phase.
    PowerLost(Phase),
    /// The program that ran the update died.
    UpdaterDied,
    /// It was committed, and then died early this often in a row.
    CrashLoop(u32),
    /// dpkg could not install it; its words.
    NotInstalled(String),
    /// Files differ from what the package has.
    NotWhole,
    /// The service did not become ready; its result.
    NotReady(String),
    /// The process ended while it was watched; its result.
    Died(String),
    /// What runs is not the installed program.
    OtherProgram,
    /// It does not answer on its control socket.
    NoAnswer,
    /// It was armed in the trial.
    Armed,
    /// The guard does not run.
    GuardLost,
    /// It reports a cause of restraint that it did not have before.
    Cause(String),
    /// A latency is above the board's own target.
    Slow {
        /// The board's key.
        key: String,
        /// The target, milliseconds.
        target_ms: f64,
        /// What was measured.
        found_ms: f64,
    },
    /// A file could not be written, or a program not be run.
    Failed(String),
}

/// An update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Marker {
    /// How far it is.
    pub phase: Phase,
    /// The version that ran before.
    pub from: String,
    /// The version that is tried.
    pub to: String,
    /// The version to go back to.
    pub goal: String,
    /// Attempts to go back that have begun at a boot.
    #[serde(default)]
    pub tries: u32,
    /// Whether this is a return to an earlier version, at a person's request.
    #[serde(default)]
    pub is_return: bool,
    /// Why it goes back, or went back.
    #[serde(default)]
    pub why: Option<Why>,
}

impl Marker {
    /// The unfinished update, if there is one.
    pub fn unfinished(layout: &Layout) -> Result<Option<Marker>, UpdateError> {
        Marker::read(&layout.marker())
    }

    /// The last update that ended, if there was one.
    pub fn last(layout: &Layout) -> Result<Option<Marker>, UpdateError> {
        Marker::read(&layout.last())
    }

    fn read(path: &Path) -> Result<Option<Marker>, UpdateError> {
        match intake::text(path, LONGEST) {
            Ok(text) => match serde_json::from_str(&text) {
                Ok(marker) => Ok(Some(marker)),
                Err(error) => Err(at(path)(std::io::Error::new(ErrorKind::InvalidData, error))),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(path)(error)),
        }
    }

    /// Writes it, to the disk: the new phase holds from here on, whatever happens.
    pub fn enter(&mut self, layout: &Layout, phase: Phase) -> Result<(), UpdateError> {
        self.phase = phase;
        self.write(layout)
    }

    /// Writes it as it is.
    pub fn write(&self, layout: &Layout) -> Result<(), UpdateError> {
        self.write_to(&layout.marker())
    }

    fn write_to(&self, path: &Path) -> Result<(), UpdateError> {
        let text = serde_json::to_string(self).unwrap_or_default();
        codec::replace(path, text.as_bytes()).map_err(at(path))
    }

    /// The update has ended: the marker moves to its other place. Its phase has decided already, so a power
    /// cut before this changes nothing, and one in the middle leaves both.
    pub fn close(&self, layout: &Layout) -> Result<(), UpdateError> {
        self.write_to(&layout.last())?;
        state::remove(&layout.marker())
    }
}
