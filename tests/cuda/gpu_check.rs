//! `scripts/gpu-check` without a GPU: fake programs that print nonsense, hang and die, fake tools, and a
//! rehearsal with the real program on the stand-in driver. Skipped without Python.

mod figures; // what is parsed and judged
mod losses; // what must not be lost

use crate::folder::Folder;
use crate::skips::skip;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROBOT_F32: &str = "bench/cuda/32/f32/level-0";
const ROBOT_F16: &str = "bench/cuda/32/f16/level-0";

/// A separate checkout with the script, and shell scripts as program, tests and tools.
struct Kit(Folder);

impl Kit {
    /// `ganglion`: the lines of the shell script that replaces the program. The test program runs no tests.
    /// `None` without Python: the test is then skipped.
    fn new(name: &str, ganglion: &str) -> Option<Kit> {
        if Command::new("python3").arg("--version").output().is_err() {
            skip("no python3");
            return None;
        }
        let kit = Kit(Folder::new(&format!("gpu-check-{name}")));
        for folder in ["target/gpu-check", "scripts/gpu_check", "bin"] {
            fs::create_dir_all(kit.path(folder)).expect("a folder");
        }
        for file in fs::read_dir("scripts/gpu_check").expect("the script's modules") {
            let file = file.expect("an entry").path();
            if file.is_file() {
                let to = kit.path("scripts/gpu_check").join(file.file_name().expect("a name"));
                fs::copy(&file, to).expect("copied");
            }
        }
        fs::copy("scripts/gpu-check", kit.path("scripts/gpu-check")).expect("copied");
        kit.program("target/gpu-check/ganglion", ganglion);
        kit.program("target/gpu-check/tests", "exit 0");
        Some(kit)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    /// Lets another process write a shell script. If a thread of this process wrote it while another thread
    /// started a child, the child would inherit the file open for writing, and executing it would fail
    /// (ETXTBSY).
    fn program(&self, path: &str, lines: &str) {
        let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$2\" && chmod +x \"$2\"";
        let written = Command::new("sh").args(["-c", write, "sh", lines, path]).current_dir(&self.0).status();
        assert!(written.expect("a shell").success());
    }

    fn link(&self, to: &Path, path: &str) {
        let _ = fs::remove_file(self.path(path));
        symlink(to, self.path(path)).expect("a link");
    }

    /// The script with these arguments; the tools in `bin` come first in its `PATH`.
    fn command(&self, arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        // A background job of a shell script ignores SIGINT, and its child processes inherit that.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", "python3"]).arg(self.path("scripts/gpu-check")).args(arguments);
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command
    }

    /// Runs the script; returns its output and the report that it wrote.
    fn check(&self, arguments: &[&str]) -> (Output, Value) {
        let said = self.command(arguments).output().expect("python3");
        assert_eq!(text(&said.stderr), "", "the script itself complains");
        (said, self.report())
    }

    fn report(&self) -> Value {
        let report = fs::read(self.path("target/gpu-check/report.json")).expect("written");
        serde_json::from_slice(&report).expect("JSON")
    }

    /// A part's output.
    fn log(&self, part: &Value, which: usize) -> Vec<u8> {
        let name = part["logs"][which].as_str().expect("the name of a log");
        fs::read(self.path("target/gpu-check/report.logs").join(name)).expect("a log")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The entry of a part.
fn part<'r>(report: &'r Value, name: &str) -> &'r Value {
    let parts = report["parts"].as_array().expect("a list");
    parts.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("no {name} in the file"))
}

fn word<'r>(report: &'r Value, name: &str, key: &str) -> &'r str {
    part(report, name)[key].as_str().unwrap_or_default()
}

/// The result of each part, in order.
fn results(report: &Value) -> Vec<&str> {
    let parts = report["parts"].as_array().expect("a list");
    parts.iter().map(|part| part["result"].as_str().expect("a word")).collect()
}

#[test]
fn list_starts_with_the_most_important_part_and_has_no_repeats() {
    let Some(kit) = Kit::new("list", "exit 0") else { return };
    let list = kit.command(&["--list"]).output().expect("python3");
    let list = text(&list.stdout);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let at = |name: &str| {
        let found: Vec<usize> = (0..names.len()).filter(|at| names[*at] == name).collect();
        assert_eq!(found.len(), 1, "{name}: {list}");
        found[0]
    };
    let order = [
        "facts",
        "compiler",
        "doctor",
        ROBOT_F32,
        ROBOT_F16,
        "bench/cuda/batch-32/f32",
        "bench/cuda/batch-64/f16",
        "tests",
        "start/image-and-jit",
        "start/cache",
        "memcheck",
        "racecheck",
        "initcheck",
        "synccheck",
        "bench/hrr",
        "bench/cuda/32/f32/level-1",
        "bench/cpu/32/f32/level-0",
        "bench/cuda/16/f32/level-0",
        "bench/cuda/64/f16/level-5",
        "bench/cpu/64/f16/level-5",
    ];
    let places = order.map(at);
    assert!(places.is_sorted(), "{places:?}");
    // One robot at every level on three grids in both storages, and two batches.
    assert_eq!(names.iter().filter(|name| name.starts_with("bench/cuda/")).count(), 3 * 6 * 2 + 2, "{list}");
    let help = text(&kit.command(&["--help"]).output().expect("python3").stdout);
    let first = help.lines().next().unwrap_or_default();
    assert!(first.contains("--build") && first.contains("cargo"), "{first}");
    assert!(help.contains("nine minutes at most"), "{help}");
}

#[test]
fn an_unknown_option_or_part_is_refused_and_nothing_runs() {
    let Some(kit) = Kit::new("refuses", "exit 0") else { return };
    for (arguments, named) in
        [(&["--lsit"][..], "--lsit"), (&["--only", "memchek"], "memchek"), (&["--minutes", "x"], "--minutes")]
    {
        let said = kit.command(arguments).output().expect("python3");
        assert_eq!(said.status.code(), Some(64), "{arguments:?}");
        assert!(text(&said.stderr).contains(named), "{}", text(&said.stderr));
    }
    assert!(!kit.path("target/gpu-check/report.json").exists());
    fs::remove_file(kit.path("target/gpu-check/tests")).expect("removed");
    let said = kit.command(&[]).output().expect("python3");
    assert_eq!(said.status.code(), Some(69), "nothing was built");
    assert!(text(&said.stderr).contains("--build"), "{}", text(&said.stderr));
}
