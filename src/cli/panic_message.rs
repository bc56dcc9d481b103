//! The panic message: one line to standard error, and only if it can be written at once. The standard
//! library's panic hook blocks on a full pipe, which would hang a thread that drives motors.

use super::{held_log, output};
use crate::system::sanitize;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt::Write;
use std::panic::PanicHookInfo;
use std::sync::Mutex;

/// Less than PIPE_BUF (4096 bytes), so that a writable pipe accepts it without blocking.
const LONGEST: usize = 1024;

/// Without this lock, two threads that check at the same moment would both see room for a line.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Installs this panic hook. If a backtrace is requested and no screen uses the terminal, the previous hook
/// runs instead: the standard library's, which may block.
pub(super) fn keep_short() {
    let usual = std::panic::take_hook();
    let at_length = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    std::panic::set_hook(Box::new(
        move |panic| if at_length && !held_log::is_on() { usual(panic) } else { print(panic) },
    ));
}

fn print(panic: &PanicHookInfo<'_>) {
    let Ok(_alone) = ONE_AT_A_TIME.try_lock() else { return };
    if held_log::keep(&line(panic)) {
        return; // the screen owns the terminal and prints the message at the end
    }
    let stderr = std::io::stderr();
    let mut waits = [PollFd::new(&stderr, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut waits, Some(&at_once)) == Ok(1) && waits[0].revents().contains(PollFlags::OUT) {
        let _ = rustix::io::write(&stderr, line(panic).as_bytes()); // bypasses the standard library and its lock
    }
}

fn line(panic: &PanicHookInfo<'_>) -> String {
    let mut line = String::from(output::journal_prefix(log::Level::Error));
    let thread = std::thread::current();
    let _ = write!(line, "ganglion: a bug: the {} thread panicked", thread.name().unwrap_or("unnamed"));
    if let Some(place) = panic.location() {
        let _ = write!(line, " at {place}");
    }
    let payload = panic.payload();
    let words = payload.downcast_ref::<&str>().copied();
    if let Some(words) = words.or_else(|| payload.downcast_ref::<String>().map(String::as_str)) {
        let _ = write!(line, ": {}", sanitize::one_line(&words.replace('\n', "; ")));
    }
    let mut end = line.len().min(LONGEST);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.truncate(end);
    line.push('\n');
    line
}
