//! From the merged table to a [`Board`]: every value of the right type and range, every name known,
//! nothing taken twice, and the values fitting each other. All faults are noted, not only the first.
//!
//! Each file reads one subject and what its values have to do with each other; this one puts the
//! board together and holds what concerns several subjects.

mod field;
mod motors;
mod rules;
mod sensors;
mod targets;
mod wires;
mod world;

use super::plan::{Board, BusPlan, MotorPlan, SensorPlan};
use super::raw::Table;
use super::reader::Section;
use super::report::{Report, Shared};
use super::share;
use crate::command::MAX_MOTORS;
use crate::device::{McuPlan, SensorKind};
use crate::frame::MAX_SENSORS;
use crate::reflex::{Cause, Trip};
use crate::time::Span;
use wires::{Claims, Wiring};

/// Shortest and longest control period in milliseconds: 2 kHz is more than a wake-up on a
/// real-time kernel can keep; slower than once a second nothing is safe.
const PERIOD_MS: std::ops::RangeInclusive<f64> = 0.5..=1000.0;

/// A bus that is busier than this has no room to repeat a failed transfer in time.
const BUSY_PERCENT: f64 = 70.0;

/// Reads `table`; `None` where anything was noted that makes the board unusable.
pub fn check(name: &str, table: &Table, report: &Shared) -> Option<Board> {
    let read = read(name, &Section::root(report, table));
    let (board, reflex_names) = read.filter(|_| report.borrow().findings.is_empty())?;
    relate(&board, &reflex_names, &mut report.borrow_mut());
    report.borrow().findings.is_empty().then_some(board)
}

/// Every subject in turn. All of them are read before the first failure counts.
fn read(name: &str, root: &Section<'_>) -> Option<(Board, Vec<String>)> {
    let compatible = root.texts("compatible").or(Vec::new());
    let period = root.millis("period_ms", PERIOD_MS).required();
    let rt = world::rt(&root.section("rt"));
    // Stands in for a faulty period where others default to it; nothing is held against it.
    let tick = period.unwrap_or(Span::from_millis(10));
    let devices = devices(root, tick);
    let (reflex_names, reflexes): (Vec<String>, Vec<_>) = root
        .entries("reflex", "name")
        .into_iter()
        .map(|(name, section)| (name, rules::reflex(section, &devices.sensor_names, &devices.sensors)))
        .unzip();
    let decisions = field::decisions(root, &devices.motor_names);
    let field_section = root.section("field");
    let every = field::every_ticks(&field_section);
    let sound = period.is_some() && every.is_some();
    let periods = Periods { tick, dt: tick.times(u64::from(every.unwrap_or(1))), sound };
    let field = field::field(root, &field_section, &periods, every, &devices, decisions.as_deref());
    drop(field_section);
    let safety = rules::safety(&root.section("safety"), &periods);
    let budget = field::budget(&root.section("budget"), &periods);
    let targets = targets::targets(&root.section("targets"), &periods);
    let sim = if_written(root.section("sim"), world::sim);

    let board = Board {
        name: name.to_string(),
        compatible,
        period: period?,
        rt: rt?,
        bus: devices.bus?,
        mcu: all_or_none(devices.mcu)?,
        sensors: devices.sensors.into_iter().collect::<Option<_>>()?,
        motors: devices.motors.into_iter().collect::<Option<_>>()?,
        reflexes: reflexes.into_iter().collect::<Option<_>>()?,
        safety,
        field: field?,
        budget: budget?,
        targets,
        decisions: decisions?,
        sim: all_or_none(sim)?,
    };
    Some((board, reflex_names))
}

/// The control period and the field's, for what is measured against them.
struct Periods {
    tick: Span,
    dt: Span,
    /// Whether both are as the board has them; false: one is faulty and only stands in.
    sound: bool,
}

/// What is wired; `None` where an entry is faulty.
struct Devices {
    bus: Option<BusPlan>,
    /// The outer `None`: there is no microcontroller.
    mcu: Option<Option<McuPlan>>,
    motor_names: Vec<String>,
    motors: Vec<Option<MotorPlan>>,
    sensor_names: Vec<String>,
    sensors: Vec<Option<SensorPlan>>,
}

fn devices(root: &Section<'_>, tick: Span) -> Devices {
    let mut claims = Claims::default();
    let bus = wires::bus(&root.section("bus"));
    let mcu = if_written(root.section("mcu"), |section| wires::mcu(section, &mut claims));
    wires::reserved(root.section("reserved"), &mut claims);
    let wiring = Wiring { bus: bus.as_ref(), mcu: mcu.as_ref().map(Option::as_ref) };

    let motor_sections = root.entries("motor", "name");
    let motor_names: Vec<String> = motor_sections.iter().map(|(name, _)| name.clone()).collect();
    limit_count(root, "motor", motor_names.len(), MAX_MOTORS);
    let motors = motor_sections
        .into_iter()
        .map(|(name, section)| motors::motor(name, section, &wiring, &mut claims))
        .collect();

    let sensor_sections = root.entries("sensor", "name");
    let sensor_names: Vec<String> = sensor_sections.iter().map(|(name, _)| name.clone()).collect();
    limit_count(root, "sensor", sensor_names.len(), MAX_SENSORS);
    let mut sensors = Vec::new();
    for (at, (name, section)) in sensor_sections.into_iter().enumerate() {
        let names = sensors::Names { motors: &motor_names, earlier: &sensor_names[..at] };
        sensors.push(sensors::sensor(name, section, tick, &names, &wiring, &mut claims));
    }
    claims.settle(root.report());
    Devices { bus, mcu, motor_names, motors, sensor_names, sensors }
}

/// What `read` makes of a section; the outer `None`: nothing is written.
fn if_written<T>(section: Section<'_>, read: impl FnOnce(&Section<'_>) -> Option<T>) -> Option<Option<T>> {
    if section.is_written() { Some(read(&section)) } else { None }
}

/// `None` only where something is written and faulty.
fn all_or_none<T>(found: Option<Option<T>>) -> Option<Option<T>> {
    match found {
        None => Some(None),
        Some(inner) => inner.map(Some),
    }
}

fn limit_count(root: &Section<'_>, key: &'static str, count: usize, most: usize) {
    if !(1..=most).contains(&count) {
        root.misfit(key, format!("found {count} of them; allowed: 1 to {most}"));
    }
}

/// What concerns several subjects of a board whose parts are each sound.
fn relate(board: &Board, reflex_names: &[String], report: &mut Report) {
    match (&board.bus, &board.sim) {
        (BusPlan::Sim(_), None) => {
            report.misfit("bus.kind", "the simulated bus needs a world: a [sim] table".to_string());
        }
        (BusPlan::Linux { .. } | BusPlan::Log, Some(_)) => {
            report.misfit("bus.kind", "a [sim] table is of use only with bus kind \"sim\"".to_string());
        }
        _ => {}
    }
    if let BusPlan::Sim(timing) | BusPlan::Linux { timing, .. } = &board.bus {
        if board.mcu.is_some() && timing.speed_hz > 100_000 {
            let rule = "the Robot HAT's controller is documented for 100 kHz only";
            report.warn("bus.speed_hz", rule.to_string());
        }
        if timing.timeout >= board.safety.wire_lost {
            let (found, limit) = (millis(timing.timeout), millis(board.safety.wire_lost));
            let rule = format!(
                "found {found} ms; must be below safety.wire_lost_ms ({limit} ms): one hung transfer is no lost bus yet"
            );
            report.misfit("bus.timeout_ms", rule);
        }
    }
    if let Some(load) = share::bus_load(board) {
        let percent = 100.0 * load.total();
        if percent > 100.0 {
            let rule = format!(
                "the polling table and the commands need {percent:.0} % of the I2C bus's time; \
                 allowed: at most 100 % (raise a period_ms or speed_hz)"
            );
            report.misfit("bus.speed_hz", rule);
        } else if percent > BUSY_PERCENT {
            let rule = format!("{percent:.0} % of the I2C bus's time is taken: retries will be late");
            report.warn("bus.speed_hz", rule);
        }
    }
    if let Some(core) = board.rt.cpu.filter(|core| board.field.cpus.contains(core)) {
        let rule =
            format!("core {core} is the control loop's (rt.cpu): the field's thread there waits for it");
        report.warn("field.cpus", rule);
    }
    let (threads, cores) = (board.field.threads, board.field.cpus.len());
    if cores > 0 && cores < threads {
        let rule = format!("{threads} threads on {cores} of the cores: some of them wait for each other");
        report.warn("field.cpus", rule);
    }
    for (channel, sensor) in board.sensors.iter().enumerate().filter(|(_, sensor)| sensor.required) {
        if !board.reflexes.iter().any(|rule| rule.channel == channel) {
            let key = format!("sensor.{}.required", sensor.name);
            report.warn(&key, "no reflex reads it: only its loss stops the robot".to_string());
        }
    }
    for (rule, name) in board.reflexes.iter().zip(reflex_names) {
        if let (Cause::Obstacle, Trip::Below(distance)) = (rule.cause, rule.trip) {
            let key = format!("reflex.{name}.below");
            obstacle(board, &board.sensors[rule.channel], distance, &key, report);
        }
    }
}

fn millis(span: Span) -> f64 {
    span.as_micros_f64() / 1e3
}

/// An obstacle must be noticed early enough: warns where the robot, at the speed that the board
/// names, covers the trip distance before the newest echo can have stopped it.
fn obstacle(board: &Board, sensor: &SensorPlan, distance: f32, key: &str, report: &mut Report) {
    if !matches!(sensor.kind, SensorKind::HcSr04 { .. }) {
        return;
    }
    let ageing = -sensor.worst_per_s;
    if ageing <= 0.0 {
        let rule = "its sensor does not age (worst_per_s is not below 0): an old echo counts as a new one";
        report.warn(key, rule.to_string());
    }
    let speed = board.sim.as_ref().map_or(0.0, |sim| sim.full_speed).max(ageing);
    // An echo from 4 m needs 23 ms; a value is used in the next period and written in the one after.
    let age = sensor.period + Span::from_millis(23) + board.period.times(2);
    let covered = speed * age.as_secs_f64() as f32;
    if covered >= distance {
        let age = millis(age);
        let rule = format!(
            "trips at {distance} m; at {speed} m/s the robot covers {covered:.2} m in the {age:.0} ms until it can stop"
        );
        report.warn(key, rule);
    }
}
