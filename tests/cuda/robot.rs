//! The built program drives the simulated robot with the field on the stand-in for a GPU, and continues after
//! every kind of loss that can be injected. The tests run in real time, but do not show how fast a GPU would
//! be.

use super::standin::{Alone, alone};
use crate::cli::{err, out, output, watching_with};
use crate::folder::Folder;
use ganglion::workshop::learn::parallel;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// The desk robot with the smallest field, which the stand-in computes twenty times a second without keeping
/// a core busy.
const SMALL: &str = "inherits = \"sim\"\n[field]\ngrid = 8\nevery_ticks = 5\n";

/// The report of a run with these faults.
fn report(alone: &Alone, faults: &[&str], seconds: &str) -> Value {
    report_with(alone, faults, &["--for", seconds])
}

fn report_with(alone: &Alone, faults: &[&str], more: &[&str]) -> Value {
    let mut program = Command::new(env!("CARGO_BIN_EXE_ganglion"));
    program.args(["run", "--engine", "cuda", "--json"]).args(more);
    program.args(faults.iter().flat_map(|fault| ["--inject", fault]));
    let output = program.env("LD_LIBRARY_PATH", alone.folder()).output().expect("the built program");
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| {
        panic!("{error}: {said}\n{}", String::from_utf8_lossy(&output.stderr));
    })
}

/// Checks what must hold whatever the GPU does.
fn assert_safe(report: &Value, what: &str) {
    assert_eq!(report["contacts"], 0, "{what}: {report}");
    assert_eq!(report["falls"], 0, "{what}: {report}");
    assert_eq!(report["grid_identity_holds"], true, "{what}: {report}");
    assert_eq!(report["motors_still"], true, "{what}: {report}");
    assert_eq!(report["hung"].as_array().map(Vec::len), Some(0), "{what}: {report}");
}

#[test]
fn a_robot_drives_with_the_field_on_a_device() {
    let Some(alone) = alone() else { return };
    let folder = Folder::new("device");
    let path = &*folder.path("drive.mcap");
    let report = report_with(&alone, &[], &["--for", "3s", "--record", path]);
    assert_safe(&report, "nothing wrong");
    assert!(report["engine"].as_str().is_some_and(|name| name.starts_with("cuda (")), "{report}");
    assert_eq!(report["field_state"], "running");
    assert_eq!(report["field"]["losses"], 0);
    // The CPU computes the device's answers again, from the recording.
    let replayed = output(&["log", "replay", path, "--field", "--json"]);
    assert_eq!(replayed.status.code(), Some(0), "{}", err(&replayed));
    let found: Value = serde_json::from_str(out(&replayed).lines().last().expect("an object")).unwrap();
    assert_eq!(found["field"]["equal"], report["field_us"]["n"], "{found}");
    for part in ["queue", "kernels", "wake"] {
        let count = report["gpu_us"][part]["n"].as_u64().unwrap_or(0);
        assert_eq!(Some(count), report["field_us"]["n"].as_u64(), "every cycle has its {part}: {report}");
    }
}

#[test]
fn a_robot_survives_every_device_loss_and_recovers() {
    let Some(alone) = alone() else { return };
    let folder = Folder::new("losses");
    let board = folder.write("small.toml", SMALL);
    let faults = ["gpu-error@1+0.2", "gpu-hang@1+0.5", "gpu-stuck@1+0.5", "gpu-lost@1+0.3"];
    parallel::map(4, &faults, |fault| takes_it_back(&alone, &board, fault));
}

fn takes_it_back(alone: &Alone, board: &str, fault: &str) {
    let report = report_with(alone, &[fault], &["--for", "7s", "--board", board]);
    assert_safe(&report, fault);
    let field = &report["field"];
    assert!(field["losses"].as_u64() >= Some(1) && field["takeovers"] == field["losses"], "{fault}: {field}");
    assert!(field["retries"].as_u64() >= Some(1), "{fault}: {field}");
    assert_eq!(report["field_state"], "running", "{fault}: the device came back");
    // The CPU computes the request during which the device was lost, unless it is too old by then.
    assert!(field["unanswered"].as_u64() <= Some(2), "{fault}: {field}");
}

#[test]
fn without_a_returning_device_the_field_stays_on_the_cpu() {
    let Some(alone) = alone() else { return };
    let folder = Folder::new("gone");
    let board = folder.write("small.toml", SMALL);
    let faults = ["gpu-lost@1+9", "gpu-memory@1+9"];
    let report = report_with(&alone, &faults, &["--for", "4s", "--board", &board]);
    assert_safe(&report, "the device is lost for good");
    let state = report["field_state"].as_str().unwrap_or_default();
    assert!(state.starts_with("on the CPU: GPU lost ("), "{state}");
    assert!(report["field"]["retries"].as_u64() >= Some(1), "{report}");
    let (on_device, all) = (report["gpu_us"]["kernels"]["n"].as_u64(), report["field_us"]["n"].as_u64());
    assert!(on_device < all, "the rest came from the CPU: {on_device:?} of {all:?}");
}

#[test]
fn the_status_names_a_lost_device_and_the_next_attempt() {
    let Some(alone) = alone() else { return };
    let folder = Folder::new("lost");
    let socket = &*folder.path("control");
    let path = |command: &mut Command| _ = command.env("LD_LIBRARY_PATH", alone.folder());
    let board = folder.write("small.toml", SMALL);
    let faults = ["--inject", "gpu-lost@2+600", "--inject", "gpu-memory@2+600"];
    let usual = ["run", "--board", &board, "--engine", "cuda", "--control", socket, "--for", "600s"];
    let running = watching_with(&[&usual[..], &faults].concat(), path);
    let status = || -> Value {
        let told = output(&["status", "--json", "--socket", socket]);
        serde_json::from_str(out(&told).trim()).unwrap_or(Value::Null)
    };
    let until = Instant::now() + Duration::from_secs(120);
    let once = |holds: &dyn Fn(&Value) -> bool| loop {
        let gpu = status()["gpu"].clone();
        if holds(&gpu) {
            return gpu;
        }
        assert!(Instant::now() < until, "{gpu}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let well = once(&|gpu| gpu["computes"] == true);
    assert!(well["name"].as_str().is_some_and(|name| !name.is_empty()), "{well}");
    assert_eq!((&well["why"], &well["attempt"]), (&Value::Null, &Value::Null));
    let lost = once(&|gpu| gpu["attempt"].as_u64() >= Some(2));
    assert_eq!((&lost["computes"], &lost["name"]), (&false.into(), &well["name"]), "{lost}");
    assert!(lost["why"].as_str().is_some_and(|why| why.starts_with("GPU lost (")), "{lost}");
    assert!(lost["attempt_in_s"].as_f64().is_some_and(|left| left >= 0.0), "{lost}");
    drop(running);
}

#[test]
fn a_slow_device_lowers_the_quality_and_is_kept() {
    let Some(alone) = alone() else { return };
    let report = report(&alone, &["gpu-slow@1+1"], "4s");
    assert_safe(&report, "slow");
    let low = report["level_s"]["5"].as_f64().unwrap_or(0.0) + report["level_s"]["4"].as_f64().unwrap_or(0.0);
    assert!(low > 0.5, "{report}");
}
