//! The screen on a pseudo-terminal: what the keys make the robot do, and that the terminal is restored.
//! `script` (util-linux) provides the terminal.

use crate::cli::{self, Running, out, output};
use crate::folder::Folder;
use crate::skips;
use serde_json::Value;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than a simulated robot takes to answer, even on a busy machine.
const SOON: Duration = Duration::from_secs(120);
/// The smallest terminal that shows a whole page.
const ROWS: NonZeroU16 = NonZeroU16::new(24).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(80).unwrap();
/// The sequences that enter and leave the alternate screen.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l\x1b[?25h";

/// Everything that a program printed, and what the terminal shows now.
struct Printed {
    bytes: Vec<u8>,
    terminal: vt100::Parser,
}

/// A program on a terminal.
struct OnTerminal {
    child: Child,
    printed: Arc<Mutex<Printed>>,
    reader: Option<JoinHandle<()>>,
}

impl OnTerminal {
    /// `None` if no terminal can be created here.
    fn start(arguments: &[&str], environment: &str) -> Option<OnTerminal> {
        if Command::new("script").arg("--version").output().is_err() {
            skips::skip("no script(1) to make a terminal with");
            return None;
        }
        let program = env!("CARGO_BIN_EXE_ganglion");
        let quoted: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
        // The shell gets the Ctrl-C as well, and must continue.
        let clean = "env -u NO_COLOR -u RUST_LOG -u INVOCATION_ID TERM=xterm-256color";
        let line = format!(
            "trap : INT; stty rows {ROWS} cols {COLUMNS}; {clean} {environment} '{program}' {}; echo \"ended $?\"; stty",
            quoted.join(" ")
        );
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("SHELL", "/bin/sh");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("script");
        let terminal = vt100::Parser::new(ROWS, COLUMNS, 0);
        let printed = Arc::new(Mutex::new(Printed { bytes: Vec::new(), terminal }));
        let (mut from, to) = (child.stdout.take().expect("piped"), printed.clone());
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut bytes) {
                let mut printed = to.lock().expect("bytes");
                printed.bytes.extend_from_slice(&bytes[..length]);
                printed.terminal.process(&bytes[..length]);
            }
        });
        Some(OnTerminal { child, printed, reader: Some(reader) })
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&self.printed.lock().expect("bytes").bytes).into_owned()
    }

    /// The page as the terminal shows it. The output is not enough: only changed cells are printed.
    fn page(&self) -> String {
        self.printed.lock().expect("bytes").terminal.screen().contents()
    }

    fn press(&mut self, key: u8) {
        self.child.stdin.as_mut().expect("piped").write_all(&[key]).expect("a key");
    }

    fn once_it_shows(&self, what: &str) {
        assert!(
            comes_true(|| self.page().contains(what)),
            "\"{what}\" is not on this page:\n{}",
            self.page()
        );
    }

    /// Everything it printed, once it has ended.
    fn ended(mut self) -> String {
        soon("its end", || self.printed().contains("ended "));
        drop(self.child.stdin.take());
        self.child.wait().expect("a child");
        self.reader.take().map(JoinHandle::join).transpose().expect("a reader");
        self.printed()
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn soon(what: &str, holds: impl Fn() -> bool) {
    assert!(comes_true(holds), "{what}: not within {} s", SOON.as_secs());
}

fn comes_true(holds: impl Fn() -> bool) -> bool {
    let until = Instant::now() + SOON;
    while !holds() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn status(socket: &str) -> Value {
    let told = output(&["status", "--json", "--socket", socket]);
    serde_json::from_str(out(&told).trim()).unwrap_or(Value::Null)
}

fn is_armed(socket: &str) -> bool {
    ["armed", "degraded"].contains(&status(socket)["mode"].as_str().unwrap_or_default())
}

fn is_disarmed(socket: &str) -> bool {
    status(socket)["mode"] == "disarmed"
}

fn run(socket: &str) -> [&str; 7] {
    ["run", "--control", socket, "--for", "600s", "--engine", "cpu"]
}

/// Checks that the terminal is restored: nothing is drawn after it left the alternate screen, and its
/// settings are the usual ones.
fn is_given_back(printed: &str, code: &str) {
    assert!(printed.matches(ENTER).count() == 1 && printed.matches(LEAVE).count() == 1, "{printed}");
    let after = printed.rsplit(LEAVE).next().unwrap_or_default();
    assert!(!after.contains("\x1b["), "drawn after the end: {after}");
    assert!(after.contains(&format!("ended {code}")), "{after}");
    assert!(!after.contains("-icanon") && !after.contains("-echo "), "its settings: {after}");
}

#[test]
fn keys_of_a_run_disarm_arm_and_end_it_with_its_summary() {
    let folder = Folder::new("screen-run");
    let socket = folder.path("control");
    let Some(mut run) = OnTerminal::start(&run(&socket), "") else { return };
    run.once_it_shows("Room from above");
    soon("armed", || is_armed(&socket));
    run.press(b'd');
    soon("disarmed", || is_disarmed(&socket));
    run.once_it_shows("Disarmed: the motors are stopped. Press a to arm.");
    run.press(b'a');
    soon("armed again", || is_armed(&socket));
    run.press(b'h');
    run.once_it_shows("disarm: stop until armed again; acknowledges latched causes");
    run.press(b'q');
    let printed = run.ended();
    is_given_back(&printed, "0");
    let summary = printed.rsplit(LEAVE).next().unwrap_or_default();
    assert!(summary.contains("slots"), "the summary: {summary}");
}

#[test]
fn ctrl_c_ends_a_run_and_gives_the_terminal_back() {
    let folder = Folder::new("screen-interrupt");
    let Some(mut run) = OnTerminal::start(&run(&folder.path("control")), "") else { return };
    run.once_it_shows("Room from above");
    run.press(3);
    is_given_back(&run.ended(), "0");
}

#[test]
fn top_arms_and_disarms_another_run_and_leaves_it_alone() {
    let folder = Folder::new("screen-top");
    let socket = folder.path("control");
    let mut robot = cli::watching(&run(&socket));
    soon("armed", || is_armed(&socket));
    let asked = ["top", "--screen", "--socket", &socket];
    let Some(mut top) = OnTerminal::start(&asked, "NO_COLOR=1") else { return };
    top.once_it_shows("Room from above");
    top.press(b'd');
    soon("disarmed", || is_disarmed(&socket));
    top.press(b'a');
    soon("armed again", || is_armed(&socket));
    top.press(b'q');
    let printed = top.ended();
    is_given_back(&printed, "0");
    assert!(!printed.contains("\x1b[38;"), "no colours with NO_COLOR");
    assert!(robot.is_running() && is_armed(&socket), "the robot does not notice");

    let Some(mut top) = OnTerminal::start(&["top", "--socket", &socket], "") else { return };
    top.once_it_shows("Room from above");
    top.press(b's');
    is_given_back(&top.ended(), "0");
    assert_eq!(std::mem::replace(&mut robot, Running::none()).ended(), Some(0), "it was stopped");
}

#[test]
fn a_run_that_ends_leaves_top_with_a_message_and_a_terminal() {
    let folder = Folder::new("screen-lost");
    let socket = folder.path("control");
    let robot = cli::watching(&run(&socket));
    soon("armed", || is_armed(&socket));
    let Some(top) = OnTerminal::start(&["top", "--socket", &socket], "") else { return };
    top.once_it_shows("Room from above");
    drop(robot); // killed
    let printed = top.ended();
    is_given_back(&printed, "69");
    assert!(printed.contains(&socket), "{printed}");
}

#[test]
fn with_no_color_or_a_dumb_terminal_a_run_has_no_screen() {
    for (environment, has_line) in [("NO_COLOR=1", true), ("TERM=dumb", false)] {
        let run = ["run", "--for", "1s", "--engine", "cpu"];
        let Some(run) = OnTerminal::start(&run, environment) else { return };
        let printed = run.ended();
        assert!(!printed.contains(ENTER) && printed.contains("ended 0"), "{environment}: {printed}");
        assert_eq!(printed.contains(" of 1 s  simulated, "), has_line, "{environment}: {printed}");
    }
    let folder = Folder::new("screen-asked");
    let socket = folder.path("control");
    let asked = [&run(&socket)[..], &["--screen"]].concat();
    let Some(mut run) = OnTerminal::start(&asked, "NO_COLOR=1") else { return };
    run.once_it_shows("Room from above");
    run.press(b'q');
    let printed = run.ended();
    is_given_back(&printed, "0");
    assert!(!printed.contains("\x1b[38;"), "no colours with NO_COLOR");
}

#[test]
fn with_no_color_or_a_dumb_terminal_top_has_no_screen() {
    let folder = Folder::new("screen-line");
    let socket = folder.path("control");
    let robot = cli::watching(&run(&socket));
    soon("armed", || is_armed(&socket));
    let top = ["top", "--socket", &socket];
    let Some(mut line) = OnTerminal::start(&top, "NO_COLOR=1") else { return };
    line.once_it_shows(" s  simulated, armed ");
    line.press(3); // Ctrl-C
    let printed = line.ended();
    assert!(!printed.contains(ENTER) && printed.contains("ended 0"), "{printed}");
    let Some(dumb) = OnTerminal::start(&top, "TERM=dumb") else { return };
    let printed = dumb.ended();
    assert!(!printed.contains('\x1b') && printed.contains("ended 0"), "{printed}");
    assert!(printed.contains("  slots      "), "the status: {printed}");
    let piped = output(&top);
    assert!(Path::new(&socket).exists() && out(&piped).contains("  slots      "), "{piped:?}");
    for verb in [&["top", "--screen", "--socket", &socket][..], &["run", "--screen"]] {
        let refused = output(verb);
        assert_eq!(refused.status.code(), Some(64), "{refused:?}");
        assert!(cli::err(&refused).contains("run this in a terminal"), "{refused:?}");
    }
    let Some(line) = OnTerminal::start(&top, "NO_COLOR=1") else { return };
    line.once_it_shows(" s  simulated, armed ");
    drop(robot); // killed
    let printed = line.ended();
    assert!(printed.contains("ended 69") && printed.contains(&socket), "{printed}");
}
