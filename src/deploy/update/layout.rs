//! Where everything is. The root is `/`; tests have another one.

use std::path::{Path, PathBuf};

/// The places of an update, under one root.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Under `root`.
    pub fn new(root: &Path) -> Layout {
        Layout { root: root.to_path_buf() }
    }
    /// Whether this is the machine itself.
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
    /// What an update remembers; root's.
    pub fn state(&self) -> PathBuf {
        self.at("var/lib/ganglion-update")
    }
    /// The kept packages.
    pub fn packages(&self) -> PathBuf {
        self.state().join("packages")
    }
    /// The kept package of `version`, which is safe in a file name.
    pub fn package(&self, version: &str) -> PathBuf {
        self.packages().join(format!("ganglion_{version}.deb"))
    }
    /// What the next trial will install.
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
    /// One line for each thing that happened.
    pub fn history(&self) -> PathBuf {
        self.state().join("history")
    }
    /// Ends of the installed version, as far as they count.
    pub fn deaths(&self) -> PathBuf {
        self.state().join("deaths")
    }
    /// A copy of the proven program.
    pub fn rescue(&self) -> PathBuf {
        self.state().join("rescue")
    }
    /// Space that is kept for going back on a full disk.
    pub fn reserve(&self) -> PathBuf {
        self.state().join("reserve")
    }
    /// Where a package is unpacked to look at it.
    pub fn unpacked(&self) -> PathBuf {
        self.state().join("unpacked")
    }
    /// Locked while an update is in progress. A reboot removes it: so it also tells a boot from a start in
    /// the middle of a trial.
    pub fn lock(&self) -> PathBuf {
        self.at("run/ganglion-update.lock")
    }
    /// While it exists, no robot arms by itself. The runtime removes it when a person arms.
    pub fn hold(&self) -> PathBuf {
        self.at("var/lib/ganglion/hold")
    }
    /// Keys whose signatures this robot accepts; ssh-keygen's format.
    pub fn signers(&self) -> PathBuf {
        self.at("etc/ganglion/allowed_signers")
    }
    /// Keys that it no longer accepts.
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
    /// Units of the administrator, which come before those of packages.
    pub fn units(&self) -> PathBuf {
        self.at("etc/systemd/system")
    }
}
