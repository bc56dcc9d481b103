//! What each pin and channel of the simulated car does, seen from the vehicle. The simulated car is always
//! wired as its board file says, so a wrong file only shows up on the real car.

use super::outputs::Outputs;
use crate::base::command::MAX_MOTORS;
use crate::base::plan::{Board, ChipSensor, Line, LineRole, LineSensor, MotorKind, PwmPlan, SensorKind};

/// What a GPIO line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Resets the microcontroller when low.
    Reset,
    /// Direction of a motor.
    Direction,
    /// Trigger of sonar number n.
    Trig(usize),
    /// Echo of sonar number n.
    Echo(usize),
    /// A button.
    Button {
        /// Pressing it pulls the line low.
        active_low: bool,
    },
    /// Pulses for each sample of this inertial sensor.
    Ready {
        /// Its bus.
        bus: usize,
        /// Its address.
        address: u8,
    },
    /// Keeps ranger number n shut down while it is low.
    Shutdown(usize),
    /// Enables the current of the motors.
    Enable {
        /// Enables it when high; otherwise when low.
        on_high: bool,
    },
}

/// A line, and its level if it is an output.
#[derive(Clone, Copy, Debug)]
struct Wire {
    line: Line,
    role: Role,
    high: bool,
}

#[derive(Clone, Copy, Debug)]
enum Bridge {
    Dir { pwm: u8, dir: Line, mirrored: bool },
    Pair { forward: u8, backward: u8 },
}

#[derive(Clone, Copy, Debug)]
struct Drive {
    bridge: Bridge,
    min_duty: f64,
    side: Option<Side>,
}

/// Where a wheel is, by its motor's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn of(name: &str) -> Option<Side> {
        match (name.contains("left"), name.contains("right")) {
            (true, false) => Some(Side::Left),
            (false, true) => Some(Side::Right),
            _ => None,
        }
    }
}

/// A servo on the front axle, and how it was mounted and trimmed.
#[derive(Clone, Copy, Debug)]
struct Steering {
    pwm: u8,
    offset_deg: f64,
    mirrored: bool,
}

impl Steering {
    fn of(kind: &MotorKind) -> Option<Steering> {
        let MotorKind::Servo { pwm, offset_deg, mirrored, .. } = *kind else { return None };
        Some(Steering { pwm, offset_deg: offset_deg.into(), mirrored })
    }
}

/// The wires of one board.
#[derive(Clone, Debug)]
pub struct Wiring {
    wires: Vec<Wire>,
    drives: Vec<Drive>,
    steering: Option<Steering>,
}

impl Wiring {
    /// The wires that `board` names. The servo called `steering`, or else the first servo, turns the front
    /// wheels; other servos move nothing that is simulated. Without any servo, the motors whose names contain
    /// `left` and `right` turn the car by their speed difference.
    pub fn new(board: &Board) -> Wiring {
        let mut wiring = Wiring { wires: Vec::new(), drives: Vec::new(), steering: None };
        if let Some(mcu) = &board.mcu {
            wiring.add(mcu.reset, Role::Reset, true);
        }
        if let Some(enable) = board.enable {
            wiring.add(enable.line, Role::Enable { on_high: enable.on_high }, !enable.on_high);
        }
        if let Some(line) = board.pwm.as_ref().and_then(PwmPlan::output_enable) {
            wiring.add(line, Role::Enable { on_high: false }, true); // active low, pulled up
        }
        wiring.add_sensors(board);
        for motor in &board.motors {
            let side = Side::of(&motor.name);
            match motor.kind {
                MotorKind::DcDir { pwm, dir, mirrored, min_duty } => {
                    wiring.add(dir, Role::Direction, false);
                    let bridge = Bridge::Dir { pwm, dir, mirrored };
                    wiring.drives.push(Drive { bridge, min_duty: min_duty.into(), side });
                }
                MotorKind::DcPair { forward, backward, min_duty } => {
                    let bridge = Bridge::Pair { forward, backward };
                    wiring.drives.push(Drive { bridge, min_duty: min_duty.into(), side });
                }
                MotorKind::Servo { .. } | MotorKind::Recorded { .. } => {}
            }
        }
        let named = board.motors.iter().filter(|motor| motor.name == "steering");
        wiring.steering = named.chain(&board.motors).find_map(|motor| Steering::of(&motor.kind));
        wiring
    }

    fn add_sensors(&mut self, board: &Board) {
        let (mut sonars, mut rangers) = (0, 0);
        for sensor in &board.sensors {
            let released =
                matches!(sensor.kind, SensorKind::Lines(LineSensor::Button { active_low: true, .. }));
            for (line, role) in sensor.kind.lines() {
                match role {
                    LineRole::Trigger => self.add(line, Role::Trig(sonars), false),
                    LineRole::Echo => self.add(line, Role::Echo(sonars), false),
                    LineRole::Button => self.add(line, Role::Button { active_low: released }, released),
                    LineRole::Ready => {
                        let address = sensor.kind.i2c_address().unwrap_or_default(); // such a chip has one
                        self.add(line, Role::Ready { bus: sensor.bus, address }, false);
                    }
                    LineRole::Shutdown => self.add(line, Role::Shutdown(rangers), true),
                }
            }
            sonars += usize::from(matches!(sensor.kind, SensorKind::Lines(LineSensor::HcSr04 { .. })));
            rangers += usize::from(matches!(sensor.kind, SensorKind::Chip(ChipSensor::Vl53l0x { .. })));
        }
    }

    fn add(&mut self, line: Line, role: Role, high: bool) {
        self.wires.push(Wire { line, role, high });
    }

    /// What `line` does, if it is used.
    pub fn role(&self, line: Line) -> Option<Role> {
        self.wires.iter().find(|wire| wire.line == line).map(|wire| wire.role)
    }
    /// The echo lines of the sonars.
    pub fn echoes(&self) -> impl Iterator<Item = Line> {
        self.wires.iter().filter(|wire| matches!(wire.role, Role::Echo(_))).map(|wire| wire.line)
    }
    /// The level that an output was last driven to.
    pub fn is_high(&self, line: Line) -> bool {
        self.wires.iter().any(|wire| wire.line == line && wire.high)
    }
    /// Drives an output.
    pub fn set(&mut self, line: Line, high: bool) {
        self.wires.iter_mut().filter(|wire| wire.line == line).for_each(|wire| wire.high = high);
    }

    /// Whether every enable line is at the level that lets the motors have current.
    pub fn has_current(&self) -> bool {
        let off = |wire: &Wire| matches!(wire.role, Role::Enable { on_high } if on_high != wire.high);
        !self.wires.iter().any(off)
    }

    /// Mean drive of the drive motors, -1..=1. The model is a bicycle, which has one rear wheel.
    pub fn drive(&self, pins: &dyn Outputs) -> f64 {
        let sum: f64 = self.drives.iter().map(|drive| self.turn(drive, pins)).sum();
        if self.drives.is_empty() { 0.0 } else { sum / self.drives.len() as f64 }
    }

    /// Mean drive of the wheels on the left and of those on the right, -1..=1; `None`: a servo steers, or a
    /// side has no wheel.
    pub fn wheels(&self, pins: &dyn Outputs) -> Option<[f64; 2]> {
        if !self.turns_by_its_wheels() {
            return None;
        }
        Some([Side::Left, Side::Right].map(|side| {
            let on_it = self.drives.iter().filter(|drive| drive.side == Some(side));
            let (sum, count) =
                on_it.fold((0.0, 0.0), |(sum, count), drive| (sum + self.turn(drive, pins), count + 1.0));
            sum / count
        }))
    }

    /// Whether the speed difference of its wheels turns the car: it has no servo, and each side has a wheel.
    pub fn turns_by_its_wheels(&self) -> bool {
        let has = |side| self.drives.iter().any(|drive| drive.side == Some(side));
        self.steering.is_none() && has(Side::Left) && has(Side::Right)
    }

    /// Whether a servo turns the front wheels.
    pub fn has_steering(&self) -> bool {
        self.steering.is_some()
    }

    /// The current of each drive motor, in the board's order, as a signed duty cycle: -1..=1, forwards
    /// positive.
    pub fn currents(&self, pins: &dyn Outputs) -> heapless::Vec<f32, MAX_MOTORS> {
        self.drives.iter().map(|drive| self.signed(drive, pins) as f32).collect() // at most MAX_MOTORS
    }

    fn signed(&self, drive: &Drive, pins: &dyn Outputs) -> f64 {
        match drive.bridge {
            Bridge::Dir { pwm, dir, mirrored } => {
                let ahead = self.is_high(dir) == mirrored;
                if ahead { pins.duty(pwm) } else { -pins.duty(pwm) }
            }
            // While both inputs are high, the bridge brakes, so only the difference drives the motor.
            Bridge::Pair { forward, backward } => pins.duty(forward) - pins.duty(backward),
        }
    }

    /// Drive of one motor. Below its minimum duty it does not turn; above that the model is linear.
    fn turn(&self, drive: &Drive, pins: &dyn Outputs) -> f64 {
        let signed = self.signed(drive, pins);
        let useful = ((signed.abs() - drive.min_duty) / (1.0 - drive.min_duty)).max(0.0);
        if useful.is_finite() { useful.copysign(signed) } else { signed }
    }

    /// Whether no drive motor gets a pulse, whatever its timer does.
    pub fn is_still(&self, pins: &dyn Outputs) -> bool {
        let none = |channel| pins.is_silent(channel);
        self.drives.iter().all(|drive| match drive.bridge {
            Bridge::Dir { pwm, .. } => none(pwm),
            Bridge::Pair { forward, backward } => none(forward) && none(backward),
        })
    }

    /// Where the steering servo is commanded to turn the wheels, degrees, positive to the right.
    pub fn steering_deg(&self, pins: &dyn Outputs) -> Option<f64> {
        let Steering { pwm, offset_deg, mirrored } = self.steering?;
        // 500 to 2500 us turn the shaft from -90 to +90 degrees.
        let shaft_deg = (pins.servo_us(pwm)? - 500.0) * 180.0 / 2000.0 - 90.0;
        Some(if mirrored { offset_deg - shaft_deg } else { shaft_deg - offset_deg })
    }
}
