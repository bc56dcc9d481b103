//! The marker: the one file that states whether an update is unfinished, and how it ended. Its phase decides
//! what the next boot does. It is replaced atomically and synced to disk before the step that it announces
//! begins.

use super::{Layout, UpdateError, at, state};
use crate::system::{bounded_read, codec};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;

/// Largest marker, in bytes; it contains versions and a program's last line of output.
const LONGEST: u64 = 64 << 10;

/// The phases of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The way back is prepared; nothing has changed yet.
    Prepared,
    /// dpkg installs the new version.
    Installing,
    /// Guard and runtime are starting.
    Starting,
    /// Guard and runtime are running and being watched.
    Trying,
    /// The proven version is being installed again.
    Back,
    /// The new version stays.
    Committed,
    /// Like `Committed`, but for the return from a committed version to the previous one. There is no further
    /// step back.
    Returned,
    /// The proven version runs again.
    RolledBack,
    /// Neither version runs: the motors stay stopped, and a person has to look at the robot.
    BothBad,
}

impl Phase {
    /// Whether the phase is final: a boot only closes the update.
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
    /// The power failed, or the machine crashed, in this phase.
    PowerLost(Phase),
    /// The program that ran the update died.
    UpdaterDied,
    /// The version was committed, and then died early this many times in a row.
    CrashLoop(u32),
    /// dpkg could not install the version; this is its message.
    NotInstalled(String),
    /// Installed files differ from the package.
    NotWhole,
    /// The service did not become ready; its result according to systemd.
    NotReady(String),
    /// The process ended during the trial; its result according to systemd.
    Died(String),
    /// The running program is not the installed one.
    OtherProgram,
    /// The runtime does not answer on its control socket.
    NoAnswer,
    /// The robot was armed during the trial.
    Armed,
    /// The guard is not running.
    GuardLost,
    /// The runtime reports a new cause of restraint.
    Cause(String),
    /// A percentile of the field's cycle time exceeds the board's own target.
    Slow {
        /// The board's key.
        key: String,
        /// The target, milliseconds.
        target_ms: f64,
        /// The measured percentile, milliseconds.
        found_ms: f64,
    },
    /// A file could not be written, or a program could not be run.
    Failed(String),
}

/// An update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Marker {
    /// The phase.
    pub phase: Phase,
    /// The version that ran before.
    pub from: String,
    /// The version on trial.
    pub to: String,
    /// The version to go back to.
    pub goal: String,
    /// Number of attempts to go back that boots have started.
    #[serde(default)]
    pub tries: u32,
    /// Whether this is the return from a committed version to the previous one.
    #[serde(default)]
    pub is_return: bool,
    /// Why the update goes back, or went back.
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
        match bounded_read::text(path, LONGEST) {
            Ok(text) => match serde_json::from_str(&text) {
                Ok(marker) => Ok(Some(marker)),
                Err(error) => Err(at(path)(std::io::Error::new(ErrorKind::InvalidData, error))),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(path)(error)),
        }
    }

    /// Writes the new phase to disk: it is in effect from here on, whatever happens.
    pub fn enter(&mut self, layout: &Layout, phase: Phase) -> Result<(), UpdateError> {
        self.phase = phase;
        self.write(layout)
    }

    /// Writes the marker unchanged.
    pub fn write(&self, layout: &Layout) -> Result<(), UpdateError> {
        self.write_to(&layout.marker())
    }

    fn write_to(&self, path: &Path) -> Result<(), UpdateError> {
        let text = serde_json::to_string(self).unwrap_or_default();
        codec::replace(path, text.as_bytes()).map_err(at(path))
    }

    /// Closes an update that has ended: moves the marker to its final path. The phase has already decided the
    /// outcome, so a power cut before this call changes nothing, and one during it leaves both files.
    pub fn close(&self, layout: &Layout) -> Result<(), UpdateError> {
        self.write_to(&layout.last())?;
        state::remove(&layout.marker())
    }
}
