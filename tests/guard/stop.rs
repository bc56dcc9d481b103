//! `safe-stop` as a whole: the guard keeps the request until a runtime has disarmed, and the report is true.

use super::site::{TestSite, soon};
use crate::cli::{err, out, output};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use std::fs::File;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// How long a test checks that nothing happens: 150 slots of 10 ms.
const WATCHED: Duration = Duration::from_millis(1_500);

/// Checks for a while that the robot is not armed and the guard's line stays off.
fn stays_still(place: &TestSite) {
    let began = Instant::now();
    while began.elapsed() < WATCHED {
        let (guard, runtime) = (place.of_guard(), place.of_runtime());
        assert_eq!(guard["line_on"], false, "{guard}");
        assert_eq!(runtime["mode"], "disarmed", "{runtime}");
    }
}

#[test]
fn stop_of_a_paused_runtime_is_acknowledged_when_it_resumes() {
    let mut place = TestSite::new(300);
    place.guard();
    let runtime = place.runtime(&[]);
    place.arm();
    soon("the line is on", || place.of_guard()["line_on"] == true);
    place.send(runtime, Signal::STOP);
    soon("tripped", || place.of_guard()["reason"] == "silent");
    // Only the guard receives the stop, because the given control socket does not exist.
    let [board, guard, nowhere] = ["board.toml", "guard", "nowhere"].map(|name| place.path(name));
    let stopped = output(&["safe-stop", "--board", &board, "--guard", &guard, "--control", &nowhere]);
    assert_eq!(stopped.status.code(), Some(0), "{}", err(&stopped));
    assert!(out(&stopped).contains("the guard keeps its line off"), "{}", out(&stopped));
    let guard = place.of_guard();
    assert_eq!((&guard["reason"], &guard["stop_pending"]), (&"asked".into(), &true.into()), "{guard}");
    place.send(runtime, Signal::CONT);
    soon("the stop is acknowledged", || {
        let guard = place.of_guard();
        assert_eq!(guard["line_on"], false, "{guard}");
        guard["phase"] == "trusted"
    });
    stays_still(&place);
    assert_eq!(place.of_runtime()["armings"], 1);
    place.arm();
    soon("the line is on again", || place.of_guard()["line_on"] == true);
}

#[test]
fn unreceived_stop_is_acknowledged_by_the_next_runtime() {
    for (more, remembered) in [(&[][..], true), (&["--after-exit"], false)] {
        let mut place = TestSite::new(1_000);
        place.guard();
        let stopped = place.safe_stop(more);
        assert_eq!(stopped.status.code(), Some(0), "{}", err(&stopped));
        assert_eq!(place.of_guard()["stop_pending"], remembered);
        place.runtime(&["--arm"]);
        if !remembered {
            soon("armed by itself", || place.of_runtime()["mode"] == "armed");
            continue;
        }
        let could_arm =
            |place: &TestSite| place.of_runtime()["refusal"].as_array().is_some_and(Vec::is_empty);
        soon("could be armed", || could_arm(&place) && place.of_runtime()["mode"] == "disarmed");
        stays_still(&place);
        assert_eq!(place.of_runtime()["armings"], 0);
        place.arm();
    }
}

#[test]
fn only_a_runtime_of_this_board_is_disarmed() {
    let mut place = TestSite::unguarded();
    place.runtime(&[]);
    place.arm();
    let stopped = place.safe_stop(&[]);
    assert_eq!(stopped.status.code(), Some(0), "{}", err(&stopped));
    assert!(out(&stopped).contains("the running robot is disarmed"), "{}", out(&stopped));
    assert_eq!(place.of_runtime()["mode"], "disarmed");
    // The same file with a changed value counts as another board.
    let board = std::fs::read_to_string(place.path("board.toml")).unwrap();
    std::fs::write(place.path("board.toml"), board.replace("bank = 64", "bank = 65")).unwrap();
    let stopped = place.safe_stop(&[]);
    assert!(out(&stopped).contains("another board"), "{}", out(&stopped));
    assert!(!out(&stopped).contains("the running robot is disarmed"), "{}", out(&stopped));
}

#[test]
fn a_silent_runtime_is_not_reported_as_stopped() {
    let place = TestSite::unguarded();
    let listens = UnixListener::bind(place.path("control")).unwrap();
    let began = Instant::now();
    let stopped = place.safe_stop(&[]);
    assert_eq!(stopped.status.code(), Some(69), "{}", out(&stopped));
    assert!(err(&stopped).contains("does not answer") && err(&stopped).contains("cut"), "{}", err(&stopped));
    assert!(began.elapsed() < Duration::from_secs(10), "too slow for an emergency");
    drop(listens);
    let stopped = place.safe_stop(&[]);
    assert_eq!(stopped.status.code(), Some(0), "no process is there: {}", err(&stopped));
}

#[test]
fn the_holder_of_the_motor_hardware_is_named_and_exclusive() {
    let place = TestSite::with("");
    let node = place.path("i2c-7");
    std::fs::write(&node, "").unwrap();
    let board = format!("inherits = \"generic-linux\"\n[bus]\nkind = \"linux\"\ni2c = \"{node}\"\n");
    std::fs::write(place.path("board.toml"), board).unwrap();
    let hardware = File::open(&node).unwrap();
    flock(&hardware, FlockOperation::NonBlockingLockExclusive).unwrap();
    let holder = format!("({})", std::process::id());
    let stopped = place.safe_stop(&[]);
    assert_eq!(stopped.status.code(), Some(69), "{}", out(&stopped));
    let words = err(&stopped);
    assert!(words.contains(&holder) && words.contains("was not disarmed"), "{words}");
    assert!(words.contains(&format!("kill {}", std::process::id())), "{words}");
    let board = place.path("board.toml");
    let second = output(&["run", "--board", &board, "--any-machine", "--for", "60s"]);
    assert_eq!(second.status.code(), Some(69), "{}", err(&second));
    assert!(err(&second).contains(&holder) && err(&second).contains("already"), "{}", err(&second));
    drop(hardware);
    let alone = output(&["run", "--board", &board, "--any-machine", "--for", "60s"]);
    assert!(!err(&alone).contains("already"), "the file is not an adapter, but it is free: {}", err(&alone));
}
