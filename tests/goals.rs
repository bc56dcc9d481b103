//! Goals of a running robot: it goes where it is told, only while it is armed, reports the outcome, and
//! stands still or drives by its field when told to.

use crate::cli::{self, Running, err, out, output};
use crate::folder::Folder;
use ganglion::drive::record::{Event, Reader, Topic};
use serde_json::Value;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longer than a simulated robot takes to drive a metre, however busy the machine is.
const SOON: Duration = Duration::from_secs(120);

fn report(arguments: &[&str]) -> Value {
    let ended = output(arguments);
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    serde_json::from_str(out(&ended).lines().last().unwrap_or_default()).expect("the report")
}

/// How far the robot was from its goal at the end, by dead reckoning, metres.
fn distance(goal: &Value) -> f64 {
    let number = |key: &str, axis: usize| goal[key][axis].as_f64().unwrap_or(f64::NAN);
    (number("at", 0) - number("goal", 0)).hypot(number("at", 1) - number("goal", 1))
}

/// A robot with a ring of range sensors that drives in a simulated room until it is told to stop.
struct Robot {
    _running: Running, // dropped first, so the robot ends before its folder is removed
    folder: Folder,
}

impl Robot {
    fn start(name: &str) -> Robot {
        Robot::start_with(name, "", "")
    }

    /// A robot with the lines `more` in its board file, and `things` in its world file.
    fn start_with(name: &str, more: &str, things: &str) -> Robot {
        let folder = Folder::new(&format!("goals-{name}"));
        let (socket, world) = (folder.path("control"), folder.write("world.toml", room(things)));
        let board = folder.write("board.toml", format!("inherits = \"barn\"\n{more}"));
        let run = ["run", "--board", &board, "--world", &world, "--control", &socket, "--for", "600s"];
        let robot = Robot { _running: cli::watching(&run), folder };
        robot.once("armed", |status| status["mode"] == "armed");
        robot
    }

    fn ask(&self, arguments: &[&str]) -> std::process::Output {
        let socket = self.folder.path("control");
        output(&[arguments, &["--json", "--socket", &socket]].concat())
    }

    /// The robot's status once `holds` is true of that status.
    fn once(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + SOON;
        loop {
            let status = serde_json::from_str(out(&self.ask(&["status"])).trim()).unwrap_or(Value::Null);
            if !status.is_null() && holds(&status) {
                return status;
            }
            assert!(Instant::now() < until, "{what}: not within {} s: {status}", SOON.as_secs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The text of a world file: a room of 6 x 4 m, in which the robot starts 1 m from one end.
fn room(more: &str) -> String {
    format!("size = [6.0, 4.0]\nstart = [1.0, 2.0]\n{more}")
}

/// A folder with the world file of such a room.
struct World(Folder);

impl World {
    fn new(name: &str, more: &str) -> World {
        let folder = Folder::new(&format!("goals-{name}"));
        folder.write("world.toml", room(more));
        World(folder)
    }

    /// The report of a run in this room.
    fn run(&self, arguments: &[&str]) -> Value {
        let file = self.0.path("world.toml");
        let run = ["run", "--board", "barn", "--clock", "sim", "--json", "--world", &file];
        report(&[&run[..], arguments].concat())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Two discs on the way of a route of five metres, for which the robot takes up to 25 s.
const TWO_DISCS: &str = "discs = [[2.0, 2.0, 0.2], [2.2, 2.4, 0.2]]\n";
const ROUTE: [&str; 2] = ["--goal", "2.5,0.4;0,0"];
const SEEDS: [&str; 3] = ["1", "2", "3"];

/// The report of a run on that route with each seed: computed once for all tests.
fn routes() -> &'static [Value; 3] {
    static ENDED: OnceLock<[Value; 3]> = OnceLock::new();
    ENDED.get_or_init(|| {
        let world = World::new("route", TWO_DISCS);
        SEEDS.map(|seed| world.run(&[&["--for", "40s", "--seed", seed], &ROUTE[..]].concat()))
    })
}

#[test]
fn a_route_is_driven_and_its_end_reported() {
    for ended in routes() {
        let goal = &ended["goal"];
        assert_eq!((goal["state"].as_str(), goal["left"].as_u64()), (Some("arrived"), Some(0)), "{ended}");
        assert_eq!(ended["contacts"], 0, "{ended}");
        assert!(distance(goal) <= 0.35 && ended["distance_m"].as_f64() > Some(4.0), "{ended}");
    }
    let without = World::new("no-route", TWO_DISCS).run(&["--for", "5s"]);
    assert!(without["goal"].is_null(), "without a goal there is nothing to report");
}

#[test]
fn a_world_files_goal_is_driven_to_unless_another_is_given() {
    // The robot starts facing along y, so the goal is half a metre ahead and 2 m to its right.
    let world = World::new("own-goal", "heading_deg = 90.0\ngoal = [3.0, 2.5]\n");
    let ended = world.run(&["--for", "60s"]);
    let goal = &ended["goal"];
    let [ahead, left] = [0, 1].map(|axis| goal["goal"][axis].as_f64().expect("metres"));
    assert!((ahead - 0.5).abs() < 1e-9 && (left + 2.0).abs() < 1e-9, "{ended}");
    assert_eq!((&goal["state"], &ended["contacts"]), (&"arrived".into(), &0.into()), "{ended}");
    let other = world.run(&["--for", "1s", "--goal", "1,0"]);
    assert_eq!(other["goal"]["goal"][0], 1.0, "{other}");
}

#[test]
fn a_patrol_goes_on_until_the_end_of_the_run() {
    let world = World::new("patrol", TWO_DISCS);
    for (seed, once) in SEEDS.into_iter().zip(routes()) {
        let repeated = world.run(&[&["--for", "45s", "--seed", seed, "--repeat"], &ROUTE[..]].concat());
        assert_eq!(
            (&once["goal"]["state"], &repeated["contacts"]),
            (&"arrived".into(), &0.into()),
            "{repeated}"
        );
        let metres = |report: &Value| report["distance_m"].as_f64().expect("a distance");
        assert!(metres(&repeated) > 2.0 * metres(once), "{repeated}");
    }
}

#[test]
fn the_patrol_of_a_board_is_driven_by_its_name() {
    let patrol = "[patrol]\nplaces = [[0.8, 0.0], [0.0, 0.0]]\n";
    let robot = Robot::start_with("by-name", patrol, "");
    let waits = robot.ask(&["go", "patrol", "--wait", "5s"]);
    assert_eq!(waits.status.code(), Some(64), "{}", err(&waits));
    assert_eq!(robot.ask(&["go", "patrol"]).status.code(), Some(0));
    for place in [0.8, 0.0, 0.8] {
        robot.once("the next place", |status| status["goal"]["goal"][0] == place);
    }
    assert_eq!(robot.ask(&["go", "stop"]).status.code(), Some(0));
    robot.once("the patrol ends", |status| status["goal"]["goal"].is_null());
}

#[test]
fn a_goal_behind_a_wall_is_given_up_with_the_reason() {
    let world = World::new("wall", "walls = [[3.0, 0.0, 3.0, 4.0]]\n");
    let ended = world.run(&["--for", "50s", "--goal", "3.5,0"]);
    assert_eq!(ended["goal"]["state"], "given-up", "{ended}");
    assert!(ended["goal"]["why"].is_string() && ended["contacts"] == 0, "{ended}");
}

#[test]
fn a_goal_outlasts_a_lost_engine() {
    let world = World::new("engine", "discs = [[2.0, 2.0, 0.2]]\n");
    let run = ["--for", "30s", "--goal", "3,0"];
    let lost = world.run(&[&run[..], &["--fault", "field-panic@2+1"]].concat());
    assert_eq!((lost["goal"]["state"].as_str(), &lost["contacts"]), (Some("arrived"), &0.into()), "{lost}");
    assert!(lost["field"]["unanswered"].as_u64() > Some(40), "the engine was lost: {lost}");
    // Without an engine no motion is requested, so the robot stands still.
    let gone = world.run(&[&run[..], &["--fault", "field-panic@2+20"]].concat());
    assert_eq!(gone["field_state"], "retired", "{gone}");
    assert!(gone["distance_m"].as_f64() < Some(1.5), "{gone}");
    assert_eq!(gone["goal"]["state"], "given-up", "{gone}");
    assert!(gone["goal"]["why"].as_str().is_some_and(|why| why.contains("engine")), "{gone}");
}

#[test]
fn a_recorded_run_with_a_goal_replays_the_same() {
    let world = World::new("recorded", "discs = [[2.0, 2.0, 0.2]]\n");
    let file = world.0.path("run.mcap");
    let ended = world.run(&["--for", "15s", "--record", &file, "--goal", "2,0"]);
    assert_eq!(ended["goal"]["state"], "arrived", "{ended}");
    let replayed = output(&["log", "replay", &file]);
    assert_eq!(replayed.status.code(), Some(0), "{}{}", out(&replayed), err(&replayed));
    let mut sources: Vec<String> =
        recorded(&file, Topic::Command).iter().map(|message| message["source"].to_string()).collect();
    sources.sort();
    sources.dedup();
    let has = |source: &str| sources.contains(&format!("\"{source}\""));
    assert!(has("the navigator") && !has("the field"), "{sources:?}");
}

/// The recorded messages of `wanted`.
fn recorded(file: &str, wanted: Topic) -> Vec<Value> {
    let bytes = std::fs::read(file).expect("a recording");
    let mut reader = Reader::new(&bytes[..]);
    let mut messages = Vec::new();
    while let Some(event) = reader.next_event().expect("a whole recording") {
        let Event::Message { topic, json, .. } = event else { continue };
        if topic == wanted.name() {
            messages.push(serde_json::from_slice(&json).expect("JSON"));
        }
    }
    messages
}

/// The goal's state and the reason for it in each message of `/field` while there is a goal, without
/// repetitions.
fn recorded_states(file: &str) -> Vec<(Value, Value)> {
    let state = |message: &Value| (message["goal_state"].clone(), message["goal_why"].clone());
    let mut states: Vec<_> = recorded(file, Topic::Field).iter().map(state).collect();
    states.retain(|(state, _)| state != "idle");
    states.dedup();
    states
}

#[test]
fn a_recording_has_the_state_of_the_goal_and_the_reason() {
    let world = World::new("told", "walls = [[3.0, 0.0, 3.0, 4.0]]\n");
    let folder = Folder::new("goals-recorded-states");
    for (goal, length, end) in [("0.8,0", "15s", "arrived"), ("3.5,0", "50s", "given-up")] {
        let file = folder.path(&format!("{end}.mcap"));
        let ended = world.run(&["--for", length, "--record", &file, "--goal", goal]);
        let states = recorded_states(&file);
        assert!(states.contains(&("going".into(), Value::Null)), "{goal}: {states:?}");
        let (state, why) = states.last().expect("a message");
        assert_eq!((state, state == end), (&ended["goal"]["state"], true), "{goal}: {states:?}");
        assert_eq!(why, &ended["goal"]["why"], "{goal}: {states:?}");
        assert_eq!(why.is_string(), end == "given-up", "only what was given up has a reason: {states:?}");
    }
}

#[test]
fn a_running_robot_obeys_orders_only_while_it_is_armed() {
    let robot = Robot::start("orders");
    let there = robot.ask(&["go", "0.8,0", "--wait", "120s"]);
    assert_eq!(there.status.code(), Some(0), "{}{}", out(&there), err(&there));
    let goal: Value = serde_json::from_str(out(&there).trim()).expect("an object");
    assert_eq!(goal["state"], "arrived", "{goal}");
    assert!(distance(&goal) <= 0.35, "{goal}");
    robot.once("the navigator decides", |status| status["commanded_by"] == "the navigator");

    assert_eq!(robot.ask(&["go", "home"]).status.code(), Some(0));
    assert_eq!(robot.ask(&["disarm"]).status.code(), Some(0));
    let cancelled = robot.once("the goal is cancelled", |status| status["goal"]["goal"].is_null());
    assert_eq!(cancelled["goal"]["state"], "idle", "{cancelled}");
    let refused = robot.ask(&["go", "home"]);
    assert_eq!(refused.status.code(), Some(75), "{}", out(&refused));
    assert!(err(&refused).contains("it is disarmed; arm it first"), "{}", err(&refused));

    assert_eq!(robot.ask(&["arm", "--wait", "60s"]).status.code(), Some(0));
    let armed = robot.once("armed again", |status| status["mode"] == "armed");
    assert!(armed["goal"]["goal"].is_null(), "the old goal stays cancelled: {armed}");
    let stopped = robot.ask(&["go", "stop"]);
    assert_eq!(stopped.status.code(), Some(0), "{}", err(&stopped));
    let goal: Value = serde_json::from_str(out(&stopped).trim()).expect("an object");
    assert_eq!((&goal["state"], &goal["goal"]), (&"standing".into(), &Value::Null), "{goal}");
    robot.once("the motors stop by order", |status| {
        let motors = status["motors"].as_array().cloned().unwrap_or_default();
        let is_still = !motors.is_empty() && motors.iter().all(|motor| motor["command"] == 0.0);
        is_still && status["commanded_by"] == "the order to stand" && status["goal"]["state"] == "standing"
    });
    assert_eq!(robot.ask(&["go", "wander"]).status.code(), Some(0));
    robot.once("the field drives", |status| {
        status["commanded_by"] == "the field" && status["goal"]["state"] == "idle"
    });
}

#[test]
fn a_running_robot_behaves_as_it_is_told() {
    let robot = Robot::start("behaves");
    let told = robot.ask(&["go", "keep-wall"]);
    assert_eq!(told.status.code(), Some(0), "{}{}", out(&told), err(&told));
    let status = robot.once("the behaviour drives", |status| {
        status["commanded_by"] == "a behaviour" && status["goal"]["state"] == "behaving"
    });
    assert_eq!(status["goal"]["behaviour"], "keep-wall", "{status}");
    assert_eq!(status["behaviours"], serde_json::json!(["keep-wall"]));
    for (words, expected) in [
        (&["go", "keep-wall", "--wait", "9s"][..], "a behaviour has no places and no end"),
        (&["go", "1,1;keep-wall"], "a behaviour cannot be part of a route"),
        (
            &["go", "keep-wal"],
            "'keep-wal' is neither a place on this robot's map nor a behaviour of its board; its behaviours: ",
        ),
    ] {
        let refused = robot.ask(words);
        assert_eq!(refused.status.code(), Some(64), "{words:?}: {}", err(&refused));
        assert!(err(&refused).contains(expected), "{words:?}: {}", err(&refused));
    }
    assert_eq!(robot.ask(&["disarm"]).status.code(), Some(0));
    robot.once("the behaviour is cancelled", |status| status["goal"]["behaviour"].is_null());
    assert_eq!(robot.ask(&["go", "keep-wall"]).status.code(), Some(75), "it is disarmed");
}

#[test]
fn a_run_starts_with_the_behaviour_that_is_named() {
    let run = ["run", "--board", "barn", "--clock", "sim", "--for", "3s", "--json", "--behaviour"];
    let goal = &report(&[&run[..], &["keep-wall"]].concat())["goal"];
    assert_eq!((&goal["behaviour"], &goal["goal"]), (&"keep-wall".into(), &Value::Null), "{goal}");
    let unknown = output(&[&run[..], &["follow-line"]].concat());
    assert_eq!(unknown.status.code(), Some(64), "{}", err(&unknown));
    for words in ["board 'barn' has no behaviour 'follow-line'", "keep-wall"] {
        assert!(err(&unknown).contains(words), "{}", err(&unknown));
    }
}

/// Anything nearer than 0.7 m ahead is remembered as a wall.
const REMEMBERS_WALLS: &str = r#"
[[sensor]]
name = "wall"
kind = "recall"
unit = "1"
by = "ahead"
below = 0.7
ahead = 0.17
period_ms = 100.0
valid = [0.0, 1.0]
input = { low = 0.0, high = 1.0 }
"#;

#[test]
fn a_robot_goes_back_to_what_it_has_met_by_name() {
    let robot = Robot::start_with("met", REMEMBERS_WALLS, "walls = [[2.6, 0.0, 2.6, 4.0]]\n");
    let unknown = robot.ask(&["go", "door"]);
    assert_eq!(unknown.status.code(), Some(64), "{}", err(&unknown));
    assert!(err(&unknown).contains("'door' is neither a place on this robot's map"), "{}", err(&unknown));
    let go = |place: &str| {
        let ended = robot.ask(&["go", place, "--wait", "120s"]);
        assert_eq!(ended.status.code(), Some(0), "{place}: {}{}", out(&ended), err(&ended));
        serde_json::from_str::<Value>(out(&ended).trim()).expect("an object")
    };
    // The robot starts 1 m from one wall and 1.6 m from another, which it meets on the way.
    go("1.1,0");
    robot.once("the wall is met", |status| {
        status["map"]["things"].as_array().into_iter().flatten().any(|thing| thing["was_at"].is_array())
    });
    go("home");
    let there = go("wall");
    assert_eq!(there["state"], "arrived", "{there}");
    let [ahead, left] = [0, 1].map(|axis| there["goal"][axis].as_f64().expect("metres"));
    // The robot cannot stand in the wall itself: it stops 0.4 m short of it, by dead reckoning.
    assert!((ahead - 1.2).abs() < 0.25 && left.abs() < 0.25, "{there}");
}

#[test]
fn wrong_words_and_unfit_boards_are_refused() {
    for (words, expected) in [
        (&["go", "stop;1,1"][..], "'stop' cannot be part of a route"),
        (&["go", "1,x"], "'1,x' is not a place"),
        (&["go", "99999,0"], "place 1 of the route"),
        (&["run", "--goal", "1"], "'1' is not a place"),
        (&["run", "--goal", "1,1", "--repeat"], "at least 2 places"),
        (&["go", "stop", "--repeat"], "--repeat needs places"),
        (&["go", "1,1;patrol"], "'patrol' cannot be part of a route"),
    ] {
        let refused = output(words);
        assert_eq!(refused.status.code(), Some(64), "{words:?}: {}", err(&refused));
        assert!(err(&refused).contains(expected), "{words:?}: {}", err(&refused));
    }
    let unfit =
        output(&["run", "--board", "virtual-bench", "--clock", "sim", "--for", "1s", "--goal", "1,0"]);
    assert_eq!(unfit.status.code(), Some(78), "{}", err(&unfit));
    assert!(err(&unfit).contains("has no navigator"), "{}", err(&unfit));
}
