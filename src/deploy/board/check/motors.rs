//! `[[motor]]`: how each motor is driven, and its limits.

use super::claims::{Claims, PwmUse};
use super::wires::{self, Wiring};
use crate::base::plan::{MotorKind, MotorPlan};
use crate::deploy::board::reader::Section;

#[derive(Clone, Copy)]
enum Kind {
    DcDir,
    DcPair,
    Servo,
    Recorded,
}

const KINDS: [(&str, Kind); 4] = [
    ("dc-dir", Kind::DcDir),
    ("dc-pair", Kind::DcPair),
    ("servo", Kind::Servo),
    ("recorded", Kind::Recorded),
];

/// Reads one motor.
pub fn motor(
    name: String,
    section: Section<'_>,
    wiring: &Wiring<'_>,
    claims: &mut Claims,
) -> Option<MotorPlan> {
    let Some((word, kind)) = section.choice("kind", "motor kind", &KINDS).required() else {
        section.give_up();
        return None;
    };
    if !matches!(kind, Kind::Recorded) {
        wiring.demand_pwm(&section, word);
    }
    let kind = match kind {
        Kind::DcDir => dc_dir(&section, wiring, claims),
        Kind::DcPair => dc_pair(&section, wiring, claims),
        Kind::Servo => servo(&section, wiring, claims),
        Kind::Recorded => section.flag("drive").required().map(|drive| MotorKind::Recorded { drive }),
    };
    let limit = section.real("limit", 0.0..=1.0).or(1.0) as f32;
    // At 0.1 a motor needs ten seconds to reach full speed; above 1000 the limit has no effect.
    let slew = section.real("slew_per_s", 0.1..=1000.0).required();
    Some(MotorPlan { name, kind: kind?, limit, slew_per_s: slew? as f32 })
}

fn min_duty(section: &Section<'_>) -> f32 {
    // Above 0.9 hardly any range is left for commands.
    section.real("min_duty", 0.0..=0.9).or(0.0) as f32
}

fn dc_dir(section: &Section<'_>, wiring: &Wiring<'_>, claims: &mut Claims) -> Option<MotorKind> {
    let pwm = wires::pwm(section, "pwm", PwmUse::DcMotor, wiring, claims);
    let dir = wires::line(section, "dir", claims);
    let mirrored = section.flag("mirrored").or(false);
    let min_duty = min_duty(section);
    Some(MotorKind::DcDir { pwm: pwm?, dir: dir?, mirrored, min_duty })
}

fn dc_pair(section: &Section<'_>, wiring: &Wiring<'_>, claims: &mut Claims) -> Option<MotorKind> {
    let forward = wires::pwm(section, "forward", PwmUse::DcMotor, wiring, claims);
    let backward = wires::pwm(section, "backward", PwmUse::DcMotor, wiring, claims);
    let min_duty = min_duty(section);
    Some(MotorKind::DcPair { forward: forward?, backward: backward?, min_duty })
}

fn servo(section: &Section<'_>, wiring: &Wiring<'_>, claims: &mut Claims) -> Option<MotorKind> {
    let pwm = wires::pwm(section, "pwm", PwmUse::Servo, wiring, claims);
    let min = section.real("min_deg", -90.0..=90.0).required();
    let max = section.real("max_deg", -90.0..=90.0).required();
    let offset = section.real("offset_deg", -20.0..=20.0).or(0.0);
    let mirrored = section.flag("mirrored").or(false);
    if let (Some(min), Some(max)) = (min, max)
        && min as f32 >= max as f32
    {
        section.misfit("min_deg", format!("min_deg ({min}) must be below max_deg ({max})"));
    }
    Some(MotorKind::Servo {
        pwm: pwm?,
        min_deg: min? as f32,
        max_deg: max? as f32,
        offset_deg: offset as f32,
        mirrored,
    })
}
