//! The program as a shell or a service manager sees it.

mod brain; // the fields of many robots: start, status, end
mod alignment; // binaries for kernels with large pages
mod refusals; // command lines that are refused at once
mod remedies; // every command in help, errors and documents exists
mod setup; // setup on simulated machines: shown, done, undone
mod simulate; // any board in the simulator, never mistaken for a real run
mod sources; // figures that were not measured are labelled
mod support; // the support bundle: complete, bounded, and without secrets

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::folder::Folder;
use ganglion::workshop::learn::parallel;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A board file: the desk robot with an inertial sensor that reports the temperature of its die, which is 31
/// degrees in the model.
pub const WITH_HEAT: &str = r#"
inherits = "sim"

[[sensor]]
name = "die"
kind = "mpu6050"
unit = "degC"
address = 0x68
quantity = "temperature"
period_ms = 100.0
max_age_ms = 500.0
valid = [-40.0, 85.0]
"#;

pub fn ganglion(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ganglion"));
    // The user's environment must not change what the tests see.
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

#[test]
fn in_a_service_a_board_in_a_home_is_reported_as_hidden() {
    let path = "/home/nobody-here/robot.toml";
    for verb in [&["run", "--board", path][..], &["guard", "--board", path], &["check", path]] {
        let by_hand =
            ganglion(verb).env_remove("INVOCATION_ID").env_remove("NOTIFY_SOCKET").output().unwrap();
        let by_systemd =
            ganglion(verb).env("INVOCATION_ID", "0123").env_remove("NOTIFY_SOCKET").output().unwrap();
        assert_eq!(by_hand.status.code(), Some(78), "{verb:?}: {}", err(&by_hand));
        assert_eq!(by_systemd.status.code(), Some(78), "not restarted for ever");
        assert!(!err(&by_hand).contains("ProtectHome"), "{}", err(&by_hand));
        let said = err(&by_systemd);
        assert!(said.contains("ProtectHome=") && said.contains("/etc/ganglion/board.toml"), "{said}");
    }
}

/// Names that `help` lists under "Commands:".
fn listed(help: &str) -> Vec<String> {
    let from = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let lines = from.take_while(|line| !line.trim().is_empty());
    // Further lines of a wrapped description are indented deeper.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_string).collect()
}

#[test]
fn the_version_is_the_packages() {
    let version = output(&["--version"]);
    assert_eq!(version.status.code(), Some(0));
    assert_eq!(out(&version), format!("ganglion {}\n", env!("CARGO_PKG_VERSION")));
}

/// A run whose robot never becomes ready exits with a reason instead of waiting for ever. A run whose robot
/// was ready once continues, whatever the robot loses later.
#[test]
fn robot_never_ready_exits_69_and_says_what_it_lacks() {
    let run = |fault: &str, length: &str| {
        output(&["run", "--ready-within", "3s", "--for", length, "--fault", fault, "--engine", "cpu"])
    };
    let runs = [("sonar-silent@0+3600", "60s"), ("sonar-silent@4+3600", "5s")];
    let [never, once] = &parallel::map(2, &runs, |(fault, length)| run(fault, length))[..] else {
        unreachable!("one answer each")
    };
    assert_eq!(never.status.code(), Some(69), "{}", err(never));
    let said = err(never);
    assert!(said.contains("not ready within 3 s: ") && said.contains("doctor"), "{said}");
    assert_eq!(once.status.code(), Some(0), "{}", err(once));
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
    let examples = ["", "sudo "].map(|sudo| format!("  {sudo}ganglion {}", verb.join(" ")));
    let has_one = examples.iter().any(|example| text.contains(example));
    assert!(text.contains("Examples:") && has_one, "{verb:?} --help:\n{text}");
}

#[test]
fn a_wrong_command_line_exits_64_with_one_line_on_stderr() {
    for arguments in [&["fly"][..], &["doctor", "--jsn"], &["check"], &["doctor", "--json=perhaps"]] {
        let refused = output(arguments);
        assert_eq!(refused.status.code(), Some(64), "{arguments:?}");
        assert_eq!(out(&refused), "", "{arguments:?}");
        assert_eq!(err(&refused).lines().count(), 1, "{arguments:?}: {}", err(&refused));
        assert!(err(&refused).starts_with("ganglion: "));
    }
    let nearest = err(&output(&["doctr"]));
    assert!(nearest.contains("doctor"), "{nearest}");
    // Without a verb, the whole help is printed, but the exit code is still that of a wrong command line.
    let bare = output(&[]);
    assert_eq!(bare.status.code(), Some(64));
    assert!(err(&bare).contains("Commands:"));
}

#[test]
fn current_directory_never_changes_what_a_bare_name_means() {
    let folder = Folder::new("shadow");
    std::fs::create_dir(folder.join("sim")).expect("a folder");
    for name in ["picarx-v4", "mine"] {
        folder.write(name, "inherits = \"sim\"\n");
    }
    let here = |words: &[&str]| ganglion(words).current_dir(&folder).output().expect("the program starts");
    let real = here(&["check", "picarx-v4"]);
    let simulated = here(&["run", "--clock", "sim", "--for", "100ms"]);
    let (bare, file) = (here(&["check", "mine"]), here(&["check", "./mine"]));
    assert_eq!(out(&real), out(&output(&["check", "picarx-v4"])), "not a file that happens to be there");
    assert_eq!(simulated.status.code(), Some(0), "{}", err(&simulated));
    assert_eq!(bare.status.code(), Some(78));
    assert!(err(&bare).contains("as in ./mine"), "{}", err(&bare));
    assert_eq!(file.status.code(), Some(0), "{}", err(&file));
}

#[test]
fn simulated_run_reports_its_drive_and_keeps_a_held_level() {
    let run = |more: &[&str]| {
        let run = output(&[&["run", "--clock", "sim", "--for", "20s", "--json"], more].concat());
        assert_eq!(run.status.code(), Some(0), "{}", err(&run));
        serde_json::from_str::<Value>(out(&run).lines().last().expect("a line")).expect("JSON")
    };
    let [chosen, held] = [&[][..], &["--quality", "3"]].map(run);
    let number = |key: &str| chosen[key].as_f64().unwrap_or_else(|| panic!("{key} of {chosen}"));
    let (cells, metres) = (number("cells_visited"), number("distance_m"));
    // A path enters fewer than two new cells for each cell side (0.25 m) of its length.
    assert!(cells >= 4.0 && cells <= 2.0 + metres / 0.25 * 2.0, "{cells} cells in {metres} m");
    let (backward, still) = (number("backward_share"), number("still_share"));
    assert!(still > 0.0 && backward >= 0.0 && backward + still < 0.9, "{backward} backwards, {still} still");
    let in_rungs = |run: &Value| -> Vec<f64> {
        (0..6).map(|quality| run["level_s"][quality.to_string()].as_f64().expect("seconds")).collect()
    };
    assert!(in_rungs(&chosen)[0] > 15.0, "there is enough time for the best level: {:?}", in_rungs(&chosen));
    let all = in_rungs(&held);
    assert!(all[3] > 19.0 && all.iter().sum::<f64>() - all[3] < 0.5, "{all:?}");
    let refused = output(&["run", "--clock", "sim", "--quality", "6"]);
    assert!(refused.status.code() == Some(64) && err(&refused).contains("0 to 5"), "{}", err(&refused));
}

#[test]
fn a_saved_calibration_can_be_loaded_and_calibrated_again() {
    let folder = Folder::new("keep");
    let here = |words: &[&str]| ganglion(words).current_dir(&folder).output().expect("the program starts");
    let servo = |board: &str, save: &str| {
        here(&["calibrate", "servo", "steering", "--offset", "3.5", "--board", board, "--save", save])
    };
    let (first, second, bare) =
        (servo("sim", "one.toml"), servo("./one.toml", "two.toml"), servo("sim", "three"));
    let checked = here(&["check", "two.toml"]);
    let text = std::fs::read_to_string(folder.join("two.toml")).unwrap_or_default();
    assert_eq!(first.status.code(), Some(0), "{}", err(&first));
    assert_eq!(second.status.code(), Some(0), "{}", err(&second));
    assert!(text.contains("inherits = \"one.toml\"\n"), "{text}");
    assert_eq!(checked.status.code(), Some(0), "{}", err(&checked));
    assert_eq!(bare.status.code(), Some(64), "no board has that name");
    assert!(err(&bare).contains("ends in '.toml'"), "{}", err(&bare));
}

#[test]
fn a_calibration_measures_the_robot_whose_file_it_changes() {
    let folder = Folder::new("whose");
    let real = "inherits = \"picarx-v4\"\n[[motor]]\nname = \"steering\"\noffset_deg = 5.0\n";
    let own =
        folder.write("own.toml", "inherits = \"sim\"\n[[motor]]\nname = \"steering\"\noffset_deg = 5.0\n");
    let (car, new) = (folder.write("car.toml", real), folder.path("new.toml"));
    let servo = |more: &[&str]| {
        output(&[&["calibrate", "servo", "steering", "--offset", "3.5", "--save"], more].concat())
    };
    let said = servo(&[&own, "--json"]);
    assert_eq!(said.status.code(), Some(0), "{}", err(&said));
    let words = out(&said);
    assert!(words.contains("(simulated)") && words.contains("offset_deg: 5.0 -> 3.5"), "{words}");
    let object: Value = serde_json::from_str(words.lines().last().expect("a line")).expect("an object");
    assert_eq!((&object["changes"][0]["before"], &object["simulated"]), (&"5.0".into(), &true.into()));
    let other = servo(&[&own, "--board", "sim"]);
    assert!(
        out(&other).contains("offset_deg: 3.5 -> 3.5"),
        "the file's value, not the board's: {}",
        out(&other)
    );
    for (refused, why) in
        [(servo(&[&car, "--board", "sim"]), "the board of a real robot"), (servo(&[&new]), "does not exist")]
    {
        assert_eq!(refused.status.code(), Some(64), "{}", err(&refused));
        assert!(err(&refused).contains(why) && err(&refused).contains("--board"), "{}", err(&refused));
    }
    assert_eq!(std::fs::read_to_string(&car).unwrap(), real, "no simulated value got into it");
    assert!(!folder.join("new.toml").exists());
}

#[test]
fn safe_stop_needs_a_board_and_says_that_motors_are_simulated() {
    let simulated =
        output(&["safe-stop", "--board", "sim", "--guard", "/nowhere/g", "--control", "/nowhere/c"]);
    assert_eq!(simulated.status.code(), Some(0), "{}", err(&simulated));
    assert!(out(&simulated).contains("no real motor was stopped"), "{}", out(&simulated));
    if std::path::Path::new("/etc/ganglion/board.toml").exists() {
        return; // a robot: its motors are not for this test
    }
    let refused = output(&["safe-stop"]);
    assert_eq!((refused.status.code(), out(&refused).as_str()), (Some(64), ""), "{}", err(&refused));
    assert!(err(&refused).contains("--board FILE"), "{}", err(&refused));
}

#[test]
fn an_invalid_board_exits_78_and_names_its_line() {
    let folder = Folder::new("cli");
    let file = &*folder.write("board.toml", "inherits = \"sim\"\nperiod_ms = -3\n");
    for arguments in [&["check", file][..], &["doctor", "--board", file]] {
        let refused = output(arguments);
        assert_eq!(refused.status.code(), Some(78), "{arguments:?}: {}", err(&refused));
        let words = err(&refused);
        assert_eq!(words.lines().count(), 1, "{words}");
        assert!(words.contains(file) && words.contains("period_ms"), "{words}");
        assert!(!words.contains("backtrace"), "{words}");
    }
    std::fs::remove_file(file).expect("it existed");
    assert_eq!(output(&["check", file]).status.code(), Some(78), "a missing board file");
}

#[test]
fn a_board_that_requests_rppal_does_not_start_elsewhere() {
    if std::fs::read_to_string("/proc/device-tree/compatible")
        .is_ok_and(|words| words.contains("raspberrypi,"))
    {
        return; // a Raspberry Pi: the board starts here
    }
    let folder = Folder::new("rppal");
    let file = &*folder.write("board.toml", "inherits = \"generic-linux\"\n[bus]\naccess = \"rppal\"\n");
    assert_eq!(output(&["check", file]).status.code(), Some(0), "the board itself is valid");
    let refused = output(&["run", "--board", file, "--for", "1s"]);
    assert_eq!(refused.status.code(), Some(69), "{}", err(&refused));
    let words = err(&refused);
    assert!(words.contains("rppal") && words.contains("not a Raspberry Pi"), "{words}");
    assert!(words.contains("remove bus.access"), "{words}");
}

#[test]
fn a_closed_output_pipe_causes_no_panic() {
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
fn a_full_disk_is_reported_as_a_failure() {
    let full = File::options().write(true).open("/dev/full").expect("Linux has /dev/full");
    let ended = ganglion(&["check", "sim"]).stdout(full).stderr(Stdio::piped()).output().expect("it starts");
    assert_eq!(ended.status.code(), Some(69));
    assert!(err(&ended).contains("standard output"), "{}", err(&ended));
}

#[test]
fn only_the_journal_gets_priorities() {
    let folder = Folder::new("journal");
    let path = folder.join("written");
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
    // Inherited from a parent whose standard error was the journal, which this one is not.
    assert!(written_as("1:1").starts_with("ganglion: "));
}

#[test]
fn doctors_json_object_agrees_with_its_exit_code() {
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
            assert_eq!(
                verdict == "ok",
                finding["fix"].is_null(),
                "a fix for each finding that is not ok: {finding}"
            );
            stopping += usize::from(verdict == "refused" && finding["required"] == true);
            let topic = finding["topic"].as_str().expect("a topic");
            let line = text.lines().find(|line| line.starts_with(verdict) && line.contains(topic));
            assert!(line.is_some(), "{topic} is missing from the human-readable output");
        }
        assert_eq!(told.status.code(), Some(if stopping == 0 { 0 } else { 69 }), "{}", err(&told));
        // A measured figure states its number of samples.
        assert!(object["bare_timer"]["n"].as_u64().is_some_and(|n| n > 0));
        assert_eq!(object["granted"][0]["role"], "tick");
    }
}

/// The running program. It is killed when this value is dropped and, if the system has `setpriv`, also when
/// the thread that started it ends for any reason: a test that fails or is killed leaves no runtime behind.
pub struct Running(Option<Child>);

impl Running {
    /// Starts `arguments` in its own process group, so that a terminal's stop signals reach only it.
    pub fn start(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Running {
        let plain = ganglion(arguments);
        let leashed = ["setpriv", "--pdeathsig", "KILL"];
        let can = Command::new(leashed[0]).args(&leashed[1..]).arg("true").output();
        let mut command = match can.is_ok_and(|tried| tried.status.success()) {
            false => plain,
            true => {
                let mut command = Command::new(leashed[0]);
                command.args(&leashed[1..]).arg(plain.get_program()).args(plain.get_args());
                plain.get_envs().for_each(|(name, _)| _ = command.env_remove(name));
                command
            }
        };
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        change(&mut command);
        Running(Some(command.spawn().expect("the program starts")))
    }

    /// Placeholder for a process that has already been waited for.
    pub fn none() -> Running {
        Running(None)
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("the process has not been waited for")
    }

    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("the process has not been waited for").id()
    }

    pub fn is_running(&mut self) -> bool {
        self.child().try_wait().expect("a child").is_none()
    }

    /// Waits for the process to end and returns its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        self.child().wait().expect("a child").code()
    }

    /// Waits for the process to end and returns its output.
    pub fn finish(mut self) -> Output {
        self.0.take().expect("the process has not been waited for").wait_with_output().expect("it ends")
    }

    pub fn send(&self, signals: &[Signal]) {
        let pid = Pid::from_raw(self.id() as i32).expect("a process");
        signals.iter().for_each(|&signal| kill_process(pid, signal).expect("the process exists"));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Signals that request a program to exit.
pub const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
/// Signals by which a terminal stops a program.
pub const STOPPING: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// A ten-minute run, once it watches for signals.
fn a_long_run() -> Running {
    watching(&["run", "--for", "600s", "--json"])
}

/// The running program, once it watches for signals.
pub fn watching(arguments: &[&str]) -> Running {
    watching_with(arguments, |_| ())
}

/// Like `watching`, but `change` may change how the program is started.
pub fn watching_with(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Running {
    let mut running = Running::start(arguments, change);
    let wanted: u64 = ENDING.iter().map(|signal| 1 << (signal.as_raw() - 1)).sum();
    let started = Instant::now();
    while caught(running.id()) & wanted != wanted {
        assert!(running.is_running(), "it ended by itself: {}", err(&running.finish()));
        assert!(started.elapsed() < Duration::from_secs(60), "it never watched for signals");
        std::thread::sleep(Duration::from_millis(5));
    }
    running
}

/// Whether process `id` was stopped by a signal.
pub fn is_stopped(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && line.contains("T (stopped"))
}

/// Sends every signal by which a terminal would stop a process, and checks that the process is not in the
/// stopped state during the 100 ms after each.
pub fn is_not_stopped_by_a_terminal(running: &Running) {
    for signal in STOPPING {
        running.send(&[signal]);
        for _ in 0..20 {
            assert!(!is_stopped(running.id()), "{signal:?} stopped it");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The signals that process `id` catches, from `/proc`.
fn caught(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[test]
fn one_signal_ends_a_run_with_still_motors_and_a_summary() {
    for signal in ENDING {
        let run = a_long_run();
        run.send(&[signal]);
        let ended = run.finish();
        assert_eq!(ended.status.code(), Some(0), "{signal:?}: {}", err(&ended));
        let object: Value = serde_json::from_str(out(&ended).lines().last().expect("a line")).expect("JSON");
        assert_eq!(object["motors_still"], true, "{signal:?}");
    }
}

#[test]
fn signals_arriving_together_stop_the_motors_once() {
    let run = a_long_run();
    // Signals sent while the process is stopped stay pending, and arrive together.
    run.send(&[Signal::STOP, Signal::INT, Signal::HUP, Signal::TERM, Signal::QUIT, Signal::CONT]);
    let ended = run.finish();
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let object: Value = serde_json::from_str(out(&ended).lines().last().expect("a line")).expect("JSON");
    assert_eq!(object["motors_still"], true);
}

#[test]
fn terminal_signals_do_not_stop_a_run() {
    let run = a_long_run();
    is_not_stopped_by_a_terminal(&run);
    run.send(&[Signal::TERM]);
    assert_eq!(run.finish().status.code(), Some(0));
}

#[test]
fn every_signal_ends_manual_motor_commands_and_saves_nothing() {
    let folder = Folder::new("trim");
    let file = &*folder.path("board.toml");
    for signal in ENDING {
        for verb in [
            // Waits for a person who does not answer.
            &["calibrate", "servo", "steering", "--board", "sim", "--save", file][..],
            // Half an hour of samples.
            &[
                "calibrate",
                "adc",
                "battery",
                "--reference",
                "7.8",
                "--samples",
                "100000",
                "--board",
                "sim",
                "--save",
                file,
            ],
        ] {
            let (silent, _held) = std::io::pipe().expect("a pipe");
            let run = watching_with(verb, |command| _ = command.stdin(silent));
            is_not_stopped_by_a_terminal(&run);
            run.send(&[signal]);
            let ended = run.finish();
            assert_eq!(ended.status.code(), Some(69), "{verb:?} {signal:?}: {}", err(&ended));
            assert!(err(&ended).contains("interrupted"), "{}", err(&ended));
            assert_eq!(folder.names(), [""; 0], "{verb:?} {signal:?}");
        }
    }
}

#[test]
fn strict_board_refused_a_grant_exits_77_without_figures() {
    let folder = Folder::new("strict");
    let board = "inherits = \"sim\"\n[rt]\nstrict = true\ncpu = 1023\n"; // a core that no test machine has
    let file = &*folder.write("board.toml", board);
    let refused = output(&["run", "--board", file, "--for", "600s", "--json"]);
    let doctor = output(&["doctor", "--board", file]);
    assert_eq!(refused.status.code(), Some(77), "{}", err(&refused));
    assert_eq!(out(&refused), "");
    assert!(err(&refused).contains("core 1023") && err(&refused).contains("rt.cpu"), "{}", err(&refused));
    assert_eq!(doctor.status.code(), Some(69), "{}", err(&doctor));
}
