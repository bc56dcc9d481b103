//! Command lines that are refused at once, with their exit code and message; and what a run reports that did
//! nothing.

use super::{err, ganglion, out, output};
use crate::folder::Folder;
use serde_json::Value;
use std::process::Output;

/// Runs the program as a user does, not as a service.
fn by_hand(arguments: &[&str]) -> Output {
    let mut command = ganglion(arguments);
    command.env_remove("INVOCATION_ID").env_remove("NOTIFY_SOCKET").output().expect("the program starts")
}

/// Checks that `arguments` end with `code` and a message that contains `part`.
fn is_refused(arguments: &[&str], code: i32, part: &str) {
    let ended = by_hand(arguments);
    let said = err(&ended);
    assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(part), "{arguments:?}: {said}");
    assert!(!said.contains("Usage:"), "{arguments:?}: {said}");
}

#[test]
fn negative_values_are_answered_with_the_allowed_range() {
    is_refused(&["run", "--for", "-5s"], 64, "must be longer than zero");
    is_refused(&["run", "--seed", "-1"], 64, "allowed: a whole number from 0 to");
    is_refused(&["bench", "loop", "--seconds", "-1"], 64, "-1 is not in 1..=86400");
    is_refused(&["run", "--fault", "estop@99999"], 64, "is outside 0 to 86400 seconds");
}

#[test]
fn a_wrong_command_line_names_the_help_of_its_verb() {
    is_refused(&["run", "--sed", "1"], 64, "'--seed'; see 'ganglion run --help')");
    is_refused(&["log", "replay"], 64, "not provided: <FILE|DIR> (to do: see 'ganglion log replay --help')");
    is_refused(&["run", "--clock", "moon"], 64, "[possible values: real, sim]");
    is_refused(&["tether", "--address", "foo"], 64, "expected HOST:PORT");
    let real = ["bench", "loop", "--board", "picarx-v4"];
    is_refused(&real, 64, "'ganglion bench all --board picarx-v4 --simulate'");
}

#[test]
fn a_missing_or_damaged_file_is_named_once() {
    let folder = Folder::new("named-once");
    let (absent, brain) = (folder.path("absent.bin"), folder.path("brain.bin"));
    let run = ["run", "--clock", "sim", "--for", "1s"];
    let saved = output(&[&run[..], &["--snapshot", &brain]].concat());
    assert_eq!(saved.status.code(), Some(0), "{}", err(&saved));
    let bytes = std::fs::read(&brain).expect("a brain");
    let cut = folder.write("cut.bin", &bytes[..3_000]);
    for (option, file, code) in [("--readout", &absent, 69), ("--snapshot", &cut, 65)] {
        let ended = by_hand(&[&run[..], &[option, file]].concat());
        let said = err(&ended);
        assert_eq!(ended.status.code(), Some(code), "{option}: {said}");
        assert_eq!(said.matches(file.as_str()).count(), 1, "{option}: {said}");
    }
}

#[test]
fn a_run_that_could_record_or_save_nothing_does_not_start() {
    let folder = Folder::new("nowhere");
    let file = folder.write("notes.txt", "mine");
    fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["run", "--clock", "sim", "--for", "1s"], more].concat()
    }
    is_refused(&run(&["--record", &file]), 64, "neither a folder nor a recording");
    is_refused(&run(&["--record", "/proc/foo"]), 69, "/proc/foo: ");
    is_refused(&run(&["--snapshot", &folder.path("absent/brain.bin")]), 69, "create the folder");
    is_refused(&run(&["--snapshot", &format!("{file}/brain.bin")]), 64, "not a folder");
    // As a service it drives on: its disk may be broken.
    let service = |more: &[&str]| ganglion(&run(more)).env("INVOCATION_ID", "0123").output().unwrap();
    let ended = service(&["--record", "/proc/foo", "--json"]);
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let report: Value = serde_json::from_str(out(&ended).lines().last().expect("a line")).expect("an object");
    assert_eq!(report["recording"]["slots"], 0, "{report}");
    assert!(report["recording"]["lost"].as_u64() > Some(10), "{report}");
    let ended = service(&["--snapshot", &folder.path("absent/brain.bin")]);
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
}

#[test]
fn faults_without_effect_are_reported_with_the_reason() {
    let faults = ["--fault", "i2c-1-stuck", "--fault", "estop@50", "--fault", "sonar-silent@0.5"];
    let ended = output(&[&["run", "--clock", "sim", "--for", "1s", "--json"][..], &faults].concat());
    let said = out(&ended);
    let report: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("an object");
    assert_eq!(report["idle_faults"], serde_json::json!(["i2c-1-stuck", "estop"]), "{said}");
    assert!(said.contains("i2c-1-stuck: no effect, because the board has no second I2C bus"), "{said}");
    assert!(said.contains("estop: no effect, because the run ended before its start"), "{said}");
    assert!(report["recording"].is_null(), "nothing was recorded");
}

#[test]
fn a_third_key_is_refused() {
    let folder = Folder::new("third-key");
    let file = folder.path("rover.key");
    let key = |more: &[&str]| by_hand(&[&["tether", "key", "rover", "-o", &file], more].concat());
    assert!(key(&[]).status.success() && key(&["--second"]).status.success());
    let third = key(&["--second"]);
    assert_eq!(third.status.code(), Some(65), "{}", err(&third));
    assert!(err(&third).contains("it already has two keys"), "{}", err(&third));
}
