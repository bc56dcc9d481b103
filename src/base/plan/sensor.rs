//! A channel of the frame: where its value comes from, when it is admitted, and how it enters the field.

use super::{Board, Line};
use crate::base::time::Span;
use std::mem::discriminant;

/// One sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct SensorPlan {
    /// Name, unique on the board.
    pub name: String,
    /// Unit of the value, for display (`m`, `V`, `counts`, `deg`, `1`).
    pub unit: String,
    /// Where the value comes from.
    pub kind: SensorKind,
    /// Index of its I2C bus; 0 if it has none.
    pub bus: usize,
    /// How often it is read.
    pub period: Span,
    /// A value older than this is stale.
    pub max_age: Span,
    /// Values outside this range are refused.
    pub valid: [f32; 2],
    /// A sensor with this many bit-identical readings in a row is frozen; `None`: not checked.
    pub frozen_after: Option<u32>,
    /// How fast the worst case moves away from a value as the value ages, per second (signed); it stops at
    /// the end of `valid` in that direction. Zero: age does not change the worst case.
    pub worst_per_s: f32,
    /// The robot may not drive without it.
    pub required: bool,
    /// How the value enters the field; `None`: it does not.
    pub input: Option<Scale>,
    /// The spot that the sensor looks at: metres ahead of the rear axle, and metres left of the centre line.
    pub looks_at: Option<[f32; 2]>,
    /// Where a ranging sensor is mounted and what it sees, for code that combines several.
    pub beam: Option<BeamPlan>,
}

/// How a ranging sensor is mounted, and what it sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BeamPlan {
    /// Metres ahead of the rear axle, and metres left of the centre line.
    pub at: [f32; 2],
    /// Direction in which it looks: degrees from straight ahead, positive to the left.
    pub bearing_deg: f32,
    /// Half its opening angle, degrees.
    pub half_cone_deg: f32,
    /// Maximum range in metres; a reading of this or more means that the sensor sees nothing.
    pub reach: f32,
}

impl SensorPlan {
    /// The channels that a `least` sensor is computed from; empty for every other kind.
    pub fn members(&self) -> &[usize] {
        if let SensorKind::Computed(ComputedSensor::Least { of }) = &self.kind { of } else { &[] }
    }

    /// How it is attached.
    pub fn attachment(&self) -> Attachment {
        match self.kind {
            SensorKind::Chip(ChipSensor::HatAdc { .. }) => Attachment::Bus(0), // via the controller
            SensorKind::Chip(_) => Attachment::Bus(self.bus),
            SensorKind::File(_) => Attachment::Files,
            SensorKind::Lines(_) => Attachment::Lines,
            SensorKind::Computed(_) | SensorKind::LogColumn { .. } => Attachment::Inside,
        }
    }
}

/// How a sensor is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A chip on the I2C bus with this number.
    Bus(usize),
    /// A file of the kernel.
    Files,
    /// Dedicated GPIO lines.
    Lines,
    /// No wire: computed from other channels, or taken from a log.
    Inside,
}

/// The purpose of a sensor's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineRole {
    /// Output: a pulse begins a measurement.
    Trigger,
    /// Input: the length of its pulse is the measurement.
    Echo,
    /// Input: its level is the measurement.
    Button,
    /// Input: signals that the chip has a fresh sample.
    Ready,
    /// Output: low keeps the chip shut down.
    Shutdown,
}

impl LineRole {
    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            LineRole::Trigger => "trigger",
            LineRole::Echo => "echo",
            LineRole::Button => "button",
            LineRole::Ready => "data-ready",
            LineRole::Shutdown => "shut-down",
        }
    }
}

/// The channels of all sensors of `board` with this attachment, in the board's order. Sensors whose values
/// one device provides form one group.
pub fn chips(board: &Board, attachment: Attachment) -> Vec<Vec<usize>> {
    let mut chips: Vec<Vec<usize>> = Vec::new();
    for (channel, sensor) in
        board.sensors.iter().enumerate().filter(|(_, sensor)| sensor.attachment() == attachment)
    {
        match chips.iter_mut().find(|chip| same_chip(&board.sensors[chip[0]], sensor)) {
            Some(chip) => chip.push(channel),
            None => chips.push(vec![channel]),
        }
    }
    chips
}

/// Whether one device provides both sensors' values: the same kind of chip at the same address of the same
/// bus.
pub fn same_chip(one: &SensorPlan, other: &SensorPlan) -> bool {
    let (SensorKind::Chip(a), SensorKind::Chip(b)) = (&one.kind, &other.kind) else { return false };
    one.bus == other.bus
        && discriminant(a) == discriminant(b)
        && one.kind.i2c_address().is_some_and(|address| other.kind.i2c_address() == Some(address))
        && !matches!(a, ChipSensor::FloatRegister { .. }) // each float is a separate transfer
}

/// Maps a physical value to -1..=1, clamped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Value that becomes -1.
    pub low: f32,
    /// Value that becomes +1.
    pub high: f32,
    /// How values in between are mapped.
    pub curve: Curve,
}

/// Shape of a [`Scale`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// Linear in the value.
    Linear,
    /// Linear in the logarithm: equal ratios are equal steps. Both ends must be positive.
    Log,
}

impl Scale {
    /// `value` on this scale, always within -1..=1.
    pub fn apply(&self, value: f32) -> f32 {
        let share = match self.curve {
            Curve::Linear => (value - self.low) / (self.high - self.low),
            Curve::Log => {
                libm::logf(value.max(f32::MIN_POSITIVE) / self.low) / libm::logf(self.high / self.low)
            }
        };
        (2.0 * share - 1.0).clamp(-1.0, 1.0)
    }

    /// The value whose position on this scale is `on_scale`, -1..=1.
    pub fn value(&self, on_scale: f32) -> f32 {
        let share = (on_scale + 1.0) / 2.0;
        match self.curve {
            Curve::Linear => self.low + share * (self.high - self.low),
            Curve::Log => self.low * libm::powf(self.high / self.low, share),
        }
    }
}

/// Where a sensor's value comes from, grouped by how it reaches the robot. A new kind joins its group; the
/// lists of the other groups do not change.
#[derive(Clone, Debug, PartialEq)]
pub enum SensorKind {
    /// A chip on an I2C bus.
    Chip(ChipSensor),
    /// Dedicated GPIO lines.
    Lines(LineSensor),
    /// A file of the kernel.
    File(FileSensor),
    /// Computed by the robot itself.
    Computed(ComputedSensor),
    /// A column of a log that is being replayed.
    LogColumn {
        /// Heading of the column.
        column: String,
    },
}

/// A sensor that is read over an I2C bus.
#[derive(Clone, Debug, PartialEq)]
pub enum ChipSensor {
    /// A channel of the Robot HAT's converter: counts times `per_count`.
    HatAdc {
        /// A0..A4 as 0..4.
        channel: u8,
        /// Value of one count, in the sensor's unit.
        per_count: f32,
    },
    /// A co-processor that serves a little-endian IEEE-754 float from a register.
    FloatRegister {
        /// 7-bit I2C address.
        address: u8,
        /// Register of the first byte.
        register: u8,
    },
    /// An MPU-6050: one reading provides all the quantities that are needed.
    Mpu6050 {
        /// 7-bit I2C address, 0x68 or 0x69.
        address: u8,
        /// Which of its quantities.
        quantity: ImuQuantity,
        /// Its interrupt output, if wired: a fresh sample is read at once.
        ready: Option<Line>,
    },
    /// A VL53L0X time-of-flight ranger: metres.
    Vl53l0x {
        /// 7-bit I2C address that its set-up assigns (it starts at 0x29 after power-on).
        address: u8,
        /// Its shut-down input (XSHUT, active low), if wired.
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
        /// 0..=3, single-ended.
        channel: u8,
        /// The smallest of the chip's full-scale ranges (0.256, 0.512, 1.024, 2.048, 4.096, 6.144 V) that
        /// covers the signal.
        full_scale_v: f32,
        /// Value of one volt in the sensor's unit.
        per_volt: f32,
    },
}

/// Sensors that are read through their own GPIO lines.
#[derive(Clone, Debug, PartialEq)]
pub enum LineSensor {
    /// HC-SR04 or similar: range in metres from the length of an echo pulse.
    HcSr04 {
        /// Trigger output.
        trig: Line,
        /// Echo input.
        echo: Line,
    },
    /// A push button or switch: 1 pressed, 0 not.
    Button {
        /// Input line.
        line: Line,
        /// Pressing it pulls the line low.
        active_low: bool,
    },
}

/// Values that the machine's kernel reports.
#[derive(Clone, Debug, PartialEq)]
pub enum FileSensor {
    /// A value of the kernel's hardware monitoring (hwmon), found by chip name and label.
    Hwmon {
        /// Content of `name` (`ina3221`, `rpi_volt`).
        chip: String,
        /// A label (`VDD_IN`), or a channel's own name (`in1`, `curr1`, `temp1`, `in0_lcrit_alarm`).
        label: String,
        /// Value of one kernel unit (mV, mA, m degC, or 1 for an alarm) in the sensor's unit.
        per_unit: f32,
    },
    /// The temperature of a thermal zone, found by its type, degrees Celsius.
    Thermal {
        /// Content of `type` (`tj-thermal`, `cpu-thermal`).
        zone: String,
    },
    /// A value that a Jetson's GPU reports in sysfs.
    GpuSysfs {
        /// Which quantity.
        quantity: GpuQuantity,
    },
}

/// Values that the robot computes from other channels and its own commands.
#[derive(Clone, Debug, PartialEq)]
pub enum ComputedSensor {
    /// The last commanded value of a motor, by index in the board's list.
    MotorEcho {
        /// Index of the motor.
        motor: usize,
    },
    /// The minimum of other channels (a sector of sonars).
    Least {
        /// Indices of the channels, all earlier in the list.
        of: Vec<usize>,
    },
    /// How similar the current place is to one where a thing was detected, 0..=1, according to the robot's
    /// own map.
    Recall {
        /// Channel that detects the thing.
        by: usize,
        /// A value below this is a detection.
        below: f32,
        /// How far ahead of the rear axle the thing is when detected, metres; if the channel is in metres,
        /// its value is added.
        ahead_m: f32,
    },
}

/// The name of each kind of sensor in a board file.
#[allow(missing_docs)]
pub mod kind {
    pub const HC_SR04: &str = "hc-sr04";
    pub const HAT_ADC: &str = "hat-adc";
    pub const FLOAT_REGISTER: &str = "float-register";
    pub const MPU6050: &str = "mpu6050";
    pub const VL53L0X: &str = "vl53l0x";
    pub const INA219: &str = "ina219";
    pub const INA226: &str = "ina226";
    pub const ADS1115: &str = "ads1115";
    pub const HWMON: &str = "hwmon";
    pub const THERMAL: &str = "thermal";
    pub const GPU: &str = "gpu";
    pub const BUTTON: &str = "button";
    pub const MOTOR_ECHO: &str = "motor-echo";
    pub const LEAST: &str = "least";
    pub const RECALL: &str = "recall";
    pub const LOG_COLUMN: &str = "log-column";
}

/// Full scale of the Robot HAT's 12-bit converter, counts. A board file states the sensor's value there.
pub const HAT_FULL: u16 = 4095;

/// What a VL53L0X returns if nothing is within its range, and the farthest range that it returns, metres: the
/// distance at which, according to the data sheet, it detects a white target indoors in its default mode.
pub const VL53L0X_FARTHEST_M: f32 = 1.2;

/// The lowest and the highest value that a sensor can return.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rails {
    /// A converter's value at 0 counts.
    pub low: f32,
    /// A converter's value at full scale; of a ranger, "nothing in range".
    pub high: f32,
}

impl Rails {
    /// Whether the sensor clips the signal at `value`. Clipping also removes the noise, so a working sensor
    /// returns equal readings there: over an edge, on a black floor, in the sun, in open space.
    pub fn cut(&self, value: f64) -> bool {
        value <= self.low.into() || value >= self.high.into()
    }
}

impl SensorKind {
    /// The name of its kind in a board file.
    pub fn name(&self) -> &'static str {
        match self {
            SensorKind::Lines(LineSensor::HcSr04 { .. }) => kind::HC_SR04,
            SensorKind::Lines(LineSensor::Button { .. }) => kind::BUTTON,
            SensorKind::Chip(ChipSensor::HatAdc { .. }) => kind::HAT_ADC,
            SensorKind::Chip(ChipSensor::FloatRegister { .. }) => kind::FLOAT_REGISTER,
            SensorKind::Chip(ChipSensor::Mpu6050 { .. }) => kind::MPU6050,
            SensorKind::Chip(ChipSensor::Vl53l0x { .. }) => kind::VL53L0X,
            SensorKind::Chip(ChipSensor::PowerMonitor { chip: PowerChip::Ina219, .. }) => kind::INA219,
            SensorKind::Chip(ChipSensor::PowerMonitor { chip: PowerChip::Ina226, .. }) => kind::INA226,
            SensorKind::Chip(ChipSensor::Ads1115 { .. }) => kind::ADS1115,
            SensorKind::File(FileSensor::Hwmon { .. }) => kind::HWMON,
            SensorKind::File(FileSensor::Thermal { .. }) => kind::THERMAL,
            SensorKind::File(FileSensor::GpuSysfs { .. }) => kind::GPU,
            SensorKind::Computed(ComputedSensor::MotorEcho { .. }) => kind::MOTOR_ECHO,
            SensorKind::Computed(ComputedSensor::Least { .. }) => kind::LEAST,
            SensorKind::Computed(ComputedSensor::Recall { .. }) => kind::RECALL,
            SensorKind::LogColumn { .. } => kind::LOG_COLUMN,
        }
    }

    /// The values that a working sensor may repeat. `None`: there are none, or its driver refuses them.
    pub fn rails(&self) -> Option<Rails> {
        let SensorKind::Chip(chip) = self else { return None };
        match *chip {
            ChipSensor::Vl53l0x { .. } => Some(Rails { low: 0.0, high: VL53L0X_FARTHEST_M }),
            ChipSensor::HatAdc { per_count, .. } => {
                Some(Rails { low: 0.0, high: f32::from(HAT_FULL) * per_count })
            }
            ChipSensor::FloatRegister { .. }
            | ChipSensor::Mpu6050 { .. }
            | ChipSensor::PowerMonitor { .. }
            | ChipSensor::Ads1115 { .. } => None, // readings at zero have noise; full scale is refused
        }
    }

    /// The sensor's own address on its I2C bus, if it has one ([`ChipSensor::HatAdc`] is read through the
    /// microcontroller's address).
    pub fn i2c_address(&self) -> Option<u8> {
        let SensorKind::Chip(chip) = self else { return None };
        match *chip {
            ChipSensor::FloatRegister { address, .. }
            | ChipSensor::Mpu6050 { address, .. }
            | ChipSensor::Vl53l0x { address, .. }
            | ChipSensor::PowerMonitor { address, .. }
            | ChipSensor::Ads1115 { address, .. } => Some(address),
            ChipSensor::HatAdc { .. } => None,
        }
    }

    /// The chip's address after power-on, if that differs from the one that its set-up assigns.
    pub fn wakes_at(&self) -> Option<u8> {
        matches!(self, SensorKind::Chip(ChipSensor::Vl53l0x { .. })).then_some(0x29)
    }

    /// The lines that are wired to it, each with its role.
    pub fn lines(&self) -> heapless::Vec<(Line, LineRole), 2> {
        match *self {
            SensorKind::Lines(LineSensor::HcSr04 { trig, echo }) => {
                [(trig, LineRole::Trigger), (echo, LineRole::Echo)].into_iter().collect()
            }
            SensorKind::Lines(LineSensor::Button { line, .. }) => {
                [(line, LineRole::Button)].into_iter().collect()
            }
            SensorKind::Chip(ChipSensor::Mpu6050 { ready, .. }) => {
                ready.map(|line| (line, LineRole::Ready)).into_iter().collect()
            }
            SensorKind::Chip(ChipSensor::Vl53l0x { shutdown, .. }) => {
                shutdown.map(|line| (line, LineRole::Shutdown)).into_iter().collect()
            }
            SensorKind::Chip(
                ChipSensor::HatAdc { .. }
                | ChipSensor::FloatRegister { .. }
                | ChipSensor::PowerMonitor { .. }
                | ChipSensor::Ads1115 { .. },
            )
            | SensorKind::File(_)
            | SensorKind::Computed(_)
            | SensorKind::LogColumn { .. } => heapless::Vec::new(),
        }
    }

    /// Its line for `role`, if it has one.
    pub fn line(&self, role: LineRole) -> Option<Line> {
        self.lines().into_iter().find_map(|(line, its)| (its == role).then_some(line))
    }
}

/// A quantity of an inertial sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImuQuantity {
    /// Roll to the right, measured from gravity, degrees.
    Roll,
    /// Pitch, nose up, measured from gravity, degrees.
    Pitch,
    /// Acceleration along x (forward), y (left), z (up), m/s^2.
    Acceleration(Axis),
    /// Rotation about x, y, z, degrees per second.
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

/// A quantity of a power monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerQuantity {
    /// Bus voltage, V.
    Volts,
    /// Current through the shunt, A.
    Amperes,
    /// Their product, W.
    Watts,
}

/// A quantity that a Jetson's GPU reports in sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuQuantity {
    /// Load, 0 to 1.
    Load,
    /// Clock, MHz.
    ClockMhz,
}
