//! `learn`: fits the read-out of a board's field to the decisions in a log, tests it on blocks of time
//! that it was not fitted to, and saves it.

use super::arguments::{self, EngineChoice};
use super::exit::Failure;
use crate::codec::FileError;
use crate::field::Engine;
use crate::field::readout::{Readout, ReadoutError};
use crate::learn::log::{Log, LogError, LogFault};
use crate::learn::score::Confusion;
use crate::learn::validate::{GAP_S, Trial, Validation};
use crate::learn::{LearnError, Stage, learn};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Work that takes less than this needs no progress bar.
const QUIET: Duration = Duration::from_secs(2);

/// Arguments of `learn`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion learn --log laps.csv --board boards/scitos-g5.toml --label OUTPUT -o wall.readout
  ganglion learn --log laps.csv --board scitos-g5 --label OUTPUT -o wall.readout --json | tail -1

Each block of time is judged by a read-out learned from the others; the saved read-out is learned from all
of them. The same log and board produce the same file, with any number of threads. 'ganglion replay'
then judges the read-out on another log.")]
pub struct Args {
    /// The log: CSV with a header line, one row per control period
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE")]
    board: PathBuf,
    /// Name of the column that holds the decisions
    #[arg(long, value_name = "COLUMN")]
    label: String,
    /// File to write the read-out to
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Field engine [default: as the board says]
    #[arg(long, value_enum)]
    engine: Option<EngineChoice>,
    /// Threads of the field engine [default: as the board says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Option<u8>,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut board = arguments::board(&args.board)?.board;
    arguments::engine(&mut board, args.engine, args.threads);
    refuse_what_cannot_be_written(&args.output)?;
    let log = Log::read(&args.log, &board, Some(&args.label)).and_then(Log::sound).map_err(of_log)?;
    arguments::fits(&board.field)?;
    let mut engine = Engine::build(&board.field);
    let mut progress = Progress::new();
    let learned =
        learn(&board, &mut engine, &log, &args.label, |stage, done, of| progress.show(stage, done, of));
    let seconds = progress.end();
    let (readout, validation) = learned.map_err(|error| of_learning(&args.log, error))?;
    readout.save(&args.output).map_err(|error| of_saving(&args.output, error))?;
    let report = Report::new(&args, &log, &readout, &validation, engine.name(), seconds)?;
    if args.json {
        return super::output::json(&report);
    }
    report.say(&validation);
    Ok(())
}

/// Checks the output path first: minutes of work must not fail because its folder is missing.
pub(super) fn refuse_what_cannot_be_written(output: &Path) -> Result<(), Failure> {
    let folder = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(Failure::unavailable("no such folder")
            .at(folder.display())
            .fix("create it, or write elsewhere")),
        _ if output.is_dir() => {
            Err(Failure::usage("this is a folder, not a file").at(output.display()).fix("name a file in it"))
        }
        _ => Ok(()),
    }
}

/// The failure of a verb whose log cannot be read.
pub fn of_log(error: LogError) -> Failure {
    match &error.fault {
        LogFault::Io(cause) => Failure::file(&error.path, cause),
        LogFault::Room(_) => Failure::unavailable(&error.fault).at(error.path.display()),
        LogFault::NotLogged { .. } | LogFault::NoDecisions => {
            Failure::config(&error.fault).fix("use a board that fits this log")
        }
        fault => Failure::data(fault).at(error.path.display()),
    }
}

fn of_learning(log: &Path, error: LearnError) -> Failure {
    match error {
        LearnError::Refused { .. } | LearnError::Readout(_) => Failure::bug(error),
        _ => Failure::data(error).at(log.display()),
    }
}

pub(super) fn of_saving(path: &Path, error: ReadoutError) -> Failure {
    match error {
        ReadoutError::File(FileError::Io { error, .. }) => Failure::file(path, &error),
        error => Failure::bug(error),
    }
}

/// Seconds of each stage, and a progress bar on standard error when it takes long and is a terminal.
struct Progress {
    began: Instant,
    fitting_since: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Progress {
    fn new() -> Progress {
        Progress { began: Instant::now(), fitting_since: None, bar: None }
    }

    fn show(&mut self, stage: Stage, done: usize, of: usize) {
        if stage == Stage::Fit && self.fitting_since.is_none() {
            self.fitting_since = Some(Instant::now());
        }
        if self.began.elapsed() < QUIET {
            return;
        }
        let bar = self.bar.get_or_insert_with(new_bar);
        bar.set_message(match stage {
            Stage::Observe => "log through the field",
            Stage::Fit => "fit",
        });
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    }

    fn end(self) -> Seconds {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        let fitting_since = self.fitting_since.unwrap_or_else(Instant::now);
        Seconds {
            observe: fitting_since.duration_since(self.began).as_secs_f64(),
            fit: fitting_since.elapsed().as_secs_f64(),
        }
    }
}

/// Draws on standard error, and only on a terminal.
fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{msg:22} {bar:40} {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    bar
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Seconds {
    observe: f64,
    fit: f64,
}

/// The object.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    board: PathBuf,
    log: PathBuf,
    log_digest: String,
    rows: usize,
    cycles: u64,
    engine: String,
    /// Share of right decisions on the blocks held out of the fit.
    accuracy: Option<f64>,
    blocks: Vec<Option<f64>>,
    gap_s: f64,
    lambda: f64,
    path: Vec<Step>,
    confusion: Confusion,
    readout: PathBuf,
    readout_digest: String,
    seconds: Seconds,
    cycles_per_s: Option<f64>,
}

/// One ridge that `learn` tried.
#[derive(Debug, Serialize)]
struct Step {
    lambda: f64,
    accuracy: Option<f64>,
}

impl Report {
    fn new(
        args: &Args,
        log: &Log,
        readout: &Readout,
        validation: &Validation,
        engine: String,
        seconds: Seconds,
    ) -> Result<Report, Failure> {
        let best = validation.best();
        let confusion = best.total();
        let bytes = readout.to_bytes().map_err(Failure::bug)?;
        let step = |trial: &Trial| Step { lambda: trial.lambda, accuracy: trial.total().accuracy() };
        let cycles = confusion.total();
        Ok(Report {
            schema: 1,
            board: args.board.clone(),
            log: log.path().to_path_buf(),
            log_digest: blake3::Hash::from(*log.digest()).to_hex().to_string(),
            rows: log.rows(),
            cycles,
            engine,
            accuracy: confusion.accuracy(),
            blocks: best.blocks.iter().map(Confusion::accuracy).collect(),
            gap_s: GAP_S,
            lambda: best.lambda,
            path: validation.trials.iter().map(step).collect(),
            confusion,
            readout: args.output.clone(),
            readout_digest: blake3::hash(&bytes).to_hex().to_string(),
            seconds,
            cycles_per_s: (seconds.observe > 0.0).then(|| cycles as f64 / seconds.observe),
        })
    }

    fn say(&self, validation: &Validation) {
        let Seconds { observe, fit } = self.seconds;
        say!("{} rows of {}", self.rows, self.log.display());
        say!("engine: {}; {observe:.1} s for the field, {fit:.1} s for the fit", self.engine);
        say!();
        say!("right decisions on held-out blocks of time ({} s between), by ridge:", self.gap_s);
        for trial in &validation.trials {
            let blocks: Vec<String> = trial.blocks.iter().map(|block| share(block.accuracy())).collect();
            let mark = if trial.lambda.total_cmp(&self.lambda).is_eq() { "  <- chosen" } else { "" };
            let total = share(trial.total().accuracy());
            say!("  {:<8e} {}   all {total}{mark}", trial.lambda, blocks.join("  "));
        }
        say!();
        say!("{}", self.confusion);
        say!();
        say!("saved: {} (learned from all rows)", self.readout.display());
    }
}

fn share(accuracy: Option<f64>) -> String {
    accuracy.map_or_else(|| "-".to_string(), |accuracy| format!("{accuracy:.4}"))
}
