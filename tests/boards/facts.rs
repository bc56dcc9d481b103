//! The contents of the shipped boards, in lines that a person can compare with the hardware documentation.

use super::{shipped, text_of};
use ganglion::base::plan::{
    Board, BusPlan, Cause, ChipSensor, ComputedSensor, EnablePlan, FileSensor, I2cNode, Line, LineSensor,
    MotorKind, Restraint, SensorKind, Trip,
};
use ganglion::base::time::Span;
use ganglion::deploy::board;
use std::fmt::Write;
use std::path::Path;

fn bus(board: &Board) -> String {
    match &board.bus {
        BusPlan::Sim => format!("sim {} Hz", board.i2c[0].timing.speed_hz),
        BusPlan::Linux { gpio_labels, .. } => {
            let node = match &board.i2c[0].node {
                I2cNode::Path(path) | I2cNode::Adapter(path) => path,
            };
            format!("{node} {} Hz {}", board.i2c[0].timing.speed_hz, gpio_labels.join(" "))
        }
        BusPlan::Log => "log".to_string(),
    }
}

fn motor(kind: &MotorKind) -> String {
    match kind {
        MotorKind::DcDir { pwm, dir, mirrored, min_duty } => {
            format!("P{pwm} dir {} forward {} from {min_duty}", dir.0, if *mirrored { "high" } else { "low" })
        }
        MotorKind::DcPair { forward, backward, min_duty } => {
            format!("P{forward} forward P{backward} backward from {min_duty}")
        }
        MotorKind::Servo { pwm, min_deg, max_deg, offset_deg, mirrored } => {
            format!(
                "servo P{pwm} {min_deg}..{max_deg} trim {offset_deg}{}",
                if *mirrored { " mirrored" } else { "" }
            )
        }
        MotorKind::Recorded { drive } => format!("recorded{}", if *drive { ", drives" } else { "" }),
    }
}

fn sensor(board: &Board, kind: &SensorKind) -> String {
    match kind {
        SensorKind::Lines(LineSensor::HcSr04 { trig, echo }) => {
            format!("hc-sr04 trig {} echo {}", trig.0, echo.0)
        }
        SensorKind::Chip(ChipSensor::HatAdc { channel, per_count }) => {
            format!("A{channel} full {:.3}", per_count * 4095.0)
        }
        SensorKind::Chip(ChipSensor::FloatRegister { address, register }) => {
            format!("float {address:#x}/{register}")
        }
        SensorKind::Lines(LineSensor::Button { line, active_low }) => {
            format!("button {}{}", line_of(board, *line), if *active_low { " active low" } else { "" })
        }
        SensorKind::Chip(ChipSensor::Mpu6050 { address, quantity, ready }) => {
            let ready = ready.map_or(String::new(), |line| format!(" ready {}", line_of(board, line)));
            format!("mpu6050 {address:#x} {quantity:?}{ready}")
        }
        SensorKind::Chip(ChipSensor::Vl53l0x { address, .. }) => format!("vl53l0x {address:#x}"),
        SensorKind::Chip(ChipSensor::PowerMonitor { chip, address, shunt_ohms, quantity }) => {
            format!("{chip:?} {address:#x} {shunt_ohms} ohm {quantity:?}")
        }
        SensorKind::File(FileSensor::Hwmon { chip, label, per_unit }) => {
            format!("hwmon {chip} {label} x {per_unit}")
        }
        SensorKind::File(FileSensor::Thermal { zone }) => format!("zone {zone}"),
        SensorKind::File(kind @ FileSensor::GpuSysfs { .. }) => format!("{kind:?}"),
        SensorKind::Computed(ComputedSensor::MotorEcho { motor }) => {
            format!("echo of {}", board.motors[*motor].name)
        }
        SensorKind::Computed(ComputedSensor::Least { of }) => {
            let names: Vec<&str> = of.iter().map(|at| board.sensors[*at].name.as_str()).collect();
            format!("least of {}", names.join(" "))
        }
        SensorKind::LogColumn { column } => format!("column {column}"),
        _ => format!("{kind:?}"), // all its fields
    }
}

/// A line as it is written in the board file.
fn line_of(board: &Board, line: Line) -> String {
    line.name().map_or(line.0.to_string(), |at| board.line_names[at].clone())
}

fn facts(board: &Board) -> String {
    let mut out = String::new();
    writeln!(out, "bus {}; period {} us", bus(board), board.period.as_micros_f64()).unwrap();
    for bus in board.i2c.iter().skip(1) {
        writeln!(out, "bus {}: {:?} {} Hz", bus.name, bus.node, bus.timing.speed_hz).unwrap();
    }
    for reserved in &board.reserved_addresses {
        let bus = &board.i2c[reserved.bus].name;
        writeln!(out, "reserved {}: {bus} {:#x}", reserved.holder, reserved.address).unwrap();
    }
    if let Some(mcu) = board.mcu {
        writeln!(
            out,
            "mcu {} {} Hz {} timers reset {}",
            mcu.addresses().map(|at| format!("{at:#x}")).collect::<Vec<_>>().join(" "),
            mcu.clock_hz,
            mcu.timers,
            mcu.reset.0
        )
        .unwrap();
    }
    if let Some(pwm) = &board.pwm {
        writeln!(out, "{pwm:?}").unwrap();
    }
    if let Some(EnablePlan { line, on_high }) = board.enable {
        let level = if on_high { "high" } else { "low" };
        writeln!(out, "enable {}, on {level}", line_of(board, line)).unwrap();
    }
    if let Some(guard) = board.guard {
        let required = if guard.required { "required" } else { "optional" };
        writeln!(out, "guard {:?} {} ms {required}", guard.holds, guard.timeout.as_micros_f64() / 1e3)
            .unwrap();
    }
    for plan in &board.motors {
        writeln!(out, "motor {}: {}", plan.name, motor(&plan.kind)).unwrap();
    }
    for plan in &board.sensors {
        let period = plan.period.as_micros_f64() / 1e3;
        let required = if plan.required { "" } else { ", optional" };
        writeln!(
            out,
            "sensor {}: {} {} ms {}{required}",
            plan.name,
            sensor(board, &plan.kind),
            period,
            plan.unit
        )
        .unwrap();
    }
    for rule in &board.reflexes {
        let trip = match rule.trip {
            Trip::Below(at) => format!("<= {at}"),
            Trip::Above(at) => format!(">= {at}"),
        };
        let latched = if rule.latched { ", latched" } else { "" };
        let name = &board.sensors[rule.channel].name;
        writeln!(out, "{:?}: {name} {trip}, clear {}: {:?}{latched}", rule.cause, rule.clear, rule.restraint)
            .unwrap();
    }
    let shape = board.field.shape;
    writeln!(
        out,
        "field {}^3 {} -> {} every {} ms",
        shape.grid,
        shape.sensors,
        shape.motors,
        board.field.dt.as_micros_f64() / 1e3
    )
    .unwrap();
    out
}

/// Source: the vendor's libraries `robot-hat` (pwm.py, adc.py, motor.py, modules.py) and `picar-x`
/// (picarx.py).
const PICARX_V4: &str = "\
bus /dev/i2c-1 100000 Hz pinctrl-rp1 pinctrl-bcm2711 pinctrl-bcm2835; period 10000 us
mcu 0x14 0x15 72000000 Hz 4 timers reset 5
guard Reset 100 ms required
motor left: P13 dir 23 forward low from 0.5
motor right: P12 dir 24 forward high from 0.5
motor steering: servo P2 -30..30 trim 0
motor pan: servo P0 -90..90 trim 0 mirrored
motor tilt: servo P1 -35..65 trim 0 mirrored
sensor range: hc-sr04 trig 27 echo 22 60 ms m
sensor ground-left: A0 full 4095.000 20 ms counts
sensor ground-middle: A1 full 4095.000 20 ms counts
sensor ground-right: A2 full 4095.000 20 ms counts
sensor battery: A4 full 9.900 500 ms V
sensor button: button 25 active low 10 ms 1
sensor echo-left: echo of left 10 ms 1, optional
sensor echo-right: echo of right 10 ms 1, optional
sensor echo-steering: echo of steering 10 ms 1, optional
sensor undervoltage: hwmon rpi_volt in0_lcrit_alarm x 1 1000 ms 1, optional
sensor cpu: zone cpu-thermal 2000 ms degC, optional
Cliff: ground-left <= 500, clear 600: NoForward
Cliff: ground-middle <= 500, clear 600: NoForward
Cliff: ground-right <= 500, clear 600: NoForward
Obstacle: range <= 0.15, clear 0.2: NoForward
Obstacle: range <= 0.35, clear 0.4: Slow(0.4)
Battery: battery <= 7.15, clear 7.3: Slow(0.5)
Battery: battery <= 6.5, clear 7: Still, latched
EStop: button >= 0.5, clear 0.4: Still, latched
field 16^3 8 -> 5 every 20 ms
";

/// The Pi's own sensors.
const COMPUTER: &str = "\
sensor undervoltage: hwmon rpi_volt in0_lcrit_alarm x 1 1000 ms 1, optional
sensor cpu: zone cpu-thermal 2000 ms degC, optional
";

#[test]
fn picarx_v4_matches_the_vendors_car() {
    assert_eq!(facts(&shipped("picarx-v4").board), PICARX_V4);
}

/// The I2C controller of a Pi 5 can hang in ways that only a rebind of its driver fixes (raspberrypi/linux,
/// issues 5784 and 6043); the bench shows what the runtime does without a rebind.
#[test]
fn the_cars_permit_a_rebind_but_the_bench_does_not() {
    for (name, expected) in [("picarx-v4", true), ("picarx-v5", true), ("virtual-bench", false)] {
        assert_eq!(shipped(name).board.i2c[0].recovery.rebind, expected, "{name}");
    }
}

#[test]
fn picarx_v5_differs_in_timers_and_motors_only() {
    let v5 = shipped("picarx-v5").board;
    let wanted = PICARX_V4
        .replace("4 timers", "7 timers")
        .replace("P13 dir 23 forward low", "P13 forward P12 backward")
        .replace("P12 dir 24 forward high", "P14 forward P15 backward");
    assert_eq!(facts(&v5), wanted);
    assert_eq!(v5.compatible, ["raspberrypi,"]);
}

#[test]
fn sim_sonar_is_the_v4_in_a_room_that_can_lean() {
    let sim = shipped("sim-sonar").board;
    let wanted = PICARX_V4
        .replace("/dev/i2c-1 100000 Hz pinctrl-rp1 pinctrl-bcm2711 pinctrl-bcm2835", "sim 100000 Hz")
        .replace("guard Reset 100 ms required\n", "")
        .replace(COMPUTER, "")
        .replace("Cliff: ground-left", "sensor lean: float 0x60/0 20 ms deg\nCliff: ground-left")
        .replace(
            "field 16^3 8 ->",
            "Tilt: lean >= 20, clear 15: Still\nTilt: lean <= -20, clear -15: Still\nfield 16^3 9 ->",
        );
    assert_eq!(facts(&sim), wanted);
    assert!(sim.compatible.is_empty() && sim.sim.is_some() && sim.safety.auto_arm);
}

#[test]
fn virtual_bench_is_the_v4_with_other_wires_and_an_imu() {
    let bench = shipped("virtual-bench").board;
    let wanted = PICARX_V4
        .replace(
            "/dev/i2c-1 100000 Hz pinctrl-rp1 pinctrl-bcm2711 pinctrl-bcm2835",
            "hilplant 400000 Hz hilplant",
        )
        .replace("guard Reset 100 ms required\n", "enable 11, on high\nguard Enable 50 ms required\n")
        .replace(COMPUTER, "")
        .replace(
            "Cliff: ground-left",
            "sensor roll: mpu6050 0x68 Roll ready 10 10 ms deg\n\
             sensor pitch: mpu6050 0x68 Pitch ready 10 10 ms deg, optional\n\
             sensor turn: mpu6050 0x68 Rotation(Z) ready 10 10 ms deg/s, optional\n\
             sensor imu-warmth: mpu6050 0x68 Temperature ready 10 10 ms degC, optional\nCliff: ground-left",
        )
        .replace(
            "field 16^3 8 -> 5 every 20 ms",
            "Tilt: roll >= 20, clear 15: Still\nTilt: roll <= -20, clear -15: Still\nfield 8^3 12 -> 5 every 100 ms",
        );
    assert_eq!(facts(&bench), wanted);
    assert_eq!(bench.i2c[0].node, I2cNode::Adapter("hilplant".to_string()));
    let clear = bench.i2c[0].recovery.clear.unwrap();
    assert_eq!((clear.scl, clear.sda), (Line(12), Line(13)));
    assert!(bench.safety.auto_arm && bench.rt.strict);
}

/// Sources: data sheets of the four chips; typical wiring.
const GENERIC: &str = "\
bus /dev/i2c-1 400000 Hz ; period 10000 us
Pca9685 { address: 64, hz: 1000.0, output_enable: None }
motor left: P0 forward P1 backward from 0.3
motor right: P2 forward P3 backward from 0.3
sensor range: vl53l0x 0x29 40 ms m
sensor roll: mpu6050 0x68 Roll 10 ms deg
sensor pitch: mpu6050 0x68 Pitch 10 ms deg
sensor turning: mpu6050 0x68 Rotation(Z) 10 ms deg/s, optional
sensor battery: Ina219 0x41 0.1 ohm Volts 200 ms V
sensor current: Ina219 0x41 0.1 ohm Amperes 200 ms A, optional
sensor echo-left: echo of left 10 ms 1, optional
sensor echo-right: echo of right 10 ms 1, optional
Obstacle: range <= 0.15, clear 0.2: NoForward
Obstacle: range <= 0.35, clear 0.4: Slow(0.4)
Tilt: roll >= 25, clear 20: Still
Tilt: roll <= -25, clear -20: Still
Tilt: pitch >= 25, clear 20: Still
Tilt: pitch <= -25, clear -20: Still
Battery: battery <= 6.8, clear 7: Slow(0.5)
Battery: battery <= 6.4, clear 7: Still, latched
field 16^3 8 -> 2 every 20 ms
";

/// Sources: NVIDIA's pin tables of Jetson-GPIO, Linux device trees of module and carrier.
const ORIN_NANO: &str = "\
bus c250000.i2c 400000 Hz tegra234-gpio tegra234-gpio-aon; period 10000 us
bus side: Adapter(\"c240000.i2c\") 100000 Hz
reserved ina3221: side 0x40
reserved usb-c: side 0x25
Pca9685 { address: 64, hz: 1000.0, output_enable: None }
enable PQ.06, on low
guard Enable 250 ms required
motor left: P0 forward P1 backward from 0.3
motor right: P2 forward P3 backward from 0.3
sensor range: vl53l0x 0x29 40 ms m
sensor roll: mpu6050 0x68 Roll ready PY.00 10 ms deg
sensor pitch: mpu6050 0x68 Pitch ready PY.00 10 ms deg
sensor turning: mpu6050 0x68 Rotation(Z) ready PY.00 10 ms deg/s, optional
sensor echo-left: echo of left 10 ms 1, optional
sensor echo-right: echo of right 10 ms 1, optional
sensor stop: button PQ.05 active low 10 ms 1
sensor supply: hwmon ina3221 VDD_IN x 0.001 500 ms V, optional
sensor junction: zone tj-thermal 1000 ms degC, optional
sensor gpu-load: GpuSysfs { quantity: Load } 500 ms 1, optional
Obstacle: range <= 0.15, clear 0.2: NoForward
Obstacle: range <= 0.35, clear 0.4: Slow(0.4)
Tilt: roll >= 25, clear 20: Still
Tilt: roll <= -25, clear -20: Still
Tilt: pitch >= 25, clear 20: Still
Tilt: pitch <= -25, clear -20: Still
EStop: stop >= 0.5, clear 0.4: Still, latched
field 16^3 6 -> 2 every 20 ms
";

#[test]
fn generic_linux_has_four_chips_on_one_bus() {
    let board = shipped("generic-linux").board;
    assert_eq!(facts(&board), GENERIC);
    assert!(board.compatible.is_empty() && board.line_names.is_empty());
}

#[test]
fn the_jetsons_differ_in_module_and_lines_only() {
    let nano = shipped("jetson-orin-nano").board;
    assert_eq!(facts(&nano), ORIN_NANO);
    assert_eq!(nano.compatible, ["p3767-0003", "p3767-0004", "p3767-0005"]);
    let nx = shipped("jetson-orin-nx").board;
    assert_eq!(facts(&nx), ORIN_NANO);
    assert_eq!(nx.compatible, ["p3767-0000", "p3767-0001"]);
    let agx = shipped("jetson-agx-orin").board;
    let wanted = ORIN_NANO
        .replace("reserved usb-c: side 0x25", "reserved ina3221-second: side 0x41")
        .replace("PQ.06", "PAA.00")
        .replace("PQ.05", "PAA.01")
        .replace("PY.00", "PR.00")
        .replace("VDD_IN", "VIN_SYS_5V0")
        .replace("field 16^3", "field 32^3");
    assert_eq!(facts(&agx), wanted);
    assert_eq!(agx.compatible, ["p3701-"]);
}

#[test]
fn scitos_has_24_ranges_and_four_labels() {
    let scitos = shipped("scitos-g5").board;
    let columns: Vec<String> = (1..=24).map(|n| format!("column S{n}")).collect();
    let found: Vec<String> = scitos.sensors[..24].iter().map(|plan| sensor(&scitos, &plan.kind)).collect();
    assert_eq!(found, columns);
    let sectors: Vec<String> = scitos.sensors[24..]
        .iter()
        .map(|plan| format!("{}: {}", plan.name, sensor(&scitos, &plan.kind)))
        .collect();
    assert_eq!(
        sectors,
        [
            "front: least of S11 S12 S13 S14 S15",
            "left: least of S18 S19 S20",
            "left-near: least of S18 S19 S20",
        ]
    );
    let labels: Vec<&str> = scitos.decisions.iter().map(|decision| decision.label.as_str()).collect();
    assert_eq!(labels, ["Move-Forward", "Slight-Right-Turn", "Sharp-Right-Turn", "Slight-Left-Turn"]);
    assert_eq!(scitos.field.shape.motors, 4, "a row of the read-out for each label");
    assert_eq!(scitos.bus, BusPlan::Log);
    assert!(scitos.field.start.is_empty());
}

#[test]
fn the_bare_ring_has_each_range_on_two_scales_without_arcs() {
    let ring = shipped("scitos-g5-ring").board;
    let columns: Vec<String> = (1..=24).chain(1..=24).map(|n| format!("column S{n}")).collect();
    let found: Vec<String> = ring.sensors.iter().map(|plan| sensor(&ring, &plan.kind)).collect();
    assert_eq!(found, columns);
    let scales = |sensors: &[ganglion::base::plan::SensorPlan]| {
        let of_first = sensors[0].input;
        assert!(of_first.is_some() && sensors.iter().all(|sensor| sensor.input == of_first));
        of_first
    };
    assert_ne!(scales(&ring.sensors[..24]), scales(&ring.sensors[24..]));
    assert_eq!(ring.decisions, shipped("scitos-g5").board.decisions);
}

#[test]
fn every_shipped_board_passes_the_check() {
    let names = [
        "sim",
        "sim-sonar",
        "picarx-v4",
        "picarx-v5",
        "picarx-v4-tethered",
        "picarx-v5-tethered",
        "picarx-v4-corners",
        "picarx-v5-corners",
        "virtual-bench",
        "generic-linux",
        "jetson-orin-nano",
        "jetson-orin-nx",
        "jetson-agx-orin",
        "desktop-gpu",
        "scitos-g5",
        "scitos-g5-ring",
        "barn",
        "barn-car",
    ];
    assert_eq!(board::names().collect::<Vec<_>>(), names);
    for name in board::names() {
        let loaded = shipped(name);
        assert_eq!(loaded.board.name, name);
        let warnings: Vec<String> = loaded.warnings.iter().map(|warning| warning.to_string()).collect();
        match name {
            // A real Robot HAT needs this warning; the bench's model of one accepts 400 kHz, which the
            // bench's latency targets assume.
            "virtual-bench" => {
                assert_eq!(warnings.len(), 1, "{warnings:?}");
                assert!(warnings[0].contains("documented for 100 kHz only"), "{warnings:?}");
            }
            // The board is a template: which line can stop the motors depends on the computer.
            "generic-linux" => {
                assert_eq!(warnings.len(), 1, "{warnings:?}");
                assert!(warnings[0].contains("no line can stop the motors"), "{warnings:?}");
            }
            _ => assert!(warnings.is_empty(), "{name}: {warnings:?}"),
        }
    }
}

#[test]
fn kinds_are_printed_as_board_files_write_them() {
    let others = "inherits = \"picarx-v4\"\n\
        [[sensor]]\nname = \"a\"\nkind = \"ina226\"\naddress = 0x44\nshunt_ohms = 0.1\nquantity = \"volts\"\n\
        unit = \"V\"\nperiod_ms = 50\nvalid = [0, 4]\n\
        [[sensor]]\nname = \"b\"\nkind = \"ads1115\"\naddress = 0x48\nchannel = 0\nfull_scale_v = 4.096\n\
        unit = \"V\"\nperiod_ms = 50\nvalid = [0, 4]\n\
        [[sensor]]\nname = \"c\"\nkind = \"recall\"\nby = \"a\"\nbelow = 1.0\n\
        unit = \"1\"\nperiod_ms = 50\nvalid = [0, 1]\n";
    let mut seen = std::collections::BTreeSet::new();
    for (name, text) in board::BUILT_IN.into_iter().chain([("others", others)]) {
        let loaded = board::from_text(name, text).unwrap();
        for sensor in &loaded.board.sensors {
            let key = format!("sensor.{}.kind", sensor.name);
            let stated = loaded.settings.iter().find(|setting| setting.key == key).unwrap();
            assert_eq!(stated.value, format!("\"{}\"", sensor.kind.name()), "{name}: {key}");
            seen.insert(sensor.kind.name());
        }
    }
    assert_eq!(seen.len(), 16, "{seen:?}");
}

#[test]
fn files_and_built_in_boards_are_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards");
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "toml") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        assert_eq!(board::load(&path).unwrap().digest, shipped(&name).digest, "{name}");
        files += 1;
    }
    assert_eq!(files, board::names().count(), "every file in boards/ is built in");
}

#[test]
fn the_effective_text_loads_as_the_same_board() {
    for name in board::names() {
        let loaded = shipped(name);
        let again = board::from_text(name, &loaded.effective().join("\n")).unwrap();
        assert_eq!((again.digest, again.board), (loaded.digest, loaded.board), "{name}");
    }
}

#[test]
fn the_digest_depends_on_values_not_on_formatting() {
    let plain = shipped("picarx-v4").digest;
    let other_words =
        text_of("picarx-v4").replace("period_ms = 60.0", "period_ms = 6e1 # sixty").replace('#', "#  ");
    assert_eq!(board::from_text("x", &other_words).unwrap().digest, plain);
    let other_meaning = text_of("picarx-v4").replace("period_ms = 60.0", "period_ms = 61.0");
    assert_ne!(board::from_text("x", &other_meaning).unwrap().digest, plain);
}

#[test]
fn only_the_car_drives_back_along_its_path() {
    for (name, backs) in [
        ("picarx-v4", true),
        ("picarx-v5", true),
        ("sim", true),
        ("virtual-bench", false),
        ("generic-linux", false),
        ("scitos-g5", false),
    ] {
        let board = shipped(name).board;
        assert_eq!(board.backing.is_some(), backs, "{name}");
        // By arming the robot, a person confirms that `start_m` behind it are free: room to retreat.
        let (Some(backing), Some(motion)) = (board.backing, board.motion) else { continue };
        let retreats = board.reflexes.iter().map(|rule| rule.retreat.as_secs_f64());
        let longest = f64::from(motion.full_speed) * retreats.fold(0.0, f64::max);
        assert!(f64::from(backing.start_m) >= longest, "{name}: {longest} m");
    }
}

/// An earlier brain for this car stopped on bright ground instead.
#[test]
fn dark_ground_counts_as_an_edge() {
    for name in ["picarx-v4", "picarx-v5", "sim"] {
        let board = shipped(name).board;
        let cliffs: Vec<_> = board.reflexes.iter().filter(|rule| rule.cause == Cause::Cliff).collect();
        assert_eq!(cliffs.len(), 3, "{name}");
        for rule in cliffs {
            assert!(matches!(rule.trip, Trip::Below(at) if at <= 500.0), "{name}");
            assert!(rule.clear > 500.0 && rule.restraint == Restraint::NoForward, "{name}");
            assert!(matches!(
                board.sensors[rule.channel].kind,
                SensorKind::Chip(ChipSensor::HatAdc { channel: 0..=2, .. })
            ));
        }
        let battery = board.sensors.iter().find(|sensor| sensor.name == "battery").unwrap();
        let SensorKind::Chip(ChipSensor::HatAdc { channel, per_count }) = battery.kind else {
            panic!("an ADC channel")
        };
        assert_eq!(channel, 4);
        // The vendor's threshold of 7.15 V is 2957 counts.
        assert!((per_count * 2957.0 - 7.15).abs() < 0.002, "{name}");
    }
}

#[test]
fn real_boards_wait_to_be_armed() {
    let unreal = [
        "sim",
        "sim-sonar",
        "desktop-gpu",
        "virtual-bench",
        "scitos-g5",
        "scitos-g5-ring",
        "barn",
        "barn-car",
    ];
    for name in board::names().filter(|name| !unreal.contains(name)) {
        assert!(!shipped(name).board.safety.auto_arm, "{name}");
    }
}

/// A chip that keeps its last pulses when the program dies needs another process that holds its enable or
/// reset line.
#[test]
fn motors_that_run_on_by_themselves_have_a_guard() {
    for name in board::names() {
        let board = shipped(name).board;
        let real = matches!(board.bus, BusPlan::Linux { .. });
        // The generic board has no lines; its header says how to add them.
        if real && name != "generic-linux" {
            assert!(board.guard.is_some_and(|guard| guard.required), "{name}");
        }
    }
}

#[test]
fn commands_expire_within_a_few_periods() {
    for name in board::names() {
        let board = shipped(name).board;
        let safety = board.safety;
        assert_eq!(safety.command_valid, board.period.times(3), "{name}");
        assert_eq!(safety.field_fresh, board.field.dt.times(3), "{name}");
        assert_eq!(safety.field_fade, board.field.dt.times(5), "{name}");
        assert_eq!(board.field.dt, board.period.times(board.field.every_ticks.into()), "{name}");
    }
}

/// Sources: the requirements for an Orin and for a GPU of the RTX 4090 class.
#[test]
fn gpu_boards_state_targets_for_their_gpu() {
    for name in ["jetson-orin-nano", "jetson-orin-nx", "jetson-agx-orin"] {
        let targets = shipped(name).board.targets;
        assert_eq!((targets.gpu.cycle_us, targets.gpu.memory_mb), (Some(5_000.0), Some(128.0)), "{name}");
        assert_eq!(targets.cycle_p50, Some(Span::from_millis(5)), "{name}");
        assert_eq!(targets.tick_p99_us, Some(200.0), "{name}: the same as generic-linux");
    }
    let desktop = shipped("desktop-gpu").board;
    let gpu = desktop.targets.gpu;
    assert_eq!((gpu.cycle_us, gpu.memory_mb), (Some(1_000.0), Some(128.0)));
    let stages = [gpu.evolve_us, gpu.gradients_us, gpu.match_us, gpu.motor_us, gpu.overhead_us];
    assert_eq!(stages, [Some(100.0), Some(50.0), Some(100.0), Some(50.0), Some(200.0)]);
    assert_eq!((desktop.field.shape.grid, desktop.bus), (32, BusPlan::Sim));
}
