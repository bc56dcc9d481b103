//! Any text gives either a valid board or a list of faults, never a panic.

use super::text_of;
use ganglion::base::command::MAX_MOTORS;
use ganglion::base::frame::MAX_SENSORS;
use ganglion::base::plan::addresses::{expected, holder};
use ganglion::base::plan::lines::lines;
use ganglion::base::plan::{Board, ComputedSensor, GuardHold, Line, SensorKind};
use ganglion::deploy::board::{self, BoardError};
use proptest::prelude::*;
use proptest::test_runner::Config;

/// Values that are wrong for some keys, at the end of a range, or of an unexpected type.
const VALUES: [&str; 32] = [
    "0x40",
    "\"side:0x68\"",
    "\"PQ.06\"",
    "\"adapter:c250000.i2c\"",
    "0",
    "-1",
    "1",
    "3",
    "4.0",
    "1e308",
    "-1e308",
    "5e-324",
    "nan",
    "inf",
    "-inf",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "true",
    "\"\"",
    "\"left\"",
    "\"range\"",
    "\"P13\"",
    "\"A0\"",
    "\"é\\u0000\"",
    "[]",
    "[[]]",
    "[1, 2]",
    "{}",
    "{ remove = true }",
    "1979-05-27T07:32:00Z",
    "[{ name = \"range\" }, { name = 1 }, 3]",
];

/// One typing mistake.
#[derive(Clone, Debug)]
enum Slip {
    Value { line: usize, value: usize },
    Delete { line: usize },
    Repeat { line: usize, at: usize },
    Swap { line: usize, with: usize },
    Insert { at: usize, text: String },
    Cut { at: usize },
}

fn slip() -> impl Strategy<Value = Slip> {
    let place = 0usize..4000;
    prop_oneof![
        6 => (place.clone(), 0..VALUES.len()).prop_map(|(line, value)| Slip::Value { line, value }),
        2 => place.clone().prop_map(|line| Slip::Delete { line }),
        2 => (place.clone(), place.clone()).prop_map(|(line, at)| Slip::Repeat { line, at }),
        2 => (place.clone(), place.clone()).prop_map(|(line, with)| Slip::Swap { line, with }),
        2 => (0usize..20_000, "\\PC{0,8}").prop_map(|(at, text)| Slip::Insert { at, text }),
        1 => (0usize..20_000).prop_map(|at| Slip::Cut { at }),
    ]
}

fn apply(text: &str, slip: &Slip) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    let count = lines.len().max(1);
    let byte =
        |at: usize| (0..=at % (text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    match slip {
        Slip::Value { line, value } => {
            // The next line that has a value, so that most of these mistakes have an effect.
            let order = (0..count).map(|step| (line + step) % count);
            let found = order.into_iter().find(|at| lines.get(*at).is_some_and(|line| line.contains('=')));
            if let Some(line) = found.and_then(|at| lines.get_mut(at)) {
                let key = line.split('=').next().unwrap_or("").to_string();
                *line = format!("{key}= {}", VALUES[*value]);
            }
        }
        Slip::Delete { line } if !lines.is_empty() => drop(lines.remove(line % count)),
        Slip::Repeat { line, at } if !lines.is_empty() => {
            let copy = lines[line % count].clone();
            lines.insert(at % count, copy);
        }
        Slip::Swap { line, with } if !lines.is_empty() => lines.swap(line % count, with % count),
        Slip::Insert { at, text: extra } => {
            let at = byte(*at);
            return format!("{}{extra}{}", &text[..at], &text[at..]);
        }
        Slip::Cut { at } => return text[..byte(*at)].to_string(),
        _ => {}
    }
    lines.join("\n") + "\n"
}

/// Invariants of a checked board that all code relies on.
fn assert_sound(board: &Board) {
    assert!(
        (1..=MAX_SENSORS).contains(&board.sensors.len()) && (1..=MAX_MOTORS).contains(&board.motors.len())
    );
    let inputs = board.sensors.iter().filter(|sensor| sensor.input.is_some()).count();
    assert!(inputs > 0 && inputs == board.field.shape.sensors);
    assert!((1..=MAX_MOTORS).contains(&board.field.shape.motors));
    assert!([8, 16, 32, 64].contains(&board.field.shape.grid));
    for (at, sensor) in board.sensors.iter().enumerate() {
        assert!(sensor.valid[0] < sensor.valid[1] && sensor.max_age >= sensor.period);
        match &sensor.kind {
            SensorKind::Computed(ComputedSensor::Least { of }) => {
                assert!(!of.is_empty() && of.iter().all(|of| *of < at))
            }
            SensorKind::Computed(ComputedSensor::MotorEcho { motor }) => assert!(*motor < board.motors.len()),
            _ => {}
        }
        if let Some(scale) = sensor.input {
            for value in [sensor.valid[0], sensor.valid[1], 0.0, scale.low, scale.high] {
                assert!((-1.0..=1.0).contains(&scale.apply(value)), "{value} on {scale:?}");
            }
        }
    }
    assert!(board.reflexes.iter().all(|rule| rule.channel < board.sensors.len()));
    for curve in &board.field.start {
        assert!(curve.motor < board.motors.len() && curve.sensor < inputs && !curve.points.is_empty());
        assert!(curve.points.windows(2).all(|pair| pair[0][0] < pair[1][0]));
        assert!(curve.points.iter().flatten().all(|value| (-1.0..=1.0).contains(value)));
    }
    assert!(board.decisions.iter().all(|decision| decision.motors.len() == board.motors.len()));
    let mut cpus = board.field.cpus.clone();
    cpus.sort();
    assert!(cpus.windows(2).all(|pair| pair[0] < pair[1]) && cpus.last().is_none_or(|cpu| *cpu < 1024));
    let targets = board.targets;
    let ratios = [targets.wake_ratio, targets.tail_ratio, targets.level5_ratio, targets.f16_ratio];
    let others = [targets.tick_p99_us, targets.memory_mb];
    assert!(ratios.iter().chain(&others).flatten().all(|value| value.is_finite() && *value > 0.0));
    assert!(targets.cycle_p50.is_none_or(|p50| targets.cycle_p99.is_none_or(|p99| p50 <= p99)));
    assert_wires(board);
    assert!(board.budget.target <= board.field.dt && board.safety.command_valid >= board.period);
}

/// Invariants of the hardware description that all code relies on.
fn assert_wires(board: &Board) {
    let known = |line: Line| line.name().map_or(line.0 <= 255, |at| at < board.line_names.len());
    assert!(lines(board).iter().all(|(line, _)| known(*line)));
    for (at, bus) in board.i2c.iter().enumerate() {
        assert!(bus.timing.timeout < board.safety.wire_lost && bus.timing.speed_hz >= 10_000);
        let expected = expected(board, at);
        assert!(expected.windows(2).all(|pair| pair[0].address < pair[1].address));
        for device in &expected {
            assert!((0x08..=0x77).contains(&device.address));
            assert!(holder(board, at, device.address).is_none(), "{device:?} has a reserved address");
        }
    }
    assert!(board.sensors.iter().all(|sensor| sensor.bus < board.i2c.len().max(1)));
    assert!(board.reserved_addresses.iter().all(|reserved| reserved.bus < board.i2c.len()));
    assert!(board.mcu.is_none() || board.pwm.is_none(), "one pulse source");
    if let Some(guard) = board.guard {
        assert!(guard.timeout >= board.period.times(4));
        match guard.holds {
            GuardHold::Reset => assert!(board.mcu.is_some()),
            GuardHold::Enable => assert!(board.enable.is_some()),
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 1000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_text_gives_a_valid_board_or_a_list_of_faults(
        name in prop::sample::select(board::names().collect::<Vec<_>>()),
        slips in prop::collection::vec(slip(), 1..4),
    ) {
        let text = slips.iter().fold(text_of(name).to_string(), |text, slip| apply(&text, slip));
        match board::from_text("fuzz", &text) {
            Ok(loaded) => {
                assert_sound(&loaded.board);
                let again = board::from_text("fuzz", &loaded.effective().join("\n"));
                prop_assert_eq!(again.map(|again| again.digest).ok(), Some(loaded.digest));
            }
            Err(BoardError::Refused(findings)) => {
                prop_assert!(!findings.is_empty());
                for finding in &findings {
                    let spot = finding.spot.as_ref();
                    prop_assert!(spot.is_none_or(|spot| spot.line >= 1 && spot.column >= 1));
                    let words = format!("{finding:#}");
                    prop_assert!(words.len() > 10);
                }
            }
            Err(error) => prop_assert!(false, "a text is always readable: {}", error),
        }
    }
}
