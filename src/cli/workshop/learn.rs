//! `learn`: fits the read-out of a board's field to the decisions in logs, cross-validates it on blocks of
//! time, and saves it. `laps` judges each lap with a read-out fitted to the other laps.

mod laps;

use crate::base::plan::Board;
use crate::cli::arguments::{self, EngineChoice};
use crate::cli::exit::Failure;
use crate::field::readout::{Readout, ReadoutError};
use crate::field::{Inspect, engine};
use crate::system::codec::FileError;
use crate::workshop::learn::laps::{Course, observe_all};
use crate::workshop::learn::log::{Log, LogError, LogFault};
use crate::workshop::learn::observe::observe;
use crate::workshop::learn::score::Confusion;
use crate::workshop::learn::validate::{GAP_S, Trial, Validation};
use crate::workshop::learn::{LearnError, Stage, course, digest, teach};
use indicatif::{ProgressBar, ProgressStyle};
use laps::{Asked, Judgement};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Work that takes less than this gets no progress bar.
const QUIET: Duration = Duration::from_secs(2);

/// Arguments of `learn`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion learn --log laps.csv --board boards/scitos-g5.toml --label OUTPUT -o wall.readout
  ganglion learn --log laps.csv --board scitos-g5 --label OUTPUT -o wall.readout --json | tail -1
  ganglion learn --log laps.csv --laps 3 --seeds 5 --board scitos-g5-ring --label OUTPUT -o wall

Each block of time is judged with a read-out that learned from the other blocks; the saved read-out
learns from all of them. With --laps or several logs, each lap is also judged with a read-out that
learned from the other laps. The same logs and board produce the same file, with any number of
threads and jobs. 'ganglion replay' then judges the read-out on another log.")]
pub struct Args {
    /// The log: CSV with a header line, one row per control period; repeat for several logs
    #[arg(long = "log", value_name = "FILE", required = true)]
    logs: Vec<PathBuf>,
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE")]
    board: PathBuf,
    /// Name of the column that holds the decisions
    #[arg(long, value_name = "COLUMN")]
    label: String,
    /// File to write the read-out to
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Field engine [default: the board's]
    #[arg(long, value_enum)]
    engine: Option<EngineChoice>,
    /// Threads of the field engine [default: the board's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Option<u8>,
    /// Laps of equal length in each log; each is judged with a read-out fitted to the others [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    laps: Option<u16>,
    /// Also judge the laps with fields that have the seeds 1 to N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    seeds: Option<u8>,
    /// Logs and laps that are processed at once [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: Option<u8>,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut board = arguments::board(&args.board)?.board;
    arguments::engine(&mut board, args.engine, args.threads);
    refuse_what_cannot_be_written(&args.output)?;
    let asked = args.asked()?;
    let read =
        |path: &PathBuf| Log::read(path, &board, Some(&args.label)).and_then(Log::sound).map_err(of_log);
    let logs: Vec<Log> = args.logs.iter().map(read).collect::<Result<_, _>>()?;
    super::fits(&board.field)?;
    let engine = engine::build(&board.field);
    let name = engine.name();
    let mut progress = Progress::new();
    let learned = work(&args, &asked, &board, engine, &logs, &mut progress);
    let seconds = progress.end();
    let learned = learned.map_err(|error| of_learning(&args.logs, error))?;
    let (readout, validation) = (&learned.readout, &learned.validation);
    readout.save(&args.output).map_err(|error| of_saving(&args.output, error))?;
    let report = Report::new(&args, &logs, &learned, name, seconds)?;
    if args.json {
        return crate::cli::output::json(&report);
    }
    report.print(validation);
    Ok(())
}

impl Args {
    /// How to judge laps, from the arguments.
    fn asked(&self) -> Result<Asked, Failure> {
        let laps = usize::from(self.laps.unwrap_or(1));
        if laps * self.logs.len() < 2 && self.seeds.is_some() {
            return Err(Failure::usage("--seeds needs at least two laps, to hold one out")
                .fix("state the number of laps in the log (--laps), or name several logs"));
        }
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.map_or_else(processors, usize::from);
        Ok(Asked { laps, seeds: self.seeds.map_or(0, u64::from), jobs })
    }
}

/// The results.
struct Learned {
    readout: Readout,
    validation: Validation,
    laps: Option<Judgement>,
}

/// Learns from all of `logs` and, if there are several laps, judges each with a read-out fitted to the
/// others.
fn work(
    args: &Args,
    asked: &Asked,
    board: &Board,
    mut engine: Box<dyn Inspect>,
    logs: &[Log],
    progress: &mut Progress,
) -> Result<Learned, LearnError> {
    let course: Course = course(board, logs, asked.laps)?;
    let features = match logs {
        [log] => {
            observe(board, engine.as_mut(), log, |row| progress.show(Stage::Observe, row, log.rows()))?
                .features
        }
        logs => observe_all(board, logs, asked.jobs)?,
    };
    drop(engine);
    let watch = |done, of| progress.show(Stage::Fit, done, of);
    let (readout, validation) = teach(board, logs, &course, &features, &args.label, watch)?;
    progress.fitted();
    let laps = match course.count() {
        0 | 1 => None,
        _ => Some(laps::judge(asked, board, logs, &course, features)?),
    };
    Ok(Learned { readout, validation, laps })
}

/// Checks the output path first: minutes of work must not be lost because its folder is missing.
pub(super) fn refuse_what_cannot_be_written(output: &Path) -> Result<(), Failure> {
    let folder = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(Failure::unavailable("no such folder")
            .at(folder.display())
            .fix("create it, or choose another folder")),
        _ if output.is_dir() => {
            Err(Failure::usage("this is a folder, not a file").at(output.display()).fix("name a file in it"))
        }
        _ => Ok(()),
    }
}

/// The failure of a verb that cannot read its log.
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

fn of_learning(logs: &[PathBuf], error: LearnError) -> Failure {
    let names: Vec<String> = logs.iter().map(|log| log.display().to_string()).collect();
    match error {
        LearnError::Refused { .. } | LearnError::Readout(_) => Failure::bug(error),
        _ => Failure::data(error).at(names.join(", ")),
    }
}

pub(super) fn of_saving(path: &Path, error: ReadoutError) -> Failure {
    match error {
        ReadoutError::File(FileError::Io { error, .. }) => Failure::file(path, &error),
        error => Failure::bug(error),
    }
}

/// The time of each stage, and a progress bar on standard error if that is a terminal and the work takes
/// long.
struct Progress {
    began: Instant,
    fitting_since: Option<Instant>,
    fitted: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Progress {
    fn new() -> Progress {
        Progress { began: Instant::now(), fitting_since: None, fitted: None, bar: None }
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
            Stage::Observe => "running the log through the field",
            Stage::Fit => "fit",
        });
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    }

    /// Called when the fit is done; the laps are judged next.
    fn fitted(&mut self) {
        self.fitted = Some(Instant::now());
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn end(self) -> Seconds {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        let fitting_since = self.fitting_since.unwrap_or_else(Instant::now);
        let fitted = self.fitted.unwrap_or_else(Instant::now);
        Seconds {
            observe: fitting_since.duration_since(self.began).as_secs_f64(),
            fit: fitted.duration_since(fitting_since).as_secs_f64(),
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

/// The object of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    board: PathBuf,
    log: PathBuf,
    /// All logs, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<Vec<PathBuf>>,
    log_digest: String,
    rows: usize,
    cycles: u64,
    engine: String,
    /// Share of correct decisions on the held-out blocks.
    accuracy: Option<f64>,
    blocks: Vec<Option<f64>>,
    gap_s: f64,
    lambda: f64,
    path: Vec<Step>,
    confusion: Confusion,
    #[serde(skip_serializing_if = "Option::is_none")]
    laps: Option<Judgement>,
    readout: PathBuf,
    readout_digest: String,
    seconds: Seconds,
    cycles_per_s: Option<f64>,
}

/// One ridge penalty that `learn` tried.
#[derive(Debug, Serialize)]
struct Step {
    lambda: f64,
    accuracy: Option<f64>,
}

impl Report {
    fn new(
        args: &Args,
        logs: &[Log],
        learned: &Learned,
        engine: String,
        seconds: Seconds,
    ) -> Result<Report, Failure> {
        let Learned { readout, validation, laps } = learned;
        let best = validation.best();
        let confusion = best.total();
        let bytes = readout.to_bytes().map_err(Failure::bug)?;
        let step = |trial: &Trial| Step { lambda: trial.lambda, accuracy: trial.total().accuracy() };
        let cycles = confusion.total();
        Ok(Report {
            schema: 1,
            board: args.board.clone(),
            log: args.logs[0].clone(),
            logs: (logs.len() > 1).then(|| args.logs.clone()),
            log_digest: blake3::Hash::from(digest(logs)).to_hex().to_string(),
            rows: logs.iter().map(Log::rows).sum(),
            cycles,
            engine,
            accuracy: confusion.accuracy(),
            blocks: best.blocks.iter().map(Confusion::accuracy).collect(),
            gap_s: GAP_S,
            lambda: best.lambda,
            path: validation.trials.iter().map(step).collect(),
            confusion,
            laps: laps.clone(),
            readout: args.output.clone(),
            readout_digest: blake3::hash(&bytes).to_hex().to_string(),
            seconds,
            cycles_per_s: (seconds.observe > 0.0).then(|| cycles as f64 / seconds.observe),
        })
    }

    fn print(&self, validation: &Validation) {
        let Seconds { observe, fit } = self.seconds;
        match &self.logs {
            None => say!("{} rows of {}", self.rows, self.log.display()),
            Some(logs) => say!("{} rows of {} logs", self.rows, logs.len()),
        }
        say!("engine: {}; {observe:.1} s for the field, {fit:.1} s for the fit", self.engine);
        say!();
        say!("accuracy on held-out blocks of time (gaps of {} s), by ridge penalty:", self.gap_s);
        for trial in &validation.trials {
            let blocks: Vec<String> = trial.blocks.iter().map(|block| share(block.accuracy())).collect();
            let mark = if trial.lambda.total_cmp(&self.lambda).is_eq() { "  <- chosen" } else { "" };
            let total = share(trial.total().accuracy());
            say!("  {:<8e} {}   all {total}{mark}", trial.lambda, blocks.join("  "));
        }
        say!();
        say!("{}", self.confusion);
        say!();
        if let Some(laps) = &self.laps {
            laps.print();
            say!();
        }
        say!("saved: {} (learned from all rows)", self.readout.display());
    }
}

fn share(accuracy: Option<f64>) -> String {
    accuracy.map_or_else(|| "-".to_string(), |accuracy| format!("{accuracy:.4}"))
}
