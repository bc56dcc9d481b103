//! `ganglion status --prometheus`: the status of a robot in the text format of Prometheus, for the textfile
//! collector of node_exporter. docs/monitoring.md lists the metrics.

mod figures;
mod page;
#[cfg(test)]
mod tests;

use super::control::unreachable;
use super::exit::Failure;
use crate::runtime::control::{self, Ask, Status};
use crate::system::codec;
use page::Page;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Prints the metrics of the runtime at `socket`, or writes them to the file `output`. With a file, a robot
/// that is switched off is not a failure: the metric `up` reports it.
pub fn export(socket: &Path, output: Option<&Path>) -> Result<(), Failure> {
    let answer = control::ask_without_map(socket, Ask::Status);
    // A socket that this user may not open does not show whether the robot is off.
    if let Some(error) = answer.as_ref().err().filter(|error| !is_off(error)) {
        return Err(unreachable(socket, error));
    }
    let text = text(answer.as_ref().ok().map(|reply| &reply.status));
    match output {
        None => say!("{}", text.trim_end()),
        Some(file) => codec::replace(file, text.as_bytes()).map_err(|error| unwritable(file, &error))?,
    }
    match answer {
        Err(error) if output.is_none() => Err(unreachable(socket, &error)),
        _ => Ok(()),
    }
}

/// Whether the error means that no runtime answers: the robot is off or hangs. Other errors are on the
/// caller's side.
fn is_off(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
            | ErrorKind::TimedOut
            | ErrorKind::WouldBlock
    )
}

fn unwritable(file: &Path, error: &io::Error) -> Failure {
    Failure::file(file, error).fix("name a file in a folder that you may write; docs/monitoring.md shows how")
}

/// The metrics of a robot; `None`: the robot does not answer.
fn text(status: Option<&Status>) -> String {
    let mut page = Page::new();
    page.gauge("up", "Whether the runtime answers on its control socket.").value(u8::from(status.is_some()));
    if let Some(status) = status {
        figures::write(status, &mut page);
    }
    page.into_text()
}
