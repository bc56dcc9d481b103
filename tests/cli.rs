//! The program as a shell or a service manager meets it.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub fn ganglion(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ganglion"));
    // What the person who runs the tests has set must not change what they see.
    command.args(arguments).env_remove("RUST_LOG").env_remove("JOURNAL_STREAM").env_remove("RUST_BACKTRACE");
    command
}

pub fn output(arguments: &[&str]) -> Output {
    ganglion(arguments).output().expect("the program starts")
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Names that `help` lists below "Commands:".
fn listed(help: &str) -> Vec<String> {
    let from = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let lines = from.take_while(|line| !line.trim().is_empty());
    // Further lines of a wrapped description are indented deeper.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_string).collect()
}

#[test]
fn version_is_the_packages_own() {
    let version = output(&["--version"]);
    assert_eq!(version.status.code(), Some(0));
    assert_eq!(out(&version), format!("ganglion {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_verb_has_examples() {
    let help = out(&output(&["--help"]));
    assert!(help.contains("Exit codes: 0"));
    let verbs = listed(&help);
    assert!(verbs.contains(&"doctor".to_string()) && verbs.contains(&"check".to_string()), "{verbs:?}");
    for verb in verbs.iter().filter(|verb| *verb != "help") {
        let below = listed(&out(&output(&[verb, "--help"])));
        match below.is_empty() {
            true => has_examples(&[verb]),
            false => below.iter().filter(|sub| *sub != "help").for_each(|sub| has_examples(&[verb, sub])),
        }
    }
}

fn has_examples(verb: &[&str]) {
    let help = output(&[verb, &["--help"]].concat());
    assert_eq!(help.status.code(), Some(0), "{verb:?}");
    let text = out(&help);
    let example = format!("  ganglion {}", verb.join(" "));
    assert!(text.contains("Examples:") && text.contains(&example), "{verb:?} --help:\n{text}");
}

#[test]
fn a_wrong_command_line_is_64_with_one_line_on_standard_error() {
    for arguments in [&["fly"][..], &["doctor", "--jsn"], &["check"], &["doctor", "--json=perhaps"]] {
        let refused = output(arguments);
        assert_eq!(refused.status.code(), Some(64), "{arguments:?}");
        assert_eq!(out(&refused), "", "{arguments:?}");
        assert_eq!(err(&refused).lines().count(), 1, "{arguments:?}: {}", err(&refused));
        assert!(err(&refused).starts_with("ganglion: "));
    }
    let nearest = err(&output(&["doctr"]));
    assert!(nearest.contains("doctor"), "{nearest}");
    // No verb at all: the whole help, and still a wrong command line.
    let bare = output(&[]);
    assert_eq!(bare.status.code(), Some(64));
    assert!(err(&bare).contains("Commands:"));
}

#[test]
fn a_wrong_board_is_78_and_says_where_in_one_line() {
    let path = std::env::temp_dir().join(format!("ganglion-cli-{}.toml", std::process::id()));
    std::fs::write(&path, "inherits = \"sim\"\nperiod_ms = -3\n").expect("a board file");
    let file = path.to_str().expect("UTF-8");
    for arguments in [&["check", file][..], &["doctor", "--board", file]] {
        let refused = output(arguments);
        assert_eq!(refused.status.code(), Some(78), "{arguments:?}: {}", err(&refused));
        let words = err(&refused);
        assert_eq!(words.lines().count(), 1, "{words}");
        assert!(words.contains(file) && words.contains("period_ms"), "{words}");
        assert!(!words.contains("backtrace"), "{words}");
    }
    std::fs::remove_file(&path).expect("it was there");
    assert_eq!(output(&["check", file]).status.code(), Some(78), "a missing board file");
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    for arguments in [&["check", "sim"][..], &["--help"], &["doctor"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ended =
            ganglion(arguments).stdout(writer).stderr(Stdio::piped()).output().expect("the program starts");
        assert_eq!(ended.status.code(), Some(0), "{arguments:?}: {}", err(&ended));
        assert_eq!(err(&ended), "", "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_a_failure_and_not_a_success() {
    let full = File::options().write(true).open("/dev/full").expect("Linux has /dev/full");
    let ended = ganglion(&["check", "sim"]).stdout(full).stderr(Stdio::piped()).output().expect("it starts");
    assert_eq!(ended.status.code(), Some(69));
    assert!(err(&ended).contains("standard output"), "{}", err(&ended));
}

#[test]
fn the_journal_gets_priorities_and_nobody_else_does() {
    let path = std::env::temp_dir().join(format!("ganglion-journal-{}", std::process::id()));
    let written_as = |stream: &str| {
        let file = File::create(&path).expect("a file");
        let told = match stream {
            "its own" => {
                let its = file.metadata().expect("metadata");
                format!("{}:{}", its.dev(), its.ino())
            }
            other => other.to_string(),
        };
        let status = ganglion(&["fly"]).env("JOURNAL_STREAM", told).stderr(file).status().expect("it starts");
        assert_eq!(status.code(), Some(64));
        std::fs::read_to_string(&path).expect("what was written")
    };
    assert!(written_as("its own").starts_with("<3>ganglion: "));
    // Inherited from a parent whose standard error was the journal; ours is not.
    assert!(written_as("1:1").starts_with("ganglion: "));
    std::fs::remove_file(&path).expect("it was there");
}

#[test]
fn doctor_ends_with_one_object_that_agrees_with_its_exit() {
    for board in [None, Some("sim"), Some("picarx-v4")] {
        let mut arguments = vec!["doctor", "--json"];
        arguments.extend(board.iter().flat_map(|board| ["--board", board]));
        let told = output(&arguments);
        let text = out(&told);
        let object: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
        assert_eq!(object["schema"], 1);
        assert_eq!(object["board"].as_str(), board);
        let findings = object["findings"].as_array().expect("findings");
        let mut stopping = 0;
        for finding in findings {
            let verdict = finding["verdict"].as_str().expect("a verdict");
            assert_eq!(verdict == "ok", finding["fix"].is_null(), "a fix for each that is not ok: {finding}");
            stopping += usize::from(verdict == "refused" && finding["required"] == true);
            let topic = finding["topic"].as_str().expect("a topic");
            let line = text.lines().find(|line| line.starts_with(verdict) && line.contains(topic));
            assert!(line.is_some(), "{topic} is not among the lines for people");
        }
        assert_eq!(told.status.code(), Some(if stopping == 0 { 0 } else { 69 }), "{}", err(&told));
        // Something measured says how often.
        assert!(object["bare_timer"]["n"].as_u64().is_some_and(|n| n > 0));
        assert_eq!(object["granted"][0]["role"], "tick");
    }
}

/// A run that would go on for ten minutes, once it watches for signals.
fn a_long_run() -> Child {
    watching(&["run", "--for", "600s", "--json"])
}

/// The program at work on something long, once it watches for signals.
pub fn watching(arguments: &[&str]) -> Child {
    let mut child = ganglion(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let wanted: u64 = [Signal::INT, Signal::TERM].iter().map(|signal| 1 << (signal.as_raw() - 1)).sum();
    let started = Instant::now();
    while caught(child.id()) & wanted != wanted {
        let ended = child.try_wait().expect("a child");
        assert!(ended.is_none(), "it ended by itself: {}", err(&child.wait_with_output().expect("output")));
        assert!(started.elapsed() < Duration::from_secs(60), "it never watched for signals");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// The signals that process `id` catches, as `/proc` has them.
fn caught(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

pub fn send(child: &Child, signals: &[Signal]) {
    let pid = Pid::from_child(child);
    signals.iter().for_each(|&signal| kill_process(pid, signal).expect("it is there"));
}

#[test]
fn one_signal_ends_a_run_with_still_motors_and_a_summary() {
    for signal in [Signal::INT, Signal::TERM] {
        let child = a_long_run();
        send(&child, &[signal]);
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(0), "{signal:?}: {}", err(&ended));
        let object: Value = serde_json::from_str(out(&ended).lines().last().expect("a line")).expect("JSON");
        assert_eq!(object["motors_still"], true, "{signal:?}");
    }
}

#[test]
fn signals_that_arrive_together_are_one_wish_and_still_the_motors() {
    let child = a_long_run();
    // Two signals that wait while the process is stopped arrive together.
    send(&child, &[Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT]);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let object: Value = serde_json::from_str(out(&ended).lines().last().expect("a line")).expect("JSON");
    assert_eq!(object["motors_still"], true);
}

#[test]
fn a_strict_board_that_is_refused_something_ends_with_77_and_no_figures() {
    let path = std::env::temp_dir().join(format!("ganglion-strict-{}.toml", std::process::id()));
    let board = "inherits = \"sim\"\n[rt]\nstrict = true\ncpu = 1023\n"; // a core that no machine here has
    std::fs::write(&path, board).expect("a board file");
    let file = path.to_str().expect("UTF-8");
    let refused = output(&["run", "--board", file, "--for", "600s", "--json"]);
    let doctor = output(&["doctor", "--board", file]);
    std::fs::remove_file(&path).expect("it was there");
    assert_eq!(refused.status.code(), Some(77), "{}", err(&refused));
    assert_eq!(out(&refused), "");
    assert!(err(&refused).contains("core 1023") && err(&refused).contains("rt.cpu"), "{}", err(&refused));
    assert_eq!(doctor.status.code(), Some(69), "{}", err(&doctor));
}
