//! `[field]`, `[budget]`, `[[start]]` and `[[decision]]`: the field, its time budget, and what the robot does
//! before it has learned anything.

use super::{Devices, Periods};
use crate::base::command::MAX_MOTORS;
use crate::base::plan::{
    BudgetPlan, Decision, EngineKind, FieldPlan, Params, QUALITY_LEVELS, QualityLevel, Scale, SensorPlan,
    Shape, StartCurve, Storage,
};
use crate::base::time::Span;
use crate::deploy::board::reader::Section;
use std::ops::RangeInclusive;

const STORAGES: [(&str, Storage); 2] =
    [(Storage::F32.name(), Storage::F32), (Storage::F16.name(), Storage::F16)];
/// Maximum number of `cpus`: as many as `threads` allows, although the engine has work for only 8.
const MOST_CPUS: usize = 64;
/// Maximum number of curves in a starting table. Every cycle evaluates each of them; the largest shipped
/// table has fifteen.
const MOST_CURVES: usize = 128;
/// Default of `correction`. It suffices to bend or straighten an arc of the desk robot, but not to turn the
/// starting table's response to an edge (0.5 - 1 = -0.5) or to a near obstacle (-0.5) into driving forwards.
const CORRECTION: f64 = 0.3;
const GRIDS: [i64; 4] = [8, 16, 32, 64];

/// Control periods from one field cycle to the next.
pub fn every_ticks(section: &Section<'_>) -> Option<u32> {
    section.integer("every_ticks", 1..=1000).sound_or(1).map(|every| every as u32)
}

/// The rest of `[field]`, and `[[start]]`.
pub fn field(
    root: &Section<'_>,
    section: &Section<'_>,
    periods: &Periods,
    every_ticks: Option<u32>,
    devices: &Devices,
    decisions: Option<&[Decision]>,
) -> Option<FieldPlan> {
    let (_, engine) = section
        .choice("engine", "engine", &EngineKind::ALL.map(|engine| (engine.name(), engine)))
        .or(("auto", EngineKind::Auto));
    let shape = shape(root, section, devices, decisions);
    let seed = section.integer("seed", 0..=i64::MAX).or(1);
    let threads = section.integer("threads", 1..=64).or(1);
    // Same limit as for rt.cpu: the size of the kernel's CPU sets.
    let cpus = section.distinct_integers("cpus", 0..=1023, MOST_CPUS).or(Vec::new());
    let (_, storage) = section.choice("storage", "storage", &STORAGES).or(("f32", Storage::F32));
    let learn = section.flag("learn").or(true);
    // A board with decisions has no table to correct, so the key is unknown there.
    let chooses = decisions.is_some_and(|labels| !labels.is_empty());
    let correction = if chooses { 1.0 } else { section.real("correction", 0.0..=1.0).or(CORRECTION) };
    let params = params(section);
    let start = start(root, devices, decisions);
    Some(FieldPlan {
        engine,
        shape: shape?,
        params,
        seed: seed as u64,
        dt: periods.dt,
        every_ticks: every_ticks?,
        threads: threads as usize,
        cpus: cpus.into_iter().map(|cpu| cpu as usize).collect(),
        storage,
        learn,
        start: start?,
        correction: correction as f32,
    })
}

fn shape(
    root: &Section<'_>,
    section: &Section<'_>,
    devices: &Devices,
    decisions: Option<&[Decision]>,
) -> Option<Shape> {
    let grid = section.integer("grid", 8..=64).required();
    if let Some(grid) = grid.filter(|grid| !GRIDS.contains(grid)) {
        section.misfit("grid", format!("found {grid}; allowed: 8, 16, 32 or 64 cells per axis"));
    }
    let patterns = section.integer("patterns", 1..=1000).or(1);
    let bank = section.integer("bank", 1..=100_000).or(1);
    let sensors = inputs(&devices.sensors);
    if sensors == 0 && devices.sensors.iter().all(Option::is_some) {
        root.misfit("sensor", "no sensor has an `input`: the field would have no inputs".to_string());
    }
    // Rows of the read-out: one per label if the board has decisions, otherwise one per motor.
    let motors = match decisions {
        Some(labels) if !labels.is_empty() => labels.len(),
        _ => devices.motor_names.len(),
    };
    Some(Shape { grid: grid? as usize, sensors, motors, patterns: patterns as usize, bank: bank as usize })
}

/// Number of sensors that are inputs of the field.
fn inputs(sensors: &[Option<SensorPlan>]) -> usize {
    sensors.iter().flatten().filter(|sensor| sensor.input.is_some()).count()
}

fn params(section: &Section<'_>) -> Params {
    let usual = Params::default();
    let params = Params {
        // Beyond 1/6 the explicit 7-point step is unstable.
        lambda: section.real("lambda", 0.0..=1.0 / 6.0).or(usual.lambda),
        gamma: section.real("gamma", 0.0..=4.0).or(usual.gamma),
        beta: section.real("beta", 0.001..=0.999).or(usual.beta),
        gain: section.real("gain", 0.0..=100.0).or(usual.gain),
        eta: section.real("eta", 0.0..=10.0).or(usual.eta),
        pattern_share: section.real("pattern_share", 0.0..=1.0).or(usual.pattern_share),
        t_fast: section.real("t_fast_s", 0.001..=10.0).or(usual.t_fast),
        t_slow: section.real("t_slow_s", 0.001..=1000.0).or(usual.t_slow),
        novelty_threshold: section.real("novelty_threshold", 0.0..=2.0).or(usual.novelty_threshold),
        error_threshold: section.real("error_threshold", 0.0..=4.0).or(usual.error_threshold),
        blend_temperature: section.real("blend_temperature", 0.001..=10.0).or(usual.blend_temperature),
        forget_per_s: section.real("forget_per_s", 0.001..=1.0).or(usual.forget_per_s),
        explore: section.real("explore", 0.0..=1.0).or(usual.explore),
    };
    let loop_gain = (1.0 - params.beta) * params.gamma;
    if loop_gain >= 1.0 {
        section.warn(
            "gamma",
            format!(
                "(1 - beta) gamma is {loop_gain:.3}: at 1 or more, the field keeps patterns and may never forget them"
            ),
        );
    }
    if params.t_fast > params.t_slow {
        section
            .misfit("t_fast_s", format!("{} must not be above t_slow_s ({})", params.t_fast, params.t_slow));
    }
    params
}

/// `[[start]]`: curves over physical values, converted to the sensors' scales.
fn start(root: &Section<'_>, devices: &Devices, decisions: Option<&[Decision]>) -> Option<Vec<StartCurve>> {
    let sections = root.numbered("start");
    super::at_most(root, "start", sections.len(), MOST_CURVES);
    if decisions.is_some_and(|labels| !labels.is_empty()) && !sections.is_empty() {
        let rule = "a board with decisions has no starting table: its read-out chooses labels";
        root.misfit("start", rule.to_string());
    }
    let curves: Vec<Option<StartCurve>> = sections.iter().map(|section| curve(section, devices)).collect();
    curves.into_iter().collect()
}

fn curve(section: &Section<'_>, devices: &Devices) -> Option<StartCurve> {
    let motor = section.index("motor", "motor", &devices.motor_names);
    let sensor = section.index("sensor", "sensor", &devices.sensor_names);
    let points = section.rows::<2>("points", -1e6..=1e6).required();
    let (motor, at, points) = (motor?, sensor?, points?);
    let (sensor, scale) = input_of(section, devices, at)?;
    within(section, &points, "command", -1.0..=1.0)?;
    let points = on_scale(section, &points, scale)?;
    Some(StartCurve { motor, sensor, points })
}

/// The index of sensor `at` among the field's inputs, and its scale.
pub(super) fn input_of(section: &Section<'_>, devices: &Devices, at: usize) -> Option<(usize, Scale)> {
    let plan = devices.sensors.get(at)?.as_ref()?;
    let Some(scale) = plan.input else {
        section.misfit("sensor", format!("`{}` has no `input`: the field does not receive it", plan.name));
        return None;
    };
    Some((inputs(&devices.sensors[..at]), scale))
}

/// Checks that the first coordinates of `points` ascend, and that there are 1 to 32 points.
pub(super) fn ascending(section: &Section<'_>, points: &[[f64; 2]], what: &str) -> Option<()> {
    if points.is_empty() || points.len() > 32 {
        section.misfit("points", format!("found {} points; allowed: 1 to 32", points.len()));
        return None;
    }
    if let Some(pair) = points.windows(2).find(|pair| pair[0][0] >= pair[1][0]) {
        let rule = format!("{what} must ascend; {} comes before {}", pair[0][0], pair[1][0]);
        section.misfit("points", rule);
        return None;
    }
    Some(())
}

/// Checks that the second coordinates of `points` are in `range`.
pub(super) fn within(
    section: &Section<'_>,
    points: &[[f64; 2]],
    what: &str,
    range: RangeInclusive<f64>,
) -> Option<()> {
    let mut values = points.iter().map(|point| point[1]);
    let Some(value) = values.find(|value| !range.contains(value)) else { return Some(()) };
    section.misfit("points", format!("{what} {value}; allowed: {} to {}", range.start(), range.end()));
    None
}

/// A curve over a sensor's physical value, converted to its scale.
pub(super) fn on_scale(section: &Section<'_>, points: &[[f64; 2]], scale: Scale) -> Option<Vec<[f32; 2]>> {
    ascending(section, points, "sensor values")?;
    let (low, high) = (scale.low.min(scale.high), scale.low.max(scale.high));
    if let Some([value, _]) = points.iter().find(|p| !(low..=high).contains(&(p[0] as f32))) {
        section.misfit("points", format!("sensor value {value} is off its scale; allowed: {low} to {high}"));
        return None;
    }
    let mut scaled: Vec<[f32; 2]> = points.iter().map(|p| [scale.apply(p[0] as f32), p[1] as f32]).collect();
    if scale.low > scale.high {
        scaled.reverse();
    }
    if scaled.windows(2).any(|pair| pair[0][0] >= pair[1][0]) {
        section.misfit("points", "two sensor values are too close to distinguish on the scale".to_string());
        return None;
    }
    Some(scaled)
}

/// `[budget]`.
pub fn budget(section: &Section<'_>, periods: &Periods) -> Option<BudgetPlan> {
    let dt = periods.dt;
    // The rest of the period is for reading sensors and writing motors on the same computer.
    let usual = Span::from_nanos(dt.as_nanos() / 10 * 6);
    let target = section.millis("target_ms", 0.01..=60_000.0).or(usual);
    let headroom = section.real("headroom", 0.1..=1.0).or(0.8);
    let dwell = section.millis("dwell_ms", 0.0..=600_000.0).or(Span::from_millis(1000));
    let floor = section.integer("floor", 0..=QUALITY_LEVELS as i64 - 1).or(QUALITY_LEVELS as i64 - 1);
    if periods.sound && target > dt {
        let (target, dt) = (target.as_micros_f64() / 1e3, dt.as_micros_f64() / 1e3);
        let rule = format!("found {target} ms; must not be above the field's period ({dt} ms)");
        section.misfit("target_ms", rule);
    }
    Some(BudgetPlan { target, headroom: headroom as f32, dwell, floor: QualityLevel::new(floor as u8)? })
}

/// `[[decision]]`.
pub fn decisions(root: &Section<'_>, motor_names: &[String]) -> Option<Vec<Decision>> {
    let sections = root.entries("decision", "label");
    super::at_most(root, "decision", sections.len(), MAX_MOTORS);
    let decisions: Vec<Option<Decision>> = sections
        .iter()
        .map(|(label, section)| {
            let values = section.section("motors").numbers_by_name(motor_names, -1.0..=1.0)?;
            let motors = values.into_iter().map(|value| value as f32).take(MAX_MOTORS).collect();
            Some(Decision { label: label.clone(), motors })
        })
        .collect();
    decisions.into_iter().collect()
}
