//! Handles packages through dpkg: reads their contents, finds what is installed and whether it is complete,
//! and installs them.

use super::command::{self, LONG, SHORT};
use super::{Layout, UpdateError, at, version};
use crate::system::{bounded_read, codec};
use rustix::fs::StatVfsMountFlags;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Name of the package.
pub const NAME: &str = "ganglion";
/// Largest package, in bytes; the real one has a few megabytes.
pub const LARGEST: u64 = 256 << 20;
/// Largest manifest, in bytes.
const MANIFEST: u64 = 64 << 10;
/// Number of attempts while another program holds dpkg's lock.
const TRIES: u32 = 30;
/// Time between two attempts: about a minute in all.
const PAUSE: Duration = Duration::from_secs(2);

/// Fields of a package's control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The package name: `ganglion`.
    pub name: String,
    /// The version.
    pub version: String,
    /// Debian's name for the processor architecture.
    pub architecture: String,
    /// Size of the installed files, in bytes.
    pub installed_bytes: u64,
}

/// The package's description of itself: `/usr/share/ganglion/manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The built-in boards that it supports.
    pub boards: Vec<String>,
}

/// Reads the control file of the package at `path`.
pub fn fields(path: &Path) -> Result<Fields, UpdateError> {
    let damaged = |why: String| UpdateError::Damaged(path.to_path_buf(), why);
    let show = "--showformat=${Package} ${Version} ${Architecture} ${Installed-Size}";
    let ran = command::run("dpkg-deb", &["--show".as_ref(), show.as_ref(), path.as_ref()], SHORT)?;
    if !ran.ok() {
        return Err(damaged(ran.error_output()));
    }
    let mut words = ran.out.split_whitespace();
    let mut next = || words.next().unwrap_or_default().to_string();
    let (name, found, architecture, kib) = (next(), next(), next(), next());
    let found = version(&found).map_err(|error| damaged(error.to_string()))?.to_string();
    let kib: u64 = kib.parse().map_err(|_| damaged("it does not state its installed size".to_string()))?;
    Ok(Fields { name, version: found, architecture, installed_bytes: kib.saturating_mul(1024) })
}

/// Unpacks the package at `path` into `folder`, which is created anew. Nothing in it is run.
pub fn unpack(path: &Path, folder: &Path) -> Result<Option<Manifest>, UpdateError> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir(folder).map_err(at(folder))?;
    command::demand("dpkg-deb", &["--extract".as_ref(), path.as_ref(), folder.as_ref()], LONG)?;
    let manifest = folder.join("usr/share/ganglion/manifest.json");
    let text = bounded_read::text(&manifest, MANIFEST).map_err(at(&manifest))?;
    Ok(serde_json::from_str(&text).ok())
}

/// The architecture of this system's packages.
pub fn architecture() -> Result<String, UpdateError> {
    Ok(command::demand("dpkg", &["--print-architecture".as_ref()], SHORT)?)
}

/// Whether version `a` is earlier than `b` in Debian's order.
pub fn is_earlier(a: &str, b: &str) -> Result<bool, UpdateError> {
    let words = ["--compare-versions", a, "lt", b].map(OsStr::new);
    Ok(command::run("dpkg", &words, SHORT)?.ok())
}

/// What is installed according to dpkg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The version; `none` if nothing is installed.
    pub version: String,
    /// dpkg's status: `installed`, or how far the installation got.
    pub state: String,
}

/// Reads what is installed.
pub fn installed() -> Result<Installed, UpdateError> {
    let show = "--showformat=${Version} ${db:Status-Status}";
    let ran = command::run("dpkg-query", &["--show".as_ref(), show.as_ref(), NAME.as_ref()], SHORT)?;
    let mut words = ran.out.split_whitespace();
    let (found, state) = match ran.ok() {
        true => (words.next(), words.next()),
        false => (None, None),
    };
    Ok(Installed { version: found.unwrap_or("none").to_string(), state: state.unwrap_or("none").to_string() })
}

/// Whether `wanted` is installed and configured, and every file is unchanged. Configuration files may differ.
pub fn is_whole(wanted: &str) -> Result<bool, UpdateError> {
    let found = installed()?;
    if (&*found.version, &*found.state) != (wanted, "installed") {
        return Ok(false);
    }
    let ran = command::run("dpkg", &["--verify".as_ref(), NAME.as_ref()], LONG)?;
    // A line has nine characters of results, a `c` if the file is a configuration file, and the path.
    let concerns = |line: &&str| !line.trim().is_empty() && line.split_whitespace().nth(1) != Some("c");
    Ok(ran.out.lines().filter(concerns).count() == 0)
}

/// Installs the package at `path` with dpkg, whatever version is installed, and syncs the files to disk. The
/// error is dpkg's message.
pub fn install(layout: &Layout, path: &Path) -> Result<(), String> {
    let words: [&OsStr; 4] =
        ["--install".as_ref(), "--force-confold".as_ref(), "--force-downgrade".as_ref(), path.as_ref()];
    for number in 0..TRIES {
        if number > 0 {
            thread::sleep(PAUSE);
        }
        let ran = command::run("dpkg", &words, LONG).map_err(|error| error.to_string())?;
        if ran.ok() {
            return sync(layout);
        }
        // dpkg does not wait for its locks. They are fcntl(2) locks, which nothing else here tests, so only
        // dpkg's message shows that one is held.
        if !ran.err.contains("lock was locked") && !ran.err.contains("is locked by") {
            return Err(reason(&ran));
        }
    }
    Err("another program holds dpkg's lock".to_string())
}

/// The line in which dpkg states the error; its last line is only a list of packages.
fn reason(ran: &command::Ran) -> String {
    let mut telling = ran
        .err
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("dpkg: error") || line.contains("subprocess"));
    telling.next_back().map_or_else(|| ran.error_output(), str::to_string)
}

fn sync(layout: &Layout) -> Result<(), String> {
    for folder in [layout.usr(), layout.state()] {
        let synced = File::open(&folder).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
        synced.map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Ok(())
}

/// Keeps a copy of the package at `path`, so that the robot can return to its version. The robot's
/// administrator vouches for it: no signature is required.
pub fn keep(layout: &Layout, path: &Path) -> Result<String, UpdateError> {
    let bytes = bounded_read::bytes(path, LARGEST).map_err(at(path))?;
    let found = fields(path)?;
    if found.name != NAME {
        return Err(UpdateError::OtherPackage(found.name));
    }
    let wanted = architecture()?;
    if found.architecture != wanted {
        return Err(UpdateError::OtherArchitecture { found: found.architecture, wanted });
    }
    let kept = layout.package(&found.version);
    std::fs::create_dir_all(layout.packages()).map_err(at(&layout.packages()))?;
    codec::replace(&kept, &bytes).map_err(at(&kept))?;
    Ok(found.version)
}

/// The versions of the kept packages.
pub fn kept(layout: &Layout) -> Vec<String> {
    let entries = std::fs::read_dir(layout.packages()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut versions: Vec<String> = names
        .filter_map(|name| Some(name.strip_prefix("ganglion_")?.strip_suffix(".deb")?.to_string()))
        .collect();
    versions.sort();
    versions
}

/// Checks that `place` is not mounted read-only and has `needed` free bytes, not counting root's reserve.
pub fn demand_space(place: &Path, needed: u64) -> Result<(), UpdateError> {
    let found = rustix::fs::statvfs(place).map_err(|error| at(place)(error.into()))?;
    if found.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(UpdateError::ReadOnly(place.to_path_buf()));
    }
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    match free >= needed {
        true => Ok(()),
        false => Err(UpdateError::Space { place: place.to_path_buf(), needed, free }),
    }
}
