//! The contents of a checked board file: values that every module can use without further checks. Only the
//! check of the board file (`board`) creates them; every index is in range, and the limits are in order. They
//! are plain data and values derived directly from it; nothing here opens, drives or decides anything.

mod behaviour;
mod bus;
mod cause;
mod field;
mod motor;
mod restraint;
mod rt;
mod rule;
mod safety;
mod sensor;
mod sim;
mod targets;
mod tether;

pub mod addresses; // which device should answer at which address
pub mod edges; // which edges a wheel reaches before a sensor
pub mod bus_load; // the load on a board's buses
pub mod lines; // every line and its name

pub use behaviour::{
    BehaviourPlan, BumpPlace, DecisionFieldPlan, DecisionInput, PeakCurve, Preset, piecewise_linear,
};
pub use bus::{
    Access, BusPlan, ClearPlan, I2cNode, I2cPlan, I2cTiming, Line, OwnTime, RailPlan, RecoveryPlan,
    ReservedAddress,
};
pub use cause::Cause;
pub use field::{
    BudgetPlan, EngineKind, FieldPlan, Params, QUALITY_LEVELS, QualityLevel, Shape, StartCurve, Storage,
};
pub use motor::{
    BackingPlan, Decision, EnablePlan, McuPlan, MotionPlan, MotorKind, MotorPlan, PwmPlan, StopLine,
    TurnSensor, WanderPlan,
};
pub use restraint::{Limits, Restraint};
pub use rt::RtPlan;
pub use rule::{Rule, Trip};
pub use safety::{GuardHold, GuardPlan, SafetyPlan};
pub use sensor::{
    Attachment, Axis, BeamPlan, ChipSensor, ComputedSensor, Curve, FileSensor, GpuQuantity, HAT_FULL,
    ImuQuantity, LineRole, LineSensor, PowerChip, PowerQuantity, Rails, Scale, SensorKind, SensorPlan,
    VL53L0X_FARTHEST_M, chips, kind, same_chip,
};
pub use sim::{MotionErrors, MoverPlan, RangerFaults, SimPlan, SonarModule, WorldPlan};
pub use targets::{GpuTargets, Targets};
pub use tether::{OnLoss, TetherPlan};

use crate::base::time::Span;

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
    /// The implementation behind the buses: simulator, Linux or a log.
    pub bus: BusPlan,
    /// I2C buses, the motors' bus first. Empty: no bus (a log, or a robot without I2C).
    pub i2c: Vec<I2cPlan>,
    /// Addresses that belong to the computer or the carrier board itself; ganglion never opens them.
    pub reserved_addresses: Vec<ReservedAddress>,
    /// Names of the lines that the file refers to by name; [`Line::named`] takes an index into this list.
    pub line_names: Vec<String>,
    /// The Robot HAT's microcontroller, if the board has one.
    pub mcu: Option<McuPlan>,
    /// Another chip or the computer's own PWM for the motors, if they are not on the Robot HAT.
    pub pwm: Option<PwmPlan>,
    /// The line that enables the motors' current, if there is one.
    pub enable: Option<EnablePlan>,
    /// The guard process, if the board has one.
    pub guard: Option<GuardPlan>,
    /// Channels of the frame, in order.
    pub sensors: Vec<SensorPlan>,
    /// Motors of a command, in order.
    pub motors: Vec<MotorPlan>,
    /// The reflex table.
    pub reflexes: Vec<Rule>,
    /// When the robot may be armed, and its timeouts.
    pub safety: SafetyPlan,
    /// The field.
    pub field: FieldPlan,
    /// The link to the brain that computes the field, for [`EngineKind::Remote`].
    pub tether: Option<TetherPlan>,
    /// The field's compute budget.
    pub budget: BudgetPlan,
    /// The targets that `ganglion bench all` checks.
    pub targets: Targets,
    /// How commands move the robot; required if it has a map.
    pub motion: Option<MotionPlan>,
    /// How the robot backs off; `None`: however the field requests.
    pub backing: Option<BackingPlan>,
    /// How it steers by its navigator's memory while it has no order; `None`: it drives as the field
    /// requests.
    pub wander: Option<WanderPlan>,
    /// The places of the robot's patrol, metres ahead and to the left of the start; empty: no patrol.
    pub patrol: Vec<[f64; 2]>,
    /// The decision fields of its behaviours.
    pub decision_fields: Vec<DecisionFieldPlan>,
    /// Its behaviours.
    pub behaviours: Vec<BehaviourPlan>,
    /// The motor commands for each label, for read-outs that choose among labels.
    pub decisions: Vec<Decision>,
    /// The simulated world, for boards on the simulator.
    pub sim: Option<SimPlan>,
}
