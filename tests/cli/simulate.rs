//! `--simulate` as a user sees it: its output cannot be mistaken for a real run, and no robot is touched.

use super::{Running, err, out, output};
use crate::folder::Folder;
use serde_json::Value;
use std::time::{Duration, Instant};

fn object(text: &str) -> Value {
    serde_json::from_str(text.lines().last().expect("a line")).expect("JSON")
}

#[test]
fn a_simulated_jetson_drives_and_is_labelled_simulated() {
    let virtually = ["run", "--board", "jetson-orin-nano", "--clock", "sim", "--for", "5s", "--json"];
    let refused = output(&virtually);
    assert_eq!(refused.status.code(), Some(69), "{}", err(&refused));
    assert!(err(&refused).contains("--simulate"), "{}", err(&refused));
    let ended = output(&[&virtually[..], &["--simulate"]].concat());
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let report = object(&out(&ended));
    assert_eq!((&report["simulated"], &report["board"]), (&Value::Bool(true), &"jetson-orin-nano".into()));
    assert!(report["distance_m"].as_f64().is_some_and(|metres| metres > 0.2), "{report}");
    assert!(out(&ended).contains("on board 'jetson-orin-nano' (simulated)"), "{}", out(&ended));
    assert!(out(&ended).contains("simulated  no guard is used"), "{}", out(&ended));
}

#[test]
fn a_simulated_runtime_does_not_pass_for_the_real_robot() {
    let folder = Folder::new("simulated");
    let path = &*folder.path("control");
    let arguments = ["run", "--board", "generic-linux", "--simulate", "--for", "60s", "--control", path];
    let run = Running::start(&arguments, |_| ());
    let until = Instant::now() + Duration::from_secs(60);
    let status = loop {
        let status = output(&["status", "--socket", path, "--json"]);
        if status.status.success() {
            break status;
        }
        assert!(Instant::now() < until, "{}", err(&status));
        std::thread::sleep(Duration::from_millis(50));
    };
    let page = out(&output(&["status", "--socket", path]));
    run.send(&[rustix::process::Signal::INT]);
    let ended = run.finish();
    let status = object(&out(&status));
    assert_eq!(status["simulated"], true);
    let real = object(&out(&output(&["check", "generic-linux", "--json"])));
    assert_ne!(status["board_digest"], real["digest"], "neither guard nor safe-stop takes it for the robot");
    let first = page.lines().next().unwrap_or_default();
    assert!(first.contains("; simulated") && first.matches("simulated").count() == 1, "{page}");
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
}

#[test]
fn unsimulatable_boards_exit_78_and_a_guard_option_exits_64() {
    let log = output(&["run", "--board", "scitos-g5", "--simulate"]);
    assert_eq!(log.status.code(), Some(78), "{}", err(&log));
    assert!(err(&log).contains("columns of a log"), "{}", err(&log));
    let guard = output(&["run", "--board", "picarx-v4", "--simulate", "--guard", "/run/x.sock"]);
    assert_eq!(guard.status.code(), Some(64), "{}", err(&guard));
    let checked = output(&["check", "scitos-g5", "--simulate"]);
    assert_eq!(checked.status.code(), Some(78), "{}", err(&checked));
    let checked = output(&["check", "picarx-v4", "--simulate"]);
    assert!(out(&checked).contains("# simulated: no guard is used"), "{}", out(&checked));
}

#[test]
fn a_world_file_replaces_the_room_of_a_simulated_run_only() {
    let folder = Folder::new("world");
    let world = "size = [1.0, 30.0]\nstart = [0.5, 1.0]\nheading_deg = 90.0\n";
    let file = &*folder.write("world.toml", world);
    let run = ["run", "--clock", "sim", "--for", "5s", "--json", "--world", file];
    let ended = output(&run);
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let in_hall = object(&out(&ended));
    assert!(in_hall["distance_m"].as_f64().is_some_and(|metres| metres > 0.5), "{in_hall}");
    let in_room = object(&out(&output(&run[..6])));
    assert_ne!(in_hall["digest"], in_room["digest"]);

    let real = output(&["run", "--board", "picarx-v4", "--world", file]);
    assert_eq!(real.status.code(), Some(64), "{}", err(&real));
    assert!(err(&real).contains("--world is for a simulated robot"), "{}", err(&real));

    folder.write("world.toml", world.replace("30.0", "300.0"));
    let bad = output(&run);
    assert_eq!(bad.status.code(), Some(78), "{}", err(&bad));
    assert!(
        err(&bad).contains(":1:8: size: found 300.0; allowed: a list of 2 numbers, each 0.5 to 100"),
        "{}",
        err(&bad)
    );
    std::fs::remove_file(file).expect("it is there");
    let none = output(&run);
    assert_eq!(none.status.code(), Some(69), "{}", err(&none));
}

/// A field engineer sees which sensor gives trouble, and what kind, during a run and after it.
#[test]
fn refused_readings_are_in_the_status_and_the_report() {
    let folder = Folder::new("refused");
    let path = &*folder.path("control");
    let fault = "sonar-silent:0@0.5+60";
    let run = Running::start(&["run", "--for", "60s", "--control", path, "--fault", fault, "--json"], |_| ());
    let until = Instant::now() + Duration::from_secs(60);
    let refused = |status: &Value, name: &str| {
        let sensors = status["sensors"].as_array()?; // absent before the first slot
        sensors.iter().find(|sensor| sensor["name"] == name).and_then(|sensor| sensor["refused"].as_u64())
    };
    loop {
        let status = output(&["status", "--socket", path, "--json"]);
        let status = status.status.success().then(|| object(&out(&status)));
        if let Some(status) = status.filter(|status| refused(status, "range") > Some(1)) {
            assert_eq!(refused(&status, "ground-left"), Some(0), "{status}");
            break;
        }
        assert!(Instant::now() < until, "no reading was refused");
        std::thread::sleep(Duration::from_millis(50));
    }
    let page = out(&output(&["status", "--socket", path]));
    assert!(page.contains("  refused    readings of range "), "{page}");
    run.send(&[rustix::process::Signal::INT]);
    let ended = run.finish();
    let sensors = object(&out(&ended))["sensors"].clone();
    assert!(sensors["range"]["refused"]["timeout"].as_u64() > Some(0), "{sensors}");
    assert_eq!(sensors["ground-left"]["refused"], serde_json::json!({}), "{sensors}");
    assert!(out(&ended).contains("  sensor     range: "), "{}", out(&ended));
}

/// The robot stands while it waits to reverse further; without this figure, nothing says why.
#[test]
fn a_run_reports_for_how_long_it_refused_to_reverse() {
    let ended = output(&["run", "--clock", "sim", "--for", "30s", "--json"]);
    let report = object(&out(&ended));
    let seconds = report["refused"]["reverse_s"].as_f64().expect("it is a number");
    assert!(seconds > 0.0, "this tests nothing: {report}");
    assert_eq!(report["refused"]["not_finite_s"], 0.0);
    assert!(out(&ended).contains(&format!("refused    {seconds:.2} s of reversing")), "{}", out(&ended));
}
