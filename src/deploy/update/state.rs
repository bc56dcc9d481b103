//! State that several steps need: what is staged, who holds the lock, what the robot is doing.

use super::command::{self, SHORT};
use super::{Layout, UpdateError, at};
use crate::system::rt::flock::{Flock, LockError};
use crate::system::{bounded_read, codec};
use rustix::fs::{Mode, OFlags, open};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest record of what is staged, in bytes.
const LONGEST: u64 = 4 << 10;

/// The package that the next trial will install.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// The version.
    pub version: String,
    /// BLAKE3 of the kept package, in hexadecimal digits.
    pub digest: String,
}

impl Staged {
    /// Reads what is staged, if anything.
    pub fn read(layout: &Layout) -> Option<Staged> {
        serde_json::from_str(&bounded_read::text(&layout.staged(), LONGEST).ok()?).ok()
    }
    /// Writes it to disk.
    pub fn write(&self, layout: &Layout) -> Result<(), UpdateError> {
        let path = layout.staged();
        codec::replace(&path, serde_json::to_string(self).unwrap_or_default().as_bytes()).map_err(at(&path))
    }
}

/// Takes the lock of an update in progress; dropping the value releases it.
pub fn lock(layout: &Layout) -> Result<Flock, UpdateError> {
    let path = layout.lock();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open(&path, flags, Mode::from_raw_mode(0o600)).map_err(|error| at(&path)(error.into()))?;
    Flock::take(file).map_err(|error| match error {
        LockError::Held(_) => UpdateError::Busy,
        LockError::System(error) => at(&path)(error),
    })
}

/// Removes the lock file: what follows is no longer part of an update.
pub fn unlock(layout: &Layout, lock: Flock) {
    let _ = std::fs::remove_file(layout.lock());
    drop(lock);
}

/// Checks that this runs as root.
pub fn demand_root(layout: &Layout) -> Result<(), UpdateError> {
    match !layout.is_real() || rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(UpdateError::NotRoot),
    }
}

/// Keeps the robot from arming by itself until a person arms it. The file is in a folder of the runtime's
/// user, so the runtime can remove it.
pub fn hold(layout: &Layout) -> Result<(), UpdateError> {
    let path = layout.hold();
    match path.parent().is_some_and(|folder| folder.is_dir()) {
        true => codec::replace(
            &path,
            b"An update has begun. The robot does not arm by itself until a person runs 'ganglion arm'.\n",
        )
        .map_err(at(&path)),
        // No runtime has ever run on this machine.
        false => Ok(()),
    }
}

/// A property of a unit, as systemd prints it; empty on failure.
pub fn property(unit: &str, name: &str) -> String {
    let words = ["show", "--value", "--property", name, unit].map(AsRef::as_ref);
    command::demand("systemctl", &words, SHORT).unwrap_or_default()
}

/// Time since the main process of a unit was started, in seconds, whether it still runs or not; 0 if unknown.
pub fn lived_s(unit: &str) -> f64 {
    let begun_us: f64 = property(unit, "ExecMainStartTimestampMonotonic").parse().unwrap_or(0.0);
    // Both times are from the monotonic clock, which stops while the machine sleeps.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    if begun_us > 0.0 { now.tv_sec as f64 - begun_us / 1e6 } else { 0.0 }
}

/// Runs systemctl; the error is its message.
pub fn systemctl(words: &[&str], limit: Duration) -> Result<(), String> {
    let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
    command::demand("systemctl", &words, limit).map(drop).map_err(|error| error.to_string())
}

/// The path of the running program, which is proven: the installed one, or the copy that a rollback runs. In
/// a test: the installed one below the test's root.
pub fn own_program(layout: &Layout) -> PathBuf {
    match std::env::current_exe() {
        Ok(own) if layout.is_real() => own,
        _ => layout.program(),
    }
}

/// The status of the running robot, as far as an update depends on it. Read from the JSON of `status`, whose
/// format is stable across versions; missing keys get their defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReportedStatus {
    /// `disarmed`, `armed`, ...
    pub mode: String,
    /// How often the robot was armed.
    pub armings: u64,
    /// Active causes of restraint.
    pub causes: Vec<String>,
    /// Cycle times of the field, microseconds.
    pub field_us: Option<Percentiles>,
}

impl ReportedStatus {
    /// Whether the robot is armed, with or without a restraint.
    pub fn is_armed(&self) -> bool {
        ["armed", "degraded"].contains(&&*self.mode)
    }
}

/// Percentiles of a time, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Reads the robot's status with this program's own `status`, because the installed program may be broken.
/// `None` if the robot does not answer.
pub fn ask(layout: &Layout) -> Option<ReportedStatus> {
    ask_by(&own_program(layout))
}

/// Reads the status with the installed program, which is being judged.
pub fn ask_installed(layout: &Layout) -> Option<ReportedStatus> {
    ask_by(&layout.program())
}

fn ask_by(program: &Path) -> Option<ReportedStatus> {
    let ran = command::run(program, &["status".as_ref(), "--json".as_ref()], SHORT).ok()?;
    serde_json::from_str(ran.out.lines().last().filter(|_| ran.ok())?).ok()
}

/// Removes a file that may not exist, and syncs that to disk.
pub fn remove(path: &Path) -> Result<(), UpdateError> {
    codec::remove(path).map_err(at(path))
}

/// Syncs a file or a folder to disk.
pub fn sync(path: &Path) -> Result<(), UpdateError> {
    codec::sync(path).map_err(at(path))
}
