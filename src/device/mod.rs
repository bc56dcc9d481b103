//! Chips, one a file: registers, conversion, error, a verb with a unit. Knows no frame.

pub mod actuators;
pub mod adc;
pub mod button;
pub mod dc_motor;
mod fault;
pub mod float_register;
pub mod hc_sr04;
pub mod registers;
pub mod robot_hat;
pub mod servo;

pub use fault::DeviceFault;

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
}
