//! The robot's side of the control socket: a thread that serves one line at a time. It waits for
//! people, so it is bounded by patience: somebody who opens the socket and says nothing is sent away
//! after a second, and until then the next one waits.

use super::account::{Account, Sources, causes, latched};
use super::{Ask, LONGEST_LINE, Reply, Request};
use crate::guard::socket::wait_for;
use crate::mode::Mode;
use crate::time::Span;
use crate::vitals::Signs;
use rustix::fs::Mode as FileMode;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long somebody may take to say or to hear a line: they are on this machine.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the thread looks whether it is to end.
const LOOK_EVERY: Span = Span::from_millis(50);
/// A request is seen by the next slot and has its outcome in the one after; a loop that is slower
/// than this has other troubles.
const LONGEST_OUTCOME: Duration = Duration::from_millis(500);

/// Listens at `path`, for its owner and its group. A socket that a dead process left behind is
/// replaced; one that somebody listens on is not.
pub fn listen_at(path: &Path) -> io::Result<UnixListener> {
    if let Err(error) = UnixStream::connect(path)
        && error.kind() == io::ErrorKind::ConnectionRefused
        && is_socket(path)
    {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    rustix::fs::chmod(path, FileMode::from_raw_mode(0o660))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// The running thread.
pub struct Window {
    path: PathBuf,
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Window {
    /// Serves `listener`, which stands at `path`. `end` is raised when somebody asks for the stop.
    pub fn open(
        listener: UnixListener,
        path: PathBuf,
        sources: Sources,
        end: Arc<AtomicBool>,
    ) -> io::Result<Window> {
        let closed = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name("control".into()).spawn({
            let closed = closed.clone();
            move || {
                while !closed.load(Ordering::Acquire) {
                    // To accept where nobody waits costs the kernel a socket that it makes and takes down again.
                    if !wait_for(&[&listener], LOOK_EVERY) {
                        continue;
                    }
                    match listener.accept() {
                        Ok((stream, _)) => serve(stream, &sources, &end),
                        // No descriptor is left for it, say: whoever it is waits on, and this thread must not spin.
                        Err(_) => thread::sleep(Duration::from_nanos(LOOK_EVERY.as_nanos())),
                    }
                }
            }
        })?;
        Ok(Window { path, closed, thread: Some(thread) })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // within the patience with one caller
        }
        let _ = std::fs::remove_file(&self.path); // the next one replaces it in any case
    }
}

/// One caller. Whatever goes wrong with it is its own trouble.
fn serve(stream: UnixStream, sources: &Sources, end: &AtomicBool) {
    if let Err(error) = answer(stream, sources, end) {
        log::debug!("a caller of the control socket: {error}");
    }
}

fn answer(mut stream: UnixStream, sources: &Sources, end: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&stream).take(LONGEST_LINE as u64)).read_line(&mut line)?;
    let request: Request =
        serde_json::from_str(&line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let (done, why, may_pass) = act(request.ask, sources, end);
    let account = Account { map: sources.map(request.near), ..sources.account() };
    let reply = Reply { done, why, may_pass, account };
    let mut text = serde_json::to_string(&reply).map_err(io::Error::other)?;
    text.push('\n');
    stream.write_all(text.as_bytes())
}

/// Raises the flag and waits for what becomes of it: done, or why not, and whether that may pass.
fn act(ask: Ask, sources: &Sources, end: &AtomicBool) -> (bool, Vec<String>, bool) {
    let requests = &sources.requests;
    let before = sources.vitals.look();
    match ask {
        Ask::Status => return (true, Vec::new(), false),
        Ask::Stop => end.store(true, Ordering::Release),
        Ask::Disarm => requests.disarm.store(true, Ordering::Release),
        Ask::Arm => requests.arm.store(true, Ordering::Release),
    }
    let Some(after) = outcome(sources, &before) else {
        return (false, vec!["the loop does not run".into()], true);
    };
    match ask {
        Ask::Arm if is_armed(&after) => (true, Vec::new(), false),
        Ask::Arm => why_not(&after),
        Ask::Disarm if is_armed(&after) || after.latched.is_some() => {
            let still = causes(&after).map(|cause| format!("{} is still there", cause.name()));
            (false, still.collect(), true)
        }
        Ask::Disarm | Ask::Stop | Ask::Status => (true, Vec::new(), false),
    }
}

/// The signs two slots later: the first sees the request, the second has been decided after it.
fn outcome(sources: &Sources, before: &Signs) -> Option<Signs> {
    let until = Instant::now() + LONGEST_OUTCOME;
    loop {
        let signs = sources.vitals.look();
        if signs.slots >= before.slots + 2 {
            return Some(signs);
        }
        if Instant::now() >= until {
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn is_armed(signs: &Signs) -> bool {
    ["armed", "degraded"].contains(&Mode::name_of(signs.mode))
}

fn why_not(signs: &Signs) -> (bool, Vec<String>, bool) {
    if let Some(cause) = latched(signs) {
        let words = format!("{} has latched: see what it was, then disarm and arm again", cause.name());
        return (false, vec![words], false);
    }
    if Mode::name_of(signs.mode) == "stopped" {
        return (false, vec!["the program is ending".into()], false);
    }
    let mut why: Vec<String> = signs.refusal.reasons().map(str::to_string).collect();
    let active: Vec<&str> = causes(signs).map(|cause| cause.name()).collect();
    if !active.is_empty() {
        why.push(format!("active: {}", active.join(", ")));
    }
    if why.is_empty() {
        why.push("the self-test is just over".into());
    }
    (false, why, true)
}
