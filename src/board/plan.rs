//! What a checked board file means: values that every part can use without asking again.
//! Made only by the check in this folder; every index is in range, every limit ordered.

use crate::budget::BudgetPlan;
use crate::bus::Line;
use crate::command::MAX_MOTORS;
use crate::device::{McuPlan, MotorKind, PwmPlan, SensorKind};
use crate::field::FieldPlan;
use crate::reflex::Rule;
use crate::rt::RtPlan;
use crate::sim::SimPlan;
use crate::time::Span;

/// A whole board.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// Short name, as in the file's name.
    pub name: String,
    /// Substrings of the device tree's `compatible` that identify the machine; empty: any.
    pub compatible: Vec<String>,
    /// The control period.
    pub period: Span,
    /// Priorities, memory, cores.
    pub rt: RtPlan,
    /// What stands behind the wires.
    pub bus: BusPlan,
    /// I2C buses; the motors' first. Empty: none (a log, a robot without).
    pub i2c: Vec<I2cPlan>,
    /// Addresses that belong to the computer or the carrier itself; nothing here ever opens them.
    pub reserved_addresses: Vec<ReservedAddress>,
    /// Names of lines that the file gives by name: [`Line::named`] counts into them.
    pub line_names: Vec<String>,
    /// The Robot HAT's microcontroller, where the board has one.
    pub mcu: Option<McuPlan>,
    /// Another chip or the computer's own PWM for the motors, where they do not hang on the Robot HAT.
    pub pwm: Option<PwmPlan>,
    /// The line that lets current into the motors, where there is one.
    pub enable: Option<EnablePlan>,
    /// The guard process, where the board wants one.
    pub guard: Option<GuardPlan>,
    /// Channels of the frame, in order.
    pub sensors: Vec<SensorPlan>,
    /// Motors of a command, in order.
    pub motors: Vec<MotorPlan>,
    /// The reflex table.
    pub reflexes: Vec<Rule>,
    /// When the robot may be armed and how long things may be late.
    pub safety: SafetyPlan,
    /// The field.
    pub field: FieldPlan,
    /// Its compute budget.
    pub budget: BudgetPlan,
    /// What `ganglion bench all` holds the machine to.
    pub targets: Targets,
    /// How commands move the robot; wanted where it has a map.
    pub motion: Option<MotionPlan>,
    /// What a decided label means for the motors (read-outs that choose among labels).
    pub decisions: Vec<Decision>,
    /// The simulated world, for boards on the simulator.
    pub sim: Option<SimPlan>,
}

/// What stands behind the wires.
#[derive(Clone, Debug, PartialEq)]
pub enum BusPlan {
    /// The simulator stands behind the bus traits.
    Sim,
    /// Linux character devices.
    Linux {
        /// Labels of GPIO chips, in the order in which lines are looked for.
        gpio_labels: Vec<String>,
    },
    /// No bus: sensors are columns of a log.
    Log,
}

/// One I2C bus. Each has a thread of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct I2cPlan {
    /// Name, unique on the board; the first is `motors`' bus.
    pub name: String,
    /// Where it is; not used by the simulator.
    pub node: I2cNode,
    /// Speed and patience.
    pub timing: I2cTiming,
    /// What may be done when it does not answer.
    pub recovery: RecoveryPlan,
}

/// Where a bus is.
#[derive(Clone, Debug, PartialEq)]
pub enum I2cNode {
    /// For example `/dev/i2c-1`.
    Path(String),
    /// A part of the name of the adapter's device in sysfs (`c250000.i2c`): numbers move from kernel to kernel.
    Adapter(String),
}

/// The steps of recovery beyond retrying that this bus permits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecoveryPlan {
    /// Lines that are wired to (or are) SCL and SDA, for nine clocks by hand.
    pub clear: Option<ClearPlan>,
    /// The driver may be unbound and bound again (wants root).
    pub rebind: bool,
    /// A line that switches the supply of the bus's devices.
    pub rail: Option<RailPlan>,
}

/// Lines for a bus clear.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClearPlan {
    /// Clock.
    pub scl: Line,
    /// Data.
    pub sda: Line,
}

/// A switched supply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RailPlan {
    /// The line.
    pub line: Line,
    /// Level that switches it on.
    pub on_high: bool,
    /// How long it has to be off.
    pub off: Span,
}

/// An address that is spoken for.
#[derive(Clone, Debug, PartialEq)]
pub struct ReservedAddress {
    /// By whom, for people.
    pub holder: String,
    /// Index of the bus.
    pub bus: usize,
    /// 7 bits.
    pub address: u8,
}

/// The line that lets current into the motors: without it they stand, whatever is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnablePlan {
    /// The line. Its pull on the board must be towards off, so that a dead owner lets go of it.
    pub line: Line,
    /// Level that lets the motors run.
    pub on_high: bool,
}

/// A second process that holds a line and stops the motors when the runtime falls silent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardPlan {
    /// What it holds.
    pub holds: GuardHold,
    /// Silence after which it stops the motors. A closed connection stops them at once.
    pub patience: Span,
    /// The runtime does not drive without it.
    pub required: bool,
}

/// What a guard holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardHold {
    /// The microcontroller's reset line ([`McuPlan::reset`]).
    Reset,
    /// The motors' enable line ([`EnablePlan`]).
    Enable,
}

/// Speed and patience of an I2C bus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct I2cTiming {
    /// SCL in Hz.
    pub speed_hz: u32,
    /// Longest time that one transfer may block.
    pub timeout: Span,
}

/// One sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct SensorPlan {
    /// Name, unique on the board.
    pub name: String,
    /// Unit of the value, for people (`m`, `V`, `counts`, `deg`, `1`).
    pub unit: String,
    /// Where the value comes from.
    pub kind: SensorKind,
    /// Index of its I2C bus; 0 where it has none.
    pub bus: usize,
    /// How often it is read.
    pub period: Span,
    /// Older than this it is stale.
    pub max_age: Span,
    /// Values outside are refused.
    pub valid: [f32; 2],
    /// This many bit-identical readings in a row are a frozen sensor; `None`: never.
    pub frozen_after: Option<u32>,
    /// How an old value gets worse: by this much a second (signed) towards the end of `valid`
    /// that lies in that direction. Zero: ageing does not change it.
    pub worst_per_s: f32,
    /// Without it the robot may not drive.
    pub required: bool,
    /// How it enters the field; `None`: it does not.
    pub input: Option<Scale>,
}

impl SensorPlan {
    /// The channels that it is computed from: those of a `least`; none for every other kind.
    pub fn members(&self) -> &[usize] {
        match &self.kind {
            SensorKind::Least { of } => of,
            _ => &[],
        }
    }
}

/// From a physical value to -1..=1, clamped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Value that becomes -1.
    pub low: f32,
    /// Value that becomes +1.
    pub high: f32,
    /// What happens between.
    pub curve: Curve,
}

/// Shape of a [`Scale`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// Straight.
    Linear,
    /// Straight in the logarithm: equal ratios are equal steps. Both ends positive.
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
}

/// One motor.
#[derive(Clone, Debug, PartialEq)]
pub struct MotorPlan {
    /// Name, unique on the board.
    pub name: String,
    /// How it is driven.
    pub kind: MotorKind,
    /// Largest |command| that is ever written (0..=1).
    pub limit: f32,
    /// Fastest change of the command, full scales a second. Stopping is never slowed down.
    pub slew_per_s: f32,
}

/// Limits of patience and what arming wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SafetyPlan {
    /// A field result younger than this is obeyed in full.
    pub field_fresh: Span,
    /// From there its drive fades linearly to nothing over this time.
    pub field_fade: Span,
    /// A command is valid on the wire this long after its slot.
    pub command_valid: Span,
    /// Commands unconfirmed on the wire for longer than this are a lost bus.
    pub wire_lost: Span,
    /// This many skipped slots in a row are a late loop.
    pub late_slots: u32,
    /// Sensors must have been good for this long before arming.
    pub settle: Span,
    /// Longest unbroken time that the robot may drive backwards (it has no eyes there).
    pub reverse_max: Span,
    /// An armed robot that may not move for this long without a break is disarmed.
    pub disarm_after: Span,
    /// Arm by itself once everything is well (simulator, logs); otherwise wait to be told.
    pub auto_arm: bool,
}

/// What a machine that carries this board should reach; `None`: nothing is asked. Nothing at run
/// time depends on these.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Targets {
    /// A tick's own work, 99th percentile, microseconds, at most.
    pub tick_p99_us: Option<f64>,
    /// p99 of the loop's wake-ups over p99 of a bare timer's, at most.
    pub wake_ratio: Option<f64>,
    /// A field cycle at rung 0, median, at most.
    pub cycle_p50: Option<Span>,
    /// The same, 99th percentile.
    pub cycle_p99: Option<Span>,
    /// 99.9th percentile of the cycle over its median, at most.
    pub tail_ratio: Option<f64>,
    /// Cycle at rung 0 over cycle at rung 5, at least.
    pub rung5_ratio: Option<f64>,
    /// Cycle in f32 storage over cycle in f16 storage, at least.
    pub f16_ratio: Option<f64>,
    /// Memory that the field takes at the start, in MB of 10^6 bytes, at most.
    pub memory_mb: Option<f64>,
    /// From the edge of a sensor's line to the last edge of a motor's, 99.9th percentile, at most; `ganglion hil` asks.
    pub sensor_to_motor: Option<Span>,
    /// Of its GPU.
    pub gpu: GpuTargets,
}

/// What the GPU of such a machine should reach with a full field: 64 x 32^3, a library of 100, a bank of 10,000 x 512.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuTargets {
    /// A cycle of one robot in f32 storage, launch to result on the host, median, microseconds, at most.
    pub cycle_us: Option<f64>,
    /// The same in f16 storage.
    pub cycle_f16_us: Option<f64>,
    /// A cycle of 64 robots in f16 storage, median, microseconds, at most.
    pub batch_us: Option<f64>,
    /// Bandwidth of evolve and features of 32 robots over that of a copy on the device, at least.
    pub copy_share: Option<f64>,
    /// Matching the bank, median, microseconds, at most.
    pub match_us: Option<f64>,
    /// Memory on the device for one robot, in MB of 10^6 bytes, at most.
    pub memory_mb: Option<f64>,
    /// Time of a processor over time that passes, at 100 cycles a second, at most.
    pub host_share: Option<f64>,
}

/// How the robot moves by its commands, for reckoning where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MotionPlan {
    /// Speed at full command, metres a second.
    pub full_speed: f32,
    /// Distance of the axles, metres.
    pub wheelbase: f32,
    /// Time constant of the speed.
    pub lag: Span,
}

/// A label and its motor vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// As the log writes it.
    pub label: String,
    /// Motor commands, -1..=1.
    pub motors: heapless::Vec<f32, MAX_MOTORS>,
}
