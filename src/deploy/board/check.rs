//! Turns the merged table into a [`Board`]. Checks that every value has the right type and range, that every
//! name is known, that no wire is used twice, and that the values are consistent with each other. Reports all
//! errors, not only the first.
//!
//! Each file in `check/` reads one subject and checks its values. This file assembles the board; `relate`
//! checks across subjects, and `claims` checks which role uses which wire.

mod behaviours;
mod buses;
mod chips;
mod claims;
mod field;
mod motors;
mod relate;
mod rules;
mod sensors;
mod targets;
mod tether;
mod wires;
mod world;

pub use tether::is_host_and_port;

use super::raw::Table;
use super::reader::Section;
use super::report::Shared;
use crate::base::command::MAX_MOTORS;
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::{
    Board, BusPlan, EnablePlan, I2cPlan, McuPlan, MotorPlan, PwmPlan, ReservedAddress, SensorPlan,
};
use crate::base::time::Span;
use crate::decision::reflex::MAX_RULES;
use claims::Claims;
use wires::Wiring;

/// Shortest and longest control period in milliseconds. Above 2 kHz the wake-ups of a real-time kernel cannot
/// keep up; a loop slower than 1 Hz cannot keep a robot safe.
const PERIOD_MS: std::ops::RangeInclusive<f64> = 0.5..=1000.0;

/// Reads and checks `table`. Returns `None` if there is any error; warnings do not matter.
pub fn check(name: &str, table: &Table, report: &Shared) -> Option<Board> {
    let read = read(name, &Section::root(report, table));
    let (board, reflex_names) = read.filter(|_| report.borrow().findings.is_empty())?;
    relate::relate(&board, &reflex_names, &mut report.borrow_mut());
    report.borrow().findings.is_empty().then_some(board)
}

/// Reads all sections before it gives up on an invalid one, so that all errors are reported.
fn read(name: &str, root: &Section<'_>) -> Option<(Board, Vec<String>)> {
    let compatible = root.texts("compatible").or(Vec::new());
    let period = root.millis("period_ms", PERIOD_MS).required();
    let rt = world::rt(&root.section("rt"));
    // Stands in for an invalid period, from which other values take their defaults; no check compares against
    // it.
    let tick = period.unwrap_or(Span::from_millis(10));
    let devices = devices(root, tick);
    let (reflex_names, reflexes): (Vec<String>, Vec<_>) = root
        .entries("reflex", "name")
        .into_iter()
        .map(|(name, section)| (name, rules::reflex(section, &devices.sensor_names, &devices.sensors)))
        .unzip();
    at_most(root, "reflex", reflexes.len(), MAX_RULES);
    let decisions = field::decisions(root, &devices.motor_names);
    let field_section = root.section("field");
    let every = field::every_ticks(&field_section);
    let sound = period.is_some() && every.is_some();
    let periods = Periods { tick, dt: tick.times(u64::from(every.unwrap_or(1))), sound };
    let field = field::field(root, &field_section, &periods, every, &devices, decisions.as_deref());
    let tether = tether::tether(&field_section, root.section("tether"), field.as_ref(), &periods);
    drop(field_section);
    let safety = rules::safety(&root.section("safety"), &periods);
    let budget = field::budget(&root.section("budget"), &periods);
    let targets = targets::targets(&root.section("targets"), &periods);
    let sim = if_written(root.section("sim"), world::sim);
    let motion = if_written(root.section("motion"), |section| {
        world::motion(section, &devices.sensor_names, &devices.sensors)
    });
    let backing = if_written(root.section("backing"), world::backing);
    let wander = if_written(root.section("wander"), world::wander);
    let patrol = if_written(root.section("patrol"), world::patrol);
    let (decision_fields, behaviours) = behaviours::behaviours(root, &devices).unzip();
    let guard = if_written(root.section("guard"), |section| {
        wires::guard(section, devices.mcu.is_some(), devices.enable.is_some(), period)
    });

    let board = Board {
        name: name.to_string(),
        compatible,
        period: period?,
        rt: rt?,
        bus: devices.bus?,
        i2c: devices.i2c,
        reserved_addresses: devices.reserved,
        line_names: devices.line_names,
        pwm: all_or_none(devices.pwm)?,
        enable: all_or_none(devices.enable)?,
        guard: all_or_none(guard)?,
        mcu: all_or_none(devices.mcu)?,
        sensors: devices.sensors.into_iter().collect::<Option<_>>()?,
        motors: devices.motors.into_iter().collect::<Option<_>>()?,
        reflexes: reflexes.into_iter().collect::<Option<_>>()?,
        safety,
        field: field?,
        tether: tether?,
        budget: budget?,
        targets,
        decisions: decisions?,
        motion: all_or_none(motion)?,
        backing: all_or_none(backing)?,
        wander: all_or_none(wander)?,
        patrol: all_or_none(patrol)?.unwrap_or_default(),
        decision_fields: decision_fields?,
        behaviours: behaviours?,
        sim: all_or_none(sim)?,
    };
    Some((board, reflex_names))
}

/// The control period and the field's period, for checks that compare against them.
struct Periods {
    tick: Span,
    dt: Span,
    /// Whether both are valid; false if either had to be replaced by a stand-in.
    sound: bool,
}

/// The wiring. `None` marks an invalid entry, except in `mcu`, `pwm` and `enable`.
struct Devices {
    bus: Option<BusPlan>,
    i2c: Vec<I2cPlan>,
    reserved: Vec<ReservedAddress>,
    line_names: Vec<String>,
    /// These three are `None` if the board has no such section, and `Some(None)` if the section is invalid.
    mcu: Option<Option<McuPlan>>,
    pwm: Option<Option<PwmPlan>>,
    enable: Option<Option<EnablePlan>>,
    motor_names: Vec<String>,
    motors: Vec<Option<MotorPlan>>,
    sensor_names: Vec<String>,
    sensors: Vec<Option<SensorPlan>>,
}

fn devices(root: &Section<'_>, tick: Span) -> Devices {
    let mut claims = Claims::default();
    let (bus, i2c) = buses::buses(root, &mut claims).unzip();
    let i2c = i2c.unwrap_or_default();
    let mcu = if_written(root.section("mcu"), |section| wires::mcu(section, &mut claims));
    wires::reserved(root.section("reserved"), &mut claims);
    let reserved = buses::reserved(&root.section("reserved_i2c"), &mut claims);
    let pwm = pwm(root, mcu.is_some(), &mut claims);
    let enable = if_written(root.section("enable"), |section| wires::enable(section, &mut claims));
    let wiring = Wiring {
        bus: bus.as_ref(),
        mcu: mcu.as_ref().map(Option::as_ref),
        pwm: pwm.as_ref().map(Option::as_ref),
    };

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
    if let Some(bus) = &bus {
        buses::chips_for_lines(bus, &claims, root);
    }
    let line_names = claims.line_names;
    Devices { bus, i2c, reserved, line_names, mcu, pwm, enable, motor_names, motors, sensor_names, sensors }
}

/// The board's PWM source, if that is not the microcontroller. A board has at most one source, so that a
/// channel number is unambiguous.
fn pwm(root: &Section<'_>, mcu: bool, claims: &mut Claims) -> Option<Option<PwmPlan>> {
    let chip = if_written(root.section("pca9685"), |section| wires::pca9685(section, claims));
    let own = if_written(root.section("pwm"), wires::sysfs_pwm);
    let sources: Vec<&str> = [("mcu", mcu), ("pca9685", chip.is_some()), ("pwm", own.is_some())]
        .into_iter()
        .filter_map(|(name, written)| written.then_some(name))
        .collect();
    if let [first, .., second] = sources[..] {
        root.misfit(second, format!("a second source of PWM besides [{first}]; expected: only one"));
    }
    chip.or(own)
}

/// Reads a section if it is present. `None`: the section is missing; `Some(None)`: it is invalid.
fn if_written<T>(section: Section<'_>, read: impl FnOnce(&Section<'_>) -> Option<T>) -> Option<Option<T>> {
    if section.is_written() { Some(read(&section)) } else { None }
}

/// Converts the result of [`if_written`]. `Some(None)`: the section is missing; `None`: it is invalid.
fn all_or_none<T>(found: Option<Option<T>>) -> Option<Option<T>> {
    match found {
        None => Some(None),
        Some(inner) => inner.map(Some),
    }
}

fn limit_count(root: &Section<'_>, key: &'static str, count: usize, most: usize) {
    if !(1..=most).contains(&count) {
        root.misfit(key, format!("found {count} entries; allowed: 1 to {most}"));
    }
}

/// Like [`limit_count`], but the list may be empty.
fn at_most(root: &Section<'_>, key: &'static str, count: usize, most: usize) {
    if count > most {
        root.misfit(key, format!("found {count} entries; allowed: at most {most}"));
    }
}

fn millis(span: Span) -> f64 {
    span.as_micros_f64() / 1e3
}
