//! `log info`: a summary of a recorded run that fits on one screen.

use super::source::{self, Run};
use crate::base::command::MAX_MOTORS;
use crate::base::plan::{Board, Cause, QUALITY_LEVELS};
use crate::base::time::{Instant, Span};
use crate::cli::exit::Failure;
use crate::cli::{output, simulate};
use crate::decision::mode::Mode;
use crate::decision::motion::{MotionModel, Odometer};
use crate::deploy::board;
use crate::drive::record::{CHECKPOINTS_LEFT_OUT, End, Slot, causes};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Arguments of `log info`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion log info drive.mcap
  ganglion log info /var/lib/ganglion/recordings --json")]
pub struct Args {
    /// The recording, or a folder, for its newest run
    #[arg(value_name = "FILE|DIR")]
    recording: PathBuf,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// Most stops that are listed: what fits on a screen.
const TOLD: usize = 8;

/// The JSON output.
#[derive(Debug, Default, Serialize)]
struct Report {
    schema: u32,
    board: String,
    version: String,
    seconds: f64,
    slots: u64,
    /// Slots that were due but did not run.
    slots_lost: u64,
    /// Slots that ran but are missing from the recording.
    slots_missing: u64,
    /// Readings that are missing from the recording.
    readings_missing: u64,
    /// Checkpoints that were due but not recorded.
    checkpoints_left_out: u64,
    /// Metres driven, computed from the commands; absent if the board does not define its motion.
    metres: Option<f64>,
    armings: u64,
    armed_s: f64,
    stops: Vec<Stop>,
    trips: BTreeMap<&'static str, u64>,
    /// Seconds at each quality level.
    levels_s: [f64; QUALITY_LEVELS],
    release_late_max_us: f64,
    /// Whether the file is complete.
    whole: bool,
    files: usize,
}

/// Why and when an armed robot stopped.
#[derive(Debug, Serialize)]
struct Stop {
    at_s: f64,
    why: String,
}

/// What was read of the run so far.
#[derive(Default)]
struct Tally {
    report: Report,
    first: Option<Instant>,
    last: Option<Slot>,
    odometer: Option<Odometer>,
    period: Span,
}

impl Tally {
    fn take(&mut self, slot: &Slot) {
        let report = &mut self.report;
        let first = *self.first.get_or_insert(slot.slot);
        report.seconds = slot.slot.since(first).as_secs_f64();
        report.slots += 1;
        report.slots_lost += slot.lost;
        report.readings_missing += u64::from(slot.untold);
        let late = slot.began.since(slot.slot).as_nanos() as f64 / 1e3;
        report.release_late_max_us = report.release_late_max_us.max(late);
        report.levels_s[slot.quality.index()] += self.period.as_secs_f64();
        for cause in causes(slot.tripped) {
            *report.trips.entry(cause).or_default() += 1;
        }
        let armed = slot.mode.obeys_since().is_some();
        report.armed_s += if armed { self.period.as_secs_f64() } else { 0.0 };
        if let Some(before) = &self.last {
            let next = before.index.saturating_add(1).saturating_add(slot.lost);
            report.slots_missing += slot.index.saturating_sub(next);
            let was_armed = before.mode.obeys_since().is_some();
            report.armings += u64::from(armed && !was_armed);
            let stopped = was_armed && !armed;
            let held = armed && !slot.limits.allow_motion() && before.limits.allow_motion();
            if stopped || held {
                report.stops.push(Stop { at_s: report.seconds, why: why(slot, stopped) });
            }
        }
        self.advance(slot);
        self.last = Some(slot.clone());
    }
}

impl Tally {
    /// Advances by the previous command, which was in effect until `slot`.
    fn advance(&mut self, slot: &Slot) {
        let Some(odometer) = &mut self.odometer else { return };
        let before = self.last.as_ref().and_then(Slot::command);
        let motors = before.map_or([0.0; MAX_MOTORS], |command| command.motors);
        *self.report.metres.get_or_insert(0.0) += odometer.advance(slot.slot, &motors).abs();
    }
}

/// Why the robot stops in this slot, either until it is armed again or until a cause clears.
fn why(slot: &Slot, for_good: bool) -> String {
    let named = |set: u16| causes(set).join(", ");
    match slot.mode {
        Mode::Latched { cause } => format!("{}, latched until disarmed", cause.name()),
        Mode::Stopped => "the run was ended".to_string(),
        Mode::Disarmed if slot.asked.disarm => "it was disarmed on request".to_string(),
        Mode::Disarmed if slot.signals.slept.is_some() => "the machine slept".to_string(),
        Mode::Disarmed => format!("it was held too long by {}", named(slot.active)),
        _ if for_good => "its mode changed".to_string(),
        _ => match Cause::worst_of(slot.active) {
            Some(worst) => format!("{}, until {}", named(slot.active), worst.cleared_by()),
            None => "no cause is recorded".to_string(),
        },
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut tally = Tally::default();
    let mut board: Option<Board> = None;
    let run = source::read(&args.recording, |run, step| {
        if board.is_none() {
            board = board_of(run);
            tally.period = board.as_ref().map_or(Span::ZERO, |board| board.period);
            tally.odometer = board.as_ref().and_then(MotionModel::of).map(Odometer::new);
        }
        tally.take(&step.slot);
        Ok(())
    })?;
    let mut report = tally.report;
    (report.schema, report.board, report.version) = (1, run.word("board"), run.word("version"));
    let left_out = run.ended.get(CHECKPOINTS_LEFT_OUT).and_then(|count| count.parse().ok());
    report.checkpoints_left_out = left_out.unwrap_or(0);
    (report.whole, report.files) = (run.end == End::Whole, run.files);
    report.print(&run, tally.last.as_ref());
    if args.json {
        output::json(&report)?;
    }
    Ok(())
}

/// The board in the recording, if this program accepts it; the figures need only its period.
fn board_of(run: &Run) -> Option<Board> {
    let mut loaded = board::from_text("recorded", &run.board).ok()?;
    if run.word("simulated") == "true" {
        simulate::simulate(&mut loaded).ok()?;
    }
    Some(loaded.board)
}

impl Report {
    fn print(&self, run: &Run, last: Option<&Slot>) {
        let (board, version, clock) = (&self.board, &self.version, run.word("clock"));
        say!("A run of board '{board}' by ganglion {version}, on a {clock} clock, in {} files.", self.files);
        let Report { seconds, slots, armings, armed_s, .. } = self;
        say!(
            "Duration {seconds:.1} s, {slots} slots. The robot was armed {armings} times, for {armed_s:.1} s in total."
        );
        if let Some(metres) = self.metres {
            say!("Distance according to its commands: {metres:.1} m.");
        }
        let late = self.release_late_max_us;
        say!("{} due slots did not run; the latest start was {late:.0} us late.", self.slots_lost);
        for stop in self.stops.iter().take(TOLD) {
            say!("After {:.2} s it stopped: {}.", stop.at_s, stop.why);
        }
        if self.stops.len() > TOLD {
            say!("It stopped {} more times; --json lists all.", self.stops.len() - TOLD);
        }
        let trips: Vec<String> = self.trips.iter().map(|(name, times)| format!("{name} {times}")).collect();
        say!("Reflexes: {}.", if trips.is_empty() { "none tripped".to_string() } else { trips.join(", ") });
        let level =
            |(level, seconds): (usize, &f64)| (*seconds > 0.0).then(|| format!("{level}: {seconds:.1} s"));
        let levels: Vec<String> = self.levels_s.iter().enumerate().filter_map(level).collect();
        say!("Time at each quality level: {}.", levels.join(", "));
        if let Some(last) = last {
            say!("At the end the robot was {}.", last.mode.name());
        }
        match (self.slots_missing, self.readings_missing) {
            (0, 0) => say!("Nothing is missing from the recording."),
            (slots, readings) => {
                say!("Missing from the recording: {slots} slots that ran, {readings} readings.")
            }
        }
        if self.checkpoints_left_out > 0 {
            say!(
                "{} checkpoints were left out: replay after a loss starts at a later one.",
                self.checkpoints_left_out
            );
        }
        match self.whole {
            true => say!("The file is complete."),
            false => say!("The file was truncated: this is everything up to its last chunk."),
        }
    }
}
