//! `scripts/rollback`: back to the previous version, whatever state the installed one is in.

use super::scene::Scene;
use crate::cli::{err, out};

const ROBOT: &str = "pi@car-7";

/// The state after a committed update from 0.1.0 to 0.2.0.
const UPDATED: &str = r#"{"schema":1,"installed":"0.2.0","unfinished":null,"history":["committed"],"last":{"phase":"committed","from":"0.1.0","to":"0.2.0","why":""}}"#;

fn updated(name: &str) -> Scene {
    let scene = Scene::new(name, &[ROBOT]);
    scene.write(ROBOT, "update.json", UPDATED);
    scene
}

#[test]
fn one_command_returns_a_robot_to_its_previous_version() {
    let scene = updated("rollback");
    let output = scene.run("rollback", &[ROBOT]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(err(&output).contains("0.2.0 -> 0.1.0"), "{}", err(&output));
    assert!(out(&output).contains("returned to 0.1.0"), "{}", out(&output));
    assert_eq!(scene.did(ROBOT), ["rollback by ganglion"]);
}

#[test]
fn the_rescue_copy_rolls_back_a_broken_program() {
    // The program does not start at all; or it answers, but dies during a rollback.
    for (file, text) in [
        ("answers/broken", ""),
        (
            "answers/update-rollback",
            "[ \"${0##*/}\" = rescue ] || exit 134; echo \"rollback by rescue\" >> \"$ROBOT/did\"; finish returned 0.1.0 0.2.0 x",
        ),
    ] {
        let scene = updated("rescue");
        scene.write(ROBOT, file, text);
        let output = scene.run("rollback", &[ROBOT, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{file}: {}", err(&output));
        assert_eq!(scene.did(ROBOT), ["rollback by rescue"], "{file}");
        let last: serde_json::Value = serde_json::from_str(out(&output).trim()).expect("one object");
        assert_eq!((&last["result"], &last["installed"]), (&"returned".into(), &"0.1.0".into()));
    }
}

#[test]
fn a_rollback_survives_an_ssh_drop() {
    let scene = updated("drops");
    scene.write(ROBOT, "on/rollback", "pass; exit 255");
    scene.write(ROBOT, "on/status.2", "exit 255");
    let output = scene.run("rollback", &[ROBOT]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(err(&output).contains("goes on by itself"), "{}", err(&output));
    assert!(out(&output).contains("returned to 0.1.0"), "{}", out(&output));
    assert_eq!(scene.did(ROBOT).len(), 1, "once");
}

#[test]
fn a_failed_rollback_is_reported_with_its_code() {
    let refused = |file: &str, text: &str, code: i32, says: &str| {
        let scene = updated("refused");
        scene.write(ROBOT, file, text);
        let output = scene.run("rollback", &[ROBOT]);
        assert_eq!(output.status.code(), Some(code), "{file}: {}", err(&output));
        assert!(err(&output).contains(says), "{file}: {}", err(&output));
        assert_eq!(scene.did(ROBOT), [""; 0], "{file}");
    };
    refused(
        "answers/update-rollback",
        "echo 'nothing to return to' >&2; exit 69",
        69,
        "nothing to return to",
    );
    refused("on/rollback", "exit 255", 69, "before the rollback began");
    refused("sudo-asks", "", 77, "sudo");
    refused("on/other", "echo 'Permission denied (password).' >&2; exit 255", 77, "ssh-copy-id");
    refused("answers/update-status", "exit 134", 69, "gives no answer");
    let scene = updated("words");
    for arguments in [&[][..], &["a", "b"], &["--fly"], &["-oProxyCommand=x"], &["a;b"]] {
        assert_eq!(scene.run("rollback", arguments).status.code(), Some(64), "{arguments:?}");
    }
    assert_eq!(scene.order(), [""; 0]);
}
