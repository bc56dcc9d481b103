//! `[[decision_field]]`, `[[decision_input]]` and `[[behaviour]]`: what the robot does when it is told to do
//! something other than to wander or to go to a place.

use super::Devices;
use super::field::{ascending, input_of, on_scale, within};
use crate::base::plan::{BehaviourPlan, BumpPlace, DecisionFieldPlan, DecisionInput, PeakCurve, Preset};
use crate::base::time::Span;
use crate::deploy::board::reader::Section;

/// Maximum number of decision fields. A cycle computes only those of the current behaviour, which has two at
/// most.
const MOST_FIELDS: usize = 8;
/// Maximum number of inputs of all decision fields: a ring of 24 sensors for each of four.
const MOST_INPUTS: usize = 96;
/// Maximum number of behaviours.
const MOST_BEHAVIOURS: usize = 16;
/// Number of sites, from the fewest on which a bump of the usual width has room to one for each degree of a
/// circle, both ends included.
const SITES: std::ops::RangeInclusive<i64> = 21..=361;
/// Number of sites if the board does not state it.
const USUAL_SITES: i64 = 61;
/// Standard deviation of a bump if the board does not state it, in sites: that of COSIVINA's presets.
const USUAL_WIDTH_SITES: f32 = 5.0;
/// Range of the height of a bump. The presets detect inputs above 4.45.
const HEIGHT: std::ops::RangeInclusive<f64> = -20.0..=20.0;
/// How long a field may keep a peak without input, seconds: from the field's own time constant to an hour.
const FORGETS_AFTER_S: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
/// Words that `ganglion go` understands by itself.
const TAKEN: [&str; 4] = ["home", "patrol", "stop", "wander"];

/// The board's decision fields and its behaviours; `None`: one is invalid.
pub fn behaviours(
    root: &Section<'_>,
    devices: &Devices,
) -> Option<(Vec<DecisionFieldPlan>, Vec<BehaviourPlan>)> {
    let sections = root.entries("decision_field", "name");
    super::at_most(root, "decision_field", sections.len(), MOST_FIELDS);
    let names: Vec<String> = sections.iter().map(|(name, _)| name.clone()).collect();
    let fields: Vec<Option<DecisionFieldPlan>> =
        sections.iter().map(|(name, section)| field(name, section)).collect();

    let sections = root.numbered("decision_input");
    super::at_most(root, "decision_input", sections.len(), MOST_INPUTS);
    let inputs: Vec<Option<(usize, DecisionInput)>> =
        sections.iter().map(|section| input(section, &names, &fields, devices)).collect();

    let sections = root.entries("behaviour", "name");
    super::at_most(root, "behaviour", sections.len(), MOST_BEHAVIOURS);
    let behaviours: Vec<Option<BehaviourPlan>> =
        sections.iter().map(|(name, section)| behaviour(root, name, section, &names)).collect();

    let mut fields: Vec<DecisionFieldPlan> = fields.into_iter().collect::<Option<_>>()?;
    for (field, input) in inputs.into_iter().collect::<Option<Vec<_>>>()? {
        fields[field].inputs.push(input);
    }
    if let Some(field) = fields.iter().find(|field| field.inputs.is_empty()) {
        root.misfit(
            &format!("decision_field.{}", field.name),
            "no [[decision_input]] excites it".to_string(),
        );
        return None;
    }
    Some((fields, behaviours.into_iter().collect::<Option<_>>()?))
}

/// `[[decision_field]]`, without its inputs.
fn field(name: &str, section: &Section<'_>) -> Option<DecisionFieldPlan> {
    let presets = Preset::ALL.map(|preset| (preset.name(), preset));
    let preset = section.choice("preset", "preset", &presets).required();
    let span = section.reals::<2>("span", -1e6..=1e6).required();
    let sites = section.integer("sites", SITES).or(USUAL_SITES);
    let circular = section.flag("circular").or(false);
    let noise = section.real("noise", 0.0..=10.0).or(0.0);
    let forgets_after = section.real("forgets_after_s", FORGETS_AFTER_S).optional();
    let (preset, span) = (preset?.1, span?.map(|value| value as f32));
    if span[0] >= span[1] {
        section.misfit("span", format!("must ascend; {} comes before {}", span[0], span[1]));
        return None;
    }
    if forgets_after.is_some() && preset != Preset::Memory {
        let rule = format!("a field with the preset `{}` keeps no peak without input", preset.name());
        section.misfit("forgets_after_s", rule);
        return None;
    }
    Some(DecisionFieldPlan {
        name: name.to_string(),
        preset,
        span,
        sites: sites as usize,
        circular,
        noise: noise as f32,
        forgets_after: forgets_after.map(Span::from_secs_f64),
        inputs: Vec::new(),
    })
}

/// `[[decision_input]]`, with the index of its field.
fn input(
    section: &Section<'_>,
    names: &[String],
    fields: &[Option<DecisionFieldPlan>],
    devices: &Devices,
) -> Option<(usize, DecisionInput)> {
    let field = section.index("field", "decision field", names);
    let sensor = section.index("sensor", "sensor", &devices.sensor_names);
    let at = section.real("at", -1e6..=1e6).optional();
    let width = section.real("width", 1e-6..=1e6).optional();
    let points = section.rows::<2>("points", -1e6..=1e6).required();
    let (field, sensor, points) = (field?, sensor?, points?);
    let plan = fields.get(field)?.as_ref()?;
    let (sensor, scale) = input_of(section, devices, sensor)?;
    within(section, &points, "height", HEIGHT)?;
    let [low, high] = plan.span;
    if let Some(at) = at.filter(|at| !(low..=high).contains(&(*at as f32))) {
        section.misfit("at", format!("{at} is outside the field's span; allowed: {low} to {high}"));
        return None;
    }
    let at = at.map_or(BumpPlace::Measured(scale), |at| BumpPlace::Fixed(at as f32));
    let width = width.map_or(USUAL_WIDTH_SITES, |width| width as f32 / plan.spacing());
    Some((field, DecisionInput { sensor, at, width, height: on_scale(section, &points, scale)? }))
}

/// `[[behaviour]]`.
fn behaviour(
    root: &Section<'_>,
    name: &str,
    section: &Section<'_>,
    fields: &[String],
) -> Option<BehaviourPlan> {
    if TAKEN.contains(&name) {
        root.misfit(&format!("behaviour.{name}"), "`ganglion go` already uses this name".to_string());
    }
    let speed = curve(&section.section("speed"), fields, -1.0..=1.0);
    // A circle of 1 cm radius is the sharpest that any wheeled robot drives.
    let curvature = curve(&section.section("curvature"), fields, -100.0..=100.0);
    Some(BehaviourPlan { name: name.to_string(), speed: speed?, curvature: curvature? })
}

fn curve(
    section: &Section<'_>,
    fields: &[String],
    range: std::ops::RangeInclusive<f64>,
) -> Option<PeakCurve> {
    let field = section.index("field", "decision field", fields);
    let points = section.rows::<2>("points", -1e6..=1e6).required();
    let rest = section.real("rest", range.clone()).or(0.0);
    let (field, points) = (field?, points?);
    ascending(section, &points, "positions")?;
    within(section, &points, "value", range)?;
    let points = points.iter().map(|point| point.map(|value| value as f32)).collect();
    Some(PeakCurve { field, points, rest: rest as f32 })
}
