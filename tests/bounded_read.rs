//! Malicious files and peers: endless files, pipes without a process at the other end, terminal control
//! sequences.

use crate::cli::{err, ganglion, out};
use crate::folder::Folder;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than any refusal takes on a busy machine; a program that opens a FIFO would wait for ever.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Sets the window title, clears the line, and clears the screen; the last sequence begins with the
/// one-character control sequence introducer.
const OBEYED: &str = "\x1b]0;owned\x07\x1b[2K\u{9b}2J";

/// The program's output; the program is killed if it does not end in time.
fn answer(words: &[&str]) -> Output {
    let mut child = ganglion(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let until = Instant::now() + TIMEOUT;
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() >= until {
            let _ = child.kill();
            panic!("{words:?} did not end in time");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("its output")
}

fn make_fifo(path: &str) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("a FIFO");
}

#[test]
fn every_requested_file_is_regular_and_of_bounded_length() {
    let folder = Folder::new("intake-kinds");
    let (fifo, sparse) = (folder.path("fifo.toml"), folder.write("sparse.toml", ""));
    make_fifo(&fifo);
    std::fs::File::options().write(true).open(&sparse).unwrap().set_len(1 << 40).expect("a sparse file");
    let device = folder.path("zero.toml");
    std::os::unix::fs::symlink("/dev/zero", &device).expect("a link");
    let (log, new) = (folder.write("log.csv", "near,far\n1,1\n"), folder.path("new"));
    for (path, why) in [
        (&fifo, "a FIFO, not a regular file"),
        (&device, "a device, not a regular file"),
        (&sparse, "at most"),
    ] {
        for words in [
            &["check", path][..],
            &["run", "--board", path, "--clock", "sim", "--for", "1s"],
            &["run", "--snapshot", path, "--clock", "sim", "--for", "1s"],
            &["learn", "--log", path, "--board", "scitos-g5", "--label", "OUTPUT", "-o", &new],
            &["replay", "--log", path, "--board", "scitos-g5", "--readout", path],
            &["replay", "--log", &log, "--board", "scitos-g5", "--readout", path],
        ] {
            let ended = answer(words);
            assert!(matches!(ended.status.code(), Some(65 | 69 | 78)), "{words:?}: {:?}", ended.status);
            assert!(err(&ended).contains(why), "{words:?}: {}", err(&ended));
        }
    }
    // calibrate also reads the site file that it would change.
    let words = ["calibrate", "servo", "steering", "--offset", "1", "--board", "sim", "--save", &fifo];
    assert!(err(&answer(&words)).contains("a FIFO, not a regular file"));
}

#[test]
fn unfitting_field_is_refused_before_teaching() {
    // 16 channels of 64^3 cells, 9.4 MB per pattern: a thousand of them do not fit into 3 GB of address
    // space.
    let folder = Folder::new("intake-room");
    let field = "[field]\ngrid = 64\npatterns = 1000\nbank = 100000\n";
    let board = folder.write("large.toml", format!("inherits = \"sim\"\n{field}"));
    let limited = |words: &[&str]| {
        let limit = ["-c", "ulimit -v 3000000 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_ganglion")];
        Command::new("sh").args(limit).args(words).output().expect("a shell")
    };
    let checked = limited(&["check", &board]);
    assert_eq!(checked.status.code(), Some(0), "{}", err(&checked));
    assert!(out(&checked).contains("at most 97"), "MB of memory: {}", out(&checked));
    assert!(out(&checked).contains("this machine cannot run it: "), "{}", out(&checked));
    let began = Instant::now();
    for verb in [&["run", "--clock", "sim", "--for", "1s"][..], &["bench", "all"]] {
        let ended = limited(&[verb, &["--board", &board]].concat());
        assert_eq!(ended.status.code(), Some(69), "{verb:?}: {}", err(&ended));
        assert!(err(&ended).contains("not enough memory for the field: "), "{}", err(&ended));
    }
    assert!(began.elapsed() < Duration::from_secs(20), "refused before half a minute of teaching");
}

/// Checks that the text contains no terminal control characters.
#[track_caller]
fn tame(words: &str) {
    let odd = |character: &char| character.is_control() && *character != '\n';
    assert_eq!(words.chars().find(odd), None, "{words}");
}

#[test]
fn file_text_is_shown_with_control_characters_escaped() {
    let folder = Folder::new("intake-obeyed");
    let written = "\\u001b]0;owned\\u0007\\u001b[2K\\u009b2J";
    for (name, text) in [
        ("raw.toml", format!("x = \"{OBEYED}\"\n")),
        ("key.toml", format!("inherits = \"sim\"\n\"{written}\" = 1\n")),
        ("parent.toml", format!("inherits = \"{written}\"\n")),
        ("unit.toml", format!("inherits = \"sim\"\n[[sensor]]\nname = \"range\"\nunit = \"{written}\"\n")),
        ("name.toml", format!("inherits = \"sim\"\n[[sensor]]\nname = \"{written}\"\n")),
        (OBEYED, "inherits = 3\n".to_string()),
    ] {
        let path = folder.write(name, &text);
        for words in [&["check", &path][..], &["check", &path, "--json"], &["doctor", "--board", &path]] {
            let ended = answer(words);
            assert_eq!(ended.status.code(), Some(78), "{words:?}: {}", err(&ended));
            tame(&out(&ended));
            tame(&err(&ended));
        }
    }
    let (board, new) = (folder.write("b.toml", crate::learn::BOARD), folder.path("new"));
    let log = folder.write(&format!("label {OBEYED}"), format!("near,far,what\n1,1,{OBEYED}\n"));
    for log in [log, folder.path(&format!("absent {OBEYED}"))] {
        let words = ["learn", "--log", &log, "--board", &board, "--label", "what", "-o", &new];
        let ended = answer(&words);
        assert!(matches!(ended.status.code(), Some(65 | 69)));
        assert!(err(&ended).contains("\\x1b]0;owned\\x07"), "{}", err(&ended));
        tame(&err(&ended));
    }
}

/// Answers one request with `reply`.
fn peer(path: &Path, reply: String) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(path).expect("a socket");
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a caller");
        let mut asked = String::new();
        let _ = BufReader::new(&stream).read_line(&mut asked);
        let _ = (&stream).write_all(format!("{reply}\n").as_bytes());
    })
}

#[test]
fn peer_text_is_shown_with_control_characters_escaped() {
    let folder = Folder::new("intake-peer");
    let said = format!("{OBEYED}\n  motors     stand");
    let account = serde_json::json!({
        "schema": 1, "board": said, "engine": said, "engine_state": said, "mode": said, "latched": said,
        "causes": [said], "refusal": [said], "arm_refused": 0, "armings": 0, "slots_run": 0, "slots_skipped": 0,
        "commands_confirmed": 0, "guard": null, "remark": said,
        "buses": [{
            "name": said, "failures": 0, "retries": 0, "set_ups": 0, "expired": 0, "lost": [said], "recovery": {}
        }],
    });
    let reply = serde_json::json!({ "done": false, "why": [said], "may_pass": false, "account": account });
    for (nth, words) in [&["status"][..], &["status", "--json"], &["disarm"]].into_iter().enumerate() {
        let socket = folder.join(format!("socket-{nth}"));
        let answered = peer(&socket, reply.to_string());
        let ended = answer(&[words, &["--socket", &socket.to_string_lossy()]].concat());
        answered.join().expect("the peer");
        let all = format!("{}{}", out(&ended), err(&ended));
        assert!(all.contains("owned"), "{all}");
        assert!(!all.lines().any(|line| line.starts_with("  motors")), "a peer's text begins a line: {all}");
        tame(&all);
    }
}
