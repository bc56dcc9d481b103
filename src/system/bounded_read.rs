//! Reads files that the user names or that a search finds: checks the type and length of a file before
//! reading a byte of it. Only regular files are accepted, because a device may have no end, a FIFO blocks its
//! reader, and opening some devices has an effect (a watchdog starts).

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// An open file that may be read.
#[derive(Debug)]
pub struct BoundedFile {
    file: File,
    length: u64,
    mode: u32,
    most: u64,
}

impl BoundedFile {
    /// Opens the regular file at `path`, of at most `most` bytes.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, is not a regular file ([`ErrorKind::InvalidInput`]) or is longer than
    /// `most` bytes ([`ErrorKind::FileTooLarge`]).
    pub fn open(path: &Path, most: u64) -> io::Result<BoundedFile> {
        // Checked before opening, because opening a device can have an effect; and again afterwards, because
        // `path` may name another file by then.
        regular(&std::fs::metadata(path)?)?;
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let found = file.metadata()?;
        regular(&found)?;
        let length = found.len();
        if length > most {
            return Err(too_long(length, most));
        }
        Ok(BoundedFile { file, length, mode: found.mode() & 0o7777, most })
    }

    /// The file's stated length when it was opened. Files in `/proc` report 0.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The file itself, to be read piece by piece, up to the limit.
    pub fn stream(self) -> io::Take<File> {
        self.file.take(self.most)
    }

    /// Its permission bits, as `chmod` takes them.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Lowers the limit to the stated length: reading then fails if the file has grown.
    pub fn exactly(mut self) -> BoundedFile {
        self.most = self.length;
        self
    }

    /// Its first `count` bytes, or as many as there are.
    pub fn begin(&mut self, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&mut self.file).take(count).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads to the end and appends to `bytes`, which holds what was read before. Fails if both together
    /// exceed the limit.
    pub fn read_to_end(mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let left = self.most.saturating_sub(bytes.len() as u64);
        let expected = self.length.saturating_sub(bytes.len() as u64);
        bytes.reserve_exact(usize::try_from(expected).unwrap_or(0));
        let read = (&mut self.file).take(left + 1).read_to_end(bytes)?;
        if read as u64 > left { Err(too_long(bytes.len() as u64, self.most)) } else { Ok(()) }
    }
}

/// All bytes of the regular file at `path`, at most `most`; errors as for [`BoundedFile::open`].
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    BoundedFile::open(path, most)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Like [`bytes`], as UTF-8 text.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(bytes(path, most)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "not text: it is not UTF-8"))
}

fn regular(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("{what}, not a regular file")))
}

fn too_long(length: u64, most: u64) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("{length} bytes or more; at most {most} are read"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A path that is removed after the test.
    struct Spot(PathBuf);

    impl Spot {
        fn new(name: &str) -> Spot {
            Spot(std::env::temp_dir().join(format!("ganglion-intake-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Spot {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_file_is_read_up_to_the_limit_and_not_beyond() {
        let spot = Spot::new("plain");
        std::fs::write(&spot.0, "12345").unwrap();
        assert_eq!(text(&spot.0, 5).unwrap(), "12345");
        let error = bytes(&spot.0, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "5 bytes or more; at most 4 are read");
        let mut halves = BoundedFile::open(&spot.0, 5).unwrap();
        let mut all = halves.begin(2).unwrap();
        assert_eq!(all, b"12");
        halves.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"12345");
    }

    #[test]
    fn a_file_that_grows_while_it_is_read_is_refused() {
        let spot = Spot::new("grows");
        std::fs::write(&spot.0, "1234").unwrap();
        let open = BoundedFile::open(&spot.0, 5).unwrap();
        std::fs::write(&spot.0, "123456").unwrap();
        assert_eq!(open.read_to_end(&mut Vec::new()).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn pipes_and_endless_files_are_not_opened() {
        let spot = Spot::new("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &spot.0,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let paths = [
            (spot.0.as_path(), "a FIFO"),
            (Path::new("/dev/zero"), "a device"),
            (Path::new("/"), "a directory"),
        ];
        for (path, what) in paths {
            let error = bytes(path, 10).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path:?}");
            assert_eq!(error.to_string(), format!("{what}, not a regular file"));
        }
    }

    #[test]
    fn a_sparse_file_is_refused_for_its_stated_length() {
        let spot = Spot::new("sparse");
        File::create(&spot.0).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(bytes(&spot.0, 1 << 20).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn kernel_files_with_stated_length_zero_are_read() {
        assert!(text(Path::new("/proc/self/status"), 1 << 20).unwrap().starts_with("Name:"));
    }
}
