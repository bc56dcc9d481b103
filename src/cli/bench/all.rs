//! `bench all`: control loop and field with a board's own settings, compared with the board's targets.

use super::{cut_short, field, judged, on_a_thread, progress, seconds, too_many_threads};
use crate::base::plan::{Board, BusPlan};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::cli::arguments;
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::output;
use crate::cli::simulate;
use crate::deploy::bench::verdict::{Row, not_judged, overall, rows};
use crate::deploy::bench::{LoopFigures, Survey, bench_loop, gpu_figures, survey};
use crate::runtime::robot::{BuildError, Options, Robot};
use crate::runtime::selftest::machine;
use crate::sim::{Unmodelled, rehearsal};
use indicatif::ProgressBar;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `bench all`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion bench all                                the desk robot's settings and targets, 40 s
  ganglion bench all --board picarx-v4              the PiCar-X; run it on the car's Pi
  ganglion bench all --board picarx-v4 --simulate   its settings here, without judging its targets
  ganglion bench all --seconds 8 --json | tail -1   less precise, and as one JSON object

The targets are in [targets] of the board file. A quarter of the time is for the control loop, on a
simulated bus. The rest is for the field: quality levels 0 to 5, the other storage format, and one
thread, alternating. A GPU then runs a full field (32^3, 100 patterns, a bank of 10,000) for another
20 s or so, and has to meet [targets.gpu]; without a GPU, or with an emulated one, these targets do
not apply. Exit code 0: every judged target is met; 75: one is missed, or its figure could not be
measured; 69: none was judged (\"pass\": null), because the board states none, or this machine is
not the board's robot or lacks the hardware that they are for.")]
pub struct Args {
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE", default_value = "sim")]
    board: PathBuf,
    /// Measure even if this machine is not the board's robot: figures of this machine, without a verdict
    #[arg(long)]
    simulate: bool,
    /// Length of the measurement
    #[arg(long, value_name = "S", default_value = "40", value_parser = seconds)]
    seconds: Span,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// The loop gets 1 / `LOOP_PART` of the time.
const LOOP_PART: u64 = 4;

/// The JSON object of `bench all`.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    board: String,
    engine: &'static str,
    /// The engine's device, and why it was chosen, as text.
    #[serde(skip)]
    engine_name: String,
    grid: usize,
    threads: usize,
    storage: &'static str,
    simd: &'static str,
    seconds: f64,
    rows: Vec<Row>,
    /// Remarks on these figures.
    notes: Vec<String>,
    /// Whether every judged target is met; `None`: no target was judged.
    pass: Option<bool>,
    /// Why targets were not judged, or that the board states none.
    not_judged: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let board = arguments::board(&args.board)?.board;
    let elsewhere = not_that_robot(&board, args.simulate)?;
    let interrupt = Interrupt::watch()?;
    let bar = progress();
    let mut notes: Vec<String> = too_many_threads(board.field.threads).into_iter().collect();
    let part = Span::from_nanos(args.seconds.as_nanos() / LOOP_PART);
    let control = control(&board, part, &interrupt, &bar, &mut notes)?;
    if interrupt.asked() {
        return Err(cut_short());
    }
    let rest = args.seconds.less(if control.is_some() { part } else { Span::ZERO });
    let flag = interrupt.flag();
    let from = bar.position() as f64;
    let survey = on_a_thread(|| {
        survey(&board.field, rest, &flag, |share| bar.set_position((from + share * (1000.0 - from)) as u64))
    })?
    .map_err(field::refused)?;
    bar.finish_and_clear();
    if interrupt.asked() {
        return Err(cut_short());
    }
    let gpu = on_a_thread(|| gpu_figures(&interrupt.flag()))?;
    if interrupt.asked() {
        return Err(cut_short());
    }
    if let Ok(figures) = &gpu {
        notes.push(format!("GPU: {}, with 64 x 32^3, 100 patterns, a bank of 10,000", figures.device));
        notes.extend(figures.fault.iter().map(|fault| format!("GPU: {fault}")));
    }
    let rows = rows(&board.targets, control.as_ref(), &survey, &gpu, elsewhere.as_deref());
    let report = Report::new(&board, args.seconds, &survey, rows, notes);
    report.print();
    if args.json {
        output::json(&report)?;
    }
    judged::verdict(&report.rows)
}

/// Why this machine is not the robot of `board`, if so; an error unless `simulate` allows it.
fn not_that_robot(board: &Board, simulate: bool) -> Result<Option<String>, Failure> {
    let Err(mismatch) = machine::matches(board, Path::new("/")) else { return Ok(None) };
    let what = format!("this machine is not that robot: {mismatch}");
    if simulate {
        return Ok(Some(what));
    }
    Err(Failure::config(what)
        .at(format!("board '{}'", board.name))
        .fix("use --simulate to measure this machine with the board's settings, without judging its targets"))
}

/// Measures the board's loop; `None` if it cannot run here, with the reason in `notes`.
fn control(
    board: &Board,
    length: Span,
    interrupt: &Interrupt,
    bar: &ProgressBar,
    notes: &mut Vec<String>,
) -> Result<Option<LoopFigures>, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let board = on_a_simulated_bus(board, notes)?;
    let options = Options { seed: 1, ..Options::default() };
    let robot = match Robot::build(&board, clock.clone(), clock.now(), options) {
        Ok(robot) => robot,
        Err(BuildError::NoLog) => {
            notes.push("the control loop was not measured: the board's sensors are columns of a log".into());
            return Ok(None);
        }
        Err(error) => return Err(Failure::unavailable(error)),
    };
    let figures = bench_loop(robot, &clock, length, board.rt, &interrupt.flag(), |share| {
        bar.set_position((share * 1000.0 / LOOP_PART as f64) as u64)
    })
    .map_err(|error| Failure::unavailable(format!("cannot start a thread: {error}")))?;
    for (thread, granted) in &figures.granted {
        notes.extend(granted.refusals.iter().map(|refusal| format!("refused, {thread}: {refusal}")));
    }
    Ok(Some(figures))
}

/// Returns `board`, moved to the simulator if it has real wires: a benchmark must not move a motor.
fn on_a_simulated_bus(board: &Board, notes: &mut Vec<String>) -> Result<Board, Failure> {
    let BusPlan::Linux { .. } = board.bus else { return Ok(board.clone()) };
    let made = rehearsal(board).map_err(|why| simulate::refused(&board.name, &why))?;
    notes.push("the control loop ran on a simulated bus: nothing moved".to_string());
    for Unmodelled { sensor, kind, why } in made.without {
        notes.push(format!("the simulated bus has no {kind} for sensor '{sensor}': {why}"));
    }
    Ok(Board { safety: board.safety, rt: board.rt, ..made.board })
}

impl Report {
    fn new(board: &Board, length: Span, survey: &Survey, rows: Vec<Row>, notes: Vec<String>) -> Report {
        Report {
            schema: 1,
            board: board.name.clone(),
            engine: survey.engine,
            engine_name: survey.engine_name.clone(),
            grid: board.field.shape.grid,
            threads: survey.threads,
            storage: survey.storage,
            simd: survey.simd,
            seconds: length.as_secs_f64(),
            pass: overall(&rows),
            not_judged: not_judged(&rows),
            rows,
            notes,
        }
    }

    fn print(&self) {
        say!(
            "board '{}': field of 64 x {}^3, {}, threads: {}, {}; measured on this machine just now",
            self.board,
            self.grid,
            self.storage,
            self.threads,
            self.engine_name
        );
        judged::say_rows(&self.rows);
        self.notes.iter().for_each(|note| say!("{note}"));
        judged::say_count(&self.rows);
    }
}
