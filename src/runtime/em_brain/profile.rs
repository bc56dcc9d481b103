//! The meaning of the values in a client's vectors: which sensor of a board each value feeds, in which unit,
//! and which of the board's motors each value of an action comes from.

use crate::base::command::MAX_MOTORS;
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::{Board, Scale};
use crate::base::time::Span;
use crate::system::sanitize::quoted;
use std::fmt;

/// Maximum number of values in a vector.
pub const ENTRIES_MOST: usize = 256;

/// A profile before it is checked against its board.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Shortest time between two cycles of a client.
    pub period: Span,
    /// One entry for each value of the sensory vector.
    pub sensors: Vec<DraftSensor>,
    /// One entry for each value of the action vector.
    pub motors: Vec<DraftMotor>,
    /// Sensors of the board that no value feeds, and their fixed values in the board's units.
    pub fixed: Vec<(String, f32)>,
}

/// A value of the sensory vector.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftSensor {
    /// The client's name for it.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The board's sensor that it feeds; `None`: it is not used.
    pub channel: Option<String>,
    /// Factor that converts it to the board's unit.
    pub factor: Option<f32>,
    /// Offset, added after the factor is applied.
    pub offset: f32,
}

/// A value of the action vector: a weighted sum of the board's motor commands, each -1..=1.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftMotor {
    /// The client's name for it.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Motors of the board, and their weights.
    pub of: Vec<(String, f32)>,
}

/// What is wrong with a profile.
#[derive(Clone, Debug, PartialEq)]
pub enum ProfileError {
    /// A vector has no values, or too many.
    Count {
        /// `sensor` or `motor`.
        what: &'static str,
        /// Number of entries.
        found: usize,
    },
    /// The field of the board does not have this sensor.
    Sensor {
        /// The name.
        name: String,
        /// The sensors that it has.
        known: Vec<String>,
    },
    /// The board does not have this motor.
    Motor {
        /// The name.
        name: String,
        /// The motors that it has.
        known: Vec<String>,
    },
    /// This sensor of the board is fed twice.
    Twice(String),
    /// Nothing feeds these sensors of the board.
    Missing(Vec<String>),
    /// The units differ, and the profile does not define a conversion.
    Unit {
        /// The client's name.
        name: String,
        /// Its unit.
        unit: String,
        /// The board's sensor.
        channel: String,
        /// Its unit.
        wanted: String,
    },
    /// A number is not finite or too large, or a sensor's factor is 0 or subnormal.
    Number(String),
    /// The period is not 5 to 500 ms.
    Period(Span),
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileError::Count { what, found } => {
                write!(f, "{found} [[{what}]] entries; allowed: 1 to {ENTRIES_MOST}")
            }
            ProfileError::Sensor { name, known } => {
                write!(f, "the board's field has no sensor '{}'; it has: {}", quoted(name), known.join(", "))
            }
            ProfileError::Motor { name, known } => {
                write!(f, "the board has no motor '{}'; it has: {}", quoted(name), known.join(", "))
            }
            ProfileError::Twice(name) => write!(f, "the board's sensor '{name}' is fed twice"),
            ProfileError::Missing(names) => write!(
                f,
                "nothing feeds the board's {}: add a [[sensor]] with that 'channel', or a [fixed] value",
                names.join(", ")
            ),
            ProfileError::Unit { name, unit, channel, wanted } => write!(
                f,
                "sensor '{}' is in '{}', but the board's '{channel}' is in '{wanted}': define the conversion \
                 with 'factor' and 'offset'",
                quoted(name),
                quoted(unit)
            ),
            ProfileError::Number(name) => {
                write!(f, "'{}' has a number that is not finite or too large, or a factor of 0", quoted(name))
            }
            ProfileError::Period(period) => {
                write!(f, "period_ms is {}; allowed: 5 to 500", period.as_secs_f64() * 1e3)
            }
        }
    }
}

impl std::error::Error for ProfileError {}

/// How a value of the sensory vector enters the field.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Feed {
    at: usize,
    input: usize,
    scale: Scale,
    factor: f32,
    offset: f32,
}

/// A checked profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Shortest time between two cycles of a client.
    pub period: Span,
    sensors: usize,
    feeds: Vec<Feed>,
    rest: [f32; MAX_SENSORS],
    motors: Vec<[f32; MAX_MOTORS]>,
}

/// Why a sensory vector is invalid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BadVector {
    /// The vector is empty.
    Empty,
    /// The vector has the wrong length.
    Length(usize),
    /// The value at this index is not finite.
    Number(usize),
}

impl Profile {
    /// Checks `draft` for robots of `board`.
    pub fn check(draft: &Draft, board: &Board) -> Result<Profile, ProfileError> {
        for (what, found) in [("sensor", draft.sensors.len()), ("motor", draft.motors.len())] {
            if !(1..=ENTRIES_MOST).contains(&found) {
                return Err(ProfileError::Count { what, found });
            }
        }
        if !(Span::from_millis(5)..=Span::from_millis(500)).contains(&draft.period) {
            return Err(ProfileError::Period(draft.period));
        }
        let inputs = Inputs::of(board);
        let (mut fed, mut rest) = (vec![false; inputs.0.len()], [0.0; MAX_SENSORS]);
        let mut feeds = Vec::new();
        for (at, sensor) in draft.sensors.iter().enumerate() {
            let Some(channel) = &sensor.channel else { continue };
            let (input, unit, scale) = inputs.find(channel, &mut fed)?;
            let factor = match sensor.factor {
                Some(factor) => factor,
                None if sensor.unit == unit => 1.0,
                None => {
                    let (name, unit, wanted) = (sensor.name.clone(), sensor.unit.clone(), unit.to_string());
                    return Err(ProfileError::Unit { name, unit, channel: channel.clone(), wanted });
                }
            };
            if !factor.is_normal() || !sensor.offset.is_finite() {
                return Err(ProfileError::Number(sensor.name.clone()));
            }
            feeds.push(Feed { at, input, scale, factor, offset: sensor.offset });
        }
        for (name, value) in &draft.fixed {
            let (input, _, scale) = inputs.find(name, &mut fed)?;
            if !value.is_finite() {
                return Err(ProfileError::Number(name.clone()));
            }
            rest[input] = scale.apply(*value);
        }
        let missing =
            inputs.0.iter().zip(&fed).filter(|(_, fed)| !**fed).map(|(input, _)| input.0.to_string());
        let missing: Vec<String> = missing.collect();
        if !missing.is_empty() {
            return Err(ProfileError::Missing(missing));
        }
        let motors: Result<_, _> = draft.motors.iter().map(|motor| row_of(motor, board)).collect();
        Ok(Profile { period: draft.period, sensors: draft.sensors.len(), feeds, rest, motors: motors? })
    }

    /// Number of sensor values in a sensory vector. A client may append one more value, the reward.
    pub fn sensors(&self) -> usize {
        self.sensors
    }

    /// Number of values in an action vector.
    pub fn motors(&self) -> usize {
        self.motors.len()
    }

    /// Converts a sensory vector to the field's sensors and the reward. Values beyond the board's range are
    /// clamped to it, like those of the board's own sensors.
    pub fn sense(&self, values: &[f32]) -> Result<([f32; MAX_SENSORS], f32), BadVector> {
        let reward = match values.len().checked_sub(self.sensors) {
            Some(0) => 0.0,
            Some(1) => values[self.sensors],
            _ if values.is_empty() => return Err(BadVector::Empty),
            _ => return Err(BadVector::Length(values.len())),
        };
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return Err(BadVector::Number(at));
        }
        let mut sensors = self.rest;
        for feed in &self.feeds {
            // Cannot overflow: the product of two f32 is finite in f64.
            let value = f64::from(values[feed.at]) * f64::from(feed.factor) + f64::from(feed.offset);
            let value = value.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
            sensors[feed.input] = feed.scale.apply(value);
        }
        Ok((sensors, reward.clamp(-1.0, 1.0)))
    }

    /// Converts the board's `motors`, each -1..=1, to an action vector.
    pub fn act(&self, motors: &[f32; MAX_MOTORS]) -> Vec<f32> {
        let sum = |row: &[f32; MAX_MOTORS]| row.iter().zip(motors).map(|(part, motor)| part * motor).sum();
        self.motors.iter().map(sum).collect()
    }
}

/// The sensors that enter a board's field, with name, unit and scale, in the field's order.
struct Inputs<'a>(Vec<(&'a str, &'a str, Scale)>);

impl<'a> Inputs<'a> {
    fn of(board: &'a Board) -> Inputs<'a> {
        let named = |sensor: &'a crate::base::plan::SensorPlan| {
            Some((sensor.name.as_str(), sensor.unit.as_str(), sensor.input?))
        };
        Inputs(board.sensors.iter().filter_map(named).collect())
    }

    /// The index, unit and scale of the sensor `name`; marks it as fed.
    fn find(&self, name: &str, fed: &mut [bool]) -> Result<(usize, &'a str, Scale), ProfileError> {
        let Some(input) = self.0.iter().position(|(known, ..)| *known == name) else {
            let known = self.0.iter().map(|(known, ..)| known.to_string()).collect();
            return Err(ProfileError::Sensor { name: name.to_string(), known });
        };
        if std::mem::replace(&mut fed[input], true) {
            return Err(ProfileError::Twice(name.to_string()));
        }
        let (_, unit, scale) = self.0[input];
        Ok((input, unit, scale))
    }
}

fn row_of(motor: &DraftMotor, board: &Board) -> Result<[f32; MAX_MOTORS], ProfileError> {
    let mut row = [0.0; MAX_MOTORS];
    for (name, factor) in &motor.of {
        let Some(index) = board.motors.iter().position(|known| known.name == *name) else {
            let known = board.motors.iter().map(|known| known.name.clone()).collect();
            return Err(ProfileError::Motor { name: name.clone(), known });
        };
        // The limit is far beyond any motor's unit, and small enough that no sum overflows.
        if !(factor.is_finite() && factor.abs() <= 1e6) {
            return Err(ProfileError::Number(motor.name.clone()));
        }
        row[index] = *factor;
    }
    Ok(row)
}
