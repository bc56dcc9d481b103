//! Checks that relate several subjects of a board, after each was checked alone.

use super::millis;
use crate::base::plan::{
    Access, Board, BusPlan, Cause, ComputedSensor, I2cPlan, LineSensor, OwnTime, PwmPlan, Restraint,
    SensorKind, SensorPlan, Trip, bus_load,
};
use crate::base::time::Span;
use crate::decision::motion::MotionModel;
use crate::deploy::board::report::Report;
use crate::field::navigate::navigator::can_go;
use crate::memory::map::MOST_THINGS;

/// A bus with a higher load has too little time left to repeat failed transfers.
const BUSY_PERCENT: f64 = 70.0;

/// Checks that relate several subjects of a board, after each was checked alone.
pub fn relate(board: &Board, reflex_names: &[String], report: &mut Report) {
    match (&board.bus, &board.sim) {
        (BusPlan::Sim, None) => {
            report.misfit("bus.kind", "the simulated bus needs a world: a [sim] table".to_string());
        }
        (BusPlan::Linux { .. } | BusPlan::Log, Some(_)) => {
            report.misfit("bus.kind", "a [sim] table is only useful with bus kind \"sim\"".to_string());
        }
        _ => {}
    }
    access(board, report);
    buses(board, report);
    no_line(board, report);
    map(board, report);
    backing(board, report);
    patrol(board, report);
    wander(board, report);
    behaviours(board, report);
    if let Some(core) = board.rt.cpu.filter(|core| board.field.cpus.contains(core)) {
        let rule = format!(
            "core {core} belongs to the control loop (rt.cpu): the field's thread there waits for it"
        );
        report.warn("field.cpus", rule);
    }
    let (threads, cores) = (board.field.threads, board.field.cpus.len());
    if cores > 0 && cores < threads {
        let rule = format!("{threads} threads share {cores} of the cores: some of them wait for each other");
        report.warn("field.cpus", rule);
    }
    for (channel, sensor) in board.sensors.iter().enumerate().filter(|(_, sensor)| sensor.required) {
        if !board.reflexes.iter().any(|rule| rule.channel == channel) {
            let key = format!("sensor.{}.required", sensor.name);
            report.warn(&key, "no reflex uses it: the robot stops only if this sensor fails".to_string());
        }
    }
    for (rule, name) in board.reflexes.iter().zip(reflex_names) {
        if rule.restraint == Restraint::Still && !rule.latched && rule.hold >= board.safety.disarm_after {
            let limit = millis(board.safety.disarm_after);
            let words = format!(
                "lasts for safety.disarm_after_ms ({limit} ms) or longer: the robot is disarmed each time"
            );
            report.warn(&format!("reflex.{name}.hold_ms"), words);
        }
        if rule.retreat > Span::ZERO {
            retreat(board, name, report);
        }
        if let (Cause::Obstacle, Trip::Below(distance)) = (rule.cause, rule.trip) {
            let key = format!("reflex.{name}.below");
            obstacle(board, &board.sensors[rule.channel], distance, &key, report);
        }
    }
}

/// Refuses a guard together with register access: the guard holds its line through the kernel, and a program
/// that writes registers bypasses the kernel.
fn access(board: &Board, report: &mut Report) {
    if let (BusPlan::Linux { access: Access::Rppal, .. }, Some(_)) = (&board.bus, &board.guard) {
        let rule = "\"rppal\" bypasses the kernel, so it can drive the line that a guard holds; expected: \"character-devices\" \
                    (the default), or no [guard] table";
        report.misfit("bus.access", rule.to_string());
    }
}

/// Checks that a retreat is possible: a motor can drive the robot backwards, and the robot may reverse.
fn retreat(board: &Board, rule: &str, report: &mut Report) {
    let why = if board.safety.reverse_max == Span::ZERO {
        "safety.reverse_max_ms is 0: the robot may not drive backwards"
    } else if !board.motors.iter().any(|motor| motor.kind.travels()) {
        "no motor drives the robot backwards"
    } else {
        return;
    };
    report.misfit(&format!("reflex.{rule}.retreat_ms"), format!("{why}, so this never clears"));
}

/// Warns if no line can stop the motors. Only a command can then stop them, so they keep running while their
/// bus hangs, and for ever if the program dies.
fn no_line(board: &Board, report: &mut Report) {
    let (key, line) = match &board.pwm {
        Some(PwmPlan::Pca9685 { output_enable: None, .. }) => ("pca9685.output_enable", "the PCA9685's OE"),
        Some(PwmPlan::Sysfs { .. }) => ("enable.line", "the drivers' enable"),
        // A PCA9685's OE or a Robot HAT's reset line can stop the motors; those of a recording do not run.
        Some(PwmPlan::Pca9685 { .. }) | None => return,
    };
    if board.enable.is_none() && board.motors.iter().any(|motor| motor.kind.drives()) {
        let rule = format!(
            "no line can stop the motors: while their bus hangs, or after this program has died, they keep running on their \
             last pulses (wire {line} to a line and name it in [enable], which the guard can hold)"
        );
        report.warn(key, rule);
    }
}

/// Checks what the map needs: how commands move the robot, and at most [`MOST_THINGS`] things.
fn map(board: &Board, report: &mut Report) {
    let things: Vec<&SensorPlan> = board
        .sensors
        .iter()
        .filter(|sensor| matches!(sensor.kind, SensorKind::Computed(ComputedSensor::Recall { .. })))
        .collect();
    let Some(last) = things.last() else { return };
    if board.motion.is_none() {
        let key = format!("sensor.{}.kind", last.name);
        let rule = "\"recall\" needs a [motion] table: the speed of a full command and the distance between the axles";
        report.misfit(&key, rule.to_string());
    }
    if things.len() > MOST_THINGS {
        let key = format!("sensor.{}.kind", last.name);
        report.misfit(&key, format!("found {} recall sensors; allowed: at most {MOST_THINGS}", things.len()));
    }
}

/// Checks what backing off needs: the path is recorded from the effects of commands, and followed back by
/// steering.
fn backing(board: &Board, report: &mut Report) {
    if board.backing.is_none() {
        return;
    }
    if board.motion.is_none() {
        let rule = "backing off along the recorded path needs a [motion] table: how commands move the robot";
        report.misfit("backing.trail_m", rule.to_string());
    } else if MotionModel::of(board)
        .is_none_or(|motion| motion.steering.is_none() || motion.drives.is_empty())
    {
        let rule = "backing off along the recorded path needs a drive motor and a servo named \"steering\"";
        report.misfit("backing.trail_m", rule.to_string());
    }
    let wants_body = board.backing.is_some_and(|backing| backing.pass_m > 0.0);
    if wants_body && board.motion.is_some_and(|motion| motion.body.is_none()) {
        let rule = "pass_m needs `body` in [motion]: the outline that must not touch an obstacle";
        report.misfit("backing.pass_m", rule.to_string());
    }
}

/// Checks that a robot with behaviours can navigate: orders to both come the same way.
fn behaviours(board: &Board, report: &mut Report) {
    if !board.behaviours.is_empty() && !can_go(board) {
        let rule = "a behaviour needs a navigator: state `body` in [motion], and the `beam` of each ranging \
                    sensor, or remove the behaviour (`remove = true`)";
        report.misfit("behaviour", rule.to_string());
    }
}

/// Checks that a robot with a patrol can navigate.
fn patrol(board: &Board, report: &mut Report) {
    if !board.patrol.is_empty() && !can_go(board) {
        let rule = "a patrol needs a navigator: `body` in [motion], and the `beam` of each ranging sensor";
        report.misfit("patrol.places", rule.to_string());
    }
}

/// Checks that a robot that keeps clear of what it remembers can navigate and steers.
fn wander(board: &Board, report: &mut Report) {
    let steers = MotionModel::of(board).is_some_and(|motion| motion.steering.is_some());
    if board.wander.is_some() && !(steers && can_go(board)) {
        let rule = "keeping clear needs a servo that steers and a navigator: `body` in [motion], and the `beam` \
                    of each ranging sensor";
        report.misfit("wander.clear_m", rule.to_string());
    }
}

/// Checks each bus: its timeout, its speed for the devices on it, and whether all transfers fit into the time
/// available.
fn buses(board: &Board, report: &mut Report) {
    for (at, I2cPlan { name, timing, .. }) in board.i2c.iter().enumerate() {
        let path = if at == 0 { "bus".to_string() } else { format!("i2c.{name}") };
        let speed = format!("{path}.speed_hz");
        if at == 0 && board.mcu.is_some() && timing.speed_hz > 100_000 {
            let rule = "the Robot HAT's controller is documented for 100 kHz only";
            report.warn(&speed, rule.to_string());
        }
        if timing.timeout >= board.safety.wire_lost {
            let (found, limit) = (millis(timing.timeout), millis(board.safety.wire_lost));
            let rule = format!(
                "found {found} ms; must be below safety.wire_lost_ms ({limit} ms): one hung transfer is not a lost bus"
            );
            report.misfit(&format!("{path}.timeout_ms"), rule);
        }
        own_time(board, at, &path, report);
        let percent = 100.0 * bus_load::load_of(board, at).map_or(0.0, |load| load.total());
        if percent > 100.0 {
            let rule = format!(
                "polling and commands need {percent:.0} % of the I2C bus's time; \
                 allowed: at most 100 % (raise a period_ms or speed_hz)"
            );
            report.misfit(&speed, rule);
        } else if percent > BUSY_PERCENT {
            let rule = format!("{percent:.0} % of the I2C bus's time is in use: retries will be late");
            report.warn(&speed, rule);
        }
        let hangs = |sensor: &SensorPlan| sensor.bus == at && sensor.kind.i2c_address().is_some();
        // A board may list a bus because the computer itself has devices there.
        let listed = board.reserved_addresses.iter().any(|reserved| reserved.bus == at);
        if at > 0 && !listed && !board.sensors.iter().any(hangs) {
            report.warn(&speed, "this bus has no devices".to_string());
        }
    }
}

/// Checks the limits that depend on how long a transfer may hang, for adapters whose driver sets that time
/// itself.
fn own_time(board: &Board, bus: usize, path: &str, report: &mut Report) {
    let Some(driver) = board.i2c[bus].driver else { return };
    let (name, longest, timeout) = (driver.name(), driver.longest(), board.i2c[bus].timing.timeout);
    let hang = millis(longest);
    if timeout < longest {
        let found = millis(timeout);
        let rule = format!(
            "found {found} ms; allowed: {hang} to 1000 ms: the driver {name} waits up to {hang} ms for a hung transfer, \
             whatever timeout is set"
        );
        report.misfit(&format!("{path}.timeout_ms"), rule);
    }
    if bus > 0 {
        return; // this bus has its own thread: a hang delays only its own sensors
    }
    // When the transfer begins, the last heartbeat may already be a quarter of the timeout old.
    let least = Span::from_nanos(longest.as_nanos().div_ceil(3)).times(4);
    if let Some(guard) = board.guard.filter(|guard| guard.timeout < least) {
        let (found, least) = (millis(guard.timeout), millis(least).ceil());
        let rule = format!(
            "found {found} ms; allowed: {least} to 1000 ms: a transfer may hang for {hang} ms ({name}), and one hung \
             transfer does not mean that the runtime is dead"
        );
        report.misfit("guard.patience_ms", rule);
    }
    let valid = board.safety.command_valid;
    if board.stop_lines().is_empty() && valid < longest {
        let found = millis(valid);
        let rule = format!(
            "found {found} ms; allowed: {hang} to 60000 ms: a transfer may hang for {hang} ms ({name}), and without a \
             line nothing stops the motors meanwhile (wire one and name it in [enable], or allow that time)"
        );
        report.misfit("safety.command_valid_ms", rule);
    }
}

/// Checks that an obstacle is noticed early enough. Warns if the robot, at the speed that the board states,
/// would cover the trip distance before an echo could stop it.
fn obstacle(board: &Board, sensor: &SensorPlan, distance: f32, key: &str, report: &mut Report) {
    if !matches!(sensor.kind, SensorKind::Lines(LineSensor::HcSr04 { .. })) {
        return;
    }
    let ageing = -sensor.worst_per_s;
    if ageing <= 0.0 {
        let rule = "its sensor does not age (worst_per_s is not below 0): an old echo counts like a new one";
        report.warn(key, rule.to_string());
    }
    let speed = board.sim.as_ref().map_or(0.0, |sim| sim.full_speed).max(ageing);
    // An echo from 4 m takes 23 ms; its value is used in the next period, and the command is written in the
    // one after.
    let hang = board.i2c.first().and_then(|bus| bus.driver).filter(|_| board.stop_lines().is_empty());
    let hang = hang.map_or(Span::ZERO, OwnTime::longest);
    let age = sensor.period + Span::from_millis(23) + board.period.times(2) + hang;
    let covered = speed * age.as_secs_f64() as f32;
    if covered >= distance {
        let age = millis(age);
        let rule = format!(
            "trips at {distance} m; at {speed} m/s the robot covers {covered:.2} m in the {age:.0} ms until it can stop"
        );
        report.warn(key, rule);
    }
}
