//! `check`: validates a board file and prints its effective configuration: inheritance and defaults applied.

use crate::field::footprint;
use crate::field::navigate::navigator::can_go;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::exit::Failure;
use super::origin::{self, COMPUTED};
use super::output::stderr_is_terminal;
use super::simulate::Simulation;
use crate::base::plan::edges::{EdgeSight, edge_sight};
use crate::base::plan::{Board, BusPlan, FieldPlan, OnLoss, TetherPlan, TurnSensor, bus_load};
use crate::decision::motion::MotionModel;
use crate::deploy::board;
use crate::deploy::board::finding::Finding;
use crate::deploy::board::{BoardError, Loaded, Setting, WorldError};
use crate::runtime::session::is_service;
use crate::system::rt::room;

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion check boards/picarx-v4.toml   every error with its place, or the effective values
  ganglion check sim                     a built-in board, by name
  ganglion check my-car.toml --simulate  also what 'ganglion run --simulate' lacks and changes
  ganglion check my-car.toml --json      the same as one JSON object on the last line
  ganglion check --schema > board.schema.json
                                         editors (Taplo) complete and check keys of
                                         files that begin with '#:schema board.schema.json'")]
pub struct Args {
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    file: Option<PathBuf>,
    /// Show what 'ganglion run --simulate' lacks and changes; exit with 78 if the board cannot drive in the
    /// simulator
    #[arg(long)]
    simulate: bool,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of board files, for editors that complete and check keys
    #[arg(long, conflicts_with_all = ["file", "json"])]
    schema: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let Some(file) = args.file else {
        say!("{:#}", board::schema());
        return Ok(());
    };
    match board::load(&file) {
        Ok(loaded) => {
            let simulation = args.simulate.then(|| Simulation::of(&loaded.board));
            let possible = simulation.as_ref().and_then(|made| made.as_ref().ok());
            if args.json {
                super::output::json(&sound(&loaded, possible))?;
            } else {
                describe(&loaded, possible).iter().for_each(|line| say!("{line}"));
            }
            simulation.transpose().map(drop)
        }
        Err(error) => {
            if args.json {
                super::output::json(&unsound(&error))?;
            }
            Err(failure(&file, &error))
        }
    }
}

/// The failure if the board cannot be loaded: 77 if permission is missing, otherwise 78.
pub fn failure(path: &Path, error: &BoardError) -> Failure {
    let hidden = || super::hidden::fix(path, is_service());
    match error {
        BoardError::Unreadable { error: cause, .. }
            if cause.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            let readable = || "make the file readable by this user".to_string();
            Failure::file(path, cause).fix(hidden().unwrap_or_else(readable))
        }
        BoardError::Unreadable { .. } | BoardError::Unknown { .. } => {
            let name = || "name a board file, or one of the built-in boards".to_string();
            Failure::config(error).fix(hidden().unwrap_or_else(name))
        }
        BoardError::Refused(findings) => refused(path, findings.len(), error),
    }
}

/// The failure if a world file cannot be loaded: exit code 77 if permission is denied, otherwise 78.
pub fn world_failure(path: &Path, error: &WorldError) -> Failure {
    match error {
        WorldError::Unreadable { error: cause, .. } => Failure::file(path, cause),
        WorldError::Refused(findings) => refused(path, findings.len(), error),
    }
}

fn refused(path: &Path, count: usize, error: &dyn std::fmt::Display) -> Failure {
    let count = match count {
        1 => "one error".to_string(),
        many => format!("{many} errors"),
    };
    // On a terminal the source line follows each error; a log gets one line per error.
    let faults = if stderr_is_terminal() { format!("{error:#}") } else { error.to_string() };
    Failure::config(format!("{}: {count}\n{faults}", path.display()))
}

/// The board as text: a summary, warnings, then every value with its origin.
fn describe(loaded: &Loaded, simulation: Option<&Simulation>) -> Vec<String> {
    let board = &loaded.board;
    let mut lines =
        vec![format!("# board {}: valid", board.name), format!("# digest {}", loaded.digest.to_hex())];
    lines.extend(summary(board).into_iter().map(|line| format!("# {line}")));
    if let Some(simulation) = simulation {
        lines.push("# drives in the simulator".to_string());
        lines.extend(simulation.lines().into_iter().map(|line| format!("# simulated: {line}")));
    }
    for warning in &loaded.warnings {
        lines.extend(format!("warning: {warning:#}").lines().map(|line| format!("# {line}")));
    }
    lines.extend(loaded.effective());
    lines
}

fn summary(board: &Board) -> Vec<String> {
    let shape = &board.field.shape;
    let mut lines = vec![format!(
        "{} sensors, {} motors, {} reflexes; control period {} ms",
        board.sensors.len(),
        board.motors.len(),
        board.reflexes.len(),
        board.period.as_micros_f64() / 1e3,
    )];
    lines.push(match (board.i2c.first().map(|bus| bus.timing), bus_load::bus_load(board)) {
        (Some(timing), Some(load)) => format!(
            "I2C at {} Hz: sensors take {:.1} % of its time, commands {:.1} %, together at least {:.1} % (computed)",
            timing.speed_hz,
            100.0 * load.sensors,
            100.0 * load.motors,
            100.0 * load.total(),
        ),
        _ => "no bus: the sensors are columns of a log".to_string(),
    });
    lines.push(format!(
        "field: {0} x {0} x {0} cells, {1} inputs, {2} outputs, a cycle every {3} ms (budget {4} ms), about {5:.0} MB of \
         memory{6} (computed)",
        shape.grid,
        shape.sensors,
        shape.motors,
        board.field.dt.as_micros_f64() / 1e3,
        board.budget.target.as_micros_f64() / 1e3,
        footprint::start_bytes(&board.field) as f64 / 1e6,
        at_most(&board.field),
    ));
    lines.extend(board.tether.as_ref().map(tether));
    if let Some(backing) = &board.backing {
        lines.push(format!(
            "backing off: along the recorded path for at most {} m; after an edge or an obstacle, a turn of {} rad for at most {} s",
            backing.trail_m,
            backing.turn_rad,
            backing.turn_time.as_secs_f64(),
        ));
    }
    lines.extend(edges(edge_sight(board)));
    lines.extend(heading(board));
    let is_real = matches!(board.bus, BusPlan::Linux { .. });
    lines.extend(board.i2c.iter().filter(|bus| is_real && bus.recovery.rebind).map(|bus| {
        let name = &bus.name;
        format!(
            "bus {name}: its driver may be rebound, which needs root or ganglion-rebind.service; \
             'ganglion doctor --board' checks that on the robot"
        )
    }));
    if let Err(refusal) = room::demand(footprint::field_bytes(&board.field)) {
        lines.push(format!("this machine cannot run it: {refusal}"));
    }
    lines
}

fn tether(plan: &TetherPlan) -> String {
    let silence = plan.silence.as_micros_f64() / 1e3;
    let then = match (plan.on_loss, plan.latched) {
        (OnLoss::Local { grid, .. }, _) => {
            format!("a field of {grid} x {grid} x {grid} cells here takes over")
        }
        (OnLoss::Stop, false) => "the motors stop until it answers again".to_string(),
        (OnLoss::Stop, true) => "the motors stop until the robot is disarmed and armed again".to_string(),
    };
    format!("tether: the brain at {} computes the field; after {silence} ms of silence {then}", plan.address)
}

/// The field's largest memory as text, if it is a megabyte or more above that at the start; otherwise empty.
fn at_most(plan: &FieldPlan) -> String {
    let (start, full) = (footprint::start_bytes(plan), footprint::field_bytes(plan));
    if full < start + 1_000_000 {
        return String::new();
    }
    format!(" at its start, at most {:.0} MB with a full library and a full bank", full as f64 / 1e6)
}

/// Where a robot that can go to goals knows its heading from.
fn heading(board: &Board) -> Option<String> {
    let motion = MotionModel::of(board).filter(|_| can_go(board))?;
    if let Some(TurnSensor { channel, .. }) = motion.turning {
        let name = &board.sensors[channel].name;
        return Some(format!(
            "goals: '{name}' measures the heading, and its zero error while the robot stands"
        ));
    }
    let (error, per_metre) = match &motion.wheels {
        Some(wheels) => ("one side turns 1 % more slowly", 0.01 / wheels.track),
        None => ("the steering is off by half a degree", libm::tan(0.5_f64.to_radians()) / motion.wheelbase),
    };
    Some(format!(
        "goals: the heading is computed from the commands; if {error}, it drifts by {:.1} degrees a metre. A gyroscope, \
         named in [motion] `turning`, prevents that",
        per_metre.to_degrees()
    ))
}

/// How well the ground sensors cover the edges that a wheel can reach.
fn edges(sight: EdgeSight) -> Option<String> {
    match sight {
        EdgeSight::NotWatched => None,
        EdgeSight::NotStated => Some(
            "edges: it is unknown whether a wheel can reach an edge unseen; state `looks_at` of each ground \
             sensor, and [motion] with `track`"
                .to_string(),
        ),
        EdgeSight::Whole(radius) => {
            let (bends, other) = match radius {
                Some(radius) => {
                    (format!(" and in bends with a radius of at least {radius:.2} m"), "a tighter")
                }
                None => (String::new(), "a"),
            };
            Some(format!(
                "edges: straight ahead{bends}, a ground sensor reaches each edge before a wheel does; in {other} \
                 bend a wheel may pass over a corner of an edge unseen (computed)",
            ))
        }
        EdgeSight::Below(degrees) => Some(format!(
            "edges: a front wheel reaches an edge that is at less than {degrees:.0} degrees to the course before any \
             ground sensor has seen it (computed)"
        )),
    }
}

/// The angle to the course, degrees, below which a front wheel reaches an edge unseen; 0 if no edge is
/// reached unseen, `None` if edges are not watched or the board does not state enough.
fn unseen_deg(sight: EdgeSight) -> Option<f64> {
    match sight {
        EdgeSight::NotWatched | EdgeSight::NotStated => None,
        EdgeSight::Whole(_) => Some(0.0),
        EdgeSight::Below(degrees) => Some(degrees),
    }
}

/// The radius from which on a ground sensor reaches each edge in a bend before a wheel does, metres; `None`:
/// in no bend, or the board does not state enough.
fn seen_in_bends_m(sight: EdgeSight) -> Option<f64> {
    match sight {
        EdgeSight::Whole(radius) => radius,
        EdgeSight::NotWatched | EdgeSight::NotStated | EdgeSight::Below(_) => None,
    }
}

fn origin(setting: &Setting) -> String {
    setting.origin.as_ref().map_or_else(|| "default".to_string(), |spot| spot.to_string())
}

/// The keys of [`sound`] whose values are computed.
const COMPUTED_KEYS: [&str; 5] =
    ["bus_load", "field_start_bytes", "field_bytes", "unseen_edges_below_deg", "edges_seen_in_bends_from_m"];

fn sound(loaded: &Loaded, simulation: Option<&Simulation>) -> Value {
    let board = &loaded.board;
    let load = bus_load::bus_load(board);
    let sight = edge_sight(board);
    let settings: Vec<Value> = loaded
        .settings
        .iter()
        .map(|setting| json!({ "key": setting.key, "value": setting.value, "origin": origin(setting) }))
        .collect();
    json!({
        "schema": 1,
        "board": board.name,
        "sound": true,
        "digest": loaded.digest.to_hex().as_str(),
        "sources": origin::all(COMPUTED_KEYS, COMPUTED),
        "bus_load": load.map(|load| json!({ "sensors": load.sensors, "motors": load.motors })),
        "field_start_bytes": footprint::start_bytes(&board.field),
        "field_bytes": footprint::field_bytes(&board.field),
        "memory_left_bytes": room::left(),
        "unseen_edges_below_deg": unseen_deg(sight),
        "edges_seen_in_bends_from_m": seen_in_bends_m(sight),
        "warnings": loaded.warnings.iter().map(finding).collect::<Vec<_>>(),
        "settings": settings,
        "simulation": simulation,
    })
}

fn unsound(error: &BoardError) -> Value {
    let findings = match error {
        BoardError::Refused(findings) => findings.iter().map(finding).collect(),
        BoardError::Unreadable { path, .. } => {
            vec![json!({ "file": path.display().to_string(), "message": error.to_string() })]
        }
        BoardError::Unknown { name, .. } => vec![json!({ "file": name, "message": error.to_string() })],
    };
    json!({ "schema": 1, "sound": false, "findings": findings })
}

fn finding(finding: &Finding) -> Value {
    let spot = finding.spot.as_ref();
    json!({
        "file": spot.map(|spot| &*spot.file),
        "line": spot.map(|spot| spot.line),
        "column": spot.map(|spot| spot.column),
        "key": finding.key,
        "message": finding.problem.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_in_order_and_names_origins() {
        let loaded = board::built_in("sim").unwrap().unwrap();
        let lines = describe(&loaded, None);
        assert_eq!(lines[0], "# board sim: valid");
        let at = |start: &str| lines.iter().position(|line| line.starts_with(start)).unwrap();
        assert!(at("[bus]") < at("[[motor]]") && at("[[motor]]") < at("[[sensor]]"));
        let kind = &lines[at("[bus]") + 1];
        assert!(kind.starts_with("kind = \"sim\"") && kind.contains("# built-in/sim.toml:"), "{kind}");
        let trig = &lines[at("trig = 27")];
        assert!(trig.contains("# built-in/picarx-v4.toml:"), "{trig}");
        let limit = &lines[at("limit = 1.0")];
        assert!(limit.ends_with("# default"), "{limit}");
        assert_eq!(lines, describe(&board::built_in("sim").unwrap().unwrap(), None));
    }

    #[test]
    fn what_the_simulator_lacks_is_shown_only_on_request() {
        let text = "inherits = \"picarx-v4\"\n[[sensor]]\nname = \"tank\"\nkind = \"ads1115\"\nunit = \"l\"\n\
                    address = 0x48\nchannel = 0\nfull_scale_v = 4.096\nper_volt = 1.0\nperiod_ms = 100.0\nvalid = [0.0, 9.0]\n";
        let loaded = board::from_text("own", text).unwrap();
        let made = Simulation::of(&loaded.board).unwrap();
        let lines = describe(&loaded, Some(&made));
        assert!(
            lines.iter().any(|line| line.starts_with("# simulated: sensor 'tank' gives no value")),
            "{lines:?}"
        );
        assert_eq!(sound(&loaded, Some(&made))["simulation"]["without_model"][0]["key"], "sensor.tank.kind");
        assert!(sound(&loaded, None)["simulation"].is_null());
    }

    #[test]
    fn it_says_in_which_bends_the_ground_sensors_see_each_edge() {
        let [ahead, outside] = ["sim-sonar", "sim"].map(|name| board::built_in(name).unwrap().unwrap());
        let line = |loaded: &Loaded| {
            let lines = describe(loaded, None);
            lines.into_iter().find(|line| line.starts_with("# edges: ")).expect("it has ground sensors")
        };
        assert!(line(&ahead).contains("straight ahead, ") && line(&ahead).contains("in a bend a wheel may"));
        assert!(sound(&ahead, None)["edges_seen_in_bends_from_m"].is_null());
        let words = line(&outside);
        assert!(words.contains("and in bends with a radius of at least 0.70 m, "), "{words}");
        let radius = sound(&outside, None)["edges_seen_in_bends_from_m"].as_f64().expect("a radius");
        assert!((radius - 0.7).abs() < 0.01, "{radius}");
    }

    #[test]
    fn it_says_where_the_heading_comes_from() {
        let line = |text: &str| {
            let lines = describe(&board::from_text("own", text).unwrap(), None);
            lines.into_iter().find(|line| line.starts_with("# goals: ")).expect("it has a navigator")
        };
        assert!(line("inherits = \"sim-sonar\"").contains("drifts by 5.7 degrees a metre"));
        assert!(line("inherits = \"barn\"").contains("if one side turns 1 % more slowly, it drifts by 4.1"));
        let measured = line("inherits = \"sim\"");
        assert!(measured.contains("'turning' measures the heading"), "{measured}");
    }

    #[test]
    fn json_reports_faults_with_their_place() {
        let error = board::from_text("bad", "inherits = \"sim\"\nperiod_ms = 0\n").unwrap_err();
        let object = unsound(&error);
        assert_eq!(object["sound"], false);
        assert_eq!(object["findings"][0]["line"], 2);
        assert_eq!(object["findings"][0]["column"], 13);
        assert_eq!(object["findings"][0]["key"], "period_ms");
        let failure = failure(Path::new("bad.toml"), &error);
        assert_eq!(failure.exit(), super::super::exit::Exit::Config);
    }

    #[test]
    fn a_missing_board_is_a_configuration_fault() {
        let path = Path::new("no/such/sym.toml");
        let error = board::load(path).unwrap_err();
        let failure = failure(path, &error);
        assert_eq!(failure.exit(), super::super::exit::Exit::Config);
        assert!(failure.to_string().contains("did you mean `sim`?"), "{failure}");
    }
}
