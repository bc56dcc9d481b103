//! What a board asks for, by arithmetic: the share of the I2C bus's time (bits on the wire; real
//! transfers add gaps and system calls) and the field's memory. Both are floors, not measurements.

use super::plan::{Board, SensorPlan};
use crate::device::open::same_chip;
use crate::device::{MotorKind, PwmPlan};
use crate::field::shape::{CONTEXT, DESCRIPTOR, PATTERN, READOUT_COLUMNS, Shape};
use crate::time::Span;

/// START, four bytes of nine bits (address, register, two of data), STOP.
pub const PWM_WRITE_BITS: u32 = 38;
/// START, six bytes (address, register, twice two of data), STOP.
pub const PCA9685_WRITE_BITS: u32 = 56;

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

/// The load of the first I2C bus of `board`, or `None` where it has none.
pub fn bus_load(board: &Board) -> Option<BusLoad> {
    load_of(board, 0)
}

/// The load of I2C bus `bus`, or `None` where there is no such bus. Motors hang on the first.
pub fn load_of(board: &Board, bus: usize) -> Option<BusLoad> {
    let speed = f64::from(board.i2c.get(bus)?.timing.speed_hz);
    let sensors: f64 = board
        .sensors
        .iter()
        .enumerate()
        .filter(|(at, sensor)| sensor.bus == bus && !read_before(board, *at))
        .map(|(_, sensor)| f64::from(sensor.kind.bits_per_poll()) / poll_period(board, sensor).as_secs_f64())
        .sum();
    let motors: f64 = match bus {
        0 => {
            board.motors.iter().map(|motor| motor_bits(board, &motor.kind) / board.period.as_secs_f64()).sum()
        }
        _ => 0.0,
    };
    Some(BusLoad { sensors: sensors / speed, motors: motors / speed })
}

/// Whether an earlier sensor's reading brings the value of sensor `at` along: one burst serves all of an inertial
/// sensor's.
fn read_before(board: &Board, at: usize) -> bool {
    let sensor = &board.sensors[at];
    sensor.kind.reads_whole_chip() && board.sensors[..at].iter().any(|other| same_chip(other, sensor))
}

/// How often its chip is read: as often as the most eager of the sensors that one reading serves asks.
fn poll_period(board: &Board, sensor: &SensorPlan) -> Span {
    let together = board.sensors.iter().filter(|other| same_chip(other, sensor));
    let shared = together.map(|other| other.period).min();
    shared.filter(|_| sensor.kind.reads_whole_chip()).unwrap_or(sensor.period)
}

fn motor_bits(board: &Board, kind: &MotorKind) -> f64 {
    let write = match board.pwm {
        None => PWM_WRITE_BITS,
        Some(PwmPlan::Pca9685 { .. }) => PCA9685_WRITE_BITS,
        Some(PwmPlan::Sysfs { .. }) => 0,
    };
    f64::from(match kind {
        MotorKind::DcDir { .. } | MotorKind::Servo { .. } => write,
        MotorKind::DcPair { .. } => 2 * write,
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
        assert_eq!(PCA9685_WRITE_BITS, 6 * 9 + 2);
    }

    #[test]
    fn the_default_field_is_mostly_patterns_and_bank() {
        let shape = Shape { grid: 32, sensors: 16, motors: 5, patterns: 100, bank: 10_000 };
        let bytes = field_bytes(&shape);
        assert_eq!(bytes, 4 * (4_194_304 + 52_435_200 + 5_120_000 + 1_296 + 10_565));
    }
}
