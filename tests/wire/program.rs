//! `ganglion tether` and `ganglion tether key`, as programs.

use super::stage::{Brain, Runtime, TIMEOUT, keys};
use crate::folder::Folder;
use ganglion::deploy::board;
use ganglion::field::remote::local::LinkPhase;
use ganglion::runtime::tether::key::KeyFile;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

fn tether() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ganglion"));
    command.arg("tether");
    command
}

fn key(path: &Path, robot: &str, more: &[&str]) -> Output {
    tether().args(["key", robot, "-o"]).arg(path).args(more).output().expect("it runs")
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn a_key_is_made_once_and_rotated_with_both_valid() {
    let folder = Folder::new("wire-key");
    let path = folder.join("rover-7.key");
    assert_eq!(code(&key(&path, "rover-7", &["--second"])), Some(69), "there is none yet");
    let made = key(&path, "rover-7", &[]);
    assert_eq!(code(&made), Some(0));
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o7777, 0o400);
    let first = KeyFile::read(&path).expect("a key file");
    let said = String::from_utf8_lossy(&made.stdout).into_owned();
    let secret = first.text().lines().nth(2).expect("a key")[4..].to_string();
    assert!(said.contains("/etc/ganglion/tether.key") && !said.contains(&secret), "{said}");
    // An existing key is never overwritten.
    let again = key(&path, "rover-7", &[]);
    assert_eq!(code(&again), Some(69));
    assert!(String::from_utf8_lossy(&again.stderr).contains("--second"));
    assert_eq!(KeyFile::read(&path).expect("a key file"), first);
    // Rotation: first both keys are valid, then only the newer one.
    assert_eq!(code(&key(&path, "rover-8", &["--second"])), Some(64), "another robot's");
    assert_eq!(code(&key(&path, "rover-7", &["--finish"])), Some(65), "there is nothing to finish");
    assert_eq!(code(&key(&path, "rover-7", &["--second"])), Some(0));
    let both = KeyFile::read(&path).expect("a key file");
    assert_eq!((both.keys().len(), both.keys().next()), (2, first.keys().next()));
    assert_eq!(code(&key(&path, "rover-7", &["--second"])), Some(65), "at most two");
    assert_eq!(code(&key(&path, "rover-7", &["--finish"])), Some(0));
    assert_eq!(KeyFile::read(&path).expect("a key file"), both.newest_only());
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o7777, 0o400);
    assert_eq!(code(&key(&folder.join("x"), "../x", &[])), Some(64), "not a valid name for a robot");
}

#[test]
fn the_tether_joins_relays_reports_and_ends_cleanly() {
    let folder = Folder::new("wire-program");
    let (key_path, socket) = (folder.join("key"), folder.join("tether.sock"));
    fs::write(&key_path, keys().text()).expect("the file can be written");
    fs::set_permissions(&key_path, fs::Permissions::from_mode(0o400)).expect("its mode");
    let brain = Brain::start();
    let mut command = tether();
    command.args(["--board", "sim", "--core", "any", "--address", &brain.address.to_string()]);
    command.arg("--key").arg(&key_path).arg("--socket").arg(&socket).stdout(std::process::Stdio::piped());
    let child = command.spawn().expect("it runs");
    let began = Instant::now();
    while !socket.exists() {
        assert!(began.elapsed() < TIMEOUT, "it never listens");
        std::thread::yield_now();
    }
    let digest = *board::built_in("sim").expect("a built-in board").expect("and sound").digest.as_bytes();
    let runtime = Runtime::at(&socket, digest);
    let cycle = runtime.until(LinkPhase::Joined, 1);
    runtime.until_answered(cycle);
    let status = tether().args(["--status", "--json", "--socket"]).arg(&socket).output().expect("it runs");
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!((&status["robot"], &status["link"]), (&"rover".into(), &"joined".into()), "{status}");
    assert!(status["round_trips"]["count"].as_u64() >= Some(1), "{status}");
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("joined: stage") && said.contains("round trips p50"), "{said}");
    assert!(!socket.exists(), "its socket is gone");
    let without = tether().args(["--status", "--socket"]).arg(&socket).output().expect("it runs");
    assert_eq!(without.status.code(), Some(69));
}

#[test]
fn readable_keys_and_boards_without_a_tether_are_refused() {
    let folder = Folder::new("wire-refused");
    let path = folder.join("key");
    fs::write(&path, keys().text()).expect("the file can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("its mode");
    let run = |more: &[&str]| {
        let output = tether().args(["--board", "sim"]).args(more).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let file = path.to_str().expect("a plain path");
    let (code, said) = run(&["--address", "127.0.0.1:1", "--key", file]);
    assert!(code == Some(77) && said.contains("0644") && said.contains("chmod 0400"), "{said}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("its mode");
    let (code, said) = run(&["--key", file]);
    assert!(code == Some(78) && said.contains("[tether]"), "{said}");
}
