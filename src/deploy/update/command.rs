//! Runs other programs with a time limit: dpkg, systemctl, ssh-keygen. None of them is interactive, and none
//! may hang.

use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time limit for programs that normally end at once, such as queries.
pub const SHORT: Duration = Duration::from_secs(30);
/// Time limit for dpkg, and for starting or stopping a service: systemd's own limits for that are shorter.
pub const LONG: Duration = Duration::from_secs(180);
/// How often a running program is polled: an update runs some forty programs, and waits half of this time
/// too long for each.
const LOOK: Duration = Duration::from_millis(4);
/// Bytes kept of each stream. The rest is read and dropped, so that the program never blocks on output.
const KEPT: usize = 256 << 10;
/// After a program has ended, its streams are read for at most this long: a child that it has left behind may
/// keep them open.
const REST: Duration = Duration::from_secs(1);

/// The result of a program.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The program's exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Whether the program succeeded.
    pub fn ok(&self) -> bool {
        self.code == Some(0)
    }
    /// The last line of standard error, or of standard output if the former is empty.
    pub fn error_output(&self) -> String {
        let last =
            |text: &str| text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_string);
        last(&self.err).or_else(|| last(&self.out)).unwrap_or_else(|| "it gave no reason".to_string())
    }
}

/// A program that could not be run, exceeded its time limit, or failed.
#[derive(Debug)]
pub enum CommandError {
    /// The program could not be started.
    Start(String, io::Error),
    /// The program was killed after this time.
    Late(String, Duration),
    /// The program failed; this is its last line of output.
    Failed(String, String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Start(program, error) => write!(f, "cannot start {program}: {error}"),
            CommandError::Late(program, limit) => {
                write!(f, "{program} did not end within {} s", limit.as_secs())
            }
            CommandError::Failed(program, words) => write!(f, "{program}: {words}"),
        }
    }
}

/// Runs `program`; any exit code is a result.
pub fn run(program: impl AsRef<OsStr>, arguments: &[&OsStr], limit: Duration) -> Result<Ran, CommandError> {
    run_with(program, arguments, None, limit)
}

/// Runs `program`; any exit code but 0 is an error. Returns standard output without white space at its end.
pub fn demand(
    program: impl AsRef<OsStr>,
    arguments: &[&OsStr],
    limit: Duration,
) -> Result<String, CommandError> {
    let name = program.as_ref().to_string_lossy().into_owned();
    let ran = run(program, arguments, limit)?;
    match ran.ok() {
        true => Ok(ran.out.trim_end().to_string()),
        false => Err(CommandError::Failed(name, ran.error_output())),
    }
}

/// Like [`run`], with `input` as standard input.
pub fn run_with(
    program: impl AsRef<OsStr>,
    arguments: &[&OsStr],
    input: Option<File>,
    limit: Duration,
) -> Result<Ran, CommandError> {
    let name = program.as_ref().to_string_lossy().into_owned();
    let mut child = Command::new(program.as_ref())
        .args(arguments)
        .env("LC_ALL", "C")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(input.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Its own process group: Ctrl-C in a terminal must reach only this process, so that the program can
        // finish. A program that hangs is killed with its children, such as the scripts that dpkg runs.
        .process_group(0)
        .spawn()
        .map_err(|error| CommandError::Start(name.clone(), error))?;
    let (out, err) = (Stream::drain(child.stdout.take()), Stream::drain(child.stderr.take()));
    match wait(&mut child, limit) {
        Ok(Some(status)) => {
            let end = Instant::now() + REST;
            Ok(Ran { code: status.code(), out: out.text(end), err: err.text(end) })
        }
        Ok(None) => {
            if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait();
            Err(CommandError::Late(name, limit))
        }
        Err(error) => Err(CommandError::Start(name, error)),
    }
}

fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() >= limit {
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// A stream that a thread reads to its end; the first [`KEPT`] bytes are kept.
#[derive(Default)]
struct Stream {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn drain(stream: Option<impl Read + Send + 'static>) -> Stream {
        let Some(mut stream) = stream else { return Stream::default() };
        let kept = Arc::<Mutex<Vec<u8>>>::default();
        let into = kept.clone();
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut bytes) {
                let mut kept = lock(&into);
                let room = KEPT - kept.len();
                kept.extend_from_slice(&bytes[..length.min(room)]);
            }
        });
        Stream { kept, reader: Some(reader) }
    }

    /// Waits until the stream ends or until `end`, whichever comes first, and returns the kept text.
    fn text(self, end: Instant) -> String {
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < end {
            thread::sleep(LOOK / 10);
        }
        String::from_utf8_lossy(&lock(&self.kept)).into_owned()
    }
}

fn lock(kept: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    // The data is valid at all times, even if a thread panicked while holding the lock.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Result<Ran, CommandError> {
        run("sh", &["-c".as_ref(), script.as_ref()], limit)
    }

    #[test]
    fn output_and_exit_code_are_returned() {
        let ran = sh("echo out; echo first >&2; echo last >&2; echo; exit 3", SHORT).unwrap();
        assert_eq!((ran.code, &*ran.out, &*ran.error_output()), (Some(3), "out\n\n", "last"));
        assert!(matches!(run("/no/such/program", &[], SHORT), Err(CommandError::Start(..))));
    }

    #[test]
    fn excess_output_is_cut_and_does_not_block() {
        let ran = sh("head -c 3000000 /dev/zero; echo done >&2", SHORT).unwrap();
        assert_eq!((ran.out.len(), &*ran.err), (KEPT, "done\n"));
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        assert!(matches!(sh("exec sleep 600", Duration::from_millis(50)), Err(CommandError::Late(..))));
    }

    #[test]
    fn a_leftover_child_is_not_waited_for() {
        let ran = sh("echo out; sleep 600 & echo $! >&2", SHORT).unwrap();
        assert_eq!((ran.code, &*ran.out), (Some(0), "out\n"));
        let child = Pid::from_raw(ran.err.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(child, Signal::KILL).expect("it is still running");
    }

    #[test]
    fn a_hanging_program_is_killed_with_its_children() {
        let file = std::env::temp_dir().join(format!("ganglion-child-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        assert!(matches!(sh(&script, Duration::from_secs(2)), Err(CommandError::Late(..))));
        let child: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        std::fs::remove_file(&file).unwrap();
        let is_gone = |child: i32| {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        let end = Instant::now() + SHORT;
        while !is_gone(child) && Instant::now() < end {
            thread::sleep(LOOK);
        }
        assert!(is_gone(child));
    }
}
