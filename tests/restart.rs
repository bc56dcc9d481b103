//! A robot that arms by itself, across restarts of its program. It must not arm by itself after it was
//! disarmed, after its program died, or during the hold of an update.

use crate::cli::{self, Running, output};
use crate::folder::Folder;
use rustix::process::Signal;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Longer than a simulated robot takes to be ready, however busy the machine is.
const SOON: Duration = Duration::from_secs(120);

/// A folder with the socket of one robot, which the test starts any number of times.
struct RobotFolder {
    child: Running, // dropped first, so the robot ends before its folder is removed
    folder: Folder,
}

impl RobotFolder {
    fn new(name: &str) -> RobotFolder {
        RobotFolder { child: Running::none(), folder: Folder::new(&format!("restart-{name}")) }
    }
    fn path(&self, name: &str) -> String {
        self.folder.path(name)
    }
    fn has_mark(&self) -> bool {
        self.folder.join("unfinished-run").exists()
    }
    /// Starts the robot; it is ready when its self-test is over.
    fn start(&mut self) {
        let control = self.path("control");
        self.child =
            cli::watching_with(&["run", "--control", &control, "--arm", "--for", "600s"], |command| {
                command.env("STATE_DIRECTORY", &*self.folder);
            });
        self.soon("its self-test is over", |status| !["boot", "self-test"].contains(&mode(status)));
    }
    fn status(&self) -> Value {
        let told = output(&["status", "--json", "--socket", &self.path("control")]);
        serde_json::from_str(cli::out(&told).trim()).unwrap_or(Value::Null)
    }
    fn soon(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        let until = Instant::now() + SOON;
        loop {
            let status = self.status();
            if !status.is_null() && holds(&status) {
                return;
            }
            assert!(Instant::now() < until, "{what}: not within {} s: {status}", SOON.as_secs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    fn ask(&self, verb: &str) {
        let asked = output(&[verb, "--socket", &self.path("control")]);
        assert_eq!(asked.status.code(), Some(0), "{}", cli::err(&asked));
    }
    /// Ends the program by `signal`; returns its standard error.
    fn end(&mut self, signal: Signal) -> String {
        let child = std::mem::replace(&mut self.child, Running::none());
        child.send(&[signal]);
        cli::err(&child.finish())
    }
}

fn mode(status: &Value) -> &str {
    status["mode"].as_str().unwrap_or_default()
}

fn is_armed(status: &Value) -> bool {
    status["armings"].as_u64().is_some_and(|times| times > 0)
}

#[test]
fn auto_arm_needs_a_clean_end_and_reports_why_not() {
    let mut place = RobotFolder::new("ends");
    place.start();
    place.soon("it arms by itself", is_armed);
    assert!(place.has_mark());
    place.end(Signal::KILL);

    // Its program died: it stays stopped until a person arms it.
    place.start();
    let refused = place.status();
    assert!(refused["remark"].as_str().is_some_and(|words| words.contains("ganglion arm")), "{refused}");
    std::thread::sleep(Duration::from_millis(500)); // fifty slots in which it could arm
    assert!(!is_armed(&place.status()), "armed by itself after its program had died");
    place.ask("arm");
    assert!(place.end(Signal::TERM).contains("does not arm by itself"));
    assert!(!place.has_mark(), "a clean end of an armed robot");

    place.start();
    place.soon("it arms by itself again", is_armed);
    place.ask("disarm");
    place.end(Signal::TERM);
    assert!(place.has_mark(), "it was disarmed, and would have armed itself again");
}

#[test]
fn an_update_hold_lasts_until_a_person_arms() {
    let mut place = RobotFolder::new("hold");
    let hold = place.folder.join("hold");
    std::fs::write(&hold, "").unwrap();
    for _ in 0..2 {
        place.start();
        let refused = place.status();
        let remark = refused["remark"].as_str().unwrap_or_default().to_string();
        assert!(remark.contains("update") && remark.contains("ganglion arm"), "{refused}");
        std::thread::sleep(Duration::from_millis(500)); // fifty slots in which it could arm
        assert!(!is_armed(&place.status()), "armed by itself during a hold");
        place.end(Signal::KILL);
        // A reboot removes the marker of the run that died. The hold stays.
        std::fs::remove_file(place.folder.join("unfinished-run")).unwrap();
        assert!(hold.exists());
    }
    place.start();
    place.ask("arm");
    place.soon("a person has armed it", is_armed);
    place.end(Signal::TERM);
    assert!(!hold.exists(), "armed by a person");
    place.start();
    place.soon("it arms by itself again", is_armed);
    place.end(Signal::TERM);
}
