//! Mistakes in a board's description of its buses, chips, lines, pulse sources, and guard.

use super::{faults, text_of};
use ganglion::deploy::board;

/// The faults of the generic board with `extra` at its end.
fn generic(extra: &str) -> Vec<String> {
    faults(&format!("inherits = \"generic-linux\"\n{extra}\n"))
}

/// Expects one fault with these words on the generic board with `extra`.
#[track_caller]
fn one(extra: &str, words: &str) {
    let faults = generic(extra);
    assert_eq!(faults.len(), 1, "{extra}\n{faults:#?}");
    assert!(faults[0].contains(words), "wanted {words:?} in: {}", faults[0]);
}

const LABEL: &str = "bus = { gpio_labels = [\"gpio1\"] }\n";

#[test]
fn buses_are_found_by_path_or_device() {
    for (found, sound) in [
        ("/dev/i2c-8", true),
        ("adapter:c250000.i2c", true),
        ("adapter:", false),
        ("adapter:a/b", false),
        ("i2c-1", false),
    ] {
        let faults = generic(&format!("bus = {{ i2c = \"{found}\" }}"));
        assert_eq!(faults.is_empty(), sound, "{found}: {faults:#?}");
        assert!(
            faults.iter().all(|fault| fault.contains("bus.i2c: expected: an absolute path")),
            "{faults:#?}"
        );
    }
}

#[test]
fn rppal_is_refused_off_linux_and_with_a_guard() {
    assert_eq!(generic("bus = { access = \"character-devices\" }"), [""; 0]);
    assert_eq!(generic("bus = { access = \"rppal\" }"), [""; 0]);
    one("bus = { access = \"rpal\" }", "no bus interface is named `rpal`; did you mean `rppal`?");
    let simulated = faults("inherits = \"sim\"\nbus = { access = \"rppal\" }\n");
    assert!(simulated.len() == 1 && simulated[0].contains("bus.access: unknown key"), "{simulated:#?}");
    let guarded = "enable = { line = 4, on_high = true }\nguard = { holds = \"enable\", patience_ms = 100 }";
    let wired =
        |access: &str| format!("bus = {{ gpio_labels = [\"gpio1\"], access = \"{access}\" }}\n{guarded}");
    assert_eq!(generic(&wired("character-devices")), [""; 0]);
    one(
        &wired("rppal"),
        "bus.access: \"rppal\" bypasses the kernel, so it can drive the line that a guard holds",
    );
}

#[test]
fn requesting_an_interface_changes_the_digest() {
    let digest = |extra: &str| {
        board::from_text("odd", &format!("inherits = \"generic-linux\"\n{extra}")).unwrap().digest
    };
    assert_ne!(digest("bus = { access = \"rppal\" }\n"), digest(""));
}

#[test]
fn extra_buses_need_unique_names_and_devices() {
    let side = "[[i2c]]\nname = \"side\"\ni2c = \"/dev/i2c-2\"\n";
    one(&side.replace("side", "motors"), "i2c.motors.name: \"motors\" is the bus that [bus] describes");
    one("[[i2c]]\nname = \"side\"\n", "i2c.side.i2c: missing");
    one(&format!("{side}speed = 3"), "i2c.side.speed: unknown key; did you mean `speed_hz`?");
    one(
        &format!("{side}timeout_ms = 500"),
        "i2c.side.timeout_ms: found 500 ms; must be below safety.wire_lost_ms",
    );
    let range = "[[sensor]]\nname = \"range\"\nbus = \"side\"\n";
    assert_eq!(generic(&format!("{side}{range}")), [""; 0]);
    one(
        &format!("{side}{}", range.replace("\"side\"", "\"sied\"")),
        "no I2C bus is named `sied`; did you mean `side`?",
    );
    let text = format!("inherits = \"generic-linux\"\n{side}");
    let warnings = warnings_of(&text);
    assert!(warnings.len() == 1 && warnings[0].contains("this bus has no devices"), "{warnings:?}");
    let log = faults(&format!("{}\n{side}", text_of("scitos-g5")));
    assert!(log.len() == 1 && log[0].contains("the bus kind \"log\" has no wires"), "{log:#?}");
}

/// The warnings of `text`, except that no line can stop the motors: the generic board is a template, which
/// leaves that line to the robot's builder.
fn warnings_of(text: &str) -> Vec<String> {
    let warnings = board::from_text("odd", text).unwrap().warnings;
    let warnings = warnings.iter().map(|warning| warning.to_string());
    warnings.filter(|warning| !warning.contains(NO_LINE)).collect()
}

const NO_LINE: &str = "no line can stop the motors";

#[test]
fn motors_without_a_stop_line_cause_a_warning() {
    let warned = |extra: &str| {
        let warnings = board::from_text("odd", &format!("inherits = \"generic-linux\"\n{extra}\n")).unwrap();
        let warnings = warnings.warnings.iter().map(|warning| warning.to_string());
        warnings.filter(|warning| warning.contains(NO_LINE)).collect::<Vec<_>>()
    };
    let bare = warned("");
    assert!(bare.len() == 1 && bare[0].contains("pca9685.output_enable"), "{bare:?}");
    let gpio = "bus = { gpio_labels = [\"gpio1\"] }\n";
    assert_eq!(warned(&format!("{gpio}pca9685 = {{ output_enable = 7 }}")), [""; 0]);
    assert_eq!(warned(&format!("{gpio}enable = {{ line = 7, on_high = false }}")), [""; 0]);
    assert!(
        board::from_text("hat", text_of("picarx-v4")).unwrap().warnings.is_empty(),
        "the HAT has a reset line"
    );
}

#[test]
fn each_bus_is_checked_for_its_own_load() {
    let slow = "[[i2c]]\nname = \"side\"\ni2c = \"/dev/i2c-2\"\nspeed_hz = 10000\n\
                [[sensor]]\nname = \"roll\"\nbus = \"side\"\n[[sensor]]\nname = \"pitch\"\nbus = \"side\"\n\
                [[sensor]]\nname = \"turning\"\nbus = \"side\"\n";
    // One sample of at most 186 bits holds all three values; 100 samples a second make 18,600 bit/s, on a bus
    // of 10,000 bit/s.
    one(slow, "i2c.side.speed_hz: polling and commands need 186 % of the I2C bus's time");
}

#[test]
fn reserved_addresses_are_refused() {
    one(
        "reserved_i2c = { codec = 0x40 }",
        "pca9685.address: I2C address 0x40 is already taken by reserved_i2c.codec",
    );
    one(
        "reserved_i2c = { codec = 0x68 }",
        "sensor.roll.address: I2C address 0x68 is already taken by reserved_i2c.codec",
    );
    one("reserved_i2c = { codec = 3 }", "reserved_i2c.codec: found 3; allowed: an I2C address, 8 to 119");
    one("reserved_i2c = { codec = \"side:0x40\" }", "no I2C bus is named `side`; known names: motors");
    one("reserved_i2c = { codec = \"0x40\" }", "allowed: an I2C address, 8 to 119, or \"BUS:0x40\"");
    let side = "reserved_i2c = { codec = \"side:0x40\" }\n[[i2c]]\nname = \"side\"\ni2c = \"/dev/i2c-2\"\n";
    assert_eq!(generic(side), [""; 0], "on another bus, the address disturbs no device");
    // A VL53L0X wakes at 0x29, before it gets its own address.
    let moved = "reserved_i2c = { codec = 0x29 }\n[[sensor]]\nname = \"range\"\naddress = 0x30\n";
    one(
        moved,
        "sensor.range.address: I2C address 0x29, where a VL53L0X wakes up, is already taken by reserved_i2c.codec",
    );
}

#[test]
fn lines_have_numbers_or_names() {
    let button = |line: &str| {
        format!(
            "{LABEL}[[sensor]]\nname = \"stop\"\nkind = \"button\"\nunit = \"1\"\nline = {line}\n\
             active_low = true\nperiod_ms = 10\nvalid = [0, 1]\n"
        )
    };
    assert_eq!(generic(&button("\"PH.07\"")), [""; 0]);
    one(
        &button("256"),
        "sensor.stop.line: found 256; allowed: a GPIO line: its number, 0 to 255, or its name",
    );
    one(
        &button("2.0"),
        "found a number with a fraction; expected: a GPIO line: its number, 0 to 255, or its name",
    );
    one(&button("\"\""), "sensor.stop.line: found 0 characters");
    let twice = format!("{}[enable]\nline = \"PH.07\"\non_high = true\n", button("\"PH.07\""));
    one(&twice, "sensor.stop.line: GPIO line PH.07 is already taken by enable.line");
    let reserved = format!("{}[reserved]\nspi = \"PH.07\"\n", button("\"PH.07\""));
    one(&reserved, "sensor.stop.line: GPIO line PH.07 is already taken by reserved.spi");
    one(&button("4").replace(LABEL, ""), "bus.gpio_labels: found no label; expected: at least the label");
}

#[test]
fn values_of_one_chip_must_agree_on_its_settings() {
    let roll = "[[sensor]]\nname = \"roll\"\nready = 4\n";
    let rest = "[[sensor]]\nname = \"pitch\"\nready = 4\n[[sensor]]\nname = \"turning\"\nready = 4\n";
    assert_eq!(generic(&format!("{LABEL}{roll}{rest}")), [""; 0], "one line, three values");
    one(
        &format!("{LABEL}{roll}{}", rest.replace("ready = 4\n[[", "ready = 5\n[[")),
        "sensor.pitch.ready: the mpu6050 at 0x68 is one chip, but sensor.roll states a different ready (here: 5)",
    );
    one(
        "[[sensor]]\nname = \"current\"\nshunt_ohms = 0.01\n",
        "sensor.battery states a different shunt_ohms (here: 0.01)",
    );
    one(
        "[[sensor]]\nname = \"pitch\"\nquantity = \"roll\"\n",
        "sensor.pitch.address: the roll of the mpu6050 at 0x68 is already taken by sensor.roll.address",
    );
    one(
        "[[sensor]]\nname = \"battery\"\naddress = 0x42\n[[sensor]]\nname = \"current\"\naddress = 0x40\n",
        "sensor.current.address: I2C address 0x40 is already taken by pca9685.address",
    );
    one(
        "[[sensor]]\nname = \"roll\"\naddress = 0x6A\n",
        "sensor.roll.address: found 106; allowed: an integer, 104 to 105",
    );
    one(
        "[[sensor]]\nname = \"roll\"\nquantity = \"rol\"\n",
        "no quantity is named `rol`; did you mean `roll`?",
    );
    let ads = "[[sensor]]\nname = \"extra\"\nkind = \"ads1115\"\nunit = \"V\"\naddress = 0x48\nchannel = 0\n\
               full_scale_v = 4.096\nperiod_ms = 50\nvalid = [0, 4]\n";
    assert_eq!(generic(ads), [""; 0]);
    one(&ads.replace("4.096", "5.0"), "sensor.extra.full_scale_v: found 5; allowed: 0.256, 0.512, 1.024");
    one(
        &ads.replace("channel = 0", "channel = 4"),
        "sensor.extra.channel: found 4; allowed: an integer, 0 to 3",
    );
}

#[test]
fn several_range_finders_need_shut_down_lines() {
    let second = "[[sensor]]\nname = \"rear\"\nlike = \"range\"\naddress = 0x30\nrequired = false\n";
    let faults = generic(second);
    assert_eq!(faults.len(), 2, "{faults:#?}");
    assert!(faults.iter().all(|fault| fault.contains("each needs its `shutdown` line wired")), "{faults:#?}");
    let wired = format!("{LABEL}[[sensor]]\nname = \"range\"\nshutdown = 4\n{second}shutdown = 5\n");
    assert_eq!(generic(&wired), [""; 0]);
}

#[test]
fn all_motors_share_one_pulse_source() {
    let mcu = "[mcu]\naddress = 0x14\nclock_hz = 72000000\ntimers = 4\nreset = 5\n";
    one(&format!("{LABEL}{mcu}"), "pca9685: a second source of PWM besides [mcu]; expected: only one");
    one("[pwm]\ndevice = \"1f00098000.pwm\"\nhz = 1000\n", "pwm: a second source of PWM besides [pca9685]");
    let none = generic("pca9685 = { remove = true }");
    // Once per motor; channels without a source cause no further fault.
    let sources = none.iter().filter(|fault| fault.contains("or another source of PWM: [pca9685] or [pwm]"));
    assert_eq!((sources.count(), none.len()), (2, 2), "{none:#?}");
    let own = "pca9685 = { remove = true }\n[pwm]\ndevice = \"1f00098000.pwm\"\nhz = 1000\n";
    assert_eq!(generic(own), [""; 0]);
    one(
        "[[motor]]\nname = \"left\"\nforward = 16\n",
        "motor.left.forward: found 16; allowed: an integer, 0 to 15",
    );
    one(
        "[[motor]]\nname = \"left\"\nforward = \"P1\"\n",
        "motor.left.forward: found a string; expected: an integer",
    );
    one("[[motor]]\nname = \"left\"\nforward = 3\n", "PWM channel 3 is already taken by");
    let pan =
        "[[motor]]\nname = \"pan\"\nkind = \"servo\"\npwm = 8\nmin_deg = -45\nmax_deg = 45\nslew_per_s = 2\n";
    one(pan, "motor.pan.pwm: a servo needs 40 to 60 Hz; all channels of the PCA9685 run at 1000 Hz");
    assert_eq!(generic(&format!("pca9685 = {{ hz = 50 }}\n{pan}")), [""; 0]);
    one("pca9685 = { hz = 20 }", "pca9685.hz: found 20.0; allowed: a number, 24 to 1526");
}

#[test]
fn a_guard_can_only_hold_an_existing_line() {
    let guard =
        |holds: &str, timeout: u32| format!("[guard]\nholds = \"{holds}\"\npatience_ms = {timeout}\n");
    one(
        &guard("reset", 100),
        "guard.holds: \"reset\" is the microcontroller's reset line: the board has no [mcu]",
    );
    one(
        &guard("enable", 100),
        "guard.holds: \"enable\" is the motors' enable line: the board has no [enable]",
    );
    let enable = format!("{LABEL}[enable]\nline = 4\non_high = false\n");
    assert_eq!(generic(&format!("{enable}{}", guard("enable", 100))), [""; 0]);
    one(
        &format!("{enable}{}", guard("enable", 30)),
        "guard.patience_ms: found 30 ms; must not be below four control periods (40 ms)",
    );
    one(
        &format!("{enable}{}", guard("enabel", 100)),
        "no line for a guard to hold is named `enabel`; did you mean `enable`?",
    );
    one(&enable.replace("on_high = false\n", ""), "enable.on_high: missing");
}

#[test]
fn a_bus_clear_has_two_lines() {
    let bus = |keys: &str| format!("bus = {{ gpio_labels = [\"gpio1\"], {keys} }}");
    one(&bus("clear_scl = 3"), "bus.clear_scl: a bus clear needs both lines: clear_sda is missing");
    one(&bus("clear_sda = 3"), "bus.clear_sda: a bus clear needs both lines: clear_scl is missing");
    one(&bus("clear_scl = 3, clear_sda = 3"), "bus.clear_sda: GPIO line 3 is already taken by bus.clear_scl");
    one(&bus("rail = { line = 4 }"), "bus.rail.on_high: missing");
    let all =
        bus("rebind = true, clear_scl = 3, clear_sda = 2, rail = { line = 4, on_high = true, off_ms = 50 }");
    let board = board::from_text("all", &format!("inherits = \"generic-linux\"\n{all}\n")).unwrap().board;
    let recovery = board.i2c[0].recovery;
    assert!(recovery.rebind && recovery.clear.is_some());
    assert_eq!(recovery.rail.unwrap().off.as_micros_f64(), 50_000.0);
}

#[test]
fn machine_sensors_need_a_real_machine() {
    let thermal = "[[sensor]]\nname = \"cpu\"\nkind = \"thermal\"\nunit = \"degC\"\nzone = \"cpu-thermal\"\n\
                   period_ms = 1000\nvalid = [0, 100]\n";
    assert_eq!(generic(thermal), [""; 0]);
    let simulated = faults(&format!("inherits = \"sim\"\n{thermal}"));
    assert!(simulated.len() == 1 && simulated[0].contains("needs the bus kind \"linux\""), "{simulated:#?}");
    let hwmon = thermal
        .replace("kind = \"thermal\"", "kind = \"hwmon\"\nchip = \"a/b\"\nlabel = \"in1\"\nper_unit = 1");
    one(&hwmon.replace("zone = \"cpu-thermal\"\n", ""), "sensor.cpu.chip: expected: a name, not a path");
}

/// A Jetson's adapter waits 160 ms for a hung transfer, whatever timeout is set: the check refuses each time
/// limit that is too short for that, and says what is allowed.
#[test]
fn budgets_below_the_drivers_own_timeout_are_refused() {
    let jetson = |extra: &str| faults(&format!("inherits = \"jetson-orin-nano\"\n{extra}\n"));
    let one = |extra: &str, words: &[&str]| {
        let faults = jetson(extra);
        assert_eq!(faults.len(), 1, "{extra}\n{faults:#?}");
        assert!(words.iter().all(|words| faults[0].contains(words)), "wanted {words:?} in: {}", faults[0]);
    };
    assert_eq!(jetson(""), [""; 0]);
    let timeout = ["bus.timeout_ms: found 20 ms; allowed: 160 to 1000 ms", "tegra-i2c waits up to 160 ms"];
    one("bus = { timeout_ms = 20 }", &timeout);
    one("[[i2c]]\nname = \"side\"\ntimeout_ms = 20", &["i2c.side.timeout_ms: found 20 ms; allowed: 160 to"]);
    let timeout = ["guard.patience_ms: found 100 ms; allowed: 214 to 1000 ms", "may hang for 160 ms"];
    one("guard = { patience_ms = 100 }", &timeout);
    assert_eq!(jetson("guard = { patience_ms = 214 }"), [""; 0]);
    one("guard = { patience_ms = 213 }", &["guard.patience_ms: found 213 ms"]);
    let both = jetson("safety = { wire_lost_ms = 160 }");
    let words = [
        "bus.timeout_ms: found 160 ms; must be below safety.wire_lost_ms",
        "i2c.side.timeout_ms: found 160 ms",
    ];
    assert_eq!(both.len(), 2, "{both:#?}");
    assert!(both.iter().zip(words).all(|(fault, words)| fault.contains(words)), "{both:#?}");
    one("bus = { driver = \"tegra\" }", &["did you mean `tegra-i2c`?"]);
    // Without a line to stop the motors, a command's validity must be at least as long as a hung transfer.
    let lineless = "guard = { remove = true }\nenable = { remove = true }\n";
    let valid =
        ["safety.command_valid_ms: found 30 ms; allowed: 160 to", "without a line nothing stops the motors"];
    one(lineless, &valid);
    assert_eq!(jetson(&format!("{lineless}safety = {{ command_valid_ms = 160 }}")), [""; 0]);
    // An adapter with a working timeout has none of these faults.
    let other = "[bus]\ndriver = { remove = true }\ntimeout_ms = 20\n[guard]\npatience_ms = 50\n";
    assert_eq!(jetson(other), [""; 0]);
}

#[test]
fn a_controller_has_one_address_or_a_list_of_them() {
    let mcu = |address: &str| faults(&format!("inherits = \"picarx-v4\"\n[mcu]\naddress = {address}\n"));
    for sound in ["0x14", "[0x15]", "[0x14, 0x15, 0x16, 0x17]"] {
        assert_eq!(mcu(sound), [""; 0], "{sound}");
    }
    for (address, words) in [
        (
            "[]",
            "mcu.address: found an empty list; allowed: an integer, 8 to 119, or a list of 1 to 4 of them",
        ),
        ("[0x14, 0x14]", "mcu.address: found 20 twice"),
        ("[0x14, 3]", "mcu.address: found 3; allowed"),
        ("[1, 2, 3, 4, 5]", "mcu.address: found 5 items"),
        ("\"0x14\"", "mcu.address: found a string; expected: an integer, 8 to 119"),
    ] {
        let faults = mcu(address);
        assert!(faults.len() == 1 && faults[0].contains(words), "{address}: {faults:#?}");
    }
    // Every address in a list counts as taken, not only the first.
    let faults = faults("inherits = \"picarx-v4\"\n[reserved_i2c]\nother = 0x15\n");
    let words = "reserved_i2c.other: I2C address 0x15 is already taken by mcu.address";
    assert!(faults.len() == 1 && faults[0].contains(words), "{faults:#?}");
}

#[test]
fn a_patrol_needs_two_near_places_and_a_navigator() {
    let told = |base: &str, places: &str| {
        faults(&format!("inherits = \"{base}\"\n[patrol]\nplaces = {places}\n")).join("\n")
    };
    assert_eq!(told("barn", "[[1.0, 0.0], [0.0, 0.0]]"), "");
    let lone = told("barn", "[[1.0, 0.0]]");
    assert!(lone.starts_with("bad.toml:3:") && lone.contains("2 to 16 places; found 1"), "{lone}");
    let far = told("barn", "[[1.0, 0.0], [1e6, 0.0]]");
    assert!(far.starts_with("bad.toml:3:") && far.contains("-10000 to 10000"), "{far}");
    let blind = told("virtual-bench", "[[1.0, 0.0], [0.0, 0.0]]");
    assert!(blind.contains("patrol.places") && blind.contains("needs a navigator"), "{blind}");
}
