//! Drives lines to their levels and reads them back, unless that would move something.

use super::{Bench, Check, pads};
use crate::base::plan::lines::name_of;
use crate::base::plan::{Board, BusPlan, Line, LineRole, MotorKind, PwmPlan};
use crate::base::time::{Clock, Span};
use crate::hardware::bus::{Hardware, LineUse, Usage};
use crate::hardware::device::robot_hat::RobotHat;

/// A line to a motor driver has a few hundred picofarads and settles in microseconds. A millisecond is
/// plenty.
const SETTLED: Span = Span::from_millis(1);

/// A line that the board drives, and its harmless levels in test order. The line stays at the last one.
struct Driven {
    line: Line,
    what: String,
    levels: &'static [bool],
    required: bool,
}

/// Drives each line that may be driven, and reads it back.
pub fn check(bench: &Bench<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    for driven in driven(bench.board) {
        let name = name_of(bench.board, driven.line);
        let what = format!("line {name}, {}", driven.what);
        if is_direction_line(bench.board, driven.line) && !motors_stopped(bench) {
            let found = "not driven: the motors could not be stopped first".to_string();
            checks.push(Check::skipped(&what, found));
            continue;
        }
        checks.push(drives_to(bench.hardware, bench.clock, &what, &driven));
        if on_tegra(bench.board) {
            checks.push(pads::check(bench.root, &name));
        }
    }
    // The enable line belongs to a guard or to the driver of the motors, and is not driven here. Its pad may
    // have the same problem.
    if let Some(enable) = bench.board.enable.filter(|_| on_tegra(bench.board)) {
        checks.push(pads::check(bench.root, &name_of(bench.board, enable.line)));
    }
    checks
}

/// The lines to test: not the reset, enable and rail lines, because driving those affects their devices.
fn driven(board: &Board) -> Vec<Driven> {
    let mut lines = Vec::new();
    for motor in &board.motors {
        if let Some(dir) = motor.kind.direction() {
            let what = format!("direction of motor {}", motor.name);
            lines.push(Driven { line: dir, what, levels: &[true, false], required: true });
        }
    }
    for sensor in &board.sensors {
        for (line, role) in sensor.kind.lines() {
            let levels: &[bool] = match role {
                LineRole::Trigger => &[true, false], // sends one ping, whose echo is ignored
                LineRole::Shutdown => &[false, true],
                LineRole::Echo | LineRole::Button | LineRole::Ready => continue, // the sensor drives them
            };
            let what = format!("{} of sensor {}", role.name(), sensor.name);
            lines.push(Driven { line, what, levels, required: sensor.required });
        }
    }
    if let Some(line) = board.pwm.as_ref().and_then(PwmPlan::output_enable) {
        let what = "output enable of the PCA9685".to_string();
        // High only: low would pass on any pulses that the chip still generates.
        lines.push(Driven { line, what, levels: &[true], required: true });
    }
    lines
}

fn drives_to(hardware: &dyn Hardware, clock: &dyn Clock, what: &str, driven: &Driven) -> Check {
    let Driven { line, levels, required, .. } = *driven;
    let first = levels.first().copied().unwrap_or(false);
    let uses = [LineUse { line, usage: Usage::Output { high: first } }];
    let mut gpio = match hardware.gpio("self-test", &uses) {
        Ok(gpio) => gpio,
        Err(error) => return Check::closed(what, required, &error),
    };
    for &high in levels {
        let read = gpio.set(line, high).and_then(|()| {
            clock.sleep_until(clock.now() + SETTLED);
            gpio.get(line)
        });
        let level = if high { "high" } else { "low" };
        match read {
            Ok(found) if found == high => {}
            Ok(_) => {
                let found = format!("driven {level}, it stays {}", if high { "low" } else { "high" });
                let fix = "check for a short circuit, another user of the pin, and the pin's function in the pinmux";
                return Check::missing(what, required, found, fix);
            }
            Err(fault) => {
                let found = format!("driven {level}: {fault:?}");
                return Check::missing(what, required, found, "'ganglion doctor' shows the chips and lines");
            }
        }
    }
    Check::passed(what, "reads back as driven".to_string())
}

fn is_direction_line(board: &Board, line: Line) -> bool {
    board.motors.iter().any(|motor| motor.kind.direction() == Some(line))
}

/// Stops the pulses of every motor of the Robot HAT that has a direction line: a program that died may have
/// left pulses on, and a running motor would reverse when its direction line changes. `false` if that fails,
/// and for other PWM sources, which are not known to be stopped.
fn motors_stopped(bench: &Bench<'_>) -> bool {
    let (Some(mcu), None) = (&bench.board.mcu, &bench.board.pwm) else { return false };
    let Ok(mut i2c) = bench.hardware.i2c(0) else { return false };
    let hat = RobotHat::new(mcu);
    bench.board.motors.iter().all(|motor| match motor.kind {
        MotorKind::DcDir { pwm, .. } => hat.set_pulse(pwm, 0, i2c.as_mut()).is_ok(),
        MotorKind::DcPair { .. } | MotorKind::Servo { .. } | MotorKind::Recorded { .. } => true,
    })
}

fn on_tegra(board: &Board) -> bool {
    match &board.bus {
        BusPlan::Linux { gpio_labels, .. } => gpio_labels.iter().any(|label| label.starts_with("tegra")),
        _ => false,
    }
}
