//! Turns a board into one that drives in the simulator, with the same buses, chips, lines, rules, limits and
//! field. Only the hardware behind the wires differs, and what [`Change`] lists. Also lists each sensor for
//! which the simulator has no model. Such a sensor provides no value; if the board needs it, the board cannot
//! be rehearsed.

use super::computer;
use super::wiring::Wiring;
use crate::base::plan::{
    Attachment, Board, BusPlan, Cause, ChipSensor, ComputedSensor, LineSensor, PwmPlan, SensorKind,
    SensorPlan, SimPlan,
};

/// Converter channels of the Robot HAT that are connected on the simulated car.
const GROUND_CHANNELS: std::ops::RangeInclusive<u8> = 0..=2;
const BATTERY_CHANNEL: u8 = 4;
/// Where the voltage of the simulated battery lies in the range that the board's field sees (`input`), 0..=1.
const CHARGE: f32 = 0.75;

/// A board in the simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct Rehearsal {
    /// The board, with the simulator as its bus.
    pub board: Board,
    /// Sensors without a model: they provide no value.
    pub without: Vec<Unmodelled>,
    /// Other differences from a run of the real robot.
    pub changes: Vec<Change>,
}

/// A difference between a rehearsal and a run of the real robot, apart from the hardware behind the wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The guard is left out: there is no real robot whose lines it would have to hold.
    NoGuard,
    /// The robot arms by itself: it cannot hurt anyone.
    ArmsItself,
    /// Refused real-time requests are only reported and do not end the run, although the board is strict.
    NotStrict,
    /// The room has no stairs, because no rule of the board watches for edges.
    NoEdges,
    /// The robot only drives straight: it has neither a servo nor motors called left and right.
    NoSteering,
    /// The board does not state both `body` and `track` (`[motion]`); what is missing is taken from a
    /// PiCar-X.
    UsualBody,
}

/// A sensor that the simulator has no model for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmodelled {
    /// Its name.
    pub sensor: String,
    /// Its kind, as a board file writes it.
    pub kind: &'static str,
    /// What is missing.
    pub why: &'static str,
}

/// Why a board cannot be rehearsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoModel {
    /// It has no wires: its sensors are columns of a log.
    Log,
    /// The computer's own PWM drives its motors.
    ComputersPwm,
    /// These sensors have no model, and the board cannot drive without them.
    Needed(Vec<Unmodelled>),
}

/// Converts `board` to one that drives in the simulator.
pub fn rehearsal(board: &Board) -> Result<Rehearsal, NoModel> {
    match board.bus {
        BusPlan::Sim => {
            return Ok(Rehearsal { board: board.clone(), without: Vec::new(), changes: Vec::new() });
        }
        BusPlan::Log => return Err(NoModel::Log),
        BusPlan::Linux { .. } => {}
    }
    if matches!(board.pwm, Some(PwmPlan::Sysfs { .. })) {
        return Err(NoModel::ComputersPwm);
    }
    let missing: Vec<(usize, Unmodelled)> = board
        .sensors
        .iter()
        .enumerate()
        .filter_map(|(channel, sensor)| {
            let why = missing_model(board, channel)?;
            Some((channel, Unmodelled { sensor: sensor.name.clone(), kind: sensor.kind.name(), why }))
        })
        .collect();
    let needed: Vec<Unmodelled> = missing
        .iter()
        .filter(|(channel, _)| is_needed(board, *channel))
        .map(|(_, one)| one.clone())
        .collect();
    if !needed.is_empty() {
        return Err(NoModel::Needed(needed));
    }
    let mut simulated = board.clone();
    for (channel, _) in &missing {
        // A channel without readings. It keeps its index: the field's inputs and the rules refer to indexes.
        simulated.sensors[*channel].kind = SensorKind::LogColumn { column: String::new() };
    }
    simulated.bus = BusPlan::Sim;
    simulated.sim = Some(world(board));
    simulated.guard = None;
    simulated.safety.auto_arm = true;
    simulated.rt.strict = false;
    let changes = changes(board);
    Ok(Rehearsal { board: simulated, without: missing.into_iter().map(|(_, one)| one).collect(), changes })
}

fn changes(board: &Board) -> Vec<Change> {
    let wiring = Wiring::new(board);
    let can_turn = wiring.turns_by_its_wheels() || wiring.has_steering();
    let sized = board.motion.as_ref().is_some_and(|motion| motion.body.is_some() && motion.track.is_some());
    [
        (board.guard.is_some(), Change::NoGuard),
        (!board.safety.auto_arm, Change::ArmsItself),
        (board.rt.strict, Change::NotStrict),
        (!watches_edges(board), Change::NoEdges),
        (!can_turn, Change::NoSteering),
        (!sized, Change::UsualBody),
    ]
    .into_iter()
    .filter_map(|(applies, change)| applies.then_some(change))
    .collect()
}

fn watches_edges(board: &Board) -> bool {
    board.reflexes.iter().any(|rule| rule.cause == Cause::Cliff)
}

/// The default room, with a robot of the board's size, speed and battery.
fn world(board: &Board) -> SimPlan {
    let mut plan = SimPlan::default();
    if let Some(motion) = &board.motion {
        plan.wheelbase = motion.wheelbase;
        plan.full_speed = motion.full_speed;
        plan.track = motion.track.unwrap_or(plan.track);
        plan.body = motion.body.unwrap_or(plan.body);
    }
    if !watches_edges(board) {
        plan.cliffs.clear();
    }
    let battery = board.sensors.iter().find(|sensor| sensor.unit == "V" && !is_of_the_computer(sensor));
    if let Some(scale) = battery.and_then(|sensor| sensor.input) {
        plan.battery_v = scale.low + CHARGE * (scale.high - scale.low);
    }
    plan
}

fn is_of_the_computer(sensor: &SensorPlan) -> bool {
    sensor.attachment() == Attachment::Files
}

/// Why the simulator has no model for the sensor of this channel; `None`: it has one.
fn missing_model(board: &Board, channel: usize) -> Option<&'static str> {
    let sensor = &board.sensors[channel];
    let is_range = |kind: &SensorKind| {
        matches!(
            kind,
            SensorKind::Lines(LineSensor::HcSr04 { .. }) | SensorKind::Chip(ChipSensor::Vl53l0x { .. })
        )
    };
    match &sensor.kind {
        SensorKind::Lines(LineSensor::HcSr04 { .. }) | SensorKind::Chip(ChipSensor::Vl53l0x { .. }) => {
            let first = board.sensors.iter().position(|one| is_range(&one.kind));
            let is_modelled = first == Some(channel) || sensor.beam.is_some();
            (!is_modelled).then_some(
                "only the first range sensor of a board looks straight ahead if it has no `beam`; others need one",
            )
        }
        SensorKind::Chip(ChipSensor::HatAdc { channel, .. }) => {
            let is_modelled = match sensor.unit.as_str() {
                "V" => *channel == BATTERY_CHANNEL,
                _ => GROUND_CHANNELS.contains(channel),
            };
            (!is_modelled)
                .then_some("the simulated HAT has ground sensors on A0 to A2 and its battery, in V, on A4")
        }
        SensorKind::Chip(ChipSensor::FloatRegister { .. }) => {
            let is_modelled = if sensor.beam.is_some() { sensor.unit == "m" } else { sensor.unit == "deg" };
            (!is_modelled).then_some(
                "the simulated co-processor serves the lean of the robot, in deg, and ranges with a `beam`, in m",
            )
        }
        SensorKind::File(_) => computer::value(sensor)
            .is_none()
            .then_some("the simulated computer has no such value, or none within `valid`"),
        SensorKind::Chip(ChipSensor::Mpu6050 { .. } | ChipSensor::PowerMonitor { .. })
        | SensorKind::Lines(LineSensor::Button { .. })
        | SensorKind::Computed(_)
        | SensorKind::LogColumn { .. } => None,
        SensorKind::Chip(_) => Some("the simulator has no model of this chip"),
    }
}

/// Whether the board needs this channel to drive as intended: it is required, a rule checks it, or a needed
/// channel is computed from it.
fn is_needed(board: &Board, channel: usize) -> bool {
    let depends = |sensor: &SensorPlan| {
        let met_by =
            matches!(sensor.kind, SensorKind::Computed(ComputedSensor::Recall { by, .. }) if by == channel);
        met_by || sensor.members().contains(&channel)
    };
    board.sensors[channel].required
        || board.reflexes.iter().any(|rule| rule.channel == channel)
        // Computed channels come after their members in the list, so this recursion ends.
        || (channel + 1..board.sensors.len())
            .any(|later| depends(&board.sensors[later]) && is_needed(board, later))
}
