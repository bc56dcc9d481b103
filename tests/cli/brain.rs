//! `ganglion brain` as a user sees it: it starts, answers status requests, and ends with a table.

use super::{err, ganglion, out, output};
use crate::folder::Folder;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

#[test]
fn brain_starts_reports_status_and_ends_with_a_table() {
    let folder = Folder::new("brain-verb");
    let (keys, socket, state) = (folder.path("keys"), folder.path("brain.sock"), folder.path("state"));
    fs::create_dir(&keys).unwrap();
    let arguments = ["brain", "--board", "sim", "--engine", "cpu", "--listen", "127.0.0.1:0", "--json"];
    let places = ["--keys", keys.as_str(), "--control", socket.as_str(), "--state", state.as_str()];
    let all: Vec<&str> = arguments.into_iter().chain(places).collect();
    let without_keys = output(&all);
    assert_eq!(without_keys.status.code(), Some(78));
    assert!(err(&without_keys).contains("no robot has a key here"), "{}", err(&without_keys));

    let key = folder.write("keys/one.key", format!("ganglion-key 1\nrobot one\nkey {}\n", "5d".repeat(32)));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
    let mut brain = ganglion(&all).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(brain.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("\"listening\"") && line.contains("\"keys\":1"), "{line}");
    line.clear();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("\"prepared\"") && line.contains("\"board\":\"sim\""), "{line}");

    let status = output(&["status", "--brain", &socket]);
    assert_eq!(status.status.code(), Some(0), "{}", err(&status));
    assert!(out(&status).contains("0 of 64 robots"), "{}", out(&status));
    kill_process(Pid::from_child(&brain), Signal::INT).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(brain.wait().unwrap().code(), Some(0));
    assert!(rest.contains("\"ended\""), "{rest}");
}
