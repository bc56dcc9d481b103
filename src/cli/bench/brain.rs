//! `bench brain`: how many robots a brain serves in time on this machine, compared with a single robot.

use super::{cut_short, on_a_thread, say_latencies, too_many_threads};
use crate::base::plan::EngineKind;
use crate::base::time::Span;
use crate::cli::arguments::{self, EngineChoice};
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::output;
use crate::deploy::bench::{BrainBench, BrainFigures, Served};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `bench brain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion bench brain                         40 robots at 50 Hz, 10 s; every 4th second one robot
  ganglion bench brain --robots 100 --for 60s  more robots, for longer
  ganglion bench brain --grid 32 --hz 20 --json | tail -1

A thread of this program sends each robot's requests at that robot's own phase, and collects the
answers where the brain would send them: there is no network, and no datagram is encrypted. A
request is in time if its answer arrives within one period after the request was due, even if the
request was sent late.")]
pub struct Args {
    /// Number of robots
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=1000))]
    robots: u16,
    /// Cycles per second of each robot
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    hz: u32,
    /// Cells of the field along each axis: 8, 16, 32 or 64
    #[arg(long, value_name = "N", default_value = "16", value_parser = ["8", "16", "32", "64"])]
    grid: String,
    /// Length of the measurement: 10s, 2min
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = arguments::span)]
    length: Span,
    /// Threads that compute [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// The engine of every robot
    #[arg(long, value_enum, default_value_t = EngineChoice::Cpu)]
    engine: EngineChoice,
    /// Board file or built-in board of every robot
    #[arg(long, value_name = "FILE", default_value = "sim")]
    board: PathBuf,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    robots: u16,
    hz: u32,
    grid: usize,
    threads: usize,
    seconds: f64,
    board: String,
    #[serde(flatten)]
    figures: BrainFigures,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut board = arguments::board(&args.board)?.board;
    board.field.shape.grid = args.grid.parse().map_err(Failure::usage)?;
    board.field.dt = Span::from_nanos(1_000_000_000 / u64::from(args.hz));
    let engine = args.engine.kind();
    let threads = threads(args.threads, engine);
    let interrupt = Interrupt::watch()?;
    let (name, grid, flag) = (board.name.clone(), board.field.shape.grid, interrupt.flag());
    let bench = BrainBench { board, robots: args.robots.into(), hz: args.hz, threads, engine };
    let figures = on_a_thread(|| bench.run(args.length, &flag))?.map_err(Failure::unavailable)?;
    if interrupt.asked() {
        return Err(cut_short());
    }
    let Args { robots, hz, .. } = *args;
    let seconds = args.length.as_secs_f64();
    let report = Report { schema: 1, robots, hz, grid, threads, seconds, board: name, figures };
    report.print();
    if args.json {
        output::json(&report)?;
    }
    Ok(())
}

/// Number of computing threads: as requested, or one per core. Threads that wait for a GPU need no core.
fn threads(asked: Option<u16>, engine: EngineKind) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = asked.map_or(cores, usize::from);
    let warning = too_many_threads(threads).filter(|_| engine != EngineKind::Cuda);
    warning.into_iter().for_each(|note| log::warn!("{note}"));
    threads
}

impl Report {
    fn print(&self) {
        let Report { robots, hz, grid, threads, figures, .. } = self;
        say!("{robots} robots at {hz} Hz, 64 x {grid}^3 each, {threads} threads, {}", figures.engine);
        say!("measured on this machine just now, alternating with one robot alone; without a network");
        let line = |name: &str, served: &Served| {
            let Served { asked, in_time, missed, late, failed, unanswered, .. } = served;
            say!(
                "{name:<12}{in_time} of {asked} in time; {missed} after the deadline, {late} too late to compute, \
                 {failed} failed or refused, {unanswered} not answered"
            );
        };
        line("together", &figures.together);
        line("one alone", &figures.alone);
        let rows = |served: &Served| [served.waited_us, served.computed_us, served.answered_us];
        let names = ["waited, us", "computed, us", "answered, us"];
        let alone = ["waited alone, us", "computed alone, us", "answered alone, us"];
        let all =
            names.into_iter().zip(rows(&figures.together)).chain(alone.into_iter().zip(rows(&figures.alone)));
        say_latencies(&all.collect::<Vec<_>>());
        say!(
            "cores in use: {:.2}; with the measured cycle time (p99 {:.0} us) a brain admits {} such robots",
            figures.cores,
            figures.cycle_us,
            figures.admitted
        );
    }
}
