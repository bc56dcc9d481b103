//! The control socket with malicious callers: none of them delays an operator's request or the shutdown.

use super::site::{TestSite, soon};
use crate::cli::{Running, err, out};
use ganglion::runtime::control::{Ask, ask};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest time that a disarm request may take, as promised to the operator.
const DISARMED_WITHIN: Duration = Duration::from_secs(1);
/// The longest time from the signal to the end of the process.
const ENDED_WITHIN: Duration = Duration::from_secs(2);
const SILENT: usize = 2_000;
const DRIPPING: usize = 100;

/// Callers that send a byte every 0.8 s, and reconnect when the server closes.
struct Drip {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drip {
    fn onto(path: PathBuf) -> Drip {
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let over = over.clone();
            move || {
                let connect = || UnixStream::connect(&path).ok();
                let mut callers: Vec<Option<UnixStream>> = (0..DRIPPING).map(|_| connect()).collect();
                while !over.load(Ordering::Relaxed) {
                    for caller in &mut callers {
                        let said = caller.as_mut().is_some_and(|stream| stream.write_all(b"{").is_ok());
                        if !said {
                            *caller = connect();
                        }
                    }
                    std::thread::sleep(Duration::from_millis(800));
                }
            }
        });
        Drip { over, thread: Some(thread) }
    }
}

impl Drop for Drip {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Raises this process's limit of open files, for the silent callers.
fn more_descriptors() {
    let most = getrlimit(Resource::Nofile).maximum;
    let enough = most.map_or(8_192, |most| most.min(8_192));
    setrlimit(Resource::Nofile, Rlimit { current: Some(enough), maximum: most }).unwrap();
}

#[test]
fn silent_and_slow_callers_delay_neither_disarm_nor_shutdown() {
    more_descriptors();
    let mut place = TestSite::unguarded();
    let runtime = place.runtime(&[]);
    let control = place.folder.join("control");
    place.arm();
    let drip = Drip::onto(control.clone());
    let mut worst = Duration::ZERO;
    let mut silent = Vec::new();
    for round in 0..10 {
        // Some of the silent callers connect just before the request.
        let come = |_| UnixStream::connect(&control).unwrap();
        silent.extend((0..SILENT / 10).map(come));
        let began = Instant::now();
        let reply = ask(&control, Ask::Disarm).unwrap();
        worst = worst.max(began.elapsed());
        assert!(reply.done, "round {round}: {:?}", reply.why);
        assert_eq!(reply.status.mode, "disarmed");
    }
    assert!(worst < DISARMED_WITHIN, "a disarm took {worst:?}");
    let began = Instant::now();
    place.send(runtime, Signal::TERM);
    let ended = place.said(runtime);
    let took = began.elapsed();
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    assert!(out(&ended).contains("\"motors_still\":true"));
    assert!(took < ENDED_WITHIN, "the shutdown took {took:?}");
    eprintln!("slowest disarm {worst:?}, shutdown {took:?}");
    drop(drip);
    assert_eq!(silent.len(), SILENT);
}

#[test]
fn a_failed_arm_request_does_not_take_effect_later() {
    let mut place = TestSite::unguarded();
    let runtime = place.runtime(&[]);
    let could_arm = |place: &TestSite| {
        let account = place.of_runtime();
        account["mode"] == "disarmed" && account["refusal"].as_array().is_some_and(Vec::is_empty)
    };
    soon("could be armed", || could_arm(&place));
    place.send(runtime, Signal::STOP);
    let failed = place.ask(&["arm", "--wait", "1ms"]);
    assert_eq!(failed.status.code(), Some(69), "{}", err(&failed));
    place.send(runtime, Signal::CONT);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1_500) {
        let account = place.of_runtime();
        assert_eq!((&account["mode"], &account["armings"]), (&"disarmed".into(), &0.into()), "{account}");
    }
    place.arm();
    // The robot carries out a request that makes it safe, even if the caller has hung up.
    place.send(runtime, Signal::STOP);
    assert_eq!(place.ask(&["disarm"]).status.code(), Some(69));
    place.send(runtime, Signal::CONT);
    soon("disarmed", || place.of_runtime()["mode"] == "disarmed");
}

#[test]
fn a_disarm_ends_a_waiting_request_to_arm() {
    for (request, code) in [("disarm", 75), ("safe-stop", 75), ("nothing", 0)] {
        let mut place = TestSite::new(1_000);
        place.runtime(&[]);
        soon("it misses its guard", || place.guard_lost());
        let arm = ["arm", "--wait", "60s", "--socket", &place.path("control")];
        let arm = Running::start(&arm, |command| {
            command.stdout(Stdio::null()).stderr(Stdio::piped());
        });
        let arm = place.start(arm);
        soon("it is refused and waits", || place.of_runtime()["arm_refused"].as_u64() > Some(0));
        let stopped = match request {
            "disarm" => Some(place.ask(&["disarm"])),
            "safe-stop" => Some(place.safe_stop(&[])),
            _ => None,
        };
        if let Some(stopped) = &stopped {
            assert_eq!(stopped.status.code(), Some(0), "{request}: {}", err(stopped));
        }
        place.guard(); // from now on nothing prevents arming
        let ended = place.said(arm);
        assert_eq!(ended.status.code(), Some(code), "{request}: {}", err(&ended));
        let said = err(&ended).contains("was disarmed while this request waited");
        assert_eq!(said, stopped.is_some(), "{request}: {}", err(&ended));
        assert_eq!(place.of_runtime()["armings"], i32::from(stopped.is_none()), "{request}");
    }
}
