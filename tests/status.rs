//! `ganglion status` shows what a running robot has measured: every figure that the robot can measure is
//! there and agrees with the report at the end of the run; the others are absent.

use crate::cli::{self, Running, WITH_HEAT, out, output};
use crate::folder::Folder;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// Longer than a simulated robot takes to answer, however busy the machine is.
const SOON: Duration = Duration::from_secs(120);

/// The desk robot with less time for a cycle than a slow engine takes at any level.
const IN_A_HURRY: &str = "inherits = \"sim\"\n[budget]\ntarget_ms = 0.1\n";

/// A robot that runs until it is told to stop.
struct Robot {
    running: Running, // dropped first, so the robot ends before its folder is removed
    folder: Folder,
}

impl Robot {
    fn start(name: &str, board: &str, more: &[&str]) -> Robot {
        let folder = Folder::new(&format!("status-{name}"));
        let (board, socket) = (folder.write("board.toml", board), folder.path("control"));
        let usual = ["run", "--board", &board, "--control", &socket, "--for", "600s", "--json"];
        let running = cli::watching(&[&usual, more].concat());
        Robot { running, folder }
    }

    fn socket(&self) -> String {
        self.folder.path("control")
    }

    fn status(&self) -> Value {
        let told = output(&["status", "--json", "--socket", &self.socket()]);
        serde_json::from_str(out(&told).trim()).unwrap_or(Value::Null)
    }

    /// Polls the robot's status until `holds` is true of it, and returns it.
    fn once(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + SOON;
        loop {
            let status = self.status();
            if !status.is_null() && holds(&status) {
                return status;
            }
            assert!(Instant::now() < until, "{what}: not within {} s: {status}", SOON.as_secs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn page(&self) -> String {
        out(&output(&["status", "--socket", &self.socket()]))
    }

    /// Stops the robot and returns its report.
    fn stop(mut self) -> Value {
        let stopped = output(&["stop", "--socket", &self.socket()]);
        assert!(stopped.status.success(), "{}", cli::err(&stopped));
        let ended = std::mem::replace(&mut self.running, Running::none()).finish();
        let said = out(&ended);
        serde_json::from_str(said.lines().last().unwrap_or_default()).expect("the report")
    }
}

#[test]
fn the_room_of_a_running_world_is_in_the_status() {
    let folder = Folder::new("status-world");
    let world = "size = [6.0, 4.0]\nstart = [1.0, 2.0]\ngoal = [5.0, 2.0]\nwalls = [[4.0, 0.0, 4.0, 1.5]]\n\
                 boxes = [[5.0, 3.0, 5.5, 3.5]]\nline = [[0.5, 0.5], [5.0, 0.5]]\n\
                 [[mover]]\nradius = 0.2\nspeed = 0.3\nway = [[3.0, 3.5], [4.5, 3.5]]\n";
    let file = folder.write("world.toml", world);
    let robot = Robot::start("room", "inherits = \"sim\"\n", &["--world", &file, "--clock", "real"]);
    let status = robot.once("the mover is on its way, and the goal is known", |status| {
        let room = &status["room"];
        room["movers"][0][0].as_f64().is_some_and(|x| x > 3.0) && !room["goal"].is_null()
    });
    let room = &status["room"];
    assert_eq!(room["walls"].as_array().map(Vec::len), Some(5), "the wall and four sides: {room}");
    assert_eq!(room["walls"][0], json!([4.0, 0.0, 4.0, 1.5]));
    assert_eq!(room["line"], json!([[0.5, 0.5], [5.0, 0.5]]));
    assert_eq!((&room["movers"][0][1], &room["movers"][0][2]), (&json!(3.5), &json!(0.2)));
    assert_eq!(room["goal"], json!([5.0, 2.0]));
}

fn level(status: &Value) -> u64 {
    status["quality"]["level"].as_u64().expect("a level")
}

#[test]
fn the_status_has_every_figure_and_matches_the_report() {
    let robot = Robot::start("figures", WITH_HEAT, &[]);
    let status = robot.once("answers and a temperature", |status| {
        status["answer"].is_object()
            && status["release_late_us"]["n"].as_u64() > Some(100)
            && status["temperatures"]["die"].is_number()
    });
    let page = robot.page();
    let report = robot.stop();

    for times in ["field_us", "answer_us", "release_late_us"] {
        let (now, end) = (&status[times], &report[times]);
        let figure =
            |of: &Value, key: &str| of[key].as_f64().unwrap_or_else(|| panic!("{times} {key}: {of}"));
        assert!(figure(now, "n") >= 1.0 && figure(now, "n") <= figure(end, "n"), "{times}: {now} {end}");
        assert!(figure(now, "max") <= figure(end, "max"), "{times}: {now} {end}");
        let ordered = ["p50", "p99", "p999", "max"].map(|key| figure(now, key));
        assert!(ordered[0] > 0.0 && ordered.is_sorted(), "{times}: {now}");
    }
    assert_eq!(status["field_us"]["n"], status["answer_us"]["n"], "the same cycles");
    let computing = |key| status["field_us"][key].as_f64();
    assert!(computing("max") <= status["answer_us"]["max"].as_f64(), "computing is a part of answering");
    assert!(status["slots_run"].as_u64() <= report["slots_run"].as_u64());
    assert!(status["slots_skipped"].as_u64() <= report["slots_skipped"].as_u64());

    // On a busy machine the level may be lower than the best.
    assert_eq!((level(&status) == 0, level(&status) <= 5), (status["quality"]["reason"].is_null(), true));
    assert_eq!(status["quality"]["lowest"], 5);
    let answer = &status["answer"];
    assert!(answer["confidence"].as_f64().is_some_and(|x| (0.0..=1.0).contains(&x)), "{answer}");
    assert!(answer["novelty"].as_f64().is_some_and(|x| (0.0..=2.0).contains(&x)), "{answer}");
    assert!(answer["cycle"].as_u64() < report["field"]["launched"].as_u64(), "{answer}");
    let die = status["temperatures"]["die"].as_f64().expect("degrees");
    assert!((die - 31.0).abs() < 1.0, "{die}");
    assert_eq!(status["engine"], report["engine"]);
    if report["engine"].as_str().is_some_and(|engine| engine.starts_with("cpu")) {
        assert_eq!((&status["gpu"]["computes"], &status["gpu"]["name"]), (&false.into(), &Value::Null));
        assert!(status["gpu"]["why"].as_str().is_some_and(|why| !why.is_empty()), "{}", status["gpu"]);
    }
    for line in ["quality", "field", "answer", "newest", "GPU", "lateness", "heat"] {
        let has = page.lines().any(|said| said.starts_with(&format!("  {line:<10} ")));
        assert!(has, "no line '{line}': {page}");
    }
    assert!(page.contains("die 31.") || page.contains("die 30."), "{page}");
}

#[test]
fn a_slow_engine_shows_the_lower_level_and_why() {
    let robot = Robot::start("slow", IN_A_HURRY, &["--fault", "field-slow@0.1+600"]);
    let status = robot.once("a lower level", |status| status["quality"]["level"].as_u64() > Some(0));
    let reason = status["quality"]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("a cycle at level "), "{reason}");
    assert!(reason.ends_with("the target is 0.1 ms"), "{reason}");
    let page = robot.page();
    assert!(page.contains("  quality    level ") && page.contains("0 is the best"), "{page}");
    let report = robot.stop();
    let lower = (1..=5).filter_map(|level| report["level_s"][level.to_string()].as_f64()).sum::<f64>();
    assert!(lower > 0.0, "the report agrees: {}", report["level_s"]);
}

#[test]
fn a_held_level_is_labelled_and_without_a_sensor_no_heat_shown() {
    let robot = Robot::start("held", "inherits = \"sim\"\n", &["--quality", "3"]);
    let status = robot.once("a level", |status| status["quality"].is_object());
    assert_eq!(level(&status), 3);
    assert_eq!(status["quality"]["reason"], "held there by --quality");
    assert_eq!(status.get("temperatures"), None, "the board has no such sensor: {status}");
    assert!(!robot.page().contains("degC"));
}

#[test]
fn figures_for_prometheus_also_tell_that_a_robot_is_off() {
    let robot = Robot::start("prometheus", WITH_HEAT, &[]);
    robot.once("a temperature and a lateness", |status| {
        status["temperatures"]["die"].is_number() && status["lateness"].is_object()
    });
    let file = robot.folder.join("figures.prom");
    let path = file.to_str().expect("a name");
    let export = |socket: &str, more: &[&str]| {
        output(&[&["status", "--prometheus", "--socket", socket][..], more].concat())
    };
    let figures = || std::fs::read_to_string(&file).expect("a file");

    let written = export(&robot.socket(), &["--output", path]);
    assert_eq!((written.status.code(), out(&written).as_str()), (Some(0), ""), "{}", cli::err(&written));
    let of_a_robot = figures();
    let has = |start: &str| of_a_robot.lines().any(|line| line.starts_with(start));
    for start in [
        "ganglion_up 1",
        "ganglion_board_info{board=\"board\"",
        "ganglion_slots_total ",
        "ganglion_slot_lateness_seconds_bucket{le=\"+Inf\"} ",
        "ganglion_temperature_celsius{sensor=\"die\"} 3",
        "ganglion_motor_command_ratio{motor=\"left\"} ",
        "ganglion_bus_failures_total{bus=\"motors\"} ",
    ] {
        assert!(has(start), "no line '{start}': {of_a_robot}");
    }
    let printed = export(&robot.socket(), &[]);
    assert!(printed.status.success() && out(&printed).ends_with('\n'));
    let names = |page: &str| -> Vec<String> {
        page.lines().filter(|line| line.starts_with("# TYPE")).map(str::to_string).collect()
    };
    assert_eq!(names(&out(&printed)), names(&of_a_robot), "the same figures on standard output");

    // With no runtime listening, the file gets `ganglion_up 0` for the graphs, and a call that prints fails.
    let nobody = robot.folder.join("nobody").to_str().expect("a name").to_string();
    let written = export(&nobody, &["--output", path]);
    assert_eq!(written.status.code(), Some(0), "{}", cli::err(&written));
    let off: Vec<String> =
        figures().lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect();
    assert_eq!(off, ["ganglion_up 0"]);
    let printed = export(&nobody, &[]);
    assert_eq!(printed.status.code(), Some(69));
    assert!(out(&printed).contains("\nganglion_up 0\n"), "{}", out(&printed));
    let unwritable = export(&robot.socket(), &["--output", &format!("{nobody}/figures.prom")]);
    assert_eq!(unwritable.status.code(), Some(69), "{}", cli::err(&unwritable));
    // An answer that is not understood does not tell whether the robot is off: the old file stays.
    let odd = robot.folder.join("odd").to_str().expect("a name").to_string();
    let listener = UnixListener::bind(&odd).expect("a socket");
    let answering = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().expect("a caller");
        let mut asked = String::new();
        BufReader::new(&caller).read_line(&mut asked).expect("a request");
        caller.write_all(b"what?\n").expect("written");
    });
    export(&robot.socket(), &["--output", path]);
    let unclear = export(&odd, &["--output", path]);
    answering.join().expect("an answer");
    assert_eq!(unclear.status.code(), Some(69), "{}", cli::err(&unclear));
    assert!(figures().contains("\nganglion_up 1\n"), "{}", figures());
    // The collector reads every file whose name ends in .prom, so no unfinished file may remain.
    let left = std::fs::read_dir(&robot.folder).expect("a folder").flatten();
    let left: Vec<_> =
        left.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().contains("prom")).collect();
    assert_eq!(left, ["figures.prom"]);
}
