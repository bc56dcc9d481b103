//! Reads every sensor once: can it be read at all, is the value in the board's valid range, and would the
//! value make a reflex stop the robot?

use super::{Bench, Check};
use crate::base::fault::BusFault;
use crate::base::plan::{Attachment, Board, LineRole, LineSensor, SensorKind, SensorPlan, chips};
use crate::base::time::{Clock, Span};
use crate::hardware::bus::{Absent, Gpio, I2c, LineUse, Usage};
use crate::hardware::device::button::Button;
use crate::hardware::device::hc_sr04::HcSr04;
use crate::hardware::device::{self, DeviceFault, Ports};

/// Maximum number of polls for a chip's first value: a ranger needs 33 ms for one, a converter 8 ms.
const TRIES: usize = 10;
/// Polling interval.
const PAUSE: Span = Span::from_millis(20);

/// Reads the sensors in chips on I2C bus `bus`, except those whose address is in `silent`.
pub fn on_bus(bench: &Bench<'_>, bus: usize, silent: &[u8], i2c: &mut dyn I2c) -> Vec<Check> {
    let board = bench.board;
    let answers = |sensor: &SensorPlan| {
        let mcu = || board.mcu.as_ref().map(|mcu| mcu.address);
        sensor.kind.i2c_address().or_else(mcu).is_some_and(|address| !silent.contains(&address))
    };
    let groups = chips(board, Attachment::Bus(bus)).into_iter().map(|chip| members(board, &chip));
    let here: Vec<Vec<&SensorPlan>> = groups.filter(|group| answers(group[0])).collect();
    // Rangers stay shut down until their turn.
    let shutdowns = here.iter().flatten().filter_map(|sensor| sensor.kind.line(LineRole::Shutdown));
    let lines: Vec<LineUse> =
        shutdowns.map(|line| LineUse { line, usage: Usage::Output { high: false } }).collect();
    let mut gpio: Box<dyn Gpio> = if lines.is_empty() {
        Box::new(Absent)
    } else {
        match bench.hardware.gpio("self-test", &lines) {
            Ok(gpio) => gpio,
            Err(error) => return vec![Check::closed("shut-down lines", true, &error)],
        }
    };
    let mut checks = Vec::new();
    for group in &here {
        checks.extend(first_values(bench, group, i2c, gpio.as_mut()));
    }
    checks
}

/// Reads the sensors that have their own lines, and those that the kernel reads.
pub fn off_bus(bench: &Bench<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    for sensor in &bench.board.sensors {
        if let SensorKind::Lines(LineSensor::Button { line, active_low }) = sensor.kind {
            let uses = [LineUse { line, usage: Usage::Input { bias: Default::default() } }];
            checks.push(with_lines(bench, sensor, &uses, |gpio| Button::new(line, active_low).read(gpio)));
        }
        if let SensorKind::Lines(LineSensor::HcSr04 { trig, echo }) = sensor.kind {
            let watched = Usage::Watched { bias: Default::default(), debounce: Span::ZERO };
            let uses = [
                LineUse { line: trig, usage: Usage::Output { high: false } },
                LineUse { line: echo, usage: watched },
            ];
            checks.push(with_lines(bench, sensor, &uses, |gpio| {
                ping(&mut HcSr04::new(trig, echo), gpio, bench.clock)
            }));
        }
        if sensor.attachment() == Attachment::Files {
            checks.extend(first_values(bench, &[sensor], &mut Absent, &mut Absent));
        }
    }
    checks
}

/// Measures a range. The echo line may still be high from another program's last ping, so this retries for
/// longer than a sound module can hold it high.
fn ping(module: &mut HcSr04, gpio: &mut dyn Gpio, clock: &dyn Clock) -> Result<f32, DeviceFault> {
    let mut answer = module.measure(gpio, clock);
    for _ in 0..2 * TRIES {
        if !matches!(answer, Err(DeviceFault::Busy { .. })) {
            break;
        }
        clock.sleep_until(clock.now() + PAUSE);
        answer = module.measure(gpio, clock);
    }
    answer.map(|range| range.0)
}

fn members<'a>(board: &'a Board, chip: &[usize]) -> Vec<&'a SensorPlan> {
    chip.iter().map(|&channel| &board.sensors[channel]).collect()
}

fn with_lines(
    bench: &Bench<'_>,
    sensor: &SensorPlan,
    uses: &[LineUse],
    read: impl FnOnce(&mut dyn Gpio) -> Result<f32, DeviceFault>,
) -> Check {
    match bench.hardware.gpio("self-test", uses) {
        Ok(mut gpio) => judge(bench, sensor, read(gpio.as_mut())),
        Err(error) => Check::closed(&sensor.name, sensor.required, &error),
    }
}

/// Sets a chip up and waits, for a bounded time, for a value of each of its sensors.
fn first_values(
    bench: &Bench<'_>,
    group: &[&SensorPlan],
    i2c: &mut dyn I2c,
    gpio: &mut dyn Gpio,
) -> Vec<Check> {
    let Some(mut device) = device::open(group, bench.board, bench.root) else { return Vec::new() };
    let mut ports = Ports { i2c, gpio, clock: bench.clock };
    let mut values: Vec<Result<f32, DeviceFault>> = Vec::new();
    if let Err(fault) = device.set_up(&mut ports) {
        values = vec![Err(fault); group.len()];
    } else {
        for _ in 0..TRIES {
            values = vec![Err(DeviceFault::Kernel { fault: BusFault::Absent }); group.len()];
            let polled = device.poll(&mut ports, &mut |output, value| {
                if let Some(slot) = values.get_mut(output) {
                    *slot = value;
                }
            });
            if polled.is_ok() && values.iter().all(Result::is_ok) {
                break;
            }
            bench.clock.sleep_until(bench.clock.now() + PAUSE);
        }
    }
    group.iter().zip(values).map(|(sensor, value)| judge(bench, sensor, value)).collect()
}

/// Checks the value of a sensor.
fn judge(bench: &Bench<'_>, sensor: &SensorPlan, value: Result<f32, DeviceFault>) -> Check {
    let SensorPlan { name, unit, valid: [low, high], required, .. } = sensor;
    let unit = if unit == "1" { String::new() } else { format!(" {unit}") };
    let value = match value {
        Ok(value) if value.is_finite() && (*low..=*high).contains(&value) => value,
        Ok(value) => {
            let found = format!("reads {value}{unit}; valid is {low} to {high}");
            let fix = "check its wiring, and its scale in the board file ('ganglion calibrate adc' for a converter)";
            return Check::missing(name, *required, found, fix);
        }
        Err(fault) => {
            return Check::missing(name, *required, fault.to_string(), "check its supply and its wiring");
        }
    };
    let tripped = bench.board.reflexes.iter().find(|rule| {
        bench.board.sensors.get(rule.channel).is_some_and(|plan| plan.name == *name) && rule.trip.trips(value)
    });
    match tripped {
        None => Check::passed(name, format!("{value:.3}{unit}")),
        Some(rule) => Check::warned(
            name,
            format!(
                "{value:.3}{unit}: the reflex against {:?} holds the robot ({:?})",
                rule.cause, rule.restraint
            ),
            "move the robot, charge it or release the button; it can drive once the value is back in range",
        ),
    }
}
