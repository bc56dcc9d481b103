//! Motors: what generates their pulses, the line that enables them, and what their commands mean.

use super::{Board, Line};
use crate::base::command::MAX_MOTORS;
use crate::base::time::Span;

/// One motor.
#[derive(Clone, Debug, PartialEq)]
pub struct MotorPlan {
    /// Name, unique on the board.
    pub name: String,
    /// How it is driven.
    pub kind: MotorKind,
    /// Largest |command| that is ever written (0..=1).
    pub limit: f32,
    /// Fastest change of the command, in full scales per second. Stopping is never slowed down.
    pub slew_per_s: f32,
}

/// The line that enables the motor current. While the line is off, the motors are stopped, whatever is
/// written to their controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnablePlan {
    /// The line. A resistor on the board must pull the line to its off level, so that the line goes off when
    /// the process that drives it dies.
    pub line: Line,
    /// Level that lets the motors run.
    pub on_high: bool,
}

/// How commands move the robot, for dead reckoning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MotionPlan {
    /// Speed at full command, metres per second.
    pub full_speed: f32,
    /// Distance between the axles, metres.
    pub wheelbase: f32,
    /// Time constant with which the speed follows the command.
    pub lag: Span,
    /// Distance between the front wheels, metres; only reports need it.
    pub track: Option<f32>,
    /// Length and width of the body in metres; the body is centred between the axles.
    pub body: Option<[f32; 2]>,
    /// The sensor that measures how fast the robot turns; `None`: its commands tell.
    pub turning: Option<TurnSensor>,
}

/// A sensor that measures how fast the robot turns, degrees a second, positive to the left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TurnSensor {
    /// Its channel in the frame.
    pub channel: usize,
    /// How many degrees it measures for each degree of a turn.
    pub scale: f32,
}

/// How the robot backs off from an edge or an obstacle, and turns afterwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackingPlan {
    /// Angle by which the robot turns to one side after backing off, radians.
    pub turn_rad: f32,
    /// A turn that takes longer than this is given up.
    pub turn_time: Span,
    /// When an obstacle ahead goes out of sight, the robot turns this many radians further, because the
    /// obstacle may now be beside the robot.
    pub pass_rad: f32,
    /// If an obstacle was nearer than this when it went out of sight, metres, the robot does not steer
    /// towards it until it has passed the obstacle. 0: it remembers neither obstacles nor edges.
    pub pass_m: f32,
    /// Smallest magnitude of the drive command during such turns, and while the robot backs off before one,
    /// 0..=1.
    pub floor: f32,
    /// Length of the path that the robot remembers, metres.
    pub trail_m: f32,
    /// Length of the stretch behind the robot that is free when the robot is armed, metres; the person who
    /// arms it guarantees that.
    pub start_m: f32,
}

/// How a car without an order steers by what its navigator remembers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WanderPlan {
    /// The car leaves an arc on which an obstacle is remembered within this distance, metres.
    pub clear_m: f32,
    /// How much the car prefers ground that it has not driven over for long, where it would drive nearly
    /// straight: how far it leaves the wanted arc for such ground, as a share of the sharpest curvature; 0:
    /// not at all. A negative value prefers ground that it knows; for comparison.
    pub new_ground: f32,
}

/// A label and its motor vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The label, as written in a log.
    pub label: String,
    /// Motor commands, -1..=1.
    pub motors: heapless::Vec<f32, MAX_MOTORS>,
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
        /// The motor is mounted mirrored: the direction line is high for forward instead of low.
        mirrored: bool,
        /// Smallest duty cycle that turns the motor (0..1): requests above zero map to the range from this
        /// to 1.
        min_duty: f32,
    },
    /// Two PWMs, one per direction (Robot HAT v5, TC618S).
    DcPair {
        /// PWM channel that drives forward.
        forward: u8,
        /// PWM channel that drives backward.
        backward: u8,
        /// Smallest duty cycle that turns the motor (0..1).
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
        /// The servo turns in the opposite direction.
        mirrored: bool,
    },
    /// No hardware: the command is recorded (logs, batch boards).
    Recorded {
        /// Whether reflexes treat it as a drive motor.
        drive: bool,
    },
}

impl MotorKind {
    /// Whether this motor moves the robot (which a reflex may forbid) rather than aiming something.
    pub fn drives(&self) -> bool {
        match self {
            MotorKind::DcDir { .. } | MotorKind::DcPair { .. } => true,
            MotorKind::Servo { .. } => false,
            MotorKind::Recorded { drive } => *drive,
        }
    }

    /// The line that reverses its direction, if it has one.
    pub fn direction(&self) -> Option<Line> {
        match *self {
            MotorKind::DcDir { dir, .. } => Some(dir),
            MotorKind::DcPair { .. } | MotorKind::Servo { .. } | MotorKind::Recorded { .. } => None,
        }
    }

    /// Whether the sign of its command is a direction of travel. Not for a recorded motor, whose command
    /// may be a turn rate.
    pub fn travels(&self) -> bool {
        matches!(self, MotorKind::DcDir { .. } | MotorKind::DcPair { .. })
    }
}

/// The Robot HAT's microcontroller, as the board file describes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct McuPlan {
    /// 7-bit I2C address: the first one in the board file, until it is known which one answers.
    pub address: u8,
    /// Further addresses in the board file, in the order in which they are tried.
    pub others: [Option<u8>; McuPlan::OTHERS],
    /// Clock of its PWM timers in Hz.
    pub clock_hz: u32,
    /// PWM timers that this revision has (4 on v4, 7 on v5).
    pub timers: u8,
    /// Active-low reset line.
    pub reset: Line,
}

impl McuPlan {
    /// Maximum number of further addresses; the vendor's library tries three in all for pulses.
    pub const OTHERS: usize = 3;

    /// Every address at which the microcontroller may answer, in the order in which they are tried.
    pub fn addresses(&self) -> impl Iterator<Item = u8> {
        std::iter::once(self.address).chain(self.others.into_iter().flatten())
    }
}

/// A line that stops the motors, whatever happens on their bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopLine {
    /// The line.
    pub line: Line,
    /// The level that stops them.
    pub off_high: bool,
}

impl Board {
    /// Every line that stops the motors. If there is none, the motors keep running while their bus hangs.
    pub fn stop_lines(&self) -> Vec<StopLine> {
        let stop = |line, off_high| StopLine { line, off_high };
        let reset = self.mcu.as_ref().map(|mcu| stop(mcu.reset, false));
        let enable = self.enable.as_ref().map(|enable| stop(enable.line, !enable.on_high));
        let output_enable = self.pwm.as_ref().and_then(PwmPlan::output_enable); // active low
        let output_enable = output_enable.map(|line| stop(line, true));
        [reset, enable, output_enable].into_iter().flatten().collect()
    }
}

/// The generator of the motors' pulses if there is no Robot HAT.
#[derive(Clone, Debug, PartialEq)]
pub enum PwmPlan {
    /// A PCA9685: 16 channels, one frequency for all.
    Pca9685 {
        /// 7-bit I2C address on the first bus.
        address: u8,
        /// Frequency of all channels in Hz, 24..=1526.
        hz: f32,
        /// Its output-enable input (active low), if wired: driven high at start and on a stop.
        output_enable: Option<Line>,
    },
    /// The computer's own PWM, through sysfs; channels are numbered as on the PWM chip.
    Sysfs {
        /// Part of the chip's device name (`1f00098000.pwm`), because chip numbers differ between kernels.
        device: String,
        /// PWM frequency of the drive motors' channels in Hz (servos always run at 50 Hz).
        hz: f32,
    },
}

impl PwmPlan {
    /// The line that enables the outputs while it is low, if wired.
    pub fn output_enable(&self) -> Option<Line> {
        match *self {
            PwmPlan::Pca9685 { output_enable, .. } => output_enable,
            PwmPlan::Sysfs { .. } => None,
        }
    }
}
