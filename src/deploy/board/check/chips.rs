//! Sensors that sit in a chip on an I2C bus, or in the computer itself: which chip, which of its values, how
//! it is wired.

use super::claims::{Claims, Shares, Thing, VL53L0X};
use super::wires::{self, Wiring, optional_line};
use crate::base::plan::{
    Axis, ChipSensor, FileSensor, GpuQuantity, ImuQuantity, PowerChip, PowerQuantity, SensorKind,
};
use crate::deploy::board::reader::Section;

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

/// The bus that `section` names, by default the first; `None` if the name is faulty.
pub fn bus(section: &Section<'_>, wiring: &Wiring<'_>, claims: &Claims) -> Option<usize> {
    if wiring.bus.is_none() {
        let _ = section.text("bus").optional(); // the buses are not known
        return None;
    }
    match section.name_among("bus", "I2C bus", &claims.buses).if_written()? {
        None => Some(0),
        Some(name) => claims.buses.iter().position(|known| *known == name),
    }
}

/// A co-processor that serves floats.
pub fn float_register(section: &Section<'_>, bus: Option<usize>, claims: &mut Claims) -> Option<SensorKind> {
    let address = wires::address(section, "address");
    let register = section.integer("register", 0..=252).required(); // its last byte is 255
    if let (Some(bus), Some(address), Some(register)) = (bus, address, register) {
        claims.take(Thing::Registers(bus, address, register as u8), section.path("address"));
    }
    Some(SensorKind::Chip(ChipSensor::FloatRegister { address: address?, register: register? as u8 }))
}

/// An inertial sensor.
pub fn mpu6050(section: &Section<'_>, bus: Option<usize>, claims: &mut Claims) -> Option<SensorKind> {
    let address = section.integer("address", 0x68..=0x69).required();
    let quantity = section.choice("quantity", "quantity", &IMU_QUANTITIES).required();
    let ready = section.line("ready").if_written();
    let (bus, address, (value, quantity), ready) = (bus?, address? as u8, quantity?, ready?);
    let alike = Some(("ready", ready.as_ref().map_or("none".to_string(), |word| word.show())));
    let ready = match ready {
        Some(word) => Some(claims.line(word, section, "ready")?),
        None => None,
    };
    let shares = Shares { kind: "mpu6050", bus, address, alike, value: value.to_string() };
    if claims.share(shares, section)
        && let Some(line) = ready
    {
        claims.take(Thing::Line(line), section.path("ready"));
    }
    Some(SensorKind::Chip(ChipSensor::Mpu6050 { address, quantity, ready }))
}

/// A time-of-flight ranger.
pub fn vl53l0x(section: &Section<'_>, bus: Option<usize>, claims: &mut Claims) -> Option<SensorKind> {
    let address =
        section.integer("address", crate::deploy::board::spelling::ADDRESSES).or(i64::from(VL53L0X)) as u8;
    let shutdown = optional_line(section, "shutdown", claims)?;
    claims.take_ranger(bus?, address, shutdown.is_some(), section);
    Some(SensorKind::Chip(ChipSensor::Vl53l0x { address, shutdown }))
}

/// A power monitor.
pub fn power(
    section: &Section<'_>,
    kind: &'static str,
    chip: PowerChip,
    bus: Option<usize>,
    claims: &mut Claims,
) -> Option<SensorKind> {
    let address = section.integer("address", 0x40..=0x4F).required();
    // From the busbar of a large drive to the resistor of a charging board.
    let shunt = section.real("shunt_ohms", 1e-5..=10.0).required();
    let quantity = section.choice("quantity", "quantity", &POWER_QUANTITIES).required();
    let (bus, address, shunt, (value, quantity)) = (bus?, address? as u8, shunt?, quantity?);
    let alike = Some(("shunt_ohms", shunt.to_string()));
    claims.share(Shares { kind, bus, address, alike, value: value.to_string() }, section);
    Some(SensorKind::Chip(ChipSensor::PowerMonitor { chip, address, shunt_ohms: shunt as f32, quantity }))
}

/// A channel of a converter.
pub fn ads1115(section: &Section<'_>, bus: Option<usize>, claims: &mut Claims) -> Option<SensorKind> {
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
        Shares { kind: "ads1115", bus, address, alike: None, value: format!("channel {channel}") },
        section,
    );
    let (full_scale_v, per_volt) = (full_scale as f32, per_volt as f32);
    Some(SensorKind::Chip(ChipSensor::Ads1115 { address, channel, full_scale_v, per_volt }))
}

/// A value of the kernel's hardware monitor.
pub fn hwmon(section: &Section<'_>) -> Option<SensorKind> {
    let chip = section.text("chip").required();
    let label = section.text("label").required();
    let per_unit = section.real("per_unit", 1e-9..=1e6).required();
    for (key, name) in [("chip", &chip), ("label", &label)] {
        // The names become parts of paths.
        if name.as_ref().is_some_and(|name| name.contains('/') || name.contains("..")) {
            section.misfit(key, "expected: a name, not a path".to_string());
        }
    }
    Some(SensorKind::File(FileSensor::Hwmon { chip: chip?, label: label?, per_unit: per_unit? as f32 }))
}

/// What a GPU reports in sysfs.
pub fn gpu(section: &Section<'_>) -> Option<SensorKind> {
    let (_, quantity) = section.choice("quantity", "quantity", &GPU_QUANTITIES).required()?;
    Some(SensorKind::File(FileSensor::GpuSysfs { quantity }))
}
