//! `[[sensor]]`: where each value comes from, when it is valid, and how it enters the field.

use super::chips::{self, Keys, Needs};
use super::claims::Claims;
use super::wires::Wiring;
use crate::base::plan::{BeamPlan, BusPlan, Curve, Scale, SensorPlan};
use crate::base::time::Span;
use crate::deploy::board::reader::Section;

/// Names that a sensor may refer to.
pub struct Names<'b> {
    /// All motors.
    pub motors: &'b [String],
    /// The sensors before this one.
    pub earlier: &'b [String],
}

/// Largest magnitude in a physical range.
pub const LARGEST: f64 = 1e6;
/// Reads one sensor. `tick` is the control period, and also the default period of values that cost nothing to
/// read.
pub fn sensor(
    name: String,
    section: Section<'_>,
    tick: Span,
    names: &Names<'_>,
    wiring: &Wiring<'_>,
    claims: &mut Claims,
) -> Option<SensorPlan> {
    let Some((word, kind)) = section.choice("kind", "sensor kind", &chips::KINDS).required() else {
        section.give_up();
        return None;
    };
    match kind.needs {
        Needs::Wires | Needs::Bus => wiring.demand_wires(&section, word),
        Needs::Mcu => wiring.demand_mcu(&section, word),
        Needs::Machine => wiring.demand_machine(&section, word),
        Needs::Log if !matches!(wiring.bus, Some(BusPlan::Log) | None) => {
            section.misfit("kind", "\"log-column\" needs the bus kind \"log\"".to_string());
        }
        Needs::Log | Needs::Nothing => {}
    }
    let bus = if kind.needs == Needs::Bus { bus(&section, wiring, claims) } else { Some(0) };
    let source = (kind.source)(Keys { section: &section, name: &name, word, bus, names, claims });
    let unit = section.text("unit").required();
    let period = section.millis("period_ms", kind.shortest_ms.unwrap_or(chips::ANY_MS)..=60_000.0);
    let period = if kind.shortest_ms.is_some() { period.required() } else { Some(period.or(tick)) };
    // Two lost readings in a row are tolerated; a third in a row is no coincidence.
    let max_age = section.millis("max_age_ms", 0.5..=600_000.0);
    let max_age = max_age.or(period.unwrap_or(tick).times(3));
    let valid = section.reals::<2>("valid", -LARGEST..=LARGEST).required();
    if let Some([low, high]) = valid.filter(|ends| !ascends(ends)) {
        section.misfit("valid", format!("the first number ({low}) must be below the second ({high})"));
    }
    let valid = valid.filter(ascends);
    let frozen = section.integer("frozen_after", 0..=1_000_000).or(0);
    let worst = section.real("worst_per_s", -LARGEST..=LARGEST).or(0.0);
    let required = section.flag("required").or(false);
    let looks_at = section.reals::<2>("looks_at", -10.0..=10.0).optional();
    let input = scale(&section.section("input"), valid);
    let beam = beam(&section.section("beam"));

    if period.is_some_and(|period| max_age < period) {
        section
            .misfit("max_age_ms", "must not be below period_ms: the value would often be stale".to_string());
    }
    if frozen == 1 {
        section.misfit("frozen_after", "found 1; allowed: 0 (never) or at least 2 readings".to_string());
    }
    Some(SensorPlan {
        name,
        unit: unit?,
        kind: source?,
        bus: bus?,
        period: period?,
        max_age,
        valid: valid?.map(|end| end as f32),
        frozen_after: (frozen > 0).then_some(frozen as u32),
        worst_per_s: worst as f32,
        required,
        input: match input {
            Input::Absent => None,
            Input::Sound(scale) => Some(scale),
            Input::Faulty => return None,
        },
        looks_at: looks_at.map(|spot| spot.map(|metres| metres as f32)),
        beam,
    })
}

/// The bus that `section` names, by default the first; `None` if the name or `[bus]` is invalid.
fn bus(section: &Section<'_>, wiring: &Wiring<'_>, claims: &Claims) -> Option<usize> {
    if wiring.bus.is_none() {
        let _ = section.text("bus").optional(); // the buses are not known
        return None;
    }
    match section.name_among("bus", "I2C bus", &claims.buses).if_written()? {
        None => Some(0),
        Some(name) => claims.buses.iter().position(|known| *known == name),
    }
}

/// Whether the first value is below the second, also after rounding to f32.
fn ascends([low, high]: &[f64; 2]) -> bool {
    (*low as f32) < (*high as f32)
}

/// `beam`: how a ranging sensor is mounted; `None` if the table is missing, or if it is invalid, which is
/// reported.
fn beam(section: &Section<'_>) -> Option<BeamPlan> {
    if !section.is_written() {
        return None;
    }
    let at = section.reals::<2>("at", -10.0..=10.0).required();
    let bearing = section.real("bearing_deg", -180.0..=180.0).required();
    let half_cone = section.real("half_cone_deg", 0.0..=90.0).required();
    let reach = section.real("reach", 0.01..=1000.0).required();
    Some(BeamPlan {
        at: at?.map(|metres| metres as f32),
        bearing_deg: bearing? as f32,
        half_cone_deg: half_cone? as f32,
        reach: reach? as f32,
    })
}

enum Input {
    Absent,
    Sound(Scale),
    Faulty,
}

/// `input`: the scale on which the field sees the value.
fn scale(section: &Section<'_>, valid: Option<[f64; 2]>) -> Input {
    if !section.is_written() {
        return Input::Absent;
    }
    let low = section.real("low", -LARGEST..=LARGEST).required();
    let high = section.real("high", -LARGEST..=LARGEST).required();
    let curve = section.choice("curve", "curve", &[("linear", Curve::Linear), ("log", Curve::Log)]);
    let (_, curve) = curve.or(("linear", Curve::Linear));
    let (Some(low), Some(high)) = (low, high) else { return Input::Faulty };
    if (low - high).abs() < 1e-6 * high.abs().max(1.0) {
        section.misfit("low", format!("low ({low}) and high ({high}) must differ"));
        return Input::Faulty;
    }
    if curve == Curve::Log && (low < 1e-6 || high < 1e-6) {
        section.misfit("curve", format!("\"log\" needs both ends above 0; found low {low}, high {high}"));
        return Input::Faulty;
    }
    if let Some([bottom, top]) = valid
        && (low.max(high) <= bottom || low.min(high) >= top)
    {
        let rule = format!(
            "the scale {low}..{high} is outside valid {bottom}..{top}: the field receives a constant"
        );
        section.warn("low", rule);
    }
    Input::Sound(Scale { low: low as f32, high: high as f32, curve })
}
