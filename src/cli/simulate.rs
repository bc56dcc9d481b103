//! `--simulate`: runs any board in the simulator, and tells the user how the run differs from the real robot.

use super::exit::Failure;
use crate::base::plan::{Board, BusPlan};
use crate::deploy::board::Loaded;
use crate::sim::{Change, NoModel, Unmodelled, rehearsal};
use serde::Serialize;

/// How a run in the simulator differs from the real robot.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Simulation {
    /// Sensors for which the simulator has no model.
    pub without_model: Vec<WithoutModel>,
    /// Other differences.
    pub changes: Vec<&'static str>,
}

/// A sensor that provides no value, because the simulator has no model of it.
#[derive(Clone, Debug, Serialize)]
pub struct WithoutModel {
    sensor: String,
    /// The key in the board file that states the sensor's kind.
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
    /// How a run of `board` in the simulator differs from the real robot.
    pub fn of(board: &Board) -> Result<Simulation, Failure> {
        Ok(made(board)?.1)
    }

    /// One line for each difference.
    pub fn lines(&self) -> Vec<String> {
        self.without_model().chain(self.changes.iter().map(|change| (*change).to_string())).collect()
    }

    /// One line for each sensor without a value.
    pub fn without_model(&self) -> impl Iterator<Item = String> {
        self.without_model.iter().map(|one| {
            format!("sensor '{}' gives no value ({} = \"{}\"): {}", one.sensor, one.key, one.kind, one.why)
        })
    }
}

/// Changes `loaded` to run in the simulator. This also changes its digest, so that neither a guard nor a
/// caller mistakes the simulated robot for the real one.
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
    let changes = made.changes.into_iter().map(describe).collect();
    Ok((made.board, Simulation { without_model, changes }))
}

/// The text for a difference.
fn describe(change: Change) -> &'static str {
    match change {
        Change::NoGuard => "no guard is used: there are no real motors to stop",
        Change::ArmsItself => "the robot arms by itself, because a simulated one cannot hurt anyone",
        Change::NotStrict => {
            "the run does not end if the system refuses real-time rights, but reports that ([rt] strict)"
        }
        Change::NoEdges => "the room has no stairs, because no rule of the board watches for edges",
        Change::NoSteering => {
            "the robot only drives straight: it has neither a servo nor motors named 'left' and 'right'"
        }
        Change::UsualBody => {
            "the robot has the size of a PiCar-X: the board states no size ([motion] with body and track)"
        }
    }
}

/// The error for a board that cannot be simulated, and what to do about it.
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
                "the board cannot drive without parts that the simulator has no model of: {}",
                each.join("; ")
            );
            Failure::config(what).fix(
                "to run the rest, write a board file that inherits this one and removes the sensor and the rules \
                 that use it",
            )
        }
    };
    failure.at(format!("board '{board}'"))
}

fn key(sensor: &Unmodelled) -> String {
    format!("sensor.{}.kind", sensor.sensor)
}
