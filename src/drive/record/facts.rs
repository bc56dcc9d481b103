//! What every file contains about its run: enough to replay its slots, and to tell which run they belong to.

use super::scene::RobotShape;
use crate::base::plan::Board;
use crate::base::time::Span;
use std::collections::BTreeMap;

/// The facts.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Metadata by key. A replay needs `format` (version of the slot encoding), `board` (its name), `digest`
    /// (BLAKE3 of its effective values), `auto_arm` (whether the run was allowed to arm by itself),
    /// `simulated`, `quality` (the quality level of every cycle, if it was fixed) and `resumed` (whether the
    /// field started from a saved state). The others are for human readers.
    pub words: BTreeMap<String, String>,
    /// The board's effective values, as a board file that can be loaded again.
    pub board: String,
    /// Names and units of the sensors, in their order.
    pub sensors: Vec<(String, String)>,
    /// Names of the motors, in their order.
    pub motors: Vec<String>,
    /// How the robot is drawn.
    pub shape: RobotShape,
    /// The control period.
    pub period: Span,
}

impl Facts {
    /// The facts of a run of `board`, whose effective values are `text`.
    pub fn of(board: &Board, text: String, words: BTreeMap<String, String>) -> Facts {
        let sensors = board.sensors.iter().map(|sensor| (sensor.name.clone(), sensor.unit.clone()));
        Facts {
            words,
            board: text,
            sensors: sensors.collect(),
            motors: board.motors.iter().map(|motor| motor.name.clone()).collect(),
            shape: RobotShape::of(board),
            period: board.period,
        }
    }

    /// Whether the run's field started from a saved state.
    pub fn resumed(&self) -> bool {
        self.words.get("resumed").is_some_and(|word| word == "true")
    }

    /// Name of the board.
    pub fn name(&self) -> &str {
        self.words.get("board").map_or("robot", String::as_str)
    }
}
