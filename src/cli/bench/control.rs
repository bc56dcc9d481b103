//! `bench loop`: compares the control loop with a bare timer.

use super::{cut_short, progress, say_latencies};
use crate::base::plan::{Board, BusPlan};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::cli::arguments;
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::output;
use crate::deploy::bench::{LoopFigures, bench_loop};
use crate::deploy::board::Loaded;
use crate::drive::trace::Latency;
use crate::runtime::robot::{Options, Robot};
use crate::system::rt::Granted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `bench loop`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion bench loop                           1 kHz for 20 s: loop and bare timer, alternating
  ganglion bench loop --hz 100 --seconds 60     the rate of the shipped boards
  ganglion bench loop --json | tail -1          figures as one JSON object

The loop runs a simulated board, with its bus and field threads. Lateness is the time from a slot
to the wake-up for it; the work of a tick is the time from its start to its end, including system
calls and preemption. The percentiles include all samples after a warm-up of 1 s.")]
pub struct Args {
    /// Control periods per second
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hz: u32,
    /// Length of the measurement
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// A simulated board ([bus] kind = "sim"): a file or a built-in one
    #[arg(long, value_name = "FILE", default_value = "sim")]
    board: PathBuf,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// The JSON object of `bench loop`.
#[derive(Debug, Serialize)]
struct LoopReport {
    schema: u32,
    hz: u32,
    seconds: u32,
    board: String,
    /// Lateness of the loop's wake-ups, microseconds.
    r#loop: Option<Latency>,
    /// Lateness of a bare absolute sleep in the same run, microseconds.
    bare_timer: Option<Latency>,
    /// p99 of the loop divided by p99 of the bare timer.
    p99_ratio: Option<f64>,
    /// Time of a tick from start to end, including preemption, microseconds.
    cost_us: Option<Latency>,
    slots_skipped: u64,
    allocations_per_tick: Option<f64>,
    granted: BTreeMap<&'static str, Granted>,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let loaded = simulated(&args.board)?;
    let board = at_rate(loaded.board, args.hz);
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let options = Options { seed: 1, ..Options::default() };
    let robot = Robot::build(&board, clock.clone(), clock.now(), options).map_err(Failure::unavailable)?;
    let interrupt = Interrupt::watch()?;
    let length = Span::from_millis(u64::from(args.seconds) * 1000);
    let bar = progress();
    let figures = bench_loop(robot, &clock, length, board.rt, &interrupt.flag(), |share| {
        bar.set_position((share * 1000.0) as u64)
    })
    .map_err(|error| Failure::unavailable(format!("cannot start a thread: {error}")))?;
    bar.finish_and_clear();
    if interrupt.asked() {
        return Err(cut_short());
    }
    let report = LoopReport::new(args, &board, &figures);
    report.print();
    if args.json {
        output::json(&report)?;
    }
    Ok(())
}

/// The simulated board at `path`.
pub(super) fn simulated(path: &Path) -> Result<Loaded, Failure> {
    let loaded = arguments::board(path)?;
    match loaded.board.bus {
        BusPlan::Sim => Ok(loaded),
        _ => Err(Failure::usage(format!(
            "board '{}' is not simulated, and this measures a simulated one",
            loaded.board.name
        ))
        .fix(format!("'ganglion bench all --board {} --simulate' measures its settings", path.display()))),
    }
}

/// `board` with another control rate; the field keeps its own rate as closely as whole ticks allow.
pub(super) fn at_rate(mut board: Board, hz: u32) -> Board {
    board.period = Span::from_nanos(1_000_000_000 / u64::from(hz));
    let ticks = board.field.dt.as_nanos() / board.period.as_nanos();
    board.field.every_ticks = u32::try_from(ticks).unwrap_or(u32::MAX).max(1);
    board
}

impl LoopReport {
    fn new(args: &Args, board: &Board, figures: &LoopFigures) -> LoopReport {
        let r#loop = Latency::of(&figures.recorder.release_late);
        let bare_timer = Latency::of(&figures.measured.bare);
        LoopReport {
            schema: 1,
            hz: args.hz,
            seconds: args.seconds,
            board: board.name.clone(),
            p99_ratio: r#loop.zip(bare_timer).map(|(ours, bare)| ours.p99 / bare.p99),
            r#loop,
            bare_timer,
            cost_us: Latency::of(&figures.recorder.exec),
            slots_skipped: figures.measured.slots_skipped,
            allocations_per_tick: figures.recorder.summary().allocations_per_slot(),
            granted: figures.granted.iter().cloned().collect(),
        }
    }

    fn print(&self) {
        say!(
            "loop at {} Hz on board '{}', measured on this machine just now, microseconds",
            self.hz,
            self.board
        );
        say_latencies(&[
            ("wake-up, loop", self.r#loop),
            ("wake-up, bare timer", self.bare_timer),
            ("work of a tick", self.cost_us),
        ]);
        if let Some(ratio) = self.p99_ratio {
            say!("p99 of the loop's wake-ups is {ratio:.2} times the bare timer's");
        }
        say!("{} slots skipped", self.slots_skipped);
        match self.allocations_per_tick {
            Some(n) => say!("{n} heap allocations per tick"),
            None => say!("heap allocations are not counted in this build"),
        }
        for (thread, granted) in &self.granted {
            for refusal in &granted.refusals {
                say!("refused, {thread}: {refusal}");
            }
        }
    }
}
