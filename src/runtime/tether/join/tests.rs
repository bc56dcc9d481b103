//! Joins and replies survive encoding, and differences are named with both values.

use super::*;
use crate::deploy::board;
use proptest::prelude::*;

fn board(name: &str) -> Board {
    board::built_in(name).expect("it is built in").expect("it is valid").board
}

fn join(name: &str) -> Join {
    Join::of("rover-7", &board(name), [9; 32])
}

/// A board with the maximum number of sensors and motors, all with long names.
fn large() -> Board {
    let mut board = board("sim");
    let (sensor, motor) = (board.sensors[0].clone(), board.motors[0].clone());
    board.sensors = (0..MAX_SENSORS).map(|at| numbered(sensor.clone(), at)).collect();
    board.motors = vec![motor; MAX_MOTORS];
    board.motors.iter_mut().enumerate().for_each(|(at, motor)| motor.name = format!("{at:-^32}"));
    board
}

fn numbered(mut sensor: crate::base::plan::SensorPlan, at: usize) -> crate::base::plan::SensorPlan {
    sensor.name = format!("{at:-^32}");
    sensor.input = Some(sensor.input.unwrap_or(crate::base::plan::Scale {
        low: 0.0,
        high: 1.0,
        curve: crate::base::plan::Curve::Linear,
    }));
    sensor
}

#[test]
fn every_shipped_board_fits_and_survives_a_round_trip() {
    for (name, _) in board::BUILT_IN {
        let join = join(name);
        let bytes = join.encode();
        assert!(bytes.len() <= HANDSHAKE_PAYLOAD_MOST, "{name}: {} bytes", bytes.len());
        assert_eq!(Join::decode(&bytes), Ok(join.clone()), "{name}");
        let inputs = board(name).sensors.iter().filter(|sensor| sensor.input.is_some()).count();
        assert_eq!(join.sensor_count, inputs, "{name}");
        assert_eq!((join.sensors.len(), join.motors.len()), (join.sensor_count, join.motor_count), "{name}");
    }
}

#[test]
fn large_board_is_listed_as_far_as_a_datagram_holds() {
    let board = large();
    let join = Join::of("rover-7", &board, [9; 32]);
    let bytes = join.encode();
    assert!(bytes.len() <= HANDSHAKE_PAYLOAD_MOST, "{} bytes", bytes.len());
    assert_eq!(Join::decode(&bytes), Ok(join.clone()));
    assert_eq!((join.sensor_count, join.motor_count), (MAX_SENSORS, MAX_MOTORS));
    assert!((10..MAX_SENSORS).contains(&join.sensors.len()) && join.motors.is_empty());
    let mut other = board;
    other.motors[15].name = "another".into();
    let other = Join::of("rover-7", &other, [9; 32]);
    let listed = join.sensors.len();
    assert_eq!(join.difference(&other), Some(Difference::Beyond(listed)), "noticed though not listed");
}

#[test]
fn same_board_has_no_differences_whatever_the_robots_name() {
    let other = Join::of("another", &board("sim"), [9; 32]);
    assert_eq!(join("sim").difference(&other), None);
}

#[test]
fn a_difference_is_named_with_both_values() {
    let robot = join("sim");
    let said = |change: fn(&mut Board)| {
        let mut board = board("sim");
        change(&mut board);
        robot.difference(&Join::of("rover-7", &board, [9; 32])).expect("they differ").to_string()
    };
    let unit = said(|board| board.sensors.iter_mut().for_each(|sensor| sensor.unit = "cm".into()));
    assert!(unit.starts_with("sensor 1 is `") && unit.contains("the brain's board has `"), "{unit}");
    assert!(unit.contains(" in cm from ") && unit.contains(" in m from "), "{unit}");
    let motor = said(|board| board.motors[0].name = "port".into());
    assert!(motor.starts_with("motor 1 is `") && motor.ends_with("the brain's board has `port`"), "{motor}");
    let fewer = said(|board| drop(board.motors.pop()));
    assert_eq!(fewer, "the robot has 5 motors, the brain's board 4");
    let slower = said(|board| board.field.dt = Span::from_millis(77));
    assert!(slower.ends_with("the brain's board every 77 ms"), "{slower}");
    let newer = Join { message_version: 2, ..robot.clone() };
    let words = newer.difference(&robot).unwrap().to_string();
    assert_eq!(words, "the robot speaks version 2 of the messages, the brain version 1");
    let other = Join { digest: [0xab; 32], ..robot.clone() };
    let words = robot.difference(&other).unwrap().to_string();
    assert!(words.contains("0909090909090909") && words.contains("abababababababab"), "{words}");
}

#[test]
fn every_difference_fits_into_a_refusal() {
    let long = |name: &str| JoinSensor {
        name: name.repeat(NAME_MOST),
        unit: "u".repeat(UNIT_MOST),
        low: -1.234_567_8e-30,
        high: 1.234_567_8e30,
    };
    let words = Difference::Sensor(64, long("a"), long("b")).to_string();
    let JoinReply::Refused(told) = JoinReply::refused(&words) else { panic!("not a refusal") };
    assert!(told.len() <= TEXT_MOST && told.contains("the brain's board has `bbb"), "{told}");
}

#[test]
fn replies_survive_a_round_trip_within_their_lengths() {
    let long = JoinReply::refused(&"é\n".repeat(TEXT_MOST));
    let joined = JoinReply::Joined { session: Id([5; 8]), engine: "cuda (NVIDIA)".into() };
    for reply in [joined, long, JoinReply::Refused(String::new())] {
        assert_eq!(JoinReply::decode(&reply.encode()), Ok(reply));
    }
    assert_eq!(JoinReply::decode(&[]), Err(JoinError::Truncated));
    assert_eq!(JoinReply::decode(&[3]), Err(JoinError::Byte(0)));
    assert_eq!(JoinReply::decode(&[2, 1, 7]), Err(JoinError::Text(1)), "a control character");
    assert_eq!(JoinReply::decode(&[2, 0, 0]), Err(JoinError::Trailing));
}

#[test]
fn short_joins_are_truncated_and_long_ones_trailing() {
    let bytes = join("picarx-v4").encode();
    for length in 0..bytes.len() {
        assert_eq!(Join::decode(&bytes[..length]), Err(JoinError::Truncated), "{length}");
    }
    assert_eq!(Join::decode(&[&bytes[..], &[0]].concat()), Err(JoinError::Trailing));
}

proptest! {
    #[test]
    fn decoded_bytes_encode_to_the_same_bytes(
        at in prop::collection::vec((0..400usize, any::<u8>()), 0..4),
        random in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = join("picarx-v4").encode();
        for (place, value) in at {
            let length = bytes.len();
            bytes[place % length] = value;
        }
        for bytes in [bytes, random] {
            if let Ok(join) = Join::decode(&bytes) {
                prop_assert_eq!(join.encode(), bytes.clone());
            }
            if let Ok(reply) = JoinReply::decode(&bytes) {
                prop_assert_eq!(reply.encode(), bytes);
            }
        }
    }
}
