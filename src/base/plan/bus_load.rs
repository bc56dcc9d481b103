//! The load that a board puts on its I2C buses: the share of time for which bits occupy the wire. The load is
//! computed, not measured, and is a lower bound: real transfers add gaps and system calls.

use super::{Board, MotorKind, PwmPlan, SensorPlan, same_chip};
use crate::base::time::Span;

/// START, four bytes of nine bits (address, register, two of data), STOP.
pub const PWM_WRITE_BITS: u32 = 38;
/// START, six bytes (address, register, two data words of two bytes), STOP.
pub const PCA9685_WRITE_BITS: u32 = 56;

/// Shares of the bus's time; more than 1 is an overload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusLoad {
    /// Reading sensors.
    pub sensors: f64,
    /// Writing every motor in every control period.
    pub motors: f64,
}

impl BusLoad {
    /// Sensors and motors together.
    pub fn total(&self) -> f64 {
        self.sensors + self.motors
    }
}

/// The load of the first I2C bus of `board`, or `None` if it has none.
pub fn bus_load(board: &Board) -> Option<BusLoad> {
    load_of(board, 0)
}

/// The load of I2C bus `bus`, or `None` if there is no such bus. The motors are on the first bus.
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

/// Whether an earlier sensor's reading already includes the value of sensor `at`: one burst reads all
/// quantities of an inertial sensor.
fn read_before(board: &Board, at: usize) -> bool {
    let sensor = &board.sensors[at];
    sensor.kind.reads_whole_chip() && board.sensors[..at].iter().any(|other| same_chip(other, sensor))
}

/// The period at which the chip of `sensor` is read: the shortest of the sensors that share the reading.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_bits_match_the_i2c_protocol() {
        // Nine bits per byte (eight and the acknowledge), and one for each START, STOP and repeated START.
        assert_eq!(PWM_WRITE_BITS, 4 * 9 + 2);
        assert_eq!(PCA9685_WRITE_BITS, 6 * 9 + 2);
    }
}
