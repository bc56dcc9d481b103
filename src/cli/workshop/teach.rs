//! `teach`: lets a robot drive in the simulator with faulty sensors, fits the read-out of its field to the
//! corrections that the board's starting table needed, and saves it with the verdict of its trial.

use super::learn::{of_saving, refuse_what_cannot_be_written};
use crate::base::plan::{Board, BusPlan, QualityLevel};
use crate::cli::arguments;
use crate::cli::error_text;
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::origin::{self, SIMULATED, Sources};
use crate::field::readout::Trial;
use crate::runtime::session::SessionError;
use crate::workshop::teach::trial::{Rooms, TrialDrive};
use crate::workshop::teach::{Progress, Syllabus, Taught, teach};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Arguments of `teach`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion teach --board sim -o sim.readout
  ganglion teach --board boards/mine.toml -o mine.readout --json | tail -1
  ganglion run --board boards/mine.toml --readout mine.readout

The robot drives through simulated rooms with noise and lost samples on its sensors, on the field's
full grid and on the half-resolution grid of the lowest quality level. A fit makes the field correct
the starting table, so that the result matches the table's output for the true sensor values. The
trial lasts ten minutes a room and uses several field seeds, each taught separately and tried in
rooms of its own. The robot passes if it neither falls nor touches anything more often than with the
table alone in the same rooms. It must visit 0.9 times as many cells, or 1.1 times as many if it
falls and touches things just as often. The same board gives the same file with any number of
threads. 'ganglion run' refuses a read-out that did not pass, except with --untried.")]
pub struct Args {
    /// A simulated board: a file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE")]
    board: PathBuf,
    /// File to write the read-out to
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Option<u8>,
    /// Maximum rounds for each grid
    #[arg(long, value_name = "N", default_value_t = Syllabus::default().rounds as u8, value_parser = clap::value_parser!(u8).range(1..=50))]
    rounds: u8,
    /// Number of field seeds in the trial: the board's own, whose read-out is saved, and the following ones
    #[arg(long, value_name = "N", default_value_t = Syllabus::default().fields as u8, value_parser = clap::value_parser!(u8).range(1..=64))]
    fields: u8,
    /// Number of trial rooms for each field seed, which has rooms of its own
    #[arg(long, value_name = "N", default_value_t = Syllabus::default().verdict.count as u16, value_parser = clap::value_parser!(u16).range(3..=1_000))]
    rooms: u16,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let board = simulated(&args.board)?;
    refuse_what_cannot_be_written(&args.output)?;
    let interrupt = Interrupt::watch()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, usize::from);
    let usual = Syllabus::default();
    let verdict = Rooms { count: args.rooms.into(), ..usual.verdict };
    let (rounds, fields) = (args.rounds.into(), args.fields.into());
    let syllabus = Syllabus { threads, rounds, verdict, fields, ..usual };
    let (began, bar, mut drives) = (Instant::now(), bar(), Vec::new());
    let taught = teach(&board, syllabus, &interrupt.flag(), |progress| show(&bar, progress, &mut drives));
    bar.finish_and_clear();
    let taught = taught.map_err(|error| error_text::of_session(SessionError::Build(error), None))?;
    let Some(taught) = taught else {
        return Err(Failure::unavailable("interrupted: nothing was saved"));
    };
    taught.readout.save(&args.output).map_err(|error| of_saving(&args.output, error))?;
    let report = Report::new(&args, &board.name, &taught, drives, began.elapsed());
    report.print();
    if args.json { crate::cli::output::json(&report) } else { Ok(()) }
}

/// The board, which must be simulated and have a starting table.
pub(super) fn simulated(path: &Path) -> Result<Board, Failure> {
    let board = arguments::board(path)?.board;
    if !matches!(board.bus, BusPlan::Sim) || board.field.start.is_empty() {
        return Err(Failure::config("teaching needs a simulated board with a starting table")
            .at(path.display())
            .fix("write a board that inherits this one, with [bus] kind = \"sim\" and [[start]] curves"));
    }
    super::fits(&board.field)?;
    Ok(board)
}

/// Draws on standard error, and only on a terminal.
pub(super) fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message("first round");
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Shows a finished round on the bar, and prints a line for a finished part of the verdict, whose drives it
/// adds to `drives`.
fn show(bar: &ProgressBar, progress: Progress<'_>, drives: &mut Vec<DriveReport>) {
    match progress {
        Progress::Round { field_seed, quality, round, of, trial } => {
            let (level, contacts, rooms) = (quality.index(), trial.contacts, trial.rooms);
            bar.set_message(format!(
                "field seed {field_seed}, level {level}: after round {round} of at most {of}: contacts {contacts} in \
                 {rooms} rooms"
            ));
        }
        Progress::Verdict { field_seed, quality, drives: new } => {
            let first = drives.len();
            drives.extend(new.iter().map(|drive| DriveReport::of(field_seed, quality, drive)));
            let line = verdict_line(field_seed, quality, &drives[first..]);
            bar.suspend(|| say!("{line}"));
            bar.set_message(format!("field seed {field_seed}: trial"));
        }
    }
}

/// One driver in one field's rooms, in one line.
fn verdict_line(field_seed: u64, quality: Option<QualityLevel>, drives: &[DriveReport]) -> String {
    let driver =
        quality.map_or("the table alone".to_string(), |quality| format!("level {}", quality.index()));
    let (contacts, falls, cells) = drives.iter().fold((0, 0, 0), |(contacts, falls, cells), drive| {
        (contacts + drive.contacts, falls + drive.falls, cells + drive.cells)
    });
    let cells = cells as f64 / drives.len().max(1) as f64;
    let touched: Vec<String> = drives
        .iter()
        .filter(|drive| drive.contacts > 0)
        .map(|DriveReport { room, contacts, .. }| format!("{contacts} in room {room}"))
        .collect();
    let touched = if touched.is_empty() { String::new() } else { format!(" ({})", touched.join(", ")) };
    format!(
        "field seed {field_seed}, {driver}: cells {cells:.1}, falls {falls}, contacts {contacts}{touched}"
    )
}

/// One drive of the verdict.
#[derive(Debug, Serialize)]
struct DriveReport {
    field_seed: u64,
    /// The level of a corrected drive; absent: the table alone drove.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<usize>,
    /// Seed of the room, as for `run --seed`.
    room: u64,
    /// `none`, `noise` or `outages`.
    trouble: &'static str,
    contacts: u64,
    falls: u64,
    cells: u64,
    backward_share: f64,
    still_share: f64,
}

impl DriveReport {
    fn of(field_seed: u64, quality: Option<QualityLevel>, drive: &TrialDrive) -> DriveReport {
        let TrialDrive { room, trouble, report } = drive;
        DriveReport {
            field_seed,
            level: quality.map(QualityLevel::index),
            room: *room,
            trouble: trouble.name(),
            contacts: report.contacts.all(),
            falls: report.contacts.falls,
            cells: report.coverage.cells,
            backward_share: report.coverage.backward_share,
            still_share: report.coverage.standing_share,
        }
    }
}

/// The object of `--json`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    board: &'a str,
    readout: PathBuf,
    passed: bool,
    /// The trials at the best and at the lowest quality level.
    trials: [Trial; 2],
    /// The starting table alone in the same rooms.
    table: Trial,
    /// Every drive of these trials, in the order driven.
    drives: Vec<DriveReport>,
    seconds: f64,
    /// Figures that were not measured, by key.
    sources: Sources,
}

impl Report<'_> {
    fn new<'a>(
        args: &Args,
        board: &'a str,
        taught: &Taught,
        drives: Vec<DriveReport>,
        took: Duration,
    ) -> Report<'a> {
        Report {
            schema: 1,
            board,
            readout: args.output.clone(),
            passed: !taught.readout.has_failed(),
            trials: taught.trials,
            table: taught.standard,
            drives,
            seconds: took.as_secs_f64(),
            sources: origin::all(["trials", "table", "drives"], SIMULATED),
        }
    }

    fn print(&self) {
        let seconds = self.seconds;
        let verdict = if self.passed { "passed its trial" } else { "did not pass its trial" };
        say!(
            "The read-out for board '{}' {verdict} ({seconds:.1} s): {}",
            self.board,
            self.readout.display()
        );
        say!(
            "{:<24}{:>9}{:>7}{:>8}{:>11}{:>9}",
            "new rooms (simulated)",
            "contacts",
            "falls",
            "cells",
            "backwards",
            "standing"
        );
        for (name, trial) in
            [("level 0", &self.trials[0]), ("level 5", &self.trials[1]), ("the table alone", &self.table)]
        {
            say!(
                "{name:<24}{:>9}{:>7}{:>8.1}{:>10.1}%{:>8.1}%",
                trial.contacts,
                trial.falls,
                trial.cells,
                100.0 * trial.backward_share,
                100.0 * trial.still_share
            );
        }
    }
}
