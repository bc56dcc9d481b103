//! The map in the simulated robot: a landmark that was met once is found again, its similarity is a sensor
//! like any other, and the map causes no allocation in the tick.

use crate::cli::{err, ganglion, out, output};
use crate::folder::Folder;
use ganglion::base::frame::Health;
use ganglion::base::plan::Board;
use ganglion::base::time::{Clock, Instant, SimClock, Span};
use ganglion::deploy::board;
use ganglion::memory::map::{MapStatus, Recollection};
use ganglion::runtime::robot::{Options, Robot};
use ganglion::runtime::runner;
use ganglion::sim::Pose;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The desk robot with a map: things that the sonar sees nearer than 0.7 m are remembered.
pub(super) const WITH_MAP: &str = r#"
inherits = "sim"

[motion]
full_speed = 0.5
wheelbase = 0.0872
lag_ms = 80.0

[[sensor]]
name = "wall"
kind = "recall"
unit = "1"
by = "range"
below = 0.7
ahead = 0.17
period_ms = 100.0
valid = [0.0, 1.0]
input = { low = 0.0, high = 1.0 }
"#;

pub(super) fn board() -> Board {
    board::from_text("mapped", WITH_MAP).unwrap_or_else(|error| panic!("{error:#}")).board
}

struct Drive {
    status: MapStatus,
    recollection: Recollection,
    /// Where the thing was first met according to the map's dead reckoning, and the robot's true pose then.
    met: Option<([f64; 2], Pose)>,
    start: Pose,
    end: Pose,
    /// The similarity in each frame, with its health.
    seen: Vec<(f32, Health)>,
    tick_allocations: u64,
    readings_dropped: u64,
}

/// Drives until the time `after` has passed since the first meeting, but for at most `seconds`.
fn drive_for(seed: u64, after: Span, seconds: u64) -> Drive {
    let board = board();
    let channel = board.sensors.iter().position(|sensor| sensor.name == "wall").expect("it exists");
    let clock = Arc::new(SimClock::new());
    let first = Instant::ZERO + board.period;
    let options = Options { seed, ..Options::default() };
    let robot = Robot::build(&board, clock.clone(), first, options).expect("the robot can be built");
    let (plant, recollection) =
        (robot.plant.clone().expect("a world"), robot.recollection.clone().expect("a map"));
    let senses = robot.senses.clone();
    let start = plant.report(clock.now()).pose;
    let (mut met, mut until) = (None, None);
    let (mut seen, mut tick_allocations) = (Vec::new(), 0);
    let enough = AtomicBool::new(false);
    runner::step(robot, &clock, first + Span::from_millis(1000 * seconds), &enough, |recorder| {
        let Some(record) = &recorder.summary().last else { return };
        let sample = record.frame.samples[channel];
        seen.push((sample.value, sample.health));
        tick_allocations += record.allocations.unwrap_or(0);
        let now = clock.now();
        if met.is_none()
            && let Some((1, Some(place))) = recollection.with(|map| map.met(0))
        {
            met = Some((place, plant.report(now).pose));
            until = Some(now + after);
        }
        if until.is_some_and(|until| now >= until) {
            enough.store(true, Ordering::Relaxed);
        }
    });
    let end = plant.report(clock.now()).pose;
    let status = recollection.status(None).expect("an account");
    let readings_dropped = senses.readings_dropped.load(Ordering::Relaxed);
    Drive { status, recollection, met, start, end, seen, tick_allocations, readings_dropped }
}

fn apart(a: [f64; 2], b: [f64; 2]) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// A place in the room in the map's coordinates: relative to the position and heading at the start.
fn from_start(start: &Pose, at: [f64; 2]) -> [f64; 2] {
    let (dx, dy) = (at[0] - start.x, at[1] - start.y);
    let (sin, cos) = start.heading.sin_cos();
    [dx * cos + dy * sin, dy * cos - dx * sin]
}

#[test]
fn a_landmark_seen_once_is_found_again() {
    for seed in [1, 3] {
        let drive = drive_for(seed, Span::from_millis(1500), 40);
        let (place, _) = drive.met.expect("a room has walls");
        let wall = &drive.status.things[0];
        assert_eq!((wall.name.as_str(), wall.met, drive.status.meetings), ("wall", 1, 1), "seed {seed}");
        // With one meeting on a page, the decoded position is within 3 % of the plane's scale, 0.5 m.
        let found = wall.was_at.expect("believed");
        assert!(apart(found, place) < 0.03 * 0.5, "seed {seed}: met at {place:?}, found at {found:?}");
        assert!(wall.likeness > 0.9, "seed {seed}: {}", wall.likeness);
        let near = drive.recollection.status(Some(place)).expect("an account").near;
        assert_eq!(near.first().map(|near| near.name.as_str()), Some("wall"), "seed {seed}");
        let far = drive.recollection.status(Some([place[0] - 2.0, place[1] + 2.0])).expect("an account").near;
        assert!(far.is_empty(), "seed {seed}: {far:?}");
    }
}

#[test]
fn the_map_position_matches_dead_reckoning() {
    let drive = drive_for(2, Span::from_millis(1500), 40);
    let real = from_start(&drive.start, [drive.end.x, drive.end.y]);
    let way = apart(real, [0.0, 0.0]);
    assert!(way > 0.3, "it moved: {real:?}");
    // The car does not slip, so the only errors of dead reckoning come from the servo's response time and the
    // last commands.
    let off = apart(drive.status.at, real);
    assert!(off < 0.1 + 0.1 * way, "really at {real:?}, reckoned {:?}", drive.status.at);
}

#[test]
fn recall_is_a_sensor_and_costs_the_tick_nothing() {
    let drive = drive_for(3, Span::from_millis(1000), 40);
    assert!(drive.met.is_some());
    let good: Vec<f32> =
        drive.seen.iter().filter(|(_, health)| *health == Health::Good).map(|(value, _)| *value).collect();
    assert!(good.len() > drive.seen.len() / 2, "{} of {} frames are good", good.len(), drive.seen.len());
    // The similarity is about 0 before the meeting. At the meeting the thing is 0.9 m ahead, more than a
    // scale away; then it comes nearer.
    assert!(good[0].abs() < 0.1, "{}", good[0]);
    assert!(good.iter().all(|value| (0.0..=1.0).contains(value)));
    assert_eq!((drive.status.dropped, drive.readings_dropped), (0, 0));
    // Allocations are counted only in builds with a counting allocator; in others this is 0.
    assert_eq!(drive.tick_allocations, 0);
}

#[test]
fn the_map_is_deterministic() {
    let [one, other] = [0, 1].map(|_| drive_for(1, Span::from_millis(500), 20));
    assert_eq!(one.status, other.status);
    let bits = |drive: &Drive| drive.seen.iter().map(|(value, _)| value.to_bits()).collect::<Vec<_>>();
    assert!(bits(&one) == bits(&other));
}

#[test]
fn a_recall_sensor_without_motion_causes_a_warning() {
    // The desk robot already has [motion], and [backing], which needs it: both are removed.
    let text = WITH_MAP
        .replace("[motion]", "[backing]\nremove = true\n[motion]\nremove = true\n")
        .replace("full_speed = 0.5\nwheelbase = 0.0872\nlag_ms = 80.0", "");
    let error = board::from_text("mapped", &text).expect_err("no motion").to_string();
    assert!(error.contains("[motion]"), "{error}");
    let text = WITH_MAP.replace("by = \"range\"", "by = \"wall\"");
    assert!(board::from_text("mapped", &text).is_err(), "a recall sensor cannot be its own `by`");
}

/// A process that ends with the test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_control_socket_answers_map_queries() {
    let folder = Folder::new("map");
    let (board, socket) = (folder.write("board.toml", WITH_MAP), folder.path("control"));
    let arguments = ["run", "--board", &board, "--control", &socket, "--for", "600s"];
    let quiet = std::process::Stdio::null;
    let _running = Running(ganglion(&arguments).stdout(quiet()).stderr(quiet()).spawn().expect("it starts"));
    let status = |more: &[&str]| output(&[&["status", "--socket", &socket], more].concat());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let asked = loop {
        let asked = status(&["--json", "--near", "-1.5,0.25"]);
        if asked.status.success() {
            break asked;
        }
        assert!(std::time::Instant::now() < until, "{}", err(&asked));
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    let account: serde_json::Value = serde_json::from_str(out(&asked).trim()).expect("an object");
    let map = &account["map"];
    assert_eq!((&map["asked"][0], &map["asked"][1]), (&(-1.5).into(), &0.25.into()), "{account}");
    assert_eq!((&map["things"][0]["name"], &map["dropped"]), (&"wall".into(), &0.into()), "{map}");
    let page = out(&status(&[]));
    assert!(page.contains("map        here (") && page.contains("near ("), "{page}");
    assert_eq!(status(&["--near", "here"]).status.code(), Some(64));
}
