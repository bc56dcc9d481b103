//! The built program: a guard and a runtime as two processes, killed, stopped and started again; the
//! control socket and the service manager's socket as their users meet them.

use crate::cli::{err, ganglion, out, output, send, watching};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a test waits for what must come, on a machine that does other things as well.
const SOON: Duration = Duration::from_secs(60);

/// A place of its own for sockets and a board; ends what was started in it.
struct Place {
    folder: PathBuf,
    children: Vec<Child>,
}

impl Place {
    /// A simulated board whose guard has this patience.
    fn new(patience_ms: u32) -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("ganglion-guard-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let guard = format!("[guard]\nholds = \"reset\"\npatience_ms = {patience_ms}.0\nrequired = true\n");
        let board = format!("inherits = \"sim\"\n{guard}[safety]\nauto_arm = false\n");
        std::fs::write(folder.join("board.toml"), board).unwrap();
        Place { folder, children: Vec::new() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_string()
    }

    fn start(&mut self, child: Child) -> usize {
        self.children.push(child);
        self.children.len() - 1
    }

    fn guard(&mut self) -> usize {
        let (board, socket) = (self.path("board.toml"), self.path("guard"));
        let child = ganglion(&["guard", "--board", &board, "--socket", &socket])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let guard = self.start(child);
        soon("the guard listens", || output(&["guard", "--status", "--socket", &socket]).status.success());
        guard
    }

    fn runtime(&mut self, more: &[&str]) -> usize {
        let [board, guard, control] = ["board.toml", "guard", "control"].map(|name| self.path(name));
        let mut arguments = vec![
            "run",
            "--board",
            &board,
            "--guard",
            &guard,
            "--control",
            &control,
            "--for",
            "600s",
            "--json",
        ];
        arguments.extend(more);
        let runtime = watching(&arguments);
        let runtime = self.start(runtime);
        soon("the runtime listens", || output(&["status", "--socket", &control]).status.success());
        runtime
    }

    fn of_guard(&self) -> Value {
        let asked = output(&["guard", "--status", "--json", "--socket", &self.path("guard")]);
        serde_json::from_str(out(&asked).trim()).unwrap_or(Value::Null)
    }

    fn of_runtime(&self) -> Value {
        let asked = output(&["status", "--json", "--socket", &self.path("control")]);
        serde_json::from_str(out(&asked).trim()).unwrap_or(Value::Null)
    }

    /// Whether the runtime stands because of its guard.
    fn guard_lost(&self) -> bool {
        let causes = self.of_runtime()["causes"].clone();
        causes.as_array().is_some_and(|causes| causes.contains(&"guard-lost".into()))
    }

    fn ask(&self, verb: &[&str]) -> std::process::Output {
        let socket = self.path("control");
        output(&[verb, &["--socket", &socket]].concat())
    }

    /// The robot is armed and its guard well.
    fn arm(&self) {
        let armed = self.ask(&["arm", "--wait", "60s"]);
        assert_eq!(armed.status.code(), Some(0), "{}", err(&armed));
        assert!(!self.guard_lost());
    }

    fn send(&self, child: usize, signal: Signal) {
        send(&self.children[child], &[signal]);
    }

    fn ended(&mut self, child: usize) -> Option<i32> {
        self.children[child].wait().unwrap().code()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < until, "{what}: not within {} s", SOON.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_runtime_is_seen_at_once_whatever_the_patience() {
    let mut place = Place::new(1_000);
    place.guard();
    let runtime = place.runtime(&[]);
    place.arm();
    let guard = place.of_guard();
    assert_eq!((&guard["phase"], &guard["line_on"]), (&"trusted".into(), &true.into()), "{guard}");
    place.send(runtime, Signal::KILL);
    soon("tripped", || place.of_guard()["phase"] == "tripped");
    let guard = place.of_guard();
    assert_eq!((&guard["reason"], &guard["line_on"]), (&"closed".into(), &false.into()), "{guard}");
    assert_eq!(guard["trips"], 1);
}

#[test]
fn a_stopped_runtime_loses_the_line_and_is_trusted_again_when_it_goes_on() {
    let mut place = Place::new(300);
    place.guard();
    let runtime = place.runtime(&[]);
    place.arm();
    place.send(runtime, Signal::STOP);
    soon("tripped", || place.of_guard()["phase"] == "tripped");
    let guard = place.of_guard();
    assert_eq!((&guard["reason"], &guard["line_on"]), (&"silent".into(), &false.into()), "{guard}");
    place.send(runtime, Signal::CONT);
    soon("trusted again", || place.of_guard()["phase"] == "trusted");
    soon("drivable again", || place.of_runtime().is_object() && !place.guard_lost());
}

#[test]
fn without_its_guard_a_robot_stands_and_will_not_be_armed_until_it_is_back() {
    let mut place = Place::new(300);
    let first = place.guard();
    place.runtime(&[]);
    place.arm();
    place.send(first, Signal::KILL);
    soon("stands", || place.guard_lost());
    assert_eq!(place.of_runtime()["guard"]["phase"], "absent");
    assert_eq!(place.ask(&["disarm"]).status.code(), Some(0));
    let refused = place.ask(&["arm", "--wait", "1ms"]);
    assert_eq!(refused.status.code(), Some(75), "{}", out(&refused));
    assert!(err(&refused).contains("the guard does not answer"), "{}", err(&refused));
    let second = place.guard();
    soon("drivable", || !place.guard_lost());
    place.arm();
    place.send(second, Signal::STOP);
    soon("stands", || place.guard_lost());
    place.send(second, Signal::CONT);
    soon("drivable", || !place.guard_lost());
    place.send(second, Signal::TERM);
    assert_eq!(place.ended(second), Some(0));
    soon("stands", || place.guard_lost());
}

#[test]
fn what_is_asked_from_outside_is_done_or_refused_with_its_reasons() {
    let mut place = Place::new(1_000);
    place.guard();
    let runtime = place.runtime(&[]);
    soon("disarmed", || place.of_runtime()["mode"] == "disarmed");
    place.arm();
    let account = place.of_runtime();
    assert_eq!(account["schema"], 1);
    assert!(account["slots_run"].as_u64().is_some_and(|slots| slots > 10), "{account}");
    assert_eq!((&account["armings"], &account["guard"]["required"]), (&1.into(), &true.into()));
    assert_eq!(account["buses"][0]["set_ups"], 1, "{account}");
    assert_eq!(place.ask(&["disarm"]).status.code(), Some(0));
    assert_eq!(place.of_runtime()["mode"], "disarmed");
    // By hand, and with the runtime alive: it is disarmed, not only still for a moment.
    place.arm();
    let [board, control, guard] = ["board.toml", "control", "guard"].map(|name| place.path(name));
    let stopped = output(&["safe-stop", "--board", &board, "--control", &control, "--guard", &guard]);
    assert_eq!(stopped.status.code(), Some(0), "{}", err(&stopped));
    assert!(out(&stopped).contains("disarmed") && out(&stopped).contains("guard"), "{}", out(&stopped));
    assert_eq!(place.of_runtime()["mode"], "disarmed");
    soon("trusted again", || place.of_guard()["phase"] == "trusted");
    assert_eq!(place.ask(&["stop"]).status.code(), Some(0));
    assert_eq!(place.ended(runtime), Some(0));
    assert_eq!(place.ask(&["status"]).status.code(), Some(69), "nobody is there any more");
    assert_eq!(place.of_guard()["reason"], "ended", "a clean end is no trip of the guard's own");
}

#[test]
fn systemd_hears_ready_life_and_the_end() {
    let mut place = Place::new(1_000);
    let manager = UnixDatagram::bind(place.folder.join("notify")).unwrap();
    manager.set_read_timeout(Some(SOON)).unwrap();
    let hear = || {
        let mut text = [0; 4096];
        let length = manager.recv(&mut text).expect("the runtime says something");
        String::from_utf8_lossy(&text[..length]).trim().to_string()
    };
    let [board, guard] = ["board.toml", "guard"].map(|name| place.path(name));
    let runtime = ganglion(&["run", "--board", &board, "--guard", &guard, "--for", "600s"])
        .env("NOTIFY_SOCKET", place.folder.join("notify"))
        .env("WATCHDOG_USEC", "400000")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let runtime = place.start(runtime);
    // Without its guard it is alive, and not ready; it says what is missing.
    let mut early = Vec::new();
    while !early.iter().any(|said: &String| said.contains("not ready") && said.contains("guard")) {
        early.push(hear());
    }
    let mut beats = 0;
    while beats < 3 {
        let said = hear();
        beats += usize::from(said == "WATCHDOG=1");
        early.push(said);
    }
    assert!(!early.contains(&"READY=1".to_string()), "{early:?}");
    assert!(early.iter().any(|said| said.starts_with("EXTEND_TIMEOUT_USEC=")), "{early:?}");
    place.guard();
    while hear() != "READY=1" {}
    while !hear().starts_with("STATUS=disarmed") {}
    place.send(runtime, Signal::TERM);
    while hear() != "STOPPING=1" {}
    assert_eq!(place.ended(runtime), Some(0));
}

#[test]
fn a_guard_is_refused_what_it_cannot_guard() {
    let place = Place::new(300);
    let socket = place.path("guard");
    for (arguments, code, words) in [
        (&["guard", "--board", "sim"][..], 78, "names no line"),
        (&["guard", "--board", "sim", "--json"], 64, "--status"),
        (&["guard", "--status"], 69, "ganglion guard --board"),
    ] {
        let refused = output(&[arguments, &["--socket", &socket]].concat());
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {}", err(&refused));
        assert!(err(&refused).contains(words), "{}", err(&refused));
    }
    let nowhere = place.path("no/such/place");
    let refused = output(&["guard", "--board", &place.path("board.toml"), "--socket", &nowhere]);
    assert_eq!(refused.status.code(), Some(69), "{}", err(&refused));
}
