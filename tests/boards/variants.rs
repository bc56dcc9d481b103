//! Boards that add something to another board: a tether, or rangers at the front corners.

use super::shipped;
use ganglion::base::plan::{Board, EngineKind, OnLoss};
use ganglion::base::time::Span;

/// Boards with sensors at the front corners differ from the others only in these and in what uses them.
#[test]
fn boards_with_corners_add_the_same_sensors_and_rules() {
    let pairs =
        [("sim-corners", "sim"), ("picarx-v4-corners", "picarx-v4"), ("picarx-v5-corners", "picarx-v5")];
    let is_corner = |name: &str| name.starts_with("corner-");
    let added = pairs.map(|(name, plain)| {
        let (with, plain) = (shipped(name), shipped(plain).board);
        let (mut board, sensors) = (with.board, plain.sensors.len());
        let corners = board.sensors.split_off(sensors);
        let rules = board.reflexes.split_off(plain.reflexes.len());
        assert!(corners.iter().all(|sensor| is_corner(&sensor.name)) && corners.len() == 2, "{name}");
        assert_eq!(rules.iter().map(|rule| rule.channel).collect::<Vec<_>>(), [sensors, sensors + 1]);
        let clear_m = board.wander_clear_m.take();
        assert_eq!(board.bus, plain.bus, "{name}");
        (
            corners,
            rules.into_iter().map(|rule| (rule.trip, rule.clear, rule.restraint)).collect::<Vec<_>>(),
            clear_m,
        )
    });
    assert_eq!(added[0], added[1]);
    assert_eq!(added[1], added[2]);
    assert_eq!(added[0].2, Some(0.45));
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
