//! The paths of an update. The root is `/`; tests use another one.

use std::path::{Path, PathBuf};

/// The paths of an update under one root.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout under `root`.
    pub fn new(root: &Path) -> Layout {
        Layout { root: root.to_path_buf() }
    }
    /// Whether this is the real machine.
    pub fn is_real(&self) -> bool {
        self.root == Path::new("/")
    }
    /// The root itself.
    pub fn root(&self) -> &Path {
        &self.root
    }
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
    /// The folder of an update's state, writable by root only.
    pub fn state(&self) -> PathBuf {
        self.at("var/lib/ganglion-update")
    }
    /// The folder of kept packages.
    pub fn packages(&self) -> PathBuf {
        self.state().join("packages")
    }
    /// The kept package of `version`, which must be safe in a file name.
    pub fn package(&self, version: &str) -> PathBuf {
        self.packages().join(format!("ganglion_{version}.deb"))
    }
    /// The record of the package that the next trial installs.
    pub fn staged(&self) -> PathBuf {
        self.state().join("staged")
    }
    /// Exists while an update is unfinished.
    pub fn marker(&self) -> PathBuf {
        self.state().join("trial")
    }
    /// The marker of the last update that ended.
    pub fn last(&self) -> PathBuf {
        self.state().join("last")
    }
    /// One line per event.
    pub fn history(&self) -> PathBuf {
        self.state().join("history")
    }
    /// The record of early deaths of the installed version.
    pub fn deaths(&self) -> PathBuf {
        self.state().join("deaths")
    }
    /// A copy of the proven program.
    pub fn rescue(&self) -> PathBuf {
        self.state().join("rescue")
    }
    /// Disk space that is reserved for going back on a full disk.
    pub fn reserve(&self) -> PathBuf {
        self.state().join("reserve")
    }
    /// Folder into which a package is unpacked for inspection.
    pub fn unpacked(&self) -> PathBuf {
        self.state().join("unpacked")
    }
    /// Locked while an update is in progress. A reboot removes the file, so it also shows whether a service
    /// is started during a trial or at boot.
    pub fn lock(&self) -> PathBuf {
        self.at("run/ganglion-update.lock")
    }
    /// While this file exists, the robot does not arm by itself. The runtime removes it when a person arms
    /// the robot.
    pub fn hold(&self) -> PathBuf {
        self.at("var/lib/ganglion/hold")
    }
    /// Keys whose signatures this robot accepts, in ssh-keygen's format.
    pub fn signers(&self) -> PathBuf {
        self.at("etc/ganglion/allowed_signers")
    }
    /// Revoked keys.
    pub fn revoked(&self) -> PathBuf {
        self.at("etc/ganglion/revoked_signers")
    }
    /// The robot's board.
    pub fn board(&self) -> PathBuf {
        self.at("etc/ganglion/board.toml")
    }
    /// The installed program.
    pub fn program(&self) -> PathBuf {
        self.at("usr/bin/ganglion")
    }
    /// Where packages put most of their files.
    pub fn usr(&self) -> PathBuf {
        self.at("usr")
    }
    /// The administrator's units, which take precedence over those of packages.
    pub fn units(&self) -> PathBuf {
        self.at("etc/systemd/system")
    }
}
