//! The built program: a guard and a runtime as two processes, killed, paused and restarted; the control
//! socket and the service manager's socket as their users see them.

use super::site::{SOON, TestSite, soon};
use crate::cli::{ENDING, Running, err, is_not_stopped_by_a_terminal, out, output};
use rustix::process::Signal;
use std::cell::Cell;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_killed_runtime_is_noticed_at_once_whatever_the_timeout() {
    let mut place = TestSite::new(1_000);
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
fn paused_runtime_loses_the_line_until_it_resumes() {
    let mut place = TestSite::new(300);
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
fn robot_without_its_guard_stops_and_cannot_be_armed() {
    let mut place = TestSite::new(300);
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
fn external_requests_are_done_or_refused_with_reasons() {
    let mut place = TestSite::new(1_000);
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
    // `safe-stop` by hand while the runtime is alive: the robot is disarmed, not only stopped for a moment.
    place.arm();
    let [board, control, guard] = ["board.toml", "control", "guard"].map(|name| place.path(name));
    let stopped = output(&["safe-stop", "--board", &board, "--control", &control, "--guard", &guard]);
    assert_eq!(stopped.status.code(), Some(0), "{}", err(&stopped));
    assert!(out(&stopped).contains("disarmed") && out(&stopped).contains("guard"), "{}", out(&stopped));
    assert_eq!(place.of_runtime()["mode"], "disarmed");
    soon("trusted again", || place.of_guard()["phase"] == "trusted");
    assert_eq!(place.ask(&["stop"]).status.code(), Some(0));
    assert_eq!(place.ended(runtime), Some(0));
    assert_eq!(place.ask(&["status"]).status.code(), Some(69), "no runtime is listening any more");
    assert_eq!(place.of_guard()["reason"], "ended", "a clean end is not reported as a trip");
}

#[test]
fn systemd_is_told_ready_watchdog_and_stopping() {
    let mut place = TestSite::new(1_000);
    let manager = UnixDatagram::bind(place.folder.join("notify")).unwrap();
    // As under systemd, the runtime may be silent for as long as it has requested; it makes this request
    // before it builds its field.
    let asked_for = Cell::new(Instant::now());
    let hear = || {
        let left = asked_for.get().saturating_duration_since(Instant::now());
        manager.set_read_timeout(Some(left.max(SOON))).unwrap();
        let mut text = [0; 4096];
        // A signal to any test in this process may interrupt a wait with a timeout; the wait is repeated.
        let length = loop {
            match manager.recv(&mut text) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                heard => break heard.expect("the runtime says something"),
            }
        };
        let said = String::from_utf8_lossy(&text[..length]).trim().to_string();
        let longer = said.strip_prefix("EXTEND_TIMEOUT_USEC=").and_then(|text| text.parse().ok());
        longer.into_iter().for_each(|longer| asked_for.set(Instant::now() + Duration::from_micros(longer)));
        said
    };
    let [board, guard] = ["board.toml", "guard"].map(|name| place.path(name));
    let notify = place.folder.join("notify");
    let runtime =
        Running::start(&["run", "--board", &board, "--guard", &guard, "--for", "600s"], |command| {
            command.env("NOTIFY_SOCKET", notify).env("WATCHDOG_USEC", "400000").stdout(Stdio::null());
        });
    let runtime = place.start(runtime);
    // Without its guard the runtime is alive but not ready, and it reports what is missing.
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
fn ending_signals_cut_the_line_and_terminal_ones_do_not() {
    for signal in ENDING {
        let mut place = TestSite::new(1_000);
        let guard = place.guard();
        is_not_stopped_by_a_terminal(&place.children[guard]);
        place.send(guard, signal);
        let said = place.said(guard);
        assert_eq!(said.status.code(), Some(0), "{signal:?}: {}", err(&said));
        assert!(err(&said).contains("asked to end: line off"), "{signal:?}: {}", err(&said));
        assert!(!place.folder.join("guard").exists(), "{signal:?}");
    }
}

#[test]
fn a_lost_terminal_session_ends_with_motors_and_line_off() {
    let mut place = TestSite::new(1_000);
    let guard = place.guard();
    let runtime = place.runtime(&[]);
    place.arm();
    // When the terminal closes, the kernel sends SIGHUP to both.
    place.send(runtime, Signal::HUP);
    place.send(guard, Signal::HUP);
    let (runtime, guard) = (place.said(runtime), place.said(guard));
    assert_eq!(runtime.status.code(), Some(0), "{}", err(&runtime));
    assert!(out(&runtime).lines().last().is_some_and(|line| line.contains("\"motors_still\":true")));
    assert_eq!(guard.status.code(), Some(0), "{}", err(&guard));
    assert!(err(&guard).contains("asked to end: line off"), "{}", err(&guard));
}

#[test]
fn a_second_runtime_and_a_second_guard_are_refused_by_name() {
    let mut place = TestSite::new(1_000);
    place.guard();
    let runtime = place.runtime(&[]);
    let first = format!("({}) is already listening there", place.children[runtime].id());
    let [board, guard, control] = ["board.toml", "guard", "control"].map(|name| place.path(name));
    let second =
        output(&["run", "--board", &board, "--guard", &guard, "--control", &control, "--for", "600s"]);
    assert_eq!(second.status.code(), Some(69), "{}", err(&second));
    assert!(err(&second).contains(&first), "{}", err(&second));
    let second = output(&["guard", "--board", &board, "--socket", &guard]);
    assert_eq!(second.status.code(), Some(69), "{}", err(&second));
    assert!(err(&second).contains("is already listening there"), "{}", err(&second));
}

#[test]
fn a_guard_refuses_boards_it_cannot_guard() {
    let place = TestSite::new(300);
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
