//! A part that fails, whatever it prints and however it ends, must not lose the results of the other parts;
//! nor must a signal.

use super::{Kit, ROBOT_F16, ROBOT_F32, part, results, text, word};
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Answers `doctor`, and gives each of the two one-robot benches a different answer.
fn answers(f32: &str, f16: &str) -> String {
    let answers = format!(
        "*doctor*) echo '{{\"here\":1}}' ;;\n*'f32 --quality'*) {f32} ;;\n*'f16 --quality'*) {f16} ;;"
    );
    format!("case \"$*\" in\n{answers}\nesac")
}

/// The four parts that these tests use, in their order.
const FOUR: [&str; 8] = ["--only", "doctor", "--only", ROBOT_F32, "--only", ROBOT_F16, "--only", "tests"];

#[test]
fn a_parts_output_cannot_hide_other_results() {
    // Invalid UTF-8 before a good last line, and in the last line; no object; no output; numbers and text
    // that JSON does not allow; another engine; nesting too deep; death by a signal; an error exit.
    let object = r#"{"engine":"cuda","device":"X","cycle":{"p50_us":1}}"#;
    let deep = "python3 -c 'print(\"[\" * 100000)'";
    let nested = r#"python3 -c 'print("{\"engine\":\"cuda\",\"x\":" + "[" * 950 + "]" * 950 + "}")'"#;
    let cases = [
        (format!("printf 'a\\377b\\n{object}\\n'"), "passed", ""),
        ("printf '{\"engine\":\"cuda\",\"x\":\"\\377\\n'".to_string(), "failed", "no JSON on the last line"),
        ("echo '[1, 2]'".to_string(), "failed", "not a JSON object: [1, 2]"),
        ("echo 7".to_string(), "failed", "not a JSON object: 7"),
        ("exit 0".to_string(), "failed", "no JSON on the last line"),
        (r#"echo '{"engine":"cuda","x":NaN}'"#.to_string(), "failed", "is not a finite number"),
        (r#"echo '{"engine":"cuda","x":1e999}'"#.to_string(), "failed", "is not a finite number"),
        (r#"echo '{"engine":"cuda","x":"\ud800"}'"#.to_string(), "failed", "surrogates not allowed"),
        (r#"echo '{"engine":["cuda"]}'"#.to_string(), "failed", "the engine was ['cuda'], not cuda"),
        (deep.to_string(), "failed", ""),
        (nested.to_string(), "failed", "more than 32 deep"),
        ("kill -9 $$".to_string(), "failed", "killed by signal 9"),
        ("echo 'no device: \\303' >&2; exit 69".to_string(), "failed", "exit code 69: no device"),
    ];
    for (number, (prints, result, why)) in cases.iter().enumerate() {
        let lines = answers(&prints.replace("\\ud800", "\\\\ud800"), &format!("echo '{object}'"));
        let Some(kit) = Kit::new(&format!("prints-{number}"), &lines) else { return };
        kit.program("target/gpu-check/tests", "echo 'test result: ok. 3 passed; 0 failed; 0 ignored'");
        let (said, report) = kit.check(&FOUR);
        let bad = word(&report, ROBOT_F32, "result");
        assert_eq!(bad, *result, "{prints}");
        assert!(word(&report, ROBOT_F32, "why").contains(why), "{prints}: {}", part(&report, ROBOT_F32));
        assert_eq!(said.status.code(), Some(i32::from(bad == "failed")), "{prints}");
        assert_eq!(part(&report, "doctor")["output"]["here"], 1, "{prints}");
        assert_eq!(part(&report, ROBOT_F16)["output"]["device"], "X", "{prints}");
        assert_eq!(part(&report, "tests")["output"]["passed"], 3, "{prints}");
        assert_eq!((&report["state"], &report["schema"]), (&json!("complete"), &json!(2)), "{prints}");
        if number == 0 {
            let log = kit.log(part(&report, ROBOT_F32), 0);
            assert_eq!(log, format!("a\u{ff}b\n{object}\n").chars().map(|c| c as u8).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_hanging_part_is_killed_and_the_rest_skipped() {
    let Some(kit) = Kit::new("hang", &answers("sleep 600 & exec sleep 600", "exit 3")) else { return };
    let (said, report) = kit.check(&["--minutes", "0.05"]);
    assert_eq!(said.status.code(), Some(1));
    assert_eq!(part(&report, "doctor")["output"]["here"], 1);
    let hung = part(&report, ROBOT_F32);
    assert_eq!((&hung["result"], &hung["exit_code"]), (&json!("failed"), &json!(-9)));
    assert!(word(&report, ROBOT_F32, "why").ends_with("s: killed"), "{hung}");
    let left = part(&report, "bench/cpu/64/f16/level-5");
    assert_eq!(left["result"], "not begun");
    assert!(left["why"].as_str().is_some_and(|why| why.contains("the time limit was reached")), "{left}");
    assert_eq!(report["state"], "the time limit was reached");
    // Every part is counted once, and has a line at its start if it began.
    let counted: u64 =
        report["counts"].as_object().expect("counts").values().filter_map(|n| n.as_u64()).sum();
    assert_eq!(counted, results(&report).len() as u64);
    let (lines, begun) =
        (text(&said.stdout), results(&report).iter().filter(|word| **word != "not begun").count());
    assert_eq!(lines.lines().filter(|line| line.starts_with("start ")).count(), begun, "{lines}");
    let targets = report["targets"].as_array().expect("a list");
    assert!(targets.len() == 7 && targets.iter().all(|target| target["verdict"] == "not measured"));
}

/// Starts the check and waits until the program, which writes `started`, runs.
fn until_it_runs(kit: &Kit) -> std::process::Child {
    let mut script = kit.command(&FOUR).stdout(Stdio::piped()).spawn().expect("python3");
    let lines = BufReader::new(script.stdout.take().expect("piped")).lines();
    // Printed before the part starts and not buffered, although standard output is not a terminal.
    let mut lines = lines.map(|line| line.expect("a line"));
    assert!(lines.any(|line| line.starts_with("start ") && line.contains(ROBOT_F32)), "it says what begins");
    while fs::read_to_string(kit.path("started")).map_or(0, |pids| pids.lines().count()) < 2 {
        std::thread::yield_now();
    }
    std::thread::spawn(move || lines.for_each(drop)); // drains the rest, so that the script can print it
    script
}

/// A program that records its own process ID and that of a child, both ignoring SIGTERM if `deaf`.
fn two_processes(deaf: bool) -> String {
    let deaf = if deaf { "trap '' TERM; " } else { "" };
    answers(&format!("{deaf}sleep 600 & echo $! >>started; echo $$ >>started; wait; sleep 600"), "exit 3")
}

/// The IDs of the recorded processes that still run; a zombie does not count.
fn alive(kit: &Kit) -> Vec<String> {
    let pids = fs::read_to_string(kit.path("started")).expect("two numbers");
    let state = |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let runs = |pid: &&str| {
        state(pid).rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['R', 'S', 'D', 'T']))
    };
    pids.lines().filter(runs).map(str::to_string).collect()
}

/// Waits for the processes to end, about 10 s at most, and returns those that are left. On a busy machine a
/// killed process ends only once it has been scheduled. One that was not killed lives for ten minutes, which
/// is longer than any wait here.
fn left_alive(kit: &Kit) -> Vec<String> {
    let mut looks = 0;
    while !alive(kit).is_empty() && looks < 1_000 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        looks += 1;
    }
    alive(kit)
}

#[test]
fn a_signal_ends_the_parts_processes_and_writes_the_file() {
    for (signal, name, code, deaf) in
        [("-TERM", "SIGTERM", 143, false), ("-INT", "SIGINT", 130, false), ("-TERM", "SIGTERM", 143, true)]
    {
        let Some(kit) = Kit::new(&format!("signal-{code}-{deaf}"), &two_processes(deaf)) else { return };
        let mut script = until_it_runs(&kit);
        assert_eq!(alive(&kit).len(), 2);
        let sent = Command::new("kill").args([signal, &script.id().to_string()]).status();
        assert!(sent.expect("kill").success());
        assert_eq!(script.wait().expect("it ends").code(), Some(code), "{name}");
        assert_eq!(left_alive(&kit), [""; 0], "{name}, deaf: {deaf}");
        let report = kit.report();
        assert_eq!(results(&report), ["passed", "interrupted", "not begun", "not begun"]);
        assert!(word(&report, ROBOT_F32, "why").starts_with(&format!("ended by {name}")), "{report}");
        assert_eq!(report["state"], format!("ended by {name}"));
    }
}

#[test]
fn processes_left_by_a_part_are_killed() {
    let Some(kit) = Kit::new("left", &answers("sleep 600 & echo $! >>started; exit 3", "exit 3")) else {
        return;
    };
    kit.check(&FOUR);
    assert_eq!(fs::read_to_string(kit.path("started")).map_or(0, |pids| pids.lines().count()), 1);
    assert_eq!(left_alive(&kit), [""; 0]);
}

#[test]
fn killed_script_leaves_a_file_saying_what_was_done() {
    let Some(kit) = Kit::new("killed", &two_processes(false)) else { return };
    let mut script = until_it_runs(&kit);
    script.kill().and_then(|()| script.wait().map(drop)).expect("killed");
    let report = kit.report();
    assert_eq!(results(&report), ["passed", "running", "not begun", "not begun"]);
    assert_eq!((&report["state"], &report["counts"]["not begun"]), (&json!("running"), &json!(2)));
    // The shell first: it would continue with its next command when its child ends.
    for pid in alive(&kit).iter().rev() {
        let _ = Command::new("kill").args(["-KILL", pid]).status();
    }
}

#[test]
fn a_closed_output_pipe_loses_no_results() {
    let Some(kit) = Kit::new("closed", &answers("exit 3", "exit 3")) else { return };
    let mut script =
        kit.command(&FOUR).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("python3");
    drop(script.stdout.take());
    assert_eq!(script.wait().expect("it ends").code(), Some(1));
    assert_eq!(results(&kit.report()), ["passed", "failed", "failed", "failed"]);
}

#[test]
fn logs_of_an_earlier_run_are_not_reused() {
    let Some(kit) = Kit::new("logs", &answers("exit 3", "exit 3")) else { return };
    let logs = kit.path("target/gpu-check/report.logs");
    let names = || {
        let found = fs::read_dir(&logs).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = found.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    kit.check(&FOUR);
    assert_eq!(names().len(), 8, "two per part");
    kit.check(&["--only", "doctor"]);
    assert_eq!(names(), ["01-doctor.err", "01-doctor.out"]);
}
