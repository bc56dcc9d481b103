//! Files with machine code, which the driver loads unchecked: read only if no user other than root and this
//! process's own could have written them, and only up to a maximum length.

use rustix::fs::{Mode, OFlags, fstat, open};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Longest file. The kernels for one chip are a megabyte, those for ten in one fatbin ten; the rest is room
/// to grow.
pub(super) const MOST_BYTES: u64 = 64 << 20;
/// Write permission of the group and of all others.
const OTHERS_WRITE: u32 = 0o022;

/// Whether a link may replace the file. Its target is checked in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// As packages lay them.
    Followed,
    /// We lay none.
    Refused,
}

/// Why a file was not taken.
#[derive(Debug)]
pub(super) enum Distrust {
    /// It cannot be read.
    Io(io::Error),
    /// A directory, a device, a pipe, or a link where none belongs.
    NoFile,
    /// Neither root nor this process's user owns it.
    Owner(u32),
    /// Its mode lets others write it.
    Writable(u32),
    /// It is longer than any of ours.
    TooLong,
}

impl Distrust {
    /// Whether there is nothing.
    pub(super) fn is_absence(&self) -> bool {
        matches!(self, Distrust::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distrust::Io(error) => error.fmt(f),
            Distrust::NoFile => f.write_str("not a regular file"),
            Distrust::Owner(uid) => {
                write!(f, "it belongs to user {uid}, who is neither root nor the user running this program")
            }
            Distrust::Writable(mode) => write!(f, "other users may write it (mode {mode:03o}): chmod go-w"),
            Distrust::TooLong => write!(f, "longer than {MOST_BYTES} bytes"),
        }
    }
}

/// The file's bytes. The checks apply to the opened file, whatever replaces its name in between.
pub(super) fn read(path: &Path, links: Links) -> Result<Vec<u8>, Distrust> {
    let follow = if links == Links::Refused { OFlags::NOFOLLOW } else { OFlags::empty() };
    // A pipe without a writer would block the start.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | follow;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(rustix::io::Errno::LOOP) => return Err(Distrust::NoFile),
        Err(error) => return Err(Distrust::Io(error.into())),
    };
    let found = fstat(&file).map_err(|error| Distrust::Io(error.into()))?;
    if found.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err(Distrust::NoFile);
    }
    let own = rustix::process::geteuid().as_raw();
    trusted(found.st_uid, found.st_mode & 0o777, own)?;
    let mut bytes = Vec::new();
    File::from(file).take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(Distrust::Io)?;
    if bytes.len() as u64 > MOST_BYTES { Err(Distrust::TooLong) } else { Ok(bytes) }
}

fn trusted(owner: u32, mode: u32, own: u32) -> Result<(), Distrust> {
    match () {
        () if owner != own && owner != 0 => Err(Distrust::Owner(owner)),
        () if mode & OTHERS_WRITE != 0 => Err(Distrust::Writable(mode)),
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_files_that_root_or_our_own_user_alone_may_write_are_trusted() {
        for (owner, mode, own, trusts) in [
            (1000, 0o644, 1000, true),
            (0, 0o755, 1000, true),
            (0, 0o600, 0, true),
            (1001, 0o600, 1000, false),
            (1000, 0o600, 0, false),
            (1000, 0o664, 1000, false),
            (0, 0o646, 1000, false),
        ] {
            assert_eq!(trusted(owner, mode, own).is_ok(), trusts, "{owner} {mode:o} {own}");
        }
    }

    #[test]
    fn what_is_no_file_or_written_by_others_or_endless_is_not_read() {
        let folder = std::env::temp_dir().join(format!("ganglion-trusted-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        fs::write(at("file"), "code").unwrap();
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o644)).unwrap();
        symlink(at("file"), at("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::RUSR).unwrap();
        assert_eq!(read(&at("file"), Links::Refused).unwrap(), b"code");
        assert_eq!(read(&at("link"), Links::Followed).unwrap(), b"code");
        assert!(matches!(read(&at("link"), Links::Refused), Err(Distrust::NoFile)));
        assert!(matches!(read(&at("pipe"), Links::Followed), Err(Distrust::NoFile)));
        assert!(matches!(read(&folder, Links::Followed), Err(Distrust::NoFile)));
        assert!(matches!(read(Path::new("/dev/zero"), Links::Followed), Err(Distrust::NoFile)));
        assert!(read(&at("none"), Links::Followed).unwrap_err().is_absence());
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o646)).unwrap();
        assert!(matches!(read(&at("link"), Links::Followed), Err(Distrust::Writable(0o646))));
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o600)).unwrap();
        File::options().write(true).open(at("file")).unwrap().set_len(MOST_BYTES + 1).unwrap();
        assert!(matches!(read(&at("file"), Links::Refused), Err(Distrust::TooLong)));
        fs::remove_dir_all(&folder).unwrap();
    }
}
