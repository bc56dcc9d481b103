//! `bench record`: what a recorder costs the loop, compared with the same loop without one.

use super::control::{at_rate, simulated};
use super::{cut_short, judged, progress};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::output;
use crate::cli::recording::{self, About, RecordArgs, RecordWhen};
use crate::deploy::bench::verdict::{Row, overall};
use crate::deploy::bench::{RecordFigures, bench_record};
use crate::runtime::robot::{Options, Robot};
use crate::system::rt::Granted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Seed of the simulated world.
const SEED: u64 = 1;

/// Arguments of `bench record`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion bench record                               100 Hz, 60 s, with and without a recorder
  ganglion bench record --into /var/lib/ganglion      on the disk that keeps a robot's recordings
  ganglion bench record --json | tail -1              figures as one JSON object

The loop runs a simulated board, with its bus and field threads. The work of a tick is the time from its start to its end,
including what it puts into the recorder's queues and the checkpoints that it takes. The recorder's share of a core is the
processor time of the writing thread, and of the non-real-time thread while it passes slots on. The recording has all
channels except /status.

Exit codes: 0 all targets are met; 75 one is missed.")]
pub struct Args {
    /// Control periods per second
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hz: u32,
    /// Length of the measurement
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// A simulated board ([bus] kind = "sim"): a file or a built-in one
    #[arg(long, value_name = "FILE", default_value = "sim")]
    board: PathBuf,
    /// Folder for the recording, which is deleted at the end [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// The JSON object of `bench record`.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    hz: u32,
    seconds: u32,
    board: String,
    /// Slots in blocks with a recorder.
    slots_recorded: u64,
    rows: Vec<Row>,
    /// Whether all judged targets are met.
    pass: Option<bool>,
    granted: BTreeMap<&'static str, Granted>,
}

/// A file that is deleted no matter how the measurement ends.
struct Temporary(PathBuf);

impl Temporary {
    fn new(folder: Option<&Path>) -> Temporary {
        let folder = folder.map_or_else(std::env::temp_dir, Path::to_path_buf);
        Temporary(folder.join(format!("ganglion-bench-{}.mcap", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0); // the file may not have been created
    }
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut loaded = simulated(&args.board)?;
    loaded.board = at_rate(loaded.board, args.hz);
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let options = Options { seed: SEED, ..Options::default() };
    let robot =
        Robot::build(&loaded.board, clock.clone(), clock.now(), options).map_err(Failure::unavailable)?;
    let file = Temporary::new(args.into.as_deref());
    let record =
        RecordArgs { record: Some(file.0.clone()), record_when: RecordWhen::Always, record_limit: 1024 };
    let about = About {
        seed: SEED,
        faults: String::new(),
        simulated: false,
        world: None,
        quality: None,
        engine: loaded.board.field.engine,
        readout: None,
        resumed: false,
        is_virtual: false,
    };
    let Some(recording) = recording::start(&record, &loaded, &about)? else {
        return Err(Failure::bug("a recording that was requested did not start"));
    };
    let interrupt = Interrupt::watch()?;
    let (length, bar) = (Span::from_millis(u64::from(args.seconds) * 1000), progress());
    let show = |share: f64| bar.set_position((share * 1000.0) as u64);
    let figures = bench_record(robot, recording, &clock, length, loaded.board.rt, &interrupt.flag(), show)
        .map_err(|error| Failure::unavailable(format!("cannot start a thread: {error}")))?;
    bar.finish_and_clear();
    if interrupt.asked() {
        return Err(cut_short());
    }
    let report = Report::new(args, loaded.board.name, figures);
    report.print();
    if args.json {
        output::json(&report)?;
    }
    report.verdict()
}

impl Report {
    fn new(args: &Args, board: String, figures: RecordFigures) -> Report {
        let rows = figures.rows(args.hz);
        Report {
            schema: 1,
            hz: args.hz,
            seconds: args.seconds,
            board,
            slots_recorded: figures.passed.0,
            pass: overall(&rows),
            rows,
            granted: figures.granted.into_iter().collect(),
        }
    }

    fn print(&self) {
        say!(
            "recorder at {} Hz on board '{}', {} slots with it, measured on this machine just now",
            self.hz,
            self.board,
            self.slots_recorded
        );
        judged::say_rows(&self.rows);
        judged::say_count(&self.rows);
        for (thread, granted) in &self.granted {
            for refusal in &granted.refusals {
                say!("refused, {thread}: {refusal}");
            }
        }
    }

    /// The exit code: 75 if a target is missed.
    fn verdict(&self) -> Result<(), Failure> {
        let missed: Vec<&str> =
            self.rows.iter().filter(|row| row.pass == Some(false)).map(|row| &*row.name).collect();
        if missed.is_empty() {
            return Ok(());
        }
        Err(Failure::missed(format!("targets missed: {}", missed.join("; ")))
            .fix("measure again while nothing else runs"))
    }
}
