//! What a board asks for, by arithmetic: the share of the I2C bus's time (bits on the wire; real
//! transfers add gaps and system calls) and the field's memory. Both are floors, not measurements.

use super::plan::{Board, SensorPlan};
use crate::device::open::same_chip;
use crate::device::{MotorKind, PwmPlan};
use crate::field::shape::{
    CHANNELS, CONTEXT, DESCRIPTOR, EngineKind, FieldPlan, PATTERN, READOUT_COLUMNS, Storage, regressors,
};
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

/// Bytes that the field's engine takes at its start, by arithmetic: the field on both grids, the pattern library, the
/// experience bank, predictions and read-out. A little more than the engine that a processor computes with says of itself;
/// a GPU takes as much again on the device, and this engine stands by.
pub fn field_bytes(plan: &FieldPlan) -> u64 {
    let shape = &plan.shape;
    let reference = plan.engine == EngineKind::Reference;
    let cell = match plan.storage {
        _ if reference => size_of::<f64>(),
        Storage::F32 => size_of::<f32>(),
        Storage::F16 => size_of::<f32>() / 2 + 1, // two groups of eight stay whole
    };
    let (pattern, number) =
        if reference { (size_of::<f64>(), size_of::<f64>()) } else { (size_of::<i16>(), 5) };
    // Half as many cells along each axis are an eighth more.
    let both = |cells: usize| cells + cells / 8;
    let blended = if reference { PATTERN + 2 } else { 0 };
    let field = cell * both((CHANNELS + blended) * shape.cells());
    let patterns =
        shape.patterns * (pattern * both(PATTERN * shape.cells()) + CONTEXT * size_of::<f64>() + 8);
    let bank = shape.bank * (number * DESCRIPTOR + 32);
    let regressors = regressors(shape.sensors);
    let prediction = size_of::<f64>() * regressors * (regressors + shape.sensors);
    let motor = size_of::<f32>() * shape.motors * READOUT_COLUMNS;
    (field + patterns + bank + prediction + motor + SMALL) as u64
}

/// Vectors, rings and planes that no number of a board makes longer.
const SMALL: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Engine, Shape};

    #[test]
    fn bits_are_those_of_the_bus() {
        // Nine bits a byte (eight and the acknowledge), one for each START, STOP, repeated START.
        assert_eq!(PWM_WRITE_BITS, 4 * 9 + 2);
        assert_eq!(PCA9685_WRITE_BITS, 6 * 9 + 2);
    }

    #[test]
    fn the_estimate_is_what_an_engine_takes_and_a_little_more() {
        let board = crate::board::built_in("sim").unwrap().unwrap().board;
        for (grid, patterns, bank, storage, engine) in [
            (8, 1, 1, Storage::F32, EngineKind::Cpu),
            (8, 300, 10, Storage::F16, EngineKind::Cpu),
            (16, 10, 20_000, Storage::F32, EngineKind::Auto),
            (32, 20, 10, Storage::F16, EngineKind::Cpu),
            (32, 20, 10, Storage::F32, EngineKind::Cpu),
            (16, 40, 5_000, Storage::F32, EngineKind::Reference),
        ] {
            let shape = Shape { grid, patterns, bank, ..board.field.shape };
            let plan = FieldPlan { shape, storage, engine, ..board.field.clone() };
            let (said, taken) = (field_bytes(&plan), Engine::build(&plan).memory_bytes() as u64);
            assert!(taken <= said, "{plan:?}: {taken} bytes, {said} by arithmetic");
            assert!(said <= taken + taken / 3 + (2 << 20), "{plan:?}: {taken} bytes, {said} by arithmetic");
        }
    }
}
