//! The chips on the I2C buses of a simulated robot that contain no model of the world, as one enum: bytes in,
//! bytes out. The quantities that they measure are passed with each read.

use super::eye::Eye;
use super::imu::Imu;
use super::power_monitor::PowerMonitor;
use super::ranger::Ranger;
use super::sonar::Condition;
use crate::base::time::Instant;

/// One chip.
#[derive(Clone, Debug)]
pub enum Chip {
    /// An inertial sensor.
    Imu(Imu),
    /// A time-of-flight ranger.
    Ranger(Box<Ranger>),
    /// A power monitor on the battery.
    Monitor(PowerMonitor),
}

/// The quantities that the chips measure, at one moment.
pub struct Surroundings<'a> {
    /// When.
    pub now: Instant,
    /// Voltage of the battery.
    pub volts: f64,
    /// Current out of the battery.
    pub amperes: f64,
    /// What the active fault does to the ranger; [`Condition::Sound`]: nothing.
    pub ranger: Condition,
    /// Distance to the nearest thing that a ranger faces, metres; expensive, so computed only if needed.
    pub distance: &'a dyn Fn(&Eye) -> f64,
}

impl Chip {
    /// Its current address.
    pub fn address(&self) -> u8 {
        match self {
            Chip::Imu(chip) => chip.address(),
            Chip::Ranger(chip) => chip.address(),
            Chip::Monitor(chip) => chip.address(),
        }
    }
    /// Whether it acknowledges `address`.
    pub fn answers(&self, address: u8) -> bool {
        let up = if let Chip::Ranger(chip) = self { chip.is_up() } else { true };
        up && self.address() == address
    }
    /// Loses its supply, and with it everything that was written to it.
    pub fn lose_power(&mut self) {
        match self {
            Chip::Imu(chip) => chip.lose_power(),
            Chip::Ranger(chip) => chip.lose_power(),
            Chip::Monitor(chip) => chip.lose_power(),
        }
    }
    /// Takes bytes written to it.
    pub fn write(&mut self, bytes: &[u8], now: Instant) {
        match self {
            Chip::Imu(chip) => chip.write(bytes),
            Chip::Ranger(chip) => chip.write(bytes, now),
            Chip::Monitor(chip) => chip.write(bytes),
        }
    }
    /// Fills `back` with the bytes that are read from it.
    pub fn read(&mut self, back: &mut [u8], around: &Surroundings<'_>) {
        match self {
            Chip::Imu(chip) => chip.read(back),
            Chip::Ranger(chip) => chip.read(back, around.now, around.ranger, around.distance),
            Chip::Monitor(chip) => chip.read(back, around.volts, around.amperes),
        }
    }
}
