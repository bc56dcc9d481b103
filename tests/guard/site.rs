//! A folder with a board and sockets, and the processes that a test starts in it. Dropping it ends them.

use crate::cli::{Running, err, out, output, watching};
use crate::folder::Folder;
use rustix::process::Signal;
use serde_json::Value;
use std::process::Output;
use std::time::{Duration, Instant};

/// How long a test waits for an event that must come, even on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

/// A field that is cheap to compute: these tests are about other things.
const SMALL: &str = "[field]\ngrid = 8\npatterns = 1\nbank = 64\n";

/// A separate place for sockets and a board; ends the processes that were started in it.
pub struct TestSite {
    pub children: Vec<Running>, // dropped first, so they end before their folder is removed
    pub folder: Folder,
}

impl TestSite {
    /// A simulated board whose guard has this timeout.
    pub fn new(patience_ms: u32) -> TestSite {
        let guard = format!("[guard]\nholds = \"reset\"\npatience_ms = {patience_ms}.0\nrequired = true\n");
        TestSite::with(&format!("inherits = \"sim\"\n{guard}[safety]\nauto_arm = false\n{SMALL}"))
    }

    /// A simulated board without a guard.
    pub fn unguarded() -> TestSite {
        TestSite::with(&format!("inherits = \"sim\"\n[safety]\nauto_arm = false\n{SMALL}"))
    }

    /// A site with this board file.
    pub fn with(board: &str) -> TestSite {
        let folder = Folder::new("guard");
        folder.write("board.toml", board);
        TestSite { children: Vec::new(), folder }
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path(name)
    }

    pub fn start(&mut self, child: Running) -> usize {
        self.children.push(child);
        self.children.len() - 1
    }

    pub fn guard(&mut self) -> usize {
        let (board, socket) = (self.path("board.toml"), self.path("guard"));
        let guard = Running::start(&["guard", "--board", &board, "--socket", &socket], |_| ());
        let guard = self.start(guard);
        soon("the guard listens", || output(&["guard", "--status", "--socket", &socket]).status.success());
        guard
    }

    pub fn runtime(&mut self, more: &[&str]) -> usize {
        let [board, guard, control] = ["board.toml", "guard", "control"].map(|name| self.path(name));
        let its =
            ["run", "--board", &board, "--guard", &guard, "--control", &control, "--for", "600s", "--json"];
        let runtime = watching(&[&its, more].concat());
        let runtime = self.start(runtime);
        soon("the runtime listens", || output(&["status", "--socket", &control]).status.success());
        runtime
    }

    pub fn of_guard(&self) -> Value {
        let asked = output(&["guard", "--status", "--json", "--socket", &self.path("guard")]);
        serde_json::from_str(out(&asked).trim()).unwrap_or(Value::Null)
    }

    pub fn of_runtime(&self) -> Value {
        let asked = output(&["status", "--json", "--socket", &self.path("control")]);
        serde_json::from_str(out(&asked).trim()).unwrap_or(Value::Null)
    }

    /// Whether the runtime has stopped because of its guard.
    pub fn guard_lost(&self) -> bool {
        let causes = self.of_runtime()["causes"].clone();
        causes.as_array().is_some_and(|causes| causes.contains(&"guard-lost".into()))
    }

    pub fn ask(&self, verb: &[&str]) -> Output {
        let socket = self.path("control");
        output(&[verb, &["--socket", &socket]].concat())
    }

    /// Runs `safe-stop` for this site.
    pub fn safe_stop(&self, more: &[&str]) -> Output {
        let [board, guard, control] = ["board.toml", "guard", "control"].map(|name| self.path(name));
        let its = ["safe-stop", "--board", &board, "--guard", &guard, "--control", &control];
        output(&[&its, more].concat())
    }

    /// Arms the robot, and checks that it has not lost its guard, if it has one.
    pub fn arm(&self) {
        let armed = self.ask(&["arm", "--wait", "60s"]);
        assert_eq!(armed.status.code(), Some(0), "{}", err(&armed));
        assert!(!self.guard_lost());
    }

    pub fn send(&self, child: usize, signal: Signal) {
        self.children[child].send(&[signal]);
    }

    pub fn ended(&mut self, child: usize) -> Option<i32> {
        self.children[child].ended()
    }

    /// Waits for a child's end and returns its output.
    pub fn said(&mut self, child: usize) -> Output {
        let left = Running::none();
        std::mem::replace(&mut self.children[child], left).finish()
    }
}

pub fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < until, "{what}: not within {} s", SOON.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}
