//! `scripts/flash` and `scripts/rollback` authenticate once per robot, and leave no connection behind however
//! they end.

use super::scene::Scene;
use crate::cli::{err, out};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::time::{Duration, Instant};

const ROBOT: &str = "pi@car-7";
const TARGET: [&str; 2] = ["--target", ROBOT];
/// What ssh adds to the path of the folder: a digest, and a suffix while it makes the socket.
const SOCKET_NAME: usize = "/".len() + 40 + ".0123456789abcdef".len();
/// Shortest limit on the path of a Unix socket, in bytes: that of macOS.
const LONGEST_PATH: usize = 104;

/// Checks that a run ended with this code.
fn ended(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}{}", out(output), err(output));
}

#[test]
fn a_flash_authenticates_once_per_robot() {
    let robots = ["one", "two"];
    let scene = Scene::new("logins", &robots);
    ended(&scene.flash(&["--target", "one", "--target", "two"]), 0);
    for robot in robots {
        assert_eq!(scene.logins(robot), 1);
        assert_eq!(scene.calls(robot), ["facts", "where", "copy", "stage", "trial"]);
    }
    assert_eq!(scene.masters().len(), 4, "two began, two ended: {:?}", scene.masters());
    let folders = fs::read_to_string(scene.0.join("sockets")).expect("the sockets' folders");
    for folder in folders.lines() {
        assert!(folder.len() + SOCKET_NAME < LONGEST_PATH, "{folder}");
    }
}

#[test]
fn a_rollback_authenticates_once() {
    let scene = Scene::new("logins-back", &[ROBOT]);
    ended(&scene.flash(&TARGET), 0);
    ended(&scene.run("rollback", &[ROBOT]), 0);
    assert_eq!(scene.logins(ROBOT), 2, "one for each script");
    assert_eq!(scene.calls(ROBOT)[5..], ["other", "status", "rollback"]);
}

#[test]
fn a_cut_connection_is_replaced_once() {
    let scene = Scene::new("logins-cut", &[ROBOT]);
    scene.write(ROBOT, "on/copy.1", "head -c 100000 | pass; exit 255");
    ended(&scene.flash(&TARGET), 0);
    assert_eq!(scene.calls(ROBOT), ["facts", "where", "copy", "where", "copy", "stage", "trial"]);
    assert_eq!(scene.logins(ROBOT), 2);
    let masters = ["open", "cut", "open", "exit"].map(|what| format!("{what} {ROBOT}"));
    assert_eq!(scene.masters(), masters);
}

#[test]
fn a_robot_that_refuses_to_share_is_flashed_all_the_same() {
    let scene = Scene::new("logins-refused", &[ROBOT]);
    scene.0.write("refuses-sharing", "");
    ended(&scene.flash(&TARGET), 0);
    assert_eq!(scene.logins(ROBOT), scene.calls(ROBOT).len());
}

#[test]
fn a_refused_or_failed_flash_leaves_no_connection() {
    for (file, text, code) in [
        ("sudo-asks", "", 77),
        ("on/copy", "exit 73", 69),
        ("answers/update-stage", "exit 65", 65),
        ("answers/update-trial", "finish rolled-back 0.1.0 0.2.0 'no beat'; exit 75", 75),
    ] {
        let scene = Scene::new("connection-failure", &[ROBOT]);
        scene.write(ROBOT, file, text);
        ended(&scene.flash(&TARGET), code);
        assert_eq!(scene.masters(), ["open", "exit"].map(|what| format!("{what} {ROBOT}")), "{file}");
    }
}

#[test]
fn an_interrupted_flash_leaves_no_connection() {
    for (call, signal, code) in
        [("copy", Signal::INT, 130), ("trial", Signal::INT, 130), ("trial", Signal::HUP, 130)]
    {
        let scene = Scene::new("connection-interrupt", &[ROBOT]);
        scene.write(ROBOT, &format!("on/{call}"), ": > \"$robot/reached\"; sleep 600");
        let deb = scene.deb().display().to_string();
        let mut flash = scene.script_command("flash", &[&[deb.as_str(), "--yes"], &TARGET[..]].concat());
        let mut flash = flash.spawn().expect("bash");
        let until = Instant::now() + Duration::from_secs(60);
        while !scene.robot(ROBOT).join("reached").exists() {
            assert!(Instant::now() < until, "the flash never reached its {call}");
            std::thread::sleep(Duration::from_millis(20));
        }
        kill_process(Pid::from_child(&flash), signal).expect("it runs");
        let status = flash.wait().expect("it ends");
        assert_eq!((status.code(), status.signal()), (Some(code), None), "{call}");
        assert_eq!(scene.masters(), ["open", "exit"].map(|what| format!("{what} {ROBOT}")), "{call}");
    }
}
