//! Caches the driver's compiled machine code between runs: one file for each text, chip and driver. The cache
//! discards a file that is incomplete, that another user could have written, or that ended a process while
//! loading. If the folder is not writable, each start compiles the kernels again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use serde::{Deserialize, Serialize};

use super::elf;
use super::mark::{self, Begun};
use super::probe::Found;
use super::trusted::{self, Distrust, Links};
use crate::codec::{self, Kind};

const KIND: Kind = Kind { tag: *b"CUBN", name: "compiled kernels", version: 1 };

#[derive(Serialize, Deserialize)]
struct Content {
    /// As in the file's name, so that a renamed file is not taken for another.
    key: [u8; 32],
    cubin: Vec<u8>,
}

/// The place of one compiled image.
pub(super) struct Kept {
    key: [u8; 32],
    path: PathBuf,
}

impl Kept {
    pub(super) fn new(folder: &Path, ptx: &str, found: &Found) -> Kept {
        let mut hasher = blake3::Hasher::new();
        for number in [found.capability.0, found.capability.1, found.driver.0, found.driver.1] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(ptx.as_bytes());
        let key = hasher.finalize();
        Kept { key: *key.as_bytes(), path: folder.join(format!("{}.cubin", key.to_hex())) }
    }

    /// The kept kernels. Removes a file that is not whole, or that other users can have written.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        let bytes = match trusted::read(&self.path, Links::Refused) {
            Ok(bytes) => bytes,
            Err(why) if why.is_absence() => return None,
            Err(why @ Distrust::Io(_)) => {
                log::warn!("{}: {why}", self.path.display());
                return None;
            }
            Err(why) => {
                self.discard(&why);
                return None;
            }
        };
        match codec::decode::<Content>(KIND, &bytes) {
            Ok(content) if content.key != self.key => self.discard(&"of another image"),
            Ok(content) => match elf::check(&content.cubin) {
                Ok(()) => return Some(content.cubin),
                Err(flaw) => self.discard(&flaw),
            },
            Err(error) => self.discard(&error),
        }
        None
    }

    /// Call it before loading the kept kernels: leaves a mark until they are loaded. `None`: a process ended
    /// while it loaded them. Then this removes them, and nothing is known against their replacement.
    pub(super) fn begin(&self) -> Option<Begun> {
        let at = self.path.with_extension("loading");
        match mark::begin(&at) {
            marked @ Begun::Marked(_) => Some(marked),
            Begun::Broke => {
                self.discard(&"a process ended while it was loaded");
                mark::clear(&at);
                None
            }
        }
    }

    /// Throws the file away.
    pub(super) fn discard(&self, why: &dyn fmt::Display) {
        log::warn!("{}: discarded: {why}", self.path.display());
        // If it cannot be removed, writing it again cannot work either, and reports it.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Keeps it for the next time, whole or not at all. Logs a failure once in the life of the program.
    pub(super) fn write(&self, cubin: &[u8]) {
        static SAID: Once = Once::new();
        if let Err(flaw) = elf::check(cubin) {
            // Each start would remove it.
            SAID.call_once(|| {
                log::warn!("cannot cache compiled kernels, each start compiles them again: {flaw}")
            });
            return;
        }
        let content = Content { key: self.key, cubin: cubin.to_vec() };
        // The folder may be there, or its parent may not be ours: saving will show.
        let _ = self.path.parent().map(std::fs::create_dir_all);
        if let Err(error) = codec::save(&self.path, KIND, &content) {
            SAID.call_once(|| {
                log::warn!("cannot cache compiled kernels, each start compiles them again: {error}");
            });
        }
    }
}

/// Where compiled kernels are kept: the folder that systemd gives a service (`CacheDirectory=`), else the
/// user's cache; none if the environment names neither.
pub fn cache_folder() -> Option<PathBuf> {
    folder_in(|name| std::env::var_os(name).map(PathBuf::from))
}

fn folder_in(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    // systemd parts several folders by colons. Relative paths are to be ignored (XDG Base Directory
    // Specification, 0.8).
    let first = |path: PathBuf| path.to_str().and_then(|text| text.split(':').next()).map(PathBuf::from);
    let of = |name: &str| variable(name).filter(|path| path.is_absolute());
    of("CACHE_DIRECTORY")
        .and_then(first)
        .or_else(|| of("XDG_CACHE_HOME").map(|path| path.join("ganglion")))
        .or_else(|| of("HOME").map(|path| path.join(".cache").join("ganglion")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::elf::tests::with_section;
    use std::os::unix::fs::PermissionsExt;

    fn found() -> Found {
        Found {
            name: "a chip".into(),
            ordinal: 0,
            capability: (8, 7),
            driver: (12, 6),
            multiprocessors: 8,
            l2_bytes: 1 << 20,
            memory_bytes: 1 << 33,
            integrated: true,
            clock_khz: 1_000_000,
        }
    }

    /// A folder of its own; gone when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("ganglion-cache-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_kept_comes_back_for_the_same_text_chip_and_driver_only() {
        let folder = Folder::new("same");
        let code = with_section(b"code");
        Kept::new(&folder.0, "text", &found()).write(&code);
        let read = |ptx: &str, found: &Found| Kept::new(&folder.0, ptx, found).read();
        assert_eq!(read("text", &found()), Some(code));
        assert_eq!(read("other text", &found()), None);
        assert_eq!(read("text", &Found { capability: (9, 0), ..found() }), None);
        assert_eq!(read("text", &Found { driver: (12, 9), ..found() }), None);
        let twin = Found { name: "the same chip, other words".into(), ..found() };
        assert!(read("text", &twin).is_some());
    }

    #[test]
    fn a_damaged_or_renamed_file_is_thrown_away() {
        let folder = Folder::new("damaged");
        let (kept, other) = (Kept::new(&folder.0, "a", &found()), Kept::new(&folder.0, "b", &found()));
        kept.write(&with_section(b"code of a"));
        let whole = std::fs::read(&kept.path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&kept.path, bytes).unwrap();
            assert_eq!(kept.read(), None, "byte {at}");
            assert!(!kept.path.exists(), "byte {at}");
        }
        std::fs::write(&kept.path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!((kept.read(), kept.path.exists()), (None, false));
        std::fs::write(&other.path, whole).unwrap();
        assert_eq!((other.read(), other.path.exists()), (None, false));
    }

    #[test]
    fn a_whole_file_around_no_code_or_half_of_it_is_thrown_away() {
        let folder = Folder::new("no-code");
        let kept = Kept::new(&folder.0, "a", &found());
        let code = with_section(b"code of a");
        for cubin in [&b""[..], b"text", &code[..code.len() - 1]] {
            kept.write(cubin);
            assert!(!kept.path.exists(), "it is not kept in the first place");
            let content = Content { key: kept.key, cubin: cubin.to_vec() };
            std::fs::create_dir_all(&folder.0).unwrap();
            codec::save(&kept.path, KIND, &content).unwrap();
            assert_eq!((kept.read(), kept.path.exists()), (None, false), "{} bytes", cubin.len());
        }
    }

    #[test]
    fn what_others_can_have_written_is_thrown_away_and_a_link_is_not_followed() {
        let folder = Folder::new("others");
        let kept = Kept::new(&folder.0, "a", &found());
        let code = with_section(b"code of a");
        kept.write(&code);
        std::fs::set_permissions(&kept.path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!((kept.read(), kept.path.exists()), (None, false));
        kept.write(&code);
        let elsewhere = folder.0.join("elsewhere");
        std::fs::rename(&kept.path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &kept.path).unwrap();
        assert_eq!((kept.read(), kept.path.exists(), elsewhere.exists()), (None, false, true));
        kept.write(&code);
        assert_eq!(kept.read(), Some(code), "and what takes its place is good");
    }

    #[test]
    fn what_a_process_ended_in_is_thrown_away_once() {
        let folder = Folder::new("broke");
        let kept = Kept::new(&folder.0, "a", &found());
        let code = with_section(b"code of a");
        kept.write(&code);
        let mark = kept.path.with_extension("loading");
        let begun = kept.begin();
        assert!(begun.is_some() && mark.exists());
        drop(begun);
        assert!(!mark.exists() && kept.path.exists());
        std::fs::write(&mark, "").unwrap(); // as a process leaves it that ends in the middle
        assert!(kept.begin().is_none());
        assert!(!kept.path.exists() && !mark.exists());
        kept.write(&code);
        assert!(kept.begin().is_some() && kept.path.exists());
    }

    #[test]
    fn a_folder_that_cannot_be_is_no_obstacle() {
        let folder = Folder::new("file");
        std::fs::write(&folder.0, "a file where a folder should be").unwrap();
        let kept = Kept::new(&folder.0, "a", &found());
        kept.write(&with_section(b"code"));
        assert_eq!(kept.read(), None);
        let _ = std::fs::remove_file(&folder.0);
    }

    #[test]
    fn the_folder_is_the_services_else_the_users() {
        let folder = |given: &[(&str, &str)]| {
            let given: Vec<(String, PathBuf)> =
                given.iter().map(|(name, path)| (name.to_string(), PathBuf::from(path))).collect();
            let found = folder_in(|name| given.iter().find(|(n, _)| n == name).map(|(_, path)| path.clone()));
            found.map(|path| path.display().to_string())
        };
        let home = ("HOME", "/home/me");
        assert_eq!(folder(&[home]).as_deref(), Some("/home/me/.cache/ganglion"));
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", "/c")]).as_deref(), Some("/c/ganglion"));
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", "c")]).as_deref(), Some("/home/me/.cache/ganglion"));
        let service = ("CACHE_DIRECTORY", "/var/cache/ganglion:/var/cache/other");
        assert_eq!(folder(&[home, service]).as_deref(), Some("/var/cache/ganglion"));
        assert_eq!(folder(&[]), None);
    }
}
