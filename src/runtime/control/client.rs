//! The client side of the control socket: one request and one answer, with one deadline for both.

use super::{Ask, LONGEST_LINE, Reply, Request, Status};
use crate::field::navigate::goals::Task;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The robot answers within two slots, or after half a second if its loop hangs.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Delay before repeating a request whose connection was closed to make room for others.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// Sends a request to the runtime that listens at `path`.
pub fn ask(path: &Path, ask: Ask) -> io::Result<Reply> {
    ask_with_pid(path, ask).map(|(reply, _)| reply)
}

/// Asks the robot to arm. `disarms`: the count in the first answer to a caller that asks repeatedly; a disarm
/// since then ends its wait.
pub fn arm(path: &Path, disarms: Option<u64>) -> io::Result<Reply> {
    send(path, &Request { disarms, ..Request::plain(Ask::Arm) }).map(|(reply, _)| reply)
}

/// Like [`ask`]; also returns the ID of the process that answered, if that can be determined.
pub fn ask_with_pid(path: &Path, ask: Ask) -> io::Result<(Reply, Option<u32>)> {
    send(path, &Request::plain(ask))
}

/// Like [`ask`], with a place around which to read the map.
pub fn ask_near(path: &Path, ask: Ask, near: Option<[f64; 2]>) -> io::Result<Reply> {
    send(path, &Request { near, ..Request::plain(ask) }).map(|(reply, _)| reply)
}

/// Like [`ask`], without reading the map: for a caller that asks often.
pub fn ask_without_map(path: &Path, ask: Ask) -> io::Result<Reply> {
    send(path, &Request { without_map: true, ..Request::plain(ask) }).map(|(reply, _)| reply)
}

/// The status, with or without the map, with or without slices through the field.
pub fn status_with(path: &Path, map: bool, slices: bool) -> io::Result<Status> {
    let request = Request { without_map: !map, with_slices: slices, ..Request::plain(Ask::Status) };
    send(path, &request).map(|(reply, _)| reply.status)
}

/// Gives the robot an order.
pub fn order(path: &Path, task: Task) -> io::Result<Reply> {
    let request = Request { task: Some(task), without_map: true, ..Request::plain(Ask::Go) };
    send(path, &request).map(|(reply, _)| reply)
}

fn send(path: &Path, request: &Request) -> io::Result<(Reply, Option<u32>)> {
    let mut line = serde_json::to_string(request).map_err(io::Error::other)?;
    line.push('\n');
    let until = Instant::now() + TIMEOUT;
    let mut last_error = None;
    loop {
        let error = match request_once(path, line.as_bytes(), until) {
            Ok(answered) => return Ok(answered),
            Err(error) => error,
        };
        // The server closed the connection without reading the line, or the runtime ended: retry.
        let early = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        let again = early.contains(&error.kind()) && Instant::now() + ASK_AGAIN < until;
        if !again {
            return Err(last_error.unwrap_or(error));
        }
        last_error = Some(error);
        thread::sleep(ASK_AGAIN);
    }
}

/// One request on its own connection.
fn request_once(path: &Path, line: &[u8], until: Instant) -> io::Result<(Reply, Option<u32>)> {
    let mut stream = connect_to(path, until)?;
    let pid = socket_peercred(&stream).ok().and_then(|peer| u32::try_from(peer.pid.as_raw_pid()).ok());
    stream.set_write_timeout(Some(left(until)?))?;
    stream.write_all(line)?;
    let (mut answer, mut bytes) = (Vec::new(), [0; 4096]);
    while !answer.contains(&b'\n') {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut bytes) {
            Ok(0) if answer.is_empty() => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&bytes[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
        if answer.len() > LONGEST_LINE {
            return Err(ErrorKind::InvalidData.into());
        }
    }
    let reply = serde_json::from_slice(&answer);
    Ok((reply.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?, pid))
}

/// Connects; gives up at `until` if too many others are already waiting to connect.
fn connect_to(path: &Path, until: Instant) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(left(until)?))?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(socket.into()),
        Err(rustix::io::Errno::AGAIN) => Err(ErrorKind::TimedOut.into()),
        Err(error) => Err(error.into()),
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}
