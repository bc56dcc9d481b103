//! Boards that add something to another board: a tether, or rangers at the front corners and a gyroscope.

use super::shipped;
use ganglion::base::plan::{Board, EngineKind, OnLoss, Restraint, Rule, SensorPlan, Trip, WanderPlan};
use ganglion::base::time::Span;

/// Each rule: its sensor, when it trips and clears, what it forbids.
fn rules(board: &Board) -> impl Iterator<Item = (String, Trip, f32, Restraint)> {
    let named =
        |rule: &Rule| (board.sensors[rule.channel].name.clone(), rule.trip, rule.clear, rule.restraint);
    board.reflexes.iter().map(named)
}

/// These sensors, but the ground sensors look at the spots of those of `board`. Asserts that the outer ones
/// looked at spots 2 cm outside the tracks of the wheels.
fn with_spots_of(board: &Board, sensors: &[SensorPlan]) -> Vec<SensorPlan> {
    let track = board.motion.and_then(|motion| motion.track).expect("it states its track");
    let with_spot = |sensor: &SensorPlan| {
        let plain = board.sensors.iter().find(|plain| plain.name == sensor.name)?;
        if let Some([_, left]) = sensor.looks_at.filter(|[_, left]| *left != 0.0) {
            assert!((left.abs() - track / 2.0 - 0.02).abs() < 0.001, "{}", sensor.name);
        }
        Some(SensorPlan { looks_at: plain.looks_at, ..sensor.clone() })
    };
    sensors.iter().map(|sensor| with_spot(sensor).unwrap_or_else(|| sensor.clone())).collect()
}

/// Boards with rangers at the front corners and a gyroscope differ from the others only in these and in what
/// uses them.
#[test]
fn boards_with_corners_add_the_same_sensors_and_rules() {
    let pairs =
        [("sim", "sim-sonar"), ("picarx-v4-corners", "picarx-v4"), ("picarx-v5-corners", "picarx-v5")];
    let is_corner = |name: &str| name.starts_with("corner-");
    let is_added = |name: &str| is_corner(name) || name == "turning";
    let added = pairs.map(|(name, plain)| {
        let (board, plain) = (shipped(name).board, shipped(plain).board);
        let (of_corners, others): (Vec<_>, Vec<_>) = rules(&board).partition(|rule| is_corner(&rule.0));
        assert_eq!(others, rules(&plain).collect::<Vec<_>>(), "{name}");
        let (mut added, others): (Vec<_>, Vec<_>) =
            board.sensors.iter().cloned().partition(|sensor| is_added(&sensor.name));
        assert_eq!(with_spots_of(&plain, &others), plain.sensors, "{name}");
        let turning = |board: &Board| {
            let turning = board.motion.and_then(|motion| motion.turning);
            turning.map(|turning| board.sensors[turning.channel].name.clone())
        };
        assert_eq!((turning(&board).as_deref(), turning(&plain)), (Some("turning"), None), "{name}");
        assert_eq!((board.bus, plain.wander), (plain.bus, None), "{name}");
        assert_eq!((&board.behaviours, &board.decision_fields), (&plain.behaviours, &plain.decision_fields));
        // Only the simulated ranger's noise is known, so only there is the limit strict.
        added.iter_mut().for_each(|sensor| sensor.frozen_after = None);
        (added, of_corners, board.wander)
    });
    assert_eq!(added[0], added[1]);
    assert_eq!(added[1], added[2]);
    assert_eq!(
        (added[0].0.len(), added[0].1.len(), added[0].2),
        (3, 2, Some(WanderPlan { clear_m: 0.45, new_ground: 3.0 }))
    );
}

/// Tethered cars differ only in where the field is computed. The permitted silence is five periods at 50 Hz.
#[test]
fn tethered_cars_stop_when_the_brain_computer_is_silent() {
    for (name, untethered) in [("picarx-v4-tethered", "picarx-v4"), ("picarx-v5-tethered", "picarx-v5")] {
        let board = shipped(name).board;
        let tether = board.tether.clone().expect("it has a tether");
        assert_eq!((tether.on_loss, tether.latched), (OnLoss::Stop, false), "{name}");
        assert_eq!(
            (tether.silence, board.field.dt.times(5)),
            (Span::from_millis(100), Span::from_millis(100))
        );
        let mut own = shipped(untethered).board;
        own.field.engine = EngineKind::Remote;
        assert_eq!(Board { name: board.name.clone(), tether: board.tether.clone(), ..own }, board, "{name}");
    }
}

/// The gyroscope that boards/README.md shows can be added as written there.
#[test]
fn the_gyroscope_of_the_guide_measures_the_heading() {
    let guide = include_str!("../../boards/README.md");
    let section = guide.split("## A gyroscope\n").nth(1).expect("a section");
    let text = section.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a board");
    let board = ganglion::deploy::board::from_text("guide", text).expect("a good board").board;
    let turning = board.motion.and_then(|motion| motion.turning).expect("it names its gyroscope");
    assert_eq!(board.sensors[turning.channel].name, "turning");
    assert_eq!(turning.scale, 1.0);
    assert_eq!(shipped("picarx-v4").board.motion.and_then(|motion| motion.turning), None);
}
