//! Replaces a file completely or leaves it as it was, even if the power fails at any moment. If the
//! program overwrites a file that it or a user will read again, it always does so in this way.
//!
//! The new file is written beside the old one, under an unpredictable name that does not exist yet: an
//! existing file or link of that name is neither followed nor reused. The new file gets the old one's read
//! and write permissions and, if this process may change the owner, its owner.

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Stat, linkat, open, openat, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;
use std::sync::OnceLock;

/// Mode of a new file, before the process's umask: the files hold no secrets, and no other user may write
/// what this program will trust.
const NEW_MODE: u32 = 0o644;
/// The bits kept of an old file's mode: our files are never executed, and never setuid.
const KEPT_MODE: u32 = 0o666;
/// Names tried before giving up. Each is 64 random bits: a second try is practically never needed.
const TRIES: usize = 8;
/// Hex digits of each of the two random numbers in a name, the process's and the file's: 64 bits each.
const DIGITS: usize = 16;

/// Writes a new file beside the old one, syncs it to the disk, renames it over the old one, and syncs the
/// folder.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let place = Destination::of(path)?;
    let fresh = place.write(bytes)?;
    place.take_over(fresh)
}

/// Like [`replace`]; the old file, if there is one, stays under the name `kept` in the same folder. If `path`
/// existed before, it exists at all times.
pub fn replace_and_keep(path: &Path, bytes: &[u8], kept: &OsStr) -> io::Result<()> {
    let place = Destination::of(path)?;
    let fresh = place.write(bytes)?;
    if place.old.is_some() {
        place.keep_old(path, kept)?;
    }
    place.take_over(fresh)
}

/// Puts a symbolic link to `to` at `path`, in place of the file or link that is there, and syncs the folder.
/// If `path` existed before, it exists at all times.
pub fn replace_with_link(path: &Path, to: &Path) -> io::Result<()> {
    let place = Destination::of(path)?;
    let fresh = place.fresh_name();
    symlinkat(to, &place.folder, &fresh)?;
    if let Err(error) = renameat(&place.folder, &fresh, &place.folder, place.name) {
        let _ = unlinkat(&place.folder, &fresh, AtFlags::empty());
        return Err(error.into());
    }
    Ok(rustix::fs::fsync(&place.folder)?)
}

/// Renames a file that is on the disk already, over the file at `to` if there is one, and syncs the new
/// folder. Both are on one file system.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let place = Destination::of(to)?;
    renameat(CWD, from, &place.folder, place.name)?;
    Ok(rustix::fs::fsync(&place.folder)?)
}

/// Syncs an existing file or folder to the disk.
pub fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Removes the file or link at `path` and syncs the folder. A missing file or folder is not an error.
pub fn remove(path: &Path) -> io::Result<()> {
    let place = match Destination::of(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        place => place?,
    };
    match unlinkat(&place.folder, place.name, AtFlags::empty()) {
        Err(error) if error != Errno::NOENT => Err(error.into()),
        _ => Ok(rustix::fs::fsync(&place.folder)?),
    }
}

/// Where a file goes. The folder is opened once, so replacing the folder afterwards has no effect.
struct Destination<'p> {
    folder: OwnedFd,
    name: &'p OsStr,
    /// The existing file; also `None` for a symbolic link, which is replaced and not followed.
    old: Option<Stat>,
}

impl<'p> Destination<'p> {
    fn of(path: &'p Path) -> io::Result<Destination<'p>> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
        sweep(folder, name);
        let folder = open(folder, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let old = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(old) => match old.st_mode & libc::S_IFMT {
                libc::S_IFREG => Some(old),
                libc::S_IFLNK => None,
                _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
            },
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Destination { folder, name, old })
    }

    /// Writes the whole new file beside the old one and syncs it to the disk.
    fn write(&self, bytes: &[u8]) -> io::Result<Fresh<'_>> {
        // No other user may read it before it has the old file's owner.
        let mode = if self.old.is_some() { 0o600 } else { NEW_MODE };
        let mut fresh = self.begin(mode)?;
        if let Some(old) = &self.old {
            resemble(&fresh.file, old)?;
        }
        fresh.file.write_all(bytes)?;
        fresh.file.sync_all()?;
        Ok(fresh)
    }

    fn begin(&self, mode: u32) -> io::Result<Fresh<'_>> {
        let mut tried = Err(Errno::EXIST.into());
        for _ in 0..TRIES {
            tried = Fresh::create(&self.folder, self.fresh_name(), mode);
            if !matches!(&tried, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
                break;
            }
        }
        tried
    }

    /// `NAME.PID.NUMBERS.new`: the random number of this process, then a random number for this file.
    fn fresh_name(&self) -> OsString {
        let mut fresh = self.name.to_os_string();
        fresh.push(format!(".{}.{:016x}{:016x}.new", std::process::id(), this_process(), random()));
        fresh
    }

    /// Gives the old file a second name: a hard link, so that it keeps the first, or a copy where the file
    /// system or the owner does not allow a link.
    fn keep_old(&self, path: &Path, kept: &OsStr) -> io::Result<()> {
        let second = self.fresh_name();
        match linkat(&self.folder, self.name, &self.folder, &second, AtFlags::empty()) {
            Ok(()) => {
                let renamed = renameat(&self.folder, &second, &self.folder, kept);
                // `second` still exists if the rename failed, or if `kept` was already a name of the same
                // file, because then the rename did nothing.
                let _ = unlinkat(&self.folder, &second, AtFlags::empty());
                Ok(renamed?)
            }
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
                replace(&path.with_file_name(kept), &std::fs::read(path)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn take_over(&self, mut fresh: Fresh) -> io::Result<()> {
        renameat(&self.folder, &fresh.name, &self.folder, self.name)?;
        fresh.has_its_name = true;
        Ok(rustix::fs::fsync(&self.folder)?)
    }
}

/// A file that is being written; dropping it removes it unless it got its final name.
#[derive(Debug)]
struct Fresh<'f> {
    folder: &'f OwnedFd,
    name: OsString,
    file: File,
    has_its_name: bool,
}

impl<'f> Fresh<'f> {
    /// `EXCL`: fails if anything exists there, even a link.
    fn create(folder: &'f OwnedFd, name: OsString, mode: u32) -> io::Result<Fresh<'f>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(folder, &name, flags, Mode::from_raw_mode(mode))?;
        Ok(Fresh { folder, name, file: File::from(file), has_its_name: false })
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        if !self.has_its_name {
            // The old file is still in place; the unfinished one beside it is useless.
            let _ = unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Gives `file` the owner and the mode of `old`. If the old group cannot be set, the file keeps its own
/// group, which gets only the permissions of other users.
fn resemble(file: &File, old: &Stat) -> io::Result<()> {
    let mut mode = old.st_mode & KEPT_MODE;
    let (now, wanted) = (file.metadata()?, (old.st_uid, old.st_gid));
    if (now.uid(), now.gid()) != wanted {
        // Root may change the owner; the owner may change the group to another one that it belongs to.
        let given =
            fchown(file, Some(wanted.0), Some(wanted.1)).or_else(|_| fchown(file, None, Some(wanted.1)));
        if given.is_err() {
            let as_everybody = (mode & 0o007) << 3;
            mode = (mode & 0o707) | (mode & as_everybody);
        }
    }
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?)
}

/// A number that no other process can predict: the system's random source keys the standard hashers.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Distinguishes this process from all others that had its PID: in a container the PID is the same at each
/// start.
fn this_process() -> u64 {
    static NUMBER: OnceLock<u64> = OnceLock::new();
    *NUMBER.get_or_init(random)
}

/// Removes the files left by processes that were killed while writing `name`: `name.PID.NUMBERS.new`, if no
/// process has that PID, or if this process has that PID but a different number. Errors are ignored: nothing
/// depends on the removal.
fn sweep(folder: &Path, name: &OsStr) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_left_over(entry.file_name().as_encoded_bytes(), name.as_encoded_bytes()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_left_over(found: &[u8], name: &[u8]) -> bool {
    let Some(rest) = found.strip_prefix(name).and_then(|rest| rest.strip_prefix(b".")?.strip_suffix(b".new"))
    else {
        return false;
    };
    let Ok(rest) = std::str::from_utf8(rest) else { return false };
    // Older versions wrote no numbers.
    let (pid, numbers) = rest.split_once('.').unwrap_or((rest, ""));
    let of_ours = numbers.is_empty()
        || numbers.len() == 2 * DIGITS && numbers.bytes().all(|digit| digit.is_ascii_hexdigit());
    match pid.parse::<u32>() {
        Ok(pid) if of_ours && pid == std::process::id() => {
            !numbers.starts_with(&format!("{:016x}", this_process()))
        }
        Ok(pid) => of_ours && !Path::new("/proc").join(pid.to_string()).exists(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests;
