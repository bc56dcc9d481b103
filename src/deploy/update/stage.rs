//! Staging: copies, verifies and inspects a package without changing the robot. Everything about the package
//! that can be checked before it is installed is checked here.

use super::command::{self, LONG, SHORT};
use super::history::{self, Event};
use super::package::{self, Fields, Manifest};
use super::state::{self, Staged};
use super::{Layout, Marker, UpdateError, at};
use crate::system::{bounded_read, codec};
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The signer's identity in ssh-keygen's list of allowed signers.
const IDENTITY: &str = "fleet";
/// The namespace of the signatures.
const NAMESPACE: &str = "ganglion-package";
/// Largest signature, in bytes; real ones have a few hundred.
const SIGNATURE: u64 = 16 << 10;

/// The result of staging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagingOutcome {
    /// The next trial will use this version.
    Staged(String),
    /// This exact package is already installed and complete.
    AlreadyActive(String),
}

/// Stages the package at `path`, whose signature is at `signature`.
pub fn stage(
    layout: &Layout,
    path: &Path,
    signature: &Path,
    downgrade: bool,
) -> Result<StagingOutcome, UpdateError> {
    state::demand_root(layout)?;
    for needed in [layout.signers(), layout.board()] {
        if !needed.is_file() {
            return Err(UpdateError::NotSetUp(needed));
        }
    }
    make_folders(layout)?;
    let _lock = state::lock(layout)?;
    if let Some(unfinished) = Marker::unfinished(layout)?.filter(|marker| !marker.phase.is_final()) {
        return Err(UpdateError::Unfinished(unfinished));
    }
    if state::ask(layout).is_some_and(|answer| answer.is_armed()) {
        return Err(UpdateError::Armed);
    }
    let incoming = Incoming::take(layout, path, signature)?;
    let fields = package::fields(&incoming.package)?;
    let installed = package::installed()?.version;
    belongs_here(&fields)?;
    let kept = layout.package(&fields.version);
    if fields.version == installed {
        return match bounded_read::bytes(&kept, package::LARGEST).is_ok_and(|kept| kept == incoming.bytes) {
            true if package::is_whole(&installed)? => Ok(StagingOutcome::AlreadyActive(installed)),
            _ => Err(UpdateError::SameVersion(installed)),
        };
    }
    if !downgrade && package::is_earlier(&fields.version, &installed)? {
        return Err(UpdateError::Downgrade { from: installed, to: fields.version });
    }
    package::demand_space(&layout.state(), fields.installed_bytes.saturating_mul(2))?;
    let looked = look_inside(layout, &incoming.package);
    let _ = std::fs::remove_dir_all(layout.unpacked());
    looked?;
    incoming.keep_as(&kept)?;
    let digest = blake3::hash(&incoming.bytes).to_hex().to_string();
    Staged { version: fields.version.clone(), digest }.write(layout)?;
    history::note(layout, Event::Staged(fields.version.clone()))?;
    Ok(StagingOutcome::Staged(fields.version))
}

/// Creates the folders of an update, writable by root only.
pub fn make_folders(layout: &Layout) -> Result<(), UpdateError> {
    std::fs::create_dir_all(layout.packages()).map_err(at(&layout.packages()))
}

/// Copies of the given files in root's own folder: what is verified is what is kept.
struct Incoming {
    package: PathBuf,
    signature: PathBuf,
    bytes: Vec<u8>,
}

impl Incoming {
    fn take(layout: &Layout, package: &Path, signature: &Path) -> Result<Incoming, UpdateError> {
        let length =
            bounded_read::BoundedFile::open(package, package::LARGEST).map_err(at(package))?.length();
        package::demand_space(&layout.state(), length)?;
        let bytes = bounded_read::bytes(package, package::LARGEST).map_err(at(package))?;
        let signed = bounded_read::bytes(signature, SIGNATURE);
        let signed =
            signed.map_err(|error| UpdateError::Signature(signature.to_path_buf(), error.to_string()))?;
        let state = layout.state();
        let incoming =
            Incoming { package: state.join("incoming"), signature: state.join("incoming.sig"), bytes };
        codec::replace(&incoming.package, &incoming.bytes).map_err(at(&incoming.package))?;
        codec::replace(&incoming.signature, &signed).map_err(at(&incoming.signature))?;
        incoming.verify(layout, package)?;
        Ok(incoming)
    }

    /// Makes the verified copy the kept package. It is on the disk already; its new name follows.
    fn keep_as(&self, kept: &Path) -> Result<(), UpdateError> {
        codec::rename(&self.package, kept).map_err(at(kept))
    }

    /// Checks with ssh-keygen that a key that this robot accepts has signed these bytes, and that the key is
    /// not revoked.
    fn verify(&self, layout: &Layout, named: &Path) -> Result<(), UpdateError> {
        let input = File::open(&self.package).map_err(at(&self.package))?;
        let (signers, revoked) = (layout.signers(), layout.revoked());
        let mut words: Vec<&OsStr> =
            ["-Y", "verify", "-I", IDENTITY, "-n", NAMESPACE, "-f"].map(OsStr::new).to_vec();
        words.extend([signers.as_os_str(), "-s".as_ref(), self.signature.as_os_str()]);
        if revoked.exists() {
            words.extend(["-r".as_ref(), revoked.as_os_str()]);
        }
        let ran = command::run_with("ssh-keygen", &words, Some(input), LONG)?;
        match ran.ok() {
            true => Ok(()),
            false => Err(UpdateError::Signature(named.to_path_buf(), ran.error_output())),
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = state::remove(&self.package);
        let _ = state::remove(&self.signature);
    }
}

fn belongs_here(fields: &Fields) -> Result<(), UpdateError> {
    if fields.name != package::NAME {
        return Err(UpdateError::OtherPackage(fields.name.clone()));
    }
    let wanted = package::architecture()?;
    match fields.architecture == wanted {
        true => Ok(()),
        false => Err(UpdateError::OtherArchitecture { found: fields.architecture.clone(), wanted }),
    }
}

/// Unpacks the package, compares the boards, and lets the new program check the robot's board file. This also
/// shows that the program starts on this system.
fn look_inside(layout: &Layout, package: &Path) -> Result<(), UpdateError> {
    let folder = layout.unpacked();
    let manifest = package::unpack(package, &folder)?;
    let manifest = manifest.ok_or_else(|| {
        UpdateError::Damaged(package.to_path_buf(), "its manifest has no list of boards".to_string())
    })?;
    let (program, board) = (folder.join("usr/bin/ganglion"), layout.board());
    let ran = command::run(&program, &["check".as_ref(), board.as_ref(), "--json".as_ref()], SHORT)?;
    if !ran.ok() {
        return Err(UpdateError::BoardRefused(ran.error_output()));
    }
    let robot = built_on(&ran.out);
    same_board(robot, manifest)
}

fn same_board(robot: Vec<String>, manifest: Manifest) -> Result<(), UpdateError> {
    // If the board file inherits no built-in board, there is nothing to compare: it has passed `check`.
    match robot.is_empty() || robot.iter().any(|board| manifest.boards.contains(board)) {
        true => Ok(()),
        false => Err(UpdateError::OtherBoard { robot, package: manifest.boards }),
    }
}

/// The built-in boards from which a board takes values, according to the origins that `check` prints.
fn built_on(checked: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Checked {
        settings: Vec<Setting>,
    }
    #[derive(Deserialize)]
    struct Setting {
        origin: String,
    }
    let checked: Option<Checked> = checked.lines().last().and_then(|line| serde_json::from_str(line).ok());
    let origins = checked.into_iter().flat_map(|checked| checked.settings).map(|one| one.origin);
    let mut boards: Vec<String> = origins
        .filter_map(|origin| Some(origin.strip_prefix("built-in/")?.split_once(".toml")?.0.to_string()))
        .collect();
    boards.sort();
    boards.dedup();
    boards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_identified_by_the_boards_it_inherits() {
        let checked = "warning\n{\"settings\":[{\"origin\":\"built-in/sim.toml:6\"},{\"origin\":\"board.toml:1\"},\
                       {\"origin\":\"built-in/picarx-v4.toml:9\"},{\"origin\":\"built-in/sim.toml:8\"}]}";
        let robot = built_on(checked);
        assert_eq!(robot, ["picarx-v4", "sim"]);
        let package = |board: &str| Manifest { boards: vec![board.to_string()] };
        assert!(same_board(robot.clone(), package("picarx-v4")).is_ok());
        assert!(matches!(same_board(robot, package("jetson-orin-nx")), Err(UpdateError::OtherBoard { .. })));
        assert!(same_board(Vec::new(), package("jetson-orin-nx")).is_ok(), "no built-in board");
        assert!(built_on("no JSON").is_empty());
    }
}
