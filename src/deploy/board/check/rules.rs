//! `[[reflex]]` and `[safety]`: what stops the robot, and how old data and commands may be.

use super::Periods;
use crate::base::plan::{Cause, Restraint, Rule, SafetyPlan, SensorPlan, Trip};
use crate::base::time::Span;
use crate::deploy::board::reader::Section;

/// Causes for which a board may write a rule; the runtime detects the others itself.
const CAUSES: [(&str, Cause); 5] = [
    ("battery", Cause::Battery),
    ("obstacle", Cause::Obstacle),
    ("cliff", Cause::Cliff),
    ("tilt", Cause::Tilt),
    ("e-stop", Cause::EStop),
];

#[derive(Clone, Copy, PartialEq)]
enum Allows {
    Slow,
    NoForward,
    Still,
}

const RESTRAINTS: [(&str, Allows); 3] =
    [("slow", Allows::Slow), ("no-forward", Allows::NoForward), ("still", Allows::Still)];

/// Reads one rule of the reflex table.
pub fn reflex(section: Section<'_>, names: &[String], sensors: &[Option<SensorPlan>]) -> Option<Rule> {
    let cause = section.choice("cause", "cause", &CAUSES).required();
    let channel = section.index("sensor", "sensor", names);
    let below = section.real("below", -1e6..=1e6).optional();
    let above = section.real("above", -1e6..=1e6).optional();
    let clear = section.real("clear", -1e6..=1e6).required();
    let hold = section.millis("hold_ms", 0.0..=60_000.0).or(Span::ZERO);
    let retreat = section.millis("retreat_ms", 0.0..=10_000.0).or(Span::ZERO);
    let allows = section.choice("restraint", "restraint", &RESTRAINTS).required();
    let restraint = match allows {
        Some((_, Allows::Slow)) => {
            section.real("share", 0.0..=1.0).required().map(|share| Restraint::Slow(share as f32))
        }
        Some((_, Allows::NoForward)) => Some(Restraint::NoForward),
        Some((_, Allows::Still)) => Some(Restraint::Still),
        None => {
            // Without a valid restraint it is unknown whether `share` belongs here: read it, but do not
            // require it.
            section.real("share", 0.0..=1.0).optional();
            None
        }
    };
    let latched = section.flag("latched").or(false);
    let (key, trip, at) = match (below, above) {
        (Some(at), None) => ("below", Trip::Below(at as f32), at),
        (None, Some(at)) => ("above", Trip::Above(at as f32), at),
        (Some(_), Some(_)) => {
            section.misfit("above", "a rule trips either below or above, not both".to_string());
            return None;
        }
        (None, None) => {
            section.misfit("below", "missing; expected: a number as `below` or as `above`".to_string());
            return None;
        }
    };
    let (kept, below) = (at as f32, key == "below");
    let right_side = |clear: f64| if below { clear as f32 > kept } else { (clear as f32) < kept };
    if let Some(clear) = clear.filter(|clear| !right_side(*clear)) {
        let side = if key == "below" { "above" } else { "below" };
        section
            .misfit("clear", format!("found {clear}; must be {side} {at}, where the rule trips (`{key}`)"));
    }
    if let Some(sensor) = channel.and_then(|channel| sensors.get(channel)?.as_ref()) {
        let [low, high] = sensor.valid;
        let inside = |value: f64| (low..=high).contains(&(value as f32));
        let valid = format!("`{}` is valid from {low} to {high}", sensor.name);
        if !inside(at) {
            section.misfit(key, format!("found {at}; {valid}"));
        } else if let Some(clear) = clear.filter(|clear| !inside(*clear)) {
            section.misfit("clear", format!("found {clear}; {valid}: this never clears"));
        }
        ageing_helps(&section, sensor, trip);
    }
    let stops = restraint.is_none_or(|restraint| restraint == Restraint::Still) && latched;
    if matches!(cause, Some((_, Cause::EStop))) && !stops {
        section.misfit("restraint", "an e-stop must be \"still\" and latched = true".to_string());
    }
    if retreat > Span::ZERO && restraint == Some(Restraint::Still) {
        let rule = "a stopped robot cannot back away; allowed with \"no-forward\" and \"slow\"";
        section.misfit("retreat_ms", rule.to_string());
    }
    let clear = clear? as f32;
    Some(Rule {
        cause: cause?.1,
        channel: channel?,
        trip,
        clear,
        hold,
        retreat,
        restraint: restraint?,
        latched,
    })
}

/// Checks that ageing pushes a value towards the trip, never away from it.
fn ageing_helps(section: &Section<'_>, sensor: &SensorPlan, trip: Trip) {
    let away = match trip {
        Trip::Below(_) => sensor.worst_per_s > 0.0,
        Trip::Above(_) => sensor.worst_per_s < 0.0,
    };
    if away {
        let rule = format!("`{}` ages away from this trip (its worst_per_s has the wrong sign)", sensor.name);
        section.misfit(if matches!(trip, Trip::Below(_)) { "below" } else { "above" }, rule);
    }
}

/// Limits of `disarm_after_ms`. A shorter time would disarm a robot that can recover by itself: setting up a
/// bus again takes half a second. After a longer time no bystander expects a stopped robot to start.
const DISARM_AFTER: std::ops::RangeInclusive<f64> = 1_000.0..=60_000.0;

/// `[safety]`.
pub fn safety(section: &Section<'_>, periods: &Periods) -> SafetyPlan {
    let Periods { tick, dt, sound } = *periods;
    const LIMIT: std::ops::RangeInclusive<f64> = 0.5..=60_000.0;
    let plan = SafetyPlan {
        field_fresh: section.millis("field_fresh_ms", LIMIT).or(dt.times(3)),
        field_fade: section.millis("field_fade_ms", 0.0..=60_000.0).or(dt.times(5)),
        command_valid: section.millis("command_valid_ms", LIMIT).or(tick.times(3)),
        wire_lost: section.millis("wire_lost_ms", LIMIT).or(Span::from_millis(100).max(tick.times(5))),
        late_slots: section.integer("late_slots", 1..=1000).or(5) as u32,
        settle: section.millis("settle_ms", 0.0..=60_000.0).or(Span::from_millis(300)),
        reverse_max: section.millis("reverse_max_ms", 0.0..=60_000.0).or(Span::from_millis(1500)),
        disarm_after: section.millis("disarm_after_ms", DISARM_AFTER).or(Span::from_millis(5_000)),
        auto_arm: section.flag("auto_arm").or(false),
    };
    let not_below = |key: &'static str, value: Span, least: Span, name: &str| {
        if sound && value < least {
            let (value, least) = (value.as_micros_f64() / 1e3, least.as_micros_f64() / 1e3);
            section.misfit(key, format!("found {value} ms; must not be below {name} ({least} ms)"));
        }
    };
    not_below("field_fresh_ms", plan.field_fresh, dt, "the field's period");
    not_below("command_valid_ms", plan.command_valid, tick, "period_ms");
    not_below("wire_lost_ms", plan.wire_lost, plan.command_valid, "command_valid_ms");
    plan
}
