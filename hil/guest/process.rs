//! The processes under test: starts them afresh for a row, signals them, ends them, and reads their output.
//! The output goes to files, so that no process waits for a reader.

use ganglion::base::time::{Clock, MonotonicClock, Span};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// The program as it is installed.
pub const PROGRAM: &str = "/usr/bin/ganglion";
/// Interval between checks whether a process has ended.
const POLL_INTERVAL: Span = Span::from_millis(10);

/// A process under test. Killed when it is dropped.
pub struct Process {
    child: Child,
    said: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `ganglion` with these arguments; its output goes to a file in `folder`.
    pub fn start(folder: &Path, name: &str, words: &[&str]) -> io::Result<Process> {
        fs::create_dir_all(folder)?;
        let said = folder.join(format!("{name}.log"));
        let log = File::create(&said)?;
        let child = Command::new(PROGRAM)
            .args(words)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .env("RUST_BACKTRACE", "1")
            .spawn()?;
        Ok(Process { child, said, ended: None })
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends the process a signal, unless it has ended.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.has_ended()? {
            return Ok(());
        }
        let id = Pid::from_child(&self.child);
        Ok(kill_process(id, signal)?)
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended.is_some())
    }

    /// How the process ended; waits at most `timeout`. `None`: it is still running.
    pub fn end(&mut self, timeout: Span) -> io::Result<Option<ExitStatus>> {
        let clock = MonotonicClock;
        let until = clock.now() + timeout;
        while !self.has_ended()? && clock.now() < until {
            clock.sleep_until(clock.now() + POLL_INTERVAL);
        }
        Ok(self.ended)
    }

    /// The output of the process so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// The last line that is a JSON object.
    pub fn report(&self) -> Option<Value> {
        let said = self.said();
        said.lines().rev().find_map(|line| serde_json::from_str(line).ok().filter(Value::is_object))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.signal(Signal::CONT);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number from `/proc/ID/status`, for example `VmRSS`, in the unit used there (kB).
pub fn status(id: u32, key: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Number of open files of a process.
pub fn open_files(id: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{id}/fd")).ok()?.count())
}

/// Runs a system program to its end: returns its exit code and its output on both streams.
pub fn run(program: &str, words: &[&str]) -> io::Result<(Option<i32>, String)> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output()?;
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok((output.status.code(), said))
}
