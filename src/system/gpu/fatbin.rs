//! The file of machine code that may come with the program: refused unless it is whole, was built from the
//! same sources as the PTX, and only root or this process's own user could have written it.
//!
//! The driver loads the file unchecked. It gets an address and no length, so it would read past the end of a
//! truncated file; and kernels from other sources may expect other tables. So the file ends, after the fatbin
//! itself, with the first line of the PTX that it was built with.

use super::mark::MarkFile;
use rustix::fs::{Mode, OFlags, fstat, open};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// First word of a fatbin's data (`FATBINC_MAGIC` of NVIDIA's fatbinary_section.h is that of its wrapper).
/// Then follow the version (u16), the size of the header in bytes (u16), and that of everything after it
/// (u64).
const MAGIC: u32 = 0xBA55_ED50;
const HEADER: usize = 16;
/// Longest file. The kernels for one chip take a megabyte, those for ten chips take ten; the rest is room to
/// grow.
const MOST_BYTES: u64 = 64 << 20;
/// Write permission for the group and for others.
const OTHERS_WRITE: u32 = 0o022;

/// Why a file was refused.
#[derive(Debug)]
pub(super) enum Unfit {
    /// It cannot be read.
    Io(io::Error),
    /// A directory, a device or a pipe.
    NoFile,
    /// Neither root nor this process's user owns it.
    Owner(u32),
    /// Its mode lets others write it.
    Writable(u32),
    /// It is longer than the limit.
    TooLong,
    /// It does not begin like a fatbin.
    NoFatbin,
    /// It ends too early, or is empty.
    CutOff,
    /// It does not end with the first line of the PTX.
    OtherSources,
    /// A process ended while it loaded this file, and left this mark.
    Crashed(PathBuf),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Io(error) => error.fmt(f),
            Unfit::NoFile => f.write_str("not a regular file"),
            Unfit::Owner(uid) => {
                write!(f, "it belongs to user {uid}, who is neither root nor the user running this program")
            }
            Unfit::Writable(mode) => write!(f, "other users may write it (mode {mode:03o}): chmod go-w"),
            Unfit::TooLong => write!(f, "longer than {MOST_BYTES} bytes"),
            Unfit::NoFatbin => f.write_str("not a fatbin"),
            Unfit::CutOff => f.write_str("truncated"),
            Unfit::OtherSources => f.write_str("built from other sources than this program's kernels"),
            Unfit::Crashed(mark) => {
                write!(
                    f,
                    "a process ended while it loaded this file (remove {} to try again)",
                    mark.display()
                )
            }
        }
    }
}

/// Reads the file and, if `marks` is given, leaves a mark in that folder; the caller holds the mark while the
/// driver loads the file.
pub(super) fn read(
    path: &Path,
    ptx: &str,
    marks: Option<&Path>,
) -> Result<(Vec<u8>, Option<MarkFile>), Unfit> {
    let bytes = read_trusted(path)?;
    check(&bytes, ptx)?;
    let mark = marks.map(|folder| leave_mark(&bytes, folder)).transpose()?;
    Ok((bytes, mark))
}

/// Leaves a mark for exactly these bytes, so that another file may still be loaded.
fn leave_mark(bytes: &[u8], folder: &Path) -> Result<MarkFile, Unfit> {
    // An error is ignored: the folder may exist already. If it cannot be created, there is no mark.
    let _ = std::fs::create_dir_all(folder);
    let at = folder.join(format!("fatbin-{}.loading", blake3::hash(bytes).to_hex()));
    MarkFile::leave(&at).ok_or(Unfit::Crashed(at))
}

/// The file's bytes. The checks apply to the opened file, even if another file takes its name in between.
fn read_trusted(path: &Path) -> Result<Vec<u8>, Unfit> {
    // `NONBLOCK`: opening a pipe that has no writer would otherwise block.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = open(path, flags, Mode::empty()).map_err(|error| Unfit::Io(error.into()))?;
    let found = fstat(&file).map_err(|error| Unfit::Io(error.into()))?;
    if found.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err(Unfit::NoFile);
    }
    let own = rustix::process::geteuid().as_raw();
    trust(found.st_uid, found.st_mode & 0o777, own)?;
    let mut bytes = Vec::new();
    File::from(file).take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(Unfit::Io)?;
    if bytes.len() as u64 > MOST_BYTES { Err(Unfit::TooLong) } else { Ok(bytes) }
}

fn trust(owner: u32, mode: u32, own: u32) -> Result<(), Unfit> {
    match () {
        () if owner != own && owner != 0 => Err(Unfit::Owner(owner)),
        () if mode & OTHERS_WRITE != 0 => Err(Unfit::Writable(mode)),
        () => Ok(()),
    }
}

fn check(bytes: &[u8], ptx: &str) -> Result<(), Unfit> {
    let header = bytes.first_chunk::<HEADER>().ok_or(Unfit::NoFatbin)?;
    let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    if header[..4] != MAGIC.to_le_bytes() || usize::from(word(6)) < HEADER {
        return Err(Unfit::NoFatbin);
    }
    let follow = u64::from_le_bytes(std::array::from_fn(|i| header[8 + i]));
    if follow == 0 {
        return Err(Unfit::CutOff);
    }
    let end = usize::try_from(follow).ok().and_then(|follow| follow.checked_add(word(6).into()));
    let rest = end.and_then(|end| bytes.get(end..)).ok_or(Unfit::CutOff)?;
    let stamp = ptx.lines().next().unwrap_or_default();
    if rest.trim_ascii() == stamp.as_bytes() { Ok(()) } else { Err(Unfit::OtherSources) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const PTX: &str = "// sources BLAKE3 0123\n.version 8.0\n";

    fn fatbin(follow: usize) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((follow as u64).to_le_bytes());
        bytes.resize(HEADER + follow, 7);
        bytes
    }

    #[test]
    fn a_complete_fatbin_of_the_same_sources_is_accepted() {
        let bytes = [fatbin(100), b"// sources BLAKE3 0123\n".to_vec()].concat();
        assert!(check(&bytes, PTX).is_ok());
    }

    #[test]
    fn a_fatbin_of_other_sources_or_without_a_stamp_is_refused() {
        for stamp in ["", "// sources BLAKE3 0124\n"] {
            let bytes = [fatbin(100), stamp.as_bytes().to_vec()].concat();
            assert!(matches!(check(&bytes, PTX), Err(Unfit::OtherSources)), "{stamp}");
        }
    }

    #[test]
    fn a_fatbin_that_killed_a_process_is_not_loaded_again() {
        let folder = std::env::temp_dir().join(format!("ganglion-fatbin-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let mark = leave_mark(b"bytes", &folder).unwrap();
        let path = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        drop(mark);
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        for _ in 0..2 {
            assert!(matches!(leave_mark(b"bytes", &folder), Err(Unfit::Crashed(mark)) if mark == path));
        }
        assert!(leave_mark(b"other bytes", &folder).is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_truncated_fatbin_is_refused() {
        let whole = fatbin(100);
        for length in 0..whole.len() {
            let said = check(&whole[..length], PTX);
            assert!(matches!(said, Err(Unfit::CutOff | Unfit::NoFatbin)), "{length}: {said:?}");
        }
        let nothing = [fatbin(0), b"// sources BLAKE3 0123\n".to_vec()].concat();
        assert!(matches!(check(&nothing, PTX), Err(Unfit::CutOff)));
        let mut endless = fatbin(100);
        endless[8..16].fill(0xFF);
        assert!(matches!(check(&endless, PTX), Err(Unfit::CutOff)));
        assert!(matches!(check(b"\x7fELF and so on and on", PTX), Err(Unfit::NoFatbin)));
    }

    #[test]
    fn only_files_writable_by_root_or_our_user_alone_are_trusted() {
        for (owner, mode, own, trusts) in [
            (1000, 0o644, 1000, true),
            (0, 0o755, 1000, true),
            (0, 0o600, 0, true),
            (1001, 0o600, 1000, false),
            (1000, 0o600, 0, false),
            (1000, 0o664, 1000, false),
            (0, 0o646, 1000, false),
        ] {
            assert_eq!(trust(owner, mode, own).is_ok(), trusts, "{owner} {mode:o} {own}");
        }
    }

    #[test]
    fn special_oversized_and_shared_files_are_not_read() {
        let folder = std::env::temp_dir().join(format!("ganglion-fatbin-file-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        fs::write(at("file"), "code").unwrap();
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o644)).unwrap();
        symlink(at("file"), at("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::RUSR).unwrap();
        assert_eq!(read_trusted(&at("file")).unwrap(), b"code");
        assert_eq!(read_trusted(&at("link")).unwrap(), b"code");
        assert!(matches!(read_trusted(&at("pipe")), Err(Unfit::NoFile)));
        assert!(matches!(read_trusted(&folder), Err(Unfit::NoFile)));
        assert!(matches!(read_trusted(Path::new("/dev/zero")), Err(Unfit::NoFile)));
        assert!(matches!(read_trusted(&at("none")), Err(Unfit::Io(_))));
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o646)).unwrap();
        assert!(matches!(read_trusted(&at("link")), Err(Unfit::Writable(0o646))));
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o600)).unwrap();
        File::options().write(true).open(at("file")).unwrap().set_len(MOST_BYTES + 1).unwrap();
        assert!(matches!(read_trusted(&at("file")), Err(Unfit::TooLong)));
        fs::remove_dir_all(&folder).unwrap();
    }
}
