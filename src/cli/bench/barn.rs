//! `bench barn`: drivers cross the worlds of the navigation course BARN in the simulator.

use super::cut_short;
use crate::base::plan::Board;
use crate::cli::arguments;
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::origin::{self, SIMULATED, Sources};
use crate::cli::output;
use crate::field::navigate::Body;
use crate::system::codec;
use crate::workshop::ablate::interval::Interval;
use crate::workshop::barn::course::{self, Course, CourseError};
use crate::workshop::barn::drive::{Outcome, Run};
use crate::workshop::barn::rooms::rooms;
use crate::workshop::barn::score::Score;
use crate::workshop::barn::{BarnError, Conditions, Pilot, race, svg};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Arguments of `bench barn`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion bench barn                                   ten built-in worlds, every driver
  ganglion bench barn --worlds barn --driver follow-gap --json | tail -1
  ganglion bench barn --worlds barn --driver navigator,argmax,no-memory --rough
  ganglion bench barn --worlds barn --board barn-car --driver navigator,argmax
  ganglion bench barn --worlds barn --count 20 --svg run.svg
  ganglion bench barn --rooms 100 --board sim-sonar --driver navigator   a car with one sonar

A run starts in front of a field of discs and ends within 1 m of the goal behind it, at the first
contact, or after 100 s. The robot's own control period, reflexes and simulator run in virtual time;
only the driver differs. The score of a run is T* / clip(T, 2 T*, 8 T*) if it reached the goal and 0
otherwise, so at most 0.5; T* is the time for the shortest path at 2 m/s, the benchmark's speed. The
figures are means over the worlds with 95 % intervals. A folder for --worlds has worlds.csv
(world,discs,shortest_path_m) and discs.csv (world,x_m,y_m).

With --rooms, the worlds are rooms of the board's own simulator, one for each seed, each with a goal
that the robot can reach on a path of at least 1.5 m. It has to come within 0.4 m of the goal in
60 s.")]
pub struct Args {
    /// Folder with worlds.csv and discs.csv [default: ten built-in worlds]
    #[arg(long, value_name = "DIR")]
    worlds: Option<PathBuf>,
    /// Use rooms of the board's simulator instead, with seeds from 0 to N - 1; a room without a suitable goal
    /// is left out
    #[arg(long, value_name = "N", conflicts_with_all = ["worlds", "count"],
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rooms: Option<u32>,
    /// Only these drivers [default: all]
    #[arg(long = "driver", value_name = "NAME,...", value_delimiter = ',', value_parser = pilots())]
    pilots: Vec<Pilot>,
    /// Rough conditions: 10 % noise on the ranges, half a second without ranges in every three seconds, and
    /// the robot travels 5 % less far than its dead reckoning says
    #[arg(long)]
    rough: bool,
    /// Only the first N worlds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// The board: a file (a '/' in its name, or '.toml') or a built-in one
    #[arg(long, value_name = "FILE", default_value = "barn")]
    board: PathBuf,
    /// Threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Option<u8>,
    /// Draw one run to this file: the first driver's first run that did not reach the goal, or else its first
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

fn pilots() -> impl TypedValueParser<Value = Pilot> {
    PossibleValuesParser::new(Pilot::ALL.map(Pilot::name))
        .map(|name| Pilot::named(&name).unwrap_or(Pilot::FollowGap)) // only these names are accepted
}

/// A warning against comparing these figures with the benchmark's.
const NOT_GAZEBO: &str =
    "these runs are plain 2-D geometry: not comparable with the benchmark's figures from Gazebo";

/// The JSON object of `bench barn`.
#[derive(Debug, Serialize)]
struct BarnReport<'a> {
    schema: u32,
    board: &'a str,
    worlds: usize,
    rough: bool,
    note: &'static str,
    drivers: Vec<Row<'a>>,
    /// Figures that were not measured, by key.
    sources: Sources,
}

/// The figures of one driver.
#[derive(Debug, Serialize)]
struct Row<'a> {
    driver: &'static str,
    source: &'static str,
    #[serde(flatten)]
    score: Score,
    runs: &'a [Run],
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let board = arguments::board(&args.board)?.board;
    let courses = courses(args, &board)?;
    let pilots = if args.pilots.is_empty() { Pilot::ALL.to_vec() } else { args.pilots.clone() };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, usize::from);
    let conditions = if args.rough { Conditions::Rough } else { Conditions::Good };
    let interrupt = Interrupt::watch()?;
    let bar = bar((pilots.len() * courses.len()) as u64);
    let runs = race(&board, &pilots, &courses, conditions, threads, &interrupt.flag(), || bar.inc(1));
    bar.finish_and_clear();
    let runs = runs.map_err(failed)?.ok_or_else(cut_short)?;
    let full_speed = board.motion.map_or(1.0, |motion| motion.full_speed.into());
    let drivers: Vec<Row<'_>> = pilots
        .iter()
        .zip(&runs)
        .map(|(pilot, runs)| Row {
            driver: pilot.name(),
            source: pilot.source(),
            score: Score::of(runs, full_speed),
            runs,
        })
        .collect();
    say_rows(&drivers, courses.len());
    if let (Some(path), Some(first)) = (&args.svg, drivers.first()) {
        draw(path, first, &courses)?;
    }
    if !args.json {
        return Ok(());
    }
    output::json(&BarnReport {
        schema: 1,
        board: &board.name,
        worlds: courses.len(),
        rough: args.rough,
        note: NOT_GAZEBO,
        drivers,
        sources: origin::all(["drivers"], SIMULATED),
    })
}

/// The worlds to drive through.
fn courses(args: &Args, board: &Board) -> Result<Vec<Course>, Failure> {
    if let Some(count) = args.rooms {
        let unfit = || failed(BarnError::Board(board.name.clone()));
        let (body, plan) = Body::of(board).zip(board.sim.as_ref()).ok_or_else(unfit)?;
        return Ok(rooms(plan, body.keeps_clear().into(), count));
    }
    let mut courses = match &args.worlds {
        Some(folder) => course::load(folder),
        None => course::built_in(),
    }
    .map_err(|error| unreadable(&error))?;
    courses.truncate(args.count.map_or(usize::MAX, |count| count as usize));
    if courses.is_empty() {
        return Err(Failure::data("worlds.csv lists no world"));
    }
    Ok(courses)
}

fn unreadable(error: &CourseError) -> Failure {
    match error {
        CourseError::Unreadable { path, error } => Failure::file(path, error),
        CourseError::Line { .. } => Failure::data(error),
    }
}

fn failed(error: BarnError) -> Failure {
    match error {
        BarnError::Board(_) => {
            Failure::config(error).fix("use the board 'barn' or 'barn-car', or one that inherits them")
        }
        BarnError::Build(error) => Failure::unavailable(error),
    }
}

/// A progress bar with one step per run; invisible if standard error is not a terminal.
fn bar(runs: u64) -> ProgressBar {
    let bar = ProgressBar::new(runs);
    if let Ok(style) = ProgressStyle::with_template("driving {bar:40} {pos} of {len} runs, {eta} left") {
        bar.set_style(style);
    }
    bar
}

fn say_rows(rows: &[Row<'_>], worlds: usize) {
    say!("{worlds} worlds (simulated); {NOT_GAZEBO}");
    say!(
        "driver            reached  contacts  timeouts  success               time      reversals  swings  score"
    );
    for Row { driver, score, .. } in rows {
        let Score { reached, contacts, timeouts, .. } = score;
        let [success, points] = [score.success, score.score].map(interval);
        let seconds = score.seconds.map_or("-".to_string(), |seconds| format!("{:.1} s", seconds.mean));
        let [reversals, swings] = [score.reversals, score.swings]
            .map(|per_run| per_run.map_or("-".to_string(), |per_run| format!("{:.1}", per_run.mean)));
        say!(
            "{driver:<16}  {reached:>7}  {contacts:>8}  {timeouts:>8}  {success:<20}  {seconds:<8}  {reversals:>9}  \
             {swings:>6}  {points}"
        );
    }
    for Row { driver, source, .. } in rows {
        say!("  {driver}: {source}");
    }
}

fn interval(figure: Option<Interval>) -> String {
    figure.map_or("-".to_string(), |Interval { mean, low, high }| format!("{mean:.3} ({low:.3}-{high:.3})"))
}

/// Draws the first run of `row` that did not reach the goal, or else its first one.
fn draw(path: &Path, row: &Row<'_>, courses: &[Course]) -> Result<(), Failure> {
    let lost = row.runs.iter().position(|run| run.outcome != Outcome::Reached).unwrap_or(0);
    let (Some(run), Some(course)) = (row.runs.get(lost), courses.get(lost)) else { return Ok(()) };
    let how = match run.outcome {
        Outcome::Reached => "reached the goal",
        Outcome::Contact => "ended at a contact",
        Outcome::Timeout => "ran out of time",
    };
    let title = format!("world {}, {}: {how}, {:.1} s", run.world, row.driver, run.seconds);
    let svg = svg::drawing(course, run, &title);
    codec::replace(path, svg.as_bytes()).map_err(|error| Failure::file(path, &error))?;
    say!("drawn: {title} ({})", path.display());
    Ok(())
}
