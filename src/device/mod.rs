//! Chips, one a file: registers, conversion, error, a verb with a unit. Knows no frame.

pub mod actuators;
pub mod adapter;
pub mod adc;
pub mod ads1115;
#[cfg(test)]
pub(crate) mod bench;
pub mod button;
pub mod dc_motor;
pub mod enable;
mod fault;
pub mod float_register;
pub mod gpu_sysfs;
pub mod hat_pulses;
pub mod hc_sr04;
pub mod hwmon;
pub mod ina219;
pub mod ina226;
mod journal;
pub mod mpu6050;
pub mod open;
pub mod pca9685;
mod polled;
mod power;
pub mod pulses;
pub mod pwm_lines;
pub mod registers;
pub mod robot_hat;
pub mod servo;
pub(crate) mod sysfs;
pub mod thermal;
pub mod vl53l0x;

pub use fault::DeviceFault;
pub use journal::{Journal, SetUp};
pub use polled::{Polled, Ports, Say};

use crate::bus::Line;

/// The Robot HAT's microcontroller, as the board file describes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct McuPlan {
    /// 7-bit I2C address.
    pub address: u8,
    /// Clock of its PWM timers in Hz.
    pub clock_hz: u32,
    /// PWM timers that this revision has (4 on v4, 7 on v5).
    pub timers: u8,
    /// Active-low reset line.
    pub reset: Line,
}

/// Where a sensor's value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum SensorKind {
    /// HC-SR04 or alike: range in metres from the length of an echo pulse.
    HcSr04 {
        /// Trigger output.
        trig: Line,
        /// Echo input.
        echo: Line,
    },
    /// A channel of the Robot HAT's converter: counts times `per_count`.
    HatAdc {
        /// A0..A4 as 0..4.
        channel: u8,
        /// Value of one count in the sensor's unit.
        per_count: f32,
    },
    /// A co-processor that serves a little-endian IEEE-754 float from a register.
    FloatRegister {
        /// 7-bit I2C address.
        address: u8,
        /// Register of the first byte.
        register: u8,
    },
    /// An MPU-6050: one reading gives all of its quantities that are wanted.
    Mpu6050 {
        /// 7-bit I2C address, 0x68 or 0x69.
        address: u8,
        /// Which of its quantities.
        quantity: ImuQuantity,
        /// Its interrupt output, where it is wired: a fresh sample is read at once.
        ready: Option<Line>,
    },
    /// A VL53L0X time-of-flight ranger: metres.
    Vl53l0x {
        /// 7-bit I2C address that it is given (0x29 is its own after power-on).
        address: u8,
        /// Its shut-down input (XSHUT, active low), where it is wired.
        shutdown: Option<Line>,
    },
    /// A power monitor.
    PowerMonitor {
        /// Which chip.
        chip: PowerChip,
        /// 7-bit I2C address.
        address: u8,
        /// Shunt in ohms.
        shunt_ohms: f32,
        /// Which of its quantities.
        quantity: PowerQuantity,
    },
    /// A channel of an ADS1115 converter: volts times `per_volt`.
    Ads1115 {
        /// 7-bit I2C address, 0x48..0x4B.
        address: u8,
        /// 0..=3, each against ground.
        channel: u8,
        /// The smallest of the chip's ranges (0.256, 0.512, 1.024, 2.048, 4.096, 6.144 V) that holds the signal.
        full_scale_v: f32,
        /// Value of one volt in the sensor's unit.
        per_volt: f32,
    },
    /// A value of the kernel's hardware monitor, found by chip name and label.
    Hwmon {
        /// Content of `name` (`ina3221`, `rpi_volt`).
        chip: String,
        /// A label (`VDD_IN`), or a channel's own name (`in1`, `curr1`, `temp1`, `in0_lcrit_alarm`).
        label: String,
        /// What one of the kernel's units (mV, mA, m degC, or 1 for an alarm) is in the sensor's.
        per_unit: f32,
    },
    /// A thermal zone by its type, degrees Celsius.
    Thermal {
        /// Content of `type` (`tj-thermal`, `cpu-thermal`).
        zone: String,
    },
    /// How much the present place is like where a thing was met, 0..=1, by the robot's own map.
    Recall {
        /// Channel by which the thing is met.
        by: usize,
        /// It is met below this value.
        below: f32,
        /// How far ahead of the rear axle it is then, metres; a value in metres adds to that.
        ahead_m: f32,
    },
    /// What the GPU of a Jetson tells in sysfs.
    GpuSysfs {
        /// Which figure.
        quantity: GpuQuantity,
    },
    /// A push button or switch: 1 pressed, 0 not.
    Button {
        /// Input line.
        line: Line,
        /// Pressed pulls the line low.
        active_low: bool,
    },
    /// The last commanded value of a motor, by index in the board's list.
    MotorEcho {
        /// Index of the motor.
        motor: usize,
    },
    /// The smallest of other channels (a sector of sonars).
    Least {
        /// Indices of the channels, all earlier in the list.
        of: Vec<usize>,
    },
    /// A column of a log that is being replayed.
    LogColumn {
        /// Heading of the column.
        column: String,
    },
}

impl SensorKind {
    /// The address behind which the sensor sits on its I2C bus, if it sits on one ([`SensorKind::HatAdc`]
    /// sits behind the microcontroller's).
    pub fn i2c_address(&self) -> Option<u8> {
        match *self {
            SensorKind::FloatRegister { address, .. }
            | SensorKind::Mpu6050 { address, .. }
            | SensorKind::Vl53l0x { address, .. }
            | SensorKind::PowerMonitor { address, .. }
            | SensorKind::Ads1115 { address, .. } => Some(address),
            _ => None,
        }
    }
}

/// What an inertial sensor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImuQuantity {
    /// Lean to the right of the vertical from gravity, degrees.
    Roll,
    /// Nose up from gravity, degrees.
    Pitch,
    /// Acceleration along x (forward), y (left), z (up), m/s^2.
    Acceleration(Axis),
    /// Rotation about x, y, z, degrees a second.
    Rotation(Axis),
    /// Temperature of the die, degrees Celsius.
    Temperature,
}

/// An axis of the robot: x forward, y left, z up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Axis {
    X,
    Y,
    Z,
}

/// A power monitor chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PowerChip {
    Ina219,
    Ina226,
}

/// What a power monitor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerQuantity {
    /// Bus voltage, V.
    Volts,
    /// Current through the shunt, A.
    Amperes,
    /// Their product, W.
    Watts,
}

/// What a Jetson's GPU tells in sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuQuantity {
    /// Load, 0 to 1.
    Load,
    /// Clock, MHz.
    ClockMhz,
}

/// What makes the pulses for the motors where there is no Robot HAT.
#[derive(Clone, Debug, PartialEq)]
pub enum PwmPlan {
    /// A PCA9685: 16 channels, one frequency for all.
    Pca9685 {
        /// 7-bit I2C address on the first bus.
        address: u8,
        /// Frequency of all channels in Hz, 24..=1526.
        hz: f32,
        /// Its output-enable input (active low), where it is wired: high at start and on a stop.
        output_enable: Option<Line>,
    },
    /// The computer's own PWM, in sysfs; channels are numbers of the chip.
    Sysfs {
        /// A part of the name of the chip's device (`1f00098000.pwm`): chip numbers move.
        device: String,
        /// Frequency of drive motors' channels in Hz (servos always run at 50).
        hz: f32,
    },
}

/// How a motor is driven.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MotorKind {
    /// One PWM and one direction line (Robot HAT v4, TC1508S).
    DcDir {
        /// PWM channel.
        pwm: u8,
        /// Direction line.
        dir: Line,
        /// The motor is mounted mirrored: forward is direction high instead of low.
        mirrored: bool,
        /// Smallest duty that turns the motor (0..1): wishes above zero map to this..1.
        min_duty: f32,
    },
    /// Two PWMs, one a direction (Robot HAT v5, TC618S).
    DcPair {
        /// PWM channel that drives forward.
        forward: u8,
        /// PWM channel that drives backward.
        backward: u8,
        /// Smallest duty that turns the motor (0..1).
        min_duty: f32,
    },
    /// A hobby servo, 500..2500 us over 180 degrees at 50 Hz.
    Servo {
        /// PWM channel.
        pwm: u8,
        /// Angle at command -1.
        min_deg: f32,
        /// Angle at command +1.
        max_deg: f32,
        /// Trim added to (or for a mirrored servo subtracted from) the angle.
        offset_deg: f32,
        /// The servo turns the other way.
        mirrored: bool,
    },
    /// No hardware: the command is recorded (logs, batch boards).
    Recorded {
        /// Whether reflexes treat it as a drive motor.
        drive: bool,
    },
}

impl MotorKind {
    /// Whether this motor moves the robot (a reflex may forbid it), rather than aim something.
    pub fn drives(&self) -> bool {
        match self {
            MotorKind::DcDir { .. } | MotorKind::DcPair { .. } => true,
            MotorKind::Servo { .. } => false,
            MotorKind::Recorded { drive } => *drive,
        }
    }

    /// Whether the sign of its command is a direction of travel. Not so for a recorded motor, which may be a turn rate.
    pub fn travels(&self) -> bool {
        matches!(self, MotorKind::DcDir { .. } | MotorKind::DcPair { .. })
    }
}
