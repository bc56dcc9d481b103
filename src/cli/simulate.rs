//! `--simulate`: any board in the simulator, and what a user has to know about that, in words.

use super::exit::Failure;
use crate::base::plan::{Board, BusPlan};
use crate::deploy::board::Loaded;
use crate::sim::{Change, NoModel, Unmodelled, rehearsal};
use serde::Serialize;

/// What a run in the simulator lacks and changes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Simulation {
    /// Sensors that the simulator has no model for.
    pub without_model: Vec<WithoutModel>,
    /// What else differs from a run of the real robot.
    pub changes: Vec<&'static str>,
}

/// A sensor that gives no value.
#[derive(Clone, Debug, Serialize)]
pub struct WithoutModel {
    sensor: String,
    /// Its place in the board file.
    key: String,
    kind: &'static str,
    why: &'static str,
}

impl WithoutModel {
    fn of(sensor: Unmodelled) -> WithoutModel {
        let key = key(&sensor);
        WithoutModel { sensor: sensor.sensor, key, kind: sensor.kind, why: sensor.why }
    }
}

impl Simulation {
    /// What a run of `board` in the simulator would lack and change.
    pub fn of(board: &Board) -> Result<Simulation, Failure> {
        Ok(made(board)?.1)
    }

    /// One line for each.
    pub fn lines(&self) -> Vec<String> {
        self.without_model().chain(self.changes.iter().map(|change| (*change).to_string())).collect()
    }

    /// One line for each sensor that gives no value.
    pub fn without_model(&self) -> impl Iterator<Item = String> {
        self.without_model.iter().map(|one| {
            format!("sensor '{}' gives no value ({} = \"{}\"): {}", one.sensor, one.key, one.kind, one.why)
        })
    }
}

/// Puts `loaded` into the simulator: its bus, and with it its identity, for no guard and no caller may take
/// it for the real robot.
pub fn simulate(loaded: &mut Loaded) -> Result<Simulation, Failure> {
    let (board, simulation) = made(&loaded.board)?;
    if !matches!(loaded.board.bus, BusPlan::Sim) {
        let mut identity = blake3::Hasher::new();
        identity.update(b"simulated").update(loaded.digest.as_bytes());
        loaded.digest = identity.finalize();
    }
    loaded.board = board;
    Ok(simulation)
}

fn made(board: &Board) -> Result<(Board, Simulation), Failure> {
    let made = rehearsal(board).map_err(|why| refused(&board.name, &why))?;
    let without_model = made.without.into_iter().map(WithoutModel::of).collect();
    let changes = made.changes.into_iter().map(words).collect();
    Ok((made.board, Simulation { without_model, changes }))
}

/// The words for a difference.
fn words(change: Change) -> &'static str {
    match change {
        Change::NoGuard => "no guard is asked: there is no robot whose motors it would have to stop",
        Change::ArmsItself => "it arms by itself: it can hurt no person",
        Change::NotStrict => "what the system refuses is reported and does not end the run ([rt] strict)",
        Change::NoEdges => "the room has no stair: no rule of the board watches for edges",
        Change::NoSteering => {
            "it drives straight on: it has neither a servo nor motors called 'left' and 'right'"
        }
        Change::UsualBody => {
            "it has the size of a PiCar-X: the board does not state its own ([motion] with body and track)"
        }
    }
}

/// Why there is no simulation, and what to do.
pub fn refused(board: &str, why: &NoModel) -> Failure {
    let failure = match why {
        NoModel::Log => Failure::config("it has no wires to simulate: its sensors are columns of a log")
            .fix("'ganglion replay' drives it with a log; 'ganglion run --board sim' drives a simulated car"),
        NoModel::ComputersPwm => Failure::config(
            "the simulator has no model of the computer's own PWM ([pwm]), which drives its motors",
        )
        .fix("write a board file that inherits this one, with [pwm] removed and [pca9685] in its place"),
        NoModel::Needed(sensors) => {
            let each = sensors
                .iter()
                .map(|one| format!("sensor '{}' ({} = \"{}\"): {}", one.sensor, key(one), one.kind, one.why));
            let each: Vec<String> = each.collect();
            let what = format!(
                "the simulator has no model of what the board cannot drive without: {}",
                each.join("; ")
            );
            Failure::config(what).fix(
                "to see the rest drive, write a board file that inherits this one and removes the sensor and the rules \
                 that look at it",
            )
        }
    };
    failure.at(format!("board '{board}'"))
}

fn key(sensor: &Unmodelled) -> String {
    format!("sensor.{}.kind", sensor.sensor)
}
