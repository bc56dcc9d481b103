//! Replacing files: what is in the way, what is kept of the old file, what is left behind.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ganglion-replace-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }
    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().to_string()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// The name that this process would have given a new file before names were random.
fn foreseeable() -> String {
    format!("thing.{}.new", std::process::id())
}

#[test]
fn a_planted_symbolic_link_is_not_followed() {
    let folder = Folder::new("link");
    fs::write(folder.at("victim"), "not yours").unwrap();
    symlink(folder.at("victim"), folder.at(&foreseeable())).unwrap();
    replace(&folder.at("thing"), b"new").unwrap();
    assert_eq!(fs::read(folder.at("victim")).unwrap(), b"not yours");
    assert!(fs::symlink_metadata(folder.at("thing")).unwrap().is_file());
    assert_eq!(fs::read(folder.at("thing")).unwrap(), b"new");
}

#[test]
fn a_planted_file_is_not_taken_over() {
    let folder = Folder::new("file");
    fs::write(folder.at(&foreseeable()), "bait").unwrap();
    fs::set_permissions(folder.at(&foreseeable()), fs::Permissions::from_mode(0o777)).unwrap();
    let bait = fs::metadata(folder.at(&foreseeable())).unwrap().ino();
    let held = File::open(folder.at(&foreseeable())).unwrap(); // so that its inode is not reused
    replace(&folder.at("thing"), b"new").unwrap();
    assert_ne!(fs::metadata(folder.at("thing")).unwrap().ino(), bait);
    assert_eq!(mode(&folder.at("thing")) & 0o111, 0);
    drop(held);
}

#[test]
fn an_existing_name_is_refused_for_a_new_file() {
    let folder = Folder::new("excl");
    fs::write(folder.at("a"), "a").unwrap();
    symlink(folder.at("nowhere"), folder.at("b")).unwrap();
    let opened = open(&folder.0, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for name in ["a", "b"] {
        let error = Fresh::create(&opened, name.into(), NEW_MODE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{name}");
    }
    assert_eq!(folder.names(), ["a", "b"], "existing files stay");
    let place = folder.at("thing");
    let place = Destination::of(&place).unwrap();
    assert_ne!(place.fresh_name(), place.fresh_name(), "no name is used twice");
}

#[test]
fn the_old_files_mode_and_owner_are_kept() {
    let folder = Folder::new("mode");
    let path = folder.at("thing");
    for kept in [0o600, 0o640, 0o644, 0o664] {
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(kept)).unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(mode(&path), kept, "{kept:o}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4750)).unwrap();
    replace(&path, b"new").unwrap();
    assert_eq!(mode(&path), 0o640, "our files are never executable");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(4711), Some(4712)).unwrap();
        replace(&path, b"new").unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid(), mode(&path)), (4711, 4712, 0o640));
    }
}

#[test]
fn a_link_at_the_path_is_replaced_but_no_other_file_type() {
    let folder = Folder::new("place");
    fs::write(folder.at("victim"), "not yours").unwrap();
    symlink(folder.at("victim"), folder.at("thing")).unwrap();
    replace(&folder.at("thing"), b"new").unwrap();
    assert_eq!(fs::read(folder.at("victim")).unwrap(), b"not yours");
    assert!(fs::symlink_metadata(folder.at("thing")).unwrap().is_file());
    rustix::fs::mkfifoat(CWD, folder.at("pipe"), Mode::RUSR).unwrap();
    assert!(replace(&folder.at("pipe"), b"new").is_err());
    assert!(replace(&folder.0, b"new").is_err());
    assert_eq!(folder.names(), ["pipe", "thing", "victim"], "nothing is left beside it");
}

#[test]
fn a_failed_rename_leaves_no_file() {
    let folder = Folder::new("failure");
    fs::create_dir_all(folder.at("kept/full")).unwrap();
    fs::write(folder.at("thing"), "old").unwrap();
    // A folder already has the name meant for the old file: the new file is complete, and must be removed
    // again.
    assert!(replace_and_keep(&folder.at("thing"), b"new", OsStr::new("kept")).is_err());
    assert_eq!(folder.names(), ["kept", "thing"]);
    assert_eq!(fs::read(folder.at("thing")).unwrap(), b"old");
}

#[test]
fn the_previous_file_is_kept_on_request() {
    let folder = Folder::new("keep");
    for (content, before) in [("1", None), ("2", Some("1")), ("3", Some("2"))] {
        replace_and_keep(&folder.at("thing"), content.as_bytes(), OsStr::new("before")).unwrap();
        assert_eq!(fs::read_to_string(folder.at("thing")).unwrap(), content);
        assert_eq!(fs::read_to_string(folder.at("before")).ok().as_deref(), before);
    }
    assert_eq!(folder.names(), ["before", "thing"]);
}

/// A process killed after linking the old file to its second name leaves one file with two names. Renaming
/// one of them to the other does nothing (POSIX, rename), so a third name would stay for as long as this
/// process lives.
#[test]
fn an_existing_second_name_leaves_no_extra_file() {
    let folder = Folder::new("third");
    fs::write(folder.at("thing"), "old").unwrap();
    fs::hard_link(folder.at("thing"), folder.at("thing.previous")).unwrap();
    replace_and_keep(&folder.at("thing"), b"new", OsStr::new("thing.previous")).unwrap();
    assert_eq!(folder.names(), ["thing", "thing.previous"]);
    assert_eq!(fs::read(folder.at("thing")).unwrap(), b"new");
    assert_eq!(fs::read(folder.at("thing.previous")).unwrap(), b"old");
}

#[test]
fn leftovers_of_dead_writers_are_removed_but_not_of_live_ones() {
    let folder = Folder::new("sweep");
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let (dead, own, numbers) = (child.id(), std::process::id(), "0123456789abcdef".repeat(2));
    let living = format!("thing.{own}.{:016x}{:016x}.new", this_process(), 1);
    for gone in [
        format!("thing.{dead}.new"),
        format!("thing.{dead}.{numbers}.new"),
        format!("thing.{own}.{numbers}.new"), // of an earlier process that had our PID
    ] {
        fs::write(folder.at(&gone), "").unwrap();
    }
    let stays = [
        living,
        format!("thing.1.{numbers}.new"),
        format!("thing.{dead}.notes.new"),
        format!("thing.{dead}.toml"),
        format!("other.{dead}.new"),
    ];
    for name in &stays {
        fs::write(folder.at(name), "").unwrap();
    }
    replace(&folder.at("thing"), b"new").unwrap();
    let mut wanted: Vec<String> = stays.into_iter().chain(["thing".to_string()]).collect();
    wanted.sort();
    assert_eq!(folder.names(), wanted);
}

#[test]
fn a_link_replaces_a_file_and_is_removed_again() {
    let folder = Folder::new("relink");
    fs::write(folder.at("victim"), "not yours").unwrap();
    fs::write(folder.at("thing"), "old").unwrap();
    replace_with_link(&folder.at("thing"), &folder.at("victim")).unwrap();
    assert_eq!(fs::read_link(folder.at("thing")).unwrap(), folder.at("victim"));
    replace_with_link(&folder.at("thing"), Path::new("elsewhere")).unwrap();
    assert_eq!(fs::read_link(folder.at("thing")).unwrap(), Path::new("elsewhere"));
    remove(&folder.at("thing")).unwrap();
    remove(&folder.at("thing")).unwrap();
    assert_eq!(folder.names(), ["victim"], "nothing is left beside it");
    assert_eq!(fs::read_to_string(folder.at("victim")).unwrap(), "not yours");
}
