//! The kinds of sensors: the name of each, what it needs, how often it can be read, and the keys that only it
//! has.

use super::claims::{Claims, Shares, Thing, VL53L0X};
use super::sensors::{LARGEST, Names};
use super::wires::{self, ADC_CHANNELS, optional_line};
use crate::base::plan::{
    Axis, ChipSensor, ComputedSensor, FileSensor, GpuQuantity, ImuQuantity, LineSensor, PowerChip,
    PowerQuantity, SensorKind, kind,
};
use crate::deploy::board::reader::Section;
use crate::deploy::board::spelling::ADDRESSES;
use crate::hardware::device::adc::FULL;

/// A kind of sensor.
#[derive(Clone, Copy)]
pub struct Kind {
    /// What the board must have for this kind.
    pub needs: Needs,
    /// Shortest sensible period in milliseconds. `None`: reading costs nothing, so the default is once per
    /// control period.
    pub shortest_ms: Option<f64>,
    /// Reads the keys that only this kind has.
    pub source: fn(Keys<'_>) -> Option<SensorKind>,
}

/// What a board must have for a kind of sensor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Lines.
    Wires,
    /// An I2C bus; the sensor names it.
    Bus,
    /// The Robot HAT's controller.
    Mcu,
    /// The kernel of the host computer.
    Machine,
    /// A log instead of a bus.
    Log,
    /// None of these: the value is computed from commands or other channels.
    Nothing,
}

/// Everything needed to read the keys of one sensor.
pub struct Keys<'a> {
    /// The sensor's table.
    pub section: &'a Section<'a>,
    /// The sensor's name.
    pub name: &'a str,
    /// The sensor's kind, as spelled in the file.
    pub word: &'static str,
    /// The sensor's I2C bus; `None` if that is invalid.
    pub bus: Option<usize>,
    /// Names that the sensor may refer to.
    pub names: &'a Names<'a>,
    /// The lines, channels and addresses in use.
    pub claims: &'a mut Claims,
}

/// The shortest control period: no value is needed more often.
pub const ANY_MS: f64 = 0.5;
/// Minimum time between the pings of an HC-SR04; it would otherwise receive the previous echo (data sheet).
const PING_MS: f64 = 60.0;
/// A VL53L0X measures for this long in its fastest profile (data sheet, table 12).
const RANGING_MS: f64 = 20.0;
/// Querying the map more often leaves a small computer no time for anything else.
const RECALL_MS: f64 = 20.0;

/// All kinds of sensors.
pub const KINDS: [(&str, Kind); 16] = [
    (kind::HC_SR04, Kind::new(Needs::Wires, Some(PING_MS), hc_sr04)),
    (kind::HAT_ADC, Kind::new(Needs::Mcu, Some(ANY_MS), hat_adc)),
    (kind::FLOAT_REGISTER, Kind::new(Needs::Bus, Some(ANY_MS), float_register)),
    (kind::MPU6050, Kind::new(Needs::Bus, Some(ANY_MS), mpu6050)),
    (kind::VL53L0X, Kind::new(Needs::Bus, Some(RANGING_MS), vl53l0x)),
    (kind::INA219, Kind::new(Needs::Bus, Some(ANY_MS), |keys| power(keys, PowerChip::Ina219))),
    (kind::INA226, Kind::new(Needs::Bus, Some(ANY_MS), |keys| power(keys, PowerChip::Ina226))),
    (kind::ADS1115, Kind::new(Needs::Bus, Some(ANY_MS), ads1115)),
    (kind::HWMON, Kind::new(Needs::Machine, Some(ANY_MS), hwmon)),
    (kind::THERMAL, Kind::new(Needs::Machine, Some(ANY_MS), thermal)),
    (kind::GPU, Kind::new(Needs::Machine, Some(ANY_MS), gpu)),
    (kind::BUTTON, Kind::new(Needs::Wires, Some(ANY_MS), button)),
    (kind::MOTOR_ECHO, Kind::new(Needs::Nothing, None, motor_echo)),
    (kind::LEAST, Kind::new(Needs::Nothing, None, least)),
    (kind::RECALL, Kind::new(Needs::Nothing, Some(RECALL_MS), recall)),
    (kind::LOG_COLUMN, Kind::new(Needs::Log, None, log_column)),
];

impl Kind {
    const fn new(needs: Needs, shortest_ms: Option<f64>, source: fn(Keys<'_>) -> Option<SensorKind>) -> Kind {
        Kind { needs, shortest_ms, source }
    }
}

const IMU_QUANTITIES: [(&str, ImuQuantity); 9] = [
    ("roll", ImuQuantity::Roll),
    ("pitch", ImuQuantity::Pitch),
    ("acceleration-x", ImuQuantity::Acceleration(Axis::X)),
    ("acceleration-y", ImuQuantity::Acceleration(Axis::Y)),
    ("acceleration-z", ImuQuantity::Acceleration(Axis::Z)),
    ("rotation-x", ImuQuantity::Rotation(Axis::X)),
    ("rotation-y", ImuQuantity::Rotation(Axis::Y)),
    ("rotation-z", ImuQuantity::Rotation(Axis::Z)),
    ("temperature", ImuQuantity::Temperature),
];

const POWER_QUANTITIES: [(&str, PowerQuantity); 3] =
    [("volts", PowerQuantity::Volts), ("amperes", PowerQuantity::Amperes), ("watts", PowerQuantity::Watts)];

const GPU_QUANTITIES: [(&str, GpuQuantity); 2] =
    [("load", GpuQuantity::Load), ("clock-mhz", GpuQuantity::ClockMhz)];

/// Full scales of an ADS1115 in volts (its data sheet, table 7-1).
const ADS1115_RANGES: [f64; 6] = [0.256, 0.512, 1.024, 2.048, 4.096, 6.144];

/// An ultrasonic range sensor with a trigger line and an echo line.
fn hc_sr04(Keys { section, claims, .. }: Keys<'_>) -> Option<SensorKind> {
    let trig = wires::line(section, "trig", claims);
    let echo = wires::line(section, "echo", claims);
    Some(SensorKind::Lines(LineSensor::HcSr04 { trig: trig?, echo: echo? }))
}

/// A channel of the Robot HAT's ADC.
fn hat_adc(Keys { section, claims, .. }: Keys<'_>) -> Option<SensorKind> {
    let channel = section.channel("channel", 'A', ADC_CHANNELS);
    let full_scale = section.real("full_scale", 1e-3..=LARGEST).required();
    if let Some(channel) = channel {
        claims.take(Thing::Adc(channel), section.path("channel"));
    }
    let per_count = (full_scale? / f64::from(FULL)) as f32;
    Some(SensorKind::Chip(ChipSensor::HatAdc { channel: channel?, per_count }))
}

/// A float in the registers of a co-processor.
fn float_register(Keys { section, bus, claims, .. }: Keys<'_>) -> Option<SensorKind> {
    let address = wires::address(section, "address");
    let register = section.integer("register", 0..=252).required(); // the float's last byte is at 255
    if let (Some(bus), Some(address), Some(register)) = (bus, address, register) {
        claims.take(Thing::Registers(bus, address, register as u8), section.path("address"));
    }
    Some(SensorKind::Chip(ChipSensor::FloatRegister { address: address?, register: register? as u8 }))
}

/// A channel of an inertial sensor.
fn mpu6050(Keys { section, bus, claims, .. }: Keys<'_>) -> Option<SensorKind> {
    let address = section.integer("address", 0x68..=0x69).required();
    let quantity = section.choice("quantity", "quantity", &IMU_QUANTITIES).required();
    let ready = section.line("ready").if_written();
    let (bus, address, (value, quantity), ready) = (bus?, address? as u8, quantity?, ready?);
    let alike = Some(("ready", ready.as_ref().map_or("none".to_string(), |word| word.show())));
    let ready = match ready {
        Some(word) => Some(claims.line(word, section, "ready")?),
        None => None,
    };
    let shares = Shares { kind: kind::MPU6050, bus, address, alike, value: value.to_string() };
    if claims.share(shares, section)
        && let Some(line) = ready
    {
        claims.take(Thing::Line(line), section.path("ready"));
    }
    Some(SensorKind::Chip(ChipSensor::Mpu6050 { address, quantity, ready }))
}

/// A time-of-flight ranger.
fn vl53l0x(Keys { section, bus, claims, .. }: Keys<'_>) -> Option<SensorKind> {
    let address = section.integer("address", ADDRESSES).or(i64::from(VL53L0X)) as u8;
    let shutdown = optional_line(section, "shutdown", claims)?;
    claims.take_ranger(bus?, address, shutdown.is_some(), section);
    Some(SensorKind::Chip(ChipSensor::Vl53l0x { address, shutdown }))
}

/// A channel of a power monitor.
fn power(Keys { section, word, bus, claims, .. }: Keys<'_>, chip: PowerChip) -> Option<SensorKind> {
    let address = section.integer("address", 0x40..=0x4F).required();
    // From the busbar of a large drive to the shunt of a charging board.
    let shunt = section.real("shunt_ohms", 1e-5..=10.0).required();
    let quantity = section.choice("quantity", "quantity", &POWER_QUANTITIES).required();
    let (bus, address, shunt, (value, quantity)) = (bus?, address? as u8, shunt?, quantity?);
    let alike = Some(("shunt_ohms", shunt.to_string()));
    claims.share(Shares { kind: word, bus, address, alike, value: value.to_string() }, section);
    Some(SensorKind::Chip(ChipSensor::PowerMonitor { chip, address, shunt_ohms: shunt as f32, quantity }))
}

/// A channel of an ADS1115 converter.
fn ads1115(Keys { section, bus, claims, .. }: Keys<'_>) -> Option<SensorKind> {
    let address = section.integer("address", 0x48..=0x4B).required();
    let channel = section.integer("channel", 0..=3).required();
    let full_scale = section.real("full_scale_v", 0.256..=6.144).required();
    let per_volt = section.real("per_volt", -1e6..=1e6).or(1.0);
    if let Some(found) = full_scale.filter(|v| ADS1115_RANGES.iter().all(|range| (range - v).abs() > 1e-6)) {
        let rule = format!("found {found}; allowed: 0.256, 0.512, 1.024, 2.048, 4.096 or 6.144");
        section.misfit("full_scale_v", rule);
    }
    if per_volt.abs() < 1e-6 {
        section.misfit("per_volt", format!("found {per_volt}: the value would always be zero"));
    }
    let (bus, address, channel, full_scale) = (bus?, address? as u8, channel? as u8, full_scale?);
    claims.share(
        Shares { kind: kind::ADS1115, bus, address, alike: None, value: format!("channel {channel}") },
        section,
    );
    let (full_scale_v, per_volt) = (full_scale as f32, per_volt as f32);
    Some(SensorKind::Chip(ChipSensor::Ads1115 { address, channel, full_scale_v, per_volt }))
}

/// A value of the kernel's hardware monitor.
fn hwmon(Keys { section, .. }: Keys<'_>) -> Option<SensorKind> {
    let chip = section.text("chip").required();
    let label = section.text("label").required();
    let per_unit = section.real("per_unit", 1e-9..=1e6).required();
    for (key, name) in [("chip", &chip), ("label", &label)] {
        // The names become path components.
        if name.as_ref().is_some_and(|name| name.contains('/') || name.contains("..")) {
            section.misfit(key, "expected: a name, not a path".to_string());
        }
    }
    Some(SensorKind::File(FileSensor::Hwmon { chip: chip?, label: label?, per_unit: per_unit? as f32 }))
}

/// A thermal zone of the kernel.
fn thermal(keys: Keys<'_>) -> Option<SensorKind> {
    Some(SensorKind::File(FileSensor::Thermal { zone: keys.section.text("zone").required()? }))
}

/// A value that a GPU reports in sysfs.
fn gpu(Keys { section, .. }: Keys<'_>) -> Option<SensorKind> {
    let (_, quantity) = section.choice("quantity", "quantity", &GPU_QUANTITIES).required()?;
    Some(SensorKind::File(FileSensor::GpuSysfs { quantity }))
}

/// A push button or switch.
fn button(Keys { section, claims, .. }: Keys<'_>) -> Option<SensorKind> {
    let line = wires::line(section, "line", claims);
    let active_low = section.flag("active_low").required();
    Some(SensorKind::Lines(LineSensor::Button { line: line?, active_low: active_low? }))
}

/// The last command sent to a motor.
fn motor_echo(keys: Keys<'_>) -> Option<SensorKind> {
    let motor = keys.section.index("motor", "motor", keys.names.motors)?;
    Some(SensorKind::Computed(ComputedSensor::MotorEcho { motor }))
}

/// The smallest value of other channels.
fn least(keys: Keys<'_>) -> Option<SensorKind> {
    let of = keys.section.indices("of", "sensor before this one", keys.names.earlier)?;
    Some(SensorKind::Computed(ComputedSensor::Least { of }))
}

/// How similar this place is to one where a thing was seen before.
fn recall(Keys { section, names, .. }: Keys<'_>) -> Option<SensorKind> {
    let by = section.index("by", "sensor before this one", names.earlier);
    let below = section.real("below", -LARGEST..=LARGEST).required();
    let ahead_m = section.real("ahead", -10.0..=10.0).or(0.0) as f32;
    Some(SensorKind::Computed(ComputedSensor::Recall { by: by?, below: below? as f32, ahead_m }))
}

/// A column of a log.
fn log_column(Keys { section, name, .. }: Keys<'_>) -> Option<SensorKind> {
    Some(SensorKind::LogColumn { column: section.text("column").or(name.to_string()) })
}
