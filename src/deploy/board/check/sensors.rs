//! `[[sensor]]`: where each value comes from, when it is valid, how it enters the field.

use super::chips;
use super::claims::{Claims, Thing};
use super::wires::{self, ADC_CHANNELS, Wiring};
use crate::base::plan::{
    BusPlan, ChipSensor, ComputedSensor, Curve, FileSensor, LineSensor, PowerChip, Scale, SensorKind,
    SensorPlan,
};
use crate::base::time::Span;
use crate::deploy::board::reader::Section;
use crate::hardware::device::adc::FULL;

/// Names that a sensor may refer to.
pub struct Names<'b> {
    /// All motors.
    pub motors: &'b [String],
    /// The sensors before this one.
    pub earlier: &'b [String],
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    HcSr04,
    HatAdc,
    FloatRegister,
    Mpu6050,
    Vl53l0x,
    Power(PowerChip),
    Ads1115,
    Hwmon,
    Thermal,
    Gpu,
    Button,
    MotorEcho,
    Least,
    Recall,
    LogColumn,
}

const KINDS: [(&str, Kind); 16] = [
    ("hc-sr04", Kind::HcSr04),
    ("hat-adc", Kind::HatAdc),
    ("float-register", Kind::FloatRegister),
    ("mpu6050", Kind::Mpu6050),
    ("vl53l0x", Kind::Vl53l0x),
    ("ina219", Kind::Power(PowerChip::Ina219)),
    ("ina226", Kind::Power(PowerChip::Ina226)),
    ("ads1115", Kind::Ads1115),
    ("hwmon", Kind::Hwmon),
    ("thermal", Kind::Thermal),
    ("gpu", Kind::Gpu),
    ("button", Kind::Button),
    ("motor-echo", Kind::MotorEcho),
    ("least", Kind::Least),
    ("recall", Kind::Recall),
    ("log-column", Kind::LogColumn),
];

/// What a board must have for a sensor of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Lines.
    Wires,
    /// An I2C bus, which it names.
    Bus,
    /// The Robot HAT's controller.
    Mcu,
    /// The kernel of the machine itself.
    Machine,
    /// A log instead of a bus.
    Log,
    /// Other channels.
    Nothing,
}

impl Kind {
    fn needs(self) -> Needs {
        match self {
            Kind::HcSr04 | Kind::Button => Needs::Wires,
            Kind::FloatRegister | Kind::Mpu6050 | Kind::Vl53l0x | Kind::Power(_) | Kind::Ads1115 => {
                Needs::Bus
            }
            Kind::HatAdc => Needs::Mcu,
            Kind::Hwmon | Kind::Thermal | Kind::Gpu => Needs::Machine,
            Kind::LogColumn => Needs::Log,
            Kind::MotorEcho | Kind::Least | Kind::Recall => Needs::Nothing,
        }
    }

    /// Shortest sensible period in milliseconds.
    fn shortest_ms(self) -> f64 {
        match self {
            Kind::HcSr04 => PING_MS,
            Kind::Vl53l0x => RANGING_MS,
            Kind::Recall => RECALL_MS,
            Kind::HatAdc | Kind::FloatRegister | Kind::Mpu6050 | Kind::Power(_) | Kind::Ads1115 => 0.5,
            Kind::Hwmon | Kind::Thermal | Kind::Gpu | Kind::Button => 0.5,
            Kind::MotorEcho | Kind::Least | Kind::LogColumn => 0.5,
        }
    }
}

/// Largest value that a physical range may name.
const LARGEST: f64 = 1e6;
/// The HC-SR04 needs this long between pings, or it receives the previous echo (data sheet).
const PING_MS: f64 = 60.0;
/// A VL53L0X measures for this long in its fastest profile (data sheet, table 12).
const RANGING_MS: f64 = 20.0;

/// A map that is queried more often leaves a small machine no time for anything else.
const RECALL_MS: f64 = 20.0;

/// Reads one sensor; `tick` is the control period, which is also the period of values that need no
/// bus transfer.
pub fn sensor(
    name: String,
    section: Section<'_>,
    tick: Span,
    names: &Names<'_>,
    wiring: &Wiring<'_>,
    claims: &mut Claims,
) -> Option<SensorPlan> {
    let Some((word, kind)) = section.choice("kind", "sensor kind", &KINDS).required() else {
        section.give_up();
        return None;
    };
    match kind.needs() {
        Needs::Wires | Needs::Bus => wiring.demand_wires(&section, word),
        Needs::Mcu => wiring.demand_mcu(&section, word),
        Needs::Machine => wiring.demand_machine(&section, word),
        Needs::Log if !matches!(wiring.bus, Some(BusPlan::Log) | None) => {
            section.misfit("kind", "\"log-column\" needs the bus kind \"log\"".to_string());
        }
        Needs::Log | Needs::Nothing => {}
    }
    let bus = if kind.needs() == Needs::Bus { chips::bus(&section, wiring, claims) } else { Some(0) };
    let source = source(&section, (word, kind), &name, bus, names, claims);
    let unit = section.text("unit").required();
    let period = section.millis("period_ms", kind.shortest_ms()..=60_000.0);
    let period = match kind {
        Kind::MotorEcho | Kind::Least | Kind::LogColumn => Some(period.or(tick)),
        Kind::Recall => period.required(),
        Kind::HcSr04 | Kind::HatAdc | Kind::FloatRegister | Kind::Mpu6050 | Kind::Vl53l0x => {
            period.required()
        }
        Kind::Power(_) | Kind::Ads1115 | Kind::Hwmon | Kind::Thermal | Kind::Gpu | Kind::Button => {
            period.required()
        }
    };
    // Two readings may be lost before a value is stale; a third is a pattern.
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

    if period.is_some_and(|period| max_age < period) {
        section
            .misfit("max_age_ms", "must not be below period_ms: the value would always be stale".to_string());
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
    })
}

fn source(
    section: &Section<'_>,
    (word, kind): (&'static str, Kind),
    name: &str,
    bus: Option<usize>,
    names: &Names<'_>,
    claims: &mut Claims,
) -> Option<SensorKind> {
    match kind {
        Kind::HcSr04 => {
            let trig = wires::line(section, "trig", claims);
            let echo = wires::line(section, "echo", claims);
            Some(SensorKind::Lines(LineSensor::HcSr04 { trig: trig?, echo: echo? }))
        }
        Kind::HatAdc => {
            let channel = section.channel("channel", 'A', ADC_CHANNELS);
            let full_scale = section.real("full_scale", 1e-3..=LARGEST).required();
            if let Some(channel) = channel {
                claims.take(Thing::Adc(channel), section.path("channel"));
            }
            Some(SensorKind::Chip(ChipSensor::HatAdc {
                channel: channel?,
                per_count: (full_scale? / f64::from(FULL)) as f32,
            }))
        }
        Kind::Button => {
            let line = wires::line(section, "line", claims);
            let active_low = section.flag("active_low").required();
            Some(SensorKind::Lines(LineSensor::Button { line: line?, active_low: active_low? }))
        }
        Kind::MotorEcho => section
            .index("motor", "motor", names.motors)
            .map(|motor| SensorKind::Computed(ComputedSensor::MotorEcho { motor })),
        Kind::Least => section
            .indices("of", "sensor before this one", names.earlier)
            .map(|of| SensorKind::Computed(ComputedSensor::Least { of })),
        Kind::Recall => {
            let by = section.index("by", "sensor before this one", names.earlier);
            let below = section.real("below", -LARGEST..=LARGEST).required();
            let ahead = section.real("ahead", -10.0..=10.0).or(0.0);
            Some(SensorKind::Computed(ComputedSensor::Recall {
                by: by?,
                below: below? as f32,
                ahead_m: ahead as f32,
            }))
        }
        Kind::LogColumn => {
            Some(SensorKind::LogColumn { column: section.text("column").or(name.to_string()) })
        }
        Kind::FloatRegister => chips::float_register(section, bus, claims),
        Kind::Mpu6050 => chips::mpu6050(section, bus, claims),
        Kind::Vl53l0x => chips::vl53l0x(section, bus, claims),
        Kind::Power(chip) => chips::power(section, word, chip, bus, claims),
        Kind::Ads1115 => chips::ads1115(section, bus, claims),
        Kind::Hwmon => chips::hwmon(section),
        Kind::Thermal => {
            section.text("zone").required().map(|zone| SensorKind::File(FileSensor::Thermal { zone }))
        }
        Kind::Gpu => chips::gpu(section),
    }
}

/// Whether the first is below the second, also as kept.
fn ascends([low, high]: &[f64; 2]) -> bool {
    (*low as f32) < (*high as f32)
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
