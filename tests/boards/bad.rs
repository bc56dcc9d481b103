//! Mistakes in an otherwise valid board, one at a time: the message names the line, the key, and the allowed
//! values. There is only one message, without follow-up errors.

use super::{faults, text_of};
use ganglion::deploy::board::{self, BoardError};
use std::path::Path;

const V4: &str = "picarx-v4";

/// Replaces the first `old` of board `base` with `new`; expects one fault, at that line, that contains
/// `words`.
#[track_caller]
pub(super) fn slip(base: &str, old: &str, new: &str, words: &str) {
    elsewhere(base, old, new, old, words);
}

/// Like `slip`, but the report names the line of the first `at` in the changed text.
#[track_caller]
pub(super) fn elsewhere(base: &str, old: &str, new: &str, at: &str, words: &str) {
    let good = text_of(base);
    assert!(good.contains(old), "{base} has no {old:?}");
    let text = good.replacen(old, new, 1);
    let offset = if at == old { good.find(old) } else { text.find(at) };
    let line = text[..offset.unwrap_or_else(|| panic!("no {at:?}"))].matches('\n').count() + 1;
    let faults = faults(&text);
    assert_eq!(faults.len(), 1, "{faults:#?}");
    assert!(faults[0].starts_with(&format!("bad.toml:{line}:")), "wanted line {line}: {}", faults[0]);
    assert!(faults[0].contains(words), "wanted {words:?} in: {}", faults[0]);
}

#[test]
fn backing_needs_its_inputs_and_consistent_numbers() {
    slip(V4, "turn_rad = 0.9", "turn_rad = 4.0", "allowed: a number, 0 to 3.1");
    slip(V4, "trail_m = 3.0", "trail_m = 5.0", "allowed: a number, 0.05 to 4");
    slip(V4, "looks_at = [0.158, 0.02]", "looks_at = [0.158]", "looks_at");
}

#[test]
fn unknown_keys_name_the_nearest() {
    slip(V4, "strict = false", "stirct = false", "rt.stirct: unknown key; did you mean `strict`?");
    slip(
        V4,
        "hold_ms = 300.0",
        "hold = 300.0",
        "reflex.cliff-left.hold: unknown key; did you mean `hold_ms`?",
    );
    slip(V4, "late_slots = 5", "late_slot = 5", "safety.late_slot: unknown key; did you mean `late_slots`?");
    slip(V4, "[rt]", "[safty]\n[rt]", "safty: unknown key; did you mean `safety`?");
    slip(
        V4,
        "mirrored = false",
        "mirrord = false",
        "motor.left.mirrord: unknown key; did you mean `mirrored`?",
    );
    let wanted = "targets.cycle_p95_ms: unknown key; did you mean `cycle_p99_ms`?";
    slip(V4, "cycle_p99_ms = 12.0", "cycle_p95_ms = 12.0", wanted);
    slip(V4, "storage = \"f32\"", "storge = \"f32\"", "field.storge: unknown key; did you mean `storage`?");
    slip(V4, "[targets]", "[target]", "target: unknown key; did you mean `targets`?");
    let known = "budget.colour: unknown key; known keys: target_ms, headroom, dwell_ms, floor";
    slip(V4, "dwell_ms = 1000.0", "colour = 1", known);
}

#[test]
fn a_misspelt_required_key_is_one_fault() {
    slip(V4, "period_ms = 10.0", "perid_ms = 10.0", "perid_ms: unknown key; did you mean `period_ms`?");
    slip(V4, "slew_per_s = 4.0", "slew = 4.0", "motor.left.slew: unknown key; did you mean `slew_per_s`?");
}

#[test]
fn unknown_names_name_the_nearest() {
    let wanted = "no sensor is named `ground_left`; did you mean `ground-left`?";
    slip(V4, "sensor = \"ground-left\"", "sensor = \"ground_left\"", wanted);
    slip(V4, "motor = \"right\"", "motor = \"rihgt\"", "no motor is named `rihgt`; did you mean `right`?");
    slip(V4, "cause = \"cliff\"", "cause = \"clif\"", "no cause is named `clif`; did you mean `cliff`?");
    slip(V4, "restraint = \"slow\"", "restraint = \"crawl\"", "known names: slow, no-forward, still");
    let wanted = "no earlier entry is named `ground-right`; did you mean `ground-left`?";
    slip(V4, "like = \"ground-left\"", "like = \"ground-right\"", wanted);
    let wanted = "inherits: no built-in board is named `picarx4`; did you mean `picarx-v4`?";
    slip("picarx-v5", "inherits = \"picarx-v4\"", "inherits = \"picarx4\"", wanted);
    slip(V4, "kind = \"linux\"", "kind = \"linx\"", "no bus kind is named `linx`; did you mean `linux`?");
    slip(V4, "kind = \"servo\"", "kind = \"srvo\"", "no motor kind is named `srvo`; did you mean `servo`?");
    slip(V4, "kind = \"hat-adc\"", "kind = \"adc\"", "known names: hc-sr04, hat-adc, float-register");
    let wanted = "no sensor before this one is named `S25`";
    slip("scitos-g5", "\"S15\"]", "\"S25\"]", wanted);
    slip("scitos-g5", "angular = -0.3", "angulr = -0.3", "unknown key; did you mean `angular`?");
}

#[test]
fn ranges_are_reported() {
    for (old, new, words) in [
        ("period_ms = 10.0", "period_ms = 0.2", "period_ms: found 0.2; allowed: milliseconds, 0.5 to 1000"),
        ("priority = 80", "priority = 95", "rt.priority: found 95; allowed: an integer, 0 to 94"),
        ("priority = 80", "priority = 95", "rt.priority: found 95; allowed: an integer, 0 to 94"),
        ("grid = 16", "grid = 24", "field.grid: found 24; allowed: 8, 16, 32 or 64"),
        (
            "storage = \"f32\"",
            "storage = \"f23\"",
            "field.storage: no storage is named `f23`; did you mean `f32`?",
        ),
        (
            "cpus = []",
            "cpus = [1, 1024]",
            "field.cpus: found 1024; allowed: a list of at most 64 integers, each 0 to 1023",
        ),
        (
            "cpus = []",
            "cpus = [3, 2, 3]",
            "field.cpus: found 3 twice; allowed: a list of at most 64 integers",
        ),
        ("cpus = []", "cpus = [-1]", "field.cpus: found -1; allowed: a list of at most 64"),
        (
            "cpus = []",
            "cpus = [1.0]",
            "field.cpus: found a number with a fraction among them; allowed: a list of",
        ),
        (
            "tick_p99_us = 200.0",
            "tick_p99_us = 0",
            "targets.tick_p99_us: found 0.0; allowed: a number, 0.1 to 1000000",
        ),
        (
            "wake_ratio = 2.0",
            "wake_ratio = nan",
            "targets.wake_ratio: found NaN; allowed: a number, 0.1 to 1000",
        ),
        (
            "cycle_p50_ms = 6.0",
            "cycle_p50_ms = 0",
            "targets.cycle_p50_ms: found 0.0; allowed: milliseconds, 0.001 to 60000",
        ),
        (
            "tail_ratio = 3.0",
            "tail_ratio = 0.9",
            "targets.tail_ratio: found 0.9; allowed: a number, 1 to 1000",
        ),
        (
            "memory_mb = 64.0",
            "memory_mb = inf",
            "targets.memory_mb: found inf; allowed: a number, 0.1 to 1000000",
        ),
        ("learn = true", "lambda = 0.17", "field.lambda: found 0.17; allowed: a number, 0 to 0.1667"),
        ("timers = 4", "timers = 5", "mcu.timers: found 5; allowed: 4 (Robot HAT v4) or 7 (v5)"),
        ("address = [0x14, 0x15]", "address = 0x78", "mcu.address: found 120; allowed: an integer, 8 to 119"),
        ("min_duty = 0.5", "min_duty = 1.0", "motor.left.min_duty: found 1.0; allowed: a number, 0 to 0.9"),
        (
            "period_ms = 60.0",
            "period_ms = 59.0",
            "sensor.range.period_ms: found 59.0; allowed: milliseconds, 60 to",
        ),
        ("floor = 5", "floor = 6", "budget.floor: found 6; allowed: an integer, 0 to 5"),
        (
            "slew_per_s = 4.0",
            "slew_per_s = nan",
            "motor.left.slew_per_s: found NaN; allowed: a number, 0.1 to",
        ),
        ("slew_per_s = 4.0", "slew_per_s = inf", "motor.left.slew_per_s: found inf; allowed: a number"),
        ("pwm = \"P12\"", "pwm = \"P14\"", "motor.right.pwm: found \"P14\"; allowed: a string, P0 to P13"),
        (
            "channel = \"A4\"",
            "channel = \"A6\"",
            "sensor.battery.channel: found \"A6\"; allowed: a string, A0 to A4",
        ),
        ("i2c = \"/dev/i2c-1\"", "i2c = \"1\"", "bus.i2c: expected: an absolute path"),
        ("share = 0.4", "share = 1.5", "reflex.obstacle-near.share: found 1.5; allowed: a number, 0 to 1"),
    ] {
        slip(V4, old, new, words);
    }
    slip(
        "sim",
        "full_speed = 0.5",
        "full_speed = 0",
        "sim.full_speed: found 0.0; allowed: a number, 0.01 to 20",
    );
    slip("sim", "3.4, 2.5, 4.0, 3.0", "3.4, 2.5, 4.0, 3.1", "sim.cliffs: [3.4, 2.5, 4, 3.1]: must have");
}

#[test]
fn types_are_reported() {
    for (old, new, words) in [
        (
            "timers = 4 ",
            "timers = 4.0 ",
            "mcu.timers: found a number with a fraction; expected: an integer, 4 to 7",
        ),
        ("strict = false", "strict = 0", "rt.strict: found an integer; expected: true or false"),
        ("pwm = \"P13\"", "pwm = 13", "motor.left.pwm: found an integer; expected: a string, P0 to P13"),
        (
            "valid = [0.02, 4.0]",
            "valid = [0.02, 4.0, 5.0]",
            "sensor.range.valid: found 3 items; allowed: a list of 2",
        ),
        (
            "valid = [0.02, 4.0]",
            "valid = 4.0",
            "sensor.range.valid: found a number with a fraction; expected: a list",
        ),
        ("unit = \"m\"", "unit = 2026-01-01", "sensor.range.unit: found a date or time; expected: a string"),
        ("seed = 1", "seed = 99999999999999999999", "field.seed: found an integer that does not fit 64 bits"),
        ("[budget]", "[[budget]]", "budget: found a list; expected: a table"),
        (
            "cpus = []",
            "cpus = 2",
            "field.cpus: found an integer; expected: a list of at most 64 integers, each 0 to",
        ),
        ("storage = \"f32\"", "storage = 16", "field.storage: found an integer; expected: one of f32, f16"),
        (
            "level5_ratio = 2.5",
            "level5_ratio = \"5x\"",
            "targets.level5_ratio: found a string; expected: a number, 0.1 to",
        ),
        (
            "compatible = [\"raspberrypi,\"]",
            "compatible = \"raspberrypi,\"",
            "compatible: found a string; expected: a list",
        ),
    ] {
        slip(V4, old, new, words);
    }
    elsewhere(
        "picarx-v5",
        "inherits = \"picarx-v4\"",
        "inherits = 4",
        "inherits",
        "inherits: found an integer",
    );
}

#[test]
fn missing_keys_are_reported_at_their_table() {
    let slew = "motor.left.slew_per_s: missing; expected: a number, 0.1 to 1000";
    elsewhere(V4, "slew_per_s = 4.0", "", "[[motor]]", slew);
    elsewhere(V4, "grid = 16", "", "[field]", "field.grid: missing; expected: an integer, 8 to 64");
    elsewhere(V4, "unit = \"m\"", "", "[[sensor]]", "sensor.range.unit: missing; expected: a string");
    elsewhere(V4, "period_ms = 10.0", "", "#", "period_ms: missing; expected: milliseconds, 0.5 to 1000");
    elsewhere(V4, "below = 0.15", "", "[[reflex]]\nname = \"obstacle\"", "a number as `below` or as `above`");
    let missing = "decision.Move-Forward.motors.angular: missing; expected: a number, -1 to 1";
    elsewhere(
        "scitos-g5",
        "linear = 0.6, angular = 0.0",
        "linear = 0.6",
        "motors = { linear = 0.6 }",
        missing,
    );
}

#[test]
fn each_gpio_line_is_used_once() {
    // Lines 23 and 24 set the motors' directions. An earlier brain for this car took them for the ultrasonic
    // sensor's, which are 27 and 22.
    let wanted = "sensor.range.trig: GPIO line 23 is already taken by motor.left.dir (bad.toml:";
    slip(V4, "trig = 27", "trig = 23", wanted);
    slip(V4, "echo = 22", "echo = 24", "sensor.range.echo: GPIO line 24 is already taken by motor.right.dir");
    slip(V4, "line = 25", "line = 5", "sensor.button.line: GPIO line 5 is already taken by mcu.reset");
    slip(V4, "dir = 24", "dir = 2", "motor.right.dir: GPIO line 2 is already taken by reserved.sda");
    slip(
        V4,
        "echo = 22",
        "echo = 27",
        "sensor.range.echo: GPIO line 27 is already taken by sensor.range.trig",
    );
    let wanted = "sensor.range.echo: GPIO line 23 is already taken by reserved.charging (bad.toml:";
    let echo = "inherits = \"picarx-v4\"\nsensor = [{ name = \"range\", echo = 23 }]";
    elsewhere("picarx-v5", "inherits = \"picarx-v4\"", echo, "sensor =", wanted);
}

#[test]
fn channels_and_addresses_are_used_once() {
    let wanted = "motor.right.pwm: PWM channel P13 is already taken by motor.left.pwm";
    slip(V4, "pwm = \"P12\"", "pwm = \"P13\"", wanted);
    let wanted = "sensor.battery.channel: ADC channel A4 is already taken by sensor.ground-middle.channel";
    elsewhere(V4, "channel = \"A1\"", "channel = \"A4\"", "channel = \"A4\"\nfull_scale", wanted);
    let wanted =
        "sensor.lean.address: I2C device 0x14, registers 0x00 to 0x03, is already taken by mcu.address";
    slip("sim", "address = 0x60", "address = 0x14", wanted);
    let overlap = "name = \"sway\"\nlike = \"lean\"\nregister = 3\n\n[[sensor]]\nname = \"range\"";
    let text = text_of("sim").replacen("name = \"range\"", overlap, 1);
    let faults = faults(&text);
    assert_eq!(faults.len(), 1, "{faults:#?}");
    assert!(
        faults[0].contains("registers 0x03 to 0x06, is already taken by sensor.lean.address"),
        "{}",
        faults[0]
    );
}

#[test]
fn a_timer_has_one_frequency() {
    let wanted = "motor.steering.pwm: PWM timer 0 (one frequency: servos need 50 Hz, motors more) \
                  is already taken by motor.right.pwm";
    elsewhere(V4, "pwm = \"P12\"", "pwm = \"P3\"", "pwm = \"P2\"", wanted);
    assert_eq!(faults(&text_of(V4).replacen("pwm = \"P2\"", "pwm = \"P7\"", 1)), [""; 0], "timer 1 is free");
    let servo = "inherits = \"picarx-v4\"\n[[motor]]\nname = \"pan\"\npwm = \"P16\"\n";
    let v5 = |servo: &str| text_of("picarx-v5").replacen("inherits = \"picarx-v4\"\n", servo, 1);
    assert_eq!(faults(&v5(&servo.replace("[[motor]]", "\n[[motor]]"))).len(), 0, "timer 4 is free");
}

#[test]
fn inconsistent_values_are_refused() {
    for (old, new, words) in [
        ("max_age_ms = 300.0", "max_age_ms = 50.0", "sensor.range.max_age_ms: must not be below period_ms"),
        (
            "valid = [0.02, 4.0]",
            "valid = [4.0, 0.02]",
            "sensor.range.valid: the first number (4) must be below",
        ),
        (
            "timeout_ms = 20.0",
            "timeout_ms = 100.0",
            "bus.timeout_ms: found 100 ms; must be below safety.wire_lost_ms",
        ),
        (
            "gpio_labels = [\"pinctrl-rp1\", \"pinctrl-bcm2711\", \"pinctrl-bcm2835\"]",
            "gpio_labels = []",
            "at least the label",
        ),
        (
            "low = 0.05, high = 4.0",
            "low = 4.0, high = 4.0",
            "sensor.range.input.low: low (4) and high (4) must differ",
        ),
        ("low = 0.05, high = 4.0", "low = 0.0, high = 4.0", "\"log\" needs both ends above 0; found low 0"),
        ("clear = 600.0", "clear = 400.0", "reflex.cliff-left.clear: found 400; must be above 500"),
        ("clear = 7.0", "clear = 50.0", "`battery` is valid from 4.5 to 9: this never clears"),
        (
            "below = 7.15",
            "below = 4.0",
            "reflex.battery-low.below: found 4; `battery` is valid from 4.5 to 9",
        ),
        (
            "min_deg = -30.0",
            "min_deg = 40.0",
            "motor.steering.min_deg: min_deg (40) must be below max_deg (30)",
        ),
        (
            "cycle_p50_ms = 6.0",
            "cycle_p50_ms = 13.0",
            "targets.cycle_p50_ms: found 13 ms; must not be above cycle_p99_ms (12 ms)",
        ),
        ("target_ms = 12.0", "target_ms = 21.0", "found 21 ms; must not be above the field's period (20 ms)"),
        (
            "wire_lost_ms = 100.0",
            "wire_lost_ms = 20.0",
            "found 20 ms; must not be below command_valid_ms (30 ms)",
        ),
        ("late_slots = 5", "command_valid_ms = 9.0", "found 9 ms; must not be below period_ms (10 ms)"),
        (
            "late_slots = 5",
            "field_fresh_ms = 19.0",
            "found 19 ms; must not be below the field's period (20 ms)",
        ),
        (
            "[[0.10, -0.80], [0.22,",
            "[[0.30, -0.80], [0.22,",
            "start.0.points: sensor values must ascend; 0.3 comes before 0.22",
        ),
        (
            "[[0.10, -0.80]",
            "[[0.01, -0.80]",
            "start.0.points: sensor value 0.01 is off its scale; allowed: 0.05 to 4",
        ),
        ("[[0.10, -0.80]", "[[0.10, -1.9]", "start.0.points: command -1.9; allowed: -1 to 1"),
    ] {
        slip(V4, old, new, words);
    }
}

#[test]
fn an_emergency_stop_must_stop_and_latch() {
    let wanted = "reflex.stop-button.restraint: an e-stop must be \"still\" and latched = true";
    let stop = "clear = 0.4\nrestraint = \"still\"";
    elsewhere(
        V4,
        stop,
        "clear = 0.4\nrestraint = \"no-forward\"",
        "restraint = \"no-forward\"\nlatched",
        wanted,
    );
    elsewhere(V4, stop, "clear = 0.6\nrestraint = \"still\"", "clear = 0.6", "found 0.6; must be below 0.5");
}

#[test]
fn an_impossible_retreat_is_refused() {
    let rule = "retreat_ms = 250.0";
    let held = "reflex.cliff-left.retreat_ms: a stopped robot cannot back away; allowed with \"no-forward\" and \"slow\"";
    let text = text_of(V4).replacen("restraint = \"no-forward\"", "restraint = \"still\"", 1);
    assert!(faults(&text).iter().any(|fault| fault.contains(held)), "{:#?}", faults(&text));
    let blind = text_of(V4).replacen("reverse_max_ms = 700.0", "reverse_max_ms = 0.0", 1);
    let faults = faults(&blind);
    let words = "safety.reverse_max_ms is 0: the robot may not drive backwards, so this never clears";
    assert!(faults.len() == 1 && faults[0].contains(words), "{faults:#?}");
    slip(
        V4,
        rule,
        "retreat_ms = -1.0",
        "reflex.cliff-left.retreat_ms: found -1.0; allowed: milliseconds, 0 to 10000",
    );
}

#[test]
fn every_rule_that_a_sensor_breaks_is_reported() {
    let faults = faults(&text_of(V4).replacen("worst_per_s = -0.5", "worst_per_s = 0.5", 1));
    assert_eq!(faults.len(), 2, "{faults:#?}");
    assert!(faults[0].contains("reflex.obstacle.below: `range` ages away from this trip"), "{}", faults[0]);
    assert!(
        faults[1].contains("reflex.obstacle-near.below: `range` ages away from this trip"),
        "{}",
        faults[1]
    );
}

#[test]
fn an_overloaded_bus_is_refused() {
    let ten = text_of(V4).replacen("speed_hz = 100000", "speed_hz = 25000", 1);
    let faults_of_slow = faults(&ten);
    assert_eq!(faults_of_slow.len(), 1, "{faults_of_slow:#?}");
    // Five motors of 38 bits every 10 ms, three ground sensors of 78 bits every 20 ms, the battery of 78 bits
    // every 500 ms: 30,856 bits a second.
    assert!(faults_of_slow[0].contains("bus.speed_hz: polling and commands need 123 %"));
    let busy = text_of(V4).replacen("speed_hz = 100000", "speed_hz = 40000", 1);
    let warnings = board::from_text("busy", &busy).unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].to_string().contains("77 % of the I2C bus's time is in use"), "{}", warnings[0]);
}

#[test]
fn hardware_and_log_sensors_do_not_mix() {
    let simulated = faults(&text_of(V4).replacen("kind = \"linux\"", "kind = \"sim\"", 1));
    assert_eq!(simulated.len(), 4, "{simulated:#?}");
    assert!(
        simulated[0].contains("bus.i2c: unknown key; known keys: kind, speed_hz, timeout_ms"),
        "{simulated:#?}"
    );
    assert!(simulated[1].contains("bus.gpio_labels: unknown key"), "{simulated:#?}");
    for (fault, sensor) in simulated[2..].iter().zip(["undervoltage", "cpu"]) {
        let words = "reads the computer itself: it needs the bus kind \"linux\"";
        assert!(fault.contains(&format!("sensor.{sensor}.kind")) && fault.contains(words), "{fault}");
    }
    let no_world = faults("inherits = \"sim\"\nsim = { remove = true }\n");
    assert_eq!(no_world.len(), 1, "{no_world:#?}");
    assert!(
        no_world[0].contains("bus.kind: the simulated bus needs a world: a [sim] table"),
        "{}",
        no_world[0]
    );
    let no_mcu = faults("inherits = \"sim\"\nmcu = { remove = true }\n");
    assert!(
        no_mcu.iter().all(|line| line.contains("needs the microcontroller: an [mcu] table")),
        "{no_mcu:#?}"
    );
    // Five motors, the ground sensors (reported once for all three) and the battery.
    assert_eq!(no_mcu.len(), 7, "{no_mcu:#?}");
    let log = faults("inherits = \"sim-sonar\"\nbus = { kind = \"log\" }\nsim = { remove = true }\n");
    assert!(log.iter().all(|line| line.contains("needs wires; the bus kind \"log\" has none")), "{log:#?}");
    // As before, plus the range, the button and the lean.
    assert_eq!(log.len(), 10, "{log:#?}");
    let wanted = "\"log-column\" needs the bus kind \"log\"";
    let sim_bus = "[bus]\nkind = \"sim\"\n\n[sim]\nroom = [4, 3]\nwheelbase = 0.1\ntrack = 0.1\n\
                   body = [0.2, 0.1]\nfull_speed = 0.5\nbattery_v = 7.8\n";
    let wired = faults(&text_of("scitos-g5").replacen("[bus]\nkind = \"log\"\n", sim_bus, 1));
    assert_eq!(wired.len(), 1, "the 23 that copy the first add no faults: {wired:#?}");
    assert!(wired[0].contains("sensor.S1.kind") && wired[0].contains(wanted), "{}", wired[0]);
}

#[test]
fn legal_but_unusual_values_cause_warnings() {
    let covers = "reflex.obstacle.below: trips at 0.04 m; at 0.5 m/s the robot covers 0.05 m in the 103 ms";
    for (old, new, words) in [
        ("below = 0.15", "below = 0.04", covers),
        ("learn = true", "gamma = 1.1", "field.gamma: (1 - beta) gamma is 1.045"),
        ("cpus = []", "cpus = [3]", "field.cpus: 2 threads share 1 of the cores"),
        (
            "cycle_p99_ms = 12.0",
            "cycle_p99_ms = 25.0",
            "targets.cycle_p99_ms: 25 ms is above the field's period (20 ms)",
        ),
        ("speed_hz = 100000", "speed_hz = 400000", "documented for 100 kHz only"),
        (
            "low = 6.0, high = 8.4",
            "low = 9.0, high = 12.0",
            "sensor.battery.input.low: the scale 9..12 is outside",
        ),
    ] {
        let warnings = board::from_text("odd", &text_of(V4).replacen(old, new, 1)).unwrap().warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].to_string().contains(words), "{}", warnings[0]);
    }
}

#[test]
fn a_field_on_the_control_loops_core_causes_a_warning() {
    let text = "inherits = \"picarx-v4\"\n[rt]\ncpu = 3\n[field]\ncpus = [2, 3]\n";
    let warnings = board::from_text("odd", text).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let words = "odd.toml:5:8: field.cpus: core 3 belongs to the control loop (rt.cpu)";
    assert!(warnings[0].to_string().starts_with(words), "{}", warnings[0]);
}

#[test]
fn all_faults_of_a_file_are_reported_in_the_order_of_its_lines() {
    let text = text_of(V4)
        .replacen("strict = false", "stirct = false", 1)
        .replacen("timers = 4", "timers = 3", 1)
        .replacen("trig = 27", "trig = 23", 1)
        .replacen("grid = 16", "grid = 17", 1);
    let keys: Vec<String> =
        faults(&text).iter().map(|line| line.split(": ").nth(1).unwrap().to_string()).collect();
    assert_eq!(keys, ["rt.stirct", "mcu.timers", "sensor.range.trig", "field.grid"]);
}

#[test]
fn invalid_toml_is_reported_line_by_line() {
    let faults = faults("a = = 1\nb = 1\nc = 'open\n");
    assert!(faults.len() >= 2, "{faults:#?}");
    assert!(faults[0].starts_with("bad.toml:1:5: not TOML:"), "{}", faults[0]);
    assert!(faults.last().unwrap().starts_with("bad.toml:3:"), "{faults:#?}");
}

#[test]
fn a_fault_shows_its_line_with_a_caret() {
    let error = board::from_text("bad", "inherits = \"sim\"\nperiod_ms = 0\n").unwrap_err();
    let wanted = "bad.toml:2:13: period_ms: found 0.0; allowed: milliseconds, 0.5 to 1000\n  \
                  2 | period_ms = 0\n    |             ^";
    assert_eq!(format!("{error:#}"), wanted);
}

#[test]
fn an_unreadable_file_error_lists_the_known_boards() {
    for (path, words) in [
        (
            "no-such-folder/picar-v4.toml",
            "did you mean `picarx-v4`?; built-in boards: sim, sim-sonar, picarx-v4, picarx-v5",
        ),
        ("zebra.toml", "built-in boards: sim, sim-sonar, picarx-v4, picarx-v5, picarx-v4-tethered"),
        ("/dev/zero", "a device, not a regular file"),
        ("./src", "directory"),
    ] {
        match board::load(Path::new(path)) {
            Err(error @ BoardError::Unreadable { .. }) => {
                assert!(error.to_string().contains(words), "{error}");
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn a_bare_name_is_a_built_in_board_and_unknown_ones_get_help() {
    assert_eq!(board::load(Path::new("picarx-v5")).unwrap().board.name, "picarx-v5");
    // `src` is a folder here: a bare name never means a file or folder of the current directory.
    for (name, words) in [
        (
            "picar-v5",
            "no built-in board is named `picar-v5`; did you mean `picarx-v5`?; built-in boards: sim, ",
        ),
        ("src", "to name a file, write a path with a `/` or a name that ends in `.toml`, as in ./src"),
        ("", "to name a file, write a path with a `/`"),
    ] {
        match board::load(Path::new(name)) {
            Err(error @ BoardError::Unknown { .. }) => assert!(error.to_string().contains(words), "{error}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn backing_without_motion_or_steering_is_refused() {
    let told = |old: &str, new: &str| faults(&text_of(V4).replacen(old, new, 1)).join("\n");
    let longer = told("trail_m = 3.0", "trail_m = 0.1");
    assert!(longer.contains("start_m") && longer.contains("more than trail_m"), "{longer}");
    let shapeless = told("body = [0.25, 0.13] ", "# ");
    assert!(shapeless.contains("pass_m") && shapeless.contains("needs `body`"), "{shapeless}");
    let differential = "inherits = \"generic-linux\"\n[motion]\nfull_speed = 0.5\nwheelbase = 0.2\n[backing]\n\
                        trail_m = 1.0\nturn_rad = 0.9\nturn_ms = 1000.0\ndrive = 0.3\n";
    let faulty = faults(differential).join("\n");
    assert!(faulty.contains("a servo named \"steering\""), "{faulty}");
    let still = faults(&differential.replace("[motion]\nfull_speed = 0.5\nwheelbase = 0.2\n", "")).join("\n");
    assert!(still.contains("needs a [motion] table"), "{still}");
}

#[test]
fn tether_needs_an_address_a_key_and_a_fitting_timeout() {
    const TETHERED: &str = "picarx-v4-tethered";
    for address in ["brain.local", "brain:0", "brain:99999", ":4747", "a b:1", "[::1:4747"] {
        let new = format!("address = \"{address}\"");
        slip(TETHERED, "address = \"brain.local:4747\"", &new, "expected: \"HOST:PORT\"");
    }
    slip(TETHERED, "key = \"/etc", "key = \"etc", "expected: an absolute path");
    slip(TETHERED, "silence_ms = 100.0", "silence_ms = 50.0", "three periods of the field (60 ms)");
    slip(TETHERED, "silence_ms = 100.0", "silence_ms = 1500.0", "allowed: milliseconds, 20 to 1000");
    slip(TETHERED, "on_loss = \"stop\"", "on_loss = \"go\"", "on_loss");
    let unused = "on_loss = \"stop\"\nlocal = { grid = 8 }";
    elsewhere(TETHERED, "on_loss = \"stop\"", unused, "local =", "only used with on_loss = \"local\"");
    let odd = "on_loss = \"local\"\nlocal = { grid = 9 }";
    elsewhere(TETHERED, "on_loss = \"stop\"", odd, "local =", "allowed: 8, 16, 32 or 64");
    slip(V4, "engine = \"auto\"", "engine = \"remote\"", "needs a [tether] table");
}
