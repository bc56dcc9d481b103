//! The readings of a simulated robot's own computer: cool, on a good supply, with an idle GPU. The values
//! never change; there is no model of heat or load behind them.

use crate::base::plan::{FileSensor, GpuQuantity, SensorKind, SensorPlan};

/// Degrees Celsius, well below the point where any board throttles.
const TEMPERATURE_C: f32 = 45.0;
/// Supply voltage of the computers on the shipped boards, V.
const SUPPLY_V: f32 = 5.0;
/// Current that such a computer draws, A.
const SUPPLY_A: f32 = 1.5;
/// The lowest clock of an Orin's GPU, MHz.
const GPU_IDLE_MHZ: f32 = 306.0;

/// The value of a sensor that reads the computer itself, in the sensor's unit. `None`: the computer has no
/// such value, or it is outside the sensor's valid range.
pub fn value(sensor: &SensorPlan) -> Option<f32> {
    let SensorKind::File(file) = &sensor.kind else { return None };
    let value = match file {
        FileSensor::Thermal { .. } => TEMPERATURE_C,
        FileSensor::GpuSysfs { quantity: GpuQuantity::Load } => 0.0,
        FileSensor::GpuSysfs { quantity: GpuQuantity::ClockMhz } => GPU_IDLE_MHZ,
        FileSensor::Hwmon { label, .. } if label.ends_with("_alarm") => 0.0,
        FileSensor::Hwmon { .. } => match sensor.unit.as_str() {
            "V" => SUPPLY_V,
            "A" => SUPPLY_A,
            "W" => SUPPLY_V * SUPPLY_A,
            "degC" => TEMPERATURE_C,
            _ => return None,
        },
    };
    let [low, high] = sensor.valid;
    (low..=high).contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::range;

    fn hwmon(label: &str, unit: &str, valid: [f32; 2]) -> SensorPlan {
        let kind =
            SensorKind::File(FileSensor::Hwmon { chip: "x".into(), label: label.into(), per_unit: 1e-3 });
        SensorPlan { kind, unit: unit.into(), valid, ..range() }
    }

    #[test]
    fn the_simulated_computer_gives_only_plausible_values() {
        assert_eq!(value(&hwmon("VDD_IN", "V", [4.5, 20.5])), Some(5.0));
        assert_eq!(value(&hwmon("VDD_3V3", "V", [3.0, 3.6])), None, "a different supply rail");
        assert_eq!(value(&hwmon("in0_lcrit_alarm", "1", [0.0, 1.0])), Some(0.0));
        assert_eq!(value(&hwmon("fan1", "rpm", [0.0, 9000.0])), None);
        assert_eq!(value(&range()), None);
    }
}
