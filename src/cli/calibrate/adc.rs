//! `calibrate adc`: samples a converter's channel many times, and derives its scale, or the threshold of a
//! reflex that watches it. It also reports the longest run of equal readings of a live signal, and proposes a
//! `frozen_after` longer than such a run.

use super::{Common, keep};
use crate::base::plan::{Board, ChipSensor, Rails, SensorKind};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::deploy::board::Loaded;
use crate::deploy::board::edit::Change;
use crate::hardware::bus::{Absent, Hardware};
use crate::hardware::device::adc::FULL;
use crate::hardware::device::{self, Ports};
use crate::runtime::access;
use crate::runtime::selftest::hat;
use crate::runtime::selftest::reset::Awake;
use serde_json::json;
use std::path::Path;

/// Time between samples: not a multiple of the mains period, so that mains hum stays visible.
const PAUSE: Span = Span::from_millis(7);
/// Plausible corrections of the scale, as factors. One outside this range means that a different signal was
/// measured: wrong channel or wrong divider.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.2..=5.0;
/// Ratio of `clear` to the threshold, as in the reflexes of `picarx-v4.toml`, where it is 600 to 500.
const CLEAR_ABOVE: f64 = 1.2;
/// Ratio of the proposed limit to the longest run of equal readings. The longest run grows with the logarithm
/// of the number of readings: it is three times as long in the four million readings of a day as in 200
/// samples.
const FROZEN_OVER_RUN: u32 = 4;
/// The lowest limit proposed: shorter runs of equal readings occur by chance even in a noisy signal.
const FEWEST_EQUAL: u32 = 10;

/// Arguments of `calibrate adc`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion calibrate adc battery --reference 7.86 --save my-car.toml
                      a voltmeter says 7.86; the robot of my-car.toml gets the scale
  ganglion calibrate adc battery --reference 7.86 --board picarx-v4 --save my-car.toml
                      the same for a new file, which inherits picarx-v4
  ganglion calibrate adc ground-left --threshold cliff-left --save my-car.toml
                      with the robot on its floor

Stop the runtime and its guard first.")]
pub struct Args {
    /// The sensor's name on the board
    name: String,
    /// The true value now, in the sensor's unit: sets the scale
    #[arg(long, value_name = "VALUE", required_unless_present = "threshold", conflicts_with = "threshold")]
    reference: Option<f64>,
    /// A reflex that trips below a value: set its threshold to a share of the present reading
    #[arg(long, value_name = "REFLEX")]
    threshold: Option<String>,
    /// The threshold, as a share of the present reading
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    share: f64,
    /// Number of samples
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(3..=100_000))]
    samples: u32,
    #[command(flatten)]
    common: Common,
}

/// The measurement, in the sensor's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    min: f64,
    p50: f64,
    max: f64,
    /// Number of failed readings.
    lost: u32,
    /// The longest run of equal readings, ignoring readings at an end of the converter's range.
    longest_run: u32,
    /// Number of readings at an end of the converter's range, where equal readings mean nothing.
    at_rail: u32,
}

impl Measured {
    /// A limit for equal readings that a live sensor does not reach; `None` if there was too little noise, or
    /// if there were only readings at an end of the range.
    fn frozen_after(&self, samples: u32) -> Option<u32> {
        let between = samples.saturating_sub(self.lost).saturating_sub(self.at_rail);
        let noisy = self.longest_run > 0 && self.longest_run * FROZEN_OVER_RUN <= between;
        noisy.then(|| (self.longest_run * FROZEN_OVER_RUN).max(FEWEST_EQUAL))
    }
}

/// The longest run of equal `values` away from `rails`, and the number of values at a rail.
fn rows(values: &[f64], rails: Option<Rails>) -> (u32, u32) {
    let (mut longest, mut run, mut railed, mut last) = (0, 0, 0, None);
    for &value in values {
        if rails.is_some_and(|rails| rails.cut(value)) {
            (run, railed, last) = (0, railed + 1, None);
            continue;
        }
        run = if last == Some(value.to_bits()) { run + 1 } else { 1 };
        (longest, last) = (longest.max(run), Some(value.to_bits()));
    }
    (longest, railed)
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let boards = super::boards(&args.common)?;
    let loaded = &boards.measured;
    let board = &loaded.board;
    let at = super::index("sensor", &args.name, board.sensors.iter().map(|sensor| sensor.name.as_str()))?;
    let interrupt = Interrupt::watch()?;
    let _claim = access::claim(board)?;
    let hardware = access::open(board)?;
    let measured = measure(board, at, args.samples, hardware.as_ref(), &MonotonicClock, &interrupt)?;
    let unit = &board.sensors[at].unit;
    say!(
        "{}{}: p50 {:.3} {unit}, min {:.3}, max {:.3}, {} samples, {} lost",
        args.name,
        boards.label(),
        measured.p50,
        measured.min,
        measured.max,
        args.samples,
        measured.lost
    );
    say!("{}", equal_rows(&measured, args.samples, board.sensors[at].frozen_after));
    let changes = match (args.reference, &args.threshold) {
        (Some(reference), _) => vec![scale(board, at, measured.p50, reference)?],
        (None, Some(reflex)) => threshold(loaded, &args.name, reflex, measured, args.share)?,
        (None, None) => Vec::new(),
    };
    keep::keep(&args.common, &boards, &changes)?;
    if args.common.json {
        let object = json!({
            "schema": 1,
            "board": board.name,
            "simulated": super::is_simulated(loaded),
            "sensor": args.name,
            "unit": unit,
            "samples": args.samples,
            "lost": measured.lost,
            "p50": measured.p50,
            "min": measured.min,
            "max": measured.max,
            "longest_run": measured.longest_run,
            "at_rail": measured.at_rail,
            "frozen_after": measured.frozen_after(args.samples),
            "changes": keep::objects(&boards, &changes),
            "saved": args.common.save,
        });
        crate::cli::output::json(&object)?;
    }
    Ok(())
}

/// Reads the sensor many times. Up to half of the readings may fail; more indicates a bad wire, not noise.
fn measure(
    board: &Board,
    at: usize,
    samples: u32,
    hardware: &dyn Hardware,
    clock: &dyn Clock,
    interrupt: &Interrupt,
) -> Result<Measured, Failure> {
    let sensor = &board.sensors[at];
    if stated_scale(&sensor.kind).is_none() {
        return Err(Failure::usage(format!("sensor '{}' is not a channel of a converter", sensor.name)));
    }
    // A stopped guard may have left the converter's chip in reset. If so, the chip is released here, and put
    // back into reset at the end.
    let awake = Awake::wake(board, hardware, clock);
    let settled = hat::with_found_address(board, hardware);
    let mut device = device::open(&[sensor], &settled, Path::new("/"))
        .ok_or_else(|| Failure::config(format!("sensor '{}' has no converter", sensor.name)))?;
    let mut i2c = hardware.i2c(sensor.bus)?;
    let mut ports = Ports { i2c: i2c.as_mut(), gpio: &mut Absent, clock };
    let silent = |fault: &dyn std::fmt::Display| {
        let failure = Failure::unavailable(format!("sensor '{}' cannot be read: {fault}", sensor.name));
        match awake.may_be_held() {
            None => {
                failure.fix("check its supply, its switch and its wires; 'ganglion probe' shows what answers")
            }
            Some(held) => failure.at(format!("{held}; it may hold the controller in reset")).fix(&held.fix),
        }
    };
    device.set_up(&mut ports).map_err(|fault| silent(&fault))?;
    let mut values: Vec<f64> = Vec::new();
    let mut last = None;
    for _ in 0..samples {
        if interrupt.asked() {
            return Err(Failure::unavailable("interrupted before the last sample: nothing was saved"));
        }
        let _ = device.poll(&mut ports, &mut |_, value| match value {
            Ok(value) => values.push(f64::from(value)),
            Err(fault) => last = Some(fault),
        });
        clock.sleep_until(clock.now() + PAUSE);
    }
    if let Some(fault) = last.filter(|_| values.len() * 2 < samples as usize) {
        return Err(silent(&fault));
    }
    let (longest_run, at_rail) = rows(&values, sensor.kind.rails());
    values.sort_by(f64::total_cmp);
    let (Some(min), Some(max)) = (values.first(), values.last()) else {
        return Err(silent(&"no value arrived"));
    };
    let lost = samples.saturating_sub(values.len() as u32);
    Ok(Measured { min: *min, p50: values[values.len() / 2], max: *max, lost, longest_run, at_rail })
}

/// What the runs of equal readings imply for `frozen_after`, whose present value is `now`.
fn equal_rows(measured: &Measured, samples: u32, now: Option<u32>) -> String {
    let ends = match measured.at_rail {
        0 => String::new(),
        count => format!(" ({count} more at an end of the converter's range do not count)"),
    };
    let row = format!("longest run of equal readings: {}{ends}", measured.longest_run);
    let has = now.map_or("the board has none".to_string(), |now| format!("the board has {now}"));
    match measured.frozen_after(samples) {
        Some(limit) => format!("{row}; proposed: frozen_after = {limit}, {has}"),
        None => format!(
            "{row}: too little noise here to propose a frozen_after, {has}; measure over an even floor"
        ),
    }
}

/// The key and value of a converter's scale in the board file.
fn stated_scale(kind: &SensorKind) -> Option<(&'static str, f64)> {
    if let SensorKind::Chip(ChipSensor::HatAdc { per_count, .. }) = *kind {
        return Some(("full_scale", f64::from(per_count) * f64::from(FULL)));
    }
    if let SensorKind::Chip(ChipSensor::Ads1115 { per_volt, .. }) = *kind {
        Some(("per_volt", per_volt.into()))
    } else {
        None
    }
}

/// The scale at which the sensor would have read `reference`.
fn scale(board: &Board, at: usize, found: f64, reference: f64) -> Result<Change, Failure> {
    let factor = reference / found;
    if !PLAUSIBLE.contains(&factor) {
        return Err(Failure::data(format!(
            "the sensor reads {found:.3} instead of {reference}: too far off for a wrong scale alone"
        ))
        .fix("check the channel, its divider, and where the reference was measured"));
    }
    let Some((key, now)) = stated_scale(&board.sensors[at].kind) else {
        return Err(Failure::bug("not a converter"));
    };
    let name = board.sensors[at].name.clone();
    Ok(Change { list: "sensor", name, key, value: rounded(now * factor) })
}

/// Rounds to five significant digits: the HAT's converter has twelve bits, and a voltmeter is hardly more
/// precise.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// Makes `reflex` trip at `share` of the present reading, and clear a little above that.
fn threshold(
    loaded: &Loaded,
    sensor: &str,
    reflex: &str,
    measured: Measured,
    share: f64,
) -> Result<Vec<Change>, Failure> {
    let setting = |key: &str| {
        let key = format!("reflex.{reflex}.{key}");
        loaded.settings.iter().find(|setting| setting.key == key).map(|setting| setting.value.as_str())
    };
    if setting("sensor") != Some(&format!("\"{sensor}\"")) || setting("below").is_none() {
        return Err(Failure::usage(format!("no reflex '{reflex}' that trips below a value of '{sensor}'")));
    }
    if !(0.05..=0.8).contains(&share) {
        return Err(Failure::usage(format!("a share of {share}; allowed: 0.05 to 0.8")));
    }
    let below = measured.p50 * share;
    if below * CLEAR_ABOVE >= measured.min {
        let what =
            format!("the sensor fell to {:.3} here, too close to a threshold of {below:.3}", measured.min);
        return Err(
            Failure::data(what).fix("measure on an even floor, without moving; or give a smaller --share")
        );
    }
    let change = |key, value| Change { list: "reflex", name: reflex.to_string(), key, value: rounded(value) };
    Ok(vec![change("below", below), change("clear", below * CLEAR_ABOVE)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::SimClock;
    use crate::sim::Plant;
    use std::sync::Arc;

    fn sim() -> Loaded {
        crate::deploy::board::built_in("sim").unwrap().unwrap()
    }

    fn measured(sensor: &str, faults: &[&str]) -> Result<Measured, Failure> {
        let board = sim().board;
        let clock = Arc::new(SimClock::new());
        let faults: Vec<_> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        let plant = Plant::new(&board, 1, &faults, clock.clone());
        let at = board.sensors.iter().position(|plan| plan.name == sensor).unwrap();
        measure(&board, at, 50, &plant, clock.as_ref(), &Interrupt::default())
    }

    #[test]
    fn the_simulated_battery_is_measured_and_scaled() {
        let found = measured("battery", &[]).unwrap();
        assert!(
            (found.p50 - 7.8).abs() < 0.1 && found.min <= found.p50 && found.p50 <= found.max,
            "{found:?}"
        );
        assert_eq!(found.lost, 0);
        let board = sim().board;
        let at = board.sensors.iter().position(|plan| plan.name == "battery").unwrap();
        let change = scale(&board, at, 7.8, 7.41).unwrap();
        assert_eq!((change.key, change.value), ("full_scale", 9.405));
        for nonsense in [0.0, -7.8, 78.0, f64::NAN] {
            assert!(scale(&board, at, 7.8, nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn the_longest_run_ignores_the_ends_of_the_range() {
        let rails = Some(Rails { low: 0.0, high: 4095.0 });
        assert_eq!(rows(&[1.0, 1.0, 2.0, 2.0, 2.0, 1.0], rails), (3, 0));
        assert_eq!(
            rows(&[0.0, 0.0, 0.0, 7.0, 0.0, 7.0, 4095.0, 4095.0], rails),
            (1, 6),
            "a reading at an end separates runs"
        );
        assert_eq!(rows(&[0.0, 0.0, 0.0], None), (3, 0));
        assert_eq!(rows(&[], rails), (0, 0));
    }

    #[test]
    fn a_limit_is_proposed_only_if_there_is_noise() {
        let floor = measured("ground-left", &[]).unwrap();
        assert!((1..=4).contains(&floor.longest_run) && floor.at_rail == 0, "{floor:?}");
        let limit = floor.frozen_after(50).unwrap();
        assert!((10..=16).contains(&limit), "{limit}");
        let said = equal_rows(&floor, 50, Some(25));
        assert!(said.ends_with(&format!("proposed: frozen_after = {limit}, the board has 25")), "{said}");
        // A dead converter, and one that stays at its lower end because nothing is plugged in.
        let dead = measured("ground-left", &["adc-frozen@0+60"]).unwrap();
        assert!(dead.longest_run >= 49 && dead.frozen_after(50).is_none(), "{dead:?}");
        let end = Measured { longest_run: 0, at_rail: 50, ..dead };
        assert_eq!(end.frozen_after(50), None);
        assert!(equal_rows(&end, 50, None).contains("too little noise"));
    }

    #[test]
    fn a_silent_adc_and_a_wrong_sensor_kind_are_reported() {
        assert!(measured("battery", &["i2c-nack@0+60"]).unwrap_err().to_string().contains("Nack"));
        assert!(measured("range", &[]).unwrap_err().to_string().contains("not a channel of a converter"));
    }

    /// The state in which a stopped guard leaves the reset line on Raspberry Pi OS.
    #[test]
    fn an_adc_held_in_reset_is_measured_and_reset_again() {
        use crate::hardware::bus::{LineUse, Usage};
        use crate::runtime::selftest::reset::is_held;
        let board = sim().board;
        let clock = Arc::new(SimClock::new());
        let plant = Plant::new(&board, 1, &[], clock.clone());
        let reset = board.mcu.as_ref().unwrap().reset;
        let low = [LineUse { line: reset, usage: Usage::Output { high: false } }];
        drop(Hardware::gpio(&plant, "guard", &low).unwrap());
        let at = board.sensors.iter().position(|plan| plan.name == "battery").unwrap();
        let found = measure(&board, at, 50, &plant, clock.as_ref(), &Interrupt::default()).unwrap();
        assert_eq!(found.lost, 0);
        assert!(is_held(&board, &plant));
    }

    #[test]
    fn the_threshold_is_a_fraction_of_the_ground_reading() {
        let floor = Measured { min: 1150.0, p50: 1200.0, max: 1260.0, lost: 0, longest_run: 2, at_rail: 0 };
        let changes = threshold(&sim(), "ground-left", "cliff-left", floor, 0.5).unwrap();
        let values: Vec<(&str, f64)> = changes.iter().map(|change| (change.key, change.value)).collect();
        assert_eq!(values, [("below", 600.0), ("clear", 720.0)]);
        assert!(
            threshold(&sim(), "ground-left", "cliff-right", floor, 0.5).is_err(),
            "the reflex watches another sensor"
        );
        assert!(
            threshold(&sim(), "lean", "lean-right", floor, 0.5).is_err(),
            "the reflex trips above a value"
        );
        let uneven = Measured { min: 610.0, ..floor };
        assert!(threshold(&sim(), "ground-left", "cliff-left", uneven, 0.5).is_err());
    }
}
