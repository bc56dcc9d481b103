//! What a board asks for, by arithmetic: the share of the I2C bus's time (bits on the wire; real
//! transfers add gaps and system calls) and the field's memory. Both are floors, not measurements.

use super::plan::{Board, SensorPlan};
use crate::device::open::same_chip;
use crate::device::{MotorKind, PwmPlan};
use crate::field::shape::{
    CHANNELS, CONTEXT, DESCRIPTOR, EngineKind, FieldPlan, GROUP, GROUPS, PATTERN, READOUT_COLUMNS, Storage,
    regressors,
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

/// Bytes that the field's engine takes at its start, by arithmetic: a little more than it says of itself. A GPU takes about
/// as much again on the device, and the processor's engine stands by.
pub fn field_bytes(plan: &FieldPlan) -> u64 {
    let shape = &plan.shape;
    let volume = PATTERN * shape.cells();
    let (field, pattern, row) = match plan.engine {
        // All in f64 but the patterns, and what is blended beside the field.
        EngineKind::Reference => {
            (8 * both((CHANNELS + PATTERN + 2) * shape.cells()), 4 * volume, 8 * DESCRIPTOR)
        }
        // Rows of the bank lie there in f32 and in bytes.
        _ => (cells_and_copies(plan), 2 * both(volume), 5 * DESCRIPTOR),
    };
    let patterns = shape.patterns * (pattern + CONTEXT * size_of::<f64>() + 8);
    let regressors = regressors(shape.sensors);
    let prediction = size_of::<f64>() * regressors * (regressors + shape.sensors);
    let motor = size_of::<f32>() * shape.motors * READOUT_COLUMNS;
    (field + patterns + shape.bank * (row + 32) + prediction + motor + SMALL) as u64
}

/// `cells`, and as many on the grid with half as many along each axis.
const fn both(cells: usize) -> usize {
    cells + cells / 8
}

/// Bytes of the field in single precision or less, of what a step writes it into, and of the room of each job. With more
/// than one thread every group of channels has a copy, and threads that come late have theirs.
fn cells_and_copies(plan: &FieldPlan) -> usize {
    let (cells, grid) = (plan.shape.cells(), plan.shape.grid);
    let spares = 2 * (plan.threads.clamp(1, GROUPS) - 1);
    // Groups in f32 and in halves, and copies of each.
    let (full, half) = if plan.storage == Storage::F16 { (2, 6) } else { (GROUPS, 0) };
    let copies = |groups: usize| match groups {
        0 => 0,
        _ if spares > 0 => groups + 2 * spares,
        _ => 1,
    };
    let groups = 4 * (full + copies(full)) + 2 * (half + copies(half));
    let jobs = if spares > 0 { GROUPS + spares } else { 1 };
    let room = 10 * cells + 16 * grid * grid + 4 * plan.shape.sensors * grid + plan.shape.bank;
    groups * both(GROUP * cells) + jobs * room
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
        for (grid, patterns, bank, storage, engine, threads) in [
            (8, 1, 1, Storage::F32, EngineKind::Cpu, 1),
            (8, 300, 10, Storage::F16, EngineKind::Cpu, 2),
            (16, 10, 20_000, Storage::F32, EngineKind::Auto, 1),
            (32, 20, 10, Storage::F16, EngineKind::Cpu, 1),
            (32, 20, 10, Storage::F32, EngineKind::Cpu, 1),
            (32, 1, 10, Storage::F32, EngineKind::Cpu, 2),
            (32, 1, 10, Storage::F16, EngineKind::Cpu, 4),
            (16, 40, 5_000, Storage::F32, EngineKind::Reference, 1),
        ] {
            let shape = Shape { grid, patterns, bank, ..board.field.shape };
            let plan = FieldPlan { shape, storage, engine, threads, ..board.field.clone() };
            let (said, taken) = (field_bytes(&plan), Engine::build(&plan).memory_bytes() as u64);
            assert!(taken <= said, "{shape:?}, {threads}: {taken} bytes, {said} by arithmetic");
            assert!(
                said <= taken + taken / 3 + (2 << 20),
                "{shape:?}, {threads}: {taken} bytes, {said} by arithmetic"
            );
        }
    }
}
