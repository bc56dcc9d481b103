//! `bench tether`: the round trip to a brain, compared with a bare UDP echo.

use super::{cut_short, field, on_a_thread, say_latencies};
use crate::base::plan::{RtPlan, Shape};
use crate::base::time::Span;
use crate::cli::arguments;
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::output;
use crate::cli::tether::random_key;
use crate::deploy::bench::{BenchFault, TetherBench, TetherFigures};
use crate::system::rt::stay_on;
use serde::Serialize;
use std::path::PathBuf;

/// The p99 of the round trip may be at most this many times the echo's, plus [`MORE_US`].
const TIMES: f64 = 2.0;
/// Microseconds that the link may take beyond that.
const MORE_US: f64 = 150.0;
/// The link's share of a core may be at most this many times the echo's.
const SHARES: f64 = 3.0;

/// Arguments of `bench tether`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion bench tether                            20 s at 100 Hz: half link, half echo, in turns
  ganglion bench tether --hz 50 --for 2min
  ganglion bench tether --json | tail -1           figures as one JSON object

The link is all that a robot on a tether uses: its engine, the local socket, the tether, UDP over loopback, and a brain
with one robot of 64 x 8^3 cells. The brain's compute time is left out of the round trip and of the share of a core. For
the echo, the same thread exchanges datagrams of the same length with a thread on the tether's core, at its priority.

Exit codes: 0 the target is met; 75 it is missed, or no answer arrived.")]
pub struct Args {
    /// Cycles per second
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500))]
    hz: u32,
    /// Length of the measurement: 10s, 2min
    #[arg(long = "for", value_name = "TIME", default_value = "20s", value_parser = arguments::span)]
    length: Span,
    /// Board of the robot; it must have a tether, and its real-time settings are used
    #[arg(long, value_name = "FILE", default_value = "picarx-v4-tethered")]
    board: PathBuf,
    /// Core for the requesting thread, the tether and the echo [default: the board's rt.cpu]
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    hz: u32,
    seconds: f64,
    board: String,
    #[serde(flatten)]
    figures: TetherFigures,
    /// Target: the largest allowed p99 of the link, microseconds.
    most_p99_us: Option<f64>,
    /// Whether both targets are met.
    passes: Option<bool>,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut board = arguments::board(&args.board)?.board;
    args.core.map_or(Ok(()), demand_core)?;
    board.field.shape = Shape { grid: 8, ..board.field.shape };
    board.rt = RtPlan { cpu: args.core.or(board.rt.cpu), ..board.rt };
    let interrupt = Interrupt::watch()?;
    let (name, flag) = (board.name.clone(), interrupt.flag());
    let bench = TetherBench { board, hz: args.hz, key: random_key()? };
    let figures = on_a_thread(|| bench.run(args.length, &flag))?.map_err(Failure::unavailable)?;
    if interrupt.asked() {
        return Err(cut_short());
    }
    let seconds = args.length.as_secs_f64();
    let (link, echo) = (&figures.link, &figures.echo);
    let most_p99_us = echo.round_trip_us.map(|echo| TIMES * echo.p99 + MORE_US);
    let passes = link.round_trip_us.zip(most_p99_us).map(|(link, most)| link.p99 <= most);
    let passes = passes.map(|passes| passes && link.share <= SHARES * echo.share);
    let report = Report { schema: 1, hz: args.hz, seconds, board: name, figures, most_p99_us, passes };
    report.print();
    if args.json {
        output::json(&report)?;
    }
    verdict(report.passes)
}

/// Fails if this program may not run on `core`: the figures of any other core would look like its own.
fn demand_core(core: usize) -> Result<(), Failure> {
    on_a_thread(|| stay_on(core))?.map_err(|_| field::refused(BenchFault::Core { cpu: core }))
}

impl Report {
    fn print(&self) {
        let TetherFigures { link, echo, granted } = &self.figures;
        say!("a brain over loopback at {} Hz beside a UDP echo, measured on this machine just now", self.hz);
        say_latencies(&[
            ("link, round trip, us", link.round_trip_us),
            ("echo, round trip, us", echo.round_trip_us),
        ]);
        say!("without an answer: link {}, echo {}", link.lost, echo.lost);
        let times = link.share / echo.share.max(f64::MIN_POSITIVE);
        say!(
            "share of a core: link {:.2} %, echo {:.2} %, {times:.1} times",
            link.share * 1e2,
            echo.share * 1e2
        );
        for (name, granted) in granted {
            let core = granted.cpu.map_or("any core".to_string(), |core| format!("core {core}"));
            say!("{name:<8} SCHED_FIFO {}, {core}", granted.priority);
        }
        if let (Some(most), Some(passes)) = (self.most_p99_us, self.passes) {
            let verdict = if passes { "met" } else { "not met" };
            say!("target: p99 at most 2 x echo + 150 us = {most:.0} us, share at most 3 x echo: {verdict}");
        }
    }
}

/// The exit code: 75 unless both targets are met.
fn verdict(passes: Option<bool>) -> Result<(), Failure> {
    match passes {
        Some(true) => Ok(()),
        Some(false) => {
            Err(Failure::missed("the target was missed").fix("measure again while nothing else runs"))
        }
        None => Err(Failure::missed("no answer arrived, so nothing was measured")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    #[test]
    fn a_missed_target_is_75_and_an_unknown_core_69() {
        let exit = |passes| verdict(passes).err().map(|failure| failure.exit());
        assert_eq!([Some(true), Some(false), None].map(exit), [None, Some(Exit::Missed), Some(Exit::Missed)]);
        for core in [1_023, usize::MAX] {
            let refused = demand_core(core).unwrap_err(); // no test machine has so many
            assert_eq!(refused.exit(), Exit::Unavailable, "{refused}");
        }
    }
}
