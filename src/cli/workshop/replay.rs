//! `replay`: runs the whole loop over a log, in virtual time and as fast as the machine allows: with the same
//! admission, reflexes, field and arbitration as on a robot, and the log in place of the buses.

use crate::base::plan::{Board, BusPlan};
use crate::base::time::{self, SimClock};
use crate::cli::arguments;
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::report::reflexes::reflexes_text;
use crate::field::Readout;
use crate::field::readout::{RowNames, decide};
use crate::runtime::robot::{BuildError, Options, Robot};
use crate::runtime::runner::{self, Ending};
use crate::workshop::learn::log::{Log, LogFault};
use crate::workshop::learn::score::Confusion;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Arguments of `replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion replay --log lap4.csv --board boards/scitos-g5.toml --readout wall.readout
  ganglion replay --log lap4.csv --board scitos-g5 --readout wall.readout --json | tail -1

The label column is the one from which the read-out learned. If the log has no such column, replay
prints the decisions without judging them. The same log, board and read-out produce the same
digest, with any number of threads.")]
pub struct Args {
    /// The log: CSV with a header line, one row per control period
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE")]
    board: PathBuf,
    /// The read-out from 'ganglion learn'
    #[arg(long, value_name = "FILE")]
    readout: PathBuf,
    /// Name of the label column [default: the one that the read-out learned from]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Threads of the field engine [default: the board's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Option<u8>,
    /// Field engine [default: the board's]
    #[arg(long, value_enum)]
    engine: Option<arguments::EngineChoice>,
    /// Print the decision for each row, one per line
    #[arg(long)]
    decisions: bool,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// The object of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    board: String,
    engine: String,
    rows: usize,
    /// Number of field cycles, and so of decisions.
    cycles: u64,
    /// Share of decisions that equal the log's; `null` without labels.
    accuracy: Option<f64>,
    confusion: Option<Confusion>,
    /// How often the field chose each label.
    decisions: BTreeMap<String, u64>,
    /// Prediction skill of the field at the end of the log: 1 - MSE / MSE of the better of two naive
    /// predictions, the last value and the mean.
    skill: Option<f32>,
    /// Cells with an invalid value, which the loop treats as faulty readings.
    defects: usize,
    slots_run: u64,
    slots_skipped: u64,
    reflexes: BTreeMap<&'static str, u64>,
    forward_stops: u64,
    /// Cycles of the whole loop per second of real time, measured.
    cycles_per_s: f64,
    digest: String,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut board = arguments::board(&args.board)?.board;
    arguments::engine(&mut board, args.engine, args.threads);
    if !matches!(board.bus, BusPlan::Log) {
        return Err(Failure::usage(format!("board '{}' does not read a log", board.name))
            .fix("use a board whose [bus] kind is \"log\", for example scitos-g5"));
    }
    let readout = arguments::readout(&args.readout)?;
    let RowNames::Labels(labels) = readout.rows().clone() else {
        return Err(Failure::data("this read-out has no decisions, only motors").at(args.readout.display()));
    };
    let log = open_log(&args, &board, &readout)?;
    let interrupt = Interrupt::watch()?;
    let outcome = replay(&board, &log, readout, &args.readout, &interrupt)?;
    let report = Report::new(&board, &log, &labels, &outcome);
    if args.decisions {
        for decision in &outcome.decisions {
            say!("{} {}", log.line(decision.row), labels[decision.taken]);
        }
    }
    report.print();
    if args.json {
        crate::cli::output::json(&report)?;
    }
    match interrupt.asked() {
        true => Err(Failure::unavailable("interrupted before the end of the log")),
        false => Ok(()),
    }
}

/// The log with its labels: from the requested column, or from the one that the read-out learned from, if
/// this log has it.
fn open_log(args: &Args, board: &Board, readout: &Readout) -> Result<Log, Failure> {
    if let Some(label) = &args.label {
        return Log::read(&args.log, board, Some(label)).map_err(super::learn::of_log);
    }
    match Log::read(&args.log, board, readout.heading()) {
        Err(error) if matches!(error.fault, LogFault::NoColumn { .. }) && readout.heading().is_some() => {
            // A log may lack the label column. If a sensor's column is missing, this reports the error.
            Log::read(&args.log, board, None).map_err(super::learn::of_log)
        }
        other => other.map_err(super::learn::of_log),
    }
}

/// One decision of the field.
struct Decision {
    row: usize,
    taken: usize,
}

/// The outcome of a replay.
struct ReplayResult {
    engine: String,
    decisions: Vec<Decision>,
    skill: Option<f32>,
    ending: Ending,
    wall: Duration,
}

fn replay(
    board: &Board,
    log: &Log,
    readout: Readout,
    readout_path: &Path,
    interrupt: &Interrupt,
) -> Result<ReplayResult, Failure> {
    let clock = Arc::new(SimClock::new());
    let first = time::Instant::ZERO + board.period;
    let labels = readout.rows().names().len();
    let rows = (0..log.rows()).map(|row| log.readings(row).collect()).collect();
    let options = Options { readout: Some(readout), log: Some(rows), ..Options::default() };
    let robot = Robot::build(board, clock.clone(), first, options).map_err(|error| match error {
        BuildError::Readout(error) => Failure::data(error).at(readout_path.display()),
        other => Failure::unavailable(other),
    })?;
    let engine = robot.engine_name.clone();
    // One slot per row, and one more, in which the last row's answer arrives.
    let until = first + board.period.times(log.rows() as u64);
    let (mut decisions, mut skill) = (Vec::with_capacity(log.rows()), None);
    let began = Instant::now();
    let bar = progress(log.rows());
    let ending = runner::step(robot, &clock, until, &interrupt.flag(), |recorder| {
        let Some(record) = &recorder.summary().last else { return };
        bar.set_position(record.index);
        let Some(response) = record.field.and_then(|field| field.response) else { return };
        let row = response.cycle as usize * board.field.every_ticks as usize;
        if row < log.rows() {
            decisions.push(Decision { row, taken: decide(&response.scores[..labels]) });
            skill = Some(response.skill);
        }
    });
    bar.finish_and_clear();
    Ok(ReplayResult { engine, decisions, skill, ending, wall: began.elapsed() })
}

fn progress(rows: usize) -> ProgressBar {
    let bar = ProgressBar::new(rows as u64);
    if let Ok(style) = ProgressStyle::with_template("replay {bar:40} {pos} of {len} rows, {eta} left") {
        bar.set_style(style);
    }
    bar
}

impl Report {
    fn new(board: &Board, log: &Log, labels: &[String], outcome: &ReplayResult) -> Report {
        let mut decided: BTreeMap<String, u64> = labels.iter().map(|label| (label.clone(), 0)).collect();
        let mut confusion = Confusion::new(labels.to_vec());
        for decision in &outcome.decisions {
            *decided.entry(labels[decision.taken].clone()).or_default() += 1;
            if let Some(right) = log.label(decision.row) {
                confusion.count(right, decision.taken);
            }
        }
        let summary = outcome.ending.recorder.summary();
        Report {
            schema: 1,
            board: board.name.clone(),
            engine: outcome.engine.clone(),
            rows: log.rows(),
            cycles: outcome.decisions.len() as u64,
            accuracy: confusion.accuracy(),
            confusion: (confusion.total() > 0).then_some(confusion),
            decisions: decided,
            skill: outcome.skill,
            defects: log.defects(),
            slots_run: summary.slots_run,
            slots_skipped: summary.slots_skipped,
            reflexes: summary.trips_by_name(),
            forward_stops: summary.forward_stops,
            cycles_per_s: outcome.decisions.len() as f64 / outcome.wall.as_secs_f64().max(1e-9),
            digest: outcome.ending.recorder.digest(),
        }
    }

    fn print(&self) {
        say!("{} rows through board '{}', field: {}", self.rows, self.board, self.engine);
        match (self.accuracy, &self.confusion) {
            (Some(accuracy), Some(confusion)) => {
                say!("  accuracy   {accuracy:.4} ({} of {} decisions)", confusion.right(), confusion.total());
                say!("{confusion}");
            }
            _ => say!("  accuracy   not measured: the log has no labels"),
        }
        let decisions: Vec<String> = self.decisions.iter().map(|(label, n)| format!("{label} {n}")).collect();
        say!("  decisions  {}", decisions.join(", "));
        if let Some(skill) = self.skill {
            say!(
                "  skill      {skill:.3} of the field's prediction, compared with the better of two naive predictions"
            );
        }
        if self.defects > 0 {
            say!(
                "  defects    {} cells had an invalid value; the loop treated them as faulty readings",
                self.defects
            );
        }
        say!("  reflexes   {}", reflexes_text(&self.reflexes, self.forward_stops));
        say!("  speed      {:.0} cycles per second, measured", self.cycles_per_s);
        say!("  digest     {}", self.digest);
    }
}
