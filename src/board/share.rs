//! What a board asks for, by arithmetic: the share of the I2C bus's time (bits on the wire; real
//! transfers add gaps and system calls) and the field's memory. Both are floors, not measurements.

use super::plan::{Board, BusPlan};
use crate::device::{MotorKind, SensorKind};
use crate::field::shape::{CONTEXT, DESCRIPTOR, PATTERN, READOUT_COLUMNS, Shape};

/// START, four bytes of nine bits (address, register, two of data), STOP.
pub const PWM_WRITE_BITS: u32 = 38;
/// A write of three bytes to select the channel, then two reads of one byte each.
pub const ADC_READ_BITS: u32 = 78;
/// Register number, repeated START, four bytes back.
pub const FLOAT_READ_BITS: u32 = 66;

/// Shares of the bus's time, 0 to 1 and more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusLoad {
    /// Reading sensors.
    pub sensors: f64,
    /// Writing every motor in every control period.
    pub motors: f64,
}

impl BusLoad {
    /// Both.
    pub fn total(&self) -> f64 {
        self.sensors + self.motors
    }
}

/// The load of `board`, or `None` where it has no I2C bus.
pub fn bus_load(board: &Board) -> Option<BusLoad> {
    let speed = match &board.bus {
        BusPlan::Sim(timing) | BusPlan::Linux { timing, .. } => f64::from(timing.speed_hz),
        BusPlan::Log => return None,
    };
    let sensors: f64 =
        board.sensors.iter().map(|sensor| sensor_bits(&sensor.kind) / sensor.period.as_secs_f64()).sum();
    let motors: f64 =
        board.motors.iter().map(|motor| motor_bits(&motor.kind) / board.period.as_secs_f64()).sum();
    Some(BusLoad { sensors: sensors / speed, motors: motors / speed })
}

fn sensor_bits(kind: &SensorKind) -> f64 {
    f64::from(match kind {
        SensorKind::HatAdc { .. } => ADC_READ_BITS,
        SensorKind::FloatRegister { .. } => FLOAT_READ_BITS,
        SensorKind::HcSr04 { .. }
        | SensorKind::Button { .. }
        | SensorKind::MotorEcho { .. }
        | SensorKind::Least { .. }
        | SensorKind::LogColumn { .. } => 0,
    })
}

fn motor_bits(kind: &MotorKind) -> f64 {
    f64::from(match kind {
        MotorKind::DcDir { .. } | MotorKind::Servo { .. } => PWM_WRITE_BITS,
        MotorKind::DcPair { .. } => 2 * PWM_WRITE_BITS,
        MotorKind::Recorded { .. } => 0,
    })
}

/// Bytes that the field's arrays need in f32: two copies of the field, the pattern library, the
/// experience bank, both read-outs. A floor by arithmetic; an engine may keep more.
pub fn field_bytes(shape: &Shape) -> u64 {
    let field = 2 * shape.volume();
    let patterns = shape.patterns * (PATTERN * shape.cells() + CONTEXT);
    let bank = shape.bank * DESCRIPTOR;
    let prediction = shape.sensors * (CONTEXT + shape.sensors + 1);
    let motor = shape.motors * READOUT_COLUMNS;
    (size_of::<f32>() * (field + patterns + bank + prediction + motor)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_bus() {
        // Nine bits a byte (eight and the acknowledge), one for each START, STOP, repeated START.
        assert_eq!(PWM_WRITE_BITS, 4 * 9 + 2);
        assert_eq!(ADC_READ_BITS, (4 * 9 + 2) + 2 * (2 * 9 + 2));
        assert_eq!(FLOAT_READ_BITS, 2 * 9 + 5 * 9 + 3);
    }

    #[test]
    fn the_default_field_is_mostly_patterns_and_bank() {
        let shape = Shape { grid: 32, sensors: 16, motors: 5, patterns: 100, bank: 10_000 };
        let bytes = field_bytes(&shape);
        assert_eq!(bytes, 4 * (4_194_304 + 52_435_200 + 5_120_000 + 1_296 + 10_565));
    }
}
