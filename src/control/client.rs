//! The other side of the control socket: one question, one answer.

use super::{Ask, LONGEST_LINE, Reply, Request};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The robot answers within two slots; before us may be one caller who says nothing for a second.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks the runtime that listens at `path`.
pub fn ask(path: &Path, ask: Ask) -> io::Result<Reply> {
    ask_near(path, ask, None)
}

/// The same; its map is to look near a place.
pub fn ask_near(path: &Path, ask: Ask, near: Option<[f64; 2]>) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = serde_json::to_string(&Request { ask, near }).map_err(io::Error::other)?;
    text.push('\n');
    stream.write_all(text.as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST_LINE as u64)).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_str(&line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
