//! Every board that passes the check can be built and runs; a board that exceeds a capacity is refused, and
//! the message states the limit. Both matter: if a board passed the check but its robot panicked, the service
//! manager would restart it again and again.

use crate::long::or_in_full;
use ganglion::base::command::MAX_MOTORS;
use ganglion::base::frame::MAX_SENSORS;
use ganglion::base::plan::Board;
use ganglion::base::time::{Clock, Instant, SimClock, Span};
use ganglion::decision::reflex::MAX_RULES;
use ganglion::deploy::board::{self, BoardError};
use ganglion::memory::map::MOST_THINGS;
use ganglion::runtime::robot::{Options, Robot};
use ganglion::runtime::runner;
use proptest::prelude::*;
use proptest::test_runner::Config;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Counts of everything whose number is limited.
#[derive(Clone, Copy, Debug)]
struct Counts {
    servos: usize,
    recorded: usize,
    sonars: usize,
    buttons: usize,
    chips: usize,
    recalls: usize,
    rules: usize,
    curves: usize,
    buses: usize,
    cliffs: usize,
    reserved: usize,
}

/// A minimal board.
const FEW: Counts = Counts {
    servos: 0,
    recorded: 1,
    sonars: 1,
    buttons: 0,
    chips: 0,
    recalls: 0,
    rules: 1,
    curves: 0,
    buses: 1,
    cliffs: 0,
    reserved: 0,
};

const HEAD: &str = "period_ms = 10.0\n[rt]\nlock_memory = false\n[bus]\nkind = \"sim\"\nspeed_hz = 1000000\n\
    timeout_ms = 20.0\n[pca9685]\naddress = 0x40\nhz = 50.0\noutput_enable = 4\n[motion]\nfull_speed = 0.5\n\
    wheelbase = 0.1\n[field]\ngrid = 8\npatterns = 1\nbank = 1\n[budget]\ntarget_ms = 5.0\n[safety]\nauto_arm = true\n\
    reverse_max_ms = 1500.0\n";
const WORLD: &str = "[sim]\nroom = [4.0, 3.0]\nwheelbase = 0.0872\ntrack = 0.1167\nbody = [0.25, 0.13]\n\
    full_speed = 0.5\nbattery_v = 7.8\n";
const COMMON: &str = "unit = \"1\"\nvalid = [0.0, 4.0]\n";

/// The text of a board with these counts.
fn board_of(counts: &Counts) -> String {
    let mut text = HEAD.to_string();
    let cliff = "[3.4, 2.5, 4.0, 3.0]";
    let _ = writeln!(text, "{WORLD}cliffs = [{}]", vec![cliff; counts.cliffs].join(", "));
    text.push_str("[reserved]\n");
    for nth in 0..counts.reserved {
        let _ = writeln!(text, "r{nth} = \"R{nth}\"");
    }
    for nth in 1..counts.buses {
        let _ = writeln!(text, "[[i2c]]\nname = \"bus-{nth}\"\nspeed_hz = 400000");
    }
    for nth in 0..counts.servos {
        let servo = "kind = \"servo\"\nmin_deg = -30.0\nmax_deg = 30.0\nslew_per_s = 6.0";
        let _ = writeln!(text, "[[motor]]\nname = \"servo-{nth}\"\npwm = {nth}\n{servo}");
    }
    for nth in 0..counts.recorded {
        let _ = writeln!(
            text,
            "[[motor]]\nname = \"request-{nth}\"\nkind = \"recorded\"\ndrive = true\nslew_per_s = 4.0"
        );
    }
    for nth in 0..counts.sonars {
        let kind = "kind = \"hc-sr04\"\nperiod_ms = 100.0\ninput = { low = 0.0, high = 4.0 }";
        let _ = writeln!(
            text,
            "[[sensor]]\nname = \"range-{nth}\"\ntrig = \"T{nth}\"\necho = \"E{nth}\"\n{kind}\n{COMMON}"
        );
    }
    for nth in 0..counts.buttons {
        let kind = "kind = \"button\"\nactive_low = true\nperiod_ms = 10.0";
        let _ = writeln!(text, "[[sensor]]\nname = \"button-{nth}\"\nline = \"B{nth}\"\n{kind}\n{COMMON}");
    }
    for nth in 0..counts.chips {
        let (bus, address) = (nth % counts.buses.max(1), 0x50 + nth / counts.buses.max(1) % 0x20);
        let bus = if bus == 0 { String::new() } else { format!("bus = \"bus-{bus}\"\n") };
        let kind = "kind = \"float-register\"\nregister = 0\nperiod_ms = 1000.0";
        let _ =
            writeln!(text, "[[sensor]]\nname = \"chip-{nth}\"\n{bus}address = {address}\n{kind}\n{COMMON}");
    }
    for nth in 0..counts.recalls {
        let kind = "kind = \"recall\"\nby = \"range-0\"\nbelow = 0.5\nperiod_ms = 100.0";
        let _ = writeln!(text, "[[sensor]]\nname = \"seen-{nth}\"\n{kind}\n{COMMON}");
    }
    for nth in 0..counts.rules {
        let rule = "cause = \"obstacle\"\nsensor = \"range-0\"\nbelow = 0.1\nclear = 0.2\nrestraint = \"no-forward\"";
        let _ = writeln!(text, "[[reflex]]\nname = \"rule-{nth}\"\n{rule}");
    }
    for _ in 0..counts.curves {
        let curve = "motor = \"request-0\"\nsensor = \"range-0\"\npoints = [[0.0, 0.0], [4.0, 0.01]]";
        let _ = writeln!(text, "[[start]]\n{curve}");
    }
    text
}

/// Builds the robot and runs it in virtual time, long enough for every motor to be set up.
fn runs(board: &Board) {
    let clock = Arc::new(SimClock::new());
    let first = Instant::ZERO + Span::from_millis(20);
    let robot = Robot::build(board, clock.clone() as Arc<dyn Clock>, first, Options::default())
        .unwrap_or_else(|error| panic!("a valid board is refused: {error}"));
    let never = AtomicBool::new(false);
    let ending = runner::step(robot, &clock, first + Span::from_millis(4_000), &never, |_| ());
    assert!(ending.panicked.is_empty(), "{:?}", ending.panicked);
    assert!(!ending.recorder.end_late.is_empty(), "no command ever reached the motors");
}

/// Every capacity: its name, a board at the limit, a board one beyond the limit, and the text of the refusal.
fn capacities() -> Vec<(&'static str, Counts, Counts, String)> {
    let one = |name, at: Counts, beyond: Counts, words: String| (name, at, beyond, words);
    let most_sonars = MAX_SENSORS;
    vec![
        one(
            "servos",
            Counts { servos: MAX_MOTORS - 1, ..FEW },
            Counts { servos: MAX_MOTORS, ..FEW },
            format!("motor: found 17 entries; allowed: 1 to {MAX_MOTORS}"),
        ),
        one(
            "recorded",
            Counts { recorded: MAX_MOTORS, ..FEW },
            Counts { recorded: MAX_MOTORS + 1, ..FEW },
            format!("motor: found 17 entries; allowed: 1 to {MAX_MOTORS}"),
        ),
        one(
            "sonars",
            Counts { sonars: most_sonars, ..FEW },
            Counts { sonars: most_sonars + 1, ..FEW },
            format!("sensor: found 65 entries; allowed: 1 to {MAX_SENSORS}"),
        ),
        one(
            "buttons",
            Counts { buttons: MAX_SENSORS - 1, ..FEW },
            Counts { buttons: MAX_SENSORS, ..FEW },
            format!("sensor: found 65 entries; allowed: 1 to {MAX_SENSORS}"),
        ),
        one(
            "chips",
            Counts { chips: MAX_SENSORS - 1, buses: 8, ..FEW },
            Counts { chips: MAX_SENSORS, buses: 8, ..FEW },
            format!("sensor: found 65 entries; allowed: 1 to {MAX_SENSORS}"),
        ),
        one(
            "things of the map",
            Counts { recalls: MOST_THINGS, ..FEW },
            Counts { recalls: MOST_THINGS + 1, ..FEW },
            format!("found 17 recall sensors; allowed: at most {MOST_THINGS}"),
        ),
        one(
            "rules",
            Counts { rules: MAX_RULES, ..FEW },
            Counts { rules: MAX_RULES + 1, ..FEW },
            format!("reflex: found 129 entries; allowed: at most {MAX_RULES}"),
        ),
        one(
            "starting curves",
            Counts { curves: 128, ..FEW },
            Counts { curves: 129, ..FEW },
            "start: found 129 entries; allowed: at most 128".to_string(),
        ),
        one(
            "buses",
            Counts { buses: 8, chips: 8, ..FEW },
            Counts { buses: 9, chips: 9, ..FEW },
            "i2c: found 9 buses; allowed: at most 8".to_string(),
        ),
        one(
            // Sources of readings are each bus, the sonars, the lines and the map. A simulated board does not
            // read files, which would be another source.
            "sources of readings",
            Counts { buses: 8, chips: 8, sonars: 2, buttons: 2, recalls: 1, ..FEW },
            Counts { buses: 9, chips: 9, sonars: 2, buttons: 2, recalls: 1, ..FEW },
            "i2c: found 9 buses; allowed: at most 8".to_string(),
        ),
        one(
            "cliffs",
            Counts { cliffs: 256, ..FEW },
            Counts { cliffs: 257, ..FEW },
            "sim.cliffs: found 257 items; allowed: at most 256".to_string(),
        ),
        one(
            "named lines",
            // The limit is 256 names, of which the sonar's lines take two.
            Counts { reserved: 254, ..FEW },
            Counts { reserved: 255, ..FEW },
            "found more than 256 line names".to_string(),
        ),
    ]
}

#[test]
fn board_at_capacity_runs_and_one_beyond_is_refused() {
    for (name, at, beyond, words) in capacities() {
        let loaded =
            board::from_text("full", &board_of(&at)).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        runs(&loaded.board);
        match board::from_text("more", &board_of(&beyond)) {
            Err(error @ BoardError::Refused(_)) => {
                assert!(error.to_string().contains(&words), "{name}: {error}")
            }
            Err(error) => panic!("{name}: {error}"),
            Ok(_) => panic!("{name}: one beyond the limit is accepted"),
        }
    }
}

fn counts() -> impl Strategy<Value = Counts> {
    // About half of the boards exceed no limit, and most have a count that is exactly at its limit.
    let about = |most: usize| prop_oneof![4 => 0..=most, 3 => Just(most), 1 => Just(most + 1)];
    (
        (about(MAX_MOTORS - 1), 1..=2_usize, 1..=20_usize, about(20), about(20), about(MOST_THINGS)),
        (about(MAX_RULES), about(3), 1..=9_usize, about(20), about(60)),
    )
        .prop_map(
            |(
                (servos, recorded, sonars, buttons, chips, recalls),
                (rules, curves, buses, cliffs, reserved),
            )| {
                Counts {
                    servos,
                    recorded,
                    sonars,
                    buttons,
                    chips,
                    recalls,
                    rules,
                    curves,
                    buses,
                    cliffs,
                    reserved,
                }
            },
        )
}

#[test]
fn every_board_that_passes_the_check_runs() {
    // Few cases: each takes a fraction of a second, and boards far below every capacity would show nothing.
    let config = Config { failure_persistence: None, ..Config::with_cases(or_in_full(8, 48)) };
    proptest!(config, |(counts in counts())| {
        if let Ok(loaded) = board::from_text("drawn", &board_of(&counts)) {
            runs(&loaded.board);
        }
    });
}
