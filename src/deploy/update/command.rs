//! Other programs, run with a limit: dpkg, systemctl, ssh-keygen. None of them is asked anything, none may
//! hang.

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

/// For what answers from a file or two.
pub const SHORT: Duration = Duration::from_secs(30);
/// For dpkg, and for a service that starts: its own limits are below this.
pub const LONG: Duration = Duration::from_secs(180);
/// How often a running program is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// What is kept of each stream, in bytes. The rest is read and dropped, so that no writer waits.
const KEPT: usize = 256 << 10;
/// A program that has ended may leave a child behind that keeps its streams open; they are read for so long.
const REST: Duration = Duration::from_secs(1);

/// What a program did.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Whether it succeeded.
    pub fn ok(&self) -> bool {
        self.code == Some(0)
    }
    /// The last line that it wrote: of standard error if there is one.
    pub fn last_words(&self) -> String {
        let last =
            |text: &str| text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_string);
        last(&self.err).or_else(|| last(&self.out)).unwrap_or_else(|| "it said nothing".to_string())
    }
}

/// A program that could not be run, did not end in time, or failed.
#[derive(Debug)]
pub enum CommandError {
    /// It could not be started.
    Start(String, io::Error),
    /// It was killed after this long.
    Late(String, Duration),
    /// It failed, with its last words.
    Failed(String, String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Start(program, error) => write!(f, "cannot start {program}: {error}"),
            CommandError::Late(program, limit) => {
                write!(f, "{program} had not ended after {} s", limit.as_secs())
            }
            CommandError::Failed(program, words) => write!(f, "{program}: {words}"),
        }
    }
}

/// Runs `program`, whatever its exit code will be.
pub fn run(program: impl AsRef<OsStr>, arguments: &[&OsStr], limit: Duration) -> Result<Ran, CommandError> {
    run_with(program, arguments, None, limit)
}

/// The same; anything but success is an error. Returns standard output without its last line end.
pub fn demand(
    program: impl AsRef<OsStr>,
    arguments: &[&OsStr],
    limit: Duration,
) -> Result<String, CommandError> {
    let name = program.as_ref().to_string_lossy().into_owned();
    let ran = run(program, arguments, limit)?;
    match ran.ok() {
        true => Ok(ran.out.trim_end().to_string()),
        false => Err(CommandError::Failed(name, ran.last_words())),
    }
}

/// The same as [`run`], with `input` as standard input.
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
        // Ctrl-C on a terminal is for us; what was begun is ended in order. And what hangs is ended whole,
        // with the scripts that dpkg runs.
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

/// A stream that is read beside us to its end; its beginning is kept.
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

    /// What was kept when the stream ended, or at `end` if it has not ended then.
    fn text(self, end: Instant) -> String {
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < end {
            thread::sleep(LOOK / 10);
        }
        String::from_utf8_lossy(&lock(&self.kept)).into_owned()
    }
}

fn lock(kept: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    // Bytes are whole at any moment.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Result<Ran, CommandError> {
        run("sh", &["-c".as_ref(), script.as_ref()], limit)
    }

    #[test]
    fn what_a_program_did_is_told_whole() {
        let ran = sh("echo out; echo first >&2; echo last >&2; echo; exit 3", SHORT).unwrap();
        assert_eq!((ran.code, &*ran.out, &*ran.last_words()), (Some(3), "out\n\n", "last"));
        assert!(matches!(run("/no/such/program", &[], SHORT), Err(CommandError::Start(..))));
    }

    #[test]
    fn a_flood_of_output_stops_no_program_and_is_cut() {
        let ran = sh("head -c 3000000 /dev/zero; echo done >&2", SHORT).unwrap();
        assert_eq!((ran.out.len(), &*ran.err), (KEPT, "done\n"));
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        assert!(matches!(sh("exec sleep 600", Duration::from_millis(50)), Err(CommandError::Late(..))));
    }

    #[test]
    fn a_child_that_is_left_behind_is_not_waited_for() {
        let ran = sh("echo out; sleep 600 & echo $! >&2", SHORT).unwrap();
        assert_eq!((ran.code, &*ran.out), (Some(0), "out\n"));
        let child = Pid::from_raw(ran.err.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(child, Signal::KILL).expect("it still ran");
    }

    #[test]
    fn what_hangs_is_ended_with_its_children() {
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
