//! Writes standard output, and detects whether standard error is a terminal, the journal or something else.

use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::Mutex;

use super::exit::Failure;
use crate::system::bounded_read::BoundedFile;
use crate::system::sanitize;
use rustix::fs::Access;

/// The first error from writing to standard output; a closed pipe does not count.
static BROKEN: Mutex<Option<std::io::Error>> = Mutex::new(None);

/// Writes one or more lines to standard output; use it through [`say!`](self). Escapes terminal control
/// sequences, wherever they come from. Never panics.
pub fn line(words: Arguments<'_>) {
    put(&sanitize::lines(&words.to_string()));
}

/// Writes exactly one line to standard output, even if `words` contains line breaks. For text from another
/// process; use it through `relay!`.
pub fn one_line(words: Arguments<'_>) {
    put(&sanitize::one_line(&words.to_string()));
}

fn put(words: &str) {
    #[cfg(test)] // the test harness shows a unit test's output only if the test fails
    return println!("{words}");
    #[cfg(not(test))]
    if let Err(error) = write_line(&mut std::io::stdout().lock(), format_args!("{words}"))
        && let Ok(mut broken) = BROKEN.lock()
    {
        broken.get_or_insert(error);
    }
}

/// Writes one object as one line of JSON to standard output.
pub fn json(object: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(object)
        .map_err(|error| Failure::bug(format!("cannot format as JSON: {error}")))?;
    put(&sanitize::json(text));
    Ok(())
}

fn write_line(to: &mut impl Write, words: Arguments<'_>) -> std::io::Result<()> {
    match to.write_fmt(words).and_then(|()| to.write_all(b"\n")).and_then(|()| to.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()), // the reader has closed the pipe
        other => other,
    }
}

/// Whether all output has been written (or its reader closed the pipe).
pub(super) fn outcome() -> Result<(), Failure> {
    let broken = BROKEN.lock().ok().and_then(|mut broken| broken.take());
    match broken {
        None => Ok(()),
        Some(error) => Err(Failure::unavailable(error)
            .at("standard output")
            .fix("free some disk space, or redirect the output")),
    }
}

/// A kind of file that a verb writes at its end. It may overwrite an existing file only if this program wrote
/// that file.
pub struct Replaced {
    /// The bytes that every such file begins with.
    pub begin: &'static str,
    /// The kind of file, with an article ("a picture of a run").
    pub name: &'static str,
    /// Example arguments that name a new file.
    pub example: &'static str,
}

/// Refuses `path` if it exists and is not such a file (it could be a recording), or if its folder is not
/// writable. Called before the work, which may take minutes.
pub fn may_replace(path: &Path, what: &Replaced) -> Result<(), Failure> {
    let Replaced { begin, name, example } = what;
    let refused = |why: String| {
        Failure::usage(why).at(path.display()).fix(format!("name a new file, for example: {example}"))
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| Failure::file(path, &error.into()))?;
    let mut file = match BoundedFile::open(path, u64::MAX) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(_) if path.is_dir() => return Err(refused("this is a folder, but a file is needed".to_string())),
        Err(error) => return Err(Failure::file(path, &error)),
    };
    match file.begin(begin.len() as u64) {
        Ok(found) if found == begin.as_bytes() => Ok(()),
        _ => Err(refused(format!("this file is not {name}, so it is not overwritten"))),
    }
}

/// Whether standard error is a terminal.
pub fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// The priority prefix of a line in the journal, which reads `<3>` as an error and so on (sd-daemon(3));
/// empty for any other destination.
pub(super) fn journal_prefix(level: log::Level) -> &'static str {
    if !stderr_is_journal() {
        return "";
    }
    match level {
        log::Level::Error => "<3>",
        log::Level::Warn => "<4>",
        log::Level::Info => "<6>",
        log::Level::Debug | log::Level::Trace => "<7>",
    }
}

/// systemd sets `JOURNAL_STREAM` to `device:inode` of our stream. Children inherit it although their standard
/// error may go elsewhere, so compare the numbers.
fn stderr_is_journal() -> bool {
    let Some(stream) = std::env::var("JOURNAL_STREAM").ok() else { return false };
    match rustix::fs::fstat(std::io::stderr()) {
        Ok(stat) => stream == format!("{}:{}", stat.st_dev, stat.st_ino),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Refuses(ErrorKind);
    impl Write for Refuses {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_a_failure_but_a_closed_pipe_is_not() {
        assert!(write_line(&mut Refuses(ErrorKind::BrokenPipe), format_args!("x")).is_ok());
        assert!(write_line(&mut Refuses(ErrorKind::StorageFull), format_args!("x")).is_err());
    }

    #[test]
    fn output_never_breaks_a_line() {
        let mut to = Vec::new();
        write_line(&mut to, format_args!("{} of {}", 1, 2)).unwrap();
        assert_eq!(to, b"1 of 2\n");
    }
}
